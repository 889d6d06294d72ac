"""Reading the rules of a policy file: what each is for, what must hold, what it demands.

Whatever could be meant in two ways is a fault. So is what could never matter, such as a quorum in
a rule that only allows: who wrote it meant something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from placet.core.errors import InvalidInput
from placet.core.values import Escalation, Hold
from placet.policy.cel import ExpressionTrouble, checked
from placet.policy.fields import Fields, Table
from placet.policy.groups import people_in
from placet.policy.lines import Path
from placet.policy.operators import number
from placet.policy.rules import (
    ANY,
    GROUP,
    STRICTNESS,
    Annotated,
    Argument,
    Commands,
    Condition,
    CostAbove,
    Demands,
    Expression,
    FirstOfItsKind,
    Irreversible,
    LowConfidence,
    Operand,
    Operator,
    Rule,
    Selector,
    SelectorKind,
)
from placet.policy.shell_rules import CommandRule

OPERATORS: tuple[Operator, ...] = get_args(Operator)
SELECTORS: tuple[SelectorKind, ...] = get_args(SelectorKind)
HOLDS: tuple[Hold, ...] = get_args(Hold)

#: The keys of a rule that only matter where it asks.
DEMANDS = ("approvers", "quorum", "exclude_requester", "deadline", "hold", "escalate")
TRIGGERS = (
    "cost_above",
    "irreversible",
    "first_of_its_kind",
    "kind_of",
    "low_confidence_below",
    "annotation",
    "cel",
)
RULE_KEYS = (
    "name",
    "ruling",
    "reason",
    *SELECTORS,
    "when",
    "unless",
    *TRIGGERS,
    "command",
    *DEMANDS,
)
COMMAND_KEYS = ("words", "options", "unless", "having", "writes", "assigns")

MAX_REASON = 1_000
MAX_QUORUM = 50
MAX_STEPS = 10
MAX_CHANNEL = 100

_NUMBERS: frozenset[Operator] = frozenset({"above", "below", "at_least", "at_most", "longer_than"})
_LISTS: frozenset[Operator] = frozenset({"in", "not_in"})
_THERE: frozenset[Operator] = frozenset({"present", "absent"})


def rule_from(
    fields: Fields, value: object, path: Path, groups: Mapping[str, Sequence[str]]
) -> Rule:
    """Read one rule."""
    table = fields.table(value, path, RULE_KEYS)
    name = fields.name(table.get("name"), (*path, "name"), "name", most=100)
    if "," in name:
        fields.fault((*path, "name"), "name must have no comma: names are listed with commas.")
    ruling = fields.word(table, path, "ruling", tuple(STRICTNESS), must=True) or "ask"
    reason = fields.text(table, path, "reason")
    if len(reason) > MAX_REASON:
        fields.fault((*path, "reason"), f"reason is longer than {MAX_REASON} characters.")
    commands = _commands(fields, table, path, ruling)
    if ruling != "ask" and commands is None:
        fields.only(path, table, DEMANDS, "only matters in a rule that asks.")
    return Rule(
        name=name,
        ruling=ruling,
        line=fields.line(path),
        reason=reason,
        selectors=_selectors(fields, table, path, groups),
        when=(*_conditions(fields, table, path, "when"), *_triggers(fields, table, path)),
        unless=_conditions(fields, table, path, "unless"),
        commands=commands,
        demands=_demands(fields, table, path, groups),
    )


# --- whom it is for ---------------------------------------------------------------------------


def _selectors(
    fields: Fields, table: Table, path: Path, groups: Mapping[str, Sequence[str]]
) -> tuple[Selector, ...]:
    found = []
    for kind in SELECTORS:
        if kind not in table:
            continue
        patterns = fields.names(table, path, kind)
        if kind == "requesters":
            patterns = _requesters(fields, patterns, (*path, kind), groups)
        found.append(Selector(kind=kind, patterns=patterns))
    return tuple(found)


def _requesters(
    fields: Fields, names: tuple[str, ...], path: Path, groups: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Put the members of groups in their places; who a run acts for is always a person."""
    found: list[str] = []
    for place, name in enumerate(names):
        if not name.startswith(GROUP):
            found.append(name)
        elif name[1:] in groups:
            found += (one for one in people_in(groups, [name]) if not one.startswith(GROUP))
        else:
            fields.fault((*path, place), f"There is no group {name}.")
    return tuple(dict.fromkeys(found))


# --- what must hold ---------------------------------------------------------------------------


