"""Taking back across restarts, in hosted runs, and where a body may still act (D4, D8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import IdempotencyKey, NotDone, tool
from placet.agent.tools import Tool
from placet.core.errors import InvalidDeclaration
from placet.core.state import CallOver, UndoDue
from placet.core.values import Occurrence
from placet.runtime.hosted_runs import LEFT_TO_CALLER
from placet.runtime.hosting import Answered, Waiting
from tests.runtime.desk import Clock, Desk, code_of
from tests.runtime.hosts import Framework, called
from tests.runtime.test_taking_back import SAFE, SCRIPT, World, code

MINUTE = timedelta(minutes=1)
AT = Occurrence("r", 1, 0)


@pytest.mark.promise("D4", "D8")
def test_a_compensation_has_the_same_key_in_every_attempt_and_every_process(
    tmp_path: Path,
) -> None:
    world, clock = World(OSError("down")), Clock()
    world.undo_fails = [OSError("busy"), OSError("busy")]

    def opened() -> Desk:
        act = world.act()
        act.compensate(safe_if_absent=True, idempotent=True, retries=2, backoff=MINUTE)(
            compensating(world)
        )
        return Desk(tmp_path, SCRIPT, [act], clock=clock)

    with opened() as desk:
        assert desk.start().stop is None
        assert world.done == ["act a", "reverse a"]
    for more in (1, 2):
        clock.now += more * MINUTE
        with opened() as desk:
            desk.resume()
    assert world.done == ["act a", "reverse a", "reverse a", "reverse a"]
    assert len(set(world.keys[1:])) == 1
    assert world.keys[0] != world.keys[1]
    with opened() as desk:
        assert code(desk) == "tool_failed_and_compensated"


def compensating(world: World) -> Callable[..., str]:
    def reverse(what: str, *, key: IdempotencyKey) -> str:
        world.done.append(f"reverse {what}")
        world.keys.append(key)
        if world.undo_fails:
            raise world.undo_fails.pop(0)
        return f"{what} is void"

    return reverse


@pytest.mark.promise("D4", "D8")
def test_what_an_attempt_left_behind_may_still_do_is_put_to_a_person_and_not_compensated(
    tmp_path: Path,
) -> None:
    release, reversed_ = threading.Event(), []
    attempts: list[str] = []

    @tool(
        approval="never",
        idempotent=True,
        retries=1,
        backoff=timedelta(milliseconds=1),
        time_limit=timedelta(milliseconds=100),
    )
    def act(what: str) -> str:
        """Hang first, and then fail."""
        attempts.append(what)
        if len(attempts) == 1:
            release.wait(60)
        raise OSError("down")

    @act.compensate(safe_if_absent=True)
    def reverse(what: str) -> str:
        reversed_.append(what)
        return "void"

    with Desk(tmp_path, SCRIPT, [act]) as desk:
        (settlement,) = desk.start().waiting
        assert desk.show(settlement).kind == "settlement"
        assert (attempts, reversed_) == (["a", "a"], [])
        release.set()


@pytest.mark.promise("D8")
def test_what_is_rolled_back_is_what_was_there_before_the_first_attempt_that_may_have_acted(
    tmp_path: Path,
) -> None:
    path, fails = tmp_path / "file", [NotDone("closed"), OSError("disk full")]
    path.write_text("before")

    @tool(approval="never", retries=1, backoff=timedelta(milliseconds=1))
    def act(what: str) -> str:
        """Do nothing first; then write half of it."""
        failure = fails.pop(0)
        path.write_text("somebody else's" if isinstance(failure, NotDone) else what)
        raise failure

    act.snapshot(lambda what: path.read_text())

    @act.restore
    def restore(taken: str, what: str) -> None:
        path.write_text(taken)

    with Desk(tmp_path, SCRIPT, [act]) as desk:
        assert desk.start().stop == "final"
        assert path.read_text() == "somebody else's"


@pytest.mark.promise("D8")
def test_a_roll_back_that_fails_for_a_moment_is_made_again_at_once(tmp_path: Path) -> None:
    path, fails = tmp_path / "file", [OSError("busy")]
    path.write_text("before")

    @tool(approval="never")
    def act(what: str) -> str:
        """Write half of it."""
        path.write_text(what)
        raise OSError("disk full")

    act.snapshot(lambda what: path.read_text())

    @act.restore
    def restore(taken: str, what: str) -> None:
        if fails:
            raise fails.pop()
        path.write_text(taken)

    with Desk(tmp_path, SCRIPT, [act]) as desk:
        assert desk.start().stop == "final"
        assert (path.read_text(), code(desk)) == ("before", "tool_failed_and_rolled_back")
        assert desk.results()[0].startswith("Failed: ")


@pytest.mark.promise("D8")
def test_what_says_of_the_body_that_it_did_nothing_does_not_say_so_of_its_compensation(
    tmp_path: Path,
) -> None:
    world = World(OSError("down"), undo_fails=(LookupError("gone"),))
    act = world.act(undo={**SAFE, "retries": 3}, not_done=(LookupError,))
    with Desk(tmp_path, SCRIPT, [act]) as desk:
        (settlement,) = desk.start().waiting
        assert desk.show(settlement).kind == "settlement"
        assert world.done == ["act a", "reverse a"]


@pytest.mark.promise("D8")
def test_the_errors_that_are_worth_another_attempt_are_declared_of_the_body_alone(
    tmp_path: Path,
) -> None:
    world = World(OSError("down"), undo_fails=(OSError("busy"),))
    undo = {**SAFE, "idempotent": True, "retries": 1}
    act = world.act(undo=undo, retry_on=(LookupError,), idempotent=True, retries=1)
    with Desk(tmp_path, SCRIPT, [act]) as desk:
        assert desk.start().stop == "final"
        assert world.done == ["act a", "reverse a", "reverse a"]


@pytest.mark.promise("D8")
def test_a_compensation_that_is_not_declared_any_more_goes_to_a_person(tmp_path: Path) -> None:
    world, clock = World(OSError("down"), undo_fails=(OSError("busy"),)), Clock()
    act = world.act()
    act.compensate(safe_if_absent=True, idempotent=True, retries=1, backoff=MINUTE)(
        compensating(world)
    )
    with Desk(tmp_path, SCRIPT, [act], clock=clock) as desk:
        assert desk.start().stop is None
    clock.now += MINUTE
    with Desk(tmp_path, SCRIPT, [World().act()], clock=clock) as desk:
        (settlement,) = desk.resume().waiting
        assert "does not declare how it is taken back" in desk.show(settlement).reason
        assert world.done == ["act a", "reverse a"]


@pytest.mark.parametrize(
    "option", [{"retries": -1}, {"idempotent": "yes"}, {"time_limit": timedelta(0)}]
)
def test_a_compensation_is_declared_as_soundly_as_a_tool(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidDeclaration):
        World().act().compensate(**option)


# --- hosted runs ----------------------------------------------------------------------------------


def fails(world: World, **undo: Any) -> Tool:
    act = world.act()
    act.compensate(safe_if_absent=True, **undo)(compensating(world))
    return act


COMPENSATED = Answered(
    code="tool_failed_and_compensated",
    told="Failed: OSError: down\nWhat it may have done was compensated (a is void).",
)


@pytest.mark.promise("D5", "D8")
def test_a_framework_that_carries_a_call_out_takes_it_back(tmp_path: Path) -> None:
    world = World(OSError("down"))
    with Framework(tmp_path, [fails(world)]) as framework:
        assert framework.carry(framework.asked(called("act", what="a"))) == COMPENSATED
    assert world.done == ["act a", "reverse a"]


@pytest.mark.promise("D5", "D8")
def test_a_framework_waits_until_it_is_time_to_take_back_again(tmp_path: Path) -> None:
    world = World(OSError("down"), undo_fails=(OSError("busy"),))
    soon = timedelta(milliseconds=20)
    act = fails(world, idempotent=True, retries=1, backoff=soon)
    with Framework(tmp_path, [act]) as framework:
        assert framework.carry(framework.asked(called("act", what="a"))) == COMPENSATED
    assert world.done == ["act a", "reverse a", "reverse a"]


@pytest.mark.promise("D5", "D8")
def test_a_compensation_of_a_framework_that_fails_waits_for_a_person(tmp_path: Path) -> None:
    world = World(OSError("down"), undo_fails=(OSError("busy"),))
    with Framework(tmp_path, [fails(world)]) as framework:
        found = framework.carry(framework.asked(called("act", what="a")))
        assert found == Waiting(requests=tuple(framework.waiting()))


def left(place: Path, world: World, clock: Clock, *, is_guard: bool = False) -> Tool:
    """Leave a call that is to be taken back behind, by a framework that goes away."""
    act = fails(world, idempotent=True, retries=1, backoff=MINUTE)
    with Framework(place, [act], is_guard=is_guard, clock=clock) as framework:
        at = framework.asked(called("act", what="a"))
        gate = framework.placet._driving.gate_of(framework.state(runs=("r",)), "r")
        asyncio.run(gate.run("s", at))
        asyncio.run(gate.recovery.take_back("s", at))
        assert isinstance(framework.state(steps=(("r", 1),)).calls[AT].state, UndoDue)
    clock.now += MINUTE
    return act


@pytest.mark.promise("D2", "D8")
def test_a_worker_takes_back_what_a_framework_left(tmp_path: Path) -> None:
    world, clock = World(OSError("down"), undo_fails=(OSError("busy"),)), Clock()
    act = left(tmp_path, world, clock)
    with Framework(tmp_path, [act], clock=clock) as framework:
        framework.work()
        state = framework.state(steps=(("r", 1),)).calls[AT].state
        assert isinstance(state, CallOver)
        assert state.code == "tool_failed_and_compensated"
    assert world.done == ["act a", "reverse a", "reverse a"]


@pytest.mark.promise("D8")
def test_what_no_framework_is_told_of_is_taken_back_by_whoever_calls_again(tmp_path: Path) -> None:
    world, clock = World(OSError("down"), undo_fails=(OSError("busy"),)), Clock()
    act = left(tmp_path, world, clock, is_guard=True)
    with Framework(tmp_path, [], clock=clock) as framework:
        assert framework.work() == []
        assert code_of(lambda: framework.placet.resume_sync("r")) == LEFT_TO_CALLER
        assert world.done == ["act a", "reverse a"]
    with Framework(tmp_path, [act], is_guard=True, clock=clock) as framework:
        assert framework.carry(AT) == COMPENSATED
