"""What a vendor of `chat.completions` checks in a request before a model sees it.

Taken from OpenAI's API reference and error messages. Stricter than some servers, never laxer: a
client that passes here passes at the vendors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.servers.refused import Refused

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_TOOLS = 128
_KNOWN = frozenset(
    "model messages tools tool_choice parallel_tool_calls temperature top_p max_tokens"
    " max_completion_tokens stop seed n user metadata reasoning_effort response_format stream"
    " stream_options store service_tier frequency_penalty presence_penalty logprobs"
    " top_logprobs".split()
)


def check(
    path: str, headers: Mapping[str, str], body: dict[str, Any] | None, *, api_key: str | None
) -> None:
    """Raise `Refused` for the first thing that is wrong."""
    if path != "/v1/chat/completions":
        raise Refused(f"Invalid URL (POST {path})", status=404)
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or not given or (api_key is not None and given != api_key):
        raise Refused("Incorrect API key provided.", status=401)
    if body is None:
        raise Refused("We could not parse the JSON body of your request.")
    for name in body.keys() - _KNOWN:
        raise Refused(f"Unrecognized request argument supplied: {name}")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("you must provide a model parameter", param="model")
    if not isinstance(body.get("stream", False), bool):
        raise Refused("Invalid type for 'stream'.", param="stream")
    if "stream_options" in body:
        _check_stream_options(body)
    if "tools" in body:
        _check_tools(body["tools"])
    _check_messages(body.get("messages"))


def _check_stream_options(body: dict[str, Any]) -> None:
    if not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    options = body["stream_options"]
    if not isinstance(options, dict) or options.keys() - {"include_usage", "include_obfuscation"}:
        raise Refused("Invalid 'stream_options'.", param="stream_options")


def _check_tools(tools: object) -> None:
    if not isinstance(tools, list) or not 0 < len(tools) <= _MAX_TOOLS:
        raise Refused(f"Invalid 'tools': expected 1 to {_MAX_TOOLS} tools.", param="tools")
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise Refused(f"Invalid '{where}': expected a function.", param=where)
        _check_name(function.get("name"), f"{where}.function.name")
        if not isinstance(function.get("description", ""), str):
            raise Refused("Invalid type for the description.", param=f"{where}.description")
        schema = function.get("parameters", {"type": "object", "properties": {}})
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Refused(
                f"Invalid schema for function '{function['name']}': schema must be of type"
                " 'object'.",
                param=f"{where}.function.parameters",
            )
        if not isinstance(schema.get("properties", {}), dict):
            raise Refused("Invalid schema: properties.", param=f"{where}.function.parameters")


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list) or not messages:
        raise Refused("Invalid 'messages': expected a list that is not empty.", param="messages")
    awaited: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise Refused(f"Invalid value for role: {role!r}.", param=f"{where}.role")
        if role == "tool":
            _check_result(message, awaited, where)
            continue
        _check_answered(awaited, where)
        if role == "assistant":
            awaited = _check_assistant(message, where)
        elif not isinstance(message.get("content"), str):
            raise Refused(f"Invalid content: {where}.", param=f"{where}.content")
    _check_answered(awaited, "messages")


def _check_answered(awaited: list[str], where: str) -> None:
    if awaited:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding"
            " to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(awaited),
            param=where,
        )


def _check_result(message: dict[str, Any], awaited: list[str], where: str) -> None:
    if not awaited:
        raise Refused(
            "messages with role 'tool' must be a response to a preceeding message with"
            " 'tool_calls'.",
            param=f"{where}.role",
        )
    if message.get("tool_call_id") != awaited[0]:
        raise Refused(f"Expected the result of {awaited[0]}.", param=f"{where}.tool_call_id")
    if not isinstance(message.get("content"), str):
        raise Refused(f"Invalid content: {where}.", param=f"{where}.content")
    awaited.pop(0)


def _check_assistant(message: dict[str, Any], where: str) -> list[str]:
    made = message.get("tool_calls")
    if made is None:
        if not isinstance(message.get("content"), str):
            raise Refused(f"Invalid content: {where}.", param=f"{where}.content")
        return []
    if not isinstance(message.get("content"), str | None):
        raise Refused(f"Invalid content: {where}.", param=f"{where}.content")
    if not isinstance(made, list) or not made:
        raise Refused("Invalid 'tool_calls': empty array.", param=f"{where}.tool_calls")
    ids: list[str] = []
    for index, call in enumerate(made):
        at = f"{where}.tool_calls[{index}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            raise Refused(f"Invalid '{at}': expected a function.", param=at)
        _check_name(function.get("name"), f"{at}.function.name")
        if not isinstance(function.get("arguments"), str):
            raise Refused("Invalid type for arguments.", param=f"{at}.function.arguments")
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in ids:
            raise Refused(f"Invalid or repeated id {call_id!r}.", param=f"{at}.id")
        ids.append(call_id)
    return ids


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(
            f"Invalid '{where}': string does not match pattern '^[a-zA-Z0-9_-]+$'.", param=where
        )
