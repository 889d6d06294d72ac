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

from placet.core.values import (
    EVERY_SURFACE,
    CallCode,
    CallKind,
    GuardKind,
    Holder,
    Mode,
    Needs,
    Occurrence,
    OnFailure,
    Purpose,
    Recovery,
    RequestKind,
    RunKind,
    SagaScope,
    StopReason,
    Unwound,
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


# --- calls ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Policy lets the call run; it has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request about the call is open, or approved and not yet spent."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated:
    """A child run works out the call's result."""

    child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """An attempt was begun under `fence`, and its outcome is not yet on record."""

    fence: int
    holder: Holder
    until: datetime
    purpose: Purpose = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDue:
    """A further attempt is permitted from `again_at` on, with the same key.

    `lost` says that the attempt before may have acted: the next one is recovery, which goes on
    though the run stops.
    """

    again_at: datetime
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The last attempt's outcome is unknown, and the tool's probe has not answered yet."""

    holder: Holder
    purpose: Purpose = "run"
    body_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoDue:
    """What the call may have done is to be taken back, from `again_at` on (D8)."""

    how: Purpose
    again_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwoundEffect:
    """What became of an earlier call's effect when a later call had failed."""

    at: Occurrence
    tool: str
    outcome: Unwound


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwinding:
    """The call has failed, and what earlier ones did is taken back before its result is told."""

    code: CallCode
    told_ref: str
    own_ref: str | None = None
    unwound: tuple[UnwoundEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """The last attempt's outcome is unknown, and a person is asked what became of it."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOver:
    """The call has its one result.

    `own_ref` is what the body itself returned or raised, where the model was told more; `by_hand`
    says that a person found it out.
    """

    code: CallCode
    told_ref: str
    own_ref: str | None = None
    by_hand: bool = False


CallState = (
    Allowed
    | Asking
    | Delegated
    | Executing
    | RetryDue
    | Lost
    | UndoDue
    | Unwinding
    | Unsettled
    | CallOver
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of a run, and the action that it now stands for.

    `foreign` is the surface's generation without what this call and earlier calls of its step
    added: the part that must not grow between asking and acting (G13). `proposed_key` is the key
    that the model's own call had, where another version has taken its place. `failure_ref` is what
    failed, of a call that is taken back, `ran` the attempts at the effect itself, and `undone_from`
    the attempts before those at the present way of taking it back. `acted` says that an earlier
    attempt may have acted, and `stray` that its body may do so yet. `result` is what a call has
    been answered with whose effect is taken back since, because a later one failed, `unwound` what
    came of that, and `before` the earlier call that would be taken back next.
    """

    at: Occurrence
    tool_call_id: str
    tool: str
    call_key: str
    kind: CallKind
    surface: str
    order: int
    version: int
    action_ref: str
    digest: str
    generation: int
    foreign: int
    tool_fingerprint: str
    scope: tuple[str, ...]
    environment: str
    recovery: Recovery
    approvers: tuple[str, ...]
    rule: str
    attempts: int = 0
    voids: int = 0
    asked: bool = False
    edited_by: str = ""
    display_ref: str | None = None
    claim_ref: str | None = None
    edits_ref: str | None = None
    snapshot_ref: str | None = None
    failure_ref: str | None = None
    ran: int = 0
    undone_from: int = 0
    acted: bool = False
    stray: bool = False
    proposed_key: str = ""
    result: CallOver | None = None
    unwound: Unwound | None = None
    before: Occurrence | None = None
    state: CallState

    @property
    def open(self) -> bool:
        """Say whether the call still has no result."""
        return not isinstance(self.state, CallOver)

    def way_back(self, *, after: Purpose = "run") -> Purpose | None:
        """Name the next way in which what the call may have done can be taken back (D8).

        A roll-back puts a snapshot back, and does no harm where nothing had changed. A compensation
        is another effect: where nobody knows that there is anything to undo, it is right only where
        its tool says so.
        """
        recovery = self.recovery
        if after == "run" and recovery.roll_back is not None and self.snapshot_ref is not None:
            return "roll_back"
        if after != "compensate" and recovery.compensation is not None:
            acted = self.result is not None or isinstance(self.state, CallOver)
            return "compensate" if recovery.compensation.safe_if_absent or acted else None
        return None


# --- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """People may decide. `votes` are those who have approved so far."""

    votes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """The quorum is met, and the approval not yet spent."""

    votes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The approval was spent in the transaction that recorded the intent (G7)."""

    votes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A person said no."""

    by: str
    reason_ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """Another version took its place, by a person's edit; or, with no `by`, a newer message."""

    by: str
    successor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """What was asked about has changed; a successor asks anew where one may (G13)."""

    changed: tuple[str, ...]
    successor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Nobody decided before the deadline, or nothing began before it."""

    votes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run was ended under the request."""

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A person said what became of the attempt."""

    by: str
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A person answered the question."""

    by: str
    answer_ref: str


RequestState = (
    Open
    | Approved
    | Spent
    | Rejected
    | Superseded
    | Voided
    | Expired
    | Cancelled
    | Settled
    | Answered
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The durable question about one action, which its id stands for, for ever (G3)."""

    id: str
    kind: RequestKind
    at: Occurrence
    digest: str
    action_ref: str
    tool: str
    surface: str
    order: int
    version: int
    needs: Needs
    requester: str
    opened_at: datetime
    deadline_at: datetime
    rule: str
    policy_version: str
    generation: int
    readable: bool = True
    replaces: str | None = None
    grounds_ref: str | None = None
    changes_ref: str | None = None
    lapsed: bool = False
    state: RequestState

    @property
    def pending(self) -> bool:
        """Say whether the request still waits: for people, or to be spent."""
        return isinstance(self.state, (Open, Approved))


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
    surfaces: Mapping[str, int] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    calls: Mapping[Occurrence, Call] = field(default_factory=dict)
    requests: Mapping[str, Request] = field(default_factory=dict)
    noes: Mapping[tuple[str, str], No] = field(default_factory=dict)

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
