"""What is decided about taking back what a call may have done (D8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.commands import Lose, Probed
from placet.core.state import UndoDue
from placet.core.values import Holder, Recovery, Undoing, idempotency_key
from placet.core.work import CallModel, Done, Probe, Recover, TakeBack
from tests.core.build import (
    AGAIN,
    ALLOW,
    COMPENSATED,
    DONE,
    ENDED,
    HOLDER,
    LOST,
    MICROSECOND,
    NOT_DONE,
    OTHER,
    RAISED,
    ROLL_BACK,
    SAFE,
    SAFE_AGAIN,
    World,
    asking,
    at,
    due,
    executing,
    failed,
    later,
    names,
    settle,
    sound,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
BOTH = Recovery(roll_back=ROLL_BACK, compensation=SAFE)
AGAIN_THEN_BACK = replace(AGAIN, compensation=SAFE)
TRIED_BACK = Recovery(compensation=SAFE_AGAIN)
HARMFUL = Recovery(compensation=Undoing(safe_if_absent=False))

pytestmark = pytest.mark.promise("D8")


def snapped(recovery: Recovery = BOTH, outcome: c.Failed | c.Unknown = RAISED) -> World:
    """Give a world whose call was begun with a snapshot, and failed."""
    world = asking(ALLOW, recovery=recovery)
    world.begin(snapshot="as it was")
    world.conclude(outcome)
    return world


# --- in which order ---------------------------------------------------------------------------


def test_another_attempt_comes_before_any_way_back() -> None:
    world = executing(recovery=AGAIN_THEN_BACK)
    world.conclude(RAISED)
    assert world.code() == "RetryDue"
    later(world).begin()
    assert names(world.conclude(RAISED)) == ["CallUndoing"]
    assert world.work() == TakeBack(at=at())


@pytest.mark.promise("D4")
def test_a_probe_comes_before_any_way_back() -> None:
    world = executing(recovery=replace(COMPENSATED, probe=True))
    world.conclude(ENDED)
    assert world.work() == Probe(at=at())
    fence = world.run().fence
    world.apply(Probed(at=at(), attempt=1, fence=fence, happened=None))
    assert due(world) == "compensate"


def test_a_roll_back_comes_before_a_compensation_and_a_compensation_before_a_person() -> None:
    world = snapped()
    assert due(world) == "roll_back"
    for _ in range(2):
        later(world).take_back()
        world.conclude(RAISED)
    assert due(world) == "compensate"
    later(world).take_back()
    world.conclude(RAISED)
    assert world.asked().kind == "settlement"


def test_there_is_no_roll_back_without_a_snapshot() -> None:
    assert due(failed(BOTH)) == "compensate"
    assert due(failed(Recovery(roll_back=ROLL_BACK))) == "tool_failed"


def test_what_declares_no_way_back_has_failed() -> None:
    assert due(failed(Recovery())) == "tool_failed"


def test_a_compensation_that_may_do_harm_is_not_used_where_nobody_knows() -> None:
    assert due(failed(HARMFUL)) == "tool_failed"
    world = executing(recovery=HARMFUL)
    world.conclude(ENDED)
    assert world.asked().kind == "settlement"
    world = snapped(replace(HARMFUL, roll_back=Undoing(safe_if_absent=True)))
    world.take_back()
    world.conclude(RAISED)
    assert world.asked().kind == "settlement"


def test_what_certainly_did_not_act_is_not_taken_back() -> None:
    world = executing(recovery=COMPENSATED)
    world.conclude(NOT_DONE)
    assert (due(world), "did not act" in world.told()) == ("tool_failed", True)


def test_what_a_probe_and_a_dead_process_show_not_to_have_happened_is_not_taken_back() -> None:
    world = executing(recovery=replace(COMPENSATED, probe=True))
    for attempt in range(1, 5):
        world.conclude(LOST)
        fence = world.run().fence
        probed = Probed(at=at(), attempt=attempt, fence=fence, happened=False, body_gone=True)
        world.apply(probed)
        if attempt < 4:
            later(world).begin()
    assert (due(world), "did not act" in world.told()) == ("tool_failed", True)


def test_an_attempt_that_may_have_acted_is_taken_back_though_a_later_one_did_not() -> None:
    world = executing(recovery=AGAIN_THEN_BACK)
    world.conclude(RAISED)
    later(world).begin()
    world.conclude(NOT_DONE)
    assert due(world) == "compensate"


# --- only once its body is over -----------------------------------------------------------------


@pytest.mark.promise("D4")
@pytest.mark.parametrize("outcome, then", [(ENDED, "compensate"), (LOST, "Unsettled")])
def test_an_unknown_outcome_is_taken_back_only_where_its_body_is_over(
    outcome: c.Unknown, then: str
) -> None:
    world = executing(recovery=COMPENSATED)
    world.conclude(outcome)
    assert due(world) == then


@pytest.mark.promise("D4", "D5")
@pytest.mark.parametrize("gone, then", [(HOLDER, "compensate"), (None, "Unsettled")])
def test_a_lease_that_merely_ran_out_does_not_say_that_its_body_is_over(
    gone: Holder | None, then: str
) -> None:
    world = executing(recovery=COMPENSATED)
    world.wait(2 * MINUTE)
    world.lease(holder=OTHER)
    world.apply(Lose(at=at(), attempt=1, fence=world.run().fence, cause="gone", gone=gone))
    assert due(world) == then


@pytest.mark.promise("D4")
@pytest.mark.parametrize("last", [RAISED, ENDED, NOT_DONE])
def test_a_body_that_an_earlier_attempt_left_behind_keeps_a_call_from_being_taken_back(
    last: c.Failed | c.Unknown,
) -> None:
    world = executing(recovery=AGAIN_THEN_BACK)
    world.conclude(LOST)
    for _ in range(3):
        later(world).begin()
        world.conclude(last)
        if world.code() != "RetryDue":
            break
    assert world.asked().kind == "settlement"


@pytest.mark.promise("D4")
def test_earlier_attempts_whose_bodies_are_over_do_not_keep_it() -> None:
    world = executing(recovery=AGAIN_THEN_BACK)
    world.conclude(ENDED)
    later(world).begin()
    world.conclude(RAISED)
    assert due(world) == "compensate"


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "outcome, gone, then",
    [
        (LOST, False, "Unsettled"),
        (LOST, True, "compensate"),
        (ENDED, False, "compensate"),
    ],
)
def test_after_a_probe_that_cannot_tell_it_is_taken_back_where_its_body_is_over(
    outcome: c.Unknown, gone: bool, then: str
) -> None:
    world = executing(recovery=replace(COMPENSATED, probe=True))
    world.conclude(outcome)
    fence = world.run().fence
    world.apply(Probed(at=at(), attempt=1, fence=fence, happened=None, body_gone=gone))
    assert due(world) == then


# --- attempts like any other ---------------------------------------------------------------------


def test_taking_back_has_a_key_of_its_own_and_it_stays_the_same() -> None:
    world = failed(TRIED_BACK)
    keys = []
    for _ in range(2):
        begun = later(world).take_back(holder=OTHER)[0]
        assert isinstance(begun, e.AttemptBegun)
        assert (begun.purpose, begun.request) == ("compensate", None)
        keys.append(begun.key)
        world.conclude(RAISED)
    assert len(set(keys)) == 1
    assert keys[0] != idempotency_key(world.call().digest)


def test_a_roll_back_and_a_compensation_have_different_keys() -> None:
    world = snapped(replace(BOTH, roll_back=SAFE))
    first = world.take_back()[0]
    world.conclude(RAISED)
    second = world.take_back()[0]
    assert isinstance(first, e.AttemptBegun)
    assert isinstance(second, e.AttemptBegun)
    assert (first.purpose, second.purpose) == ("roll_back", "compensate")
    assert first.key != second.key


def test_it_has_the_time_limit_that_it_declares() -> None:
    world = failed(Recovery(compensation=replace(SAFE, time_limit=SECOND)))
    begun = world.take_back()[0]
    assert isinstance(begun, e.AttemptBegun)
    assert begun.until == world.state.now + SECOND + timedelta(seconds=30)


@pytest.mark.parametrize(
    "world, code",
    [
        (failed, "tool_failed_and_compensated"),
        (snapped, "tool_failed_and_rolled_back"),
    ],
)
def test_a_call_that_was_taken_back_is_answered_and_the_run_goes_on(
    world: Callable[[], World], code: str
) -> None:
    made = world()
    made.take_back()
    made.conclude(DONE)
    assert (made.code(), made.work()) == (code, CallModel(step=2))


@pytest.mark.promise("G6")
def test_a_call_that_is_taken_back_again_and_again_stops_its_run() -> None:
    world = World()
    world.start()
    for step in range(1, 4):
        same = sound(step=step, ruling=ALLOW, recovery=COMPENSATED, arguments={"amount": 1})
        world.propose(same)
        world.begin(step=step)
        world.conclude(RAISED, step=step)
        world.take_back(step=step)
        world.conclude(DONE, step=step)
    assert world.work() == Done(stop="failed")


def test_what_fails_while_it_takes_back_is_tried_again_as_it_declares_and_then_a_person() -> None:
    world = failed(TRIED_BACK)
    world.take_back()
    world.conclude(RAISED)
    assert world.call().state == UndoDue(how="compensate", again_at=world.state.now + SECOND)
    later(world).take_back()
    world.conclude(RAISED)
    assert world.asked().kind == "settlement"
    assert world.call().attempts == 3


def test_what_certainly_did_not_take_back_may_try_again_though_it_is_not_idempotent() -> None:
    world = failed(Recovery(compensation=replace(SAFE, retries=1)))
    world.take_back()
    world.conclude(NOT_DONE)
    assert due(world) == "compensate"
    later(world).take_back()
    world.conclude(RAISED)
    assert world.asked().kind == "settlement"


@pytest.mark.parametrize("outcome", [LOST, ENDED])
def test_what_is_lost_while_it_takes_back_is_made_again_only_where_it_is_idempotent(
    outcome: c.Unknown,
) -> None:
    world = failed(TRIED_BACK)
    for _ in range(3):
        later(world).take_back()
        world.conclude(outcome)
        assert due(world) == "compensate"
    later(world).take_back()
    world.conclude(outcome)
    assert world.asked().kind == "settlement"
    once = failed()
    once.take_back()
    once.conclude(outcome)
    assert once.asked().kind == "settlement"


@pytest.mark.parametrize("outcome, then", [(ENDED, "roll_back"), (LOST, "Unsettled")])
def test_a_roll_back_is_made_again_only_where_the_last_one_is_over(
    outcome: c.Unknown, then: str
) -> None:
    world = snapped()
    world.take_back()
    world.conclude(outcome)
    assert due(world) == then


@pytest.mark.promise("D5")
def test_a_driver_that_dies_while_it_takes_back_is_recovered_from() -> None:
    world = failed(TRIED_BACK)
    world.take_back()
    late = world.concluding(DONE)
    world.wait(2 * MINUTE)
    assert world.work() == Recover(at=at())
    world.lease(holder=OTHER)
    world.apply(Lose(at=at(), attempt=2, fence=world.run().fence, cause="gone"))
    assert due(world) == "compensate"
    assert world.refused(late) == "stale_attempt"


@pytest.mark.promise("D4")
def test_a_person_says_what_became_of_what_could_not_be_taken_back() -> None:
    for happened, code in ((True, "succeeded"), (False, "interrupted"), (None, "outcome_unknown")):
        world = failed()
        world.take_back()
        assert names(world.conclude(RAISED)) == ["AttemptLost", "RequestOpened", "LeaseReleased"]
        world.apply(settle(world.asked().id, happened))
        assert (world.code(), world.work()) == (code, CallModel(step=2))


# --- the command ---------------------------------------------------------------------------------


def test_to_take_back_twice_is_refused_while_it_is_under_way_and_nothing_afterwards() -> None:
    world = failed()
    command = world.taking_back()
    world.apply(command)
    assert world.refused(command) == "call_executing"
    world.conclude(DONE)
    assert world.apply(command) == ()


def test_what_is_not_to_be_taken_back_is_not() -> None:
    assert asking(ALLOW).take_back() == ()
    assert asking().take_back() == ()


@pytest.mark.promise("D5")
def test_only_the_driver_of_the_run_takes_back() -> None:
    world = failed()
    fence = world.run().fence
    assert world.refused(world.taking_back(fence=fence - 1)) == "stale_fence"
    assert world.refused(world.taking_back(fence=None)) == "stale_fence"
    world.wait(2 * MINUTE)
    assert world.refused(world.taking_back()) == "stale_fence"


def test_it_is_not_taken_back_before_its_time() -> None:
    world = failed(TRIED_BACK)
    world.take_back()
    world.conclude(RAISED)
    world.wait(SECOND)
    world.lease()
    world.wait(-MICROSECOND)
    assert world.refused(world.taking_back()) == "not_yet"
    world.wait(MICROSECOND)
    assert names(world.take_back()) == ["AttemptBegun"]


@pytest.mark.promise("G3")
def test_what_is_stored_must_be_what_was_ruled_on() -> None:
    world = failed()
    assert world.refused(world.taking_back(digest="0" * 64)) == "digest_mismatch"


def test_a_call_that_is_to_be_taken_back_is_not_begun() -> None:
    world = failed()
    assert world.refused(world.beginning()) == "not_runnable"
