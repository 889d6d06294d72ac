"""LangGraph's tools through the gate: suspend, decide, resume, and what the model is told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field, field_validator

from placet import IdempotencyKey, InvalidDeclaration, InvalidInput, InvalidSetting, Trouble
from placet import tool as placet_tool
from placet.adapters.langgraph import LangGraphGate, idempotency_key
from tests.adapters.graphs import (
    HELLO,
    THREAD,
    Graph,
    How,
    agent_graph,
    calls,
    compiled,
    opened,
    pays,
    script,
)

ARGS = {"order": "A-42", "amount": 129}
REFUND = calls(("refund", ARGS))
EVERY_WAY = pytest.mark.parametrize("how", get_args(How))
#: The same where one way is enough to be quick about, the others being slow.
ONE_WAY_FIRST = pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=pytest.mark.slow if how != "node" else ()) for how in get_args(How)],
)


def test_a_call_waits_at_an_interrupt_and_a_decision_resumes_the_thread_elsewhere(
    tmp_path: Path,
) -> None:
    def again() -> Any:
        return opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")])

    with again() as bench:
        (found,) = bench.invoke(HELLO)["__interrupt__"]
        (request,) = bench.waiting()
        run = bench.run()
        assert found.value == {"placet": {"session": "t", "run": run, "requests": [request]}}
        assert bench.ledger == []
    with again() as bench:
        bench.decide(request)
    with again() as bench:
        bench.placet.resume_sync(run)
        assert bench.ledger == ["refund A-42 129"]
        assert bench.told() == [("success", "refunded 129 for A-42")]
        assert bench.graph.get_state(THREAD).next == ()
        assert bench.placet.result_sync(run).stop == "final"


def test_a_rejection_is_an_error_message_in_place_with_its_reason(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(bench.waiting()[0], "reject", reason="it was delivered")
        bench.placet.resume_sync(bench.run())
        ((status, text),) = bench.told()
        assert status == "error"
        assert text.startswith("Rejected by ana: it was delivered")
        assert bench.ledger == []


def test_an_edit_is_what_runs_and_the_model_is_told_what_was_changed(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(bench.waiting()[0], "edit", arguments={"order": "A-42", "amount": 100})
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-42 100"]
        ((status, text),) = bench.told()
        assert status == "success"
        assert "ana changed the arguments: amount: 129 -> 100" in text
        assert text.endswith("refunded 100 for A-42")


def test_what_a_thread_is_resumed_with_decides_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, script(REFUND), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        for value in ("approve", {"approved": True}, True):
            result = bench.invoke(Command(resume=value))
            assert result["__interrupt__"]
        assert bench.ledger == []
        bench.decide(*bench.waiting())
        bench.invoke(Command(resume="whatever"))
        assert bench.ledger == ["refund A-42 129"]


THREE = calls(
    ("refund", {"order": "A-1", "amount": 1}),
    ("get_order", {"order": "A-2"}),
    ("refund", {"order": "A-3", "amount": 3}),
)


@tool
def get_order(order: str) -> str:
    """Look at an order."""
    return f"{order}: delivered"


READS: Any = {"get_order": {"reads_only": True}}


@ONE_WAY_FIRST
def test_calls_of_one_message_are_asked_at_once_and_decided_one_by_one(
    tmp_path: Path, how: How
) -> None:
    tools = [pays(tmp_path / "ledger"), get_order]
    with opened(tmp_path, script(THREE), tools, options=READS, how=how) as bench:
        bench.invoke(HELLO)
        first, third = bench.waiting()
        bench.decide(first)
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-1 1"]
        assert bench.waiting() == [third]
        bench.decide(third, "reject", reason="no")
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-1 1"]
        found = bench.told()
        assert [status for status, _ in found] == ["success", "success", "error"]
        assert [text.split("\n")[0] for _, text in found] == [
            "refunded 1 for A-1",
            "A-2: delivered",
            "Rejected by ana: no",
        ]


@ONE_WAY_FIRST
def test_a_later_call_waits_for_an_older_request_though_it_is_approved(
    tmp_path: Path, how: How
) -> None:
    tools = [pays(tmp_path / "ledger"), get_order]
    with opened(tmp_path, script(THREE), tools, options=READS, how=how) as bench:
        bench.invoke(HELLO)
        first, third = bench.waiting()
        bench.decide(third)
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == []
        bench.decide(first)
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-1 1", "refund A-3 3"]


@EVERY_WAY
def test_reads_go_on_while_an_effect_waits(tmp_path: Path, how: How) -> None:
    seen: list[str] = []

    @tool("get_order")
    def look(order: str) -> str:
        """Look at an order."""
        seen.append(order)
        return "delivered"

    step = calls(("get_order", {"order": "A-2"}), ("refund", ARGS))
    tools = [pays(tmp_path / "ledger"), look]
    with opened(tmp_path, script(step), tools, options=READS, how=how) as bench:
        bench.invoke(HELLO)
        assert seen == ["A-2"]
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert seen == ["A-2"], "what was read is not read again"
        assert bench.ledger == ["refund A-42 129"]


@ONE_WAY_FIRST
def test_a_step_of_many_calls_is_ruled_on_call_by_call_and_not_whole_for_each(
    tmp_path: Path, how: How
) -> None:
    asked: list[str] = []

    def approval(arguments: Any) -> bool:
        asked.append(arguments["order"])
        return False

    step = calls(*(("refund", {"order": f"A-{n}", "amount": n}) for n in range(10)))
    options: Any = {"refund": {"approval": approval}}
    tools = [pays(tmp_path / "ledger")]
    with opened(tmp_path, script(step), tools, options=options, how=how) as bench:
        bench.invoke(HELLO)
        assert len(bench.ledger) == 10
    assert set(asked) == {f"A-{n}" for n in range(10)}
    # Once when it is proposed, and when it begins; of those that try at once, all but one again.
    assert len(asked) <= 10 + sum(range(11))


def test_a_node_that_runs_again_from_its_top_does_not_act_again(tmp_path: Path) -> None:
    """The node fails after its tools have acted, before LangGraph has written anything down."""
    fails = [True]

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        tools = gate.tool_node()

        def node(state: MessagesState, config: RunnableConfig) -> Any:
            found = tools.invoke(state, config)
            if fails.pop() if fails else False:
                raise RuntimeError("the machine fails")
            return found

        return compiled(agent_graph(script(REFUND), node), kept)

    options: Any = {"refund": {"approval": "never"}}
    tools = [pays(tmp_path / "ledger")]
    with opened(tmp_path, script(), tools, options=options, build=build) as bench:
        with pytest.raises(RuntimeError):
            bench.invoke(HELLO)
        assert bench.ledger == ["refund A-42 129"]
        bench.invoke(None)
        assert bench.ledger == ["refund A-42 129"]
        assert bench.told() == [("success", "refunded 129 for A-42")]


def test_a_tool_of_placets_runs_with_its_key_and_what_it_declares(tmp_path: Path) -> None:
    keys: list[str] = []

    @placet_tool(surface="payments")
    def refund(order: str, amount: int, *, key: IdempotencyKey) -> str:
        """Pay a refund."""
        keys.append(key)
        return "refunded"

    with opened(tmp_path, script(REFUND), [refund]) as bench:
        (shown,) = bench.gate.tools
        assert shown.name == "refund"
        assert shown.description == "Pay a refund."
        assert set(shown.args) == {"order", "amount"}
        with pytest.raises(InvalidInput, match="past_the_gate"):
            shown.invoke(ARGS)
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert bench.told() == [("success", "refunded")]
        assert len(keys) == 1


def test_what_langgraph_injects_is_not_the_models_and_is_not_shown(tmp_path: Path) -> None:
    @tool
    def refund(
        order: str,
        state: Annotated[dict[str, Any], InjectedState],
        call: Annotated[str, InjectedToolCallId],
        amount: int = 7,
    ) -> str:
        """Pay a refund."""
        return f"{order} {amount} {call} {len(state['messages'])} {idempotency_key()[:3]}"

    forged = calls(("refund", {"order": "A-42", "state": {"messages": []}, "call": "forged"}))
    with opened(tmp_path, script(forged), [refund]) as bench:
        bench.invoke(HELLO)
        (request,) = bench.waiting()
        shown = bench.placet.show_sync(request)
        assert dict(shown.arguments) == {
            "order": '"A-42"',
            "amount": "7",
        }
        bench.decide(request)
        bench.placet.resume_sync(bench.run())
        assert bench.told() == [("success", "A-42 7 call_0 2 ik_")]


def test_a_validator_of_the_tools_own_schema_is_run_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    class Refund(BaseModel):
        order: str
        amount: int = Field(gt=0)

        @field_validator("order")
        @classmethod
        def _upper(cls, order: str) -> str:
            return order.upper()

    @tool(args_schema=Refund)
    def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        return order

    turns = [
        calls(("refund", {"order": "a-42", "amount": -1})),
        calls(("refund", {"order": "a-42", "amount": 1})),
    ]
    with opened(tmp_path, script(*turns), [refund]) as bench:
        bench.invoke(HELLO)
        assert bench.told()[0][0] == "error"
        assert bench.told()[0][1].startswith("Invalid arguments: amount:")
        (request,) = bench.waiting()
        shown = bench.placet.show_sync(request)
        assert '"A-42"' in dict(shown.arguments).values(), "what is shown is what runs"
        bench.decide(request)
        bench.placet.resume_sync(bench.run())
        assert bench.told()[1] == ("success", "A-42")


def test_calls_that_cannot_run_are_answered_in_place(tmp_path: Path) -> None:
    step = calls(("refund", {"order": "A-42"}), ("unheard_of", {}), ("refund", ARGS))
    options: Any = {"refund": {"approval": "never"}}
    tools = [pays(tmp_path / "ledger")]
    with opened(tmp_path, script(step), tools, options=options) as bench:
        bench.invoke(HELLO)
        assert [text.split("\n")[0] for _, text in bench.told()] == [
            "Invalid arguments: amount: Field required",
            "Unknown tool 'unheard_of'. The tools are: refund.",
            "refunded 129 for A-42",
        ]
        assert [status for status, _ in bench.told()] == ["error", "error", "success"]


def test_unreadable_arguments_go_to_a_person_as_text(tmp_path: Path) -> None:
    step = calls(("refund", {"order": "A-42", "amount": float("nan")}))
    with opened(tmp_path, script(step), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        (request,) = bench.waiting()
        bench.decide(request, "edit", arguments=ARGS)
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-42 129"]


def test_a_tool_that_fails_is_an_error_that_may_have_acted(tmp_path: Path) -> None:
    def refund(order: str, amount: int) -> str:
        """Pay a refund."""
        raise ValueError("the bank says no")

    options: Any = {"refund": {"approval": "never"}}
    with opened(tmp_path, script(REFUND), [refund], options=options) as bench:
        bench.invoke(HELLO)
        assert bench.told() == [
            ("error", "Failed: ValueError: the bank says no\nIt may have acted before it failed.")
        ]


def test_a_command_of_a_tools_acts_on_the_graph(tmp_path: Path) -> None:
    @tool
    def refund(order: str, amount: int, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Pay a refund."""
        told = ToolMessage(f"refunded {amount}", tool_call_id=call)
        return Command(update={"messages": [told]}, goto="agent")

    with opened(tmp_path, script(REFUND), [refund]) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert bench.told() == [("success", "refunded 129")]
        events = bench.placet.engine.store.events("main", "t")
        assert [event.kind for event in events].count("AttemptBegun") == 1


