"""Sagas beside other things: cancels, agents, settlements before, and what was approved (D8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.errors import PlacetError
from placet.core.values import Recovery, Undoing
from placet.core.work import Unwind
from tests.core.build import (
    ALLOW,
    ANN,
    COMPENSATED,
    DONE,
    LOST,
    NOT_DONE,
    ONCE,
    RAISED,
    World,
    approve,
    at,
    names,
    settle,
    sound,
)
from tests.core.test_decide_sagas import BACK, fails, saga


@pytest.mark.promise("G6")
@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize("outcome", [NOT_DONE, LOST])
def test_a_run_that_is_cancelled_in_a_step_that_stops_answers_each_call_once(
    outcome: Any, approved: bool
) -> None:
    world = World()
    world.start(on_failure="stop")
    again = Recovery(retries=3)
    calls = [sound(0, ruling=ALLOW, recovery=again), sound(1, surface="s1")]
    world.propose(calls[0], calls[1] if approved else replace(calls[1], ruling=ALLOW))
    if approved:
        world.apply(approve(world.asked(1).id))
        world.lease()
    world.begin(0)
    world.conclude(outcome, 0)
    events = world.apply(c.CancelRun(run="r1", by=ANN, cause="enough"))
    ended = [x.at for x in events if isinstance(x, e.CallEnded)]
    assert sorted(ended) == [at(0), at(1)]
    assert world.code(1) == "cancelled"


@pytest.mark.promise("G3", "D8")
def test_a_settlement_is_a_question_of_its_own_though_no_attempt_lies_between() -> None:
    world = saga(COMPENSATED, ONCE)
    world.begin(0)
    world.conclude(RAISED, 0)
    world.take_back(0)
    world.conclude(LOST, 0)
    first = world.asked(0).id
    world.apply(settle(first, True))
    world.lease()
    fails(world, 1)
    opened = [x for x in world.unwind(1) if isinstance(x, e.RequestOpened)]
    assert [x.request == first for x in opened] == [False]
    assert type(world.state.requests[first].state).__name__ == "Settled"


def test_a_request_that_ended_with_its_step_does_not_say_that_the_run_was_ended() -> None:
    world = World()
    world.start(on_failure="stop")
    world.propose(sound(0, ruling=ALLOW), sound(1, surface="s1"))
    request = world.asked(1).id
    world.apply(approve(request))
    world.lease()
    fails(world, 0)
    told = r"It was cancelled: another call of this step failed \(pay\)\. "
    with pytest.raises(PlacetError, match=told):
        world.apply(approve(request))


@pytest.mark.promise("D8")
def test_what_a_person_found_out_is_not_rolled_back_while_its_body_may_act() -> None:
    back = Recovery(roll_back=Undoing(safe_if_absent=True, idempotent=True))
    world = saga(back, ONCE)
    world.begin(0, snapshot="as it was")
    world.conclude(LOST, 0)
    world.apply(settle(world.asked(0).id, True))
    world.lease()
    fails(world, 1)
    assert "RequestOpened" in names(world.unwind(1))
    assert world.asked(0).kind == "settlement"


def beside(saga: Any = "step") -> World:
    """An effect of a saga is under way beside an agent's run."""
    world = World()
    world.start(on_failure="compensate_earlier", saga=saga)
    helper = sound(1, kind="agent", ruling=ALLOW, tool="helper", surface="")
    after = sound(2, ruling=ALLOW, surface="c")
    world.propose(sound(0, ruling=ALLOW, recovery=BACK, surface="a"), helper, after)
    world.delegate("k1", 1)
    world.begin(0)
    return world


@pytest.mark.promise("D8")
def test_an_effect_that_was_under_way_when_a_later_call_failed_is_taken_back() -> None:
    world = beside()
    world.apply(c.FinishRun(run="k1", fence=world.run("k1").fence, stop="failed"))
    assert world.code(1) == "Unwinding"
    world.conclude(DONE, 0)
    assert world.work() == Unwind(at=at(1), earlier=at(0))


@pytest.mark.promise("D8")
def test_an_effect_under_way_that_fails_too_leaves_nothing_to_tell() -> None:
    world = beside()
    world.apply(c.FinishRun(run="k1", fence=world.run("k1").fence, stop="failed"))
    world.conclude(RAISED, 0)
    world.unwind(1)
    assert "taken back" not in world.told(1)


@pytest.mark.promise("D8")
def test_an_agent_of_which_nobody_knows_what_it_did_breaks_the_step_and_the_saga() -> None:
    world = beside()
    world.conclude(DONE, 0)
    world.apply(c.FinishRun(run="k1", fence=world.run("k1").fence, stop="outcome_unknown"))
    assert [world.code(1), world.code(2)] == ["Unwinding", "interrupted"]


@pytest.mark.promise("G13")
def test_who_approved_before_an_earlier_effect_was_taken_back_is_asked_anew() -> None:
    world = World()
    world.start(on_failure="compensate_earlier")
    helper = sound(2, kind="agent", ruling=ALLOW, tool="helper", surface="")
    first = sound(0, ruling=ALLOW, recovery=BACK, surface="pay")
    world.propose(first, sound(1, ruling=ALLOW, surface="b"), helper)
    world.begin(0)
    world.conclude(DONE, 0)
    world.begin(1)
    world.delegate("k1", 2)
    world.propose(sound(0, run="k1", surface="pay"), run="k1")
    world.apply(approve(world.asked(0, run="k1").id))
    world.conclude(RAISED, 1)
    world.unwind(1)
    world.take_back(0)
    world.conclude(DONE, 0)
    world.unwind(1)
    world.lease("k1")
    assert "RequestVoided" in names(world.begin(0, run="k1"))
