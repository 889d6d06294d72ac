"""What a policy file says, as values: rules with their conditions, groups, delegations, defaults.

`placet.policy.reading` makes them, and proves by it that they are well formed;
`placet.policy.evaluating` holds calls against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from placet.core.canonical import JsonValue
from placet.core.values import Escalation, Hold
from placet.policy.shell_rules import CommandRule

#: What a rule may say, the stricter the later.
Answer = Literal["allow", "ask", "deny"]
STRICTNESS: Mapping[Answer, int] = {"allow": 0, "ask": 1, "deny": 2}

#: How the file's rules count on a surface; where nothing is said, they are enforced.
Mode = Literal["off", "shadow", "enforce"]

#: What a rule chooses its calls by, beside what stands in them.
SelectorKind = Literal["tools", "surfaces", "agents", "sessions", "requesters", "scopes"]

Operator = Literal[
    "equals",
    "not_equals",
    "in",
    "not_in",
    "above",
    "below",
    "at_least",
    "at_most",
    "matches",
    "contains",
    "present",
    "absent",
    "longer_than",
]

#: A value of the file that an argument is compared with; numbers are exact.
Scalar = str | bool | Decimal
Operand = Scalar | tuple[Scalar, ...]

#: What stands before the name of a group.
GROUP = "@"

#: Stands in a pattern for any text, the empty one too.
ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Patterns, one of which a name of the call must be: its tool's, its agent's, and so on."""

    kind: SelectorKind
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A condition on what stands in the arguments at `place`; all its tests must hold.

    `place` is a path with dots: names, numbers for the elements of a list, `*` for each of them.
    """

    place: str
    tests: tuple[tuple[Operator, Operand], ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """Give the parts of the path."""
        return tuple(self.place.split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAbove:
    """The call costs more than this, by its tool's declaration."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Irreversible:
    """The tool does not declare that its effect can be reversed; or, with False, it does."""

    wanted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOfItsKind:
    """No call of this tool, with the same values at `kind_of`, has succeeded in this session."""

    wanted: bool
    kind_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LowConfidence:
    """The lowest `confidence` that any trusted source has given is below this."""

    below: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """A trusted source has given the call this label; `tests` hold for the label's value."""

    source: str
    label: str
    tests: tuple[tuple[Operator, Operand], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A text in CEL, which must be true of the call."""

    text: str


Condition = (
    Argument | CostAbove | Irreversible | FirstOfItsKind | LowConfidence | Annotated | Expression
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What a rule says of the shell command in an argument; see `evaluating.answer_of`."""

    argument: str
    allow: tuple[CommandRule, ...] = ()
    deny: tuple[CommandRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a rule that asks demands; None and () where it leaves it to the file's defaults."""

    approvers: tuple[str, ...] = ()
    quorum: int = 1
    exclude_requester: bool = False
    deadline: timedelta | None = None
    hold: Hold | None = None
    escalation: tuple[Escalation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: it is for a call that every selector chooses, for which all of `when` holds and
    none of `unless`.
    """

    name: str
    ruling: Answer
    line: int
    reason: str = ""
    selectors: tuple[Selector, ...] = ()
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    commands: Commands | None = None
    demands: Demands = field(default_factory=Demands)

    def names_tool(self, tool: str) -> bool:
        """Say whether the rule names this tool itself, and not by a pattern."""
        return any(each.kind == "tools" and tool in each.patterns for each in self.selectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """Until an instant, one person may decide what is asked of another."""

    giver: str
    deputy: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds where a rule says nothing; None and (): what holds where there is no file."""

    approvers: tuple[str, ...] = ()
    deadline: timedelta | None = None
    most_waiting: int | None = None
    hold: Hold = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole file. `document` is what was read, as JSON: two files of one document are alike."""

    rules: tuple[Rule, ...] = ()
    surfaces: Mapping[str, Mode] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    delegations: tuple[Delegation, ...] = ()
    defaults: Defaults = field(default_factory=Defaults)
    document: JsonValue = None

    def mode(self, surface: str) -> Mode:
        """Say how the rules count for the calls of a surface."""
        return self.surfaces.get(surface, "enforce")

    def rule(self, name: str) -> Rule | None:
        """Give the rule of this name."""
        return next((rule for rule in self.rules if rule.name == name), None)
