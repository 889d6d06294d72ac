"""Sagas: what becomes of a step, and of what earlier calls did, when a call fails (D8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.state import CallOver, RunOver, UndoDue, Unwinding
from placet.core.values import Recovery, Undoing
from placet.core.work import CallModel, RunEffect, TakeBack, Unwind, Wait
from tests.core.build import (
    ALLOW,
    ANN,
    ASK,
    COMPENSATED,
    DONE,
    HOUR,
    LOST,
    NOT_DONE,
    ONCE,
    OTHER,
    PROBED,
    RAISED,
    World,
    approve,
    at,
    names,
    settle,
    sound,
    unsound,
)

#: Undone only where it is known to have happened.
BACK = Recovery(compensation=Undoing())
AGAIN_BACK = Recovery(compensation=Undoing(idempotent=True, retries=1))


def saga(*recoveries: Recovery, on_failure: Any = "compensate_earlier", **more: Any) -> World:
    """Give a run of one step with an allowed effect for each recovery, each on its own surface."""
    world = World()
    world.start(on_failure=on_failure, **more)
    world.propose(
        *(
            sound(index, ruling=ALLOW, recovery=recovery, tool=f"t{index}", surface=f"s{index}")
            for index, recovery in enumerate(recoveries)
        )
    )
    return world


def done(world: World, *indexes: int, step: int = 1) -> None:
    """Let effects succeed, one after the other."""
    for index in indexes:
        world.begin(index, step=step)
        world.conclude(DONE, index, step=step)


def fails(world: World, index: int, step: int = 1, outcome: Any = RAISED) -> tuple[e.Event, ...]:
    """Let an effect fail."""
    world.begin(index, step=step)
    return world.conclude(outcome, index, step=step)


def undo(world: World, index: int, *, step: int = 1, failed: int, failed_step: int = 1) -> None:
    """Take back what an earlier call did."""
    assert world.work() == Unwind(at=at(failed, step=failed_step), earlier=at(index, step=step))
    world.unwind(failed, step=failed_step)
    assert world.work() == TakeBack(at=at(index, step=step))
    world.take_back(index, step=step)
    world.conclude(c.Succeeded(told="undone"), index, step=step)


# --- stop -------------------------------------------------------------------------------------


@pytest.mark.conformance(33)
@pytest.mark.promise("D8")
def test_after_a_failure_what_has_not_begun_answers_that_it_did_not_run() -> None:
    world = World()
    world.start(on_failure="stop")
    world.propose(sound(0, ruling=ALLOW), sound(1, ruling=ALLOW), sound(2, ruling=ASK))
    request = world.asked(2).id
    world.apply(approve(request))
    world.lease()
    fails(world, 0)
    assert [world.code(index) for index in range(3)] == [
        "tool_failed",
        "interrupted",
        "interrupted",
    ]
    assert world.told(1).startswith("Interrupted: another call of this step failed (pay).\n")
    assert type(world.state.requests[request].state).__name__ == "Cancelled"
    assert world.work() == CallModel(step=2)


def test_by_default_a_step_goes_on_after_a_failure() -> None:
    world = saga(ONCE, ONCE, on_failure="continue")
    fails(world, 0)
    assert world.code(1) == "Allowed"


@pytest.mark.promise("D8")
@pytest.mark.parametrize("on_failure", ["stop", "compensate_earlier"])
def test_the_next_call_waits_until_the_end_of_the_one_before_is_known(on_failure: str) -> None:
    world = saga(PROBED, ONCE, on_failure=on_failure)
    world.begin(0)
    assert world.refused(world.beginning(1)) == "held"
    world.conclude(LOST, 0)
    assert world.refused(world.beginning(1)) == "held"
    fence = world.run().fence
    world.apply(c.Probed(at=at(0), attempt=1, fence=fence, happened=None))
    assert isinstance(world.work(), Wait), "until a person has settled it"
    world.apply(settle(world.asked(0).id, True))
    world.lease()
    assert world.work() == RunEffect(at=at(1))


def test_where_a_step_goes_on_it_does_not_wait_for_another_surface() -> None:
    world = saga(PROBED, ONCE, on_failure="continue")
    world.begin(0)
    world.conclude(LOST, 0)
    assert names(world.begin(1)) == ["AttemptBegun"]


def test_nothing_of_a_step_begins_of_which_one_call_was_no_good() -> None:
    for index in (0, 1):
        world = World()
        world.start(on_failure="stop")
        calls = [sound(0, ruling=ALLOW), sound(1, ruling=ASK)]
        calls[index : index + 1] = [unsound(index)]  # type: ignore[list-item]  # Either is given.
        world.propose(*calls)
        assert world.code(index) == "unknown_tool"
        assert world.code(1 - index) == "interrupted"
        assert not world.state.requests, "nobody is asked about what will not run"


def test_a_no_is_no_failure() -> None:
    world = World()
    world.start(on_failure="compensate_earlier")
    world.propose(sound(0, ruling=ALLOW, recovery=BACK), sound(1, ruling=ASK), sound(2, ruling=ASK))
    request = world.asked(1).id
    world.apply(c.Reject(request=request, by=ANN, eligible=frozenset({"ann"}), reason="no"))
    assert world.code(1) == "rejected"
    assert world.code(2) == "Asking"
    assert world.code(0) == "Allowed"


# --- taking earlier effects back --------------------------------------------------------------


@pytest.mark.promise("D8", "G6")
def test_earlier_effects_are_taken_back_the_latest_first_and_the_model_is_told_once() -> None:
    world = saga(BACK, BACK, ONCE)
    done(world, 0, 1)
    events = fails(world, 2)
    assert names(events) == ["UnwindingBegun"]
    undo(world, 1, failed=2)
    undo(world, 0, failed=2)
    assert world.work() == Unwind(at=at(2), earlier=None)
    assert names(world.unwind(2)) == ["CallEnded"]
    assert [world.code(index) for index in range(3)] == ["succeeded", "succeeded", "tool_failed"]
    assert world.told(2).endswith(
        "What earlier calls had done was taken back, the latest first:\n"
        "- t1 (1.1): compensated\n- t0 (1.0): compensated"
    )
    assert world.told(2).startswith("Failed: it raised")
    assert world.told(0) == "done"
    assert world.work() == CallModel(step=2)
    ended = [x.at for x in world.log if isinstance(x, e.CallEnded)]
    assert len(ended) == len(set(ended)) == 3


@pytest.mark.promise("D4", "D8")
def test_what_is_taken_back_has_an_intent_and_a_key_of_its_own() -> None:
    world = saga(BACK, ONCE)
    done(world, 0)
    fails(world, 1)
    undo(world, 0, failed=1)
    begun = [x for x in world.log if isinstance(x, e.AttemptBegun) and x.at == at(0)]
    assert [x.purpose for x in begun] == ["run", "compensate"]
    assert begun[0].key != begun[1].key


def test_an_effect_that_fails_takes_its_own_way_back_first() -> None:
    world = saga(BACK, COMPENSATED)
    done(world, 0)
    fails(world, 1)
    assert world.code(1) == "UndoDue"
    world.take_back(1)
    assert names(world.conclude(DONE, 1)) == ["UnwindingBegun"]
    undo(world, 0, failed=1)
    world.unwind(1)
    assert world.code(1) == "tool_failed_and_compensated"


def test_what_declares_no_way_back_stands_and_the_model_is_told_so() -> None:
    world = saga(BACK, ONCE, ONCE)
    done(world, 0, 1)
    fails(world, 2)
    assert names(world.unwind(2)) == ["EffectUnwound"]
    undo(world, 0, failed=2)
    world.unwind(2)
    assert "- t1 (1.1): it stands\n- t0 (1.0): compensated" in world.told(2)


def test_a_first_failure_has_nothing_to_take_back() -> None:
    world = saga(BACK, BACK)
    fails(world, 0)
    assert [world.code(0), world.code(1)] == ["tool_failed", "interrupted"]


def test_a_saga_of_a_step_ends_at_the_step_and_one_of_a_run_at_its_start() -> None:
    for scope, codes in (("step", "tool_failed"), ("run", "Unwinding")):
        world = saga(BACK, saga=scope)
        done(world, 0)
        world.propose(sound(0, step=2, ruling=ALLOW, recovery=BACK, surface="s0"))
        fails(world, 0, step=2)
        assert world.code(0, step=2) == codes
        if scope == "run":
            undo(world, 0, failed=0, failed_step=2)
            world.unwind(0, step=2)
            assert "- t0 (1.0): compensated" in world.told(0, step=2)


def test_what_was_taken_back_is_not_taken_back_again() -> None:
    world = saga(BACK, ONCE, saga="run")
    done(world, 0)
    fails(world, 1)
    undo(world, 0, failed=1)
    world.unwind(1)
    world.propose(sound(0, step=2, ruling=ALLOW))
    fails(world, 0, step=2)
    assert world.code(0, step=2) == "tool_failed"


def test_a_read_that_fails_takes_nothing_back() -> None:
    world = World()
    world.start(on_failure="compensate_earlier", saga="run")
    world.propose(sound(0, ruling=ALLOW, recovery=BACK))
    done(world, 0)
    world.propose(sound(0, step=2, ruling=ALLOW, kind="read"))
    fence = world.run().fence
    world.apply(
        c.RecordReads(run="r1", step=2, fence=fence, results=((0, "tool_failed", "no file"),))
    )
    assert world.code(0, step=2) == "tool_failed"
    assert world.run().undoable == at(0)


def test_an_attempt_that_certainly_did_not_act_still_breaks_the_saga() -> None:
    world = saga(BACK, ONCE)
    done(world, 0)
    assert names(fails(world, 1, outcome=NOT_DONE)) == ["UnwindingBegun"]


# --- what goes wrong on the way back ----------------------------------------------------------


@pytest.mark.promise("D4", "D8")
def test_a_compensation_that_fails_is_put_to_a_person_before_the_next_is_taken_back() -> None:
    world = saga(BACK, BACK, ONCE)
    done(world, 0, 1)
    fails(world, 2)
    world.unwind(2)
    world.take_back(1)
    world.conclude(RAISED, 1)
    settlement = world.asked(1)
    assert settlement.kind == "settlement"
    assert isinstance(world.work(), Wait)
    assert isinstance(world.call(0).state, CallOver), "strictly in reverse order"
    world.apply(settle(settlement.id, False))
    world.lease()
    undo(world, 0, failed=2)
    world.unwind(2)
    assert "- t1 (1.1): compensated\n- t0 (1.0): compensated" in world.told(2)
    assert world.told(1) == "done"


@pytest.mark.parametrize(
    "happened,told", [(True, "it stands"), (None, "nobody knows whether it was taken back")]
)
def test_a_person_may_find_that_it_stands_or_that_nobody_knows(
    happened: bool | None, told: str
) -> None:
    world = saga(BACK, ONCE)
    done(world, 0)
    fails(world, 1)
    world.unwind(1)
    world.take_back(0)
    world.conclude(LOST, 0)
    world.apply(settle(world.asked(0).id, happened))
    world.lease()
    world.unwind(1)
    assert f"- t0 (1.0): {told}" in world.told(1)
    assert world.code(0) == "succeeded"


def test_a_settlement_that_lapses_does_not_leave_the_others_standing() -> None:
    world = saga(BACK, BACK, ONCE)
    done(world, 0, 1)
    fails(world, 2)
    world.unwind(2)
    world.take_back(1)
    world.conclude(RAISED, 1)
    world.until(world.asked(1).deadline_at)
    world.expire()
    assert world.run().stopping == "outcome_unknown"
    world.lease()
    undo(world, 0, failed=2)
    world.unwind(2)
    assert "- t1 (1.1): nobody knows" in world.told(2)
    assert world.run().state == RunOver(stop="outcome_unknown")


def test_a_compensation_declared_idempotent_is_tried_again() -> None:
    world = saga(AGAIN_BACK, ONCE)
    done(world, 0)
    fails(world, 1)
    world.unwind(1)
    world.take_back(0)
    world.conclude(RAISED, 0)
    assert isinstance(world.call(0).state, UndoDue)
    world.wait(HOUR)
    world.lease()
    world.take_back(0)
    world.conclude(DONE, 0)
    world.unwind(1)
    assert "- t0 (1.0): compensated" in world.told(1)


@pytest.mark.promise("D5")
def test_a_driver_that_died_is_followed_by_another_that_goes_on_with_taking_back() -> None:
    world = saga(BACK, BACK, ONCE)
    done(world, 0, 1)
    fails(world, 2)
    stale = world.unwinding(2)
    world.wait(timedelta(minutes=2))
    world.lease(holder=OTHER)
    assert world.refused(stale) == "stale_fence"
    undo(world, 1, failed=2)
    undo(world, 0, failed=2)
    world.unwind(2)
    assert world.code(2) == "tool_failed"


def test_a_run_that_is_cancelled_meanwhile_ends_when_all_is_taken_back() -> None:
    world = saga(BACK, ONCE)
    done(world, 0)
    fails(world, 1)
    world.apply(c.CancelRun(run="r1", by=ANN, cause="enough"))
    assert isinstance(world.call(1).state, Unwinding)
    undo(world, 0, failed=1)
    world.unwind(1)
    assert world.run().state == RunOver(stop="cancelled")
    assert world.code(1) == "tool_failed"


def test_a_withheld_text_that_was_changed_from_outside_is_not_told() -> None:
    world = saga(BACK, ONCE)
    done(world, 0)
    fails(world, 1)
    undo(world, 0, failed=1)
    forged = replace(world.unwinding(1), told="It went well.")
    assert world.refused(forged) == "digest_mismatch"


@pytest.mark.promise("G8")
def test_another_effect_on_its_surface_waits_until_all_is_taken_back() -> None:
    world = World()
    world.start(on_failure="compensate_earlier")
    calls = [sound(0, ruling=ALLOW, recovery=BACK), sound(1, ruling=ALLOW)]
    helper = sound(2, kind="agent", ruling=ALLOW, tool="helper", surface="")
    world.propose(*calls, helper)
    world.delegate("k1", 2)
    world.propose(sound(0, run="k1", ruling=ALLOW), run="k1")
    done(world, 0)
    fails(world, 1)
    assert isinstance(world.call(1).state, Unwinding)
    work = world.work("k1")
    assert isinstance(work, Wait)
    assert work.held_by == (str(at(1)),)
    undo(world, 0, failed=1)
    world.unwind(1)
    assert world.work("k1") == RunEffect(at=at(0, run="k1"))


def test_nothing_is_taken_back_while_another_effect_of_the_session_is_under_way() -> None:
    world = World()
    world.start(on_failure="compensate_earlier")
    calls = [sound(0, ruling=ALLOW, recovery=BACK), sound(1, ruling=ALLOW, surface="shell")]
    helper = sound(2, kind="agent", ruling=ALLOW, tool="helper", surface="")
    world.propose(*calls, helper)
    done(world, 0)
    world.delegate("k1", 2)
    world.propose(sound(0, run="k1", ruling=ALLOW), run="k1")
    world.begin(0, run="k1")
    fails(world, 1)
    work = world.work()
    assert isinstance(work, Wait)
    assert work.held_by[0] == str(at(0, run="k1"))
    world.conclude(DONE, 0, run="k1")
    world.lease()
    undo(world, 0, failed=1)
