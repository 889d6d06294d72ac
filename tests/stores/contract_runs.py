"""What every store must do of runs and their sessions: child runs, views, modes, ends, hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.errors import Conflict, Refusal
from placet.core.records import NameKind
from placet.core.state import Answered, CallOver, Delegated, Plan, Spent
from placet.core.values import Holder, Occurrence
from placet.core.work import CallModel, ResumeHost, Wait, next_work
from placet.stores.loading import base_of
from placet.stores.store import Answer, Store
from tests.stores.build import (
    ALLOW,
    ANN,
    DENY,
    HOLDER,
    OTHER,
    PEOPLE,
    START,
    Clock,
    Session,
    intent,
    opened,
)
from tests.stores.contract import Place

MINUTE = timedelta(minutes=1)

FIRST = Occurrence("run_1", 1, 0)
BELOW = Occurrence("child", 1, 0)


def same_for_others(place: Place, clock: Clock, answer: Answer) -> None:
    """Hold that a store which is opened now sees what the writer goes on with."""
    loaded = place.open(clock=clock).session("main", "s1")
    assert loaded is not None
    assert replace(base_of(answer.state), now=START) == replace(loaded, now=START)


def kinds(store: Store, run: str = "run_1", since: int = 0) -> list[tuple[int, int, str, str]]:
    rows = store.transcript("main", "s1", run, since=since)
    return [(row.step, row.index, row.kind, row.body) for row in rows]


class RunsContract:
    """The part of the shared suite that is about runs; `place` and others come from there."""

    # --- steps that frameworks name -----------------------------------------------------------

    @pytest.mark.promise("D6")
    def test_a_step_is_found_by_each_name_that_its_framework_gave_it_first(
        self, session: Session, store: Store
    ) -> None:
        session.start(kind="hosted")
        for step, (reference, place) in enumerate([("a", "p"), ("b", "p"), ("p", "")], start=1):
            session.propose(ALLOW, step=step, reference=reference, place=place)

        def named(kind: NameKind, name: str, *, tenant: str = "main", run: str = "run_1") -> Any:
            return store.step_named(tenant, "s1", run, kind=kind, name=name)

        assert [named("reference", name) for name in ("a", "b", "p", "c", "")] == [
            1,
            2,
            3,
            None,
            None,
        ]
        assert [named("place", name) for name in ("p", "a", "")] == [1, None, None]
        assert named("reference", "a", tenant="other") is None
        assert named("reference", "a", run="run_2") is None

    # --- child runs ---------------------------------------------------------------------------

    def test_a_child_run_begins_with_the_call_that_it_works_out(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        session.propose(ALLOW, kind="agent")
        answer = session.delegate(FIRST)
        assert answer.state.calls[FIRST].state == Delegated(child="child")
        same_for_others(place, clock, answer)
        assert kinds(store, "child") == [(0, -1, "message", "How many?")]
        session.lease("child")
        session.do(c.FinishRun(run="child", fence=1, stop="final", answer="Four."))
        assert kinds(store)[-1] == (1, 0, "result", "Four.")
        assert [row.run.id for row in store.due()] == ["run_1"]

    def test_an_ended_child_run_comes_with_the_step_that_opened_it(
        self, session: Session, store: Store
    ) -> None:
        session.start()
        session.propose(ALLOW, kind="agent")
        session.delegate(FIRST)
        session.lease("child")
        session.do(c.FinishRun(run="child", fence=1, stop="final", answer="Four."))
        session.lease()
        session.do(c.FinishRun(run="run_1", fence=session.fence("run_1"), stop="final"))
        named = store.session("main", "s1", c.Names(runs=("child",)))
        assert named is not None
        assert set(named.runs) == {"run_1", "child"}
        assert list(named.calls) == [FIRST]

    def test_a_child_run_has_an_id_of_its_own_in_its_tenant(
        self, session: Session, store: Store
    ) -> None:
        Session(store, id="s2").start("child")
        session.start()
        session.propose(ALLOW, kind="agent")
        with pytest.raises(Conflict, match="run_exists"):
            session.delegate(FIRST)
        found = store.session("main", "s1")
        assert found is not None
        assert list(found.runs) == ["run_1"]

    def test_an_approval_of_an_agent_is_spent_in_the_commit_that_opens_its_run(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        request = session.ask(kind="agent")
        session.approve(request)
        session.lease()
        same_for_others(place, clock, session.delegate(FIRST, ruling=None))
        found = store.find_request("main", request)
        assert found is not None
        assert found.request.state == Spent(votes=("ann",))

    def test_requests_of_two_child_runs_are_decided_together(
        self, place: Place, clock: Clock, session: Session
    ) -> None:
        session.start()
        session.propose(ALLOW, ALLOW, kind="agent")
        for index in (0, 1):
            session.delegate(Occurrence("run_1", 1, index), f"child_{index}")
        asked = []
        for index in (0, 1):
            session.lease(f"child_{index}")
            asked.append(session.ask(run=f"child_{index}"))
        for request in asked:
            session.approve(request)
        other = Session(place.open(clock=clock), fences=session.fences)
        for one, index in ((session, 0), (other, 1)):
            one.lease(f"child_{index}")
            at = Occurrence(f"child_{index}", 1, 0)
            answer = one.conclude(intent(one.begin(at)))
            assert isinstance(answer.state.calls[at].state, CallOver)

    # --- questions, modes and failures --------------------------------------------------------

    def test_a_question_and_its_answer_are_on_record(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        request = session.ask(kind="question", surface="")
        assert [row.request.kind for row in store.requests("main")] == ["question"]
        answer = session.do(
            c.Answer(request=request, by=ANN, eligible=PEOPLE, answer="Seven.", via="cli")
        )
        same_for_others(place, clock, answer)
        assert store.requests("main") == []
        found = store.find_request("main", request)
        assert found is not None
        assert isinstance(found.request.state, Answered)
        assert store.payload("main", "s1", found.request.state.answer_ref) == "Seven."
        assert kinds(store)[-1] == (1, 0, "result", "ann answered: Seven.")
        assert [row.kind for row in store.outbox("main")] == ["opened", "closed"]

    def test_a_plan_is_kept_with_its_run(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start(mode="plan-act")
        planning = c.Propose(
            run="run_1", step=1, fence=1, entry="{}", calls=(), policy_version="1", plan=("look",)
        )
        answer = session.do(planning)
        same_for_others(place, clock, answer)
        found = store.find_run("main", "run_1")
        assert found is not None
        assert found.run.mode == "plan-act"
        assert isinstance(found.run.plan, Plan)
        assert store.payload("main", "s1", found.run.plan.ref) == '["look"]'

    def test_failures_of_a_call_are_counted_by_whichever_store_goes_on(
        self, place: Place, clock: Clock, session: Session
    ) -> None:
        session.start()
        stores = [session, *(Session(place.open(clock=clock)) for _ in range(2))]
        for step, one in enumerate(stores, start=1):
            one.fences = session.fences
            one.propose(ALLOW, step=step, order_id="7")
            begun = one.begin(Occurrence("run_1", step, 0), ruling=ALLOW, order_id="7")
            answer = one.conclude(intent(begun), c.Failed(error="no such order"))
        assert getattr(answer.state.runs["run_1"].state, "stop", "") == "failed"

    # --- a bounded view -----------------------------------------------------------------------

    def test_a_transcript_is_read_from_a_step_on_with_the_summary_of_what_came_before(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        for step in (1, 2, 3):
            session.propose(DENY, step=step)
        whole = kinds(store)
        assert [row[:3] for row in whole[:3]] == [
            (0, -1, "message"),
            (1, -1, "turn"),
            (1, 0, "result"),
        ]
        assert kinds(store, since=2) == whole[3:]
        assert kinds(store, since=4) == []
        compact = c.Compact(run="run_1", fence=1, step=2, summary="It was denied.")
        same_for_others(place, clock, session.do(compact))
        assert kinds(store, since=2)[0] == (2, -2, "summary", "It was denied.")
        assert kinds(store, since=2)[1:] == whole[3:]
        found = store.find_run("main", "run_1")
        assert found is not None
        assert found.run.view_from == 2
        assert store.payload("main", "s1", found.run.summary_ref or "") == "It was denied."
        assert kinds(store, "run_2", since=0) == []

    # --- the end of a session -----------------------------------------------------------------

    def test_a_session_that_was_ended_stays_so_for_whoever_opens_the_store(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        session.ask()
        before = store.session("main", "s1")
        assert before is not None
        assert not before.ended
        same_for_others(place, clock, session.do(c.EndSession(by=ANN, cause="enough")))
        other = place.open(clock=clock)
        for each in (store, other):
            found = each.session("main", "s1")
            assert found is not None
            assert found.ended
            with pytest.raises(Refusal, match="session_ended"):
                Session(each).start("run_2")
        assert store.due(within=timedelta(days=365)) == []
        Session(other, id="s2").start("run_2")

    # --- hosted runs --------------------------------------------------------------------------

    def test_a_framework_is_due_to_go_on_until_it_has(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start(kind="hosted")
        request = opened(session.propose(None))[0]
        assert store.due() == []
        session.reject(request)
        assert [row.run.id for row in store.due()] == ["run_1"]
        found = place.open(clock=clock).session("main", "s1")
        assert found is not None
        assert next_work(found, "run_1") == ResumeHost()
        answer = session.do(c.TakeResults(run="run_1", step=1, seen=found.seq))
        same_for_others(place, clock, answer)
        assert next_work(answer.state, "run_1") == Wait(until=None)
        assert store.due() == []

    def test_what_a_tool_can_be_rolled_back_to_is_kept_with_the_intent(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        session.propose(ALLOW)
        found = store.session("main", "s1")
        assert found is not None
        begin = c.Begin(
            at=FIRST,
            fence=1,
            holder=HOLDER,
            digest=found.calls[FIRST].digest,
            today=session.sound(FIRST, ruling=ALLOW),
            eligible=PEOPLE,
            policy_version="p1",
            snapshot="as it was",
        )
        answer = session.do(begin)
        same_for_others(place, clock, answer)
        call = answer.state.calls[FIRST]
        assert store.payload("main", "s1", call.snapshot_ref or "") == "as it was"
        session.conclude(intent(answer))
        assert next_work(session.do(c.RenewLease(run="run_1", fence=1)).state, "run_1") == (
            CallModel(step=2)
        )

    @pytest.mark.promise("D5")
    def test_a_course_is_gone_on_with_by_one_until_it_leaves_or_is_gone_or_its_time_is_up(
        self, place: Place, clock: Clock, store: Store
    ) -> None:
        another = place.open(clock=clock)

        def take(by: Store, token: str, *, course: str = "c", gone: str = "") -> tuple[str, Holder]:
            holder = HOLDER if by is store else OTHER
            row = by.take_course(
                "main", course, token=token, holder=holder, lasts=MINUTE, gone=gone
            )
            return row.token, row.holder

        assert take(store, "one") == ("one", HOLDER)
        assert take(another, "two") == ("one", HOLDER)
        assert take(another, "two", course="d") == ("two", OTHER)
        clock.now += MINUTE / 2
        assert take(store, "one") == ("one", HOLDER), "who has it keeps it"
        clock.now += MINUTE / 2
        assert take(another, "two", gone="three") == ("one", HOLDER)
        assert take(another, "two", gone="one") == ("two", OTHER)
        store.leave_course("main", "c", token="one")
        assert take(store, "one") == ("two", OTHER), "what another has by now nobody leaves"
        clock.now += MINUTE
        assert take(store, "one") == ("one", HOLDER)
        store.leave_course("main", "c", token="one")
        assert take(another, "two") == ("two", OTHER)
        row = store.take_course("others", "c", token="one", holder=HOLDER, lasts=MINUTE)
        assert row.token == "one", "another tenant's is another course"
