"""Guarded calls that are left before they are begun: they keep nobody, and are made once."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet import Placet
from placet.adapters import function_runs
from placet.core import commands as c
from placet.guarding import Guarded
from placet.runtime.audit import verify
from placet.runtime.hosted_drivers import LEFT_ALONE
from placet.stores.sqlite import SqliteStore
from tests.adapters.guard_lives import ONE, call_between_kills, called, contender
from tests.adapters.guards import opened, paid, refund_of
from tests.runtime.desk import Clock, code_of

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.adapters.guard_lives"])

PROCESSES = 4


class Meeting(SqliteStore):
    """A store that waits for others before it ends a call that was left."""

    def __init__(self, path: Path, meet: Callable[[], object], clock: Clock) -> None:
        super().__init__(path, clock=clock)
        self.meet = meet

    def execute(self, tenant: str, session: str, command: Any, *, command_id: str = "") -> Any:
        if isinstance(command, c.Begin) and isinstance(command.today, c.Unsound):
            self.meet()
        return super().execute(tenant, session, command, command_id=command_id)


class Looks:
    """Stands still where a call for A looks at the world: once to propose, and once to begin."""

    def __init__(self, *, stops_at: int) -> None:
        self._stops_at = stops_at
        self.begin_anew()

    def begin_anew(self) -> None:
        """Count the looks from the next one on."""
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._looked = 0

    def __call__(self, order: str) -> None:
        self._looked += order == "A"
        if order == "A" and self._looked == self._stops_at:
            self.reached.set()
            assert self.go_on.wait(60)


def looking(
    placet: Placet, place: Path, looks: Callable[[str], None], *, told: Any = None, **options: Any
) -> Guarded[str]:
    """Give a refund that nobody is asked about, in one session, whose world is looked at."""
    terms = {"session": ONE, "on_decided": told}
    refund = refund_of(placet, place, guard=terms, approval="never", **options)

    @refund.environment
    def world(order: str, amount: int) -> str:
        looks(order)
        return "the same"

    return refund


async def left(refund: Guarded[str], looks: Looks, *, is_torn_down: bool = False) -> None:
    """Make the call for A, and leave it where it looks at the world; perhaps the loop ends then."""
    caller = asyncio.ensure_future(refund.awaited("A", 1))
    await asyncio.to_thread(looks.reached.wait, 60)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    looks.go_on.set()
    if not is_torn_down:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)


def in_a_loop_of_its_own(placet: Placet, place: Path, order: str) -> str:
    """Make a call whose event loop no other call shares: it may be held up."""
    refund = looking(placet, place, lambda order: None)

    async def calls() -> str:
        return str(await refund.awaited(order, 2))

    return asyncio.run(calls())


def is_made_once(placet: Placet, place: Path, *lines: str) -> bool:
    """Say whether these payments were made, each once, all runs are over, and the log is sound."""
    is_sound = verify(placet.engine.store, "main", ONE).sound
    stops = {getattr(row.run.state, "stop", None) for row in placet.runs_sync()}
    return is_sound and stops == {"final"} and sorted(paid(place)) == sorted(lines)


def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls wait for nothing that is under way."""
    monkeypatch.setattr(function_runs, "BUSY_LASTS", timedelta(0))


# --- its caller leaves it -----------------------------------------------------------------------


@pytest.mark.promise("D5", "G7")
@pytest.mark.parametrize("look", [1, 2])
@pytest.mark.parametrize("is_torn_down", [False, True])
def test_a_call_whose_caller_leaves_before_it_is_begun_keeps_nobody_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: int, is_torn_down: bool
) -> None:
    soon(monkeypatch)
    looks = Looks(stops_at=look)
    with opened(tmp_path) as placet:
        refund = looking(placet, tmp_path, looks)

        asyncio.run(left(refund, looks, is_torn_down=is_torn_down))
        assert list(placet.runs_sync(active=True)) == []
        assert refund("B", 2) == "refunded 2 for B"
        assert refund("A", 1) == "refunded 1 for A"
        assert is_made_once(placet, tmp_path, "A 1", "B 2")


