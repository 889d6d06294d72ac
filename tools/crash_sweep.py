"""Kills a payment's life at every point, lets the power go at every call, fails the disk at each.

`make sweep` kills it, in real processes, at every SQL statement and at every call that changes the
store's files, and prints what the payment server did and what people were asked. `--part power` and
`--part errors` do the rest (tests/disk says how); `--every 10` takes a tenth of it. It fails where
anything is otherwise than promised. `make test` has a part of all three.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.disk import shim  # The path comes first.
from tests.disk.forge import Forge  # Likewise.
from tests.disk.life import KINDS, STRAIGHT, Kind, Place, phases_of  # Likewise.
from tests.disk.lives import Prepared, a_directory  # Likewise.
from tests.disk.outage import outages, recorded, wrong_after  # Likewise.
from tests.disk.sweep import Tally, points_of, thinned, tried_with  # Likewise.
from tests.disk.trouble import met_with, troubles_of  # Likewise.

T = TypeVar("T")
R = TypeVar("R")

#: How many of the faults that were found are printed.
MOST_PRINTED = 20

#: How much is laid out at once for the forges.
AT_ONCE = 64

_SEEDS = (1, 2, 3)


class Report:
    """What is printed on the way, and at the end."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._began = time.monotonic()

    def row(self, *cells: object, widths: Sequence[int]) -> None:
        """Print a row of a table."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        columns = zip(cells, widths, strict=True)
        print("  ".join(f"{cell!s:<{width}}" for cell, width in columns).rstrip(), flush=True)

    def progress(self, what: str, done: int) -> None:
        """Say how far it is, where a person looks on."""
        if sys.stderr.isatty():
            print(f"\r\033[K{what}: {done} ", end="", file=sys.stderr, flush=True)

    def end(self) -> int:
        """Print what is wrong, and give the exit code."""
        for each in self.wrong[:MOST_PRINTED]:
            print(f"WRONG {each}")
        if len(self.wrong) > MOST_PRINTED:
            print(f"... and {len(self.wrong) - MOST_PRINTED} more")
        seconds = time.monotonic() - self._began
        print(f"\n{len(self.wrong)} of it is otherwise than promised. {seconds:.0f} s")
        return 1 if self.wrong else 0


@contextmanager
def forges(count: int) -> Iterator[list[Forge]]:
    """Give forges, which fork the processes of the lives."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-shim-")))
        library = shim.build(directory)
        yield [stack.enter_context(Forge(library, "tests.disk.life")) for _ in range(count)]


class Workers:
    """Forges that share the work."""

    def __init__(self, forges: Sequence[Forge], told: Report) -> None:
        self.forges = forges
        self.told = told

    def each(self, items: Iterable[T], work: Callable[[Forge, T], R], *, what: str) -> Iterator[R]:
        """Do some work for each item, on all the forges, and give what came of each, in order."""
        free: SimpleQueue[Forge] = SimpleQueue()
        for forge in self.forges:
            free.put(forge)

        def one(item: T) -> R:
            forge = free.get()
            try:
                return work(forge, item)
            finally:
                free.put(forge)

        done, left = 0, iter(items)
        with ThreadPoolExecutor(len(self.forges)) as pool:
            while some := list(islice(left, AT_ONCE)):  # What is not tried yet takes memory.
                for came in pool.map(one, some):
                    done += 1
                    self.told.progress(what, done)
                    yield came


# --- the three parts --------------------------------------------------------------------------


def kills(workers: Workers, kinds: Sequence[Kind], every: int) -> None:
    """Kill at every point, and print a row for each phase and each kind."""
    told, widths = workers.told, (16, 9, 8, 9, 9, 9, 7, 10)
    heads = ("kind", "phase", "points", "payments", "unknowns", "voids", "asked", "duplicates")
    told.row(*heads, widths=widths)
    for kind in kinds:
        total = Tally()
        with a_directory() as root:
            prepared = Prepared(workers.forges[0], kind, root)
            for phase in prepared.phases:
                points = points_of(prepared, phase)
                chosen = points if every == 1 else thinned(points, every)
                tally = Tally()
                tried = partial(tried_with, prepared)
                for came in workers.each(chosen, tried, what=f"{kind}, {phase}"):
                    tally.add(came)
                told.row(kind, phase, *_counts(tally), widths=widths)
                total.add(tally)
        told.row(kind, "all", *_counts(total), widths=widths)
        told.wrong += total.wrong


def _counts(tally: Tally) -> tuple[int, ...]:
    acted = (tally.points, tally.payments, tally.settlements, tally.voids)
    return (*acted, tally.asked, tally.twice)


def power(workers: Workers, kinds: Sequence[Kind], every: int) -> None:
    """Let the power go after every call of a life that goes well, and of one that does not."""
    told, widths = workers.told, (16, 10, 8, 9, 7)
    told.row("kind", "life", "calls", "outages", "wrong", widths=widths)
    for kind in kinds:
        for name, phases in (("straight", STRAIGHT), ("broken", phases_of(kind))):
            with a_directory() as root:
                lived = recorded(workers.forges[0], Place(root / "life"), kind, phases)
            found = islice(outages(lived, seeds=_SEEDS), None, None, every)
            came = list(workers.each(found, partial(wrong_after, lived), what=f"{kind}, {name}"))
            wrong = [what for each in came for what in each]
            told.row(kind, name, len(lived.calls), len(came), len(wrong), widths=widths)
            told.wrong += wrong


def errors(workers: Workers, kinds: Sequence[Kind], every: int) -> None:
    """Fail the disk at every call of every phase, once and for long, full and broken."""
    told, widths = workers.told, (16, 9, 9, 9, 9, 60)
    told.row("kind", "phase", "troubles", "payments", "unknowns", "refused with", widths=widths)
    for kind in kinds:
        with a_directory() as root:
            prepared = Prepared(workers.forges[0], kind, root)
            for phase in prepared.phases:
                found = troubles_of(prepared, phase, every=every)
                met = partial(met_with, prepared)
                came = list(workers.each(found, met, what=f"{kind}, {phase}"))
                refused = Counter(each.refused or "nothing" for each in came)
                codes = ", ".join(f"{code} {count}" for code, count in sorted(refused.items()))
                payments = sum(each.payments for each in came)
                unknown = sum(each.settlements for each in came)
                told.row(kind, phase, len(came), payments, unknown, codes, widths=widths)
                told.wrong += [what for each in came for what in each.wrong]


PARTS = {"kills": kills, "power": power, "errors": errors}


def main() -> int:
    """Do the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=[*PARTS, "all"], default="kills")
    parser.add_argument("--kind", choices=KINDS, action="append", help="by default all")
    parser.add_argument("--every", type=int, default=1, help="take one point of so many")
    parser.add_argument("--workers", type=int, default=2, help="so many at a time")
    given = parser.parse_args()
    if reason := shim.why_not():
        print(f"It cannot be done here: {reason}.", file=sys.stderr)
        return 2
    told = Report()
    with forges(given.workers) as made:
        for part in PARTS if given.part == "all" else [given.part]:
            PARTS[part](Workers(made, told), given.kind or KINDS, given.every)
            print(flush=True)
    return told.end()


if __name__ == "__main__":
    sys.exit(main())
