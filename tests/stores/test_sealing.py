"""A store under a key: the contract holds, its files tell nothing, no other key opens it (H4)."""

from __future__ import annotations

import hmac
import itertools
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from placet.core import commands as c
from placet.core.codec import chain_hash
from placet.core.values import SALT_BYTES
from placet.stores.sealing import Keys
from placet.stores.store import Standing
from tests.marks import ROOT
from tests.stores.build import ANN, Session
from tests.stores.contract import StoreContract
from tests.stores.contract_outbox import OutboxContract
from tests.stores.contract_runs import RunsContract
from tests.stores.places import SqlitePlace
from tests.stores.sealed import KEY, LONG_SECRET, OTHER_KEY, SECRET, SealedPlace, code, lived
from tests.stores.walk import WalkContract


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SealedPlace]:
    made = SealedPlace(tmp_path / "placet.db")
    yield made
    made.close()


def forge(place: SqlitePlace, *, with_head: bool = True) -> None:
    """Change the voter of an event, and chain everything anew, as a forger who knows the rule."""
    with closing(sqlite3.connect(place.path)) as connection, connection:
        touched = connection.execute(
            "UPDATE events SET body = replace(body, 'ann', 'eve') WHERE kind = 'VoteCast'"
        )
        assert touched.rowcount == 1
        previous = ""
        for seq, at, kind, body in connection.execute(
            "SELECT seq, at, kind, body FROM events WHERE session = 's1' ORDER BY seq"
        ).fetchall():
            previous = chain_hash(previous, seq=seq, at_micros=at, kind=kind, body=body)
            hash_ = bytes.fromhex(previous)
            connection.execute("UPDATE events SET hash = ? WHERE seq = ?", (hash_, seq))
        if with_head:
            connection.execute("UPDATE sessions SET head = ?", (bytes.fromhex(previous),))


class TestSealed(StoreContract, RunsContract, OutboxContract, WalkContract):
    """The shared contract, held by a store under a key."""

    @pytest.fixture
    def fresh(self, tmp_path: Path) -> Callable[[], SqlitePlace]:
        numbers = itertools.count()
        return lambda: SealedPlace(tmp_path / f"{next(numbers)}.db")


# --- what stands in the files -----------------------------------------------------------------


@pytest.mark.promise("H4")
def test_no_text_and_no_salt_stands_in_a_sealed_stores_files(place: SealedPlace) -> None:
    store = place.open()
    lived(store)
    salt = store.session("main", "s1").salt
    assert len(bytes.fromhex(salt)) == SALT_BYTES
    for hidden in (SECRET, LONG_SECRET[:40], salt):
        assert hidden.encode() not in place.bytes()
    assert bytes.fromhex(salt) not in place.bytes()
    assert [row.body for row in store.transcript("main", "s1", "run_1")][:2] == [
        SECRET,
        LONG_SECRET,
    ]
    assert place.sql("SELECT DISTINCT hex(substr(body, 1, 1)) FROM payloads") == [("01",)]


@pytest.mark.promise("H4")
def test_a_plain_session_is_read_on_and_what_is_new_in_it_is_sealed(place: SealedPlace) -> None:
    plain = place.open(key=None)
    lived(plain, id_="s1")
    before = set(place.sql("SELECT ref, body FROM payloads"))
    plain.close()
    assert SECRET.encode() in place.bytes()

    store = place.open()
    assert store.transcript("main", "s1", "run_1")[0].body == SECRET
    Session(store, id="s1").start("run_2", message="a new secret")
    assert before < set(place.sql("SELECT ref, body FROM payloads"))
    assert b"a new secret" not in place.bytes()
    assert store.transcript("main", "s1", "run_2")[0].body == "a new secret"
    assert store.standing("main", "s1") == Standing(texts="sealed", head="unkeyed")
    assert place.sql("SELECT mac FROM sessions") == [(None,)]


