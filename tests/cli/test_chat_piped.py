"""The chat without a terminal: lines are messages, and only a token decides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.place import PATIENCE_SECONDS, Ended, Place, do


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, agents="tests.cli.talkers:support")


def chat(place: Place, given: bytes, *words: str, by: str = "") -> Ended:
    """Give the chat its lines through a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "placet", "chat", "--session", "main", *words],
        cwd=place.directory,
        env=place.environment(by=by),
        input=given,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


def test_lines_are_messages_and_the_answers_alone_go_to_standard_output(place: Place) -> None:
    done = chat(place, b"hello\n\nsecond\\\nline\n/help\n\xff\nlast")

    assert done.code == 0
    assert done.out == "You said:\nhello\nYou said:\nsecond\nline\nYou said:\nlast\n"
    assert "/supersede MESSAGE" in done.err
    assert "[no_text]" in done.err
    assert "> " not in done.err


@pytest.mark.promise("G10", "H5")
@pytest.mark.slow
def test_without_a_token_nobody_decides_and_the_run_waits(place: Place) -> None:
    done = chat(place, b"refund A-1\napprove\n/approve rq_abcd\nanother\n")

    (request,) = do("inbox", "--json").document["requests"]
    assert done.code == 10
    assert "Asked of ana or ben, until " in done.err
    assert "no_identity" in done.err
    assert done.err.count("[run_waiting") == 2, "neither word was given to a model"
    assert f"waits for {request['request_id']}: `placet chat --session main` comes back" in done.err
    assert len(do("runs", "--json").document["runs"]) == 1
    assert place.effects == []


@pytest.mark.slow
@pytest.mark.promise("G10", "G7")
def test_with_a_token_its_holder_decides_and_a_later_chat_goes_on(place: Place) -> None:
    first = chat(place, b"refund A-1\n")
    stranger = chat(place, b"approve\n", by="mallory")
    nobody = chat(place, b"approve\n", by="a guess")
    second = chat(place, b"approve\ncolour\nred\n", by="ana")

    assert first.code == stranger.code == 10
    assert (nobody.code, nobody.out) == (4, "")
    assert second.code == 0
    assert second.out == "Done: refunded 129\nDone: ana answered: red\n"
    assert place.effects == ["refund A-1 129"]


@pytest.mark.slow
@pytest.mark.promise("G10")
def test_the_token_of_a_chat_reaches_no_tool_that_it_runs(place: Place) -> None:
    assert chat(place, b"peek\n", by="ana").out == "Done: no token\n"


@pytest.mark.slow
def test_a_rested_run_is_told_by_the_exit_code(place: Place) -> None:
    broken = chat(place, b"hello\n/help\n", "--app", "tests.cli.app:broken")

    assert broken.code == 12
    assert "RuntimeError: the model's client is broken [unexpected]" in broken.err
    assert " rests: /resume goes on with it" in broken.err
    assert "Traceback" not in broken.err


def test_a_chat_has_no_json_document_and_none_within_a_tool(place: Place) -> None:
    as_json = do("chat", "--json")
    inside = place.placet("chat", PLACET_INSIDE_TOOL="run_x/1/0")

    assert (as_json.code, as_json.error["code"]) == (2, "usage")
    assert "placet run --json" in as_json.error["message"]
    assert inside.code == 4


@pytest.mark.slow
def test_without_any_input_it_ends_at_once(place: Place) -> None:
    assert place.placet("chat").code == 0
