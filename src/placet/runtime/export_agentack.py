"""A session's log as a trace that `agentack check` judges: an outside opinion on the promises.

The trace is made of the events alone, and each of its lines of the event that it stands for: what
was presented is found by the digest of the request, and what was executed by the key of the
attempt, so that a log in which they differ makes a trace in which they differ. Nothing is decided
here, and `evolve` is not asked.

- An action is one version of a call. Its operation is how it was ruled: `ask`, `grant` (a standing
  one covered it) or `allow`. A policy of agentack names the tools, as `issue-refund:*`, or only
  what was asked about, as `issue-refund:ask`.
- Each vote that a quorum needs has an approval id of its own: the request's, then `<request>.2`.
- An edit, a changed world and every end of a request deny what is still undecided, and block the
  action. So do timers: nobody says "no" at a deadline, and the trace has a denial.
- More people being asked (an escalation) is a denial by the timer, and a new question.
- Every decision says until when it is good. Nothing is an interrupt: a run that waits is not ended,
  and a run that was cancelled ends no session.
- Declared reads that policy allows, denied calls and answers to questions are no approvals, and
  stand in no trace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placet.core import events as e
from placet.core.codec import decode_event
from placet.core.values import Occurrence, idempotency_key
from placet.runtime.state_files import instant
from placet.stores.store import Recorded

#: The version of the trace's form.
SCHEMA_VERSION = 2

#: Arguments that would make a longer line stand by their digest alone.
LONGEST_ARGUMENTS_BYTES = 500_000

#: agentack reads no deeper values.
DEEPEST = 18

Line = dict[str, Any]


@dataclass(slots=True)
class _Slot:
    """One approval id: one person's part of a request."""

    id: str
    by: str = ""
    decision: str = ""


@dataclass(slots=True)
class _Action:
    """One version of a call."""

    id: str
    intent: str
    digest: str
    document: Line
    is_over: bool = False
    blocked_by: str | None = None


@dataclass(slots=True)
class _Asked:
    """An approval request, and its approval ids."""

    id: str
    action: str
    presented: Line
    intent: str
    quorum: int
    until: datetime
    slots: list[_Slot] = field(default_factory=list)

    @property
    def open_slots(self) -> list[_Slot]:
        return [slot for slot in self.slots if not slot.decision]


def trace(
    rows: Iterable[Recorded], *, tenant: str, session: str, read: Callable[[str], str | None]
) -> Iterator[Line]:
    """Give the lines of a session's trace; `read` gives a text, or None where it is no more."""
    log = [(row.at, decode_event(row.kind, row.body)) for row in rows]
    made = _Trace(f"{tenant}/{session}", read, log)
    for at, event in _in_order(log):
        yield from made.take(at, event)
    yield from made.end()


def _in_order(log: list[tuple[datetime, e.Event]]) -> list[tuple[datetime, e.Event]]:
    """Put the end of a request before the version that takes its place, as a trace tells it."""
    ordered: list[tuple[datetime, e.Event]] = []
    for at, event in log:
        ends = isinstance(event, (e.RequestEdited, e.RequestVoided)) and event.successor
        place = len(ordered)
        while ends and place and _makes_way_for(ordered[place - 1][1], ends):
            place -= 1
        ordered.insert(place, (at, event))
    return ordered


def _makes_way_for(event: e.Event, successor: str) -> bool:
    if isinstance(event, e.RequestOpened):
        return event.request == successor
    return isinstance(event, e.CallProposed) and event.version > 1


