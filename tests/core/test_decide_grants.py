"""Standing grants are narrow, counted, ending and revocable (G12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.values import Ask, GrantTerms, Needs
from placet.core.work import Wait
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    BOB,
    BOT,
    DENY,
    DONE,
    EVERYBODY,
    HOUR,
    NOT_DONE,
    World,
    agent,
    approve,
    at,
    grant,
    names,
    reject,
    sound,
)

TO = {"amount": 5, "to": "shop"}
ONE_SHOP = GrantTerms(scope="run", lasts=HOUR, uses=3, same=("to",), any=("amount",))

NOT_HIMSELF = Needs(approvers=("ann", "bob"), exclude_requester=True)


def granted(terms: GrantTerms = ONE_SHOP, arguments: Any = None, **changes: Any) -> World:
    """Give a world in which a grant was given with an approval, and the approved call is done."""
    world = World()
    world.start()
    world.propose(sound(0, arguments=arguments or TO, **changes))
    world.apply(grant(world, world.asked().id, terms))
    world.lease()
    world.begin()
    world.conclude(DONE)
    return world


def proposed(world: World, step: int = 2, run: str = "r1", **changes: Any) -> str:
    """Propose a call of the next step, and give where it stands."""
    given: dict[str, Any] = {"arguments": {"amount": 7, "to": "shop"}, **changes}
    world.propose(sound(0, step=step, run=run, **given), run=run)
    return world.code(0, step=step, run=run)


@pytest.mark.promise("G12")
@pytest.mark.conformance(18)
def test_a_call_whose_every_argument_is_covered_runs_without_asking() -> None:
    world = granted()
    assert proposed(world) == "Allowed"
    begun = world.begin(0, step=2)
    assert [x.grant for x in begun if isinstance(x, e.AttemptBegun)] == list(world.state.grants)
    assert world.call(0, step=2).grant in world.state.grants


@pytest.mark.promise("G12")
@pytest.mark.conformance(18)
@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"amount": 7, "to": "casino"}},
        {"arguments": {"amount": 7, "to": "shop", "memo": "x"}},
        {"arguments": {"amount": 7}},
        {"arguments": '{"amount": 7, "to"'},
        {"tool": "wire"},
        {"fingerprint": "f2"},
        {"scope": ("pay", "more")},
        {"surface": "shell"},
    ],
    ids=["value", "more", "less", "unreadable", "tool", "fingerprint", "scope", "surface"],
)
def test_a_call_that_is_not_covered_in_one_thing_asks(changes: dict[str, Any]) -> None:
    assert proposed(granted(), **changes) == "Asking"


@pytest.mark.promise("G12")
@pytest.mark.conformance(18)
def test_it_ends_with_the_policy_under_which_it_was_given() -> None:
    world = granted()
    world.propose(sound(0, step=2, arguments=TO), policy_version="p2")
    assert world.code(0, step=2) == "Asking"


@pytest.mark.promise("G12")
def test_it_answers_ask_and_never_deny() -> None:
    assert proposed(granted(), ruling=DENY) == "policy_denied"


@pytest.mark.promise("G12")
def test_it_ends_by_its_instant() -> None:
    world = granted()
    world.wait(HOUR)
    world.lease()
    assert proposed(world) == "Asking"


@pytest.mark.promise("G12")
def test_it_ends_by_its_count_which_counts_what_begins() -> None:
    world = granted(replace(ONE_SHOP, uses=1))
    calls = [sound(index, step=2, arguments={"amount": index, "to": "shop"}) for index in (0, 1)]
    world.propose(*calls)
    assert [world.code(0, step=2), world.code(1, step=2)] == ["Allowed", "Allowed"]
    world.begin(0, step=2)
    world.conclude(DONE, 0, step=2)
    assert not world.state.grants
    assert names(world.begin(1, step=2))[:2] == ["CallProposed", "RequestOpened"]
    assert world.code(1, step=2) == "Asking"


@pytest.mark.promise("G12")
def test_it_ends_when_a_person_revokes_it_even_for_what_was_allowed_by_it() -> None:
    world = granted()
    proposed(world)
    (given,) = world.state.grants
    revoke = c.Revoke(grant=given, by=BOB, eligible=EVERYBODY)
    for other in (replace(revoke, by=BOT), replace(revoke, eligible=frozenset())):
        assert world.refused(other) in ("not_a_person", "not_an_approver")
    assert names(world.apply(revoke)) == ["GrantRevoked"]
    assert world.refused(revoke) == "grant_not_found"
    assert "RequestOpened" in names(world.begin(0, step=2))


@pytest.mark.promise("G12")
@pytest.mark.parametrize("scope,code", [("run", "Asking"), ("session", "Allowed")])
def test_one_for_a_run_ends_with_it_and_one_for_the_session_does_not(scope: Any, code: str) -> None:
    world = granted(replace(ONE_SHOP, scope=scope))
    world.propose(answer="done")
    world.start("r2")
    assert proposed(world, step=1, run="r2") == code


@pytest.mark.promise("G12")
@pytest.mark.parametrize("scope", ["run", "session"])
@pytest.mark.parametrize("children,code", [(False, "Asking"), (True, "Allowed")])
def test_it_reaches_child_runs_only_where_it_says_so(scope: Any, children: bool, code: str) -> None:
    world = granted(replace(ONE_SHOP, scope=scope, children=children))
    world.propose(agent(0, step=2))
    world.delegate("k1", 0, step=2)
    assert proposed(world, step=1, run="k1") == code


@pytest.mark.promise("G12")
def test_a_retry_of_what_began_under_it_asks_nobody() -> None:
    world = granted(replace(ONE_SHOP, uses=1))
    proposed(world, recovery=AGAIN)
    world.begin(0, step=2)
    world.conclude(NOT_DONE, 0, step=2)
    world.wait(HOUR)
    world.lease()
    assert names(world.begin(0, step=2)) == ["AttemptBegun"]


@pytest.mark.promise("G10", "G12")
def test_what_several_must_approve_one_person_cannot_permit_for_later() -> None:
    world = World()
    world.start()
    world.propose(sound(0, ruling=ASK_TWO, arguments=TO))
    request = world.asked().id
    assert world.refused(grant(world, request, ONE_SHOP)) == "grant_needs_one"
    assert names(world.apply(approve(request))) == ["VoteCast"]


@pytest.mark.promise("G12")
@pytest.mark.parametrize(
    "terms",
    [
        replace(ONE_SHOP, any=()),
        replace(ONE_SHOP, same=("to", "amount")),
        replace(ONE_SHOP, same=("to", "memo")),
        replace(ONE_SHOP, uses=0),
        replace(ONE_SHOP, lasts=0 * HOUR),
        replace(ONE_SHOP, lasts=24 * 365 * HOUR),
    ],
    ids=["unnamed", "both", "unknown", "no use", "no time", "for ever"],
)
def test_terms_that_are_not_whole_are_refused_and_nothing_is_approved(terms: GrantTerms) -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments=TO))
    assert world.refused(grant(world, world.asked().id, terms)) == "invalid_grant"
    assert world.asked().state.votes == ()  # type: ignore[union-attr]  # It is open.


@pytest.mark.promise("G3", "G12")
def test_the_values_are_those_of_the_stored_action_alone() -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments=TO))
    forged = replace(grant(world, world.asked().id, ONE_SHOP), action='{"arguments": {"to": "x"}}')
    assert world.refused(forged) == "digest_mismatch"


@pytest.mark.promise("G8", "G12")
def test_what_a_grant_lets_run_is_held_while_a_request_waits() -> None:
    world = granted()
    calls = [sound(0, step=2, arguments=TO), sound(1, step=2, arguments={"other": 1})]
    world.propose(*calls)
    assert [world.code(0, step=2), world.code(1, step=2)] == ["Allowed", "Asking"]
    work = world.work()
    assert isinstance(work, Wait)
    assert work.held_by == (world.asked(1, step=2).id,)
    world.apply(reject(world.asked(1, step=2).id))
    world.lease()
    assert names(world.begin(0, step=2)) == ["AttemptBegun"]


def test_of_two_that_cover_a_call_the_one_that_ends_first_is_used() -> None:
    world = granted(replace(ONE_SHOP, uses=1))
    world.propose(sound(0, step=2, arguments={"amount": 1, "to": "casino"}))
    terms = replace(ONE_SHOP, same=(), any=("amount", "to"), lasts=2 * HOUR)
    world.apply(grant(world, world.asked(0, step=2).id, terms))
    world.lease()
    world.begin(0, step=2)
    world.conclude(DONE, 0, step=2)
    first, second = sorted(world.state.grants.values(), key=lambda each: each.until)
    assert proposed(world, step=3) == "Allowed"
    world.begin(0, step=3)
    assert list(world.state.grants) == [second.id]
    assert first.id != second.id


def test_a_grant_needs_a_readable_effect_that_asks() -> None:
    world = granted()
    assert proposed(world, ruling=ALLOW) == "Allowed"
    assert world.call(0, step=2).grant is None, "policy allows it by itself"
    nobody = Ask(rule="gated", needs=Needs(approvers=()), lasts=HOUR)
    assert proposed(granted(), ruling=nobody) == "no_approver"


@pytest.mark.promise("G12")
def test_who_withdraws_an_approval_takes_the_grant_back_that_went_with_it() -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments=TO))
    request = world.asked().id
    world.apply(grant(world, request, ONE_SHOP))
    withdraw = c.Withdraw(request=request, by=ANN)
    assert names(world.apply(withdraw)) == ["VoteWithdrawn", "GrantRevoked"]
    assert not world.state.grants


def test_a_grant_that_is_asked_for_after_the_approval_is_refused_and_not_forgotten() -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments=TO))
    request = world.asked().id
    world.apply(approve(request))
    assert world.refused(grant(world, request, ONE_SHOP)) == "already_approved"
    other = World()
    other.start()
    other.propose(sound(0, arguments=TO))
    request = other.asked().id
    other.apply(grant(other, request, ONE_SHOP))
    assert other.apply(grant(other, request, ONE_SHOP)) == (), "the same twice is the same"


def test_a_grant_is_given_under_the_policy_of_now() -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments=TO))
    world.apply(replace(grant(world, world.asked().id, ONE_SHOP), policy_version="p2"))
    world.lease()
    world.begin(policy_version="p2")
    world.conclude(DONE)
    world.propose(sound(0, step=2, arguments=TO), policy_version="p2")
    assert world.code(0, step=2) == "Allowed"


def test_a_grant_for_the_session_that_would_not_cover_its_own_call_is_refused() -> None:
    world = World()
    world.start()
    world.propose(agent(0))
    world.delegate("k1")
    world.propose(sound(0, run="k1", arguments=TO), run="k1")
    request = world.asked(0, run="k1").id
    for children, code in ((False, "invalid_grant"), (True, "")):
        terms = replace(ONE_SHOP, scope="session", children=children)
        if code:
            assert world.refused(grant(world, request, terms)) == code
        else:
            assert "GrantGiven" in names(world.apply(grant(world, request, terms)))


def test_a_retry_keeps_the_grant_that_was_found_only_when_the_call_began() -> None:
    world = granted(replace(ONE_SHOP, uses=2))
    proposed(world, ruling=ALLOW, recovery=AGAIN)
    world.drafts[at(0, step=2)] = replace(world.drafts[at(0, step=2)], ruling=ASK)
    world.begin(0, step=2)
    world.conclude(NOT_DONE, 0, step=2)
    world.wait(HOUR / 60)
    world.lease()
    assert names(world.begin(0, step=2)) == ["AttemptBegun"]


@pytest.mark.promise("G10", "G12")
@pytest.mark.parametrize(
    "ruling",
    [
        replace(ASK_TWO, rule=ASK.rule),
        replace(ASK, needs=Needs(approvers=("eve",))),
        replace(ASK, needs=Needs(approvers=())),
    ],
    ids=["two", "others", "nobody"],
)
def test_a_grant_covers_nothing_that_its_giver_alone_may_not_approve(ruling: Ask) -> None:
    assert proposed(granted(), ruling=ruling) in ("Asking", "no_approver")


@pytest.mark.promise("G10", "G12")
def test_a_requester_who_may_not_approve_is_not_covered_by_a_grant_of_their_own() -> None:
    world = granted(replace(ONE_SHOP, scope="session"))
    world.propose(answer="done")
    world.start("r2", requester="ann")
    asks = replace(ASK, needs=NOT_HIMSELF)
    assert proposed(world, step=1, run="r2", ruling=asks) == "Asking"


def test_a_grant_that_was_given_under_a_rule_answers_no_other_rule() -> None:
    assert proposed(granted(), ruling=replace(ASK, rule="risk")) == "Asking"


@pytest.mark.promise("G12")
def test_a_policy_that_changes_back_brings_no_grant_back() -> None:
    world = granted()
    for step, version in ((2, "p2"), (3, "p1")):
        world.propose(sound(0, step=step, arguments=TO), policy_version=version)
        assert world.code(0, step=step) == "Asking"
        world.apply(reject(world.asked(0, step=step).id))
        world.lease()
        world.state = replace(world.state, noes={})
    assert [x.via for x in world.log if isinstance(x, e.GrantRevoked)] == ["policy"]


def test_the_same_yes_with_other_terms_is_no_same_answer() -> None:
    world = World()
    world.start()
    world.propose(sound(0, arguments=TO))
    request = world.asked().id
    world.apply(grant(world, request, ONE_SHOP))
    wider = replace(ONE_SHOP, uses=99)
    assert world.refused(grant(world, request, wider)) == "already_approved"
    (given,) = world.state.grants
    world.apply(c.Revoke(grant=given, by=ANN, eligible=EVERYBODY))
    assert world.apply(grant(world, request, ONE_SHOP)) == (), "it was given once"


def test_a_call_that_began_without_a_grant_is_not_tried_again_by_one() -> None:
    world = granted()
    proposed(world, recovery=AGAIN)
    world.drafts[at(0, step=2)] = replace(world.drafts[at(0, step=2)], ruling=ALLOW)
    world.begin(0, step=2)
    world.conclude(NOT_DONE, 0, step=2)
    (given,) = world.state.grants
    world.apply(c.Revoke(grant=given, by=ANN, eligible=EVERYBODY))
    world.wait(HOUR / 60)
    world.lease()
    world.drafts[at(0, step=2)] = replace(world.drafts[at(0, step=2)], ruling=ASK)
    assert "AttemptBegun" not in names(world.begin(0, step=2))
