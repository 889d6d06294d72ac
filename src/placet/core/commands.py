"""The commands: what people, drivers and adapters ask of a session.

A command names what it touches, so that the store can load tombstones for it; carries facts that
only the outside can know (rulings, fingerprints, who is eligible), with the version they were
read under; and carries no time: the store stamps it inside its transaction (G9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from placet.core.deciders import StandIns
from placet.core.decisions import FINDINGS as FINDINGS
from placet.core.decisions import Answer as Answer
from placet.core.decisions import Approve as Approve
from placet.core.decisions import Edit as Edit
from placet.core.decisions import Reject as Reject
from placet.core.decisions import Revoke as Revoke
from placet.core.decisions import Settle as Settle
from placet.core.decisions import Withdraw as Withdraw
from placet.core.names import Names as Names
from placet.core.proposals import Proposal as Proposal
from placet.core.proposals import Sound as Sound
from placet.core.proposals import Unsound as Unsound
from placet.core.values import (
    CallCode,
    GuardKind,
    Holder,
    Mode,
    Occurrence,
    OnFailure,
    Principal,
    RunKind,
    SagaScope,
    StopReason,
)

# --- runs -------------------------------------------------------------------------------------


#: How many requests and questions wait in a session at once, where nothing else is said; a further
#: call is not asked about.
MOST_WAITING = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Begin a run. With `supersede`, a run that waits in the session makes room for it.

    A child run begins otherwise: with the call that it works out (`Begin.child`). `salt`, where
    given, is the one under which the run was named: a new session begins with it, and another must
    have it. `guard` says of a hosted run that it is one call of a guarded function; `on_failure`
    and `saga` say of a driven one what becomes of its other calls when one fails.
    """

    run: str
    agent: str
    requester: str
    message: str
    kind: RunKind = "driven"
    max_steps: int = 50
    mode: Mode = "act"
    supersede: bool = False
    holder: Holder | None = None
    guard: GuardKind | None = None
    on_failure: OnFailure = "continue"
    saga: SagaScope = "step"
    salt: str = field(default="", repr=False)

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeLease:
    """Ask for the right to drive a run. `gone` names a holder seen to exist no more (D5)."""

    run: str
    holder: Holder
    gone: Holder | None = None

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewLease:
    """Keep a lease longer."""

    run: str
    fence: int

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLease:
    """Give a lease back; the run rests for `pause` where one is given."""

    run: str
    fence: int
    pause: timedelta | None = None
    cause: str = ""

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun:
    """End a run that has nothing under way."""

    run: str
    fence: int | None
    stop: StopReason
    answer: str | None = None

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """End a run from outside; what has begun is carried to its outcome first.

    It stops as `superseded` where its framework has gone on, and may begin another in its place.
    """

    run: str
    by: Principal
    cause: str
    stop: Literal["cancelled", "superseded"] = "cancelled"

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """End a session: its runs are cancelled, and it takes no further message.

    With `erase` its texts are destroyed, too (H4): then nothing of it may be open any more.
    """

    by: Principal
    cause: str = ""
    erase: bool = False

    def names(self) -> Names:
        """Name nothing: every run that is active is loaded."""
        return Names()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Let the model see `summary` in place of all that came before step `step` of the run (D6)."""

    run: str
    fence: int
    step: int
    summary: str

    def names(self) -> Names:
        """Name the run."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeResults:
    """Say that the framework which hosts a run has gone on with the results up to a step.

    `seen` is the session's `seq` as it was when the framework last found that it must wait: what
    was decided later it does not know. None: it knows of all that was decided until now.
    """

    run: str
    step: int
    seen: int | None = None

    def names(self) -> Names:
        """Name the step."""
        return Names(runs=(self.run,), steps=((self.run, self.step),))


