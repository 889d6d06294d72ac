"""Processes that resume one interrupted thread at once, round by round, with placet and without.

Without it the tool asks by LangGraph's own `interrupt()` and then pays, as its documentation shows.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from placet.agent.tools import ToolOptions
from tests.adapters.graphs import (
    HELLO,
    Graph,
    agent_graph,
    calls,
    compiled,
    opened,
    paid,
    pays,
    saver,
    script,
)

PROCESSES = 2

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.adapters.graphs"])


def thread(number: int) -> Any:
    return {"configurable": {"thread_id": f"t{number}"}}


def by_hand(place: Path) -> Graph:
    """Give the agent as LangGraph's documentation has it: the tool itself asks, and then acts."""
    ledger = pays(place / "ledger")

    @tool
    def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        interrupt(f"refund {amount} for {order}?")
        told: str = ledger.invoke({"order": order, "amount": amount})
        return told

    say = script(calls(("refund", {"order": "A-42", "amount": 129})))
    return compiled(agent_graph(say, ToolNode([refund])), saver(place))


def resume_by_hand(place: str, number: int, barrier: Barrier, rounds: int, answers: Any) -> None:
    """Resume each thread, at once with the other process."""
    graph = by_hand(Path(place))
    for each in range(rounds):
        barrier.wait(60)
        answers.put(_ended(graph, thread(each)))
        barrier.wait(60)
        if number == 0:
            answers.put(len(paid(Path(place) / "ledger")))


def with_gate(place: Path, *, more: bool = False) -> Any:
    """Open the agent with its tools in the gate; `more` has it pay once more, unasked."""
    first = calls(("refund", {"order": "A-42", "amount": 129}))
    then = [calls(("bonus", {"order": "A-42", "amount": 1}))] if more else []
    options: dict[str, ToolOptions] = {"bonus": {"approval": "never"}}
    tools = [pays(place / "ledger"), pays(place / "ledger", "bonus")]
    return opened(place, script(first, *then), tools, options=options)


def resume_with_gate(
    place: str, number: int, barrier: Barrier, rounds: int, answers: Any, more: bool
) -> None:
    """Resume each thread, at once with the other process."""
    with with_gate(Path(place), more=more) as bench:
        for each in range(rounds):
            barrier.wait(60)
            answers.put(_ended(bench.graph, thread(each)))
            barrier.wait(60)
            if number == 0:
                answers.put(len(bench.ledger))


def _ended(graph: Graph, config: Any) -> str:
    try:
        return str(graph.invoke(Command(resume="yes"), config)["messages"][-1].text)
    except Exception as error:  # noqa: BLE001  # Whatever a racer gets is counted.
        return type(error).__name__


def race(target: Callable[..., None], place: Path, rounds: int, *more: Any) -> tuple[Any, Any]:
    """Race; give how often a round paid how often, and how the racers ended."""
    barrier = _processes.Barrier(PROCESSES)
    answers = _processes.Queue()
    racers = [
        _processes.Process(target=target, args=(str(place), n, barrier, rounds, answers, *more))
        for n in range(PROCESSES)
    ]
    for each in racers:
        each.start()
    found = [answers.get(timeout=120) for _ in range(rounds * (PROCESSES + 1))]
    for each in racers:
        each.join(60)
        assert each.exitcode == 0
    totals = sorted(each for each in found if isinstance(each, int))
    each_round = [after - before for before, after in zip([0, *totals], totals, strict=False)]
    return Counter(each_round), Counter(each for each in found if isinstance(each, str))


def ask_by_hand(place: Path, rounds: int) -> None:
    """Have every thread wait for its answer."""
    graph = by_hand(place)
    for each in range(rounds):
        graph.invoke(HELLO, thread(each))


def ask_with_gate(place: Path, rounds: int, *, more: bool = False) -> None:
    """Have every thread wait, and approve every call."""
    with with_gate(place, more=more) as bench:
        for each in range(rounds):
            bench.invoke(HELLO, thread(each))
        while waiting := bench.waiting():
            for request in waiting:
                bench.decide(request)
