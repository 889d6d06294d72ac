"""Finding a passage in a text and putting another in its place: pure, and never a guess.

A passage is found as it stands, else with any line ends, else line by line with other blanks at
the ends of lines, else with another indentation. The last two only where they mean one place, and
where the new lines' indentation follows from that of the old ones. What is not replaced stays as
it was, to the byte; the new lines get the line ends that the text has there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Literal

#: How the passage was found.
Found = Literal["exact", "line ends", "trailing blanks", "indentation"]

#: More places than this are not replaced at once.
MOST_PLACES = 100_000

#: How many lines are compared to find the nearest one, and how much of each.
MOST_LINES_COMPARED = 20_000
MOST_CHARACTERS_COMPARED = 200

#: How many lines are shown of what is nearest, and how alike the nearest must be to be shown.
MOST_LINES_SHOWN = 12
LEAST_LIKENESS = 0.5

_MOST_PLACES_NAMED = 10
_MOST_PLACES_COUNTED = 100
_MOST_SPACES_A_TAB = 8
_MOST_LEVELS = 20
_INDENT = re.compile(r"[ \t]*")


class Unmatched(Exception):
    """The edit cannot be made; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A text after an edit: the lines (from 1, of the old text) where it was changed, and how."""

    text: str
    lines: tuple[int, ...]
    found: Found


def edited(text: str, *, old: str, new: str, replace_all: bool = False) -> Edited:
    """Give `text` with `new` in place of `old`; raises Unmatched.

    `old` must mean one place, or with `replace_all` at least one, and then exactly.
    """
    if not old:
        raise Unmatched("`old` is empty. Give the text to replace, or use write for a whole file.")
    if old == new:
        raise Unmatched("`old` and `new` are the same. Nothing would change.")
    lined = _Lined(text)
    found, spans = _spans(lined, old, new, replace_all=replace_all)
    parts: list[str] = []
    done = 0
    for span in spans:
        parts += (text[done : span.start], span.new)
        done = span.end
    result = "".join((*parts, text[done:]))
    if result == text:
        raise Unmatched(
            "`old` and `new` differ in line ends or blanks alone. Nothing would change."
        )
    lines = tuple(dict.fromkeys(lined.line_at(span.start) for span in spans))
    return Edited(text=result, lines=lines, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """What is replaced: from `start` up to `end` of the text, by `new`."""

    start: int
    end: int
    new: str


class _Lined:
    """A text, the same with plain line ends, and how places of the one are found in the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = _with_plain_ends(text)
        self.lines = self.plain.split("\n")
        self._dropped = [m.start() - n for n, m in enumerate(re.finditer("\r\n", text))]
        self._ends = [m.start() for m in re.finditer("\n", text)]

    def original(self, place: int) -> int:
        """Give a place of the plain text in the text itself; a CRLF is one line end."""
        return place + bisect_left(self._dropped, place)

    def line_at(self, place: int) -> int:
        """Give the number, from 1, of the line that a place is in."""
        return bisect_left(self._ends, place) + 1

    def end_at(self, place: int) -> str:
        """Give how the line at a place ends, or the one before the last; nothing for one line."""
        if not self._ends:
            return ""
        end = self._ends[min(bisect_left(self._ends, place), len(self._ends) - 1)]
        return "\r\n" if self._splits(end) else "\n"

    def exact(self, old: str, *, apart: bool) -> Iterator[tuple[int, int]]:
        """Give the places of `old` that do not begin or end within a CRLF.

        Not `apart`, they may overlap: each could be the one that is meant.
        """
        for start, end in _occurrences(self.text, old, len(old) if apart else 1):
            if not self._splits(start) and not self._splits(end):
                yield start, end

    def with_any_ends(self, old: str, *, apart: bool) -> Iterator[tuple[int, int]]:
        """Give the places of `old`, whatever the line ends."""
        sought = _with_plain_ends(old)
        for start, end in _occurrences(self.plain, sought, len(sought) if apart else 1):
            yield self.original(start), self.original(end)

    def whole_lines(self, first: int, count: int) -> tuple[int, int]:
        """Give where `count` lines begin and end in the plain text, without the last one's end."""
        start = sum(len(line) + 1 for line in self.lines[:first])
        return start, start + sum(len(line) + 1 for line in self.lines[first : first + count]) - 1

    def _splits(self, place: int) -> bool:
        return 0 < place < len(self.text) and self.text[place - 1 : place + 1] == "\r\n"


def _with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_ends(new: str, end: str) -> str:
    """Give `new` with the line end `end`; as it is where the text has none to follow."""
    return _with_plain_ends(new).replace("\n", end) if end else new


