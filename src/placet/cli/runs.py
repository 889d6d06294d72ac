"""The commands that need no agent to look at runs and to end one: runs and cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from placet.cli.listing import limit_option, more_line
from placet.cli.output import Given, shared
from placet.cli.status import Standing, standing_of, unsettled_lines, ways_of
from placet.cli.store import office
from placet.core.commands import Names
from placet.core.display import visible
from placet.core.state import RunOver
from placet.results import runs_of
from placet.runtime.authority import refuse_under_mark
from placet.runtime.state_files import instant
from placet.settings import current_account
from placet.stores.store import RunRow, Store


@click.command("runs", short_help="List the runs, the newest first.")
@click.option("--session", help="Only runs of this session.")
@click.option("--active", is_flag=True, help="Only runs that are not over.")
@limit_option
@shared
@click.pass_obj
def runs_command(given: Given, session: str | None, active: bool, limit: int) -> None:
    """List the runs, the newest first."""
    with office(given.settings()) as people:
        engine = people.engine
        rows = runs_of(engine, session=session, active=active, limit=limit)
        found = [(row, standing_in(engine.store, row)) for row in rows]
    lines = [*(_line(row, standing) for row, standing in found), *more_line(rows)]
    documents = [run_document(row, standing) for row, standing in found]
    document = {"runs": documents, "more": rows.more}
    given.show(document, "\n".join(lines) or "There are no runs.")


def standing_in(store: Store, row: RunRow) -> Standing:
    """Say where a run stands, from the store."""
    state = store.session(row.tenant, row.session, Names(runs=(row.run.id,)))
    assert state is not None, "a run is in a session"
    return standing_of(state, state.runs[row.run.id])


def _line(row: RunRow, standing: Standing) -> str:
    run = row.run
    told = standing.detail if standing.word == "over" else f"{standing.word}: {standing.detail}"
    place = ", ".join((f"session {visible(row.session)}", f"step {run.step}", *ways_of(run)))
    lines = [f"{visible(run.id)}  {told}  {visible(run.agent)}  {place}"]
    return "\n".join([*lines, *unsettled_lines(standing)]) if standing.word == "over" else lines[0]


def run_document(row: RunRow, standing: Standing) -> dict[str, Any]:
    """Give a run as JSON."""
    run = row.run
    return {
        "run_id": run.id,
        "session": row.session,
        "agent": run.agent,
        "requester": run.requester,
        "kind": run.kind,
        "status": standing.word,
        "stop": run.state.stop if isinstance(run.state, RunOver) else None,
        "step": run.step,
        "max_steps": run.max_steps,
        "mode": run.mode,
        "plan": {"items": run.plan.items, "done": run.plan.done} if run.plan else None,
        "parent_run_id": run.parent.run if run.parent else None,
        "started_at": instant(run.started_at),
        "wake_at": instant(row.wake_at) if row.wake_at else None,
        "detail": standing.detail,
        "waiting": list(standing.waiting),
        "unsettled": list(standing.unsettled),
    }


@click.command("cancel", short_help="End a run.")
@click.argument("run")
@click.option("--cause", default="", help="Why; the record and the model say it.")
@click.option("--session", help="Refuse a run of any other session.")
@shared
@click.pass_obj
def cancel_command(given: Given, run: str, cause: str, session: str | None) -> None:
    """End a run: its requests close, and what has begun is carried to its outcome."""
    refuse_under_mark()
    with office(given.settings()) as people:
        row = asyncio.run(people.cancel(run, by=current_account(), cause=cause, session=session))
        standing = standing_in(people.engine.store, row)
    told = standing.detail
    if standing.word != "over":
        told = f"ends as soon as what it has begun has its outcome ({told})"
    lines = [f"{row.run.id} {told}", *unsettled_lines(standing)]
    given.show(run_document(row, standing), "\n".join(lines))
