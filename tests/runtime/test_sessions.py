"""A session's runs: messages while one waits, superseding, the end of a session, odd messages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Placet, ScriptedModel, ask_person, tool
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, calls, say
from placet.core.state import RunOver
from tests.runtime.desk import Desk, answers, code_of, effect, said, told

SUPERSEDE = {"on_message": "supersede"}


def refusal(desk: Desk, message: str, **more: Any) -> str:
    """Say what is not taken, and give the code of the refusal."""
    return code_of(lambda: desk.start(message, **more))


def pays_first(request: ModelRequest) -> Any:
    """Pay for what the user wants, and then say what came of it."""
    last = request.messages[-1]
    return (
        call("pay", what=said(request))
        if getattr(last, "text", "") == said(request)
        else (say(f"done: {last.text}"))
    )


@pytest.mark.promise("G6")
def test_a_message_while_a_run_waits_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, pays_first, [effect(done)]) as desk:
        (request,) = desk.start("a").waiting
        before = desk.kinds()
        assert code_of(lambda: desk.start("b", run_id="run_2")) == "run_waiting"
        assert desk.kinds() == before
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert done == ["pay a"]


@pytest.mark.promise("G6", "G7")
def test_a_newer_message_supersedes_what_waits_and_a_late_approval_is_refused(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    step = calls(call("pay", what="a"), call("log", what="x"), call("ask_person", question="?"))

    def reply(request: ModelRequest) -> Any:
        return step if said(request) == "first" else say("second it is")

    tools = [effect(done), effect(done, "log", approval="never"), ask_person]
    with Desk(tmp_path, reply, tools) as desk:
        approval, question = desk.start("first").waiting
    with Desk(tmp_path, reply, tools) as desk:
        desk.decide(approval, "approve")
        second = desk.start("second", run_id="run_2", **SUPERSEDE)
        assert (second.stop, second.answer) == ("final", "second it is")
        assert desk.result("run_1").stop == "superseded"
        assert (
            desk.results()
            == ["Superseded by a newer message of the user.\nThe call did not run."] * 3
        )
        for request in (approval, question):
            assert desk.show(request).status == "superseded"
        assert desk.refused(approval, "approve") == "superseded"
        assert desk.refused(approval, "reject", reason="no") == "superseded"
        assert code_of(lambda: desk.answer(question, "late")) == "superseded"
        assert "RequestRejected" not in desk.kinds()
        desk.resume()
        desk.work_once()
        assert done == []


@pytest.mark.promise("G6")
@pytest.mark.conformance(30)
def test_a_newer_message_supersedes_the_children_with_their_run(tmp_path: Path) -> None:
    done: list[str] = []
    inner = Agent(
        name="payer",
        model=ScriptedModel(lambda r: answers(r) if told(r) else call("pay", what=said(r))),
        tools=[effect(done)],
    )

    def reply(request: ModelRequest) -> Any:
        if said(request) == "second":
            return say("second it is")
        return calls(call("payer", message="a"), call("payer", message="b"))

    boss = Agent(name="boss", model=ScriptedModel(reply), tools=[inner])
    with Desk(tmp_path, agent=boss) as desk:
        requests = desk.start("first").waiting
        children = desk.children()
        assert desk.start("second", run_id="run_2", **SUPERSEDE).answer == "second it is"
        for request in requests:
            assert desk.refused(request, "approve") == "superseded"
        for run in children:
            assert desk.result(run).stop == "superseded"
            assert desk.results(run)[0].startswith("Superseded by a newer message")
        ended = "The agent stopped before it was done: superseded."
        assert desk.results() == [ended, ended]
        desk.work_once()
        assert done == []


@pytest.mark.promise("D4", "D5")
def test_what_has_begun_is_not_superseded(tmp_path: Path) -> None:
    done: list[str] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(approval="never")
    async def pay(what: str) -> str:
        """Pay, and take some time."""
        begun.set()
        await may_end.wait()
        done.append(what)
        return "paid"

    inner = Agent(
        name="payer",
        model=ScriptedModel(lambda r: answers(r) if told(r) else call("pay", what=said(r))),
        tools=[pay],
    )
    boss = Agent(
        name="boss",
        model=ScriptedModel(lambda r: answers(r) if told(r) else call("payer", message="a")),
        tools=[inner],
    )

    async def life(placet: Placet) -> Any:
        going = asyncio.create_task(placet.run("boss", "a", session="s", run_id="run_1"))
        await begun.wait()
        codes = []
        for how in ("refuse", "supersede"):
            more: Any = {"session": "s", "run_id": "run_2", "on_message": how}
            try:
                await placet.run("boss", "b", **more)
            except Exception as error:  # noqa: BLE001  # Looked at below.
                codes.append(getattr(error, "code", repr(error)))
        may_end.set()
        return codes, await going

    with Desk(tmp_path, agent=boss) as desk:
        codes, ended = desk.do(life)
        assert codes == ["run_active", "run_active"]
        assert (ended.stop, ended.answer, done) == ("final", "paid", ["a"])


@pytest.mark.promise("G6")
@pytest.mark.conformance(21)
def test_ending_a_session_cancels_its_runs_and_takes_no_further_message(tmp_path: Path) -> None:
    done: list[str] = []
    inner = Agent(
        name="payer",
        model=ScriptedModel(lambda r: answers(r) if told(r) else call("pay", what=said(r))),
        tools=[effect(done)],
    )
    boss = Agent(name="boss", model=ScriptedModel([call("payer", message="a")]), tools=[inner])
    with Desk(tmp_path, agent=boss) as desk:
        (request,) = desk.start().waiting
        desk.do(lambda p: p.end_session("s", by="ana", cause="over"))
        desk.do(lambda p: p.end_session("s", by="ana", cause="over"))
        assert desk.kinds().count("SessionEnded") == 1
        rows = desk.store.runs("main", session="s")
        assert [isinstance(r.run.state, RunOver) and r.run.state.stop for r in rows] == [
            "cancelled"
        ] * 2
        assert desk.refused(request, "approve") == "cancelled"
    with Desk(tmp_path, agent=boss) as desk:
        for how in ("refuse", "supersede"):
            late = refusal(desk, "x", run_id="run_2", on_message=how)
            assert late == "session_ended"
        (other,) = desk.start(session="t", run_id="run_3").waiting
        assert other != request
        assert done == []


def test_ending_a_session_that_there_is_not_says_so(tmp_path: Path) -> None:
    with Desk(tmp_path, [say("x")]) as desk:
        found = code_of(lambda: desk.do(lambda p: p.end_session("nowhere", by="ana")))
        assert found == "session_not_found"


@pytest.mark.promise("H5")
@pytest.mark.conformance(35, 36)
@pytest.mark.parametrize(
    "form",
    [
        "/approve {}",
        "/reject {} no",
        "/approve {}\nand then go on",
        "/reject {}\nit is\ntoo much",
        "go on\n/approve {}",
        "/APPROVE {}",
        "/Approve all",
        "／approve {}",
        "\u200b/approve {}",
        "/\u200dapprove {}",
        "/ap\u2060prove {}",
        "  \t/approve",
        "`/approve {}`",
    ],
    ids=ascii,
)
def test_a_command_is_given_to_no_model_and_decides_nothing(tmp_path: Path, form: str) -> None:
    asked: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        asked.append(request)
        return call("pay", what="a")

    done: list[str] = []
    with Desk(tmp_path, reply, [effect(done)]) as desk:
        (request,) = desk.start().waiting
        before, calls_before = desk.kinds(), len(asked)
        for session, how in (("s", "refuse"), ("s", "supersede"), ("new", "refuse")):
            more = {"session": session, "run_id": "run_2", "on_message": how}
            text = form.format(request)
            assert refusal(desk, text, **more) == "command_as_message"
        assert (desk.kinds(), len(asked)) == (before, calls_before)
        assert desk.store.sessions("main") == ["s"]
        assert desk.resume().waiting == (request,)
        assert done == []
