"""Who may decide a request at an instant: those asked, as policy is today, and stand-ins (G10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.deciders import check_authority, may_decide, too_few, with_heirs
from placet.core.errors import NotPermitted
from placet.core.state import Request
from placet.core.values import Needs, Principal
from tests.core.build import (
    ANN,
    ASK,
    BOB,
    HOUR,
    World,
    answer,
    approve,
    asking,
    edit,
    question,
    reject,
    settle,
    sound,
    unsettled,
)


def asked(*people: str, quorum: int = 1, exclude_requester: bool = False) -> tuple[World, Request]:
    """Give a world in which a request waits for people."""
    needs = Needs(approvers=people, quorum=quorum, exclude_requester=exclude_requester)
    world = asking(replace(ASK, needs=needs))
    return world, world.asked()


def test_those_decide_who_were_asked_and_are_named_today() -> None:
    world, request = asked("ana", "bo")
    eligible = frozenset({"bo", "cy"})
    assert may_decide(request, eligible, {}, now=world.state.now) == {"bo"}


@pytest.mark.promise("G10")
def test_a_stand_in_may_decide_until_the_end_by_the_stores_own_time() -> None:
    world, request = asked("ana")
    now = world.state.now
    stand_ins = {"dan": now + HOUR, "eve": None}
    last = now + HOUR - timedelta(microseconds=1)
    assert may_decide(request, frozenset({"ana"}), stand_ins, now=last) == {"ana", "dan", "eve"}
    assert may_decide(request, frozenset({"ana"}), stand_ins, now=now + HOUR) == {"ana", "eve"}
    later = now + 2 * HOUR
    assert may_decide(request, frozenset({"ana"}), stand_ins, now=later) == {"ana", "eve"}


@pytest.mark.promise("G10")
def test_nobody_else_decides_while_enough_of_those_who_were_asked_are_left() -> None:
    _, request = asked("ana", "bo", "cy", quorum=2)
    heirs = {"dan": None}
    assert with_heirs(request, frozenset({"ana", "bo", "dan"}), {}, heirs) == {}
    assert with_heirs(request, frozenset({"ana", "dan"}), {}, heirs) == heirs


def test_a_stand_in_is_one_of_those_who_are_left() -> None:
    world, request = asked("ana", "bo", quorum=2)
    deputy = {"dan": world.state.now + HOUR}
    assert with_heirs(request, frozenset({"ana"}), deputy, {"eve": None}) == deputy


@pytest.mark.promise("G10")
def test_a_requester_who_is_excluded_stands_in_for_nobody() -> None:
    world, request = asked("ana", exclude_requester=True)
    me = request.requester
    heirs = {me: None, "cy": None}
    stand_ins = with_heirs(request, frozenset({me, "cy"}), {}, heirs)
    assert may_decide(request, frozenset({me, "cy"}), stand_ins, now=world.state.now) == {"cy"}
    alone = with_heirs(request, frozenset({"ana", me}), {}, heirs)
    assert may_decide(request, frozenset({"ana", me}), alone, now=world.state.now) == {"ana"}


@pytest.mark.promise("G10")
@pytest.mark.parametrize("spelt", ["{}", " {}", "{} "])
@pytest.mark.parametrize("case", [str, str.upper, str.title])
def test_a_requester_who_is_left_out_is_told_so_however_the_name_is_spelt(
    spelt: str, case: Callable[[str], str]
) -> None:
    world, request = asked("ana", exclude_requester=True)
    name = spelt.format(case(request.requester))
    with pytest.raises(NotPermitted) as refused:
        check_authority(
            request, Principal(id=name), frozenset({"ana", name}), {}, now=world.state.now
        )
    told = f"{name} may not decide this, which is for {request.requester}; ana may."
    assert refused.value.message == told


@pytest.mark.promise("G10")
def test_whoever_is_not_the_requester_is_not_told_to_be_left_out() -> None:
    for excluded in (True, False):
        world, request = asked("ana", exclude_requester=excluded)
        who = Principal(id="mallory" if excluded else request.requester)
        with pytest.raises(NotPermitted, match=r"may not decide this; ana may\. "):
            check_authority(request, who, frozenset({"ana"}), {}, now=world.state.now)


@pytest.mark.promise("G10")
def test_too_few_are_left_below_the_quorum_and_of_what_is_no_approval_below_one() -> None:
    _, request = asked("ana", "bo", quorum=2)
    assert [too_few(request, left) for left in ((), ("ana",), ("ana", "bo"))] == [True, True, False]
    for kind in ("question", "settlement"):
        other = replace(request, kind=kind)
        assert [too_few(other, left) for left in ((), ("ana",))] == [True, False]


@pytest.mark.promise("G10")
def test_where_nobody_is_left_at_all_it_says_so() -> None:
    world, request = asked("ana")
    with pytest.raises(NotPermitted, match="Nobody may decide this now") as refused:
        check_authority(request, Principal(id="ana"), frozenset(), {}, now=world.state.now)
    assert "placet cancel" in refused.value.hint


def waiting(kind: str) -> tuple[World, str]:
    """Give a world in which a request of a kind waits for ann alone, and its id."""
    needs = Needs(approvers=("ann",))
    if kind == "settlement":
        world = unsettled(approvers=("ann",))
    elif kind == "question":
        world = World()
        world.start()
        world.propose(question(ruling=replace(ASK, needs=needs)))
    else:
        world = asking(replace(ASK, needs=needs))
    return world, world.asked().id


SAID = (e.VoteCast, e.RequestRejected, e.RequestEdited, e.RequestSettled, e.QuestionAnswered)

DECISIONS: dict[str, tuple[Any, ...]] = {
    "approval": (
        approve,
        reject,
        lambda request, by, **more: edit(
            request, sound(arguments={"amount": 2}, ruling=ASK), by, **more
        ),
    ),
    "question": (lambda request, by, **more: answer(request, by=by, **more), reject),
    "settlement": (lambda request, by, **more: settle(request, True, by, **more),),
}


@pytest.mark.promise("G10")
@pytest.mark.parametrize("by, stood_in", [(ANN, False), (BOB, True)], ids=["asked", "stand-in"])
@pytest.mark.parametrize("kind", DECISIONS)
def test_the_record_says_of_each_decision_whether_who_took_it_stood_in(
    kind: str, by: Principal, stood_in: bool
) -> None:
    for decision in DECISIONS[kind]:
        world, request = waiting(kind)
        command: c.Command = decision(
            request, by, eligible=frozenset({"ann"}), stand_ins={"bob": world.state.now + HOUR}
        )
        events = world.apply(command)
        said = [x for x in events if isinstance(x, SAID) and x.request == request]
        assert [(event.by, event.stood_in) for event in said] == [(by.id, stood_in)]
