"""The commands that carry a run on with its agent, from its message or from wherever it stands."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import click

from placet.cli.apps import app_option, opened, the_agent
from placet.cli.carrying import carried
from placet.cli.live import LiveText
from placet.cli.output import Exit, Given, runnable, shared, tell, with_ways_out
from placet.cli.progress import Family, Progress
from placet.cli.sessions import mode_option, session_here, session_option
from placet.cli.status import standing_of, unsettled_lines
from placet.core.commands import Names
from placet.core.display import visible
from placet.core.errors import Conflict, InProgress, ModelTrouble
from placet.core.values import Mode
from placet.runtime.authority import refuse_under_mark
from placet.runtime.engine import new_id

if TYPE_CHECKING:
    from placet.client import Placet
    from placet.results import RunResult


@click.command("run", short_help="Begin a run with a message, and carry it on.")
@click.argument("message")
@app_option
@click.option("--agent", default="", help="Which agent of the app, where there are several.")
@session_option
@click.option("--requester", help="For whom the run acts; by default the account you are.")
@mode_option
@click.option("--supersede", is_flag=True, help="End a run that waits in the session first.")
@shared
@click.pass_obj
def run_command(
    given: Given,
    message: str,
    app: str,
    agent: str,
    session: str | None,
    requester: str | None,
    mode: Mode | None,
    supersede: bool,
) -> int:
    """Begin a run with a message, and carry it on until it waits for people or is over."""
    refuse_under_mark()
    with opened(given.settings(), app) as placet:
        place = session or session_here(placet.engine)
        name = the_agent(placet, agent)
        run_id = new_id("run")
        text = _live_text(given, placet)
        progress = Progress(run_id, Family(placet.engine), begins=True, text=text)
        work = placet.run(
            name,
            message,
            session=place,
            requester=requester,
            run_id=run_id,
            mode=mode,
            on_message="supersede" if supersede else "refuse",
            on_event=progress.watch,
        )
        try:
            result = _carried(work, progress, run_id)
        except (Conflict, InProgress) as refused:
            raise with_ways_out(refused, lambda run: _ways_out(run, place)) from refused
        except ModelTrouble as trouble:
            raise _resumable(trouble, run_id) from trouble
        finally:
            if text is not None:
                text.close()
        return _show_result(given, placet, result, text)


def _live_text(given: Given, placet: Placet) -> LiveText | None:
    """Give what shows the model's text as it comes, where a person looks on."""
    if given.as_json or sys.stdout is None or not sys.stdout.isatty():
        return None
    return LiveText(Family(placet.engine).agent)


@click.command("resume", short_help="Carry a run on, from wherever it stands.")
@click.argument("run")
@app_option
@click.option("--session", help="Refuse a run of any other session.")
@shared
@click.pass_obj
def resume_command(given: Given, run: str, app: str, session: str | None) -> int:
    """Carry a run on: after a decision, a crash, or a failure of its model."""
    refuse_under_mark()
    with opened(given.settings(), app) as placet:
        text = _live_text(given, placet)
        progress = Progress(run, Family(placet.engine), text=text)
        work = placet.resume(run, session=session, on_event=progress.watch)
        try:
            result = _carried(work, progress, run)
        except ModelTrouble as trouble:
            raise _resumable(trouble, run) from trouble
        finally:
            if text is not None:
                text.close()
        return _show_result(given, placet, result, text)


def _carried(work: Coroutine[Any, Any, RunResult], progress: Progress, run_id: str) -> RunResult:
    """Carry a run on; an interrupt lets an effect that has begun come to its end."""
    result = carried(work, progress.effects)
    if result is None:
        if progress.begun:
            tell(runnable(f"`placet resume {run_id}` goes on with the run."))
        raise KeyboardInterrupt
    return result


def _resumable(trouble: ModelTrouble, run_id: str) -> ModelTrouble:
    hint = " ".join(
        part for part in (trouble.hint, f"`placet resume {run_id}` tries again.") if part
    )
    ids = {**trouble.ids, "run_id": run_id}
    return ModelTrouble(
        trouble.code, trouble.message, hint=hint, retryable=trouble.retryable, **ids
    )


def _ways_out(run: str, session: str) -> str:
    where = f"--session {shlex.quote(session)}"
    return (
        f"`placet inbox {where}` lists what it waits for, `placet resume {run}` goes on with it,"
        f" `placet cancel {run}` ends it; `placet run --supersede` begins in its place, and"
        " `--session` with another name beside it."
    )


def _show_result(given: Given, placet: Placet, result: RunResult, text: LiveText | None) -> int:
    """Print where a run stands, and give the exit code that says it too.

    An answer that was seen as it came is not printed again.
    """
    state = asyncio.run(placet.engine.session(result.session, Names(runs=(result.run_id,))))
    standing = standing_of(state, state.runs[result.run_id])
    document = {
        "run_id": result.run_id,
        "session": result.session,
        "stop": result.stop,
        "answer": result.answer,
        "waiting": list(result.waiting),
        "unsettled": list(standing.unsettled),
    }
    said = result.answer or ""
    seen = text is not None and text.has_said(result.run_id, said)
    answer = "" if seen else visible(said, keep_newlines=True)
    if result.stop == "approval_required":
        lines = [f"{result.run_id} waits for people (approval_required):"]
        lines += [runnable(f"  {request}: `placet show {request}`") for request in result.waiting]
        given.show(document, "\n".join(lines))
        return Exit.WAITING
    if result.stop is None:
        given.show(document, f"{result.run_id}: {standing.detail}")
        return Exit.RESTING
    ended = f"{result.run_id} ended: {result.stop}"
    lines = [answer, f"({ended})"] if answer else [f"({ended})" if said else ended]
    given.show(document, "\n".join([*lines, *unsettled_lines(standing)]), as_is=True)
    return Exit.DONE if result.stop == "final" else Exit.UNFINISHED
