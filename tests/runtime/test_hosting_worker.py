"""What a worker does for hosted runs: deadlines, recovery, and telling the framework to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from placet import tool
from placet.core.state import Asking
from placet.core.values import LEASE
from placet.runtime import hosted_drivers
from placet.runtime import worker as workers
from placet.runtime.hosting import Answered
from placet.runtime.processes import this_process
from placet.runtime.worker import LEAVE_ALONE
from placet.stores.sqlite import SqliteStore
from placet.stores.store import CourseRow
from tests.runtime.desk import Clock, effect
from tests.runtime.hosts import Framework, called, looked, worker_of

DAY = timedelta(hours=24)
PAY = called("pay", what="a")


@tool(approval="never")
def lose() -> str:
    """Lose the connection."""
    raise ConnectionResetError


def resumes(framework: Framework) -> Callable[[str], Any]:
    """Go on as a framework does: carry out what the run has, and see that it must wait."""

    async def resume(run: str) -> None:
        state = framework.state(runs=(run,))
        for at in sorted(at for at in state.calls if at.run == run):
            await framework.hosting.carry_out("s", at)

    return resume


def going_on(place: Path, done: list[str], **options: Any) -> Framework:
    """Give a framework that goes on when it is told to."""
    tools = [effect(done), lose]

    async def resume(run: str) -> None:
        await goes_on(run)

    framework = Framework(place, tools, resume=resume, **options)
    goes_on = resumes(framework)
    return framework


@pytest.mark.promise("D2")
@pytest.mark.parametrize("how", ["approve", "reject", "edit", "expire", "settle"])
def test_the_framework_is_told_after_whatever_is_decided_and_not_again_once_it_has_gone_on(
    tmp_path: Path, how: str
) -> None:
    done: list[str] = []
    clock = Clock()
    with going_on(tmp_path, done, clock=clock) as framework:
        at = framework.asked(called("lose") if how == "settle" else PAY)
        if how == "settle":
            framework.carry(at)
        (request,) = framework.waiting()
        assert framework.work() == []
        match how:
            case "expire":
                clock.now += DAY
            case "settle":
                framework.placet.settle_sync(request, by="ana", happened=True, detail="it is done")
            case "edit":
                framework.decide(request, "edit", arguments={"what": "b"})
            case _:
                framework.decide(request, how)
        assert framework.work() == [("resumed", "r", "")]
        assert framework.resumed == ["r"]
        found = framework.carry(at)
        assert isinstance(found, Answered)
        codes = {"reject": "rejected", "expire": "expired"}
        assert found.code == codes.get(how, "succeeded")
        assert framework.work() == []
        assert framework.resumed == ["r"]
    assert done == {"approve": ["pay a"], "edit": ["pay b"]}.get(how, [])


@pytest.mark.promise("D2")
def test_what_is_decided_while_the_framework_goes_on_it_is_told_as_well(tmp_path: Path) -> None:
    done: list[str] = []

    async def resume(run: str) -> None:
        await goes_on(run)  # It has seen that it must wait on the second request,
        if len(framework.resumed) == 1:  # and while it puts its state away, that is rejected.
            await framework.placet.decide(second, "reject", by="ana", reason="no")

    with Framework(tmp_path, [effect(done)], resume=resume) as framework:
        goes_on = resumes(framework)
        framework.begin()
        framework.propose(PAY, called("pay", what="b", id="call_1"))
        first, second = framework.waiting()
        framework.decide(first)
        framework.work()
        assert framework.resumed == ["r", "r"]
        assert framework.work() == []
    assert done == ["pay a"]


@pytest.mark.promise("D2")
def test_a_resume_that_fails_is_tried_again_later_and_stops_no_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    broken = {"r1": 2}

    async def resume(run: str) -> None:
        if broken.get(run, 0):
            broken[run] -= 1
            raise OSError("the framework's own store is away")
        await framework.hosting.carry_out(run, places[run])

    with Framework(tmp_path, [effect(done)], resume=resume) as framework:
        runs = ("r1", "r2", "r3")
        places = {
            run: framework.asked(called("pay", what=run), run=run, session=run) for run in runs
        }
        for request in framework.waiting():
            framework.decide(request)
        told: list[tuple[str, str, str]] = []
        worker = worker_of(framework.placet, told)
        asyncio.run(worker.once())
        assert sorted(done) == ["pay r2", "pay r3"]
        assert [each for each in told if each[0] == "trouble"] == [
            ("trouble", "r1", "OSError: the framework's own store is away")
        ]
        asyncio.run(worker.once())
        assert framework.resumed.count("r1") == 1
        monkeypatch.setattr(workers, "LEAVE_ALONE", timedelta(0))
        worker = worker_of(framework.placet, told)
        for _ in range(2):
            asyncio.run(worker.once())
        assert framework.resumed.count("r1") == 3
        assert sorted(done) == ["pay r1", "pay r2", "pay r3"]


@pytest.mark.promise("D1")
def test_a_framework_that_was_told_and_does_not_go_on_is_left_alone_and_not_hammered(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    with Framework(tmp_path, [effect(done)]) as framework:
        at = framework.asked(PAY)
        framework.decide(framework.waiting()[0])
        told = looked(framework.placet, tmp_path)
        assert [(what, run) for what, run, _ in told] == [("in_progress", "r")]
        assert framework.resumed == ["r"]
        assert isinstance(framework.state(runs=("r",)).calls[at].state, Asking)


@pytest.mark.promise("D1")
@pytest.mark.parametrize("how", ["asked", "allowed", "begun", "answered"])
def test_a_run_that_is_the_frameworks_to_go_on_with_is_not_looked_at_again_and_again(
    tmp_path: Path, how: str
) -> None:
    done: list[str] = []
    tools = [effect(done), effect(done, "send", approval="never")]
    with Framework(tmp_path, tools) as framework:
        match how:
            case "asked":
                framework.asked(PAY)
            case "allowed":
                framework.asked(called("send", what="a"))
            case "begun":
                framework.begin()
            case _:
                framework.carry(framework.asked(called("send", what="a")))
        assert looked(framework.placet, tmp_path) == []
        assert framework.resumed == []


@pytest.mark.promise("D2")
def test_a_run_whose_host_is_not_here_is_left_alone_and_that_is_said_once(tmp_path: Path) -> None:
    done: list[str] = []
    with Framework(tmp_path, [effect(done)]) as framework:
        framework.asked(PAY)
        framework.decide(framework.waiting()[0])
    with Framework(tmp_path, agent="another") as other:
        told = looked(other.placet, tmp_path)
        assert told == [("no_agent", "r", "this worker does not have framework")]
    with going_on(tmp_path, done) as framework:
        framework.work()
    assert done == ["pay a"]
    assert timedelta(seconds=10) < LEAVE_ALONE


@pytest.mark.promise("G9")
def test_a_worker_keeps_a_hosted_requests_deadline(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    with going_on(tmp_path, done, clock=clock) as framework:
        framework.asked(PAY)
        framework.decide(framework.waiting()[0])
        clock.now += DAY
        framework.work()
        assert "RequestExpired" in framework.kinds()
    assert done == []


@pytest.mark.promise("D5")
def test_of_many_workers_one_at_a_time_tells_a_runs_framework(tmp_path: Path) -> None:
    done: list[str] = []
    seen: list[list[tuple[str, str, str]]] = []

    async def resume(run: str) -> None:
        seen.append(await asyncio.to_thread(second.work))  # While the first goes on with it,
        await resumes(first)(run)

    with (
        Framework(tmp_path, [effect(done)], resume=resume) as first,
        going_on(tmp_path, done) as second,
    ):
        first.asked(PAY)
        first.decide(*first.waiting())
        assert first.work() == [("resumed", "r", "")]
        ((told,),) = seen
        assert told[:2] == ("in_progress", "r")
        assert "was told to go on with it" in told[2]
        assert (first.resumed, second.resumed) == (["r"], [])
        assert done == ["pay a"]
        first.propose(called("pay", what="b", id="call_1"), reference="2")
        first.decide(*first.waiting())
        assert second.work() == [("resumed", "r", "")], "nothing is held once it was told"
    assert done == ["pay a", "pay b"]


@pytest.mark.promise("D5")
@pytest.mark.parametrize("how", ["it is gone", "its time is up"])
def test_a_framework_whose_teller_is_no_more_is_told_by_another(tmp_path: Path, how: str) -> None:
    done: list[str] = []
    clock = Clock()
    with going_on(tmp_path, done, clock=clock) as framework:
        framework.asked(PAY)
        framework.decide(*framework.waiting())
        holder = replace(this_process(), started="0")
        if how == "its time is up":  # Nobody sees from here what became of it.
            holder = replace(holder, host="another host")
        take = framework.store.take_course
        take("main", "run r", token="theirs", holder=holder, lasts=LEASE)
        if how == "its time is up":
            assert framework.work()[0][0] == "in_progress"
            clock.now += LEASE
        assert framework.work() == [("resumed", "r", "")]
    assert done == ["pay a"]


@pytest.mark.promise("D5")
def test_the_right_to_tell_lasts_for_as_long_as_the_framework_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_drivers, "LEASE", timedelta(milliseconds=60))
    done: list[str] = []
    clock = Clock()

    async def resume(run: str) -> None:
        for _ in range(3):
            clock.now += timedelta(milliseconds=50)
            while await asyncio.to_thread(renewed.get, timeout=60) != clock.now:
                pass  # It was renewed before that.
            found = framework.store.take_course(
                "main", "run r", token="theirs", holder=this_process(), lasts=LEASE
            )
            assert found.token == tokens[0]
        await resumes(framework)(run)

    tokens: list[str] = []
    renewed: SimpleQueue[datetime] = SimpleQueue()

    class Watched(SqliteStore):
        def take_course(self, *args: Any, **more: Any) -> CourseRow:
            found = super().take_course(*args, **more)
            tokens.append(more["token"])
            if more["token"] != "theirs":
                renewed.put(clock.now)
            return found

    with Framework(
        tmp_path, [effect(done)], resume=resume, store=Watched, clock=clock
    ) as framework:
        framework.asked(PAY)
        framework.decide(*framework.waiting())
        assert framework.work() == [("resumed", "r", "")]
    assert done == ["pay a"]
