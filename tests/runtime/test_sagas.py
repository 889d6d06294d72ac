"""Sagas through the real gate and store: a failure stops a step, or takes back what came before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, IdempotencyKey, InvalidDeclaration, ScriptedModel, tool
from placet.agent.messages import AssistantMessage
from placet.agent.models.scripted import Script, call, calls, say
from placet.agent.tools import Tool
from tests.runtime.desk import Desk

NOW = timedelta(milliseconds=1)


class Trip:
    """A trip that is booked in parts, of which some fail, and some cannot be cancelled."""

    def __init__(self, *fails: str, cancel_fails: tuple[str, ...] = ()) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.fails = fails
        self.cancel_fails = list(cancel_fails)

    def part(self, name: str, *, cancels: bool = True, approval: Any = "never") -> Tool:
        @tool(name=name, approval=approval, surface=name)
        def book(*, key: IdempotencyKey) -> str:
            """Book it."""
            self.done.append(name)
            self.keys.append(key)
            if name in self.fails:
                raise OSError(f"no {name} left")
            return f"{name} booked"

        if cancels:

            @book.compensate(idempotent=True, backoff=NOW)
            def cancel(*, key: IdempotencyKey) -> str:
                self.done.append(f"cancel {name}")
                self.keys.append(key)
                if name in self.cancel_fails:
                    self.cancel_fails.remove(name)
                    raise OSError(f"{name} cannot be cancelled now")
                return "cancelled"

        return book

    def agent(self, script: Script, *parts: Tool, **options: Any) -> Agent:
        options = {"on_failure": "compensate_earlier", **options}
        return Agent(name="support", model=ScriptedModel(script), tools=parts, **options)


def together(*names: str) -> AssistantMessage:
    """Make a turn of several calls."""
    return calls(*(call(name) for name in names))


@pytest.mark.promise("D8", "G6")
def test_a_step_that_fails_half_way_is_taken_back_in_reverse_order(tmp_path: Path) -> None:
    trip = Trip("car")
    parts = [trip.part(name) for name in ("flight", "hotel", "car", "dinner")]
    agent = trip.agent([together("flight", "hotel", "car", "dinner"), say("sorry")], *parts)
    with Desk(tmp_path, agent=agent) as desk:
        assert desk.start().stop == "final"
        assert trip.done == ["flight", "hotel", "car", "cancel hotel", "cancel flight"]
        assert len(set(trip.keys)) == 5
        results = desk.results()
        assert results[:2] == ["flight booked", "hotel booked"]
        assert results[2].startswith("Failed: OSError: no car left\nIt may have acted")
        assert results[2].endswith("- hotel (1.1): compensated\n- flight (1.0): compensated")
        assert "did not run" in results[3]
        verified = desk.kinds()
        assert verified.count("CallEnded") == 4
        assert verified.count("EffectUnwound") == 2


def test_a_saga_over_a_run_reaches_back_over_its_steps_and_a_restart(tmp_path: Path) -> None:
    trip = Trip("car")
    parts = [trip.part("flight"), trip.part("hotel"), trip.part("car", approval="always")]
    script = [call("flight"), call("hotel"), call("car"), say("sorry")]
    agent = trip.agent(script, *parts, saga="run")
    with Desk(tmp_path, agent=agent) as desk:
        request = desk.start().waiting[0]
    with Desk(tmp_path, agent=agent) as desk:
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert trip.done == ["flight", "hotel", "car", "cancel hotel", "cancel flight"]
        assert "- hotel (2.0): compensated\n- flight (1.0): compensated" in desk.results()[-1]


def test_what_cannot_be_taken_back_is_settled_by_a_person_and_the_others_follow(
    tmp_path: Path,
) -> None:
    trip = Trip("car", cancel_fails=("hotel",))
    parts = [trip.part(name) for name in ("flight", "hotel", "car")]
    agent = trip.agent([together("flight", "hotel", "car"), say("sorry")], *parts)
    with Desk(tmp_path, agent=agent) as desk:
        result = desk.start()
        assert result.stop == "approval_required"
        assert trip.done[-1] == "cancel hotel"
        settlement = result.waiting[0]
        shown = desk.show(settlement)
        card = str(shown)
        assert [(each.end, each.number, each.taking_back) for each in shown.failures] == [
            ("succeeded", 1, False),
            ("lost", 1, True),
        ]
        assert "a later call failed (car" in shown.failures[0].cause
        assert "it succeeded, a later call failed, and so did compensating it" in card
        desk.do(lambda p: p.settle(settlement, happened=False, by="ana"))
        assert desk.resume().stop == "final"
        assert trip.done[-1] == "cancel flight"
        assert "- hotel (1.1): compensated\n- flight (1.0): compensated" in desk.results()[-1]


def test_what_declares_no_way_back_is_said_to_stand(tmp_path: Path) -> None:
    trip = Trip("car")
    parts = [trip.part("flight"), trip.part("mail", cancels=False), trip.part("car")]
    agent = trip.agent([together("flight", "mail", "car"), say("sorry")], *parts)
    with Desk(tmp_path, agent=agent) as desk:
        assert desk.start().stop == "final"
        assert trip.done == ["flight", "mail", "car", "cancel flight"]
        assert "- mail (1.1): it stands\n- flight (1.0): compensated" in desk.results()[-1]


def test_stop_leaves_what_came_before(tmp_path: Path) -> None:
    trip = Trip("hotel")
    parts = [trip.part(name) for name in ("flight", "hotel", "car")]
    agent = trip.agent(
        [together("flight", "hotel", "car"), say("sorry")], *parts, on_failure="stop"
    )
    with Desk(tmp_path, agent=agent) as desk:
        assert desk.start().stop == "final"
        assert trip.done == ["flight", "hotel"]
        assert desk.results()[2].startswith("Interrupted: another call of this step failed (hotel)")


def test_a_file_that_an_earlier_call_changed_is_put_back_from_its_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "price"
    path.write_text("1")

    @tool(approval="never", surface="files")
    def price(amount: int) -> str:
        """Set it."""
        path.write_text(str(amount))
        return "set"

    @price.snapshot
    def taken(amount: int) -> str:
        return path.read_text()

    @price.restore
    def back(taken: str, amount: int) -> None:
        path.write_text(taken)

    trip = Trip("car")
    script = [calls(call("price", amount=5), call("car")), say("sorry")]
    with Desk(tmp_path, agent=trip.agent(script, price, trip.part("car"))) as desk:
        assert desk.start().stop == "final"
        assert path.read_text() == "1"
        assert "- price (1.0): rolled back" in desk.results()[-1]


def test_an_agent_says_what_a_failure_may_be() -> None:
    options: Any = {"on_failure": "explode"}
    with pytest.raises(InvalidDeclaration, match="on_failure is one of continue, stop"):
        Agent(name="a", model=ScriptedModel([]), **options)
