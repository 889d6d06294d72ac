"""`show` of a run, and of a request whose call has its result: what happened inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place, do


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def test_show_of_a_run_tells_its_calls_how_each_ended_and_the_answer(place: Place) -> None:
    run, request = place.waiting()
    before = do("show", run).out
    do("approve", request, by="ana")
    do("resume", run)

    text, document = do("show", run).out, do("show", run, "--json").document

    assert f"1.0  refund: asked as {request}\n" in before
    assert text.splitlines() == [
        f"{run}  ended: final  shop  session main, step 2",
        "  1.0  refund: succeeded",
        '    order_id = "A-1"',
        "    amount = 129",
        "    → refunded 129",
        "  answer",
        "    → Done: refunded 129",
    ]
    (call,) = document["calls"]
    assert (call["code"], call["told"]) == ("succeeded", "refunded 129")
    assert (document["answer"], document["stop"]) == ("Done: refunded 129", "final")
    assert do("show", run, "--session", "other").code == 5


@pytest.mark.promise("H2")
def test_show_of_a_run_shows_reads_and_hides_what_is_secret(place: Place) -> None:
    place.write("placet.toml", 'app = "tests.cli.talkers:support"\napprovers = ["ana"]')
    secret = "4111111111111111"
    done = do("run", "--session", "main", f"say {secret} \u202e", "--json").document
    peeked = do("run", "--session", "main", "peek", "--json").document

    shown, looked = do("show", done["run_id"]).out, do("show", peeked["run_id"]).out

    assert secret not in shown
    assert "\u202e" not in shown
    assert "‹secret, 16 characters" in shown
    assert "  1.0  peek: " in looked
    assert "    → no token\n" in looked


def test_a_spent_request_shows_its_result_and_when_each_vote_was_cast(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ben")
    do("withdraw", request, by="ben")
    do("approve", request, by="ana")
    do("resume", run)

    text, document = do("show", request).out, do("show", request, "--json").document

    (vote,) = document["voted"]
    assert (vote["by"], vote["via"], document["result"]) == ("ana", "token", "refunded 129")
    assert f"  vote        ana at {vote['at']}, via token\n" in text
    assert "  result\n    refunded 129\n" in text
