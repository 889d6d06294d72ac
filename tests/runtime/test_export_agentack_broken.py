"""A trace of ours in which a promise was broken on purpose does not pass `agentack` (H4)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import deciding_effects, deciding_requests, unfolding
from placet.core import events as e
from placet.core.codec import decode_event, encode, event_kind
from placet.core.values import Occurrence, Payload
from placet.stores.store import Recorded
from tests.runtime.court import ASKED, PASSES, Court
from tests.stores.build import ALLOW, ANN, asking, opened


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    made = Court(tmp_path)
    yield made
    made.store.close()


# --- by code that breaks it -------------------------------------------------------------------


def broken(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, before: str, after: str
) -> None:
    """Put a function with one place changed in the place of the real one."""
    source = inspect.getsource(getattr(module, name))
    assert source.count(before) == 1, "the place is there, once"
    made: dict[str, Any] = {}
    exec(compile(source.replace(before, after), name, "exec"), module.__dict__, made)
    monkeypatch.setattr(module, name, made[name])


@pytest.mark.promise("G1", "H4")
def test_an_action_that_runs_without_its_approval_fails(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    court.session.do(c.CancelRun(run="run_1", by=ANN, cause=""))
    court.session.start("run_2", kind="hosted")  # One that waits has no other driver.
    court.ask(run="run_2")
    broken(
        monkeypatch,
        deciding_effects,
        "_begin_approved",
        'raise Conflict("not_approved", "The request still waits.", request_id=request.id)',
        "return _enter(so_far, command, call, None)",
    )
    court.session.begin(Occurrence("run_2", 1, 0))
    code, found = court.judged(patterns=ASKED)
    assert code == 1
    assert "ACK001" in found


@pytest.mark.promise("G3", "H4")
def test_an_action_that_is_not_the_one_that_was_approved_fails(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    court.session.approve(court.ask())
    broken(
        monkeypatch,
        deciding_effects,
        "_intend",
        "idempotency_key(digest)",
        "idempotency_key('0' * 64)",
    )
    court.run()
    code, found = court.judged()
    assert (code, set(found)) == (1, {"ACK003"})


@pytest.mark.promise("G9", "H4")
def test_an_action_that_begins_after_its_deadline_fails(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    court.session.approve(court.ask())
    court.clock.move(hours=2)
    broken(
        monkeypatch,
        deciding_effects,
        "_begin_approved",
        "if so_far.state.now >= request.deadline_at:",
        "if False:",
    )
    court.run()
    code, found = court.judged()
    assert (code, set(found)) == (1, {"ACK005"})


@pytest.mark.promise("G6", "H4")
def test_a_rejected_call_that_is_proposed_again_and_runs_unasked_fails(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = opened(court.session.propose(None, order_id="7", amount=3))[0]
    court.session.reject(request)
    monkeypatch.setattr(unfolding.Unfolding, "no_to", lambda so_far, run, call_key: None)
    court.drive()
    court.session.propose(ALLOW, step=2, order_id="7", amount=3)
    court.run(Occurrence("run_1", 2, 0), ruling=ALLOW, order_id="7", amount=3)
    code, found = court.judged(patterns=ASKED)
    assert (code, set(found)) == (1, {"ACK007"})


@pytest.mark.promise("G10", "H4")
def test_a_quorum_of_which_one_is_enough_does_not_pass(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(
        monkeypatch,
        deciding_requests,
        "approve",
        "met = len(votes) + 1 >= request.needs.quorum",
        "met = True",
    )
    broken(
        monkeypatch,
        deciding_effects,
        "_begin_approved",
        "reopened = len(request.state.votes) - len(dropped) < request.needs.quorum",
        "reopened = False",
    )
    court.session.approve(court.ask(asking(quorum=2)))
    court.run(ruling=asking(quorum=2))
    code, found = court.judged()
    assert code == 3
    assert found == {"ACK009": 1}


# --- by a log that says so ----------------------------------------------------------------------


def rewritten(row: Recorded, event: e.Event) -> Recorded:
    return replace(row, kind=event_kind(event), body=encode(event))


def changed_log(court: Court, kind: str, change: Callable[[Any], list[e.Event]]) -> list[Recorded]:
    """Give the log with other events in the place of those of a kind."""
    rows: list[Recorded] = []
    for row in court.log():
        event = decode_event(row.kind, row.body)
        if row.kind != kind:
            rows.append(row)
            continue
        rows += [rewritten(row, each) for each in change(event)]
    assert rows != court.log()
    return rows


BROKEN: dict[str, tuple[str, Callable[[Any], list[e.Event]], str]] = {
    "an approval that is spent twice (G7)": (
        "AttemptBegun",
        lambda event: [event, replace(event, attempt=2)],
        "ACK004",
    ),
    "an approval of another action (G3)": (
        "VoteCast",
        lambda event: [replace(event, digest="0" * 64)],
        "ACK003",
    ),
    "a request that shows another action (G3)": (
        "RequestOpened",
        lambda event: [replace(event, digest="0" * 64)],
        "ACK003",
    ),
    "an action that runs though it was rejected (G6)": (
        "VoteCast",
        lambda event: [e.RequestRejected(request=event.request, by=event.by, reason=Payload("00"))],
        "ACK006",
    ),
    "an action that runs after its request was cancelled": (
        "VoteCast",
        lambda event: [event, e.RequestCancelled(request=event.request, cause="enough")],
        "ACK006",
    ),
    "a request that was never opened (G1)": ("RequestOpened", lambda event: [], "ACK009"),
    "an action that was never proposed (D4)": ("CallProposed", lambda event: [], "ACK009"),
    "a vote that is nowhere (G1)": ("VoteCast", lambda event: [], "ACK009"),
    "an intent that names no approval (G7)": (
        "AttemptBegun",
        lambda event: [replace(event, request=None)],
        "ACK001",
    ),
}


#: One of each kind; a judge is a process of its own, and the others are slow.
FAST = {
    "a vote that is nowhere (G1)",
    "an action that runs after its request was cancelled",
    "an intent that names no approval (G7)",
}


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in BROKEN],
)
def test_a_log_that_says_that_a_promise_was_broken_does_not_pass(court: Court, name: str) -> None:
    kind, change, rule = BROKEN[name]
    court.session.approve(court.ask())
    court.run()
    assert court.judged() == PASSES
    code, found = court.judged(changed_log(court, kind, change))
    assert code != 0
    assert rule in found