@pytest.mark.promise("H4")
def test_a_session_is_taken_under_the_key_as_it_was_looked_at_or_not_at_all(
    place: SealedPlace,
) -> None:
    plain = place.open(key=None)
    session = lived(plain)
    looked_at = place.head(plain)
    session.start("run_2")
    assert code(lambda: plain.take_under_key(looked_at)) == "key_missing"
    plain.close()

    store = place.open()
    assert code(lambda: store.take_under_key(looked_at)) == "forged_head"
    assert store.standing("main", "s1") == Standing(texts="plain", head="unkeyed")
    texts = place.sql("SELECT count(*) FROM payloads")[0][0]
    assert store.take_under_key(place.head(store)) == texts
    assert store.standing("main", "s1") == Standing(texts="sealed", head="keyed")
    assert store.take_under_key(place.head(store)) == 0
    assert store.transcript("main", "s1", "run_1")[0].body == SECRET
    store.purge()
    assert SECRET.encode() not in place.bytes()
    Session(store, id="s1", fences={"run_2": 0}).do(
        c.CancelRun(run="run_2", by=ANN, cause="enough")
    )
    assert store.standing("main", "s1") == Standing(texts="sealed", head="keyed")


@pytest.mark.promise("H4", "G3")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payloads SET body = (SELECT body FROM payloads ORDER BY ref LIMIT 1)",
        "UPDATE payloads SET body = substr(body, 1, length(body) - 1) || x'00'",
        "UPDATE payloads SET body = x'01'",
        "UPDATE payloads SET body = x'0102030405060708090a0b0c0d0e0f'",
    ],
)
def test_a_sealed_text_that_was_moved_or_changed_does_not_open(
    place: SealedPlace, statement: str
) -> None:
    store = place.open()
    lived(store)
    place.sql(statement)
    refs = [ref for (ref,) in place.sql("SELECT lower(hex(ref)) FROM payloads ORDER BY ref DESC")]
    assert code(lambda: store.payload("main", "s1", refs[0])) == "store_damaged"
    assert code(lambda: store.transcript("main", "s1", "run_1")) == "store_damaged"


@pytest.mark.promise("G11")
def test_a_text_of_another_session_does_not_open_here(place: SealedPlace) -> None:
    store = place.open()
    lived(store, id_="s1")
    lived(store, id_="s2", run="run_2")
    place.sql(
        "UPDATE payloads SET session = 's1' WHERE session = 's2' AND ref = (SELECT ref FROM"
        " transcript WHERE session = 's2' AND kind = 'message')"
    )
    (ref,) = place.sql(
        "SELECT lower(hex(ref)) FROM transcript WHERE session = 's2' AND kind = 'message'"
    )[0]
    assert code(lambda: store.payload("main", "s1", ref)) == "store_damaged"
    other = "(SELECT data_key, salt FROM sessions WHERE id = 's2')"
    place.sql(f"UPDATE sessions SET (data_key, salt) = {other}")
    assert code(lambda: store.payload("main", "s1", ref)) == "store_damaged"
    assert code(lambda: store.session("main", "s1")) == "store_damaged"
    assert store.payload("main", "s2", _first_ref(place, "s2"))


def _first_ref(place: SealedPlace, session: str) -> str:
    found = place.sql("SELECT lower(hex(ref)) FROM payloads WHERE session = ?", session)
    return str(found[0][0])


# --- another key, and none --------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_another_key_opens_nothing_and_changes_nothing(place: SealedPlace) -> None:
    lived(place.open())
    place.close()
    before = place.bytes()
    assert code(lambda: place.open(key=OTHER_KEY)) == "wrong_key"
    place.close()
    assert place.bytes() == before
    assert place.open().transcript("main", "s1", "run_1")[0].body == SECRET