def _conditions(fields: Fields, table: Table, path: Path, key: str) -> tuple[Condition, ...]:
    fields.filled(table, path, (key,))
    found = []
    for value, at in fields.tables(table, path, key):
        condition = fields.table(value, at, ("argument", *OPERATORS))
        found.append(
            Argument(
                place=_place(fields, condition.get("argument"), (*at, "argument"), stars=True),
                tests=_tests(fields, condition, at, must=True),
            )
        )
    return tuple(found)


def _place(fields: Fields, value: object, path: Path, *, stars: bool) -> str:
    place = fields.name(value, path, "argument")
    steps = place.split(".")
    if not all(steps):
        fields.fault(path, f"{place!r} is no path: its names stand between single dots.")
    if any(ANY in step and (step != ANY or not stars) for step in steps) or steps[0] == ANY:
        told = "A star stands alone between dots, after a name" if stars else "No star stands here"
        fields.fault(path, f"{told}: {place!r}.")
    return place


def _tests(
    fields: Fields, table: Table, path: Path, *, must: bool
) -> tuple[tuple[Operator, Operand], ...]:
    found = []
    for operator in OPERATORS:
        if operator in table:
            operand = _operand(fields, operator, table[operator], (*path, operator))
            found.append((operator, operand))
    if must and not found:
        fields.fault(path, f"The condition has no operator: one of {', '.join(OPERATORS)}.")
    if len(found) > 1 and _THERE & {operator for operator, _ in found}:
        fields.fault(path, "present and absent stand alone.")
    return tuple(found)


def _operand(fields: Fields, operator: Operator, value: object, path: Path) -> Operand:
    if operator in _THERE:
        if value is not True:
            other = "absent" if operator == "present" else "present"
            fields.fault(path, f"{operator} must be true; for the contrary say {other} = true.")
        return True
    if operator in _LISTS:
        if not isinstance(value, list) or not value:
            fields.fault(path, f"{operator} must be a list that is not empty.")
            return ()
        several = tuple(fields.scalar(one, (*path, i), operator) for i, one in enumerate(value))
        if len({type(one) for one in several}) > 1:
            fields.fault(path, f"{operator} must be a list of values of one kind.")
        return several
    single = fields.scalar(value, path, operator)
    if operator in _NUMBERS and number(single) is None:
        fields.fault(path, f"{operator} must be a number.")
    if operator == "matches" and not isinstance(single, str):
        fields.fault(path, "matches must be a text, in which * stands for any text.")
    return single


def _triggers(fields: Fields, table: Table, path: Path) -> tuple[Condition, ...]:
    found: list[Condition | None] = [_cost(fields, table, path)]
    if (irreversible := fields.flag(table, path, "irreversible")) is not None:
        found.append(Irreversible(wanted=irreversible))
    found.append(_first(fields, table, path))
    if "low_confidence_below" in table:
        below = fields.exact(table, path, "low_confidence_below")
        if below is not None and not 0 < below <= 1:
            told = "low_confidence_below must be above 0 and at most 1: a confidence is a share."
            fields.fault((*path, "low_confidence_below"), told)
        found.append(None if below is None else LowConfidence(below=below))
    found.append(_annotation(fields, table, path))
    if "cel" in table:
        text = fields.text(table, path, "cel")
        fields.kept((*path, "cel"), lambda: checked(text), ExpressionTrouble)
        found.append(Expression(text=text))
    return tuple(each for each in found if each is not None)


def _cost(fields: Fields, table: Table, path: Path) -> CostAbove | None:
    if "cost_above" not in table:
        return None
    path = (*path, "cost_above")
    cost = fields.table(table["cost_above"], path, ("amount", "currency"))
    amount = fields.exact(cost, path, "amount")
    if amount is not None and amount < 0:
        fields.fault((*path, "amount"), "amount must not be below 0: nothing costs less.")
    currency = fields.name(cost.get("currency"), (*path, "currency"), "currency")
    return None if amount is None else CostAbove(amount=amount, currency=currency)


def _first(fields: Fields, table: Table, path: Path) -> FirstOfItsKind | None:
    wanted = fields.flag(table, path, "first_of_its_kind")
    if wanted is None:
        fields.only(path, table, ("kind_of",), "only matters beside first_of_its_kind.")
        return None
    places = fields.names(table, path, "kind_of")
    for i, place in enumerate(places):
        _place(fields, place, (*path, "kind_of", i), stars=False)
    return FirstOfItsKind(wanted=wanted, kind_of=places)


def _annotation(fields: Fields, table: Table, path: Path) -> Annotated | None:
    if "annotation" not in table:
        return None
    path = (*path, "annotation")
    value = fields.table(table["annotation"], path, ("source", "label", *OPERATORS))
    return Annotated(
        source=fields.name(value.get("source"), (*path, "source"), "source"),
        label=fields.name(value.get("label"), (*path, "label"), "label"),
        tests=_tests(fields, value, path, must=False),
    )


