"""Guarded calls between real processes: races, and SIGKILL between every two durable writes."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.guard_lives import PHASES, approve, asked, contender, finish, run_phase
from tests.adapters.guards import keys, opened, paid, refund_of, required
from tests.runtime.life import Kind

ROUNDS = 20
PROCESSES = 4

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.adapters.guard_lives"])


def raced(place: Path, how: str, *, rounds: int = ROUNDS) -> list[tuple[int, int, str]]:
    """Let the processes call at once, round by round; give what each was answered."""
    barrier, answers = _processes.Barrier(PROCESSES), _processes.Queue()
    contenders = [
        _processes.Process(
            target=contender, args=(str(place), number, barrier, rounds, how, answers)
        )
        for number in range(PROCESSES)
    ]
    for process in contenders:
        process.start()
    found = [answers.get(timeout=120) for _ in range(rounds * PROCESSES)]
    for process in contenders:
        process.join(60)
        assert process.exitcode == 0
    return found


@pytest.mark.slow
@pytest.mark.promise("G7", "D5")
@pytest.mark.parametrize("how", ["allowed", "approved"])
def test_of_processes_that_make_one_call_one_acts_and_all_are_given_the_same(
    tmp_path: Path, how: str
) -> None:
    if how == "approved":
        with opened(tmp_path) as placet:
            refund = refund_of(placet, tmp_path)
            for number in range(ROUNDS):
                required(partial(refund, f"A-{number}", 1))
            approve(placet)
    found = raced(tmp_path, how)
    for number in range(ROUNDS):
        said = [answer for of, _, answer in found if of == number]
        assert said == [f"refunded 1 for A-{number}"] * PROCESSES
    assert Counter(paid(tmp_path)) == {f"A-{number} 1": 1 for number in range(ROUNDS)}


@pytest.mark.slow
@pytest.mark.promise("G8", "D5")
def test_processes_with_different_calls_in_one_session_take_their_turns(tmp_path: Path) -> None:
    found = raced(tmp_path, "one session", rounds=5)
    for number, process, answer in found:
        assert answer == f"refunded {process} for A-{number}"
    assert len(paid(tmp_path)) == len(set(paid(tmp_path))) == 5 * PROCESSES
    with opened(tmp_path) as placet:
        stops = Counter(getattr(row.run.state, "stop", "") for row in placet.runs_sync())
    assert stops == {"final": 5 * PROCESSES}


# --- kills ------------------------------------------------------------------------------------


def in_process(function: Callable[..., None], *args: Any) -> int:
    process = _processes.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


@pytest.mark.slow
@pytest.mark.promise("D2", "D3", "D4", "G7")
@pytest.mark.parametrize(
    "kind, phase",
    [
        ("plain", "ask"),
        ("plain", "approve"),
        ("plain", "call"),
        ("idempotent", "call"),
        ("probe", "call"),
    ],
)
def test_a_caller_killed_between_any_two_writes_has_paid_once_or_a_person_is_asked(
    tmp_path: Path, kind: Kind, phase: str
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    for earlier in PHASES[: PHASES.index(phase)]:
        assert in_process(run_phase, earlier, str(before), kind, None) == 0
    counted = tmp_path / "counted"
    shutil.copytree(before, counted)
    assert in_process(run_phase, phase, str(counted), kind, None) == 0
    ends: Counter[str] = Counter()
    total = int((counted / f"{phase}.points").read_text())
    assert total > 3, "a phase writes something"
    for at in range(1, total + 1):
        directory = tmp_path / f"killed-{at}"
        shutil.copytree(before, directory)
        assert in_process(run_phase, phase, str(directory), kind, at) == -9, "it was not killed"
        end = finish(directory, kind)
        assert end in ("refunded 129 for A-42", "settlement"), f"{end}, killed at {at} of {phase}"
        assert len(keys(directory)) <= 1, f"paid twice, killed at {at} of {phase}"
        if end == "settlement":
            assert kind == "plain", "what can be repeated or probed needs no person"
        else:
            assert len(keys(directory)) == 1, f"not paid, killed at {at} of {phase}"
        assert asked(directory) == 1, f"asked again, killed at {at} of {phase}"
        ends[end] += 1
        shutil.rmtree(directory)
    if (kind, phase) == ("plain", "call"):
        assert ends["settlement"] >= 2, "a kill around the effect leaves it unknown"
    assert ends["refunded 129 for A-42"] > 0
