"""The loop end to end: a model's turn, the gate, people, and the result in its place."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, NoApproverWarning, Placet, PlacetError, ScriptedModel, tool
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.agent.tools import Tool
from placet.core.state import Cancelled, Resting
from placet.core.values import Occurrence
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import Desk, told
from tests.runtime.forging import forge_action


def effect(done: list[str], name: str = "pay", **options: Any) -> Tool:
    def body(what: str) -> str:
        """Do something to the world."""
        done.append(f"{name} {what}")
        return f"{name} {what} done"

    body.__name__ = name
    return tool(**options)(body)


def answers(request: ModelRequest) -> Any:
    return say(" | ".join(told(request)))


@pytest.mark.promise("G1", "D1", "D3")
@pytest.mark.conformance(1, 16)
def test_a_call_that_asks_suspends_the_run_and_holds_nothing(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, [call("pay", what="a"), say("ok")], [effect(done)]) as desk:
        result = desk.start()
        assert (result.stop, len(result.waiting), done) == ("approval_required", 1, [])
        assert isinstance(desk.state().runs["run_1"].state, Resting)
        asked = {e.kind for e in desk.log() if e.seq >= desk.kinds().index("StepRecorded") + 1}
        assert {"StepRecorded", "CallProposed", "RequestOpened", "LeaseReleased"} <= asked
        instants = {e.at for e in desk.log() if e.kind in ("StepRecorded", "RequestOpened")}
        assert len(instants) == 1, "checkpoint and request are of one transaction"


@pytest.mark.promise("D2", "G4")
@pytest.mark.conformance(2)
def test_an_approved_call_runs_once_after_a_restart_with_the_stored_arguments(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
    with Desk(tmp_path, script, [effect(done)]) as desk:
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert desk.resume().stop == "final"
        assert done == ["pay a"]
        assert desk.results() == ["pay a done"]


@pytest.mark.promise("G6")
@pytest.mark.conformance(3)
def test_a_rejection_does_not_run_and_its_reason_reaches_the_model(tmp_path: Path) -> None:
    done: list[str] = []

    def script(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("pay", what="a")

    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "reject", reason="too much")
        result = desk.resume()
        assert (result.stop, done) == ("final", [])
        assert "Rejected by ana: too much" in str(result.answer)


@pytest.mark.promise("G7", "D4")
@pytest.mark.conformance(4)
def test_an_approval_is_spent_also_by_a_body_that_raises(tmp_path: Path) -> None:
    times: list[int] = []

    @tool
    def pay() -> str:
        """Pay."""
        times.append(1)
        raise ValueError("declined")

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert len(times) == 1
        assert desk.results() == [
            "Failed: ValueError: declined\nIt may have acted before it failed."
        ]
        with pytest.raises(PlacetError) as refused:
            desk.decide(request, "reject", reason="late")
        assert refused.value.code == "already_approved"


@pytest.mark.promise("G1")
@pytest.mark.conformance(6, 34)
def test_without_any_approver_nothing_runs_and_the_build_says_so(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)], approvers=()) as desk:
        assert desk.start().stop == "final"
        assert done == []
        assert desk.results()[0].startswith("No approver:")
    agent = Agent(name="support", model=ScriptedModel(script), tools=[effect(done)])
    store = SqliteStore(tmp_path / "other.db")
    with pytest.warns(NoApproverWarning, match="nobody may decide"):
        Placet(store, agents=[agent], approvers=())
    with pytest.raises(PlacetError) as refused:
        Placet(store, agents=[agent], approvers=(), require_approver=True)
    assert refused.value.code == "no_approver"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Placet(store, agents=[agent], approvers=["ana"])
    store.close()


@pytest.mark.promise("G6", "G8")
@pytest.mark.conformance(31, 33)
def test_every_call_of_a_step_has_one_result_in_place_whatever_became_of_it(
    tmp_path: Path,
) -> None:
    done: list[str] = []

    @tool(reads_only=True)
    def look(what: str) -> str:
        """Look at something."""
        done.append(f"look {what}")
        return f"saw {what}"

    tools = [
        effect(done),
        look,
        effect(done, "log", approval="never"),
    ]
    step = calls(
        call("log", what="first"),
        call("pay", what="a"),
        call("look", what="b"),
        call("pay", what="c"),
        call("nothing"),
        call("pay", what=3),
    )
    with Desk(tmp_path, [step, say("ok")], tools) as desk:
        first, second = desk.start().waiting
        assert done == ["look b"], "reads go on; effects wait while a request waits"
        desk.decide(first, "approve")
        assert desk.resume().stop == "approval_required"
        assert done == ["look b", "pay a"], "what is decided goes on, the others wait"
        desk.decide(second, "reject", reason="no")
        assert desk.resume().stop == "final"
        assert done == ["look b", "pay a", "log first"]
        told_of = desk.results()
        assert len(told_of) == 6
        assert told_of[0] == "log first done"
        assert told_of[1] == "pay a done"
        assert told_of[2] == "saw b"
        assert told_of[3].startswith("Rejected by ana: no")
        assert told_of[4].startswith("Unknown tool 'nothing'")
        assert told_of[5].startswith("Invalid arguments: what:")


@pytest.mark.promise("G4", "G5")
@pytest.mark.conformance(29)
def test_unreadable_arguments_go_to_a_person_who_can_only_reject_or_edit(tmp_path: Path) -> None:
    done: list[str] = []
    consulted: list[object] = []

    def policy(arguments: Any) -> bool:
        consulted.append(arguments)
        return False

    script = [raw_call("pay", '{"what": "a", "what": "b"}'), say("ok")]
    with Desk(tmp_path, script, [effect(done, approval=policy)]) as desk:
        (request,) = desk.start().waiting
        assert consulted == [], "the policy function is not called"
        card = desk.do(lambda p: p.show(request))
        assert card.raw_arguments == '{"what": "a", "what": "b"}'
        with pytest.raises(PlacetError) as refused:
            desk.decide(request, "approve")
        assert refused.value.code == "unreadable_arguments"
        edited = desk.decide(request, "edit", arguments={"what": "b"})
        assert edited.successor is not None
        assert desk.resume().stop == "final"
        assert done == ["pay b"]


@pytest.mark.promise("G5")
@pytest.mark.conformance(13)
def test_only_the_edited_version_runs_after_a_restart(tmp_path: Path) -> None:
    done: list[int] = []

    @tool
    def refund(amount: int) -> str:
        """Refund an amount."""
        done.append(amount)
        return f"refunded {amount}"

    script = [call("refund", amount=1000), say("ok")]
    with Desk(tmp_path, script, [refund]) as desk:
        (request,) = desk.start().waiting
        edited = desk.decide(request, "edit", arguments={"amount": 500})
    with Desk(tmp_path, script, [refund]) as desk:
        with pytest.raises(PlacetError) as refused:
            desk.decide(request, "approve")
        assert refused.value.code == "superseded"
        assert edited.successor in str(refused.value)
        assert desk.resume().stop == "final"
        assert done == [500]
        (result,) = desk.results()
        assert result.startswith("Before it ran, ana changed the arguments: amount: 1000 -> 500")


@pytest.mark.promise("G3", "G11")
@pytest.mark.conformance(5, 15)
def test_another_session_digest_or_action_is_refused(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, [call("pay", what="a"), say("ok")], [effect(done)]) as desk:
        (request,) = desk.start().waiting
        with pytest.raises(PlacetError) as elsewhere:
            desk.decide(request, "approve", session="another")
        with pytest.raises(PlacetError) as other:
            desk.decide(request, "approve", digest="0" * 64)
        assert (elsewhere.value.code, other.value.code) == (
            "request_not_found",
            "digest_mismatch",
        )
        desk.resume()
        assert done == []


@pytest.mark.promise("G3", "G4")
@pytest.mark.conformance(5, 15)
def test_a_stored_action_that_was_changed_from_outside_never_runs(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
    forge_action(tmp_path / "placet.db", '"what": "a"', '"what": "z"')
    with Desk(tmp_path, script, [effect(done)]) as desk:
        with pytest.raises(PlacetError) as refused:
            desk.resume()
        assert refused.value.code == "digest_mismatch"
        assert done == []


@pytest.mark.promise("G2")
def test_a_tool_that_swallows_everything_cannot_swallow_a_pause(tmp_path: Path) -> None:
    tried: list[str] = []

    @tool(approval="never")
    async def stubborn() -> str:
        """Run things in gather, retry and swallow whatever is raised."""

        async def once() -> None:
            tried.append("x")
            raise asyncio.CancelledError

        await asyncio.gather(once(), once(), return_exceptions=True)
        try:
            await once()
        except BaseException:  # noqa: BLE001  # What the test is about.
            return "swallowed"
        return "never"

    done: list[str] = []
    step = calls(call("stubborn"), call("pay", what="a"))
    with Desk(tmp_path, [step, say("ok")], [stubborn, effect(done)]) as desk:
        result = desk.start()
        assert (result.stop, tried, done) == ("approval_required", [], [])
        desk.decide(result.waiting[0], "approve")
        assert desk.resume().stop == "final"
        assert desk.results() == ["swallowed", "pay a done"]


@pytest.mark.promise("G10")
def test_a_tool_cannot_decide_from_its_own_body(tmp_path: Path) -> None:
    refused: list[str] = []
    held: list[Desk] = []

    @tool(approval="never")
    async def decide_itself(request: str) -> str:
        """Try to approve."""
        try:
            await held[0].placet.decide(request, "approve", by="ana")
        except PlacetError as error:
            refused.append(error.code)
        return "tried"

    done: list[str] = []
    with Desk(tmp_path, [call("pay", what="a"), say("ok")], [effect(done)]) as desk:
        (request,) = desk.start().waiting
        script = [call("decide_itself", request=request), say("ok")]
        other = Agent(name="other", model=ScriptedModel(script), tools=[decide_itself])
        held.append(desk)
        desk.do(lambda p: p.run(other, "go", session="t"))
        assert refused == ["inside_tool"]
        desk.resume()
        assert done == []


@pytest.mark.promise("G1")
@pytest.mark.conformance(17)
@pytest.mark.parametrize("answer", ["yes", 1, None, ValueError("broken")])
def test_an_approval_function_that_answers_anything_but_yes_or_no_means_ask(
    tmp_path: Path, answer: object
) -> None:
    done: list[str] = []

    def policy(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with Desk(
        tmp_path, [call("pay", what="a"), say("ok")], [effect(done, approval=policy)]
    ) as desk:
        assert desk.start().stop == "approval_required"
        assert done == []


@pytest.mark.promise("G9")
@pytest.mark.conformance(20)
def test_a_decision_without_a_waiter_runs_nothing_until_somebody_resumes(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [effect(done)]) as desk:
        (request,) = desk.start().waiting
    with Desk(tmp_path, script, [effect(done)]) as desk:
        desk.decide(request, "approve")
        assert done == []
        assert desk.state().calls[Occurrence("run_1", 1, 0)].attempts == 0


@pytest.mark.promise("G6")
@pytest.mark.conformance(21, 26)
def test_cancelling_a_run_retires_its_requests_with_the_cause(tmp_path: Path) -> None:
    done: list[str] = []
    step = calls(call("pay", what="a"), call("pay", what="b"))
    with Desk(tmp_path, [step, say("ok")], [effect(done)]) as desk:
        requests = desk.start().waiting
        result = desk.do(lambda p: p.cancel("run_1", by="ana", cause="wrong customer"))
        assert result.stop == "cancelled"
        for request in requests:
            with pytest.raises(PlacetError) as refused:
                desk.decide(request, "approve")
            assert refused.value.code == "cancelled"
            assert f"`placet show {request}` says why." in str(refused.value)
            row = desk.store.find_request("main", request)
            assert row is not None
            state = row.request.state
            assert isinstance(state, Cancelled)
            assert state.cause == "ana: wrong customer"
        assert all(body.startswith("Cancelled: ana: wrong customer") for body in desk.results())
        assert desk.resume().stop == "cancelled"
        assert done == []


@pytest.mark.promise("H1", "H2")
def test_an_argument_cannot_fill_another_ones_place_in_the_effect(tmp_path: Path) -> None:
    @tool(effect="pays {amount} to {whom}")
    def transfer(amount: str, whom: str) -> str:
        """Transfer an amount."""
        return ""

    script = [call("transfer", amount="{whom}", whom="mallory"), say("ok")]
    with Desk(tmp_path, script, [transfer]) as desk:
        (request,) = desk.start().waiting
        card = desk.do(lambda p: p.show(request))
        assert card.effect == "pays {whom} to mallory"
        assert dict(card.arguments) == {"amount": '"{whom}"', "whom": '"mallory"'}
