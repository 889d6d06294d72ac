"""The agents of docs/how-to/build-an-agent.md. A script stands for every model.

tests/examples/test_support_agents.py runs them, and tests/test_docs.py holds the page's code to the
parts between the marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from placet import (
    Agent,
    AnthropicModel,
    OpenAIModel,
    Placet,
    RunResult,
    ScriptedModel,
    ask_person,
    tool,
)
from placet.agent.models import ModelClient
from placet.agent.models.scripted import call, calls, say
from placet.agent.watching import RunEvent, TextArrives


# Shown: an agent.
@tool(reads_only=True)
def order_status(order: str) -> str:
    """Look an order up."""
    return f"{order}: delivered, reported broken"


@tool(surface="payments", effect="pays {cents} cents back for order {order}")
def refund(order: str, cents: int) -> str:
    """Pay a customer back."""
    return f"refunded {cents} cents for {order}"


script = [
    call("order_status", order="A-42"),
    calls(call("refund", order="A-42", cents=12900), text="It arrived broken: I refund it."),
    say("Your money is on its way."),
]
support = Agent(
    name="support",
    model=ScriptedModel(script),
    tools=[order_status, refund],
    instructions="You help the customers of a shop. Look an order up before you refund it.",
    max_steps=10,
)


# Shown: a run.
def first_message() -> RunResult:
    """Begin a run, and drive it until it waits for a person or is over."""
    with Placet.open("sqlite:///placet.db", agents=[support]) as placet:
        return placet.run_sync(support, "Order A-42 arrived broken.", session="customer-7")


# Shown: models.
def models() -> list[ModelClient]:
    """Make clients. None of them connects before a run asks it."""
    return [
        AnthropicModel("claude-sonnet-4-5", max_tokens=8_000),
        OpenAIModel("gpt-5-mini", timeout=timedelta(minutes=2)),
        OpenAIModel("qwen3", base_url="http://localhost:8000/v1", extra_body={"temperature": 0}),
    ]


# Shown: a watcher.
def watch(event: RunEvent) -> None:
    """Show what the model says as it comes, and which tools it uses."""
    if isinstance(event, TextArrives):
        print(event.text, end="", flush=True)
    elif event.tools:  # It is WorkBegins.
        print(f"\n[{', '.join(event.tools)}]")


def watched_message(placet: Placet) -> RunResult:
    return placet.run_sync("support", "Order A-42 arrived broken.", on_event=watch)


# Shown: a question.
clerk = Agent(
    name="clerk",
    model=ScriptedModel(
        [
            call("ask_person", question="Keep the parcel?", answer="yes_no"),
            say("You decided about the parcel."),
        ]
    ),
    tools=[ask_person],
)


# Shown: an agent as a tool.
def large_refunds(tool: str, arguments: Mapping[str, Any]) -> str:
    """Rule on every call of the agent, and of the agents under it."""
    if tool != "refund":
        return "allow"
    return "deny" if arguments["cents"] > 50_000 else "ask"


lead = Agent(
    name="lead",
    model=ScriptedModel([call("ask_support", message="Refund A-42."), say("It is dealt with.")]),
    tools=[support.as_tool(name="ask_support", description="It knows orders and refunds.")],
    policy=large_refunds,
)


# Shown until here.
def agents() -> list[Agent]:
    """Give the agents: `--app support_agents:agents`."""
    return [support, clerk, lead]
