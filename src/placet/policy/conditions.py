"""What is found of a condition for one call: it holds, it fails, or it is in doubt.

Nothing here decides how a doubt counts (placet.policy.doubts). The one choice that depends on the
rule is how many of several elements a condition must be found of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from placet.core.canonical import JsonValue, Unreadable, digest_of
from placet.core.money import Money
from placet.core.values import EVERY_SURFACE, CallKind
from placet.policy.cel import evaluated
from placet.policy.doubts import FAILS, Finding, Part, found, in_doubt, of_each
from placet.policy.operators import MISSING, Missing, compared, number
from placet.policy.rules import (
    ANY,
    Annotated,
    Answer,
    Argument,
    Condition,
    CostAbove,
    Expression,
    FirstOfItsKind,
    Irreversible,
    LowConfidence,
)

#: The label by which sources say how sure they, or the model, are.
CONFIDENCE = "confidence"

UNREADABLE = "the arguments cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What policy knows of a call.

    `arguments` are those after validation, or a raw text that cannot be read (G4). `agents` are the
    run's own, and then those that it stands under. `annotations` hold what trusted sources said, by
    source; None: one was asked and gave no answer. `seen` says of each of a policy's kinds whether
    a call of it has succeeded before (`placet.policy.evaluating.kinds`).
    """

    tool: str
    arguments: Mapping[str, JsonValue] | str
    kind: CallKind = "effect"
    surface: str = EVERY_SURFACE
    scopes: tuple[str, ...] = ()
    reversible: bool = False
    cost: Money | None = None
    agents: tuple[str, ...] = ()
    session: str = ""
    requester: str = ""
    annotations: Mapping[str, Mapping[str, JsonValue] | None] = field(default_factory=dict)
    seen: Mapping[tuple[str, ...], bool] = field(default_factory=dict)


def find(condition: Condition, facts: Facts, answer: Answer, part: Part) -> Finding:
    """Find out about a condition, in a rule that would answer so."""
    match condition:
        case Argument():
            return _argument(condition, facts, answer, part)
        case CostAbove():
            return _cost(condition, facts)
        case Irreversible(wanted=wanted):
            return found(facts.reversible is not wanted)
        case FirstOfItsKind(wanted=wanted, kind_of=kind_of):
            if isinstance(facts.arguments, str):
                return in_doubt(UNREADABLE)
            seen = facts.seen.get(kind_of)
            if seen is None:
                return in_doubt("nobody knows whether such a call has succeeded before")
            return found(seen is not wanted)
        case LowConfidence():
            return _confidence(condition, facts)
        case Annotated():
            return _annotation(condition, facts)
        case Expression(text=text):
            return _expression(text, facts)


# --- arguments --------------------------------------------------------------------------------


def _argument(condition: Argument, facts: Facts, answer: Answer, part: Part) -> Finding:
    if isinstance(facts.arguments, str):
        return in_doubt(UNREADABLE)
    return _looked_up(dict(facts.arguments), condition.steps, condition, answer, part)


def _looked_up(
    value: JsonValue | Missing,
    steps: tuple[str, ...],
    condition: Argument,
    answer: Answer,
    part: Part,
) -> Finding:
    """Go down to the place, and hold what is there against the tests."""
    if not steps or value is None or isinstance(value, Missing):
        return compared(value, condition.tests, called=condition.place)
    first, rest = steps[0], steps[1:]
    if first == ANY and isinstance(value, (list, dict)):
        each = value.values() if isinstance(value, dict) else value
        return of_each(
            (_looked_up(one, rest, condition, answer, part) for one in each), answer, part
        )
    if isinstance(value, dict):
        return _looked_up(value.get(first, MISSING), rest, condition, answer, part)
    if isinstance(value, list) and first.isascii() and first.isdigit():
        within = int(first) < len(value)
        return _looked_up(value[int(first)] if within else MISSING, rest, condition, answer, part)
    return in_doubt(f"{condition.place} leads through something that has no parts")


def value_at(arguments: Mapping[str, JsonValue], place: str) -> JsonValue | Missing:
    """Give what stands at a place without stars."""
    value: JsonValue = dict(arguments)
    for step in place.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            if int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        else:
            return MISSING
    return value


def kind_values(arguments: Mapping[str, JsonValue], kind_of: tuple[str, ...]) -> str | None:
    """Give a digest of the values that make a call one of its kind; None: one is not there."""
    values: list[JsonValue] = []
    for place in kind_of:
        value = value_at(arguments, place)
        if isinstance(value, Missing):
            return None
        values.append(value)
    try:
        return digest_of(values)
    except Unreadable:
        return None


# --- what tools declare, and what sources say -------------------------------------------------


def _cost(condition: CostAbove, facts: Facts) -> Finding:
    if facts.cost is None:
        return FAILS
    if isinstance(facts.arguments, str):
        return in_doubt(UNREADABLE)
    if facts.cost.currency != condition.currency:
        return in_doubt(f"it costs {facts.cost.currency}, and the rule says {condition.currency}")
    amount = facts.cost.amount(facts.arguments)
    if amount is None:
        return in_doubt(f"{facts.cost.field} is no amount")
    if amount < 0:  # Whoever pays a negative amount takes; how much is at stake nobody can tell.
        return in_doubt(f"{facts.cost.field} is below 0")
    return found(amount > condition.amount)


def _confidence(condition: LowConfidence, facts: Facts) -> Finding:
    if isinstance(facts.arguments, str):
        return in_doubt(UNREADABLE)
    given = [labels.get(CONFIDENCE) for labels in facts.annotations.values() if labels is not None]
    said = [_share(value) for value in given if value is not None]
    if any(value is not None and value < condition.below for value in said):
        return found(holds=True)
    if not said or None in said or None in facts.annotations.values():
        return in_doubt(f"no trusted source has said its `{CONFIDENCE}`, from 0 to 1")
    return FAILS


def _share(value: JsonValue) -> Decimal | None:
    """Give a number from 0 to 1; None: it is none, as is a number of percents."""
    share = number(value)
    return share if share is not None and 0 <= share <= 1 else None


def _annotation(condition: Annotated, facts: Facts) -> Finding:
    labels = facts.annotations.get(condition.source)
    if labels is None:
        return in_doubt(f"the source {condition.source} has said nothing")
    value = labels.get(condition.label, MISSING)
    called = f"{condition.source}.{condition.label}"
    if condition.tests:
        return compared(value, condition.tests, called=called)
    if isinstance(value, (bool, Missing)):
        return found(value is True)
    return in_doubt(f"{called} is neither true nor false")


def _expression(text: str, facts: Facts) -> Finding:
    if isinstance(facts.arguments, str):
        return in_doubt(UNREADABLE)
    return evaluated(
        text,
        {
            "args": dict(facts.arguments),
            "tool": facts.tool,
            "surface": facts.surface,
            "agent": facts.agents[0] if facts.agents else "",
            "session": facts.session,
            "requester": facts.requester,
            "scopes": list(facts.scopes),
            "reversible": facts.reversible,
        },
    )
