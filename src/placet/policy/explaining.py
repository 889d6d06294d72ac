"""A ruling in words: which rules are for a call, which are not and why, and who would be asked.

What is shown of the call's values is made visible (H2), and is for whoever gave them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

from placet.core.canonical import JsonValue
from placet.core.display import visible
from placet.core.values import Allow, Ask, Deny, Escalation, Ruling
from placet.policy.conditions import Facts, value_at
from placet.policy.doubts import Finding, Truth
from placet.policy.evaluating import Checked, Evaluation, Held
from placet.policy.operators import Missing, shown_operand
from placet.policy.rules import (
    Annotated,
    Argument,
    Condition,
    CostAbove,
    Expression,
    FirstOfItsKind,
    Irreversible,
    LowConfidence,
    Operand,
    Operator,
)
from placet.policy.ruling import Ruled

#: How much of a value is shown, in characters.
MAX_SHOWN = 60

_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def explained(ruled: Ruled, facts: Facts) -> list[str]:
    """Explain a ruling, a line each: the ruling, what it demands, and every rule."""
    lines = list(_ruling(ruled.ruling, facts))
    if ruled.shadow is not None:
        lines.append(f"  in shadow  the rules would have said: {_shadow(ruled)}")
    if ruled.evaluation is not None:
        lines += _rules(ruled.evaluation, facts)
    return [visible(line) for line in lines]


def _ruling(ruling: Ruling, facts: Facts) -> Iterator[str]:
    match ruling:
        case Allow(rule=rule):
            yield f"allow, by {rule}"
        case Deny(rule=rule, reason=reason):
            yield f"deny, by {rule}"
            yield f"  because    {reason}"
        case Ask(rule=rule, reason=reason):
            yield f"ask, by {rule}"
            yield f"  because    {reason}"
            yield from _demands(ruling, facts)


def _demands(ruling: Ask, facts: Facts) -> Iterator[str]:
    needs = ruling.needs
    people = needs.named(facts.requester).approvers
    left = [name for name in people if name in needs.people(facts.requester)]
    named = ", ".join(left) or "nobody"
    if needs.quorum > 1:
        named += f"; {needs.quorum} must approve"
    if needs.exclude_requester:
        named += f"; not {facts.requester or 'the requester'}, for whom it is"
    yield f"  asked      {named}"
    if not needs.possible(facts.requester):
        yield "  but        too few may decide: the call would be answered no_approver"
    yield f"  until      {lasting(ruling.lasts)} after it was asked"
    for step in ruling.escalation:
        yield f"  then       {_step(step)}"
    held = "every effect of the session" if ruling.hold == "session" else "its surface alone"
    yield f"  holds      {held}"


def _step(step: Escalation) -> str:
    what = f"{', '.join(step.approvers)} too" if step.approvers else "a reminder"
    through = f", through {step.channel}" if step.channel else ""
    return f"after {lasting(step.after)} {what}{through}"


def _shadow(ruled: Ruled) -> str:
    assert ruled.shadow is not None, "only a shadow is explained"
    lasts = ruled.shadow.lasts
    asked = "" if lasts is None else f", for up to {lasting(lasts)}"
    return f"{ruled.shadow.ruling}, by {ruled.shadow.rule}{asked}"


def lasting(lasts: timedelta) -> str:
    """Write a time out as the file would: `90s`, `2h`."""
    for unit, length in _UNITS:
        if lasts % length == timedelta() and (unit != "d" or lasts > length):
            return f"{lasts // length}{unit}"
    return f"{lasts.total_seconds():g}s"


# --- rules ------------------------------------------------------------------------------------


def _rules(evaluation: Evaluation, facts: Facts) -> Iterator[str]:
    deciding = {each.rule.name for each in evaluation.deciding}
    for each in evaluation.checked:
        rule = each.rule
        if each.unlike is not None:
            continue
        decides = ", and decides" if rule.name in deciding else ""
        yield f"rule {rule.name} (line {rule.line}): {_word(each)}{decides}"
        if each.commands:
            yield from (f"  command    {reason}" for reason in each.commands)
        if each.commands_doubt:
            yield f"  command    in doubt: {each.commands_doubt}"
        yield from (f"  {_held(held, facts)}" for held in each.held)
    others = [
        f"{each.rule.name}, by its {each.unlike}"
        for each in evaluation.checked
        if each.unlike is not None
    ]
    if others:
        yield f"rules that are not for such a call: {'; '.join(others)}"
    if not evaluation.checked:
        yield "the file has no rules"


def _word(checked: Checked) -> str:
    if checked.matches:
        return {"allow": "allows it", "ask": "asks", "deny": "denies it"}[checked.answer or "ask"]
    if checked.answer is None:
        return "has nothing to say of this command"
    return "not for this call"


def _held(held: Held, facts: Facts) -> str:
    doubtful = held.finding.truth is Truth.DOUBT
    value = "" if doubtful else _value(held.condition, facts)
    return f"{held.part:<10} {said(held.condition)}: {_found(held.finding, held.counts)}{value}"


def _found(finding: Finding, counts: bool) -> str:
    if finding.truth is Truth.DOUBT:
        return f"in doubt, and counts as {'yes' if counts else 'no'}: {finding.doubt}"
    return "yes" if finding.truth is Truth.HOLDS else "no"


def _value(condition: Condition, facts: Facts) -> str:
    """Show what a condition looked at, where that is one value."""
    if not isinstance(condition, Argument) or isinstance(facts.arguments, str):
        return ""
    value = value_at(facts.arguments, condition.place)
    if isinstance(value, Missing):
        return ""
    return f", it is {_shortened(value)}"


def _shortened(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def said(condition: Condition) -> str:
    """Write a condition out."""
    match condition:
        case Argument(place=place, tests=tests):
            return f"{place} {_tests(tests)}"
        case CostAbove(amount=amount, currency=currency):
            return f"it costs more than {amount:f} {currency}"
        case Irreversible(wanted=wanted):
            return "it is irreversible" if wanted else "it is reversible"
        case FirstOfItsKind(wanted=wanted, kind_of=kind_of):
            of = f" with this {', '.join(kind_of)}" if kind_of else ""
            return f"{'no' if wanted else 'a'} call of the tool{of} has succeeded before"
        case LowConfidence(below=below):
            return f"confidence below {below:f}"
        case Annotated(source=source, label=label, tests=tests):
            return f"{source} says {label}{' ' if tests else ''}{_tests(tests)}"
        case Expression(text=text):
            return f"cel {text}"


def _tests(tests: tuple[tuple[Operator, Operand], ...]) -> str:
    return " and ".join(
        operator if operator in ("present", "absent") else f"{operator} {shown_operand(operand)}"
        for operator, operand in tests
    )
