"""What people decide about requests: votes, noes, edits, deadlines and authority."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import events as e
from placet.core.commands import Begin, CancelRun, Expire, Withdraw
from placet.core.state import Approved, Cancelled, Open, Spent, Superseded
from placet.core.values import Ask, Needs, Principal
from placet.core.work import CallModel, ExpireDue, RunEffect, Wait
from tests.core.build import (
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    BOB,
    BOT,
    DENY,
    DONE,
    EVE,
    HOUR,
    MICROSECOND,
    World,
    approve,
    approved,
    asking,
    at,
    edit,
    names,
    reject,
    sound,
)


@pytest.mark.promise("G7", "D1")
def test_a_call_that_must_be_asked_about_waits_with_no_lease() -> None:
    world = asking()
    assert names(tuple(world.log))[-3:] == ["CallProposed", "RequestOpened", "LeaseReleased"]
    assert world.work() == Wait(
        until=world.asked().deadline_at, requests=(world.asked().id,), held_by=()
    )


@pytest.mark.promise("G7")
@pytest.mark.conformance(22)
def test_the_same_decision_by_the_same_person_is_the_same_answer() -> None:
    world = asking()
    request = world.asked().id
    assert names(world.apply(approve(request))) == ["VoteCast"]
    assert world.apply(approve(request)) == ()
    assert world.refused(approve(request, BOB)) == "already_approved"
    assert world.refused(reject(request)) == "already_approved"


@pytest.mark.promise("G7")
@pytest.mark.conformance(22)
def test_a_second_rejection_by_another_is_a_conflict() -> None:
    world = asking()
    request = world.asked().id
    world.apply(reject(request))
    assert world.apply(reject(request)) == ()
    assert world.apply(reject(request, reason=" too much\n")) == ()
    assert world.refused(reject(request, reason="another")) == "already_rejected"
    assert world.refused(reject(request, reason="")) == "already_rejected"
    assert world.refused(reject(request, BOB)) == "already_rejected"
    assert world.refused(approve(request, BOB)) == "already_rejected"


@pytest.mark.promise("G7", "G10")
def test_a_quorum_of_two_needs_two_people() -> None:
    world = asking(ASK_TWO)
    request = world.asked().id
    world.apply(approve(request))
    assert world.asked().state == Open(votes=("ann",))
    assert world.apply(approve(request)) == ()
    assert isinstance(world.work(), Wait)
    world.apply(approve(request, BOB))
    assert world.asked().state == Approved(votes=("ann", "bob"))
    assert world.work() == RunEffect(at=at())


@pytest.mark.promise("G7")
def test_one_no_closes_a_request_that_others_approved() -> None:
    world = asking(ASK_TWO)
    request = world.asked().id
    world.apply(approve(request))
    world.apply(reject(request, BOB))
    assert world.code() == "rejected"
    assert world.refused(approve(request, EVE)) == "already_rejected"


@pytest.mark.promise("G7")
def test_a_vote_may_be_withdrawn_until_it_is_spent() -> None:
    world = approved()
    request = world.asked().id
    assert names(world.apply(Withdraw(request=request, by=ANN))) == [
        "VoteWithdrawn",
        "LeaseReleased",
    ]
    assert world.refused(Withdraw(request=request, by=ANN)) == "no_vote"
    assert world.asked().state == Open()
    world.apply(approve(request))
    world.lease()
    world.begin()
    assert world.refused(Withdraw(request=request, by=ANN)) == "spent"


@pytest.mark.promise("G10")
def test_an_agent_can_neither_decide_nor_withdraw_under_a_persons_name() -> None:
    world = asking()
    request = world.asked().id
    assert world.refused(approve(request, BOT)) == "not_a_person"
    assert world.refused(reject(request, BOT)) == "not_a_person"
    assert world.refused(edit(request, sound(arguments={"amount": 5}), BOT)) == "not_a_person"
    world.apply(approve(request))
    assert world.refused(Withdraw(request=request, by=BOT)) == "not_a_person"


@pytest.mark.promise("G10")
@pytest.mark.conformance(38)
def test_only_named_and_eligible_people_decide() -> None:
    world = asking()
    request = world.asked().id
    assert world.refused(approve(request, EVE)) == "not_an_approver"
    assert world.refused(approve(request, eligible=frozenset({"bob"}))) == "not_an_approver"


@pytest.mark.promise("G10")
@pytest.mark.conformance(38)
def test_the_requester_is_excluded_where_the_rule_says_so() -> None:
    needs = Needs(approvers=("user", "bob"), exclude_requester=True)
    world = asking(replace(ASK, needs=needs))
    request = world.asked().id
    assert world.refused(approve(request, Principal(id="user"))) == "not_an_approver"
    world.apply(approve(request, BOB))


@pytest.mark.promise("G1")
@pytest.mark.conformance(6)
@pytest.mark.parametrize(
    "needs",
    [
        Needs(approvers=()),
        Needs(approvers=("user",), exclude_requester=True),
        Needs(approvers=("ann", "ann"), quorum=2),
    ],
)
def test_a_call_that_nobody_may_approve_does_not_run(needs: Needs) -> None:
    world = asking(replace(ASK, needs=needs))
    assert world.code() == "no_approver"
    assert not world.state.requests


@pytest.mark.promise("G10")
def test_votes_without_authority_are_dropped_as_the_action_is_about_to_run() -> None:
    world = asking(ASK_TWO)
    request = world.asked().id
    world.apply(approve(request))
    world.apply(approve(request, BOB))
    world.lease()
    events = world.begin(eligible=frozenset({"bob", "eve"}))
    assert names(events) == ["VotesDropped", "LeaseReleased"]
    assert world.asked().state == Open(votes=("bob",))
    world.apply(approve(request, EVE))
    world.lease()
    assert "AttemptBegun" in names(world.begin(eligible=frozenset({"bob", "eve"})))


@pytest.mark.promise("G3")
@pytest.mark.conformance(15)
def test_a_decision_that_quotes_another_digest_is_refused() -> None:
    world = asking(ASK, ASK)
    first, second = world.asked(0), world.asked(1)
    assert world.refused(approve(first.id, digest=second.digest)) == "digest_mismatch"
    assert world.refused(reject(first.id, digest=second.digest)) == "digest_mismatch"
    world.apply(approve(first.id, digest=first.digest))


@pytest.mark.promise("G3")
def test_two_actions_that_look_alike_have_two_digests() -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments={"amount": 1}), sound(1, arguments={"amount": 1}))
    assert world.asked(0).digest != world.asked(1).digest
    assert world.call(0).call_key == world.call(1).call_key


@pytest.mark.promise("G3")
def test_a_salt_is_never_used_for_two_versions_of_one_action() -> None:
    world = asking()
    first = world.drafts[at()]
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5})))
    world.apply(Withdraw(request=world.asked().id, by=ANN))
    again = edit(world.asked().id, first)
    assert world.refused(again) == "digest_reused"


@pytest.mark.promise("G11")
def test_an_action_of_another_session_is_refused() -> None:
    world = World()
    world.start()
    assert world.refused(world.proposal(sound(session_id="s2"))) == "other_session"
    assert world.refused(approve("rq_of_another_session")) == "request_not_found"


@pytest.mark.promise("G4")
@pytest.mark.conformance(29)
def test_unreadable_arguments_are_rejected_or_edited_and_never_approved() -> None:
    world = asking(arguments="{not json")
    request = world.asked().id
    assert world.refused(approve(request)) == "unreadable_arguments"
    unreadable = sound(arguments="{neither")
    assert world.refused(edit(request, unreadable)) == "unreadable_edit"
    world.apply(edit(request, sound(arguments={"amount": 5})))
    assert isinstance(world.asked().state, Approved)


@pytest.mark.promise("G4")
def test_unreadable_arguments_cannot_be_allowed() -> None:
    world = World()
    world.start()
    allowed = world.proposal(sound(arguments="{", ruling=ALLOW))
    assert world.refused(allowed) == "unreadable_allowed"


# --- time -------------------------------------------------------------------------------------


@pytest.mark.promise("G9")
@pytest.mark.conformance(19)
def test_at_the_deadline_only_no_is_left_though_no_timer_has_run() -> None:
    world = approved()
    request = world.asked()
    world.until(request.deadline_at - MICROSECOND)
    world.lease()
    begin = world.beginning()
    world.until(request.deadline_at)
    assert world.refused(begin) == "expired"
    assert world.work() == ExpireDue()


@pytest.mark.promise("G9")
def test_a_decision_a_microsecond_before_the_deadline_counts_and_at_it_does_not() -> None:
    world = asking(ASK, ASK)
    world.until(world.asked().deadline_at)
    assert world.refused(approve(world.asked(0).id)) == "expired"
    assert world.refused(reject(world.asked(0).id)) == "expired"
    assert world.refused(edit(world.asked(0).id, sound(arguments={"amount": 5}))) == "expired"
    world.wait(-MICROSECOND)
    world.apply(approve(world.asked(0).id))


@pytest.mark.promise("G9", "G6")
def test_an_expired_request_has_no_decider_and_the_model_is_told_who_was_asked() -> None:
    world = asking()
    request = world.asked()
    world.until(request.deadline_at)
    assert names(world.expire()) == ["RequestExpired", "CallEnded"]
    assert world.code() == "expired"
    assert "ann, bob" in world.told()
    assert world.refused(approve(request.id)) == "expired"
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G9")
@pytest.mark.conformance(19)
def test_what_has_begun_does_not_expire_under_its_worker() -> None:
    world = approved()
    request = world.asked()
    world.begin()
    world.until(request.deadline_at)
    assert world.expire() == ()
    world.conclude(DONE)
    assert world.code() == "succeeded"
    assert isinstance(world.state.requests[request.id].state, Spent)


@pytest.mark.promise("G9")
def test_expiring_leaves_alone_what_is_not_due() -> None:
    world = asking(ASK, replace(ASK, lasts=2 * HOUR))
    world.wait(HOUR)
    world.apply(Expire(run="r1"))
    assert (world.code(0), world.code(1)) == ("expired", "Asking")


# --- edits ------------------------------------------------------------------------------------


@pytest.mark.promise("G5")
@pytest.mark.conformance(13)
def test_an_edit_is_a_new_action_and_the_old_one_can_never_run() -> None:
    world = asking()
    old = world.asked()
    old_digest = world.call().digest
    edited = sound(arguments={"amount": 500})
    assert names(world.apply(edit(old.id, edited))) == [
        "CallProposed",
        "RequestOpened",
        "RequestEdited",
        "VoteCast",
    ]
    new = world.asked()
    assert new.id != old.id
    assert new.digest != old.digest
    assert new.deadline_at == old.deadline_at
    assert world.call().tool_call_id == "tc1.0"
    assert world.call().edited_by == "ann"
    assert world.state.requests[old.id].state == Superseded(by="ann", successor=new.id)
    assert world.refused(approve(old.id)) == "superseded"
    world.lease()
    assert world.refused(world.beginning(digest=old_digest)) == "digest_mismatch"
    begun = world.begin(today=replace(edited, draft=replace(edited.draft, salt="9" * 32)))
    assert [x.request for x in begun if isinstance(x, e.AttemptBegun)] == [new.id]


@pytest.mark.promise("G5")
def test_an_edit_that_needs_more_votes_waits_for_them() -> None:
    world = asking()
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5}, ruling=ASK_TWO)))
    assert world.asked().state == Open(votes=("ann",))
    world.apply(approve(world.asked().id, BOB))
    assert isinstance(world.asked().state, Approved)


@pytest.mark.promise("G5")
def test_an_editor_without_a_vote_under_the_new_rule_leaves_it_to_others() -> None:
    world = asking()
    ruling = Ask(rule="large", needs=Needs(approvers=("eve",)), lasts=HOUR)
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5}, ruling=ruling)))
    assert world.asked().state == Open()


@pytest.mark.promise("G5")
def test_an_edit_to_what_policy_allows_is_answered_for_by_its_editor() -> None:
    world = asking()
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5}, ruling=ALLOW)))
    assert world.asked().state == Approved(votes=("ann",))


@pytest.mark.promise("G5", "G6")
def test_an_edit_to_what_policy_denies_ends_the_call_and_is_remembered_as_what_it_was() -> None:
    world = asking()
    original = world.call().call_key
    denied = sound(arguments={"amount": 5}, ruling=DENY)
    events = world.apply(edit(world.asked().id, denied))
    assert names(events) == ["RequestEdited", "CallEnded"]
    assert world.code() == "policy_denied"
    assert ("r1", denied.call_key) in world.state.noes
    assert ("r1", original) not in world.state.noes


@pytest.mark.promise("G5")
def test_an_edit_that_nobody_may_approve_ends_the_call() -> None:
    world = asking()
    nobody = Ask(rule="large", needs=Needs(approvers=()), lasts=HOUR)
    world.apply(edit(world.asked().id, sound(arguments={"amount": 5}, ruling=nobody)))
    assert world.code() == "no_approver"


@pytest.mark.promise("G5", "G6")
def test_an_edit_to_what_was_answered_no_is_answered_the_same() -> None:
    world = asking()
    world.apply(reject(world.asked().id))
    world.lease()
    world.propose(sound(0, step=2, arguments={"amount": 7}))
    again = sound(0, step=2, arguments={"amount": 1000})
    world.apply(edit(world.asked(step=2).id, again))
    assert world.code(step=2) == "rejected"


@pytest.mark.promise("G5")
def test_an_edit_changes_arguments_only() -> None:
    world = asking(ASK, ASK)
    request = world.asked().id
    assert world.refused(edit(request, sound(arguments={"amount": 1000}))) == "edit_unchanged"
    other = sound(tool="wire", arguments={"amount": 5})
    assert world.refused(edit(request, other)) == "edit_changes_call"
    assert world.refused(edit(request, sound(1, arguments={"amount": 5}))) == "edit_changes_call"
    world.apply(approve(request))
    assert world.refused(edit(request, sound(arguments={"amount": 5}))) == "already_approved"


# --- the end of a run under a request ---------------------------------------------------------


@pytest.mark.promise("G6")
@pytest.mark.conformance(21)
def test_cancelling_a_run_retires_all_its_requests_with_the_cause() -> None:
    world = asking(ASK, ASK)
    ids = [world.asked(0).id, world.asked(1).id]
    world.apply(approve(ids[1]))
    world.apply(CancelRun(run="r1", by=ANN, cause="enough"))
    states = [world.state.requests[i].state for i in ids]
    assert states == [Cancelled(cause="ann: enough")] * 2
    assert (world.code(0), world.code(1)) == ("cancelled", "cancelled")
    assert world.refused(approve(ids[0])) == "cancelled"


@pytest.mark.promise("G3")
@pytest.mark.conformance(15)
def test_an_approval_for_one_call_never_begins_another() -> None:
    world = asking(ASK, ASK)
    world.apply(approve(world.asked(0).id))
    world.lease()
    begin: Begin = world.beginning(1)
    assert world.refused(begin) == "not_approved"
    assert world.refused(world.beginning(1, digest=world.call(0).digest)) == "digest_mismatch"


def test_a_request_that_lasts_long_is_given_its_own_deadline() -> None:
    world = asking(replace(ASK, lasts=timedelta(days=9)))
    assert world.asked().deadline_at == world.state.now + timedelta(days=9)
