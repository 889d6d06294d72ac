"""A LangGraph agent for tests: real graph, real SqliteSaver file, real placet store, and a ledger.

The ledger is a file outside both stores, written and synced by the tool's body without any dedupe
of its own: what is paid twice is there twice.
"""

from __future__ import annotations

import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from placet import Placet
from placet.adapters.langgraph import LangGraphGate
from placet.agent.tools import ToolOptions
from placet.stores.sqlite import SqliteStore

Graph = CompiledStateGraph[Any, Any, Any, Any]
Say = Callable[[list[BaseMessage]], AIMessage]
How = Literal["node", "context", "send"]
Route = Callable[[MessagesState], Any]

THREAD: Any = {"configurable": {"thread_id": "t"}}
HELLO: Any = {"messages": [HumanMessage("refund A-42")]}


class Scripted(BaseChatModel):
    """A chat model that says what a function of the messages says; LangChain gives the ids."""

    say: Say

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.say(messages))])


def calls(*named: tuple[str, dict[str, Any]]) -> AIMessage:
    """Give a message that calls tools; the ids of the calls are the same in every message."""
    made: Any = [
        {"name": name, "args": args, "id": f"call_{index}", "type": "tool_call"}
        for index, (name, args) in enumerate(named)
    ]
    return AIMessage("I call.", tool_calls=made)


def script(*turns: AIMessage) -> Say:
    """Say one turn after another since the last message of the user's, and then "done"."""

    def say(messages: list[BaseMessage]) -> AIMessage:
        since = max(at for at, each in enumerate(messages) if isinstance(each, HumanMessage))
        said = sum(isinstance(each, AIMessage) for each in messages[since:])
        turn = turns[said] if said < len(turns) else AIMessage("done")
        return turn.model_copy(deep=True)

    return say


def pays(ledger: Path, name: str = "refund", *, before: Callable[[], None] = lambda: None) -> Any:
    """Give a tool that writes one line a payment."""

    @tool(name)
    def pay(order: str, amount: int) -> str:
        """Pay a refund."""
        before()
        handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{name} {order} {amount}\n".encode())
        os.fsync(handle)
        os.close(handle)
        return f"refunded {amount} for {order}"

    return pay


def paid(ledger: Path) -> list[str]:
    """Give the payments that were made."""
    return ledger.read_text().splitlines() if ledger.exists() else []


def route_of(how: How) -> Route:
    """Give the edge from the model to the tools: one node for all calls, or one for each."""

    def route(state: MessagesState) -> Any:
        last = state["messages"][-1]
        found = last.tool_calls if isinstance(last, AIMessage) else []
        match how:
            case _ if not found:
                return END
            case "node":
                return "tools"
            case "context":
                kind = {"__type": "tool_call_with_context", "state": state}
                return [Send("tools", {**kind, "tool_call": call}) for call in found]
            case "send":
                return [Send("tools", [call]) for call in found]

    return route


def agent_graph(say: Say, node: Any, *, how: How = "node") -> Any:
    """Give the graph of an agent, not compiled: model, tools, model."""
    model = Scripted(say=say)

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", think)
    graph.add_node("tools", node)
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", route_of(how), ["tools", END])
    graph.add_edge("tools", "agent")
    return graph


def compiled(graph: Any, kept: Any = None) -> Graph:
    """Compile a graph, which keeps its threads in `kept`."""
    made: Graph = graph.compile(checkpointer=kept)
    return made


def saver(place: Path) -> SqliteSaver:
    """Open the threads of a place, as any number of processes may at once."""
    connection = sqlite3.connect(place / "threads.db", check_same_thread=False, timeout=60)
    return SqliteSaver(connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What one process has open of a place."""

    place: Path
    placet: Placet
    gate: LangGraphGate
    graph: Graph
    saver: SqliteSaver

    @property
    def ledger(self) -> list[str]:
        return paid(self.place / "ledger")

    def invoke(self, given: Any = None, config: Any = THREAD) -> Any:
        return self.graph.invoke(given, config)

    def waiting(self) -> list[str]:
        """Give the requests that wait for people, in the order of their calls."""
        rows = self.placet.inbox_sync()
        return [row.request.id for row in sorted(rows, key=lambda row: row.request.at)]

    def run(self) -> str:
        """Give the newest run."""
        return self.placet.runs_sync()[0].run.id

    def decide(self, request: str, decision: Any = "approve", **more: Any) -> Any:
        return self.placet.decide_sync(request, decision, by="ana", **more)

    def told(self, config: Any = THREAD) -> list[tuple[str, str]]:
        """Give what the model was told of each call, with its status."""
        messages = self.graph.get_state(config).values["messages"]
        return [(m.status, m.content) for m in messages if m.type == "tool"]

    def interrupts(self) -> list[Any]:
        return [each.value for each in self.graph.get_state(THREAD).interrupts]


@contextmanager
def opened(
    place: Path,
    say: Say,
    tools: Sequence[BaseTool | Any],
    *,
    options: dict[str, ToolOptions] | None = None,
    how: How = "node",
    approvers: Sequence[str] = ("ana",),
    build: Callable[[LangGraphGate, SqliteSaver], Graph] | None = None,
    later: timedelta = timedelta(0),
) -> Iterator[Bench]:
    """Open a place, `later` than now; opening it again is what another process does."""
    kept = saver(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = SqliteStore(place / "placet.db", clock=lambda: datetime.now(UTC) + later)
        placet = Placet(store, approvers=approvers)
    gate = LangGraphGate(placet, tools=tools, agent="support", options=options)
    graph = (
        build(gate, kept)
        if build is not None
        else compiled(agent_graph(say, gate.tool_node(), how=how), kept)
    )
    gate.resumes(graph)
    try:
        yield Bench(place=place, placet=placet, gate=gate, graph=graph, saver=kept)
    finally:
        placet.close()
        kept.conn.close()


def wait_until(holds: Callable[[], bool], *, seconds: float = 60) -> None:
    """Wait for what another process brings about."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.005)
