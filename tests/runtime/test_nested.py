"""Agents as tools of agents: one gate, one inbox, one answer in its place."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, ModelTrouble, PlacetError, ScriptedModel, tool
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import Script, call, calls, say
from tests.runtime.desk import Desk, answers, code_of, effect, said, told


def agent(name: str, script: Script, *tools: Any, **options: Any) -> Agent:
    return Agent(name=name, model=ScriptedModel(script), tools=tools, **options)


def payer(done: list[str], name: str = "payer", **options: Any) -> Agent:
    """Give an agent that pays what it is told to, and says what came of it."""

    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("pay", what=said(request))

    return agent(name, reply, effect(done, **options))


def to_payer(*tasks: str) -> Script:
    return [calls(*(call("payer", message=task) for task in tasks)), say("ok")]


def by_age(desk: Desk, requests: tuple[str, ...]) -> list[str]:
    """Sort requests by when they were asked."""
    known = desk.state().requests
    return sorted(requests, key=lambda request: known[request].order)


def task_of(desk: Desk, request: str) -> str:
    """Name the task that a request is about."""
    card = desk.show(request)
    return str(json.loads(dict(card.arguments)["what"]))


@pytest.mark.promise("G2")
@pytest.mark.conformance(30)
def test_a_nested_agents_request_waits_on_the_outer_run_and_its_answer_comes_up(
    tmp_path: Path,
) -> None:
    done: list[str] = []

    def outer(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("payer", message="a")

    with Desk(tmp_path, agent=agent("boss", outer, payer(done))) as desk:
        result = desk.start()
        assert (result.stop, done) == ("approval_required", [])
        (request,) = result.waiting
        (child,) = desk.children()
        card = desk.show(request)
        assert (card.run, card.agent, card.tool) == (child, "payer", "pay")
        desk.decide(request, "approve")
        ended = desk.resume()
        assert (ended.stop, ended.answer, done) == ("final", "pay a done", ["pay a"])
        assert desk.results() == desk.results(child) == ["pay a done"]
        assert desk.kinds().count("AttemptBegun") == 1, "handing over is no effect of its own"


@pytest.mark.promise("G2", "D2")
@pytest.mark.parametrize("approval", ["never", "always"])
def test_agents_stand_three_deep_and_the_fourth_is_denied(tmp_path: Path, approval: Any) -> None:
    done: list[str] = []
    inner: Any = payer(done, "four").as_tool(approval=approval)
    for name, below in (("three", "four"), ("two", "three"), ("one", "two"), ("boss", "one")):

        def reply(request: ModelRequest, below: str = below) -> Any:
            return answers(request) if told(request) else call(below, message="a")

        inner = agent(name, reply, inner)
    with Desk(tmp_path, agent=inner) as desk:
        result = desk.start()
        if approval == "always":
            (request,) = result.waiting
            desk.decide(request, "approve")
            result = desk.resume()
            assert desk.show(request).status == "cancelled", "spent on nothing"
        assert (result.stop, done) == ("final", [])
        assert result.answer.startswith("Denied: agents may stand 3 deep under a run")
        (one,) = desk.children()
        (two,) = desk.children(one)
        (three,) = desk.children(two)
        assert desk.children(three) == []


@pytest.mark.promise("G2")
@pytest.mark.conformance(30)
def test_a_request_three_deep_waits_on_the_outer_run(tmp_path: Path) -> None:
    done: list[str] = []
    inner = payer(done, "three")
    for name, below in (("two", "three"), ("one", "two"), ("boss", "one")):

        def reply(request: ModelRequest, below: str = below) -> Any:
            return answers(request) if told(request) else call(below, message=said(request))

        inner = agent(name, reply, inner)
    with Desk(tmp_path, agent=inner) as desk:
        (request,) = desk.start("a").waiting
    with Desk(tmp_path, agent=inner) as desk:
        desk.decide(request, "approve")
        assert desk.resume().answer == "pay a done"
        assert done == ["pay a"]


def test_agents_of_one_name_at_several_levels_are_each_the_one_in_its_place(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    def named(level: int, *tools: Any) -> Agent:
        def reply(request: ModelRequest) -> Any:
            seen.append(f"{level}: {request.instructions}")
            if told(request) or not tools:
                return say(" ".join([f"level {level}", *told(request)]))
            return call("same", message="down")

        return agent("same", reply, *tools, instructions=f"you are {level}")

    with Desk(tmp_path, agent=named(1, named(2, named(3)))) as desk:
        assert desk.start().answer == "level 1 level 2 level 3"
        assert [each[:1] for each in seen] == ["1", "2", "3", "2", "1"]
        assert all(each == f"{each[0]}: you are {each[0]}" for each in seen)


def test_two_agents_of_one_name_are_two_tools_under_two_names(tmp_path: Path) -> None:
    def named(word: str) -> Agent:
        return agent("helper", lambda _: say(word))

    script = [
        calls(call("left", message="x"), call("right", message="x"), call("left", message="y")),
        say("ok"),
    ]
    boss = agent("boss", script, named("L").as_tool(name="left"), named("R").as_tool(name="right"))
    with Desk(tmp_path, agent=boss) as desk:
        assert desk.start().stop == "final"
        assert desk.results() == ["L", "R", "L"]
        assert len(desk.children()) == 3


@pytest.mark.promise("G6", "G8", "G13")
@pytest.mark.conformance(30, 31)
def test_children_side_by_side_are_decided_one_by_one(tmp_path: Path) -> None:
    done: list[str] = []
    boss = agent("boss", to_payer("a", "b", "c"), payer(done, surface="bank"))
    with Desk(tmp_path, agent=boss) as desk:
        first, second, third = by_age(desk, desk.start().waiting)
        assert len(desk.children()) == 3
        named = [task_of(desk, request) for request in (first, second, third)]
        desk.decide(first, "approve")
        assert set(desk.resume().waiting) == {second, third}
        assert done == [f"pay {named[0]}"]
        desk.decide(third, "approve")
        assert desk.resume().waiting == (second,)
        assert done == [f"pay {named[0]}"], "the third is held by the older second"
        desk.decide(second, "reject", reason="not this")
        assert desk.resume().stop == "final"
        assert done == [f"pay {named[0]}", f"pay {named[2]}"]
        for task, result in zip("abc", desk.results(), strict=True):
            wanted = f"pay {task} done" if task != named[1] else "Rejected by ana: not this"
            assert result.startswith(wanted)
        assert "RequestVoided" not in desk.kinds()


@pytest.mark.promise("G13", "D5")
@pytest.mark.conformance(30, 31)
@pytest.mark.parametrize(
    "surface, count",
    [("bank", 4), *(pytest.param(s, 12, marks=pytest.mark.slow) for s in ("*", "bank"))],
)
def test_children_decided_together_on_one_surface_void_nothing(
    tmp_path: Path, surface: str, count: int
) -> None:
    done: list[str] = []
    tasks = [f"t{number}" for number in range(count)]
    boss = agent("boss", to_payer(*tasks), payer(done, surface=surface))
    with Desk(tmp_path, agent=boss) as desk:
        waiting = desk.start().waiting
        assert len(waiting) == count
        oldest_first = [task_of(desk, request) for request in by_age(desk, waiting)]
        for request in waiting:
            desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert done == [f"pay {task}" for task in oldest_first]
        assert desk.results() == [f"pay {task} done" for task in tasks]
        assert "RequestVoided" not in desk.kinds()


def test_the_outer_and_the_inner_agents_requests_stand_together_and_each_goes_on(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    script = [calls(call("payer", message="a"), call("pay", what="own")), say("ok")]
    boss = agent("boss", script, payer(done), effect(done))
    with Desk(tmp_path, agent=boss) as desk:
        waiting = desk.start().waiting
        assert len(waiting) == 2
        for request in waiting:
            desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert sorted(done) == ["pay a", "pay own"]
        assert desk.results() == ["pay a done", "pay own done"]
        assert "RequestVoided" not in desk.kinds()


@pytest.mark.promise("G2")
@pytest.mark.parametrize("reason", ["max_steps", "failed", "rejection_loop", "tool_policy_blocked"])
def test_a_child_that_stops_is_told_to_the_outer_model(tmp_path: Path, reason: str) -> None:
    done: list[str] = []

    @tool(approval="never")
    def broken() -> str:
        """Fail."""
        raise ValueError("broken")

    def denies(name: str, arguments: object) -> str:
        return "deny"

    stops = {
        "max_steps": agent(
            "child",
            [call("log", what="1"), call("log", what="2")],
            effect(done, "log", approval="never"),
            max_steps=2,
        ),
        "failed": agent("child", lambda _: call("broken"), broken),
        "rejection_loop": agent(
            "child", lambda _: call("log", what="1"), effect(done, "log"), policy=denies
        ),
        "tool_policy_blocked": agent("child", lambda _: call("broken"), broken, mode="think"),
    }
    boss = agent("boss", [call("child", message="x"), say("ok")], stops[reason])
    with Desk(tmp_path, agent=boss) as desk:
        assert desk.start().stop == "final"
        (result,) = desk.results()
        assert result.startswith(f"The agent stopped before it was done: {reason}.")
        (child,) = desk.children()
        assert desk.result(child).stop == reason


@pytest.mark.promise("D2")
def test_a_model_that_fails_in_one_child_leaves_the_others_going(tmp_path: Path) -> None:
    done: list[str] = []
    broken = [True]

    def reply(request: ModelRequest) -> Any:
        if said(request) == "b" and broken[0]:
            raise ModelTrouble("model_refused", "no", retryable=False)
        return answers(request) if told(request) else call("pay", what=said(request))

    inner = agent("payer", reply, effect(done, approval="never", surface="bank"))
    boss = agent("boss", to_payer("a", "b", "c"), inner)
    with Desk(tmp_path, agent=boss) as desk:
        with pytest.raises(PlacetError) as failed:
            desk.start()
        assert failed.value.code == "model_refused"
        assert failed.value.ids["run_id"] in desk.children()
        assert sorted(done) == ["pay a", "pay c"]
        assert desk.result("run_1").stop is None
        assert code_of(desk.resume) == "model_refused"
    broken[0] = False
    with Desk(tmp_path, agent=boss) as desk:
        assert desk.resume().stop == "final"
        assert sorted(done) == ["pay a", "pay b", "pay c"]
        assert desk.results() == ["pay a done", "pay b done", "pay c done"]


@pytest.mark.promise("D5", "D1")
def test_a_child_whose_sibling_begins_first_loses_its_lease_and_goes_on_after(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    looked: Counter[str] = Counter()
    ready, begun = threading.Event(), threading.Event()

    @tool(approval="never", surface="bank")
    def pay(what: str) -> str:
        """Pay."""
        begun.set()
        done.append(what)
        return f"{what} done"

    @pay.environment
    def reads(what: str) -> str:
        looked[what] += 1
        if looked[what] == 2:  # It is about to begin, under a lease.
            if what == "b":
                ready.set()
            assert (ready if what == "a" else begun).wait(60)
        return ""

    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("pay", what=said(request))

    boss = agent("boss", to_payer("a", "b"), agent("payer", reply, pay))
    with Desk(tmp_path, agent=boss) as desk:
        assert desk.start().stop == "final"
        assert done == ["a", "b"]
        assert looked["b"] > 2, "it was held when it was about to begin"


@pytest.mark.promise("D2")
@pytest.mark.conformance(30)
@pytest.mark.parametrize("through", ["outer", "child", "worker"])
def test_a_nested_request_that_is_decided_after_a_restart_goes_on(
    tmp_path: Path, through: str
) -> None:
    done: list[str] = []
    boss = agent("boss", to_payer("a", "b"), payer(done, surface="bank"))
    with Desk(tmp_path, agent=boss) as desk:
        waiting = desk.start().waiting
    with Desk(tmp_path, agent=boss) as desk:
        for request in waiting:
            desk.decide(request, "approve")
        assert done == []
    with Desk(tmp_path, agent=boss) as desk:
        if through == "worker":
            reports = desk.work_once()
            assert {kind for kind, _, _ in reports} <= {"resumed", "notice"}, reports
        else:
            desk.resume("run_1" if through == "outer" else desk.children()[0])
        assert desk.result("run_1").stop == "final"
        assert sorted(done) == ["pay a", "pay b"]
        assert desk.results() == ["pay a done", "pay b done"]


@pytest.mark.promise("G13")
@pytest.mark.conformance(27)
def test_the_world_is_read_again_just_before_a_nested_agent_acts(tmp_path: Path) -> None:
    done: list[str] = []
    world = ["one"]

    @tool
    def pay(what: str) -> str:
        """Pay."""
        done.append(f"{what} in {world[0]}")
        return "paid"

    @pay.environment
    def reads(what: str) -> str:
        return world[0]

    inner = agent("payer", [call("pay", what="a"), say("done")], pay)
    with Desk(tmp_path, agent=agent("boss", to_payer("x"), inner)) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        world[0] = "two"
        (again,) = desk.resume().waiting
        assert (again == request, done) == (False, [])
        assert "environment" in desk.show(again).changes
        desk.decide(again, "approve")
        assert desk.resume().stop == "final"
        assert done == ["a in two"]
