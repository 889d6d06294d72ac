"""Taking back what a call may have done: roll-back, compensation, and then a person (D8)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import IdempotencyKey, NotDone, RunResult, tool
from placet.agent import loop
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.core.card import Card
from placet.core.card_surfaces import plain
from placet.core.commands import Names
from placet.core.state import CallOver
from placet.core.values import Occurrence
from tests.runtime.desk import Clock, Desk

SCRIPT = [call("act", what="a"), say("ok")]
NOW = timedelta(milliseconds=1)


class World:
    """What the tools did, in order, and what they shall fail with."""

    def __init__(self, *fails: BaseException, undo_fails: tuple[BaseException, ...] = ()) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.fails = list(fails)
        self.undo_fails = list(undo_fails)

    def act(self, *, undo: dict[str, Any] | None = None, **options: Any) -> Tool:
        @tool(approval="never", backoff=NOW, **options)
        def act(what: str, *, key: IdempotencyKey) -> str:
            """Act."""
            self.done.append(f"act {what}")
            self.keys.append(key)
            if self.fails:
                raise self.fails.pop(0)
            return "acted"

        if undo is not None:

            @act.compensate(backoff=NOW, **undo)
            def reverse(what: str, *, key: IdempotencyKey) -> str:
                self.done.append(f"reverse {what}")
                self.keys.append(key)
                if self.undo_fails:
                    raise self.undo_fails.pop(0)
                return f"{what} is void"

        return act


def code(desk: Desk) -> str:
    session = desk.store.session("main", "s", Names(steps=(("run_1", 1),)))
    assert session is not None
    state = session.calls[Occurrence("run_1", 1, 0)].state
    assert isinstance(state, CallOver)
    return state.code


SAFE = {"safe_if_absent": True}


@pytest.mark.promise("D8")
def test_what_failed_after_its_retries_is_compensated_under_a_key_of_its_own(
    tmp_path: Path,
) -> None:
    world = World(OSError("carrier API down"), OSError("carrier API down"))
    act = world.act(undo=SAFE, idempotent=True, retries=1)
    with Desk(tmp_path, SCRIPT, [act]) as desk:
        assert desk.start().stop == "final"
        assert world.done == ["act a", "act a", "reverse a"]
        first, second, undoing = world.keys
        assert first == second != undoing
        assert code(desk) == "tool_failed_and_compensated"
        assert desk.results() == [
            "Failed after 2 attempts: OSError: carrier API down\n"
            "What it may have done was compensated (a is void)."
        ]


@pytest.mark.promise("D8")
def test_a_compensation_that_may_do_harm_where_nothing_happened_is_not_used(
    tmp_path: Path,
) -> None:
    world = World(OSError("down"))
    with Desk(tmp_path, SCRIPT, [world.act(undo={})]) as desk:
        assert desk.start().stop == "final"
        assert (world.done, code(desk)) == (["act a"], "tool_failed")


@pytest.mark.promise("D8")
def test_what_certainly_did_not_act_is_not_taken_back(tmp_path: Path) -> None:
    world = World(NotDone("closed"))
    with Desk(tmp_path, SCRIPT, [world.act(undo=SAFE)]) as desk:
        assert desk.start().stop == "final"
        assert (world.done, code(desk)) == (["act a"], "tool_failed")


@pytest.mark.promise("D4", "D8")
def test_an_unknown_outcome_is_compensated_once_its_body_is_over(tmp_path: Path) -> None:
    world = World(ConnectionResetError("gone"))
    with Desk(tmp_path, SCRIPT, [world.act(undo=SAFE)]) as desk:
        assert desk.start().stop == "final"
        assert (world.done, code(desk)) == (
            ["act a", "reverse a"],
            "tool_failed_and_compensated",
        )


@pytest.mark.promise("D8")
def test_a_compensation_that_fails_goes_to_a_person_and_its_surface_is_closed(
    tmp_path: Path,
) -> None:
    world = World(OSError("down"), undo_fails=(OSError("down too"),))
    other = tool(approval="never", name="other")(lambda: "x")
    script = [call("act", what="a"), say("ok")]
    with Desk(tmp_path, script, [world.act(undo=SAFE), other]) as desk:
        (settlement,) = desk.start().waiting
        card = desk.do(lambda p: p.show(settlement))
        assert (card.kind, card.reason) == (
            "settlement",
            "it failed, and so did compensating it: OSError: down too",
        )
        _says_what_was_tried(card, world)
        desk.do(lambda p: p.settle(settlement, by="ana", happened=False, detail="I undid it"))
        assert desk.resume().stop == "final"
        assert world.done == ["act a", "reverse a"]


def _says_what_was_tried(card: Card, world: World) -> None:
    """Hold a card to telling the action from its taking back: attempts, keys, and the answers."""
    acted, undone = card.failures
    assert (acted.end, acted.number, acted.taking_back) == ("failed", 1, False)
    assert (undone.end, undone.number, undone.taking_back) == ("lost", 1, True)
    assert acted.at is not None
    assert undone.at is not None
    assert [card.key, card.undo_key] == world.keys
    assert card.key != card.undo_key
    shown = plain(card)
    assert "1 begun, and 1 at taking it back" in shown
    at = f"({acted.at:%Y-%m-%d %H:%M:%S} UTC)"
    assert f"attempt 1 {at} failed, and may have acted: OSError: down\n" in shown
    assert f"taking back 1 ({undone.at:%Y-%m-%d %H:%M:%S} UTC) has no known outcome: " in shown
    assert f"{card.key} (of the action)" in shown
    assert f"{card.undo_key} (of taking it back)" in shown
    assert "happened: what it did stands, and is not taken back" in shown
    assert "did not happen: nothing of it is left" in shown


@pytest.mark.promise("D8")
def test_a_compensation_is_tried_again_as_it_declares(tmp_path: Path) -> None:
    world = World(OSError("down"), undo_fails=(OSError("busy"), OSError("busy")))
    undo = {**SAFE, "idempotent": True, "retries": 2}
    with Desk(tmp_path, SCRIPT, [world.act(undo=undo)]) as desk:
        assert desk.start().stop == "final"
        assert world.done == ["act a", "reverse a", "reverse a", "reverse a"]
        assert len(set(world.keys[1:])) == 1
        assert code(desk) == "tool_failed_and_compensated"


def file_tool(path: Path, *, restore_fails: bool = False) -> Tool:
    @tool(approval="never")
    def act(what: str) -> str:
        """Write half of it."""
        path.write_text(what)
        raise OSError("disk full")

    @act.snapshot
    def snapshot(what: str) -> str:
        return path.read_text()

    @act.restore
    def restore(taken: str, what: str) -> None:
        if restore_fails:
            raise OSError("still full")
        path.write_text(taken)

    return act


@pytest.mark.promise("D8")
def test_what_has_a_snapshot_is_rolled_back_to_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with Desk(tmp_path, SCRIPT, [file_tool(path)]) as desk:
        assert desk.start().stop == "final"
        assert path.read_text() == "before"
        assert code(desk) == "tool_failed_and_rolled_back"
        assert desk.results() == [
            "Failed: OSError: disk full\nWhat it had changed was rolled back."
        ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give a clock to set by hand, and have no driver sit a pause out meanwhile."""
    monkeypatch.setattr(loop, "SITS_OUT", timedelta(0))
    return Clock()


