"""Lines that are too wide are broken between words, and at the width at the latest (H2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.card_surfaces import plain, terminal, within
from placet.core.display import columns, visible
from placet.core.line_breaks import breaks_of
from tests.core.cards import Making
from tests.core.hostile import HOSTILE

WIDTH = 80
CONTINUED = "      ⋮ "
ROOM = WIDTH - columns(CONTINUED)

RESUME = "`placet resume run_211fb1edad0ac2f8ae5a --app MODULE:NAME`"
OURS = (
    f"The run rests, and goes on later: {RESUME}. A worker does so, too.",
    f"Nothing was decided by ana (nor by bo) and the run waits: say ({RESUME}), or cancel it.",
    "the settlement of what may have happened is st_wb6jg2sl5sq5ka3oo23l, and waits for ana to say",
    "Its process is on this host no more: type it where you have seen that the process that ran it"
    " is gone",
    f"批准者已经同意了这个操作,但是还没有开始执行。请运行 {RESUME},然后等待结果,不要再次提出请求。",
)


def lines_of(text: str, width: int = WIDTH) -> list[str]:
    """Give the lines of a text as a terminal is given them, without the mark of what goes on."""
    first, *others = within(text, width).split("\n")
    assert all(line.startswith(CONTINUED) for line in others)
    assert max(map(columns, (first, *others))) <= width
    found = [first, *(line.removeprefix(CONTINUED) for line in others)]
    assert "".join(found) == text
    return found


@pytest.mark.parametrize("text", OURS)
def test_no_word_no_id_and_no_command_of_placets_is_broken(text: str) -> None:
    lines = lines_of(text)

    assert len(lines) > 1
    for whole in (*re.findall(r"[A-Za-z_0-9]+", text), *re.findall("`[^`]+`", text)):
        assert any(whole in line for line in lines), whole


@pytest.mark.parametrize("begun", range(60, 82))
def test_a_command_moves_to_the_next_line_whole_wherever_it_begins(begun: int) -> None:
    lines = lines_of("x " * (begun // 2) + RESUME)

    assert lines[-1].endswith(RESUME)


def test_a_command_for_which_no_line_has_room_is_broken_between_its_words() -> None:
    command = f"`placet worker --app shop.agents:desk --store sqlite:////{'var/' * 10}placet.db`"

    lines = lines_of(f"Start it again: {command} and nothing is lost.")

    assert len(lines) > 1
    for word in command.split():
        assert any(word in line for line in lines), word


def test_a_mark_and_a_mask_stay_whole() -> None:
    mask = "‹secret, 24 characters, fingerprint 0123abcd›"

    assert any(mask in line for line in lines_of("x " * 25 + mask))
    assert any("⟦U+200B ×3⟧" in line for line in lines_of("x" * 70 + " ⟦U+200B ×3⟧"))


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "text",
    [
        "x" * 400,
        "  tool        " + "x" * 400,
        "漢" * 200,
        "`" + "x" * 400 + "`",
        "⟦" + "x" * 400,
        "`placet approve " + "rq_" * 100 + "`",
        "a " + "`" * 300,
        " " * 300 + "x",
    ],
)
def test_a_long_word_without_spaces_is_broken_at_the_width_and_fills_its_lines(text: str) -> None:
    first, *others = lines_of(text)

    assert columns(first) >= WIDTH - 1
    assert all(columns(line) >= ROOM - 1 for line in others[:-1])


@pytest.mark.promise("H2")
def test_no_hostile_text_begins_a_line_without_the_mark() -> None:
    for text in HOSTILE.values():
        for shown in (visible(text), visible(text * 20), visible(f"`placet {text * 10}")):
            lines_of(shown)


anything = st.text(st.sampled_from("ab`` \u0301漢字,。(⟦⟧‹›…-é"), max_size=120)


@given(anything, st.integers(40, 60))
def test_a_broken_line_is_as_it_was_and_each_part_fits(text: str, width: int) -> None:
    lines_of(text, width)
    assert breaks_of(text, width=columns(text), width_after=40) == []


def test_the_card_of_a_terminal_breaks_where_its_plain_lines_do() -> None:
    card = Making({"note": "refund of the whole order to the customer's card " * 5}).card()

    for width in (40, 72, 80):
        assert terminal(card, width=width) == plain(card, width=width)
        bare = re.sub("\x1b\\[[0-9]+m", "", terminal(card, width=width, colour=True))
        assert bare == plain(card, width=width)
    words = set(re.findall(r"\w+", plain(card)))
    assert words >= set(re.findall(r"\w+", plain(card, width=WIDTH)))
