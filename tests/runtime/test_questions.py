"""Questions: a run asks a person something that is no action, and the answer is its result."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, ScriptedModel, ask_person
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.core.card_surfaces import plain
from tests.runtime.desk import Clock, Desk, answers, code_of, effect, told

ASKER = {"requester": "rob"}


def asks(**arguments: Any) -> Any:
    """Give a script that asks, and says what it was told."""

    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("ask_person", **arguments)

    return reply


def refusal(desk: Desk, request: str, text: str) -> str:
    """Answer what cannot be answered so, and give the code of the refusal."""
    return code_of(lambda: desk.answer(request, text))


def desk_on(place: Path, script: Any, *tools: Any, **options: Any) -> Desk:
    return Desk(place, script, [ask_person, *tools], **options)


@pytest.mark.promise("D1", "D2")
def test_a_question_waits_across_a_restart_and_its_answer_is_the_result(tmp_path: Path) -> None:
    script = asks(question="Which order?")
    with desk_on(tmp_path, script) as desk:
        result = desk.start(**ASKER)
        assert result.stop == "approval_required"
        (request,) = result.waiting
    with desk_on(tmp_path, script) as desk:
        assert desk.answer(request, "  A-42\n").status == "answered"
        ended = desk.resume()
        assert (ended.stop, ended.answer) == ("final", "ana answered: A-42")
        assert desk.resume().answer == "ana answered: A-42"
        assert not {"AttemptBegun", "CallDelegated", "VoteCast"} & set(desk.kinds())


@pytest.mark.promise("G8")
def test_a_waiting_question_holds_effects_as_a_request_does_and_reads_go_on(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    look = effect(done, "look", reads_only=True)
    step = calls(
        call("log", what="x"), call("ask_person", question="May I?"), call("look", what="y")
    )
    log = effect(done, "log", approval="never")
    with desk_on(tmp_path, [step, say("ok")], log, look) as desk:
        (request,) = desk.start().waiting
        assert done == ["look y"]
        desk.answer(request, "yes")
        assert desk.resume().stop == "final"
        assert done == ["look y", "log x"]
        assert desk.results() == ["log x done", "ana answered: yes", "look y done"]


@pytest.mark.promise("G10")
@pytest.mark.parametrize("by, code", [("rob", ""), ("ana", ""), ("eve", "not_an_approver")])
def test_the_requester_or_an_approver_answers_and_nobody_else(
    tmp_path: Path, by: str, code: str
) -> None:
    with desk_on(tmp_path, asks(question="Which?")) as desk:
        (request,) = desk.start(**ASKER).waiting
        if code:
            assert code_of(lambda: desk.answer(request, "this", by=by)) == code
            assert desk.refused(request, "reject", by=by, reason="no") == code
            assert desk.resume().waiting == (request,)
        else:
            desk.answer(request, "this", by=by)
            assert desk.resume().answer == f"{by} answered: this"


@pytest.mark.promise("G10")
def test_the_requester_answers_a_question_and_approves_nothing(tmp_path: Path) -> None:
    done: list[str] = []
    step = calls(call("ask_person", question="Which?"), call("pay", what="a"))
    with desk_on(tmp_path, [step, say("ok")], effect(done)) as desk:
        question, approval = desk.start(**ASKER).waiting
        assert desk.refused(approval, "approve", by="rob") == "not_an_approver"
        desk.answer(question, "this", by="rob")
        assert desk.resume().waiting == (approval,)
        assert done == []


@pytest.mark.promise("G10")
def test_a_requester_who_is_no_approver_any_more_still_answers_and_does_not_approve(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    step = calls(call("ask_person", question="Which?"), call("pay", what="a"))
    with desk_on(tmp_path, [step, say("ok")], effect(done), approvers=("ana", "rob")) as desk:
        question, approval = desk.start(**ASKER).waiting
    with desk_on(tmp_path, [step, say("ok")], effect(done)) as desk:
        assert desk.refused(approval, "approve", by="rob") == "not_an_approver"
        desk.answer(question, "this", by="rob")
        assert desk.resume().waiting == (approval,)
        assert done == []


@pytest.mark.parametrize(
    "asked, right, wrong",
    [
        ({}, ["x", "  x "], ["", "   ", "\n"]),
        ({"answer": "yes_no"}, ["yes", "NO", " Yes "], ["y", "maybe", "", "yes please"]),
        ({"answer": "integer"}, ["5", "-3", "+7", " 12 "], ["5.0", "five", "", "1e3", "٣", "1 2"]),
        ({"answer": "number"}, ["5", "-0.5", "3.25"], ["1,5", ".5", "nan", "inf", "1e3", "0x1"]),
        ({"choices": ["red", "blue"]}, ["red", " blue"], ["Red", "green", "", "red,blue"]),
        ({"choices": ["1", "2"], "answer": "integer"}, ["1"], ["3"]),
    ],
)
def test_an_answer_must_be_what_the_question_wants_and_else_it_still_waits(
    tmp_path: Path, asked: Any, right: list[str], wrong: list[str]
) -> None:
    with desk_on(tmp_path, asks(question="What?", **asked)) as desk:
        for number, answer in enumerate(right):
            place = {"session": f"s{number}", "run_id": f"run_{number}"}
            (request,) = desk.start(**place).waiting
            for each in wrong:
                assert refusal(desk, request, each) == "answer_does_not_fit"
                assert desk.resume(f"run_{number}").waiting == (request,)
            desk.answer(request, answer)
            (result,) = desk.results(f"run_{number}", session=f"s{number}")
            assert result.casefold() == f"ana answered: {answer.strip()}".casefold()


@pytest.mark.promise("H5")
@pytest.mark.conformance(36)
@pytest.mark.parametrize(
    "text", ["/approve rq_12345678", "／APPROVE rq_12345678", "\u200b/reject x"]
)
def test_a_command_is_no_answer(tmp_path: Path, text: str) -> None:
    with desk_on(tmp_path, asks(question="What?")) as desk:
        (request,) = desk.start().waiting
        assert code_of(lambda: desk.answer(request, text)) == "command_as_message"
        assert desk.resume().waiting == (request,)


@pytest.mark.promise("G6")
def test_a_question_may_be_declined_and_its_reason_reaches_the_model(tmp_path: Path) -> None:
    with desk_on(tmp_path, asks(question="What?")) as desk:
        (request,) = desk.start(**ASKER).waiting
        desk.decide(request, "reject", by="rob", reason="find out yourself")
        assert desk.resume().answer.startswith("Rejected by rob: find out yourself")
        assert code_of(lambda: desk.answer(request, "late")) == "already_rejected"


@pytest.mark.promise("G9")
def test_a_question_that_nobody_answers_expires(tmp_path: Path) -> None:
    clock = Clock()
    with desk_on(tmp_path, asks(question="What?"), clock=clock) as desk:
        (request,) = desk.start(**ASKER).waiting
        clock.now += timedelta(hours=24)
        assert code_of(lambda: desk.answer(request, "late")) == "expired"
        assert desk.work_once() != []
        result = desk.result("run_1")
        assert result.stop == "final"
        answer = str(result.answer)
        assert answer.startswith("Expired: no decision was in force")
        assert "rob" in answer, "the model is told who was asked"


@pytest.mark.promise("G1")
@pytest.mark.conformance(6, 17)
@pytest.mark.parametrize("cause", ["never", "nobody"])
def test_where_nobody_is_to_be_asked_a_question_is_answered_no_approver(
    tmp_path: Path, cause: str
) -> None:
    agent = Agent(
        name="support",
        model=ScriptedModel(asks(question="What?")),
        tools=[ask_person],
        ask="never" if cause == "never" else "people",
    )
    approvers = () if cause == "nobody" else ("ana",)
    with Desk(tmp_path, agent=agent, approvers=approvers) as desk:
        result = desk.start(**ASKER)
        assert result.stop == "final"
        assert result.answer.startswith("No approver:")
        assert "RequestOpened" not in desk.kinds()


@pytest.mark.promise("G7")
@pytest.mark.conformance(22)
def test_the_same_answer_twice_is_the_same_and_another_one_a_conflict(tmp_path: Path) -> None:
    with desk_on(tmp_path, asks(question="What?")) as desk:
        (request,) = desk.start(**ASKER).waiting
        first = desk.answer(request, "this")
        assert desk.answer(request, " this ") == first
        assert code_of(lambda: desk.answer(request, "that")) == "already_answered"
        assert code_of(lambda: desk.answer(request, "this", by="rob")) == "already_answered"
        assert desk.refused(request, "reject", reason="no") == "already_answered"
        desk.resume()
        assert desk.answer(request, "this") == first
        assert desk.kinds().count("QuestionAnswered") == 1


@pytest.mark.promise("H1", "G3")
def test_the_card_shows_the_question_and_what_the_answer_must_be(tmp_path: Path) -> None:
    script = asks(question="Which colour?", choices=["red", "blue"])
    with desk_on(tmp_path, script) as desk:
        (request,) = desk.start(**ASKER).waiting
        card = desk.show(request)
        assert (card.kind, card.tool, card.status) == ("question", "ask_person", "waiting")
        assert dict(card.arguments) == {
            "question": '"Which colour?"',
            "answer": '"text"',
            "choices": '["red", "blue"]',
        }
        assert card.effect == "asks: Which colour?"
        assert card.approvers == ("ana", "rob")
        text = plain(card)
        assert text.startswith("Question ")
        assert "then the run goes on without an answer" in text
        assert code_of(lambda: desk.answer(request, "red", digest="0" * 64)) == "digest_mismatch"
        desk.answer(request, "red", digest=card.digest)
        assert desk.show(request).status == "answered"


@pytest.mark.promise("H5")
@pytest.mark.conformance(35)
@pytest.mark.parametrize("decision", ["approve", "edit"])
def test_a_question_is_neither_approved_nor_edited(tmp_path: Path, decision: str) -> None:
    with desk_on(tmp_path, asks(question="What?")) as desk:
        (request,) = desk.start().waiting
        edit = {"arguments": {"question": "Another?"}}
        more: dict[str, Any] = edit if decision == "edit" else {}
        assert desk.refused(request, decision, **more) == "other_kind"
        assert desk.resume().waiting == (request,)


def test_an_approval_request_is_not_answered(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, [call("pay", what="a"), say("ok")], [effect(done)]) as desk:
        (request,) = desk.start().waiting
        assert code_of(lambda: desk.answer(request, "yes")) == "other_kind"
        assert desk.resume().waiting == (request,)
        assert done == []


@pytest.mark.promise("G4")
@pytest.mark.conformance(29)
def test_a_question_that_cannot_be_read_can_only_be_declined(tmp_path: Path) -> None:
    script = [raw_call("ask_person", '{"question": "a", "question": "b"}'), say("ok")]
    with desk_on(tmp_path, script) as desk:
        (request,) = desk.start().waiting
        assert code_of(lambda: desk.answer(request, "x")) in (
            "unreadable_question",
            "unreadable_arguments",
        )
        desk.decide(request, "reject", reason="ask properly")
        assert desk.resume().stop == "final"


def test_a_nested_agents_question_waits_on_the_outer_run(tmp_path: Path) -> None:
    inner = Agent(name="asker", model=ScriptedModel(asks(question="What?")), tools=[ask_person])

    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("asker", message="find out")

    boss = Agent(name="boss", model=ScriptedModel(reply), tools=[inner])
    with Desk(tmp_path, agent=boss) as desk:
        (request,) = desk.start(**ASKER).waiting
    with Desk(tmp_path, agent=boss) as desk:
        desk.answer(request, "this", by="rob")
        assert desk.resume().answer == "rob answered: this"


@pytest.mark.promise("G2")
def test_a_question_has_no_body_to_enter(tmp_path: Path) -> None:
    with desk_on(tmp_path, asks(question="What?")) as desk:
        (request,) = desk.start().waiting
        desk.answer(request, "this")
        desk.resume()
        assert "AttemptBegun" not in desk.kinds()
        with pytest.raises(NotImplementedError):
            ask_person("What?")
