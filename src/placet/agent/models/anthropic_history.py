"""Writes the messages of a request as the Messages API wants them.

It wants turns that alternate, every call's result first in the next message, ids that no other call
has, no text without a word in it, its own thinking back as it gave it, and tools wherever there are
calls. A history may break each of these, since other models may have spoken in it; only the wire
form is mended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    RawCall,
    ToolMessage,
    UserMessage,
)
from placet.agent.models.mending import NAME_LIMIT, wire_name, wire_object
from placet.agent.models.raw_json import encodable

PROVIDER = "anthropic"
"""Names the provider content that is for this API."""

_IN_CALL = ("id", "name", "input")
_THINKING = ("thinking", "redacted_thinking")

# A message must say something. What says nothing still has its place between two others.
_SAYS_NOTHING = "(empty message)"


def without_call(block: Mapping[str, Any]) -> dict[str, Any]:
    """Give a block as it is kept: one of a call without what the message's call says already."""
    if block["type"] != "tool_use":
        return dict(block)
    return {key: value for key, value in block.items() if key not in _IN_CALL}


def wire_messages(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Give the wire form of messages that `check_request` accepts."""
    wire: list[dict[str, Any]] = []
    ids = _Ids()
    for message in messages:
        match message:
            case UserMessage():
                role, content = "user", _text(message.text)
            case ToolMessage():
                role, content = "user", [_result(ids.answered(), message.text)]
            case AssistantMessage():
                role, content = "assistant", _said(message, ids)
                if not content:
                    continue
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += content
        else:
            wire.append({"role": role, "content": content})
    for each in wire:
        each["content"] = each["content"] or _text(_SAYS_NOTHING)
    return wire


def wire_tools(request: ModelRequest) -> dict[str, object]:
    """Give the fields of a body that tell of tools.

    A request without tools can still show calls of earlier steps, as a run's closing turn does. The
    API refuses these alone, so it is told their names, and that none may be called.
    """
    tools: list[dict[str, object]] = [
        {
            "name": tool.name,
            **({"description": tool.description} if tool.description.strip() else {}),
            "input_schema": dict(tool.parameters),
        }
        for tool in request.tools
    ]
    if tools:
        return {"tools": tools}
    said = [each for each in request.messages if isinstance(each, AssistantMessage)]
    called = dict.fromkeys(wire_name(call.name) for message in said for call in message.calls)
    if not called:
        return {}
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in called]
    return {"tools": tools, "tool_choice": {"type": "none"}}


class _Ids:
    """The ids of a request's calls on the wire: sound, and distinct within the whole request.

    They come of the order alone, so that a longer history begins with the same ones, and results
    take them in the order of their calls, which `check_request` has held.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._awaited: list[str] = []

    def called(self, call: RawCall) -> str:
        sound = wanted = wire_name(call.id)
        number = 1
        while wanted in self._taken:
            number += 1
            end = f"-{number}"
            wanted = sound[: NAME_LIMIT - len(end)] + end
        self._taken.add(wanted)
        self._awaited.append(wanted)
        return wanted

    def answered(self) -> str:
        return self._awaited.pop(0)


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": encodable(text)}] if text.strip() else []


def _result(call_id: str, text: str) -> dict[str, Any]:
    content = {"content": encodable(text)} if text.strip() else {}
    return {"type": "tool_result", "tool_use_id": call_id, **content}


def _said(message: AssistantMessage, ids: _Ids) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = [
        {
            "type": "tool_use",
            "id": ids.called(call),
            "name": wire_name(call.name),
            "input": wire_object(call.arguments),
        }
        for call in message.calls
    ]
    own = _own_blocks(message)
    if own is None:
        return [*_text(message.text), *calls]
    called = iter(calls)
    return [block if block["type"] != "tool_use" else block | next(called) for block in own]


def _own_blocks(message: AssistantMessage) -> list[dict[str, Any]] | None:
    """Give the API's own blocks, or None where they are none that it would take back."""
    content = message.provider_content
    if content is None or content.provider != PROVIDER:
        return None
    try:
        blocks = list(_read(content.blocks))
    except (ValueError, RecursionError):
        return None
    if sum(block["type"] == "tool_use" for block in blocks) != len(message.calls):
        return None
    said = [block for block in blocks if block["type"] != "text" or _text(str(block.get("text")))]
    # Thinking at the end, which nothing came of, is refused; so is some of a message's thinking
    # without the rest.
    return said if said and said[-1]["type"] not in _THINKING else None


def _read(blocks: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text in blocks:
        block = json.loads(text)
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise ValueError("no block")
        yield block
