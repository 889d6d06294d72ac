"""Hosted runs between real processes: races for one call, and a kill in the middle of its body."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any, Literal

import pytest

from placet import Happened, IdempotencyKey, NotHappened
from placet.agent.tools import Tool
from placet.core.values import Occurrence
from placet.runtime.hosting import Answered, Waiting
from tests.runtime.desk import effect
from tests.runtime.hosts import Framework, called, lines, pays, written

Kind = Literal["plain", "idempotent", "probe"]

ROUNDS = 25
PROCESSES = 4
PAY = called("refund", order="A-42", amount=129)
PAID = Answered(code="succeeded", told="refunded 129 for A-42")

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.runtime.hosts"])


def contender(place: str, barrier: Barrier, answers: Any) -> None:
    """Carry out each round's call at the same moment as all others."""
    with Framework(Path(place), [pays(Path(place))]) as framework:
        for number in range(ROUNDS):
            at = Occurrence(f"r{number}", 1, 0)
            barrier.wait(60)
            answers.put((number, framework.carry(at, session=f"s{number}")))


@pytest.mark.slow
@pytest.mark.promise("G7", "D5")
def test_of_processes_that_carry_out_one_call_one_acts_and_all_are_told_the_same(
    tmp_path: Path,
) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        for number in range(ROUNDS):
            order = called("refund", order=f"A-{number}", amount=1)
            framework.asked(order, run=f"r{number}", session=f"s{number}")
        for request in framework.waiting():
            framework.decide(request)
    barrier, answers = _processes.Barrier(PROCESSES), _processes.Queue()
    contenders = [
        _processes.Process(target=contender, args=(str(tmp_path), barrier, answers))
        for _ in range(PROCESSES)
    ]
    for process in contenders:
        process.start()
    found = [answers.get(timeout=120) for _ in range(ROUNDS * PROCESSES)]
    for process in contenders:
        process.join(60)
        assert process.exitcode == 0
    for number in range(ROUNDS):
        told = Answered(code="succeeded", told=f"refunded 1 for A-{number}")
        assert [each for of, each in found if of == number] == [told] * PROCESSES
    orders = Counter(line.split()[1] for line in lines(tmp_path))
    assert orders == {f"A-{number}": 1 for number in range(ROUNDS)}


# --- a kill in the middle -----------------------------------------------------------------------


def paying(place: Path, kind: Kind, *, dies: bool = False) -> Tool:
    refund = pays(place, dies=dies, idempotent=kind == "idempotent")
    if kind == "probe":

        @refund.probe
        def was_paid(order: str, amount: int, *, key: IdempotencyKey) -> Happened | NotHappened:
            if any(line.startswith(key) for line in lines(place)):
                return Happened(result=f"refunded {amount} for {order}")
            return NotHappened()

    return refund


def dying(place: str, kind: Kind, when: str) -> None:
    """Carry the call out, and be killed in its body, before or after it has acted."""

    async def killed(arguments: Mapping[str, Any], key: str) -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    with Framework(Path(place), [paying(Path(place), kind, dies=True)]) as framework:
        body = killed if when == "before" else None
        framework.carry(Occurrence("r", 1, 0), body=body)


def killed(place: Path, kind: Kind, when: str = "after") -> Occurrence:
    """Have the call approved, and carried out by a process that is killed in its body."""
    with Framework(place, [paying(place, kind)]) as framework:
        at = framework.asked(PAY)
        framework.decide(framework.waiting()[0])
    process = _processes.Process(target=dying, args=(str(place), kind, when))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert len(lines(place)) == (when == "after")
    return at


@pytest.mark.slow
@pytest.mark.promise("D4", "D5", "G7")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["plain", "idempotent", "probe"])
def test_after_a_kill_in_the_body_it_is_done_with_the_same_key_or_probed_or_asked_about(
    tmp_path: Path, kind: Kind, when: str
) -> None:
    at = killed(tmp_path, kind, when)
    with Framework(tmp_path, [paying(tmp_path, kind)]) as framework:
        found = framework.carry(at)
        if kind == "plain":
            (settlement,) = framework.waiting()
            assert settlement.startswith("st_")
            assert found == Waiting(requests=(settlement,)) == framework.carry(at)
            framework.placet.settle_sync(settlement, by="ana", happened=True, detail="it is there")
            told = framework.carry(at)
            assert isinstance(told, Answered)
            assert told.told.startswith("it is there\n")
            assert len(lines(tmp_path)) == (when == "after")
            return
        assert found == PAID == framework.carry(at)
        keys = [line.split()[0] for line in lines(tmp_path)]
        assert len(set(keys)) == 1
        assert len(keys) == (2 if (kind, when) == ("idempotent", "after") else 1)


@pytest.mark.slow
@pytest.mark.promise("D4", "D5")
@pytest.mark.parametrize("how", ["resume", "worker"])
def test_an_abandoned_attempt_is_recovered_without_the_framework(tmp_path: Path, how: str) -> None:
    killed(tmp_path, "plain")
    later = datetime.now(UTC) + timedelta(hours=1)
    clock: dict[str, Any] = {"clock": lambda: later} if how == "worker" else {}
    with Framework(tmp_path, [paying(tmp_path, "plain")], **clock) as framework:
        if how == "worker":
            assert framework.work() == [("resumed", "r", "")]
        else:
            framework.placet.resume_sync("r")
        (settlement,) = framework.waiting()
        assert settlement.startswith("st_")
        assert framework.resumed == []
        framework.placet.settle_sync(settlement, by="ana", happened=False)
        framework.work()
        assert framework.resumed == ["r"]
    assert len(lines(tmp_path)) == 1


# --- across processes (G8) ----------------------------------------------------------------------


def first_of_two(place: str, begun: Event, go_on: Event) -> None:
    async def body(arguments: Mapping[str, Any], key: str) -> object:
        written(Path(place), "the first has begun")
        begun.set()
        await asyncio.to_thread(go_on.wait, 60)
        written(Path(place), "the first has ended")
        return "ok"

    done: list[str] = []
    tools = [effect(done, name, approval="never") for name in ("first", "second")]
    with Framework(Path(place), tools) as framework:
        framework.carry(Occurrence("r", 1, 0), body=body)


@pytest.mark.slow
@pytest.mark.promise("G8")
def test_the_second_effect_of_a_step_waits_for_the_first_in_another_process(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    looks: list[int] = []
    begun, go_on = _processes.Event(), _processes.Event()
    tools = [effect(done, name, approval="never") for name in ("first", "second")]

    async def body(arguments: Mapping[str, Any], key: str) -> object:
        written(tmp_path, "the second")
        return "ok"

    def looking() -> bool:
        looks.append(1)
        if len(looks) == 5:
            go_on.set()
        return True

    with Framework(tmp_path, tools) as framework:
        framework.begin()
        calls = (called("first", what="a"), called("second", what="b", id="call_1"))
        _, second = framework.propose(*calls)
        other = _processes.Process(target=first_of_two, args=(str(tmp_path), begun, go_on))
        other.start()
        assert begun.wait(60)
        framework.carry(second, body=body, wanted=looking)
        other.join(60)
    assert lines(tmp_path) == ["the first has begun", "the first has ended", "the second"]
