"""Erasing a session: only where nothing of it is open, once, and nothing goes on after it (H4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.state import RunOver
from placet.core.values import Principal
from tests.core.build import (
    ANN,
    ASK,
    BOB,
    World,
    approve,
    asking,
    at,
    executing,
    settle,
    start,
    unsettled,
)

ERASE = c.EndSession(by=BOB, cause="rita asked for it", erase=True)


def over() -> World:
    """Give a session whose one run has ended."""
    world = World()
    world.start()
    world.propose(answer="done")
    assert isinstance(world.run().state, RunOver)
    return world


@pytest.mark.promise("H4")
def test_an_erasure_is_one_event_that_says_who_and_why_and_ends_the_session() -> None:
    world = over()
    assert world.apply(ERASE) == (e.SessionEnded(by="bob", cause="rita asked for it", erased=True),)
    assert world.state.ended
    assert world.state.erased


@pytest.mark.promise("H4")
def test_a_session_that_has_ended_can_be_erased_and_is_erased_once() -> None:
    world = over()
    world.apply(c.EndSession(by=ANN))
    assert not world.state.erased
    assert len(world.apply(ERASE)) == 1
    assert world.apply(ERASE) == ()
    assert world.apply(replace(ERASE, by=Principal(id="cleo"))) == ()
    assert world.apply(c.EndSession(by=ANN)) == ()


@pytest.mark.promise("H4")
def test_nothing_is_erased_while_a_run_is_open() -> None:
    for world in (asking(ASK), executing()):
        assert world.refused(ERASE) == "run_open"
        world.apply(c.EndSession(by=ANN))
    assert world.refused(ERASE) == "run_open"  # What has begun has no outcome yet.


@pytest.mark.promise("H4", "D4")
def test_nothing_is_erased_while_a_person_is_asked_about_an_outcome() -> None:
    world = unsettled()
    request = world.asked()
    world.until(request.deadline_at)
    world.expire()
    assert isinstance(world.run().state, RunOver)
    assert world.refused(ERASE) == "request_open"
    world.apply(settle(request.id, True))
    assert len(world.apply(ERASE)) == 1


@pytest.mark.promise("H4", "G2")
def test_nothing_goes_on_in_an_erased_session() -> None:
    world = asking(ASK)
    request = world.asked().id
    world.apply(c.CancelRun(run="r1", by=ANN, cause="enough"))
    world.apply(ERASE)
    for command in (
        start("r2"),
        start("r1"),
        approve(request),
        c.Expire(run="r1"),
        c.CancelRun(run="r1", by=ANN, cause="enough"),
        c.Withdraw(request=request, by=ANN),
    ):
        assert world.refused(command) == "session_erased"
    assert not world.call().open
    assert world.call().at == at()
