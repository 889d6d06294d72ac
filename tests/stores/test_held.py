"""What is read from a file is held to itself: a row and a text count in their own place alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.errors import StoreTrouble
from placet.core.values import GrantTerms, Occurrence
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Head
from tests.stores.build import ALLOW, ANN, PEOPLE, Clock, Session, intent, opened
from tests.stores.sealed import code

KEY = PlacetKey(b"k" * 32)
AT = Occurrence("run_1", 1, 0)


def lived(path: Path, *, key: PlacetKey | None = KEY) -> str:
    """Let a session have a closed request, a "no" and a grant, and one that waits; give that."""
    with closing(SqliteStore(path, key=key, clock=Clock())) as store:
        session = Session(store)
        session.start()
        session.reject(session.ask())
        session.lease()
        terms = GrantTerms(scope="session", lasts=timedelta(hours=1), uses=2, same=("order_id",))
        request = session.ask(step=2)
        action = store.action("main", "s1", Occurrence("run_1", 2, 0))
        assert action is not None
        command = c.Approve(request=request, by=ANN, eligible=PEOPLE, grant=terms, action=action[1])
        session.do(command)
        session.lease()
        session.conclude(intent(session.begin(Occurrence("run_1", 2, 0))))
        return opened(session.propose(None, ALLOW, step=3))[0]


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


COLUMNS = {
    "a request's id": "UPDATE requests SET id = 'rq_x' WHERE pending = 1",
    "what a request waits for": "UPDATE requests SET pending = 2 WHERE pending = 1",
    "a request's deadline": "UPDATE requests SET deadline_at = deadline_at + 1 WHERE pending = 1",
    "a run's id": "UPDATE runs SET id = 'run_x'",
    "a call's run": "UPDATE calls SET run = 'run_x' WHERE step = 3",
    "a call's step": "UPDATE calls SET step = 9 WHERE step = 3",
    "a call's place": "UPDATE calls SET place = 7 WHERE step = 3 AND place = 0",
    "whether a call is open": "UPDATE calls SET open = 0 WHERE step = 3",
    "what a no is to": "UPDATE noes SET call_key = (SELECT json_extract(value, '$.call_key')"
    " FROM calls WHERE step = 3 LIMIT 1)",
    "a grant's id": "UPDATE grants SET id = 'gr_x'",
    "surfaces that are none": "UPDATE sessions SET surfaces = '[1]'",
    "surfaces that cannot be read": "UPDATE sessions SET surfaces = '{'",
    "a value that is nested too deeply": "UPDATE requests SET value ="
    " replace(printf('%20000s', ''), ' ', '[') WHERE pending = 1",
}


@pytest.mark.promise("H4", "G3", "G11")
@pytest.mark.parametrize("name", COLUMNS)
def test_nothing_is_decided_on_a_row_whose_columns_are_not_its_values(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "placet.db"
    request = lived(path)
    changed(path, COLUMNS[name])
    with closing(SqliteStore(path, key=KEY, clock=Clock())) as store:
        session = Session(store)
        found = code(lambda: session.approve(request))
        assert found in {"store_damaged", "request_not_found"}
        names = c.Names(runs=("run_1",), steps=(("run_1", 3),), requests=(request,))
        for read in (
            lambda: store.session("main", "s1", names),
            lambda: [store.runs("main"), store.requests("main", pending=False)],
        ):
            with suppress(StoreTrouble):
                read()
                continue
            break
        else:
            pytest.fail("what was changed was read")


@pytest.mark.promise("G3", "G11")
def test_who_approves_a_request_whose_id_was_swapped_approves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    with closing(SqliteStore(path, key=KEY, clock=Clock())) as store:
        ids = []
        for name in ("s1", "s2"):
            session = Session(store, id=name)
            session.start(f"run_{name}")
            ids.append(session.ask(run=f"run_{name}"))
        one, other = ids
        changed(
            path,
            f"UPDATE requests SET id = 'x' WHERE id = '{one}'",
            f"UPDATE requests SET id = '{one}' WHERE id = '{other}'",
            f"UPDATE requests SET id = '{other}' WHERE id = 'x'",
        )
        assert code(lambda: store.find_request("main", one)) == "store_damaged"
        for name in ("s1", "s2"):
            assert code(partial(Session(store, id=name).approve, one)) == "store_damaged"


# --- texts ------------------------------------------------------------------------------------


@pytest.mark.promise("G3", "H4")
@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "plain"])
@pytest.mark.parametrize(
    "body", ["'reads the news'", "5", "x'789c00'", "x'01'", "zeroblob(9)"], ids=repr
)
def test_a_text_that_is_not_its_references_is_not_shown_and_not_sent(
    tmp_path: Path, key: PlacetKey | None, body: str
) -> None:
    path = tmp_path / "placet.db"
    lived(path, key=key)
    changed(path, f"UPDATE payloads SET body = {body}")
    with closing(SqliteStore(path, key=key, clock=Clock())) as store:
        (ref, *_) = store.kept("main", "s1").texts
        assert code(lambda: store.payload("main", "s1", ref)) == "store_damaged"
        assert code(lambda: store.transcript("main", "s1", "run_1")) == "store_damaged"
        assert code(lambda: store.action("main", "s1", AT)) == "store_damaged"


@pytest.mark.promise("G3")
def test_a_text_that_stands_in_the_place_of_another_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    lived(path, key=None)
    changed(
        path,
        "UPDATE payloads SET body = (SELECT body FROM payloads WHERE rowid = 2) WHERE rowid = 1",
    )
    with closing(SqliteStore(path, clock=Clock())) as store:
        refused = [ref for ref in store.kept("main", "s1").texts if not _is_read(store, ref)]
        assert len(refused) == 1


def _is_read(store: SqliteStore, ref: str) -> bool:
    try:
        return bool(store.payload("main", "s1", ref))
    except StoreTrouble as error:
        return error.code != "store_damaged"


@pytest.mark.promise("H4")
def test_nobody_without_the_key_writes_to_what_is_sealed_though_the_store_forgot_its_key(
    tmp_path: Path,
) -> None:
    path = tmp_path / "placet.db"
    request = lived(path)
    changed(path, "DELETE FROM keys")
    with closing(SqliteStore(path, clock=Clock())) as store:
        session = Session(store)
        assert code(lambda: session.reject(request, reason="plain words")) == "key_missing"
    assert b"plain words" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())


@pytest.mark.promise("H4")
@pytest.mark.parametrize("length", [40, 3_000, 60_000])
def test_what_was_plain_is_gone_from_the_file_once_it_is_sealed(
    tmp_path: Path, length: int
) -> None:
    path = tmp_path / "placet.db"
    words = Random(length).randbytes(length).hex()
    with closing(SqliteStore(path, clock=Clock())) as store:
        session = Session(store)
        session.start(message=words)
    with closing(sqlite3.connect(path)) as connection:
        bodies = [body for (body,) in connection.execute("SELECT body FROM payloads")]
    plain = [body.encode() if isinstance(body, str) else body for body in bodies]
    with closing(SqliteStore(path, key=KEY, clock=Clock())) as store:
        (head,) = store.heads()
        assert isinstance(head, Head)
        store.take_under_key(head)
        assert store.purge()
        data = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        parts = [body[at : at + 24] for body in plain for at in range(0, len(body) - 24, 100)]
        assert parts
        assert [part for part in parts if part in data] == []


# --- keys -------------------------------------------------------------------------------------


class Port:
    """A key port that is made of two functions."""

    def __init__(self, wrap: Callable[[bytes], Any], unwrap: Callable[[bytes], Any]) -> None:
        self.wrap, self.unwrap = wrap, unwrap


PORTS = {
    "it gives nothing": Port(lambda key: None, lambda key: None),
    "it gives text": Port(lambda key: key.hex(), lambda key: key),
    "it gives an empty text": Port(lambda key: b"", lambda key: b"k" * 32),
    "it gives back less": Port(lambda key: key, lambda key: key[:5]),
    "it gives back another": Port(lambda key: b"x", lambda key: b"y" * 32),
    "it fails": Port(lambda key: bytes(1 // 0), lambda key: key),
}


@pytest.mark.promise("H4")
@pytest.mark.parametrize("name", PORTS)
def test_a_port_that_does_not_give_back_what_it_wrapped_is_not_relied_on(
    tmp_path: Path, name: str
) -> None:
    assert code(lambda: SqliteStore(tmp_path / "new.db", key=PORTS[name])) == "key_unreachable"
    path = tmp_path / "placet.db"
    request = lived(path)
    with closing(SqliteStore(path, key=KEY, clock=Clock())) as store:
        assert code(lambda: store.rotate(PORTS[name])) == "key_unreachable"
    with closing(SqliteStore(path, key=KEY, clock=Clock())) as store:
        assert Session(store).approve(request).events
        assert store.action("main", "s1", AT) is not None


# --- the file ---------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_a_store_with_a_trigger_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    lived(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON events BEGIN UPDATE requests SET pending = 1; END"
        )
    assert code(lambda: SqliteStore(path, key=KEY)) == "store_damaged"


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "change", ["events SET at = {}", "meta SET value = {} WHERE name = 'stamp'"]
)
def test_an_instant_that_no_calendar_has_is_damage(tmp_path: Path, change: str) -> None:
    path = tmp_path / "placet.db"
    lived(path)
    changed(path, f"UPDATE {change}".format(2**63 - 1))

    def read() -> None:
        with closing(SqliteStore(path, key=KEY, clock=Clock())) as store:
            list(store.events("main", "s1"))
            store.session("main", "s1")

    assert code(read) == "store_damaged"


@pytest.mark.promise("G9")
def test_the_stamp_of_a_refused_command_is_kept_with_the_next_that_is_not(tmp_path: Path) -> None:
    path, clock = tmp_path / "placet.db", Clock()
    with closing(SqliteStore(path, clock=clock)) as store:
        session = Session(store)
        session.start()
        clock.move(hours=1)
        assert code(lambda: session.approve("rq_none")) == "request_not_found"
        session.lease()
        last = list(store.events("main", "s1"))[-1].at
    clock.move(hours=-1)
    with closing(SqliteStore(path, clock=clock)) as store:
        Session(store).do(c.CancelRun(run="run_1", by=ANN, cause=""))
        assert [row.at for row in store.events("main", "s1") if row.at > last] == []
        assert list(store.events("main", "s1"))[-1].at == last
