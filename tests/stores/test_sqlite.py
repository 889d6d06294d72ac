"""The SQLite store: the shared contract, and what is SQLite's own."""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.errors import Conflict, NotFound, StoreTrouble
from placet.stores import sqlite_opening, sqlite_writer
from placet.stores.sqlite import SqliteStore
from tests.marks import ROOT
from tests.stores.build import ANN, HOLDER, OTHER, PEOPLE, Clock, Session, start
from tests.stores.contract import StoreContract, code_of, unchained
from tests.stores.contract_outbox import OutboxContract
from tests.stores.contract_runs import RunsContract
from tests.stores.places import SqlitePlace
from tests.stores.walk import WalkContract

#: A text that does not get much shorter by being compressed.
LONG = Random(1).randbytes(100_000).hex()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SqlitePlace]:
    made = SqlitePlace(tmp_path / "placet.db")
    yield made
    made.close()


class TestSqlite(StoreContract, RunsContract, OutboxContract, WalkContract):
    """The shared contract, held by SQLite."""

    @pytest.fixture
    def fresh(self, tmp_path: Path) -> Callable[[], SqlitePlace]:
        numbers = itertools.count()
        return lambda: SqlitePlace(tmp_path / f"{next(numbers)}.db")

    @pytest.mark.promise("D3")
    def test_rows_of_every_kind_come_with_one_commit(self, place: SqlitePlace) -> None:
        session = Session(place.open())
        session.start()
        with closing(sqlite3.connect(place.path)) as watching:
            (before,) = watching.execute("PRAGMA data_version").fetchone()
            session.ask()
            (after,) = watching.execute("PRAGMA data_version").fetchone()
        assert after == before + 1
        for table in ("events", "calls", "requests", "payloads", "transcript", "outbox"):
            assert place.sql(f"SELECT count(*) FROM {table}") != [(0,)]


# --- locks, room and failures -----------------------------------------------------------------


