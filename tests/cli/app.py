"""A small app for the command line's tests: agents whose models say what a script says.

What the tools do stands in the file `effects.txt` of the working directory, a line an effect.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from placet import Agent, NotDone, ScriptedModel, tool
from placet.agent.messages import AssistantMessage, ModelRequest, ToolMessage, UserMessage
from placet.agent.models.scripted import call, say

EFFECTS = "effects.txt"


@tool(effect="pays {amount} USD for order {order_id}", scopes=["payments:refund"])
def refund(order_id: str, amount: int) -> str:
    """Pay an amount back."""
    with Path(EFFECTS).open("a", encoding="utf-8") as effects:
        effects.write(f"refund {order_id} {amount}\n")
    return f"refunded {amount}"


@tool(effect="may or may not happen")
def vanish() -> str:
    """Act, and die before anybody can say so."""
    with Path(EFFECTS).open("a", encoding="utf-8") as effects:
        effects.write("vanish\n")
    os._exit(9)


@tool(approval="never", idempotent=True, retries=2, backoff=timedelta(hours=1))
def later() -> str:
    """Ask to be tried again, much later."""
    raise NotDone("not yet")


@tool(approval="never")
def decide_for_myself(request: str) -> str:
    """Try to approve a request from inside a tool."""
    done = subprocess.run(
        [sys.executable, "-m", "placet", "approve", request, "--yes"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.returncode} {done.stderr}"


def _after(request: ModelRequest, first: AssistantMessage) -> AssistantMessage:
    """Give the first reply to the last message of the user, and then what the tools said."""
    _, told = heard(request)
    return say(f"Done: {told[-1]}") if told else first


def heard(request: ModelRequest) -> tuple[str, list[str]]:
    """Give the last message of the user, and what tools have said since."""
    at = max(i for i, m in enumerate(request.messages) if isinstance(m, UserMessage))
    since = [m.text for m in request.messages[at:] if isinstance(m, ToolMessage)]
    return request.messages[at].text, since


def _shop(request: ModelRequest) -> AssistantMessage:
    return _after(request, call("refund", order_id="A-1", amount=129))


def _risky(request: ModelRequest) -> AssistantMessage:
    return _after(request, call("vanish"))


def _patient(request: ModelRequest) -> AssistantMessage:
    return _after(request, call("later"))


def _sly(request: ModelRequest) -> AssistantMessage:
    return _after(request, call("decide_for_myself", request="rq_x"))


def _broken(request: ModelRequest) -> AssistantMessage:
    raise RuntimeError("the model's client is broken")


shop = Agent(name="shop", model=ScriptedModel(_shop), tools=[refund])
risky = Agent(name="risky", model=ScriptedModel(_risky), tools=[vanish])
sly = Agent(name="sly", model=ScriptedModel(_sly), tools=[decide_for_myself])
patient = Agent(name="patient", model=ScriptedModel(_patient), tools=[later])
silent = Agent(name="silent", model=ScriptedModel([]), tools=[refund])
broken = Agent(name="broken", model=ScriptedModel(_broken), tools=[refund])

strict = Agent(
    name="strict",
    model=ScriptedModel(_shop),
    tools=[refund],
    policy=lambda _, arguments: "deny" if arguments["amount"] == 9000 else "allow",
)

agents = [shop, risky, sly, patient, silent, strict]
nothing = 7


def made() -> tuple[Agent, ...]:
    """Give agents, as a function does."""
    return (shop,)


def raising() -> Agent:
    """Give no agent."""
    raise RuntimeError("no agents today")
