"""How long an idempotency key is trusted: the other side may forget it (D4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core.deciding_effects import ATTEMPT_MARGIN
from tests.core.build import (
    AGAIN,
    COMPENSATED,
    HOUR,
    LOST,
    NOT_DONE,
    OTHER,
    RAISED,
    SAFE,
    World,
    executing,
    names,
)

TRUSTED = replace(AGAIN, key_lasts=HOUR)

#: From when on another attempt might last until the key may be forgotten.
TOO_LATE = HOUR - AGAIN.time_limit - ATTEMPT_MARGIN


def lost(recovery: object = TRUSTED, *, after: timedelta) -> World:
    """Give a world in which an attempt was lost, and another is due some time after it began."""
    world = executing(recovery=recovery)
    began = world.state.now
    world.conclude(LOST)
    world.until(began + after)
    world.lease(holder=OTHER)
    return world


@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
def test_a_key_that_may_be_forgotten_is_not_used_again_and_a_person_is_asked() -> None:
    world = lost(after=TOO_LATE)
    assert names(world.begin()) == ["RequestOpened", "LeaseReleased"]
    assert world.asked().kind == "settlement"


def test_until_then_it_is_used_again() -> None:
    world = lost(after=TOO_LATE - timedelta(microseconds=1))
    assert names(world.begin()) == ["AttemptBegun"]


def test_the_time_is_that_since_the_first_attempt() -> None:
    world = lost(replace(TRUSTED, retries=3), after=HOUR / 2)
    world.begin()
    world.conclude(LOST)
    world.wait(HOUR / 2)
    world.lease(holder=OTHER)
    world.begin()
    assert world.asked().kind == "settlement"


def test_what_can_be_taken_back_is() -> None:
    world = executing(recovery=replace(TRUSTED, compensation=SAFE))
    world.conclude(RAISED)
    world.wait(HOUR)
    world.lease()
    assert names(world.begin()) == ["CallUndoing"]
    assert COMPENSATED.compensation == SAFE


def test_what_certainly_did_not_act_needs_no_key() -> None:
    world = executing(recovery=TRUSTED)
    world.conclude(NOT_DONE)
    world.wait(2 * HOUR)
    world.lease()
    assert names(world.begin()) == ["AttemptBegun"]


@pytest.mark.promise("D4", "D8")
def test_the_key_of_a_compensation_may_be_forgotten_too() -> None:
    undoing = replace(SAFE, idempotent=True, retries=3)
    world = executing(recovery=replace(TRUSTED, retries=0, compensation=undoing))
    world.conclude(RAISED)
    began = world.state.now
    world.take_back()
    world.conclude(LOST)
    world.until(began + HOUR)
    world.lease(holder=OTHER)
    assert "RequestOpened" in names(world.take_back(holder=OTHER))
    assert world.asked().kind == "settlement"
