"""What binds an outer agent binds the ones under it; and asking before an agent begins at all."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, InvalidInput, NoApproverWarning, Placet, ScriptedModel
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import Script, call, calls, say
from placet.runtime import rulings
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import Clock, Desk, answers, effect, said, told

FREE = {"approval": "never", "surface": "bank"}


def agent(name: str, script: Script, *tools: Any, **options: Any) -> Agent:
    return Agent(name=name, model=ScriptedModel(script), tools=tools, **options)


def payer(done: list[str], *, name: str = "payer", **options: Any) -> Agent:
    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("pay", what=said(request))

    return agent(name, reply, effect(done, **FREE), **options)


def boss(*tools: Any, **options: Any) -> Agent:
    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("payer", message="a")

    return agent("boss", reply, *tools, **options)


def ruling(word: Any) -> Callable[[str, Any], Any]:
    """Give a policy that says this of `pay`, and lets everything else be."""
    return lambda name, _: word if name == "pay" else "allow"


@pytest.mark.promise("G1")
@pytest.mark.conformance(17)
@pytest.mark.parametrize("inner_never", [True, False])
def test_who_asks_nobody_binds_the_agents_under_it(tmp_path: Path, inner_never: bool) -> None:
    done: list[str] = []
    inner = agent(
        "payer",
        lambda r: answers(r) if told(r) else call("pay", what="a"),
        effect(done),
        ask="never" if inner_never else "people",
    )
    outer = boss(inner, ask="people" if inner_never else "never")
    with Desk(tmp_path, agent=outer) as desk:
        result = desk.start()
        assert (result.stop, done) == ("final", [])
        assert result.answer.startswith("No approver: no approver is named.")
        assert "RequestOpened" not in desk.kinds()


@pytest.mark.promise("G1")
@pytest.mark.conformance(34)
def test_an_inner_agent_that_may_ask_and_must_not_says_so_when_it_is_built(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    inner = agent("payer", [say("x")], effect(done), ask="never")
    store = SqliteStore(tmp_path / "placet.db")
    with pytest.warns(NoApproverWarning, match="nobody may decide"):
        Placet(store, agents=[boss(inner)], approvers=["ana"])
    free = agent("payer", [say("x")], effect(done, approval="never"), ask="never")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Placet(store, agents=[boss(free, effect(done))], approvers=["ana"])
    store.close()


@pytest.mark.promise("G1", "G2")
@pytest.mark.parametrize(
    "outer_says, inner_says, ends",
    [
        ("allow", "allow", "allow"),
        ("ask", "allow", "ask"),
        ("allow", "ask", "ask"),
        ("deny", "ask", "deny"),
        ("ask", "deny", "deny"),
    ],
)
def test_of_the_policies_above_a_call_the_strictest_wins(
    tmp_path: Path, outer_says: str, inner_says: str, ends: str
) -> None:
    done: list[str] = []
    outer = boss(payer(done, policy=ruling(inner_says)), policy=ruling(outer_says))
    with Desk(tmp_path, agent=outer) as desk:
        result = desk.start()
        if ends == "ask":
            assert (result.stop, done) == ("approval_required", [])
            (request,) = result.waiting
            asks = "boss" if outer_says == "ask" else "payer"
            assert desk.show(request).rule == f"agent:{asks}"
            desk.decide(request, "approve")
            result = desk.resume()
        assert result.stop == "final"
        assert done == ([] if ends == "deny" else ["pay a"])
        if ends == "deny":
            denier = "boss" if outer_says == "deny" else "payer"
            assert result.answer.startswith(f"Denied by policy (agent:{denier})")


@pytest.mark.promise("G6")
def test_what_a_policy_denied_is_remembered_in_the_inner_run(tmp_path: Path) -> None:
    consulted: list[str] = []

    def policy(name: str, _: Any) -> str:
        consulted.append(name)
        return "deny" if name == "pay" else "allow"

    done: list[str] = []
    inner = agent("payer", lambda _: call("pay", what="a"), effect(done, **FREE))
    with Desk(tmp_path, agent=boss(inner, policy=policy)) as desk:
        result = desk.start()
        assert result.stop == "final"
        assert result.answer.startswith("The agent stopped before it was done: rejection_loop.")
        (child,) = desk.children()
        assert len(desk.results(child)) == 3
        assert all(each.startswith("Denied by policy (agent:boss)") for each in desk.results(child))
        assert done == []


class Odd(BaseException):
    """No error that anybody expects."""


@pytest.mark.promise("G1")
@pytest.mark.conformance(17)
@pytest.mark.parametrize(
    "answer",
    ["yes", True, None, ["allow"], ValueError("x"), SystemExit(1), asyncio.CancelledError(), Odd()],
    ids=repr,
)
def test_a_policy_that_gives_no_ruling_means_ask(tmp_path: Path, answer: object) -> None:
    done: list[str] = []

    def policy(name: str, _: Any) -> Any:
        if name == "pay" and isinstance(answer, BaseException):
            raise answer
        return answer if name == "pay" else "allow"

    with Desk(tmp_path, agent=boss(payer(done), policy=policy)) as desk:
        result = desk.start()
        assert (result.stop, done) == ("approval_required", [])
        card = desk.show(result.waiting[0])
        assert card.rule == "agent:boss"
        assert "the policy of agent boss" in card.reason


@pytest.mark.promise("G1")
@pytest.mark.conformance(17)
def test_a_policy_that_hangs_means_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(rulings, "APPROVAL_FUNCTION_LASTS", timedelta(milliseconds=50))
    done: list[str] = []
    ends = threading.Event()

    def policy(name: str, _: Any) -> str:
        if name == "pay":
            ends.wait(60)
        return "allow"

    with Desk(tmp_path, agent=boss(payer(done), policy=policy)) as desk:
        result = desk.start()
        assert (result.stop, done) == ("approval_required", [])
        assert "TimeoutError" in desk.show(result.waiting[0]).reason
        ends.set()


@pytest.mark.promise("G1")
def test_an_async_policy_is_no_ruling_and_means_ask(tmp_path: Path) -> None:
    async def policy(name: str, _: Any) -> str:
        return "allow"

    done: list[str] = []
    odd: Any = policy
    with Desk(tmp_path, agent=boss(payer(done, policy=odd))) as desk:
        assert desk.start().stop == "approval_required"
        assert done == []


# --- asking before an agent begins ---------------------------------------------------------------


def asking_boss(done: list[str], **inner: Any) -> Agent:
    return boss(payer(done, **inner).as_tool(approval="always"))


@pytest.mark.promise("G7")
def test_an_agent_that_a_person_must_let_begin_is_asked_about_once(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, agent=asking_boss(done)) as desk:
        (request,) = desk.start().waiting
        card = desk.show(request)
        assert (card.tool, dict(card.arguments)) == ("payer", {"message": '"a"'})
        assert card.effect == "hands the task to the agent payer"
        assert desk.children() == []
        desk.decide(request, "approve")
        assert desk.resume().answer == "pay a done"
        assert done == ["pay a"]
        assert desk.kinds().count("CallDelegated") == desk.kinds().count("RequestOpened") == 1
        assert desk.show(request).status == "spent"
        assert desk.refused(request, "reject", reason="late") == "already_approved"


@pytest.mark.promise("G6")
def test_an_agent_that_a_person_does_not_let_begin_never_does(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, agent=asking_boss(done)) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "reject", reason="do it yourself")
        assert desk.resume().answer.startswith("Rejected by ana: do it yourself")
        assert (desk.children(), done) == ([], [])


@pytest.mark.promise("G5")
@pytest.mark.conformance(13)
def test_an_edited_message_is_what_the_inner_agent_gets_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    with Desk(tmp_path, agent=asking_boss(done)) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "edit", arguments={"message": "b"})
    with Desk(tmp_path, agent=asking_boss(done)) as desk:
        assert desk.refused(request, "approve") == "superseded"
        assert desk.resume().stop == "final"
        assert done == ["pay b"]
        (result,) = desk.results()
        assert result == (
            'Before it ran, ana changed the arguments: message: "a" -> "b"\npay b done'
        )


@pytest.mark.promise("G13", "G3")
@pytest.mark.conformance(27)
@pytest.mark.parametrize("change", ["instructions", "tools", "tool names", "mode"])
def test_an_approval_is_void_when_the_agent_is_another_one_meanwhile(
    tmp_path: Path, change: str
) -> None:
    done: list[str] = []

    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else say("nothing")

    def made(**options: Any) -> Agent:
        tools = options.pop("tools", [effect(done, **FREE)])
        return boss(agent("payer", reply, *tools, **options).as_tool(approval="always"))

    others: dict[str, Agent] = {
        "instructions": made(instructions="be quick"),
        "tools": made(tools=[effect(done, **FREE), effect(done, "wipe", **FREE)]),
        "tool names": made(tools=[effect(done, "wipe", **FREE)]),
        "mode": made(mode="plan-act"),
    }
    with Desk(tmp_path, agent=made()) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
    with Desk(tmp_path, agent=others[change]) as desk:
        (again,) = desk.resume().waiting
        assert (again == request, desk.children()) == (False, [])
        assert "tool" in desk.show(again).changes
        desk.decide(again, "approve")
        assert desk.resume().stop == "final"
        assert len(desk.children()) == 1


@pytest.mark.promise("G9")
def test_an_agent_that_nobody_lets_begin_in_time_never_does(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    with Desk(tmp_path, agent=asking_boss(done), clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += timedelta(hours=24)
        assert desk.refused(request, "approve") == "expired"
        assert desk.resume().answer.startswith("Expired: no decision was in force")
        assert (desk.children(), done) == ([], [])


@pytest.mark.promise("G9")
@pytest.mark.conformance(30)
@pytest.mark.parametrize("through", ["outer", "worker"])
def test_a_nested_request_that_expires_is_told_to_its_own_model(
    tmp_path: Path, through: str
) -> None:
    done: list[str] = []
    clock = Clock()
    inner = agent("payer", lambda r: answers(r) if told(r) else call("pay", what="a"), effect(done))
    with Desk(tmp_path, agent=boss(inner), clock=clock) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        clock.now += timedelta(hours=24)
        if through == "worker":
            desk.work_once()
        result = desk.resume()
        assert (result.stop, done) == ("final", [])
        assert result.answer.startswith("Expired: no decision was in force")


def test_an_unreadable_message_can_only_be_edited_or_rejected(tmp_path: Path) -> None:
    from placet.agent.models.scripted import raw_call

    done: list[str] = []
    script = [raw_call("payer", '{"message": "a", "message": "b"}'), say("ok")]
    with Desk(tmp_path, agent=agent("boss", script, payer(done))) as desk:
        (request,) = desk.start().waiting
        assert desk.refused(request, "approve") == "unreadable_arguments"
        desk.decide(request, "edit", arguments={"message": "b"})
        assert desk.resume().stop == "final"
        assert done == ["pay b"]


def test_a_session_gives_no_agent_a_mode_that_there_is_not(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, agent=boss(payer(done))) as desk:
        with pytest.raises(InvalidInput):
            desk.start(mode="nonsense")
        assert desk.do(lambda p: p.runs()) == []


def test_side_by_side_an_agent_that_must_be_asked_about_keeps_no_other_waiting(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    free, asked = payer(done, name="free"), payer(done, name="asked").as_tool(approval="always")
    script = [calls(call("asked", message="x"), call("free", message="y")), say("ok")]
    with Desk(tmp_path, agent=agent("boss", script, free, asked)) as desk:
        (request,) = desk.start().waiting
        assert len(desk.children()) == 1, "the agent that may begin has begun"
        assert done == [], "its effect is held while a request waits"
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert sorted(done) == ["pay x", "pay y"]
