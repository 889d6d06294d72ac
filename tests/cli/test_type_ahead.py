"""What is typed at a terminal before a question stands there decides nothing (H5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from placet.cli.main import main
from placet.settings import current_account
from tests.cli.dialog import dialog
from tests.cli.place import Place, do

ME = current_account()
ASKS = "approve, reject, edit or later? "


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", ME)


@pytest.mark.promise("H5")
@pytest.mark.parametrize(
    "ahead",
    [
        "approve\n",
        pytest.param("approve", marks=pytest.mark.slow),
        pytest.param("\napprove\napprove\n", marks=pytest.mark.slow),
    ],
)
def test_an_approval_that_was_typed_before_the_card_was_shown_approves_nothing(
    place: Place, ahead: str
) -> None:
    _, request = place.waiting()

    left = place.at_terminal("approve", request, "--json", ahead=ahead, typed="\n")

    assert "amount = 129" in left.err, "the card was shown, and the word asked for"
    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert place.status(request) == "waiting"


@pytest.mark.promise("H5")
def test_the_word_that_is_typed_at_the_prompt_counts_whatever_was_typed_before(
    place: Place,
) -> None:
    _, request = place.waiting()

    approved = place.at_terminal("approve", request, "--json", ahead="no\nno", typed="approve\n")

    assert (approved.code, approved.document["status"]) == (0, "approved")


@pytest.mark.slow
@pytest.mark.promise("G5", "H5")
def test_an_edit_that_was_typed_before_it_was_shown_edits_nothing(place: Place) -> None:
    _, request = place.waiting()
    words = ("edit", request, "--set", "amount=50", "--json")

    left = place.at_terminal(*words, ahead="edit\n", typed="leave\n")

    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert place.status(request) == "waiting"


@pytest.mark.slow
@pytest.mark.promise("D4", "H5")
@pytest.mark.parametrize(
    "finding, word",
    [
        (("--happened", "receipt 9"), "happened"),
        (("--did-not-happen",), "did-not-happen"),
        (("--abandon",), "abandon"),
    ],
)
def test_a_finding_that_was_typed_before_the_card_was_shown_settles_nothing(
    place: Place, finding: tuple[str, ...], word: str
) -> None:
    run, request = place.waiting("risky")
    do("approve", request, by="ana")
    assert place.placet("resume", run).code == 9, "the process dies in the tool's body"
    (settlement,) = do("resume", run, "--json").document["waiting"]

    left = place.at_terminal(
        "settle", settlement, *finding, "--json", ahead=f"{word}\n", typed="leave\n"
    )

    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert place.status(settlement) == "waiting"


@pytest.mark.promise("H4", "H5")
@pytest.mark.slow
def test_texts_are_not_erased_by_a_word_that_was_typed_before_the_question(place: Place) -> None:
    run, _ = place.waiting()
    do("cancel", run)

    left = place.at_terminal("erase", "main", "--json", ahead="erase\n", typed="\n")
    erased = place.at_terminal("erase", "main", "--json", ahead="\n", typed="erase\n")

    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert (erased.code, erased.document["erased"]) == (0, True)


@pytest.mark.promise("H5")
def test_without_a_terminal_the_word_is_the_next_line_that_there_is(place: Place) -> None:
    run, _ = place.waiting()
    do("cancel", run)

    left = CliRunner().invoke(main, ["erase", "main"], input="no\nerase\n")
    erased = CliRunner().invoke(main, ["erase", "main"], input="erase\n")

    assert left.exit_code == 2
    assert erased.exit_code == 0, erased.output


@pytest.mark.slow
@pytest.mark.promise("G6", "H5")
@pytest.mark.parametrize("ahead", ["approve\r", "reject\rtoo much\r", "reject"])
def test_a_chat_takes_no_decision_that_was_typed_before_it_asked(place: Place, ahead: str) -> None:
    _, request = place.waiting()

    with dialog(place, "chat", "--agent", "shop", "--session", "main") as talk:
        talk.type(ahead)
        talk.expect(ASKS)
        talk.enter("later")
        talk.expect("left for later")

    assert place.status(request) == "waiting"
