"""A request, and the states that it can be in; `state` has the session that holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from placet.core.values import Escalation, Hold, Needs, Occurrence, RequestKind


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
    """Nobody decided before the deadline, or nothing began before it.

    `unreachable` names the channels that were tried, where none of them could tell anybody of it.
    """

    votes: tuple[str, ...]
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run was ended under the request."""

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A person said what became of the attempt."""

    by: str
    finding: str
    detail_ref: str | None = None


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
class Delivery:
    """What became of a request's notices on one channel (H3).

    `delivered` says that one of them has left; `cause_ref` why the latest could not, where it
    could not.
    """

    channel: str
    delivered: bool
    cause_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The durable question about one action, which its id stands for, for ever (G3).

    `asked_since` is when the first was opened of the requests that it takes the place of. `voted`
    says that a vote was cast that stands no more.
    """

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
    escalation: tuple[Escalation, ...] = ()
    escalated: int = 0
    hold: Hold = "session"
    granted: str = ""
    asked_since: datetime | None = None
    deliveries: tuple[Delivery, ...] = ()
    voted: bool = False
    state: RequestState

    @property
    def pending(self) -> bool:
        """Say whether the request still waits: for people, or to be spent."""
        return isinstance(self.state, (Open, Approved))

    @property
    def since(self) -> datetime:
        """Say since when people are asked: what takes a request's place is no new question (G9)."""
        return self.asked_since or self.opened_at

    @property
    def escalates_at(self) -> datetime | None:
        """Say when the next escalation step is due that is not on record; None: there is none."""
        left = self.escalation[self.escalated :]
        open_ = isinstance(self.state, Open) and not self.lapsed
        return self.since + left[0].after if left and open_ else None

    @property
    def unreached(self) -> tuple[str, ...]:
        """Name the channels that failed, where none has told anybody and nobody has ever voted."""
        waits = isinstance(self.state, Open) and not self.state.votes and not self.voted
        if not waits or any(each.delivered for each in self.deliveries):
            return ()
        return tuple(each.channel for each in self.deliveries)

    def delivery(self, channel: str) -> Delivery | None:
        """Give what became of its notices on a channel; None: nothing is on record yet."""
        return next((each for each in self.deliveries if each.channel == channel), None)

    def needs_at(self, now: datetime) -> Needs:
        """Give whom it needs at an instant: escalation reaches more, on record or not (G9)."""
        due = [s.approvers for s in self.escalation if now >= self.since + s.after]
        more = tuple(person for people in due for person in people)
        if not more:
            return self.needs
        return replace(self.needs, approvers=tuple(dict.fromkeys((*self.needs.approvers, *more))))

    def people(self, now: datetime) -> frozenset[str]:
        """Give those who were asked to decide it by an instant."""
        return self.needs_at(now).people(self.requester)
