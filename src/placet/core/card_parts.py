"""A card laid out: titled parts of rows, the same for every surface, in the card's language.

A row is made of pieces. `Words` are placet's own. A `Text` is what anybody else wrote: it cannot be
turned into a string but through an escape, so that no surface can forget its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn

from placet.core.card import Attempt, Card, Change, Field
from placet.core.card_words import WORDS, Language, counted, said
from placet.core.display import fold, length_of, stretches
from placet.core.values import RequestKind

#: The answers that a request of each kind has beside yes and no.
_ANSWERS: Mapping[RequestKind, tuple[str, ...]] = {
    "approval": (),
    "settlement": ("happened", "not_happened", "abandon"),
    "question": ("question",),
}

#: More of one text than this is folded, and of one part more rows: the surfaces say so.
MOST_CHARACTERS = 4000
MOST_LINES = 100
MOST_ROWS = 200

#: A text of one line that is longer stands as a block, as one of several lines does.
MOST_QUOTED = 400

_PLACE = re.compile(r"\{(\w+)\}")
_PLAIN = re.compile(r"[\w.@:/+*#-]+")
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Words:
    """Fixed words, with whole numbers and instants in them, and nothing else."""

    said: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text that somebody else wrote, masked and made visible. It can hold several lines."""

    _shown: str

    def __str__(self) -> NoReturn:
        raise TypeError("a text of a card is shown `through` its surface's escape")

    def __format__(self, _: str) -> NoReturn:
        self.__str__()

    def through(
        self, escape: Callable[[str], str], *, ours: Callable[[str], str] | None = None
    ) -> str:
        """Give the text, escaped; `ours` escapes the marks and masks in it, where they differ."""
        if ours is None:
            return escape(self._shown)
        parts = stretches(self._shown)
        return "".join(ours(part) if is_ours else escape(part) for is_ours, part in parts)

    @property
    def lines(self) -> tuple[Text, ...]:
        """Give the text line by line."""
        return tuple(map(Text, self._shown.split("\n")))

    def folded(self, limits: Limits, language: Language) -> tuple[Text, Words, Text] | None:
        """Give beginning, note and end of a text that is longer than the limits."""
        found = fold(self._shown, characters=limits.characters, lines=limits.lines)
        if found is None:
            return None
        data = self._shown.encode("utf-8", "surrogatepass")
        note = said(
            language,
            "left_out",
            left=found.left_out,
            characters=counted(language, "characters", length_of(self._shown)),
            lines=counted(language, "lines", self._shown.count("\n") + 1),
            digest=hashlib.sha256(data).hexdigest()[:_DIGEST_CHARACTERS],
        )
        return Text(found.head), Words(f"⟦{note}⟧"), Text(found.tail)


Piece = Words | Text

#: What can stand in a place of fixed words.
Place = Piece | tuple[Piece, ...] | int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of pieces, and under it the lines of a text, where it is such."""

    pieces: tuple[Piece, ...]
    block: Text | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A titled part; `key` names it in every language."""

    key: str
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A card as it is laid out."""

    language: Language
    heading: Row
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of one text, and how many rows of one part, are shown before they are folded."""

    characters: int = MOST_CHARACTERS
    lines: int = MOST_LINES
    rows: int = MOST_ROWS


#: What a surface shows where it is not asked for the whole.
LIMITS = Limits()


def layout_of(card: Card, *, limits: Limits | None = LIMITS) -> Layout:
    """Lay a card out. What is beyond the limits is folded, and says so; None folds nothing."""
    laid = _Laying(card).layout()
    if limits is None:
        return laid
    folded = (_folded(part, limits, card.language) for part in laid.parts)
    return replace(laid, parts=tuple(folded))


def phrase(language: Language, key: str, **places: Place) -> tuple[Piece, ...]:
    """Give fixed words with pieces in their places."""
    pieces: list[Piece] = []
    at = 0
    template = WORDS[language][key]
    for place in _PLACE.finditer(template):
        pieces += (Words(template[at : place.start()]), *_pieces(places[place[1]]))
        at = place.end()
    pieces.append(Words(template[at:]))
    return _joined(pieces)


def argument_rows(language: Language, fields: Iterable[Field]) -> Iterator[Row]:
    """Lay out the values of arguments, each with its path; a text that is long as a block."""
    for field in fields:
        path = Text(field.path)
        if field.is_text and ("\n" in field.shown or len(field.shown) > MOST_QUOTED):
            measures = _measures(language, field.shown)
            yield Row(phrase(language, "argument.block", path=path, **measures), Text(field.shown))
        else:
            value = Text(_quoted(field.shown) if field.is_text else field.shown)
            yield Row(phrase(language, "argument", path=path, value=value))


