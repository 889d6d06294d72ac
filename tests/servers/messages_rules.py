"""What Anthropic's Messages API checks in a request before a model sees it.

Taken from its reference and its error messages. Stricter than the API in places (turns alternate as
sent, results stand in the order of their calls), never laxer: who passes here passes there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.servers.refused import Refused

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KNOWN = frozenset(
    "model messages max_tokens system tools tool_choice thinking stream stop_sequences metadata"
    " cache_control container diagnostics inference_geo output_config service_tier speed".split()
)
_THINKING = ("thinking", "redacted_thinking")
_OF_ASSISTANT = frozenset({"text", "tool_use", "server_tool_use", "web_search_tool_result"})
_OF_USER = frozenset({"text", "tool_result"})


def sign(text: str) -> str:
    """Give what only the API can have signed a text of thinking with."""
    return hashlib.sha256(b"secret" + text.encode("utf-8", "surrogatepass")).hexdigest()


class Memory:
    """What the server gave out and wants back unchanged: the thinking of each of its messages.

    What it signed it knows again even where it remembers nothing, as after a restart.
    """

    def __init__(self) -> None:
        self._by_block: dict[str, list[dict[str, Any]]] = {}
        self._by_call: dict[str, list[dict[str, Any]]] = {}

    def keep(self, content: Sequence[dict[str, Any]]) -> None:
        """Remember a message that is about to be sent."""
        thinking = [block for block in content if block.get("type") in _THINKING]
        for block in thinking:
            self._by_block[_written(block)] = thinking
        for block in content:
            if thinking and block.get("type") == "tool_use":
                self._by_call[str(block.get("id"))] = thinking

    def check(self, content: Sequence[dict[str, Any]], where: str, *, thinks: bool) -> None:
        """Hold that thinking comes back as it went, all of it, and in front."""
        thinking = [block for block in content if block["type"] in _THINKING]
        for index, block in enumerate(content):
            if block["type"] in _THINKING and not self._knows(block):
                raise Refused(f"{where}.content.{index}: Invalid `signature` in `thinking` block")
        if thinking and self._by_block.get(_written(thinking[0]), thinking) != thinking:
            raise Refused(f"{where}: `thinking` or `redacted_thinking` blocks cannot be modified")
        if thinking and content[0]["type"] not in _THINKING:
            raise Refused(f"{where}.content.0: the first block must be `thinking`")
        called = [block["id"] for block in content if block["type"] == "tool_use"]
        if thinks and any(self._by_call.get(call_id, thinking) != thinking for call_id in called):
            raise Refused(f"{where}.content.0.type: Expected `thinking`, but found `tool_use`")

    def _knows(self, block: dict[str, Any]) -> bool:
        signed = {"type": "thinking", "signature": sign(str(block.get("thinking")))}
        return _written(block) in self._by_block or block == block | signed


def check(
    path: str,
    headers: Mapping[str, str],
    body: dict[str, Any] | None,
    *,
    api_key: str | None,
    memory: Memory,
) -> None:
    """Raise `Refused` for the first thing that is wrong."""
    if path != "/v1/messages":
        raise Refused(f"Not Found: {path}", status=404)
    _check_headers(headers, api_key)
    if body is None:
        raise Refused("The request body is not valid JSON.")
    for name in body.keys() - _KNOWN:
        raise Refused(f"{name}: Extra inputs are not permitted")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("model: Field required")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise Refused("max_tokens: Field required")
    if limit < 1:
        raise Refused("max_tokens: must be greater than or equal to 1")
    if not isinstance(body.get("stream", False), bool):
        raise Refused("stream: Input should be a valid boolean")
    thinks = _check_thinking(body.get("thinking"), limit)
    if "system" in body:
        _check_text(body["system"], "system")
    if "tools" in body:
        _check_tools(body["tools"])
    elif "tool_choice" in body:
        raise Refused("tool_choice: may only be specified while providing tools")
    _Messages(memory, thinks=thinks, has_tools="tools" in body).check(body.get("messages"))


def _check_headers(headers: Mapping[str, str], api_key: str | None) -> None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    given = headers.get("x-api-key") or (token if scheme == "Bearer" else "")
    if not given:
        raise Refused("x-api-key header is required", status=401)
    if api_key is not None and given != api_key:
        raise Refused("invalid x-api-key", status=401)
    if not headers.get("anthropic-version"):
        raise Refused("anthropic-version: header is required")
    if not headers.get("content-type", "").startswith("application/json"):
        raise Refused("content-type: must be application/json")


def _check_thinking(thinking: object, limit: int) -> bool:
    if thinking is None:
        return False
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in ("enabled", "adaptive", "disabled"):
        raise Refused("thinking.type: Input tag does not match any of the expected tags")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise Refused("thinking.enabled.budget_tokens: must be at least 1024")
        if budget >= limit:
            raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`")
    return bool(kind != "disabled")


def _check_tools(tools: object) -> None:
    if not isinstance(tools, list):
        raise Refused("tools: Input should be a valid list")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools.{index}"
        if not isinstance(tool, dict):
            raise Refused(f"{where}: Input should be an object")
        name, schema = tool.get("name"), tool.get("input_schema")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Refused(f"{where}.custom.name: String should match '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            raise Refused("tools: Tool names must be unique.")
        names.add(name)
        if not isinstance(tool.get("description", "."), str):
            raise Refused(f"{where}.custom.description: Input should be a valid string")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Refused(f"{where}.custom.input_schema.type: Input should be 'object'")
        for key in tool.keys() - {"name", "description", "input_schema", "cache_control"}:
            raise Refused(f"{where}.custom.{key}: Extra inputs are not permitted")


def _check_text(text: object, where: str) -> None:
    if not isinstance(text, str):
        raise Refused(f"{where}: Input should be a valid string")
    if not text:
        raise Refused(f"{where}: text content blocks must be non-empty")
    if not text.strip():
        raise Refused(f"{where}: text content blocks must contain non-whitespace text")


class _Messages:
    """The check of one request's messages."""

    def __init__(self, memory: Memory, *, thinks: bool, has_tools: bool) -> None:
        self._memory = memory
        self._thinks = thinks
        self._has_tools = has_tools
        self._ids: set[str] = set()
        self._awaited: list[str] = []

    def check(self, messages: object) -> None:
        if not isinstance(messages, list) or not messages:
            raise Refused("messages: at least one message is required")
        before = "assistant"
        for index, message in enumerate(messages):
            where = f"messages.{index}"
            role = message.get("role") if isinstance(message, dict) else None
            if role not in ("user", "assistant"):
                raise Refused(f"{where}.role: Input should be 'user' or 'assistant'")
            if role == before:
                turn = "first message must use the user role" if not index else "roles alternate"
                raise Refused(f"{where}: {turn}")
            before = role
            blocks = self._blocks(message.get("content"), where)
            if role == "assistant":
                self._assistant(blocks, where)
            else:
                self._user(blocks, where)
        if before == "assistant":
            raise Refused(
                "This model does not support assistant message prefill. The conversation must end"
                " with a user message."
            )

    def _blocks(self, content: object, where: str) -> list[dict[str, Any]]:
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list) or not content:
            raise Refused(f"{where}: messages must have non-empty content")
        for index, block in enumerate(content):
            if not isinstance(block, dict) or not isinstance(block.get("type"), str):
                raise Refused(f"{where}.content.{index}.type: Field required")
            if block["type"] == "text":
                _check_text(block.get("text"), f"{where}.content.{index}.text")
        return content

    def _user(self, blocks: Sequence[dict[str, Any]], where: str) -> None:
        answered: list[object] = []
        others = False
        for index, block in enumerate(blocks):
            at = f"{where}.content.{index}"
            if block["type"] not in _OF_USER:
                raise Refused(f"{at}.type: Input tag {block['type']!r} is not for users")
            if block["type"] == "text":
                others = True
                continue
            if others:
                raise Refused(f"{at}: `tool_result` blocks must come before any text")
            if block.get("tool_use_id") not in self._awaited:
                raise Refused(f"{at}: unexpected `tool_use_id` found in `tool_result` blocks")
            content = block.get("content", "")
            if not isinstance(content, str) or (content and not content.strip()):
                raise Refused(f"{at}.content: text content blocks must be non-empty")
            answered.append(block["tool_use_id"])
        if answered != self._awaited:
            missing = ", ".join(self._awaited)
            raise Refused(
                f"{where}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after, in their order: {missing}"
            )
        self._awaited = []

    def _assistant(self, blocks: Sequence[dict[str, Any]], where: str) -> None:
        for index, block in enumerate(blocks):
            at = f"{where}.content.{index}"
            if block["type"] == "tool_use":
                self._call(block, at)
            elif block["type"] not in _OF_ASSISTANT | set(_THINKING):
                raise Refused(f"{at}.type: Input tag {block['type']!r} is not known")
        if blocks[-1]["type"] in _THINKING:
            raise Refused(f"{where}: The final block in an assistant message cannot be `thinking`.")
        self._memory.check(blocks, where, thinks=self._thinks)

    def _call(self, block: dict[str, Any], at: str) -> None:
        if not self._has_tools:
            raise Refused("Requests which include `tool_use` blocks must define tools.")
        call_id, name = block.get("id"), block.get("name")
        if not isinstance(call_id, str) or not _ID.fullmatch(call_id):
            raise Refused(f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if call_id in self._ids:
            raise Refused(f"{at}: `tool_use` ids must be unique")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Refused(f"{at}.tool_use.name: String should match '^[a-zA-Z0-9_-]{{1,128}}$'")
        if not isinstance(block.get("input"), dict):
            raise Refused(f"{at}.tool_use.input: Input should be an object")
        self._ids.add(call_id)
        self._awaited.append(call_id)


def _written(block: Mapping[str, object]) -> str:
    return json.dumps(block, sort_keys=True)
