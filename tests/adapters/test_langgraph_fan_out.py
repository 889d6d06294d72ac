"""Tasks beside each other, each with messages of its own: LangGraph's `Send`, and several gates."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

from placet.adapters.langgraph import LangGraphGate
from placet.adapters.langgraph_steps import session_of
from placet.core.errors import Conflict
from tests.adapters.graphs import HELLO, THREAD, Graph, opened, pays, script
from tests.adapters.lives import carry


class Fanned(TypedDict):
    """What the graph holds: the results of the tasks that were sent."""

    messages: Annotated[list[Any], operator.add]
    results: Annotated[list[str], operator.add]


def fanned_out(orders: list[str], *, straight: bool) -> Any:
    """Give a graph that pays each order in a task of its own: a node's, or the tool node's."""

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        tools = gate.tool_node()

        def messages_of(number: int) -> list[Any]:
            call = {"name": "refund", "args": {"order": orders[number], "amount": 1}}
            said = AIMessage(
                "I call.",
                id=f"ai-{number}",
                tool_calls=[{**call, "id": f"call_{number}", "type": "tool_call"}],
            )
            return [HumanMessage("pay them all", id="human"), said]

        def pay(state: dict[str, int], config: RunnableConfig) -> Any:
            found = tools.invoke({"messages": messages_of(state["number"])}, config)
            return {"results": [found["messages"][-1].content]}

        def send(_: Fanned) -> list[Send]:
            if straight:
                return [Send("pay", {"messages": messages_of(n)}) for n in range(len(orders))]
            return [Send("pay", {"number": n}) for n in range(len(orders))]

        graph: Any = StateGraph(Fanned)
        graph.add_node("plan", lambda _: {})
        graph.add_node("pay", tools if straight else pay)
        graph.add_edge(START, "plan")
        graph.add_conditional_edges("plan", send, ["pay"])
        graph.add_edge("pay", END)
        compiled: Graph = graph.compile(checkpointer=kept)
        return compiled

    return build


@pytest.mark.promise("G3")
@pytest.mark.parametrize("straight", [True, False], ids=["the tool node", "a node that calls it"])
@pytest.mark.parametrize("orders", [["A", "B", "C"], ["A", "A"]], ids=str)
def test_tasks_that_are_sent_beside_each_other_take_a_step_each(
    tmp_path: Path, orders: list[str], straight: bool
) -> None:
    build = fanned_out(orders, straight=straight)
    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.invoke(HELLO)
        asked = bench.waiting()
        assert len(asked) == len(orders)
        for request in asked:
            bench.decide(request)
        while bench.graph.get_state(THREAD).next:
            assert carry(bench) == []
        assert sorted(bench.ledger) == [f"refund {order} 1" for order in orders]


def beside_each_other(bench_gates: dict[str, LangGraphGate], kept: SqliteSaver) -> Graph:
    """Give a graph in which two agents call tools at once, each through a gate of its own."""
    graph: Any = StateGraph(MessagesState)
    for name, gate in bench_gates.items():
        tools = gate.tool_node(name=f"tools_{name}")

        def speak(_: MessagesState, name: str = name) -> Any:
            call = {"name": f"refund_{name}", "args": {"order": name, "amount": 1}}
            made: Any = [{**call, "id": f"call_{name}", "type": "tool_call"}]
            return {"messages": [AIMessage("I call.", name=name, tool_calls=made)]}

        def act(
            state: MessagesState, config: RunnableConfig, name: str = name, tools: Any = tools
        ) -> Any:
            mine = [m for m in state["messages"] if m.type != "ai" or m.name == name]
            return tools.invoke({"messages": mine}, config)

        graph.add_node(name, speak)
        graph.add_node(f"tools_{name}", act)
        graph.add_edge(START, name)
        graph.add_edge(name, f"tools_{name}")
        graph.add_edge(f"tools_{name}", END)
    made: Graph = graph.compile(checkpointer=kept)
    return made


@pytest.mark.promise("G8", "G11")
@pytest.mark.parametrize("apart", [True, False], ids=["a session each", "one session"])
def test_gates_beside_each_other_have_a_session_each_or_are_told_that_they_need_one(
    tmp_path: Path, apart: bool
) -> None:
    with opened(tmp_path, script(), []) as bench:

        def session_of_(name: str) -> Any:
            return (lambda thread, _: f"{thread}/{name}") if apart else session_of

        gates = {
            name: LangGraphGate(
                bench.placet,
                tools=[pays(tmp_path / "ledger", f"refund_{name}")],
                agent=name,
                session=session_of_(name),
            )
            for name in ("a", "b")
        }
        graph = beside_each_other(gates, bench.saver)
        for gate in gates.values():
            gate.resumes(graph)
        if not apart:
            with pytest.raises(Conflict, match="waits in the same list of messages"):
                graph.invoke(HELLO, THREAD)
            assert len(bench.waiting()) == 1, "neither ends the other"
            return
        graph.invoke(HELLO, THREAD)
        for request in bench.waiting():
            bench.decide(request)
        while graph.get_state(THREAD).next:
            carry(bench)
        assert sorted(bench.ledger) == ["refund_a a 1", "refund_b b 1"]
