"""What every store must do: a store's own tests give the `place` fixture and run all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

import pytest

from placet.core import commands as c
from placet.core.codec import chain_hash, decode_event, micros_of
from placet.core.errors import Conflict, InvalidInput, NotFound, Refusal, StoreTrouble
from placet.core.events import RunStarted
from placet.core.state import CallOver, Rejected, RunOver, Spent
from placet.core.values import Occurrence
from placet.stores.loading import base_of
from placet.stores.store import Answer, Recorded, Store
from tests.stores.build import (
    ALLOW,
    ANN,
    BOB,
    DENY,
    HOLDER,
    OTHER,
    PEOPLE,
    START,
    Clock,
    Session,
    asking,
    intent,
    opened,
    start,
)

FIRST = Occurrence("run_1", 1, 0)


def next_wake(store: Store) -> datetime | None:
    """Give when a driver should look at a run again, whichever comes first."""
    due = store.due(within=timedelta(days=365), limit=1)
    return due[0].wake_at if due else None


class Place(Protocol):
    """Where the stores of one test keep their state: each that is opened sees the same."""

    def open(self, *, clock: Callable[[], datetime] = ...) -> Store: ...


def unchained(log: list[Recorded]) -> list[int]:
    """Give the seqs of the events that do not follow from the one before."""
    wrong = []
    previous = ""
    for seq, each in enumerate(log, start=1):
        made = chain_hash(
            previous, seq=seq, at_micros=micros_of(each.at), kind=each.kind, body=each.body
        )
        if (each.seq, each.previous, each.hash) != (seq, previous, made):
            wrong.append(each.seq)
        previous = each.hash
    return wrong


def code_of(error: pytest.ExceptionInfo[StoreTrouble]) -> str:
    return error.value.code


class StoreContract:
    """The shared suite; `place` comes from the store's own tests."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, place: Place, clock: Clock) -> Store:
        return place.open(clock=clock)

    @pytest.fixture
    def session(self, store: Store) -> Session:
        return Session(store)

    # --- one transaction ----------------------------------------------------------------------

    def test_a_call_is_read_with_its_action(self, session: Session, store: Store) -> None:
        session.start()
        session.ask()
        seen = store.action("main", "s1", FIRST)
        assert seen is not None
        assert seen[0].at == FIRST
        assert seen[1] == store.payload("main", "s1", seen[0].action_ref)
        assert store.action("main", "s2", FIRST) is None
        assert store.action("other", "s1", FIRST) is None

    def test_a_whole_life_of_a_call_is_on_record(self, session: Session, store: Store) -> None:
        session.start()
        request = session.ask()
        assert [each.request.id for each in store.requests("main")] == [request]
        session.approve(request)
        session.lease()
        session.conclude(intent(session.begin(FIRST)), c.Succeeded(told="Moved 7."))
        found = store.find_request("main", request)
        assert found is not None
        assert found.request.state == Spent(votes=("ann",))
        assert store.requests("main") == []
        kinds = [(e.step, e.index, e.kind) for e in store.transcript("main", "s1", "run_1")]
        assert kinds == [(0, -1, "message"), (1, -1, "turn"), (1, 0, "result")]
        bodies = [entry.body for entry in store.transcript("main", "s1", "run_1")]
        assert bodies == ["Refund 7.", '{"step": 1}', "Moved 7."]
        assert [(n.request, n.kind) for n in store.outbox("main")] == [
            (request, "opened"),
            (request, "closed"),
        ]

    def test_the_log_is_a_chain_and_reads_back_as_the_events(
        self, session: Session, store: Store
    ) -> None:
        answers = [session.start(), session.propose(None, ALLOW, DENY)]
        log = list(store.events("main", "s1"))
        assert unchained(log) == []
        told = [event for answer in answers for event in answer.events]
        assert [decode_event(each.kind, each.body) for each in log] == told
        assert list(store.events("main", "s1", after=3)) == log[3:]
        assert list(store.events("main", "s1", after=len(log))) == []
        assert list(store.events("main", "elsewhere")) == []

    def test_a_long_log_is_given_whole(self, session: Session, store: Store) -> None:
        session.start()
        for _ in range(600):
            session.do(c.RenewLease(run="run_1", fence=1))
        log = list(store.events("main", "s1"))
        assert len(log) == 602
        assert unchained(log) == []
        assert list(store.events("main", "s1", after=550)) == log[550:]

    def test_a_refusal_changes_nothing(self, session: Session, store: Store) -> None:
        session.start()
        request = session.ask()
        before = (list(store.events("main", "s1")), store.changes(), store.outbox("main"))
        with pytest.raises(Conflict, match="other_kind"):
            session.do(c.Settle(request=request, by=ANN, eligible=PEOPLE, happened=False))
        assert (list(store.events("main", "s1")), store.changes(), store.outbox("main")) == before

    def test_an_empty_answer_stores_nothing(self, session: Session, store: Store) -> None:
        session.start()
        session.approve(session.ask())
        before = list(store.events("main", "s1"))
        request = store.requests("main", pending=False)[0].request.id
        assert session.approve(request, command_id="again").events == ()
        assert list(store.events("main", "s1")) == before

    def test_only_a_run_makes_a_session(self, session: Session, store: Store) -> None:
        with pytest.raises(NotFound, match="session_not_found"):
            session.approve("rq_none")
        assert store.session("main", "s1") is None
        assert store.sessions("main") == []
        with pytest.raises(NotFound, match="session_not_found"):
            session.do(c.EndSession(by=ANN))
        assert store.sessions("main") == []
        session.start()
        assert store.sessions("main") == ["s1"]

    def test_salts_are_a_sessions_own_and_last(self, place: Place, store: Store) -> None:
        salts = [Session(store, id=id_).start(f"r_{id_}").state.salt for id_ in ("a", "b")]
        assert len(set(salts)) == 2
        found = place.open().session("main", "a")
        assert found is not None
        assert found.salt == salts[0]

    # --- ids ----------------------------------------------------------------------------------

    def test_the_same_command_id_is_the_same_answer(
        self, place: Place, session: Session, clock: Clock
    ) -> None:
        session.start()
        first = session.propose(None, DENY, command_id="c1")
        second = session.approve(opened(first)[0], command_id="c2")
        clock.move(hours=3)
        other = Session(place.open(clock=clock))
        for store in (session, other):
            again = store.propose(ALLOW, command_id="c1")
            assert again.repeated
            assert again.events == first.events
            assert again.state.seq == second.state.seq
            assert store.approve("rq_other", command_id="c2").events == second.events
        assert not first.repeated

    def test_a_command_id_is_a_sessions_own(self, store: Store) -> None:
        for id_ in ("a", "b"):
            one = Session(store, id=id_)
            answer = one.do(start(f"run_{id_}", holder=HOLDER), command_id="same")
            assert not answer.repeated
        answer = Session(store, tenant="other", id="a").do(start("run_a"), command_id="same")
        assert not answer.repeated

    def test_a_run_id_stands_for_one_run_in_its_tenant(self, store: Store) -> None:
        Session(store, id="a").start("run_1")
        with pytest.raises(Conflict, match="run_exists"):
            Session(store, id="b").start("run_1")
        assert store.sessions("main") == ["a"]
        Session(store, tenant="other", id="b").start("run_1")
        found = store.find_run("other", "run_1")
        assert found is not None
        assert found.session == "b"

    def test_ids_that_no_store_can_hold_are_mistakes(self, store: Store) -> None:
        Session(store).start()
        with pytest.raises(InvalidInput):
            Session(store, id="\ud800").start("run_2")
        with pytest.raises(InvalidInput):
            store.find_run("main", "\ud800")
        assert Session(store).ask()

    # --- time ---------------------------------------------------------------------------------

    def test_the_stamp_never_goes_back(
        self, place: Place, session: Session, store: Store, clock: Clock
    ) -> None:
        session.start()
        clock.move(minutes=10)
        latest = session.lease(holder=OTHER).state.now
        assert latest == START + timedelta(minutes=10)
        clock.move(minutes=-30)
        assert session.do(start("run_1")).state.now == latest
        found = store.session("main", "s1")
        assert found is not None
        assert found.now == latest
        other = place.open(clock=clock)
        read = other.session("main", "s1")
        assert read is not None
        assert read.now == latest
        assert Session(other, id="s2").start("run_2").state.now == latest

    def test_a_deadline_holds_without_any_timer(self, session: Session, clock: Clock) -> None:
        session.start()
        request = session.ask()
        clock.move(hours=1)
        with pytest.raises(Refusal, match="expired"):
            session.approve(request)
        clock.move(hours=-2)
        with pytest.raises(Refusal, match="expired"):
            session.approve(request)

    # --- isolation ----------------------------------------------------------------------------

    def test_tenants_and_sessions_do_not_see_each_other(self, store: Store) -> None:
        mine, theirs = Session(store, tenant="mine"), Session(store, tenant="theirs")
        beside = Session(store, tenant="mine", id="s2")
        beside.start("run_2")
        for each in (mine, theirs):
            each.start()
        request = mine.ask()
        for other in (theirs, beside):
            with pytest.raises(NotFound, match="request_not_found"):
                other.approve(request)
        named = c.Names(runs=("run_1",), requests=(request,), steps=(("run_1", 1),))
        seen = store.session("mine", "s2", named)
        assert seen is not None
        assert not seen.requests
        assert not seen.calls
        assert list(seen.runs) == ["run_2"]
        assert store.find_request("theirs", request) is None
        assert store.find_run("theirs", "run_2") is None
        assert store.requests("theirs") == []
        assert store.requests("mine", session="s2") == []
        found = store.find_request("mine", request)
        assert found is not None
        assert store.payload("mine", "s1", found.request.action_ref)
        for place in (("theirs", "s1"), ("mine", "s2")):
            with pytest.raises(NotFound, match="payload_not_found"):
                store.payload(*place, found.request.action_ref)
        assert store.transcript("theirs", "s1", "run_2") == []

    # --- what is loaded -----------------------------------------------------------------------

    def test_what_has_closed_is_loaded_where_it_is_named(
        self, session: Session, store: Store
    ) -> None:
        session.start()
        request = session.ask()
        session.reject(request)
        session.lease()
        session.propose(step=2)
        bare = store.session("main", "s1")
        assert bare is not None
        assert [bare.runs, bare.calls, bare.requests, bare.noes] == [{}, {}, {}, {}]
        named = store.session("main", "s1", c.Names(requests=(request, "rq_none")))
        assert named is not None
        assert isinstance(named.requests[request].state, Rejected)
        assert isinstance(named.calls[FIRST].state, CallOver)
        assert isinstance(named.runs["run_1"].state, RunOver)
        key = ("run_1", named.calls[FIRST].call_key)
        noes = store.session("main", "s1", c.Names(call_keys=(key, ("run_1", "other"))))
        assert noes is not None
        assert list(noes.noes) == [key]

    def test_the_base_of_an_answer_is_what_is_loaded(self, session: Session, store: Store) -> None:
        session.start()
        acts: tuple[Callable[[], Answer], ...] = (
            lambda: session.propose(None, ALLOW, DENY),
            lambda: session.approve(store.requests("main")[0].request.id),
            session.lease,
            lambda: session.begin(FIRST),
        )
        for act in acts:
            answer = act()
            loaded = store.session("main", "s1")
            assert loaded is not None
            assert replace(base_of(answer.state), now=START) == replace(loaded, now=START)

    # --- lists --------------------------------------------------------------------------------

    def test_requests_are_listed_by_deadline_or_by_age(self, store: Store, clock: Clock) -> None:
        made = []
        for number, hours in enumerate((3, 1, 2)):
            one = Session(store, id=f"s{number}")
            one.start(f"run_{number}")
            ruling = asking(lasts=timedelta(hours=hours))
            made.append(opened(one.propose(ruling, run=f"run_{number}"))[0])
        by_deadline = [made[1], made[2], made[0]]
        assert [each.request.id for each in store.requests("main")] == by_deadline
        assert [each.request.id for each in store.requests("main", limit=2)] == by_deadline[:2]
        Session(store, id="s1").reject(made[1])
        assert [each.request.id for each in store.requests("main")] == [made[2], made[0]]
        every = [each.request.id for each in store.requests("main", pending=False)]
        assert every == made[::-1]
        of_one = store.requests("main", session="s1", pending=False)
        assert [(each.session, each.request.id) for each in of_one] == [("s1", made[1])]
        assert store.requests("main", session="s1") == []

    def test_runs_are_listed_by_age(self, store: Store) -> None:
        for number in range(3):
            Session(store, id=f"s{number}").start(f"run_{number}")
        one = Session(store, id="s1", fences={"run_1": 1})
        one.propose()
        assert [each.run.id for each in store.runs("main")] == ["run_2", "run_1", "run_0"]
        assert [each.run.id for each in store.runs("main", active=True)] == ["run_2", "run_0"]
        assert [each.run.id for each in store.runs("main", limit=1)] == ["run_2"]
        assert [each.run.id for each in store.runs("main", session="s1")] == ["run_1"]
        assert store.runs("main", session="s1", active=True) == []
        assert store.sessions("main") == ["s0", "s1", "s2"]

    def test_a_run_is_due_when_something_can_be_done(
        self, session: Session, store: Store, clock: Clock
    ) -> None:
        assert next_wake(store) is None
        session.start()
        assert store.due() == []
        assert next_wake(store) == START + timedelta(seconds=60)
        request = session.ask()
        assert next_wake(store) == START + timedelta(hours=1)
        clock.move(minutes=5)
        session.approve(request)
        (row,) = store.due()
        assert (row.run.id, row.wake_at) == ("run_1", START + timedelta(minutes=5))
        session.lease(holder=OTHER)
        assert store.due() == []
        clock.move(minutes=5)
        assert [each.run.id for each in store.due()] == ["run_1"]
        session.lease()
        session.do(c.CancelRun(run="run_1", by=BOB, cause="late"))
        assert next_wake(store) is None

    def test_the_longest_due_comes_first(self, store: Store, clock: Clock) -> None:
        for number in range(3):
            Session(store, id=f"s{number}").start(f"run_{number}", kind="driven", holder=None)
            clock.move(seconds=1)
        assert [each.run.id for each in store.due()] == ["run_0", "run_1", "run_2"]
        assert [each.run.id for each in store.due(limit=2)] == ["run_0", "run_1"]
        assert next_wake(store) == START

    def test_notices_leave_once_they_are_sent(self, session: Session, store: Store) -> None:
        session.start()
        session.reject(session.ask())
        opened_, closed_ = store.outbox("main")
        assert [each.kind for each in store.outbox("main", limit=1)] == ["opened"]
        store.sent([closed_.id])
        assert store.outbox("main") == [opened_]
        store.sent([opened_.id, closed_.id])
        store.sent([])
        session.lease()
        session.ask(step=2)
        (later,) = store.outbox("main")
        assert later.id not in {opened_.id, closed_.id}

    # --- texts --------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "text", ["", "退款 7 元 🙂", "a\x00b", "\ud800 alone", "x" * 300_000, "a\r\nb\u2028c"]
    )
    def test_a_text_comes_back_as_it_was(self, session: Session, store: Store, text: str) -> None:
        session.start(message=text)
        (entry,) = store.transcript("main", "s1", "run_1")
        assert entry.body == text
        (started, *_) = store.events("main", "s1")
        event = decode_event(started.kind, started.body)
        assert isinstance(event, RunStarted)
        assert event.message.body is None
        assert store.payload("main", "s1", event.message.ref) == text

    # --- several at once ----------------------------------------------------------------------

    def test_of_many_deciders_one_wins(self, session: Session, store: Store) -> None:
        session.start()
        request = session.ask()
        gate = threading.Barrier(8)

        def decide(number: int) -> str:
            gate.wait()
            try:
                if number % 2:
                    session.approve(request)
                    return "approved"
                session.reject(request, by=BOB)
            except Conflict as error:
                return error.code
            return "rejected"

        with ThreadPoolExecutor(8) as pool:
            told = set(pool.map(decide, range(8)))
        assert told in ({"approved", "already_approved"}, {"rejected", "already_rejected"})
        votes = [e for e in store.events("main", "s1") if e.kind in ("VoteCast", "RequestRejected")]
        assert len(votes) == 1

    def test_sessions_go_on_beside_each_other(self, store: Store) -> None:
        def live(number: int) -> None:
            one = Session(store, id=f"s{number}")
            one.start(f"run_{number}")
            for step in (1, 2, 3):
                one.cycle(run=f"run_{number}", step=step)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(live, range(16)))
        assert len(store.sessions("main")) == 16
        for session in store.sessions("main"):
            assert unchained(list(store.events("main", session))) == []

    def test_two_stores_in_one_place_see_each_others_commits(
        self, place: Place, clock: Clock
    ) -> None:
        one, two = place.open(clock=clock), place.open(clock=clock)
        here, there = Session(one), Session(two)
        here.start()
        request = here.ask()
        seen = (one.changes(), two.changes())
        assert seen == (one.changes(), two.changes())
        there.approve(request)
        assert one.changes() != seen[0]
        assert two.changes() != seen[1]
        with pytest.raises(Conflict, match="already_approved"):
            here.reject(request)
        here.lease()
        here.conclude(intent(here.begin(FIRST)))
        there.fences = here.fences
        there.propose(None, step=2)
        assert unchained(list(one.events("main", "s1"))) == []
        loaded = one.session("main", "s1")
        assert loaded is not None
        assert loaded.seq == len(list(two.events("main", "s1")))

    # --- the store itself ---------------------------------------------------------------------

    def test_a_closed_store_says_so(self, place: Place, clock: Clock) -> None:
        store = place.open(clock=clock)
        Session(store).start()
        late = store.execute("main", "s1", c.TakeLease(run="run_1", holder=OTHER, gone=HOLDER))
        store.close()
        assert late.result(timeout=60).events
        store.close()
        calls: tuple[Callable[[], object], ...] = (
            lambda: store.session("main", "s1"),
            lambda: Session(store).start(),
            store.changes,
            store.due,
            lambda: store.sent([1]),
            lambda: list(store.events("main", "s1")),
            store.check,
        )
        for call in calls:
            with pytest.raises(StoreTrouble) as caught:
                call()
            assert code_of(caught) == "store_closed"

    def test_a_sound_store_passes_its_check(self, store: Store) -> None:
        assert store.check()["integrity"] == "ok"
