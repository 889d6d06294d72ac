"""A command that is wrong in one field is refused, and changes nothing, in every life."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, get_args

import hypothesis.strategies as st
import pytest
from hypothesis import given

from placet.core import commands as c
from placet.core import events as e
from placet.core.decide import decide
from placet.core.errors import Mistake, Refusal
from tests.core.near_misses import live, near_misses, valid

LIVES = 100


@pytest.mark.promise("G3", "G7", "G9", "G10", "G11", "D5")
@pytest.mark.conformance(5, 23)
@given(seed=st.integers(0, 2**32), moves=st.integers(4, 40))
def test_a_near_miss_is_refused_or_brings_nothing_about(seed: int, moves: int) -> None:
    choose = random.Random(seed).choice
    world = live(choose, moves=moves)
    for command in valid(world, choose):
        for miss in near_misses(world, command):
            state = world.state if miss.at is None else replace(world.state, now=miss.at)
            kept = repr(state)
            try:
                events = decide(state, miss.command)
            except (Refusal, Mistake):
                events = ()
            assert events == (), (miss.wrong, miss.command)
            assert repr(state) == kept


@pytest.mark.promise("G6")
@given(seed=st.integers(0, 2**32), moves=st.integers(0, 60))
@pytest.mark.slow
def test_in_every_life_a_call_has_at_most_one_result_and_an_ended_run_all_of_them(
    seed: int, moves: int
) -> None:
    world = live(random.Random(seed).choice, moves=moves)
    ended = [event.at for event in world.log if isinstance(event, e.CallEnded)]
    assert len(ended) == len(set(ended))
    over: set[str] = set()
    for event in world.log:
        if isinstance(event, e.CallEnded):
            assert event.at.run not in over, "a result comes after its run's end"
        elif isinstance(event, e.RunEnded):
            assert event.run not in over, "a run ends twice"
            over.add(event.run)
    for call in world.state.calls.values():
        assert call.open != (call.at in ended)
        if type(world.run(call.at.run).state).__name__ == "RunOver":
            assert not call.open


@pytest.mark.promise("D5")
@given(seed=st.integers(0, 2**32), moves=st.integers(0, 40))
def test_in_every_life_fences_only_grow_and_surfaces_count_attempts(seed: int, moves: int) -> None:
    world = live(random.Random(seed).choice, moves=moves)
    fences: dict[str, int] = {}
    for event in world.log:
        if isinstance(event, e.LeaseTaken):
            assert event.fence > fences.get(event.run, 0)
            fences[event.run] = event.fence
    begun = [event for event in world.log if isinstance(event, e.AttemptBegun)]
    assert sum(world.state.surfaces.values()) == len(begun)


@pytest.mark.promise("G3")
@given(seed=st.integers(0, 2**32), moves=st.integers(0, 60))
def test_in_every_life_a_request_id_stands_for_one_digest(seed: int, moves: int) -> None:
    world = live(random.Random(seed).choice, moves=moves)
    opened = [event for event in world.log if isinstance(event, e.RequestOpened)]
    assert len({event.request for event in opened}) == len(opened)
    assert len({event.digest for event in opened}) == len(opened)


@pytest.mark.slow
def test_the_generators_reach_every_event_and_every_command() -> None:
    events: set[type] = set()
    commands: set[type] = set()
    misses: set[str] = set()
    for seed in range(20 * LIVES):  # Some events are rare in a random life.
        if (
            seed >= LIVES
            and events == set(get_args(e.Event))
            and commands == set(get_args(c.Command))
        ):
            break
        choose = random.Random(seed).choice
        world = live(choose, moves=40, commands=commands)
        events |= {type(event) for event in world.log}
        for command in valid(world, choose):
            misses |= {miss.wrong for miss in near_misses(world, command)}
    assert events == set(get_args(e.Event)), set(get_args(e.Event)) - events
    known: tuple[Any, ...] = get_args(c.Command)
    assert commands == set(known), set(known) - commands
    assert {"at the deadline", "another digest", "fence -1", "an agent's credential"} <= misses
