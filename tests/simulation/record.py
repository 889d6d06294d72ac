"""A second opinion on what a session holds: kept from its events alone, by no code of placet's.

Only what the promises need is kept. `Hearing` is one commit as the rules are told of it: who
issued the command, when it was stamped, and what was on record before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placet.core.commands import Command
from placet.core.events import GrantGiven
from placet.core.values import Escalation, Holder, Occurrence, Recovery
from tests.simulation.machine import Process

EVERYWHERE = "*"


@dataclass(slots=True)
class Attempt:
    """An intent. `over` says how it ended: "" while nobody has said."""

    number: int
    key: str
    purpose: str
    holder: Holder
    fence: int
    until: datetime
    seq: int
    entered: int = 0
    over: str = ""
    was_lost: bool = False
    lost_at: float = 0.0


@dataclass(slots=True)
class Version:
    """An action that a call has stood for."""

    number: int
    digest: str
    document: dict[str, Any]
    request: str = ""
    asked_seq: int = 0


@dataclass(slots=True)
class Call:
    """A tool call. `code` is its result's; `settlements` are the requests to settle it."""

    at: Occurrence
    tool: str
    kind: str
    surface: str
    order: int
    recovery: Recovery
    versions: list[Version] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    settlements: list[str] = field(default_factory=list)
    child: str = ""
    code: str = ""
    ended_by: str = ""
    undoing: str = ""
    withheld: bool = False
    unwound: str = ""

    @property
    def now(self) -> Version:
        return self.versions[-1]

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def under_way(self) -> bool:
        """Say whether what it began has not come to an end that is on record."""
        if self.undoing or self.withheld:
            return True
        return bool(self.attempts) and not self.code

    @property
    def n(self) -> int | None:
        found = self.now.document.get("arguments", {}).get("n") if self.versions else None
        return found if isinstance(found, int) else None


@dataclass(slots=True)
class Request:
    """A question to people. `closed` says how it was closed, "" while it waits."""

    id: str
    kind: str
    at: Occurrence
    digest: str
    order: int
    surface: str
    approvers: tuple[str, ...]
    quorum: int
    excluded: str
    requester: str
    rule: str
    deadline: datetime
    opened: datetime
    hold: str = "session"
    escalation: tuple[Escalation, ...] = ()
    escalated: int = 0
    reached: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    votes: list[str] = field(default_factory=list)
    voters: set[str] = field(default_factory=set)
    closed: str = ""
    lapsed: bool = False

    def people(self, now: datetime) -> set[str]:
        """Name those who were asked by an instant: escalation reaches more (G9)."""
        due = [step.approvers for step in self.escalation if now >= self.opened + step.after]
        return {*self.approvers, *(each for people in due for each in people)} - {self.excluded}

    def is_due(self, now: datetime) -> bool:
        """Say whether somebody has to close it, or tell more people of it."""
        if self.closed or self.lapsed:
            return False
        due = sum(now >= self.opened + step.after for step in self.escalation)
        return now >= self.deadline or (self.waits and due > self.escalated)

    def holds(self, surface: str) -> bool:
        """Say whether it holds effects on a surface while it waits (G8)."""
        return self.hold == "session" or overlaps(self.surface, surface)

    @property
    def approved(self) -> bool:
        return not self.closed and self.kind == "approval" and len(self.votes) >= self.quorum

    @property
    def waits(self) -> bool:
        """Say whether people are still to act on it."""
        return not self.closed and not self.approved


@dataclass(slots=True)
class Grant:
    """A standing permission (G12). `left` calls may begin under it."""

    event: GrantGiven
    left: int


@dataclass(slots=True)
class Run:
    """A run, and who may drive it."""

    id: str
    kind: str
    requester: str
    parent: Occurrence | None
    on_failure: str = "continue"
    saga: str = "step"
    step: int = 0
    fence: int = 0
    holder: Holder | None = None
    until: datetime | None = None
    stopping: str = ""
    stop: str = ""
    sizes: dict[int, int] = field(default_factory=dict)
    stands: list[Call] = field(default_factory=list)


@dataclass(slots=True)
class Record:
    """A session."""

    tenant: str
    session: str
    seq: int = 0
    ended: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    calls: dict[Occurrence, Call] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    intents: list[tuple[Call, Attempt]] = field(default_factory=list)
    noes: set[tuple[str, str]] = field(default_factory=set)
    grants: dict[str, Grant] = field(default_factory=dict)

    def top(self, run: str) -> str:
        """Name the run that a run stands under."""
        while (parent := self.runs[run].parent) is not None:
            run = parent.run
        return run

    def under(self, run: str, above: str) -> bool:
        """Say whether a run stands under another one, or is it."""
        while run != above:
            parent = self.runs[run].parent
            if parent is None:
                return False
            run = parent.run
        return True

    def refused(self, run: str, call_key: str) -> bool:
        """Say whether a call was answered "no" in a run, or by people beside it (G6)."""
        return bool({(run, call_key), (self.top(run), call_key)} & self.noes)

    def generation(self, surface: str) -> int:
        """Count the effects begun where those on `surface` touch."""
        return sum(overlaps(call.surface, surface) for call, _ in self.intents)


def overlaps(one: str, other: str) -> bool:
    """Say whether effects on two surfaces touch the same part of the world."""
    return one == other or EVERYWHERE in (one, other)


@dataclass(slots=True)
class Hearing:
    """One event of a commit, as the rules hear of it.

    `speaker` is the person whose decision it carries out: a name, and what kind of principal. `at`
    is the world's own time, in seconds.
    """

    record: Record
    now: datetime
    command: Command
    process: Process | None
    speaker: tuple[str, str] | None
    fault: Callable[[str, str], None]
    authority: Callable[[Hearing, str, Request | None], set[str]]
    at: float = 0.0

    def may_decide(self, rule: str, request: Request | None = None) -> set[str]:
        """Name those who have authority now to decide a request by a rule, or whatever it asks."""
        return self.authority(self, rule, request)

    def hold(self, promise: str, condition: bool, otherwise: str) -> None:
        """Hold a promise, or say what breaks it."""
        if not condition:
            self.fault(promise, otherwise)

    @property
    def holder(self) -> Holder | None:
        return None if self.process is None else self.process.holder

    def request(self, request: str) -> Request:
        found = self.record.requests.get(request)
        if found is None:
            self.fault("G11", f"an event names the request {request}, which is not the session's")
            raise KeyError(request)
        return found

    def call(self, at: Occurrence) -> Call:
        found = self.record.calls.get(at)
        if found is None:
            self.fault("G11", f"an event names the call {at}, which is not the session's")
            raise KeyError(str(at))
        return found