class _Trace:
    """The trace so far: what was proposed, asked, decided and begun."""

    def __init__(
        self,
        session: str,
        read: Callable[[str], str | None],
        log: list[tuple[datetime, e.Event]],
    ) -> None:
        self._session = session
        self._read = read
        self._now = log[0][0] if log else datetime.fromtimestamp(0).astimezone()
        self._asked_about = _asked_about(log)
        self._taken_back = _taken_back(log)
        self._tops: dict[str, str] = {}
        self._actions: dict[str, _Action] = {}
        self._current: dict[Occurrence, _Action] = {}
        self._by_digest: dict[str, _Action] = {}
        self._by_key: dict[str, _Action] = {}
        self._requests: dict[str, _Asked] = {}

    def take(self, at: datetime, event: e.Event) -> Iterator[Line]:
        """Give the lines of one event; most events have none."""
        self._now = at
        match event:
            case e.RunStarted(run=run, parent=parent):
                self._tops[run] = run if parent is None else self._tops.get(parent.run, parent.run)
            case e.CallProposed() if event.kind != "question":
                yield from self._proposed(event)
            case e.RequestOpened(kind="approval"):
                yield from self._opened(event)
            case e.VoteCast():
                yield from self._voted(event)
            case e.VoteWithdrawn(request=request, by=by):
                yield from self._took_back(request, by, asks_again=True)
            case e.VotesDropped(request=request, people=people):
                for by in people:
                    yield from self._took_back(request, by, asks_again=event.reopened)
            case e.RequestEscalated(request=request, approvers=approvers) if approvers:
                yield from self._asked_more(request)
            case e.RequestRejected(request=request, by=by):
                yield from self._closed(request, f"rejected by {by}")
            case e.RequestEdited(request=request, by=by):
                yield from self._closed(request, f"edited by {by}")
            case e.RequestVoided(request=request, changed=changed):
                yield from self._closed(request, f"changed: {', '.join(changed)}")
            case e.RequestExpired(request=request, unreachable=channels):
                yield from self._closed(request, "unreachable" if channels else "expired")
            case e.RequestCancelled(request=request):
                yield from self._closed(request, "cancelled")
            case e.RequestSuperseded(request=request):
                yield from self._closed(request, "superseded")
            case e.AttemptBegun(purpose="run"):
                yield from self._begun(event)
            case e.CallDelegated(at=place, request=request):
                if (action := self._current.get(place)) is not None:
                    yield from self._executed(action.id, action.document, action, request)
            case e.CallEnded(at=place, code=code):
                if (action := self._current.get(place)) is not None:
                    yield from self._blocked(action, code)
            case _:
                pass

    def end(self) -> Iterator[Line]:
        """End the trace; what still waits then is undecided in it, which is no fault but a gap."""
        yield self._line("session_end", reason="the log ends here")

    # --- what is asked ------------------------------------------------------------------------

    def _proposed(self, event: e.CallProposed) -> Iterator[Line]:
        before = self._current.get(event.at)
        if before is not None:
            yield from self._blocked(before, "another version takes its place")
        is_asked = (event.at, event.version) in self._asked_about
        ruled = "ask" if is_asked else "grant" if event.grant is not None else "allow"
        action = _Action(
            id=f"{event.at}#{event.version}",
            intent=before.intent if before is not None else self._intent(event),
            digest=event.digest,
            document={
                "tool": event.tool,
                "operation": ruled,
                "resource": event.surface,
                "parameters": self._arguments(event),
            },
        )
        self._actions[action.id] = self._current[event.at] = action
        self._by_digest[event.digest] = self._by_key[idempotency_key(event.digest)] = action
        yield self._line(
            "action_proposed",
            action_id=action.id,
            intent_id=action.intent,
            action=action.document,
        )

    def _intent(self, event: e.CallProposed) -> str:
        """Name what a call is after: the same for the same call of a run, once the last is over.

        So a call that was denied, and is proposed and run again unasked, is seen (G6).
        """
        top = self._tops.get(event.at.run, event.at.run)
        name = f"{top}:{event.call_key[:16]}"
        beside = [
            each
            for each in self._actions.values()
            if not each.is_over and each.intent.split("~")[0] == name
        ]
        return f"{name}~{len(beside)}" if beside else name

    def _arguments(self, event: e.CallProposed) -> Line:
        by_digest = {"action_digest": event.digest}
        body = self._read(event.action.ref)
        if body is None:
            return by_digest
        document = json.loads(body)
        found = document.get("arguments")
        if not isinstance(found, dict):
            names = ("raw_arguments", "raw_arguments_hex")
            found = {name: document[name] for name in names if name in document}
        if not found or _depth(found) > DEEPEST or len(body) > LONGEST_ARGUMENTS_BYTES:
            return by_digest
        return found

    def _opened(self, event: e.RequestOpened) -> Iterator[Line]:
        shown = self._by_digest.get(event.digest)
        current = self._current.get(event.at)
        name = current.id if current is not None else str(event.at)
        asked = _Asked(
            id=event.request,
            action=name,
            presented=_unknown(event.tool, event.digest) if shown is None else shown.document,
            intent="" if current is None else current.intent,
            quorum=event.needs.quorum,
            until=event.deadline_at,
        )
        self._requests[event.request] = asked
        for _ in range(max(1, asked.quorum)):
            yield self._ask(asked)

    def _ask(self, asked: _Asked) -> Line:
        number = len(asked.slots) + 1
        slot = _Slot(asked.id if number == 1 else f"{asked.id}.{number}")
        asked.slots.append(slot)
        return self._line(
            "approval_requested",
            action_id=asked.action,
            intent_id=asked.intent,
            approval_id=slot.id,
            action=asked.presented,
        )

    def _asked_more(self, request: str) -> Iterator[Line]:
        asked = self._requests.get(request)
        if asked is not None:
            for slot in asked.open_slots:
                yield self._decide(asked, slot, "deny")
                yield self._ask(asked)

    # --- what is decided ----------------------------------------------------------------------

    def _voted(self, event: e.VoteCast) -> Iterator[Line]:
        asked = self._requests.get(event.request)
        if asked is None:
            return
        if not [slot for slot in asked.open_slots if not slot.by]:
            yield self._ask(asked)
        slot = next(slot for slot in asked.open_slots if not slot.by)
        slot.by = event.by
        if self._taken_back.get((event.request, event.by)):
            return  # That vote does not stand in the end: it is told once it was taken back.
        meant = self._by_digest.get(event.digest)
        action = event.digest if meant is None else meant.id
        yield self._decide(asked, slot, "allow", action=action)

    def _took_back(self, request: str, by: str, *, asks_again: bool) -> Iterator[Line]:
        asked = self._requests.get(request)
        if asked is None:
            return
        left = self._taken_back.get((request, by), 0)
        self._taken_back[(request, by)] = left - 1
        for slot in [slot for slot in asked.open_slots if slot.by == by][:1]:
            yield self._decide(asked, slot, "deny")
            if asks_again:
                yield self._ask(asked)

    def _closed(self, request: str, why: str) -> Iterator[Line]:
        asked = self._requests.get(request)
        if asked is None:
            return
        if not asked.open_slots:  # It had been approved, and is denied after all.
            yield self._ask(asked)
        denied = asked.open_slots
        for slot in denied:
            yield self._decide(asked, slot, "deny")
        action = self._actions.get(asked.action)
        if action is not None:
            action.blocked_by = denied[0].id
            yield from self._blocked(action, why)

    def _decide(
        self, asked: _Asked, slot: _Slot, decision: str, *, action: str | None = None
    ) -> Line:
        slot.decision = decision
        return self._line(
            "approval_decision",
            action_id=action or asked.action,
            intent_id=asked.intent,
            approval_id=slot.id,
            decision=decision,
            expires_at=instant(asked.until),
        )

    # --- what is done -------------------------------------------------------------------------

    def _begun(self, event: e.AttemptBegun) -> Iterator[Line]:
        """Give what was executed, by the key of the attempt; a retry of it is no second one."""
        current = self._current.get(event.at)
        if current is None:
            return
        done = self._by_key.get(event.key)
        if done is current and current.is_over and event.request is None:
            return
        document = _unknown(current.document["tool"], event.key) if done is None else done.document
        yield from self._executed(current.id, document, current, event.request)

    def _executed(
        self, name: str, document: Line, action: _Action, request: str | None
    ) -> Iterator[Line]:
        action.is_over = True
        more: Line = {}
        if request is not None:
            asked = self._requests.get(request)
            allowed = [] if asked is None else [s for s in asked.slots if s.decision == "allow"]
            more["approval_id"] = allowed[-1].id if allowed else request
        yield self._line(
            "action_executed", action_id=name, intent_id=action.intent, action=document, **more
        )

    def _blocked(self, action: _Action, why: str) -> Iterator[Line]:
        if action.is_over:
            return
        action.is_over = True
        more = {} if action.blocked_by is None else {"approval_id": action.blocked_by}
        yield self._line(
            "action_blocked", action_id=action.id, intent_id=action.intent, reason=why, **more
        )

    # --- lines --------------------------------------------------------------------------------

    def _line(self, kind: str, **more: Any) -> Line:
        return {
            "schema_version": SCHEMA_VERSION,
            "type": kind,
            "timestamp": instant(self._now),
            "session_id": self._session,
            **{name: value for name, value in more.items() if value != ""},
        }


