"""What is decided of a run as a whole: its mode, repeated failures, its view, its session's end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.records import entries
from placet.core.state import Plan, RunOver
from placet.core.unfolding import MOST_FAILURES
from placet.core.work import CallModel, Done, Finish
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    BOB,
    DENY,
    DONE,
    NOT_DONE,
    RAISED,
    World,
    answer,
    approve,
    asking,
    at,
    edit,
    executing,
    names,
    question,
    reject,
    sound,
    start,
    unsound,
)

SAME: dict[str, Any] = {"arguments": {"amount": 7}, "ruling": ALLOW}


def started(**changes: Any) -> World:
    """Give a world whose run has begun."""
    world = World()
    world.start(**changes)
    return world


def planned(*items: str, **changes: Any) -> World:
    """Give a world whose run has made its plan."""
    world = started(mode="plan-act", **changes)
    world.propose(plan=items or ("look", "pay"))
    return world


# --- modes --------------------------------------------------------------------------------------


def test_a_run_that_thinks_ends_with_its_first_turn() -> None:
    world = started(mode="think")
    assert world.work() == CallModel(step=1)
    assert names(world.propose(answer="it depends")) == ["StepRecorded", "RunEnded"]
    state = world.run().state
    assert isinstance(state, RunOver)
    assert (state.stop, state.answer_ref is None) == ("final", False)


@pytest.mark.promise("G1", "G6")
@pytest.mark.parametrize("mode", ["think", "plan-act"])
def test_a_tool_that_is_called_where_there_are_none_is_denied_and_stops_the_run(mode: Any) -> None:
    world = started(mode=mode)
    calls = (sound(0, ruling=ALLOW), sound(1), unsound(2), question(3))
    events = world.propose(*calls, answer="I pay.")
    assert names(events) == ["StepRecorded", *["CallEnded"] * 4, "RunEnded"]
    assert {world.code(index) for index in range(4)} == {"policy_denied"}
    assert "no tool may be called" in world.told()
    assert not world.state.requests
    assert world.work() == Done(stop="tool_policy_blocked")


def test_the_first_turn_of_a_run_that_plans_is_its_plan_and_the_others_do_its_items() -> None:
    world = started(mode="plan-act")
    events = world.propose(plan=("look", "pay 7 元"))
    assert names(events) == ["StepRecorded", "PlanMade"]
    made = events[1]
    assert isinstance(made, e.PlanMade)
    assert json.loads(made.plan.body or "") == ["look", "pay 7 元"]
    assert world.run().plan == Plan(ref=made.plan.ref, items=2)
    world.propose(sound(step=2, ruling=ALLOW))
    world.begin(step=2)
    world.conclude(DONE, step=2)
    assert world.run().plan == Plan(ref=made.plan.ref, items=2)
    assert names(world.propose(answer="looked")) == ["StepRecorded", "PlanItemDone"]
    assert world.work() == CallModel(step=4)
    events = world.propose(answer="paid")
    assert names(events) == ["StepRecorded", "PlanItemDone", "RunEnded"]
    assert world.run().plan == Plan(ref=made.plan.ref, items=2, done=2)
    assert world.work() == Done(stop="final")


def test_a_plan_has_at_least_one_item() -> None:
    world = started(mode="plan-act")
    assert world.refused(world.proposal(answer="no idea")) == "no_plan"
    assert world.work() == CallModel(step=1)


def test_a_run_that_plans_has_no_more_steps_than_others() -> None:
    world = planned(max_steps=1)
    assert world.work() == Finish(stop="max_steps")
    world = planned(max_steps=2)
    world.propose(sound(step=2))
    world.apply(reject(world.asked(step=2).id))
    world.lease()
    assert world.work() == CallModel(step=3, closing=True)
    assert names(world.propose(answer="I could not")) == ["StepRecorded", "RunEnded"]
    assert world.work() == Done(stop="max_steps")


def test_in_a_run_that_acts_a_plan_is_a_turn_like_any_other() -> None:
    world = started()
    world.propose(answer="done", plan=("look",))
    assert world.run().plan is None
    assert world.work() == Done(stop="final")


def test_a_hosted_run_is_in_the_frameworks_own_mode() -> None:
    world = started(kind="hosted", mode="think", holder=None)
    world.propose(sound(0))
    assert world.code() == "Asking"


# --- the same failure again and again -----------------------------------------------------------


def fail(world: World, *, step: int, outcome: Any = RAISED) -> tuple[e.Event, ...]:
    """Propose the same call in the next step, and let its body fail."""
    world.propose(sound(step=step, **SAME))
    world.begin(step=step)
    return world.conclude(outcome, step=step)


def test_the_same_call_that_fails_three_times_stops_the_run() -> None:
    world = started()
    fail(world, step=1)
    fail(world, step=2)
    assert world.work() == CallModel(step=3)
    assert names(fail(world, step=3))[-3:] == ["CallEnded", "RunStopping", "RunEnded"]
    assert world.work() == Done(stop="failed")
    stopping = [x for x in world.log if isinstance(x, e.RunStopping)]
    assert "3 times" in stopping[0].cause
    assert MOST_FAILURES == 3


def test_failures_of_other_calls_and_a_success_between_do_not_count() -> None:
    world = started()
    fail(world, step=1)
    fail(world, step=2)
    fail(world, step=3, outcome=DONE)
    fail(world, step=4)
    world.propose(sound(step=5, arguments={"amount": 8}, ruling=ALLOW))
    world.begin(step=5)
    world.conclude(RAISED, step=5)
    fail(world, step=6)
    assert world.work() == CallModel(step=7)
    fail(world, step=7)
    assert world.work() == Done(stop="failed")


@pytest.mark.parametrize("code", ["invalid_arguments", "unknown_tool"])
def test_a_call_that_is_wrong_three_times_stops_the_run_and_its_step_is_answered(code: str) -> None:
    world = started()
    for step in (1, 2):
        world.propose(unsound(0, step=step, code=code))
        assert world.code(step=step) == code
    events = world.propose(
        sound(0, step=3),
        replace(unsound(1, step=3, code=code), call_key=unsound(0).call_key),
        sound(2, step=3),
        unsound(3, step=3),
    )
    codes = [world.code(index, step=3) for index in range(4)]
    assert codes == ["interrupted", code, "interrupted", "interrupted"]
    assert names(events).count("CallEnded") == 4
    assert names(events)[-1] == "RunEnded"
    assert world.work() == Done(stop="failed")
    assert not [request for request in world.state.requests.values() if request.pending]


def test_failures_are_counted_over_waits_for_people() -> None:
    world = started()
    for step in (1, 2, 3):
        world.propose(sound(step=step, arguments={"amount": 7}))
        world.apply(approve(world.asked(step=step).id))
        world.lease()
        world.begin(step=step)
        world.conclude(NOT_DONE, step=step)
    assert world.work() == Done(stop="failed")


@pytest.mark.promise("G6")
def test_a_call_that_only_failed_is_asked_about_again_and_a_no_outlives_its_failures() -> None:
    world = started()
    fail(world, step=1)
    world.propose(sound(step=2, arguments={"amount": 7}))
    assert world.code(step=2) == "Asking"
    world.apply(reject(world.asked(step=2).id))
    world.lease()
    world.propose(sound(step=3, **SAME))
    assert world.code(step=3) == "rejected"
    no = world.state.noes["r1", sound(**SAME).call_key]
    assert (no.code, no.times) == ("rejected", 2)


@pytest.mark.promise("G5", "G6")
def test_an_edit_to_what_only_failed_before_is_asked_about() -> None:
    world = started()
    fail(world, step=1)
    world.propose(sound(step=2, arguments={"amount": 8}))
    world.apply(edit(world.asked(step=2).id, sound(step=2, arguments={"amount": 7})))
    world.lease()
    assert names(world.begin(step=2, today=sound(step=2, arguments={"amount": 7}))) == [
        "AttemptBegun"
    ]


@pytest.mark.promise("G6", "D4")
def test_what_is_under_way_as_failures_stop_the_run_is_carried_to_its_outcome() -> None:
    world = started()
    fail(world, step=1)
    fail(world, step=2)
    world.propose(
        sound(0, step=3, **SAME, surface="a"),
        sound(1, step=3, ruling=ALLOW, surface="b"),
        sound(2, step=3, ruling=ALLOW, surface="c", recovery=AGAIN),
        sound(3, step=3, ruling=ALLOW, surface="d"),
    )
    for index in (0, 1, 2):
        world.begin(index, step=3)
    world.conclude(RAISED, 2, step=3)
    world.conclude(RAISED, 0, step=3)
    codes = [world.code(index, step=3) for index in range(4)]
    assert codes == ["tool_failed", "Executing", "tool_failed", "interrupted"]
    assert names(world.conclude(DONE, 1, step=3)) == ["CallEnded", "RunEnded"]
    assert world.work() == Done(stop="failed")


def test_a_run_that_a_last_failure_stops_as_a_call_begins_is_over_at_once() -> None:
    world = started(kind="hosted", holder=None)
    for step in (1, 2):
        world.propose(unsound(0, step=step))
    call = replace(sound(step=3, ruling=ALLOW), call_key=unsound(0).call_key)
    world.propose(call)
    assert names(world.begin(step=3, today=unsound(0, step=3)))[-1] == "RunEnded"
    assert world.work() == Done(stop="failed")


@pytest.mark.promise("G6")
def test_what_other_reads_found_is_told_though_one_of_them_stops_the_run() -> None:
    world = started()
    look: dict[str, Any] = {"kind": "read", "ruling": ALLOW}
    calls = [sound(index, **look, arguments={"amount": 7}) for index in range(3)]
    world.propose(*calls, sound(3, **look, arguments={"amount": 9}))
    failed = tuple((index, "tool_failed", "no such file") for index in range(3))
    results: Any = (*failed, (3, "succeeded", "42"))
    world.apply(c.RecordReads(run="r1", step=1, fence=1, results=results))
    assert world.code(3) == "succeeded"
    assert world.told(3) == "42"
    assert world.work() == Done(stop="failed")


def test_a_run_that_stops_already_keeps_its_reason_whatever_fails_then() -> None:
    world = started()
    fail(world, step=1)
    fail(world, step=2)
    world.propose(sound(step=3, **SAME))
    world.begin(step=3)
    world.apply(c.CancelRun(run="r1", by=ANN, cause=""))
    world.conclude(RAISED, step=3)
    assert world.work() == Done(stop="cancelled")


# --- a bounded view -----------------------------------------------------------------------------


def spoken(*, steps: int) -> World:
    """Give a world whose run has taken so many steps, each of one denied call."""
    world = started()
    for step in range(1, steps + 1):
        world.propose(sound(step=step, ruling=DENY, arguments={"amount": step}))
    return world


def compacting(step: int, **changes: Any) -> c.Compact:
    given: dict[str, Any] = {"run": "r1", "fence": 1, "summary": "it was denied"}
    return c.Compact(step=step, **{**given, **changes})


@pytest.mark.promise("D6")
def test_a_summary_takes_the_place_of_what_came_before_a_step_by_one_row() -> None:
    world = spoken(steps=3)
    events = world.apply(compacting(2))
    assert names(events) == ["TranscriptCompacted"]
    rows = [(row.step, row.index, row.kind, row.payload.body) for row in entries(events)]
    assert rows == [(2, -2, "summary", "it was denied")]
    assert (world.run().view_from, world.run().step) == (2, 3)
    assert world.run().summary_ref == entries(events)[0].payload.ref
    assert world.work() == CallModel(step=4)


@pytest.mark.promise("D6")
def test_a_view_only_moves_on_and_never_past_the_last_step() -> None:
    world = spoken(steps=3)
    for step in (-1, 0, 4):
        assert world.refused(compacting(step)) == "step_out_of_order"
    world.apply(compacting(2))
    for step in (1, 2):
        assert world.refused(compacting(step)) == "step_out_of_order"
    world.apply(compacting(3))
    assert world.run().view_from == 3


@pytest.mark.promise("D5")
def test_only_who_drives_a_run_changes_its_view() -> None:
    world = spoken(steps=2)
    assert world.refused(compacting(1, fence=2)) == "stale_fence"
    assert world.refused(compacting(1, run="r9")) == "run_not_found"
    world.propose(answer="done")
    assert world.refused(compacting(1)) == "run_over"
    hosted = started(kind="hosted", holder=None)
    hosted.propose(sound(ruling=DENY))
    assert hosted.refused(compacting(1, fence=0)) == "stale_fence"


# --- the end of a session -----------------------------------------------------------------------

END = c.EndSession(by=BOB, cause="the month is over")


@pytest.mark.promise("G6")
def test_ending_a_session_cancels_its_runs_and_takes_no_further_message() -> None:
    world = asking(ASK, ALLOW)
    request = world.asked().id
    events = world.apply(END)
    assert names(events) == [
        "SessionEnded",
        "RunStopping",
        "RequestCancelled",
        "CallEnded",
        "CallEnded",
        "RunEnded",
    ]
    assert world.state.ended
    assert {world.code(index) for index in (0, 1)} == {"cancelled"}
    assert "bob ended the session" in world.told()
    assert world.refused(approve(request)) == "cancelled"
    assert world.refused(start("r2", supersede=True)) == "session_ended"
    assert world.apply(END) == ()
    assert world.apply(start("r1")) == ()


@pytest.mark.promise("D4")
def test_what_has_begun_in_a_session_that_ends_is_carried_to_its_outcome() -> None:
    world = executing()
    assert names(world.apply(END)) == ["SessionEnded", "RunStopping"]
    world.conclude(DONE)
    assert (world.code(), world.work()) == ("succeeded", Done(stop="cancelled"))


def test_ending_a_session_ends_child_runs_and_questions_and_a_session_without_runs() -> None:
    world = started()
    world.propose(sound(0, kind="agent", ruling=ALLOW))
    world.delegate()
    world.propose(question(0, run="k1"), run="k1")
    asked = world.asked(run="k1").id
    world.apply(END)
    assert world.refused(answer(asked)) == "cancelled"
    assert (world.work("k1"), world.work()) == (Done(stop="cancelled"), Done(stop="cancelled"))
    idle = started()
    idle.propose(answer="done")
    assert names(idle.apply(END)) == ["SessionEnded"]


def test_no_child_run_is_opened_in_a_session_that_ends() -> None:
    world = started()
    world.propose(sound(0, ruling=ALLOW), sound(1, kind="agent", ruling=ALLOW))
    world.begin(0)
    child = c.Child(run="k1", agent="b", message="do", max_steps=5)
    command = world.beginning(1, child=child)
    world.apply(END)
    assert world.apply(command) == ()
    assert world.state.calls[at(1)].open is False
    assert "k1" not in world.state.runs
