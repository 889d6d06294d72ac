"""Holding the record to itself (H4): the chain, the texts, and the state that follows from them.

Theory of operation. The event log is walked once. Each event's hash is computed anew over the one
before, its seq, instant, kind and body; each text that it names is fetched and held against its
keyed reference; each action against its digest. Each event must have been permitted in the state
before it (`permitted`): what was decided or begun on a row that was changed, and put back since, is
found by the event that it led to. The state is then what `evolve` makes of the events, and whatever
the store holds of runs, calls, requests, noes, grants, surfaces, texts, names and transcript must
be the same, no less and no more: a row that was changed by hand differs.

Where the store is under a key, each head has an HMAC, so that who rewrites a whole log, its state
with it, is found, too. What this cannot find, alone: who cuts a tail off both, by putting an older
head with its HMAC back, or puts another database in the place of this one, leaves a record that
agrees with itself. Only a head that was kept elsewhere shows that (`placet.runtime.anchors`).

What cannot be held to anything is said, and is no finding: texts that were erased, and texts and
heads for which no key is given.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from placet.core import events as e
from placet.core.canonical import Unreadable
from placet.core.changing import changed
from placet.core.codec import NewerValue, UnreadableValue, chain_hash, decode_event, micros_of
from placet.core.commands import Names
from placet.core.errors import NotFound, Refusal, StoreTrouble, no_session
from placet.core.records import NameKind, entries, notices, step_names
from placet.core.state import Request, Resting, Run, Session
from placet.core.values import Payload, action_digest
from placet.runtime.rebuilding import Rebuilt
from placet.runtime.state_files import ALL
from placet.stores.store import Kept, Recorded, Store

#: How often a session that is being written meanwhile is looked at again.
TRIES = 5

#: How many steps are loaded at once.
STEPS_AT_ONCE = 200

#: Codes of what is wrong with the store and stands in its file: found, and no reason to stop.
_DAMAGED = ("store_damaged", "wrong_key")

#: Codes of why texts cannot be read here, though nothing need be wrong with them.
_UNREADABLE = ("key_missing", "crypto_missing", "key_unreachable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as the record says; `seq` is the event's, where it is one's."""

    code: str
    what: str
    seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was found in one session. `head`, its last event's hash, is worth keeping elsewhere.

    `texts` says how its texts stand, and `unchecked` what could not be looked at.
    """

    session: str
    events: int
    head: str
    findings: tuple[Finding, ...]
    texts: str = "plain"
    unchecked: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Say that nothing was found."""
        return not self.findings


def verify(store: Store, tenant: str, session: str) -> Verified:
    """Hold a session's record to itself; raises NotFound, and Refusal while it keeps changing."""
    for _ in range(TRIES):
        seq, _head = _head_of(store, tenant, session)
        walk = _Walk(store, tenant, session)
        found = walk.verified()
        if _head_of(store, tenant, session)[0] == seq:
            return found
    raise Refusal(
        "session_busy",
        "The session kept changing while it was verified.",
        hint="Verify it again when its runs rest.",
        session=session,
    )


def strays(store: Store, tenant: str) -> list[Verified]:
    """Find sessions of which there are rows, and not their own: nothing else of them is read."""
    told = "rows of it are there, and its own row is not"
    lost = Finding(code="lost_session", what=told)
    return [
        Verified(session=session, events=0, head="", findings=(lost,))
        for session in store.strays(tenant)
    ]


def unwalked(session: str, error: Exception) -> Verified:
    """Say of a session that its record cannot be walked, so that others are looked at yet."""
    finding = Finding(code="unreadable_record", what=f"it cannot be walked: {error}")
    return Verified(session=session, events=0, head="", findings=(finding,))


def _head_of(store: Store, tenant: str, session: str) -> tuple[int, str]:
    head = store.head(tenant, session)
    if head is None:
        raise no_session(session)
    return head


