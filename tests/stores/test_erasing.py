"""Erasing a session: nothing of its texts is left in any file, and all says so (H4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from placet.core import commands as c
from placet.core.errors import Closed, NotFound, StoreTrouble
from placet.core.values import Occurrence
from placet.stores.sealing import PlacetKey
from tests.stores.build import ANN, Clock, Session
from tests.stores.sealed import KEY, SECRET, SealedPlace, lived


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SealedPlace]:
    made = SealedPlace(tmp_path / "placet.db")
    yield made
    made.close()


def erase(session: Session) -> None:
    session.do(c.EndSession(by=ANN, cause="rita asked", erase=True))


@pytest.mark.promise("H4")
@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "plain"])
def test_of_an_erased_session_no_text_key_or_salt_is_left_in_any_file(
    place: SealedPlace, key: PlacetKey | None
) -> None:
    store = place.open(key=key)
    for number in range(40):  # So that pages are split and rows move.
        lived(store, id_=f"s{number}", run=f"run_{number}")
    salt = store.session("main", "s7").salt
    bodies = [body for (body,) in place.sql("SELECT body FROM payloads WHERE session = 's7'")]
    written = [each.encode() if isinstance(each, str) else each for each in bodies]
    (stood, wrapped) = place.sql("SELECT salt, data_key FROM sessions WHERE id = 's7'")[0]
    traces = {salt.encode(), stood.encode(), *(() if wrapped is None else (wrapped,))}
    traces |= set(written) if key else set()  # Plain, the other sessions' texts are the same.
    assert all(trace in place.bytes() for trace in traces - {salt.encode()})
    log = list(store.events("main", "s7"))

    erase(Session(store, id="s7"))
    assert store.purge()

    left = place.bytes()
    assert [trace for trace in traces if trace in left] == []
    assert place.sql("SELECT count(*) FROM payloads WHERE session = 's7'") == [(0,)]
    assert store.standing("main", "s7").texts == "erased"
    assert list(store.events("main", "s7"))[: len(log)] == log
    assert [each.kind for each in store.events("main", "s7", after=len(log))] == ["SessionEnded"]
    assert store.transcript("main", "s8", "run_8")[0].body == SECRET


@pytest.mark.slow
@pytest.mark.promise("H4")
def test_pages_that_were_split_and_rows_that_moved_keep_no_copy(place: SealedPlace) -> None:
    store, random = place.open(key=None), Random(0)
    ids = [f"s{number}" for number in range(150)]
    random.shuffle(ids)
    for id_ in ids:
        session = Session(store, id=id_)
        session.start(f"run_{id_}", message=f"The secret of {id_} ends.")
        session.do(c.CancelRun(run=f"run_{id_}", by=ANN, cause=""))
    erased = ids[::10]
    traces = [f"The secret of {id_} ends." for id_ in erased]
    traces += [store.session("main", id_).salt for id_ in erased]
    left = place.bytes()
    assert all(trace.encode() in left for trace in traces)
    for id_ in erased:
        erase(Session(store, id=id_))
    assert store.purge()
    left = place.bytes()
    assert [trace for trace in traces if trace.encode() in left] == []


@pytest.mark.promise("H4")
def test_what_was_erased_says_so_wherever_it_is_read(place: SealedPlace) -> None:
    store = place.open()
    session = lived(store)
    ref = place.sql("SELECT lower(hex(ref)) FROM payloads LIMIT 1")[0][0]
    (call,) = place.sql("SELECT run, step, place FROM calls")
    erase(session)
    read: list[Callable[[], object]] = [
        lambda: store.payload("main", "s1", ref),
        lambda: store.transcript("main", "s1", "run_1"),
        lambda: store.action("main", "s1", Occurrence(*call)),
    ]
    for attempt in read:
        with pytest.raises(NotFound) as caught:
            attempt()
        assert caught.value.code == "erased"
    with pytest.raises(Closed) as refused:
        session.start("run_2")
    assert refused.value.code == "session_erased"
    assert [row.run.id for row in store.runs("main")] == ["run_1"]
    assert store.session("main", "s1").salt == ""
    erase(session)
    assert len(place.sql("SELECT seq FROM events WHERE kind = 'SessionEnded'")) == 1


@pytest.mark.promise("H4", "D3")
def test_an_erasure_that_fails_has_erased_nothing(place: SealedPlace) -> None:
    store = place.open()
    session = lived(store)
    before = place.sql("SELECT * FROM sessions"), place.sql("SELECT * FROM payloads")
    place.sql("CREATE TRIGGER no BEFORE DELETE ON payloads BEGIN SELECT raise(ABORT, 'no'); END")
    with pytest.raises(StoreTrouble):
        erase(session)
    assert (place.sql("SELECT * FROM sessions"), place.sql("SELECT * FROM payloads")) == before
    place.sql("DROP TRIGGER no")
    erase(session)
    assert store.standing("main", "s1").texts == "erased"


@pytest.mark.promise("H4")
def test_a_reader_of_an_older_state_keeps_the_log_and_that_is_told(place: SealedPlace) -> None:
    store = place.open(clock=Clock())
    session = lived(store)
    with closing(sqlite3.connect(place.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM payloads").fetchone() != (0,)
        erase(session)
        store._busy_timeout *= 0
        assert not store.purge()
        reader.execute("COMMIT")
    assert store.purge()
