"""Escalation and reminders before the deadline, and what an open request holds (G8, G9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import events as e
from placet.core.commands import Lose
from placet.core.values import Recovery
from placet.core.work import ExpireDue, Wait, wake_at
from tests.core.build import (
    ALLOW,
    ASK,
    ASK_MORE,
    ESCALATION,
    EVE,
    HOUR,
    MICROSECOND,
    OTHER,
    START,
    World,
    approve,
    asking,
    at,
    names,
    sound,
)

FIRST, SECOND = (step.after for step in ESCALATION)


@pytest.mark.promise("G9")
@pytest.mark.conformance(8)
def test_nobody_answers_and_the_run_ends_with_expired_and_the_escalations_on_record() -> None:
    world = asking(ASK_MORE)
    world.until(START + FIRST)
    assert world.work() == ExpireDue(closes=False)
    assert names(world.expire()) == ["RequestEscalated"]
    world.until(START + SECOND)
    world.expire()
    world.until(START + HOUR)
    world.expire()
    steps = [x for x in world.log if isinstance(x, e.RequestEscalated)]
    assert [(x.step, x.approvers, x.channel) for x in steps] == [
        (1, ("eve",), "phone"),
        (2, (), ""),
    ]
    assert world.code() == "expired"
    assert "Asked: ann, bob, eve." in world.told()


@pytest.mark.promise("G9", "G10")
def test_who_is_reached_later_may_decide_from_then_on_and_not_before() -> None:
    world = asking(ASK_MORE)
    request = world.asked().id
    world.until(START + FIRST - MICROSECOND)
    assert world.refused(approve(request, EVE)) == "not_an_approver"
    world.wait(MICROSECOND)
    assert names(world.apply(approve(request, EVE))) == ["VoteCast"]


@pytest.mark.promise("G9")
def test_that_is_so_whether_or_not_any_process_runs_meanwhile() -> None:
    world = asking(ASK_MORE)
    world.until(START + SECOND)
    world.apply(approve(world.asked().id, EVE))
    assert not [x for x in world.log if isinstance(x, e.RequestEscalated)]
    world.lease()
    assert names(world.begin()) == ["AttemptBegun"]


def test_steps_that_were_missed_are_put_on_record_together_and_once() -> None:
    world = asking(ASK_MORE)
    world.until(START + SECOND)
    assert names(world.expire()) == ["RequestEscalated", "RequestEscalated"]
    assert names(world.expire()) == []


def test_a_run_is_looked_at_when_the_next_step_is_due() -> None:
    world = asking(ASK_MORE)
    work = world.work()
    assert isinstance(work, Wait)
    assert work.until == START + FIRST
    assert wake_at(world.state, world.run()) == START + FIRST
    world.until(START + SECOND)
    world.expire()
    assert wake_at(world.state, world.run()) == START + HOUR


def test_what_is_approved_reaches_nobody_else() -> None:
    world = asking(ASK_MORE)
    world.apply(approve(world.asked().id))
    world.until(START + FIRST)
    assert world.work() != ExpireDue()
    assert names(world.expire()) == []


def test_at_the_deadline_it_expires_and_reaches_nobody_else() -> None:
    world = asking(ASK_MORE)
    world.until(START + HOUR)
    assert names(world.expire())[:2] == ["RequestExpired", "CallEnded"]


@pytest.mark.promise("D4", "G9")
def test_a_settlement_reaches_more_people_too_and_has_no_default() -> None:
    world = World()
    world.start()
    world.propose(replace(sound(ruling=ALLOW, recovery=Recovery()), escalation=ESCALATION))
    world.begin()
    world.wait(timedelta(minutes=10))
    world.lease(holder=OTHER)
    fence = world.run().fence
    world.apply(Lose(at=at(), attempt=1, fence=fence, cause="gone"))
    settlement = world.asked()
    assert settlement.kind == "settlement"
    world.wait(FIRST)
    assert names(world.expire()) == ["RequestEscalated"]
    assert settlement.people(world.state.now) == {"ann", "bob", "eve"}


@pytest.mark.promise("G8")
def test_a_request_that_holds_its_surface_alone_lets_others_begin() -> None:
    narrow = replace(ASK, hold="surface")
    world = World()
    world.start()
    world.propose(
        sound(0, ruling=narrow),
        sound(1, ruling=ALLOW, surface="shell"),
        sound(2, ruling=ALLOW),
        sound(3, ruling=ALLOW, surface="*"),
    )
    assert names(world.begin(1)) == ["AttemptBegun"]
    assert world.refused(world.beginning(2)) == "held"
    assert world.refused(world.beginning(3)) == "held"


def test_by_default_it_holds_every_surface() -> None:
    world = World()
    world.start()
    world.propose(sound(0), sound(1, ruling=ALLOW, surface="shell"))
    assert isinstance(world.work(), Wait)
