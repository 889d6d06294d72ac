"""A `ModelClient` for Anthropic's Messages API, and for every server that speaks it.

The official package carries the request (address, key, TLS, time limits, its own error classes);
the answer is read here, from the bytes, as in the client for OpenAI, and for the same reasons.
Thinking that the server signed is kept with the message as it came and given back unchanged, since
the API checks it; what it thought is never interpreted.
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
    ModelRequest,
    ModelTurn,
    ProviderContent,
    RawCall,
    Usage,
    check_request,
    distinct_ids,
)
from placet.agent.models import OnText
from placet.agent.models.anthropic_history import PROVIDER, wire_messages, wire_tools, without_call
from placet.agent.models.anthropic_stream import MessageFold
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
from placet.agent.models.mending import unclosed
from placet.agent.models.raw_json import count, encodable, storable, text_of
from placet.agent.models.streaming import TextWatcher, read_body
from placet.agent.models.troubles import Troubles
from placet.core.errors import InvalidInput, InvalidSetting

if TYPE_CHECKING:
    import anthropic

DEFAULT_MAX_TOKENS = 16_384
"""How many tokens an answer may have, its thinking included; the API demands a number."""

_OWN_SERVER = "https://api.anthropic.com"

# After these the last call is whole. After any other, such as max_tokens or refusal, it may have
# been cut off, and the server then closes the object that the model did not.
_WHOLE = frozenset({"tool_use", "end_turn", "pause_turn"})

# What text and calls say as well. A message that has only these is kept without provider content.
_PLAIN = frozenset({"text", "tool_use"})


class AnthropicModel:
    """One model on one server.

    `base_url` is the part before `/v1/messages`, by default Anthropic's own or
    `ANTHROPIC_BASE_URL`. `api_key` is by default `ANTHROPIC_API_KEY`, and is sent as a bearer
    token; a server given by address may need none. `timeout` bounds a whole answer, `max_tokens`
    its length; the longer it may be, the longer a timeout it needs. `extra_body` adds the API's own
    settings, such as `{"thinking": {"type": "adaptive"}}` or `{"cache_control": {"type":
    "ephemeral"}}`. Newer models refuse `temperature`.

    Raises `InvalidSetting` where a setting is malformed or the package `anthropic` is missing.
    """

    name: str

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        need_package("anthropic", client="AnthropicModel")
        if max_tokens < 1:
            raise InvalidSetting("setting_invalid", "The setting 'max_tokens' is not positive.")
        self.name = checked_model(model)
        self._troubles = Troubles(
            model=model,
            base_url=checked_url(
                base_url or os.environ.get("ANTHROPIC_BASE_URL"), example="https://api.example.com"
            ),
            api_key=checked_key(api_key or os.environ.get("ANTHROPIC_API_KEY")),
            key_variable="ANTHROPIC_API_KEY",
            address="does not end in /v1",
            timeout_seconds=checked_timeout(timeout),
        )
        self._max_tokens = max_tokens
        self._extra_body = checked_extra_body(extra_body)

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        """Ask the server for the next message, once; see `ModelClient` for what is raised.

        A request that begins or ends with an assistant message is refused with `InvalidInput`
        (`messages_out_of_order`): the API takes neither, and would go on in the model's own words.
        """
        check_request(request)
        _check_ends(request)
        watcher = TextWatcher(on_text)
        fold = MessageFold(watcher, self._troubles) if on_text is not None else None
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
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": self._max_tokens,
            "messages": wire_messages(request.messages),
        }
        if request.instructions.strip():
            body["system"] = encodable(request.instructions)
        return body | wire_tools(request)

    async def _post(self, body: dict[str, Any], fold: MessageFold | None) -> object:
        if not self._troubles.api_key and not self._troubles.base_url:
            raise self._troubles.no_key()
        import anthropic

        if fold is not None:
            body = {**body, "stream": True}
        with self._troubles.translated(anthropic, mishap=anthropic.AnthropicError):
            async with (
                asyncio.timeout(self._troubles.timeout_seconds),
                self._client() as client,
                client.messages.with_streaming_response.create(
                    **body, extra_body=self._extra_body or None
                ) as response,
            ):
                return await read_body(response, fold, troubles=self._troubles)

    def _client(self) -> anthropic.AsyncAnthropic:
        import anthropic

        # Key and address are always given, so that the package looks for neither anywhere else.
        return anthropic.AsyncAnthropic(
            api_key=self._troubles.api_key or NO_KEY,
            base_url=self._troubles.base_url or _OWN_SERVER,
            timeout=self._troubles.timeout_seconds,
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=tls()),
        )

    # From the server.

    def _turn(self, body: object, *, step: int) -> ModelTurn:
        if not isinstance(body, dict):
            raise self._troubles.malformed("The answer is no JSON object")
        if body.get("error"):
            raise self._troubles.of_error(body["error"])
        content, finish = body.get("content"), body.get("stop_reason")
        if not isinstance(content, list):
            raise self._troubles.malformed("The answer holds no content")
        blocks = [self._block(block) for block in content]
        text = "".join(self._text(block) for block in blocks if block["type"] == "text")
        if finish == "refusal" and not text:
            text = _explanation(body.get("stop_details"))
        thoughts = [block.get("thinking") for block in blocks if block["type"] == "thinking"]
        reasoning = "\n\n".join(each for each in thoughts if isinstance(each, str) and each)
        made = AssistantMessage(
            text=encodable(text),
            calls=distinct_ids(self._calls(blocks, whole=finish in _WHOLE), step=step),
            reasoning=encodable(reasoning),
            provider_content=self._provider_content(blocks),
        )
        model = body.get("model")
        return ModelTurn(
            message=made,
            usage=_usage(body.get("usage")),
            model=encodable(model) if isinstance(model, str) and model else self.name,
            finish=encodable(finish) if isinstance(finish, str) else "",
        )

    def _block(self, block: object) -> dict[str, Any]:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise self._troubles.malformed("A block of the answer's content has no type")
        return block

    def _text(self, block: Mapping[str, object]) -> str:
        text = block.get("text")
        if not isinstance(text, str):
            raise self._troubles.malformed("A block of text holds none")
        return text

    def _calls(self, blocks: Sequence[Mapping[str, object]], *, whole: bool) -> list[RawCall]:
        made = [self._call(block) for block in blocks if block["type"] == "tool_use"]
        if not whole and blocks and blocks[-1]["type"] == "tool_use":
            made[-1] = replace(made[-1], arguments=unclosed(made[-1].arguments))
        return made

    def _call(self, block: Mapping[str, object]) -> RawCall:
        name, given, call_id = block.get("name"), block.get("input"), block.get("id")
        # A call that names no tool can be answered by nobody, and sent back to no server.
        if not isinstance(name, str) or not name:
            raise self._troubles.malformed("A tool call names no tool")
        if isinstance(given, str):
            arguments = given
        else:
            arguments = "" if given is None else text_of(given)
        return RawCall(
            id=encodable(call_id) if isinstance(call_id, str) else "",
            name=encodable(name),
            arguments=encodable(arguments),
        )

    def _provider_content(self, blocks: Sequence[dict[str, Any]]) -> ProviderContent | None:
        if all(block["type"] in _PLAIN for block in blocks):
            return None
        try:
            kept = tuple(storable(without_call(block)) for block in blocks)
        except ValueError as error:
            raise self._troubles.malformed("The answer holds a number that is none") from error
        return ProviderContent(provider=PROVIDER, blocks=kept)


def _check_ends(request: ModelRequest) -> None:
    messages = request.messages
    if messages and not any(
        isinstance(end, AssistantMessage) for end in (messages[0], messages[-1])
    ):
        return
    raise InvalidInput(
        "messages_out_of_order",
        "The request begins or ends with an assistant message, or holds none at all.",
        hint="Begin with what the user said, and end with that or with the results of calls.",
    )


def _explanation(details: object) -> str:
    said = details.get("explanation") if isinstance(details, dict) else None
    return said if isinstance(said, str) else ""


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}
    cached = count(counts.get("cache_read_input_tokens"))
    created = count(counts.get("cache_creation_input_tokens"))
    return Usage(
        # Here `input_tokens` is only what no cache was concerned with.
        input_tokens=count(counts.get("input_tokens")) + cached + created,
        output_tokens=count(counts.get("output_tokens")),
        cached_input_tokens=cached,
        cache_creation_input_tokens=created,
    )


__all__ = ["DEFAULT_MAX_TOKENS", "AnthropicModel"]