class _Walk:
    """One walk over a session's log, and what is found on it."""

    def __init__(self, store: Store, tenant: str, session: str) -> None:
        self._store = store
        self._key = (tenant, session)
        self._findings: list[Finding] = []
        self._texts: set[str] = set()
        self._refs: set[str] = set()
        self._notices: set[tuple[str, str]] = set()
        self._is_erased = False
        self._unchecked: dict[str, None] = {}
        self._reads_texts = True
        self._places: dict[tuple[str, int, int], tuple[str, str]] = {}
        self._names: dict[tuple[str, NameKind, str], int] = {}

    def verified(self) -> Verified:
        tenant, session = self._key
        start = datetime.fromtimestamp(0, UTC)
        rebuilt: Rebuilt | None = Rebuilt(Session(tenant=tenant, id=session, salt="", now=start))
        seq, head, at = 0, "", start
        kept = self._store.kept(tenant, session)
        for row in self._store.events(tenant, session):
            if row.seq != seq + 1:
                self._find("seq_gap", f"seq {row.seq} follows {seq}: events are missing", row.seq)
                rebuilt = None
            self._check_chain(row, head)
            seq, head, at = row.seq, row.hash, row.at
            event = self._event(row)
            if event is None:
                rebuilt = None
                continue
            self._check_event(event, row.seq)
            if rebuilt is None:
                continue
            wrong, forbidden = rebuilt.take(event, row.at)
            if forbidden:
                self._find("forbidden_event", f"{row.kind}: {forbidden}", row.seq)
            if wrong:
                self._find("impossible_event", f"{row.kind} cannot follow: {wrong}", row.seq)
                rebuilt = None
        self._check_head(seq, head)
        if kept.events != seq and not self._findings:
            self._find("extra_state", f"{kept.events} events are there, and the log has {seq}")
        if kept.stamp < at:
            self._find("clock_set_back", f"the store's last stamp lies before event {seq}", seq)
        texts = self._check_standing(rebuilt)
        if rebuilt is not None:
            self._compare(rebuilt, kept)
        return Verified(
            session=session,
            events=seq,
            head=head,
            findings=tuple(self._findings),
            texts=texts,
            unchecked=tuple(self._unchecked),
        )

    def _find(self, code: str, what: str, seq: int | None = None) -> None:
        self._findings.append(Finding(code=code, what=what, seq=seq))

    # --- events -------------------------------------------------------------------------------

    def _check_chain(self, row: Recorded, previous: str) -> None:
        at = micros_of(row.at)
        expected = chain_hash(previous, seq=row.seq, at_micros=at, kind=row.kind, body=row.body)
        if row.hash != expected:
            self._find("broken_chain", f"{row.kind} is not what its hash stands for", row.seq)

    def _event(self, row: Recorded) -> e.Event | None:
        try:
            return decode_event(row.kind, row.body)
        except NewerValue as error:
            self._find("newer_event", f"a newer version of placet wrote {error}", row.seq)
        except UnreadableValue as error:
            self._find("unreadable_event", str(error), row.seq)
        return None

    def _check_event(self, event: e.Event, seq: int) -> None:
        for field in fields(event):
            value = getattr(event, field.name)
            if isinstance(value, Payload):
                self._refs.add(value.ref)
                self._text(value.ref, seq)
        if isinstance(event, e.CallProposed) and (body := self._text(event.action.ref, seq)):
            try:
                digest = action_digest(json.loads(body), generation=event.generation)
            except (ValueError, TypeError, RecursionError, Unreadable):
                digest = ""
            if digest != event.digest:
                what = f"the action of {event.at} is not what its digest stands for"
                self._find("digest_mismatch", what, seq)
        for entry in entries([event]):
            place = (entry.run, entry.step, entry.index)
            kind, _ = self._places.get(place, (entry.kind, ""))
            self._places[place] = (kind, entry.payload.ref)
        self._notices |= {(each.request, each.kind) for each in notices([event])}
        for each in step_names([event]):
            self._names.setdefault((each.run, each.kind, each.name), each.step)

    def _text(self, ref: str, seq: int) -> str:
        """Fetch a text, which the store holds against its reference; empty: it cannot be had."""
        if not self._reads_texts:
            return ""
        try:
            body = self._store.payload(*self._key, ref)
        except NotFound as error:
            if error.code == "erased":
                self._is_erased = True
                return self._no_texts("the texts were erased")
            self._find_text("missing_text", f"the text {ref} is not there", ref, seq)
            return ""
        except StoreTrouble as error:
            if error.code in _UNREADABLE:
                return self._no_texts(f"the texts are sealed: {error.message}")
            if error.code not in _DAMAGED:
                raise
            self._find_text("changed_text", f"the text {ref} was changed", ref, seq)
            return ""
        return body

    def _find_text(self, code: str, what: str, ref: str, seq: int) -> None:
        if ref not in self._texts:
            self._find(code, what, seq)
        self._texts.add(ref)

    def _no_texts(self, why: str) -> str:
        self._reads_texts = False
        self._unchecked[why] = None
        return ""

    def _check_head(self, seq: int, head: str) -> None:
        known_seq, known_head = _head_of(self._store, *self._key)
        if known_seq != seq:
            self._find("cut_tail", f"the session is at seq {known_seq}, its log ends at {seq}")
        elif known_head != head:
            self._find("other_head", "the session's head is not its last event's hash", seq)

    def _check_standing(self, rebuilt: Rebuilt | None) -> str:
        """Hold the head against its HMAC, and the texts against what the events say of them."""
        standing = self._store.standing(*self._key)
        if standing is None:
            return "plain"
        match standing.head:
            case "forged":
                self._find("forged_head", "the head was written without the store's key")
            case "unkeyed":
                what = "the head has no HMAC, though the store is under a key: it is from before,"
                self._find("unkeyed_head", f"{what} or its HMAC was taken away")
            case "unchecked":
                self._unchecked["the head is keyed, and no key is given"] = None
            case "keyed" | "plain":
                pass
        if rebuilt is not None and rebuilt.state.erased != (standing.texts == "erased"):
            said, are = ("", " not") if rebuilt.state.erased else (" not", "")
            what = f"by the events the texts were{said} erased, and they are{are}"
            self._find("changed_state", what)
        return standing.texts

    # --- the state that follows ---------------------------------------------------------------

    def _stored(self, names: Names) -> Session | None:
        try:
            return self._store.session(*self._key, names)
        except StoreTrouble as error:
            if error.code not in ("newer_value", *_DAMAGED):
                raise
            self._find("unreadable_state", error.message)
            return None

    def _compare(self, rebuilt: Rebuilt, kept: Kept) -> None:
        expected = rebuilt.base()
        if state := self._stored(Names()):
            if state.erased != expected.erased:
                self._find("changed_state", "whether it was erased is not what the events say")
            if state.ended != expected.ended:
                self._find("changed_state", "whether it has ended is not what the events say")
            if dict(state.surfaces) != dict(expected.surfaces):
                self._find("changed_state", "the surfaces are not what the events lead to")
            if dict(state.grants) != dict(expected.grants):
                self._find("changed_state", "the grants are not what the events lead to")
            self._compare_open(expected, state)
            self._compare_calls(rebuilt, kept)
        self._compare_rows("run", rebuilt.runs, lambda: self._runs(rebuilt))
        self._compare_rows("request", rebuilt.requests, self._requests)
        self._compare_beside(kept)

    def _compare_open(self, expected: Session, found: Session) -> None:
        """Hold what the store takes to be open to what is: their values are held elsewhere."""
        for what in ("runs", "calls", "requests", "noes"):
            here, there = getattr(expected, what), getattr(found, what)
            for each in sorted(here.keys() ^ there.keys()):
                told = f"{each} of the {what} is taken to be open otherwise than it is"
                self._find("changed_state", told)

    def _compare_beside(self, kept: Kept) -> None:
        """Hold what stands beside the log, whole: transcript, names of steps, texts, notices."""
        for place in sorted(self._places.keys() | kept.entries.keys()):
            run, step, index = place
            what = f"transcript {run}/{step}/{index}"
            self._differ(what, self._places.get(place), kept.entries.get(place))
        for name in sorted(self._names.keys() | kept.names.keys()):
            what = f"the {name[1]} {name[2]!r} of run {name[0]}"
            self._differ(what, self._names.get(name), kept.names.get(name))
        for ref in sorted(kept.texts - self._refs):
            self._find("extra_state", f"the text {ref} is there, and no event names it")
        if not self._reads_texts and not self._is_erased:
            for ref in sorted(self._refs - kept.texts):
                self._find("missing_text", f"the text {ref} is not there")
        for request, kind in sorted(kept.notices - self._notices):
            self._find("extra_state", f"no event brings the notice {kind} of request {request}")

    def _runs(self, rebuilt: Rebuilt) -> dict[str, Run]:
        tenant, session = self._key
        rows = self._store.runs(tenant, session=session, limit=ALL)
        return {row.run.id: _with_cause(row.run, rebuilt.runs.get(row.run.id)) for row in rows}

    def _requests(self) -> dict[str, Request]:
        tenant, session = self._key
        rows = self._store.requests(tenant, session=session, pending=False, limit=ALL)
        return {row.request.id: row.request for row in rows}

    def _compare_rows(self, what: str, expected: dict[str, Any], read: Any) -> None:
        try:
            found = read()
        except StoreTrouble as error:
            if error.code != "store_damaged":
                raise
            self._find("unreadable_state", error.message)
            return
        for id_ in sorted(expected.keys() | found.keys()):
            self._differ(f"{what} {id_}", expected.get(id_), found.get(id_))

    def _compare_calls(self, rebuilt: Rebuilt, kept: Kept) -> None:
        noes = {(run, no.call_key): no for (run, _), no in rebuilt.noes.items()}
        for at in sorted(rebuilt.calls.keys() ^ kept.calls):
            self._differ(f"call {at}", rebuilt.calls.get(at), at if at in kept.calls else None)
        for key in sorted(noes.keys() ^ kept.noes):
            there = key if key in kept.noes else None
            self._differ(f"no {key[1][:12]} of {key[0]}", noes.get(key), there)
        steps = sorted({(at.run, at.step) for at in rebuilt.calls if at in kept.calls})
        for start in range(0, len(steps), STEPS_AT_ONCE):
            part = set(steps[start : start + STEPS_AT_ONCE])
            keys = [key for key in noes if key in kept.noes and any(key[0] == r for r, _ in part)]
            state = self._stored(Names(steps=tuple(sorted(part)), call_keys=tuple(keys)))
            if state is None:
                return
            for at, call in rebuilt.calls.items():
                if (at.run, at.step) in part and at in kept.calls:
                    self._differ(f"call {at}", call, state.calls.get(at))
            for key in keys:
                self._differ(f"no {key[1][:12]} of {key[0]}", noes.pop(key), state.noes.get(key))

    def _differ(self, what: str, expected: object, found: object) -> None:
        if expected == found:
            return
        if found is None:
            self._find("missing_state", f"{what} is not there")
        elif expected is None:
            self._find("extra_state", f"{what} is there, and no event says so")
        else:
            self._find("changed_state", f"{what} is not what the events lead to")


def _with_cause(found: Run, expected: Run | None) -> Run:
    """Give a run with why it rests, which an older version did not write beside it (D7)."""
    if expected is None or not isinstance(expected.state, Resting):
        return found
    if not isinstance(found.state, Resting) or found.state.cause:
        return found
    return changed(found, state=changed(found.state, cause=expected.state.cause))
