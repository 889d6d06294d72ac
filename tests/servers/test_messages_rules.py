"""The rules of the Messages API in the model server: each refuses what it is for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers.messages_rules import Memory, check
from tests.servers.messages_wire import thought
from tests.servers.refused import Refused

Body = dict[str, Any]
HEADERS = {
    "x-api-key": "k",
    "anthropic-version": "2026-10-21",
    "content-type": "application/json",
}
USED = {"type": "tool_use", "id": "a", "name": "pay", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
SOUND: Body = {
    "model": "m",
    "max_tokens": 2_000,
    "system": "Be kind.",
    "tools": [{"name": "pay", "description": "Pays.", "input_schema": {"type": "object"}}],
    "thinking": {"type": "enabled", "budget_tokens": 1_024},
    "messages": [
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": [thought("Hm."), USED, {**USED, "id": "b"}]},
        {
            "role": "user",
            "content": [
                RESULT,
                {**RESULT, "tool_use_id": "b", "content": ""},
                {"type": "text", "text": "And?"},
            ],
        },
        {"role": "assistant", "content": "Paid."},
        {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
    ],
}


def refused(body: Body, *, headers: Body = HEADERS, path: str = "/v1/messages") -> str:
    """Give what is said against a request, or nothing."""
    memory = Memory()
    memory.keep(SOUND["messages"][1]["content"])
    try:
        check(path, headers, body, api_key="k", memory=memory)
    except Refused as refusal:
        return f"{refusal.status}: {refusal}"
    return ""


def changed(change: Callable[[Body], object]) -> Body:
    body = copy.deepcopy(SOUND)
    change(body)
    return body


def said(index: int) -> Callable[[Body], list[Body]]:
    return lambda body: body["messages"][index]["content"]


def test_a_sound_request_passes() -> None:
    assert refused(SOUND) == ""
    bearer = {**HEADERS, "authorization": "Bearer k"}
    bearer.pop("x-api-key")
    assert refused(SOUND, headers=bearer) == ""


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda b: b.update(temperature=0), "temperature: Extra inputs are not permitted"),
        (lambda b: b.pop("model"), "model: Field required"),
        (lambda b: b.pop("max_tokens"), "max_tokens: Field required"),
        (lambda b: b.update(max_tokens=0), "greater than or equal to 1"),
        (lambda b: b.update(stream="yes"), "valid boolean"),
        (lambda b: b.update(system=""), "must be non-empty"),
        (lambda b: b.update(system=" "), "non-whitespace"),
        (lambda b: b["thinking"].update(budget_tokens=9), "at least 1024"),
        (lambda b: b["thinking"].update(budget_tokens=2_000), "`max_tokens` must be greater"),
        (lambda b: b.update(thinking={"type": "hard"}), "thinking.type"),
        (lambda b: b.pop("tools"), "must define tools"),
        (lambda b: b["tools"].append(b["tools"][0]), "must be unique"),
        (lambda b: b["tools"][0].update(name="a b"), "custom.name"),
        (lambda b: b["tools"][0].update(input_schema={}), "input_schema.type"),
        (lambda b: b["tools"][0].update(parameters={}), "Extra inputs"),
        (lambda b: b.update(messages=[]), "at least one message"),
        (lambda b: b["messages"].pop(0), "first message must use the user role"),
        (lambda b: b["messages"].pop(3), "roles alternate"),
        (lambda b: b["messages"].pop(), "prefill"),
        (lambda b: b["messages"][0].update(role="system"), "'user' or 'assistant'"),
        (lambda b: b["messages"][0].update(content=[]), "non-empty content"),
        (lambda b: b["messages"][0].update(content=""), "must be non-empty"),
        (lambda b: said(4)(b)[0].update(text="\n"), "non-whitespace"),
        (lambda b: said(4)(b).append({"type": "thinking"}), "not for users"),
        (lambda b: said(2)(b).pop(0), "without `tool_result` blocks immediately after"),
        (lambda b: said(2)(b).insert(0, said(2)(b).pop(1)), "in their order"),
        (lambda b: said(2)(b).insert(0, said(2)(b).pop(2)), "must come before any text"),
        (lambda b: said(2)(b)[0].update(tool_use_id="c"), "unexpected `tool_use_id`"),
        (lambda b: said(2)(b)[0].update(content=" "), "must be non-empty"),
        (lambda b: said(4)(b).insert(0, RESULT), "unexpected `tool_use_id`"),
        (lambda b: said(1)(b)[2].update(id="a"), "ids must be unique"),
        (lambda b: said(1)(b)[2].update(id="a|b"), "tool_use.id"),
        (lambda b: said(1)(b)[2].update(id="i" * 65), "tool_use.id"),
        (lambda b: said(1)(b)[2].update(name="a b"), "tool_use.name"),
        (lambda b: said(1)(b)[2].update(input="{}"), "should be an object"),
        (lambda b: said(1)(b)[0].update(thinking="Ho."), "Invalid `signature`"),
        (lambda b: said(1)(b)[0].update(signature="x"), "Invalid `signature`"),
        (lambda b: said(1)(b).append(thought("Hm.")), "cannot be `thinking`"),
        (lambda b: said(1)(b).insert(0, thought("Ho.")), "Expected `thinking`"),
        (lambda b: said(1)(b).insert(1, said(1)(b).pop(0)), "first block must be `thinking`"),
        (lambda b: said(1)(b).pop(0), "Expected `thinking`"),
    ],
)
def test_what_the_api_refuses_is_refused(change: Callable[[Body], object], message: str) -> None:
    assert message in refused(changed(change))


def test_headers_and_path_are_checked() -> None:
    assert refused(SOUND, path="/v1/v1/messages").startswith("404")
    for name, status in (("x-api-key", "401"), ("anthropic-version", "400")):
        headers = {key: value for key, value in HEADERS.items() if key != name}
        assert refused(SOUND, headers=headers).startswith(status)
    assert refused(SOUND, headers={**HEADERS, "x-api-key": "other"}).startswith("401")