def test_a_lock_is_waited_for_and_then_named(place: SqlitePlace) -> None:
    store = place.open(busy_timeout=timedelta(milliseconds=50))
    session = Session(store)
    session.start()
    with closing(sqlite3.connect(place.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreTrouble) as caught:
            session.ask()
        assert code_of(caught) == "store_locked"
        assert len(store.runs("main")) == 1
        other.execute("ROLLBACK")
    assert session.ask()


def test_a_lock_that_is_let_go_in_time_is_no_trouble(place: SqlitePlace) -> None:
    session = Session(place.open(busy_timeout=timedelta(seconds=30)))
    session.start()
    with closing(
        sqlite3.connect(place.path, isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.1, lambda: other.execute("ROLLBACK"))
        release.start()
        assert session.ask()
        release.join()


class StandsStill:
    """The time of a process that stands still for a minute at its first pause, and once more.

    While it stands still for the second time, the lock is let go.
    """

    def __init__(self, let_go: Callable[[], object]) -> None:
        self._now, self._pauses, self._let_go = 0.0, 0, let_go

    def monotonic(self) -> float:
        return self._now

    def sleep(self, _: float) -> None:
        self._now += 60
        self._pauses += 1
        if self._pauses == 2:
            self._let_go()


def test_a_process_that_stood_still_has_not_waited_for_a_lock(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(place.open(busy_timeout=timedelta(seconds=30)))
    session.start()
    with closing(
        sqlite3.connect(place.path, isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(sqlite_writer, "time", StandsStill(lambda: other.execute("ROLLBACK")))
        assert session.ask()


def _limit(store: SqliteStore, pages: int) -> None:
    store._writer.do(lambda writing: _set_limit(writing, pages)).result()


def _set_limit(writing: sqlite3.Connection, pages: int) -> None:
    writing.execute(f"PRAGMA max_page_count = {pages}")


@pytest.mark.promise("D3")
def test_a_full_store_loses_nothing_and_goes_on(place: SqlitePlace) -> None:
    store = place.open()
    session = Session(store)
    session.start()
    _limit(store, 1)
    before = list(store.events("main", "s1"))
    with pytest.raises(StoreTrouble) as caught:
        Session(store, id="s2").start("run_2", message=LONG)
    assert code_of(caught) == "store_full"
    assert store.sessions("main") == ["s1"]
    assert list(store.events("main", "s1")) == before
    assert session.ask()  # The writer has opened its connection anew, without the limit.


def _together(store: SqliteStore, *commands: tuple[str, c.Command]) -> list[Any]:
    """Have commands carried out in one transaction, by holding the writer until all are there."""
    begun, gate = threading.Event(), threading.Event()
    holding = store._writer.do(lambda writing: _hold(begun, gate))
    assert begun.wait(60)
    futures = [store.execute("main", session, command) for session, command in commands]
    gate.set()
    holding.result(timeout=60)
    return [future.exception(timeout=60) or future.result() for future in futures]


def _hold(begun: threading.Event, gate: threading.Event) -> None:
    begun.set()
    assert gate.wait(60)


def test_a_refusal_in_the_middle_of_a_commit_is_its_own(place: SqlitePlace) -> None:
    store = place.open()
    Session(store, id="a").start("run_a")
    with closing(sqlite3.connect(place.path)) as watching:
        (before,) = watching.execute("PRAGMA data_version").fetchone()
        told = _together(
            store,
            ("b", start("run_b")),
            ("a", c.Approve(request="rq_none", by=ANN, eligible=PEOPLE)),
            ("c", start("run_a")),
            ("a", c.TakeLease(run="run_a", holder=OTHER, gone=HOLDER)),
            ("d", start("run_d", message="x")),
        )
        (after,) = watching.execute("PRAGMA data_version").fetchone()
    assert [type(each).__name__ for each in told] == [
        "Answer",
        "NotFound",
        "Conflict",
        "Answer",
        "Answer",
    ]
    assert isinstance(told[1], NotFound)
    assert isinstance(told[2], Conflict)
    assert after == before + 1
    assert store.sessions("main") == ["a", "b", "d"]
    assert unchained(list(store.events("main", "a"))) == []


@pytest.mark.promise("D3")
def test_a_failed_commit_fails_all_of_its_commands(place: SqlitePlace) -> None:
    store = place.open()
    Session(store, id="a").start("run_a")
    _limit(store, 1)
    told = _together(
        store,
        ("b", start("run_b")),
        ("a", c.TakeLease(run="run_a", holder=OTHER, gone=HOLDER)),
        ("c", start("run_c", message=LONG)),
        ("d", start("run_d")),
    )
    assert [getattr(each, "code", "done") for each in told] == ["store_full"] * 4
    assert store.sessions("main") == ["a"]
    assert len(list(store.events("main", "a"))) == 2
    assert Session(store, id="b").start("run_b").events


# --- what is written --------------------------------------------------------------------------


class Written:
    """Counts what a store writes: rows by table, and pages of its log."""

    def __init__(self, store: SqliteStore, path: Path) -> None:
        self.store = store
        self.log = path.with_name(path.name + "-wal")
        self.statements: list[str] = []
        self.bytes = 0
        store._writer.do(lambda writing: writing.set_trace_callback(self._see)).result()

    def _see(self, statement: str) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            self.statements.append(" ".join(statement.split()[:3]))
            self.bytes += len(statement)

    def pages(self) -> int:
        return self.log.stat().st_size // (sqlite_opening.PAGE_BYTES + 24)


@pytest.mark.slow
@pytest.mark.promise("D6")
def test_a_decision_writes_what_has_changed_and_no_more(place: SqlitePlace) -> None:
    clock = Clock()
    session = Session(place.open(clock=clock))
    session.start(max_steps=100_000)
    for step in range(1, 101):
        session.cycle(step=step)
    request = session.ask(step=101)
    written = Written(session.store, place.path)  # type: ignore[arg-type]  # it is one
    before = written.pages()
    session.approve(request)
    assert written.pages() - before <= 12
    assert written.bytes <= 4096
    assert sorted(written.statements) == [
        "INSERT INTO events",
        "INSERT INTO outbox",
        "UPDATE requests SET",
        "UPDATE runs SET",
        "UPDATE sessions SET",
    ]


def test_an_ended_step_is_never_written_again(place: SqlitePlace) -> None:
    session = Session(place.open())
    session.start()
    session.cycle(step=1)
    place.sql("UPDATE calls SET value = value || ' '")
    place.sql("UPDATE requests SET value = value || ' '")
    session.cycle(step=2)
    assert place.sql("SELECT count(*) FROM calls WHERE value LIKE '% '") == [(1,)]
    assert place.sql("SELECT count(*) FROM requests WHERE value LIKE '% '") == [(1,)]


@pytest.mark.promise("D5")
def test_a_command_goes_on_without_its_caller(place: SqlitePlace) -> None:
    store = place.open()
    begun, gate = threading.Event(), threading.Event()
    store._writer.do(lambda writing: _hold(begun, gate))
    future = store.execute("main", "s1", start())
    assert not future.cancel()
    gate.set()
    assert future.result(timeout=60).events


@pytest.mark.promise("G9")
def test_a_clock_of_another_zone_is_read_as_the_same_instant(place: SqlitePlace) -> None:
    def local() -> datetime:
        return datetime.fromisoformat("2026-03-01T20:00:00+08:00")

    answer = Session(place.open(clock=local)).start()
    assert answer.state.now == datetime.fromisoformat("2026-03-01T12:00:00+00:00")
    assert answer.state.now.utcoffset() == timedelta(0)


# --- several processes ------------------------------------------------------------------------

WRITER = """
import sys
from tests.stores.build import Session
from placet.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
number = sys.argv[2]
session = Session(store, id=f"s{number}")
session.start(f"run_{number}")
for step in range(1, 11):
    session.cycle(run=f"run_{number}", step=step)
store.close()
"""


@pytest.mark.slow
def test_processes_share_one_file(place: SqlitePlace) -> None:
    store = place.open()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place.path), str(number)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        for number in range(4)
    ]
    assert [each.wait(timeout=60) for each in running] == [0] * 4
    assert store.sessions("main") == ["s0", "s1", "s2", "s3"]
    for session in store.sessions("main"):
        log = list(store.events("main", session))
        assert unchained(log) == []
        assert len(log) == 2 + 8 * 10


@pytest.mark.parametrize(
    "query, index",
    [
        ("active_runs", "runs_active"),
        ("open_calls", "calls_open"),
        ("pending_requests", "requests_of_session"),
        ("tenant_pending", "requests_pending"),
        ("due", "runs_to_wake"),
        ("command", "events_of_command"),
    ],
)
def test_what_is_asked_often_has_an_index(place: SqlitePlace, query: str, index: str) -> None:
    place.open()
    statement = sqlite_opening.SQL[query]
    values = ["main"] * statement.count("?")
    (step, *others) = [row[3] for row in place.sql(f"EXPLAIN QUERY PLAN {statement}", *values)]
    assert index in step
    assert not others
