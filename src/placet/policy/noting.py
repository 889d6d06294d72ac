"""What a policy names and an app does not have: no fault, for the file may be for several apps.

And what can have no effect: a step of an escalation that reaches nobody new, and commands that
nothing here can parse.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping

from placet.core.values import EVERY_SURFACE
from placet.policy.faults import Fault
from placet.policy.groups import members
from placet.policy.operators import matches_pattern
from placet.policy.rules import Argument, Policy, SelectorKind
from placet.policy.shell_tree import grammar

_CALLED: Mapping[SelectorKind, str] = {
    "tools": "tool",
    "surfaces": "surface",
    "agents": "agent",
    "scopes": "scope",
}


def notes(
    policy: Policy,
    there: Mapping[SelectorKind, Collection[str]],
    arguments: Mapping[str, Collection[str] | None],
) -> tuple[Fault, ...]:
    """Note names, and patterns, that nothing which is there has: a rule may be for nothing.

    `arguments` has the names of each tool's arguments; None: it takes any.
    """
    return tuple(
        sorted(
            {
                *_of_surfaces(policy, there["surfaces"]),
                *_of_rules(policy, there),
                *_of_arguments(policy, arguments),
                *_of_escalations(policy),
            }
        )
    )


def without_extras(policy: Policy) -> tuple[Fault, ...]:
    """Note the rules that cannot allow anything, because what reads commands is not installed."""
    rules = [rule for rule in policy.rules if rule.commands is not None]
    if not rules or grammar() is not None:
        return ()
    told = "It allows no command here, for none can be read without the extra `shell`"
    return tuple(Fault(line=rule.line, message=f"{told} ({rule.name})") for rule in rules)


def _of_arguments(
    policy: Policy, arguments: Mapping[str, Collection[str] | None]
) -> Iterator[Fault]:
    """Note an argument of a condition that no tool has which the rule is for."""
    for rule in policy.rules:
        patterns = [each.patterns for each in rule.selectors if each.kind == "tools"]
        tools = [
            tool
            for tool in arguments
            if all(any(matches_pattern(tool, each) for each in among) for among in patterns)
        ]
        names = [arguments[tool] for tool in tools]
        if not tools or any(each is None for each in names):
            continue
        known = {name for each in names for name in each or ()}
        for condition in (*rule.when, *rule.unless):
            if isinstance(condition, Argument) and (name := condition.steps[0]) not in known:
                like = difflib.get_close_matches(name, known, n=1)
                meant = f"; is {like[0]!r} meant?" if like else ""
                told = f"No tool that it is for has an argument {name!r}{meant} ({rule.name})"
                yield Fault(line=rule.line, message=told)


def _of_escalations(policy: Policy) -> Iterator[Fault]:
    """Note a step of an escalation whose people are all asked before it."""
    for rule in policy.rules:
        asked = set(members(policy, rule.demands.approvers or policy.defaults.approvers))
        for step in rule.demands.escalation:
            people = set(members(policy, step.approvers))
            if people and asked and people <= asked:
                who = ", ".join(step.approvers)
                told = f"Escalation reaches nobody new: {who} may decide already ({rule.name})"
                yield Fault(line=rule.line, message=told)
            asked |= people


def _of_surfaces(policy: Policy, there: Collection[str]) -> Iterator[Fault]:
    for name in policy.surfaces:
        if name not in there and name != EVERY_SURFACE:
            yield Fault(line=0, message=f"{_nothing('surfaces', name, there)} ([surfaces])")


def _of_rules(policy: Policy, there: Mapping[SelectorKind, Collection[str]]) -> Iterator[Fault]:
    for rule in policy.rules:
        for selector in rule.selectors:
            names = there.get(selector.kind)
            for pattern in () if names is None else selector.patterns:
                if not any(matches_pattern(name, pattern) for name in names or ()):
                    message = f"{_nothing(selector.kind, pattern, names or ())} ({rule.name})"
                    yield Fault(line=rule.line, message=message)


def _nothing(kind: SelectorKind, name: str, there: Collection[str]) -> str:
    like = difflib.get_close_matches(name, there, n=1)
    meant = f"; is {like[0]!r} meant?" if like else ""
    return f"The app has no {_CALLED[kind]} {name!r}{meant}"
