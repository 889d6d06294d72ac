"""What is proposed of one call: an action with policy's ruling, or what is answered at once.

A proposal is made outside the transaction and carries facts that only the outside can know.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.core.values import (
    CallCode,
    CallKind,
    Display,
    Draft,
    Escalation,
    Occurrence,
    Recovery,
    Ruling,
    Shadow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A call that can be taken to policy, with policy's ruling on it.

    One whose arguments could not be read has them as raw text in its draft, and is asked (G4).
    `approvers` are those who may say what became of it, should its outcome be lost, and
    `escalation` reaches more people before such a settlement lapses. `shadow` is what a policy that
    is only tried out would have ruled.
    """

    draft: Draft
    call_key: str
    kind: CallKind
    surface: str
    recovery: Recovery
    approvers: tuple[str, ...]
    ruling: Ruling
    display: Display = field(default_factory=Display)
    escalation: tuple[Escalation, ...] = ()
    shadow: Shadow | None = None

    @property
    def readable(self) -> bool:
        """Say whether the arguments were read as a JSON object."""
        return not isinstance(self.draft.arguments, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsound:
    """A call that is answered at once, without policy or people."""

    at: Occurrence
    tool_call_id: str
    tool: str
    call_key: str
    code: CallCode
    detail: str


Proposal = Sound | Unsound
