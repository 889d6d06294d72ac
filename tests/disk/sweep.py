"""The sweep: a payment's life is killed at every point of every phase, and then brought to its end.

A point is a SQL statement, or a call that changes the store's files or makes them last: the
process is killed before the call, after it, or, where it writes, halfway through it. Others then
finish the life, and it is counted what the payment server did and what people were asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.disk.forge import Forge
from tests.disk.life import Kind, Manner, Phase
from tests.disk.lives import Prepared, living, wrong_with
from tests.disk.shim import Calls, Deed, Setting

How = Literal["statement", "before", "after", "halfway"]

_DEEDS = {
    "before": Deed.KILL_BEFORE,
    "after": Deed.KILL_AFTER,
    "halfway": Deed.KILL_HALFWAY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a process is killed; `call` is what it was at, where that is no SQL statement."""

    kind: Kind
    phase: Phase
    how: How
    at: int
    call: Calls | None = None

    def manner(self) -> Manner:
        """Give how the phase is lived."""
        if self.how == "statement":
            return Manner(statement=self.at)
        return Manner(setting=Setting(deed=_DEEDS[self.how], at=self.at))

    def __str__(self) -> str:
        where = "before statement" if self.how == "statement" else f"{self.how} call"
        return f"{self.kind}: {self.phase}, killed {where} {self.at}"


@dataclass(slots=True)
class Tally:
    """What was counted at some points; `survived` are those that a process did not come to."""

    points: int = 0
    survived: int = 0
    payments: int = 0
    voids: int = 0
    settlements: int = 0
    asked: int = 0
    twice: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what another tally has counted."""
        self.points += other.points
        self.survived += other.survived
        self.payments += other.payments
        self.voids += other.voids
        self.settlements += other.settlements
        self.asked += other.asked
        self.twice += other.twice
        self.wrong += other.wrong


def points_of(prepared: Prepared, phase: Phase) -> list[Point]:
    """Give the points of a phase.

    Between two writes that follow each other nothing happens: being killed after the first is
    being killed before the second.
    """
    kind, passed = prepared.kind, prepared.passed[phase]
    points = [
        Point(kind=kind, phase=phase, how="statement", at=at + 1) for at in range(passed.statements)
    ]
    for at, call in enumerate(passed.calls, start=1):
        hows: list[How] = ["before"]
        if call == Calls.WRITE:
            hows.append("halfway")
        if passed.calls[at - 1 : at + 1] != (Calls.WRITE, Calls.WRITE):
            hows.append("after")
        points += [Point(kind=kind, phase=phase, how=how, at=at, call=call) for how in hows]
    return points


def thinned(points: Sequence[Point], every: int) -> list[Point]:
    """Give those at which something has just been made to last, and one of `every` of the others.

    They are not the same ones of two phases, or of two ways to be killed.
    """
    passed: Counter[tuple[Kind, Phase, How]] = Counter()
    kept: list[Point] = []
    for point in points:
        place = (point.kind, point.phase, point.how)
        lasts = point.how == "after" and point.call == Calls.SYNC
        if lasts or (passed[place] + sum(map(ord, "".join(place)))) % every == 0:
            kept.append(point)
        passed[place] += 1
    return kept


def tried_with(prepared: Prepared, forge: Forge, point: Point) -> Tally:
    """Kill a life at a point, have it finished, and count."""
    tally = Tally(points=1)
    with prepared.copy(point.phase) as place, living(forge, place, point.kind) as lived:
        ended = lived.phase(point.phase, point.manner())
        if not ended.killed:
            ended.answer()
            tally.survived = 1
        finished = lived.finish()
    if finished.status != 0:
        tally.wrong.append(f"{point}: it cannot be finished: {finished.told()}")
        return tally
    seen = finished.said
    tally.payments, tally.voids = len(seen["payments"]), len(seen["voids"])
    tally.settlements, tally.asked = seen["settlements"], seen["approvals"]
    tally.twice = sum(
        max(0, count - 1) for count in (tally.payments, tally.voids, tally.settlements, tally.asked)
    )
    tally.wrong += [f"{point}: {what}" for what in wrong_with(point.kind, seen)]
    return tally
