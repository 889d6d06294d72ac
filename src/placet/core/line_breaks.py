"""Where a line that is wider than its surface is broken: between words, and never without a mark.

Breaks stand after spaces and between East Asian letters. What is copied as one stays whole where a
line of its own has room for it: a word, an id, a command in back quotes, a mark, a mask. What has
no room even there is broken at the width, so that no text, however long, is wider than its surface:
what broke it there could begin a line with whatever somebody else wrote (H2).

No character is taken out: lines that are put together again are the line that was broken.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

from placet.core.display import columns

#: A command in back quotes, a mark or a mask: what has spaces in it, and is read as one.
_ONE = re.compile(r"(?<![!-'*-~])`(?=[^\s`])[^`]*`|⟦[^⟦⟧]*⟧|‹[^‹›]*›")


def breaks_of(line: str, *, width: int, width_after: int) -> list[int]:
    """Give the places in a line before which it is broken; none: it fits into `width` columns.

    `width_after` are the columns that the second and each later part has.
    """
    ends = [0, *accumulate(map(columns, line))]
    if ends[-1] <= width:
        return []
    may = _permitted(line, ends, width_after)
    breaks: list[int] = []
    start, last, room = 0, 0, width
    for at in range(len(line)):
        while ends[at + 1] - ends[start] > room:
            start = _best(line, ends, may, start=start, last=last, at=at, room=width_after)
            breaks.append(start)
            room = width_after
        if may[at + 1]:
            last = at + 1
    return breaks


def _best(
    line: str, ends: list[int], may: list[int], *, start: int, last: int, at: int, room: int
) -> int:
    """Choose the place of a break: the last permitted one, if what follows has room behind it."""
    if last <= start or not line[start:last].strip():
        return at
    end = may[last]
    return last if _columns_of(line, ends, last, end) <= room else at


def _columns_of(line: str, ends: list[int], start: int, end: int) -> int:
    """Count the columns of a piece without the space that it ends with."""
    return ends[end] - ends[start] - line[start:end].endswith(" ")


def _permitted(line: str, ends: list[int], room: int) -> list[int]:
    """Say of each place where the next permitted break after it is; 0: none is permitted there."""
    places = [0, *(at for at in range(1, len(line)) if _parts(line[at - 1], line[at])), len(line)]
    kept: list[int] = []
    taken = 0
    for found in _ONE.finditer(line):
        first = bisect_right(places, found.start()) - 1
        end = bisect_left(places, found.end())
        if _columns_of(line, ends, places[first], places[end]) <= room:
            kept += places[taken : first + 1]
            taken = max(taken, end)
    may = [0] * (len(line) + 1)
    for at, end in pairwise([*kept, *places[taken:]]):
        may[at] = end
    return may


def _parts(before: str, after: str) -> bool:
    """Say whether a line may be broken between two characters."""
    if before == " ":
        return True
    if before.isascii() and after.isascii():
        return False
    if unicodedata.category(before) in ("Ps", "Pi"):
        return False
    opening = unicodedata.category(after) in ("Mn", "Pe", "Pf", "Po")
    return not opening and (_is_east_asian(before) or _is_east_asian(after)) and after != " "


def _is_east_asian(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F")
