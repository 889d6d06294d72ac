"""What is on record of deliveries, and what a request ends as that nobody could be told of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import events as e
from placet.core.commands import EndSession, Lose, RecordDelivery, Withdraw
from placet.core.state import Delivery, Expired, Request
from placet.core.values import Ask, Recovery
from placet.core.work import CallModel
from tests.core.build import (
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    HOUR,
    OTHER,
    START,
    World,
    approve,
    asking,
    at,
    edit,
    names,
    question,
    reject,
    settle,
    sound,
)


def the(world: World) -> Request:
    """Give the world's latest request, open or not."""
    return list(world.state.requests.values())[-1]


def deliver(world: World, channel: str, *, at_all: bool, cause: str = "HTTP 500") -> list[str]:
    """Record a delivery, or that there was none, of the world's latest request."""
    return names(
        world.apply(
            RecordDelivery(request=the(world).id, channel=channel, delivered=at_all, cause=cause)
        )
    )


def to_the_deadline(world: World) -> list[str]:
    world.until(the(world).deadline_at)
    return names(world.expire())


@pytest.mark.promise("G9", "H3")
def test_a_request_that_no_channel_could_tell_of_ends_unreachable_and_the_model_is_told() -> None:
    world = asking()
    deliver(world, "mail", at_all=False)
    deliver(world, "phone", at_all=False)
    assert to_the_deadline(world) == ["RequestExpired", "CallEnded"]
    assert world.code() == "unreachable"
    assert world.told() == (
        f"Unreachable: no notification could be delivered by {START + HOUR:%Y-%m-%d %H:%M:%S} UTC"
        " (tried: mail, phone).\nNobody could be asked, and the call did not run."
    )
    assert the(world).state == Expired(votes=(), unreachable=("mail", "phone"))
    assert world.work() == CallModel(step=2)


@pytest.mark.promise("G9")
def test_without_any_attempt_it_only_expires_for_people_look_into_an_inbox() -> None:
    world = asking()
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("G9", "H3")
@pytest.mark.parametrize("order", [(True, False), (False, True)], ids=["first", "last"])
def test_one_channel_that_has_told_of_it_makes_it_expire(order: tuple[bool, bool]) -> None:
    world = asking()
    deliver(world, "mail", at_all=order[0])
    deliver(world, "phone", at_all=order[1])
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("G9", "H3")
def test_a_late_success_before_the_deadline_makes_it_expire_again() -> None:
    world = asking()
    deliver(world, "mail", at_all=False)
    assert the(world).unreached == ("mail",)
    assert deliver(world, "mail", at_all=True) == ["NoticeDelivered"]
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("G9")
def test_a_success_at_the_deadline_or_after_it_comes_too_late() -> None:
    world = asking()
    deliver(world, "mail", at_all=False)
    world.until(the(world).deadline_at)
    assert deliver(world, "mail", at_all=True) == []
    world.expire()
    assert world.code() == "unreachable"


@pytest.mark.promise("G9")
def test_a_failure_at_the_deadline_comes_too_late_as_well() -> None:
    world = asking()
    world.until(the(world).deadline_at)
    assert deliver(world, "mail", at_all=False) == []
    world.expire()
    assert world.code() == "expired"


@pytest.mark.promise("H3")
def test_each_change_is_on_record_and_no_retry() -> None:
    world = asking()
    found = [deliver(world, "mail", at_all=so) for so in (False, False, True, True, False, True)]
    assert found == [
        ["NoticeUndelivered"],
        [],
        ["NoticeDelivered"],
        [],
        ["NoticeUndelivered"],
        ["NoticeDelivered"],
    ]


@pytest.mark.promise("G9", "H3")
def test_what_was_delivered_once_stays_so_though_a_later_notice_fails() -> None:
    world = asking()
    deliver(world, "mail", at_all=True)
    deliver(world, "mail", at_all=False)
    (known,) = the(world).deliveries
    assert (known.delivered, known.cause_ref is not None) == (True, True)
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("H3", "H4")
def test_the_cause_is_a_text_that_stands_by_reference() -> None:
    world = asking()
    deliver(world, "mail", at_all=False, cause="HTTP 500")
    deliver(world, "phone", at_all=False, cause=" ")
    causes = [x.cause for x in world.log if isinstance(x, e.NoticeUndelivered)]
    assert [cause.body for cause in causes] == ["HTTP 500", "no cause given"]
    assert the(world).deliveries == tuple(
        Delivery(channel=channel, delivered=False, cause_ref=cause.ref)
        for channel, cause in zip(("mail", "phone"), causes, strict=True)
    )


