"""What is decided about agents that are used as tools: child runs, their start and their end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.deciding_effects import MOST_DEPTH
from placet.core.state import Open, Resting, Spent, Voided, Working
from placet.core.work import CallModel, Delegate, Done, ExpireDue, RunEffect, Wait, wake_at
from tests.core.build import (
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    BOB,
    DENY,
    DONE,
    LOST,
    OTHER,
    World,
    agent,
    answer,
    approve,
    asking,
    at,
    delegated,
    edit,
    names,
    question,
    sound,
    start,
    unsound,
)

CHILD = c.Child(run="k1", agent="b", message="do", max_steps=5)
CANCEL = c.CancelRun(run="r1", by=ANN, cause="enough")


def levels(*, deepest: c.Proposal | None = None) -> World:
    """Give a world with three runs under another, of which the last has proposed a call."""
    world = delegated()
    for number in (1, 2):
        world.propose(agent(0, run=f"k{number}"), run=f"k{number}")
        world.delegate(f"k{number + 1}", run=f"k{number}")
    world.propose(deepest or sound(0, run="k3"), run="k3")
    return world


def test_a_child_runs_answer_is_the_result_of_the_call_that_opened_it() -> None:
    world = delegated()
    assert world.work() == Wait(until=None, held_by=("k1",))
    assert world.run().state == Resting()
    events = world.propose(answer="42", run="k1")
    assert names(events) == ["StepRecorded", "RunEnded", "CallEnded"]
    assert (world.code(), world.told()) == ("succeeded", "42")
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G8")
def test_a_request_of_a_child_run_holds_the_effects_of_its_parent() -> None:
    world = delegated(sound(1, ruling=ALLOW))
    world.propose(sound(0, run="k1"), run="k1")
    request = world.asked(run="k1").id
    assert world.work() == Wait(until=None, requests=(request,), held_by=("k1", request))
    world.apply(approve(request))
    assert world.work() == RunEffect(at=at(1))


@pytest.mark.conformance(21)
def test_cancelling_a_run_ends_its_child_runs_and_their_requests() -> None:
    world = delegated()
    world.propose(sound(0, run="k1"), run="k1")
    world.apply(CANCEL)
    assert world.code(run="k1") == "cancelled"
    assert (world.work("k1"), world.work()) == (Done(stop="cancelled"), Done(stop="cancelled"))
    assert world.code() == "cancelled"


def test_cancelling_a_child_run_answers_its_parents_call() -> None:
    world = delegated()
    world.apply(c.CancelRun(run="k1", by=ANN, cause="enough"))
    assert world.code() == "cancelled"
    assert world.work() == CallModel(step=2)


def test_what_a_child_run_has_begun_is_carried_to_its_end_before_its_parent_ends() -> None:
    world = delegated()
    world.propose(sound(0, run="k1", ruling=ALLOW), run="k1")
    world.begin(run="k1")
    world.apply(CANCEL)
    assert world.code() == "Delegated"
    world.conclude(DONE, run="k1")
    assert (world.code(run="k1"), world.code()) == ("succeeded", "cancelled")
    assert world.work() == Done(stop="cancelled")


# --- opening a child run ------------------------------------------------------------------------


def test_only_a_call_of_an_agent_opens_a_run_and_only_one() -> None:
    world = asking(ALLOW)
    assert world.refused(world.beginning(child=CHILD)) == "not_runnable"
    world = delegated()
    assert world.refused(world.beginning(child=replace(CHILD, run="k2"))) == "not_runnable"
    assert world.refused(world.beginning()) == "not_runnable"
    opened = [x for x in world.log if isinstance(x, e.CallDelegated)]
    assert opened == [e.CallDelegated(at=at(), child="k1")]


@pytest.mark.promise("D2", "D5")
def test_opening_the_same_child_run_again_is_the_same_answer() -> None:
    world = World()
    world.start()
    world.propose(agent(0))
    command = world.beginning(child=CHILD)
    assert names(world.apply(command)) == ["RunStarted", "CallDelegated", "LeaseReleased"]
    assert world.apply(command) == ()
    world.lease("k1")
    world.propose(answer="42", run="k1")
    assert world.apply(command) == ()


def test_a_child_run_is_for_whom_its_parent_is_for_and_rests_until_it_is_driven() -> None:
    world = World()
    world.start(requester="rita")
    world.propose(agent(0))
    world.begin(child=replace(CHILD, mode="think"))
    child = world.run("k1")
    assert (child.requester, child.parent, child.mode) == ("rita", at(), "think")
    assert (child.state, child.agent, child.max_steps) == (Resting(), "b", 5)
    assert wake_at(world.state, child) == world.state.now


def test_a_child_run_has_an_id_of_its_own() -> None:
    world = World()
    world.start()
    world.propose(agent(0))
    assert world.refused(world.beginning(child=replace(CHILD, run="r1"))) == "run_exists"


@pytest.mark.promise("G1")
def test_an_agents_call_is_ruled_on_again_as_its_run_is_opened() -> None:
    cases: dict[str, Any] = {
        "policy_denied": agent(ruling=DENY),
        "unknown_tool": unsound(),
        "Asking": agent(ruling=ASK),
        "Allowed": agent(fingerprint="f2"),
    }
    for then, today in cases.items():
        world = World()
        world.start()
        world.propose(agent(0))
        world.begin(today=today, child=CHILD)
        assert world.code() == then
        assert "k1" not in world.state.runs


@pytest.mark.promise("G8")
def test_an_agents_call_is_held_by_nothing_but_its_effects_are() -> None:
    world = World()
    world.start()
    world.propose(sound(0), agent(1))
    assert world.work() == Delegate(at=at(1))
    world.delegate("k1", 1)
    world.propose(sound(0, run="k1", ruling=ALLOW), run="k1")
    assert world.work("k1") == Wait(until=None, held_by=(world.asked(0).id,))


@pytest.mark.promise("G1")
def test_agents_stand_a_few_levels_deep_and_no_deeper() -> None:
    world = levels(deepest=agent(0, run="k3"))
    assert MOST_DEPTH == 3
    assert world.work("k3") == Delegate(at=at(run="k3"))
    world.delegate("k4", run="k3")
    assert world.code(run="k3") == "policy_denied"
    assert "k4" not in world.state.runs
    assert world.work("k3") == CallModel(step=2)


@pytest.mark.promise("G7")
def test_an_approval_for_an_agent_that_would_stand_too_deep_is_closed() -> None:
    world = levels(deepest=agent(0, run="k3", ruling=ASK))
    request = world.asked(run="k3").id
    world.apply(approve(request))
    world.lease("k3")
    world.delegate("k4", run="k3")
    assert world.code(run="k3") == "policy_denied"
    assert not world.state.requests[request].pending
    assert world.refused(approve(request, BOB)) == "cancelled"


# --- an agent that must be asked about ----------------------------------------------------------


def gated() -> World:
    """Give a world whose one call, of an agent, is approved."""
    world = World()
    world.start()
    world.propose(agent(0, ruling=ASK))
    world.apply(approve(world.asked().id))
    world.lease()
    return world


@pytest.mark.promise("G7")
def test_an_approval_of_an_agent_is_spent_as_its_run_is_opened_and_once() -> None:
    world = gated()
    request = world.asked().id
    assert world.work() == Delegate(at=at())
    assert names(world.begin(child=CHILD)) == ["RunStarted", "CallDelegated", "LeaseReleased"]
    assert world.state.requests[request].state == Spent(votes=("ann",))
    second = world.beginning(child=replace(CHILD, run="k2"), holder=OTHER)
    assert world.refused(second) == "not_runnable"
    assert world.refused(c.Withdraw(request=request, by=ANN)) == "spent"


@pytest.mark.promise("G1", "G7")
def test_an_agent_that_is_asked_about_opens_no_run_before_it_is_approved() -> None:
    world = World()
    world.start()
    world.propose(agent(0, ruling=ASK), sound(1, ruling=ALLOW, kind="read"))
    assert world.refused(world.beginning(child=CHILD)) == "not_approved"
    world.apply(c.Reject(request=world.asked().id, by=ANN, eligible=frozenset({"ann"}), reason="x"))
    assert world.code() == "rejected"
    assert world.begin(child=CHILD) == ()


@pytest.mark.promise("G9")
def test_an_approval_of_an_agent_expires_where_its_run_was_not_opened() -> None:
    world = gated()
    world.until(world.asked().deadline_at)
    assert world.refused(world.beginning(child=CHILD)) == "stale_fence"
    world.lease()
    assert world.refused(world.beginning(child=CHILD)) == "expired"
    assert world.work() == ExpireDue()
    world.expire()
    assert world.code() == "expired"


@pytest.mark.promise("G13")
@pytest.mark.parametrize(
    "what, today",
    [
        ("tool", agent(fingerprint="f2")),
        ("tool", agent(kind="effect")),
        ("environment", agent(environment="another head")),
        ("arguments", agent(arguments={"message": "another"})),
        ("permission scope", agent(scope=("more",))),
        ("policy", agent(ruling=ASK_TWO)),
    ],
)
def test_what_changed_of_an_approved_agent_voids_the_approval(what: str, today: c.Sound) -> None:
    world = gated()
    old = world.asked().id
    ruling = ASK if today.ruling == ALLOW else today.ruling
    world.begin(child=CHILD, today=replace(today, ruling=ruling))
    assert world.state.requests[old].state == Voided(changed=(what,), successor=world.asked().id)
    assert "k1" not in world.state.runs


@pytest.mark.promise("G13")
def test_what_others_do_on_its_surface_does_not_void_an_agents_approval() -> None:
    world = gated()
    world.state = replace(world.state, surfaces={"payments": 3})
    assert "CallDelegated" in names(world.begin(child=CHILD))


@pytest.mark.promise("G10")
def test_votes_without_authority_open_no_child_run() -> None:
    world = gated()
    events = world.begin(child=CHILD, eligible=frozenset({"bob"}))
    assert names(events) == ["VotesDropped", "LeaseReleased"]
    assert world.asked().state == Open()
    assert "k1" not in world.state.runs
    world.apply(approve(world.asked().id, BOB))
    world.lease()
    world.begin(child=CHILD, eligible=frozenset({"bob"}))
    assert world.code() == "Delegated"


@pytest.mark.promise("G5")
def test_an_edited_message_is_what_the_agent_is_given_and_the_old_one_never() -> None:
    world = World()
    world.start()
    world.propose(agent(0, ruling=ASK, arguments={"message": "pay all"}))
    old = world.asked().id
    edited = agent(0, ruling=ASK, arguments={"message": "pay one"})
    world.apply(edit(old, edited))
    world.lease()
    stale = agent(0, ruling=ASK, arguments={"message": "pay all"})
    voided = world.begin(child=CHILD, today=stale)
    assert "RequestVoided" in names(voided)
    world.apply(approve(world.asked().id))
    world.lease()
    assert "CallDelegated" in names(world.begin(child=CHILD, today=stale))
    assert world.refused(approve(old)) == "superseded"


# --- a child run ends ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stop, code",
    [("max_steps", "tool_failed"), ("failed", "tool_failed"), ("final", "tool_failed")],
)
def test_a_child_run_that_ends_without_its_answer_says_how_and_what_it_said_last(
    stop: Any, code: str
) -> None:
    world = delegated()
    said = None if stop == "final" else "half of it"
    world.apply(c.FinishRun(run="k1", fence=1, stop=stop, answer=said))
    assert world.code() == code
    assert stop in world.told()
    assert (said or "") in world.told()
    assert world.work() == CallModel(step=2)


def test_an_outer_run_is_woken_as_its_child_run_ends_and_not_before() -> None:
    world = delegated()
    assert wake_at(world.state, world.run()) is None
    world.propose(sound(0, run="k1"), run="k1")
    assert wake_at(world.state, world.run()) is None
    assert wake_at(world.state, world.run("k1")) == world.asked(run="k1").deadline_at
    world.apply(approve(world.asked(run="k1").id))
    assert wake_at(world.state, world.run()) is None
    assert wake_at(world.state, world.run("k1")) == world.state.now
    world.lease("k1")
    world.begin(run="k1")
    assert wake_at(world.state, world.run()) is None
    world.conclude(DONE, run="k1")
    world.propose(answer="42", run="k1")
    assert wake_at(world.state, world.run()) == world.state.now


@pytest.mark.promise("D1")
def test_an_outer_run_holds_no_lease_while_its_child_runs_work() -> None:
    world = delegated(agent(1))
    assert isinstance(world.run().state, Working)
    assert world.work() == Delegate(at=at(1))
    world.delegate("k2", 1)
    assert world.run().state == Resting()
    assert world.lease() == ()


def test_an_outer_run_names_the_requests_of_every_level_under_it() -> None:
    world = levels(deepest=question(0, run="k3"))
    request = world.asked(run="k3").id
    for run, below in (("r1", "k1"), ("k1", "k2"), ("k2", "k3")):
        assert world.work(run) == Wait(until=None, requests=(request,), held_by=(below,))
    world.apply(answer(request))
    assert world.work("k3") == CallModel(step=2)
    assert world.work("k2") == Wait(until=None, held_by=("k3",))


def test_cancelling_goes_down_every_level_and_ends_all_in_one_command() -> None:
    world = levels()
    events = world.apply(CANCEL)
    ended = [x.run for x in events if isinstance(x, e.RunEnded)]
    assert ended == ["k3", "k2", "k1", "r1"]
    assert {world.code(run=run) for run in ("r1", "k1", "k2", "k3")} == {"cancelled"}
    assert world.apply(CANCEL) == ()


@pytest.mark.promise("D4", "G6")
def test_what_the_deepest_run_has_begun_holds_every_end_above_it() -> None:
    world = levels(deepest=sound(0, run="k3", ruling=ALLOW))
    world.begin(run="k3")
    world.apply(CANCEL)
    assert [world.code(run=run) for run in ("r1", "k1", "k2")] == ["Delegated"] * 3
    assert world.apply(CANCEL) == ()
    events = world.conclude(LOST, run="k3")
    assert [x.run for x in events if isinstance(x, e.RunEnded)] == ["k3", "k2", "k1", "r1"]
    assert world.code(run="k3") == "outcome_unknown"
    assert world.work() == Done(stop="cancelled")


@pytest.mark.promise("D4")
def test_an_outcome_that_nobody_settles_in_a_child_run_is_its_parents_too() -> None:
    world = delegated()
    world.propose(sound(0, run="k1", ruling=ALLOW), run="k1")
    world.begin(run="k1")
    world.conclude(LOST, run="k1")
    request = world.asked(run="k1")
    assert world.work() == Wait(until=None, requests=(request.id,), held_by=("k1",))
    world.until(request.deadline_at)
    world.expire()
    assert world.work("k1") == Done(stop="outcome_unknown")
    assert world.code() == "outcome_unknown"
    assert world.work() == CallModel(step=2)


def test_a_parent_whose_agent_fails_again_and_again_stops_with_all_its_other_agents() -> None:
    world = World()
    world.start()
    world.propose(*(agent(index, arguments={"message": "same"}) for index in range(4)))
    for index in range(4):
        world.delegate(f"k{index}", index)
    world.propose(sound(0, run="k3"), run="k3")
    for index in (0, 1):
        world.apply(c.FinishRun(run=f"k{index}", fence=1, stop="max_steps"))
    events = world.apply(c.FinishRun(run="k2", fence=1, stop="max_steps"))
    assert [x.run for x in events if isinstance(x, e.RunEnded)] == ["k2", "k3", "r1"]
    ended = [x.at for x in world.log if isinstance(x, e.CallEnded)]
    assert len(ended) == len(set(ended)) == 5
    assert world.code(run="k3") == "interrupted"
    assert world.work() == Done(stop="failed")


# --- a message of the user beside child runs ----------------------------------------------------


def test_a_message_supersedes_a_run_with_all_that_waits_under_it() -> None:
    world = levels()
    request = world.asked(run="k3").id
    assert world.refused(start("r2")) == "run_waiting"
    world.apply(start("r2", supersede=True))
    assert world.refused(approve(request)) == "superseded"
    assert {world.code(run=run) for run in ("r1", "k1", "k2", "k3")} == {"superseded"}


def test_a_run_whose_child_run_is_under_way_is_not_superseded() -> None:
    world = delegated()
    assert world.refused(start("r2")) == "run_active"
    assert world.refused(start("r2", supersede=True)) == "run_active"
    world.apply(c.ReleaseLease(run="k1", fence=1))
    assert world.refused(start("r2")) == "run_open"
    world.apply(start("r2", supersede=True))
    assert world.work("k1") == Done(stop="superseded")
