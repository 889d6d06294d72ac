"""LangGraph goes back, forks, tampers and nests: what was approved runs once, or nothing runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from placet import InProgress
from placet.adapters.langgraph import LangGraphGate
from placet.core.state import Cancelled
from tests.adapters.graphs import (
    HELLO,
    THREAD,
    Bench,
    Graph,
    agent_graph,
    calls,
    compiled,
    opened,
    pays,
    script,
)

ARGS = {"order": "A-42", "amount": 129}
REFUND = calls(("refund", ARGS))


def config_before(bench: Bench, node: str) -> Any:
    """Give the newest checkpoint from which a node is run."""
    history = bench.graph.get_state_history(THREAD)
    return next(state.config for state in history if state.next == (node,))


def test_going_back_to_before_the_tools_does_not_act_again(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        before = bench.told()
        result = bench.invoke(None, config_before(bench, "tools"))
        assert "__interrupt__" not in result
        assert bench.told() == before
        assert bench.ledger == ["refund A-42 129"]
        assert bench.waiting() == []


def test_a_model_that_is_asked_anew_is_taken_anew(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert bench.invoke(None, config_before(bench, "agent"))["messages"][-1].text == "done"
        first = list(bench.graph.get_state_history(THREAD))[-2].config
        result = bench.invoke(None, first)
        assert result["__interrupt__"], "another message of the model's is another action"
        assert bench.ledger == ["refund A-42 129"]


def test_going_back_past_a_later_message_gives_the_recorded_result_too(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        back = config_before(bench, "tools")
        bench.invoke({"messages": [HumanMessage("and again")]})
        assert len(bench.waiting()) == 1
        result = bench.invoke(None, back)
        assert result["messages"][-1].text == "done"
        assert bench.ledger == ["refund A-42 129"]


def test_a_newer_message_supersedes_what_waits(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        (first,) = bench.waiting()
        bench.invoke({"messages": [HumanMessage("no, wait")]})
        (second,) = bench.waiting()
        assert first != second
        bench.decide(second)
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-42 129"]


def regenerate(bench: Bench) -> None:
    """Have the model asked anew, from before its turn."""
    bench.invoke(None, config_before(bench, "agent"))


def put_another_message(bench: Bench) -> None:
    """Put another message in the place of the one that the model made, and go on."""
    said = bench.graph.get_state(THREAD).values["messages"][-1]
    another = said.model_copy(update={"id": "another"})
    messages = [RemoveMessage(id=said.id), another]
    bench.graph.update_state(THREAD, {"messages": messages}, as_node="agent")
    bench.invoke(None)


@pytest.mark.promise("G8")
@pytest.mark.parametrize("go_on", [regenerate, put_another_message])
@pytest.mark.parametrize("decided", [False, True], ids=["it waits", "it is approved"])
def test_what_waits_of_a_course_that_was_left_gives_way_to_the_newer_one(
    tmp_path: Path, go_on: Callable[[Bench], None], decided: bool
) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        (old,) = bench.waiting()
        if decided:
            bench.decide(old)
        go_on(bench)
        row = bench.placet.engine.store.find_request("main", old)
        assert row is not None
        assert row.request.state == Cancelled(cause="support: its thread has gone on without it")
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-42 129"]
        assert bench.told() == [("success", "refunded 129 for A-42")]


def test_a_thread_whose_course_was_changed_is_asked_about_anew_though_a_worker_saw_it_first(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        said = bench.graph.get_state(THREAD).values["messages"][-1]
        messages = [RemoveMessage(id=said.id), said.model_copy(update={"id": "another"})]
        bench.graph.update_state(THREAD, {"messages": messages}, as_node="agent")
        bench.decide(*bench.waiting())
        assert bench.placet.resume_sync(bench.run()).stop == "superseded"
        bench.invoke(None)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-42 129"]


# --- tampering ------------------------------------------------------------------------------------


def tamper_by_api(bench: Bench) -> None:
    """Put another amount into the message that the model made, as anybody with the graph can."""
    state = bench.graph.get_state(THREAD)
    said = state.values["messages"][-1]
    changed = said.model_copy(update={"tool_calls": [{**said.tool_calls[0], "args": MORE}]})
    bench.graph.update_state(THREAD, {"messages": [changed]}, as_node="agent")


def tamper_in_the_file(bench: Bench) -> None:
    """Write another amount over the bytes of the checkpoint."""
    with bench.saver.cursor() as cursor:
        cursor.execute("SELECT thread_id, checkpoint_id, checkpoint FROM checkpoints")
        for thread, checkpoint, blob in cursor.fetchall():
            changed = blob.replace(b"\xa6amount\xcc\x81", b"\xa6amount\xcc\xff")
            cursor.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE thread_id = ? AND checkpoint_id = ?",
                (changed, thread, checkpoint),
            )


MORE = {"order": "A-42", "amount": 255}


@pytest.mark.promise("G3", "G4")
@pytest.mark.parametrize("tamper", [tamper_by_api, tamper_in_the_file])
def test_a_tampered_checkpoint_runs_nothing_that_was_not_approved(
    tmp_path: Path, tamper: Callable[[Bench], None]
) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        (request,) = bench.waiting()
        tamper(bench)
        said = bench.graph.get_state(THREAD).values["messages"][-1]
        assert said.tool_calls[0]["args"] == MORE
        bench.decide(request)
        bench.invoke(Command(resume="yes"))
        assert bench.ledger == []
        ((status, text),) = bench.told()
        assert status == "error"
        assert "proposed with another call" in text
        result = bench.placet.resume_sync(bench.run())
        assert result.stop == "superseded", "the thread has gone on without what was approved"
        assert bench.ledger == []


def test_a_checkpoint_that_is_tampered_with_after_the_effect_acts_no_more(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        tamper_in_the_file(bench)
        bench.invoke(None, config_before(bench, "tools"))
        assert bench.ledger == ["refund A-42 129"]


# --- subgraphs ------------------------------------------------------------------------------------


def nested(*, parallel: int = 1, private: bool = False, persistent: bool = False) -> Any:
    """Give a graph of which agents are nodes; `private` ones have messages of their own."""

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        graph: Any = StateGraph(MessagesState)
        for number in range(parallel):
            args = {"order": f"A-{number}", "amount": number}
            inner = agent_graph(script(calls(("refund", args))), gate.tool_node())
            agent = inner.compile(checkpointer=True) if persistent else inner.compile()

            def ask(state: MessagesState, agent: Any = agent, number: int = number) -> Any:
                found = agent.invoke({"messages": [HumanMessage(f"refund order {number}")]})
                return {"messages": [AIMessage(found["messages"][-1].text)]}

            graph.add_node(f"agent{number}", ask if private else agent)
            graph.add_edge(START, f"agent{number}")
        return compiled(graph, kept)

    return build


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_call_in_a_subgraph_waits_and_goes_on(
    tmp_path: Path, private: bool, persistent: bool
) -> None:
    build = nested(private=private, persistent=persistent)
    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.invoke(HELLO)
        (request,) = bench.waiting()
        bench.decide(request)
    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-0 0"]
        assert bench.graph.get_state(THREAD).next == ()
        assert bench.placet.result_sync(bench.run()).stop == "final"


@pytest.mark.parametrize("private", [False, True])
def test_subgraphs_beside_each_other_are_decided_one_by_one(tmp_path: Path, private: bool) -> None:
    build = nested(parallel=2, private=private)
    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.invoke(HELLO)
        rows = {row.request.id: row.request.at.run for row in bench.placet.inbox_sync()}
        assert len(rows) == 2
        for request, run in rows.items():
            bench.decide(request)
            bench.placet.resume_sync(run)
        assert sorted(bench.ledger) == ["refund A-0 0", "refund A-1 1"]
        assert bench.graph.get_state(THREAD).next == ()
        assert bench.waiting() == []
        assert not bench.placet.engine.store.due(), "nobody has to be told any more"


def test_agents_that_tools_ask_beside_each_other_are_decided_one_by_one(tmp_path: Path) -> None:
    """Two calls of one message, each of which runs a graph inside its tool.

    Each is sent to a node of its own: graphs that run beside each other in one node are told apart
    by LangGraph by who came first, which another time is another.
    """
    inner: list[Graph] = []

    @tool
    def ask_cashier(order: str) -> str:
        """Have the cashier refund an order."""
        found = inner[0].invoke({"messages": [HumanMessage(order)]})
        return str(found["messages"][-1].text)

    def say(messages: list[BaseMessage]) -> AIMessage:
        order = {"order": str(messages[0].text), "amount": 1}
        return script(calls(("refund", order)))(messages)

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        inner.append(compiled(agent_graph(say, gate.tool_node())))
        both = calls(("ask_cashier", {"order": "A-1"}), ("ask_cashier", {"order": "A-2"}))
        return compiled(agent_graph(script(both), gate.tool_node(), how="send"), kept)

    options: Any = {"ask_cashier": {"reads_only": True}}
    tools = [ask_cashier, pays(tmp_path / "ledger")]
    with opened(tmp_path, script(), tools, options=options, build=build) as bench:
        bench.invoke(HELLO)
        for _ in range(10):
            for row in bench.placet.inbox_sync():
                bench.decide(row.request.id)
                bench.placet.resume_sync(row.request.at.run)
        assert sorted(bench.ledger) == ["refund A-1 1", "refund A-2 1"]
        assert bench.told() == [("success", "done"), ("success", "done")]


# --- who drives -----------------------------------------------------------------------------------


@pytest.mark.promise("D5")
def test_a_thread_that_a_living_process_drives_is_left_to_it(tmp_path: Path) -> None:
    thinks, goes_on = threading.Event(), threading.Event()

    def say(messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].type == "tool":
            thinks.set()
            assert goes_on.wait(60)
        return script(REFUND)(messages)

    with opened(tmp_path, say, [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        driving = threading.Thread(target=bench.invoke, args=(Command(resume="yes"),))
        driving.start()
        assert thinks.wait(60)
        with pytest.raises(InProgress, match="may be driving the thread"):
            bench.placet.resume_sync(bench.run())
        goes_on.set()
        driving.join()
        assert bench.placet.resume_sync(bench.run()).stop == "final"
        said = bench.graph.get_state(THREAD).values["messages"]
        assert [each.type for each in said] == ["human", "ai", "tool", "ai"]


def test_a_session_can_be_named_otherwise(tmp_path: Path) -> None:
    with opened(tmp_path, script(), []) as bench:
        named = LangGraphGate(
            bench.placet,
            tools=[pays(tmp_path / "ledger")],
            agent="named",
            session=lambda thread_id, _: f"customer {thread_id}",
            requester="cleo",
        )
        graph = compiled(agent_graph(script(REFUND), named.tool_node()), bench.saver)
        named.resumes(graph)
        graph.invoke(HELLO, THREAD)
        (row,) = bench.placet.inbox_sync()
        assert (row.session, row.request.requester) == ("customer t", "cleo")
        bench.decide(row.request.id)
        bench.placet.resume_sync(row.request.at.run)
        assert bench.ledger == ["refund A-42 129"]
