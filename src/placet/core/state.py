"""The session aggregate: the one unit of consistency, as frozen values.

A session holds its active runs, their open calls and requests, and the surface generations. What
has closed stands in it as a tombstone when the store loads it: always for the current step of an
active run, and otherwise where a command names it. Texts stand by reference.

States are unions: a call is `Asking` *with* a request, an attempt is `Executing` *with* a fence,
and neither can be written down without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from placet.core.call_states import Allowed as Allowed
from placet.core.call_states import Asking as Asking
from placet.core.call_states import Call as Call
from placet.core.call_states import CallOver as CallOver
from placet.core.call_states import CallState as CallState
from placet.core.call_states import Delegated as Delegated
from placet.core.call_states import Executing as Executing
from placet.core.call_states import Lost as Lost
from placet.core.call_states import RetryDue as RetryDue
from placet.core.call_states import UndoDue as UndoDue
from placet.core.call_states import Unsettled as Unsettled
from placet.core.call_states import Unwinding as Unwinding
from placet.core.call_states import UnwoundEffect as UnwoundEffect
from placet.core.request_states import Answered as Answered
from placet.core.request_states import Approved as Approved
from placet.core.request_states import Cancelled as Cancelled
from placet.core.request_states import Delivery as Delivery
from placet.core.request_states import Expired as Expired
from placet.core.request_states import Open as Open
from placet.core.request_states import Rejected as Rejected
from placet.core.request_states import Request as Request
from placet.core.request_states import RequestState as RequestState
from placet.core.request_states import Settled as Settled
from placet.core.request_states import Spent as Spent
from placet.core.request_states import Superseded as Superseded
from placet.core.request_states import Voided as Voided
from placet.core.values import (
    EVERY_SURFACE,
    CallCode,
    GuardKind,
    Holder,
    Mode,
    Occurrence,
    OnFailure,
    RunKind,
    SagaScope,
    StopReason,
)

# --- runs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """A process drives the run, under a lease that ends at `until`."""

    holder: Holder
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """Nobody drives the run; it is not to be woken before `not_before` where one is given.

    `cause` says why its driver left it; empty where it had nothing more to do.
    """

    not_before: datetime | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOver:
    """The run has ended."""

    stop: StopReason
    answer_ref: str | None = None


RunState = Working | Resting | RunOver


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run in mode `plan-act`: a JSON list of `items` texts, the first `done` done."""

    ref: str
    items: int
    done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of an agent. `step` counts its model turns, from 1 (0: none yet).

    `view_from` is the step from which the model sees the transcript itself, and `summary_ref` what
    it sees in place of all before. Of a hosted run, `decided` is the event with which something
    that it may have waited for was decided last, and `taken` the one up to which its framework has
    gone on; `guard` says that it is one call of a guarded function. `undoable` is the latest call
    whose effect stands and would be taken back by a later one's failure; it names the one before.
    """

    id: str
    agent: str
    requester: str
    kind: RunKind
    max_steps: int
    started_at: datetime
    order: int
    message_ref: str = ""
    step: int = 0
    fence: int = 0
    parent: Occurrence | None = None
    stopping: StopReason | None = None
    mode: Mode = "act"
    plan: Plan | None = None
    view_from: int = 0
    summary_ref: str | None = None
    decided: int = 0
    taken: int = 0
    guard: GuardKind | None = None
    on_failure: OnFailure = "continue"
    saga: SagaScope = "step"
    undoable: Occurrence | None = None
    state: RunState


# --- grants -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A standing permission (G12). `run` None: it lasts with the session; `left` calls may begin.

    `same_key` stands for the values of the arguments `same`; those in `any` may have any value.
    """

    id: str
    by: str
    request: str
    tool: str
    tool_fingerprint: str
    scope: tuple[str, ...]
    surface: str
    policy_version: str
    same_key: str
    until: datetime
    left: int
    rule: str = ""
    run: str | None = None
    same: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    children: bool = False


# --- the session ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class No:
    """A remembered "no" (G6): how a call was answered, and how often it has been proposed.

    What people said is the top run's, whichever run under it proposed the call. A call that only
    failed is no "no": it may be proposed again, and is counted all the same.
    """

    run: str
    call_key: str
    code: CallCode
    told_ref: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One line of conversation; what a command of it is decided upon."""

    tenant: str
    id: str
    salt: str
    now: datetime
    seq: int = 0
    ended: bool = False
    erased: bool = False
    surfaces: Mapping[str, int] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    calls: Mapping[Occurrence, Call] = field(default_factory=dict)
    requests: Mapping[str, Request] = field(default_factory=dict)
    noes: Mapping[tuple[str, str], No] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)

    def generation(self, surface: str) -> int:
        """Count the effects begun on `surface`; one that touches all is counted on each."""
        if surface == EVERY_SURFACE:
            return sum(self.surfaces.values())
        return self.surfaces.get(surface, 0) + self.surfaces.get(EVERY_SURFACE, 0)

    def step_calls(self, run: str, step: int) -> list[Call]:
        """Give the calls of one step in the order in which the model proposed them."""
        found = [c for at, c in self.calls.items() if at.run == run and at.step == step]
        return sorted(found, key=lambda call: call.at)

    def foreign(self, surface: str, at: Occurrence) -> int:
        """Count what others than the call at `at` and its step's earlier calls began."""
        own = sum(
            call.attempts
            for call in self.step_calls(at.run, at.step)
            if call.at <= at and overlap(call.surface, surface)
        )
        return self.generation(surface) - own


def undoable(run: Run, failed: Occurrence) -> Occurrence | None:
    """Name the earlier call whose effect is to be taken back next, because one at `failed` did."""
    at = run.undoable
    return at if at is not None and (run.saga == "run" or at.step == failed.step) else None


def top_of(runs: Mapping[str, Run], run: str) -> str:
    """Name the run that a run stands under, through however many others, or itself."""
    while (found := runs.get(run)) is not None and found.parent is not None:
        run = found.parent.run
    return run


def overlap(one: str, other: str) -> bool:
    """Say whether effects on two surfaces touch the same part of the world."""
    return one == other or EVERY_SURFACE in (one, other)
