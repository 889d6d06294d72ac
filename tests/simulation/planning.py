"""From a seed to a plan: what is likely to happen together, by one of a few themes.

A theme says which tools the agents use, how their bodies behave, what people do and when, and which
misfortunes are likely. Without themes most of what is rare would never meet what else is rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tests.simulation.framework import FRAMEWORK
from tests.simulation.guards import GUARD, OPTIONS
from tests.simulation.plan import (
    Mark,
    Misfortune,
    MisfortuneKind,
    Plan,
    PlannedCall,
    PlannedRun,
    Reaction,
    StoreFault,
    StoreFaultKind,
)
from tests.simulation.policies import VARIANTS
from tests.simulation.tools import BODIES, CHILDREN, EFFECTS, READS, UNDOING

T = TypeVar("T")

DAY = 86_400.0
SOON = (0.0, 0.0, 0.0, 0.3, 1.0, 5.0)
ANY_TIME = (*SOON, 20.0, 61.0, 600.0, 7_200.0, DAY, DAY + 3_600.0)
AT_THE_DEADLINE = (DAY - 0.01, DAY - 0.1, DAY - 0.6, DAY - 2.0, DAY - 10.0, DAY)

YES = ("approve", "approve_digest", "approve_resume", "approve_resume")
DECISIONS = (*YES, *YES, "reject", "edit", "settle_it")
HOSTILE = ("wrong_digest", "other_session", "as_agent", "as_agent", "stranger")
CONTRARY = (
    *YES,
    "approve_twice",
    "approve_and_reject",
    "approve_withdraw",
    "approve_withdraw",
    "reject",
    "edit",
    *HOSTILE,
    "settle_it",
    "cancel_run",
    "approve_grant",
    "revoke",
)

EVERY_TOOL = (*EFFECTS, *EFFECTS, *READS, *CHILDREN, *CHILDREN, "ask_person", "no_such")
ASKED = ("pay", "send", "book", "order", "patch", "move", "lend", "file", "gate", "ask_person")
KEYED = ("send", "push", "order", "store", "wire", "wire")
UNDONE = ("write", "patch", "store", "move", "hold", "ship")

#: How many runs of agents that are used as tools a world may be planned with.
MOST_CHILDREN = 4

FILES = ("two", "two", "reaching", "strict", "broken")

Weighted = tuple[tuple[T, int], ...]

EVERYTHING: Weighted[MisfortuneKind] = (
    ("kill", 8),
    ("stop", 5),
    ("reboot", 1),
    ("interrupt", 3),
    ("cut_off", 2),
    ("clock", 2),
    ("leap", 3),
    ("environment", 2),
    ("policy", 1),
    ("file", 1),
    ("deploy", 1),
    ("approvers", 2),
    ("cancel", 1),
    ("end_session", 1),
)
MARKS: tuple[Mark, ...] = (
    "step",
    "write",
    "intent",
    "intent",
    "entered",
    "acted",
    "acted",
    "left",
    "ended",
    "opened",
    "decided",
)
STORE: tuple[StoreFaultKind, ...] = ("lost", "unheard", "late", "slow", "refused", "stale")


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What is likely in a world."""

    name: str
    weight: int
    tools: tuple[str, ...] = EVERY_TOOL
    palette: int = 8
    bodies: tuple[str, ...] = BODIES
    calm: float = 0.5
    delays: tuple[float, ...] = ANY_TIME
    acts: tuple[str, ...] = DECISIONS
    misfortunes: Weighted[MisfortuneKind] = EVERYTHING
    marks: tuple[Mark, ...] = MARKS
    count: tuple[int, ...] = (0, 1, 2, 3, 5)
    store_faults: tuple[int, ...] = (0, 0, 1, 2)
    families: float = 0.0
    steps: tuple[int, ...] = (1, 1, 2, 3)
    stubborn: float = 0.08
    skews: tuple[float, ...] = (0.0, 0.0, -40.0, 90.0)
    lasts: tuple[float, ...] = (0.5, 5.0, 30.0, 61.0, 100.0, 400.0)
    reactions: tuple[int, ...] = (0, *[1] * 5, 2, 2, 3)
    agents: tuple[str, ...] = (*["lead"] * 6, "careful", "undoer", "undoer_of_all", FRAMEWORK)
    people: tuple[str, ...] = (*["ann"] * 5, *["bob"] * 4, "cyd")
    files: tuple[tuple[str, ...], ...] = (*[()] * 8, ("two",), ("reaching",), ("strict",))


