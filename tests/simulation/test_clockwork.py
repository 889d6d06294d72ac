"""The event loop of the simulation: one order for one seed, time that jumps, processes that end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.simulation.clockwork import Clockwork, Owner


def ran(loop: Clockwork, *, most: int = 10_000) -> None:
    with loop.current():
        for _ in range(most):
            if not loop.step():
                return
    raise AssertionError("it goes on for ever")


def test_time_goes_on_only_where_nothing_can_run() -> None:
    loop = Clockwork(Random(1))
    seen: list[Any] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, loop.time()))

    with loop.current():
        for name, seconds in (("c", 7_200.0), ("a", 0.5), ("b", 60.0)):
            loop.spawn(None, sleep(name, seconds))
    ran(loop)
    assert seen == [("a", 0.5), ("b", 60.0), ("c", 7_200.0)]


def order(seed: int) -> list[str]:
    loop = Clockwork(Random(seed))
    seen: list[Any] = []

    async def talk(name: str) -> None:
        for number in range(3):
            seen.append(f"{name}{number}")
            await asyncio.sleep(0)

    with loop.current():
        for name in ("a", "b", "c"):
            loop.spawn(Owner(name), talk(name))
    ran(loop)
    return seen


def test_the_order_of_processes_is_the_seeds_and_of_one_process_its_own() -> None:
    assert order(5) == order(5)
    assert len({tuple(order(seed)) for seed in range(50)}) > 10
    for seed in range(50):
        for name in ("a", "b", "c"):
            assert [each for each in order(seed) if each[0] == name] == [
                f"{name}{number}" for number in range(3)
            ]


def test_nothing_of_a_killed_process_runs_any_more_not_even_to_clean_up() -> None:
    loop = Clockwork(Random(1))
    seen: list[Any] = []
    one, other = Owner("one"), Owner("other")

    async def work(name: str) -> None:
        try:
            await asyncio.to_thread(seen.append, f"{name} in a thread")
            await asyncio.sleep(1)
            seen.append(f"{name} awoke")
        finally:
            seen.append(f"{name} cleaned up")

    with loop.current():
        loop.spawn(one, work("one"))
        loop.spawn(other, work("other"))
        loop.call_later(0.5, loop.kill, one)
    ran(loop)
    assert set(seen) == {
        "one in a thread",
        "other in a thread",
        "other awoke",
        "other cleaned up",
    }
    assert loop.tasks_of(one)
    assert not loop.tasks_of(other)


def test_a_stopped_process_goes_on_later_with_what_came_due_meanwhile() -> None:
    loop = Clockwork(Random(1))
    seen: list[Any] = []
    owner = Owner("one")

    async def look() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(loop.time())

    with loop.current():
        loop.spawn(owner, look())
        loop.call_later(1.5, loop.halt, owner)
        loop.call_later(100, loop.go_on, owner)
    ran(loop)
    assert seen == [1.0, 100.0, 101.0]


def test_a_wait_ends_at_its_time_limit() -> None:
    loop = Clockwork(Random(1))
    seen: list[Any] = []

    async def wait() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        async with asyncio.timeout(5):
            await asyncio.sleep(1)
        seen.append(loop.time())

    with loop.current():
        loop.spawn(None, wait())
    ran(loop)
    assert seen == [31.0]
    assert loop.troubles == []


def test_a_leap_lets_everything_that_it_passes_come_due_at_once() -> None:
    loop = Clockwork(Random(1))
    seen: list[Any] = []
    with loop.current():
        for seconds in (1, 2, 3):
            loop.call_later(seconds, lambda: seen.append(loop.time()))
        loop.leap(2.5)
    ran(loop)
    assert seen == [2.5, 2.5, 3.0]
