"""A program that runs agents beside workers: whoever is quicker drives, and each caller is told the
end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, InProgress, Placet, PlacetError, RunResult, ScriptedModel
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, say
from placet.core import commands as c
from placet.core.values import Holder, Principal
from placet.runtime.processes import this_process
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Answer
from tests.runtime.desk import answers, told

OTHER = Holder(host="elsewhere", boot="b", pid=7, started="1")


class Busy(SqliteStore):
    """A store at which something is done before and after each command of its caller."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.before: Callable[[c.Command], None] = lambda command: None
        self.after: Callable[[c.Command, BaseException | None], None] = lambda command, refusal: (
            None
        )

    def execute(
        self, tenant: str, session: str, command: c.Command, *, command_id: str = ""
    ) -> Future[Answer]:
        self.before(command)
        answer = super().execute(tenant, session, command, command_id=command_id)
        self.after(command, answer.exception(60))
        return answer

    def do(self, command: c.Command) -> Answer:
        return super().execute("main", "s", command).result(60)


class Elsewhere:
    """A worker with a store of its own, in a thread; `carried` names the runs that it carried."""

    def __init__(self, path: Path, agent: Agent) -> None:
        self.carried: list[str] = []
        self._path = path
        self._agent = agent
        self._thread = threading.Thread(target=self._work)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        def report(happening: str, run: str, _: str) -> None:
            if happening == "resumed":
                self.carried.append(run)

        with Placet(SqliteStore(self._path), agents=[self._agent], approvers=["ana"]) as placet:
            asyncio.run(placet.worker(report=report).once())


def run_in(store: SqliteStore, agent: Agent, run: str = "run_1") -> RunResult:
    with Placet(store, agents=[agent], approvers=["ana"]) as placet:
        return asyncio.run(placet.run(agent, "go", session="s", run_id=run))


@pytest.mark.promise("D5")
def test_a_worker_takes_no_run_that_its_beginner_is_about_to_drive(tmp_path: Path) -> None:
    agent = Agent(name="echo", model=ScriptedModel([say("done")]), tools=[])
    store = Busy(tmp_path / "placet.db")
    worker = Elsewhere(tmp_path / "placet.db", agent)

    def after(command: c.Command, refusal: BaseException | None) -> None:
        if isinstance(command, c.StartRun):
            worker.begin()
            worker.end()

    store.after = after
    ended = run_in(store, agent)
    assert (ended.stop, ended.answer) == ("final", "done")
    assert worker.carried == []


@pytest.mark.promise("D5")
def test_a_beginner_that_lost_its_run_before_it_drove_waits_for_the_other(tmp_path: Path) -> None:
    asked: list[int] = []

    def reply(request: ModelRequest) -> Any:
        asked.append(request.step)
        return say("done")

    agent = Agent(name="echo", model=ScriptedModel(reply), tools=[])
    store = Busy(tmp_path / "placet.db")
    refused: list[BaseException] = []

    def after(command: c.Command, refusal: BaseException | None) -> None:
        if isinstance(command, c.StartRun):
            store.do(c.TakeLease(run="run_1", holder=OTHER, gone=this_process()))
        if isinstance(command, c.TakeLease) and refusal is not None:
            refused.append(refusal)
            assert asked == [], "who does not hold the run does nothing of it"
            if len(refused) == 2:
                store.do(c.ReleaseLease(run="run_1", fence=2, cause="it ends"))

    store.after = after
    ended = run_in(store, agent)
    assert (ended.stop, ended.answer, asked) == ("final", "done", [1])
    assert [type(each) for each in refused] == [InProgress, InProgress]


@pytest.mark.promise("D5", "G2")
def test_a_caller_waits_for_a_child_run_that_a_worker_is_quicker_to_take(tmp_path: Path) -> None:
    taken, refused = threading.Event(), threading.Event()
    asked: list[str] = []

    def inner(request: ModelRequest) -> Any:
        asked.append("inner")
        taken.set()
        assert refused.wait(60), "the caller comes to the child while the worker drives it"
        return say("paid")

    def outer(request: ModelRequest) -> Any:
        asked.append("outer")
        return answers(request) if told(request) else call("payer", message="a")

    def boss() -> Agent:
        payer = Agent(name="payer", model=ScriptedModel(inner), tools=[])
        return Agent(name="boss", model=ScriptedModel(outer), tools=[payer])

    store = Busy(tmp_path / "placet.db")
    worker = Elsewhere(tmp_path / "placet.db", boss())

    def after(command: c.Command, refusal: BaseException | None) -> None:
        if isinstance(command, c.Begin) and command.child is not None:
            worker.begin()
            assert taken.wait(60)
        if isinstance(command, c.TakeLease) and isinstance(refusal, InProgress):
            refused.set()

    store.after = after
    ended = run_in(store, boss())
    worker.end()
    assert (ended.stop, ended.answer) == ("final", "paid")
    assert asked == ["outer", "inner", "outer"]
    assert len(worker.carried) >= 1


