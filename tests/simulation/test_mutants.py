"""The worlds can see what is wrong: each fault that is put into placet is found, and made small."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, first_broken
from tests.simulation.plan import (
    Misfortune,
    Plan,
    PlannedCall,
    PlannedRun,
    Reaction,
    StoreFault,
)
from tests.simulation.shrinking import Shrinking, replayed, written
from tests.simulation.world import World

#: Those that are found within a few worlds, and those that are within some more. What is rarer is
#: looked for by `python -m tests.simulation --mutants` alone.
SOON = (
    "an approval is not spent",
    "an effect goes past the gate",
    "what is lost counts as not done",
)
LATER = (
    "a stale fence is not refused",
    "an approval is spent past its deadline",
    "nothing is held while a request waits",
    "authority is not looked at again",
    "it is taken back while its body may act",
    "what was edited can still be decided",
    "a no is forgotten",
    "one vote is a quorum",
    "a failure is told before the earlier effects are taken back",
    "the rest of a broken step goes on",
    "an unknown outcome is put to nobody",
)


def named(names: tuple[str, ...]) -> list[Mutant]:
    known = {mutant.name: mutant for mutant in MUTANTS}
    return [known[name] for name in names]


def found(mutant: Mutant, most: int) -> int:
    broken = first_broken(mutant, most)
    assert broken is not None, f"in {most} worlds nothing of it is seen"
    seed, fault = broken
    assert fault.promise in mutant.promises, fault
    return seed


@pytest.mark.parametrize("mutant", named(SOON), ids=lambda mutant: mutant.name)
def test_a_gross_fault_is_found_soon(mutant: Mutant) -> None:
    assert found(mutant, 40) < 40


@pytest.mark.slow
@pytest.mark.parametrize("mutant", named(LATER), ids=lambda mutant: mutant.name)
def test_a_fault_is_found(mutant: Mutant) -> None:
    assert found(mutant, 300) < 300


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
