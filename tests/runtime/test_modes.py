"""Modes: thinking without tools, and a plan whose items are done one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, InvalidDeclaration, ScriptedModel
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, calls, say
from placet.agent.modes import MOST_ITEMS, plan_of
from tests.runtime.desk import Desk, effect, told

PLAN = "1. look at it\n2. pay for it\n3. tell the user"


def agent(script: Any, *tools: Any, mode: Any = "plan-act", **options: Any) -> Agent:
    return Agent(name="planner", model=ScriptedModel(script), tools=tools, mode=mode, **options)


def credited(desk: Desk) -> list[int]:
    """Give the items of the plan that were credited, in order."""
    return [json.loads(e.body)["item"] for e in desk.log() if e.kind == "PlanItemDone"]


def current(request: ModelRequest) -> str:
    """Give the line of the plan that the instructions mark as the one to work on."""
    lines = [line for line in request.instructions.splitlines() if line.startswith("[>]")]
    return lines[0] if lines else ""


def test_in_mode_think_the_model_has_no_tools_and_answers(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request)
        return say("thought")

    done: list[str] = []
    with Desk(tmp_path, agent=agent(reply, effect(done), mode="think")) as desk:
        result = desk.start()
        assert (result.stop, result.answer) == ("final", "thought")
        assert seen[0].tools == ()
        assert "You have no tools" in seen[0].instructions


@pytest.mark.promise("G1")
@pytest.mark.parametrize("mode", ["think", "plan-act"])
def test_a_call_where_there_are_no_tools_stops_the_run_and_nothing_runs(
    tmp_path: Path, mode: str
) -> None:
    done: list[str] = []
    free = effect(done, approval="never")
    look = effect(done, "look", reads_only=True)
    step = calls(call("pay", what="a"), call("look", what="b"), call("nothing"), text=PLAN)
    with Desk(tmp_path, agent=agent([step], free, look, mode=mode)) as desk:
        result = desk.start()
        assert (result.stop, done) == ("tool_policy_blocked", [])
        assert len(desk.results()) == 3
        assert all(each.startswith("Denied by policy (mode)") for each in desk.results())
        assert not {"CallProposed", "RequestOpened", "AttemptBegun", "PlanMade"} & set(desk.kinds())


def test_a_runs_own_mode_goes_before_the_agents(tmp_path: Path) -> None:
    done: list[str] = []
    free = effect(done, approval="never")
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, agent=agent(script, free, mode="think")) as desk:
        assert desk.start(mode="act").stop == "final"
        assert done == ["pay a"]
        blocked = desk.start(session="t", run_id="run_2")
        assert blocked.stop == "tool_policy_blocked"
    with pytest.raises(InvalidDeclaration):
        agent(script, mode="nonsense")


def test_a_plan_is_made_without_tools_and_then_worked_on_item_by_item(tmp_path: Path) -> None:
    done: list[str] = []
    seen: list[ModelRequest] = []
    script = [
        say(PLAN),
        call("pay", what="1"),
        say("seen"),
        call("pay", what="2"),
        call("pay", what="3"),
        say("paid"),
        say("told the user"),
    ]

    def reply(request: ModelRequest) -> Any:
        seen.append(request)
        return script[request.assistant_count]

    free = effect(done, approval="never")
    with Desk(tmp_path, agent=agent(reply, free, instructions="Be good.")) as desk:
        result = desk.start()
        assert (result.stop, result.answer) == ("final", "told the user")
        assert done == ["pay 1", "pay 2", "pay 3"]
        assert credited(desk) == [1, 2, 3]
        assert [bool(request.tools) for request in seen] == [False, *[True] * 6]
        assert [current(request) for request in seen] == [
            "",
            *["[>] 1. look at it"] * 2,
            *["[>] 2. pay for it"] * 3,
            "[>] 3. tell the user",
        ]
        assert all(request.instructions.startswith("Be good.") for request in seen)
        assert "[x] 1. look at it\n[>] 2. pay for it\n[ ] 3. tell" in seen[3].instructions
        assert "sum up for the user" in seen[-1].instructions
        plan = desk.state().runs["run_1"].plan
        assert plan is not None
        assert (plan.items, plan.done) == (3, 3)


@pytest.mark.promise("D2")
@pytest.mark.conformance(41)
def test_after_a_pause_the_current_item_is_credited_and_no_other(tmp_path: Path) -> None:
    done: list[str] = []
    seen: list[str] = []
    script = [
        say(PLAN),
        say("seen"),
        calls(call("pay", what="a"), call("pay", what="b")),
        say("paid"),
        say("told"),
    ]

    def reply(request: ModelRequest) -> Any:
        seen.append(current(request))
        return script[request.assistant_count]

    planner = agent(reply, effect(done))
    with Desk(tmp_path, agent=planner) as desk:
        first, second = desk.start().waiting
        assert credited(desk) == [1]
    with Desk(tmp_path, agent=planner) as desk:
        desk.decide(first, "approve")
        assert desk.resume().waiting == (second,)
        assert credited(desk) == [1]
    with Desk(tmp_path, agent=planner) as desk:
        desk.decide(second, "reject", reason="not b")
        assert credited(desk) == [1], "a decision credits nothing"
        assert desk.resume().stop == "final"
        assert credited(desk) == [1, 2, 3]
        assert done == ["pay a"]
        assert seen[-2:] == ["[>] 2. pay for it", "[>] 3. tell the user"]


@pytest.mark.promise("D2")
@pytest.mark.conformance(40)
def test_a_gate_on_the_last_step_still_gives_one_closing_turn_without_tools(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request)
        return say("closing") if told(request) else call("pay", what="a")

    gated = agent(reply, effect(done), mode="act", max_steps=1)
    with Desk(tmp_path, agent=gated) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        result = desk.resume()
        assert (result.stop, result.answer, done) == ("final", "closing", ["pay a"])
        assert [bool(each.tools) for each in seen] == [True, False]


@pytest.mark.conformance(40)
@pytest.mark.parametrize("gated", [True, False])
def test_after_the_last_step_no_call_runs_and_the_run_ends(tmp_path: Path, gated: bool) -> None:
    done: list[str] = []
    asked: list[int] = []

    def reply(request: ModelRequest) -> Any:
        asked.append(request.assistant_count)
        return call("pay", what=str(request.assistant_count))

    tool = effect(done) if gated else effect(done, approval="never")
    with Desk(tmp_path, agent=agent(reply, tool, mode="act", max_steps=2)) as desk:
        result = desk.start()
        while result.stop == "approval_required":
            desk.decide(result.waiting[0], "approve")
            result = desk.resume()
        assert result.stop == "max_steps"
        assert done == ["pay 0", "pay 1"]
        assert asked == ([0, 1, 2] if gated else [0, 1])
        if gated:
            assert desk.results()[-1].startswith("Interrupted: this was the last step.")


@pytest.mark.conformance(40, 41)
def test_the_closing_turn_of_a_plan_credits_nothing(tmp_path: Path) -> None:
    done: list[str] = []
    script = [say(PLAN), call("pay", what="a"), say("closing")]
    with Desk(tmp_path, agent=agent(script, effect(done), max_steps=2)) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        result = desk.resume()
        assert (result.stop, result.answer) == ("max_steps", "closing")
        assert (credited(desk), done) == ([], ["pay a"])


def test_a_plan_that_outlasts_the_steps_ends_with_what_was_done(tmp_path: Path) -> None:
    with Desk(tmp_path, agent=agent([say(PLAN), say("1"), say("2")], max_steps=3)) as desk:
        assert desk.start().stop == "max_steps"
        assert credited(desk) == [1, 2]


def lines(count: int) -> str:
    return "\n".join(f"{number}. item {number}" for number in range(1, count + 1))


@pytest.mark.parametrize(
    "text, items",
    [
        ("1. only this", ["only this"]),
        ("Just do it, without more ado.", ["Just do it, without more ado."]),
        ("", ["the task"]),
        ("  \n ", ["the task"]),
        (
            "Here is the plan:\n\n- one\n* two\n• three\n4) four\nThat is it.",
            ["one", "two", "three", "four"],
        ),
        ("1. [ ] one\n2. [x] two", ["one", "two"]),
        (lines(MOST_ITEMS), [f"item {n}" for n in range(1, MOST_ITEMS + 1)]),
    ],
)
def test_a_plan_is_read_from_what_the_model_said(
    tmp_path: Path, text: str, items: Sequence[str]
) -> None:
    assert list(plan_of(text)) == list(items)

    def reply(request: ModelRequest) -> Any:
        at = request.assistant_count
        return say(text) if at == 0 else say(f"did {at}")

    with Desk(tmp_path, agent=agent(reply, max_steps=40)) as desk:
        result = desk.start()
        assert (result.stop, result.answer) == ("final", f"did {len(items)}")
        assert credited(desk) == list(range(1, len(items) + 1))


def test_a_plan_of_thirty_items_keeps_them_all_the_last_standing_for_the_rest(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request.instructions)
        return say(lines(30) if len(seen) == 1 else "did it")

    with Desk(tmp_path, agent=agent(reply, max_steps=40)) as desk:
        assert desk.start().stop == "final"
        assert credited(desk) == list(range(1, MOST_ITEMS + 1))
        assert all(f"item {number}" in seen[-1] for number in range(1, 31))


def test_a_child_works_in_the_mode_of_its_agent(tmp_path: Path) -> None:
    done: list[str] = []
    inner = agent([say(PLAN), say("a"), call("pay", what="x"), say("b"), say("c")], effect(done))

    def reply(request: ModelRequest) -> Any:
        return say(told(request)[0]) if told(request) else call("planner", message="go")

    boss = Agent(name="boss", model=ScriptedModel(reply), tools=[inner])
    with Desk(tmp_path, agent=boss) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        assert desk.resume().answer == "c"
        assert credited(desk) == [1, 2, 3]
        (child,) = desk.children()
        assert desk.state(child).runs[child].mode == "plan-act"
