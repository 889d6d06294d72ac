"""Policy files of simulated worlds, and what each is known to say: a second opinion on its rules.

The files are real ones, and placet's own code reads them. A world puts one in another's place while
it goes on, as an operator would; which one is in force is asked by every process at every look.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from placet.runtime.policies import PolicyFile, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A policy file. `people` says whom each rule names; "" stands for those who are not named.

    `asks` and `denies` are the tools of which it says so, whatever they declare themselves.
    `quorums` and `excluding` are the rules that ask for more than one, or not for the requester.
    """

    text: str
    people: dict[str, frozenset[str]] = field(default_factory=dict)
    asks: frozenset[str] = frozenset()
    denies: frozenset[str] = frozenset()
    quorums: dict[str, int] = field(default_factory=dict)
    excluding: frozenset[str] = frozenset()
    deputies: tuple[tuple[str, str, str], ...] = ()
    is_broken: bool = False


VARIANTS: dict[str, Variant] = {
    "two": Variant(
        text="""version = 1
[groups]
desk = ["ann", "bob", "cyd"]

[[rule]]
name = "two"
ruling = "ask"
tools = ["pay", "send", "move", "file", "push"]
approvers = ["@desk"]
quorum = 2

[[rule]]
name = "others"
ruling = "ask"
tools = ["book", "patch", "ping", "order"]
approvers = ["ann", "rita", "bob"]
exclude_requester = true
""",
        people={
            "policy:two": frozenset({"ann", "bob", "cyd"}),
            "policy:others": frozenset({"ann", "rita", "bob"}),
        },
        asks=frozenset({"pay", "send", "move", "file", "push", "book", "patch", "ping", "order"}),
        quorums={"policy:two": 2},
        excluding=frozenset({"policy:others"}),
    ),
    "reaching": Variant(
        text="""version = 1
[defaults]
approvers = ["ann", "bob"]
deadline = "2h"
hold = "surface"

[[rule]]
name = "reaching"
ruling = "ask"
tools = ["pay", "lend", "order", "hold", "write"]
escalate = [{after = "20m", approvers = ["cyd"]}, {after = "10m"}]
""",
        people={
            "policy:reaching": frozenset({"ann", "bob", "cyd"}),
            "": frozenset({"ann", "bob"}),
        },
        asks=frozenset({"pay", "lend", "order", "hold", "write"}),
    ),
    "strict": Variant(
        text="""version = 1
[[delegation]]
from = "ann"
to = "cyd"
until = 2026-03-01T12:30:00Z

[[rule]]
name = "never"
ruling = "deny"
tools = ["push", "hold", "lend"]

[[rule]]
name = "ann alone"
ruling = "ask"
tools = ["pay", "ping", "scan", "write", "send"]
approvers = ["ann"]
""",
        people={"policy:ann alone": frozenset({"ann"})},
        asks=frozenset({"pay", "ping", "scan", "write", "send"}),
        denies=frozenset({"push", "hold", "lend"}),
        deputies=(("ann", "cyd", "2026-03-01T12:30:00+00:00"),),
    ),
    "broken": Variant(text="version = 1\n[[rule]]\nname = 3\n", is_broken=True),
}


class Asked(Protocol):
    """What was asked of people: of whom, by an instant, and how many of them must approve."""

    quorum: int
    excluded: str
    deadline: datetime

    def people(self, now: datetime) -> set[str]:
        """Name those who were asked by an instant."""
        ...


def may_decide(
    variant: Variant, rule: str, asked: Asked, now: datetime, settings: tuple[str, ...]
) -> set[str]:
    """Name those who may decide what a rule asked while a file is in force.

    They are those who were asked, as far as the rule names them today (or, where it is gone, as far
    as anything does), their deputies, and, where those are too few, whoever is named today.
    """
    default = variant.people.get("", frozenset(settings))
    gone = rule.startswith("policy:") and rule not in variant.people
    named = variant.people.get(rule, default)
    known = named.union(settings, *variant.people.values()) if gone else named

    def with_deputies(people: set[str]) -> set[str]:
        ended = {deputy for _, deputy, until in variant.deputies if now >= _instant(until)}
        found = {d for whose, d, _ in variant.deputies if whose in people - {asked.excluded}}
        return (people | (found - ended)) - {asked.excluded}

    standing = with_deputies(asked.people(now) & known)
    if len(standing | (asked.people(asked.deadline) & known)) < asked.quorum:
        return standing | with_deputies({*named})
    return standing


def named(variant: Variant, rule: str, now: datetime, settings: tuple[str, ...]) -> set[str]:
    """Name those who may decide whatever a rule asks while a file is in force."""
    people = {*variant.people.get(rule, variant.people.get("", frozenset(settings)))}
    deputies = {d for who, d, end in variant.deputies if who in people and now < _instant(end)}
    return people | deputies


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@cache
def _read(name: str) -> PolicyFile:
    path = Path(_folder().name) / f"{name}.toml"
    path.write_text(VARIANTS[name].text)
    os.utime(path, (1_700_000_000, 1_700_000_000))  # It has not changed for long.
    return PolicyFile(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="placet-simulation-")


class FileInForce(PolicyFile):
    """The policy file of a world: whichever of the files stands at its path now."""

    def __init__(self, which: Callable[[], str]) -> None:
        self._which = which

    def now(self, approvers: tuple[str, ...]) -> Standing:
        """Look at the file that is in force."""
        return _read(self._which()).now(approvers)
