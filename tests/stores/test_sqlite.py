"""The SQLite store: the shared contract, and what is SQLite's own."""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.errors import Conflict, NotFound, StoreTrouble
from placet.stores import sqlite_opening
from placet.stores.sqlite import SqliteStore
from tests.stores.build import ANN, HOLDER, OTHER, PEOPLE, Clock, Session, start
from tests.stores.contract import StoreContract, code_of, unchained
from tests.stores.walk import WalkContract


class SqlitePlace:
    """A file, and the stores that were opened on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stores: list[SqliteStore] = []

    def open(self, **settings: Any) -> SqliteStore:
        store = SqliteStore(self.path, **settings)
        self.stores.append(store)
        return store

    def sql(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SqlitePlace]:
    made = SqlitePlace(tmp_path / "placet.db")
    yield made
    made.close()


class TestSqlite(StoreContract, WalkContract):
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


# --- the file ---------------------------------------------------------------------------------


def test_the_files_are_their_owners_alone(place: SqlitePlace) -> None:
    before = os.umask(0)
    try:
        Session(place.open()).start()
    finally:
        os.umask(before)
    files = list(place.path.parent.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_closing_leaves_one_file(place: SqlitePlace) -> None:
    store = place.open()
    Session(store).start()
    store.session("main", "s1")
    store.close()
    assert list(place.path.parent.iterdir()) == [place.path]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreTrouble, match="no_such_place") as caught:
        SqliteStore(tmp_path / "no_such_place" / "placet.db")
    assert code_of(caught) == "store_unreachable"
    assert caught.value.hint
    with pytest.raises(StoreTrouble) as caught:
        SqliteStore(tmp_path)
    assert code_of(caught) == "store_unreachable"


def test_a_file_that_was_moved_is_not_written_to(place: SqlitePlace) -> None:
    store = place.open()
    Session(store).start()
    aside = place.path.with_name("aside.db")
    place.path.rename(aside)
    for call in (lambda: Session(store).ask(), lambda: store.requests("main")):
        with pytest.raises(StoreTrouble) as caught:
            call()
        assert code_of(caught) == "store_unreachable"
    aside.rename(place.path)
    assert Session(store, fences={"run_1": 1}).ask()


@pytest.mark.parametrize("content", [b"no database at all" * 300, b"SQLite format 3\0" * 300])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "placet.db"
    path.write_bytes(content)
    with pytest.raises(StoreTrouble) as caught:
        SqliteStore(path)
    assert code_of(caught) == "store_damaged"
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_kept(place: SqlitePlace) -> None:
    place.sql("CREATE TABLE theirs (a)")
    with pytest.raises(StoreTrouble, match="no store of placet") as caught:
        place.open()
    assert code_of(caught) == "store_damaged"
    assert place.sql("SELECT name FROM sqlite_schema") == [("theirs",)]


def test_damage_inside_is_reported_and_nothing_runs(place: SqlitePlace) -> None:
    session = Session(place.open())
    session.start()
    for step in range(1, 20):
        session.cycle(step=step)
    place.close()
    hit = "SELECT rootpage FROM sqlite_schema WHERE tbl_name IN ('runs', 'requests', 'events')"
    roots = [page for (page,) in place.sql(hit)]
    with place.path.open("r+b") as file:
        for page in roots:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)
    store = place.open()
    for call in (store.check, lambda: Session(store).ask(step=20), lambda: store.runs("main")):
        with pytest.raises(StoreTrouble) as caught:
            call()
        assert code_of(caught) == "store_damaged"


READ_ONLY = """
import os, sys
path, uid = sys.argv[1], int(sys.argv[2])
from placet.core.commands import StartRun
from placet.core.errors import StoreTrouble
from placet.stores.sqlite import SqliteStore
if uid:  # Root may write whatever it likes.
    os.setuid(uid)
try:
    store = SqliteStore(path)
    print(len(store.runs("main")))
    command = StartRun(run="r2", agent="a", requester="r", message="m")
    store.execute("main", "s2", command).result()
except StoreTrouble as error:
    print(error.code)
