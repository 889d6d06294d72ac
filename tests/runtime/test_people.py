"""What people say of requests and runs, through the client: bound, recorded, listed, and told."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, ScriptedModel
from placet.agent.models.scripted import call, say
from placet.settings import current_account
from tests.runtime.desk import Desk, code_of, effect

PAYS = [call("pay", what="a"), say("done")]


def waits(desk: Desk, *, session: str = "s", run_id: str = "run_1") -> str:
    """Begin a run that waits for a person; give the request."""
    (request,) = desk.start(session=session, run_id=run_id).waiting
    return str(request)


def denies_much(_: str, arguments: Any) -> str:
    """Deny what is too much."""
    return "deny" if arguments["what"] == "much" else "allow"


# --- noes -----------------------------------------------------------------------------------------


@pytest.mark.promise("G6")
def test_the_older_entry_point_records_that_no_reason_was_given(tmp_path: Path) -> None:
    with Desk(tmp_path, PAYS, [effect([])], approvers=[current_account()]) as desk:
        request = waits(desk)
        result = desk.do(lambda p: p.resume_approval(request, "reject", "s", ""))
        assert result.stop == "final"
        assert desk.results()[0].startswith(f"Rejected by {current_account()}: no reason given\n")


@pytest.mark.promise("G10")
def test_the_older_entry_point_lets_nobody_decide_who_is_no_approver(tmp_path: Path) -> None:
    with Desk(tmp_path, PAYS, [effect([])], approvers=["ana"]) as desk:
        request = waits(desk)
        refused = code_of(lambda: desk.do(lambda p: p.resume_approval(request, "approve", "s")))
        assert refused == "not_an_approver"


@pytest.mark.promise("G7")
def test_a_second_no_for_another_reason_is_a_conflict_and_the_first_one_stands(
    tmp_path: Path,
) -> None:
    with Desk(tmp_path, PAYS, [effect([])]) as desk:
        request = waits(desk)
        first = desk.decide(request, "reject", reason="too much")
        assert desk.decide(request, "reject", reason="too much ") == first
        assert desk.refused(request, "reject", reason="too late") == "already_rejected"
        assert desk.refused(request, "reject", reason=" ") == "no_reason"
        assert first.told is not None
        assert first.told.startswith("Rejected by ana: too much\n")
        assert desk.results() == [first.told]


# --- what a decision has made of it ---------------------------------------------------------------


@pytest.mark.promise("G5")
def test_an_edit_that_policy_denies_tells_the_approver_so(tmp_path: Path) -> None:
    done: list[str] = []
    agent = Agent(
        name="support", model=ScriptedModel(PAYS), tools=[effect(done)], policy=denies_much
    )
    with Desk(tmp_path, agent=agent) as desk:
        edited = desk.decide(waits(desk), "edit", arguments={"what": "much"})
        assert (edited.status, edited.successor, edited.code) == (
            "superseded",
            None,
            "policy_denied",
        )
        assert edited.told.startswith("Denied by policy (agent:support)")
        assert desk.resume().stop == "final"
        assert done == []


def test_while_a_call_is_open_a_decision_tells_no_end_of_it(tmp_path: Path) -> None:
    with Desk(tmp_path, PAYS, [effect([])]) as desk:
        request = waits(desk)
        edited = desk.decide(request, "edit", arguments={"what": "b"})
        assert edited.successor is not None
        assert (edited.code, edited.told) == (None, None)


# --- sessions, digests, command ids ---------------------------------------------------------------


@pytest.mark.promise("G11")
def test_nothing_of_another_session_is_seen_decided_or_ended(tmp_path: Path) -> None:
    with Desk(tmp_path, PAYS, [effect([])]) as desk:
        request = waits(desk)
        before = desk.kinds()
        about_requests: list[Any] = [
            lambda p: p.show(request, session="t"),
            lambda p: p.decide(request, "approve", by="ana", session="t"),
            lambda p: p.answer(request, "yes", by="ana", session="t"),
            lambda p: p.settle(request, happened=None, by="ana", session="t"),
            lambda p: p.withdraw(request, by="ana", session="t"),
            lambda p: p.resume_approval(request, "approve", "t", by="ana"),
        ]
        about_runs: list[Any] = [
            lambda p: p.result("run_1", session="t"),
            lambda p: p.resume("run_1", session="t"),
            lambda p: p.cancel("run_1", by="ana", session="t"),
            lambda p: p.result(request, session="t"),
        ]
        for work in about_requests:
            assert code_of(partial(desk.do, work)) == "request_not_found"
        for work in about_runs:
            assert code_of(partial(desk.do, work)) == "run_not_found"
        assert desk.kinds() == before
        assert desk.do(lambda p: p.cancel("run_1", by="ana", session="s")).stop == "cancelled"


@pytest.mark.promise("G7", "D5")
def test_the_record_says_by_which_way_a_vote_left_and_the_same_command_is_the_same_answer(
    tmp_path: Path,
) -> None:
    with Desk(tmp_path, PAYS, [effect([])]) as desk:
        request = waits(desk)
        digest = desk.show(request).digest
        desk.decide(request, "approve")

        def withdraw(**more: Any) -> Any:
            return desk.do(lambda p: p.withdraw(request, by="ana", via="slack", **more))

        assert code_of(lambda: withdraw(digest="0" * 64)) == "digest_mismatch"
        taken_back = withdraw(digest=digest, command_id="cmd_1")
        desk.decide(request, "approve")
        assert taken_back.status == "waiting"
        assert withdraw(digest=digest, command_id="cmd_1").status == "approved"
        (left,) = [row for row in desk.log() if row.kind == "VoteWithdrawn"]
        assert json.loads(left.body)["via"] == "slack"


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("listing", ["inbox", "runs"])
def test_a_list_says_where_there_is_more(tmp_path: Path, listing: str) -> None:
    with Desk(tmp_path, lambda _: call("pay", what="a"), [effect([])]) as desk:

        def listed(**more: Any) -> Any:
            return desk.do(lambda p: getattr(p, listing)(**more))

        for name in ("a", "b", "c"):
            waits(desk, session=name, run_id=f"run_{name}")
        for limit, more in ((2, True), (3, False), (100, False)):
            found = listed(limit=limit)
            assert (len(found), found.more) == (min(limit, 3), more)
        of_one = listed(session="b")
        assert ([row.session for row in of_one], of_one.more) == (["b"], False)
        assert code_of(lambda: listed(limit=0)) == "invalid_limit"


# --- words ----------------------------------------------------------------------------------------


def test_a_word_that_is_none_is_refused(tmp_path: Path) -> None:
    with Desk(tmp_path, PAYS, [effect([])]) as desk:
        assert code_of(lambda: desk.start(on_message="supercede")) == "invalid_on_message"
        assert desk.do(lambda p: p.runs()) == []
    nobody: Any = "nobody"
    assert code_of(lambda: Agent(name="a", model=ScriptedModel([]), ask=nobody)) == "invalid_agent"
