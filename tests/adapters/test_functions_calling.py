"""Calling guarded functions: where that may be done, who waits how long, and declaring them."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import InvalidDeclaration, Placet, PlacetError
from placet.adapters import function_runs
from placet.core.errors import ActionRefused, ApprovalRequired
from tests.adapters.guards import opened, paid, pay, refund_of, required, until
from tests.runtime.desk import code_of


def approve(placet: Placet, needed: ApprovalRequired) -> None:
    (request,) = needed.requests
    placet.decide_sync(request, "approve", by="ana")


# --- where it is called -------------------------------------------------------------------------


@pytest.mark.promise("G2", "G10")
def test_a_tools_body_can_call_no_guarded_function(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, approval="never")

        @placet.guard(session="outer", approval="never")
        def outer() -> str:
            """Call another."""
            return code_of(lambda: refund("A-42", 129))

        @placet.guard(session="async", approval="never")
        async def other() -> str:
            """Call another."""
            with pytest.raises(PlacetError) as refused:
                await refund.awaited("A-42", 129)
            return refused.value.code

        assert outer() == "inside_tool"
        assert asyncio.run(other()) == "inside_tool"
    assert paid(tmp_path) == []


def test_a_synchronous_function_blocks_no_event_loop_and_can_be_awaited(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, approval="never")

        async def inside() -> Any:
            with pytest.raises(PlacetError) as refused:
                refund("A-42", 129)
            assert refused.value.code == "inside_event_loop"
            assert "await refund.awaited(...)" in refused.value.hint
            return await refund.awaited("A-42", 129)

        assert asyncio.run(inside()) == "refunded 129 for A-42"


def test_an_async_function_is_awaited_and_two_callers_at_once_share_one_body(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as placet:
        entered: list[int] = []

        @placet.guard(session="s", approval="never")
        async def refund(amount: int) -> dict[str, int]:
            """Pay."""
            entered.append(amount)
            await asyncio.sleep(0.02)
            return {"paid": amount}

        async def both() -> Any:
            return await asyncio.gather(refund(1), refund(1))

        assert asyncio.run(both()) == [{"paid": 1}, {"paid": 1}]
        assert entered == [1]


@pytest.mark.promise("D5")
def test_a_caller_that_is_cancelled_leaves_the_body_which_is_carried_to_its_outcome(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as placet:

        async def cancelled() -> None:
            begun, go_on = asyncio.Event(), asyncio.Event()

            @placet.guard(session="s", approval="never")
            async def refund(amount: int) -> int:
                """Pay."""
                begun.set()
                await go_on.wait()
                pay(tmp_path, f"key {amount}")
                return amount

            caller = asyncio.ensure_future(refund(7))
            await begun.wait()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            go_on.set()
            assert await refund(7) == 7

        asyncio.run(cancelled())
    assert paid(tmp_path) == ["7"]


@pytest.mark.promise("D5")
def test_closing_waits_for_the_outcome_of_a_body_that_was_begun(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait()

    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, before=slow, approval="never")
        calling = threading.Thread(target=lambda: refund("A-42", 129))
        calling.start()
        begun.wait()
        threading.Timer(0.05, go_on.set).start()
    calling.join()
    with opened(tmp_path) as placet:
        assert refund_of(placet, tmp_path)("A-42", 129) == "refunded 129 for A-42"
    assert paid(tmp_path) == ["A-42 129"]


# --- waiting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_call_may_wait_for_the_decision(tmp_path: Path, decision: Any) -> None:
    found: list[Any] = []
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, guard={"wait": timedelta(minutes=1)})

        def calls() -> None:
            try:
                found.append(refund("A-42", 129))
            except ActionRefused as refused:
                found.append(refused.code)

        calling = threading.Thread(target=calls)
        calling.start()
        rows = until(placet.inbox_sync)
        with opened(tmp_path) as elsewhere:
            elsewhere.decide_sync(rows[0].request.id, decision, by="ana", reason="no")
        calling.join()
    assert found == ["refunded 129 for A-42" if decision == "approve" else "rejected"]
    assert len(paid(tmp_path)) == (decision == "approve")


@pytest.mark.promise("D4")
def test_a_waiting_call_is_told_that_it_did_not_happen_and_is_not_proposed_again_unasked(
    tmp_path: Path,
) -> None:
    def broken() -> None:
        raise ConnectionResetError

    found: list[str] = []
    with opened(tmp_path) as placet:
        terms = {"wait": timedelta(minutes=1)}
        refund = refund_of(placet, tmp_path, before=broken, guard=terms, approval="never")
        calling = threading.Thread(target=lambda: found.append(code_of(lambda: refund("A", 1))))
        calling.start()
        (row,) = until(placet.inbox_sync)
        placet.settle_sync(row.request.id, by="ana", happened=False)
        calling.join()
        assert found == ["interrupted"]
        assert list(placet.inbox_sync()) == []


def test_a_call_that_has_waited_long_enough_says_who_must_act(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, guard={"wait": timedelta(milliseconds=120)})
        needed = required(lambda: refund("A-42", 129))
        approve(placet, needed)
        assert refund("A-42", 129) == "refunded 129 for A-42"


@pytest.mark.promise("G8")
def test_a_call_that_may_wait_waits_also_for_an_approved_one_that_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_runs, "BUSY_LASTS", timedelta(0))
    with opened(tmp_path) as placet:
        refund = refund_of(
            placet,
            tmp_path,
            guard={"wait": timedelta(seconds=30)},
            approval=lambda arguments: arguments["amount"] > 100,
        )
        first = refund_of(placet, tmp_path, guard={"session": "order-A-42"}, name="first")
        approve(placet, required(lambda: first("A-42", 129)))
        looks: list[int] = []
        resume = placet.resume

        async def counted(run_id: str) -> Any:
            looks.append(1)
            return await resume(run_id)

        monkeypatch.setattr(placet, "resume", counted)
        found: list[str] = []
        calling = threading.Thread(target=lambda: found.append(refund("A-42", 1)))
        calling.start()
        until(lambda: len(looks) > 3)
        assert found == []
        first("A-42", 129)
        calling.join()
        assert found == ["refunded 1 for A-42"]
    assert paid(tmp_path) == ["A-42 129", "A-42 1"]


@pytest.mark.promise("G13")
def test_what_has_changed_since_it_was_approved_is_asked_anew(tmp_path: Path) -> None:
    world = ["dirty"]
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)

        @refund.environment
        def branch(order: str, amount: int) -> str:
            return world[0]

        needed = required(lambda: refund("A-42", 129))
        approve(placet, needed)
        world[0] = "clean"
        anew = required(lambda: refund("A-42", 129))
        assert anew.requests != needed.requests
        assert anew.run_id == needed.run_id
        approve(placet, anew)
        assert refund("A-42", 129) == "refunded 129 for A-42"


# --- declaring --------------------------------------------------------------------------------


def test_two_functions_of_one_name_are_refused_for_a_call_is_found_by_it(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund_of(placet, tmp_path)
        with pytest.raises(InvalidDeclaration, match="Two guarded functions are named refund"):
            refund_of(placet, tmp_path, guard={"on_decided": print})
        refund_of(placet, tmp_path, name="refund_eu")


@pytest.mark.parametrize(
    "terms",
    [
        {"session": ""},
        {"session": 7},
        {"session": "s", "requester": " "},
        {"session": "s", "wait": 3},
        {"session": "s", "wait": timedelta(seconds=-1)},
        {"session": "s", "on_decided": "later"},
    ],
)
def test_terms_that_make_no_sense_are_refused_when_they_are_declared(
    tmp_path: Path, terms: dict[str, Any]
) -> None:
    with opened(tmp_path) as placet, pytest.raises(InvalidDeclaration) as refused:
        refund_of(placet, tmp_path, guard=terms)
    assert refused.value.code == "invalid_guard"
