"""What a policy names and an app does not have: no fault, for the file may be for several apps."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping

from placet.core.values import EVERY_SURFACE
from placet.policy.faults import Fault
from placet.policy.operators import matches_pattern
from placet.policy.rules import Policy, SelectorKind

_CALLED: Mapping[SelectorKind, str] = {
    "tools": "tool",
    "surfaces": "surface",
    "agents": "agent",
    "scopes": "scope",
}


def notes(policy: Policy, there: Mapping[SelectorKind, Collection[str]]) -> tuple[Fault, ...]:
    """Note names, and patterns, that nothing which is there has: a rule may be for nothing."""
    return tuple(sorted({*_of_surfaces(policy, there["surfaces"]), *_of_rules(policy, there)}))


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
