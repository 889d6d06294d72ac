"""What is decided about questions: what a run asks a person that is no action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.core import events as e
from placet.core.card import status_of
from placet.core.commands import MOST_WAITING, CancelRun, Withdraw
from placet.core.errors import InvalidInput
from placet.core.questions import Question, checked, question_of
from placet.core.records import notices
from placet.core.state import Answered, Cancelled, Rejected
from placet.core.values import REQUESTER, Ask, Needs, Principal
from placet.core.work import CallModel, ExpireDue, RunEffect, Wait
from tests.core.build import (
    ALLOW,
    ANN,
    ASK,
    BOB,
    BOT,
    DENY,
    DONE,
    HOUR,
    QUESTION,
    USER,
    World,
    answer,
    approve,
    approved,
    asking,
    edit,
    names,
    question,
    reject,
    settle,
    sound,
)


def asked(*more: object, **changes: object) -> World:
    """Give a world in which call 0 asks a question, beside whatever else is proposed."""
    world = World()
    world.start()
    world.propose(question(0, **changes), *more)  # type: ignore[arg-type]  # they are proposals
    return world


def test_a_question_waits_for_a_person_and_the_answer_is_the_calls_result() -> None:
    world = asked()
    request = world.asked()
    assert (request.kind, request.digest) == ("question", world.call().digest)
    assert isinstance(world.work(), Wait)
    events = world.apply(answer(request.id))
    assert names(events) == ["QuestionAnswered", "CallEnded"]
    assert (world.code(), world.told()) == ("succeeded", "ann answered: the red one")
    closed = world.state.requests[request.id]
    assert isinstance(closed.state, Answered)
    assert status_of(closed) == "answered"
    assert [(n.request, n.kind) for n in notices(events)] == [(request.id, "closed")]
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G7")
def test_the_same_answer_of_the_same_person_is_the_same_and_any_other_is_a_conflict() -> None:
    world = asked()
    request = world.asked().id
    world.apply(answer(request))
    assert world.apply(answer(request)) == ()
    assert world.refused(answer(request, "the blue one")) == "already_answered"
    assert world.refused(answer(request, by=USER)) == "already_answered"
    assert world.refused(reject(request)) == "already_answered"


@pytest.mark.promise("G6")
def test_a_question_can_be_declined_and_is_not_put_again_in_the_run() -> None:
    world = asked()
    request = world.asked().id
    world.apply(reject(request, reason="find out yourself"))
    assert isinstance(world.state.requests[request].state, Rejected)
    assert "find out yourself" in world.told()
    assert world.refused(answer(request)) == "already_rejected"
    world.lease()
    again = question(0, step=2, arguments={"question": "Which one, 0?"})
    world.propose(again)
    assert world.code(step=2) == "rejected"


@pytest.mark.promise("G10")
def test_whom_the_run_acts_for_may_answer_though_no_setting_names_them() -> None:
    world = asked()
    request = world.asked()
    assert request.needs.approvers == ("ann", "user")
    nobody = frozenset[str]()
    assert world.refused(answer(request.id, eligible=nobody)) == "not_an_approver"
    world.apply(answer(request.id, by=USER, eligible=nobody))
    assert world.code() == "succeeded"


@pytest.mark.promise("G10")
def test_only_a_person_who_is_asked_answers_a_question() -> None:
    world = asked()
    request = world.asked()
    assert world.refused(answer(request.id, by=BOB)) == "not_an_approver"
    assert world.refused(answer(request.id, by=BOT)) == "not_a_person"
    agent = Principal(id="user", kind="agent")
    assert world.refused(answer(request.id, by=agent)) == "not_a_person"
    assert world.refused(answer(request.id, digest="0" * 64)) == "digest_mismatch"
    assert world.refused(answer("rq_of_another_session")) == "request_not_found"


@pytest.mark.promise("G1", "G10")
def test_the_requester_is_named_wherever_a_request_is_opened() -> None:
    needs = Needs(approvers=(REQUESTER, "bob"))
    ruling = Ask(rule="gated", needs=needs, lasts=HOUR)
    world = asking(ALLOW)
    world.begin(today=replace(sound(), ruling=ruling))
    assert world.asked().needs.approvers == ("user", "bob")
    world = approved()
    world.begin(today=replace(sound(environment="x"), ruling=ruling))
    assert world.asked().needs.approvers == ("user", "bob")
    world = asking()
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5}, ruling=ruling)))
    assert world.asked().needs.approvers == ("user", "bob")
    world.apply(approve(world.asked().id, USER))


@pytest.mark.promise("G1", "G10")
def test_a_requester_who_is_named_twice_or_is_excluded_makes_no_quorum() -> None:
    twice = Needs(approvers=("user", REQUESTER), quorum=2)
    excluded = Needs(approvers=(REQUESTER,), exclude_requester=True)
    for needs in (twice, excluded):
        world = asking(replace(ASK, needs=needs))
        assert world.code() == "no_approver"
        world = asking(ALLOW)
        world.begin(today=replace(sound(), ruling=replace(ASK, needs=needs)))
        assert world.code() == "no_approver"


def test_what_is_asked_as_a_question_is_only_answered_or_rejected() -> None:
    world = asked()
    request = world.asked().id
    for command in (
        approve(request),
        edit(request, question(arguments={"question": "?"})),
        Withdraw(request=request, by=ANN),
        settle(request, True),
    ):
        assert world.refused(command) == "other_kind"
    gated = asking()
    assert gated.refused(answer(gated.asked().id)) == "other_kind"


@pytest.mark.promise("G1", "G2")
def test_a_question_is_never_begun_and_never_allowed() -> None:
    world = asked()
    assert world.refused(world.beginning()) == "not_runnable"
    world = World()
    world.start()
    assert world.refused(world.proposal(question(ruling=ALLOW))) == "question_allowed"
    world.propose(question(ruling=DENY))
    assert world.code() == "policy_denied"


@pytest.mark.promise("G1", "G3")
def test_an_action_whose_tool_became_a_question_waits_for_no_body_that_cannot_begin() -> None:
    world = asking(ALLOW)
    world.begin(today=question(ruling=ALLOW, tool="pay", arguments={"amount": 1000}))
    assert world.code() == "environment_unstable"
    world = asking()
    made = question(tool="pay", arguments={"amount": 5})
    assert world.refused(edit(world.asked().id, made)) == "edit_changes_call"
    world = approved()
    world.begin(today=question(tool="pay", arguments={"amount": 1000}))
    assert world.asked().kind == "question"


@pytest.mark.promise("G4")
def test_a_question_that_cannot_be_read_can_only_be_rejected() -> None:
    world = asked(arguments="{no json")
    request = world.asked().id
    assert world.refused(answer(request)) == "unreadable_arguments"
    world.apply(reject(request))
    assert world.code() == "rejected"


@pytest.mark.promise("G8")
def test_a_question_that_waits_holds_effects_as_a_request_does() -> None:
    world = asked(sound(1, ruling=ALLOW))
    request = world.asked().id
    assert world.refused(world.beginning(1)) == "stale_fence"
    assert world.work() == Wait(
        until=world.asked().deadline_at, requests=(request,), held_by=(request,)
    )
    assert world.lease() == ()
    world.apply(answer(request))
    assert names(world.lease()) == ["LeaseTaken"]
    assert names(world.begin(1)) == ["AttemptBegun"]
    world.conclude(DONE, 1)
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G8")
def test_an_approved_action_goes_before_a_newer_question_and_after_an_older_one() -> None:
    world = World()
    world.start()
    world.propose(question(0), sound(1), question(2))
    world.apply(approve(world.asked(1).id))
    assert isinstance(world.work(), Wait)
    world.apply(answer(world.asked(0).id))
    assert names(world.lease()) == ["LeaseTaken"]
    assert world.work() == RunEffect(at=world.call(1).at)
    assert names(world.begin(1)) == ["AttemptBegun"]


@pytest.mark.promise("G9")
def test_a_question_expires_and_cannot_be_answered_then() -> None:
    world = asked()
    request = world.asked()
    world.until(request.deadline_at)
    assert world.refused(answer(request.id)) == "expired"
    assert world.work() == ExpireDue()
    world.expire()
    assert world.code() == "expired"
    assert world.refused(answer(request.id)) == "expired"


def test_a_question_counts_among_what_may_wait() -> None:
    world = World()
    world.start()
    world.propose(*map(question, range(MOST_WAITING)), sound(MOST_WAITING))
    codes = [world.code(index) for index in range(MOST_WAITING + 1)]
    assert codes == ["Asking"] * MOST_WAITING + ["interrupted"]


@pytest.mark.promise("G6")
def test_cancelling_a_run_withdraws_its_question() -> None:
    world = asked()
    request = world.asked().id
    events = world.apply(CancelRun(run="r1", by=ANN, cause=""))
    assert "RequestCancelled" in names(events)
    assert isinstance(world.state.requests[request].state, Cancelled)
    assert world.refused(answer(request)) == "cancelled"
    opened = [x for x in world.log if isinstance(x, e.RequestOpened)]
    assert [x.kind for x in opened] == ["question"]


# --- what an answer must be -------------------------------------------------------------------


@pytest.mark.parametrize(
    "asks, fits, others",
    [
        ({}, {" the red one ": "the red one"}, ["", "  "]),
        ({"answer": "yes_no"}, {"Yes": "yes", " no ": "no"}, ["y", "", "maybe"]),
        ({"answer": "integer"}, {"-3": "-3", "+07": "+07"}, ["3.5", "1e3", "", "1" * 16, "三"]),
        ({"answer": "number"}, {"3.5": "3.5", "-2": "-2"}, ["1e3", ".5", "nan", "1."]),
        ({"choices": ["red", "blue"]}, {"red": "red"}, ["Red", "green", ""]),
    ],
)
def test_an_answer_must_fit_its_question(
    asks: dict[str, object], fits: dict[str, str], others: list[str]
) -> None:
    asked_for = question_of({"question": "Which?", **asks})  # type: ignore[dict-item]  # JSON it is
    for text, given in fits.items():
        assert checked(asked_for, text) == given
    for text in others:
        with pytest.raises(InvalidInput, match="answer_does_not_fit"):
            checked(asked_for, text)
    assert asked_for.wanted


@pytest.mark.parametrize(
    "arguments", ["{", {}, {"question": 7}, {"question": "?", "answer": "poem"}]
)
def test_a_question_that_is_none_says_so(arguments: dict[str, object] | str) -> None:
    with pytest.raises(InvalidInput, match="unreadable_question"):
        question_of(arguments)  # type: ignore[arg-type]  # JSON it is


def test_a_question_is_what_its_arguments_say() -> None:
    found = question_of({"question": "Which?", "choices": ["red", "blue"]})
    assert found == Question(text="Which?", choices=("red", "blue"))
    assert found.wanted == "one of: red, blue"
    assert QUESTION.needs.named("ann").approvers == ("ann",)
