"""Who may decide, and the mark that keeps tools from deciding (G10).

Approvers are people, named in the settings and in the policy file. Being on this machine is no
identity: the command line asks for the account at a terminal, or for a token. What a tool's body
starts carries a mark, in its context and in the environment of its child processes, under which
nothing decides.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from placet.core.canonical import JsonValue
from placet.core.deciders import StandIns, may_decide, with_heirs
from placet.core.errors import NotPermitted
from placet.core.state import Request
from placet.runtime.policies import PolicyFile, Standing, version_of
from placet.runtime.seen_kinds import Succeeded

#: How long a request waits for people where nothing else is said.
REQUEST_LASTS = timedelta(hours=24)

#: Set in the environment while a tool's body runs, and so in what it starts.
MARK = "PLACET_INSIDE_TOOL"

_inside: ContextVar[str] = ContextVar("placet_inside_tool", default="")
_bodies: list[str] = []
_bodies_change = threading.Lock()

#: The mark under which this process itself was started, if a tool started it.
_STARTED_BY = os.environ.get(MARK, "")


#: Says of a call what a trusted source makes of it: a label and a value each.
Annotator = Callable[[str, Mapping[str, JsonValue]], Mapping[str, JsonValue]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The people who may decide, by the settings and by the policy file, as both are now.

    `annotators` are the sources that the policy trusts, by name.
    """

    approvers: tuple[str, ...]
    policy: PolicyFile | None = None
    annotators: Mapping[str, Annotator] = field(default_factory=dict)
    succeeded: Succeeded = field(default_factory=Succeeded, compare=False, repr=False)

    def today(self) -> Standing:
        """Look at the policy file, and say what is in force."""
        if self.policy is None:
            return Standing(approvers=self.approvers, version=version_of(self.approvers))
        return self.policy.now(self.approvers)

    @property
    def version(self) -> str:
        """Name this state of affairs, for the record."""
        return self.today().version

    def deciders(self, request: Request, *, now: datetime) -> Deciders:
        """Say who may decide a request today.

        Raises PolicyTrouble where the policy is broken: then nobody knows.
        """
        return deciders_by(self._in_force(), request.rule, request, now=now)

    def left(self, request: Request, *, now: datetime) -> frozenset[str]:
        """Give all who may decide a request by its deadline: now, or once a step reaches them.

        Raises PolicyTrouble where the policy is broken: then nobody knows.
        """
        last = max(now, request.deadline_at - timedelta(microseconds=1))
        found = (self.deciders(request, now=at).may_decide(request, now=at) for at in (now, last))
        return frozenset().union(*found)

    def people(self, rule: str = "", *, requester: str = "", now: datetime) -> frozenset[str]:
        """Give those who may decide whatever a rule asks, or what no rule of the file asks.

        Raises PolicyTrouble where the policy is broken: then nobody knows.
        """
        return people_by(self._in_force(), rule, requester=requester, now=now)

    def _in_force(self) -> Standing:
        standing = self.today()
        if standing.trouble is not None:
            raise standing.trouble
        return standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciders:
    """Those whom policy names today for a request, and those who stand in for others.

    Commands carry both, and core holds them against whom was asked.
    """

    eligible: frozenset[str]
    stand_ins: StandIns

    def may_decide(self, request: Request, *, now: datetime) -> frozenset[str]:
        """Give those who may decide the request at an instant."""
        return may_decide(request, self.eligible, self.stand_ins, now=now)


def deciders_by(standing: Standing, rule: str, request: Request, *, now: datetime) -> Deciders:
    """Say who may decide a request under a policy, by the rule that asks today."""
    if standing.policy is None:
        named = frozenset(standing.approvers)
        stand_ins = with_heirs(request, named, {}, dict.fromkeys(named))
        return Deciders(eligible=named, stand_ins=stand_ins)
    from placet.policy.deciders import deciders  # Where there is a policy file alone.
    from placet.policy.ruling import Circle

    circle = Circle(approvers=standing.approvers, now=now, lasts=REQUEST_LASTS)
    eligible, stand_ins = deciders(standing.policy, rule, circle, request)
    return Deciders(eligible=eligible, stand_ins=stand_ins)


def people_by(standing: Standing, rule: str, *, requester: str, now: datetime) -> frozenset[str]:
    """Give those who may decide today whatever a rule asks on behalf of somebody."""
    if standing.policy is None:
        return frozenset(standing.approvers)
    from placet.policy.deciders import people_today
    from placet.policy.ruling import Circle

    circle = Circle(approvers=standing.approvers, now=now, lasts=REQUEST_LASTS)
    return people_today(standing.policy, rule, requester, circle)


@contextmanager
def inside_tool(call: str) -> Iterator[None]:
    """Mark what runs within as started by a tool."""
    token = _inside.set(call)
    with _bodies_change:
        _bodies.append(call)
        os.environ[MARK] = call
    try:
        yield
    finally:
        _inside.reset(token)
        with _bodies_change:
            _bodies.remove(call)
            if not _bodies and _STARTED_BY:
                os.environ[MARK] = _STARTED_BY
            elif not _bodies:
                os.environ.pop(MARK, None)


def still_inside() -> AbstractContextManager[None]:
    """Keep the mark of the context for as long as this lasts, which may be longer than its call."""
    call = _inside.get()
    return inside_tool(call) if call else nullcontext()


def refuse_inside_tool() -> None:
    """Refuse to decide in a tool's own body, or in what one started; raises NotPermitted."""
    if _inside.get():
        raise NotPermitted("inside_tool", "A tool cannot decide (G10).", call=_inside.get())


def refuse_to_decide() -> None:
    """Refuse to decide in a tool's body, or in a process that one started; raises NotPermitted."""
    refuse_inside_tool()
    _refuse_marked(_STARTED_BY)


def refuse_under_mark() -> None:
    """Refuse to decide in a process that a tool started; raises NotPermitted."""
    refuse_inside_tool()
    _refuse_marked(os.environ.get(MARK, ""))


def _refuse_marked(mark: str) -> None:
    if mark:
        raise NotPermitted(
            "inside_tool",
            "This process was started by a tool, and a tool cannot decide (G10).",
            hint="Decide from a terminal of your own.",
            call=mark,
        )
