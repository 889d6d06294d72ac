"""Whom policy reaches when, and whose word counts as requests are edited and asked anew (G10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, InvalidInput, ScriptedModel, tool
from placet.agent.models.scripted import call, calls, say
from placet.core.values import GrantTerms
from tests.runtime.desk import Clock, code_of, effect
from tests.runtime.policed import PAY, TOOLS, Place, rule

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def escalating(after: str, *lines: str, first: str = "bo", then: str = "mia", **more: Any) -> str:
    """Give a rule that asks somebody, and later somebody else too."""
    steps = f'escalate = [{{after = "{after}", approvers = ["{then}"]}}]'
    return rule("ask", TOOLS, f'approvers = ["{first}"]', steps, *lines, **more)


@pytest.mark.promise("G9", "G10")
def test_who_is_reached_later_by_todays_policy_decides_later(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo"]'))
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        place.write(escalating("10h", then="ana"))
        assert desk.refused(request, "approve", by="ana") == "not_an_approver"
        clock.now += 10 * HOUR
        desk.decide(request, "approve", by="ana")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G9", "G10")
def test_who_takes_the_place_of_those_who_left_does_so_when_the_rule_reaches_them(
    place: Place,
) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana"]'))
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        place.write(escalating("10h"))
        assert desk.refused(request, "approve", by="mia") == "not_an_approver"
        clock.now += 10 * HOUR
        desk.decide(request, "approve", by="mia")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G9", "G10")
def test_two_rules_reach_somebody_when_both_do(place: Place) -> None:
    place.write(escalating("10m", name="soon") + escalating("10h", name="late"))
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += 11 * MINUTE
        assert desk.refused(request, "approve", by="mia") == "not_an_approver"
        clock.now += 10 * HOUR
        desk.decide(request, "approve", by="mia")


@pytest.mark.promise("G9", "G5")
def test_an_edit_does_not_begin_the_escalation_anew(place: Place) -> None:
    place.write(escalating("30m", 'deadline = "2h"'))
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += 20 * MINUTE
        desk.decide(request, "edit", by="bo", arguments={"what": "b"})
        desk.do(lambda placet: placet.withdraw(_open(desk), by="bo"))
        assert desk.refused(_open(desk), "approve", by="mia") == "not_an_approver"
        clock.now += 10 * MINUTE
        desk.decide(_open(desk), "approve", by="mia")
        assert desk.resume().stop == "final"
    assert place.done == ["pay b"]


@pytest.mark.promise("G5", "G10")
def test_whoever_escalation_reached_answers_for_an_edit_as_those_before(place: Place) -> None:
    place.write(escalating("30m"))
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += 31 * MINUTE
        desk.decide(request, "edit", by="mia", arguments={"what": "b"})
        assert desk.resume().stop == "final"
    assert place.done == ["pay b"]


@pytest.mark.promise("G5", "G10")
def test_an_edit_to_what_policy_allows_is_answered_for_by_its_editor(place: Place) -> None:
    place.write(
        rule("ask", TOOLS, 'approvers = ["cfo"]', 'when = [{argument = "what", equals = "a"}]')
    )
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "edit", by="cfo", arguments={"what": "b"})
        assert desk.resume().stop == "final"
    assert place.done == ["pay b"]


@pytest.mark.promise("G10")
def test_no_vote_is_dropped_where_policy_asks_nobody_any_more(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["cfo"]'))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve", by="cfo")
        place.write(rule("allow", TOOLS))
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
@pytest.mark.parametrize("requester", ["Ana", "ANA", "\uff41na"])
def test_an_excluded_requester_does_not_decide_under_another_spelling(
    place: Place, requester: str
) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo"]', "exclude_requester = true"))
    with place.desk(PAY) as desk:
        (request,) = desk.start(requester=requester).waiting
        assert desk.refused(request, "approve", by="ana") == "not_an_approver"
        desk.decide(request, "approve", by="bo")


@pytest.mark.promise("D4", "G10")
def test_a_requester_who_may_not_approve_may_not_settle_either(place: Place) -> None:
    @tool(approval="never")
    def pay(what: str) -> str:
        """Pay, and never hear of it."""
        raise ConnectionError(what)

    place.write(escalating("30m", "exclude_requester = true", first="bo", then="ana"))
    clock = Clock()
    with place.desk(PAY, pay, clock=clock) as desk:
        (request,) = desk.start(requester="ana").waiting
        desk.decide(request, "approve", by="bo")
        (settlement,) = desk.resume().waiting
        clock.now += HOUR

        def settle(by: str) -> Any:
            return desk.do(lambda p: p.settle(settlement, by=by, happened=True, detail="paid"))

        assert code_of(lambda: settle("ana")) == "not_an_approver"
        settle("bo")


@pytest.mark.parametrize("requester", ["ana ", "@requester", "a\nb"])
def test_what_is_no_name_is_no_requester(place: Place, requester: str) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana"]'))
    with place.desk(PAY) as desk:
        assert code_of(lambda: desk.start(requester=requester)) == "invalid_requester"


@pytest.mark.promise("G12")
def test_who_was_reached_by_escalation_gives_no_grant_that_would_cover_nothing(
    place: Place,
) -> None:
    place.write(escalating("30m"))
    clock = Clock()
    terms = GrantTerms(scope="run", lasts=HOUR, uses=3, any=("what",))
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        clock.now += 31 * MINUTE
        assert desk.refused(request, "approve", by="mia", grant=terms) == "grant_needs_asked"
        desk.decide(request, "approve", by="mia")


@pytest.mark.promise("G6", "D5")
def test_a_command_id_that_is_used_again_swallows_no_other_word(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo"]', "quorum = 2"))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting

        def said(decision: str, by: str, **more: Any) -> str:
            word: Any = decision
            return code_of(lambda: desk.decide(request, word, by=by, command_id="1", **more))

        desk.decide(request, "approve", by="ana", command_id="1")
        desk.decide(request, "approve", by="ana", command_id="1")
        assert said("reject", "bo", reason="no") == "command_id_used"
        assert said("approve", "bo") == "command_id_used"
        assert said("reject", "ana", reason="no") == "command_id_used"
        desk.decide(request, "reject", by="bo", reason="no", command_id="2")
        desk.decide(request, "reject", by="bo", reason="no", command_id="2")
        with pytest.raises(InvalidInput):
            desk.decide(request, "reject", by="bo", reason=" ", command_id="2")
        assert code_of(
            lambda: desk.decide(request, "reject", by="bo", reason="other", command_id="2")
        ) == ("command_id_used")
        assert desk.show(request).status == "rejected"
    assert place.done == []


@pytest.mark.promise("D4", "D5")
def test_a_settlement_under_a_used_command_id_is_refused_where_it_says_otherwise(
    place: Place,
) -> None:
    place.write(rule("allow", TOOLS))

    @tool(approval="never")
    def pay(what: str) -> str:
        """Pay."""
        raise ConnectionError("gone")

    with place.desk(PAY, pay) as desk:
        (request,) = desk.start().waiting

        def settled(happened: bool | None, detail: str) -> Any:
            return desk.do(
                lambda placet: placet.settle(
                    request, by="ana", happened=happened, detail=detail, command_id="s"
                )
            )

        settled(True, "paid")
        settled(True, "paid")
        assert code_of(lambda: settled(True, "paid twice")) == "command_id_used"
        assert code_of(lambda: settled(False, "paid")) == "command_id_used"


def test_what_was_taken_back_is_the_first_of_its_kind_again(place: Place) -> None:
    place.write(rule("ask", TOOLS, "first_of_its_kind = true", 'approvers = ["ana"]'))
    done: list[str] = []
    pay = effect(done, approval="never")

    @pay.compensate(safe_if_absent=True)
    def back(what: str) -> str:
        """Pay back."""
        done.append(f"back {what}")
        return "back"

    @tool(approval="never")
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    script = [calls(call("pay", what="a"), call("fail")), call("pay", what="c"), say("ok")]
    agent = Agent(
        name="support",
        model=ScriptedModel(script),
        tools=[pay, fail],
        on_failure="compensate_earlier",
    )
    with place.desk(script, agent=agent) as desk:
        (first,) = desk.start().waiting
        desk.decide(first, "approve")
        (second,) = desk.resume().waiting
        assert second != first
    assert done == ["pay a", "back a"]


def _open(desk: Any) -> str:
    """Give the one request that is not closed."""
    (found,) = [each for each in desk.state().requests.values() if each.pending]
    waits: str = found.id
    return waits


@pytest.mark.promise("D5")
def test_the_same_word_under_the_same_command_id_is_the_same_answer(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo"]', "quorum = 2"))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting

        def edited(what: str) -> Any:
            return desk.decide(request, "edit", by="ana", arguments={"what": what}, command_id="e")

        edited("b")
        edited("b")
        assert code_of(lambda: edited("c")) == "command_id_used"
        waits = _open(desk)
        terms = GrantTerms(scope="run", lasts=HOUR, uses=3, any=("what",))
        desk.decide(waits, "approve", by="bo", command_id="a")
        again = code_of(lambda: desk.decide(waits, "approve", by="bo", command_id="a", grant=terms))
        assert again == "command_id_used"


@pytest.mark.promise("G10")
def test_a_requester_who_is_an_approver_too_has_one_vote(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["@requester", "ana", "bo"]', "quorum = 2"))
    with place.desk(PAY) as desk:
        (request,) = desk.start(requester="Ana").waiting
        desk.decide(request, "approve", by="ana")
        assert desk.refused(request, "approve", by="Ana") == "not_an_approver"
        assert desk.resume().stop == "approval_required"
        desk.decide(request, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_a_deputy_whose_time_ends_before_the_deadline_is_not_turned_away_now(place: Place) -> None:
    soon = (datetime.now(UTC) + HOUR).isoformat(timespec="seconds")
    asks = rule("ask", TOOLS, 'approvers = ["ana"]')
    place.write(asks)
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        place.write(f'[[delegation]]\nfrom = "ana"\nto = "dan"\nuntil = {soon}\n{asks}')
        row = desk.placet.engine.store.find_request("main", request)
        assert row is not None
        desk.placet.people.check_authority(row, by="dan")
        desk.decide(request, "approve", by="dan")
