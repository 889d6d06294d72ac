"""Disk errors: a call on the store's files answers that the disk is full, or that it is broken.

The error is met once, or from one call on until the disk is well again. What was asked is then
refused with what is to be done, or was not touched by it; the same process, or another, brings the
life to its end.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from itertools import product
from typing import Any

from tests.disk import shim
from tests.disk.forge import Forge
from tests.disk.life import Kind, Phase
from tests.disk.lives import Prepared, living, wrong_with
from tests.disk.shim import Deed, Setting

#: What the errors are called.
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One error of the disk, in one phase of a life."""

    kind: Kind
    phase: Phase
    error: str
    at: int
    lasts: bool
    goes_on: bool

    def setting(self) -> Setting:
        """Give what the disk is to do; one that fills up first takes a part of a write."""
        full = self.error == "full"
        return Setting(
            deed=Deed.FAIL_HALFWAY if full and self.lasts else Deed.FAIL,
            at=self.at,
            times=shim.FOR_EVER if self.lasts else 1,
            error=ERRORS[self.error],
        )

    def __str__(self) -> str:
        lasts = "from call" if self.lasts else "at call"
        then = "the process goes on" if self.goes_on else "another process goes on"
        return f"{self.kind}: {self.phase}, disk {self.error} {lasts} {self.at}, {then}"


def troubles_of(prepared: Prepared, phase: Phase, *, every: int = 1) -> list[Trouble]:
    """Give the troubles of a phase: at one of `every` of its calls, each time at others."""
    calls = len(prepared.passed[phase].calls)
    found: list[Trouble] = []
    ways = product(ERRORS, (False, True), (False, True))
    for shift, (error, lasts, goes_on) in enumerate(ways):
        found += [
            Trouble(
                kind=prepared.kind, phase=phase, error=error, at=at, lasts=lasts, goes_on=goes_on
            )
            for at in range(1 + shift * 7 % every, calls + 1, every)
        ]
    return found


@dataclass(slots=True, kw_only=True)
class Met:
    """What came of a trouble: with what it was refused, where it was, and what is wrong.

    `acknowledged` counts the events that the process in trouble had been told of.
    """

    refused: str = ""
    acknowledged: int = 0
    settlements: int = 0
    payments: int = 0
    wrong: list[str]


def met_with(prepared: Prepared, forge: Forge, trouble: Trouble) -> Met:
    """Live through a trouble, and say what came of it."""
    kind = trouble.kind
    with prepared.copy(trouble.phase) as place, living(forge, place, kind) as lived:
        ended = lived.troubled(trouble.phase, trouble.setting(), goes_on=trouble.goes_on)
        refused, told = ended.said.get("refused", []), ended.said.get("acknowledged", [])
        if ended.status == 0 and not trouble.goes_on:
            ended = lived.finish()
    if ended.status != 0:
        return Met(wrong=[f"{trouble}: {ended.told()}"])
    seen = ended.said
    wrong = wrong_with(kind, seen, dies=False) + wrong_with_refusal(refused)
    if lost := [seq for seq, body in told if [seq, body] not in seen["bodies"]]:
        wrong.append(f"events {lost} were acknowledged, and are lost")
    return Met(
        refused=refused[0]["code"] or refused[0]["type"] if refused else "",
        acknowledged=len(told),
        settlements=seen["settlements"],
        payments=len(seen["payments"]),
        wrong=[f"{trouble}: {what}" for what in wrong],
    )


def wrong_with_refusal(refused: list[dict[str, Any]]) -> list[str]:
    """Hold what was refused to what it must say."""
    wrong = []
    for error in refused:
        if error["type"] != "StoreTrouble":
            wrong.append(f"refused with a {error['type']}: {error['told']}")
        elif not error["hint"]:
            wrong.append(f"refused without what to do: {error['told']}")
    return wrong
