"""AnthropicModel and a server with every fault: what is told, its settings, and its life."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import timedelta
from typing import Any

import pytest

from placet.agent.models.anthropic import AnthropicModel
from placet.core.errors import InvalidSetting
from tests.agent.wire import KEY, ask, request_of, trouble_of
from tests.servers.model_server import Fault, ModelServer


@pytest.mark.parametrize(
    "fault, code, retryable",
    [
        (Fault.RATE_LIMITED, "model_rate_limited", True),
        (Fault.SERVER_ERROR, "model_unavailable", True),
        (Fault.UNAVAILABLE, "model_unavailable", True),
        (Fault.OVERLOADED, "model_unavailable", True),
        (Fault.DROP, "model_unavailable", True),
        (Fault.TRUNCATED_BODY, "model_unavailable", True),
        (Fault.MALFORMED_JSON, "model_malformed", True),
        (Fault.NO_CHOICES, "model_malformed", True),
        (Fault.UNAUTHORIZED, "model_refused", False),
        (Fault.FORBIDDEN, "model_refused", False),
        (Fault.NOT_FOUND, "model_refused", False),
        (Fault.TOO_LARGE, "model_refused", False),
    ],
)
@pytest.mark.parametrize("watched", [False, True])
def test_a_fault_is_told_after_one_try_and_the_next_request_passes(
    claude: AnthropicModel,
    server: ModelServer,
    fault: Fault,
    code: str,
    retryable: bool,
    watched: bool,
) -> None:
    server.fail(fault)
    trouble = trouble_of(claude, watched=watched)
    assert (trouble.code, trouble.retryable) == (code, retryable)
    assert trouble.ids["model"] == "claude-test"
    assert trouble.hint
    assert len(server.requests) == 1
    assert ask(claude).message.calls


def test_a_fault_says_what_the_server_said_and_how_long_to_wait(
    claude: AnthropicModel, server: ModelServer
) -> None:
    server.fail(Fault.RATE_LIMITED, retry_after_seconds=2.5)
    limited = trouble_of(claude)
    assert limited.ids["retry_after_seconds"] == "2.5"
    server.fail(Fault.OVERLOADED, retry_after_seconds=7)
    overloaded = trouble_of(claude)
    assert (overloaded.ids["status"], overloaded.ids["retry_after_seconds"]) == ("529", "7")
    assert limited.message == "The server answered 429: Rate limit reached."
    assert overloaded.message == "The server answered 529: Overloaded."


@pytest.mark.parametrize(
    "error, code, status",
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "model_unavailable", "529"),
        ({"type": "rate_limit_error", "message": "Slow down"}, "model_rate_limited", "429"),
        ({"type": "invalid_request_error", "message": "Bad"}, "model_refused", "400"),
        ({"type": "billing_error"}, "model_refused", "402"),
        ({"type": "new_error"}, "model_unavailable", "500"),
        ("text", "model_unavailable", "500"),
    ],
)
def test_an_error_in_an_answer_that_began_well_is_told_by_its_type(
    claude: AnthropicModel, server: ModelServer, error: object, code: str, status: str
) -> None:
    for watched in (False, True):
        server.answer_with(json.dumps({"type": "error", "error": error}))
        trouble = trouble_of(claude, watched=watched)
        assert (trouble.code, trouble.ids["status"]) == (code, status)


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP, Fault.STREAM_HANGS])
def test_a_server_that_takes_too_long_is_left_at_the_time_limit(
    server: ModelServer, fault: Fault
) -> None:
    server.fail(fault)
    limit = timedelta(milliseconds=250)
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY, timeout=limit)
    trouble = trouble_of(model, watched=fault is Fault.STREAM_HANGS)
    assert (trouble.code, trouble.retryable) == ("model_timeout", True)
    assert "0.25 seconds" in trouble.message


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        trouble = trouble_of(AnthropicModel("m", base_url=base_url))
    assert (trouble.code, trouble.retryable) == ("model_unavailable", True)
    assert base_url in trouble.hint


@pytest.mark.parametrize(
    "change, status, hint",
    [
        ({"api_key": "sk-wrong"}, "401", "ANTHROPIC_API_KEY"),
        ({"path": "/v1"}, "404", "does not end in /v1"),
        ({"extra_body": {"colour": "red"}}, "400", "extra_body"),
    ],
)
@pytest.mark.parametrize("watched", [False, True])
def test_a_refusal_is_final_and_says_what_to_look_at(
    server: ModelServer, change: dict[str, Any], status: str, hint: str, watched: bool
) -> None:
    settings = {"api_key": KEY, "base_url": server.origin + change.get("path", "")} | change
    settings.pop("path", None)
    trouble = trouble_of(AnthropicModel("m", **settings), watched=watched)
    assert (trouble.code, trouble.retryable) == ("model_refused", False)
    assert trouble.ids["status"] == status
    assert hint in trouble.hint


@pytest.mark.parametrize("status", [200, 403, 503])
def test_a_key_is_hidden_wherever_a_message_is_cut(
    claude: AnthropicModel, server: ModelServer, status: int
) -> None:
    for padding in range(240, 310, 9):
        error = {"type": "api_error", "message": "x" * padding + KEY}
        server.answer_with(json.dumps({"type": "error", "error": error}), status=status)
        trouble = trouble_of(claude)
        assert "sk" not in trouble.message
        assert len(trouble.message) < 350


# --- settings and life


def test_without_a_key_nothing_is_sent_to_the_vendor() -> None:
    trouble = trouble_of(AnthropicModel("m"))
    assert (trouble.code, trouble.retryable) == ("model_refused", False)
    assert "ANTHROPIC_API_KEY" in trouble.hint


def test_key_and_address_may_come_from_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.origin)
    server.api_key = None
    assert ask(AnthropicModel("m")).message.calls
    monkeypatch.setenv("ANTHROPIC_API_KEY", f" {KEY}\n")
    server.api_key = KEY
    model = AnthropicModel("m")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    assert ask(model).message.calls
    assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_an_address_set_later_is_sent_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AnthropicModel("m", api_key=KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")

    async def address() -> str:
        async with model._client() as client:
            return client.base_url.host

    assert asyncio.run(address()) == "api.anthropic.com"


@pytest.mark.parametrize(
    "setting, name",
    [
        ({"model": ""}, "model"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"api_key": "sk-\nx"}, "api_key"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"thinking": object()}}, "extra_body"),
        ({"extra_body": {"seed": float("inf")}}, "extra_body"),
        ({"extra_body": {"seed": "\ud800"}}, "extra_body"),
    ],
)
def test_a_malformed_setting_is_named(setting: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"'{name}'"):
        AnthropicModel(**({"model": "m"} | setting))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidSetting, match=r"placet\[anthropic\]"):
        AnthropicModel("m")


def test_settings_cannot_be_changed_from_outside(server: ModelServer) -> None:
    extra: dict[str, Any] = {"thinking": {"type": "adaptive"}}
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY, extra_body=extra)
    extra["thinking"]["type"] = "nonsense"
    assert ask(model).message.calls


def test_one_client_serves_several_event_loops_and_several_runs_at_once(
    claude: AnthropicModel, server: ModelServer
) -> None:
    async def several() -> int:
        plain = [claude.complete(request_of()) for _ in range(4)]
        watched = [claude.complete(request_of(), on_text=lambda text: None) for _ in range(4)]
        turns = await asyncio.gather(*plain, *watched)
        return sum(len(turn.message.calls) for turn in turns)

    assert [asyncio.run(several()) for _ in range(2)] == [8, 8]
    asyncio.run(claude.close())
    asyncio.run(claude.close())
    assert len(server.requests) == 16


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.STREAM_HANGS])
def test_cancelling_passes_through(
    server: ModelServer, claude: AnthropicModel, fault: Fault
) -> None:
    server.fail(fault)

    async def cancelled() -> bool:
        asking = asyncio.create_task(claude.complete(request_of(), on_text=lambda text: None))
        assert await asyncio.to_thread(server.arrived.wait, 30)
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            return True
        return False

    assert asyncio.run(cancelled())
