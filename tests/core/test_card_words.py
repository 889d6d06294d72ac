"""The pieces and words of cards: no stranger's text is among placet's own words (H2)."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import pytest

from placet.core import record_words
from placet.core.card_parts import Text, Words, layout_of
from placet.core.card_surfaces import html, markdown, plain, terminal
from placet.core.card_words import LANGUAGES, WORDS
from placet.core.values import Needs
from tests.core.cards import Making
from tests.tidy import ROOT


def people(*names: str) -> Needs:
    return Needs(approvers=names)


@pytest.mark.promise("H2")
def test_a_text_cannot_be_put_anywhere_without_an_escape() -> None:
    text = Text("<b>")
    for forgetful in (str, "{}".format, "{!s:>9}".format, "<p>".join, escape):
        with pytest.raises((TypeError, AttributeError)):
            forgetful(text)  # type: ignore[arg-type]  # What a forgetful surface would do.
    assert text.through(lambda shown: shown.replace("<", "&lt;")) == "&lt;b>"


@pytest.mark.promise("H2")
def test_the_layout_holds_strangers_texts_in_texts_alone() -> None:
    making = Making({"stranger": "stranger"}).asked(tool="stranger", rule="stranger")
    for found in layout_of(making.card()).parts:
        for row in found.rows:
            words = [piece.said for piece in row.pieces if isinstance(piece, Words)]
            assert not [each for each in words if "stranger" in each]


@pytest.mark.promise("H2")
@pytest.mark.parametrize("surface", [plain, terminal, markdown, html])
@pytest.mark.parametrize(
    "one, other",
    [
        (
            Making().asked(requester="a (b").ran(agent="c"),
            Making().asked(requester="a").ran(agent="b (c"),
        ),
        (
            Making().asked(rule="a: b").told(grounds="c"),
            Making().asked(rule="a").told(grounds="b: c"),
        ),
        (Making().asked(needs=people("a, b")), Making().asked(needs=people("a", "b"))),
        (Making().asked(needs=people('a d", "b c')), Making().asked(needs=people("a d", "b c"))),
        (Making({'a = "1"': 2}), Making({"a": '1" = 2'})),
        (Making({"a": {"b": 1}}), Making({"a.b": 1})),
        (Making({"a": [{"b": 1}]}), Making({"a[0]": {"b": 1}})),
        (Making({"a": "1"}), Making({"a": 1})),
        (Making({"a": "x\n    | y"}), Making({"a": "x\ny"})),
    ],
    ids=[
        "requester and agent",
        "rule and reason",
        "approvers",
        "approvers in quotes",
        "name and value",
        "path and name",
        "item and name",
        "text and number",
        "lines",
    ],
)
def test_no_two_texts_together_look_like_two_others(
    surface: Any, one: Making, other: Making
) -> None:
    assert surface(one.card()) != surface(other.card())


def test_the_languages_have_the_same_words_with_the_same_places() -> None:
    places = re.compile(r"\{\w+\}")
    for language in LANGUAGES:
        assert WORDS[language].keys() == WORDS["en"].keys()
        for key, words in WORDS[language].items():
            assert {*places.findall(words)} == {*places.findall(WORDS["en"][key])} or key in (
                "lines.one",
                "characters.one",
                "earlier.one",
            ), key


@pytest.mark.promise("H2")
def test_the_words_of_the_cards_are_no_markup() -> None:
    for language in LANGUAGES:
        for key, words in WORDS[language].items():
            assert not set(re.sub(r"\{\w+\}|->", "", words)) & set("`*_[]{}<>&#|~\\@$⟦⟧‹›\n"), key
            assert "://" not in words
            assert re.search(r"\w\.\w", words) is None, key


def test_every_word_is_one_that_a_card_says() -> None:
    core = ROOT / "src/placet/core"
    names = ("card.py", "card_parts.py", "masking.py")
    sources = "".join((core / name).read_text(encoding="utf-8") for name in names)
    for key in WORDS["en"].keys() - record_words.ENGLISH.keys():
        family = key.partition(".")[0]
        assert (
            f'"{key}"' in sources
            or f'f"{family}.' in sources
            or family
            in (
                "lines",
                "characters",
            )
        ), key
