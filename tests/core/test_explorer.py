"""The promises, held in every state that the explorer reaches; and mutants that it must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from placet.core import deciding_effects as effects
from placet.core import deciding_outcomes as outcomes
from placet.core import deciding_requests as requests
from placet.core import deciding_runs as runs
from placet.core import events as e
from placet.core.state import Lost, Open, Request, Session, UndoDue
from placet.core.unfolding import Unfolding
from placet.core.values import Ask, Needs, Recovery, Undoing
from placet.core.work import due_requests, held_by
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    COMPENSATED,
    DONE,
    ENDED,
    HOUR,
    LOST,
    NOT_DONE,
    PROBED,
    RAISED,
    ROLL_BACK,
    SAFE,
    SAFE_AGAIN,
)
from tests.core.explorer import Broken, explore
from tests.core.shadow import Scenario

GATED: dict[str, Any] = {"ruling": ASK}
FREE: dict[str, Any] = {"ruling": ALLOW}
AGENT: dict[str, Any] = {"ruling": ALLOW, "kind": "agent"}
GATED_AGENT: dict[str, Any] = {"ruling": ASK, "kind": "agent"}
QUESTION: dict[str, Any] = {"ruling": ASK, "kind": "question"}

SMALL = {
    "an edit and a crash": Scenario(calls=(GATED,), edits=1, leases_lost=0),
    "a changed world": Scenario(calls=(GATED,), worlds=1, crashes=0, people=(ANN,)),
    "a quorum": Scenario(
        calls=({"ruling": ASK_TWO},), withdrawals=True, dismissals=1, drivers=1, crashes=0
    ),
    "two calls on one surface": Scenario(calls=(GATED, FREE), leases_lost=0, people=(ANN,)),
    "a child run": Scenario(
        calls=(AGENT, FREE), child=(GATED,), drivers=1, people=(ANN,), leases_lost=0
    ),
    "a cancelled run": Scenario(calls=(GATED,), cancels=True, drivers=1),
    "a lost lease": Scenario(calls=(GATED,), crashes=0, people=(ANN,)),
    "tries again": Scenario(
        calls=({**GATED, "recovery": AGAIN},),
        drivers=1,
        people=(ANN,),
        outcomes=(DONE, RAISED, NOT_DONE, LOST),
    ),
    "a channel that tells, or fails, or both": Scenario(
        calls=(GATED,), channel=True, people=(ANN,), drivers=1, edits=1, cancels=True, crashes=0
    ),
    "a channel, and votes that are taken back": Scenario(
        calls=({"ruling": ASK_TWO},), channel=True, withdrawals=True, drivers=1, crashes=0
    ),
    "a question beside a gated call": Scenario(
        calls=(QUESTION, GATED), people=(ANN,), leases_lost=0
    ),
    "an approved agent, two drivers": Scenario(
        calls=(GATED_AGENT,), child=(FREE,), people=(ANN,), crashes=0, outcomes=(DONE,)
    ),
    "an approved agent in a changed world": Scenario(
        calls=(GATED_AGENT,), child=(FREE,), worlds=1, people=(ANN,), crashes=0, drivers=1
    ),
    "two child runs that ask on one surface": Scenario(
        calls=(AGENT, AGENT),
        child=(GATED,),
        foreign=1,
        drivers=1,
        people=(ANN,),
        crashes=0,
        leases_lost=0,
        outcomes=(DONE,),
    ),
    "a hosted run, two processes and the worker": Scenario(
        calls=(GATED, FREE), hosted=True, people=(ANN,)
    ),
    "a probe": Scenario(calls=({**GATED, "recovery": PROBED},), people=(ANN,), leases_lost=1),
}

BOTH = Recovery(roll_back=ROLL_BACK, compensation=SAFE)
SMALL |= {
    "a compensation, two drivers, a crash, a lost lease": Scenario(
        calls=({**GATED, "recovery": COMPENSATED},),
        people=(ANN,),
        outcomes=(DONE, RAISED, NOT_DONE, LOST, ENDED),
    ),
    "a roll-back and a compensation of what is tried again": Scenario(
        calls=({**GATED, "recovery": replace(BOTH, idempotent=True, retries=1)},),
        people=(ANN,),
        crashes=0,
        drivers=2,
        outcomes=(DONE, RAISED, LOST, ENDED),
    ),
    "a compensation beside an effect, and a cancelled run": Scenario(
        calls=({**FREE, "recovery": Recovery(compensation=SAFE_AGAIN)}, FREE),
        people=(ANN,),
        cancels=True,
        outcomes=(DONE, RAISED, ENDED),
    ),
    "a compensation in a hosted run": Scenario(
        calls=({**GATED, "recovery": COMPENSATED}, FREE),
        hosted=True,
        people=(ANN,),
        outcomes=(DONE, RAISED, LOST),
    ),
    "a probe, and then a compensation": Scenario(
        calls=({**GATED, "recovery": replace(COMPENSATED, probe=True)},),
        people=(ANN,),
        leases_lost=0,
        outcomes=(DONE, LOST, ENDED),
    ),
}

BACK = Recovery(compensation=Undoing(idempotent=True, retries=1))
SAGA: dict[str, Any] = {"on_failure": "compensate_earlier", "people": (ANN,)}
SMALL |= {
    "a saga of two effects, a crash": Scenario(
        calls=({**FREE, "recovery": BACK}, {**FREE, "surface": "parcels"}),
        leases_lost=0,
        drivers=1,
        outcomes=(DONE, RAISED, LOST),
        **SAGA,
    ),
    "a saga that is stopped, and a person asked": Scenario(
        calls=({**FREE, "recovery": BACK}, GATED),
        crashes=0,
        cancels=True,
        outcomes=(DONE, RAISED),
        **SAGA,
    ),
}

NOBODY = Ask(rule="gated", needs=Needs(approvers=()), lasts=HOUR)
SMALL["nobody to ask"] = Scenario(calls=({"ruling": NOBODY}, FREE), people=(ANN,))

LARGE = {
    "a saga of three effects, two drivers, a lost lease": Scenario(
        calls=(
            {**FREE, "recovery": BACK},
            {**FREE, "recovery": COMPENSATED, "surface": "parcels"},
            {**FREE, "surface": "mail"},
        ),
        crashes=0,
        outcomes=(DONE, RAISED),
        **SAGA,
    ),
    "two people, two drivers, an edit, a void, a crash, a lost lease": Scenario(
        calls=(GATED,), edits=1, worlds=1
    ),
    "two calls, two drivers": Scenario(calls=(GATED, GATED), leases_lost=0),
    "a child run beside a gated call": Scenario(
        calls=(AGENT, GATED), child=(GATED,), people=(ANN,), leases_lost=0, crashes=0
    ),
    "an approved agent beside a gated call": Scenario(
        calls=(GATED_AGENT, GATED),
        child=(FREE,),
        people=(ANN,),
        leases_lost=0,
        outcomes=(DONE,),
    ),
    "two child runs that ask, a crash": Scenario(
        calls=(AGENT, AGENT), child=(GATED,), drivers=1, people=(ANN,), leases_lost=0
    ),
    "a hosted run that asks, is asked about, and is cancelled": Scenario(
        calls=(QUESTION, {**GATED, "recovery": PROBED}, GATED), hosted=True, cancels=True
    ),
    "what is tried again, rolled back and compensated, with all that can go wrong": Scenario(
        calls=({**GATED, "recovery": replace(BOTH, idempotent=True, retries=1)},),
        people=(ANN,),
        leases_lost=0,
        cancels=True,
        outcomes=(DONE, RAISED, NOT_DONE, LOST, ENDED),
    ),
    "all at once: two people, an edit, a void, a child run, a crash": Scenario(
        calls=(AGENT, GATED), child=(FREE,), edits=1, worlds=1, drivers=1, leases_lost=0
    ),
}


#: Those of the small worlds that take longest, and the mutants that are found late.
SLOW = {
    "two child runs that ask on one surface",
    "a roll-back and a compensation of what is tried again",
    "a compensation beside an effect, and a cancelled run",
    "a compensation in a hosted run",
    "a hosted run, two processes and the worker",
    "a saga that is stopped, and a person asked",
    "a saga of two effects, a crash",
    "a child run",
    "a framework takes what it has not seen",
    "child runs void each other",
}


def named(names: Iterable[str]) -> list[Any]:
    """Give the names as parameters, those that take long among them marked so."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=slow if name in SLOW else ()) for name in names]