"""


def test_what_may_only_be_read_says_so(tmp_path: Path) -> None:
    nobody = 65534 if os.getuid() == 0 else 0
    os.chmod(tmp_path, 0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            os.chmod(parent, parent.stat().st_mode | 0o055)
    kept = tmp_path / "kept.db"
    with closing(SqliteStore(kept)) as store:
        Session(store).start()
        os.chmod(kept, 0o444)
        for path in (kept, tmp_path / "new.db"):
            os.chmod(tmp_path, 0o555)
            ran = subprocess.run(
                [sys.executable, "-c", READ_ONLY, str(path), str(nobody)],
                capture_output=True,
                text=True,
                env={"PYTHONPATH": "src"},
                check=False,
            )
            assert ran.stdout.split()[-1:] == ["store_read_only"], ran.stderr
    os.chmod(tmp_path, 0o755)


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
        Session(store, id="s2").start("run_2", message="x" * 100_000)
    assert code_of(caught) == "store_full"
    assert store.sessions("main") == ["s1"]
    assert list(store.events("main", "s1")) == before
    assert session.ask()  # The writer has opened its connection anew, without the limit.


def _together(store: SqliteStore, *commands: tuple[str, c.Command]) -> list[Any]:
    """Have commands carried out in one transaction, by holding the writer until all are there."""
    begun, gate = threading.Event(), threading.Event()
    holding = store._writer.do(lambda writing: _hold(begun, gate))
    assert begun.wait(10)
    futures = [store.execute("main", session, command) for session, command in commands]
    gate.set()
    holding.result(timeout=10)
    return [future.exception(timeout=10) or future.result() for future in futures]


def _hold(begun: threading.Event, gate: threading.Event) -> None:
    begun.set()
    assert gate.wait(10)


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
        ("c", start("run_c", message="x" * 100_000)),
        ("d", start("run_d")),
    )
    assert [getattr(each, "code", "done") for each in told] == ["store_full"] * 4
    assert store.sessions("main") == ["a"]
    assert len(list(store.events("main", "a"))) == 2
    assert Session(store, id="b").start("run_b").events


# --- versions ---------------------------------------------------------------------------------


@pytest.mark.promise("D7")
def test_only_a_store_whose_oldest_reader_is_newer_is_refused(place: SqlitePlace) -> None:
    Session(place.open()).start()
    place.close()
    place.sql("UPDATE meta SET value = 900 WHERE name = 'version'")
    store = place.open()
    assert Session(store, fences={"run_1": 1}).ask()
    store.close()
    place.sql("UPDATE meta SET value = 800 WHERE name = 'oldest_reader'")
    with pytest.raises(StoreTrouble, match="800") as caught:
        place.open()
    assert code_of(caught) == "store_too_new"
    assert "bring placet up to date" in caught.value.hint


@pytest.mark.promise("D7")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calls SET value = json_set(value, '$.state.is', 'Dreaming') WHERE session = 's1'",
        "UPDATE runs SET value = json_set(value, '$.mood', 'calm') WHERE session = 's1'",
        "UPDATE requests SET value = json_set(value, '$.kind', 'riddle') WHERE session = 's1'",
    ],
)
def test_what_a_newer_version_wrote_is_left_alone_and_the_rest_goes_on(
    place: SqlitePlace, statement: str
) -> None:
    store = place.open()
    for id_ in ("s1", "s2"):
        one = Session(store, id=id_)
        one.start(f"run_{id_}")
        one.ask(run=f"run_{id_}")
    place.sql(statement)
    with pytest.raises(StoreTrouble) as caught:
        store.session("main", "s1")
    assert code_of(caught) == "newer_value"
    with pytest.raises(StoreTrouble) as caught:
        Session(store, id="s1").do(c.CancelRun(run="run_s1", by=ANN, cause=""))
    assert code_of(caught) == "newer_value"
    assert "s2" in {each.session for each in store.requests("main")}
    assert "s2" in {each.session for each in store.runs("main")}
    other = next(each for each in store.requests("main") if each.session == "s2")
    assert Session(store, id="s2").approve(other.request.id).events


def test_a_damaged_value_is_damage(place: SqlitePlace) -> None:
    store = place.open()
    Session(store).start()
    place.sql("UPDATE runs SET value = '{}'")
    with pytest.raises(StoreTrouble) as caught:
        store.session("main", "s1")
    assert code_of(caught) == "store_damaged"


def _schema(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()


@pytest.mark.promise("D7")
def test_every_older_database_is_brought_to_the_same_schema(tmp_path: Path) -> None:
    assert list(sqlite_opening.MIGRATIONS) == list(range(1, sqlite_opening.VERSION + 1))
    schemas = []
    for version in range(sqlite_opening.VERSION + 1):
        path = tmp_path / f"{version}.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            if version:
                connection.execute("BEGIN")
                sqlite_opening.migrate(connection, after=0, until=version)
                connection.execute("COMMIT")
        store = SqliteStore(path)
        assert store.check()["version"] == str(sqlite_opening.VERSION)
        store.close()
        with closing(sqlite3.connect(path)) as connection:
            schemas.append(_schema(connection))
    assert all(schema == schemas[0] for schema in schemas)


def test_stores_that_are_made_at_once_are_made_once(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    gate = threading.Barrier(6)
    stores: list[SqliteStore] = []

    def make() -> None:
        gate.wait()
        stores.append(SqliteStore(path))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    for store in stores:
        store.close()


@pytest.mark.promise("G11")
def test_every_key_and_every_query_of_a_session_begins_with_the_tenant(
    place: SqlitePlace,
) -> None:
    place.open()
    tables = {"sessions", "runs", "calls", "requests", "noes", "events", "payloads", "transcript"}
    for table in tables:
        columns = place.sql(f"SELECT name FROM pragma_table_info('{table}') WHERE pk = 1")
        assert columns == [("tenant",)]
    across = {"due", "next_wake", "outbox", "delete_notice", "put_notice"}
    for name, statement in sqlite_opening.SQL.items():
        body = statement.split("WHERE", 1)
        if name not in across and statement.lstrip("-").find("FROM meta") < 0 and len(body) > 1:
            first = body[1].split()[0]
            assert first in ("tenant", "t.tenant", "name", "type"), name


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
        return self.log.stat().st_size // (4096 + 24)


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
    assert future.result(timeout=10).events


@pytest.mark.promise("G9")
def test_a_clock_of_another_zone_is_read_as_the_same_instant(place: SqlitePlace) -> None:
    def local() -> datetime:
        return datetime.fromisoformat("2026-03-01T20:00:00+08:00")

    answer = Session(place.open(clock=local)).start()
    assert answer.state.now == datetime.fromisoformat("2026-03-01T12:00:00+00:00")
    assert answer.state.now.utcoffset() == timedelta(0)
