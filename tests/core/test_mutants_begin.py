"""Small bugs in what may begin, and when: each of these tests is the one that finds some of them.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import events as e
from placet.core.commands import RecordReads
from placet.core.state import Approved, Open
from placet.core.values import Draft, Occurrence, Recovery, action_digest
from placet.core.work import RunEffect
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    BOB,
    DONE,
    RAISED,
    World,
    approve,
    approved,
    asking,
    at,
    edit,
    later,
    names,
    sound,
)

MINUTE = timedelta(minutes=1)

DRAFT = sound().draft
OTHERWISE: dict[str, Any] = {
    "tenant": "other",
    "session": "s2",
    "at": Occurrence("r1", 1, 1),
    "tool_call_id": "another",
    "tool": "refund",
    "tool_fingerprint": "f2",
    "arguments": {"amount": 1},
    "scope": ("pay", "refund"),
    "environment": "another",
    "salt": "11" * 16,
}


# --- what stands for an action (G3) -------------------------------------------------------------


@pytest.mark.promise("G3")
@pytest.mark.parametrize("part", Draft.__slots__)
def test_an_action_that_differs_in_one_part_has_another_digest(part: str) -> None:
    other = replace(DRAFT, **{part: OTHERWISE[part]})
    digests = [action_digest(each.document(), generation=0) for each in (DRAFT, other)]
    assert len(set(digests)) == 2


@pytest.mark.promise("G3", "G13")
def test_an_action_has_another_digest_once_its_surface_has_changed() -> None:
    document = DRAFT.document()
    assert action_digest(document, generation=0) != action_digest(document, generation=1)


# --- deadlines are kept (G5, G9, G13) -----------------------------------------------------------


@pytest.mark.promise("G5", "G9")
def test_an_edit_keeps_the_deadline_however_late_it_is_made() -> None:
    world = asking()
    old = world.asked()
    world.wait(MINUTE)
    world.apply(edit(old.id, sound(arguments={"amount": 5})))
    assert world.asked().id != old.id
    assert world.asked().deadline_at == old.deadline_at


@pytest.mark.promise("G13", "G9")
def test_what_is_asked_anew_keeps_the_deadline_however_late_it_changed() -> None:
    world = approved()
    old = world.asked()
    later(world, MINUTE)
    world.begin(today=sound(environment="another"))
    assert world.asked().id != old.id
    assert world.asked().deadline_at == old.deadline_at


@pytest.mark.promise("G8", "G5")
def test_an_edited_action_keeps_its_place_before_newer_ones() -> None:
    world = asking(ASK, ASK)
    world.apply(edit(world.asked(0).id, sound(arguments={"amount": 5})))
    world.apply(approve(world.asked(1).id))
    world.lease()
    assert isinstance(world.asked(0).state, Approved)
    assert world.refused(world.beginning(1)) == "held"
    assert world.work() == RunEffect(at=at(0))


# --- checked again (G13, G10, G3) ---------------------------------------------------------------


@pytest.mark.promise("G13", "G10")
def test_an_approval_is_void_where_policy_asks_more_people_by_now() -> None:
    world = approved()
    assert "RequestVoided" in names(world.begin(today=sound(ruling=ASK_TWO)))
    assert (world.asked().needs.quorum, world.asked().state) == (2, Open())


@pytest.mark.promise("G13")
def test_what_more_people_approved_runs_where_policy_asks_fewer_by_now() -> None:
    world = asking(ASK_TWO)
    for person in (ANN, BOB):
        world.apply(approve(world.asked().id, person))
    world.lease()
    assert "AttemptBegun" in names(world.begin(today=sound(ruling=ASK)))


@pytest.mark.promise("G13")
def test_every_effect_that_begins_is_counted_on_its_surface() -> None:
    world = asking(ALLOW, ALLOW)
    for count in (1, 2):
        world.begin(count - 1)
        world.conclude(DONE, count - 1)
        assert world.state.surfaces == {"payments": count}


@pytest.mark.promise("G3", "G13")
def test_a_retry_of_a_tool_that_has_changed_is_not_made() -> None:
    world = asking(ALLOW, recovery=AGAIN)
    world.begin()
    world.conclude(RAISED)
    today = sound(ruling=ALLOW, recovery=AGAIN, fingerprint="f2")
    assert "AttemptBegun" not in names(later(world).begin(today=today))
    assert world.code() == "tool_failed"
    assert "changed (tool)" in world.told()


# --- attempts (D4) ------------------------------------------------------------------------------


@pytest.mark.promise("D4", "D5")
def test_an_attempt_lasts_as_long_as_its_tool_declares_and_a_little_longer() -> None:
    world = approved(recovery=Recovery(time_limit=7 * MINUTE))
    (begun,) = (event for event in world.begin() if isinstance(event, e.AttemptBegun))
    assert begun.until == world.state.now + 7 * MINUTE + timedelta(seconds=30)


# --- reads and order (G1, G2, D2) ---------------------------------------------------------------


@pytest.mark.promise("G2", "D4")
def test_an_effect_has_no_result_without_an_intent() -> None:
    world = asking(ALLOW)
    assert world.refused(read(world)) == "not_a_read"


@pytest.mark.promise("G1", "G2")
def test_a_read_that_people_are_asked_about_has_no_result_before_they_say_yes() -> None:
    world = asking(ASK, ALLOW, kind="read")
    assert world.refused(read(world)) == "not_a_read"
    assert isinstance(world.asked().state, Open)


def test_the_effects_of_a_step_run_in_the_order_in_which_they_were_proposed() -> None:
    world = asking(ALLOW, ALLOW)
    assert world.work() == RunEffect(at=at(0))


def read(world: World) -> RecordReads:
    """Give the command that records what the first call of the step found."""
    fence = world.run().fence
    return RecordReads(run="r1", step=1, fence=fence, results=((0, "succeeded", "found"),))