@pytest.mark.promise("G1", "G3", "G5", "G7", "G8", "G9", "G10", "G13", "D1", "D4", "D5")
@pytest.mark.parametrize("name", named(SMALL))
def test_the_promises_hold_in_every_state(name: str) -> None:
    walk = explore(SMALL[name])
    print(f"{name}: {walk.states} states, {walk.transitions} transitions, {walk.ends} ends")
    assert walk.entered
    assert walk.ends


@pytest.mark.slow
@pytest.mark.promise("G1", "G3", "G5", "G7", "G8", "G9", "G10", "G13", "D1", "D4", "D5")
@pytest.mark.parametrize("name", LARGE)
def test_the_promises_hold_in_every_state_of_larger_worlds(name: str) -> None:
    walk = explore(LARGE[name])
    print(f"{name}: {walk.states} states, {walk.transitions} transitions, {walk.ends} ends")
    assert walk.entered
    assert walk.ends


# --- mutants ------------------------------------------------------------------------------------


def _one_vote_is_enough(so_far: Unfolding, command: Any) -> None:
    request = so_far.request(command.request)
    if isinstance(request.state, Open) and command.by.id in request.needs.approvers:
        so_far.add(
            e.VoteCast(request=request.id, by=command.by.id, digest=request.digest, met=True)
        )