@pytest.mark.promise("H4", "G1")
def test_without_the_key_the_record_is_read_and_no_text_and_nothing_runs(
    place: SealedPlace,
) -> None:
    session = lived(place.open())
    log = list(session.store.events("main", "s1"))
    place.close()
    store = place.open(key=None)
    assert store.check()["key"] == "missing"
    assert [row.run.id for row in store.runs("main")] == ["run_1"]
    assert list(store.events("main", "s1")) == log
    assert store.standing("main", "s1") == Standing(texts="sealed", head="unchecked")
    read: list[Callable[[], object]] = [
        lambda: store.transcript("main", "s1", "run_1"),
        lambda: Session(store).start("run_2"),
        lambda: Session(store, id="new").start("run_3"),
        lambda: Session(store).do(c.EndSession(by=ANN)),
    ]
    assert {code(each) for each in read} == {"key_missing"}
    assert store.sessions("main") == ["s1"]
    assert list(store.events("main", "s1")) == log


WITHOUT_CRYPTO = """
import sys
sys.modules["cryptography"] = None
from placet.core.errors import StoreTrouble
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from tests.stores.build import Session
store = SqliteStore(sys.argv[1], key=PlacetKey(bytes(range(32))))
Session(store, id="plain").start("run_9", message="in the clear")
print(store.standing("main", "plain"))
try:
    Session(store, id="s1").start("run_2")
except StoreTrouble as error:
    print(error.code)
try:
    store.transcript("main", "s1", "run_1")
except StoreTrouble as error:
    print(error.code)
store.close()
"""


@pytest.mark.promise("H4")
def test_without_the_extra_texts_stay_plain_and_heads_are_keyed_all_the_same(
    place: SealedPlace,
) -> None:
    lived(place.open())
    place.close()
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_CRYPTO, str(place.path)],
        cwd=ROOT,
        env={"PYTHONPATH": "src:."},
        capture_output=True,
        text=True,
        check=True,
    )
    told = ran.stdout.splitlines()
    assert told == [
        str(Standing(texts="plain", head="keyed")),
        "crypto_missing",
        "crypto_missing",
    ]
    store = place.open()
    assert store.transcript("main", "plain", "run_9")[0].body == "in the clear"


# --- heads ------------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_nothing_is_built_on_a_head_that_was_forged_without_the_key(place: SealedPlace) -> None:
    store = place.open()
    session = Session(store)
    session.start()
    session.approve(session.ask())
    forge(place)
    log = list(store.events("main", "s1"))
    assert store.standing("main", "s1") == Standing(texts="sealed", head="forged")
    assert code(session.lease) == "forged_head"
    assert code(lambda: session.do(c.EndSession(by=ANN))) == "forged_head"
    assert list(store.events("main", "s1")) == log
    other = Session(store, id="s2")
    assert other.start("run_2").events


@pytest.mark.promise("H4")
def test_a_head_whose_hmac_was_taken_away_is_not_vouched_for_again(place: SealedPlace) -> None:
    store = place.open()
    session = Session(store)
    session.start()
    request = session.ask()
    place.sql("UPDATE sessions SET mac = NULL")
    session.approve(request)
    assert store.standing("main", "s1") == Standing(texts="sealed", head="unkeyed")


@pytest.mark.promise("H4")
def test_an_hmac_of_an_earlier_head_is_none_of_this_one(place: SealedPlace) -> None:
    store = place.open()
    session = Session(store)
    session.start()
    (earlier,) = place.sql("SELECT mac FROM sessions")[0]
    session.ask()
    place.sql("UPDATE sessions SET mac = ?", earlier)
    assert store.standing("main", "s1").head == "forged"


# --- changes of the key -----------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_a_change_of_the_key_touches_no_text_and_shuts_the_old_one_out(place: SealedPlace) -> None:
    store, elsewhere = place.open(), place.open()
    lived(store, id_="s1")
    lived(store, id_="s2", run="run_2")
    running = Session(elsewhere, id="s3")
    running.start("run_3")
    before = place.sql("SELECT tenant, session, ref, body FROM payloads ORDER BY 2, 3")
    assert store.rotate(OTHER_KEY) == 3
    assert place.sql("SELECT tenant, session, ref, body FROM payloads ORDER BY 2, 3") == before
    for old in (store, elsewhere):
        assert code(partial(Session(old, id="s3").start, "run_4")) == "wrong_key"
        assert code(partial(Session(old, id="new").start, "run_5")) == "wrong_key"
    place.close()
    assert code(place.open) == "wrong_key"
    renewed = place.open(key=OTHER_KEY)
    assert renewed.transcript("main", "s1", "run_1")[0].body == SECRET
    assert renewed.standing("main", "s2") == Standing(texts="sealed", head="keyed")
    assert Session(renewed, id="s3").ask(run="run_3")


