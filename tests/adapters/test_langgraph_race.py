"""Two processes that resume one thread at once, 80 times: LangGraph alone, and with the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.racers import (
    ask_by_hand,
    ask_with_gate,
    race,
    resume_by_hand,
    resume_with_gate,
)

ROUNDS = 80

Record = Callable[[str, object], None]


@pytest.mark.slow
def test_langgraph_alone_runs_a_tool_twice_which_is_why_there_is_a_gate(
    tmp_path: Path, record_property: Record
) -> None:
    """A measurement, which the races below stand beside: a race that cannot be lost shows nothing.

    Seen: 80 of 80 rounds.
    """
    ask_by_hand(tmp_path, ROUNDS)
    payments, _ = race(resume_by_hand, tmp_path, ROUNDS)
    record_property("rounds in which LangGraph alone paid twice", payments[2])
    assert payments[2] > ROUNDS // 4


@pytest.mark.slow
@pytest.mark.promise("G7", "D5")
def test_two_processes_that_resume_one_thread_have_one_effect(tmp_path: Path) -> None:
    ask_with_gate(tmp_path, ROUNDS)
    payments, ends = race(resume_with_gate, tmp_path, ROUNDS, False)
    assert payments == {1: ROUNDS}
    assert ends == {"done": 2 * ROUNDS}, "both are told the one result"


@pytest.mark.slow
@pytest.mark.promise("G7", "D5")
def test_what_the_model_then_calls_unasked_in_both_has_one_effect_too(tmp_path: Path) -> None:
    """Each process has a turn of the model's of its own after the first effect, at one place."""
    ask_with_gate(tmp_path, ROUNDS, more=True)
    payments, ends = race(resume_with_gate, tmp_path, ROUNDS, True)
    assert payments == {2: ROUNDS}, "one refund and one bonus"
    assert ends == {"done": 2 * ROUNDS}
