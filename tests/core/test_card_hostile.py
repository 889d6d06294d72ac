"""Whatever stands wherever on a card is seen whole, and does nothing, on every surface (H2)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from placet.core.card import Card
from placet.core.card_parts import layout_of
from placet.core.card_surfaces import html, markdown, plain, terminal
from placet.core.card_words import LANGUAGES, WORDS, Language
from placet.core.display import columns, visible
from placet.core.masking import Masking
from tests.core.cards import POSITIONS
from tests.core.hostile import HOSTILE, LONG, PAYLOAD

HIDING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"}
MARK = re.compile(r"⟦U\+([0-9A-F]{4,6})(?: ×(\d+))?⟧|‹literal ‹›")
OWN_COLOUR = re.compile(r"\x1b\[(?:0|1|2|33)m")
WIDTH = 72

SURFACES: dict[str, Callable[[Card], str]] = {
    "plain": lambda card: plain(card, limits=None),
    "terminal": lambda card: terminal(card, width=WIDTH, limits=None),
    "markdown": lambda card: markdown(card, limits=None),
    "html": lambda card: html(card, limits=None),
}


def calm(text: str) -> str:
    """Give a text of the same lines with nothing in them."""
    return re.sub(r"[^\n]+", "x", text)


def unmarked(shown: str) -> str:
    """Read back what is shown, as somebody can who knows its rules."""
    return MARK.sub(
        lambda found: chr(int(found[1], 16)) * int(found[2] or 1) if found[1] else "‹", shown
    )


def card(position: str, text: str, language: Language = "en") -> Card:
    return POSITIONS[position](text).card(language)


# --- what is on each surface ----------------------------------------------------------------------


class Reader(HTMLParser):
    """Reads HTML strictly: what is around the texts, and the texts themselves."""

    VOID: frozenset[str] = frozenset()

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.around: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside_text = "bdi" in self.open
        self.open.append(tag)
        if inside_text:
            assert (tag, attrs) == ("mark", [("class", "placet-mark")])
            return
        if tag == "bdi":
            assert attrs == [("class", "placet-text")]
            self.texts.append("")
        for name, value in attrs:
            assert name == "class" or (tag, name) == ("section", "lang")
            assert value is not None
            assert re.fullmatch(r"[a-z -]+", value)
        assert tag in ("section", "h2", "dl", "div", "dt", "dd", "pre", "bdi")
        self.around.append(f"<{tag} {attrs}>")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if "bdi" not in self.open:
            self.around.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if "bdi" in self.open:
            self.texts[-1] += data
        else:
            self.around.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def read_html(page: str) -> tuple[list[str], list[str]]:
    found = Reader(page)
    return found.around, found.texts


GFM = MarkdownIt("gfm-like", {"html": True, "linkify": True, "typographer": True})
OWN_TOKENS = {
    *("paragraph", "bullet_list", "list_item", "strong", "inline", "text", "code_inline", "fence"),
}


def read_markdown(page: str) -> tuple[list[str], list[str]]:
    around: list[str] = []
    texts: list[str] = []
    for block in GFM.parse(page):
        for token in [block, *(block.children or [])]:
            assert re.sub("_(open|close)$", "", token.type) in OWN_TOKENS, token
            if token.type in ("code_inline", "fence"):
                texts += token.content.removesuffix("\n").split("\n")
                assert token.info == ""
            around.append(f"{token.type} {token.content if token.type == 'text' else ''}")
    return around, texts


def read_lines(page: str) -> tuple[list[str], list[str]]:
    """Read plain lines: how each begins, and what stands in it."""
    titles = "|".join(re.escape(f"{title:<11} ") for title in WORDS["en"].values())
    around, texts = [], []
    for line in page.split("\n"):
        found = re.match(rf"    \| |    |  (?:{titles})|(?=\S)", line)
        assert found is not None, line
        around.append(found[0])
        texts.append(line[found.end() :])
    return around, texts


READ = {
    "plain": read_lines,
    "markdown": read_markdown,
    "html": read_html,
}


# --- the corpus -----------------------------------------------------------------------------------


def seen(page: str) -> None:
    for character in set(page) - {"\n", " "}:
        assert unicodedata.category(character) not in {*HIDING, "Zs"}, f"U+{ord(character):04X}"


def numberless(around: list[str]) -> list[str]:
    return [re.sub(r"\d+ (lines?|characters?|行|个字符)", "#", each) for each in around]


@cache
def calm_around(surface: str, position: str, text: str) -> list[str]:
    return numberless(READ[surface](SURFACES[surface](card(position, text)))[0])


#: The others are looked at in the slow tests.
FIRST = ("argument", "name of an argument", "claim")
EVERYWHERE = [
    pytest.param(position, marks=() if position in FIRST else pytest.mark.slow)
    for position in POSITIONS
]


@pytest.mark.promise("H2")
@pytest.mark.parametrize("position", EVERYWHERE)
def test_a_hostile_text_changes_nothing_around_it_and_can_be_read_back(position: str) -> None:
    for name, text in HOSTILE.items():
        made = card(position, text)
        for surface, read in READ.items():
            page = SURFACES[surface](made)
            seen(page)
            around, texts = read(page)
            assert numberless(around) == calm_around(surface, position, calm(text)), name
            whole = unmarked("\n".join(texts))
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            assert text in whole or quoted in whole or _as_escapes(position, text), name


def _as_escapes(position: str, text: str) -> bool:
    """Say whether a text stands within JSON here, which has escapes of its own for some of it."""
    inside = position in ("new value", "old value") or position.startswith("name ")
    return inside and re.search(r'[\x00-\x1f"\\\x7f]', text) is not None


@pytest.mark.promise("H2")
@pytest.mark.parametrize("position", EVERYWHERE)
def test_a_terminal_is_given_lines_that_fit_and_begin_as_placets_do(position: str) -> None:
    titles = {part.title for part in layout_of(card(position, "x")).parts}
    for name, text in HOSTILE.items():
        made = card(position, text)
        page = terminal(made, width=WIDTH, colour=True, limits=None)
        bare = OWN_COLOUR.sub("", page)
        seen(bare)
        assert bare == terminal(made, width=WIDTH, limits=None)
        lines = bare.split("\n")
        assert all(columns(line) <= WIDTH for line in lines), name
        begun = [line for line in lines if re.match(r" {0,2}\S", line)]
        assert begun[0].startswith("Approval request "), name
        assert {line[2:14].rstrip() for line in begun[1:]} <= titles, name
        assert all(re.match(r" {4}\S| {4}\| | {6}⋮ ", line) for line in {*lines} - {*begun}), name
        joined = re.sub(r"\n {6}⋮ ", "", bare)
        assert joined == plain(made, limits=None), name


@pytest.mark.promise("H2")
@pytest.mark.parametrize("position", EVERYWHERE)
def test_hostile_texts_differ_on_a_card_as_they_differ(position: str) -> None:
    cards = [card(position, text, "zh") for text in HOSTILE.values()]
    for render in SURFACES.values():
        assert len(set(map(render, cards))) == len(HOSTILE)


anything = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "ab \n\\\"'`|=,:;(){}[]<>&*_~#@⟦⟧‹›×U+09\u0301\u200b\u202e\ud800\U000e0041"
        ),
    ),
    max_size=12,
)


#: Texts that imitate how another one is shown.
IMITATIONS: dict[str, Callable[[str, str], str]] = {
    "another": lambda one, other: other,
    "shown": lambda one, other: visible(Masking().text(one), keep_newlines=True),
    "shown on one line": lambda one, other: visible(one),
    "JSON": lambda one, other: json.dumps(one),
    "quoted": lambda one, other: f'"{one}"',
    "escaped for HTML": lambda one, other: escape(one),
    "in backticks": lambda one, other: f"` {one} `",
    "with more behind": lambda one, other: one + other,
    "behind a line end": lambda one, other: f"{one}\n{other}",
    "behind a continued line": lambda one, other: f"{one}\n      ⋮ {other}",
    "behind a block": lambda one, other: f"{one}\n    | {other}",
}


@pytest.mark.promise("H2")
@settings(deadline=None)
@given(
    anything,
    st.sampled_from([*IMITATIONS]),
    anything,
    st.sampled_from([*POSITIONS]),
    st.sampled_from([*SURFACES]),
)
def test_different_texts_make_different_cards(
    one: str, imitated: str, other: str, position: str, surface: str
) -> None:
    other = IMITATIONS[imitated](one, other)
    render = SURFACES[surface]
    assert (render(card(position, one)) == render(card(position, other))) == (one == other)


@pytest.mark.promise("H2")
@settings(deadline=None)
@given(anything, st.sampled_from([*POSITIONS]), st.sampled_from([*READ]))
def test_any_text_changes_nothing_around_it(text: str, position: str, surface: str) -> None:
    page = SURFACES[surface](card(position, text))
    seen(page)
    assert numberless(READ[surface](page)[0]) == calm_around(surface, position, calm(text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_markup_of_a_card_is_what_it_is_meant_to_be(language: Language) -> None:
    made = card("preview", "one\ntwo", language)
    around, _ = read_markdown(markdown(made))
    parts = layout_of(made).parts
    assert around.count("strong_open ") == len(parts) + 1
    assert around.count("fence ") == 1
    assert not [each for each in around if "*" in each or "`" in each]
    found, _ = read_html(html(made))
    assert found.count("<dt []>") == len(parts)
    assert found[0].endswith(f"('lang', '{language}')]>")


# --- what is long ---------------------------------------------------------------------------------


@pytest.mark.promise("H2")
@pytest.mark.parametrize("surface", [plain, terminal, markdown, html])
@pytest.mark.parametrize("position", ["argument", "preview", "claim", "effect", "failure"])
@pytest.mark.parametrize("name", LONG)
def test_what_is_long_is_folded_shows_its_end_and_says_how_much_there_is(
    surface: Callable[[Card], str], position: str, name: str
) -> None:
    text = LONG[name]
    made = card(position, text)
    folded = surface(made)
    flat = "".join(pieces(folded))
    assert "".join(pieces("echo x")) in flat
    assert "".join(pieces(PAYLOAD)) in flat
    assert f"{len(text)}characters" in flat
    assert "arenotshownhere;placetshow--fullshowsallofthem" in flat
    assert len(folded) < len(SURFACES[surface.__name__](made)) / 2


def pieces(page: str) -> Iterator[str]:
    """Give what stands on a page without gaps, and without where a terminal's lines are broken."""
    yield from page.replace("      ⋮ ", "").split()


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "surface",
    [plain, *(pytest.param(each, marks=pytest.mark.slow) for each in (terminal, markdown, html))],
)
def test_a_list_that_is_long_is_folded_shows_its_end_and_says_how_many_there_are(
    surface: Callable[[Card], str],
) -> None:
    people = [f"person{number}@example.com" for number in range(5000)]
    made = POSITIONS["argument"]("").told(display={"cost": None})
    made.draft = type(made.draft)(
        **{
            **{name: getattr(made.draft, name) for name in made.draft.__slots__},
            "arguments": {"to": people},
        }
    )
    folded = surface(made.card())
    assert "person0@" in folded
    assert "person4999@" in folded
    assert "person2500@" not in folded
    assert re.search(r"⟦4801 of 5001 entries\s+(⋮ )?are not shown here", folded)
    assert "person2500@" in SURFACES[surface.__name__](made.card())