def _unknown(tool: str, digest: str) -> Line:
    """Give an action that nobody has proposed."""
    return {"tool": tool, "operation": "ask", "parameters": {"unknown": digest}}


def _asked_about(log: Iterable[tuple[datetime, e.Event]]) -> set[tuple[Occurrence, int]]:
    """Give the versions of calls that people were asked about."""
    found: set[tuple[Occurrence, int]] = set()
    versions: dict[Occurrence, int] = {}
    for _, event in log:
        if isinstance(event, e.CallProposed):
            versions[event.at] = event.version
        elif isinstance(event, e.RequestOpened) and event.kind == "approval":
            found.add((event.at, versions.get(event.at, 0)))
    return found


def _taken_back(log: Iterable[tuple[datetime, e.Event]]) -> dict[tuple[str, str], int]:
    """Count the votes that were taken back later, or dropped, by request and person."""
    found: dict[tuple[str, str], int] = {}
    for _, event in log:
        if isinstance(event, e.VoteWithdrawn):
            people: tuple[str, ...] = (event.by,)
        elif isinstance(event, e.VotesDropped):
            people = event.people
        else:
            continue
        for by in people:
            found[(event.request, by)] = found.get((event.request, by), 0) + 1
    return found


def _depth(value: Any) -> int:
    deepest, here = 0, [(value, 1)]
    while here:
        each, depth = here.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            here += [(part, depth + 1) for part in each.values()]
        elif isinstance(each, list):
            here += [(part, depth + 1) for part in each]
    return deepest
