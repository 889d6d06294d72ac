"""What a change of a file would be, as a unified diff for people: bounded, and says what it lacks.

Texts are split at line feeds alone, and nothing in a line is made visible here: that, and the
masking of secrets, is for the card (H2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

#: How many lines of a diff, and how many characters of a line, are shown.
MOST_LINES = 400
MOST_LINE_CHARACTERS = 1_000

#: Between more lines than this on a side, what both sides have in common is not searched for.
MOST_LINES_COMPARED = 2_000

#: How many lines that stay are shown around those that change.
CONTEXT_LINES = 3

_NO_NEWLINE = "\\ No newline at end of file"

#: Like difflib's: what becomes of the old lines `i1:i2` and the new ones `j1:j2`.
Change = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two sides of a diff, as lines."""

    old: Sequence[str]
    new: Sequence[str]


def unified(old: str | None, new: str, *, path: str) -> str:
    """Give the diff of a text, None where there is none yet, to another.

    `path` is shown as it is. The diff is empty where nothing changes.
    """
    if old == new:
        return ""
    sides = Sides(old=_lines(old or ""), new=_lines(new))
    shown = [f"--- {'/dev/null' if old is None else path}", f"+++ {path}"]
    more = 0
    for line in _hunks(sides):
        if len(shown) < MOST_LINES:
            shown.append(_bounded(line))
        else:
            more += 1
    if more:
        shown.append(f"… {more} more lines of the diff are left out.")
    return "\n".join(shown)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n{_NO_NEWLINE}"] if last else lines


def _bounded(line: str) -> str:
    text, separator, note = line.partition("\n")
    over = len(text) - MOST_LINE_CHARACTERS
    if over > 0:
        text = f"{text[:MOST_LINE_CHARACTERS]}… ({over} more characters of this line)"
    return f"{text}{separator}{note}"


def _hunks(sides: Sides) -> Iterator[str]:
    for group in _grouped(_changes(sides)):
        first, last = group[0], group[-1]
        old, new = _range(first[1], last[2]), _range(first[3], last[4])
        yield f"@@ -{old} +{new} @@"
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                yield from (f" {line}" for line in sides.old[i1:i2])
            else:
                yield from (f"-{line}" for line in sides.old[i1:i2])
                yield from (f"+{line}" for line in sides.new[j1:j2])


def _range(start: int, end: int) -> str:
    """Write a range of lines as unified diffs do: that of none names the line before it."""
    count = end - start
    return f"{start + 1 if count else start},{count}" if count != 1 else f"{start + 1}"


def _changes(sides: Sides) -> list[Change]:
    """Compare two texts, of which the same head and tail are taken off first."""
    old, new = sides.old, sides.new
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    tail = next((n for n in range(most - head) if old[-1 - n] != new[-1 - n]), most - head)
    i2, j2 = len(old) - tail, len(new) - tail
    changes: list[Change] = [("equal", 0, head, 0, head)]
    if max(i2, j2) - head > MOST_LINES_COMPARED:
        changes.append(("replace", head, i2, head, j2))
    else:
        compared = SequenceMatcher(None, old[head:i2], new[head:j2])
        for kind, *places in compared.get_opcodes():
            a1, a2, b1, b2 = (head + place for place in places)
            changes.append((kind, a1, a2, b1, b2))
    changes.append(("equal", i2, len(old), j2, len(new)))
    return changes


def _grouped(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Give the changes with what stays near them; what stays far from them is left out."""
    group: list[Change] = []
    for kind, i1, i2, j1, j2 in changes:
        if kind != "equal":
            group.append((kind, i1, i2, j1, j2))
            continue
        length = i2 - i1
        if group:
            kept = min(length, CONTEXT_LINES)
            if length <= 2 * CONTEXT_LINES:
                group.append((kind, i1, i2, j1, j2))
                continue
            yield [*group, (kind, i1, i1 + kept, j1, j1 + kept)]
        kept = min(length, CONTEXT_LINES)
        group = [(kind, i2 - kept, i2, j2 - kept, j2)]
    if any(change[0] != "equal" for change in group):
        last = group[-1]
        if last[0] == "equal" and last[2] - last[1] > CONTEXT_LINES:
            kept = CONTEXT_LINES
            group[-1] = ("equal", last[1], last[1] + kept, last[3], last[3] + kept)
        yield group
