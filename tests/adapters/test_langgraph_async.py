"""LangGraph under asyncio, through the gate: AsyncSqliteSaver, gather, cancellation."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt

from placet import Placet
from placet.adapters.langgraph import LangGraphGate
from placet.agent.tools import ToolOptions
from placet.stores.sqlite import SqliteStore
from tests.adapters.graphs import HELLO, THREAD, Graph, Say, agent_graph, calls, paid, script

TWO = calls(("refund", {"order": "A-1", "amount": 1}), ("refund", {"order": "A-2", "amount": 2}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    placet: Placet
    graph: Graph

    async def waiting(self) -> list[str]:
        rows = await self.placet.inbox()
        return [row.request.id for row in sorted(rows, key=lambda row: row.request.at)]

    async def decide(self, request: str) -> None:
        await self.placet.decide(request, "approve", by="ana")


@asynccontextmanager
async def opened(
    place: Path,
    tools: Sequence[Any],
    *,
    options: dict[str, ToolOptions] | None = None,
    say: Say | None = None,
) -> AsyncIterator[Desk]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placet = Placet(SqliteStore(place / "placet.db"), approvers=["ana"])
    async with AsyncSqliteSaver.from_conn_string(str(place / "threads.db")) as saver:
        gate = LangGraphGate(placet, tools=tools, agent="support", options=options)
        graph = agent_graph(say or script(TWO), gate.tool_node()).compile(checkpointer=saver)
        gate.resumes(graph)
        yield Desk(placet=placet, graph=graph)
    placet.close()


def test_calls_wait_and_go_on_under_asyncio(tmp_path: Path) -> None:
    @tool
    async def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        with (tmp_path / "ledger").open("a") as ledger:
            ledger.write(f"{order} {amount}\n")
        return f"refunded {amount}"

    async def begin() -> None:
        async with opened(tmp_path, [refund]) as desk:
            await desk.graph.ainvoke(HELLO, THREAD)
            first, _ = await desk.waiting()
            await desk.decide(first)

    async def go_on() -> str:
        async with opened(tmp_path, [refund]) as desk:
            run = (await desk.placet.runs())[0].run.id
            await desk.placet.resume(run)
            assert paid(tmp_path / "ledger") == ["A-1 1"]
            (second,) = await desk.waiting()
            await desk.decide(second)
            await desk.placet.resume(run)
            return str((await desk.graph.aget_state(THREAD)).values["messages"][-1].text)

    asyncio.run(begin())
    assert asyncio.run(go_on()) == "done"
    assert paid(tmp_path / "ledger") == ["A-1 1", "A-2 2"]


@pytest.mark.promise("D4", "D5")
def test_a_call_that_waits_leaves_no_other_one_half_done(tmp_path: Path) -> None:
    """LangGraph gathers the calls of a node, and leaves behind what runs when one interrupts."""

    @tool
    async def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        for _ in range(20):  # Long enough for the other call to have been found waiting.
            await asyncio.sleep(0.01)
        with (tmp_path / "ledger").open("a") as ledger:
            ledger.write(f"{order} {amount}\n")
        return f"refunded {amount}"

    async def life() -> list[str]:
        async with opened(tmp_path, [refund]) as desk:
            await desk.graph.ainvoke(HELLO, THREAD)
            first, _ = await desk.waiting()
            await desk.decide(first)
            await desk.placet.resume((await desk.placet.runs())[0].run.id)
            rows = await desk.placet.inbox()
            return [row.request.kind for row in rows]

    assert asyncio.run(life()) == ["approval"], "nothing is unknown"
    assert paid(tmp_path / "ledger") == ["A-1 1"]


@pytest.mark.promise("D4", "D5")
def test_a_tool_that_asks_the_user_by_itself_leaves_no_other_call_half_done(tmp_path: Path) -> None:
    asked = asyncio.Event()

    @tool
    async def ask_user(question: str) -> str:
        """Ask the user, by LangGraph's own interrupt."""
        asked.set()
        return f"the user says {interrupt({'ask': question})}"

    @tool
    async def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        await asked.wait()
        for _ in range(20):  # Long enough for the interrupt to have come up.
            await asyncio.sleep(0.01)
        with (tmp_path / "ledger").open("a") as ledger:
            ledger.write(f"{order} {amount}\n")
        return f"refunded {amount}"

    both = calls(("ask_user", {"question": "which?"}), ("refund", {"order": "A-1", "amount": 1}))
    options: dict[str, ToolOptions] = {
        "refund": {"approval": "never"},
        "ask_user": {"reads_only": True},
    }

    async def life() -> list[str]:
        tools = [refund, ask_user]
        async with opened(tmp_path, tools, options=options, say=script(both)) as desk:
            found = await desk.graph.ainvoke(HELLO, THREAD)
            assert [each.value for each in found["__interrupt__"]] == [{"ask": "which?"}]
            assert paid(tmp_path / "ledger") == ["A-1 1"], "it has ended before the graph has"
            found = await desk.graph.ainvoke(Command(resume="Bob"), THREAD)
            return [each.content for each in found["messages"] if each.type == "tool"]

    assert asyncio.run(life()) == ["the user says Bob", "refunded 1"]
    assert paid(tmp_path / "ledger") == ["A-1 1"]


@pytest.mark.promise("D5")
def test_a_caller_that_leaves_detaches_the_body_and_its_outcome_is_recorded(
    tmp_path: Path,
) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool
    async def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        begun.set()
        await let_go.wait()
        with (tmp_path / "ledger").open("a") as ledger:
            ledger.write(f"{order} {amount}\n")
        return f"refunded {amount}"

    async def life() -> list[str]:
        async with opened(tmp_path, [refund], options={"refund": {"approval": "never"}}) as desk:
            running = asyncio.create_task(desk.graph.ainvoke(HELLO, THREAD))
            await begun.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            let_go.set()
            result = await desk.graph.ainvoke(None, THREAD)
            return [m.content for m in result["messages"] if m.type == "tool"]

    assert asyncio.run(life()) == ["refunded 1", "refunded 2"]
    assert sorted(paid(tmp_path / "ledger")) == ["A-1 1", "A-2 2"]


@pytest.mark.promise("D4", "D5")
def test_closing_in_the_middle_of_a_body_waits_for_its_outcome(tmp_path: Path) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool
    async def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        begun.set()
        await let_go.wait()
        with (tmp_path / "ledger").open("a") as ledger:
            ledger.write(f"{order} {amount}\n")
        return f"refunded {amount}"

    options: Any = {"refund": {"approval": "never"}}

    async def life() -> None:
        async with opened(tmp_path, [refund], options=options) as desk:
            running = asyncio.create_task(desk.graph.ainvoke(HELLO, THREAD))
            await begun.wait()
            desk.placet.close()
            let_go.set()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(life())
    store = SqliteStore(tmp_path / "placet.db")
    ends = [each.body for each in store.events("main", "t") if each.kind == "CallEnded"]
    store.close()
    # The second call may have begun before it was asked to stop; then it has its outcome, too.
    assert len(ends) == len(paid(tmp_path / "ledger")) >= 1
    assert all('"code":"succeeded"' in end for end in ends)
