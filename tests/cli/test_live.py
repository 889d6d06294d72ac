"""Text that is shown as it comes: the same as the whole of it, wherever it was cut (H2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.watching import TextArrives
from placet.cli.live import LiveText, Pieces
from placet.core.display import visible

#: Letters and what hides, moves, joins or covers them, so that cuts fall between.
CHARACTERS = "ab \n\r\t\x1b[31m\u0301\u0308\u0915\u093f\u202e\u200b\u200d⟦中é\ufe0f\U000e0041‹"


@pytest.mark.promise("H2")
@given(pieces=st.lists(st.text(alphabet=CHARACTERS, max_size=12), max_size=8))
def test_pieces_are_shown_as_the_whole_text_would_be(pieces: list[str]) -> None:
    showing = Pieces()

    shown = [showing.add(piece) for piece in pieces]

    assert "".join(shown) + showing.end() == visible("".join(pieces), keep_newlines=True)
    assert showing.add("a") == "a", "another text begins"


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
