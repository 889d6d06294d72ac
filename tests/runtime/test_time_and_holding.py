"""Deadlines, holding, leases and the worker, over a real store with an injected clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Placet, PlacetError, tool
from placet.agent.models.scripted import call, calls, say
from placet.agent.tools import Tool
from placet.core import commands as c
from placet.core.state import Working
from placet.core.values import Holder
from placet.runtime.processes import is_gone, this_process
from tests.runtime.desk import Desk

DAY = timedelta(hours=24)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def effect(done: list[str], name: str = "pay", **options: Any) -> Tool:
    def body(what: str) -> str:
        """Do something to the world."""
        done.append(f"{name} {what}")
        return f"{name} {what} done"

    body.__name__ = name
    return tool(**options)(body)


@pytest.mark.promise("G9")
@pytest.mark.conformance(5, 19)
@pytest.mark.parametrize("late", [timedelta(0), timedelta(seconds=1)])
def test_at_the_deadline_and_after_it_only_no_is_possible(tmp_path: Path, late: timedelta) -> None:
    done: list[str] = []
    clock = Clock()
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)], clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += DAY + late
        with pytest.raises(PlacetError) as refused:
            desk.decide(request, "approve")
        assert refused.value.code == "expired"
        assert desk.resume().stop == "final"
        (result,) = desk.results()
        assert result.startswith("Expired: no decision was in force by 2026-11-30 12:00:00 UTC.")
        assert "Asked: ana" in result
        assert done == []


@pytest.mark.promise("G9", "G7")
@pytest.mark.conformance(19)
def test_an_approval_that_nobody_acted_on_in_time_is_not_spent(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)], clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += DAY - timedelta(microseconds=1)
        desk.decide(request, "approve")
        clock.now += timedelta(microseconds=1)
        assert desk.resume().stop == "final"
        assert done == []
        assert desk.results()[0].startswith("Expired:")


@pytest.mark.promise("G9")
def test_a_clock_that_steps_back_brings_no_deadline_back(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)], clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += DAY
        desk.start(session="other", run_id="run_2")
        clock.now -= timedelta(days=30)
        with pytest.raises(PlacetError) as refused:
            desk.decide(request, "approve")
        assert refused.value.code == "expired"


@pytest.mark.promise("G9", "D1")
def test_a_worker_expires_what_nobody_decided_and_tells_of_requests(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)], clock=clock) as desk:
        (request,) = desk.start().waiting
        assert desk.work_once() == [("notice", request, "the request is opened")]
        assert desk.work_once() == []
        clock.now += DAY
        told = desk.work_once()
        assert ("resumed", "run_1", "") in told
        assert ("notice", request, "the request is closed") in told
        assert desk.resume().stop == "final"
        assert done == []


@pytest.mark.promise("D2")
def test_a_worker_carries_on_what_was_decided_and_leaves_other_agents_alone(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        start = c.StartRun(run="run_9", agent="elsewhere", requester="rob", message="go")
        desk.do(lambda p: p.engine.execute("t", start))
        desk.decide(request, "approve")
        told = desk.work_once()
        assert ("resumed", "run_1", "") in told
        assert ("no_agent", "run_9") in {(what, run) for what, run, _ in told}
        assert done == ["pay a"]


@pytest.mark.promise("G8")
@pytest.mark.conformance(12)
def test_while_a_request_waits_no_other_effect_starts_also_after_a_restart(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    tools = [effect(done), effect(done, "log", approval="never", surface="logs")]
    step = calls(call("log", what="b"), call("pay", what="a"))
    with Desk(tmp_path, [step, say("ok")], tools) as desk:
        (request,) = desk.start().waiting
        assert done == []
    with Desk(tmp_path, [step, say("ok")], tools) as desk:
        assert desk.resume().stop == "approval_required"
        assert done == []
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert done == ["log b", "pay a"], "in the order proposed"


@pytest.mark.promise("D5")
@pytest.mark.conformance(23)
def test_a_holder_whose_lease_passed_to_another_can_write_nothing(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    with Desk(tmp_path, [say("ok")], [effect(done)], clock=clock) as desk:
        other = Holder(host="elsewhere", boot="b", pid=1, started="1")
        start = c.StartRun(
            run="run_1", agent="support", requester="rob", message="go", holder=other
        )
        desk.do(lambda p: p.engine.execute("s", start))
        with pytest.raises(PlacetError) as busy:
            desk.resume()
        assert busy.value.code == "run_driven"
        clock.now += timedelta(seconds=60)
        assert desk.resume().stop == "final"
        renew = c.RenewLease(run="run_1", fence=1)
        with pytest.raises(PlacetError) as stale:
            desk.do(lambda p: p.engine.execute("s", renew))
        assert stale.value.code == "stale_fence"


@pytest.mark.promise("D5", "D4")
def test_a_process_seen_to_be_gone_is_taken_over_from_at_once(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "from placet.runtime.processes import this_process as t; print(repr(t()))"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    gone = eval(printed.stdout, {"Holder": Holder})
    me = this_process()
    assert is_gone(gone)
    assert not is_gone(me)
    assert not is_gone(Holder(host="elsewhere", boot="b", pid=gone.pid, started="1"))
    reused = Holder(host=me.host, boot=me.boot, pid=me.pid, started="1")
    assert is_gone(reused), "a pid that is used again names another process"
    with Desk(tmp_path, [say("ok")], []) as desk:
        start = c.StartRun(run="run_1", agent="support", requester="rob", message="go", holder=gone)
        desk.do(lambda p: p.engine.execute("s", start))
        assert isinstance(desk.state().runs["run_1"].state, Working)
        assert ("resumed", "run_1", "") in desk.work_once(), "a worker misses it at once"
        assert desk.resume().stop == "final"


@pytest.mark.promise("D5")
def test_cancelling_the_caller_detaches_the_body_and_its_outcome_is_recorded(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    started, release = asyncio.Event(), asyncio.Event()

    @tool(approval="never")
    async def pay() -> str:
        """Pay, slowly."""
        started.set()
        await release.wait()
        done.append("paid")
        return "paid"

    async def abandoned(placet: Any) -> None:
        waiting = asyncio.create_task(placet.run("support", "go", session="s", run_id="run_1"))
        await started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        while not desk.results():  # noqa: ASYNC110  # The record is what is waited for.
            await asyncio.sleep(0.01)

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        desk.do(abandoned)
        assert done == ["paid"]
        assert desk.results() == ["paid"]
        assert desk.resume().stop == "final"
        assert done == ["paid"]


@pytest.mark.promise("D4")
def test_a_body_cancelled_with_its_event_loop_leaves_a_settlement(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool(approval="never", surface="payments")
    async def pay() -> str:
        """Pay, and never come back."""
        started.set()
        await asyncio.sleep(60)
        return "paid"

    async def torn_down(placet: Any) -> None:
        task = asyncio.create_task(placet.run("support", "go", session="s", run_id="run_1"))
        await started.wait()
        assert not task.done()

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        desk.do(torn_down)
        (row,) = desk.do(lambda p: p.inbox())
        assert row.request.kind == "settlement"
        with pytest.raises(PlacetError) as refused:
            desk.do(lambda p: p.settle(row.request.id, by="eve", happened=True, detail="paid"))
        assert refused.value.code == "not_an_approver"
        desk.do(lambda p: p.settle(row.request.id, by="ana", happened=True, detail="paid 1"))
        assert desk.resume().stop == "final"
        assert desk.results()[0].startswith("paid 1\n(Established by ana")


@pytest.mark.promise("D4", "D5")
def test_a_process_that_cannot_be_seen_is_not_taken_to_be_gone() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    me = this_process()
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        seen_as_gone = is_gone(me)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not seen_as_gone


@pytest.mark.promise("D5")
def test_leaving_the_client_while_a_body_runs_keeps_its_outcome(tmp_path: Path) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @tool(approval="never")
    async def pay() -> str:
        """Pay, slowly."""
        started.set()
        await release.wait()
        return "paid"

    async def left(placet: Any) -> None:
        waiting = asyncio.create_task(placet.run("support", "go", session="s", run_id="run_1"))
        await started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        placet.close()
        release.set()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        desk.do(left)
    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        assert desk.results() == ["paid"]
        assert desk.resume().stop == "final"


@pytest.mark.promise("D5")
def test_a_loop_that_is_cancelled_in_its_model_gives_the_lease_back(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Slow:
        name = "slow"

        async def complete(self, _request: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async def close(self) -> None:
            return None

    async def torn_down(placet: Any) -> None:
        running = asyncio.create_task(placet.run("support", "go", session="s", run_id="run_1"))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with Desk(tmp_path, [], [], model=Slow()) as desk:
        desk.do(torn_down)
    with Desk(tmp_path, [say("ok")], []) as desk:
        assert desk.resume().stop == "final"


@pytest.mark.promise("H3", "G11")
def test_a_worker_tells_its_own_tenant_alone(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        told: list[str] = []

        async def once(placet: Any) -> None:
            other = Placet(placet.engine.store, tenant="another", approvers=["ana"])
            await other.worker(report=lambda what, which, _: told.append(f"{what} {which}")).once()

        desk.do(once)
        assert told == []
        assert desk.work_once() == [("notice", request, "the request is opened")]


@pytest.mark.promise("H3", "G10")
def test_people_are_told_again_when_an_approval_is_withdrawn(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        assert desk.do(lambda p: p.inbox()) == []
        desk.do(lambda p: p.withdraw(request, by="ana"))
        assert [row.request.id for row in desk.do(lambda p: p.inbox())] == [request]
        notices = [kind for what, which, kind in desk.work_once() if which == request]
        assert notices == [
            "the request is opened",
            "the request is closed",
            "the request is opened",
        ]
        with pytest.raises(PlacetError) as refused:
            desk.do(lambda p: p.withdraw(request, by="ana"))
        assert refused.value.code == "no_vote"


@pytest.mark.promise("G2")
def test_a_run_id_stands_for_one_agent_and_message(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        desk.start()
        with pytest.raises(PlacetError) as refused:
            desk.start("another message")
        assert refused.value.code == "run_exists"
        assert desk.start().stop == "approval_required"
