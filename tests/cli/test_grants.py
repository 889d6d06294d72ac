"""Standing grants at the command line: with an approval, listed, revoked (G12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.settings import current_account
from tests.cli.place import Place, do

ME = current_account()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", "ben", ME)


@pytest.mark.slow
@pytest.mark.promise("G12")
def test_a_grant_is_given_listed_and_revoked(place: Place) -> None:
    _, request = place.waiting()
    always = ("--always", "session", "--same", "order_id", "--any", "amount", "--uses", "3")
    assert place.placet("approve", request, *always, "--json", by="ana").code == 0
    session = place.placet("show", request, "--json").document["session"]
    (grant,) = place.placet("grants", "--session", session, "--json").document["grants"]
    assert (grant["by"], grant["left"], grant["same"]) == ("ana", 3, ["order_id"])
    refused = place.placet("revoke", grant["grant"], "--session", session, "--json")
    assert refused.error["code"] == "no_identity"
    revoked = place.placet("revoke", grant["grant"], "--session", session, "--json", by="ben")
    assert (revoked.code, revoked.document["by"]) == (0, "ben")
    assert place.placet("grants", "--session", session).out.strip() == "no grants"


@pytest.mark.promise("G12")
def test_an_approval_with_a_grant_says_what_it_permits_and_how_it_is_taken_back(
    place: Place,
) -> None:
    _, first = place.waiting(session="one")
    run, second = place.waiting(session="two")
    terms = ("--same", "order_id", "--any", "amount", "--lasts", "90m", "--uses", "2")

    said = do("approve", first, "--always", "run", *terms, by="ana")
    given = do("approve", second, "--always", "run", *terms, "--json", by="ana").document["grant"]
    listed = do("grants").out

    (line,) = (line for line in said.out.splitlines() if line.startswith("  grant "))
    grant = line.split()[1].rstrip(":")
    assert "refund  same order_id; any amount  2 left until " in line
    assert (given["run_id"], given["session"], given["left"]) == (run, "two", 2)
    assert len(listed.splitlines()) == 2
    assert given["grant"] in listed

    (revoke,) = (w for w in said.out.split("`") if w.startswith("placet revoke "))
    done = do(*revoke.split()[1:], by="ben")
    assert (done.code, done.out) == (0, f"{grant} revoked by ben\n")
    elsewhere = do("revoke", given["grant"], "--session", "one", "--json", by="ana")
    gone = do("revoke", grant, "--json", by="ana")
    assert elsewhere.error["code"] == gone.error["code"] == "grant_not_found"
    assert [each["grant"] for each in do("grants", "--json").document["grants"]] == [given["grant"]]


@pytest.mark.promise("G12")
def test_the_question_at_a_terminal_says_in_plain_words_what_a_grant_permits(place: Place) -> None:
    _, request = place.waiting()
    terms = ("--always", "run", "--same", "order_id", "--any", "amount", "--lasts", "60m")

    left = place.at_terminal("approve", request, *terms, typed="no\n")

    assert (
        "up to 10 calls to come of the same tool, in this run and within 1h, need no further"
        " approval: the same order_id; any amount."
    ) in left.err
    assert place.status(request) == "waiting"


def test_all_arguments_that_a_grant_says_nothing_of_are_named_at_once(place: Place) -> None:
    _, request = place.waiting()
    refused = do("approve", request, "--always", "run", "--json", by="ana").error
    assert refused["message"] == "The grant says nothing of the arguments 'amount', 'order_id'."
    assert "--same a,b" in refused["hint"]
    assert "--any c,d" in refused["hint"]


@pytest.mark.parametrize(
    "words",
    [
        ("--same", "amount"),
        ("--always", "run", "--same", "amount"),
        ("--always", "run", "--any", "amount,order_id", "--lasts", "soon"),
    ],
    ids=["without always", "an argument is not named", "no time"],
)
def test_terms_that_are_not_whole_approve_nothing(place: Place, words: tuple[str, ...]) -> None:
    _, request = place.waiting()
    refused = do("approve", request, *words, "--json", by="ana")
    assert refused.error["code"] == "invalid_grant"
    assert place.status(request) == "waiting"