def _anybody(*_: Any, **__: Any) -> None:
    """Stands in for the check of authority."""


def _always_again(so_far: Unfolding, call: Any, unknown: Any) -> None:
    cause = unknown.cause
    so_far.add(e.AttemptLost(at=call.at, attempt=call.attempts, cause=so_far.text(cause)))
    outcomes._again(so_far, call, cause)


def _whatever_runs(so_far: Unfolding, call: Any, cause: str, *, body_over: bool = True) -> bool:
    how = call.way_back()
    if how is not None:
        so_far.take_back(call, how, cause)
    return how is not None


def _over(so_far: Unfolding, call: Any, cause: str) -> None:
    """Try again as if the last body were known to be over."""
    found = so_far.call(call.at)
    if isinstance(found.state, Lost):
        over = replace(found, state=replace(found.state, body_over=True))
        so_far.state = replace(so_far.state, calls={**so_far.state.calls, call.at: over})
    again(so_far, call, cause)


def _held_but_by_taking_back(state: Session, call: Any) -> str | None:
    undoing = any(isinstance(other.state, UndoDue) for other in state.calls.values())
    return None if undoing else held_by(state, call)


def _undoes_again(so_far: Unfolding, call: Any, purpose: Any, failed: Any) -> None:
    outcomes._tried(so_far, call, HOUR, failed.error)


def _forgets_the_call(so_far: Unfolding, command: Any) -> None:
    for request in due_requests(so_far.state):
        so_far.add(e.RequestExpired(request=request.id))


def _takes_unseen(so_far: Unfolding, command: Any) -> None:
    take_results(so_far, replace(command, seen=None))


def _opens_unspent(so_far: Unfolding, call: Any, child: Any, request: str | None) -> None:
    delegate(so_far, call, child, None)


def _opens_unasked(so_far: Unfolding, command: Any, call: Any, request: Any) -> None:
    effects._enter(so_far, command, call, None)


take_results, delegate, again = runs.take_results, effects._delegate, outcomes._again

Mutant = Callable[[pytest.MonkeyPatch], None]

