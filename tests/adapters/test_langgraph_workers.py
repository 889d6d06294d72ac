"""Threads that a decision resumes, beside others that are at them: workers, and their users."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from placet.adapters.langgraph import LangGraphGate
from placet.agent.tools import ToolOptions
from placet.runtime import hosted_drivers
from tests.adapters.graphs import (
    HELLO,
    THREAD,
    Bench,
    Graph,
    How,
    agent_graph,
    calls,
    compiled,
    opened,
    pays,
    script,
    wait_until,
)
from tests.adapters.lives import carry

PAY = ("refund", {"order": "A-42", "amount": 129})
ASK = ("ask_user", {"question": "which account?"})
REFUND = calls(PAY)
READS: dict[str, ToolOptions] = {"ask_user": {"reads_only": True}}


@tool
def ask_user(question: str) -> str:
    """Ask the user, by LangGraph's own interrupt."""
    return f"the user says {interrupt({'ask': question})}"


@pytest.mark.promise("G7")
def test_what_is_approved_waits_for_an_interrupt_of_the_users_own_in_its_node(
    tmp_path: Path,
) -> None:
    say, tools = script(calls(ASK, PAY)), [pays(tmp_path / "ledger"), ask_user]
    with opened(tmp_path, say, tools, options=READS) as bench:
        bench.invoke(HELLO)
        assert bench.interrupts() == [{"ask": "which account?"}]
        bench.decide(*bench.waiting())
        (told,) = carry(bench)
        assert "has not gone on yet" in told
        assert bench.ledger == []
        bench.invoke(Command(resume="Bob"))
        assert bench.ledger == ["refund A-42 129"]
        assert bench.told() == [
            ("success", "the user says Bob"),
            ("success", "refunded 129 for A-42"),
        ]


@pytest.mark.promise("G7")
@pytest.mark.parametrize("how", ["node", "context"])
def test_a_worker_answers_no_interrupt_of_the_users_own(tmp_path: Path, how: How) -> None:
    say, tools = script(calls(PAY, ASK)), [pays(tmp_path / "ledger"), ask_user]
    with opened(tmp_path, say, tools, options=READS, how=how) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        assert carry(bench) == []
        assert bench.ledger == ["refund A-42 129"]
        (question,) = bench.graph.get_state(THREAD).interrupts
        assert question.value == {"ask": "which account?"}
        assert carry(bench) == [], "what waits for the user is nobody else's"
        bench.invoke(Command(resume={question.id: "Bob"}))
        assert bench.told() == [
            ("success", "refunded 129 for A-42"),
            ("success", "the user says Bob"),
        ]
        assert bench.ledger == ["refund A-42 129"]


@pytest.mark.parametrize(
    "breakpoints",
    [
        {"interrupt_before": ["publish"]},
        {"interrupt_before": ["publish", "tools"]},
        {"interrupt_after": ["tools"]},
        {"interrupt_after": "*"},
        {"interrupt_before": "*"},
    ],
    ids=str,
)
@pytest.mark.parametrize("by_hand", [True, False], ids=["resumed by hand", "by the worker"])
def test_a_worker_passes_no_breakpoint_of_the_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breakpoints: Any, by_hand: bool
) -> None:
    monkeypatch.setattr(hosted_drivers, "LEFT_ALONE", timedelta(0))  # As if who resumed had died.
    published: list[str] = []

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        made: Any = StateGraph(MessagesState)
        made.add_node("agent", lambda _: {"messages": [REFUND.model_copy(deep=True)]})
        made.add_node("tools", gate.tool_node())
        made.add_node("publish", lambda _: published.append("it"))
        made.add_edge(START, "agent")
        made.add_edge("agent", "tools")
        made.add_edge("tools", "publish")
        made.add_edge("publish", END)
        compiled_: Graph = made.compile(checkpointer=kept, **breakpoints)
        return compiled_

    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.invoke(HELLO)
        while not bench.waiting():
            bench.invoke()  # Its user passes the breakpoints before the call.
        bench.decide(*bench.waiting())
        if by_hand:
            bench.invoke(Command(resume="go on"))
    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        assert carry(bench) == []
        assert carry(bench) == []
        assert bench.ledger == ["refund A-42 129"]
        assert (bench.graph.get_state(THREAD).next, published) == (("publish",), [])
        bench.invoke()
        assert published == ["it"]


