"""The commands about runs: run, resume and worker, with agents; runs and cancel, without."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from placet.cli.apps import app_option, opened
from placet.cli.output import Exit, Given, shared, tell
from placet.core.display import visible
from placet.core.errors import InvalidInput, ModelTrouble
from placet.core.state import RunOver, Working
from placet.runtime.authority import refuse_under_mark
from placet.runtime.engine import Engine, new_id
from placet.runtime.files import instant
from placet.settings import current_account

if TYPE_CHECKING:
    from placet.agent.loop import Watcher
    from placet.client import Placet, RunResult
    from placet.core.work import Work
    from placet.runtime.worker import Happening
    from placet.stores.store import RunRow


@click.command("run")
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
        tell(f"{run_id} begins")
        try:
            result = asyncio.run(
                placet.run(
                    name,
                    message,
                    session=session,
                    requester=requester,
                    run_id=run_id,
                    on_message="supersede" if supersede else "refuse",
                    watcher=_watcher(run_id),
                )
            )
        except KeyboardInterrupt:
            tell(f"`placet resume {run_id}` goes on with the run.")
            raise
        except ModelTrouble as trouble:
            raise _resumable(trouble, run_id) from trouble
        return _show_result(given, result)


@click.command("resume")
@click.argument("run")
@app_option
@shared
@click.pass_obj
def resume_command(given: Given, run: str, app: str) -> int:
    """Carry a run on: after a decision, a crash, or a failure of its model."""
    refuse_under_mark()
    with opened(given.settings(), app) as placet:
        try:
            result = asyncio.run(placet.resume(run, watcher=_watcher(run)))
        except ModelTrouble as trouble:
            raise _resumable(trouble, run) from trouble
        return _show_result(given, result)


def _the_agent(placet: Placet, name: str) -> str:
    """Say which agent is meant; raises InvalidInput where that is not clear."""
    names = placet.agent_names
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


def _show_result(given: Given, result: RunResult) -> int:
    """Print where a run stands, and give the exit code that says it too."""
    document = {
        "run_id": result.run_id,
        "session": result.session,
        "stop": result.stop,
        "answer": result.answer,
        "waiting": list(result.waiting),
    }
    answer = visible(result.answer, keep_newlines=True) if result.answer else ""
    if result.stop == "approval_required":
        lines = [f"{result.run_id} waits for people (approval_required):"]
        lines += [f"  {request}: `placet show {request}`" for request in result.waiting]
        given.show(document, "\n".join(lines))
        return Exit.WAITING
    if result.stop is None:
        given.show(document, f"{result.run_id} rests; `placet resume` or a worker goes on with it")
        return Exit.RESTING
    ended = f"{result.run_id} ended: {result.stop}"
    given.show(document, f"{answer}\n({ended})" if answer else ended)
    return Exit.DONE if result.stop == "final" else Exit.UNFINISHED


# --- progress ---------------------------------------------------------------------------------


def _watcher(run_id: str) -> Watcher:
    def watch(work: Work) -> None:
        if told := _described(work):
            tell(f"{run_id} {told}")

    return watch


def _described(work: Work) -> str:
    """Say in a few words what a run is about to do; nothing where it only waits."""
    from placet.core import work as w

    match work:
        case w.CallModel(step=step, closing=closing):
            return f"step {step}: asks the model" + (" for its last word" if closing else "")
        case w.RunReads(calls=calls):
            return f"step {calls[0].step}: reads ({len(calls)})"
        case w.RunEffect(at=at):
            return f"step {at.step}: runs call {at.index}"
        case w.Delegate(at=at):
            return f"step {at.step}: hands call {at.index} to another agent"
        case w.Recover(at=at):
            return f"step {at.step}: takes call {at.index} over from a process that is gone"
        case w.Probe(at=at):
            return f"step {at.step}: finds out what became of call {at.index}"
        case w.ExpireDue():
            return "closes what is past its deadline"
        case w.Finish() | w.Wait() | w.Done():
            return ""


# --- the worker -------------------------------------------------------------------------------


@click.command("worker")
@app_option
@click.option("--once", is_flag=True, help="Carry on what is due now, and end.")
@shared
@click.pass_obj
def worker_command(given: Given, app: str, once: bool) -> None:
    """Carry on every run whose time has come, until told to stop."""
    refuse_under_mark()
    with opened(given.settings(), app) as placet:
        carried = asyncio.run(_work(given, placet, once=once))
    if once:
        given.show({"carried": carried}, f"{carried} carried on")


async def _work(given: Given, placet: Placet, *, once: bool) -> int:
    from placet.runtime.worker import Worker

    def report(happening: Happening, subject: str, told: str) -> None:
        if given.as_json and not once:
            line = {"happening": happening, "id": subject, "detail": told}
            click.echo(json.dumps(line))
        else:
            tell(visible(f"{subject} {happening}{': ' if told else ''}{told}"))

    async def resume(run: str) -> object:
        return await placet.resume(run, watcher=_watcher(run))

    worker = Worker(placet.engine, resume=resume, has_agent=placet.has_agent, report=report)
    if once:
        return await worker.once()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    tell("the worker looks for runs; it ends after what it is doing once interrupted")
    await worker.forever(stop)
    return 0


# --- without an agent -------------------------------------------------------------------------


@click.command("runs")
@click.option("--session", help="Only runs of this session.")
@click.option("--active", is_flag=True, help="Only runs that are not over.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(min=1))
@shared
@click.pass_obj
def runs_command(given: Given, session: str | None, active: bool, limit: int) -> None:
    """List the runs, the newest first."""
    from placet.cli.office import existing_store

    settings = given.settings()
    store = existing_store(settings)
    try:
        rows = store.runs(settings.tenant, session=session, active=active, limit=limit)
    finally:
        store.close()
    lines = [
        f"{visible(row.run.id)}  {_standing(row)}  {visible(row.run.agent)}"
        f"  session {visible(row.session)}, step {row.run.step}"
        for row in rows
    ]
    given.show({"runs": [_document(row) for row in rows]}, "\n".join(lines) or "There are no runs.")


def _standing(row: RunRow) -> str:
    match row.run.state:
        case RunOver(stop=stop):
            return f"ended: {stop}"
        case Working():
            return "working"
        case _:
            return "resting"


def _document(row: RunRow) -> dict[str, Any]:
    run = row.run
    over = run.state if isinstance(run.state, RunOver) else None
    return {
        "run_id": run.id,
        "session": row.session,
        "agent": run.agent,
        "requester": run.requester,
        "kind": run.kind,
        "status": "over" if over else _standing(row),
        "stop": over.stop if over else None,
        "step": run.step,
        "max_steps": run.max_steps,
        "started_at": instant(run.started_at),
        "wake_at": instant(row.wake_at) if row.wake_at else None,
    }


@click.command("cancel")
@click.argument("run")
@click.option("--cause", default="", help="Why; the record and the model say it.")
@shared
@click.pass_obj
def cancel_command(given: Given, run: str, cause: str) -> None:
    """End a run: its requests close, and what has begun is carried to its outcome."""
    from placet.cli.office import existing_store
    from placet.core import commands as c
    from placet.core.values import Principal

    refuse_under_mark()
    settings = given.settings()
    store = existing_store(settings)

    async def end() -> RunRow:
        engine = Engine(store, tenant=settings.tenant)
        row = await engine.find_run(run)
        by = Principal(id=current_account())
        await engine.execute(row.session, c.CancelRun(run=run, by=by, cause=cause))
        return await engine.find_run(run)

    try:
        row = asyncio.run(end())
    finally:
        store.close()
    told = _standing(row)
    if not isinstance(row.run.state, RunOver):
        told = "ends as soon as what it has begun has its outcome"
    given.show(_document(row), f"{row.run.id} {told}")
