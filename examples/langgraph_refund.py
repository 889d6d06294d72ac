"""The LangGraph agent of docs/how-to/gate-another-loop.md. A function stands for its model.

    python langgraph_refund.py        # begins thread "customer-7", which waits at a refund

tests/examples/test_langgraph_refund.py runs it, and tests/test_docs.py holds the page's code to the
parts between the marks.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import tools_condition

from placet import Placet
from placet.adapters.langgraph import LangGraphGate, idempotency_key


@tool
def order_status(order: str) -> str:
    """Look an order up."""
    return f"{order}: delivered, reported broken"


def speak(state: MessagesState) -> dict[str, Any]:
    """Stand for a model that is bound to the gate's tools."""
    said = sum(isinstance(message, AIMessage) for message in state["messages"])
    looks: Any = {"name": "order_status", "args": {"order": "A-42"}, "id": "call_1"}
    pays: Any = {"name": "refund", "args": {"order": "A-42", "cents": 12900}, "id": "call_2"}
    turns = [
        AIMessage("I look it up.", tool_calls=[looks]),
        AIMessage("It arrived broken: I refund it.", tool_calls=[pays]),
        AIMessage("Your money is on its way."),
    ]
    return {"messages": [turns[min(said, len(turns) - 1)]]}


# Shown: a LangGraph agent.
@tool
def refund(order: str, cents: int) -> str:
    """Pay a customer back."""
    with open("ledger.txt", "a", encoding="utf-8") as ledger:
        ledger.write(f"{idempotency_key()} {order} {cents}\n")
    return f"refunded {cents} cents for {order}"


def graph_of(placet: Placet, threads: SqliteSaver) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the graph as ever; its tool node is the gate's."""
    gate = LangGraphGate(
        placet,
        agent="support",
        tools=[order_status, refund],
        options={
            "order_status": {"reads_only": True},
            "refund": {"surface": "payments", "effect": "pays {cents} cents back for {order}"},
        },
    )
    building = StateGraph(MessagesState)
    building.add_node("model", speak)  # A real one is bound to the gate's tools.
    building.add_node("tools", gate.tool_node())
    building.add_edge(START, "model")
    building.add_conditional_edges("model", tools_condition)
    building.add_edge("tools", "model")
    graph = building.compile(checkpointer=threads)
    gate.resumes(graph)
    return graph


# Shown: a thread.
def main() -> None:
    message: Any = {"messages": [HumanMessage("Order A-42 arrived broken.")]}
    with (
        Placet.open("sqlite:///placet.db") as placet,
        SqliteSaver.from_conn_string("threads.db") as threads,
    ):
        graph = graph_of(placet, threads)
        result = graph.invoke(message, {"configurable": {"thread_id": "customer-7"}})
        for waits in result.get("__interrupt__", ()):
            print(waits.value["placet"]["run"], "waits for", *waits.value["placet"]["requests"])


def app(placet: Placet) -> None:
    """Set the graph up for a worker: `--app langgraph_refund:app`."""
    threads = sqlite3.connect("threads.db", check_same_thread=False)
    graph_of(placet, SqliteSaver(threads))


# Shown until here.
if __name__ == "__main__":
    main()
