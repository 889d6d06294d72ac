"""What is decided about outcomes: retries, probes, lost attempts and settlements."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import events as e
from placet.core.commands import CancelRun, Lose, Probed
from placet.core.state import RetryDue, Settled
from placet.core.values import Recovery, idempotency_key
from placet.core.work import CallModel, Done, ExpireDue, Probe, Recover, Wait
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    BOB,
    DONE,
    HOUR,
    LOST,
    NOT_DONE,
    OTHER,
    PROBED,
    RAISED,
    World,
    approve,
    approved,
    asking,
    at,
    executing,
    names,
    settle,
    sound,
    unsettled,
    unsound,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


# --- outcomes and recovery (D4) ---------------------------------------------------------------


@pytest.mark.promise("D4")
def test_a_body_that_raised_may_have_acted_and_is_not_tried_again() -> None:
    world = executing()
    world.conclude(RAISED)
    assert world.code() == "tool_failed"
    assert "may have acted" in world.told()


@pytest.mark.promise("D4")
def test_an_idempotent_body_is_tried_again_under_the_same_key_after_a_pause() -> None:
    world = executing(recovery=AGAIN)
    world.conclude(RAISED)
    assert world.call().state == RetryDue(again_at=world.state.now + SECOND)
    world.lease()
    world.wait(SECOND)
    world.lease()
    begun = world.begin()[0]
    assert isinstance(begun, e.AttemptBegun)
    assert (begun.attempt, begun.request) == (2, None)
    assert begun.key == idempotency_key(world.call().digest)
    world.conclude(RAISED)
    assert world.code() == "tool_failed"


@pytest.mark.promise("D4")
def test_a_retry_waits_for_its_time() -> None:
    world = asking(ALLOW, ALLOW, recovery=AGAIN, surface="a")
    world.begin()
    command = world.beginning
    world.conclude(RAISED)
    assert isinstance(world.work(), Wait)
    world.wait(SECOND)
    world.lease()
    world.wait(-timedelta(microseconds=1))
    assert world.refused(command()) == "not_yet"


@pytest.mark.promise("D4", "D5")
def test_who_takes_a_call_for_left_ends_it_only_before_it_was_begun_or_asked_about() -> None:
    left = unsound(code="interrupted")
    retried = executing(recovery=AGAIN)
    retried.conclude(RAISED)
    retried.wait(SECOND)
    retried.lease()
    asked = approved()
    for world in (retried, asked):
        assert world.refused(world.beginning(today=left)) == "not_runnable"
    allowed = asking(ALLOW)
    allowed.begin(today=left)
    assert allowed.code() == "interrupted"


@pytest.mark.promise("D4")
def test_what_certainly_did_not_act_is_tried_again_though_it_is_not_idempotent() -> None:
    world = executing(recovery=Recovery(retries=1))
    world.conclude(NOT_DONE)
    world.wait(SECOND)
    world.lease()
    world.begin()
    world.conclude(NOT_DONE)
    assert world.code() == "tool_failed"
    assert "did not act" in world.told()


def not_made_after(first: Any) -> World:
    """Give a world in which an attempt ended so, and the next, and last, was not made."""
    world = executing(recovery=AGAIN)
    world.conclude(first)
    world.wait(SECOND)
    world.lease()
    world.begin()
    world.conclude(NOT_DONE)
    return world


@pytest.mark.promise("D4")
def test_an_earlier_attempt_that_may_have_acted_is_not_forgotten_in_what_is_told() -> None:
    world = not_made_after(RAISED)
    assert "may have acted" in world.told()


@pytest.mark.promise("D4")
def test_that_an_attempt_was_not_made_settles_nothing_of_one_that_was_lost() -> None:
    world = not_made_after(LOST)
    assert world.asked().kind == "settlement"


@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
def test_a_lost_idempotent_attempt_is_made_again_a_bounded_number_of_times_then_a_person() -> None:
    world = executing(recovery=AGAIN)
    keys = set()
    for _ in range(3):
        world.conclude(LOST)
        world.wait(MINUTE)
        world.lease()
        keys.add(getattr(world.begin()[0], "key", None))
    world.conclude(LOST)
    assert len(keys) == 1
    assert world.asked().kind == "settlement"


@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
def test_a_lost_attempt_that_cannot_be_repeated_is_put_to_a_person() -> None:
    world = executing()
    events = world.conclude(LOST)
    assert names(events) == ["AttemptLost", "RequestOpened", "LeaseReleased"]
    request = world.asked()
    assert request.kind == "settlement"
    assert request.needs.approvers == ("ann", "bob")
    assert request.deadline_at == world.state.now + 24 * HOUR
    assert world.refused(approve(request.id)) == "other_kind"


@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
@pytest.mark.parametrize(
    "happened, body_gone, then",
    [
        (True, False, "succeeded"),
        (False, True, "RetryDue"),
        (False, False, "Unsettled"),
        (None, True, "Unsettled"),
    ],
)
def test_a_probe_answers_and_only_a_dead_body_permits_another_attempt(
    happened: bool | None, body_gone: bool, then: str
) -> None:
    world = executing(recovery=PROBED)
    world.conclude(LOST)
    assert world.work() == Probe(at=at())
    fence = world.run().fence
    probed = Probed(
        at=at(), attempt=1, fence=fence, happened=happened, told="done", body_gone=body_gone
    )
    assert world.refused(replace(probed, fence=fence - 1)) == "stale_fence"
    assert world.apply(replace(probed, attempt=2)) == ()
    world.apply(probed)
    assert world.code() == then


@pytest.mark.promise("D4")
def test_what_a_probe_found_not_to_have_happened_is_not_begun_again_in_a_run_that_stops() -> None:
    world = executing(recovery=PROBED)
    world.conclude(LOST)
    world.apply(CancelRun(run="r1", by=ANN, cause=""))
    world.apply(Probed(at=at(), attempt=1, fence=world.run().fence, happened=False, body_gone=True))
    assert world.code() == "tool_failed"
    assert "did not act" in world.told()
    world = executing(recovery=PROBED)
    world.conclude(LOST)
    world.apply(Probed(at=at(), attempt=1, fence=world.run().fence, happened=False, body_gone=True))
    world.apply(CancelRun(run="r1", by=ANN, cause=""))
    assert world.code() == "tool_failed"
    assert world.work() == Done(stop="cancelled")


# --- who holds an attempt (D5) ----------------------------------------------------------------


@pytest.mark.promise("D5")
@pytest.mark.conformance(23, 20)
def test_an_attempt_whose_driver_is_gone_is_lost_and_its_late_word_refused() -> None:
    world = executing()
    late = world.concluding(DONE)
    assert world.refused(Lose(at=at(), attempt=1, fence=world.run().fence, cause="x")) == (
        "call_executing"
    )
    world.wait(2 * MINUTE)
    assert world.work() == Recover(at=at())
    world.lease(holder=OTHER)
    assert world.work() == Recover(at=at())
    assert world.apply(Lose(at=at(), attempt=2, fence=world.run().fence, cause="x")) == ()
    assert world.refused(Lose(at=at(), attempt=1, fence=1, cause="x")) == "stale_fence"
    world.apply(Lose(at=at(), attempt=1, fence=world.run().fence, cause="gone"))
    assert world.asked().kind == "settlement"
    assert world.refused(late) == "stale_attempt"


@pytest.mark.promise("D5")
def test_an_outcome_is_recorded_though_the_lease_has_passed_if_nobody_took_the_attempt() -> None:
    world = executing()
    late = world.concluding(DONE)
    world.wait(2 * MINUTE)
    world.lease(holder=OTHER)
    world.apply(late)
    assert world.code() == "succeeded"


@pytest.mark.promise("D5")
@pytest.mark.parametrize("field", ["fence", "attempt"])
def test_an_outcome_under_another_fence_or_attempt_is_refused(field: str) -> None:
    world = executing()
    wrong = getattr(world.concluding(DONE), field) + 1
    assert world.refused(world.concluding(DONE, **{field: wrong})) == "stale_attempt"


# --- settlements ------------------------------------------------------------------------------


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "happened, code", [(True, "succeeded"), (False, "interrupted"), (None, "outcome_unknown")]
)
def test_a_person_settles_what_became_of_an_attempt(happened: bool | None, code: str) -> None:
    world = unsettled()
    request = world.asked().id
    world.apply(settle(request, happened))
    assert world.code() == code
    assert isinstance(world.state.requests[request].state, Settled)
    assert world.apply(settle(request, happened)) == ()
    assert world.refused(settle(request, happened, BOB)) == "already_settled"
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("D4", "G10")
def test_a_settlement_has_its_own_rules() -> None:
    world = unsettled()
    request = world.asked().id
    assert world.refused(settle(request, True, detail="")) == "no_result"
    assert world.refused(settle(request, True, eligible=frozenset())) == "not_an_approver"
    assert world.refused(settle(request, True, digest="0" * 64)) == "digest_mismatch"
    gated = asking()
    assert gated.refused(settle(gated.asked().id, True)) == "other_kind"


@pytest.mark.promise("D4")
def test_an_outcome_that_nobody_settles_ends_its_run_and_its_surface_stays_closed() -> None:
    world = unsettled()
    request = world.asked()
    world.until(request.deadline_at)
    assert world.work() == ExpireDue()
    assert names(world.expire()) == ["SettlementLapsed", "CallEnded", "RunStopping", "RunEnded"]
    assert world.work() == Done(stop="outcome_unknown")
    assert world.code() == "outcome_unknown"
    assert world.expire() == ()
    world.start("r2")
    world.propose(
        sound(0, run="r2", ruling=ALLOW), sound(1, run="r2", ruling=ALLOW, surface="b"), run="r2"
    )
    assert world.refused(world.beginning(0, run="r2")) == "held"
    assert names(world.begin(1, run="r2")) == ["AttemptBegun"]
    world.conclude(DONE, 1, run="r2")
    assert world.work("r2") == Wait(until=None, held_by=(request.id,))
    world.apply(settle(request.id, False))
    world.lease("r2")
    assert names(world.begin(0, run="r2")) == ["AttemptBegun"]


@pytest.mark.promise("D4", "G6")
def test_cancelling_a_run_carries_what_has_begun_to_its_outcome() -> None:
    world = executing()
    assert names(world.apply(CancelRun(run="r1", by=ANN, cause="enough"))) == ["RunStopping"]
    assert world.code() == "Executing"
    events = world.conclude(DONE)
    assert names(events) == ["CallEnded", "RunEnded"]
    assert (world.code(), world.work()) == ("succeeded", Done(stop="cancelled"))


@pytest.mark.promise("D4")
def test_an_outcome_lost_in_a_run_that_stops_lapses_at_once() -> None:
    world = executing()
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    assert "SettlementLapsed" in names(world.conclude(LOST))
    assert world.code() == "outcome_unknown"
    assert world.work() == Done(stop="cancelled")


@pytest.mark.promise("D4")
def test_recovery_of_an_idempotent_effect_goes_on_though_its_run_stops() -> None:
    world = executing(recovery=AGAIN)
    world.conclude(LOST)
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    assert world.code() == "RetryDue"
    world.wait(SECOND)
    world.lease()
    world.begin()
    world.conclude(DONE)
    assert (world.code(), world.work()) == ("succeeded", Done(stop="cancelled"))


@pytest.mark.promise("D4")
def test_who_settles_again_in_other_words_is_told_that_the_first_ones_stand() -> None:
    world = unsettled()
    request = world.asked().id
    world.apply(settle(request, True, detail="paid 5"))
    assert world.refused(settle(request, True, detail="paid 500")) == "already_settled"
    assert world.apply(settle(request, True, detail="paid 5")) == ()
