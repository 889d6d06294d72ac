"""Simulated worlds: no promise is broken in them, and a seed is one world for ever."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tests.marks import ROOT
from tests.simulation.campaign import tally
from tests.simulation.planning import THEMES, plan_of
from tests.simulation.world import World

#: What every campaign of some hundred worlds meets with.
MET = {
    "befell": "kill stop interrupt leap environment approvers deploy lost unheard late stale",
    "codes": "succeeded expired rejected tool_failed outcome_unknown cancelled superseded"
    " tool_failed_and_rolled_back tool_failed_and_compensated",
    "stops": "final cancelled superseded outcome_unknown",
    "events": "VoteCast VoteWithdrawn RequestEdited RequestVoided AttemptLost CallUndoing"
    " CallDelegated RequestSettled SettlementLapsed",
}


#: The seeds whose worlds are traced in several processes: a hosted run is among them, and a policy.
SAME = (3, 8, 12, 20)


def trace_of(seed: int) -> str:
    return "\n".join(World(plan_of(seed), traced=True).run().trace)


@pytest.mark.promise("G1", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11", "G13")
@pytest.mark.promise("D1", "D2", "D3", "D4", "D5", "D8")
@pytest.mark.parametrize("first", range(0, 45, 15))
def test_no_promise_is_broken_in_some_worlds(first: int) -> None:
    assert tally(range(first, first + 15)).faults == []


@pytest.mark.slow
def test_no_promise_is_broken_in_many_worlds() -> None:
    found = tally(range(1_000, 1_500))
    assert found.faults == []
    for name, words in MET.items():
        assert set(words.split()) <= getattr(found, name).keys()
    assert set(found.themes) == {theme.name for theme in THEMES}


@pytest.mark.parametrize("hash_seed", ["1", "77"])
@pytest.mark.slow
def test_one_seed_is_one_world_byte_for_byte_in_any_process(hash_seed: str) -> None:
    program = (
        "import hashlib\nfrom tests.simulation.test_worlds import SAME, trace_of\n"
        "for seed in SAME: print(hashlib.sha256(trace_of(seed).encode()).hexdigest())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = [trace_of(seed) for seed in SAME]
    assert all(trace.count("\n") > 50 for trace in here)
    assert told.stdout.split() == [hashlib.sha256(each.encode()).hexdigest() for each in here]


def test_a_trace_changes_nothing_of_a_world() -> None:
    plain, traced = World(plan_of(5)).run(), World(plan_of(5), traced=True).run()
    assert (plain.steps, plain.events, plain.codes) == (traced.steps, traced.events, traced.codes)


def test_another_order_of_the_same_plan_is_another_world() -> None:
    traces = {
        "\n".join(World(plan_of(3), schedule=order, traced=True).run().trace) for order in range(3)
    }
    assert len(traces) == 3
