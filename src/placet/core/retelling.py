"""Telling what placet itself wrote into the record in the language of whoever reads it.

The record is in English. A text of it is known again where it is one of placet's own sentences,
from its first character to its last, and is then said in the other language; every other text is
told as it was written. What varies in a sentence is put in its place as it stands, but for a cause
within it, and the names of what has changed. Masks come before, and `visible` after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from placet.core.card_words import WORDS, Language, said
from placet.core.record_words import FAMILY

_PLACE = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")

#: How deep sentences are told within each other; placet's own are no deeper.
MOST_WITHIN = 4

#: Places for numbers, and those for one name, in which no sentence of somebody else's stands.
_NUMBERS = frozenset({"attempts", "count", "most", "quorum", "seconds", "times", "waiting"})
_NAMES = frozenset({"agent", "by", "mode", "rule", "stop", "tool"})


def is_own(text: str) -> bool:
    """Say whether a text is a sentence of placet's own."""
    return next(_readings(text), None) is not None


def retold(language: Language, text: str, *, within: int = 0) -> str:
    """Give a text that may be a sentence of placet's own, in a language.

    `within` counts the sentences that it is the cause in: somebody else's text may say any number.
    """
    if language == "en" or within >= MOST_WITHIN:  # As it stands in the record.
        return text
    found = next(_readings(text), None)
    if found is None:
        return text
    key, places = found
    there = {name: _in_place(language, name, places[name], within) for name in places}
    return said(language, key, **there)


def retold_end(language: Language, text: str) -> str:
    """Give what a model was told of a call's end, in a language.

    Around what a tool or a person said stands a line of placet's before it, and lines after it.
    """
    if language == "en":
        return text
    lines = text.split("\n")
    last, opens = len(lines) - 1, True
    for at, line in enumerate(lines):
        if opens or at == last or line in _fixed():
            lines[at] = retold(language, line)
        # After what was edited stands how the call ended.
        opens = opens and _is_of_an_edit(line)
    return "\n".join(lines)


def _in_place(language: Language, name: str, value: str, within: int) -> str:
    if name == "cause":
        return retold(language, value, within=within + 1)
    if name == "changed":
        words = WORDS[language]
        return said(language, "list").join(
            words.get(f"changed.{each}", each) for each in value.split(", ")
        )
    return value


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence, as the stretches of its text before, between and after its places."""

    key: str
    stretches: tuple[str, ...]
    places: tuple[str, ...]

    def read(self, text: str) -> dict[str, str] | None:
        """Give what stands in the places of a text; None: it is not this sentence.

        Each stretch is looked for once, from where the one before it ended.
        """
        first, *between = self.stretches
        if not between:
            return {} if text == first else None
        last, end = between.pop(), len(text)
        if not text.startswith(first) or not text.endswith(last):
            return None
        at, end = len(first), end - len(last)
        values = []
        for stretch in between:
            found = text.find(stretch, at, end)
            if found < 0:
                return None
            values.append(text[at:found])
            at = found + len(stretch)
        values.append(text[at:end])
        places = dict(zip(self.places, values, strict=True))
        return places if all(_fits(name, value) for name, value in places.items()) else None


def _fits(name: str, value: str) -> bool:
    if name in _NUMBERS:
        return _NUMBER.fullmatch(value) is not None
    return bool(value) and not (name in _NAMES and (": " in value or "\n" in value))


@cache
def _sentences() -> tuple[_Sentence, ...]:
    """Give the sentences that have places, those that say the most themselves first."""
    found = []
    for key, words in WORDS["en"].items():
        if key.startswith(FAMILY) and "{" in words:
            stretches = tuple(_PLACE.split(words)[::2])
            found.append(_Sentence(key, stretches, tuple(_PLACE.findall(words))))
    return tuple(sorted(found, key=lambda each: -sum(map(len, each.stretches))))


@cache
def _fixed() -> dict[str, str]:
    """Give the sentences without places, and the name of each."""
    return {w: key for key, w in WORDS["en"].items() if key.startswith(FAMILY) and "{" not in w}


def _readings(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    if (key := _fixed().get(text)) is not None:
        yield key, {}
    for sentence in _sentences():
        places = sentence.read(text)
        if places is not None:
            yield sentence.key, places


def _is_of_an_edit(line: str) -> bool:
    return any(key == f"{FAMILY}edited" for key, _ in _readings(line))