def test_a_run_that_is_over_answers_every_further_call_without_running_it(tmp_path: Path) -> None:
    """The model proposes again and again what a person said no to (G6)."""
    turns = [REFUND] * 4
    with opened(tmp_path, script(*turns), [pays(tmp_path / "ledger")]) as bench:
        bench.invoke(HELLO)
        bench.decide(bench.waiting()[0], "reject", reason="no")
        bench.placet.resume_sync(bench.run())
        assert [status for status, _ in bench.told()] == ["error"] * 4
        assert "The run has ended: rejection_loop." in bench.told()[-1][1]
        assert bench.waiting() == []
        assert bench.placet.result_sync(bench.run()).stop == "rejection_loop"


def test_an_agent_that_a_tool_asks_has_its_own_tools_in_the_gate(tmp_path: Path) -> None:
    """A graph that runs inside a tool: the outer tool only reads, the inner one acts."""

    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        inner = compiled(agent_graph(script(REFUND), gate.tool_node()))
        holder.append(inner)
        say = script(calls(("ask_cashier", {"task": "refund A-42"})))
        return compiled(agent_graph(say, gate.tool_node()), kept)

    holder: list[Graph] = []

    @tool
    def ask_cashier(task: str) -> str:
        """Have the cashier do something."""
        found = holder[0].invoke({"messages": [HumanMessage(task)]})
        return str(found["messages"][-1].text)

    options: Any = {"ask_cashier": {"reads_only": True}}
    tools = [ask_cashier, pays(tmp_path / "ledger")]
    with opened(tmp_path, script(), tools, options=options, build=build) as bench:
        bench.invoke(HELLO)
        (request,) = bench.waiting()
        bench.decide(request)
        row = bench.placet.engine.store.find_request("main", request)
        assert row is not None
        bench.placet.resume_sync(row.request.at.run)
        assert bench.ledger == ["refund A-42 129"]
        assert bench.told() == [("success", "done")]


