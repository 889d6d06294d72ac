"""The versions of a call: what it was before an edit or a void, and what it is after, from the log.

A call holds its latest version alone. Whatever is told of it is told without the secrets of all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from placet.core import events as e
from placet.core.canonical import JsonValue
from placet.core.card import Version
from placet.core.codec import decode_event
from placet.core.errors import Conflict
from placet.core.state import Call
from placet.core.values import Draft, Occurrence, action_digest, draft_from
from placet.runtime.engine import Engine

Versions = Mapping[Occurrence, tuple[Version, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frozen:
    """Where the texts of a version are, and what its action must be."""

    action_ref: str
    display_ref: str | None
    digest: str
    generation: int


async def versions_of(engine: Engine, session: str, call: Call) -> tuple[Version, ...]:
    """Give the versions of a call, the first one first."""
    if call.version > 1:
        found = await engine.read(_versions, engine, session, lambda at: at == call.at)
        return found[call.at]
    frozen = _Frozen(
        action_ref=call.action_ref,
        display_ref=call.display_ref,
        digest=call.digest,
        generation=call.generation,
    )
    return (await engine.read(_read, engine, session, frozen),)


async def versions_told(engine: Engine, session: str, told_ref: str) -> tuple[Version, ...]:
    """Give the versions of all calls that have ended with a text."""

    def ended() -> set[Occurrence]:
        rows = engine.store.events(engine.tenant, session)
        ends = (row for row in rows if row.kind == "CallEnded" and told_ref in row.body)
        found = (decode_event(row.kind, row.body) for row in ends)
        return {x.at for x in found if isinstance(x, e.CallEnded) and x.told.ref == told_ref}

    places = await engine.read(ended)
    found = await engine.read(_versions, engine, session, places.__contains__)
    return tuple(version for each in found.values() for version in each)


async def versions_under(engine: Engine, session: str, run: str) -> Versions:
    """Give the versions of the calls of a run, and of the runs under it."""

    def family() -> set[str]:
        runs = {run}
        for row in engine.store.events(engine.tenant, session):
            if row.kind == "RunStarted":
                begun = decode_event(row.kind, row.body)
                assert isinstance(begun, e.RunStarted), "a kind is that of its event"
                if begun.parent is not None and begun.parent.run in runs:
                    runs.add(begun.run)
        return runs

    runs = await engine.read(family)
    return await engine.read(_versions, engine, session, lambda at: at.run in runs)


class Following:
    """Follows a session's log, and gives the versions that are new in it each time.

    What is looked at once is not looked at again, however long the session grows (D6).
    """

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine = engine
        self._session = session
        self._seq = 0

    def new(self) -> list[Version]:
        """Give what was frozen since the last time; nothing where there is no session yet."""
        engine, found = self._engine, []
        for row in engine.store.events(engine.tenant, self._session, after=self._seq):
            if row.kind == "CallProposed":
                event = decode_event(row.kind, row.body)
                assert isinstance(event, e.CallProposed), "a kind is that of its event"
                found.append(_read(engine, self._session, _frozen(event)))
            self._seq = row.seq
        return found


def draft_held(text: str, digest: str, *, generation: int, **ids: str) -> Draft:
    """Give the action of a text, if it is what its digest stands for (G3).

    Raises Conflict(`digest_mismatch`) where it was changed from outside: nobody is shown another.
    """
    document = json.loads(text)
    if action_digest(document, generation=generation) != digest:
        raise Conflict(
            "digest_mismatch",
            "The stored action is not what the request stands for; it was changed from outside.",
            hint="Nothing is shown or runs. Run `placet audit verify`.",
            **ids,
        )
    return draft_from(document)


def _versions(engine: Engine, session: str, wanted: Callable[[Occurrence], bool]) -> Versions:
    found: dict[Occurrence, list[Version]] = {}
    for row in engine.store.events(engine.tenant, session):
        if row.kind != "CallProposed":
            continue
        event = decode_event(row.kind, row.body)
        assert isinstance(event, e.CallProposed), "a kind is that of its event"
        if wanted(event.at):
            found.setdefault(event.at, []).append(_read(engine, session, _frozen(event)))
    return {at: tuple(versions) for at, versions in found.items()}


def _frozen(event: e.CallProposed) -> _Frozen:
    return _Frozen(
        action_ref=event.action.ref,
        display_ref=event.display.ref if event.display else None,
        digest=event.digest,
        generation=event.generation,
    )


def _read(engine: Engine, session: str, frozen: _Frozen) -> Version:
    def text(ref: str) -> str:
        return engine.store.payload(engine.tenant, session, ref)

    draft = draft_held(text(frozen.action_ref), frozen.digest, generation=frozen.generation)
    display: dict[str, JsonValue] = {}
    if frozen.display_ref is not None:
        display = json.loads(text(frozen.display_ref))
    return Version(tool=draft.tool, arguments=draft.arguments, display=display)