@pytest.mark.promise("D5")
def test_the_same_run_begun_again_while_it_is_driven_is_in_progress(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    refusals: list[str] = []

    def reply(request: ModelRequest) -> Any:
        def again() -> None:
            with pytest.raises(InProgress) as caught:
                run_in(SqliteStore(path), agent)
            refusals.append(caught.value.code)

        second = threading.Thread(target=again)
        second.start()
        second.join(60)
        return say("done")

    agent = Agent(name="echo", model=ScriptedModel(reply), tools=[])
    ended = run_in(SqliteStore(path), agent)
    assert (ended.stop, refusals) == ("final", ["run_driven"])


@pytest.mark.promise("D5")
def test_a_worker_comes_back_to_a_run_that_another_was_quicker_to_take(tmp_path: Path) -> None:
    agent = Agent(name="echo", model=ScriptedModel([say("done")]), tools=[])
    store = Busy(tmp_path / "placet.db")
    reported: list[tuple[str, str]] = []

    def before(command: c.Command) -> None:
        if isinstance(command, c.TakeLease):
            store.before = lambda command: None
            store.do(c.TakeLease(run="run_1", holder=OTHER))

    with Placet(store, agents=[agent], approvers=["ana"]) as placet:
        store.do(c.StartRun(run="run_1", agent="echo", requester="rob", message="go"))
        store.before = before
        worker = placet.worker(report=lambda what, run, _: reported.append((what, run)))
        assert asyncio.run(worker.once()) == 0
        store.do(c.ReleaseLease(run="run_1", fence=1, cause="it ends"))
        assert asyncio.run(worker.once()) == 1
    assert reported == [("in_progress", "run_1"), ("resumed", "run_1")]


@pytest.mark.promise("D5")
@pytest.mark.parametrize("end", ["final", "cancelled"])
def test_a_run_that_ends_between_two_looks_of_who_follows_it_has_ended(
    tmp_path: Path, end: str
) -> None:
    agent = Agent(name="echo", model=ScriptedModel([say("mine")]), tools=[])
    store = Busy(tmp_path / "placet.db")
    looks: list[int] = []

    def before(command: c.Command) -> None:
        if isinstance(command, c.TakeLease):
            looks.append(1)
        if len(looks) == 2 and end == "final":
            store.do(c.FinishRun(run="run_1", fence=2, stop="final", answer="by the other"))
        elif len(looks) == 2:
            store.do(c.CancelRun(run="run_1", by=Principal(id="ana"), cause="x"))

    def after(command: c.Command, refusal: BaseException | None) -> None:
        if isinstance(command, c.StartRun):
            store.do(c.TakeLease(run="run_1", holder=OTHER, gone=this_process()))

    store.before, store.after = before, after
    ended = run_in(store, agent)
    assert (ended.stop, len(looks)) == (end, 2)
    assert ended.answer == ("by the other" if end == "final" else None)


@pytest.mark.promise("D5")
def test_who_stood_still_until_another_took_over_is_told_the_others_end(tmp_path: Path) -> None:
    store = Busy(tmp_path / "placet.db")
    refused: list[str] = []

    def reply(request: ModelRequest) -> Any:
        store.do(c.TakeLease(run="run_1", holder=OTHER, gone=this_process()))
        return say("mine")

    def after(command: c.Command, refusal: BaseException | None) -> None:
        if isinstance(refusal, PlacetError):
            refused.append(f"{type(command).__name__} {refusal.code}")
            store.after = lambda command, refusal: None
            store.do(c.FinishRun(run="run_1", fence=2, stop="final", answer="by the other"))

    store.after = after
    ended = run_in(store, Agent(name="echo", model=ScriptedModel(reply), tools=[]))
    assert (ended.stop, ended.answer) == ("final", "by the other")
    assert refused == ["Propose stale_fence"], "its turn is not written down"


@pytest.mark.promise("D1", "D5")
def test_a_caller_that_leaves_as_its_run_begins_leaves_no_lease_behind(tmp_path: Path) -> None:
    agent = Agent(name="echo", model=ScriptedModel([say("done")]), tools=[])
    store = Busy(tmp_path / "placet.db")

    async def left() -> None:
        with Placet(store, agents=[agent], approvers=["ana"]) as placet:
            waiting = asyncio.create_task(placet.run(agent, "go", session="s", run_id="run_1"))

            def after(command: c.Command, refusal: BaseException | None) -> None:
                if isinstance(command, c.StartRun):
                    waiting.cancel()

            store.after = after
            with pytest.raises(asyncio.CancelledError):
                await waiting
            again = placet.resume("run_1")
            assert (await again).stop == "final"

    asyncio.run(left())