@pytest.mark.parametrize(
    "breakpoints", [{"interrupt_before": ["publish"]}, {"interrupt_after": ["tools"]}], ids=str
)
def test_a_worker_passes_no_breakpoint_of_a_subgraphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breakpoints: Any
) -> None:
    monkeypatch.setattr(hosted_drivers, "LEFT_ALONE", timedelta(0))  # As if who resumed had died.
    published: list[str] = []

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        below: Any = StateGraph(MessagesState)
        below.add_node("agent", lambda _: {"messages": [REFUND.model_copy(deep=True)]})
        below.add_node("tools", gate.tool_node())
        below.add_node("publish", lambda _: published.append("it"))
        for edge in ((START, "agent"), ("agent", "tools"), ("tools", "publish"), ("publish", END)):
            below.add_edge(*edge)
        made: Any = StateGraph(MessagesState)
        made.add_node("child", below.compile(**breakpoints))
        made.add_edge(START, "child")
        compiled_: Graph = made.compile(checkpointer=kept)
        return compiled_

    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.invoke(Command(resume="go on"))
        assert (bench.ledger, published) == (["refund A-42 129"], [])
        assert carry(bench) == []
        assert (bench.graph.get_state(THREAD).next, published) == (("child",), [])
        bench.invoke()
        assert published == ["it"]


def test_a_node_of_the_users_that_fails_after_the_gate_is_run_again_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, mails = [0.0], []
    monkeypatch.setattr(hosted_drivers, "awake", lambda: now[0])
    monkeypatch.setattr(hosted_drivers, "LEFT_ALONE", timedelta(0))

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        def mail(_: MessagesState) -> None:
            mails.append(now[0])
            if len(mails) < 5:
                raise ValueError("the mail is out, and then this node fails")

        made: Any = StateGraph(MessagesState)
        made.add_node("agent", lambda _: {"messages": [REFUND.model_copy(deep=True)]})
        made.add_node("tools", gate.tool_node())
        made.add_node("mail", mail)
        for edge in ((START, "agent"), ("agent", "tools"), ("tools", "mail"), ("mail", END)):
            made.add_edge(*edge)
        compiled_: Graph = made.compile(checkpointer=kept)
        return compiled_

    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        while bench.graph.get_state(THREAD).next:
            carry(bench)
            now[0] += 30
        assert mails == [0, 30, 90, 210, 450]
        assert bench.ledger == ["refund A-42 129"]


@pytest.mark.promise("D5")
def test_of_two_workers_one_resumes_a_thread_and_the_users_own_nodes_run_once(
    tmp_path: Path,
) -> None:
    entered, goes_on = threading.Event(), threading.Event()
    notes: list[str] = []

    @contextmanager
    def worker(name: str) -> Iterator[Bench]:
        def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
            tools = gate.tool_node()

            def noted(state: MessagesState, config: RunnableConfig) -> Any:
                notes.append(name)
                if len(notes) == 2:
                    entered.set()
                    assert goes_on.wait(60)
                return tools.invoke(state, config)

            return compiled(agent_graph(script(REFUND), noted), kept)

        pay = pays(tmp_path / "ledger")
        with opened(tmp_path, script(), [pay], build=build) as bench:
            yield bench

    with worker("first") as first, worker("second") as second:
        first.invoke(HELLO)
        first.decide(*first.waiting())
        told: list[list[str]] = []
        driving = [threading.Thread(target=lambda: told.append(carry(first)))]
        driving[0].start()
        assert entered.wait(60)
        driving.append(threading.Thread(target=lambda: told.append(carry(second))))
        driving[1].start()
        wait_until(lambda: "second" in notes or not driving[1].is_alive())
        goes_on.set()
        for each in driving:
            each.join(60)
        assert notes == ["first", "first"], "once as it asked, and once as it was resumed"
        ((busy,), done) = told
        assert "was told to go on with it" in busy
        assert done == []
        assert first.told() == [("success", "refunded 129 for A-42")]
        assert first.graph.get_state(THREAD).next == ()
    assert len(first.ledger) == 1
