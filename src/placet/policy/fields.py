"""Reading the values of a policy file one by one: each of one type, each fault with its line.

A value that is not as it must be is a fault, and something harmless takes its place, so that all
that is wrong with a file is told at once. What is put together from it is never used.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from placet.policy.faults import Fault
from placet.policy.lines import Path, line_of
from placet.policy.operators import number
from placet.policy.rules import Scalar

T = TypeVar("T")
L = TypeVar("L", bound=str)

#: The longest name of a rule, a person, a surface and so on, in characters.
MAX_NAME = 200

#: How many digits a number may have before its point, or zeros after it.
MAX_DIGITS = 60

#: The longest deadline and the longest wait before more people are asked.
LONGEST = timedelta(days=366)

_DURATION = re.compile(r"([0-9]{1,8})(s|m|h|d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

Table = Mapping[str, Any]


class Fields:
    """Takes values out of tables, and notes what is wrong."""

    def __init__(self, lines: Mapping[Path, int], *, kind: str = "a policy file") -> None:
        self._lines = lines
        self._kind = kind
        self._faulty: set[Path] = set()
        self.faults: list[Fault] = []

    def fault(self, path: Path, message: str) -> None:
        """Note that something is wrong there, unless that is what follows from another fault."""
        if any(path[:end] in self._faulty for end in range(1, len(path) + 1)):
            return
        self._faulty.add(path)
        self.faults.append(Fault(line=self.line(path), message=message))

    def line(self, path: Path) -> int:
        """Give the line in which something begins."""
        return line_of(self._lines, path)

    # --- tables -------------------------------------------------------------------------------

    def table(self, value: object, path: Path, known: Collection[str]) -> Table:
        """Take a table that has no other keys than those that are known."""
        if not isinstance(value, dict):
            self.fault(path, f"{_called(path)} must be a table.")
            return {}
        for key in value:
            if key not in known:
                where = _called(path) if path else self._kind
                self.fault((*path, key), f"There is no key {key!r} in {where}.{_like(key, known)}")
        return value

    def tables(self, table: Table, path: Path, key: str) -> list[tuple[object, Path]]:
        """Take a list of tables, each with its path."""
        found = table.get(key, [])
        if not isinstance(found, list):
            self.fault((*path, key), f"{key} must be a list of tables.")
            return []
        return [(each, (*path, key, place)) for place, each in enumerate(found)]

    # --- single values ------------------------------------------------------------------------

    def text(self, table: Table, path: Path, key: str) -> str:
        """Take a text; it is empty where there is none."""
        value = table.get(key, "")
        if not isinstance(value, str):
            self.fault((*path, key), f"{key} must be a text.")
            return ""
        return value

    def name(self, value: object, path: Path, what: str, *, most: int = MAX_NAME) -> str:
        """Take a name that people can read."""
        if not isinstance(value, str):
            self.fault(path, f"{what} must be a text.")
            return ""
        if not value or value != value.strip() or not value.isprintable() or len(value) > most:
            self.fault(path, f"{what} must be a name of 1 to {most} characters that can be read.")
        return value

    def names(self, table: Table, path: Path, key: str) -> tuple[str, ...]:
        """Take a list of names, each once and at least one; () where there is none."""
        if key not in table:
            return ()
        value, path = table[key], (*path, key)
        if not isinstance(value, list):
            self.fault(path, f"{key} must be a list of names.")
            return ()
        if not value:
            self.fault(path, f"{key} names nothing. Leave it out, or name something.")
        found = [self.name(each, (*path, i), key) for i, each in enumerate(value)]
        for place, each in enumerate(found):
            if each in found[:place]:
                self.fault((*path, place), f"{key} names {each!r} twice.")
        return tuple(found)

    def flag(self, table: Table, path: Path, key: str) -> bool | None:
        """Take true or false; None where there is none."""
        value = table.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.fault((*path, key), f"{key} must be true or false.")
        return None

    def word(
        self, table: Table, path: Path, key: str, words: Collection[L], *, must: bool = False
    ) -> L | None:
        """Take one of several words; None where there is none."""
        value = table.get(key)
        if value is None and not must:
            return None
        for word in words:
            if value == word:
                return word
        self.fault((*path, key), f"{key} must be one of {', '.join(words)}.{_like(value, words)}")
        return None

    def whole(self, table: Table, path: Path, key: str, *, most: int) -> int | None:
        """Take a whole number from 1 on; None where there is none."""
        value = table.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.fault((*path, key), f"{key} must be a whole number from 1 to {most}.")
            return None
        return value

    def duration(self, table: Table, path: Path, key: str) -> timedelta | None:
        """Take a time such as `90s`, `10m`, `24h` or `2d`; None where there is none."""
        value = table.get(key)
        if value is None:
            return None
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        lasts = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta()
        if not timedelta() < lasts <= LONGEST:
            self.fault(
                (*path, key),
                f"{key} must be a time such as 90s, 10m, 24h or 2d, and at most"
                f" {LONGEST.days} days.",
            )
            return None
        return lasts

    def instant(self, table: Table, path: Path, key: str) -> datetime | None:
        """Take an instant with its offset from UTC."""
        value = table.get(key)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value
        self.fault(
            (*path, key), f"{key} must be an instant with its offset, as 2027-01-01T00:00:00Z."
        )
        return None

    def exact(self, table: Table, path: Path, key: str) -> Decimal | None:
        """Take a number, or a text that is one."""
        value = table.get(key)
        plain = isinstance(value, (str, int, Decimal)) and not isinstance(value, bool)
        exact = number(self.scalar(value, (*path, key), key)) if plain else None
        if exact is None:
            self.fault((*path, key), f"{key} must be a number.")
        return exact

    def scalar(self, value: object, path: Path, what: str) -> Scalar:
        """Take a text, a number, or true or false."""
        if isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, Decimal)):
            exact = Decimal(value)
            if exact.is_finite() and abs(exact.adjusted()) <= MAX_DIGITS:
                return exact
        self.fault(path, f"{what} must be a text, a number, or true or false.")
        return ""

    def only(self, path: Path, table: Table, keys: Collection[str], because: str) -> None:
        """Note keys that have no meaning where they stand."""
        for key in keys:
            if key in table:
                self.fault((*path, key), f"{key} {because}")

    def filled(self, table: Table, path: Path, keys: Collection[str]) -> None:
        """Note lists with nothing in them: they say nothing, and look as if they did."""
        for key in keys:
            if table.get(key) == []:
                self.fault((*path, key), f"{key} holds nothing. Leave it out, or say something.")

    def kept(self, path: Path, make: Callable[[], T], errors: type[Exception]) -> T | None:
        """Make something that holds its own parts against what they must be."""
        try:
            return make()
        except errors as error:
            message = getattr(error, "message", str(error))
            self.fault(path, f"{message[:1].upper()}{message[1:].rstrip('.')}.")
            return None


def _called(path: Path) -> str:
    names = [str(part) for part in path if isinstance(part, str)]
    return names[-1] if names else "The file"


def _like(value: object, known: Collection[str]) -> str:
    like = difflib.get_close_matches(value, known, n=1) if isinstance(value, str) else []
    return f" Did you mean {like[0]!r}?" if like else ""
