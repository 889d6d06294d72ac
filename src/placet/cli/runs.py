"""The commands about runs: run and resume, with agents; runs and cancel, without."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from placet.cli.apps import app_option, opened
from placet.cli.office import existing_store, find_run
from placet.cli.output import Exit, Given, shared, tell
from placet.cli.standing import Standing, standing_of
from placet.core import commands as c
from placet.core.commands import Names
from placet.core.display import visible
from placet.core.errors import Conflict, InProgress, InvalidInput, ModelTrouble, Refusal
from placet.core.state import RunOver
from placet.core.values import Principal
from placet.runtime.authority import refuse_under_mark
from placet.runtime.engine import Engine, new_id
from placet.runtime.files import instant
from placet.settings import current_account

if TYPE_CHECKING:
    from placet.agent.watching import RunEvent
    from placet.client import Placet
    from placet.core.work import Work
    from placet.results import RunResult
    from placet.stores.store import RunRow, Store


@click.command("run", short_help="Begin a run with a message, and carry it on.")
@click.argument("message")
@app_option
@click.option("--agent", default="", help="Which agent of the app, where there are several.")
@click.option("--session", default="main", show_default=True, help="The session it belongs to.")
@click.option("--requester", help="For whom the run acts; by default the account you are.")
@click.option("--supersede", is_flag=True, help="End a run that waits in the session first.")
@shared
@click.pass_obj
def run_command(
    given: Given,
    message: str,
    app: str,
    agent: str,
    session: str,
    requester: str | None,
    supersede: bool,
) -> int:
    """Begin a run with a message, and carry it on until it waits for people or is over."""
    refuse_under_mark()
    with opened(given.settings(), app) as placet:
        name = _the_agent(placet, agent)
        run_id = new_id("run")
        progress = Progress(run_id, begins=True)
        try:
            result = asyncio.run(
                placet.run(
                    name,
                    message,
                    session=session,
                    requester=requester,
                    run_id=run_id,
                    on_message="supersede" if supersede else "refuse",
                    on_event=progress.watch,
                )
            )
        except KeyboardInterrupt:
            if progress.begun:
                tell(f"`placet resume {run_id}` goes on with the run.")
            raise
        except (Conflict, InProgress) as refused:
            raise _with_ways_out(refused, session) from refused
        except ModelTrouble as trouble:
            raise _resumable(trouble, run_id) from trouble
        return _show_result(given, placet, result)


@click.command("resume", short_help="Carry a run on, from wherever it stands.")
@click.argument("run")
@app_option
@shared
@click.pass_obj
def resume_command(given: Given, run: str, app: str) -> int:
    """Carry a run on: after a decision, a crash, or a failure of its model."""
    refuse_under_mark()
    with opened(given.settings(), app) as placet:
        asyncio.run(find_run(placet.engine, run))
        try:
            result = asyncio.run(placet.resume(run, on_event=Progress(run).watch))
        except ModelTrouble as trouble:
            raise _resumable(trouble, run) from trouble
        return _show_result(given, placet, result)


def _the_agent(placet: Placet, name: str) -> str:
    """Say which agent is meant; raises InvalidInput where that is not clear."""
    names = placet.agent_names
    if name and name not in names:
        raise InvalidInput(
            "unknown_agent",
            f"The app has no agent named {name}; it has: {', '.join(names)}.",
            hint="Name one of these with --agent, or another app with --app.",
        )
    if name:
        return name
    if len(names) > 1:
        raise InvalidInput(
            "which_agent",
            f"The app has several agents: {', '.join(names)}.",
            hint="Name one with --agent.",
        )
    return names[0]


def _resumable(trouble: ModelTrouble, run_id: str) -> ModelTrouble:
    hint = " ".join(
        part for part in (trouble.hint, f"`placet resume {run_id}` tries again.") if part
    )
    ids = {**trouble.ids, "run_id": run_id}
    return ModelTrouble(
        trouble.code, trouble.message, hint=hint, retryable=trouble.retryable, **ids
    )


def _with_ways_out(refused: Refusal, session: str) -> Refusal:
    """Say by which commands one gets past a run that is not over."""
    if refused.code not in ("run_waiting", "run_active"):
        return refused
    run = refused.ids.get("run_id", "")
    where = f"--session {shlex.quote(session)}"
    hint = (
        f"`placet inbox {where}` lists what it waits for, `placet resume {run}` goes on with it,"
        f" `placet cancel {run}` ends it; `placet run --supersede` begins in its place, and"
        " `--session` with another name beside it."
    )
    return type(refused)(refused.code, refused.message, hint=hint, **refused.ids)


def _show_result(given: Given, placet: Placet, result: RunResult) -> int:
    """Print where a run stands, and give the exit code that says it too."""
    state = asyncio.run(placet.engine.session(result.session, Names(runs=(result.run_id,))))
    standing = standing_of(state, state.runs[result.run_id], placet.engine.store)
    document = {
        "run_id": result.run_id,
        "session": result.session,
        "stop": result.stop,
        "answer": result.answer,
        "waiting": list(result.waiting),
        "unsettled": list(standing.unsettled),
    }
    answer = visible(result.answer, keep_newlines=True) if result.answer else ""
    if result.stop == "approval_required":
        lines = [f"{result.run_id} waits for people (approval_required):"]
        lines += [f"  {request}: `placet show {request}`" for request in result.waiting]
        given.show(document, "\n".join(lines))
        return Exit.WAITING
    if result.stop is None:
        given.show(document, f"{result.run_id}: {standing.detail}")
        return Exit.RESTING
    ended = f"{result.run_id} ended: {result.stop}"
    lines = [answer, f"({ended})"] if answer else [ended]
    given.show(document, "\n".join([*lines, *_unsettled_lines(standing)]))
    return Exit.DONE if result.stop == "final" else Exit.UNFINISHED


def _unsettled_lines(standing: Standing) -> list[str]:
    """Name what a run leaves to people though it ends."""
    return [
        f"  {settlement}: nobody knows that outcome yet; `placet show {settlement}`"
        for settlement in standing.unsettled
    ]


# --- progress ---------------------------------------------------------------------------------


class Progress:
    """Tells what a run is about to do, and first, where it is new, that it has begun."""

    def __init__(self, run_id: str, *, begins: bool = False) -> None:
        self._run_id = run_id
        self._begins = begins
        self.begun = False

    def watch(self, event: RunEvent) -> None:
        """Be told of the next work, which there is only once the run is on record."""
        from placet.agent.watching import WorkBegins

        if not isinstance(event, WorkBegins):
            return
        if self._begins and not self.begun:
            tell(f"{self._run_id} begins")
        self.begun = True
        if told := _described(event.work, event.tools):
            tell(f"{event.run} {told}")


def _described(work: Work, tools: Sequence[str]) -> str:
    """Say in a few words what a run is about to do; nothing where it only waits."""
    from placet.core import work as w

    named = visible(", ".join(tools))
    match work:
        case w.CallModel(step=step, closing=closing):
            return f"step {step}: asks the model" + (" for its last word" if closing else "")
        case w.RunReads(calls=calls):
            return f"step {calls[0].step}: reads ({named})"
        case w.RunEffect(at=at):
            return f"step {at.step}: runs {named}"
        case w.Delegate(at=at):
            return f"step {at.step}: hands a task to the agent {named}"
        case w.Recover(at=at):
            return f"step {at.step}: takes {named} over from a process that is gone"
        case w.Probe(at=at):
            return f"step {at.step}: finds out what became of {named}"
        case w.ExpireDue():
            return "closes what is past its deadline"
        case w.Finish() | w.Wait() | w.Done() | w.ResumeHost():
            return ""


# --- without an agent -------------------------------------------------------------------------


@click.command("runs", short_help="List the runs, the newest first.")
@click.option("--session", help="Only runs of this session.")
@click.option("--active", is_flag=True, help="Only runs that are not over.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(min=1))
@shared
@click.pass_obj
def runs_command(given: Given, session: str | None, active: bool, limit: int) -> None:
    """List the runs, the newest first."""
    settings = given.settings()
    store = existing_store(settings)
    try:
        rows = store.runs(settings.tenant, session=session, active=active, limit=limit)
        found = [(row, _standing(store, row)) for row in rows]
    finally:
        store.close()
    lines = [_line(row, standing) for row, standing in found]
    documents = [_document(row, standing) for row, standing in found]
    given.show({"runs": documents}, "\n".join(lines) or "There are no runs.")


def _standing(store: Store, row: RunRow) -> Standing:
    state = store.session(row.tenant, row.session, Names(runs=(row.run.id,)))
    assert state is not None, "a run is in a session"
    return standing_of(state, state.runs[row.run.id], store)


def _line(row: RunRow, standing: Standing) -> str:
    run = row.run
    told = standing.detail if standing.word == "over" else f"{standing.word}: {standing.detail}"
    lines = [
        f"{visible(run.id)}  {told}  {visible(run.agent)}"
        f"  session {visible(row.session)}, step {run.step}"
    ]
    return "\n".join([*lines, *_unsettled_lines(standing)]) if standing.word == "over" else lines[0]


def _document(row: RunRow, standing: Standing) -> dict[str, Any]:
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
        "started_at": instant(run.started_at),
        "wake_at": instant(row.wake_at) if row.wake_at else None,
        "detail": standing.detail,
        "waiting": list(standing.waiting),
        "unsettled": list(standing.unsettled),
    }


@click.command("cancel", short_help="End a run.")
@click.argument("run")
@click.option("--cause", default="", help="Why; the record and the model say it.")
@shared
@click.pass_obj
def cancel_command(given: Given, run: str, cause: str) -> None:
    """End a run: its requests close, and what has begun is carried to its outcome."""
    refuse_under_mark()
    settings = given.settings()
    store = existing_store(settings)

    async def end() -> RunRow:
        engine = Engine(store, tenant=settings.tenant)
        row = await find_run(engine, run)
        by = Principal(id=current_account())
        await engine.execute(row.session, c.CancelRun(run=run, by=by, cause=cause))
        return await engine.find_run(run)

    try:
        row = asyncio.run(end())
        standing = _standing(store, row)
    finally:
        store.close()
    told = standing.detail
    if standing.word != "over":
        told = f"ends as soon as what it has begun has its outcome ({told})"
    lines = [f"{row.run.id} {told}", *_unsettled_lines(standing)]
    given.show(_document(row, standing), "\n".join(lines))
