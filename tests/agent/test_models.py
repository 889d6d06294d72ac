"""Model clients: the scripted one, and OpenAI's package against a real server with every fault."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelTurn,
    RawCall,
    Usage,
)
from placet.agent.models.openai import OpenAIModel
from placet.agent.models.scripted import ScriptedModel, call, calls, raw_call, say
from placet.core.errors import InvalidDeclaration, InvalidSetting, ModelTrouble
from tests.agent.wire import KEY, USER, answered, ask, propose, request_of, trouble_of
from tests.servers.model_server import Body, Fault, ModelServer, Reply

ROOT = Path(__file__).resolve().parents[2]

# --- scripted


def test_a_script_is_picked_by_position_across_fresh_instances() -> None:
    script = [call("issue_refund", order_id="7"), calls(call("a"), call("b")), say("Done.")]
    messages: list[Message] = [USER]
    texts = []
    for _ in range(3):
        message = ask(ScriptedModel(script), request_of(*messages)).message
        assert ask(ScriptedModel(script), request_of(*messages)).message == message
        texts.append((message.text, [(each.id, each.name) for each in message.calls]))
        messages += answered(message)
    assert texts == [
        ("", [("call_0_0", "issue_refund")]),
        ("", [("call_1_0", "a"), ("call_1_1", "b")]),
        ("Done.", []),
    ]
    trouble = trouble_of(ScriptedModel(script), request_of(*messages))
    assert (trouble.code, trouble.retryable) == ("script_ended", False)
    assert "3 replies" in trouble.message


def test_a_function_is_a_script_and_may_give_whole_turns_or_raise() -> None:
    usage = Usage(input_tokens=3, output_tokens=2)
    whole = ModelTurn(message=say("Hello"), usage=usage, model="m", finish="length")
    assert ask(ScriptedModel(lambda request: whole)) == whole

    def fails(request: ModelRequest) -> AssistantMessage:
        raise ModelTrouble("model_unavailable", "Down.", retryable=True)

    assert trouble_of(ScriptedModel(fails)).code == "model_unavailable"


def test_replies_are_written_concisely() -> None:
    assert call("pay", amount=1, to="Zoë").calls[0].arguments == '{"amount": 1, "to": "Zoë"}'
    assert call("pay", "a").calls == (RawCall(id="a", name="pay", arguments="{}"),)
    assert raw_call("pay", "{oops", id="b").calls[0].arguments == "{oops"
    both = calls(call("pay", "a"), raw_call("pay", "{", id="b"), text="Twice.")
    assert (both.text, [each.id for each in both.calls]) == ("Twice.", ["a", "b"])
    turn = ask(ScriptedModel([both], name="me"))
    assert (turn.finish, turn.model, turn.usage) == ("tool_calls", "me", Usage())
    assert ask(ScriptedModel([say("Hi", reasoning="why")])).finish == "stop"


def test_a_script_that_gives_no_reply_is_a_mistake() -> None:
    script: Any = ["text"]
    with pytest.raises(InvalidDeclaration, match="gave a str"):
        ask(ScriptedModel(script))


# --- faults


@pytest.mark.parametrize(
    "fault, code, retryable",
    [
        (Fault.RATE_LIMITED, "model_rate_limited", True),
        (Fault.SERVER_ERROR, "model_unavailable", True),
        (Fault.UNAVAILABLE, "model_unavailable", True),
        (Fault.DROP, "model_unavailable", True),
        (Fault.TRUNCATED_BODY, "model_unavailable", True),
        (Fault.MALFORMED_JSON, "model_malformed", True),
        (Fault.NO_CHOICES, "model_malformed", True),
        (Fault.UNAUTHORIZED, "model_refused", False),
        (Fault.OVERLOADED, "model_unavailable", True),
        (Fault.FORBIDDEN, "model_refused", False),
        (Fault.NOT_FOUND, "model_refused", False),
        (Fault.TOO_LARGE, "model_refused", False),
    ],
)
def test_a_fault_is_told_after_one_try_and_the_next_request_passes(
    model: OpenAIModel, server: ModelServer, fault: Fault, code: str, retryable: bool
) -> None:
    server.fail(fault)
    trouble = trouble_of(model)
    assert (trouble.code, trouble.retryable) == (code, retryable)
    assert trouble.ids["model"] == "gpt-test"
    assert trouble.hint
    assert len(server.requests) == 1
    assert ask(model).message.calls


def test_a_rate_limit_says_how_long_to_wait(model: OpenAIModel, server: ModelServer) -> None:
    server.fail(Fault.RATE_LIMITED, retry_after_seconds=2.5)
    trouble = trouble_of(model)
    assert trouble.ids["retry_after_seconds"] == "2.5"
    assert "Rate limit reached" in trouble.message


def test_a_server_that_hangs_is_left_at_the_time_limit(server: ModelServer) -> None:
    server.fail(Fault.HANG)
    limit = timedelta(milliseconds=200)
    trouble = trouble_of(OpenAIModel("m", base_url=server.base_url, api_key=KEY, timeout=limit))
    assert (trouble.code, trouble.retryable) == ("model_timeout", True)
    assert "0.2 seconds" in trouble.message


def test_a_server_that_drips_bytes_is_left_at_the_time_limit(server: ModelServer) -> None:
    server.fail(Fault.DRIP)
    limit = timedelta(milliseconds=300)
    trouble = trouble_of(OpenAIModel("m", base_url=server.base_url, api_key=KEY, timeout=limit))
    assert trouble.code == "model_timeout"


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        trouble = trouble_of(OpenAIModel("m", base_url=base_url))
    assert (trouble.code, trouble.retryable) == ("model_unavailable", True)
    assert base_url in trouble.hint


@pytest.mark.parametrize(
    "change, status, hint",
    [
        ({"api_key": "sk-wrong"}, "401", "api_key"),
        ({"path": "/v2"}, "404", "base_url"),
        ({"extra_body": {"colour": "red"}}, "400", "extra_body"),
    ],
)
def test_a_refusal_is_final_and_says_what_to_look_at(
    server: ModelServer, change: dict[str, Any], status: str, hint: str
) -> None:
    base_url = server.base_url.replace("/v1", change.pop("path", "/v1"))
    model = OpenAIModel("m", **({"api_key": KEY, "base_url": base_url} | change))
    trouble = trouble_of(model)
    assert (trouble.code, trouble.retryable) == ("model_refused", False)
    assert trouble.ids["status"] == status
    assert hint in trouble.hint


def test_a_servers_message_is_made_short_and_visible_and_shows_no_key(
    model: OpenAIModel, server: ModelServer
) -> None:
    long = f"Bad key {KEY}\n\x1b[31m" + "x" * 1_000
    server.answer_with(json.dumps({"error": {"message": long}}), status=403)
    trouble = trouble_of(model)
    assert trouble.message.startswith("The server answered 403: Bad key *** ?[31mxxx")
    assert len(trouble.message) < 350


@pytest.mark.parametrize("status", [200, 403, 503])
def test_a_key_is_hidden_whole_wherever_a_message_is_cut(
    model: OpenAIModel, server: ModelServer, status: int
) -> None:
    for padding in range(240, 310, 3):
        said = "x" * padding + KEY
        server.answer_with(json.dumps({"error": {"message": said}}), status=status)
        assert "sk" not in trouble_of(model).message


# --- settings and life


def test_one_client_serves_several_event_loops_and_several_runs_at_once(
    model: OpenAIModel, server: ModelServer
) -> None:
    async def several() -> int:
        turns = await asyncio.gather(*(model.complete(request_of()) for _ in range(8)))
        return sum(len(turn.message.calls) for turn in turns)

    assert [asyncio.run(several()) for _ in range(3)] == [8, 8, 8]
    asyncio.run(model.close())
    asyncio.run(model.close())
    assert len(server.requests) == 24


def test_cancelling_passes_through(server: ModelServer, model: OpenAIModel) -> None:
    server.fail(Fault.HANG)

    async def cancelled() -> bool:
        asking = asyncio.create_task(model.complete(request_of()))
        assert await asyncio.to_thread(server.arrived.wait, 30)
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            return True
        return False

    assert asyncio.run(cancelled())


def test_without_a_key_nothing_is_sent_to_the_vendor() -> None:
    trouble = trouble_of(OpenAIModel("m"))
    assert (trouble.code, trouble.retryable) == ("model_refused", False)
    assert "OPENAI_API_KEY" in trouble.hint


def test_settings_come_from_the_environment_and_an_own_server_needs_no_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.api_key = None
    assert ask(OpenAIModel("m")).message.calls
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    server.api_key = KEY
    assert ask(OpenAIModel("m")).message.calls


@pytest.mark.parametrize(
    "setting, name",
    [
        ({"model": ""}, "model"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"api_key": "sk-\nx"}, "api_key"),
        ({"extra_body": {"seed": object()}}, "extra_body"),
    ],
)
def test_a_malformed_setting_is_named(setting: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"'{name}'"):
        OpenAIModel(**({"model": "m"} | setting))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidSetting, match=r"placet\[openai\]"):
        OpenAIModel("m")


# --- the server itself


@pytest.mark.parametrize(
    "arguments, text",
    [([], "Hello."), (["--script", "tests.agent.test_models:propose"], "Refunding.")],
)
def test_the_server_runs_as_a_module_and_ends_with_its_input(
    arguments: list[str], text: str
) -> None:
    command = [sys.executable, "-m", "tests.servers.model_server", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        assert ask(OpenAIModel("m", base_url=base_url)).message.text == text
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_a_script_that_raises_is_told_and_kept() -> None:
    def broken(request: Body) -> Reply:
        raise ValueError("no such case")

    with ModelServer(broken) as server:
        trouble = trouble_of(OpenAIModel("m", base_url=server.base_url))
        assert "no such case" in trouble.message
        assert [str(error) for error in server.errors] == ["no such case"]


def test_closing_releases_what_hangs() -> None:
    server = ModelServer(propose)
    server.fail(Fault.HANG)
    model = OpenAIModel("m", base_url=server.base_url)

    async def closes() -> str:
        asking = asyncio.create_task(model.complete(request_of()))
        assert await asyncio.to_thread(server.arrived.wait, 30)
        await asyncio.to_thread(server.close)
        with pytest.raises(ModelTrouble) as caught:
            await asking
        return caught.value.code

    assert asyncio.run(closes()) == "model_unavailable"
