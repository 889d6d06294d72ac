"""What a tool declares, as the gate and recovery need it, however it was written down.

The harness's decorator, and each adapter, makes these; the gate knows no other kind of tool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from placet.core.canonical import JsonValue, digest_of
from placet.core.card import PLACE
from placet.core.errors import InvalidDeclaration
from placet.core.money import Money
from placet.core.values import EVERY_SURFACE, CallKind, Recovery

Arguments = Mapping[str, JsonValue]
#: Answers yes (ask) or no (do not) about a call; anything else, and any error, means ask (G1).
ApprovalFunction = Callable[[Arguments], bool]
#: Enters a tool with the frozen arguments and the idempotency key.
Body = Callable[[Arguments, str], Awaitable[object]]
#: Answers `allow`, `ask` or `deny` about a call of the tool that it is given the name of; anything
#: else, and any error, means ask.
PolicyFunction = Callable[[str, Arguments], str]


class NotDone(Exception):
    """Raised by a tool's body to say that it certainly did not act (D4)."""


class InvalidArguments(Exception):
    """Raised by a declaration's `validate`: readable, but not what the tool takes (G4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """A probe's answer: the attempt acted, with this result."""

    result: object


@dataclass(frozen=True, slots=True, kw_only=True)
class NotHappened:
    """A probe's answer: the attempt did not act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsure:
    """A probe's answer: it cannot tell. Anything that is no answer counts as this."""


ProbeAnswer = Happened | NotHappened | Unsure


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One tool: its schema, its body, and what may be done when the body goes wrong.

    `body` and `probe` take the frozen arguments and the idempotency key. `environment` gives the
    fingerprint of what the tool reads of the world (G13), `preview` what the call would change in
    it, as a text that people are shown (H1). `snapshot` gives, before the body is entered, the
    text from which `restore` can bring the world back to how it was, and `compensate` undoes what
    the body did by another effect, under a key of its own (D8). `retry_on` names the errors after
    which another attempt is worth while. `cost` says which argument is what a call costs (H1), and
    `secrets` which of them people are not shown (H2). A read that raises one of `suspends` has not
    ended: it is raised on, nothing is recorded, and the read is entered again.
    """

    name: str
    version: str
    description: str
    parameters: Mapping[str, Any]
    validate: Callable[[Arguments], dict[str, JsonValue]]
    body: Body
    kind: CallKind = "effect"
    surface: str = EVERY_SURFACE
    scopes: tuple[str, ...] = ()
    effect: str = ""
    reversible: bool = False
    cost: Money | None = None
    secrets: tuple[str, ...] = ()
    approval: Literal["always", "never"] | ApprovalFunction = "always"
    recovery: Recovery = field(default_factory=Recovery)
    probe: Callable[[Arguments, str], Awaitable[object]] | None = None
    environment: Callable[[Arguments], str] | None = None
    preview: Callable[[Arguments], str] | None = None
    compensate: Body | None = None
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    snapshot: Callable[[Arguments], str] | None = None
    restore: Callable[[Arguments, str], None] | None = None
    not_done: tuple[type[BaseException], ...] = (NotDone,)
    suspends: tuple[type[BaseException], ...] = ()
    fingerprint: str = ""

    def __post_init__(self) -> None:
        """Take the fingerprint over version, parameter schema and description (G3).

        Raises InvalidDeclaration where a field that is to be masked is none: it would be shown; and
        where `effect` says an argument that is none.
        """
        known = self.parameters.get("properties")
        said = PLACE.findall(self.effect)
        for declared in (*self.secrets, *([self.cost.field] if self.cost else []), *said):
            if known and declared.partition(".")[0].removesuffix("[]") not in known:
                raise InvalidDeclaration(
                    "invalid_tool",
                    f"Tool {self.name}: it has no argument {declared}.",
                    hint=f"Its arguments are: {', '.join(known)}.",
                )
        if not self.fingerprint:
            parts: dict[str, JsonValue] = {
                "version": self.version,
                "parameters": dict(self.parameters),
                "description": self.description,
            }
            object.__setattr__(self, "fingerprint", digest_of(parts))
