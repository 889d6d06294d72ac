"""Small bugs in what a SQLite store writes and reads: each of these tests finds some of them.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.errors import Conflict, StoreTrouble
from placet.core.events import CallEnded
from placet.core.values import Occurrence
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Answer
from tests.stores.build import ALLOW, HOLDER, Session, intent, opened, start
from tests.stores.contract import code_of
from tests.stores.places import SqlitePlace

FIRST = Occurrence("run_1", 1, 0)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SqlitePlace]:
    made = SqlitePlace(tmp_path / "placet.db")
    yield made
    made.close()


def held(store: SqliteStore) -> threading.Event:
    """Hold the writing thread, so that what is asked now is carried out in one transaction."""
    begun, release = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        begun.set()
        assert release.wait(60)

    store._writer.do(hold)
    assert begun.wait(60)
    return release


# --- one transaction (D3) -----------------------------------------------------------------------


@pytest.mark.promise("D3", "D4")
def test_what_is_answered_is_there_to_be_read_for_everybody(place: SqlitePlace) -> None:
    store, other = place.open(), place.open()
    seen: list[list[str]] = []
    release = held(store)
    answer: Future[Answer] = store.execute("main", "s1", start(holder=HOLDER))
    answer.add_done_callback(lambda _: seen.append(list(other.sessions("main"))))
    release.set()
    assert answer.result(timeout=60).events
    store.close()
    assert seen == [["s1"]]


@pytest.mark.promise("D3")
@pytest.mark.parametrize("alone", [True, False])
def test_of_a_command_that_is_refused_nothing_is_left_alone_or_among_others(
    place: SqlitePlace, alone: bool
) -> None:
    store = place.open()
    Session(store).start()
    before = place.sql("SELECT count(*) FROM events"), place.sql("SELECT count(*) FROM payloads")
    if alone:
        refused = store.execute("main", "s2", start(message="Something else."))
    else:
        release = held(store)
        refused = store.execute("main", "s2", start(message="Something else."))
        beside = store.execute("main", "s1", c.RenewLease(run="run_1", fence=1))
        release.set()
        assert beside.result(timeout=60).events
    with pytest.raises(Conflict, match="run_exists"):
        refused.result(timeout=60)
    events = 1 - alone
    assert place.sql("SELECT count(*) FROM events") == [(before[0][0][0] + events,)]
    assert place.sql("SELECT count(*) FROM payloads") == before[1]
    assert list(store.events("main", "s2")) == []


@pytest.mark.promise("D3", "D4")
def test_what_is_committed_has_reached_the_disk(place: SqlitePlace) -> None:
    found: list[tuple[int, str]] = []
    store = place.open()

    def look(writing: Any) -> None:
        (synchronous,) = writing.execute("PRAGMA synchronous").fetchone()
        (journal,) = writing.execute("PRAGMA journal_mode").fetchone()
        found.append((synchronous, journal))

    store._writer.do(look).result(timeout=60)
    assert found == [(2, "wal")], "2 is FULL (sqlite.org/pragma.html)"


@pytest.mark.promise("D3")
def test_a_file_that_was_put_in_the_place_of_a_stores_is_not_written_to(
    place: SqlitePlace,
) -> None:
    store = place.open()
    session = Session(store)
    session.start()
    copy = place.path.with_name("copy.db")
    shutil.copy(place.path, copy)
    copy.replace(place.path)
    with pytest.raises(StoreTrouble) as caught:
        session.ask()
    assert code_of(caught) == "store_unreachable"


# --- what is loaded and listed ------------------------------------------------------------------


@pytest.mark.promise("G7", "G8")
def test_what_was_approved_is_begun_by_whoever_opens_the_store(place: SqlitePlace) -> None:
    session = Session(place.open())
    session.start()
    session.approve(session.ask())
    assert session.store.requests("main") == [], "nobody has anything to decide any more"
    other = Session(place.open())
    other.lease()
    assert intent(other.begin(FIRST)).request is not None


@pytest.mark.promise("G11")
def test_runs_of_one_name_in_two_tenants_have_transcripts_of_their_own(place: SqlitePlace) -> None:
    store = place.open()
    for tenant in ("mine", "theirs"):
        Session(store, tenant=tenant).start(message=f"Of {tenant}.")
    for tenant in ("mine", "theirs"):
        entries = [entry.body for entry in store.transcript(tenant, "s1", "run_1")]
        assert entries == [f"Of {tenant}."]


@pytest.mark.promise("G6")
def test_what_one_run_was_answered_no_is_asked_anew_in_the_next(place: SqlitePlace) -> None:
    session = Session(place.open())
    session.start()
    session.reject(session.ask(order_id="7"))
    session.lease()
    session.propose(step=2)
    session.start("run_2", message="Try again.")
    assert opened(session.propose(None, run="run_2", order_id="7", salt="11" * 16))


@pytest.mark.promise("G6", "D3")
def test_what_was_answered_no_is_answered_the_same_by_whoever_opens_the_store(
    place: SqlitePlace,
) -> None:
    session = Session(place.open())
    session.start()
    session.reject(session.ask(order_id="7"))
    session.lease()
    other = Session(place.open(), fences=session.fences)
    again = other.propose(None, step=2, order_id="7", salt="11" * 16)
    assert opened(again) == []
    assert [event.code for event in again.events if isinstance(event, CallEnded)] == ["rejected"]


@pytest.mark.promise("D6")
def test_of_the_steps_that_are_over_none_is_kept_with_the_open_part(place: SqlitePlace) -> None:
    session = Session(place.open())
    session.start()
    for step in range(1, 4):
        answer = session.cycle(step=step)
    session.propose(ALLOW, step=4)
    found = session.store.session("main", "s1")
    assert found is not None
    assert {at.step for at in answer.state.calls} == {3}
    assert {at.step for at in found.calls} == {4}
    again = session.begin(Occurrence("run_1", 4, 0), ruling=ALLOW)
    assert {at.step for at in again.state.calls} == {4}


# --- what is written (D6, G6) -------------------------------------------------------------------


@pytest.mark.promise("D6")
def test_of_the_calls_of_a_step_only_the_one_that_was_decided_is_written(
    place: SqlitePlace,
) -> None:
    session = Session(place.open())
    session.start()
    requests = opened(session.propose(None, None, None))
    place.sql("UPDATE calls SET value = value || ' '")
    session.reject(requests[1])
    places = place.sql("SELECT place FROM calls WHERE value LIKE '% ' ORDER BY place")
    assert places == [(0,), (2,)]


@pytest.mark.promise("G6")
def test_a_second_result_in_a_calls_place_is_damage_and_nothing_is_committed(
    place: SqlitePlace,
) -> None:
    session = Session(place.open())
    session.start()
    session.propose(ALLOW)
    begun = intent(session.begin(FIRST, ruling=ALLOW))
    place.sql(
        "INSERT INTO transcript (tenant, session, run, step, place, kind, ref)"
        " SELECT tenant, session, run, 1, max(place) + 1, 'result', ref FROM transcript"
        " WHERE step = 1"
    )
    before = len(list(session.store.events("main", "s1")))
    with pytest.raises(StoreTrouble) as caught:
        session.conclude(begun)
    assert code_of(caught) == "store_damaged"
    assert len(list(session.store.events("main", "s1"))) == before
