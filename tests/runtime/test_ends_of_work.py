"""However work comes to its end, what was begun is finished and on record (D4, D5)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Placet, ScriptedModel, tool
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, say
from placet.core import commands as c
from placet.core.commands import Names
from placet.core.state import CallOver, Resting
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import told


class Works:
    """An agent whose effect has begun, and ends once it is let; then it would begin another."""

    def __init__(self, place: Path) -> None:
        self.path = place / "placet.db"
        self.begun, self.release = threading.Event(), threading.Event()
        self.done: list[int] = []

        @tool(approval="never", surface="a")
        def slow(n: int) -> str:
            """Do something, slowly."""
            self.begun.set()
            assert self.release.wait(60)
            self.done.append(n)
            return "done"

        def reply(request: ModelRequest) -> Any:
            number = len(told(request)) + 1
            return say("end") if number > 3 else call("slow", n=number)

        self.agent = Agent(name="e", model=ScriptedModel(reply), tools=[slow])

    def opened(self) -> Placet:
        return Placet(SqliteStore(self.path), agents=[self.agent], approvers=["ana"])

    def begin(self, placet: Placet) -> None:
        """Begin a run that nobody drives yet."""
        start = c.StartRun(run="run_1", agent="e", requester="rob", message="go")
        placet.engine.store.execute("main", "s", start).result(60)

    def outcomes(self) -> list[tuple[str, str]]:
        """Give what is on record of the effects."""
        with self.opened() as placet:
            store = placet.engine.store
            steps = tuple(("run_1", step) for step in range(1, 5))
            state = store.session("main", "s", Names(runs=("run_1",), steps=steps))
            assert state is not None
            ends = [each.state for each in state.calls.values()]
            return [
                (type(end).__name__, end.code if isinstance(end, CallOver) else "") for end in ends
            ]


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


async def has_begun(works: Works) -> None:
    assert await asyncio.to_thread(works.begun.wait, 60)


@pytest.mark.promise("D4", "D5")
def test_a_worker_that_is_to_stop_finishes_the_effect_and_begins_no_other(works: Works) -> None:
    async def work(placet: Placet) -> None:
        works.begin(placet)
        stop = asyncio.Event()
        working = asyncio.create_task(placet.worker(report=lambda *_: None).forever(stop))
        await has_begun(works)
        stop.set()
        works.release.set()
        await working

    with works.opened() as placet:
        asyncio.run(work(placet))
    assert (works.done, works.outcomes()) == ([1], [("CallOver", "succeeded")])


@pytest.mark.promise("D4", "D5")
def test_a_worker_that_is_to_end_at_once_finishes_what_it_is_at(works: Works) -> None:
    async def work(placet: Placet) -> int:
        works.begin(placet)
        worker = placet.worker(report=lambda *_: None)
        working = asyncio.create_task(worker.once())
        await has_begun(works)
        worker.end()
        works.release.set()
        return await working

    with works.opened() as placet:
        assert asyncio.run(work(placet)) == 1
    assert (works.done, works.outcomes()) == ([1], [("CallOver", "succeeded")])


@pytest.mark.promise("D4", "D5")
def test_a_worker_whose_reports_cannot_be_written_finishes_what_it_is_at(works: Works) -> None:
    def report(*_: str) -> None:
        threading.Timer(0.5, works.release.set).start()  # By then it has ended, or waits.
        raise BrokenPipeError

    async def work(placet: Placet) -> None:
        works.begin(placet)
        other = c.StartRun(run="run_2", agent="nobody", requester="rob", message="go")
        working = asyncio.create_task(placet.worker(report=report).forever())
        await has_begun(works)
        await placet.engine.execute("other", other)
        with pytest.raises(BrokenPipeError):
            await working

    with works.opened() as placet:
        asyncio.run(work(placet))
    assert (works.done, works.outcomes()) == ([1], [("CallOver", "succeeded")])


@pytest.mark.promise("D5")
def test_a_block_that_is_left_while_an_effect_is_under_way_waits_for_it(works: Works) -> None:
    async def leave() -> None:
        async with works.opened() as placet:
            running = asyncio.create_task(placet.run("e", "go", session="s", run_id="run_1"))
            await has_begun(works)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            asyncio.get_running_loop().call_soon(works.release.set)

    asyncio.run(leave())
    assert (works.done, works.outcomes()) == ([1], [("CallOver", "succeeded")])


@pytest.mark.promise("G9", "D5")
def test_threads_that_hang_in_the_event_loops_pool_keep_nothing_of_placet_waiting(
    works: Works,
) -> None:
    works.release.set()
    let_go = threading.Event()

    async def go(placet: Placet) -> Any:
        hanging = [asyncio.create_task(asyncio.to_thread(let_go.wait, 60)) for _ in range(64)]
        ended = await asyncio.wait_for(placet.run("e", "go", session="s", run_id="run_1"), 30)
        assert not any(task.done() for task in hanging)
        let_go.set()
        await asyncio.gather(*hanging)
        return ended

    with works.opened() as placet:
        assert asyncio.run(go(placet)).stop == "final"
    assert works.done == [1, 2, 3]


def hanging(asked: asyncio.Event) -> Agent:
    """Give an agent whose model says nothing."""

    class Silent(ScriptedModel):
        async def complete(self, request: ModelRequest, *, on_text: Any = None) -> Any:
            asked.set()
            await asyncio.Event().wait()

    return Agent(name="e", model=Silent([]), tools=[])


@pytest.mark.promise("D5")
def test_a_model_that_is_asked_keeps_no_block_from_its_end(tmp_path: Path) -> None:
    async def leave() -> None:
        asked = asyncio.Event()
        store = SqliteStore(tmp_path / "placet.db")
        async with Placet(store, agents=[hanging(asked)], approvers=["ana"]) as placet:
            running = asyncio.create_task(placet.run("e", "go", session="s", run_id="run_1"))
            await asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(asyncio.wait_for(leave(), 60))
    with Placet(SqliteStore(tmp_path / "placet.db"), approvers=["ana"]) as placet:
        row = placet.engine.store.find_run("main", "run_1")
        assert row is not None
        assert isinstance(row.run.state, Resting), "its lease is given back"


@pytest.mark.promise("D5")
def test_a_worker_that_was_told_to_end_leaves_its_models_and_works_again(tmp_path: Path) -> None:
    async def work(placet: Placet, asked: asyncio.Event) -> None:
        reports: list[str] = []
        worker = placet.worker(report=lambda what, *_: reports.append(what))
        for _ in range(2):
            working = asyncio.create_task(worker.forever())
            await asked.wait()
            asked.clear()
            worker.end()
            await working
        working = asyncio.create_task(worker.forever())
        await asked.wait()
        for _ in range(2):
            working.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await working
        asked.clear()
        once = asyncio.create_task(worker.once())
        await asked.wait()
        worker.end()
        await once

    async def whole() -> None:
        asked = asyncio.Event()
        store = SqliteStore(tmp_path / "placet.db")
        async with Placet(store, agents=[hanging(asked)], approvers=["ana"]) as placet:
            start = c.StartRun(run="run_1", agent="e", requester="rob", message="go")
            await placet.engine.execute("s", start)
            await work(placet, asked)

    asyncio.run(asyncio.wait_for(whole(), 60))


FORKED = """
import asyncio, os, signal, sys
from pathlib import Path
from placet import Agent, Placet, ScriptedModel, StoreTrouble
from placet.agent.models.scripted import say
from placet.stores.sqlite import SqliteStore

def opened():
    agent = Agent(name="echo", model=ScriptedModel(lambda request: say("done")), tools=[])
    return Placet(SqliteStore(Path(sys.argv[1])), agents=[agent], approvers=["ana"])

placet = opened()
print(placet.run_sync("echo", "hi", session="parent").stop, flush=True)
child = os.fork()
if child == 0:
    signal.alarm(60)
    for what in (
        lambda: placet.run_sync("echo", "hi", session="child"),
        lambda: asyncio.run(placet.run("echo", "hi", session="child")),
        lambda: placet.inbox_sync(),
        lambda: placet.engine.store.changes(),
    ):
        try:
            what()
        except StoreTrouble as trouble:
            print(trouble.code, flush=True)
    placet.close()
    print(opened().run_sync("echo", "hi", session="child").stop, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print(status, placet.run_sync("echo", "hi again", session="parent").stop, flush=True)
"""


@pytest.mark.promise("D3")
def test_a_forked_process_is_told_to_open_the_store_anew_and_can(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path / "placet.db")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout.split("\n")[:-1] == [
        "final",
        *["store_forked"] * 4,
        "final",
        "0 final",
    ], told.stderr
