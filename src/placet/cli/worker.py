"""The command `worker`: carries on what is due, and tells what became of it."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from placet.cli.apps import app_option, opened
from placet.cli.carrying import to_the_end
from placet.cli.output import Given, shared, tell
from placet.cli.progress import Family, Progress
from placet.core.card import status_of
from placet.core.commands import Names
from placet.core.display import visible
from placet.keyring import signer_of
from placet.results import stands
from placet.runtime.anchors import Anchors
from placet.runtime.authority import refuse_under_mark

if TYPE_CHECKING:
    from placet.client import Placet
    from placet.runtime.worker import Happening
    from placet.settings import Settings


@click.command("worker", short_help="Carry on every run whose time has come.")
@app_option
@click.option("--once", is_flag=True, help="Carry on what is due now, and end.")
@shared
@click.pass_obj
def worker_command(given: Given, app: str, once: bool) -> None:
    """Carry on every run whose time has come, until told to stop."""
    refuse_under_mark()
    settings = given.settings()
    with opened(settings, app) as placet:
        told = Telling(placet, lines=given.as_json and not once)
        carried = to_the_end(_work(placet, told, settings, once=once))
    if carried is None:
        raise KeyboardInterrupt
    if once:
        given.show({"carried": carried, "runs": told.carried}, f"{carried} carried on")


class Telling:
    """Tells what a worker reports, with what became of each run and request."""

    def __init__(self, placet: Placet, *, lines: bool) -> None:
        self._engine = placet.engine
        self._lines = lines
        self._said: dict[str, str] = {}
        self.carried: list[dict[str, Any]] = []

    def report(self, happening: Happening, subject: str, told: str) -> None:
        """Tell one thing that happened; a notice that says nothing new is left out."""
        if happening == "resumed":
            told = self._became(subject)
        elif happening == "notice":
            told = self._notice(subject) or told
            if self._said.get(subject) == told:
                return
            self._said[subject] = told
        if self._lines:
            line = {"happening": happening, "id": subject, "detail": told}
            click.echo(json.dumps(line))
        else:
            tell(visible(f"{subject} {happening}{': ' if told else ''}{told}"))

    def _became(self, run: str) -> str:
        store, tenant = self._engine.store, self._engine.tenant
        row = store.find_run(tenant, run)
        assert row is not None, "a run that was carried on is on record"
        state = store.session(tenant, row.session, Names(runs=(run,)))
        assert state is not None, "a run is in a session"
        result = stands(state, run)
        self.carried.append(
            {"run_id": run, "stop": result.stop, "waiting": list(result.waiting)},
        )
        if result.waiting:
            return f"waits for people: {', '.join(result.waiting)}"
        return f"ended: {result.stop}" if result.stop else "rests, and goes on later"

    def _notice(self, request: str) -> str:
        row = self._engine.store.find_request(self._engine.tenant, request)
        if row is None:
            return ""
        return f"{row.request.tool}, session {row.session}: {status_of(row.request)}"


async def _work(placet: Placet, told: Telling, settings: Settings, *, once: bool) -> int | None:
    progress = Progress("", Family(placet.engine))
    worker = placet.worker(report=told.report, on_event=progress.watch)
    if settings.anchors:
        signer = signer_of(settings)
        worker.anchors = Anchors(settings.anchors, placet.engine.store, signer=signer)
    work = asyncio.current_task()
    assert work is not None, "a coroutine is done by a task"
    interrupts: list[int] = []

    def interrupted(number: int) -> None:
        interrupts.append(number)
        if len(interrupts) == 1:
            worker.end()
        else:  # What has begun is cut off, and its outcome is not known then (D4).
            work.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, interrupted, number)
    try:
        if once:
            carried = await worker.once()
            return None if interrupts else carried
        tell("the worker looks for runs; it ends after what it is doing once interrupted")
        await worker.forever()
    except asyncio.CancelledError:
        return None
    return 0