def _occurrences(text: str, old: str, step: int) -> Iterator[tuple[int, int]]:
    """Give every place of `old`, each looked for `step` characters after the one before it."""
    at = text.find(old)
    while at >= 0:
        yield at, at + len(old)
        at = text.find(old, at + step)


def _spans(
    lined: _Lined, old: str, new: str, *, replace_all: bool
) -> tuple[Found, Sequence[_Span]]:
    """Find what to replace, by the strictest way that finds anything."""
    most = MOST_PLACES if replace_all else _MOST_PLACES_COUNTED
    ways: tuple[tuple[Found, Iterator[tuple[int, int]]], ...] = (
        ("exact", lined.exact(old, apart=replace_all)),
        ("line ends", lined.with_any_ends(old, apart=replace_all)),
    )
    for how, places in ways:
        found = list(islice(places, most + 1))
        if len(found) > 1 and not replace_all:
            where = _named(lined, [start for start, _ in found])
            raise Unmatched(
                f"`old` was found {where}. Give more of the lines around the one that is meant,"
                " or replace_all=true for all of them."
            )
        if len(found) > most:
            raise Unmatched(f"`old` was found more than {most} times. Give a longer text.")
        if found:
            return how, [
                _Span(start=start, end=end, new=_with_ends(new, lined.end_at(start)))
                for start, end in found
            ]
    return _tolerant_span(lined, old, _with_plain_ends(new))


def _named(lined: _Lined, starts: Sequence[int]) -> str:
    """Say how often something was found, and where."""
    lines = list(dict.fromkeys(lined.line_at(start) for start in starts))
    named = ", ".join(map(str, lines[:_MOST_PLACES_NAMED]))
    more = ", …" if len(lines) > _MOST_PLACES_NAMED else ""
    counted = len(starts)
    most = _MOST_PLACES_COUNTED
    times = f"more than {most}" if counted > most else f"{counted}"
    return f"{times} times (line{'s' if len(lines) > 1 else ''} {named}{more})"


# --- other blanks ---------------------------------------------------------------------------------


def _tolerant_span(lined: _Lined, old: str, new: str) -> tuple[Found, Sequence[_Span]]:
    """Find `old` as whole lines with other blanks, in one place; raises Unmatched."""
    wanted = _with_plain_ends(old).split("\n")
    ends_line = len(wanted) > 1 and wanted[-1] == ""
    wanted = wanted[:-1] if ends_line else wanted
    ways: tuple[tuple[Found, Callable[[str], str]], ...] = (
        ("trailing blanks", str.rstrip),
        ("indentation", str.strip),
    )
    for how, stripped in ways:
        windows = list(islice(_windows(lined.lines, wanted, stripped), _MOST_PLACES_COUNTED + 1))
        if len(windows) > 1:
            where = _named(lined, [lined.original(lined.whole_lines(w, 1)[0]) for w in windows])
            raise Unmatched(
                f"`old` was not found as it is, but with other {how} it was, {where}."
                " Give it as it stands in the file, with more of the lines around it."
            )
        for first in windows:
            start, end = lined.whole_lines(first, len(wanted))
            if how == "indentation":
                new = _reindented(new, wanted, lined.lines[first : first + len(wanted)], first + 1)
            if ends_line and end < len(lined.plain):
                end += 1
            elif ends_line:  # The text's last line has no end, and gets none.
                new = new.removesuffix("\n")
            at = lined.original(start)
            ended = _with_ends(new, lined.end_at(at))
            return how, [_Span(start=at, end=lined.original(end), new=ended)]
    raise Unmatched(_not_found(lined, wanted))


def _windows(
    lines: Sequence[str], wanted: Sequence[str], stripped: Callable[[str], str]
) -> Iterator[int]:
    """Give where lines like those wanted begin; lines of blanks alone are like nothing."""
    sought = [stripped(line) for line in wanted]
    if not any(sought):
        return
    here = "".join(f"\n{stripped(line)}" for line in lines) + "\n"
    ends = [m.start() for m in re.finditer("\n", here)]
    for start, _ in _occurrences(here, "\n" + "\n".join(sought) + "\n", 1):
        yield bisect_left(ends, start)


