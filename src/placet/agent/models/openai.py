"""A `ModelClient` for OpenAI and for every server that speaks its `chat.completions`.

The official package carries the request (address, key, TLS, time limits, its own error classes);
the answer is read here, from the bytes, because the package's typed values drop what they do not
expect and would hide a broken answer. Each request opens its own connection and closes it: nothing
is held while a run waits (D1), and any event loop may use the client.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import ssl
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
from placet.agent.models.raw_json import encodable, parse, text_of
from placet.core.errors import InvalidSetting, ModelTrouble

if TYPE_CHECKING:
    import openai

DEFAULT_TIMEOUT = timedelta(minutes=5)
"""How long one whole answer may take, from the first byte sent to the last received."""

MAX_MESSAGE = 300
"""How many characters a trouble's message has at most, the server's own words included."""

# A server that needs no key is still sent one, since the official package will not go without.
_NO_KEY = "none"

# What OpenAI lets a tool's name be. A model may invent another, and it goes back in the history.
_NAME_LIMIT = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


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
        if importlib.util.find_spec("openai") is None:
            raise InvalidSetting(
                "extra_missing",
                "OpenAIModel needs the package 'openai', which is not installed.",
                hint="Install it with: pip install 'placet[openai]'",
            )
        if not model:
            raise InvalidSetting("setting_invalid", "The setting 'model' is empty.")
        if timeout <= timedelta(0):
            raise InvalidSetting("setting_invalid", "The setting 'timeout' is not positive.")
        self.name = model
        self._base_url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL"))
        self._api_key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY"))
        self._timeout_seconds = timeout.total_seconds()
        self._extra_body = dict(extra_body or {})
        self._send_reasoning = send_reasoning

    async def complete(self, request: ModelRequest) -> ModelTurn:
        """Ask the server for the next message, once; see `ModelClient` for what is raised."""
        check_request(request)
        content = await self._post(self._body(request))
        try:
            body = parse(content)
        except (ValueError, RecursionError) as error:
            raise self._malformed("The answer is no JSON") from error
        try:
            return self._turn(body, step=request.assistant_count)
        except RecursionError as error:
            raise self._malformed("The answer is nested too deeply") from error

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

    async def _post(self, body: dict[str, Any]) -> bytes:
        if not self._api_key and not self._base_url:
            raise ModelTrouble(
                "model_refused",
                f"There is no key for model {self.name!r}.",
                hint="Set OPENAI_API_KEY, or give api_key, or the base_url of your own server.",
                retryable=False,
                model=self.name,
            )
        import openai

        try:
            async with asyncio.timeout(self._timeout_seconds), self._client() as client:
                answer = await client.chat.completions.with_raw_response.create(
                    **body, extra_body=self._extra_body or None
                )
                content: bytes = answer.http_response.content
                return content
        except (TimeoutError, openai.APITimeoutError) as error:
            raise self._timed_out() from error
        except openai.APIStatusError as error:
            raise self._status_trouble(error) from error
        except openai.APIConnectionError as error:
            raise self._unavailable(f"The connection failed: {error.__cause__ or error}") from error
        except openai.OpenAIError as error:
            raise self._malformed(str(error)) from error

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=self._api_key or _NO_KEY,
            base_url=self._base_url,
            timeout=self._timeout_seconds,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=_tls()),
        )

    # From the server.

    def _turn(self, body: object, *, step: int) -> ModelTurn:
        if not isinstance(body, dict):
            raise self._malformed("The answer is no JSON object")
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise self._malformed(_with_message("The answer holds no choice", body))
        finish = choice.get("finish_reason")
        if finish == "error":
            raise self._unavailable(_with_message("The server gave up midway", choice))
        refusal = message.get("refusal")
        refused = isinstance(refusal, str) and bool(refusal)
        text = self._text(message.get("content"))
        if refused and not text:
            text = encodable(str(refusal))
        made = AssistantMessage(
            text=text,
            calls=distinct_ids(self._calls(message.get("tool_calls")), step=step),
            reasoning=_reasoning(message),
        )
        model = body.get("model")
        return ModelTurn(
            message=made,
            usage=_usage(body.get("usage")),
            model=encodable(model) if isinstance(model, str) and model else self.name,
            finish="refusal" if refused else encodable(finish) if isinstance(finish, str) else "",
        )

    def _text(self, content: object) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return encodable(content)
        # Some servers give a list of parts; what is no text (thinking, say) is not for the reader.
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            return encodable("".join(text for text in texts if isinstance(text, str)))
        raise self._malformed("The message's content is no text")

    def _calls(self, value: object) -> list[RawCall]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._malformed("The message's tool calls are no list")
        return [self._call(item) for item in value]

    def _call(self, item: object) -> RawCall:
        function = item.get("function") if isinstance(item, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        # A call that names no tool can be answered by nobody, and sent back to no server.
        if not isinstance(item, dict) or not isinstance(function, dict):
            raise self._malformed("A tool call holds no function")
        if not isinstance(name, str) or not name:
            raise self._malformed("A tool call names no tool")
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

    # Troubles.

    def _shown(self, what: str) -> str:
        # The key goes before the text is cut, or a part of it could stay.
        return _short(what.replace(self._api_key, "***") if self._api_key else what)

    def _malformed(self, what: str) -> ModelTrouble:
        return ModelTrouble(
            "model_malformed",
            f"{self._shown(what)}.",
            hint="The same request may be answered properly if it is sent again.",
            retryable=True,
            model=self.name,
        )

    def _unavailable(self, what: str, **ids: str) -> ModelTrouble:
        where = f" at {self._base_url}" if self._base_url else ""
        return ModelTrouble(
            "model_unavailable",
            f"{self._shown(what)}.",
            hint=f"See whether the model's server{where} is up; the run can be resumed then.",
            retryable=True,
            model=self.name,
            **ids,
        )

    def _timed_out(self) -> ModelTrouble:
        return ModelTrouble(
            "model_timeout",
            f"The server gave no whole answer in {self._timeout_seconds:g} seconds.",
            hint="Give a longer timeout if answers of this model take so long.",
            retryable=True,
            model=self.name,
        )

    def _status_trouble(self, error: openai.APIStatusError) -> ModelTrouble:
        status = error.status_code
        said = _server_message({"error": error.body}) or error.message
        what = self._shown(f"The server answered {status}: {said}")
        if status == 429:
            wait = _retry_after_seconds(error.response.headers)
            return ModelTrouble(
                "model_rate_limited",
                what,
                hint="Wait before trying again; where a quota is used up, raise it first.",
                retryable=True,
                model=self.name,
                status="429",
                **({"retry_after_seconds": wait} if wait else {}),
            )
        if status >= 500 or status in (409, 425):
            return self._unavailable(what, status=str(status))
        if status == 408:
            return self._timed_out()
        return ModelTrouble(
            "model_refused",
            what,
            hint=_REFUSED_HINTS.get(status, _REFUSED_HINTS[400]),
            retryable=False,
            model=self.name,
            status=str(status),
        )


_REFUSED_HINTS = {
    400: "The request does not suit this model: see its tools, its length and extra_body.",
    401: "See whether the key (api_key or OPENAI_API_KEY) is right for this server.",
    403: "The key may not use this model; use another key or another model.",
    404: "See whether the model's name and base_url (which mostly ends in /v1) are right.",
    413: "The request is too large for this server.",
}


@cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates takes some 30 ms, which is too much for every request.
    import httpx2

    return httpx2.create_ssl_context()


def _checked_url(base_url: str | None) -> str | None:
    if not base_url:
        return None
    try:
        parts = urlsplit(base_url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise InvalidSetting(
            "setting_invalid",
            f"The setting 'base_url' is no address: {base_url!r}.",
            hint="Give one such as https://api.example.com/v1.",
        )
    return base_url


def _checked_key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise InvalidSetting(
            "setting_invalid",
            "The setting 'api_key' holds characters that no key has.",
            hint="It may have been copied with a line break or a quotation mark.",
        )
    return key or None


def _wire_tool(tool: ToolSchema) -> dict[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _wire_call(call: RawCall) -> dict[str, object]:
    # The history must be acceptable to the server whatever the model once said, or the run is lost:
    # OpenAI checks names, and servers that template the history parse the arguments.
    name = _NOT_IN_NAMES.sub("_", call.name)[:_NAME_LIMIT]
    function = {"name": name, "arguments": _wire_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _wire_arguments(arguments: str) -> str:
    try:
        readable = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        readable = False
    if readable:
        return arguments
    return json.dumps({"unreadable_arguments": arguments}) if arguments.strip() else "{}"


def _reasoning(message: Mapping[str, object]) -> str:
    for key in ("reasoning_content", "reasoning"):
        value = message.get(key)
        if isinstance(value, str) and value:
            return encodable(value)
    return ""


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}
    return Usage(
        input_tokens=_count(counts.get("prompt_tokens")),
        output_tokens=_count(counts.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _server_message(body: Mapping[str, object]) -> str:
    error = body.get("error")
    inner = error.get("error", error) if isinstance(error, dict) else error
    said = inner.get("message") if isinstance(inner, dict) else inner
    return said if isinstance(said, str) else ""


def _with_message(what: str, body: Mapping[str, object]) -> str:
    said = _server_message(body)
    return f"{what}: {said}" if said else what


def _short(text: str) -> str:
    line = " ".join(encodable(text).split()).rstrip(".")
    visible = "".join(character if character.isprintable() else "?" for character in line)
    if len(visible) <= MAX_MESSAGE:
        return visible
    return visible[: MAX_MESSAGE - 1] + "…"


def _retry_after_seconds(headers: Mapping[str, str]) -> str:
    value = headers.get("retry-after", "").strip()
    return value if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) else ""
