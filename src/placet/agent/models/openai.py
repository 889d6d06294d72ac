"""A `ModelClient` for OpenAI and for every server that speaks its `chat.completions`.

The official package carries the request (address, key, TLS, time limits, its own error classes);
the answer is read here, from the bytes, because the package's typed values drop what they do not
expect and would hide a broken answer. Each request opens its own connection and closes it: nothing
is held while a run waits (D1), and any event loop may use the client.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelTurn,
    RawCall,
    ToolMessage,
    ToolSchema,
    Usage,
    UserMessage,
    check_request,
    distinct_ids,
)
from placet.agent.models import OnText
from placet.agent.models.checks import (
    DEFAULT_TIMEOUT,
    NO_KEY,
    checked_extra_body,
    checked_key,
    checked_model,
    checked_timeout,
    checked_url,
    need_package,
)
from placet.agent.models.connection import tls
from placet.agent.models.mending import UNBEGUN, wire_name, wire_text
from placet.agent.models.openai_stream import ChatFold, content_text
from placet.agent.models.raw_json import count, encodable, text_of
from placet.agent.models.streaming import TextWatcher, read_body
from placet.agent.models.troubles import MAX_MESSAGE, Troubles, with_message

if TYPE_CHECKING:
    import openai

# A stream says what it cost only where it is asked to, and not every server heeds that.
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}}

# After these the last call may have been cut off.
_CUT_OFF = frozenset({"length", "content_filter"})


class OpenAIModel:
    """One model on one server.

    `base_url` is the part before `/chat/completions`, by default OpenAI's own or `OPENAI_BASE_URL`.
    `api_key` is by default `OPENAI_API_KEY`; a server given by address may need none. `timeout`
    bounds a whole answer. `extra_body` adds the server's own settings, such as `temperature`.
    `send_reasoning` gives earlier reasoning back as `reasoning_content`, which some reasoning
    models demand beside tool calls and others refuse.

    Raises `InvalidSetting` where a setting is malformed or the package `openai` is missing.
    """

    name: str

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        extra_body: Mapping[str, object] | None = None,
        send_reasoning: bool = False,
    ) -> None:
        need_package("openai", client="OpenAIModel")
        self.name = checked_model(model)
        self._troubles = Troubles(
            model=model,
            base_url=checked_url(
                base_url or os.environ.get("OPENAI_BASE_URL"), example="https://api.example.com/v1"
            ),
            api_key=checked_key(api_key or os.environ.get("OPENAI_API_KEY")),
            key_variable="OPENAI_API_KEY",
            address="ends in /v1",
            timeout_seconds=checked_timeout(timeout),
        )
        self._extra_body = checked_extra_body(extra_body)
        self._send_reasoning = send_reasoning

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        """Ask the server for the next message, once; see `ModelClient` for what is raised."""
        check_request(request)
        watcher = TextWatcher(on_text)
        fold = ChatFold(watcher, self._troubles) if on_text is not None else None
        try:
            body = await self._post(self._body(request), fold)
            turn = self._turn(body, step=request.assistant_count)
        except RecursionError as error:
            raise self._troubles.malformed("The answer is nested too deeply") from error
        watcher.finish(turn.message.text)
        return turn

    async def close(self) -> None:
        """Hold nothing between requests, so let go of nothing."""

    # To the server.

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        messages: list[dict[str, object]] = []
        if request.instructions:
            messages.append({"role": "system", "content": encodable(request.instructions)})
        messages += [self._wire_message(message) for message in request.messages]
        body: dict[str, Any] = {"model": self.name, "messages": messages}
        if request.tools:
            body["tools"] = [_wire_tool(tool) for tool in request.tools]
        return body

    def _wire_message(self, message: Message) -> dict[str, object]:
        match message:
            case UserMessage():
                return {"role": "user", "content": encodable(message.text)}
            case ToolMessage():
                content = encodable(message.text)
                return {"role": "tool", "tool_call_id": message.call_id, "content": content}
            case AssistantMessage():
                text = encodable(message.text)
                wire: dict[str, object] = {"role": "assistant", "content": text}
                if message.calls:
                    wire["content"] = text or None
                    wire["tool_calls"] = [_wire_call(call) for call in message.calls]
                if self._send_reasoning and message.reasoning:
                    wire["reasoning_content"] = encodable(message.reasoning)
                return wire

    async def _post(self, body: dict[str, Any], fold: ChatFold | None) -> object:
        if not self._troubles.api_key and not self._troubles.base_url:
            raise self._troubles.no_key()
        import openai

        if fold is not None:
            body = {**body, **_STREAMED}
        with self._troubles.translated(openai, mishap=openai.OpenAIError):
            async with (
                asyncio.timeout(self._troubles.timeout_seconds),
                self._client() as client,
                client.chat.completions.with_streaming_response.create(
                    **body, extra_body=self._extra_body or None
                ) as response,
            ):
                return await read_body(response, fold, troubles=self._troubles)

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=self._troubles.api_key or NO_KEY,
            base_url=self._troubles.base_url,
            timeout=self._troubles.timeout_seconds,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=tls()),
        )

    # From the server.

    def _turn(self, body: object, *, step: int) -> ModelTurn:
        if not isinstance(body, dict):
            raise self._troubles.malformed("The answer is no JSON object")
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise self._troubles.malformed(with_message("The answer holds no choice", body))
        finish = choice.get("finish_reason")
        if finish == "error":
            raise self._troubles.unavailable(with_message("The server gave up midway", choice))
        refusal = message.get("refusal")
        refused = isinstance(refusal, str) and bool(refusal)
        text = content_text(message.get("content"))
        if text is None:
            raise self._troubles.malformed("The message's content is no text")
        if refused and not text:
            text = str(refusal)
        calls = self._calls(message.get("tool_calls"), cut_off=finish in _CUT_OFF)
        made = AssistantMessage(
            text=encodable(text),
            calls=distinct_ids(calls, step=step),
            reasoning=_reasoning(message),
        )
        model = body.get("model")
        return ModelTurn(
            message=made,
            usage=_usage(body.get("usage")),
            model=encodable(model) if isinstance(model, str) and model else self.name,
            finish="refusal" if refused else encodable(finish) if isinstance(finish, str) else "",
        )

    def _calls(self, value: object, *, cut_off: bool) -> Sequence[RawCall]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._troubles.malformed("The message's tool calls are no list")
        made = [self._call(item) for item in value]
        if cut_off and made and not made[-1].arguments.strip():
            # No arguments at all would read as a call that needs none.
            made[-1] = replace(made[-1], arguments=UNBEGUN)
        return made

    def _call(self, item: object) -> RawCall:
        function = item.get("function") if isinstance(item, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        # A call that names no tool can be answered by nobody, and sent back to no server.
        if not isinstance(item, dict) or not isinstance(function, dict):
            raise self._troubles.malformed("A tool call holds no function")
        if not isinstance(name, str) or not name:
            raise self._troubles.malformed("A tool call names no tool")
        given, call_id = function.get("arguments"), item.get("id")
        if isinstance(given, str):
            arguments = given
        else:
            arguments = "" if given is None else text_of(given)
        return RawCall(
            id=encodable(call_id) if isinstance(call_id, str) else "",
            name=encodable(name),
            arguments=encodable(arguments),
        )


def _wire_tool(tool: ToolSchema) -> dict[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _wire_call(call: RawCall) -> dict[str, object]:
    # OpenAI checks names, and servers that template the history parse the arguments.
    function = {"name": wire_name(call.name), "arguments": wire_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _reasoning(message: Mapping[str, object]) -> str:
    for key in ("reasoning_content", "reasoning"):
        value = message.get(key)
        if isinstance(value, str) and value:
            return encodable(value)
    return ""


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}
    details = counts.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    return Usage(
        input_tokens=count(counts.get("prompt_tokens")),
        output_tokens=count(counts.get("completion_tokens")),
        # DeepSeek has its own word for what its cache held.
        cached_input_tokens=count(details.get("cached_tokens"))
        or count(counts.get("prompt_cache_hit_tokens")),
        cache_creation_input_tokens=count(details.get("cache_write_tokens")),
    )


__all__ = ["DEFAULT_TIMEOUT", "MAX_MESSAGE", "OpenAIModel"]
