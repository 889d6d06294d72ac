"""Text that is shown as it comes: the same as the whole of it, wherever it was cut (H2)."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.watching import TextArrives
from placet.cli.live import LiveText, Pieces
from placet.cli.secrecy import Held
from placet.core.display import visible
from placet.core.masking import Masking
from tests.core.build import SALT

#: Letters and what hides, moves, joins or covers them, so that cuts fall between.
CHARACTERS = "ab \n\r\t\x1b[31m\u0301\u0308\u0915\u093f\u202e\u200b\u200d⟦中é\ufe0f\U000e0041‹"


@pytest.mark.promise("H2")
@given(pieces=st.lists(st.text(alphabet=CHARACTERS, max_size=12), max_size=8))
def test_pieces_are_shown_as_the_whole_text_would_be(pieces: list[str]) -> None:
    showing = Pieces()

    shown = [showing.add(piece) for piece in pieces]

    assert "".join(shown) + showing.end() == visible("".join(pieces), keep_newlines=True)
    assert showing.add("a") == "a", "another text begins"


SECRETS = {"password": "ab ba", "token": "aaaa", "pin_token": "中ab\ncd"}


@pytest.mark.promise("H2")
@given(
    text=st.text(alphabet="ab \ncd中-", max_size=60),
    planted=st.lists(st.tuples(st.integers(0, 60), st.sampled_from([*SECRETS.values()]))),
    cuts=st.lists(st.integers(0, 90), max_size=12),
)
def test_what_is_secret_is_masked_wherever_it_is_cut(
    text: str, planted: list[tuple[int, str]], cuts: list[int]
) -> None:
    for at, secret in planted:
        text = text[:at] + secret + text[at:]
    masking = Masking(salt=SALT).knowing(SECRETS)
    places = [0, *sorted(cuts), len(text)]
    held = Held(lambda: masking)

    shown = [held.add(text[one:other]) for one, other in pairwise(places) if one < other]

    assert "".join(shown) + held.end() == masking.repeated(text)


@pytest.mark.promise("H2")
def test_a_secret_that_comes_in_two_pieces_is_masked_as_one_that_comes_at_once() -> None:
    masking = Masking(salt=SALT).knowing({"password": "correct horse"})
    text = "the ark " * 9 + "correct horse" + " runs" * 9
    for at in range(1, len(text)):
        held = Held(lambda: masking)
        shown = held.add(text[:at]) + held.add(text[at:]) + held.end()
        assert shown == masking.repeated(text), at
        assert "horse" not in shown


@pytest.mark.promise("H2")
def test_of_a_text_no_more_is_held_back_than_could_still_be_secret() -> None:
    masking = Masking(salt=SALT).knowing({"password": "correct horse"})
    for text in ("the ark " * 40, "中文没有空格" * 60):
        held = Held(lambda: masking)
        shown = "".join(held.add(piece) for piece in text)
        assert len(text) - len(shown) <= 2 * masking.known.longest + 3
    held = Held(Masking)
    assert held.add("corr") == "corr", "nothing is known"
    held = Held(lambda: masking)
    begun = time.perf_counter()
    for _ in range(2_000):
        held.add("a" * 50)
    assert time.perf_counter() - begun < 3


@pytest.mark.promise("H2")
def test_spaces_and_line_ends_that_come_one_by_one_push_nothing_out_of_sight() -> None:
    showing = Pieces()
    shown = [showing.add(" ") for _ in range(100)] + [showing.add("\n") for _ in range(20)]

    assert "".join(shown) + showing.add("x") == "⟦U+0020 ×100⟧⟦U+000A ×20⟧x"


def text(run: str, step: int, piece: str) -> TextArrives:
    return TextArrives(run=run, step=step, text=piece)


def test_the_text_of_runs_under_a_run_comes_in_whole_lines_between_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = LiveText({"run_a": "reader\x1b", "run_b": "writer"}.__getitem__)
    live.own.add("run")

    live.arrives(text("run", 1, "I ask"))
    live.arrives(text("run_a", 1, "it says "))
    live.arrives(text("run_b", 1, "one\ntwo"))
    live.arrives(text("run_a", 1, "yes\n"))
    live.close()

    assert capsys.readouterr().out.splitlines() == [
        "I ask",
        "  writer | one",
        "  writer | two",
        "  reader⟦U+001B⟧ | it says yes",
    ]


def test_only_what_was_seen_of_the_last_turn_counts_as_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = LiveText(str)
    live.own.add("run")
    live.arrives(text("run", 1, "first"))
    live.arrives(text("run", 2, "the "))
    live.arrives(text("run", 2, "answer"))
    live.close()

    assert live.has_said("run", "the answer")
    assert not live.has_said("run", "first")
    assert not live.has_said("other", "the answer")
    assert capsys.readouterr().out == "first\nthe answer\n"