MUTANTS: dict[str, tuple[str, Mutant]] = {
    "nothing is held": (
        "two calls on one surface",
        lambda patch: (
            patch.setattr("placet.core.work.held_by", lambda state, call: None),
            patch.setattr(effects, "held_by", lambda state, call: None),
        )[0],
    ),
    "a decision has no deadline": (
        "an edit and a crash",
        lambda patch: patch.setattr(requests, "_in_time", lambda so_far, request: None),
    ),
    "one vote is enough": (
        "a quorum",
        lambda patch: patch.setattr(requests, "approve", _one_vote_is_enough),
    ),
    "anybody may decide": (
        "an edit and a crash",
        lambda patch: patch.setattr(requests, "check_authority", _anybody),
    ),
    "no fence is checked": (
        "a lost lease",
        lambda patch: patch.setattr(Unfolding, "driven_by", lambda self, run, fence: self.run(run)),
    ),
    "the world is not read again": (
        "a changed world",
        lambda patch: patch.setattr(effects, "_changed", lambda *given: ()),
    ),
    "a lost effect is tried again": (
        "an edit and a crash",
        lambda patch: patch.setattr(outcomes, "_lost", _always_again),
    ),
    "what may still act is taken back": (
        "a compensation, two drivers, a crash, a lost lease",
        lambda patch: patch.setattr(outcomes, "give_up", _whatever_runs),
    ),
    "a body that was left behind is forgotten": (
        "a roll-back and a compensation of what is tried again",
        lambda patch: patch.setattr(
            outcomes, "_again", lambda so_far, call, cause, **_: _over(so_far, call, cause)
        ),
    ),
    "a compensation is made again": (
        "a compensation, two drivers, a crash, a lost lease",
        lambda patch: patch.setattr(outcomes, "_undo_failed", _undoes_again),
    ),
    "what failed is not taken back": (
        "a compensation, two drivers, a crash, a lost lease",
        lambda patch: patch.setattr(outcomes, "give_up", lambda *given, **more: False),
    ),
    "nothing waits for what is taken back": (
        "a compensation beside an effect, and a cancelled run",
        lambda patch: (
            patch.setattr("placet.core.work.held_by", _held_but_by_taking_back),
            patch.setattr(effects, "held_by", _held_but_by_taking_back),
        )[0],
    ),
    "a lease is kept while waiting": (
        "an edit and a crash",
        lambda patch: patch.setattr("placet.core.decide._rest_what_waits", lambda so_far: None),
    ),
    "an expiry forgets its call": (
        "an edit and a crash",
        lambda patch: patch.setattr(requests, "expire", _forgets_the_call),
    ),
    "child runs void each other": (
        "two child runs that ask on one surface",
        lambda patch: patch.setattr(
            "placet.core.evolving_calls._known_to_later", lambda state, call: state
        ),
    ),
    "what began elsewhere is not seen": (
        "two child runs that ask on one surface",
        lambda patch: patch.setattr(Session, "foreign", lambda self, surface, at: 0),
    ),
    "an approved agent opens its run and keeps its approval": (
        "an approved agent, two drivers",
        lambda patch: patch.setattr(effects, "_delegate", _opens_unspent),
    ),
    "an agent needs no approval": (
        "an approved agent, two drivers",
        lambda patch: patch.setattr(effects, "_begin_approved", _opens_unasked),
    ),
    "a framework takes what it has not seen": (
        "a hosted run, two processes and the worker",
        lambda patch: patch.setattr(runs, "take_results", _takes_unseen),
    ),
    "anybody may answer": (
        "a question beside a gated call",
        lambda patch: patch.setattr(requests, "check_authority", _anybody),
    ),
    "a delivery beside a failure does not count": (
        "a channel that tells, or fails, or both",
        lambda patch: patch.setattr(
            Request, "unreached", property(lambda self: tuple(x.channel for x in self.deliveries))
        ),
    ),
    "nobody is enough": (
        "nobody to ask",
        lambda patch: patch.setattr(Needs, "possible", lambda self, requester: True),
    ),
}


@pytest.mark.parametrize("mutant", named(MUTANTS))
def test_the_explorer_catches(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, mutate = MUTANTS[mutant]
    mutate(monkeypatch)
    with pytest.raises(Broken):
        explore(SMALL[scenario])
