"""Print what ran and what was skipped, and why, from a JUnit file that pytest wrote.

    python tools/test_report.py build/junit.xml

Uses the standard library only, so that any Python can run it. Exits 1 where the file is missing or
damaged, where nothing ran, and where something failed.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = ("passed", "failed", "skipped")


@dataclass(slots=True)
class FileResult:
    """The results of one test file: how many of each, seconds, and how often each skip's reason."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)


def read(text: str) -> dict[str, FileResult]:
    """Take a JUnit file's text; give the results by test file. Raises `ParseError`."""
    results: dict[str, FileResult] = {}
    for case in ET.fromstring(text).iter("testcase"):
        result = results.setdefault(_file_of(case), FileResult())
        result.seconds += float(case.get("time", "0"))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            result.counts["failed"] += 1
        elif skipped is not None:
            result.counts["skipped"] += 1
            result.reasons[skipped.get("message") or "no reason given"] += 1
        else:
            result.counts["passed"] += 1
    return results


def table(results: Mapping[str, FileResult]) -> list[str]:
    """Give the lines of the table: a line per file, the sum, then the reasons of all skips."""
    width = max((len(name) for name in results), default=0)
    width = max(width, len("test file"))
    lines = [f"{'test file':{width}} {'passed':>8} {'failed':>8} {'skipped':>8} {'seconds':>9}"]
    total = FileResult()
    for name, result in sorted(results.items()):
        lines.append(_line(name, width, result))
        total.counts += result.counts
        total.seconds += result.seconds
    lines.append(_line("all", width, total))
    lines.append("")
    skips = [(name, why, n) for name, r in sorted(results.items()) for why, n in r.reasons.items()]
    lines.extend(f"skipped: {name} ({count}): {why}" for name, why, count in skips)
    return lines if skips else [*lines, "nothing was skipped"]


def main(arguments: Sequence[str]) -> int:
    """Print the table for the file that is named; give the exit code."""
    path = Path(arguments[0])
    try:
        results = read(path.read_text(encoding="utf-8"))
    except (OSError, ET.ParseError) as error:
        print(f"no test results: {path}: {error}")
        return 1
    print("\n".join(table(results)))
    ran = sum(result.counts["passed"] + result.counts["failed"] for result in results.values())
    if not ran:
        print("no test ran")
    return int(not ran or any(result.counts["failed"] for result in results.values()))


def _file_of(case: ET.Element) -> str:
    """Give the test's file: named in pytest's xunit1 form; a collection error names the module."""
    return case.get("file") or case.get("classname") or case.get("name") or "unknown"


def _line(name: str, width: int, result: FileResult) -> str:
    counts = " ".join(f"{result.counts[column]:>8}" for column in COLUMNS)
    return f"{name:{width}} {counts} {result.seconds:>9.1f}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/test_report.py JUNIT_FILE")
    sys.exit(main(sys.argv[1:]))