THEMES = (
    Theme(name="everything", weight=4, acts=(*DECISIONS, *DECISIONS, *CONTRARY, *HOSTILE)),
    Theme(name="calm", weight=1, count=(0,), store_faults=(0,), calm=0.9, delays=SOON),
    Theme(
        name="crashes",
        weight=4,
        palette=4,
        delays=SOON,
        misfortunes=(("kill", 6), ("interrupt", 2), ("reboot", 1)),
        marks=("intent", "entered", "acted", "acted", "left", "ended", "write", "decided"),
        count=(1, 2, 3, 4),
        lasts=(0.5, 5.0, 61.0),
    ),
    Theme(
        name="stalls",
        weight=4,
        tools=(*KEYED, *KEYED, "book", "move", "ship", "pay", "push", "hold"),
        palette=3,
        bodies=(*BODIES, "slow", "slow", "late"),
        calm=0.3,
        delays=SOON,
        acts=YES,
        misfortunes=(("stop", 6), ("leap", 1), ("kill", 1), ("cut_off", 1)),
        marks=("intent", "intent", "entered", "entered", "acted", "left", "write"),
        count=(1, 2, 3, 4),
        store_faults=(0, 1, 2, 3),
        lasts=(30.0, 61.0, 65.0, 70.0, 90.0, 130.0, 400.0),
    ),
    Theme(
        name="deadlines",
        weight=2,
        tools=ASKED,
        palette=3,
        delays=AT_THE_DEADLINE,
        acts=("approve_resume", "approve_resume", "approve_resume", *DECISIONS),
        count=(0, 0, 1),
        skews=(0.0, 0.0, 5.0),
    ),
    Theme(
        name="authority",
        weight=3,
        tools=ASKED,
        palette=3,
        delays=(*SOON, 61.0),
        acts=("approve", "approve", "approve", *CONTRARY),
        misfortunes=(("approvers", 8), ("kill", 1), ("stop", 1), ("cancel", 1)),
        marks=("decided", "decided", "decided", "opened", "intent", "write"),
        count=(1, 2),
        lasts=(0.5, 5.0),
        people=("ann", "ann", "bob", "bob", "cyd"),
    ),
    Theme(
        name="changes",
        weight=3,
        tools=("patch", "patch", "gate", "write", "some", "pay", "send", "book", "peek", "look"),
        palette=4,
        delays=(*SOON, 20.0, 61.0),
        acts=(*YES, *YES, "edit", "reject"),
        misfortunes=(("environment", 5), ("policy", 2), ("deploy", 2), ("kill", 1), ("stop", 1)),
        marks=("opened", "opened", "decided", "decided", "intent", "write"),
        count=(1, 2, 3, 4),
    ),
    Theme(
        name="families",
        weight=3,
        tools=("pay", "ping", "push", "hold", "send", "write", "gate", "some", "look", *CHILDREN),
        palette=7,
        delays=SOON,
        acts=(*YES, *YES, "edit", "reject", "approve_withdraw", "cancel_run"),
        families=0.6,
        count=(0, 1, 2),
    ),
    Theme(
        name="undoing",
        weight=3,
        tools=UNDONE,
        palette=4,
        bodies=("acts_fails", "fails", "lost_after", "lost_before", "late", "hangs", "not_done"),
        calm=0.1,
        delays=SOON,
        acts=(*YES, *YES, *YES, "settle_it", "cancel_run"),
        count=(0, 1, 2, 3),
    ),
    Theme(
        name="sagas",
        weight=3,
        tools=(*UNDONE, *UNDONE, "lend", "pay", "ping", "push", "helper"),
        palette=6,
        bodies=(*["ok"] * 6, "fails", "acts_fails", "lost_after", "late", "not_done"),
        calm=0.5,
        delays=SOON,
        acts=(*YES, *YES, *YES, "reject", "settle_it", "cancel_run"),
        agents=("careful", "undoer", "undoer", "undoer_of_all", "undoer_of_all"),
        count=(0, 1, 2),
    ),
    Theme(
        name="policies",
        weight=4,
        tools=(
            *sorted(VARIANTS["two"].asks),
            "lend",
            "hold",
            "write",
            "scan",
            "ask_person",
            "helper",
        ),
        palette=5,
        delays=(*SOON, 61.0, 600.0, 1_205.0, 7_190.0),
        acts=(*YES, *YES, *YES, "reject", "edit", "approve_withdraw", "approve_grant"),
        people=("ann", "ann", "bob", "bob", "cyd", "rita"),
        files=tuple((a, b) for a in FILES for b in FILES),
        misfortunes=(("file", 6), ("approvers", 1), ("kill", 1), ("stop", 1), ("leap", 1)),
        marks=("opened", "decided", "decided", "intent", "write", "ended"),
        count=(0, 1, 1, 2),
        reactions=(1, 1, 2, 2, 3),
    ),
    Theme(
        name="hosted",
        weight=4,
        tools=(*EFFECTS, "look"),
        palette=5,
        bodies=(*BODIES, "slow"),
        delays=(*SOON, 61.0),
        acts=(*YES, *YES, "edit", "reject", "approve_withdraw", "settle_it", "cancel_run"),
        agents=(FRAMEWORK,),
        count=(0, 1, 2, 3),
    ),
    Theme(
        name="guards",
        weight=2,
        bodies=(*BODIES, "slow"),
        delays=(*SOON, 61.0),
        acts=(*YES, *YES, "edit", "reject", "approve_withdraw", "settle_it", "cancel_run"),
        agents=(GUARD, GUARD, GUARD, FRAMEWORK),
        stubborn=0.4,
        count=(0, 1, 2, 3),
    ),
    Theme(
        name="grants",
        weight=3,
        tools=("pay", "send", "some", "move", "helper", "gate"),
        palette=3,
        families=0.3,
        steps=(2, 3, 4),
        calm=0.7,
        delays=SOON,
        acts=("approve_grant", "approve_grant", "approve_grant", *YES, "revoke", "reject"),
        misfortunes=(("deploy", 1), ("approvers", 1), ("kill", 1), ("leap", 2), ("policy", 1)),
        count=(0, 0, 1, 2),
    ),
    Theme(
        name="stubborn",
        weight=1,
        palette=3,
        calm=0.7,
        delays=(*SOON, DAY),
        acts=("reject", "reject", *YES, "edit"),
        stubborn=0.6,
        count=(0, 1),
    ),
)