# --- steps and calls --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Take a whole step: the model's turn (`entry`) and all of its calls.

    `most_waiting` is how many requests may wait in the session at once.
    `plan` has the items of a plan, where the turn is one that makes it. `reference` and `place` are
    the names by which the framework that hosts the run finds the step again.
    """

    run: str
    step: int
    fence: int | None
    entry: str
    calls: tuple[Proposal, ...]
    policy_version: str
    answer: str | None = None
    most_waiting: int = MOST_WAITING
    plan: tuple[str, ...] = ()
    reference: str = ""
    place: str = ""

    def names(self) -> Names:
        """Name the step, and every call key for the remembered noes."""
        keys = tuple((self.run, call.call_key) for call in self.calls)
        return Names(runs=(self.run,), steps=((self.run, self.step),), call_keys=keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReads:
    """Write down the results of a step's declared reads, which had no intent (G1).

    `raised` has, by index, what those that failed raised.
    """

    run: str
    step: int
    fence: int | None
    results: tuple[tuple[int, CallCode, str], ...]
    raised: Mapping[int, str] = field(default_factory=dict)

    def names(self) -> Names:
        """Name the step."""
        return Names(runs=(self.run,), steps=((self.run, self.step),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """The run that an agent used as a tool opens for its call."""

    run: str
    agent: str
    message: str
    max_steps: int
    mode: Mode = "act"
    on_failure: OnFailure = "continue"
    saga: SagaScope = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Ask to enter a body. `today` is the same action proposed in the world as it is now (G13).

    `digest` is that of the stored action, computed anew by the caller; `eligible` and
    `stand_ins` say who may decide under today's policy (G10). `child` is the run that is opened in
    place of a body where the tool is an agent; `snapshot` is what the tool can be rolled back to
    (D8).
    """

    at: Occurrence
    fence: int | None
    holder: Holder
    digest: str
    today: Proposal
    eligible: frozenset[str]
    policy_version: str
    child: Child | None = None
    snapshot: str | None = None
    stand_ins: StandIns = field(default_factory=dict)

    def names(self) -> Names:
        """Name the call's step, and the key that the call may have from now on."""
        children = () if self.child is None else (self.child.run,)
        return Names(
            runs=(self.at.run, *children),
            steps=((self.at.run, self.at.step),),
            call_keys=((self.at.run, self.today.call_key),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """Ask to take back what a call may have done; nobody rules on that (G8, D8).

    `digest` is that of the stored action, computed anew by the caller.
    """

    at: Occurrence
    fence: int | None
    holder: Holder
    digest: str

    def names(self) -> Names:
        """Name the call's step."""
        return Names(runs=(self.at.run,), steps=((self.at.run, self.at.step),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwind:
    """Take back what the next earlier call did, or give the failed call its result at last (D8).

    `earlier` is the call whose effect is next, None where there is none left; `told` is the text
    that was withheld, as it is stored.
    """

    at: Occurrence
    fence: int | None
    earlier: Occurrence | None
    told: str

    def names(self) -> Names:
        """Name both calls' steps."""
        both = (self.at,) if self.earlier is None else (self.at, self.earlier)
        return Names(runs=(self.at.run,), steps=tuple((at.run, at.step) for at in both))


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The body returned. `own` is its own result, where `told` says more."""

    told: str
    own: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The body raised. `not_done` says that it certainly did not act.

    `own` is what it raised, where `error` says more. `retriable` says that the error is one of
    those after which another attempt is worth while, and `spread` how much of its jitter the pause
    before it has, from 0 to 1.
    """

    error: str
    not_done: bool = False
    own: str | None = None
    retriable: bool = True
    spread: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nobody can say whether the body acted. `body_over` says that it will not do so any more."""

    cause: str
    body_over: bool = False
    spread: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclude:
    """Record the outcome of an attempt."""

    at: Occurrence
    attempt: int
    fence: int
    outcome: Succeeded | Failed | Unknown

    def names(self) -> Names:
        """Name the call's step."""
        return Names(runs=(self.at.run,), steps=((self.at.run, self.at.step),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lose:
    """Say that an attempt's holder is lost: its lease passed, or its process is seen gone."""

    at: Occurrence
    attempt: int
    fence: int | None
    cause: str
    gone: Holder | None = None

    def names(self) -> Names:
        """Name the call's step."""
        return Names(runs=(self.at.run,), steps=((self.at.run, self.at.step),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Record what a tool's probe answered. `told` is the result where it happened.

    `body_gone` says that the lost attempt's process is seen to exist no more (D4).
    """

    at: Occurrence
    attempt: int
    fence: int | None
    happened: bool | None
    told: str = ""
    body_gone: bool = False

    def names(self) -> Names:
        """Name the call's step."""
        return Names(runs=(self.at.run,), steps=((self.at.run, self.at.step),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Close whatever is past its deadline in the session."""

    run: str

    def names(self) -> Names:
        """Name the run that asks."""
        return Names(runs=(self.run,))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDelivery:
    """Say whether a channel could tell people of a request; `cause` says why it could not."""

    request: str
    channel: str
    delivered: bool
    cause: str = ""

    def names(self) -> Names:
        """Name the request."""
        return Names(requests=(self.request,))


Command = (
    StartRun
    | TakeLease
    | RenewLease
    | ReleaseLease
    | FinishRun
    | CancelRun
    | EndSession
    | Compact
    | TakeResults
    | Propose
    | RecordReads
    | Begin
    | TakeBack
    | Unwind
    | Conclude
    | Lose
    | Probed
    | Approve
    | Reject
    | Withdraw
    | Revoke
    | Edit
    | Settle
    | Answer
    | Expire
    | RecordDelivery
)
