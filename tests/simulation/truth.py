"""The world outside of placet: what bodies truly did to it, whatever anybody has on record.

A body is entered by a process and ends, or never does. It may act only while its process lives. A
world that is asked under a key which it has seen does nothing more (for tools that declare so).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.simulation.machine import Process

BodyKind = Literal["run", "compensate", "roll_back", "read", "probe", "look"]


@dataclass(slots=True)
class Body:
    """One entry of a tool's function. `did` counts what it did to the world."""

    number: int
    tool: str
    n: int
    kind: BodyKind
    key: str
    mark: str
    process: Process
    over: bool = False
    tried: int = 0
    did: int = 0
    attempt: int = 0

    @property
    def may_act(self) -> bool:
        """Say whether it may act yet: it has not ended, and its process is not gone."""
        return not self.over and self.process.lives


@dataclass(slots=True)
class Truth:
    """What was done. `applied` counts, by tool and number, what is done and not undone.

    `done` has the keys under which a tool's own effect was done, and `known_for` says for which
    tools a key is known only for so many seconds after it was first seen.
    """

    bodies: list[Body] = field(default_factory=list)
    applied: dict[tuple[str, int], int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    keys: dict[str, float] = field(default_factory=dict)
    known_for: dict[str, float] = field(default_factory=dict)
    environment: dict[str, int] = field(default_factory=dict)
    entered: Callable[[Body], None] = lambda _: None
    acted: Callable[[Body], None] = lambda _: None
    left: Callable[[Body], None] = lambda _: None

    def enter(
        self, tool: str, n: int, kind: BodyKind, *, key: str, mark: str, process: Process
    ) -> Body:
        body = Body(len(self.bodies), tool, n, kind, key, mark, process)
        self.bodies.append(body)
        self.entered(body)
        return body

    def act(self, body: Body, *, keyed: bool, now: float, is_late: bool = False) -> None:
        """Let a body act; under a key that was seen, a keyed tool does nothing more.

        Where the other side knows a key for a time only, it has forgotten it after that. What a
        body that stood still beyond its time limit does then, no library can hinder: it is where
        the promise ends, and counts for nothing (D4).
        """
        if not body.process.lives or body.over:
            return
        body.tried += 1
        known, lasts = self.keys.get(body.key), self.known_for.get(body.tool)
        if keyed and known is not None and (lasts is None or now <= known + lasts):
            return
        if is_late and known is not None and lasts is not None:
            return
        self.keys[body.key] = now
        body.did += 1
        place = (body.tool, body.n)
        if body.kind == "run":
            self.done.add(body.key)
            self.applied[place] = self.applied.get(place, 0) + 1
        else:
            self.applied[place] = max(0, self.applied.get(place, 0) - 1)
        self.acted(body)

    def put_back(self, body: Body, value: int) -> None:
        """Let a body put the world back to what a snapshot says that it was."""
        if body.process.lives and not body.over:
            body.tried += 1
            body.did += 1
            self.applied[body.tool, body.n] = value
            self.acted(body)

    def leave(self, body: Body) -> None:
        """Let a body end."""
        if body.process.lives and not body.over:
            body.over = True
            self.left(body)
