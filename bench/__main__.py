"""`python -m bench [--json FILE] [--quick]`: measures, compares with the goals, and says both."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.floor import Floor
from bench.ours import Ours

Cycle = Callable[[str, int], Awaitable[None]]


@dataclass(frozen=True)
class Figure:
    """One measured figure, and the goal it is held against."""

    name: str
    value: float
    unit: str
    goal: str
    met: bool | None = None


async def timed(cycle: Cycle, session: str, numbers: range) -> list[float]:
    """Give the seconds that each of a session's cycles took."""
    took = []
    for number in numbers:
        began = time.perf_counter()
        await cycle(session, number)
        took.append(time.perf_counter() - began)
    return took


async def one_client(place: Path, cycles: int) -> list[Figure]:
    """Alternate the floor and ours in one process, in rounds, so that noise falls on both."""
    floor, ours = Floor(place / "floor.db"), Ours(place / "ours.db")
    await ours.start("s")
    rounds = 10
    floors: list[float] = []
    mine: list[float] = []
    await timed(floor.cycle, "warm", range(1, 20))
    for part in range(rounds):
        numbers = range(1 + part * cycles // rounds, 1 + (part + 1) * cycles // rounds)
        floors += await timed(floor.cycle, "s", numbers)
        mine += await timed(ours.cycle, "s", numbers)
    floor.close()
    ours.close()
    ratio = statistics.median(floors) / statistics.median(mine)
    return [
        Figure("floor, one client", 1 / statistics.median(floors), "cycles/s", ""),
        Figure("cycle, one client", 1 / statistics.median(mine), "cycles/s", ""),
        Figure("cycle against the floor", ratio, "of the floor", ">= 0.7", ratio >= 0.7),
    ]


async def many_sessions(place: Path, sessions: int, cycles: int) -> list[Figure]:
    """Many sessions at once in one process, against one client alone."""
    alone = Ours(place / "alone.db")
    await alone.start("s")
    began = time.perf_counter()
    await timed(alone.cycle, "s", range(1, cycles * 4))
    single = (cycles * 4 - 1) / (time.perf_counter() - began)
    alone.close()
    many = Ours(place / "many.db")
    for number in range(sessions):
        await many.start(f"s{number}")
    began = time.perf_counter()
    took = await asyncio.gather(
        *(timed(many.cycle, f"s{number}", range(1, cycles)) for number in range(sessions))
    )
    rate = sessions * (cycles - 1) / (time.perf_counter() - began)
    many.close()
    all_took = sorted(second for each in took for second in each)
    tail = all_took[int(len(all_took) * 0.99)] / statistics.median(all_took)
    return [
        Figure(
            f"{sessions} sessions against one", rate / single, "times", ">= 3", rate >= 3 * single
        ),
        Figure(f"{sessions} sessions, p99 / median", tail, "times", "<= 5", tail <= 5),
    ]


async def sizes(place: Path, steps: int) -> list[Figure]:
    """Bytes and time of a run of many gated steps of 2 KB of new text each."""
    ours = Ours(place / "long.db")
    await ours.start("s")
    took: list[float] = []
    text = json.dumps({"text": "x" * 2048})
    for step in range(1, steps + 1):
        began = time.perf_counter()
        request = await ours.propose("s", step, "pay", text)
        assert request is not None, "it asks"
        await ours.decide(request)
        await ours.act("s", step)
        took.append(time.perf_counter() - began)
    ours.close()
    size = os.path.getsize(place / "long.db")  # noqa: ASYNC240  # Nothing else waits.
    each = size / steps
    early, late = statistics.median(took[5:105]), statistics.median(took[-100:])
    met = late <= 1.1 * early
    return [
        Figure(f"{steps} gated steps, each", each, "bytes", "<= 6144", each <= 2048 + 4096),
        Figure(
            "last steps against the first", late / early, "times", "<= 1.1", late <= 1.1 * early
        ),
    ]


async def commits(place: Path) -> list[Figure]:
    """Count commits by the database's own statements: of a cycle, a read and an effect."""
    count = [0]
    connect = sqlite3.connect

    def counted(*args: object, **kwargs: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)  # type: ignore[call-overload]  # As it was called.
        connection.set_trace_callback(
            lambda sql: count.__setitem__(0, count[0] + sql.upper().startswith("BEGIN IMMEDIATE"))
        )
        return connection

    sqlite3.connect = counted  # type: ignore[assignment]  # For this measurement alone.
    ours = Ours(place / "commits.db")
    await ours.start("s")
    figures = []
    count[0] = 0
    await ours.cycle("s", 1)
    figures.append(Figure("cycle, commits", count[0], "commits", "<= 4", count[0] <= 4))
    await ours.propose("s", 2, "log")
    count[0] = 0
    await ours.act("s", 2)
    figures.append(Figure("an allowed effect", count[0], "commits", "2", count[0] == 2))
    ours.close()
    sqlite3.connect = connect
    return figures


def cold_start(place: Path) -> list[Figure]:
    """Seconds of whole processes: the import, and a command of the hot command line."""
    environment = {**os.environ, "PLACET_STORE": f"sqlite:///{place / 'cold.db'}"}

    def median(command: list[str]) -> float:
        took = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run(command, env=environment, capture_output=True, check=False)
            took.append(time.perf_counter() - began)
        return statistics.median(took)

    python = median([sys.executable, "-c", "pass"])
    imported = median([sys.executable, "-c", "import placet"]) - python
    approve = median([sys.executable, "-m", "placet.cli.main", "approve", "rq_none"])
    return [
        Figure("import placet", imported * 1000, "ms", "<= 80", imported <= 0.08),
        Figure("placet approve, cold", approve * 1000, "ms", "<= 150", approve <= 0.15),
    ]


def table(figures: list[Figure]) -> str:
    """Lay the figures out."""
    word = {True: "met", False: "MISSED", None: ""}
    return "\n".join(
        f"{f.name:<32} {f.value:>12,.2f} {f.unit:<14} {f.goal:<10} {word[f.met]}" for f in figures
    )


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures there as JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    options = parser.parse_args()
    scale = 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        figures = asyncio.run(one_client(place, 2000 // scale))
        figures += asyncio.run(many_sessions(place, 64, 60 // scale + 2))
        figures += asyncio.run(sizes(place, 1000 // scale))
        figures += asyncio.run(commits(place))
        figures += cold_start(place)
    sys.stdout.write(table(figures) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(f) for f in figures], indent=2))


if __name__ == "__main__":
    main()