@pytest.mark.promise("D5", "G7")
def test_a_call_that_is_left_again_and_again_comes_to_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_runs, "MOST_LEFT", 2)
    looks = Looks(stops_at=1)
    with opened(tmp_path) as placet:
        refund = looking(placet, tmp_path, looks)

        for _ in range(4):
            looks.begin_anew()
            asyncio.run(left(refund, looks))
        assert paid(tmp_path) == ["A 1"]
        looks.go_on.set()
        assert refund("A", 1) == "refunded 1 for A"
        assert is_made_once(placet, tmp_path, "A 1")


# --- its caller is away, or gone ----------------------------------------------------------------


@pytest.mark.promise("D5", "G7")
@pytest.mark.parametrize("told", [None, print])
def test_a_call_that_may_be_anothers_to_begin_is_left_to_it_for_a_while_and_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    looks, clock = Looks(stops_at=2), Clock()
    with opened(tmp_path, clock=clock) as placet, ThreadPoolExecutor() as others:
        refund = looking(placet, tmp_path, looks, told=told)
        away = others.submit(refund, "A", 1)
        assert looks.reached.wait(60)
        with monkeypatch.context() as patch:
            soon(patch)
            assert code_of(lambda: refund("B", 2)) == "run_active"
            clock.now += LEFT_ALONE
        assert refund("B", 2) == "refunded 2 for B"
        looks.go_on.set()
        assert away.result(60) == "refunded 1 for A"
        assert is_made_once(placet, tmp_path, "A 1", "B 2")


@pytest.mark.promise("D5")
def test_who_looks_at_the_world_for_long_before_it_proposes_keeps_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, clock = Looks(stops_at=1), Clock()
    with opened(tmp_path, clock=clock) as placet, ThreadPoolExecutor() as others:
        refund = looking(placet, tmp_path, looks)
        away = others.submit(refund, "A", 1)
        assert looks.reached.wait(60)
        clock.now += timedelta(seconds=20)
        with monkeypatch.context() as patch:
            soon(patch)
            assert code_of(lambda: refund("B", 2)) == "run_active"
        looks.go_on.set()
        assert away.result(60) == "refunded 1 for A"
        assert refund("B", 2) == "refunded 2 for B"
        assert is_made_once(placet, tmp_path, "A 1", "B 2")
        assert [row.run.step for row in placet.runs_sync()] == [1, 1]


@pytest.mark.promise("D5", "G7")
@pytest.mark.parametrize("until_it", ["is under way", "is done"])
def test_a_caller_who_comes_back_as_its_call_is_ended_is_the_one_who_makes_it(
    tmp_path: Path, until_it: str
) -> None:
    looks, clock = Looks(stops_at=2), Clock()
    is_inside, may_end = threading.Event(), threading.Event()

    def inside() -> None:
        is_inside.set()
        assert may_end.wait(60)

    def comes_back() -> None:
        looks.go_on.set()
        assert is_inside.wait(60)
        if until_it == "is done":
            may_end.set()
            assert away.result(60) == "refunded 1 for A"

    with ThreadPoolExecutor() as others, opened(tmp_path, clock=clock) as placet:
        refund = looking(placet, tmp_path, looks, before=inside)
        away = others.submit(refund, "A", 1)
        assert looks.reached.wait(60)
        clock.now += LEFT_ALONE
        elsewhere = Placet(Meeting(tmp_path / "placet.db", comes_back, clock), approvers=["ana"])
        with elsewhere:
            other = others.submit(in_a_loop_of_its_own, elsewhere, tmp_path, "B")
            assert is_inside.wait(60)
            may_end.set()
            assert other.result(60) == "refunded 2 for B"
        assert away.result(60) == "refunded 1 for A"
        assert is_made_once(placet, tmp_path, "A 1", "B 2")
        assert [row.run.step for row in placet.runs_sync()] == [1, 1]


@pytest.mark.promise("D5", "G7")
def test_a_call_that_was_left_is_ended_by_two_at_once_and_all_are_made_once(tmp_path: Path) -> None:
    looks, clock = Looks(stops_at=2), Clock()
    met = threading.Barrier(2)
    with ThreadPoolExecutor() as others, opened(tmp_path, clock=clock) as placet:
        refund = looking(placet, tmp_path, looks)
        away = others.submit(refund, "A", 1)
        assert looks.reached.wait(60)
        clock.now += LEFT_ALONE

        def calls(order: str) -> str:
            store = Meeting(tmp_path / "placet.db", lambda: met.wait(60), clock)
            with Placet(store, approvers=["ana"]) as elsewhere:
                return in_a_loop_of_its_own(elsewhere, tmp_path, order)

        said = [each.result(60) for each in [others.submit(calls, order) for order in "BC"]]
        assert said == ["refunded 2 for B", "refunded 2 for C"]
        looks.go_on.set()
        assert away.result(60) == "refunded 1 for A"
        assert is_made_once(placet, tmp_path, "A 1", "B 2", "C 2")


