"""What a command's events put beside the event log: transcript entries, step names and notices.

All are derived from the events alone, so that they commit with them (D3) and cannot say
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args, get_type_hints

from placet.core import events as e
from placet.core.values import Payload

EntryKind = Literal["message", "turn", "result", "summary"]
NoticeKind = Literal["opened", "escalated", "closed"]
NameKind = Literal["reference", "place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a run's transcript, in its place.

    The user's message stands at step 0; a model's turn at (step, -1); the one result of a call at
    (step, index), so that a second result has no place to stand (G6). A summary of all before a
    step stands at (step, -2).
    """

    run: str
    step: int
    index: int
    kind: EntryKind
    payload: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """A transcript entry with its text."""

    run: str
    step: int
    index: int
    kind: EntryKind
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that people are to be told, through the outbox, at least once (H3).

    It goes to `channel`, or to every one where none is named.
    """

    request: str
    kind: NoticeKind
    channel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepName:
    """A name by which the framework that hosts a run finds a step of it again."""

    run: str
    kind: NameKind
    name: str
    step: int


def entries(events: Iterable[e.Event]) -> tuple[Entry, ...]:
    """Give the transcript rows that a command's events add."""
    found: list[Entry] = []
    for event in events:
        match event:
            case e.RunStarted(run=run, message=message):
                found.append(Entry(run=run, step=0, index=-1, kind="message", payload=message))
            case e.StepRecorded(run=run, step=step, entry=entry):
                found.append(Entry(run=run, step=step, index=-1, kind="turn", payload=entry))
            case e.TranscriptCompacted(run=run, step=step, summary=summary):
                found.append(Entry(run=run, step=step, index=-2, kind="summary", payload=summary))
            case e.CallEnded(at=at, told=told):
                found.append(
                    Entry(run=at.run, step=at.step, index=at.index, kind="result", payload=told)
                )
            case _:
                pass
    return tuple(found)


def step_names(events: Iterable[e.Event]) -> tuple[StepName, ...]:
    """Give the names of steps that a command's events add."""
    found: list[StepName] = []
    for event in events:
        if isinstance(event, e.StepRecorded):
            names: tuple[tuple[NameKind, str], ...] = (
                ("reference", event.reference),
                ("place", event.place),
            )
            found += [
                StepName(run=event.run, kind=kind, name=name, step=event.step)
                for kind, name in names
                if name
            ]
    return tuple(found)


def notices(events: Iterable[e.Event]) -> tuple[Notice, ...]:
    """Give what people are to be told of a command's events."""
    found: list[Notice] = []
    for event in events:
        match event:
            case (
                e.RequestOpened(request=request)
                | e.VoteWithdrawn(request=request, reopened=True)
                | e.VotesDropped(request=request, reopened=True)
            ):
                found.append(Notice(request=request, kind="opened"))
            case e.RequestEscalated(request=request, channel=channel):
                found.append(Notice(request=request, kind="escalated", channel=channel))
            case (
                e.RequestRejected(request=request)
                | e.RequestEdited(request=request)
                | e.RequestVoided(request=request)
                | e.RequestExpired(request=request)
                | e.RequestCancelled(request=request)
                | e.RequestSuperseded(request=request)
                | e.RequestSettled(request=request)
                | e.QuestionAnswered(request=request)
                | e.VoteCast(request=request, met=True)
            ):
                found.append(Notice(request=request, kind="closed"))
            case _:
                pass
    return tuple(found)


def payloads(events: Iterable[e.Event]) -> dict[str, str]:
    """Give the texts that a command's events bring with them, by reference."""
    found: dict[str, str] = {}
    for event in events:
        cls: type = type(event)
        for name in _texts_of(cls):
            value: Payload | None = getattr(event, name)
            if value is not None and value.body is not None:
                found[value.ref] = value.body
    return found


@cache
def _texts_of(cls: type) -> tuple[str, ...]:
    """Name the fields of an event that hold a text, or may."""
    hints = get_type_hints(cls)
    return tuple(name for name, hint in hints.items() if Payload in (hint, *get_args(hint)))
