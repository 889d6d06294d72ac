"""What a LangChain tool declares to the gate, and how what it answers is written down.

A tool's own `args_schema` validates the arguments before they are frozen, and reads them once more
when the tool is invoked; what it would read as another value is not frozen at all (G4). Arguments
that LangGraph injects are not the model's: they are neither shown nor digested.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from placet.agent.signatures import Signature
from placet.agent.tools import Tool, ToolOptions, tool
from placet.core.canonical import JsonValue
from placet.core.errors import InvalidDeclaration, InvalidInput
from placet.runtime.bodies import text_of
from placet.runtime.declarations import Arguments, Declaration, NotDone

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool

key_now: ContextVar[str] = ContextVar("placet_idempotency_key", default="")


def idempotency_key() -> str:
    """Give the idempotency key of the attempt that the caller, a tool's body, is (D4).

    It is the same for every attempt at one call, in any process. Raises InvalidInput elsewhere.
    """
    key = key_now.get()
    if not key:
        raise InvalidInput(
            "not_inside_tool", "Only the body of a tool that is an effect has an idempotency key."
        )
    return key


class ToolSaidError(Exception):
    """A tool answered with a message of status "error": it may have acted before."""


def as_langchain(given: Any) -> BaseTool:
    """Give a tool as LangGraph's ToolNode and `bind_tools` take it."""
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.tools import tool as make_tool

    if isinstance(given, BaseTool):
        return given
    if not isinstance(given, Tool):
        made: BaseTool = make_tool(given)
        return made
    declared = given.declaration
    return StructuredTool(
        name=declared.name,
        description=declared.description,
        args_schema=dict(declared.parameters),
        func=_past_the_gate,
    )


def _past_the_gate(**_: Any) -> NoReturn:
    raise InvalidInput("past_the_gate", "A tool of placet's runs through its gate alone (G2).")


def declaration_of(given: Any, options: ToolOptions | None) -> Declaration:
    """Give what a tool declares; raises InvalidDeclaration."""
    if isinstance(given, Tool):
        if options:
            raise InvalidDeclaration(
                "invalid_tool", f"Tool {given.__name__}: its options stand in its own declaration."
            )
        return given.declaration
    from langgraph.errors import GraphBubbleUp

    found = as_langchain(given)
    # An empty function lends its declaration: the options are checked where all tools' are.
    asked: ToolOptions = {**(options or {}), "name": found.name}
    lent = tool(_nothing, **asked).declaration
    schema = found.tool_call_schema
    if isinstance(schema, dict):  # Of an MCP server, say; who made it validates.
        parameters: dict[str, Any] = schema
        validate: Callable[[Arguments], dict[str, JsonValue]] = dict
    else:
        reading = Signature.of_models(found.name, found.get_input_schema(), schema)
        parameters, validate = dict(reading.parameters), reading.validate
    return replace(
        lent,
        description=found.description,
        parameters=parameters,
        validate=validate,
        body=_outside_its_graph,
        suspends=(GraphBubbleUp,),
        fingerprint="",
    )


def _nothing() -> None:
    """Do nothing."""


async def _outside_its_graph(_arguments: Arguments, _key: str) -> NoReturn:
    raise NotDone("The tool runs inside its LangGraph graph alone.")


def text_of_answer(answer: Any, call_id: str) -> str:
    """Give the text of a ToolNode's answer to a call, for the record.

    Of a `Command` this is its message to the model. Raises ToolSaidError for a message that says
    that the tool failed.
    """
    message = _message_in(answer, call_id)
    if message is None:
        return text_of(answer)
    if message.status == "error":
        raise ToolSaidError(text_of(message.content))
    return text_of(message.content)


def _message_in(answer: Any, call_id: str) -> ToolMessage | None:
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command

    if isinstance(answer, ToolMessage):
        return answer
    if isinstance(answer, Command):
        parts = answer.update.values() if isinstance(answer.update, dict) else [answer.update]
        answer = [each for part in parts if isinstance(part, list) for each in part]
    found = [_message_in(each, call_id) for each in answer] if isinstance(answer, list) else []
    return next((each for each in found if each and each.tool_call_id == call_id), None)
