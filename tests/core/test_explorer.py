"""The promises, held in every state that the explorer reaches; and mutants that it must catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placet.core import deciding_effects as effects
from placet.core import deciding_requests as requests
from placet.core import events as e
from placet.core.state import Open
from placet.core.unfolding import Unfolding
from placet.core.values import Ask, Needs
from placet.core.work import due_requests
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_TWO,
    DONE,
    HOUR,
    LOST,
    NOT_DONE,
    PROBED,
    RAISED,
)
from tests.core.explorer import Broken, explore
from tests.core.shadow import Scenario

GATED: dict[str, Any] = {"ruling": ASK}
FREE: dict[str, Any] = {"ruling": ALLOW}
AGENT: dict[str, Any] = {"ruling": ALLOW, "kind": "agent"}

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
    "a probe": Scenario(calls=({**GATED, "recovery": PROBED},), people=(ANN,), leases_lost=1),
}

NOBODY = Ask(rule="gated", needs=Needs(approvers=()), lasts=HOUR)
SMALL["nobody to ask"] = Scenario(calls=({"ruling": NOBODY}, FREE), people=(ANN,))

LARGE = {
    "two people, two drivers, an edit, a void, a crash, a lost lease": Scenario(
        calls=(GATED,), edits=1, worlds=1
    ),
    "two calls, two drivers": Scenario(calls=(GATED, GATED), leases_lost=0),
    "a child run beside a gated call": Scenario(
        calls=(AGENT, GATED), child=(GATED,), people=(ANN,), leases_lost=0, crashes=0
    ),
    "all at once: two people, two drivers, an edit, a void, a child run, a crash": Scenario(
        calls=(AGENT, GATED), child=(FREE,), edits=1, worlds=1, leases_lost=0
    ),
}


@pytest.mark.promise("G1", "G3", "G5", "G7", "G8", "G9", "G10", "G13", "D1", "D4", "D5")
@pytest.mark.parametrize("name", SMALL)
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


def _anybody(so_far: Any, by: Any, eligible: Any) -> None:
    """Stands in for the check of authority."""


def _always_again(so_far: Unfolding, call: Any, cause: str) -> None:
    so_far.add(e.AttemptLost(at=call.at, attempt=call.attempts, cause=so_far.text(cause)))
    effects._again(so_far, call, cause)


def _forgets_the_call(so_far: Unfolding, command: Any) -> None:
    for request in due_requests(so_far.state):
        so_far.add(e.RequestExpired(request=request.id))


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
        lambda patch: patch.setattr(effects, "_lost", _always_again),
    ),
    "a lease is kept while waiting": (
        "an edit and a crash",
        lambda patch: patch.setattr("placet.core.decide._rest_what_waits", lambda so_far: None),
    ),
    "an expiry forgets its call": (
        "an edit and a crash",
        lambda patch: patch.setattr(requests, "expire", _forgets_the_call),
    ),
    "nobody is enough": (
        "nobody to ask",
        lambda patch: patch.setattr(Needs, "possible", lambda self, requester: True),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_explorer_catches(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, mutate = MUTANTS[mutant]
    mutate(monkeypatch)
    with pytest.raises(Broken):
        explore(SMALL[scenario])
