"""Shows that the table at the end of .ci/run cannot hide a failure, a skip or an empty run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.marks import ROOT

PASSED = '<testcase file="tests/test_a.py" name="test_one" time="0.5" />'
FAILED = '<testcase file="tests/test_a.py" name="test_two"><failure message="no" /></testcase>'
BROKEN = (
    '<testcase classname="" name="tests.test_b"><error message="collection failure" /></testcase>'
)
SKIPPED = '<testcase file="tests/test_c.py" name="t"><skipped message="no compiler" /></testcase>'


def test_the_table_counts_by_file_and_gives_the_reasons_of_skips(tmp_path: Path) -> None:
    code, lines = report(tmp_path, PASSED + SKIPPED + SKIPPED)

    assert code == 0
    assert lines[1].split() == ["tests/test_a.py", "1", "0", "0", "0.5"]
    assert lines[2].split() == ["tests/test_c.py", "0", "0", "2", "0.0"]
    assert lines[3].split() == ["all", "1", "0", "2", "0.5"]
    assert lines[-1] == "skipped: tests/test_c.py (2): no compiler"


def test_a_failure_and_a_file_that_cannot_be_collected_fail_the_report(tmp_path: Path) -> None:
    for case in (FAILED, BROKEN):
        code, lines = report(tmp_path, PASSED + case)
        assert code == 1
        assert lines[-1] == "nothing was skipped"


def test_a_run_in_which_nothing_ran_fails_the_report(tmp_path: Path) -> None:
    assert report(tmp_path, "")[0] == 1
    assert report(tmp_path, SKIPPED)[0] == 1


def test_a_missing_or_damaged_file_fails_the_report(tmp_path: Path) -> None:
    assert report(tmp_path, "<")[0] == 1
    assert run(tmp_path / "missing.xml")[0] == 1


def report(folder: Path, cases: str) -> tuple[int, list[str]]:
    path = folder / "junit.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    return run(path)


def run(path: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "tools/test_report.py", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()
