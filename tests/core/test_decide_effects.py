"""What is decided about effects: intents, outcomes, recovery, settlements, the world read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import events as e
from placet.core.commands import Unknown, Withdraw
from placet.core.state import Approved, Open, Spent, Voided
from placet.core.values import Allow, Ask, Needs, idempotency_key
from placet.core.work import CallModel, RunEffect, Wait
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    BOB,
    DENY,
    DONE,
    HOLDER,
    HOUR,
    LOST,
    NOT_DONE,
    RAISED,
    World,
    approve,
    approved,
    asking,
    at,
    edit,
    names,
    sound,
    unsound,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def allowed(**changes: Any) -> World:
    """Give a world whose one call is allowed."""
    return asking(ALLOW, **changes)


# --- single use -------------------------------------------------------------------------------


@pytest.mark.promise("G7", "D4")
@pytest.mark.conformance(39)
def test_an_approval_is_spent_with_the_intent_and_the_second_worker_is_refused() -> None:
    world = approved()
    request = world.asked()
    events = world.begin()
    assert names(events) == ["AttemptBegun"]
    begun = events[0]
    assert isinstance(begun, e.AttemptBegun)
    assert begun.key == idempotency_key(request.digest)
    assert world.state.requests[request.id].state == Spent(votes=("ann",))
    assert world.refused(world.beginning()) == "call_executing"
    world.conclude(DONE)
    assert world.begin() == ()
    assert world.refused(approve(request.id, BOB)) == "already_approved"


@pytest.mark.promise("G7")
@pytest.mark.conformance(4)
@pytest.mark.parametrize("outcome", [DONE, RAISED, NOT_DONE, LOST])
def test_an_approval_is_spent_whatever_the_outcome(outcome: Unknown) -> None:
    world = approved()
    request = world.asked().id
    world.begin()
    world.conclude(outcome)
    assert isinstance(world.state.requests[request].state, Spent)
    assert world.refused(Withdraw(request=request, by=ANN)) == "spent"


@pytest.mark.promise("G3")
def test_what_is_stored_must_be_what_was_approved() -> None:
    world = approved()
    assert world.refused(world.beginning(digest="0" * 64)) == "digest_mismatch"
    assert isinstance(world.asked().state, Approved)


def test_a_ruling_on_another_call_begins_nothing() -> None:
    world = asking(ALLOW, ALLOW)
    other = world.drafts[at(1)]
    assert world.refused(world.beginning(0, today=other)) == "wrong_occurrence"


@pytest.mark.promise("G1")
def test_an_allowed_call_is_ruled_on_again_as_it_begins() -> None:
    world = allowed()
    denied = replace(world.drafts[at()], ruling=DENY)
    assert names(world.begin(today=denied)) == ["CallEnded"]
    assert world.code() == "policy_denied"
    world = allowed()
    world.begin(today=replace(sound(), ruling=ASK))
    assert world.asked().state == Open()
    world = allowed()
    world.begin(today=replace(sound(), ruling=Ask(rule="x", needs=Needs(approvers=()), lasts=HOUR)))
    assert world.code() == "no_approver"
    world = allowed()
    world.begin(today=unsound())
    assert world.code() == "unknown_tool"


@pytest.mark.promise("G4")
def test_an_allowed_call_whose_tool_changed_is_frozen_anew_before_it_runs() -> None:
    world = allowed()
    digest = world.call().digest
    for number in (2, 3):
        today = sound(ruling=ALLOW, fingerprint=f"f{number}")
        assert names(world.begin(today=today)) == ["CallProposed"]
        assert world.call().digest != digest
        assert world.work() == RunEffect(at=at())
    world.begin(today=sound(ruling=ALLOW, fingerprint="f4"))
    assert world.code() == "environment_unstable"


@pytest.mark.promise("G3")
@pytest.mark.parametrize("today", [unsound(), sound(ruling=DENY), sound(fingerprint="f2")])
def test_what_is_tried_again_must_still_be_what_was_ruled_on(today: Any) -> None:
    world = asking(ALLOW, recovery=AGAIN)
    world.begin()
    world.conclude(RAISED)
    world.wait(SECOND)
    world.lease()
    world.begin(today=today)
    assert world.code() == "tool_failed"
    assert "may have acted" in world.told()
    world = asking(ALLOW, recovery=AGAIN)
    world.begin()
    world.conclude(LOST)
    world.wait(SECOND)
    world.lease()
    world.begin(today=today)
    assert world.asked().kind == "settlement"


# --- what comes first (G8) --------------------------------------------------------------------


@pytest.mark.promise("G8")
@pytest.mark.conformance(12)
def test_while_a_request_waits_no_other_effect_starts_in_the_session() -> None:
    world = World()
    world.start()
    world.propose(
        sound(0, ruling=ALLOW, surface="elsewhere"),
        sound(1),
        sound(2, ruling=ALLOW, kind="read"),
    )
    assert type(world.work()).__name__ == "RunReads"
    error = world.refused(world.beginning(0))
    assert error == "held"
    world.apply(approve(world.asked(1).id))
    assert "AttemptBegun" in names(world.begin(0))


@pytest.mark.promise("G8")
def test_of_approved_actions_the_older_goes_first() -> None:
    world = asking(ASK, ASK, ALLOW)
    world.apply(approve(world.asked(1).id))
    assert isinstance(world.work(), Wait)
    world.apply(approve(world.asked(0).id))
    world.lease()
    assert world.refused(world.beginning(1)) == "held"
    assert world.refused(world.beginning(2)) == "held"
    for index in (0, 1, 2):
        assert world.work() == RunEffect(at=at(index))
        world.begin(index)
        world.conclude(DONE, index)
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G8")
@pytest.mark.conformance(31)
def test_of_several_requests_a_rejected_one_is_answered_while_the_other_waits() -> None:
    world = asking(ASK, ASK)
    world.apply(approve(world.asked(0).id))
    world.lease()
    world.begin(0)
    world.conclude(DONE, 0)
    assert (world.code(0), world.code(1)) == ("succeeded", "Asking")
    assert isinstance(world.work(), Wait)


@pytest.mark.promise("G8")
def test_a_retry_of_what_has_begun_goes_on_while_a_request_waits() -> None:
    world = World()
    world.start()
    world.propose(sound(0, ruling=ALLOW, kind="agent"), sound(1, ruling=ALLOW, recovery=AGAIN))
    world.delegate()
    world.begin(1)
    world.propose(sound(0, run="k1"), run="k1")
    assert world.asked(run="k1").state == Open()
    world.conclude(RAISED, 1)
    world.wait(SECOND)
    world.lease()
    assert names(world.begin(1)) == ["AttemptBegun"]


@pytest.mark.promise("G8")
def test_two_effects_never_run_at_once_on_one_surface() -> None:
    world = asking(ALLOW, ALLOW)
    world.begin(0)
    assert world.refused(world.beginning(1)) == "held"
    world = World()
    world.start()
    world.propose(sound(0, ruling=ALLOW, surface="a"), sound(1, ruling=ALLOW, surface="b"))
    world.begin(0)
    assert names(world.begin(1)) == ["AttemptBegun"]


@pytest.mark.promise("G8")
def test_a_tool_that_declares_no_surface_touches_all() -> None:
    world = World()
    world.start()
    world.propose(sound(0, ruling=ALLOW, surface="*"), sound(1, ruling=ALLOW, surface="b"))
    world.begin(0)
    assert world.refused(world.beginning(1)) == "held"


# --- checked again (G13) ----------------------------------------------------------------------


def _changed(what: str, world: World) -> dict[str, Any]:
    today = world.drafts[at()]
    match what:
        case "tool":
            return {"today": sound(fingerprint="f2")}
        case "permission scope":
            return {"today": sound(scope=("pay", "more"))}
        case "environment":
            return {"today": sound(environment="another head")}
        case "arguments":
            return {"today": sound(arguments={"amount": 1000, "currency": "USD"})}
        case "policy":
            return {"today": replace(sound(), ruling=ASK_TWO)}
        case _:
            world.state = replace(world.state, surfaces={"payments": 1})
            return {"today": replace(today, draft=replace(today.draft, salt="7" * 32))}


@pytest.mark.promise("G13")
@pytest.mark.conformance(14, 27)
@pytest.mark.parametrize(
    "what",
    ["tool", "permission scope", "environment", "arguments", "policy", "surface generation"],
)
def test_what_changed_since_it_was_asked_voids_the_request_and_is_asked_anew(what: str) -> None:
    world = approved()
    old = world.asked()
    events = world.begin(**_changed(what, world))
    assert names(events) == ["CallProposed", "RequestOpened", "RequestVoided", "LeaseReleased"]
    new = world.asked()
    assert world.state.requests[old.id].state == Voided(changed=(what,), successor=new.id)
    assert new.replaces == old.id
    assert new.deadline_at == old.deadline_at
    opened = [x for x in events if isinstance(x, e.RequestOpened)]
    assert what in ((opened[0].changes and opened[0].changes.body) or "")
    assert world.refused(approve(old.id, BOB)) == "voided"


@pytest.mark.promise("G13")
def test_an_action_whose_world_changes_three_times_is_denied() -> None:
    world = asking()
    for number in (1, 2, 3):
        world.apply(approve(world.asked().id))
        world.lease()
        world.begin(today=sound(environment=f"head {number}"))
    assert world.code() == "environment_unstable"
    assert "environment" in world.told()


@pytest.mark.promise("G13")
@pytest.mark.parametrize("code", ["policy_denied", "unknown_tool", "no_approver"])
def test_an_approved_action_that_may_not_run_any_more_is_voided_and_answered(code: str) -> None:
    world = approved()
    request = world.asked().id
    nobody = Ask(rule="x", needs=Needs(approvers=(), quorum=2), lasts=HOUR)
    today = {
        "policy_denied": replace(sound(), ruling=DENY),
        "unknown_tool": unsound(),
        "no_approver": replace(sound(), ruling=nobody),
    }[code]
    world.begin(today=today)
    assert world.code() == code
    state = world.state.requests[request].state
    assert isinstance(state, Voided)
    assert state.successor is None


@pytest.mark.promise("G13")
def test_a_surface_that_only_earlier_calls_of_the_step_touched_is_unchanged() -> None:
    world = asking(ASK, ASK)
    for index in (0, 1):
        world.apply(approve(world.asked(index).id))
    world.lease()
    world.begin(0)
    world.conclude(DONE, 0)
    assert names(world.begin(1)) == ["AttemptBegun"]


@pytest.mark.promise("G13")
def test_a_policy_that_became_laxer_lets_an_approved_action_run() -> None:
    world = approved()
    assert "AttemptBegun" in names(world.begin(today=replace(sound(), ruling=Allow(rule="new"))))


@pytest.mark.promise("G5")
def test_the_edited_version_is_what_begins() -> None:
    world = asking()
    edited = sound(arguments={"amount": 5})
    world.apply(edit(world.asked().id, edited))
    world.lease(holder=HOLDER)
    begun = world.begin(today=sound(arguments={"amount": 5}))[0]
    assert isinstance(begun, e.AttemptBegun)
    assert begun.key == idempotency_key(world.call().digest)


@pytest.mark.promise("G13")
def test_an_approved_action_is_asked_about_anew_where_its_tool_touches_another_surface() -> None:
    world = approved()
    today = sound(surface="elsewhere")
    voided = [x for x in world.begin(today=today) if isinstance(x, e.RequestVoided)]
    assert [x.changed for x in voided] == [("surface",)]


@pytest.mark.promise("G1", "G13")
def test_a_third_change_that_policy_denies_is_told_as_denied() -> None:
    world = approved()
    for number in (1, 2):
        known = world.drafts[at()]
        draft = replace(known.draft, environment=f"e{number}", salt=f"{number:032x}")
        world.drafts[at()] = replace(known, draft=draft)
        world.begin(today=world.drafts[at()])
        world.apply(approve(world.asked().id))
        world.lease()
    world.begin(today=replace(world.drafts[at()], ruling=DENY))
    assert world.code() == "policy_denied"
