"""What people say of a request, as commands: votes, edits, settlements and answers.

Each names the request, who speaks, and who may under the policy that was read (`eligible`, and
`stand_ins` for others); a digest, where one is given, must be the request's (G3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placet.core.deciders import StandIns
from placet.core.names import Names
from placet.core.proposals import Sound
from placet.core.values import GrantTerms, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """One person's yes. `digest`, where given, must be the request's (G3).

    `grant` are the terms of a standing grant that is given with it (G12), and `action` the stored
    action's text, from which the values that it fixes are taken. It is given under the policy
    `policy_version`.
    """

    request: str
    by: Principal
    eligible: frozenset[str]
    digest: str | None = None
    via: str = ""
    stand_ins: StandIns = field(default_factory=dict)
    grant: GrantTerms | None = None
    action: str = ""
    policy_version: str = ""

    def names(self) -> Names:
        """Name the request."""
        return Names(requests=(self.request,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Take a standing grant back."""

    grant: str
    by: Principal
    eligible: frozenset[str]
    via: str = ""

    def names(self) -> Names:
        """Name nothing: what a session grants is always loaded."""
        return Names()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """One person's no, which closes the request."""

    request: str
    by: Principal
    eligible: frozenset[str]
    reason: str
    digest: str | None = None
    via: str = ""
    stand_ins: StandIns = field(default_factory=dict)

    def names(self) -> Names:
        """Name the request."""
        return Names(requests=(self.request,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Take a vote back before it is spent."""

    request: str
    by: Principal
    digest: str | None = None
    via: str = ""

    def names(self) -> Names:
        """Name the request."""
        return Names(requests=(self.request,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Put other arguments in the action's place; `changes` tells what was changed (G5)."""

    request: str
    by: Principal
    eligible: frozenset[str]
    proposal: Sound
    changes: str
    policy_version: str
    digest: str | None = None
    via: str = ""
    stand_ins: StandIns = field(default_factory=dict)

    def names(self) -> Names:
        """Name the request, the call's step, and its new key for a remembered no."""
        at = self.proposal.draft.at
        return Names(
            requests=(self.request,),
            steps=((at.run, at.step),),
            call_keys=((at.run, self.proposal.call_key),),
        )


#: What a person's word on an unknown outcome is called on record.
FINDINGS: Mapping[bool | None, str] = {
    True: "happened",
    False: "did_not_happen",
    None: "abandoned",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """A person's word on an unknown outcome. `happened` None: nobody will ever know."""

    request: str
    by: Principal
    eligible: frozenset[str]
    happened: bool | None
    detail: str = ""
    digest: str | None = None
    via: str = ""
    stand_ins: StandIns = field(default_factory=dict)

    def names(self) -> Names:
        """Name the settlement."""
        return Names(requests=(self.request,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer to a question, which the caller has held against the question's schema."""

    request: str
    by: Principal
    eligible: frozenset[str]
    answer: str
    digest: str | None = None
    via: str = ""
    stand_ins: StandIns = field(default_factory=dict)

    def names(self) -> Names:
        """Name the question."""
        return Names(requests=(self.request,))
