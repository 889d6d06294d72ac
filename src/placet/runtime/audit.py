"""Holding the record to itself (H4): the chain, the texts, and the state that follows from them.

Theory of operation. The event log is walked once. Each event's hash is computed anew over the one
before, its seq, instant, kind and body; each text that it names is fetched and held against its
keyed reference; each action against its digest. The state is then what `evolve` makes of the
events, and whatever the store holds of runs, calls, requests, noes, surfaces and transcript must be
the same: a row that was changed by hand differs.

Where the store is under a key, each head has an HMAC, so that who rewrites a whole log, its state
with it, is found, too. What this cannot find, alone: who cuts a tail off both, by putting an older
head with its HMAC back, or puts another database in the place of this one, leaves a record that
agrees with itself. Only a head that was kept elsewhere shows that (`placet.runtime.anchors`).

What cannot be held to anything is said, and is no finding: texts that were erased, and texts and
heads for which no key is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from placet.core import events as e
from placet.core.canonical import Unreadable
from placet.core.changing import changed
from placet.core.codec import NewerValue, UnreadableValue, chain_hash, decode_event, micros_of
from placet.core.commands import Names
from placet.core.errors import NotFound, Refusal, StoreTrouble
from placet.core.evolve import evolve
from placet.core.records import NameKind, entries, step_names
from placet.core.state import Call, No, Open, Request, Resting, Run, Session
from placet.core.values import Occurrence, Payload, action_digest, payload_of
from placet.runtime.files import ALL
from placet.stores.loading import base_of
from placet.stores.store import Recorded, Store

#: How often a session that is being written meanwhile is looked at again.
TRIES = 5

#: After how many events what has closed is put aside.
PUT_ASIDE_EVERY = 200

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


def _head_of(store: Store, tenant: str, session: str) -> tuple[int, str]:
    head = store.head(tenant, session)
    if head is None:
        raise NotFound("session_not_found", "There is no such session.", session=session)
    return head


class _Walk:
    """One walk over a session's log, and what is found on it."""

    def __init__(self, store: Store, tenant: str, session: str) -> None:
        self._store = store
        self._key = (tenant, session)
        self._findings: list[Finding] = []
        self._salt = ""
        self._texts: set[str] = set()
        self._unchecked: dict[str, None] = {}
        self._reads_texts = True
        self._places: dict[tuple[str, int, int], tuple[str, str]] = {}
        self._names: dict[tuple[str, NameKind, str], int] = {}

    def verified(self) -> Verified:
        tenant, session = self._key
        stored = self._stored(Names())
        self._salt = "" if stored is None else stored.salt
        start = datetime.fromtimestamp(0, UTC)
        rebuilt: _Rebuilt | None = _Rebuilt(
            Session(tenant=tenant, id=session, salt=self._salt, now=start)
        )
        seq, head = 0, ""
        for row in self._store.events(tenant, session):
            if row.seq != seq + 1:
                self._find("seq_gap", f"seq {row.seq} follows {seq}: events are missing", row.seq)
                rebuilt = None
            self._check_chain(row, head)
            seq, head = row.seq, row.hash
            event = self._event(row)
            if event is None:
                rebuilt = None
                continue
            self._check_event(event, row.seq)
            if rebuilt is not None and (wrong := rebuilt.take(event, row.at)):
                self._find("impossible_event", f"{row.kind} cannot follow: {wrong}", row.seq)
                rebuilt = None
        self._check_head(seq, head)
        texts = self._check_standing(rebuilt)
        if rebuilt is not None:
            self._compare(rebuilt)
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
                self._text(value.ref, seq)
        if isinstance(event, e.CallProposed) and (body := self._text(event.action.ref, seq)):
            try:
                digest = action_digest(json.loads(body), generation=event.generation)
            except (ValueError, TypeError, Unreadable):
                digest = ""
            if digest != event.digest:
                what = f"the action of {event.at} is not what its digest stands for"
                self._find("digest_mismatch", what, seq)
        for entry in entries([event]):
            place = (entry.run, entry.step, entry.index)
            kind, _ = self._places.get(place, (entry.kind, ""))
            self._places[place] = (kind, entry.payload.ref)
        for each in step_names([event]):
            self._names.setdefault((each.run, each.kind, each.name), each.step)

    def _text(self, ref: str, seq: int) -> str:
        """Fetch a text, and hold it against its reference once; empty where it cannot be had."""
        if not self._reads_texts:
            return ""
        body, is_changed = "", False
        try:
            body = self._store.payload(*self._key, ref)
            is_changed = payload_of(self._salt, body).ref != ref
        except NotFound as error:
            if error.code == "erased":
                return self._no_texts("the texts were erased")
            if ref not in self._texts:
                self._find("missing_text", f"the text {ref} is not there", seq)
        except StoreTrouble as error:
            if error.code in _UNREADABLE:
                return self._no_texts(f"the texts are sealed: {error.message}")
            if error.code not in _DAMAGED:
                raise
            is_changed = True
        if is_changed and ref not in self._texts:
            self._find("changed_text", f"the text {ref} was changed", seq)
        self._texts.add(ref)
        return body

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

    def _check_standing(self, rebuilt: _Rebuilt | None) -> str:
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

    def _compare(self, rebuilt: _Rebuilt) -> None:
        rebuilt.put_aside()
        if state := self._stored(Names()):
            if state.erased != rebuilt.state.erased:
                self._find("changed_state", "whether it was erased is not what the events say")
            if state.ended != rebuilt.state.ended:
                self._find("changed_state", "whether it has ended is not what the events say")
            if dict(state.surfaces) != dict(rebuilt.state.surfaces):
                self._find("changed_state", "the surfaces are not what the events lead to")
            if dict(state.grants) != dict(rebuilt.state.grants):
                self._find("changed_state", "the grants are not what the events lead to")
            self._compare_calls(rebuilt)
        self._compare_rows("run", rebuilt.runs, lambda: self._runs(rebuilt))
        self._compare_rows("request", rebuilt.requests, self._requests)
        self._compare_pending(rebuilt)
        self._compare_transcript(rebuilt)
        for (run, kind, name), step in self._names.items():
            found = self._store.step_named(*self._key, run, kind=kind, name=name)
            self._differ(f"the {kind} {name!r} of run {run}", step, found)

    def _runs(self, rebuilt: _Rebuilt) -> dict[str, Run]:
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

    def _compare_pending(self, rebuilt: _Rebuilt) -> None:
        tenant, session = self._key
        try:
            rows = self._store.requests(tenant, session=session, limit=ALL)
        except StoreTrouble:  # Found and named where all requests are read.
            return
        requests = rebuilt.requests.values()
        expected = {request.id for request in requests if isinstance(request.state, Open)}
        for id_ in sorted(expected ^ {row.request.id for row in rows}):
            self._find("changed_state", f"request {id_} is listed otherwise than it stands")

    def _compare_calls(self, rebuilt: _Rebuilt) -> None:
        steps = sorted({(at.run, at.step) for at in rebuilt.calls})
        expected = {(run, no.call_key): no for (run, _), no in rebuilt.noes.items()}
        for start in range(0, len(steps), STEPS_AT_ONCE):
            part = steps[start : start + STEPS_AT_ONCE]
            keys = tuple(key for key in expected if any(key[0] == run for run, _ in part))
            state = self._stored(Names(steps=tuple(part), call_keys=keys))
            if state is None:
                return
            of_part = {at for at in rebuilt.calls if (at.run, at.step) in set(part)}
            there = {at for at in state.calls if (at.run, at.step) in set(part)}
            for at in sorted(of_part | there):
                self._differ(f"call {at}", rebuilt.calls.get(at), state.calls.get(at))
            for key in keys:
                self._differ(f"no {key[1][:12]} of {key[0]}", expected[key], state.noes.get(key))
                expected.pop(key)

    def _compare_transcript(self, rebuilt: _Rebuilt) -> None:
        tenant, session = self._key
        for run in rebuilt.runs if self._reads_texts else ():
            try:
                rows = self._store.transcript(tenant, session, run)
            except StoreTrouble as error:
                if error.code not in _DAMAGED:
                    raise
                self._find("unreadable_state", f"transcript of {run}: {error.message}")
                continue
            found = {
                (run, row.step, row.index): (row.kind, payload_of(self._salt, row.body).ref)
                for row in rows
            }
            expected = {place: kept for place, kept in self._places.items() if place[0] == run}
            for place in sorted(expected.keys() | found.keys()):
                self._differ(
                    f"transcript {place[0]}/{place[1]}/{place[2]}",
                    expected.get(place),
                    found.get(place),
                )

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


