"""Small bugs between an intent and its outcome: each of these tests is the one that finds some.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from placet import Agent, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, say
from placet.core import commands as c
from placet.core.values import LEASE, Holder
from placet.runtime import attempts
from placet.runtime.attempts import STALE_AFTER
from placet.runtime.processes import awake, is_gone, this_process
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Answer
from tests.runtime.desk import Clock, Desk, effect

OTHER = Holder(host="elsewhere", boot="b", pid=1, started="1")
SCRIPT = [call("pay", what="a"), say("ok")]

Session = Callable[[c.Command], Future[Answer]]


class Sleeper(SqliteStore):
    """A store whose process is put to sleep just after an intent of its own is on record.

    `meanwhile` is what others do until it wakes up, and `slept` how long that was, in seconds.
    """

    meanwhile: Callable[[Session, Future[Answer]], None] | None = None
    slept = 0.0

    def execute(
        self, tenant: str, session: str, command: c.Command, *, command_id: str = ""
    ) -> Future[Answer]:
        answer = super().execute(tenant, session, command, command_id=command_id)
        if isinstance(command, c.Begin) and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile(lambda other: super(Sleeper, self).execute(tenant, session, other), answer)
            self.slept = STALE_AFTER.total_seconds() + 0.05
        return answer

    def awake(self) -> float:
        """Give the seconds that have passed, of a process that slept so long."""
        return awake() + self.slept


@pytest.mark.promise("D5")
def test_a_process_that_slept_until_another_took_its_attempt_does_not_enter_the_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, clock = list[str](), Clock()

    def take_over(do: Session, begun: Future[Answer]) -> None:
        at = next(iter(begun.result().state.calls))
        clock.now += LEASE
        taken = do(c.TakeLease(run="run_1", holder=OTHER)).result()
        fence = taken.state.runs["run_1"].fence
        do(c.Lose(at=at, attempt=1, fence=fence, cause="its lease ran out", gone=None)).result()

    store = Sleeper(tmp_path / "placet.db", clock=clock)
    store.meanwhile = take_over
    monkeypatch.setattr(attempts, "awake", store.awake)
    agent = Agent(
        name="support", model=ScriptedModel(SCRIPT), tools=[effect(done, approval="never")]
    )
    with Placet(store, agents=[agent], approvers=["ana"]) as placet:
        (settlement,) = asyncio.run(placet.run("support", "go", run_id="run_1")).waiting
        assert asyncio.run(placet.show(settlement)).kind == "settlement"
    assert done == []


@pytest.mark.promise("D4", "D5", "D8")
def test_a_body_whose_process_lives_is_not_compensated_though_its_lease_ran_out(
    tmp_path: Path,
) -> None:
    entered, release, clock = threading.Event(), threading.Event(), Clock()
    void, waiting = list[str](), list[str]()

    @tool(approval="never")
    def pay(what: str) -> str:
        """Pay, slowly."""
        entered.set()
        release.wait(60)
        return "paid"

    @pay.compensate(safe_if_absent=True)
    def reverse(what: str) -> str:
        void.append(what)
        return "void"

    with (
        Desk(tmp_path, SCRIPT, [pay], clock=clock) as slow,
        Desk(tmp_path, SCRIPT, [pay], clock=clock) as other,
    ):
        driving = threading.Thread(target=lambda: waiting.extend(slow.start().waiting))
        driving.start()
        assert entered.wait(60)
        clock.now += LEASE
        try:
            (settlement,) = other.resume().waiting
            assert other.show(settlement).kind == "settlement"
        finally:
            release.set()
            driving.join()
    assert (void, waiting) == ([], [settlement]), "and its late word changes nothing"


@pytest.mark.promise("D4", "D5")
@pytest.mark.parametrize("host", ["elsewhere", ""])
def test_a_process_of_another_host_may_live_though_none_here_has_its_number(host: str) -> None:
    code = "from placet.runtime.processes import this_process as t; print(t().pid)"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    gone = replace(this_process(), pid=int(ended.stdout), started="1")
    assert is_gone(gone)
    assert not is_gone(replace(gone, host=host))
