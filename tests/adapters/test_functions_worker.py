"""What a worker does for guarded calls: nobody's loop waits for them, unless the guard says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.runtime import worker as workers
from tests.adapters.guards import opened, paid, refund_of, required, work_once, worker_of
from tests.runtime.desk import Clock, code_of
from tests.runtime.hosts import looked

DAY = timedelta(hours=24)


def news(told: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [each for each in told if each[0] != "notice"]


@pytest.mark.promise("D1")
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_approved_call_is_left_to_its_caller_without_a_word_and_without_haste(
    tmp_path: Path, is_declared: bool
) -> None:
    with opened(tmp_path) as placet:
        (request,) = required(lambda: refund_of(placet, tmp_path)("A-42", 129)).requests
        placet.decide_sync(request, "approve", by="ana")
    with opened(tmp_path) as placet:
        if is_declared:
            refund_of(placet, tmp_path)
        assert looked(placet, tmp_path) == []
        assert paid(tmp_path) == []
        run = placet.runs_sync()[0].run.id
        assert code_of(lambda: placet.resume_sync(run)) == "left_to_caller"
    with opened(tmp_path) as placet:
        assert refund_of(placet, tmp_path)("A-42", 129) == "refunded 129 for A-42"


@pytest.mark.promise("G9")
@pytest.mark.parametrize("how", ["rejected", "expired", "approved in vain"])
def test_any_worker_ends_the_run_of_a_call_that_has_its_answer(tmp_path: Path, how: str) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as placet:
        (request,) = required(lambda: refund_of(placet, tmp_path)("A-42", 129)).requests
    with opened(tmp_path, clock=clock) as placet:
        if how == "rejected":
            placet.decide_sync(request, "reject", by="ana", reason="no")
        else:
            if how == "approved in vain":
                placet.decide_sync(request, "approve", by="ana")
            clock.now += DAY
        (run,) = placet.runs_sync(active=True)
        assert ("resumed", run.run.id, "") in work_once(placet)
        assert list(placet.runs_sync(active=True)) == []
        assert list(placet.engine.store.due(within=timedelta(days=365))) == []
    with opened(tmp_path, clock=clock) as placet:
        refund = refund_of(placet, tmp_path)
        assert code_of(lambda: refund("A-42", 129)) == how.replace("approved in vain", "expired")


@pytest.mark.promise("D2")
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_on_decided_is_told_with_the_arguments_and_may_call_the_function(
    tmp_path: Path, decision: Any
) -> None:
    told: list[tuple[str, int]] = []
    with opened(tmp_path) as placet:

        def again(order: str, amount: int) -> None:
            told.append((order, amount))
            refund(order, amount)

        refund = refund_of(placet, tmp_path, guard={"on_decided": again})
        needed = required(lambda: refund("A-42", 129))
        assert news(work_once(placet)) == []
        placet.decide_sync(needed.requests[0], decision, by="ana", reason="no")
        assert news(work_once(placet)) == [("resumed", needed.run_id, "")]
        assert told == [("A-42", 129)]
        assert news(work_once(placet)) == []
        assert list(placet.runs_sync(active=True)) == []
    assert paid(tmp_path) == (["A-42 129"] if decision == "approve" else [])


@pytest.mark.promise("D2")
def test_on_decided_of_an_edited_call_is_told_the_arguments_that_were_given(tmp_path: Path) -> None:
    told: list[str] = []
    with opened(tmp_path) as placet:

        async def again(order: str, amount: int) -> None:
            with pytest.warns(UserWarning, match="ana changed the arguments"):
                told.append(await refund.awaited(order, amount))

        refund = refund_of(placet, tmp_path, guard={"on_decided": again})
        (request,) = required(lambda: refund("A-42", 129)).requests
        edited = {"order": "A-42", "amount": 100}
        placet.decide_sync(request, "edit", by="ana", arguments=edited)
        work_once(placet)
    assert told == ["refunded 100 for A-42"]


@pytest.mark.promise("D2")
def test_an_on_decided_that_fails_or_does_not_call_is_told_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with opened(tmp_path) as placet:

        def later(order: str, amount: int) -> None:
            told.append(order)
            if len(told) == 1:
                raise OSError("the queue is away")

        refund = refund_of(placet, tmp_path, guard={"on_decided": later})
        needed = required(lambda: refund("A-42", 129))
        placet.decide_sync(needed.requests[0], "approve", by="ana")
        reports: list[tuple[str, str, str]] = []
        worker = worker_of(placet, reports)
        for _ in range(2):
            asyncio.run(worker.once())
        assert [what for what, _, _ in news(reports)] == ["trouble"]
        monkeypatch.setattr(workers, "LEAVE_ALONE", timedelta(0))
        asyncio.run(worker_of(placet, reports).once())
        assert [what for what, _, _ in news(reports)] == ["trouble", "in_progress"]
        assert told == ["A-42", "A-42"]
        refund("A-42", 129)
        asyncio.run(worker_of(placet, reports).once())
        assert told == ["A-42", "A-42"]


def test_a_guard_that_has_no_on_decided_any_more_leaves_its_calls_to_their_callers(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, guard={"on_decided": print})
        (request,) = required(lambda: refund("A-42", 129)).requests
        placet.decide_sync(request, "approve", by="ana")
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        assert news(work_once(placet)) == []
        assert refund("A-42", 129) == "refunded 129 for A-42"


def test_a_worker_without_the_guard_leaves_its_on_decided_to_one_that_has_it(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, guard={"on_decided": print})
        needed = required(lambda: refund("A-42", 129))
        placet.decide_sync(needed.requests[0], "reject", by="ana", reason="no")
    with opened(tmp_path) as placet:
        assert ("no_agent", needed.run_id) in {each[:2] for each in work_once(placet)}
        assert len(placet.runs_sync(active=True)) == 1