@pytest.mark.promise("H4")
def test_a_change_of_the_key_vouches_for_no_forged_head(place: SealedPlace) -> None:
    store = place.open()
    session = Session(store)
    session.start()
    session.approve(session.ask())
    forge(place)
    before = place.sql("SELECT * FROM sessions"), place.sql("SELECT * FROM keys")
    assert code(lambda: store.rotate(OTHER_KEY)) == "forged_head"
    assert (place.sql("SELECT * FROM sessions"), place.sql("SELECT * FROM keys")) == before


class Service:
    """A key port: a service that keeps the key to itself, and can be out of reach."""

    def __init__(self) -> None:
        self.reachable = True
        self.asked = 0
        self._kept: dict[bytes, bytes] = {}

    def wrap(self, key: bytes) -> bytes:
        self._reach()
        name = secrets.token_bytes(16)
        self._kept[name] = key
        return name

    def unwrap(self, wrapped: bytes) -> bytes:
        self._reach()
        return self._kept[wrapped]

    def _reach(self) -> None:
        self.asked += 1
        if not self.reachable:
            raise ConnectionError("the service does not answer")


@pytest.mark.promise("H4")
def test_a_key_port_needs_two_methods_and_is_asked_once_a_session(place: SealedPlace) -> None:
    service = Service()
    store = place.open(key=service)
    session = lived(store)
    session.start("run_2")
    assert service.asked == 4  # For the heads and for the session; each was given back, too.
    assert store.standing("main", "s1") == Standing(texts="sealed", head="keyed")
    place.close()
    again = place.open(key=service)
    assert again.transcript("main", "s1", "run_1")[0].body == SECRET
    assert again.standing("main", "s1") == Standing(texts="sealed", head="keyed")
    assert service.asked == 6  # And for each once more, in another process.
    place.close()
    assert code(lambda: place.open(key=KEY)) == "wrong_key"
    assert code(lambda: place.open(key=Service())) == "key_unreachable"


@pytest.mark.promise("H4", "G1")
def test_while_a_key_port_does_not_answer_nothing_happens(place: SealedPlace) -> None:
    service = Service()
    lived(place.open(key=service))
    place.close()
    store = place.open(key=service)
    service.reachable = False
    for attempt in (
        partial(Session(store).start, "run_2"),
        partial(Session(store, id="new").start, "run_3"),
        partial(store.transcript, "main", "s1", "run_1"),
    ):
        assert code(attempt) == "key_unreachable"
    service.reachable = True
    assert store.sessions("main") == ["s1"]
    assert Session(store).start("run_2").events


@pytest.mark.promise("H4")
def test_a_store_goes_from_a_key_of_its_own_to_a_key_port(place: SealedPlace) -> None:
    lived(place.open())
    service = Service()
    place.stores[0].rotate(service)
    place.close()
    store = place.open(key=service)
    assert store.transcript("main", "s1", "run_1")[0].body == SECRET
    assert store.standing("main", "s1") == Standing(texts="sealed", head="keyed")


def test_an_hmac_depends_on_every_part_of_what_it_is_over() -> None:
    keys = Keys(KEY)
    made = {
        keys.mac(tenant, session, seq=seq, head=head)
        for tenant, session, seq, head in (
            ("main", "s1", 1, "aa"),
            ("main2", "s1", 1, "aa"),
            ("main", "2s1", 1, "aa"),
            ("main", "s1", 11, "aa"),
            ("main", "s1", 1, "ab"),
        )
    }
    assert len(made) == 5
    again = Keys(KEY).mac("main", "s1", seq=1, head="aa")
    assert any(hmac.compare_digest(again, each) for each in made)
