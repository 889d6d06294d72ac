"""What is decided of runs that a framework hosts: their leases, and when it is told to go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from placet.core import events as e
from placet.core.commands import CancelRun, FinishRun, Lose, TakeLease, TakeResults, Withdraw
from placet.core.state import Cancelled
from placet.core.values import Recovery
from placet.core.work import Done, ExpireDue, Probe, Recover, ResumeHost, Wait, wake_at
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    BOB,
    DONE,
    HOLDER,
    LOST,
    OTHER,
    PROBED,
    RAISED,
    World,
    answer,
    approve,
    at,
    names,
    question,
    reject,
    settle,
    sound,
    unsound,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def hosted(*calls: Any) -> World:
    """Give a world whose run a framework drives, and has proposed a step of."""
    world = World()
    world.start(kind="hosted", holder=None)
    if calls:
        world.propose(*calls)
    return world


def taken(world: World, *, step: int = 1, seen: int | None = None) -> tuple[e.Event, ...]:
    return world.apply(TakeResults(run="r1", step=step, seen=seen))


def settled_down(world: World) -> bool:
    """Say whether nobody has anything to do about the run before somebody acts."""
    return isinstance(world.work(), Wait) and wake_at(world.state, world.run()) is None


@pytest.mark.promise("D5")
def test_a_hosted_run_is_leased_action_by_action() -> None:
    world = hosted()
    world.propose(sound(0, ruling=ALLOW))
    assert world.refused(TakeLease(run="r1", holder=OTHER)) == "hosted_run"
    begun = world.begin()[0]
    assert isinstance(begun, e.AttemptBegun)
    assert begun.fence == 1
    world.conclude(DONE)
    assert world.work() == Wait(until=None)
    world.apply(FinishRun(run="r1", fence=None, stop="final"))


@pytest.mark.promise("D5", "D4")
def test_an_attempt_of_a_hosted_run_is_lost_at_its_time_limit_or_when_its_process_is_gone() -> None:

    for gone in (None, HOLDER):
        world = hosted()
        world.propose(sound(0, ruling=ALLOW, recovery=Recovery(time_limit=MINUTE)))
        world.begin()
        lose = Lose(at=at(), attempt=1, fence=None, cause="gone", gone=gone)
        if gone is None:
            assert world.refused(lose) == "call_executing"
            world.wait(2 * MINUTE)
            assert world.work() == Recover(at=at())
        world.apply(lose)
        assert world.asked().kind == "settlement"


# --- when the framework is told to go on --------------------------------------------------------


def test_a_framework_goes_on_by_itself_while_nobody_had_to_decide() -> None:
    world = hosted(sound(0, ruling=ALLOW), sound(1, ruling=ALLOW, kind="read"))
    assert settled_down(world)
    world.begin(0)
    assert isinstance(world.work(), Wait)
    world.conclude(DONE, 0)
    assert settled_down(world)


@pytest.mark.promise("D2")
def test_a_framework_is_told_to_go_on_once_its_call_is_approved_until_it_has() -> None:
    world = hosted(sound(0))
    assert isinstance(world.work(), Wait)
    world.apply(approve(world.asked().id))
    assert world.work() == ResumeHost()
    assert wake_at(world.state, world.run()) == world.state.now
    assert taken(world) == ()
    assert world.work() == ResumeHost()
    world.begin(0)
    assert isinstance(world.work(), Wait)
    world.conclude(DONE, 0)
    assert world.work() == ResumeHost()
    assert names(taken(world)) == ["ResultsTaken"]
    assert settled_down(world)
    assert taken(world) == ()


@pytest.mark.promise("D2")
@pytest.mark.parametrize("how", ["reject", "expire", "answer", "settle"])
def test_a_framework_is_told_of_whatever_was_decided(how: str) -> None:
    world = hosted(
        question(0) if how == "answer" else sound(0, ruling=ALLOW if how == "settle" else ASK)
    )
    if how == "settle":
        world.begin(0)
        world.conclude(LOST, 0)
    request = world.asked()
    assert isinstance(world.work(), Wait)
    match how:
        case "reject":
            world.apply(reject(request.id))
        case "answer":
            world.apply(answer(request.id))
        case "settle":
            world.apply(settle(request.id, True))
        case _:
            world.until(request.deadline_at)
            assert world.work() == ExpireDue()
            world.expire()
    assert world.work() == ResumeHost()
    taken(world)
    assert settled_down(world)


def test_what_still_waits_for_people_is_waited_for_before_the_framework_is_told_of_a_no() -> None:
    world = hosted(sound(0), sound(1), sound(2, ruling=ALLOW, kind="read"))
    world.apply(reject(world.asked(0).id))
    assert isinstance(world.work(), Wait)
    assert taken(world) == ()
    world.apply(reject(world.asked(1).id))
    assert world.work() == ResumeHost()
    taken(world)
    assert settled_down(world)


def test_an_open_request_beside_a_read_or_a_free_effect_wakes_nobody() -> None:
    for other in (
        sound(1, ruling=ALLOW, kind="read"),
        sound(1, ruling=ALLOW),
        sound(1, ruling=ALLOW, kind="agent"),
    ):
        world = hosted(sound(0), other)
        assert isinstance(world.work(), Wait)
        assert wake_at(world.state, world.run()) == world.asked().deadline_at


def test_what_is_approved_in_an_earlier_step_is_told_though_a_later_one_is_open() -> None:
    world = hosted(sound(0))
    world.propose(sound(0, step=2, ruling=ALLOW, kind="read"))
    assert isinstance(world.work(), Wait)
    world.apply(approve(world.asked().id))
    assert world.work() == ResumeHost()


def test_what_is_rejected_in_an_earlier_step_is_told_though_a_later_one_was_taken() -> None:
    world = hosted(sound(0))
    world.propose(question(0, step=2))
    world.apply(answer(world.asked(step=2).id))
    assert isinstance(world.work(), Wait)
    assert taken(world, step=2) == ()
    world.apply(reject(world.asked().id))
    assert world.work() == ResumeHost()
    taken(world, step=2)
    assert settled_down(world)


def test_a_decision_after_the_framework_has_looked_is_not_taken_unseen() -> None:
    world = hosted(sound(0), sound(1))
    world.apply(approve(world.asked(0).id))
    world.begin(0)
    world.conclude(DONE, 0)
    seen = world.state.seq
    world.apply(reject(world.asked(1).id))
    assert taken(world, seen=seen) == ()
    assert world.work() == ResumeHost()
    assert names(taken(world, seen=world.state.seq)) == ["ResultsTaken"]
    assert settled_down(world)


def test_a_framework_that_leaves_an_allowed_call_alone_is_not_told_again_and_again() -> None:
    world = hosted(sound(0), sound(1, ruling=ALLOW))
    world.apply(reject(world.asked(0).id))
    assert world.work() == ResumeHost()
    taken(world)
    assert settled_down(world)


@pytest.mark.promise("G8")
def test_a_framework_whose_call_was_held_is_told_once_nothing_holds_it() -> None:
    world = World()
    world.start("r0", kind="hosted", holder=None)
    world.propose(sound(0, run="r0", ruling=ALLOW), run="r0")
    world.begin(run="r0")
    world.conclude(LOST, run="r0")
    request = world.asked(run="r0")
    world.until(request.deadline_at)
    world.expire("r0")
    assert world.work("r0") == Done(stop="outcome_unknown")
    world.start(kind="hosted", holder=None)
    world.propose(sound(0, ruling=ALLOW))
    assert world.work() == Wait(until=None, held_by=(request.id,))
    world.apply(settle(request.id, False))
    assert world.work() == ResumeHost()
    taken(world)
    assert settled_down(world)
    assert names(world.begin()) == ["AttemptBegun"]


@pytest.mark.promise("D8", "D4")
def test_a_retry_that_is_due_is_the_frameworks_to_make() -> None:
    for call in (sound(0, recovery=AGAIN), sound(0, ruling=ALLOW, recovery=AGAIN)):
        world = hosted(call)
        if call.ruling == ASK:
            world.apply(approve(world.asked().id))
        world.begin()
        world.conclude(RAISED)
        assert world.work() == Wait(until=world.state.now + SECOND)
        world.wait(SECOND)
        assert world.work() == ResumeHost()
        world.begin()
        world.conclude(DONE)
        taken(world)
        assert settled_down(world)


@pytest.mark.promise("D4", "D5")
def test_what_a_framework_left_behind_is_recovered_without_it() -> None:
    world = hosted(sound(0, recovery=PROBED))
    world.apply(approve(world.asked().id))
    world.begin()
    call = world.call().state
    world.until(getattr(call, "until", world.state.now))
    assert world.work() == Recover(at=at())
    world.apply(Lose(at=at(), attempt=1, fence=None, cause="gone"))
    assert world.work() == Probe(at=at())


@pytest.mark.promise("D4")
def test_a_hosted_run_that_stops_ends_with_what_its_framework_still_has_to_recover() -> None:
    world = hosted(sound(0, ruling=ALLOW, recovery=AGAIN))
    world.begin()
    world.apply(CancelRun(run="r1", by=ANN, cause=""))
    world.conclude(LOST)
    assert isinstance(world.work(), Wait)
    world.wait(SECOND)
    assert world.work() == ResumeHost()
    world.begin()
    world.conclude(DONE)
    assert world.work() == Done(stop="cancelled")


def test_a_run_that_its_framework_has_left_behind_is_superseded_and_its_request_says_why() -> None:
    world = hosted(sound(0, ruling=ASK))
    request = world.asked().id
    leave = CancelRun(run="r1", by=ANN, cause="its thread has gone on", stop="superseded")
    world.apply(leave)
    assert world.work() == Done(stop="superseded")
    closed = world.state.requests[request].state
    assert isinstance(closed, Cancelled)
    assert closed.cause.endswith("its thread has gone on")
    world.apply(leave)
    assert world.refused(CancelRun(run="r1", by=ANN, cause="")) == "run_over"


def test_an_approval_that_is_withdrawn_or_lacks_votes_wakes_nobody() -> None:
    world = hosted(sound(0, ruling=ASK_TWO))
    request = world.asked().id
    world.apply(approve(request))
    assert isinstance(world.work(), Wait)
    world.apply(approve(request, BOB))
    assert world.work() == ResumeHost()
    world.apply(Withdraw(request=request, by=ANN))
    assert isinstance(world.work(), Wait)


def test_nothing_is_taken_where_nothing_was_decided_or_no_framework_is() -> None:
    world = hosted(sound(0, ruling=ALLOW))
    world.begin()
    world.conclude(DONE)
    assert taken(world) == ()
    world.apply(FinishRun(run="r1", fence=None, stop="final"))
    assert taken(world) == ()
    assert world.refused(TakeResults(run="r9", step=1)) == "run_not_found"
    driven = World()
    driven.start()
    driven.propose(sound(0))
    driven.apply(reject(driven.asked().id))
    assert driven.apply(TakeResults(run="r1", step=1)) == ()


def test_the_request_of_a_child_run_is_named_by_the_hosted_run_above_it() -> None:
    world = hosted(sound(0, ruling=ALLOW, kind="agent"))
    world.delegate()
    world.propose(sound(0, run="k1"), run="k1")
    request = world.asked(run="k1").id
    assert world.work() == Wait(until=None, requests=(request,), held_by=("k1",))
    world.apply(reject(request))
    assert isinstance(world.work(), Wait)
    world.lease("k1")
    world.propose(answer="42", run="k1")
    assert world.work() == ResumeHost()
    taken(world)
    assert settled_down(world)


@pytest.mark.promise("G13")
def test_calls_of_two_open_steps_do_not_void_each_other() -> None:
    world = hosted(sound(0))
    world.propose(sound(0, step=2))
    for step in (1, 2):
        world.apply(approve(world.asked(step=step).id))
    world.begin()
    world.conclude(DONE)
    assert names(world.begin(step=2)) == ["AttemptBegun"]


@pytest.mark.promise("G7", "D5")
def test_of_two_processes_of_a_framework_one_begins_the_approved_call() -> None:
    world = hosted(sound(0))
    world.apply(approve(world.asked().id))
    world.begin(holder=HOLDER)
    assert world.refused(world.beginning(holder=OTHER)) == "call_executing"
    world.conclude(DONE)
    assert world.begin(holder=OTHER) == ()


@pytest.mark.promise("G6")
def test_a_step_that_stops_its_run_is_answered_whole_before_the_run_ends() -> None:
    world = hosted(sound(0, ruling=ALLOW, kind="agent"))
    world.delegate()
    for step in (2, 3):
        world.propose(unsound(0, step=step))
    events = world.propose(unsound(0, step=4), sound(1, step=4))
    assert names(events)[-2:] == ["CallEnded", "RunEnded"]
    assert world.code(1, step=4) == "interrupted"
    assert world.work() == Done(stop="failed")


@pytest.mark.promise("G3", "G6")
def test_a_step_of_a_run_that_is_over_is_the_same_step_again_and_no_other() -> None:
    world = hosted(sound())
    world.apply(reject(world.asked().id))
    world.apply(FinishRun(run="r1", fence=None, stop="final"))
    assert world.propose(sound(), step=1) == ()
    assert world.refused(world.proposal(sound(arguments={"amount": 7}), step=1)) == "call_changed"
    assert world.refused(world.proposal(sound(step=2), step=2)) == "run_over"
