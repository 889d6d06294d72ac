"""Many worlds at once: counted, and each one that breaks a promise made smaller and told of.

What a world does depends on its seed alone, and so it does not matter which process runs it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from tests.simulation.planning import plan_of
from tests.simulation.promises import Fault
from tests.simulation.world import World

#: How many worlds a process runs before it tells of them.
AT_ONCE = 50


@dataclass(slots=True)
class Tally:
    """What became of some worlds, counted."""

    worlds: int = 0
    steps: int = 0
    commits: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    themes: Counter[str] = field(default_factory=Counter)
    befell: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    bodies: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Count what another has counted."""
        self.worlds += other.worlds
        self.steps += other.steps
        self.commits += other.commits
        self.seconds += other.seconds
        self.processor += other.processor
        self.faults += other.faults
        for name in ("themes", "befell", "events", "codes", "stops", "bodies"):
            getattr(self, name).update(getattr(other, name))


def tally(seeds: Sequence[int]) -> Tally:
    """Run the worlds of these seeds, one after another."""
    found, began = Tally(), time.process_time()
    for seed in seeds:
        plan = plan_of(seed)
        outcome = World(plan).run()
        found.worlds += 1
        found.steps += outcome.steps
        found.commits += outcome.commits
        found.seconds += outcome.seconds
        found.faults += [(seed, fault) for fault in outcome.faults[:1]]
        found.themes[plan.theme] += 1
        for name in ("befell", "events", "codes", "stops", "bodies"):
            getattr(found, name).update(getattr(outcome, name))
    found.processor = time.process_time() - began
    return found


def campaign(first: int, count: int, *, jobs: int) -> Iterator[Tally]:
    """Run `count` worlds from the seed `first` on, in `jobs` processes; give what they tally."""
    chunks = [
        range(start, min(start + AT_ONCE, first + count))
        for start in range(first, first + count, AT_ONCE)
    ]
    if jobs == 1:
        yield from map(tally, chunks)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.simulation.campaign"])
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for done in as_completed([pool.submit(tally, chunk) for chunk in chunks]):
            yield done.result()


def told(found: Tally, *, lasted: float, jobs: int) -> str:
    """Tell of a campaign in some lines."""
    a_minute = found.worlds / lasted * 60 if lasted else 0.0
    each = found.worlds / found.processor * 60 if found.processor else 0.0
    lines = [
        f"{found.worlds} worlds, {found.steps} steps of the scheduler, {found.commits} commits,"
        f" {found.seconds / 86_400:.0f} days of the worlds' time",
        f"{lasted:.0f} seconds with {jobs} {'process' if jobs == 1 else 'processes'}:"
        f" {a_minute:.0f} worlds a minute, or {each:.0f} in a minute of a processor's time",
    ]
    for name in ("themes", "befell", "bodies", "codes", "stops", "events"):
        counted: Counter[str] = getattr(found, name)
        what = ", ".join(f"{key} {number}" for key, number in counted.most_common())
        lines.append(f"{_NAMES[name]}: {what}")
    lines.append(f"broken promises: {len(found.faults)}")
    return "\n".join(lines)


_NAMES = {
    "themes": "worlds by theme",
    "befell": "misfortunes and faults",
    "bodies": "bodies entered",
    "codes": "results of calls",
    "stops": "ends of runs",
    "events": "events",
}


def now() -> float:
    """Give seconds of a clock that only goes on, for how long a campaign lasts."""
    return time.monotonic()
