"""Agents for the tests of the chat: what they do follows from the first word of a message."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from placet import Agent, ScriptedModel, ask_person, tool
from placet.agent.messages import AssistantMessage, ModelRequest, ModelTurn
from placet.agent.models import OnText
from placet.agent.models.scripted import call, calls, say
from placet.cli.identity import TOKEN
from tests.cli.app import heard, refund, vanish

#: Where it is, a model that hangs does not.
GO = "go"
#: The pipe through which a tool is let go, and its effect.
HELD = "held"


@tool(reads_only=True)
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: paid 129"


@tool(approval="never")
def hold() -> str:
    """Act, and come back only when the pipe lets go."""
    Path(HELD).read_text(encoding="utf-8")
    with Path("effects.txt").open("a", encoding="utf-8") as effects:
        effects.write("held\n")
    return "let go"


@tool(reads_only=True)
def peek() -> str:
    """Look for an approver's token."""
    return os.environ.get(TOKEN, "no token")


#: What a model may write that must not act on a terminal; its pieces are cut in bad places.
NASTY = ("plain \x1b", "[31mred\x1b[", "0m \u202e", "desrever \x07")


class Talker(ScriptedModel):
    """A model that may hang, and that says some things in pieces of its own."""

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        """Give the reply of the script."""
        message, _ = heard(request)
        if _hangs(message):
            if on_text is not None:
                on_text("let me see")
            await asyncio.Event().wait()
        if message.startswith("nasty"):
            for piece in NASTY if on_text is not None else ():
                assert on_text is not None
                on_text(piece)
            on_text = None
        return await super().complete(request, on_text=on_text)


def _hangs(message: str) -> bool:
    return message.startswith("hang") and not Path(GO).exists()


def _script(request: ModelRequest) -> AssistantMessage:
    message, told = heard(request)
    if told:
        return say(f"Done: {told[-1]}")
    match message.split()[0]:
        case "refund":
            return calls(call("refund", order_id="A-1", amount=129), text="It broke: I pay.")
        case "two":
            first, second = (call("refund", order_id=f"A-{n}", amount=n) for n in (1, 2))
            return calls(first, second)
        case "colour":
            return call("ask_person", question="Which one?", choices=["red", "blue"])
        case "delegate":
            return call("helper", message="refund A-1")
        case "hold":
            return call("hold")
        case "peek":
            return call("peek")
        case "vanish":
            return call("vanish")
        case "nasty":
            return say("".join(NASTY))
        case "tools":
            return say(f"I have {len(request.tools)} tools, in process {os.getpid()}.")
        case _:
            return say(f"You said:\n{message}")


helper = Agent(name="helper", model=ScriptedModel(_script), tools=[look_up, refund])
support = Agent(
    name="support",
    model=Talker(_script),
    tools=[look_up, refund, hold, peek, vanish, ask_person, helper],
)