def plan_of(seed: int) -> Plan:
    """Make the plan that a seed stands for."""
    random = Random(f"plan {seed}")
    theme = random.choices(THEMES, [theme.weight for theme in THEMES])[0]
    making = _Making(random, theme)
    sessions = [f"s{number}" for number in range(random.choice((1, 1, 1, 2)))]
    drivers = random.choice((1, 1, 2, 2, 3))
    hosts = random.choice((1, 1, 2))
    runs = []
    for number in range(random.choice((1, 1, 2, 2, 3))):
        runs.append(making.run(sessions[number % len(sessions)], random.randrange(drivers)))
    return Plan(
        seed=seed,
        runs=tuple(runs),
        children=tuple(making.children),
        reactions=tuple(making.reactions() for _ in range(random.choice((2, 4, 8)))),
        misfortunes=tuple(making.misfortune(drivers) for _ in range(random.choice(theme.count))),
        store_faults=tuple(making.store_fault() for _ in range(random.choice(theme.store_faults))),
        drivers=drivers,
        workers=random.choice((1, 1, 1, 2)),
        hosts=hosts,
        approvers=random.choice((("ann", "bob"), ("ann", "bob"), ("ann", "bob", "cyd"), ("ann",))),
        files=random.choice(theme.files),
        later_approvers=random.choice(
            ((("bob",), ("ann",)), (("cyd",), ("ann", "bob")), (("ann",), ("bob",)))
        ),
        skews=tuple(random.choice(theme.skews) for _ in range(hosts)),
        poll=random.choice((30.0, 120.0, 600.0)),
        sticks=random.choice((0.0, 0.0, 0.5, 0.9)),
        hurry=random.choice((0.0, 0.3, 0.7)),
        ending=random.choice(("answered", "answered", "lapsed")),
        theme=theme.name,
    )


