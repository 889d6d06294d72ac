"""How tired people may be of deciding: how often they are asked, how fast and how they answer.

A rule that everybody approves within seconds asks for a signature, and not for a decision. The
figures are counted from the event log, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from placet.core import events as e
from placet.core.codec import decode_event
from placet.stores.store import Recorded

#: A decision that comes sooner after its request was opened can hardly have read it.
QUICK = timedelta(seconds=3)


@dataclass(slots=True)
class OfRule:
    """What became of the requests of one rule."""

    asked: int = 0
    approved: int = 0
    rejected: int = 0
    edited: int = 0
    expired: int = 0
    quick: int = 0
    decided: int = 0
    waited: timedelta = timedelta(0)

    @property
    def approve_rate(self) -> float | None:
        """Give the part of the decisions that were approvals; None: nothing was decided."""
        return self.approved / self.decided if self.decided else None

    @property
    def mean_wait(self) -> timedelta | None:
        """Give how long people took on average; None: nothing was decided."""
        return self.waited / self.decided if self.decided else None


@dataclass(slots=True)
class Fatigue:
    """The figures of some sessions: by rule, and how many runs there were."""

    runs: int = 0
    rules: dict[str, OfRule] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """Count the approval requests."""
        return sum(rule.asked for rule in self.rules.values())

    @property
    def asks_per_run(self) -> float | None:
        """Give how often a run asks on average; None: there was no run."""
        return self.asked / self.runs if self.runs else None


@dataclass(frozen=True, slots=True)
class _Opened:
    rule: str
    at: datetime


def count(sessions: Iterable[Iterable[Recorded]]) -> Fatigue:
    """Count the figures from the event logs of sessions.

    A vote of a quorum counts as a decision of its own; withdrawn votes were decisions, too. An edit
    is one decision, whose own vote for the new version is none. Raises NewerValue where a log holds
    what only a newer placet knows.
    """
    found = Fatigue()
    for log in sessions:
        opened: dict[str, _Opened] = {}
        for recorded in log:
            _count(found, opened, recorded.at, decode_event(recorded.kind, recorded.body))
    return found


def _count(found: Fatigue, opened: dict[str, _Opened], at: datetime, event: e.Event) -> None:
    match event:
        case e.RunStarted(parent=None):
            found.runs += 1
        case e.RequestOpened(kind="approval", request=request, rule=rule):
            opened[request] = _Opened(rule, at)
            found.rules.setdefault(rule, OfRule()).asked += 1
        case e.VoteCast(request=request) if opened[request].at == at:
            found.rules[opened[request].rule].asked -= 1  # An editor's own, for the new version.
        case e.VoteCast(request=request):
            _decided(found, opened.get(request), at).approved += 1
        case e.RequestRejected(request=request) if request in opened:
            _decided(found, opened[request], at).rejected += 1
        case e.RequestEdited(request=request):
            _decided(found, opened.get(request), at).edited += 1
        case e.RequestExpired(request=request) if request in opened:
            found.rules[opened[request].rule].expired += 1
        case _:
            pass


def _decided(found: Fatigue, request: _Opened | None, at: datetime) -> OfRule:
    assert request is not None, "only what was opened is decided"
    rule, waited = found.rules[request.rule], at - request.at
    rule.decided += 1
    rule.waited += waited
    rule.quick += waited < QUICK
    return rule