# --- commands ---------------------------------------------------------------------------------


def _commands(fields: Fields, table: Table, path: Path, ruling: str) -> Commands | None:
    if "command" not in table:
        return None
    path = (*path, "command")
    value = fields.table(table["command"], path, ("argument", "allow", "deny"))
    if "allow" not in value and "deny" not in value:
        fields.fault(path, "command must say what it allows, or what it denies.")
    if ruling == "deny" and "allow" in value:
        fields.fault((*path, "allow"), "A rule that denies allows nothing: leave allow out.")
    if ruling == "deny" and "deny" not in value:
        fields.fault(path, "A rule that denies commands must say which: name them in deny.")
    argument = "command"
    if "argument" in value:
        argument = _place(fields, value["argument"], (*path, "argument"), stars=False)
    return Commands(
        argument=argument,
        allow=_patterns(fields, value, path, "allow"),
        deny=_patterns(fields, value, path, "deny"),
    )


def _patterns(fields: Fields, table: Table, path: Path, key: str) -> tuple[CommandRule, ...]:
    if key not in table:
        return ()
    several = table[key]
    if not isinstance(several, list) or not several:
        fields.fault((*path, key), f"{key} must be a list of commands that is not empty.")
        return ()
    found = [_pattern(fields, each, (*path, key, place)) for place, each in enumerate(several)]
    return tuple(pattern for pattern in found if pattern is not None)


def _pattern(fields: Fields, value: object, path: Path) -> CommandRule | None:
    written = value if isinstance(value, dict) else {"words": value}
    table = fields.table(written, path, COMMAND_KEYS)
    if "words" not in table:
        fields.fault(path, "A command has words.")
        return None
    words, options, unless, having, assigns = (
        _words(fields, table, path, key)
        for key in ("words", "options", "unless", "having", "assigns")
    )
    fields.filled(table, path, ("unless", "having"))
    writes = fields.flag(table, path, "writes") or False

    def made() -> CommandRule:
        return CommandRule(
            words=words or (),
            options=options,
            unless=unless or (),
            having=having or (),
            writes=writes,
            assigns=assigns or (),
        )

    return fields.kept(path, made, InvalidInput)


def _words(fields: Fields, table: Table, path: Path, key: str) -> tuple[str, ...] | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        fields.fault((*path, key), f"{key} must be a list of texts, one for each word.")
        return ()
    return tuple(value)


# --- what it demands --------------------------------------------------------------------------


def _demands(
    fields: Fields, table: Table, path: Path, groups: Mapping[str, Sequence[str]]
) -> Demands:
    exclude = fields.flag(table, path, "exclude_requester")
    return Demands(
        approvers=approvers(fields, table, path, "approvers", groups),
        quorum=fields.whole(table, path, "quorum", most=MAX_QUORUM) or 1,
        exclude_requester=exclude or False,
        deadline=fields.duration(table, path, "deadline"),
        hold=fields.word(table, path, "hold", HOLDS),
        escalation=_escalation(fields, table, path, groups),
    )


def approvers(
    fields: Fields, table: Table, path: Path, key: str, groups: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Read a list of people and groups; who a run acts for may stand in it as @requester."""
    names = fields.names(table, path, key)
    for place, name in enumerate(names):
        known = name.removeprefix(GROUP) in groups or name == "@requester"
        if name.startswith(GROUP) and not known:
            fields.fault((*path, key, place), f"There is no group {name}.")
        if ANY in name:
            fields.fault((*path, key, place), "An approver is named, and no pattern.")
    return names


def _escalation(
    fields: Fields, table: Table, path: Path, groups: Mapping[str, Sequence[str]]
) -> tuple[Escalation, ...]:
    fields.filled(table, path, ("escalate",))
    steps = []
    for value, at in fields.tables(table, path, "escalate"):
        step = fields.table(value, at, ("after", "approvers", "channel"))
        after = fields.duration(step, at, "after")
        if after is None and "after" not in step:
            fields.fault(at, 'A step of escalate says after how long, as after = "10m".')
        channel = step.get("channel", "")
        if channel != "":
            fields.name(channel, (*at, "channel"), "channel", most=MAX_CHANNEL)
        people = approvers(fields, step, at, "approvers", groups)
        if after is not None:
            steps.append(Escalation(after=after, approvers=people, channel=str(channel)))
    if len(steps) > MAX_STEPS:
        fields.fault((*path, "escalate"), f"escalate has more than {MAX_STEPS} steps.")
    return tuple(sorted(steps, key=lambda step: step.after))
