"""A driver that stands still past its lease, and goes on when another has carried its run on (D5).

A real process is stopped (SIGSTOP) at one point of a payment; its lease and its attempt pass, by
the clock that all share; another driver takes over; then the first is let go on (SIGCONT). What it
writes is refused, it enters no body that it had not entered, and the payment is made at most once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placet import PlacetError
from placet.core.state import Executing
from placet.runtime.attempts import STALE_AFTER
from placet.runtime.hosting import Answered, Waiting
from placet.runtime.processes import awake
from tests.runtime.desk import Desk
from tests.runtime.hosts import Framework, called
from tests.runtime.life_stopped import (
    AMOUNT,
    FIRST,
    KINDS,
    Kind,
    Point,
    Stop,
    clock_of,
    entered,
    lines,
    paid,
    payer,
    payment,
)
from tests.tidy import ROOT

#: Longer than a lease, and than an attempt is taken to be alive.
LONG = 600.0

PATIENCE_SECONDS = 60


@dataclass(slots=True)
class Stopped:
    """A process that stands still."""

    process: subprocess.Popen[bytes]
    place: Path
    since: float = 0.0

    def stands_still(self) -> None:
        """Wait until it stands still."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended ({status}) and never stood still"
        self.since = awake()

    def let_go(self) -> None:
        """Let it go on, once it has stood still for so long that it looks again."""
        time.sleep(max(0.0, self.since + 1.1 * STALE_AFTER.total_seconds() - awake()))
        self.process.send_signal(signal.SIGCONT)

    def goes_on(self) -> str:
        """Let it go on to its end; give what it says that came of it."""
        self.let_go()
        assert self.process.wait(timeout=PATIENCE_SECONDS) == 0
        return (self.place / "end").read_text()

    @property
    def refused(self) -> list[str]:
        """What its writes were refused with."""
        return lines(self.place / "refused")


@contextmanager
def stopped(place: Path, kind: Kind, point: Point, *, how: str = "driven") -> Iterator[Stopped]:
    """Start a process that pays, and wait until it stands still at a point."""
    program = "from tests.runtime.life_stopped import main; main()"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(place), kind, point, how],
        env={**os.environ, "PYTHONPATH": paths},
    )
    found = Stopped(process=process, place=place)
    try:
        found.stands_still()
        if point == "second look":
            found.let_go()
            found.stands_still()
        yield found
    finally:
        process.kill()
        process.wait()


def opened(place: Path, kind: Kind) -> Desk:
    return Desk(place, agent=payer(place, kind, Stop()), clock=clock_of(place))


def passes(place: Path, seconds: float) -> None:
    """Let time pass, for every process of a life."""
    (place / "ahead").write_text(str(seconds))


def approved(place: Path, kind: Kind) -> None:
    """Begin a run whose payment is approved, and not begun."""
    with opened(place, kind) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")


def held_by_the_living(desk: Desk) -> None:
    """Hold that nobody takes a run over from a process that may yet live and has its lease."""
    with pytest.raises(PlacetError, match="drives this run"):
        desk.resume()


def carried_on(desk: Desk, *, settles: bool = True) -> Any:
    """Carry the run on as another driver, and people who look into the ledger, would."""
    place = desk.store.files()[0].parent
    for _ in range(10):
        result = desk.resume()
        if result.stop != "approval_required":
            return result
        for request in result.waiting:
            if desk.show(request).kind == "approval":
                desk.decide(request, "approve")
            elif settles:
                happened = bool(paid(place))
                detail = f"paid {AMOUNT}" if happened else "it is not in the ledger"
                settle = desk.placet.settle_sync
                settle(request, by="ana", happened=happened, detail=detail)
            else:
                return result
    raise AssertionError("it does not end")


def some_are_fast(*fast: tuple[Point, Kind], points: tuple[Point, ...]) -> pytest.MarkDecorator:
    """Make every point meet every kind, most of them in slow tests."""
    pairs = [(point, kind) for point in points for kind in KINDS]
    slow = pytest.mark.slow
    made = [pytest.param(*pair, marks=() if pair in fast else slow) for pair in pairs]
    return pytest.mark.parametrize("point, kind", made)


@pytest.mark.promise("D4", "D5", "G7")
@some_are_fast(("intent", "plain"), points=("intent", "second look"))
@pytest.mark.slow
def test_a_driver_that_stood_still_before_the_body_never_enters_it(
    tmp_path: Path, point: Point, kind: Kind
) -> None:
    """So a person who finds that nothing happened is right, and what is paid anew is paid once."""
    approved(tmp_path, kind)
    with stopped(tmp_path, kind, point) as old, opened(tmp_path, kind) as desk:
        held_by_the_living(desk)
        passes(tmp_path, LONG)
        assert carried_on(desk).stop == "final"
        log = desk.log()
        assert old.goes_on() == "final"
        assert entered(tmp_path) == [os.getpid()]
        assert len(paid(tmp_path)) == 1
        assert desk.log() == log, "it has written nothing"
        asked = desk.kinds().count("RequestOpened")
        assert asked == (1 if kind == "idempotent" else 3), "a settlement, and the second proposal"


