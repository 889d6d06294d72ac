"""The worlds can see what is wrong: each fault that is put into placet is found, and made small."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.plan import (
    Misfortune,
    Plan,
    PlannedCall,
    PlannedRun,
    Reaction,
    StoreFault,
)
from tests.simulation.planning import plan_of
from tests.simulation.shrinking import Shrinking, replayed, written
from tests.simulation.world import World

#: In how many worlds a fault must be found.
MOST_SEEDS = 600

#: Those that are found within a few worlds.
SOON = (
    "an approval is not spent",
    "an effect goes past the gate",
    "what is lost counts as not done",
)


def first_broken(mutant: Mutant, most: int) -> int | None:
    """Give the first seed whose world breaks one of the promises that the mutant breaks."""
    with mutant.alive():
        for seed in range(most):
            faults = World(plan_of(seed)).run().faults
            if faults:
                assert faults[0].promise in mutant.promises, faults[0]
                return seed
    return None


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.name in SOON], ids=lambda m: m.name)
def test_a_gross_fault_is_found_soon(mutant: Mutant) -> None:
    assert first_broken(mutant, 40) is not None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.name in SOON], ids=lambda m: m.name)
def test_a_fault_is_found(mutant: Mutant) -> None:
    assert first_broken(mutant, MOST_SEEDS) is not None


def test_a_failing_world_is_made_small_and_its_replay_fails_alike() -> None:
    mutant = next(m for m in MUTANTS if m.name == "an approval is not spent")
    asked, free = PlannedCall(tool="pay", n=1), PlannedCall(tool="ping", n=2, does=("fails",))
    plan = Plan(
        seed=7,
        runs=(
            PlannedRun(session="s0", steps=((free,),)),
            PlannedRun(session="s1", steps=((free, asked), (free,)), resumes=(5.0,)),
        ),
        reactions=((Reaction(delay=1.0, person="ann", act="approve"),),),
        misfortunes=(Misfortune(kind="stop", mark="entered", nth=1, lasts=1.0),),
        store_faults=(StoreFault(kind="slow", nth=3, lasts=0.5),),
        workers=2,
    )
    with mutant.alive():
        shrinking = Shrinking(plan, most=250)
        smaller = shrinking.run()
        again = replayed(smaller, schedule=shrinking.schedule)
    assert again.faults[0].promise == shrinking.fault.promise == "G1"
    assert written(smaller) == (
        "Plan(seed=7, runs=(PlannedRun(session='s1', steps=((PlannedCall(tool='pay', n=1),),)),),"
        " reactions=((Reaction(delay=1.0, person='ann', act='approve'),),), hurry=1.0)"
    )
    assert World(smaller, schedule=shrinking.schedule).run().faults == []
