"""Guarded functions: one call is one action, whoever calls it, and whenever."""

from __future__ import annotations

import asyncio
import warnings
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet import (
    Agent,
    Happened,
    InvalidDeclaration,
    InvalidInput,
    Placet,
    ScriptedModel,
    ask_person,
    tool,
)
from placet.adapters import function_runs
from placet.agent.models.scripted import call, say
from placet.client import NoApproverWarning
from placet.core import commands as c
from placet.core.errors import ActionRefused, ApprovalRequired, InProgress
from placet.guarding import EditedWarning
from placet.stores.sqlite import SqliteStore
from tests.adapters.guards import opened, paid, refund_of, required
from tests.runtime.desk import Clock, code_of

DAY = timedelta(hours=24)


def stops(placet: Placet) -> list[tuple[str, str | None]]:
    """Give the runs, oldest first, with why each has ended."""
    rows = reversed(placet.runs_sync())
    return [(row.run.id, getattr(row.run.state, "stop", None)) for row in rows]


def decide(placet: Placet, needed: ApprovalRequired, decision: Any = "approve", **more: Any) -> Any:
    (request,) = needed.requests
    return placet.decide_sync(request, decision, by="ana", **more)


# --- one action -------------------------------------------------------------------------------


@pytest.mark.promise("G7", "D1", "D2")
def test_a_call_asks_and_once_approved_it_runs_once_in_any_process(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        needed = required(lambda: refund("A-42", 129))
        assert needed.code == "approval_required"
        assert needed.hint.startswith(f"`placet approve {needed.requests[0]}` does")
        again = required(lambda: refund("A-42", amount=129))
        assert (again.requests, again.run_id) == (needed.requests, needed.run_id)
        assert paid(tmp_path) == []
    with opened(tmp_path) as placet:
        decide(placet, needed)
    for _ in range(3):
        with opened(tmp_path) as placet:
            refund = refund_of(placet, tmp_path)
            assert refund("A-42", 129) == "refunded 129 for A-42"
            assert refund(amount=129, order="A-42") == "refunded 129 for A-42"
            assert stops(placet) == [(needed.run_id, "final")]
    assert paid(tmp_path) == ["A-42 129"]


def test_what_policy_allows_runs_at_once_and_is_not_done_again(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, approval=lambda arguments: arguments["amount"] > 100)
        assert refund("A-42", 99) == refund("A-42", 99) == "refunded 99 for A-42"
        assert len(required(lambda: refund("A-42", 129)).requests) == 1
        assert paid(tmp_path) == ["A-42 99"]


def test_other_arguments_or_another_session_are_another_action(tmp_path: Path) -> None:
    terms = {"session": lambda order, amount: f"{order}/{amount}"}
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, guard=terms, approval="never")
        for amount in (1, 2, 1, 2):
            refund("A-42", amount)
        assert sorted(row.session for row in placet.runs_sync()) == ["A-42/1", "A-42/2"]
    assert paid(tmp_path) == ["A-42 1", "A-42 2"]


