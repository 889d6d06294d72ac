"""Cards on the surfaces that people read: plain text, a terminal, Markdown and HTML (H1, H2).

Each is a pure function of a card. What anybody but placet wrote is inert on it: it makes no link,
no mention, no markup, no line that could be taken for one of placet's, and moves no cursor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape
from itertools import groupby
from operator import itemgetter

from placet.core.card import Card
from placet.core.card_parts import LIMITS, Layout, Limits, Part, Piece, Row, Text, Words, layout_of
from placet.core.display import columns
from placet.core.line_breaks import breaks_of

#: The columns of a terminal whose width nobody knows, and the fewest that a card is laid out for.
WIDTH = 80
LEAST_WIDTH = 40

_TITLE_COLUMNS = 11
_ROW = "    "
_BLOCK = "    | "
_CONTINUED = "      ⋮ "

#: How a terminal sets titles, the heading, and placet's own marks apart.
_DIM, _BOLD, _YELLOW, _END = "\x1b[2m", "\x1b[1m", "\x1b[33m", "\x1b[0m"

_SEQUENCE = re.compile(r"(\x1b\[\d+m)")
_BACKTICKS = re.compile("`+")
_LEAST_FENCE = 3

#: A stretch of a line, and the sequence that sets it apart, if any does.
_Stretch = tuple[str, str]


def plain(card: Card, *, width: int | None = None, limits: Limits | None = LIMITS) -> str:
    """Lay a card out as plain text: a fact a line, and each line of a text behind a `|`.

    With a `width` lines are broken as for a terminal. What is read where lines are broken to fit
    needs one: what breaks them there knows nothing of whose they are.
    """
    laid = _unset(_lines(layout_of(card, limits=limits)))
    return laid if width is None else within(laid, width)


def plain_rows(rows: Iterable[Row]) -> str:
    """Lay rows out as plain text, as they stand in a card."""
    return _unset(line for row in rows for line in _row(_ROW, row))


def terminal(
    card: Card, *, width: int = WIDTH, colour: bool = False, limits: Limits | None = LIMITS
) -> str:
    """Lay a card out for a terminal of `width` columns.

    Lines are broken here, and each begins as one of placet's does: a text that the terminal broke
    could begin a line with whatever it likes.
    """
    laid = _lines(layout_of(card, limits=limits))
    broken = (part for line in laid for part in _broken(line, max(width, LEAST_WIDTH)))
    if not colour:
        return _unset(broken)
    return "\n".join("".join(map(_set, _alike(line))) for line in broken)


def within(laid: str, width: int) -> str:
    """Break the lines of what is laid out already, as `terminal` breaks those of a card.

    Sequences that set something apart take no columns; nobody else's text can hold one.
    """
    return "\n".join(_within(line, max(width, LEAST_WIDTH)) for line in laid.split("\n"))


def markdown(card: Card, *, limits: Limits | None = LIMITS) -> str:
    """Lay a card out as CommonMark: all that is not placet's own stands in code."""
    laid = layout_of(card, limits=limits)
    lines = [f"**{_inline(laid.heading.pieces)}**", ""]
    for part in laid.parts:
        first, *others = part.rows
        lines.append(f"- **{part.title}**: {_inline(first.pieces)}".rstrip())
        lines += _fenced(first.block, indent="  ")
        for row in others:
            lines.append(f"  - {_inline(row.pieces)}")
            lines += _fenced(row.block, indent="    ")
    return "\n".join(lines) + "\n"


def html(card: Card, *, limits: Limits | None = LIMITS) -> str:
    """Lay a card out as a `section` of HTML with classes, and no other attribute but its `lang`.

    Each text is isolated (`bdi`), so that a right-to-left one moves nothing beside it. The page
    sets `white-space: pre-wrap` for `.placet-text`, or runs of spaces are shown as one.
    """
    laid = layout_of(card, limits=limits)
    parts = "".join(map(_html_part, laid.parts))
    return (
        f'<section class="placet-card placet-{card.kind} placet-{card.status}"'
        f' lang="{laid.language}">\n'
        f'<h2 class="placet-heading">{_html_pieces(laid.heading.pieces)}</h2>\n'
        f'<dl class="placet-parts">\n{parts}</dl>\n</section>\n'
    )


# --- lines ------------------------------------------------------------------------------------


def _lines(laid: Layout) -> Iterator[list[_Stretch]]:
    yield [(_BOLD, text) for _, text in _stretches(laid.heading.pieces)]
    for part in laid.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[list[_Stretch]]:
    padding = " " * max(1, _TITLE_COLUMNS + 1 - columns(part.title))
    first, *others = part.rows
    head, *block = _row("", first)
    yield [(_DIM, f"  {part.title}{padding}"), *head]
    yield from block
    for row in others:
        yield from _row(_ROW, row)


