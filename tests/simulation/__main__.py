"""The command: `python -m tests.simulation`, and `make simulate`.

    make simulate SEEDS=10000 JOBS=2    10,000 worlds, in two processes
    make simulate SEED=123              one world, with its trace

Ends with 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.campaign import Tally, campaign, now, told
from tests.simulation.mutants import MUTANTS, first_broken
from tests.simulation.planning import plan_of
from tests.simulation.shrinking import Shrinking, replayed, written

#: How many of the worlds that break a promise are made smaller.
MOST_SHRUNK = 5


def main(arguments: list[str] | None = None) -> int:
    """Run worlds as the arguments say, and give the exit status."""
    parser = argparse.ArgumentParser(prog="simulate", description="Run simulated worlds.")
    parser.add_argument("--seed", type=int, help="run this one, and print its trace")
    parser.add_argument("--steps", action="store_true", help="trace every step of the scheduler")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run them")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing plans as they are")
    parser.add_argument("--mutants", action="store_true", help="look for faults put in on purpose")
    given = parser.parse_args(arguments)
    if given.mutants:
        return _mutants(given.seeds)
    if given.seed is not None:
        return _one(given.seed, steps=given.steps, shrink=not given.no_shrink)
    return _many(given.first, given.seeds, jobs=given.jobs, shrink=not given.no_shrink)


def _one(seed: int, *, steps: bool, shrink: bool) -> int:
    plan = plan_of(seed)
    print(written(plan))
    outcome = replayed(plan)
    for line in outcome.trace:
        if steps or " runs " not in line:
            print(line)
    if not outcome.faults:
        print(f"no promise is broken ({outcome.steps} steps)")
        return 0
    for fault in outcome.faults:
        print(f"{fault.promise} is broken: {fault.text}")
    if shrink:
        _shrink(seed)
    return 1


def _mutants(most: int) -> int:
    """Look for each fault that is put into placet on purpose, in up to `most` worlds."""
    missed = 0
    for mutant in MUTANTS:
        broken = first_broken(mutant, most)
        missed += broken is None
        what = "not seen" if broken is None else f"seed {broken[0]}: {broken[1].promise}"
        print(f"{mutant.name}: {what}", flush=True)
    print(f"{missed} of {len(MUTANTS)} were not seen in {most} worlds")
    return 1 if missed else 0


def _many(first: int, count: int, *, jobs: int, shrink: bool) -> int:
    found, began = Tally(), now()
    for part in campaign(first, count, jobs=jobs):
        found.add(part)
        for seed, fault in part.faults:
            print(f"seed {seed}: {fault.promise} is broken: {fault.text}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{found.worlds} of {count}", end="", file=sys.stderr, flush=True)
    print(told(found, lasted=now() - began, jobs=jobs))
    if shrink:
        for seed, _ in sorted(found.faults, key=lambda each: each[0])[:MOST_SHRUNK]:
            _shrink(seed)
    return 1 if found.faults else 0


def _shrink(seed: int) -> None:
    shrinking = Shrinking(plan_of(seed))
    smaller = shrinking.run()
    outcome = replayed(smaller, schedule=shrinking.schedule)
    print(f"\nseed {seed}, made smaller in {shrinking.worlds} worlds:")
    print(f"  {written(smaller)}\n  in order {shrinking.schedule}:")
    for line in outcome.trace:
        if " runs " not in line:
            print(line)
    for fault in outcome.faults:
        print(f"{fault.promise} is broken: {fault.text}")


if __name__ == "__main__":
    sys.exit(main())