def test_a_tool_that_interrupts_itself_is_entered_again_if_it_only_reads(tmp_path: Path) -> None:
    @tool("refund")
    def asks(order: str, amount: int) -> str:
        """Ask somebody."""
        return f"they say {interrupt('what do you say?')}"

    options: Any = {"refund": {"reads_only": True}}
    with opened(tmp_path, script(REFUND), [asks], options=options) as bench:
        (found,) = bench.invoke(HELLO)["__interrupt__"]
        assert found.value == "what do you say?"
        bench.invoke(Command(resume="yes"))
        assert bench.told() == [("success", "they say yes")]
    (tmp_path / "effect").mkdir()
    options = {"refund": {"approval": "never"}}
    with opened(tmp_path / "effect", script(REFUND), [asks], options=options) as bench:
        assert "__interrupt__" not in bench.invoke(HELLO)
        assert bench.told()[0][0] == "error"
        assert "interrupted itself in its body" in bench.told()[0][1]


def test_a_read_that_is_asked_about_waits_like_any_other_call(tmp_path: Path) -> None:
    options: Any = {"refund": {"reads_only": True, "approval": "always"}}
    tools = [pays(tmp_path / "ledger")]
    with opened(tmp_path, script(REFUND), tools, options=options) as bench:
        bench.invoke(HELLO)
        bench.decide(*bench.waiting())
        bench.placet.resume_sync(bench.run())
        assert bench.ledger == ["refund A-42 129"]


