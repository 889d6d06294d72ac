"""What tests of model clients share: one request, one tool, and how to ask."""

from __future__ import annotations

import asyncio

import pytest

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelTurn,
    ToolMessage,
    ToolSchema,
    UserMessage,
)
from placet.agent.models import ModelClient
from placet.core.errors import ModelTrouble
from tests.servers import model_server
from tests.servers.model_server import Body, Reply

KEY = "sk-test-123"
USER = UserMessage(text="Refund order 7, 20 USD")
REFUND = ToolSchema(
    name="issue_refund",
    description="Refunds an order.",
    parameters={"type": "object", "properties": {"order_id": {"type": "string"}}},
)


def request_of(*messages: Message, instructions: str = "Be kind.") -> ModelRequest:
    return ModelRequest(instructions=instructions, messages=messages or (USER,), tools=(REFUND,))


def ask(model: ModelClient, request: ModelRequest | None = None) -> ModelTurn:
    return asyncio.run(model.complete(request or request_of()))


def watch(
    model: ModelClient, request: ModelRequest | None = None, *, pieces: list[str] | None = None
) -> ModelTurn:
    """Ask with somebody watching, who keeps what is told in `pieces`."""
    told = [] if pieces is None else pieces
    return asyncio.run(model.complete(request or request_of(), on_text=told.append))


def answered(message: AssistantMessage) -> list[Message]:
    results = [ToolMessage(call_id=each.id, name=each.name, text="ok") for each in message.calls]
    return [message, *results]


def propose(request: Body) -> Reply:
    return model_server.calls(("issue_refund", {"order_id": "7"}), text="Refunding.")


def trouble_of(
    model: ModelClient, request: ModelRequest | None = None, *, watched: bool = False
) -> ModelTrouble:
    with pytest.raises(ModelTrouble) as caught:
        (watch if watched else ask)(model, request)
    return caught.value
