"""The form of Anthropic's Messages API: its answers, streams, errors, and ways to go wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.servers import messages_rules
from tests.servers.chat_wire import pieces
from tests.servers.faults import Fault
from tests.servers.refused import Refused

Body = dict[str, Any]

NO_CONTENT: Body = {"id": "msg_1", "type": "message", "role": "assistant"}

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
# Which of a block's fields come in pieces, by which delta, under which name there.
_GROWS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "input": ("input_json_delta", "partial_json"),
}


def thought(text: str) -> Body:
    """Make a block of thinking, signed."""
    return {"type": "thinking", "thinking": text, "signature": messages_rules.sign(text)}


class MessagesWire:
    """One server's side of this wire. It remembers the thinking that it wants back."""

    path = "/v1/messages"
    half = b'{"id": "msg_1", "type": "message", "content": [{"type": "te'
    no_content = NO_CONTENT

    def __init__(self) -> None:
        self._memory = messages_rules.Memory()

    def check(
        self, path: str, headers: dict[str, str], body: Body | None, *, api_key: str | None
    ) -> None:
        """Raise `Refused` for the first thing that is wrong with a request."""
        messages_rules.check(path, headers, body, api_key=api_key, memory=self._memory)

    def refusal(self, refused: Refused) -> Body:
        """Give the body that answers what is not as it must be."""
        return self.error(refused.status, str(refused))

    def error(self, status: int, message: str) -> Body:
        """Give the body of an error."""
        error = {"type": _TYPES.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def answer(self, request: Body, reply: str | Body, number: int) -> Body:
        """Give the answer that a script's reply stands for.

        A reply is a text, a message as `calls` makes it, `{"blocks": [...]}`, or a whole answer.
        """
        if isinstance(reply, dict) and "content" in reply and "type" in reply:
            return reply
        reply = {"content": reply} if isinstance(reply, str) else reply
        content = reply["blocks"] if "blocks" in reply else _content(reply)
        made = [_called(block, f"toolu_{number:04}_{at}") for at, block in enumerate(content)]
        called = any(block["type"] == "tool_use" for block in made)
        shown, said = len(json.dumps(request)) // 4, len(json.dumps(made)) // 4
        answer = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": made,
            "stop_reason": reply.get("stop_reason") or ("tool_use" if called else "end_turn"),
            "stop_sequence": None,
            "usage": reply.get("usage") or {"input_tokens": shown, "output_tokens": said},
        }
        if "stop_details" in reply:
            answer["stop_details"] = reply["stop_details"]
        self._memory.keep(made)
        return answer

    def encoded(self, answer: Body) -> bytes:
        """Give an answer's bytes; a call's input that is a text is put in as it is."""
        shown = json.loads(json.dumps(answer))
        raw: list[str] = []
        for block in shown["content"]:
            if isinstance(block, dict) and isinstance(block.get("input"), str):
                raw.append(_object(block["input"]))
                block["input"] = f"@raw {len(raw) - 1}@"
        text = json.dumps(shown)
        for index, given in enumerate(raw):
            text = text.replace(f'"@raw {index}@"', given)
        return text.encode()

    def events(self, request: Body, answer: Body, piece: int) -> Iterator[bytes]:
        """Give the stream that says the same, its texts in pieces of so many characters."""
        usage = answer.get("usage") or {}
        begun = {**answer, "content": [], "stop_reason": None}
        begun.pop("stop_details", None)
        begun["usage"] = {**usage, "output_tokens": 1}
        yield _event("message_start", message=begun)
        yield _event("ping")
        for index, block in enumerate(answer["content"]):
            yield _event("content_block_start", index=index, content_block=_begun(block))
            for delta in _deltas(block, piece):
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        keys = ("stop_reason", "stop_sequence", "stop_details")
        delta = {key: answer[key] for key in keys if key in answer}
        # What does not apply is told as nothing, and takes nothing back.
        counted = {"output_tokens": usage.get("output_tokens", 0), "cache_read_input_tokens": None}
        yield _event("message_delta", delta=delta, usage=counted)
        yield _event("message_stop")

    def error_event(self, status: int, message: str) -> bytes:
        """Give the event that tells of an error in the middle of a stream."""
        return _event("error", error=self.error(status, message)["error"])

    def spoiled(self, answer: Body, request: Body, fault: Fault) -> Body:
        """Spoil a sound answer; where a fault needs calls and there are none, call a tool."""
        if fault is Fault.EMPTY_CONTENT:
            return {**answer, "content": [], "stop_reason": "end_turn"}
        content = answer["content"]
        made = [block for block in content if block["type"] == "tool_use"]
        if not made:
            tools = request.get("tools") or [{"name": "no_tool"}]
            called = {"type": "tool_use", "id": "toolu_spoiled", "name": tools[0]["name"]}
            made = [{**called, "input": {}}]
            content += made
            answer["stop_reason"] = "tool_use"
        if fault is Fault.DUPLICATE_IDS and len(made) == 1:
            made.append(json.loads(json.dumps(made[0])))
            content.append(made[1])
        for each in made:
            match fault:
                case Fault.UNREADABLE_ARGUMENTS:
                    answer["stop_reason"] = "max_tokens"
                case Fault.UNKNOWN_TOOL:
                    each["name"] = "no such tool"
                case Fault.DUPLICATE_IDS:
                    each["id"] = made[0]["id"]
                case Fault.MISSING_IDS:
                    each["id"] = ""
                case _:
                    raise AssertionError(fault)
        return answer


def _content(message: Body) -> list[Body]:
    """Give the blocks of a message as `calls` makes it."""
    text = message.get("content")
    content: list[Body] = [{"type": "text", "text": text}] if text else []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        content.append(
            {"type": "tool_use", "name": function["name"], "input": function["arguments"]}
        )
    return content


def _called(block: Body, call_id: str) -> Body:
    return block if block["type"] != "tool_use" else {"type": "tool_use", "id": call_id, **block}


def _object(text: str) -> str:
    """Give the object that a server makes of a call's text: what is none becomes an empty one."""
    try:
        return text if isinstance(json.loads(text), dict) else "{}"
    except ValueError:
        return "{}"


def _begun(block: Body) -> Body:
    begun = dict(block)
    for key in ("text", "thinking", "signature"):
        if key in begun:
            begun[key] = ""
    if "citations" in begun:
        begun["citations"] = []
    if "input" in begun:
        begun["input"] = {}
    return begun


def _deltas(block: Body, size: int) -> Iterator[Body]:
    for key, (kind, name) in _GROWS.items():
        if key in block:
            value = block[key]
            text = value if isinstance(value, str) else json.dumps(value)
            yield from ({"type": kind, name: piece} for piece in ["", *pieces(text, size)])
    for citation in block.get("citations") or []:
        yield {"type": "citations_delta", "citation": citation}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}


def _event(kind: str, **data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()