class _Rebuilt:
    """The state that a log leads to. What has closed is put aside, so that a walk is linear."""

    def __init__(self, state: Session) -> None:
        self.state = state
        self.runs: dict[str, Run] = {}
        self.calls: dict[Occurrence, Call] = {}
        self.requests: dict[str, Request] = {}
        self.noes: dict[tuple[str, str], No] = {}
        self._steps: dict[tuple[str, int], set[Occurrence]] = {}
        self._unspent: set[tuple[Occurrence, int]] = set()

    def take(self, event: e.Event, at: datetime) -> str:
        """Go on by one event; what is wrong where it cannot follow, else an empty text."""
        self._recall(event)
        try:
            self.state = evolve(replace(self.state, now=at), event)
        except (KeyError, AssertionError, AttributeError) as error:
            return f"{type(error).__name__}: {error}"
        if self.state.seq % PUT_ASIDE_EVERY == 0:
            self.put_aside()
        return self._unapproved(event)

    def _unapproved(self, event: e.Event) -> str:
        """Find an action that was asked about and began without an approval (G1, G2)."""
        match event:
            case e.RequestOpened(kind="approval", at=at):
                self._unspent.add((at, self.state.calls[at].version))
            case e.AttemptBegun(at=at):
                action = (at, self.state.calls[at].version)
                if event.request is None and action in self._unspent:
                    return "it began without its approval"
                self._unspent.discard(action)
            case _:
                pass
        return ""

    def put_aside(self) -> None:
        """Keep what the state holds, and go on with what is open."""
        self.runs.update(self.state.runs)
        self.calls.update(self.state.calls)
        self.requests.update(self.state.requests)
        self.noes.update(self.state.noes)
        for at in self.state.calls:
            self._steps.setdefault((at.run, at.step), set()).add(at)
        self.state = base_of(self.state)

    def _recall(self, event: e.Event) -> None:
        """Bring back what an event names and has been put aside."""
        state = self.state
        named = list(_requests_of(event))
        requests = {
            id_: self.requests[id_]
            for id_ in named
            if id_ not in state.requests and id_ in self.requests
        }
        places = list(_occurrences_of(event)) + [
            (requests.get(id_) or state.requests[id_]).at
            for id_ in named
            if id_ in requests or id_ in state.requests
        ]
        runs = {
            run: self.runs[run]
            for run in [*(at.run for at in places), *_runs_of(event)]
            if run not in state.runs and run in self.runs
        }
        calls = {
            at: self.calls[at]
            for place in places
            for at in self._steps.get((place.run, place.step), ())
            if at not in state.calls
        }
        noes = {}
        if isinstance(event, e.CallEnded):
            key = (event.at.run, event.call_key)
            if key not in state.noes and key in self.noes:
                noes[key] = self.noes[key]
        if runs or calls or requests or noes:
            self.state = replace(
                state,
                runs={**runs, **state.runs},
                calls={**calls, **state.calls},
                requests={**requests, **state.requests},
                noes={**noes, **state.noes},
            )


def _requests_of(event: e.Event) -> Iterator[str]:
    for name in ("request", "successor", "replaces"):
        if isinstance(value := getattr(event, name, None), str):
            yield value


def _runs_of(event: e.Event) -> Iterator[str]:
    for name in ("run", "child"):
        if isinstance(value := getattr(event, name, None), str):
            yield value


def _occurrences_of(event: e.Event) -> Iterator[Occurrence]:
    for name in ("at", "parent"):
        if isinstance(value := getattr(event, name, None), Occurrence):
            yield value
