"""What shall happen in a world, as plain data: it can be printed, and made smaller.

A plan says who is there, what the agents propose, how each body behaves, what people do about each
request, and which misfortunes befall which process when. In which order all of it comes about is
the scheduler's to choose, by a seed of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What a happening waits for: the nth time that something of this kind is done anywhere.
Mark = Literal[
    "start", "step", "write", "intent", "entered", "acted", "left", "ended", "opened", "decided"
]

MisfortuneKind = Literal[
    "kill",
    "stop",
    "reboot",
    "interrupt",
    "cut_off",
    "clock",
    "leap",
    "environment",
    "policy",
    "file",
    "deploy",
    "approvers",
    "cancel",
    "end_session",
]

StoreFaultKind = Literal["lost", "unheard", "late", "slow", "refused", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A call that a model proposes; what is not said of an entry of its bodies is `ok`."""

    tool: str
    n: int
    does: tuple[str, ...] = ()
    undoes: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    raw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run: what its agent proposes, step by step, and how its driver goes about it."""

    session: str
    steps: tuple[tuple[PlannedCall, ...], ...]
    agent: str = "lead"
    at_once: bool = False
    driver: int = 0
    starts: float = 0.0
    supersede: bool = False
    resumes: tuple[float, ...] = ()
    troubles: int = 0
    requester: str = "rita"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What somebody does about a request, some time after it was opened."""

    delay: float
    person: str
    act: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfortune:
    """Something that happens to a process, a host or the world: at the `nth` mark, `after` a while.

    `who` names a role; empty: the process that made the mark. `lasts` is how long it lasts, or
    after how long a process is started again (below 0: never), `by` how far a clock is moved.
    """

    kind: MisfortuneKind
    mark: Mark
    nth: int
    after: float = 0.0
    who: str = ""
    lasts: float = 5.0
    by: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFault:
    """The nth command (or read) of all fails, or takes long."""

    kind: StoreFaultKind
    nth: int
    lasts: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole world. `files` are the policy files that are in force, one after another."""

    seed: int
    runs: tuple[PlannedRun, ...]
    children: tuple[tuple[tuple[PlannedCall, ...], ...], ...] = ()
    reactions: tuple[tuple[Reaction, ...], ...] = ()
    misfortunes: tuple[Misfortune, ...] = ()
    store_faults: tuple[StoreFault, ...] = ()
    drivers: int = 1
    workers: int = 1
    hosts: int = 1
    approvers: tuple[str, ...] = ("ann", "bob")
    later_approvers: tuple[tuple[str, ...], ...] = ()
    files: tuple[str, ...] = ()
    skews: tuple[float, ...] = (0.0,)
    poll: float = 60.0
    sticks: float = 0.0
    hurry: float = 0.5
    ending: Literal["answered", "lapsed"] = "answered"
    theme: str = ""
