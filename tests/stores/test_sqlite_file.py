"""The SQLite store's file: who may read it, what may be wrong with it, and its versions."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.codec import decode, decode_event, encode
from placet.core.errors import StoreTrouble
from placet.core.state import Call, No, Request, Run
from placet.core.values import Occurrence
from placet.stores import sqlite_opening
from placet.stores.sqlite import SqliteStore
from tests.stores.build import ALLOW, ANN, Clock, Session, intent
from tests.stores.contract import code_of, unchained
from tests.stores.places import SqlitePlace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SqlitePlace]:
    made = SqlitePlace(tmp_path / "placet.db")
    yield made
    made.close()


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
            file.seek((page - 1) * sqlite_opening.PAGE_BYTES)
            file.write(b"\xff" * sqlite_opening.PAGE_BYTES)
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


@pytest.fixture
def old(place: SqlitePlace) -> SqlitePlace:
    """Give a file as version 1 of placet wrote it, with three sessions in it."""
    text = Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(place.path, isolation_level=None)) as connection:
        connection.executescript(text)
        assert sqlite_opening.read_meta(connection, "version") == 1
    return place


@pytest.mark.promise("D7")
def test_what_version_1_wrote_is_read_and_written_again_as_it_was(old: SqlitePlace) -> None:
    parts: dict[str, Any] = {"runs": Run, "calls": Call, "requests": Request, "noes": No}
    for table, cls in parts.items():
        written = [text for (text,) in old.sql(f"SELECT value FROM {table}")]
        assert written
        assert [encode(decode(cls, text)) for text in written] == written
    events = old.sql("SELECT kind, body FROM events")
    assert [encode(decode_event(kind, body)) for kind, body in events] == [b for _, b in events]


@pytest.mark.promise("D7", "H4")
def test_a_store_of_version_1_is_brought_up_to_date_with_all_that_is_in_it(
    old: SqlitePlace,
) -> None:
    before = {table: old.sql(f"SELECT * FROM {table}") for table in ("events", "runs", "requests")}
    store = old.open(clock=Clock())
    assert store.check()["version"] == str(sqlite_opening.VERSION)
    for table, rows in before.items():
        assert old.sql(f"SELECT * FROM {table}") == rows
    for id_, active in (("s1", set()), ("s2", {"run_2", "child"}), ("s3", {"run_3"})):
        assert unchained(list(store.events("main", id_))) == []
        found = store.session("main", id_)
        assert found is not None
        assert not found.ended
        assert set(found.runs) == active
        assert {run.mode for run in found.runs.values()} <= {"act"}
    session = Session(store, id="s2", fences={"child": 1})
    session.approve(store.requests("main", session="s2")[0].request.id)
    session.lease("child")
    session.conclude(intent(session.begin(Occurrence("child", 1, 0))))
    session.do(c.FinishRun(run="child", fence=session.fence("child"), stop="final", answer="42"))
    assert store.transcript("main", "s2", "run_2")[-3].body == "42"
    session.do(c.EndSession(by=ANN))
    found = store.session("main", "s2")
    assert found is not None
    assert found.ended
    Session(store, id="s1").start("run_9")


def _make_older(path: Path, *, version: int) -> None:
    """Put what a database has into one of an older version, as far as that has a place for it."""
    newer = path.rename(path.with_name("newer.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        sqlite_opening.migrate(connection, after=0, until=version)
        connection.execute("COMMIT")
        connection.execute("ATTACH ? AS newer", (str(newer),))
        tables = connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")
        for (table,) in tables.fetchall():
            if table != "meta" and not table.startswith("sqlite_"):
                found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
                columns = ", ".join(name for (name,) in found)
                connection.execute(
                    f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}"
                )


@pytest.mark.promise("D7")
def test_steps_that_frameworks_named_before_version_3_are_found_by_their_names(
    place: SqlitePlace,
) -> None:
    session = Session(place.open(clock=Clock()))
    session.start(kind="hosted")
    for step, padding in enumerate(("", "x" * 5_000), start=1):
        names = {"reference": f"r{step}", "place": "" if padding else "p"}
        entry = json.dumps({**names, "checkpoint": padding})
        session.propose(ALLOW, step=step, entry=entry)
    place.close()
    _make_older(place.path, version=2)
    store = place.open(clock=Clock())
    found = [
        store.step_named("main", "s1", "run_1", kind="reference", name=f"r{n}") for n in (1, 2, 3)
    ]
    assert found == [1, 2, None]
    assert store.step_named("main", "s1", "run_1", kind="place", name="p") == 1
    assert store.step_named("main", "s1", "run_1", kind="place", name="") is None


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


#: Tables that are not a tenant's, and those that are found by a number of their own.
OF_THE_DATABASE = {"meta", "keys", "sqlite_sequence"}
BY_NUMBER = {"outbox"}

#: Statements that look at rows of whatever tenant, and why that is no way to another's.
ACROSS = {
    "due": "a worker leaves runs of other tenants alone",
    "heads": "anchors are made over all of them",
    "delete_notice": "one row of the outbox, by its number",
    "delete_addressed": "one row of the outbox, by its number",
    "take_notice": "one row of the outbox, by its number",
    "postpone_notice": "one row of the outbox, by its number",
    "address_notice": "one row of the outbox, by its number",
}


@pytest.mark.promise("G11")
def test_every_key_and_every_query_of_a_session_begins_with_the_tenant(
    place: SqlitePlace,
) -> None:
    place.open()
    found = place.sql("SELECT name FROM sqlite_schema WHERE type = 'table'")
    tables = {name for (name,) in found} - OF_THE_DATABASE
    for table in tables - BY_NUMBER:
        columns = place.sql(f"SELECT name FROM pragma_table_info('{table}') WHERE pk = 1")
        assert columns == [("tenant",)], table
    assert ACROSS.keys() <= sqlite_opening.SQL.keys()
    reads = re.compile(r"\b(?:FROM|UPDATE|JOIN)\s+(\w+)")
    for name, statement in sqlite_opening.SQL.items():
        if name in ACROSS or not tables & {*reads.findall(statement)}:
            continue
        where = re.search(r"\bWHERE\s+(\S+)", statement)
        assert (where[1] if where else "") in ("tenant", "t.tenant"), name