@pytest.mark.promise("G9")
def test_who_has_voted_was_reached_and_so_it_expires() -> None:
    world = asking(ASK_TWO)
    deliver(world, "mail", at_all=False)
    world.apply(approve(the(world).id))
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("G9", "G7")
@pytest.mark.parametrize("ruling", [ASK, ASK_TWO], ids=["alone", "of two"])
def test_who_has_voted_and_taken_it_back_was_reached_all_the_same(ruling: Ask) -> None:
    world = asking(ruling)
    deliver(world, "mail", at_all=False)
    world.apply(approve(the(world).id))
    world.apply(Withdraw(request=the(world).id, by=ANN))
    assert the(world).unreached == ()
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("G9", "G10")
def test_whose_vote_was_dropped_was_reached_all_the_same() -> None:
    world = asking()
    deliver(world, "mail", at_all=False)
    world.apply(approve(the(world).id))
    world.lease()
    assert names(world.begin(eligible=frozenset({"bob"})))[0] == "VotesDropped"
    to_the_deadline(world)
    assert world.code() == "expired"


@pytest.mark.promise("G9")
def test_what_was_approved_and_not_begun_in_time_expires() -> None:
    world = asking()
    deliver(world, "mail", at_all=False)
    world.apply(approve(the(world).id))
    assert to_the_deadline(world)[:2] == ["RequestExpired", "CallEnded"]
    assert world.code() == "expired"


@pytest.mark.promise("G9")
def test_a_question_can_be_unreachable_too() -> None:
    world = World()
    world.start()
    world.propose(question())
    deliver(world, "mail", at_all=False)
    to_the_deadline(world)
    assert world.code() == "unreachable"


@pytest.mark.promise("D4")
def test_a_settlement_never_ends_so_and_can_still_be_settled() -> None:
    world = World()
    world.start()
    world.propose(replace(sound(ruling=ALLOW, recovery=Recovery())))
    world.begin()
    world.wait(timedelta(minutes=10))
    world.lease(holder=OTHER)
    world.apply(Lose(at=at(), attempt=1, fence=world.run().fence, cause="gone"))
    settlement = the(world)
    deliver(world, "mail", at_all=False)
    world.until(settlement.deadline_at)
    world.expire()
    assert world.code() == "outcome_unknown"
    assert deliver(world, "mail", at_all=True) == ["NoticeDelivered"]
    assert names(world.apply(settle(settlement.id, False))) == ["RequestSettled"]


@pytest.mark.promise("G6", "G9")
def test_it_is_remembered_by_its_key_as_a_no_that_nobody_is_asked_about_again() -> None:
    world = asking()
    deliver(world, "mail", at_all=False)
    to_the_deadline(world)
    world.lease()
    world.propose(sound(step=2, arguments={"amount": 1000}))
    assert world.code(step=2) == "unreachable"
    assert not [request for request in world.state.requests.values() if request.pending]
    world.propose(sound(step=3, arguments={"amount": 1000}))
    assert world.run().stopping == "rejection_loop"


@pytest.mark.promise("H3")
def test_what_closes_a_request_is_on_record_too_and_changes_nothing_else() -> None:
    world = asking()
    deliver(world, "mail", at_all=True)
    world.apply(reject(the(world).id))
    before = world.state
    assert deliver(world, "mail", at_all=False) == ["NoticeUndelivered"]
    assert world.code() == "rejected"
    assert (world.state.calls, world.state.runs) == (before.calls, before.runs)


@pytest.mark.promise("H3", "H4")
def test_a_session_whose_texts_were_erased_takes_no_record() -> None:
    world = asking()
    world.apply(reject(the(world).id))
    world.apply(EndSession(by=ANN))
    world.apply(EndSession(by=ANN, erase=True))
    command = RecordDelivery(request=the(world).id, channel="mail", delivered=True)
    assert world.refused(command) == "session_erased"


def test_a_delivery_names_a_request_of_its_session_and_a_channel() -> None:
    world = asking()
    known = the(world).id
    unknown = RecordDelivery(request="rq_other", channel="mail", delivered=True)
    assert world.refused(unknown) == "request_not_found"
    nameless = RecordDelivery(request=known, channel="", delivered=True)
    assert world.refused(nameless) == "no_channel"


@pytest.mark.promise("H3")
def test_a_version_that_an_edit_made_is_told_of_anew() -> None:
    world = asking(ASK_TWO)
    deliver(world, "mail", at_all=True)
    assert the(world).deliveries
    old = the(world).id
    world.apply(edit(old, sound(arguments={"amount": 5}, ruling=ASK_TWO)))
    (new,) = [request for request in world.state.requests.values() if request.id != old]
    assert (new.replaces, new.deliveries) == (old, ())
