"""The events of requests: what people were asked, what they said, and what they permitted.

Where a person decided who had not been asked, the event says so (`stood_in`): a deputy, or one who
took the place of somebody who is named no more. Older logs have nobody who was not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.core.values import Escalation, Hold, Needs, Occurrence, Payload, RequestKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOpened:
    """A person is asked about a call: to approve its action, or to settle its outcome.

    `asked_since` is when the first was opened of the requests that it takes the place of.
    """

    request: str
    kind: RequestKind
    at: Occurrence
    digest: str
    tool: str
    needs: Needs
    requester: str
    deadline_at: datetime
    rule: str
    policy_version: str
    grounds: Payload | None = None
    replaces: str | None = None
    changes: Payload | None = None
    readable: bool = True
    escalation: tuple[Escalation, ...] = ()
    hold: Hold = "session"
    asked_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEscalated:
    """The escalation steps up to `step`, counted from 1, are due: more people are asked (G9).

    They may decide from then on, whether or not this is on record yet.
    """

    request: str
    step: int
    approvers: tuple[str, ...]
    channel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeDelivered:
    """A channel told people of the request: for the first time, or again after it could not."""

    request: str
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeUndelivered:
    """A channel could not tell people of the request; it is tried again, which is not on record."""

    request: str
    channel: str
    cause: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteCast:
    """A person approved. `met` says that the quorum is now met and the request approved."""

    request: str
    by: str
    digest: str
    met: bool
    via: str = ""
    stood_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantGiven:
    """With an approval a person permitted calls to come; `run` None: of the whole session (G12).

    `same_key` stands for the values of the arguments named in `same`, `terms` for what was asked
    for, and `rule` is the one that asked.
    """

    grant: str
    by: str
    request: str
    tool: str
    tool_fingerprint: str
    scope: tuple[str, ...]
    surface: str
    policy_version: str
    same_key: str
    until: datetime
    uses: int
    rule: str = ""
    terms: str = ""
    run: str | None = None
    same: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    children: bool = False
    via: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRevoked:
    """A person took a grant back, or the policy changed: it covers nothing any more."""

    grant: str
    by: str
    via: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteWithdrawn:
    """A person took a vote back before it was spent; `reopened` says that it had been approved."""

    request: str
    by: str
    reopened: bool = False
    via: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesDropped:
    """Votes of people without authority were dropped as the action was about to run (G10).

    `reopened` says that too few were left, and the request waits again.
    """

    request: str
    people: tuple[str, ...]
    reopened: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRejected:
    """An eligible person said no."""

    request: str
    by: str
    reason: Payload
    via: str = ""
    stood_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEdited:
    """An eligible person changed the arguments: the old version can never run (G5)."""

    request: str
    by: str
    successor: str | None
    via: str = ""
    stood_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestVoided:
    """What was asked about has changed, and so the request stands for nothing any more (G13)."""

    request: str
    changed: tuple[str, ...]
    successor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestExpired:
    """The deadline passed: no decider, and for ever no (G9).

    `unreachable` names the channels that were tried, where none of them could tell anybody of it.
    """

    request: str
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    """The request was ended while it was open: with its run, or with its step; `cause` says why."""

    request: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSuperseded:
    """A newer message of the user took the place of the run that asked (never "rejected")."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettled:
    """A person said what became of an attempt whose outcome was unknown (D4)."""

    request: str
    by: str
    finding: str
    detail: Payload | None = None
    via: str = ""
    stood_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered:
    """A person answered what the run had asked."""

    request: str
    by: str
    answer: Payload
    via: str = ""
    stood_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementLapsed:
    """Nobody settled in time: the run ends, the question and its closed surface remain."""

    request: str
    at: Occurrence
