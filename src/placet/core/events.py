"""The events: what has happened in a session, in the order in which it happened.

The event log is the audit log (H4). An event carries ids, digests, names and instants, and of
texts the reference alone. An event that was written once is read for ever (D7): fields are added
with a default, never renamed and never given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.core.request_events import GrantGiven as GrantGiven
from placet.core.request_events import GrantRevoked as GrantRevoked
from placet.core.request_events import NoticeDelivered as NoticeDelivered
from placet.core.request_events import NoticeUndelivered as NoticeUndelivered
from placet.core.request_events import QuestionAnswered as QuestionAnswered
from placet.core.request_events import RequestCancelled as RequestCancelled
from placet.core.request_events import RequestEdited as RequestEdited
from placet.core.request_events import RequestEscalated as RequestEscalated
from placet.core.request_events import RequestExpired as RequestExpired
from placet.core.request_events import RequestOpened as RequestOpened
from placet.core.request_events import RequestRejected as RequestRejected
from placet.core.request_events import RequestSettled as RequestSettled
from placet.core.request_events import RequestSuperseded as RequestSuperseded
from placet.core.request_events import RequestVoided as RequestVoided
from placet.core.request_events import SettlementLapsed as SettlementLapsed
from placet.core.request_events import VoteCast as VoteCast
from placet.core.request_events import VotesDropped as VotesDropped
from placet.core.request_events import VoteWithdrawn as VoteWithdrawn
from placet.core.values import (
    CallCode,
    CallKind,
    Escalation,
    GuardKind,
    Holder,
    Mode,
    Occurrence,
    OnFailure,
    Payload,
    Purpose,
    Recovery,
    RunKind,
    SagaScope,
    Shadow,
    StopReason,
    Unwound,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run of an agent began for a requester; a child run names the call that opened it.

    `guard` says that it is one call of a guarded function, and whether its guard is told of it.
    `on_failure` and `saga` say what becomes of its other calls when one fails.
    """

    run: str
    agent: str
    requester: str
    kind: RunKind
    max_steps: int
    message: Payload
    parent: Occurrence | None = None
    mode: Mode = "act"
    guard: GuardKind | None = None
    on_failure: OnFailure = "continue"
    saga: SagaScope = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTaken:
    """A process took the right to drive a run until `until`; `fence` only grows (D5)."""

    run: str
    holder: Holder
    fence: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """The holder of a lease keeps it longer."""

    run: str
    fence: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleased:
    """Nobody drives the run: it waits, or rests until `not_before` after a failure."""

    run: str
    not_before: datetime | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecorded:
    """A model turn was written down, before anything of it was begun.

    `reference` and `place` are what the framework that hosts the run calls the step.
    """

    run: str
    step: int
    entry: Payload
    calls: int
    reference: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProposed:
    """A call was ruled `allow` or `ask`: the action it stands for is frozen (G4).

    A call that is edited, or asked anew because the world changed, is proposed again with the
    next `version`; the model's `claim` is the call's own, and comes with the first. `shadow` is
    what a policy that is only tried out would have ruled. `not_requester` says that the requester
    may not say what became of it, either.
    """

    at: Occurrence
    tool_call_id: str
    tool: str
    call_key: str
    kind: CallKind
    surface: str
    version: int
    action: Payload
    digest: str
    generation: int
    tool_fingerprint: str
    scope: tuple[str, ...]
    environment: str
    recovery: Recovery
    approvers: tuple[str, ...]
    rule: str
    display: Payload | None = None
    claim: Payload | None = None
    escalation: tuple[Escalation, ...] = ()
    not_requester: bool = False
    grant: str | None = None
    shadow: Shadow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegun:
    """The intent: written down before the body is entered. Spends the approval it names (G7).

    Counts on the grant that it names (G12).
    """

    at: Occurrence
    attempt: int
    key: str
    fence: int
    holder: Holder
    surface: str
    until: datetime
    request: str | None = None
    snapshot: Payload | None = None
    purpose: Purpose = "run"
    grant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """An attempt ended without success and a further one is permitted at `again_at`."""

    at: Occurrence
    attempt: int
    again_at: datetime
    cause: Payload
    not_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost:
    """An attempt's outcome is unknown: the body may have acted (D4)."""

    at: Occurrence
    attempt: int
    cause: Payload
    body_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUndoing:
    """What a call may have done is taken back from `again_at` on; `cause` is what failed (D8).

    A call that has its result keeps it: what it did is taken back because a later one failed.
    """

    at: Occurrence
    how: Purpose
    again_at: datetime
    cause: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwindingBegun:
    """A call has failed: what earlier calls did is taken back before it has its result (D8).

    `code`, `told` and `own` are the result's, as it is so far.
    """

    at: Occurrence
    code: CallCode
    told: Payload
    own: Payload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectUnwound:
    """What the earlier call `at` did was taken back, or stands after all, or nobody knows.

    The call keeps the result that it has; `by` names who found it out, where a person did.
    """

    at: Occurrence
    outcome: Unwound
    told: Payload | None = None
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelegated:
    """An agent used as a tool opened a child run, whose result will be the call's.

    Spends the approval that it names (G7).
    """

    at: Occurrence
    child: str
    request: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """A call has its one result (G6): `told` is what the model reads, in place.

    `own` is, where `told` says more, what the body itself returned or raised, or what a person
    found out to have been its result. `shadow` stands here where nothing was proposed.
    """

    at: Occurrence
    tool_call_id: str
    tool: str
    call_key: str
    code: CallCode
    told: Payload
    by: str = ""
    attempt: int = 0
    own: Payload | None = None
    shadow: Shadow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMade:
    """A run in mode `plan-act` has its plan: `plan` is a JSON list of `items` texts."""

    run: str
    plan: Payload
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItemDone:
    """The model says that it is done with the plan's item `item`, counted from 1."""

    run: str
    item: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCompacted:
    """From step `step` on, the model sees `summary` in place of whatever came before it (D6)."""

    run: str
    step: int
    summary: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsTaken:
    """The framework that hosts a run has gone on with the results of its step `step`."""

    run: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopping:
    """The run will end as `stop` as soon as nothing of it is under way."""

    run: str
    stop: StopReason
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run is over. `answer` is the last text of its model, where there is one."""

    run: str
    stop: StopReason
    answer: Payload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """The session takes no further message; `erased`: and its texts, key and salt are no more."""

    by: str
    cause: str = ""
    erased: bool = False


Event = (
    RunStarted
    | LeaseTaken
    | LeaseRenewed
    | LeaseReleased
    | StepRecorded
    | CallProposed
    | RequestOpened
    | RequestEscalated
    | NoticeDelivered
    | NoticeUndelivered
    | VoteCast
    | GrantGiven
    | GrantRevoked
    | VoteWithdrawn
    | VotesDropped
    | RequestRejected
    | RequestEdited
    | RequestVoided
    | RequestExpired
    | RequestCancelled
    | RequestSuperseded
    | RequestSettled
    | QuestionAnswered
    | AttemptBegun
    | AttemptFailed
    | AttemptLost
    | CallUndoing
    | UnwindingBegun
    | EffectUnwound
    | CallDelegated
    | CallEnded
    | SettlementLapsed
    | PlanMade
    | PlanItemDone
    | TranscriptCompacted
    | ResultsTaken
    | RunStopping
    | RunEnded
    | SessionEnded
)
