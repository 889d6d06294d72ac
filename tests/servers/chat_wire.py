"""The form of `chat.completions`: its answers, streams, errors, and ways to go wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.servers import chat_rules
from tests.servers.faults import Fault
from tests.servers.refused import Refused

Body = dict[str, Any]

PATH = "/v1/chat/completions"

NO_CHOICES: Body = {"id": "chatcmpl-1", "object": "chat.completion", "choices": []}
HALF = b'{"id": "chatcmpl-1", "choices": [{"index": 0, "mess'

_TYPES = {401: "invalid_request_error", 429: "requests", 500: "server_error", 529: "server_error"}
_CODES = {429: "rate_limit_exceeded"}


class ChatWire:
    """One server's side of this wire."""

    path = PATH
    half = HALF
    no_content = NO_CHOICES

    def check(
        self, path: str, headers: dict[str, str], body: Body | None, *, api_key: str | None
    ) -> None:
        """Raise `Refused` for the first thing that is wrong with a request."""
        chat_rules.check(path, headers, body, api_key=api_key)

    def refusal(self, refused: Refused) -> Body:
        """Give the body that answers what is not as it must be."""
        error = {"message": str(refused), "type": "invalid_request_error", "code": None}
        return {"error": {**error, "param": refused.param}}

    def error(self, status: int, message: str) -> Body:
        """Give the body of an error."""
        kind = _TYPES.get(status, "invalid_request_error")
        error = {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}
        return {"error": error}

    def answer(self, request: Body, reply: str | Body, number: int) -> Body:
        """Give the answer that a script's reply stands for."""
        if isinstance(reply, dict) and "choices" in reply:
            return reply
        message: Body = {"content": reply} if isinstance(reply, str) else dict(reply)
        finish, usage = message.pop("finish_reason", None), message.pop("usage", None)
        message = {"role": "assistant", "refusal": None, **message}
        made = message.get("tool_calls")
        if made:
            message["tool_calls"] = [
                {"id": f"call_{number:04}_{index}", **each} for index, each in enumerate(made)
            ]
        finish = finish or ("tool_calls" if made else "stop")
        shown, said = len(json.dumps(request)) // 4, len(json.dumps(message)) // 4
        counted = {"prompt_tokens": shown, "completion_tokens": said, "total_tokens": shown + said}
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage or counted,
        }

    def encoded(self, answer: Body) -> bytes:
        """Give an answer's bytes."""
        return json.dumps(answer).encode()

    def events(self, request: Body, answer: Body, piece: int) -> Iterator[bytes]:
        """Give the stream that says the same, its texts in pieces of so many characters."""
        choice = answer["choices"][0]
        frame = {"id": answer.get("id"), "object": "chat.completion.chunk"}
        frame |= {key: answer[key] for key in ("created", "model") if key in answer}

        def chunk(delta: Body, finish: object = None) -> bytes:
            made = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return _event({**frame, "choices": [made], "usage": None})

        yield chunk({"role": "assistant", "content": ""})
        for delta in _deltas(choice["message"], piece):
            yield chunk(delta)
        yield chunk({}, choice.get("finish_reason"))
        if (request.get("stream_options") or {}).get("include_usage") and "usage" in answer:
            yield _event({**frame, "choices": [], "usage": answer["usage"]})
        yield b"data: [DONE]\n\n"

    def error_event(self, status: int, message: str) -> bytes:
        """Give the event that tells of an error in the middle of a stream."""
        return _event(self.error(status, message))

    def spoiled(self, answer: Body, request: Body, fault: Fault) -> Body:
        """Spoil a sound answer; where a fault needs calls and there are none, call a tool."""
        choice = answer["choices"][0]
        message = choice["message"]
        if fault is Fault.EMPTY_CONTENT:
            choice["message"] = {"role": "assistant", "content": None, "refusal": None}
            choice["finish_reason"] = "stop"
            return answer
        if not message.get("tool_calls"):
            tools = request.get("tools") or [{"function": {"name": "no_tool"}}]
            function = {"name": tools[0]["function"]["name"], "arguments": "{}"}
            message["tool_calls"] = [
                {"type": "function", "function": function, "id": "call_spoiled"}
            ]
            choice["finish_reason"] = "tool_calls"
        made = message["tool_calls"]
        if fault is Fault.DUPLICATE_IDS and len(made) == 1:
            made.append(json.loads(json.dumps(made[0])))
        for each in made:
            match fault:
                case Fault.UNREADABLE_ARGUMENTS:
                    each["function"]["arguments"] = each["function"]["arguments"][:-1] + ', "cut": '
                case Fault.UNKNOWN_TOOL:
                    each["function"]["name"] = "no such tool"
                case Fault.DUPLICATE_IDS:
                    each["id"] = made[0]["id"]
                case Fault.MISSING_IDS:
                    each["id"] = ""
                case _:
                    raise AssertionError(fault)
        return answer


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of `size` characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def _deltas(message: Body, size: int) -> Iterator[Body]:
    for key in ("reasoning_content", "content", "refusal"):
        if isinstance(text := message.get(key), str):
            yield from ({key: piece} for piece in pieces(text, size))
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call["function"]
        begun = {"name": function.get("name"), "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": begun}]}
        for piece in pieces(function.get("arguments") or "", size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _event(data: Body) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
