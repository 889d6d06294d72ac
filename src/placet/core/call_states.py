"""A call of a run, and the states that it can be in; `state` has the session that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.core.values import (
    CallCode,
    CallKind,
    Escalation,
    Holder,
    Occurrence,
    Purpose,
    Recovery,
    Unwound,
)


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
    """An attempt was begun under `fence`, and its outcome is not yet on record.

    `lost` says that the outcome of one before is not known: this one's does not settle that.
    """

    fence: int
    holder: Holder
    until: datetime
    purpose: Purpose = "run"
    lost: bool = False


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
    came of that, and `before` the earlier call that would be taken back next. `begun_at` is when
    its first attempt began, and `undo_begun_at` that at the present way of taking it back.
    `grant` is the standing grant by which nobody was asked.
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
    begun_at: datetime | None = None
    undo_begun_at: datetime | None = None
    undone_from: int = 0
    acted: bool = False
    stray: bool = False
    proposed_key: str = ""
    result: CallOver | None = None
    unwound: Unwound | None = None
    escalation: tuple[Escalation, ...] = ()
    not_requester: bool = False
    grant: str | None = None
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