# --- mistakes -------------------------------------------------------------------------------------


def test_a_tool_outside_a_thread_is_a_mistake_that_is_named(tmp_path: Path) -> None:
    def build(gate: LangGraphGate, kept: SqliteSaver) -> Graph:
        return compiled(agent_graph(script(REFUND), gate.tool_node()), kept)

    with opened(tmp_path, script(), [pays(tmp_path / "ledger")], build=build) as bench:
        node = bench.gate.tool_node()
        bare = compiled(agent_graph(script(REFUND), node))
        with pytest.raises(InvalidInput, match="outside a thread"):
            bare.invoke(HELLO)
        with pytest.raises(InvalidDeclaration, match="no checkpointer"):
            bench.gate.resumes(bare)
        assert bench.waiting() == []


@pytest.mark.slow
def test_nobody_is_asked_before_langgraph_has_written_down_where_to_go_on(tmp_path: Path) -> None:
    options: Any = {"refund": {"approval": "never"}}
    tools = [pays(tmp_path / "ledger")]
    with opened(tmp_path, script(REFUND), tools, options=options) as bench:
        with pytest.raises(Trouble, match="not written down"):
            bench.graph.invoke(HELLO, THREAD, durability="exit")
        assert bench.ledger == []
        assert bench.waiting() == []


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, script(), []) as bench:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(InvalidSetting, match=r"placet\[langgraph\]"):
            LangGraphGate(bench.placet, tools=[], agent="other")


def test_options_for_no_tool_and_wrong_options_are_mistakes(tmp_path: Path) -> None:
    with opened(tmp_path, script(), []) as bench:
        wrong: Any
        for wrong in ({"refnd": {}}, {"refund": {"retries": -1}}):
            with pytest.raises(InvalidDeclaration):
                LangGraphGate(
                    bench.placet, tools=[pays(tmp_path / "x")], agent="other", options=wrong
                )
