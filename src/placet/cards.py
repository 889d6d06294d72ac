"""Reading from the store what the card of a request shows: one place for every surface.

It reads, and decides nothing; the card itself is made by placet.core.card.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from placet.core import events as e
from placet.core.canonical import JsonValue
from placet.core.card import (
    Attempt,
    AttemptEnd,
    Card,
    Earlier,
    Field,
    Story,
    Version,
    card_of,
    fields_of,
    masking_for,
)
from placet.core.card_words import Language
from placet.core.codec import decode_event
from placet.core.commands import Names
from placet.core.masking import Masking
from placet.core.state import Call, No, Open, Request, Session
from placet.core.values import Draft, Occurrence, Purpose
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow
from placet.versions import draft_held, versions_of, versions_told, versions_under

_ATTEMPTS = {
    kind.__name__
    for kind in (e.AttemptBegun, e.AttemptFailed, e.AttemptLost, e.CallUndoing, e.CallEnded)
}


async def card_from(engine: Engine, row: RequestRow, *, language: Language = "en") -> Card:
    """Make the card of a request from the store, with its words in a language."""
    read = await _read(engine, row)
    request, call = read.state.requests[row.request.id], read.call
    replaced = None
    if request.replaces is not None:
        replaced = (await engine.find_request(request.replaces)).request
    no = _no(read, request)
    attempts, undo_key = await _attempts(read) if call.attempts else ((), "")
    story = Story(
        display=read.display,
        grounds=await read.text(request.grounds_ref),
        claim=await read.text(call.claim_ref),
        changes=await read.text(request.changes_ref),
        replaced=replaced,
        versions=await _versions(read, no),
        attempts=attempts,
        undo_key=undo_key,
        earlier=None if no is None else await _earlier(read, no),
        causes={
            each.channel: await read.text(each.cause_ref)
            for each in request.deliveries
            if each.cause_ref is not None
        },
    )
    return card_of(
        request,
        call,
        read.state.runs[request.at.run],
        await _draft(read, request),
        story,
        now=read.state.now,
        salt=read.state.salt,
        language=language,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """How what is stored of a request is told beside its card: its secrets are masked as there.

    No text of a session reaches a person at the command line but through here. What is told is
    still to be made visible where it is printed.
    """

    engine: Engine
    session: str
    masking: Masking

    async def text(self, ref: str | None) -> str:
        """Give a stored text with its secrets masked."""
        return "" if ref is None else self.told(await self.engine.payload(self.session, ref))

    def told(self, text: str) -> str:
        """Give a text with its secrets masked, where it is at hand already."""
        return self.masking.told(text)


async def telling_of(engine: Engine, row: RequestRow, *, language: Language = "en") -> Telling:
    """Give how what is stored of a request is told."""
    read = await _read(engine, row)
    await _draft(read, read.state.requests[row.request.id])
    versions = await versions_of(engine, row.session, read.call)
    masking = masking_for(read.display, versions, salt=read.state.salt, language=language)
    return Telling(engine=engine, session=row.session, masking=masking)


async def telling_of_run(
    engine: Engine,
    state: Session,
    run: str,
    *,
    proposed: Iterable[tuple[str, Mapping[str, JsonValue] | str]] = (),
    language: Language = "en",
) -> tuple[Telling, dict[Occurrence, tuple[Field, ...]]]:
    """Give how what is stored of a run is told, and the arguments of its calls as on a card.

    What is secret in any version of one call, be it of a run under this one, is told of none.
    `proposed` are the calls as the model wrote them, tool and arguments: not all were frozen.
    """
    found = await versions_under(engine, state.id, run)
    versions = [version for each in found.values() for version in each]
    declared = {version.tool: version.display for version in versions}
    written = (
        Version(tool=tool, arguments=arguments, display=declared.get(tool, {}))
        for tool, arguments in proposed
    )
    told = masking_for({}, (*versions, *written), salt=state.salt, language=language)
    fields: dict[Occurrence, tuple[Field, ...]] = {}
    for at, (*_, latest) in found.items():
        if isinstance(latest.arguments, Mapping):
            own = masking_for(latest.display, (), salt=state.salt, language=language)
            fields[at] = fields_of(own, latest.arguments)
    return Telling(engine=engine, session=state.id, masking=told), fields


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read of a request: its session as it is now, its call, and what its tool shows."""

    engine: Engine
    session: str
    state: Session
    call: Call
    display: dict[str, JsonValue]

    async def text(self, ref: str | None) -> str:
        return "" if ref is None else await self.engine.payload(self.session, ref)


