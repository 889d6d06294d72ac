"""What is decided about runs and steps: leases, child runs, remembered noes, endings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import commands, wording
from placet.core.commands import (
    MOST_WAITING,
    CancelRun,
    FinishRun,
    RecordReads,
    ReleaseLease,
    RenewLease,
    TakeLease,
)
from placet.core.state import Executing, Resting, RunOver, Working
from placet.core.work import CallModel, Done, Finish, Recover, wake_at
from tests.core.build import (
    ALLOW,
    ANN,
    ASK,
    BOB,
    DENY,
    DONE,
    HOLDER,
    OTHER,
    World,
    approve,
    approved,
    asking,
    at,
    edit,
    executing,
    names,
    reject,
    sound,
    start,
    unsound,
)

MINUTE = timedelta(minutes=1)


def started(**changes: Any) -> World:
    """Give a world whose run has begun."""
    world = World()
    world.start(**changes)
    return world


# --- leases (D5) ------------------------------------------------------------------------------


@pytest.mark.promise("D5")
def test_one_process_drives_a_run_and_another_waits_for_its_lease_to_end() -> None:
    world = started()
    assert world.refused(TakeLease(run="r1", holder=OTHER)) == "run_driven"
    world.wait(MINUTE - timedelta(microseconds=1))
    assert world.refused(TakeLease(run="r1", holder=OTHER)) == "run_driven"
    world.wait(timedelta(microseconds=1))
    world.lease(holder=OTHER)
    assert world.run().fence == 2


def world_lease(world: World) -> TakeLease:

    return TakeLease(run="r1", holder=OTHER)


@pytest.mark.promise("D5")
def test_the_lease_of_a_process_that_is_gone_passes_at_once() -> None:
    world = started()
    world.lease(holder=OTHER, gone=HOLDER)
    state = world.run().state
    assert isinstance(state, Working)
    assert state.holder == OTHER


@pytest.mark.promise("D5")
@pytest.mark.conformance(23)
def test_a_stale_fence_is_refused_whatever_it_asks() -> None:
    world = asking(ALLOW)
    begin = world.beginning()
    propose = world.proposal(sound(step=2))
    world.lease(holder=OTHER, gone=HOLDER)
    reads = RecordReads(run="r1", step=1, fence=1, results=())
    for command in (
        begin,
        propose,
        reads,
        RenewLease(run="r1", fence=1),
        ReleaseLease(run="r1", fence=1),
        FinishRun(run="r1", fence=1, stop="final"),
    ):
        assert world.refused(command) == "stale_fence"


@pytest.mark.promise("D1", "D5")
def test_nothing_is_leased_where_there_is_nothing_to_do() -> None:
    world = asking()
    assert world.lease() == ()
    assert world.run().state == Resting()


@pytest.mark.promise("D5")
def test_a_lease_is_renewed_and_released_to_rest_until_later() -> None:
    world = started()
    world.wait(MINUTE / 2)
    world.apply(RenewLease(run="r1", fence=1))
    assert wake_at(world.state, world.run()) == world.state.now + MINUTE
    world.apply(ReleaseLease(run="r1", fence=1, pause=MINUTE, cause="the model is down"))
    assert wake_at(world.state, world.run()) == world.state.now + MINUTE
    assert world.apply(ReleaseLease(run="r1", fence=1)) == ()


@pytest.mark.promise("D5", "D2")
def test_a_released_lease_leaves_what_was_begun_to_recovery() -> None:
    world = executing()
    world.apply(ReleaseLease(run="r1", fence=world.run().fence))
    assert world.work() == Recover(at=at())


# --- starts -----------------------------------------------------------------------------------


def test_starting_a_run_twice_is_the_same_answer_and_its_id_stands_for_one_run() -> None:
    world = started()
    assert world.apply(start()) == ()
    assert world.refused(start(agent="another")) == "run_exists"


def test_a_message_to_a_session_whose_run_waits_is_refused_or_supersedes_it() -> None:
    world = asking(ASK, ASK)
    request = world.asked().id
    assert world.refused(start("r2")) == "run_waiting"
    events = world.apply(start("r2", supersede=True))
    assert names(events)[-3:] == ["RunEnded", "RunStarted", "LeaseTaken"]
    assert (world.code(0), world.code(1)) == ("superseded", "superseded")
    assert world.work() == Done(stop="superseded")
    assert world.refused(approve(request)) == "superseded"
    assert "newer message" in world.told()


def test_a_run_under_way_is_not_superseded() -> None:
    world = started()
    assert world.refused(start("r2", supersede=True)) == "run_active"
    world = executing()
    world.wait(2 * MINUTE)
    assert world.refused(start("r2", supersede=True)) == "run_active"
    assert isinstance(world.call().state, Executing)


# --- steps ------------------------------------------------------------------------------------


@pytest.mark.promise("G6")
@pytest.mark.conformance(17, 33)
def test_every_call_of_a_step_is_ruled_on_and_has_one_result_in_place() -> None:
    world = started()
    world.propose(
        sound(0, ruling=ALLOW, kind="read"),
        sound(1, ruling=ASK),
        sound(2, ruling=DENY),
        unsound(3),
        unsound(4, code="invalid_arguments"),
        sound(5, ruling=ALLOW, surface="elsewhere"),
    )
    codes = [world.code(index) for index in range(6)]
    assert codes == [
        "Allowed",
        "Asking",
        "policy_denied",
        "unknown_tool",
        "invalid_arguments",
        "Allowed",
    ]
    reads = RecordReads(run="r1", step=1, fence=1, results=((0, "succeeded", "42"),))
    world.apply(reads)
    world.apply(reject(world.asked(1).id))
    world.lease()
    world.begin(5)
    world.conclude(DONE, 5)
    assert [world.told(index) != "" for index in range(6)] == [True] * 6
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G6")
@pytest.mark.conformance(3)
def test_a_rejections_reason_is_the_calls_result_and_the_model_goes_on() -> None:
    world = asking()
    world.apply(reject(world.asked().id, reason="far too much"))
    assert world.code() == "rejected"
    assert "far too much" in world.told()
    assert world.work() == CallModel(step=2)
    world = asking()
    world.apply(reject(world.asked().id, reason="  "))
    assert wording.NO_REASON in world.told()


@pytest.mark.conformance(26)
def test_interrupted_is_worded_otherwise_than_rejected_or_denied() -> None:
    told = {wording.interrupted("x"), wording.rejected("x", "x"), wording.policy_denied("x", "x")}
    assert len({text.split(":")[0].split(" ")[0] for text in told}) == 3


@pytest.mark.promise("G3")
def test_a_step_proposed_again_is_the_same_answer_and_with_another_call_is_refused() -> None:
    world = asking()
    same = world.proposal(sound(), step=1)
    assert world.apply(same) == ()
    assert world.refused(world.proposal(sound(arguments={"amount": 5}), step=1)) == "call_changed"


@pytest.mark.promise("G3", "G5")
def test_a_step_proposed_again_after_an_edit_is_still_the_same_answer() -> None:
    world = asking()
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5})))
    assert world.apply(world.proposal(sound(), step=1)) == ()
    edited = world.proposal(sound(arguments={"amount": 5}), step=1)
    assert world.refused(edited) == "call_changed"


@pytest.mark.promise("G6")
def test_no_step_is_taken_while_calls_of_the_one_before_are_open() -> None:
    world = asking(ALLOW)
    assert world.refused(world.proposal(answer="done")) == "calls_open"
    assert world.refused(world.proposal(sound(step=2))) == "calls_open"
    assert world.refused(world.proposal(sound(step=3), step=3)) == "step_out_of_order"
    assert world.refused(FinishRun(run="r1", fence=1, stop="final")) == "calls_open"


@pytest.mark.promise("G11")
def test_a_step_holds_calls_of_its_own_place_only() -> None:
    world = started()
    assert world.refused(world.proposal(sound(run="r2"))) == "wrong_occurrence"
    assert world.refused(world.proposal(sound(step=2))) == "wrong_occurrence"
    assert world.refused(world.proposal(sound(), sound())) == "wrong_occurrence"


def test_no_more_requests_wait_than_may() -> None:
    world = started()
    world.propose(*map(sound, range(MOST_WAITING + 1)))
    codes = [world.code(index) for index in range(MOST_WAITING + 1)]
    assert codes == ["Asking"] * MOST_WAITING + ["interrupted"]


@pytest.mark.promise("G6")
@pytest.mark.conformance(9)
def test_a_call_proposed_again_after_a_no_is_answered_and_once_more_stops_the_run() -> None:
    world = asking()
    world.apply(reject(world.asked().id))
    world.lease()
    world.propose(sound(step=2, arguments={"amount": 1000}))
    assert world.code(step=2) == "rejected"
    assert world.work() == CallModel(step=3)
    events = world.propose(
        sound(0, step=3, arguments={"amount": 8}),
        sound(1, step=3, arguments={"amount": 1000}),
        sound(2, step=3, arguments={"amount": 9}),
    )
    assert names(events)[-1] == "RunEnded"
    codes = [world.code(index, step=3) for index in range(3)]
    assert codes == ["interrupted", "rejected", "interrupted"]
    assert world.work() == Done(stop="rejection_loop")
    assert not [request for request in world.state.requests.values() if request.pending]


@pytest.mark.promise("G6")
@pytest.mark.parametrize("code", ["policy_denied", "expired"])
def test_denied_and_expired_calls_are_remembered_too(code: str) -> None:
    world = asking(DENY if code == "policy_denied" else ASK)
    if code == "expired":
        world.until(world.asked().deadline_at)
        world.expire()
        world.lease()
    world.propose(sound(step=2, arguments={"amount": 1000}))
    assert world.code(step=2) == code
    assert not [request for request in world.state.requests.values() if request.pending]


@pytest.mark.promise("G6")
def test_a_no_is_forgotten_when_the_user_speaks() -> None:
    world = asking()
    world.apply(reject(world.asked().id))
    world.apply(start("r2", supersede=True))
    world.propose(sound(run="r2", arguments={"amount": 1000}), run="r2")
    assert world.code(run="r2") == "Asking"


# --- ends -------------------------------------------------------------------------------------


@pytest.mark.conformance(40)
def test_a_gate_on_the_last_step_gives_the_model_one_closing_turn() -> None:
    world = started(max_steps=1)
    world.propose(sound())
    world.apply(reject(world.asked().id))
    assert world.work() == CallModel(step=2, closing=True)
    world.lease()
    world.propose(sound(step=2), answer="I could not.")
    assert world.code(step=2) == "interrupted"
    assert world.work() == Done(stop="max_steps")


def test_without_a_gate_the_last_step_is_the_last() -> None:
    world = started(max_steps=1)
    world.propose(sound(ruling=ALLOW))
    world.begin()
    world.conclude(DONE)
    assert world.work() == Finish(stop="max_steps")


def test_a_turn_without_calls_ends_the_run_with_its_answer() -> None:
    world = started()
    world.propose(answer="done")
    state = world.run().state
    assert isinstance(state, RunOver)
    assert state.answer_ref is not None
    assert world.refused(world.proposal(step=2)) == "run_over"


def test_a_turn_that_arrives_while_the_run_stops_is_recorded_and_runs_nothing() -> None:
    world = started(kind="hosted", holder=None)
    world.propose(sound(0, ruling=ALLOW))
    world.begin()
    world.apply(CancelRun(run="r1", by=ANN, cause=""))
    world.propose(sound(0, step=2, ruling=ALLOW))
    assert world.code(step=2) == "interrupted"
    world.conclude(DONE)
    assert world.work() == Done(stop="cancelled")


def test_cancelling_twice_is_the_same_answer() -> None:
    world = started()
    world.apply(CancelRun(run="r1", by=ANN, cause=""))
    assert world.apply(CancelRun(run="r1", by=BOB, cause="")) == ()
    world = started()
    world.propose(answer="done")
    assert world.refused(CancelRun(run="r1", by=BOB, cause="")) == "run_over"


# --- shared ------------------------------------------------------------------------------------


@pytest.mark.promise("G11")
def test_what_belongs_to_no_run_here_is_not_found() -> None:
    world = approved()
    assert world.refused(RenewLease(run="r9", fence=1)) == "run_not_found"
    begin = replace(world.beginning(), at=at(5))
    assert world.refused(begin) == "call_not_found"


def test_a_step_has_a_number_from_one_on() -> None:
    world = World()
    world.apply(start(kind="hosted", holder=None))
    step = commands.Propose(run="r1", step=0, fence=None, entry="{}", calls=(), policy_version="p")
    assert world.refused(step) == "invalid_step"


@pytest.mark.conformance(25)
def test_a_policy_may_let_fewer_wait() -> None:
    world = World()
    world.start()
    world.propose(sound(0), sound(1), most_waiting=1)
    assert [world.code(0), world.code(1)] == ["Asking", "interrupted"]
    assert "1 requests wait in this session, and no more may" in world.told(1)
