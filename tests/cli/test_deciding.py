"""Who may decide at the command line, and by which words: real processes, a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.settings import current_account
from tests.cli.place import TOKENS, Place, do

ME = current_account()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", "ben", ME)


# --- who ------------------------------------------------------------------------------------------


@pytest.mark.promise("G10")
def test_without_a_terminal_and_without_a_token_nobody_decides(place: Place) -> None:
    run, request = place.waiting()

    for words in (
        ("approve", request, "--yes"),
        ("reject", request, "--reason", "no"),
        ("edit", request, "--set", "amount=1", "--yes"),
        ("withdraw", request),
        ("settle", request, "--abandon", "--yes"),
    ):
        refused = do(*words, "--json")
        assert (refused.code, refused.error["code"]) == (4, "no_identity")
    assert place.status(request) == "waiting"
    assert do("resume", run).code == 10
    assert place.effects == []


@pytest.mark.slow
@pytest.mark.promise("G10")
@pytest.mark.conformance(2)
def test_with_a_token_its_holder_decides_and_another_process_carries_on(place: Place) -> None:
    run, request = place.waiting()

    approved = place.placet("approve", request, "--json", by="ana")
    carried_on = place.placet("resume", run, "--json")

    assert (approved.code, approved.document["by"], approved.document["via"]) == (0, "ana", "token")
    assert approved.document["votes"] == ["ana"]
    assert (carried_on.code, carried_on.document["stop"]) == (0, "final")
    assert place.effects == ["refund A-1 129"]
    assert place.status(request) == "spent"


@pytest.mark.slow
@pytest.mark.promise("G10")
def test_a_token_that_is_nobodys_decides_nothing_even_at_a_terminal(place: Place) -> None:
    _, request = place.waiting()

    refused = place.at_terminal("approve", request, "--yes", by="a guess")

    assert refused.code == 4
    assert "[unknown_token]" in refused.err
    assert place.status(request) == "waiting"


@pytest.mark.slow
@pytest.mark.promise("G10")
def test_a_token_wins_over_the_terminal(place: Place) -> None:
    _, request = place.waiting()

    approved = place.at_terminal("approve", request, "--json", by="ben")

    assert approved.code == 0, approved
    assert (approved.document["by"], approved.document["via"]) == ("ben", "token")


@pytest.mark.promise("G10")
def test_a_token_of_one_who_is_no_approver_decides_nothing(place: Place) -> None:
    _, request = place.waiting()

    refused = do("approve", request, "--json", by="mallory")

    assert (refused.code, refused.error["code"]) == (4, "not_an_approver")
    assert place.status(request) == "waiting"


def test_a_token_can_come_from_a_file(place: Place) -> None:
    _, request = place.waiting()
    file = place.write("token", TOKENS["ana"])
    empty = place.write("empty", "")

    refused = do("approve", request, "--token-file", str(empty), "--json", by="ana")
    approved = do("approve", request, "--token-file", str(file), "--json")

    assert (refused.code, refused.error["code"]) == (2, "invalid_token_file")
    assert approved.document["by"] == "ana"


@pytest.mark.slow
@pytest.mark.promise("G10")
def test_under_the_mark_of_a_tool_nobody_decides(place: Place) -> None:
    run, request = place.waiting()
    mark = {"PLACET_INSIDE_TOOL": "run_x/1/0"}

    with_token = place.placet("approve", request, "--json", by="ana", **mark)
    at_terminal = place.at_terminal("approve", request, "--json", typed="approve\n", **mark)

    for refused in (with_token, at_terminal):
        assert (refused.code, refused.error["code"]) == (4, "inside_tool")
    assert place.placet("cancel", run, **mark).code == 4
    assert place.placet("resume", run, **mark).code == 4
    assert place.status(request) == "waiting"


@pytest.mark.promise("G10")
@pytest.mark.slow
def test_what_a_tool_starts_cannot_decide(place: Place) -> None:
    told = place.placet("run", "--agent", "sly", "--json", "go", by="ana")

    assert told.code == 0, told
    assert told.document["answer"].startswith("Done: 4 ")
    assert "[inside_tool" in told.document["answer"]


@pytest.mark.parametrize("option", ["--by", "--as", "--user"])
def test_no_option_lets_one_name_oneself(place: Place, option: str) -> None:
    refused = do("approve", "rq_x", option, "ana")

    assert refused.code == 2
    assert "No such option" in refused.err


# --- by which words -------------------------------------------------------------------------------


@pytest.mark.promise("G10", "H5")
def test_at_a_terminal_the_card_is_shown_and_the_exact_word_approves(place: Place) -> None:
    _, request = place.waiting()

    approved = place.at_terminal("approve", request, "--json", typed="approve\n")

    assert approved.code == 0, approved
    assert (approved.document["by"], approved.document["via"]) == (ME, "terminal")
    assert f"Approval request {request}" in approved.err
    assert "amount = 129" in approved.err
    assert approved.document["action_digest"] in approved.err


@pytest.mark.promise("H5")
@pytest.mark.conformance(35)
@pytest.mark.parametrize(
    "typed",
    [
        " approve\n",
        *(
            pytest.param(typed, marks=pytest.mark.slow)
            for typed in ("\n", "yes\n", "APPROVE\n", "approve it\n", "\x04")
        ),
    ],
)
def test_anything_but_the_exact_word_decides_nothing(place: Place, typed: str) -> None:
    _, request = place.waiting()

    left = place.at_terminal("approve", request, "--json", typed=typed)

    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert place.status(request) == "waiting"


@pytest.mark.promise("H5")
@pytest.mark.conformance(35)
def test_an_interrupted_question_decides_nothing(place: Place) -> None:
    _, request = place.waiting()

    left = place.interrupted_at("Type approve", "approve", request)

    assert left.code == 130
    assert place.status(request) == "waiting"


@pytest.mark.promise("H5")
@pytest.mark.conformance(35)
def test_a_command_that_is_not_exact_decides_nothing(place: Place) -> None:
    _, request = place.waiting()

    for words in (
        ("Approve", request),
        ("approve", request, "please"),
        ("approve",),
        ("approve", f"{request} "),
        ("approve", request, "--digest", "0" * 64),
        ("reject", request),
        ("reject", request, "--reason", " "),
        ("edit", request),
        ("settle", request),
    ):
        assert do(*words, by="ana").code in (2, 3, 5), words
    assert place.status(request) == "waiting"


@pytest.mark.slow
@pytest.mark.promise("G3")
def test_a_quoted_digest_binds_and_asks_nothing(place: Place) -> None:
    _, request = place.waiting()
    digest = do("show", request, "--json").document["action_digest"]

    wrong = place.at_terminal("approve", request, "--digest", "0" * 64, "--json")
    right = place.at_terminal("approve", request, "--digest", digest, "--json")

    assert (wrong.code, wrong.error["code"]) == (3, "digest_mismatch")
    assert (right.code, right.document["status"]) == (0, "approved")


@pytest.mark.promise("G11")
def test_a_request_of_another_session_is_not_found(place: Place) -> None:
    _, request = place.waiting()

    for command in ("show", "approve"):
        refused = do(command, request, "--session", "other", "--json", by="ana")
        assert (refused.code, refused.error["code"]) == (5, "request_not_found")


@pytest.mark.promise("G11")
def test_a_run_of_another_session_is_not_found(place: Place) -> None:
    run, request = place.waiting()

    for command in ("resume", "cancel"):
        refused = do(command, run, "--session", "other", "--json")
        assert (refused.code, refused.error["code"]) == (5, "run_not_found")
    assert place.status(request) == "waiting"
    assert do("cancel", run, "--session", "main").code == 0


# --- what follows ---------------------------------------------------------------------------------


@pytest.mark.promise("G6")
def test_a_rejection_needs_a_reason_which_the_model_is_told(place: Place) -> None:
    run, request = place.waiting()

    rejected = do("reject", request, "--reason", "too much", "--json", by="ben")
    carried_on = do("resume", run, "--json")

    assert (rejected.code, rejected.document["status"]) == (0, "rejected")
    assert rejected.document["decided_by"] == "ben"
    assert "Rejected by ben: too much" in carried_on.document["answer"]
    assert place.effects == []


@pytest.mark.promise("G7")
def test_who_comes_too_late_gets_a_typed_conflict(place: Place) -> None:
    _, request = place.waiting()
    do("approve", request, by="ana")

    again = do("approve", request, "--json", by="ana")
    other = do("approve", request, "--json", by="ben")
    against = do("reject", request, "--reason", "no", "--json", by="ben")

    assert again.code == 0
    assert (other.code, other.error["code"]) == (3, "already_approved")
    assert (against.code, against.error["code"]) == (3, "already_approved")


@pytest.mark.promise("G7")
def test_a_vote_can_be_taken_back_until_it_is_spent(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ana")

    taken_back = do("withdraw", request, "--json", by="ana")

    assert (taken_back.code, taken_back.document["status"]) == (0, "waiting")
    assert do("resume", run).code == 10
    assert place.effects == []


@pytest.mark.promise("G3")
def test_a_vote_is_taken_back_from_the_action_that_was_shown(place: Place) -> None:
    _, request = place.waiting()
    digest = do("approve", request, "--json", by="ana").document["action_digest"]

    wrong = do("withdraw", request, "--digest", "0" * 64, "--json", by="ana")
    right = do("withdraw", request, "--digest", digest, "--json", by="ana")

    assert (wrong.code, wrong.error["code"]) == (3, "digest_mismatch")
    assert (right.code, right.document["via"]) == (0, "token")


@pytest.mark.promise("G5")
def test_an_edit_that_policy_denies_says_so(place: Place) -> None:
    _, request = place.waiting("strict")

    told = do("edit", request, "--set", "amount=9000", by="ana")
    shown = do("show", request, "--json").document

    assert told.code == 3
    assert "no new version: policy_denied" in told.out
    assert '  proposed, and not asked about:\n    order_id = "A-1"\n    amount = 9000\n' in told.out
    assert "amount = 129" not in told.out
    assert "Denied by policy (agent:strict)" in told.out
    assert "policy_denied): Denied by policy" in shown["ending"]
    assert place.effects == []


@pytest.mark.promise("G5")
def test_an_edit_makes_a_new_version_and_the_old_one_never_runs(place: Place) -> None:
    run, request = place.waiting()

    edited = do("edit", request, "--set", "amount=50", "--json", by="ana")
    late = do("approve", request, "--json", by="ben")
    do("resume", run)

    assert (edited.code, edited.document["status"]) == (0, "superseded")
    assert edited.document["successor_status"] == "approved"
    assert edited.document["card"]["arguments"][1] == {"name": "amount", "shown": "50"}
    assert (late.code, late.error["code"]) == (3, "superseded")
    assert place.effects == ["refund A-1 50"]


@pytest.mark.slow
@pytest.mark.promise("H5")
def test_an_edit_at_a_terminal_asks_for_its_exact_word(place: Place) -> None:
    _, request = place.waiting()
    words = ("edit", request, "--arguments", '{"order_id": "B-2", "amount": 1}', "--json")

    left = place.at_terminal(*words, typed="approve\n")
    edited = place.at_terminal(*words, typed="edit\n")

    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert 'order_id = "B-2"' in left.err
    assert (edited.code, edited.document["status"]) == (0, "superseded")


@pytest.mark.parametrize(
    "words, code",
    [
        (("--set", "amount=fifty"), "value_not_json"),
        (("--set", 'order_id=1, "amount": 2'), "value_not_json"),
        (("--set", "amount=NaN"), "value_not_json"),
        (("--set", "amount"), "invalid_assignment"),
        (("--set", 'amount="fifty"'), "invalid_edit"),
        (("--set", "colour=1"), "invalid_edit"),
        (("--arguments", "[1]"), "value_not_json"),
        (("--arguments", '{"amount": 1, "amount": 2}'), "value_not_json"),
        (("--set", "amount=129"), "edit_unchanged"),
    ],
)
def test_an_edit_that_does_not_fit_changes_nothing(
    place: Place, words: tuple[str, ...], code: str
) -> None:
    _, request = place.waiting()

    refused = do("edit", request, *words, "--json", by="ana")

    assert (refused.code, refused.error["code"]) == (2, code)
    assert place.status(request) == "waiting"


def test_a_text_without_quotes_is_told_how_to_be_quoted(place: Place) -> None:
    _, request = place.waiting()

    refused = do("edit", request, "--set", "order_id=B-2", by="ana")

    assert """--set 'order_id="B-2"'""" in refused.err


@pytest.mark.slow
@pytest.mark.promise("D4", "H5")
def test_an_unknown_outcome_is_settled_by_a_person_with_exact_words(place: Place) -> None:
    run, request = place.waiting("risky")
    do("approve", request, by="ana")
    assert place.placet("resume", run).code == 9, "the process dies in the tool's body"
    asked = do("resume", run, "--json")
    (settlement,) = asked.document["waiting"]
    words = ("settle", settlement, "--did-not-happen", "--json")

    as_approval = do("approve", settlement, "--json", by="ana")
    both = do("settle", settlement, "--abandon", "--did-not-happen", by="ana")
    empty = do("settle", settlement, "--happened", " ", "--json", by="ana")
    left = place.at_terminal(*words, typed="settle\n")
    settled = place.at_terminal(*words, typed="did-not-happen\n")
    carried_on = do("resume", run, "--json")

    assert asked.code == 10
    assert (as_approval.code, as_approval.error["code"]) == (3, "other_kind")
    assert both.code == 2
    assert (empty.code, empty.error["code"]) == (2, "no_result")
    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert (settled.code, settled.document["finding"]) == (0, "did_not_happen")
    assert carried_on.document["answer"].startswith("Done: Interrupted")
    assert place.effects == ["vanish"], "nothing ran again by itself"
