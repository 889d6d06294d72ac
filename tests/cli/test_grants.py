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
