"""In which line of a TOML text each key and each element stands: what the reader does not tell.

The text has been read as TOML before, so this only walks through it, and judges nothing.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

#: Where a value stands in what was read: names of keys, and numbers of elements.
Path = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MULTI = re.compile(
    r'"""(?:\\.|[^\\"]|"(?!""))*+"{3,5}' + r"|'''(?:[^']|'(?!''))*+'{3,5}", re.DOTALL
)
_ONE_LINE = re.compile(r'"(?:\\.|[^"\\\n])*+"' + r"|'[^'\n]*+'")
_SCALAR = re.compile(r"[^,\]}#\n]+")


def lines_of(text: str) -> Mapping[Path, int]:
    """Give the line, counted from 1, of every key and element of a well-formed TOML text."""
    walk = _Walk(text)
    walk.document()
    return walk.lines


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Give the line of a value, or of the nearest thing around it that has one."""
    for end in range(len(path), 0, -1):
        if (line := lines.get(path[:end])) is not None:
            return line
    return 1


class _Walk:
    """Goes through a text once, and notes where things begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.arrays: dict[Path, int] = {}
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table: Path = ()
        self.space()
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.entry(table)
            self.space()

    def header(self) -> Path:
        """Walk over `[a.b]` or `[[a.b]]`, and give the path of the table that begins."""
        repeated = self.text.startswith("[[", self.at)
        start = self.at
        self.at += 2 if repeated else 1
        names = self.key()
        self.at += 2 if repeated else 1
        path: Path = ()
        for place, name in enumerate(names):
            path = (*path, name)
            if repeated and place == len(names) - 1:
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path])
        self.note(path, start)
        return path

    def entry(self, table: Path) -> None:
        """Walk over `key = value`."""
        start = self.at
        path: Path = table
        for name in self.key():
            path = (*path, name)
            self.note(path, start)
        self.at = self.text.index("=", self.at) + 1
        self.value(path)

    def key(self) -> list[str]:
        """Walk over a key with its dots, and give its parts."""
        names = []
        while True:
            self.space()
            if quoted := _ONE_LINE.match(self.text, self.at):
                names.append(str(tomllib.loads(f"key = {quoted[0]}")["key"]))
                self.at = quoted.end()
            else:
                bare = _BARE.match(self.text, self.at)
                assert bare is not None, "the text was read as TOML"
                names.append(bare[0])
                self.at = bare.end()
            self.space()
            if not self.text.startswith(".", self.at):
                return names
            self.at += 1

    def value(self, path: Path) -> None:
        """Walk over a value, and note what stands in it."""
        self.space()
        self.note(path, self.at)
        if self.text.startswith("[", self.at):
            self.several(path, "]")
        elif self.text.startswith("{", self.at):
            self.several(path, "}")
        else:
            pattern = next(
                found
                for pattern in (_MULTI, _ONE_LINE, _SCALAR)
                if (found := pattern.match(self.text, self.at))
            )
            self.at = pattern.end()

    def several(self, path: Path, end: str) -> None:
        """Walk over an array or an inline table."""
        self.at += 1
        place = 0
        self.space()
        while not self.text.startswith(end, self.at):
            if end == "}":
                self.entry(path)
            else:
                self.value((*path, place))
            place += 1
            self.space()
            if self.text.startswith(",", self.at):
                self.at += 1
                self.space()
        self.at += 1

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None, "it matches the empty text"
        self.at = found.end()

    def note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect_right(self._ends, at - 1) + 1)