class _Making:
    """The parts of one plan; each call gets a number of its own, unless it is proposed again."""

    def __init__(self, random: Random, theme: Theme) -> None:
        self._random = random
        self._theme = theme
        self._palette = random.choices(theme.tools, k=theme.palette)
        self._numbers = 0
        self._known: list[PlannedCall] = []
        self.children: list[tuple[tuple[PlannedCall, ...], ...]] = []
        self._agents: tuple[str, ...] = CHILDREN

    def run(self, session: str, driver: int) -> PlannedRun:
        random = self._random
        agent, agents = random.choice(self._theme.agents), self._agents
        palette = self._palette
        if agent in (FRAMEWORK, GUARD):
            self._agents = ()
        if agent == GUARD:
            self._palette = list(OPTIONS)
        steps = self.steps(random.choice(self._theme.steps))
        self._agents, self._palette = agents, palette
        return PlannedRun(
            session=session,
            steps=steps,
            agent=agent,
            at_once=random.random() < 0.4,
            driver=driver,
            starts=random.choice((0.0, 0.0, 1.0, 30.0, 400.0)),
            supersede=random.random() < 0.25,
            resumes=tuple(random.choice((1.0, 30.0, 100.0, 4_000.0)) for _ in range(3)),
            troubles=random.choice((0, 0, 0, 1, 4)),
        )

    def steps(self, count: int) -> tuple[tuple[PlannedCall, ...], ...]:
        made: list[tuple[PlannedCall, ...]] = []
        for _ in range(count):
            if made and self._random.random() < self._theme.stubborn:
                made.append(made[-1])
            elif self._may_delegate and self._random.random() < self._theme.families:
                made.append((self.child(), self.child(), *self._calls((0, 0, 1))))
            else:
                made.append(self._calls((1, 1, 2, 2, 3, 4)))
        return tuple(made)

    def _calls(self, sizes: Sequence[int]) -> tuple[PlannedCall, ...]:
        return tuple(self.call() for _ in range(self._random.choice(sizes)))

    @property
    def _may_delegate(self) -> bool:
        return bool(self._agents) and len(self.children) < MOST_CHILDREN

    def child(self) -> PlannedCall:
        """Plan a call of an agent, and what that agent proposes."""
        agents, tool = self._agents, self._random.choice(self._agents)
        self._agents = CHILDREN[: CHILDREN.index(tool)]
        steps = self.steps(self._random.choice((1, 1, 2)))
        self._agents = agents
        self.children.append(steps)
        return PlannedCall(tool=tool, n=len(self.children) - 1)

    def call(self) -> PlannedCall:
        random, theme = self._random, self._theme
        if self._known and random.random() < theme.stubborn:
            return random.choice(self._known)
        tool = random.choice(self._palette)
        if tool in CHILDREN:
            if self._may_delegate:
                return self.child()
            tool = "ping"
        self._numbers += 1
        raw = random.choice(("{", '{"n": 1e999}', '{"n": "x"}')) if random.random() < 0.02 else ""
        calm = random.random() < theme.calm
        made = PlannedCall(
            tool=tool,
            n=self._numbers,
            does=() if calm else self._acts(theme.bodies, 0.6),
            undoes=() if calm else self._acts(UNDOING, 0.5),
            probes=() if calm else self._acts(("truth", "truth", "unsure", "raises", "odd"), 0.4),
            raw=raw,
        )
        self._known.append(made)
        return made

    def _acts(self, kinds: tuple[str, ...], more: float) -> tuple[str, ...]:
        made = [self._random.choice(kinds)]
        while self._random.random() < more and len(made) < 5:
            made.append(self._random.choice(kinds))
        return tuple(made)

    def reactions(self) -> tuple[Reaction, ...]:
        random = self._random
        return tuple(
            Reaction(
                delay=random.choice(self._theme.delays),
                person=random.choice(self._theme.people),
                act=random.choice(self._theme.acts),
            )
            for _ in range(random.choice(self._theme.reactions))
        )

    def misfortune(self, drivers: int) -> Misfortune:
        random, theme = self._random, self._theme
        kinds = [kind for kind, _ in theme.misfortunes]
        kind = random.choices(kinds, [weight for _, weight in theme.misfortunes])[0]
        mark = random.choice(theme.marks)
        most = {"step": 600, "write": 40}.get(mark, 6)
        roles = [*[""] * 4, "worker0", *(f"driver{number}" for number in range(drivers))]
        return Misfortune(
            kind=kind,
            mark=mark,
            nth=1 + int(most * random.random() ** 2),
            after=random.choice((0.0, 0.0, 0.0, 0.2, 3.0, 65.0)),
            who=random.choice(roles),
            lasts=random.choice(theme.lasts),
            by=random.choice((-3_600.0, -100.0, -30.0, 30.0, 61.0, 3_600.0, DAY)),
        )

    def store_fault(self) -> StoreFault:
        kind = self._random.choice(STORE)
        reads = kind in ("refused", "stale")
        return StoreFault(
            kind=kind,
            nth=1 + int((150 if reads else 45) * self._random.random() ** 1.5),
            lasts=self._random.choice((0.5, 3.0, 61.0, 130.0)),
        )
