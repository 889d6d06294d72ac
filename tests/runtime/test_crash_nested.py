"""SIGKILL around every transaction of a plan that asks, and hands on to an agent that asks too.

However a process dies, the refund is paid once or a person is asked what became of it, each person
is asked each thing once, and each item of the plan is credited once, in order.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from placet.stores.sqlite import SqliteStore
from placet.stores.store import Recorded
from tests.runtime.life import LONG_PHASES, LongPhase, finish_long, paid, run_long_phase

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.runtime.life"])


def in_process(function: Callable[..., None], *args: object) -> int:
    """Run a function in a process of its own, and give how it ended."""
    process = _processes.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


def log(directory: Path) -> list[Recorded]:
    """Give the event log of the life's one session."""
    store = SqliteStore(directory / "placet.db")
    try:
        (session,) = store.sessions("main")
        return list(store.events("main", session))
    finally:
        store.close()


def asked(events: list[Recorded]) -> Counter[str]:
    """Count what people were asked, by kind."""
    return Counter(json.loads(e.body)["kind"] for e in events if e.kind == "RequestOpened")


def whole_life(directory: Path) -> dict[LongPhase, int]:
    """Let a life go through all its phases unharmed; count the points that each passes."""
    counted: dict[LongPhase, int] = {}
    for phase in LONG_PHASES:
        shutil.copytree(directory / "life", directory / f"before-{phase}")
        assert in_process(run_long_phase, phase, str(directory / "life"), "plain", None) == 0
        counted[phase] = int((directory / "life" / f"{phase}.points").read_text())
    return counted


def hold(directory: Path, where: str) -> bool:
    """Hold what must be true at the end of every life; say whether somebody had to settle it."""
    end = (directory / "end").read_text()
    assert end == "final: the whole plan is done", f"it ends {end}, {where}"
    events = log(directory)
    questions = asked(events)
    settled = questions.pop("settlement", 0)
    payments = len(paid(directory / "ledger"))
    assert questions == {"question": 1, "approval": 1}, f"asked {questions}, {where}"
    assert payments == 1 if not settled else payments <= 1, f"paid {payments} times, {where}"
    kinds = Counter(event.kind for event in events)
    once = ("CallDelegated", "QuestionAnswered", "VoteCast", "AttemptBegun", "PlanMade")
    assert {kind: kinds[kind] for kind in once} == dict.fromkeys(once, 1), where
    assert kinds["RunStarted"] == 2, f"a child of its own for each try, {where}"
    assert kinds["TranscriptCompacted"] >= 1, "the life is long enough to be summed up"
    credited = [json.loads(e.body)["item"] for e in events if e.kind == "PlanItemDone"]
    assert credited == [1, 2, 3], f"credited {credited}, {where}"
    return bool(settled)


def killed_and_finished(place: Path, phase: LongPhase, at: int) -> bool:
    """Kill a phase at a point, let others bring the life to its end, and hold it to be right."""
    directory, where = place / f"killed-{phase}-{at}", f"killed at point {at} of {phase}"
    shutil.copytree(place / f"before-{phase}", directory)
    killed = in_process(run_long_phase, phase, str(directory), "plain", at)
    assert killed == -9, f"it was not {where}"
    assert in_process(finish_long, str(directory), "plain") == 0, where
    return hold(directory, where)


@pytest.mark.slow
@pytest.mark.promise("D2", "D3", "D4", "D6", "G2", "G7")
@pytest.mark.conformance(11, 30, 41)
def test_a_plan_killed_around_any_transaction_pays_once_and_credits_each_item_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "life").mkdir()
    counted = whole_life(tmp_path)
    in_process(finish_long, str(tmp_path / "life"), "plain")
    assert hold(tmp_path / "life", "unharmed") is False
    assert all(points >= 2 for points in counted.values()), "each phase writes something"
    sweep = [(phase, at) for phase, points in counted.items() for at in range(1, points + 1)]
    with ThreadPoolExecutor(2) as pool:
        settled = sum(pool.map(lambda point: killed_and_finished(tmp_path, *point), sweep))
    assert settled >= 2, "a kill around the effect leaves it unknown"