class _Laying:
    """Lays one card out."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._language = card.language

    def layout(self) -> Layout:
        """Give the layout: whatever has nothing to show is not there."""
        rows = {
            "tool": self._tool(),
            "effect": _texts(self._card.effect),
            "cost": _texts(self._card.cost),
            "preview": self._block(self._card.preview),
            "reversible": self._reversible(),
            "rule": self._told("rule.reason", "rule.block", self._card.reason, "reason"),
            "claim": self._told("claim.said", "claim.block", self._card.claim, "claim"),
            "changes": self._changes(),
            "attempts": self._attempts(),
            "earlier": self._earlier(),
            "requester": self._requester(),
            "run": self._run(),
            "approvers": self._approvers(),
            "votes": self._votes(),
            "escalation": self._escalation(),
            "deadline": self._deadline(),
            "answers": self._answers(),
            "key": self._key(),
            "digest": _texts(self._card.digest),
        }
        heading = self._say(
            "heading",
            kind=self._words(f"kind.{self._card.kind}"),
            request=_name(self._card.request),
            status=self._words(f"status.{self._card.status}"),
        )
        parts = tuple(
            Part(key=key, title=said(self._language, key), rows=tuple(found))
            for key, found in rows.items()
            if found
        )
        return Layout(language=self._language, heading=heading, parts=parts)

    def _words(self, key: str) -> Words:
        return Words(said(self._language, key))

    def _say(self, key: str, **places: Place) -> Row:
        return Row(phrase(self._language, key, **places))

    def _people(self, names: Iterable[str]) -> tuple[Piece, ...]:
        return self._listed(map(_name, names))

    def _listed(self, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
        between = self._words("list")
        return _joined([each for piece in pieces for each in (between, piece)][1:])

    def _tool(self) -> list[Row]:
        card = self._card
        rows = [Row((_name(card.tool),))]
        if card.raw_arguments is not None:
            unreadable = self._words("arguments.unreadable")
            return [*rows, Row((unreadable,), Text(card.raw_arguments))]
        if not card.fields:
            return [*rows, self._say("arguments.none")]
        return [*rows, *argument_rows(self._language, card.fields)]

    def _block(self, shown: str) -> list[Row]:
        """Show a text on its line; of several lines it stands under a word on its length."""
        if "\n" not in shown:
            return _texts(shown)
        return [Row(self._say("block", **_measures(self._language, shown)).pieces, Text(shown))]

    def _reversible(self) -> list[Row]:
        if self._card.kind == "question":
            return []
        return [self._say("reversible.yes" if self._card.reversible else "reversible.no")]

    def _told(self, one: str, block: str, told: str, place: str) -> list[Row]:
        """Show what the rule or the model says, on its line or under it."""
        rule = {"rule": _name(self._card.rule)} if place == "reason" else {}
        if not told:
            return [Row((rule["rule"],))] if rule else []
        if "\n" in told:
            return [Row(self._say(block, **rule).pieces, Text(told))]
        return [self._say(one, **rule, **{place: Text(told)})]

    def _changes(self) -> list[Row]:
        card = self._card
        before = _name(card.replaces)
        rows = [self._change(each) for each in card.edits]
        if card.edited_by:
            rows.append(self._say("changed.by", person=_name(card.edited_by), request=before))
        if card.changed:
            what = self._listed(map(self._changed, card.changed))
            rows.append(self._say("changed.since", request=before, what=what))
        elif not card.edits:
            rows += self._block(card.changes)
        return rows

    def _change(self, change: Change) -> Row:
        if not change.name:
            return self._say("change.unreadable")
        absent = self._words("change.absent")
        old, new = (absent if side is None else Text(side) for side in (change.old, change.new))
        return self._say("change", name=Text(change.name), old=old, new=new)

    def _changed(self, what: str) -> Piece:
        known = WORDS[self._language].get(f"changed.{what}")
        return _name(what) if known is None else Words(known)

    def _attempts(self) -> list[Row]:
        card = self._card
        begun = [self._say("attempt.begun", count=card.attempts)] if card.attempts else []
        if card.undoing:
            begun = [self._say("attempt.begun_undo", count=card.attempts, undoing=card.undoing)]
        return [*begun, *map(self._attempt, card.failures)]

    def _attempt(self, attempt: Attempt) -> Row:
        kind = "undo" if attempt.taking_back else "run"
        what = phrase(self._language, f"attempt.{kind}", number=attempt.number)
        if attempt.at is not None:
            what = phrase(self._language, "attempt.at", what=what, at=_instant(attempt.at))
        return self._under(f"attempt.{attempt.end}", "cause", attempt.cause, what=what)

    def _key(self) -> list[Row]:
        card = self._card
        if not card.undo_key:
            return _texts(card.key)
        return [
            self._say("key.act", shown=_name(card.key)),
            self._say("key.undo", shown=_name(card.undo_key)),
        ]

    def _earlier(self) -> list[Row]:
        found = self._card.earlier
        if found is None:
            return []
        key = f"earlier.{'one' if found.times == 1 else 'many'}"
        return [self._under(key, "told", found.told, code=Text(found.code), count=found.times)]

    def _under(self, key: str, place: str, told: str, **places: Place) -> Row:
        """Show words that end in a text: under them where it has several lines."""
        if "\n" not in told:
            return self._say(key, **places, **{place: Text(told)})
        return Row(self._say(key, **places, **{place: ()}).pieces, Text(told))

    def _requester(self) -> list[Row]:
        card = self._card
        names = {"requester": card.requester, "agent": card.agent, "session": card.session}
        places = {place: _name(name) for place, name in names.items()}
        return [self._say("requester.for", **places)]

    def _run(self) -> list[Row]:
        run = _name(self._card.run)
        if not self._card.parent:
            return [Row((run,))]
        return [self._say("run.under", run=run, parent=_name(self._card.parent))]

    def _approvers(self) -> list[Row]:
        people = self._people(self._card.approvers) or self._words("nobody")
        return [self._say("approvers.needed", people=people, count=self._card.quorum)]

    def _votes(self) -> list[Row]:
        card = self._card
        if not card.votes:
            return []
        people = self._people(card.votes)
        if card.quorum == 1:
            return [Row(people)]
        return [self._say("votes.of", people=people, count=len(card.votes), quorum=card.quorum)]

    def _escalation(self) -> list[Row]:
        if self._card.status != "waiting":
            return []
        return [
            self._say("escalation.asks", at=_instant(each.at), people=self._people(each.approvers))
            if each.approvers
            else self._say("escalation.reminds", at=_instant(each.at))
            for each in self._card.escalation
        ]

    def _deadline(self) -> list[Row]:
        deadline = _instant(self._card.deadline_at)
        if not self._card.then:
            return [self._say("deadline.past", deadline=deadline)]
        then = self._words(f"then.{self._card.kind}")
        return [self._say("deadline.then", deadline=deadline, then=then)]

    def _answers(self) -> list[Row]:
        if self._card.status != "waiting":
            return []
        of = "undo." if self._card.undoing else ""
        return [self._say(f"answer.{of}{each}") for each in _ANSWERS[self._card.kind]]


def _name(shown: str) -> Text:
    """Give a name as a text: one that could be taken for other words stands in quotes."""
    return Text(shown if _PLAIN.fullmatch(shown) else _quoted(shown))


def _instant(at: datetime) -> Words:
    return Words(f"{at:%Y-%m-%d %H:%M:%S}")


def _quoted(shown: str) -> str:
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _texts(shown: str) -> list[Row]:
    return [Row((Text(shown),))] if shown else []


def _measures(language: Language, shown: str) -> dict[str, Piece]:
    """Say how long a text of several lines is."""
    return {
        "lines": Words(counted(language, "lines", shown.count("\n") + 1)),
        "characters": Words(counted(language, "characters", length_of(shown))),
    }


def _pieces(place: Place) -> tuple[Piece, ...]:
    match place:
        case int():
            return (Words(str(place)),)
        case tuple():
            return place
        case _:
            return (place,)


def _joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Put words that follow each other together, and leave out what is empty."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Words) and joined and isinstance(joined[-1], Words):
            joined[-1] = Words(joined[-1].said + piece.said)
        elif piece != Words(""):
            joined.append(piece)
    return tuple(joined)


# --- folding ----------------------------------------------------------------------------------


def _folded(part: Part, limits: Limits, language: Language) -> Part:
    rows: tuple[Row, ...] = part.rows
    if len(rows) > limits.rows:
        head, tail = limits.rows - limits.rows // 2, limits.rows // 2
        left = len(rows) - head - tail
        note = said(language, "left_out.rows", left=left, count=len(rows))
        rows = (*rows[:head], Row((Words(f"⟦{note}⟧"),)), *rows[-tail:])
    return replace(part, rows=tuple(f for row in rows for f in _folded_row(row, limits, language)))


def _folded_row(row: Row, limits: Limits, language: Language) -> Iterator[Row]:
    pieces: list[Piece] = []
    for piece in row.pieces:
        folded = piece.folded(limits, language) if isinstance(piece, Text) else None
        pieces += (piece,) if folded is None else folded
    block = None if row.block is None else row.block.folded(limits, language)
    if block is None:
        yield Row(tuple(pieces), row.block)
    else:
        head, note, tail = block
        yield Row(tuple(pieces), head)
        yield Row((note,), tail)
