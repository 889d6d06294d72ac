"""Whom a policy file has decide, and what a file that changes makes of what waits (G10, G13)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import tool
from placet.agent.models.scripted import call, calls, say
from placet.policy.faults import PolicyTrouble
from tests.runtime.desk import Clock, code_of, effect
from tests.runtime.policed import PAY, TOOLS, Place, rule

HOUR = timedelta(hours=1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- people -----------------------------------------------------------------------------------


@pytest.mark.promise("G10")
@pytest.mark.conformance(38)
def test_a_rules_quorum_and_its_requester_hold(place: Place) -> None:
    place.write(
        '[groups]\nfinance = ["ana", "bo", "cy"]\n'
        + rule("ask", TOOLS, 'approvers = ["@finance"]', "quorum = 2", "exclude_requester = true")
    )
    with place.desk(PAY) as desk:
        (request,) = desk.start(requester="bo").waiting
        desk.decide(request, "approve", by="ana")
        assert desk.refused(request, "approve", by="bo") == "not_an_approver"
        assert desk.resume().stop == "approval_required"
        desk.decide(request, "approve", by="cy")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_a_deputy_decides_until_the_end_of_the_delegation_and_is_looked_at_again(
    place: Place,
) -> None:
    place.write(
        '[[delegation]]\nfrom = "ana"\nto = "dan"\nuntil = 2026-11-29T13:00:00Z\n'
        + rule("ask", TOOLS, 'approvers = ["ana"]')
    )
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve", by="dan")
        clock.now += HOUR
        assert desk.resume().stop == "approval_required"
        assert "VotesDropped" in desk.kinds()
        assert desk.refused(request, "approve", by="dan") == "not_an_approver"
        desk.decide(request, "approve", by="ana")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.conformance(6)
def test_where_the_rules_have_nobody_in_common_nobody_is_asked(place: Place) -> None:
    place.write(
        rule("ask", TOOLS, 'approvers = ["ana"]', name="one")
        + rule("ask", TOOLS, 'approvers = ["bo"]', name="two")
    )
    with place.desk(PAY) as desk:
        assert desk.start().stop == "final"
        assert desk.results()[0].startswith("No approver: ")
    assert place.done == []


@pytest.mark.promise("G9")
@pytest.mark.conformance(8)
def test_escalation_reaches_more_people_and_they_may_decide(place: Place) -> None:
    place.write(
        rule(
            "ask", TOOLS, 'approvers = ["ana"]', 'escalate = [{after = "10m", approvers = ["mia"]}]'
        )
    )
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        assert desk.refused(request, "approve", by="mia") == "not_an_approver"
        clock.now += timedelta(minutes=10)
        desk.decide(request, "approve", by="mia")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("D4", "G10")
def test_who_may_approve_a_call_may_say_what_became_of_it(place: Place) -> None:
    @tool(approval="never", surface="payments")
    def pay(what: str) -> str:
        """Pay, and never hear of it."""
        raise ConnectionError(what)

    place.write(rule("ask", TOOLS, 'approvers = ["bo"]'))
    with place.desk(PAY, pay) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve", by="bo")
        (settlement,) = desk.resume().waiting

        def settle(by: str) -> Any:
            return desk.do(lambda p: p.settle(settlement, by=by, happened=True, detail="paid"))

        assert code_of(lambda: settle("ana")) == "not_an_approver"
        settle("bo")
        assert desk.resume().stop == "final"


def test_an_edit_to_what_a_rule_denies_is_denied(place: Place) -> None:
    place.write(
        rule("ask", TOOLS, name="one")
        + rule("deny", TOOLS, 'when = [{argument = "what", equals = "z"}]', name="two")
    )
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        assert desk.decide(request, "edit", arguments={"what": "z"}).code == "policy_denied"
        assert desk.resume().stop == "final"
    assert place.done == []


# --- a policy that changes --------------------------------------------------------------------

ASKS = rule("ask", TOOLS, 'approvers = ["ana", "bo"]')


@pytest.mark.promise("G13", "G1")
@pytest.mark.conformance(14, 24)
def test_what_was_approved_is_denied_where_the_policy_denies_it_by_now(place: Place) -> None:
    place.write(ASKS)
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        place.write(rule("deny", TOOLS, 'reason = "No more."'))
        assert desk.resume().stop == "final"
        assert "No more." in desk.results()[0]
        assert desk.show(request).status == "voided"
    assert place.done == []


@pytest.mark.promise("G13", "G1")
@pytest.mark.parametrize(
    "broken, says",
    [
        ("nonsense = 1\n", "There is no key 'nonsense' in a policy file."),
        (None, "It is not there."),
    ],
)
def test_what_was_approved_waits_while_the_file_is_broken_and_runs_once_it_is_mended(
    place: Place, broken: str | None, says: str
) -> None:
    place.write(ASKS)
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        if broken is None:
            place.policy.unlink()
        else:
            place.write(broken)
        with pytest.raises(PolicyTrouble, match=says):
            desk.resume()
        assert desk.show(request).status == "approved"
        assert place.done == []
        place.write(ASKS)
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G9", "G1")
def test_what_was_approved_expires_where_the_file_is_not_mended_by_its_deadline(
    place: Place,
) -> None:
    place.write(ASKS)
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        place.write("nonsense = 1\n")
        clock.now += 25 * HOUR
        assert desk.resume().stop == "final"
        assert desk.show(request).status == "expired"
    assert place.done == []


@pytest.mark.promise("G13")
def test_what_was_approved_is_asked_anew_where_the_policy_demands_more_by_now(
    place: Place,
) -> None:
    place.write(ASKS)
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo"]', "quorum = 2"))
        (again,) = desk.resume().waiting
        assert again != request
        desk.decide(again, "approve", by="ana")
        desk.decide(again, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_the_vote_of_who_may_not_approve_any_more_is_dropped(place: Place) -> None:
    place.write(ASKS)
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve", by="ana")
        place.write(rule("ask", TOOLS, 'approvers = ["bo"]'))
        assert desk.resume().stop == "approval_required"
        assert desk.refused(request, "approve", by="ana") == "not_an_approver"
        desk.decide(request, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_a_vote_counts_by_the_rule_that_asks_when_the_action_is_about_to_run(
    place: Place,
) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo"]', name="before"))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve", by="ana")
        place.write(rule("ask", TOOLS, 'approvers = ["bo"]', name="after"))
        (anew,) = desk.resume().waiting
        assert anew != request
        assert desk.refused(anew, "approve", by="ana") == "not_an_approver"
        desk.decide(anew, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


# --- people who come and go while a request waits ---------------------------------------------


@pytest.mark.promise("G10")
@pytest.mark.conformance(38)
def test_where_nobody_who_was_asked_is_left_whoever_the_rule_names_today_decides(
    place: Place,
) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana"]'))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        assert desk.refused(request, "approve", by="bo") == "not_an_approver"
        place.write(rule("ask", TOOLS, 'approvers = ["bo"]'))
        assert desk.refused(request, "approve", by="ana") == "not_an_approver"
        desk.decide(request, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_while_enough_who_were_asked_are_left_nobody_else_decides(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo", "cy"]', "quorum = 2"))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        place.write(rule("ask", TOOLS, 'approvers = ["ana", "bo", "dan"]', "quorum = 2"))
        assert desk.refused(request, "approve", by="dan") == "not_an_approver"
        place.write(rule("ask", TOOLS, 'approvers = ["ana", "dan"]', "quorum = 2"))
        desk.decide(request, "approve", by="dan")
        desk.decide(request, "approve", by="ana")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_a_deputy_who_is_named_while_a_request_waits_decides_it(place: Place) -> None:
    asks = rule("ask", TOOLS, 'approvers = ["ana", "bo"]')
    place.write(asks)
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        until = "until = 2026-11-29T13:00:00Z\n"
        place.write('[[delegation]]\nfrom = "ana"\nto = "dan"\n' + until + asks)
        desk.decide(request, "approve", by="dan")
        desk.do(lambda placet: placet.withdraw(request, by="dan"))
        clock.now += HOUR
        assert desk.refused(request, "approve", by="dan") == "not_an_approver"
        desk.decide(request, "approve", by="ana")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_a_requester_who_is_excluded_does_not_stand_in_for_those_who_left(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["ana"]', "exclude_requester = true"))
    with place.desk(PAY) as desk:
        (request,) = desk.start(requester="bo").waiting
        place.write(rule("ask", TOOLS, 'approvers = ["bo", "cy"]', "exclude_requester = true"))
        assert desk.refused(request, "approve", by="bo") == "not_an_approver"
        desk.decide(request, "approve", by="cy")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G10")
def test_a_rule_that_was_renamed_takes_authority_from_nobody(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'approvers = ["bo"]', name="before"))
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        place.write(rule("ask", TOOLS, 'approvers = ["bo"]', name="after"))
        desk.decide(request, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G1")
def test_while_the_file_is_broken_nobody_decides_and_it_says_where(place: Place) -> None:
    place.write(ASKS)
    with place.desk(PAY) as desk:
        (request,) = desk.start().waiting
        place.write("\n[surfaces]\npay = 1\n")
        with pytest.raises(Exception, match=r"placet.policy.toml:4: pay must be one of") as error:
            desk.decide(request, "approve")
        assert getattr(error.value, "code", "") == "policy_broken"
        place.write(ASKS)
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G1")
def test_while_the_file_is_broken_every_call_is_denied_with_its_place(place: Place) -> None:
    place.write("[[rule]]\nname = 'x'\nruling = 'alow'\n")
    with place.desk(PAY) as desk:
        assert desk.start().stop == "final"
        (told,) = desk.results()
        assert told.startswith("Denied by policy (policy file): ")
        assert "placet.policy.toml:4: ruling must be one of allow, ask, deny." in told
    assert place.done == []


@pytest.mark.conformance(24)
def test_what_was_allowed_is_ruled_on_again_when_it_is_about_to_run(place: Place) -> None:
    mail = effect(place.done, "mail", approval="always", surface="mail")
    pay = effect(place.done, approval="never", surface="payments")
    script = [calls(call("mail", what="a"), call("pay", what="b")), say("ok")]
    place.write("")
    with place.desk(script, mail, pay) as desk:
        (request,) = desk.start().waiting
        place.write(rule("deny", TOOLS))
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
    assert place.done == ["mail a"]


def test_the_version_of_the_policy_is_on_record(place: Place) -> None:
    versions = []
    for number, text in enumerate((ASKS, ASKS, rule("ask", TOOLS))):
        place.write(text)
        with place.desk(PAY) as desk:
            desk.start(session=f"s{number}", run_id=f"run_{number}")
            state = desk.state(f"run_{number}", session=f"s{number}")
            versions += [request.policy_version for request in state.requests.values()]
    assert versions[0] == versions[1] != versions[2]
