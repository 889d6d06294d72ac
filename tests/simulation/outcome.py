"""What became of a world, and how its events are told of in a trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from placet.core import events as e
from tests.simulation.promises import Fault


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a world."""

    seed: int
    faults: list[Fault]
    steps: int
    seconds: float
    commits: int
    befell: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    bodies: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)


def told(event: e.Event) -> str:
    """Tell of an event in one line, without its texts and salts."""
    parts = []
    for name in event.__slots__:
        value = getattr(event, name)
        if name in _SHOWN and value not in (None, "", 0, False):
            parts.append(f"{name}={value}")
    return f"{type(event).__name__} {' '.join(parts)}"


_SHOWN = frozenset(
    "run at step calls request kind tool version digest by met fence attempt purpose code stop"
    " outcome how not_done body_over reopened successor changed surface until deadline_at child"
    " people finding parent cause again_at environment generation".split()
)
