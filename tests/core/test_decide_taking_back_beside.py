"""What goes on beside a call that is taken back: its run's end, other effects, and the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import commands as c
from placet.core.commands import CancelRun, Lose
from placet.core.values import Deny, Recovery
from placet.core.work import Done, Recover, TakeBack, Wait, next_work, wake_at
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    COMPENSATED,
    DONE,
    LOST,
    NOT_DONE,
    OTHER,
    RAISED,
    SAFE,
    SAFE_AGAIN,
    World,
    approve,
    asking,
    at,
    due,
    executing,
    failed,
    later,
    names,
    sound,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
AGAIN_THEN_BACK = replace(AGAIN, compensation=SAFE)
TRIED_BACK = Recovery(compensation=SAFE_AGAIN)

pytestmark = pytest.mark.promise("D8")


@pytest.mark.parametrize("when", ["before", "due", "taking back"])
def test_a_run_that_stops_still_takes_back_and_then_ends(when: str) -> None:
    cancel = CancelRun(run="r1", by=ANN, cause="enough")
    world = executing(recovery=TRIED_BACK)
    if when == "before":
        world.apply(cancel)
    world.conclude(RAISED)
    if when == "due":
        world.apply(cancel)
    world.take_back()
    if when == "taking back":
        world.apply(cancel)
    world.conclude(RAISED)
    assert due(world) == "compensate"
    later(world).take_back()
    world.conclude(DONE)
    assert (world.code(), world.work()) == ("tool_failed_and_compensated", Done(stop="cancelled"))


def test_a_retry_that_a_cancelled_run_gives_up_is_taken_back() -> None:
    world = executing(recovery=AGAIN_THEN_BACK)
    world.conclude(RAISED)
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    assert due(world) == "compensate"
    world.lease()
    world.take_back()
    world.conclude(DONE)
    assert world.work() == Done(stop="cancelled")


def test_a_retry_of_what_certainly_did_not_act_is_given_up_and_not_taken_back() -> None:
    world = executing(recovery=replace(AGAIN_THEN_BACK, retries=2))
    world.conclude(NOT_DONE)
    later(world).begin()
    world.conclude(NOT_DONE)
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    assert (world.code(), "did not act" in world.told()) == ("tool_failed", True)


@pytest.mark.promise("D4")
def test_a_retry_after_a_body_that_may_act_yet_goes_on_in_a_cancelled_run() -> None:
    world = executing(recovery=replace(AGAIN_THEN_BACK, retries=2))
    world.conclude(LOST)
    later(world).begin()
    world.conclude(RAISED)
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    assert world.code() == "RetryDue"
    later(world).begin()
    world.conclude(RAISED)
    assert (world.code(), world.work()) == ("outcome_unknown", Done(stop="cancelled"))


def test_a_compensation_that_fails_in_a_run_that_stops_ends_it_and_its_question_remains() -> None:
    world = failed()
    world.take_back()
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    assert "SettlementLapsed" in names(world.conclude(RAISED))
    assert (world.code(), world.work()) == ("outcome_unknown", Done(stop="cancelled"))


@pytest.mark.promise("G3")
@pytest.mark.parametrize("outcome, then", [(RAISED, "compensate"), (LOST, "Unsettled")])
def test_a_retry_that_may_not_be_made_any_more_is_taken_back(
    outcome: c.Failed | c.Unknown, then: str
) -> None:
    world = executing(recovery=AGAIN_THEN_BACK)
    world.conclude(outcome)
    later(world).begin(today=sound(ruling=Deny(rule="never", reason="no")))
    assert due(world) == then


@pytest.mark.promise("G8")
def test_another_effect_on_the_surface_is_held_until_it_is_taken_back() -> None:
    world = asking(ALLOW, ALLOW, recovery=TRIED_BACK)
    world.begin()
    world.conclude(RAISED)
    assert world.refused(world.beginning(1)) == "held"
    world.take_back()
    assert world.refused(world.beginning(1)) == "held"
    world.conclude(RAISED)
    assert isinstance(world.work(), Wait)
    later(world)
    assert world.refused(world.beginning(1)) == "held"
    world.take_back()
    world.conclude(DONE)
    assert names(world.begin(1)) == ["AttemptBegun"]


@pytest.mark.promise("G8")
def test_nobody_is_asked_whether_to_take_back_and_no_request_holds_it() -> None:
    world = World()
    world.start()
    world.propose(sound(ruling=ALLOW, recovery=COMPENSATED))
    world.begin()
    world.conclude(RAISED)
    other = failed()
    assert names(other.take_back()) == ["AttemptBegun"]
    both = asking(ALLOW, ALLOW, recovery=TRIED_BACK, surface="a")
    both.begin()
    both.conclude(RAISED)
    assert both.work() == TakeBack(at=at())


@pytest.mark.promise("G13")
def test_taking_back_counts_on_its_surface_and_is_known_to_those_asked_in_its_step() -> None:
    world = World()
    world.start()
    world.propose(sound(0, recovery=COMPENSATED), sound(1))
    for index in (0, 1):
        world.apply(approve(world.asked(index).id))
    world.lease()
    world.begin(0)
    world.conclude(RAISED)
    generation = world.state.generation("payments")
    world.take_back()
    assert world.state.generation("payments") == generation + 1
    world.conclude(DONE)
    assert names(world.begin(1)) == ["AttemptBegun"]


def test_a_run_that_rests_is_looked_at_again_when_it_is_time_to_take_back() -> None:
    world = failed(TRIED_BACK)
    world.take_back()
    world.conclude(RAISED)
    again_at = world.state.now + SECOND
    assert world.work() == Wait(until=again_at)
    assert wake_at(world.state, world.run()) == again_at
    world.wait(SECOND)
    assert wake_at(world.state, world.run()) == world.state.now


@pytest.mark.promise("D5")
def test_a_hosted_run_is_taken_back_without_its_framework() -> None:
    world = World()
    world.start(kind="hosted", holder=None)
    world.propose(sound(ruling=ALLOW, recovery=TRIED_BACK))
    world.begin()
    world.conclude(RAISED)
    assert next_work(world.state, "r1") == TakeBack(at=at())
    assert names(world.take_back(holder=OTHER)) == ["AttemptBegun"]
    world.wait(2 * timedelta(minutes=5))
    assert world.work() == Recover(at=at())
    world.apply(Lose(at=at(), attempt=2, fence=None, cause="gone"))
    world.wait(SECOND)
    assert world.work() == TakeBack(at=at())
    world.take_back()
    world.conclude(DONE)
    assert world.code() == "tool_failed_and_compensated"