def in_process(function: Callable[..., None], *args: Any) -> int | None:
    process = _processes.Process(target=function, args=args)
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.slow
@pytest.mark.promise("D2", "D5", "G7")
def test_a_call_whose_caller_was_killed_at_any_point_keeps_nobody_and_is_made_once(
    tmp_path: Path,
) -> None:
    ends: Counter[str] = Counter()
    for place, total in killed_at_each_point(tmp_path, "A"):
        assert total > 6, "a call writes several times"
        with opened(place, clock=later()) as placet:
            refund = refund_of(placet, place, guard={"session": ONE}, approval="never")
            said = called(partial(refund, "B", 2))
            ends[said] += 1
            if said != "settlement":
                assert said == "refunded 2 for B"
                assert called(partial(refund, "A", 1)) == "refunded 1 for A"
                assert is_made_once(placet, place, "A 1", "B 2")
            else:  # It was killed after its intent: whether it has paid, only people can say.
                assert paid(place) in (["A 1"], [])
    assert ends["refunded 2 for B"] > 6
    assert ends["settlement"] > 2


@pytest.mark.slow
@pytest.mark.promise("D2", "D5", "G7")
def test_who_is_killed_while_it_ends_a_call_that_was_left_keeps_nobody_either(
    tmp_path: Path,
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    assert in_process(call_between_kills, str(before), "A", None, True) == -9
    ends: Counter[str] = Counter()
    for place, _ in killed_at_each_point(tmp_path, "B", before=before):
        with opened(place, clock=later()) as placet:
            refund = refund_of(placet, place, guard={"session": ONE}, approval="never")
            said = called(partial(refund, "A", 1))
            ends[said] += 1
            if said != "settlement":
                assert said == "refunded 1 for A"
                assert called(partial(refund, "B", 1)) == "refunded 1 for B"
                assert is_made_once(placet, place, "A 1", "B 1")
            else:
                assert paid(place) in (["B 1"], [])
    assert ends["refunded 1 for A"] > 10
    assert ends["settlement"] > 2


def later() -> Clock:
    """Give a clock at which a run that has no call yet is taken to be left."""
    clock = Clock()
    clock.now = datetime.now(UTC) + function_runs.LEFT_TO_BEGIN
    return clock


def killed_at_each_point(
    tmp_path: Path, order: str, *, before: Path | None = None
) -> Iterator[tuple[Path, int]]:
    """Give places in which a caller was killed, at each point that it passes; and how many."""
    counted = tmp_path / "counted"
    if before is None:
        counted.mkdir()
    else:
        shutil.copytree(before, counted)
    assert in_process(call_between_kills, str(counted), order, None, False) == 0
    total = int((counted / "points").read_text())
    for at in range(1, total + 1):
        place = tmp_path / f"killed-{at}"
        if before is None:
            place.mkdir()
        else:
            shutil.copytree(before, place)
        assert in_process(call_between_kills, str(place), order, at, False) == -9
        yield place, total
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.promise("D5", "G7")
def test_many_processes_that_meet_a_call_whose_caller_was_killed_are_all_served(
    tmp_path: Path,
) -> None:
    assert in_process(call_between_kills, str(tmp_path), "A-0", None, True) == -9
    barrier, answers = _processes.Barrier(PROCESSES), _processes.Queue()
    args = (barrier, 1, "one session", answers)
    contenders = [
        _processes.Process(target=contender, args=(str(tmp_path), number, *args))
        for number in range(PROCESSES)
    ]
    for process in contenders:
        process.start()
    found = sorted(answers.get(timeout=120) for _ in contenders)
    for process in contenders:
        process.join(60)
    assert found == [(0, n, f"refunded {n} for A-0") for n in range(PROCESSES)]
    with opened(tmp_path) as placet:
        assert is_made_once(placet, tmp_path, *(f"A-0 {n}" for n in range(PROCESSES)))