def _row(before: str, row: Row) -> Iterator[list[_Stretch]]:
    yield [("", before), *_stretches(row.pieces)]
    if row.block is not None:
        for line in row.block.lines:
            yield [(_DIM, _BLOCK), *_stretches((line,))]


def _stretches(pieces: tuple[Piece, ...]) -> Iterator[_Stretch]:
    for piece in pieces:
        if isinstance(piece, Words):
            yield "", piece.said
        else:
            yield from _marked(piece)


def _marked(text: Text) -> list[_Stretch]:
    """Give a text as it is shown, with its marks and masks set apart; nothing of it is escaped.

    On plain lines and at a terminal there is no markup, and what moves a cursor is a mark already.
    """
    found: list[_Stretch] = []

    def take(style: str) -> Callable[[str], str]:
        def taken(part: str) -> str:
            found.append((style, part))
            return ""

        return taken

    text.through(take(""), ours=take(_YELLOW))
    return found


def _unset(lines: Iterable[list[_Stretch]]) -> str:
    return "\n".join("".join(text for _, text in line) for line in lines)


def _set(stretch: _Stretch) -> str:
    style, text = stretch
    return f"{style}{text}{_END}" if style and text else text


def _alike(line: Iterable[_Stretch]) -> Iterator[_Stretch]:
    """Put together what is set apart alike."""
    for style, stretches in groupby(line, key=itemgetter(0)):
        yield style, "".join(text for _, text in stretches)


def _broken(line: list[_Stretch], width: int) -> Iterator[list[_Stretch]]:
    """Break a line that is wider than the terminal; what goes on says so."""
    broken: list[_Stretch] = []
    breaks = iter(_breaks("".join(text for _, text in line), width))
    at, end = 0, next(breaks, None)
    for style, text in line:
        rest = text
        while end is not None and end < at + len(rest):
            taken = end - at
            yield [*broken, (style, rest[:taken])]
            broken, rest, at = [(_DIM, _CONTINUED)], rest[taken:], end
            end = next(breaks, None)
        broken.append((style, rest))
        at += len(rest)
    yield broken


def _breaks(line: str, width: int) -> list[int]:
    return breaks_of(line, width=width, width_after=width - columns(_CONTINUED))


def _within(line: str, width: int) -> str:
    """Break one line, in which there may be sequences that set something apart."""
    parts = _SEQUENCE.split(line)
    breaks = set(_breaks("".join(parts[::2]), width))
    if not breaks:
        return line
    broken: list[str] = []
    at = 0
    for number, part in enumerate(parts):
        for character in (part,) if number % 2 else part:
            if number % 2 == 0:
                broken += [f"\n{_CONTINUED}"] if at in breaks else []
                at += 1
            broken.append(character)
    return "".join(broken)


# --- Markdown ---------------------------------------------------------------------------------


def _inline(pieces: tuple[Piece, ...]) -> str:
    return "".join(
        piece.said if isinstance(piece, Words) else piece.through(_code) for piece in pieces
    )


def _code(text: str) -> str:
    """Give a code span: its fence is longer than any within, and what touches it stands apart."""
    fence = "`" * (_longest(text) + 1)
    apart = " " if text[:1] in ("`", " ") or text[-1:] in ("`", " ") else ""
    return f"{fence}{apart}{text}{apart}{fence}" if text else ""


def _fenced(block: Text | None, *, indent: str) -> list[str]:
    """Give a fenced block, which no line of the text can end, within an item of a list."""
    if block is None:
        return []
    lines = [line.through(str) for line in block.lines]
    fence = "`" * max(_LEAST_FENCE, *(_longest(line) + 1 for line in lines))
    return ["", *(f"{indent}{line}" for line in (fence, *lines, fence)), ""]


def _longest(text: str) -> int:
    return max((len(found) for found in _BACKTICKS.findall(text)), default=0)


# --- HTML -------------------------------------------------------------------------------------


def _html_part(part: Part) -> str:
    rows = "".join(f"<dd>{_html_row(row)}</dd>\n" for row in part.rows)
    title = f"<dt>{escape(part.title)}</dt>"
    return f'<div class="placet-part placet-{part.key}">\n{title}\n{rows}</div>\n'


def _html_row(row: Row) -> str:
    pieces = _html_pieces(row.pieces)
    if row.block is None:
        return pieces
    lines = "\n".join(_html_text(line) for line in row.block.lines)
    return f'{pieces}<pre class="placet-block">\n{lines}</pre>'


def _html_pieces(pieces: tuple[Piece, ...]) -> str:
    return "".join(
        escape(piece.said) if isinstance(piece, Words) else _html_text(piece) for piece in pieces
    )


def _html_text(text: Text) -> str:
    shown = text.through(
        escape, ours=lambda mark: f'<mark class="placet-mark">{escape(mark)}</mark>'
    )
    return f'<bdi class="placet-text">{shown}</bdi>'