def ended(desk: Desk, clock: Clock) -> RunResult:
    """Carry a run on past all the pauses between its tries."""
    result = desk.start()
    while result.stop is None:
        clock.now += timedelta(minutes=1)
        result = desk.resume()
    assert isinstance(result, RunResult)
    return result


@pytest.mark.promise("D8")
def test_a_roll_back_that_fails_is_followed_by_a_compensation_or_a_person(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    act = file_tool(path, restore_fails=True)
    with Desk(tmp_path, SCRIPT, [act], clock=clock) as desk:
        result = ended(desk, clock)
        assert (result.stop, len(result.waiting)) == ("approval_required", 1)


@pytest.mark.promise("D8")
def test_a_compensation_follows_a_roll_back_that_failed(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    act = file_tool(path, restore_fails=True)

    @act.compensate(safe_if_absent=True)
    def reverse(what: str) -> str:
        path.write_text("undone")
        return "void"

    with Desk(tmp_path, SCRIPT, [act], clock=clock) as desk:
        result = ended(desk, clock)
        assert (result.stop, path.read_text()) == ("final", "undone")
        assert code(desk) == "tool_failed_and_compensated"


@pytest.mark.promise("D8", "G8")
def test_taking_back_goes_on_while_a_request_waits_and_holds_its_surface(tmp_path: Path) -> None:
    from placet.agent.models.scripted import calls

    world = World(OSError("down"))
    done: list[str] = []

    @tool
    def pay(what: str) -> str:
        """Pay."""
        done.append(what)
        return "paid"

    script = [calls(call("act", what="a"), call("pay", what="b")), say("ok")]
    act = world.act(undo=SAFE)
    with Desk(tmp_path, script, [act, pay]) as desk:
        (request,) = desk.start().waiting
        assert world.done == [], "an effect that nobody asked about is held"
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert world.done == ["act a", "reverse a"]
        assert done in (["b"], [])
