"""The trace of a log, judged by the program `agentack`: ours pass (H4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet.core import commands as c
from placet.core import events as e
from placet.core.codec import decode_event, encode
from placet.core.errors import Mistake, Refusal
from placet.core.values import Ask, Escalation, Needs, Occurrence, Principal
from placet.runtime.export_agentack import trace
from tests.runtime.court import ASKED, FIRST, PASSES, Court
from tests.stores.build import ALLOW, ANN, BOB, asking, opened
from tests.stores.walk import Walk

EVE = Principal(id="eve")


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    made = Court(tmp_path)
    yield made
    made.store.close()


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    """Give the types of lines, with what was decided, without the end."""
    short = {
        "action_proposed": "propose",
        "approval_requested": "request",
        "action_executed": "execute",
        "action_blocked": "block",
    }
    assert lines[-1]["type"] == "session_end"
    return [line.get("decision") or short[line["type"]] for line in lines[:-1]]


# --- ours pass --------------------------------------------------------------------------------


@pytest.mark.promise("H4", "G1")
@pytest.mark.conformance(38)
def test_an_approval_passes(court: Court) -> None:
    court.session.approve(court.ask())
    court.run()
    assert kinds(court.trace()) == ["propose", "request", "allow", "execute"]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G6")
def test_a_rejection_passes(court: Court) -> None:
    court.session.reject(court.ask())
    assert kinds(court.trace()) == ["propose", "request", "deny", "block"]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G5")
def test_an_edit_passes_as_the_end_of_the_first_and_the_whole_life_of_the_second(
    court: Court,
) -> None:
    first = court.ask(amount=1000)
    second = court.edit(first, amount=500)
    court.run(amount=500)
    lines = court.trace()
    assert kinds(lines) == [
        *("propose", "request", "deny", "block"),
        *("propose", "request", "allow", "execute"),
    ]
    assert [line["action_id"] for line in lines[:-1]] == [f"{FIRST}#1"] * 4 + [f"{FIRST}#2"] * 4
    assert [line.get("approval_id") for line in lines[1:8]] == [
        *(first, first, first),
        *(None, second, second, second),
    ]
    assert [line["action"]["parameters"]["amount"] for line in (lines[0], lines[7])] == [1000, 500]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G9")
@pytest.mark.conformance(38)
def test_a_deadline_passes_as_a_denial_by_nobody(court: Court) -> None:
    court.ask()
    court.clock.move(hours=2)
    court.session.do(c.Expire(run="run_1"))
    assert kinds(court.trace()) == ["propose", "request", "deny", "block"]
    assert court.trace()[3]["reason"] == "expired"
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G9")
def test_a_request_that_nobody_could_be_told_of_passes_as_a_denial_by_nobody(court: Court) -> None:
    request = court.ask()
    court.session.do(
        c.RecordDelivery(request=request, channel="mail", delivered=False, cause="HTTP 500")
    )
    court.clock.move(hours=2)
    court.session.do(c.Expire(run="run_1"))
    assert kinds(court.trace()) == ["propose", "request", "deny", "block"]
    assert court.trace()[3]["reason"] == "unreachable"
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G9")
def test_what_was_approved_and_not_begun_in_time_passes_as_denied_after_all(court: Court) -> None:
    court.session.approve(court.ask())
    court.clock.move(hours=2)
    court.session.do(c.Expire(run="run_1"))
    assert kinds(court.trace()) == ["propose", "request", "allow", "request", "deny", "block"]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G9")
def test_an_escalation_passes_as_a_denial_by_the_timer_and_a_new_question(court: Court) -> None:
    wider = Escalation(after=timedelta(minutes=10), approvers=("eve",))
    reminder = Escalation(after=timedelta(minutes=20))
    needs = Needs(approvers=("ann",))
    ruling = Ask(
        rule="refunds",
        needs=needs,
        lasts=timedelta(hours=1),
        escalation=(wider, reminder),
    )
    request = court.ask(ruling)
    court.clock.move(minutes=30)
    court.session.do(c.Expire(run="run_1"))
    command = c.Approve(request=request, by=EVE, eligible=frozenset({"eve", "ann"}))
    court.session.do(command)
    court.drive()
    beginning = court.session.sound(FIRST, ruling=ruling)
    found = court.store.session("main", "s1", c.Names(steps=(("run_1", 1),)))
    assert found is not None
    court.session.do(
        c.Begin(
            at=FIRST,
            fence=court.session.fence("run_1"),
            holder=found.runs["run_1"].state.holder,  # type: ignore[union-attr]  # it is driven
            digest=found.calls[FIRST].digest,
            today=beginning,
            eligible=frozenset({"eve", "ann"}),
            policy_version="p1",
        )
    )
    assert kinds(court.trace()) == ["propose", "request", "deny", "request", "allow", "execute"]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G10")
@pytest.mark.conformance(38)
def test_each_member_of_a_quorum_has_an_approval_id(court: Court) -> None:
    request = court.ask(asking(quorum=2))
    court.session.approve(request, ANN)
    court.session.approve(request, BOB)
    court.run(ruling=asking(quorum=2))
    lines = court.trace()
    assert kinds(lines) == ["propose", "request", "request", "allow", "allow", "execute"]
    ids = [line["approval_id"] for line in lines if line["type"] == "approval_decision"]
    assert ids == [request, f"{request}.2"]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G7")
def test_a_vote_that_was_taken_back_passes_as_a_denial_and_is_asked_for_again(
    court: Court,
) -> None:
    request = court.ask(asking(quorum=2))
    court.session.approve(request, ANN)
    court.session.approve(request, BOB)
    court.session.do(c.Withdraw(request=request, by=ANN))
    court.session.approve(request, ANN)
    court.run(ruling=asking(quorum=2))
    assert kinds(court.trace()) == [
        *("propose", "request", "request", "allow", "deny", "request", "allow", "execute"),
    ]
    assert court.judged() == PASSES


@pytest.mark.promise("H4", "G13")
def test_a_changed_world_passes_as_the_end_of_one_action_and_the_start_of_another(
    court: Court,
) -> None:
    court.session.approve(court.ask(environment="one"))
    court.drive()
    again = opened(court.session.begin(FIRST, environment="two", salt="cd" * 16))[0]
    court.session.approve(again)
    court.run(environment="two")
    assert kinds(court.trace()) == [
        *("propose", "request", "allow", "request", "deny", "block"),
        *("propose", "request", "allow", "execute"),
    ]
    assert court.judged() == PASSES


@pytest.mark.promise("H4")
def test_many_calls_and_a_pause_pass_and_nothing_is_an_interrupt(court: Court) -> None:
    for step in range(1, 4):
        court.session.cycle(step=step)
    court.session.reject(court.ask(step=4))
    court.drive()
    court.session.propose(ALLOW, None, step=5)
    court.session.do(c.CancelRun(run="run_1", by=ANN, cause="enough"))
    court.session.start("run_2")
    court.session.approve(opened(court.session.propose(None, run="run_2"))[0])
    court.run(Occurrence("run_2", 1, 0))
    lines = court.trace()
    assert {line["type"] for line in lines} == {
        "action_proposed",
        "approval_requested",
        "approval_decision",
        "action_executed",
        "action_blocked",
        "session_end",
    }
    assert all("expires_at" in line for line in lines if line["type"] == "approval_decision")
    assert court.judged(patterns=ASKED) == PASSES


@pytest.mark.promise("H4")
def test_a_retry_with_the_same_key_is_no_second_execution(court: Court) -> None:
    request = court.ask()
    court.session.approve(request)
    court.run()
    log = court.log()
    (begun,) = [row for row in log if row.kind == "AttemptBegun"]
    event = decode_event(begun.kind, begun.body)
    assert isinstance(event, e.AttemptBegun)
    again = replace(begun, body=encode(replace(event, attempt=2, request=None)))
    assert court.judged([*log, again]) == PASSES


@pytest.mark.promise("H4", "G6")
def test_two_calls_alike_of_one_step_are_two_intents(court: Court) -> None:
    same: dict[str, Any] = {"order_id": "7", "amount": 3}
    first, second = opened(court.session.propose(None, None, **same))
    court.session.approve(second)
    court.session.reject(first)
    court.run(Occurrence("run_1", 1, 1), **same)
    assert court.judged() == PASSES


@pytest.mark.promise("H4")
def test_what_still_waits_is_a_gap_and_no_fault(court: Court) -> None:
    court.ask()
    code, found = court.judged()
    assert (code, set(found)) == (3, {"ACK009"})


@pytest.mark.promise("H4")
def test_what_cannot_be_read_or_was_erased_stands_by_its_digest(court: Court) -> None:
    court.session.approve(court.ask())
    court.run()
    lines = list(trace(court.log(), tenant="main", session="s1", read=lambda ref: None))
    parameters = [line["action"]["parameters"] for line in lines if "action" in line]
    assert {tuple(each) for each in parameters} == {("action_digest",)}
    assert len({each["action_digest"] for each in parameters}) == 1


@pytest.mark.slow
@pytest.mark.promise("H4")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
    deadline=None,
)
@given(seed=st.integers(0, 2**32), length=st.integers(5, 120))
def test_no_life_of_a_session_makes_a_trace_that_fails(
    tmp_path_factory: pytest.TempPathFactory, seed: int, length: int
) -> None:
    court = Court(tmp_path_factory.mktemp("life"))
    walk = Walk(Random(seed), court.clock, {}, {}, {})
    walk.learn(court.session.do(c.RenewLease(run="run_1", fence=1)).state)
    for _ in range(length):
        try:
            walk.learn(court.session.do(walk.command()).state)
        except (Refusal, Mistake):
            continue
    engine, models, policy = (
        import_module(f"agentack.{name}") for name in ("engine", "models", "policy")
    )
    events = [models.TraceEvent.from_dict(line) for line in court.trace()]
    report = engine.evaluate_events(events, policy=policy.Policy(require_approval_for=ASKED))
    court.store.close()
    # What is still open when the log ends is a gap in it, and nothing worse.
    assert {finding.rule_id for finding in report.findings} <= {"ACK009"}