@pytest.mark.slow
@pytest.mark.promise("D4", "D5")
def test_an_attempt_that_nobody_took_over_is_too_old_all_the_same(tmp_path: Path) -> None:
    approved(tmp_path, "plain")
    with stopped(tmp_path, "plain", "intent") as old, opened(tmp_path, "plain") as desk:
        passes(tmp_path, LONG)
        assert old.goes_on() == "approval_required", "it takes its own attempt for lost"
        assert entered(tmp_path) == []
        assert carried_on(desk).stop == "final"
        assert entered(tmp_path) == [os.getpid()]
        assert len(paid(tmp_path)) == 1


@pytest.mark.promise("D4", "D5", "G7")
@some_are_fast(("body", "idempotent"), points=("body", "acted"))
@pytest.mark.slow
def test_a_driver_that_stood_still_in_the_body_pays_once_and_its_outcome_is_refused(
    tmp_path: Path, point: Point, kind: Kind
) -> None:
    approved(tmp_path, kind)
    with stopped(tmp_path, kind, point) as old, opened(tmp_path, kind) as desk:
        held_by_the_living(desk)
        passes(tmp_path, LONG)
        others = carried_on(desk, settles=False)
        known = kind == "idempotent" or (kind, point) == ("probed", "acted")
        assert others.stop == ("final" if known else "approval_required")
        log = desk.log()
        assert old.goes_on() == others.stop
        assert old.refused == ["Conclude stale_attempt"]
        assert desk.log() == log, "it has written nothing"
        assert len(paid(tmp_path)) == 1
        assert carried_on(desk).stop == "final"
        assert len(paid(tmp_path)) == 1, "nothing is done again, and nothing is voided"
        assert entered(tmp_path)[1:] == ([os.getpid()] if kind == "idempotent" else [])
        assert desk.kinds().count("RequestOpened") == (1 if known else 2)


@pytest.mark.slow
@pytest.mark.promise("D5", "G7")
@pytest.mark.parametrize("point", ["model", "other model"])
@pytest.mark.parametrize("asks", [False, True])
def test_a_driver_that_stood_still_with_its_models_turn_proposes_nothing_more(
    tmp_path: Path, point: Point, asks: bool
) -> None:
    """What it would propose is known by then, or is refused; the other's turn stands."""
    with stopped(tmp_path, "plain", point) as old, opened(tmp_path, "plain") as desk:
        held_by_the_living(desk)
        passes(tmp_path, LONG)
        before = desk.resume() if asks else carried_on(desk)
        log = desk.log()
        ended = old.goes_on()
        refused = [] if point == "model" else ["Propose call_changed"]
        assert old.refused == refused
        assert ended == (before.stop if point == "model" else "call_changed")
        assert desk.log() == log, "it has written nothing"
        assert carried_on(desk).stop == "final"
        assert lines(tmp_path / "ledger") == [f"{paid(tmp_path)[0]} {AMOUNT}"]
        assert desk.kinds().count("RequestOpened") == 1


# --- hosted actions, whose lease is each one's own ---------------------------------------------


def framework(place: Path, kind: Kind) -> Framework:
    return Framework(place, [payment(place, kind, Stop())], clock=clock_of(place))


@pytest.mark.promise("D4", "D5", "G7")
@some_are_fast(("intent", "plain"), points=("intent", "second look", "body", "acted"))
@pytest.mark.slow
def test_a_framework_that_stood_still_in_a_hosted_action_is_bound_alike(
    tmp_path: Path, point: Point, kind: Kind
) -> None:
    with framework(tmp_path, kind) as other:
        other.begin("run_1")
        assert other.propose(called("pay", amount=AMOUNT), run="run_1") == (FIRST,)
        other.decide(other.waiting()[0])
    with stopped(tmp_path, kind, point, how="hosted") as old, framework(tmp_path, kind) as other:
        (call,) = other.state(steps=(("run_1", 1),)).calls.values()
        assert isinstance(call.state, Executing)
        assert call.state.holder.pid == old.process.pid
        passes(tmp_path, LONG)
        found = other.carry(FIRST)
        before = point in ("intent", "second look")
        known = kind == "idempotent" or (kind, point) == ("probed", "acted")
        if not known:
            assert isinstance(found, Waiting)
            (settlement,) = found.requests
        if before and not known:
            other.placet.settle_sync(settlement, by="ana", happened=False)
            found = other.carry(FIRST)
            assert isinstance(found, Answered)
            assert found.code == "interrupted"
            call_again = called("pay", amount=AMOUNT, id="call_1")
            (again,) = other.propose(call_again, run="run_1", reference="two")
            other.decide(other.waiting()[0])
            assert other.carry(again) == Answered(code="succeeded", told=f"paid {AMOUNT}")
        ended = old.goes_on()
        assert ended == str(found), "it is told what is on record"
        assert len(paid(tmp_path)) == 1
        if before:
            assert old.process.pid not in entered(tmp_path)
        else:
            assert old.refused == ["Conclude stale_attempt"]
        if not before and not known:
            other.placet.settle_sync(settlement, by="ana", happened=True, detail="it is there")
            assert isinstance(other.carry(FIRST), Answered)
        assert len(paid(tmp_path)) == 1
