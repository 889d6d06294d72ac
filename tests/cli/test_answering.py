"""Questions of runs at the command line: who answers them, how, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.settings import current_account
from tests.cli.place import Place, do

ME = current_account()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, agents="tests.cli.talkers:support")


@pytest.fixture
def asked(place: Place) -> tuple[str, str]:
    """Give a run, and the question that it asks."""
    begun = do("run", "--session", "main", "--json", "colour").document
    (request,) = begun["waiting"]
    return begun["run_id"], request


def test_a_question_is_listed_and_shown_with_what_is_wanted(asked: tuple[str, str]) -> None:
    _, request = asked

    shown = do("show", request, "--json").document
    text = do("show", request).out

    assert f"{request}  question of ask_person" in do("inbox").out
    assert shown["kind"] == "question"
    assert shown["question"] == {
        "text": "Which one?",
        "answer": "text",
        "choices": ["red", "blue"],
        "wanted": "one of: red, blue",
    }
    assert "wanted      one of: red, blue" in text
    assert f"placet answer {request} TEXT" in text


def test_an_answer_is_the_result_of_the_call_and_stands(asked: tuple[str, str]) -> None:
    run, request = asked

    unfit = do("answer", request, "green", "--json", by="ana")
    answered = do("answer", request, " red ", "--json", by="ana")
    told = do("answer", request, "red", by="ana")
    late = do("answer", request, "blue", "--json", by="ben")
    against = do("reject", request, "--reason", "no", "--json", by="ben")

    assert (unfit.code, unfit.error["code"]) == (2, "answer_does_not_fit")
    assert (answered.code, answered.document["status"]) == (0, "answered")
    assert (answered.document["by"], answered.document["via"]) == ("ana", "token")
    assert told.code == 0, "the same answer again is the same answer"
    assert f"{request} answered by ana: red  (answered, via token)" in told.out
    assert (late.code, late.error["code"]) == (3, "already_answered")
    assert against.code == 3
    assert do("resume", run, "--json").document["answer"] == "Done: ana answered: red"
    assert "ana answered: red" in do("show", request).out


@pytest.mark.promise("G10")
def test_whom_the_run_acts_for_may_answer_and_a_stranger_may_not(
    place: Place, asked: tuple[str, str]
) -> None:
    _, request = asked

    nobody = do("answer", request, "red", "--json")
    stranger = do("answer", request, "red", "--json", by="mallory")
    marked = place.at_terminal("answer", request, "red", PLACET_INSIDE_TOOL="run_x/1/0")
    mine = place.at_terminal("answer", request, "red", "--json")

    assert (nobody.code, nobody.error["code"]) == (4, "no_identity")
    assert (stranger.code, stranger.error["code"]) == (4, "not_an_approver")
    assert marked.code == 4
    assert (mine.code, mine.document["by"]) == (0, ME)


def test_what_is_no_question_is_not_answered_and_a_question_not_approved(
    place: Place, asked: tuple[str, str]
) -> None:
    _, question = asked
    (request,) = do("run", "--session", "2", "--json", "refund").document["waiting"]

    answered = do("answer", request, "yes", "--json", by="ana")
    approved = do("approve", question, "--json", by="ana")
    declined = do("reject", question, "--reason", "not mine to say", "--json", by="ana")

    assert (answered.code, answered.error["code"]) == (3, "other_kind")
    assert (approved.code, approved.error["code"]) == (3, "other_kind")
    assert (declined.code, declined.document["status"]) == (0, "rejected")
    assert do("answer", "rq_none", "x", by="ana").code == 5
    assert do("answer", request, by="ana").code == 2


def test_approving_a_question_is_refused_with_what_to_say_instead(asked: tuple[str, str]) -> None:
    _, request = asked

    refused = do("approve", request, "--json", by="ana")

    assert refused.error["code"] == "other_kind"
    assert f"placet answer {request}" in refused.error["hint"]
