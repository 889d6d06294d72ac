"""What rules in shadow would have ruled, counted from the record.

A call counts once, however often it was edited or asked anew; where several rules decided together,
it counts for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from placet.core.codec import decode_event
from placet.core.events import CallEnded, CallProposed, RequestOpened
from placet.core.values import Occurrence, Shadow
from placet.stores.store import Recorded

_KINDS = frozenset({"CallProposed", "CallEnded", "RequestOpened"})
_BY_POLICY = "policy:"


@dataclass(slots=True, kw_only=True)
class Trial:
    """What one rule would have ruled: how often, of which tools, and what happened instead.

    `asked` is how long people would have had to decide, all calls together; `asked_anyway` counts
    those of its calls about which people were asked all the same, and `denied_anyway` those that
    were answered at once.
    """

    rule: str
    ruling: Literal["allow", "ask", "deny"]
    times: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    asked: timedelta = timedelta()
    asked_anyway: int = 0
    denied_anyway: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """How many calls were ruled on in shadow, and each rule's part, the strictest first."""

    calls: int
    rules: tuple[Trial, ...]


def trials(logs: Iterable[Iterable[Recorded]]) -> Trials:
    """Count what is on record of the sessions whose event logs these are."""
    rules: dict[tuple[str, str], Trial] = {}
    calls = 0
    for log in logs:
        of_call: dict[Occurrence, list[Trial]] = {}
        for recorded in log:
            if recorded.kind not in _KINDS:
                continue
            match decode_event(recorded.kind, recorded.body):
                case CallProposed(at=at, version=1, tool=tool, shadow=Shadow() as shadow):
                    calls += 1
                    of_call[at] = _count(rules, tool, shadow)
                case RequestOpened(at=at, kind="approval", replaces=None):
                    for trial in of_call.pop(at, []):
                        trial.asked_anyway += 1
                case CallEnded(tool=tool, shadow=Shadow() as shadow):
                    calls += 1
                    for trial in _count(rules, tool, shadow):
                        trial.denied_anyway += 1
                case _:
                    pass
    order = {"deny": 0, "ask": 1, "allow": 2}
    found = sorted(
        rules.values(), key=lambda trial: (order[trial.ruling], -trial.times, trial.rule)
    )
    return Trials(calls=calls, rules=tuple(found))


def _count(rules: dict[tuple[str, str], Trial], tool: str, shadow: Shadow) -> list[Trial]:
    counted = []
    for name in shadow.rule.removeprefix(_BY_POLICY).split(", "):
        trial = rules.setdefault((name, shadow.ruling), Trial(rule=name, ruling=shadow.ruling))
        trial.times += 1
        trial.tools[tool] = trial.tools.get(tool, 0) + 1
        trial.asked += shadow.lasts or timedelta()
        counted.append(trial)
    return counted
