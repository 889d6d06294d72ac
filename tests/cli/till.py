"""An agent whose effects may end in doubt, for the tests of settlements and of cancelling.

What it does follows from the first word of a message. What its tools did stands in `effects.txt`.
"""

from __future__ import annotations

from pathlib import Path

from placet import Agent, ScriptedModel, tool
from placet.agent.messages import AssistantMessage, ModelRequest
from placet.agent.models.scripted import call, say
from tests.cli.app import EFFECTS, heard
from tests.cli.talkers import hold


def _note(effect: str) -> None:
    with Path(EFFECTS).open("a", encoding="utf-8") as effects:
        effects.write(f"{effect}\n")


@tool(approval="never", surface="payments", effect="pays {amount} USD")
def lose(amount: int) -> str:
    """Pay, and lose the connection before anybody can say so."""
    _note(f"lose {amount}")
    raise ConnectionResetError("the bank hung up")


@tool(approval="never", surface="payments")
def pay(amount: int) -> str:
    """Pay."""
    _note(f"pay {amount}")
    return f"paid {amount}"


@tool(approval="never", surface="mail")
def mail() -> str:
    """Write a mail."""
    _note("mail")
    return "sent"


def _script(request: ModelRequest) -> AssistantMessage:
    message, told = heard(request)
    if told:
        return say(f"Done: {told[-1]}")
    match message:
        case "lose" | "pay":
            return call(message, amount=129)
        case _:
            return call(message)


till = Agent(name="till", model=ScriptedModel(_script), tools=[lose, pay, mail, hold])
