"""What is decided of effects of several child runs on one surface: which void an approval (G13)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import commands as c
from placet.core.state import Voided
from placet.core.work import Wait
from tests.core.build import (
    AGAIN,
    ALLOW,
    DONE,
    RAISED,
    World,
    agent,
    approve,
    delegated,
    names,
    reject,
    sound,
)

READ = sound(1, run="k1", ruling=ALLOW, kind="read", tool="look")
SECOND = timedelta(seconds=1)


def siblings(first: c.Sound, second: c.Sound) -> World:
    """Give a world in which two child runs have proposed a call each."""
    world = delegated(agent(1))
    world.delegate("k2", 1)
    world.propose(first, run="k1")
    world.propose(second, run="k2")
    return world


@pytest.mark.promise("G13", "G8")
@pytest.mark.parametrize("surface", ["payments", "*"])
def test_requests_of_two_child_runs_are_decided_together_and_neither_voids_the_other(
    surface: str,
) -> None:
    world = siblings(sound(0, run="k1", surface=surface), sound(0, run="k2"))
    for run in ("k2", "k1"):
        world.apply(approve(world.asked(run=run).id))
    world.lease("k1")
    assert world.work("k2") == Wait(
        until=world.asked(run="k2").deadline_at, held_by=(world.asked(run="k1").id,)
    )
    world.begin(run="k1")
    world.conclude(DONE, run="k1")
    world.lease("k2")
    assert names(world.begin(run="k2")) == ["AttemptBegun"]


@pytest.mark.promise("G13")
def test_every_attempt_of_an_effect_that_was_open_is_known_to_who_was_asked_after_it() -> None:
    world = siblings(sound(0, run="k1", recovery=AGAIN), sound(0, run="k2"))
    for run in ("k1", "k2"):
        world.apply(approve(world.asked(run=run).id))
    for outcome in (RAISED, DONE):
        world.lease("k1")
        world.begin(run="k1")
        world.conclude(outcome, run="k1")
        world.wait(SECOND)
    world.lease("k2")
    assert names(world.begin(run="k2")) == ["AttemptBegun"]


@pytest.mark.promise("G13")
def test_an_effect_of_another_surface_counts_for_nothing() -> None:
    world = siblings(sound(0, run="k1", surface="shell"), sound(0, run="k2"))
    for run in ("k1", "k2"):
        world.apply(approve(world.asked(run=run).id))
    world.lease("k1")
    world.begin(run="k1")
    world.lease("k2")
    assert names(world.begin(run="k2")) == ["AttemptBegun"]


@pytest.mark.promise("G13")
def test_an_effect_that_was_not_there_to_be_seen_still_voids_an_approval() -> None:
    world = delegated(agent(1))
    world.delegate("k2", 1)
    world.propose(sound(0, run="k1", ruling=ALLOW), READ, run="k1")
    world.propose(sound(0, run="k2", ruling=ALLOW, recovery=AGAIN), run="k2")
    world.begin(run="k2")
    world.conclude(RAISED, run="k2")
    world.begin(run="k1", today=sound(0, run="k1"))  # Policy has become stricter.
    old = world.asked(run="k1").id
    world.apply(approve(old))
    world.wait(SECOND)
    world.lease("k2")
    world.begin(run="k2")
    world.conclude(DONE, run="k2")
    world.begin(run="k1", today=sound(0, run="k1"))
    new = world.asked(run="k1").id
    assert world.state.requests[old].state == Voided(changed=("surface generation",), successor=new)


@pytest.mark.promise("G13")
def test_what_began_outside_of_every_run_here_still_voids_both_of_two_child_runs() -> None:
    world = siblings(sound(0, run="k1"), sound(0, run="k2"))
    world.state = replace(world.state, surfaces={"payments": 1})
    old = [world.asked(run=run).id for run in ("k1", "k2")]
    for request in old:
        world.apply(approve(request))
    world.lease("k1")
    world.begin(run="k1")
    world.apply(reject(world.asked(run="k1").id))
    world.lease("k2")
    world.begin(run="k2")
    assert {type(world.state.requests[request].state) for request in old} == {Voided}
