"""Honest display: what every surface shows of a text that a model, a tool or a stranger wrote (H2).

`visible` shows what would not be seen or would move what is, after placet.core.masking has hidden
the secrets; `fold` shows beginning and end of what is long. Nothing that they make is ever digested
or run. Their own words stand in brackets which no text can forge: a `⟦` that stands in the text
itself is shown as `⟦U+27E6⟧`.

The letters of right-to-left scripts are shown as they are. They reorder their neighbours, so a
surface isolates each text it shows (HTML's `<bdi>`). Nothing here escapes for HTML, Markdown or
a messenger's markup; each surface does that for its own, after this.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

#: More spaces in a row than this are shown as their number: they could push the rest out of sight.
MAX_SPACES = 64

#: More line ends in a row than this are shown as their number, likewise.
MAX_NEWLINES = 8

#: More combining characters on one base than this are shown as marks: they cover other lines.
MAX_COMBINING = 4

#: Printable by Python's lights, and yet nothing to see, or no more than a gap.
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0\ufffc\U0001d159")

#: What our own brackets look like.
_BRACKETS = frozenset("⟦⟧〚〛")

#: Marks (Mn) without a shape of their own: joiners, fillers and variation selectors.
_SHAPELESS = re.compile(
    "[\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U00016fe4\U000e0100-\U000e01ef]"
)

#: How the names of East Asian letters begin.
_EAST_ASIAN = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL SYLLABLE")

_OVERLAY = 1  # The combining class of what strikes its base through (UAX 44, table 15).

#: What in a shown text is ours: marks, and the masks of placet.core.masking.
_OURS = re.compile("⟦[^⟦⟧]*⟧|‹literal ‹›|‹[^‹›]*›")
_LITERAL = "‹literal ‹›"
_MASK_END = "›"
_TIMES = re.compile(r"^(?:⟦U\+[0-9A-F]+ ×|‹\D*)([0-9]+)")
_LONGEST_MARK = 200


def visible(text: str, *, keep_newlines: bool = False) -> str:
    """Show `text` so that all of it is seen, and differently from any other text.

    Control, bidi, zero-width, tag, private and unassigned characters, surrogates, variation
    selectors, blank letters, spaces and line ends other than the plain ones, strokes through
    letters and combining marks without a base or beyond `MAX_COMBINING` become marks such as
    `⟦U+202E⟧`, or `⟦U+200B ×3⟧` for a run of one. The line feed too, unless `keep_newlines`.
    """
    if text.isascii() and text.isprintable() and " " * (MAX_SPACES + 1) not in text:
        return text
    return "".join(_units(text, keep_newlines=keep_newlines))


def is_unmistakable(name: str) -> bool:
    """Say whether no letter or digit of a name could be taken for another one.

    Those of ASCII cannot, with or without a diacritic, nor can those of East Asia. Letters of
    other scripts look like those (Cyrillic `а`), and so do other forms of the same (`ﬁ`).
    """
    if name.isascii():
        return True
    return unicodedata.is_normalized("NFKC", name) and all(map(_is_unmistakable, name))


def _is_unmistakable(character: str) -> bool:
    if not character.isalnum() or unicodedata.normalize("NFD", character)[0].isascii():
        return True
    return unicodedata.name(character, "").startswith(_EAST_ASIAN)


class Fold(NamedTuple):
    """Beginning and end of a shown text, and of how many characters neither shows anything."""

    head: str
    tail: str
    left_out: int


def fold(shown: str, *, characters: int, lines: int) -> Fold | None:
    """Fold what `visible` gave: about half of `characters` and `lines` from each of its ends.

    None: it is not longer than that. No mark and no mask is cut, and the end begins with no
    combining character, which would combine with what stands before it.
    """
    if len(shown) <= characters and shown.count("\n") < lines:
        return None
    end = min(characters // 2, _line_end(shown, lines // 2))
    start = max(len(shown) - characters // 2, _line_start(shown, lines // 2))
    for found in _OURS.finditer(shown, max(0, end - _LONGEST_MARK)):
        if found.start() >= end:
            break
        end = found.start() if found.end() > end else end
    for found in _OURS.finditer(shown, max(0, start - _LONGEST_MARK)):
        if found.start() >= start:
            break
        start = max(start, found.end())
    while start < len(shown) and unicodedata.category(shown[start]) == "Mn":
        start += 1
    return Fold(shown[:end], shown[start:], length_of(shown[end:start]))


def length_of(shown: str) -> int:
    """Count the characters of the text itself that `shown` stands for, secrets too."""
    ours = sum(map(len, _OURS.findall(shown)))
    return len(shown) - ours + sum(map(_characters, _OURS.findall(shown)))


def stretches(shown: str) -> Iterator[tuple[bool, str]]:
    """Give what `visible` gave in order, in pieces: whether one is a mark or a mask, and itself."""
    at = 0
    for found in _OURS.finditer(shown):
        if found.start() > at:
            yield False, shown[at : found.start()]
        yield True, found[0]
        at = found.end()
    if at < len(shown):
        yield False, shown[at:]


def columns(shown: str) -> int:
    """Count the columns that a shown text takes at a terminal, rather too many than too few."""
    return len(shown) if shown.isascii() else sum(map(_width, shown))


def _line_end(shown: str, lines: int) -> int:
    """Give where the first lines of a text end."""
    at = -1
    for _ in range(lines):
        at = shown.find("\n", at + 1)
        if at < 0:
            return len(shown)
    return at


def _line_start(shown: str, lines: int) -> int:
    """Give where the last lines of a text begin."""
    at = len(shown)
    for _ in range(lines):
        at = shown.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _characters(mark: str) -> int:
    """Say for how many characters a mark or a mask stands."""
    if mark == _LITERAL:
        return 1
    counted = _TIMES.search(mark)
    return int(counted[1]) if counted else 1


def _width(character: str) -> int:
    """Count a character's columns; of what is neither plainly narrow nor wide, two."""
    if character.isascii():
        return 1
    category = unicodedata.category(character)
    if category == "Mn":
        return 0
    narrow = unicodedata.east_asian_width(character) in ("N", "Na", "H")
    return 1 if narrow and category[0] in "LNP" else 2