def _reindented(new: str, wanted: Sequence[str], there: Sequence[str], line: int) -> str:
    """Indent the new lines as the old ones are found to be; raises Unmatched."""
    pairs: dict[str, str] = {}
    clear = True
    for old, found in zip(wanted, there, strict=True):
        if old.strip():
            clear &= pairs.setdefault(_indent(old), _indent(found)) == _indent(found)
    lines: list[str] = []
    for each in new.split("\n"):
        indent = _indent(each)
        carried = _carried_over(indent, pairs) if each.strip() else indent
        clear &= carried is not None
        lines.append(f"{carried}{each[len(indent) :]}" if each.strip() else "")
    if not clear:
        raise Unmatched(
            f"`old` was found at line {line} with another indentation, and it is not clear how"
            " `new` is to be indented. Give `old` as it stands in the file."
        )
    return "\n".join(lines)


def _indent(line: str) -> str:
    found = _INDENT.match(line)
    return "" if found is None else found[0]


def _carried_over(indent: str, pairs: dict[str, str]) -> str | None:
    """Give the indentation that stands for `indent`: known, by levels, or shifted as all are."""
    if indent in pairs:
        return pairs[indent]
    known = dict(pairs)
    (old, there), *others = pairs.items()
    if not others and _is_a_tab_for_spaces(old, there):
        known[""] = ""
    carried = _by_levels(indent, known)
    if carried is None:
        carried = _shifted(indent, pairs)
    # Tabs among spaces, or the other way, stand only where the old lines have them so.
    return None if carried is not None and len(set(carried)) > 1 else carried


def _is_a_tab_for_spaces(one: str, other: str) -> bool:
    """Say whether one is a single tab and the other a few spaces: then that is one level."""
    tab, spaces = (one, other) if one == "\t" else (other, one)
    return tab == "\t" and set(spaces) == {" "} and len(spaces) <= _MOST_SPACES_A_TAB


def _by_levels(indent: str, known: dict[str, str]) -> str | None:
    """Find two indentations that are a level apart here as there, and count in levels from one."""
    if len(known) > _MOST_LEVELS:
        return None
    for lower, upper in ((a, b) for a in known for b in known if b.startswith(a) and a != b):
        level, there = upper[len(lower) :], known[upper].removeprefix(known[lower])
        if not there or not known[upper].startswith(known[lower]):
            continue
        for base in sorted(known, key=len, reverse=True):
            more = indent.removeprefix(base)
            count = len(more) // len(level)
            if indent.startswith(base) and more == level * count:
                return known[base] + there * count
            less = base.removeprefix(indent)
            count = len(less) // len(level)
            if base.startswith(indent) and less == level * count:
                return (
                    known[base].removesuffix(there * count)
                    if known[base].endswith(there * count)
                    else None
                )
    return None


def _shifted(indent: str, pairs: dict[str, str]) -> str | None:
    """Give the indentation with what all the old lines lack, or without what all have too much."""
    added = {b[: len(b) - len(a)] if b.endswith(a) else None for a, b in pairs.items()}
    if len(added) == 1 and (more := added.pop()) is not None:
        return more + indent
    taken = {a[: len(a) - len(b)] if a.endswith(b) else None for a, b in pairs.items()}
    if len(taken) == 1 and (less := taken.pop()) is not None and indent.startswith(less):
        return indent[len(less) :]
    return None


# --- what is nearest ------------------------------------------------------------------------------


def _not_found(lined: _Lined, wanted: Sequence[str]) -> str:
    """Say that nothing like it is there, and show the lines that are most like it."""
    told = "`old` was not found in the file."
    nearest = _nearest(lined.lines, wanted)
    if nearest is None:
        return f"{told} No line is like it. Read the file again."
    shown = lined.lines[nearest : nearest + min(len(wanted), MOST_LINES_SHOWN)]
    lines = "\n".join(
        f"{number}\t{line[:MOST_CHARACTERS_COMPARED]}"
        for number, line in enumerate(shown, start=nearest + 1)
    )
    return f"{told} The nearest lines are:\n{lines}\nGive `old` as it stands in the file."


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Give where the lines begin among which is the one most like the longest of those wanted."""
    anchor = max(range(len(wanted)), key=lambda at: len(wanted[at].strip()))
    sought = wanted[anchor].strip()[:MOST_CHARACTERS_COMPARED]
    best, likeness = None, LEAST_LIKENESS
    compared = SequenceMatcher(autojunk=False)
    compared.set_seq2(sought)
    for number, line in enumerate(lines[:MOST_LINES_COMPARED]):
        compared.set_seq1(line.strip()[:MOST_CHARACTERS_COMPARED])
        if min(compared.real_quick_ratio(), compared.quick_ratio()) <= likeness:
            continue
        ratio = compared.ratio()
        if ratio > likeness:
            best, likeness = number, ratio
    return None if best is None else max(0, best - anchor)
