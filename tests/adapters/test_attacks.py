"""Attacks on the adapters: threads that would share a session, a callback that ends a worker."""

from __future__ import annotations

import asyncio
from itertools import combinations
from pathlib import Path

import pytest

from placet.adapters.langgraph_steps import session_of
from placet.core.errors import ApprovalRequired
from tests.runtime.desk import Desk

PLACES = [
    ("t", ""),
    ("t", "sub"),
    ("t/sub", ""),
    ("t%2Fsub", ""),
    ("t", "sub/x"),
    ("t/sub", "x"),
    ("t%", "2Fsub"),
]


@pytest.mark.promise("G11")
def test_no_thread_can_be_named_into_the_session_of_another() -> None:
    for one, other in combinations(PLACES, 2):
        assert session_of(*one) != session_of(*other), f"{one} and {other}"
    assert session_of("a-plain.id:7", "") == "a-plain.id:7"


@pytest.mark.promise("D2")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
def test_a_callback_after_a_decision_ends_no_worker(tmp_path: Path, error: BaseException) -> None:
    done: list[str] = []

    def end(what: str) -> None:
        raise error

    with Desk(tmp_path) as desk:

        @desk.placet.guard(session="s", on_decided=end)
        def pay(what: str) -> str:
            done.append(what)
            return "paid"

        with pytest.raises(ApprovalRequired) as waits:
            pay("a")
        (request,) = waits.value.requests
        desk.decide(request, "approve")
        told = [each for each in desk.work_once() if each[0] == "trouble"]
        assert [type(error).__name__ in each[2] for each in told] == [True]
        assert (pay("a"), done) == ("paid", ["a"]), "it can still be gone on with"
