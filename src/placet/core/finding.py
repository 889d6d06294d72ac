"""Finding many known texts in one, in one pass however many they are (Aho and Corasick, 1975).

The time is that of reading the known texts once and the text once: who chooses them, as a model
chooses arguments and its own claim, cannot make a card that takes minutes.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from urllib.parse import quote, quote_plus

#: Secret values of arguments that are shorter stay where other texts repeat them: "a" is no secret.
LEAST_REPEATED = 4

#: Of so many secrets, those that are no longer are known as JSON and URLs would write them, too.
MOST_ESCAPED = 200
LONGEST_ESCAPED = 256

#: Of so many words that end at one place it is looked whether one stands alone; of more the
#: longest is found, though it stands within a longer word.
MOST_TRIED = 32

_ROOT = 0
_CHARACTERS = 0x110000  # As many as there are: a node and a character are one number.


class Finder:
    """Finds words in texts, though not within a longer word or number."""

    def __init__(self, words: Iterable[str]) -> None:
        self._steps: dict[int, int] = {}
        self._length = [0]
        self._nodes = 1
        for word in words:
            self._add(word)
        self._link()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Give where words stand in `text`, in order; those that overlap are one span."""
        spans: list[tuple[int, int]] = []
        for start, end in self._found(text):
            while spans and start < spans[-1][1]:
                start = min(start, spans.pop()[0])
            spans.append((start, end))
        return iter(spans)

    def _add(self, word: str) -> None:
        node = _ROOT
        for character in word:
            step = node * _CHARACTERS + ord(character)
            node = self._steps.setdefault(step, self._nodes)
            if node == self._nodes:
                self._nodes += 1
                self._length.append(0)
        self._length[node] = len(word)

    def _link(self) -> None:
        """Link each node with the longest other that it ends with, and with such a word's end."""
        self._back = [_ROOT] * self._nodes
        self._word = [_ROOT] * self._nodes
        below: list[list[tuple[int, int]]] = [[] for _ in range(self._nodes)]
        for step, node in self._steps.items():
            below[step // _CHARACTERS].append((step % _CHARACTERS, node))
        waiting = deque([_ROOT])
        while waiting:
            node = waiting.popleft()
            for character, inner in below[node]:
                if node != _ROOT:
                    self._back[inner] = self._after(self._back[node], character)
                back = self._back[inner]
                self._word[inner] = back if self._length[back] else self._word[back]
                waiting.append(inner)

    def _after(self, node: int, character: int) -> int:
        steps, back = self._steps, self._back
        while True:
            found = steps.get(node * _CHARACTERS + character)
            if found is not None:
                return found
            if node == _ROOT:
                return _ROOT
            node = back[node]

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Give the longest word that ends at each place, where one does."""
        node = _ROOT
        for at, character in enumerate(text):
            node = self._after(node, ord(character))
            word = node if self._length[node] else self._word[node]
            if word == _ROOT or _goes_on(text, at + 1):
                continue
            longest = at + 1 - self._length[word]
            for _ in range(MOST_TRIED):
                start = at + 1 - self._length[word]
                if not _goes_on(text, start):
                    yield start, at + 1
                    break
                word = self._word[word]
                if word == _ROOT:
                    break
            else:
                yield longest, at + 1


_JOINED = re.compile(r"[A-Za-z0-9]{2}")


def _goes_on(text: str, at: int) -> bool:
    """Say whether a word or a number goes on from one side of a place to the other."""
    return at > 0 and _JOINED.match(text, at - 1) is not None


def is_joined(text: str, at: int) -> bool:
    """Say whether nothing known could end or begin there: a word or a number goes on."""
    return _goes_on(text, at)


class Known:
    """Secrets that are known wherever they are repeated, however many they are."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(filter(_is_telling, secrets))
        self._finder: Finder | None = None

    def and_more(self, secrets: Iterable[str]) -> Known:
        """Give these with others."""
        return Known((*self._secrets, *secrets))

    def together_with(self, other: Known) -> Known:
        """Give these with what others know."""
        return Known((*self._secrets, *other._secrets))

    @cached_property
    def longest(self) -> int:
        """Say how many characters a repeated secret can have; 0: none is known."""
        return max(map(len, self._forms()), default=0)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Give where a secret is repeated: as it is, escaped, or one of its lines alone."""
        if not self._secrets:
            return iter(())
        if self._finder is None:
            self._finder = Finder(filter(_is_telling, self._forms()))
        return self._finder.spans(text)

    def _forms(self) -> Iterator[str]:
        short = (each for each in sorted(self._secrets) if len(each) <= LONGEST_ESCAPED)
        for secret in islice(short, MOST_ESCAPED):
            yield json.dumps(secret)[1:-1]
            yield json.dumps(secret, ensure_ascii=False)[1:-1]
            yield quote(secret, safe="", errors="replace")
            yield quote_plus(secret, errors="replace")
        for secret in self._secrets:
            yield secret
            yield from (line.strip() for line in secret.splitlines())


def _is_telling(secret: str) -> bool:
    return len(secret) >= LEAST_REPEATED and not secret.isspace()


#: What is known of a text of which nothing is.
NOTHING_KNOWN = Known()
