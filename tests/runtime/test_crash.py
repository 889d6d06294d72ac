"""SIGKILL between every two durable writes of a refund's life, in real processes.

However a process dies, the refund is in the ledger once, or a person is asked what became of it;
never twice, and nobody is asked twice to approve it.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.life import PHASES, Kind, Phase, asked, finish, paid, run_phase

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.runtime.life"])


def in_process(function: Callable[..., None], *args: object) -> int:
    """Run a function in a process of its own, and give how it ended."""
    process = _processes.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


def prepared(place: Path, kind: Kind, until: Phase) -> Path:
    """Give a directory in which a life has gone through the phases before `until`, unharmed."""
    directory = place / f"before-{until}"
    directory.mkdir()
    for phase in PHASES[: PHASES.index(until)]:
        assert in_process(run_phase, phase, str(directory), kind, None) == 0
    return directory


def points(place: Path, before: Path, kind: Kind, phase: Phase) -> int:
    """Count the points that a phase passes."""
    directory = place / f"counted-{phase}"
    shutil.copytree(before, directory)
    assert in_process(run_phase, phase, str(directory), kind, None) == 0
    return int((directory / f"{phase}.points").read_text())


def killed_and_finished(before: Path, directory: Path, kind: Kind, phase: Phase, at: int) -> str:
    """Kill a phase at a point, then let others bring the life to its end."""
    shutil.copytree(before, directory)
    assert in_process(run_phase, phase, str(directory), kind, at) == -9, "it was not killed"
    assert in_process(finish, str(directory), kind) == 0
    return (directory / "end").read_text()


@pytest.mark.slow
@pytest.mark.promise("D2", "D3", "D4", "G7")
@pytest.mark.conformance(2, 4, 11)
@pytest.mark.parametrize("kind", ["plain", "idempotent", "probe"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_process_killed_between_any_two_writes_pays_once_or_asks_a_person(
    tmp_path: Path, kind: Kind, phase: Phase
) -> None:
    before = prepared(tmp_path, kind, phase)
    ends: dict[str, int] = {}
    total = points(tmp_path, before, kind, phase)
    assert total > 3, "a phase writes something"
    for at in range(1, total + 1):
        directory = tmp_path / f"killed-{phase}-{at}"
        end = killed_and_finished(before, directory, kind, phase, at)
        payments = len(paid(directory / "ledger"))
        assert payments <= 1, f"paid {payments} times, killed at point {at} of {phase}"
        assert end in ("final", "settlement"), f"it ends {end}, killed at point {at} of {phase}"
        if end == "final":
            assert payments == 1, f"not paid, killed at point {at} of {phase}"
        else:
            assert kind == "plain", "what can be repeated or probed needs no person"
        assert asked(directory) == 1, f"asked again, killed at point {at} of {phase}"
        ends[end] = ends.get(end, 0) + 1
        shutil.rmtree(directory)
    if (kind, phase) == ("plain", "resume"):
        assert ends.get("settlement", 0) >= 2, "a kill around the effect leaves it unknown"
    assert ends["final"] > 0
