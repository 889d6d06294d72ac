"""A worker in a program of one's own, which needs nothing but what `Placet` gives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet import Placet, WorkBegins, tool
from placet.agent.models.scripted import call, say
from placet.agent.watching import RunEvent
from tests.runtime.desk import Desk, code_of, effect

PAYS = [call("pay", what="a"), say("done")]


@pytest.mark.promise("D2")
@pytest.mark.parametrize("once", [True, False], ids=["once", "until it is told to stop"])
def test_a_program_runs_a_worker_by_itself(tmp_path: Path, once: bool) -> None:
    done: list[str] = []
    told: list[tuple[str, str]] = []
    seen: list[RunEvent] = []

    async def work(placet: Placet) -> None:
        stop = asyncio.Event()

        def report(happening: str, subject: str, _: str) -> None:
            told.append((happening, subject))
            if happening == "resumed":
                stop.set()

        worker = placet.worker(report=report, on_event=seen.append)
        await (worker.once() if once else worker.forever(stop))

    with Desk(tmp_path, PAYS, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        desk.do(work)
        assert done == ["pay a"]
        assert desk.result().stop == "final"
    assert told == [("notice", request), ("notice", request), ("resumed", "run_1")]
    assert any(isinstance(event, WorkBegins) for event in seen)


@pytest.mark.promise("G10")
def test_a_tool_cannot_run_a_worker(tmp_path: Path) -> None:
    codes: list[str] = []

    @tool(approval="never")
    def sly() -> str:
        """Work, from within an effect."""
        codes.append(code_of(lambda: desk.placet.worker(report=lambda *_: None)))
        return "tried"

    with Desk(tmp_path, [call("sly"), say("done")], [sly]) as desk:
        assert desk.start().stop == "final"
    assert codes == ["inside_tool"]