def _units(text: str, *, keep_newlines: bool) -> Iterator[str]:
    """Give the parts of `text` in order: single characters as they are, and runs as marks."""
    combining, at = MAX_COMBINING, 0  # Nothing stands before a text for a mark to combine with.
    while at < len(text):
        character = text[at]
        most = MAX_NEWLINES if character == "\n" and keep_newlines else 0
        if character == " " or most:
            hidden = _run_length(text, at) > (most or MAX_SPACES)
            combining = MAX_COMBINING
        elif _is_hidden(character):
            hidden = True
            combining = MAX_COMBINING
        elif not character.isascii() and unicodedata.category(character) == "Mn":
            hidden = combining >= MAX_COMBINING
            combining += 1
        else:
            hidden = False
            combining = MAX_COMBINING if character == _MASK_END else 0
        count = _run_length(text, at) if hidden else 1
        yield _mark(character, count) if hidden else character
        at += count


def _run_length(text: str, start: int) -> int:
    end = start + 1
    while end < len(text) and text[end] == text[start]:
        end += 1
    return end - start


def _mark(character: str, count: int) -> str:
    times = f" ×{count}" if count > 1 else ""
    return f"⟦U+{ord(character):04X}{times}⟧"


def _is_hidden(character: str) -> bool:
    """Say whether a character is shown by its number.

    Not printable are the categories Cc, Cf, Cs, Co, Cn, Zl, Zp, and Zs but for the plain space.
    """
    if character.isascii():
        return not character.isprintable()
    return (
        not character.isprintable()
        or character in _BLANKS
        or character in _BRACKETS
        or unicodedata.combining(character) == _OVERLAY
        or unicodedata.category(character) == "Me"
        or _SHAPELESS.match(character) is not None
    )
