"""`python -m bench [--json FILE] [--quick]`: measures, compares with the goals, and says both.

The peer holdpoint is installed from the package index into an environment of its own; `--quick`
leaves it out, and so does a machine that cannot reach an index.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    busy = [0.0, 0.0]
    await timed(floor.cycle, "warm", range(1, 20))
    for part in range(rounds):
        numbers = range(1 + part * cycles // rounds, 1 + (part + 1) * cycles // rounds)
        began = time.process_time()
        floors += await timed(floor.cycle, "s", numbers)
        turn = time.process_time()
        mine += await timed(ours.cycle, "s", numbers)
        busy = [busy[0] + turn - began, busy[1] + time.process_time() - turn]
    floor.close()
    ours.close()
    ratio = statistics.median(floors) / statistics.median(mine)
    return [
        Figure("floor, CPU", busy[0] / len(floors) * 1000, "ms/cycle", ""),
        Figure("cycle, CPU", busy[1] / len(mine) * 1000, "ms/cycle", ""),
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
    for step in range(1, steps + 1):
        text = json.dumps({"text": random_words(step, 2048)})
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
    grown = late / early
    return [
        Figure(f"{steps} gated steps, each", each, "bytes", "<= 6144", each <= 2048 + 4096),
        Figure("last steps against the first", grown, "times", "<= 1.1", grown <= 1.1),
    ]


def random_words(seed: int, length: int) -> str:
    """Give a text that compresses badly: words of letters drawn at random."""
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ("".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(length // 3))
    return " ".join(words)[:length]


async def rows(place: Path, cycles: int) -> list[Figure]:
    """Bytes of rows and index entries that a cycle leaves, beside the texts themselves."""
    path = place / "rows.db"
    ours = Ours(path)
    await ours.start("s")
    before = row_bytes(path)
    for number in range(1, cycles + 1):
        await ours.cycle("s", number)
    each = (row_bytes(path) - before) / cycles
    ours.close()
    return [Figure("cycle, rows beyond texts", each, "bytes", "<= 4096", each <= 4096)]


def row_bytes(path: Path) -> int:
    """Count the bytes of all rows and index entries, without the bodies of texts."""
    reading = sqlite3.connect(path)
    try:
        (everything,) = reading.execute("SELECT sum(payload) FROM dbstat").fetchone()
        (texts,) = reading.execute(
            "SELECT total(length(CAST(body AS BLOB))) FROM payloads"
        ).fetchone()
    finally:
        reading.close()
    return int(everything - texts)


async def commits(place: Path) -> list[Figure]:
    """Count the commits of transactions that write, each of which is one sync of the log."""
    count = [0]
    connect = sqlite3.connect

    def counted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        writes = [False]

        def seen(sql: str) -> None:
            count[0] += writes[0] and sql == "COMMIT"
            writes[0] = sql == "BEGIN IMMEDIATE" or (writes[0] and sql != "COMMIT")

        connection.set_trace_callback(seen)
        return connection

    sqlite3.connect = counted  # type: ignore[assignment]  # For this measurement alone.
    ours = Ours(place / "commits.db")
    await ours.start("s")
    figures = []
    count[0] = 0
    await ours.cycle("s", 1)
    figures.append(Figure("cycle, syncs of the log", count[0], "commits", "<= 4", count[0] <= 4))
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


def peers(place: Path, cycles: int, ours: list[Figure]) -> list[Figure]:
    """Measure holdpoint at FULL in an environment of its own; nothing where none can be made."""
    python = str(place / "peer" / "bin" / "python")
    script = str(Path(__file__).with_name("holdpoint_cycle.py"))
    install = [python, "-m", "pip", "install", "--quiet", "holdpoint==0.2.0"]
    measure = [python, script, str(place / "peer.db"), str(cycles)]
    try:
        venv.create(place / "peer", with_pip=True)
        subprocess.run(install, check=True, capture_output=True, timeout=300)
        found = subprocess.run(measure, check=True, capture_output=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        sys.stderr.write(f"holdpoint is left out: {error}\n")
        return []
    peer = 1 / float(found.stdout)
    (mine,) = [each.value for each in ours if each.name == "cycle, one client"]
    return [
        Figure("holdpoint at FULL, one client", peer, "cycles/s", ""),
        Figure("cycle against holdpoint", mine / peer, "times", "> 1", mine > peer),
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
        figures += asyncio.run(rows(place, 500 // scale))
        figures += asyncio.run(commits(place))
        figures += cold_start(place)
        if not options.quick:
            figures += peers(place, 500, figures)
    sys.stdout.write(table(figures) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(f) for f in figures], indent=2))


if __name__ == "__main__":
    main()