async def _read(engine: Engine, row: RequestRow) -> _Read:
    request = row.request
    at = request.at
    names = Names(requests=(request.id,), steps=((at.run, at.step),), runs=(at.run,))
    state = await engine.session(row.session, names)
    call = state.calls[at]
    display = (
        "{}" if call.display_ref is None else await engine.payload(row.session, call.display_ref)
    )
    return _Read(
        engine=engine, session=row.session, state=state, call=call, display=json.loads(display)
    )


async def _draft(read: _Read, request: Request) -> Draft:
    """Give the action that a request is about; raises Conflict(`digest_mismatch`)."""
    digest = read.call.digest if request.kind == "settlement" else request.digest
    text = await read.text(request.action_ref)
    return draft_held(text, digest, generation=request.generation, request_id=request.id)


async def _versions(read: _Read, no: No | None) -> tuple[Version, ...]:
    """Give the versions of a request's call, and of those whose end is told on its card."""
    found = await versions_of(read.engine, read.session, read.call)
    if no is not None:
        found += await versions_told(read.engine, read.session, no.told_ref)
    return found


@dataclass(slots=True)
class _Tried:
    """What the log says of one attempt: when it began, for what and under which key, how it ended.

    Without an `end` nothing is on record yet, or it succeeded and that stands.
    """

    at: datetime
    purpose: Purpose
    key: str
    end: AttemptEnd | None = None
    ref: str = ""


async def _attempts(read: _Read) -> tuple[tuple[Attempt, ...], str]:
    """Give the attempts that did not succeed, as the log has them, and the key of undoing."""
    tried = await read.engine.read(_tried, read.engine, read.session, read.call.at)
    found = []
    for number, each in tried.items():
        if each.end is not None:
            undoes = each.purpose != "run"
            found.append(
                Attempt(
                    number=number - read.call.ran if undoes else number,
                    end=each.end,
                    cause=await read.text(each.ref),
                    at=each.at,
                    taking_back=undoes,
                )
            )
    keys = [each.key for each in tried.values() if each.purpose != "run"]
    return tuple(found), keys[-1] if keys else ""


def _tried(engine: Engine, session: str, at: Occurrence) -> dict[int, _Tried]:
    """Say of each attempt of a call how it ended, and where the text of why is.

    An attempt whose outcome is lost stays so, though another is made; until it is found not to
    have acted. What is taken back next ends the attempt before it.
    """
    found: dict[int, _Tried] = {}
    over = False
    for recorded in engine.store.events(engine.tenant, session):
        if recorded.kind not in _ATTEMPTS:
            continue
        event = decode_event(recorded.kind, recorded.body)
        if getattr(event, "at", None) != at:
            continue
        match event:
            case e.AttemptBegun():
                found[event.attempt] = _Tried(recorded.at, event.purpose, event.key)
            case e.AttemptLost():
                found[event.attempt].end, found[event.attempt].ref = "lost", event.cause.ref
            case e.AttemptFailed():
                each = found[event.attempt]
                if event.not_done:
                    each.end, each.ref = "not_done", event.cause.ref
                elif each.end is None:
                    each.end, each.ref = "failed", event.cause.ref
            case e.CallUndoing() if found and (last := found[max(found)]).end is None:
                last.end, last.ref = "succeeded" if over else "failed", event.cause.ref
            case e.CallEnded():
                over = True
            case _:
                pass
    return found


def _no(read: _Read, request: Request) -> No | None:
    """Give how the same call ended when it was proposed before in the run, while that matters."""
    if request.kind != "approval" or not isinstance(request.state, Open):
        return None
    no = read.state.noes.get((read.call.at.run, read.call.call_key))
    return None if no is None or no.times == 0 else no


async def _earlier(read: _Read, no: No) -> Earlier:
    return Earlier(code=no.code, times=no.times, told=await read.text(no.told_ref))