def test_what_python_writes_in_two_ways_is_one_action(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        done: list[Any] = []

        @placet.guard(session="s", approval="never")
        def tag(names: set[str], weight: float = 1.0) -> None:
            """Tag something."""
            done.append((names, weight))

        tag({"a", "b"})
        tag({"b", "a"}, weight=1)
        assert done == [({"a", "b"}, 1.0)]


@pytest.mark.promise("G4")
def test_what_does_not_fit_is_the_callers_mistake_and_nobody_is_asked(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        with pytest.raises(TypeError):
            refund("A-42")
        with pytest.raises(TypeError):
            refund("A-42", 129, key="mine")
        for wrong in ("many", 2**60):
            with pytest.raises(InvalidInput) as refused:
                refund("A-42", wrong)
            assert refused.value.code == "invalid_arguments"
        assert list(placet.runs_sync()) == []


def test_a_session_is_a_text_and_the_run_acts_for_whom_the_guard_says(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        terms: dict[str, Any] = {"session": "all", "requester": lambda order, **_: f"of {order}"}
        refund = refund_of(placet, tmp_path, guard=terms)
        needed = required(lambda: refund("A-42", 129))
        row = placet.runs_sync()[0]
        assert (row.session, row.run.requester) == ("all", "of A-42")
        assert placet.show_sync(needed.requests[0]).requester == "of A-42"
        other = refund_of(placet, tmp_path, guard={"session": lambda **_: 7}, name="other")
        assert code_of(lambda: other("A-42", 129)) == "invalid_session"


# --- other ends -------------------------------------------------------------------------------


@pytest.mark.promise("G6")
def test_a_no_is_raised_with_its_reason_now_and_later(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        needed = required(lambda: refund("A-42", 129))
        decide(placet, needed, "reject", reason="it was delivered")
        for _ in range(4):
            with pytest.raises(ActionRefused) as refused:
                refund("A-42", 129)
            assert refused.value.code == "rejected"
            assert refused.value.told.startswith("Rejected by ana: it was delivered")
            assert refused.value.run_id == needed.run_id
    assert paid(tmp_path) == []


@pytest.mark.promise("G9")
def test_at_the_deadline_a_call_is_refused_approved_or_not(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as placet:
        refund = refund_of(placet, tmp_path)
        required(lambda: refund("A-42", 129))
        decide(placet, required(lambda: refund("B-7", 5)))
        clock.now += DAY
        for order, amount in (("A-42", 129), ("B-7", 5)):
            assert code_of(partial(refund, order, amount)) == "expired"
    assert paid(tmp_path) == []


def test_a_guard_that_asks_in_vain_says_so_and_its_calls_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path, approvers=()) as placet:
        with pytest.warns(NoApproverWarning, match="guarded function refund may ask"):
            refund = refund_of(placet, tmp_path)
        assert code_of(lambda: refund("A-42", 129)) == "no_approver"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            refund_of(placet, tmp_path, approval="never", name="free")


@pytest.mark.promise("G1")
def test_a_guard_that_asks_in_vain_is_refused_where_an_approver_is_required(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "placet.db")
    with Placet(store, approvers=(), require_approver=True) as placet:
        with pytest.raises(InvalidDeclaration, match="guarded function refund may ask"):
            refund_of(placet, tmp_path)
        refund = refund_of(placet, tmp_path, approval="never")  # What was refused is not there.
        assert refund("A-42", 129) == "refunded 129 for A-42"


def test_a_guards_name_is_its_own_though_agents_may_be_called_as_they_like(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        with pytest.raises(InvalidDeclaration, match="Two guarded functions are named refund"):
            refund_of(placet, tmp_path)
        for name in ("refund", "guard:refund"):
            placet.add(Agent(name=name, model=ScriptedModel([say("ok")])))
            assert placet.run_sync(name, "go", session=name).stop == "final"
        required(lambda: refund("A-42", 129))


@pytest.mark.promise("D4")
def test_what_the_function_raises_is_raised_to_who_ran_it_once_it_is_on_record(
    tmp_path: Path,
) -> None:
    def fails() -> None:
        raise LookupError("no such order")

    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, before=fails, approval="never")
        with pytest.raises(LookupError, match="no such order"):
            refund("A-42", 129)
        assert stops(placet)[0][1] == "final"
        with pytest.raises(ActionRefused, match="LookupError: no such order") as refused:
            refund("A-42", 129)
        assert refused.value.code == "tool_failed"


@pytest.mark.promise("D4")
def test_an_outcome_that_nobody_knows_is_put_to_a_person(tmp_path: Path) -> None:
    def broken() -> None:
        raise ConnectionResetError("reset by peer")

    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, after=broken, approval="never")
        for order in ("A-1", "A-2", "A-3"):
            with pytest.raises(ApprovalRequired) as needed:
                refund(order, 129)
            assert isinstance(needed.value.__cause__, ConnectionResetError)
            (settlement,) = required(partial(refund, order, 129)).requests
            assert needed.value.requests == (settlement,)
            assert needed.value.hint.startswith(f"`placet settle {settlement}`")
            assert needed.value.message == (
                "Nobody knows whether refund has acted: people must find out."
            )
            held = required(partial(refund, order, 1))
            assert held.requests == (settlement,)
            assert held.message.startswith("refund has not run: another action")
            happened = {"A-1": True, "A-2": None}.get(order, False)
            placet.settle_sync(settlement, by="ana", happened=happened, detail="receipt 9")
        assert refund("A-1", 129) == "receipt 9"
        assert code_of(lambda: refund("A-2", 129)) == "outcome_unknown"
        assert paid(tmp_path) == ["A-1 129", "A-2 129", "A-3 129"]
        with pytest.raises(ApprovalRequired):  # It did not happen, and may be proposed again.
            refund("A-3", 129)
        assert len(paid(tmp_path)) == 4


def test_a_probe_tells_the_result_that_the_function_would_have_returned(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:

        @placet.guard(session="s", approval="never")
        def count(start: int) -> dict[str, int]:
            """Count something."""
            raise TimeoutError

        @count.probe
        def counted(start: int) -> Happened:
            return Happened(result={"count": start})

        assert count(3) == count(3) == {"count": 3}


# --- edits ------------------------------------------------------------------------------------


@pytest.mark.promise("G5")
def test_edited_arguments_run_and_every_caller_is_warned_with_the_functions_own_value(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        needed = required(lambda: refund("A-42", 129))
        decide(placet, needed, "edit", arguments={"order": "A-42", "amount": 100})
        for _ in range(2):
            with pytest.warns(EditedWarning, match=r"ana changed .* amount: 129 -> 100"):
                assert refund("A-42", 129) == "refunded 100 for A-42"
        assert paid(tmp_path) == ["A-42 100"]
        required(lambda: refund("A-42", 100))  # What an edit makes is no call of its own.


@pytest.mark.promise("G5", "H2")
def test_a_warning_of_an_edit_tells_no_more_than_the_card_does(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:

        @placet.guard(session="s", secret=["note"])
        def push(repo: str, note: str, password: str) -> str:
            """Push."""
            return f"pushed to {repo}"

        given = {"repo": "a", "note": "hunter2", "password": "hunter3"}
        needed = required(lambda: push(**given))
        edited = {"repo": "b\u200b", "note": "hunter4", "password": "hunter5"}
        successor = decide(placet, needed, "edit", arguments=edited).successor
        with pytest.warns(EditedWarning) as warned:
            assert push(**given) == "pushed to b\u200b"
        said = str(warned[0].message)
        assert 'repo: "a" -> "b' in said
        assert placet.show_sync(successor).changes in said
        assert "hunter" not in said
        assert "\u200b" not in said


# --- the session ------------------------------------------------------------------------------


@pytest.mark.promise("G8")
def test_while_a_call_waits_another_of_its_session_is_told_what_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        first = required(lambda: refund("A-42", 129))
        second = required(lambda: refund("A-42", 1))
        assert (second.requests, second.held_by) == (first.requests, first.requests[0])
        assert [stop for _, stop in stops(placet)] == [None]
        assert second.hint == (
            f"`placet approve {first.requests[0]}` does; then call refund again as it was called"
            f" there ({first.run_id}), and after it call refund again with the same arguments."
        )
        decide(placet, first)
        monkeypatch.setattr(function_runs, "BUSY_LASTS", timedelta(0))
        with pytest.raises(InProgress) as busy:
            refund("A-42", 1)
        assert (busy.value.code, busy.value.ids) == ("run_active", {"run_id": first.run_id})
        assert "a call of refund goes first, which may go on" in busy.value.message
        assert f"`placet cancel {first.run_id}`" in busy.value.hint
        refund("A-42", 129)
        assert required(lambda: refund("A-42", 1)).held_by == ""
    assert paid(tmp_path) == ["A-42 129"]


@pytest.mark.promise("D4", "G8")
def test_behind_a_call_that_an_unknown_outcome_holds_another_is_told_of_the_settlement(
    tmp_path: Path,
) -> None:
    lost = [True]

    def broken() -> None:
        if lost.pop():
            raise ConnectionResetError

    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, before=broken, approval="never")
        first = required(lambda: refund("A-42", 129))
        placet.cancel_sync(first.run_id, by="ana")
        for amount in (1, 2):
            needed = required(partial(refund, "A-42", amount))
            assert (needed.requests, needed.held_by) == (first.requests, first.requests[0])
            assert needed.hint.endswith("does; then call refund again with the same arguments.")
        placet.settle_sync(first.requests[0], by="ana", happened=False)
        lost += [False, False]
        assert refund("A-42", 1) == "refunded 1 for A-42"
        assert refund("A-42", 2) == "refunded 2 for A-42"


@pytest.mark.promise("G8")
def test_an_agents_run_that_waits_in_the_session_is_not_superseded(tmp_path: Path) -> None:
    @tool
    def send(what: str) -> str:
        """Send something."""
        return what

    with opened(tmp_path) as placet:
        script = [call("send", what="a"), say("ok")]
        placet.add(Agent(name="support", model=ScriptedModel(script), tools=[send]))
        waiting = placet.run_sync("support", "go", session="order-A-42").waiting
        refund = refund_of(placet, tmp_path)
        needed = required(lambda: refund("A-42", 129))
        assert needed.requests == waiting
        assert f"goes on first (`placet resume {placet.runs_sync()[0].run.id}`" in needed.hint
        placet.decide_sync(waiting[0], "reject", by="ana", reason="no")
        placet.resume_sync(placet.runs_sync()[0].run.id)
        assert required(lambda: refund("A-42", 129)).held_by == ""


@pytest.mark.promise("G8")
def test_a_call_that_a_question_holds_says_that_it_is_to_be_answered(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        script = [call("ask_person", question="Which order?"), say("ok")]
        placet.add(Agent(name="support", model=ScriptedModel(script), tools=[ask_person]))
        (question,) = placet.run_sync("support", "go", session="order-A-42").waiting
        needed = required(lambda: refund_of(placet, tmp_path)("A-42", 129))
        assert needed.hint.startswith(f"`placet answer {question}` does")


@pytest.mark.promise("G8")
def test_calls_of_one_session_at_once_run_one_after_the_other(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def one_at_a_time() -> None:
        inside.append(1)
        most.append(len(inside))
        asyncio.run(asyncio.sleep(0))
        inside.pop()

    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, before=one_at_a_time, approval="never")

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*(refund.awaited("A-42", n % 4) for n in range(8)))

        assert sorted(asyncio.run(all_at_once()))[::2] == [
            f"refunded {amount} for A-42" for amount in range(4)
        ]
    assert sorted(paid(tmp_path)) == [f"A-42 {amount}" for amount in range(4)]
    assert max(most) == 1


@pytest.mark.promise("D2", "D5")
def test_a_run_that_a_dead_process_left_keeps_nobody_from_the_next_call(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as placet:
        refund = refund_of(placet, tmp_path, approval="never")
        start = c.StartRun(
            run="run_9",
            agent="gone",
            requester="rob",
            message="m",
            kind="hosted",
            guard="untold",
        )
        asyncio.run(placet.engine.execute("order-A-42", start))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(function_runs, "BUSY_LASTS", timedelta(0))
            assert code_of(lambda: refund("A-42", 129)) == "run_active"
        assert stops(placet) == [("run_9", None)]
        clock.now += function_runs.LEFT_TO_BEGIN
        assert refund("A-42", 129) == "refunded 129 for A-42"


def test_a_call_whose_run_was_ended_under_it_is_proposed_in_another(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        needed = required(lambda: refund("A-42", 129))
        placet.cancel_sync(needed.run_id, by="ana", cause="no more")
        assert code_of(lambda: refund("A-42", 129)) == "cancelled"
        placet.end_session_sync("order-B", by="ana") if placet.runs_sync(
            session="order-B"
        ) else None
        needed = required(lambda: refund("B", 1))
        placet.end_session_sync("order-B", by="ana")
        assert code_of(lambda: refund("B", 1)) == "cancelled"
        assert code_of(lambda: refund("B", 2)) == "session_ended"
