"""AnthropicModel and what it makes of answers, whole and odd, at once and as streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.agent.messages import AssistantMessage, Message, Usage
from placet.agent.models.anthropic import AnthropicModel
from tests.agent.blocks import USED, blocks, texts
from tests.agent.wire import USER, answered, ask, request_of, trouble_of, watch
from tests.servers.model_server import Body, Fault, ModelServer, Reply


@pytest.mark.parametrize(
    "reply, text, finish",
    [
        (blocks(), "", "end_turn"),
        (blocks(*texts("a", "b")), "ab", "end_turn"),
        (blocks(*texts("a\ud800")), "a\\ud800", "end_turn"),
        (blocks(*texts("Half"), stop_reason="max_tokens"), "Half", "max_tokens"),
        (blocks(*texts("No."), stop_reason="refusal"), "No.", "refusal"),
        (blocks(stop_reason="refusal"), "", "refusal"),
        (
            blocks(
                stop_reason="refusal",
                stop_details={"type": "refusal", "category": "bio", "explanation": "Unsafe."},
            ),
            "Unsafe.",
            "refusal",
        ),
    ],
)
@pytest.mark.parametrize("asking", [ask, watch])
def test_texts_and_stop_reasons_are_read(
    claude: AnthropicModel, server: ModelServer, asking: Any, reply: Reply, text: str, finish: str
) -> None:
    server.script = lambda request: reply
    turn = asking(claude)
    assert (turn.message, turn.finish) == (AssistantMessage(text=text), finish)


@pytest.mark.parametrize("asking", [ask, watch])
def test_input_tokens_are_all_that_the_model_was_shown(
    claude: AnthropicModel, server: ModelServer, asking: Any
) -> None:
    counts = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "service_tier": "standard",
    }
    server.script = lambda request: blocks(*texts("Hi"), usage=counts)
    assert asking(claude).usage == Usage(
        input_tokens=240,
        output_tokens=5,
        cached_input_tokens=200,
        cache_creation_input_tokens=30,
    )


@pytest.mark.promise("G4")
@pytest.mark.parametrize(
    "given, read",
    [
        ("{}", "{}"),
        ('{"a":1,"b":[true,null]}', '{"a": 1, "b": [true, null]}'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"a": 1.50, "b": 1e999, "c": 9007199254740993}', None),
        ('{"Zo\\u00eb": "\\ud800"}', '{"Zoë": "\\ud800"}'),
    ],
)
@pytest.mark.parametrize("asking", [ask, watch])
def test_arguments_are_kept_as_the_model_gave_them(
    claude: AnthropicModel, server: ModelServer, asking: Any, given: str, read: str | None
) -> None:
    server.script = lambda request: blocks({**USED, "input": given})
    (made,) = asking(claude).message.calls
    assert made.arguments == (read or given)
    made.arguments.encode()


@pytest.mark.promise("G4")
@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "stop_sequence", "new_reason"])
@pytest.mark.parametrize(
    "given, read",
    [
        ({"order_id": "7"}, '{"order_id": "7"'),
        ({}, "{"),
        ({"a": {"b": "}"}}, '{"a": {"b": "}"}'),
    ],
)
@pytest.mark.parametrize("asking", [ask, watch])
def test_a_call_that_may_have_been_cut_off_does_not_read_as_a_whole_one(
    claude: AnthropicModel, server: ModelServer, asking: Any, given: Body, read: str, stop: str
) -> None:
    server.script = lambda request: blocks(USED, {**USED, "input": given}, stop_reason=stop)
    turn = asking(claude)
    whole, cut = turn.message.calls
    assert (whole.arguments, cut.arguments) == ('{"order_id": "7"}', read)
    server.script = lambda request: "Hm."
    assert ask(claude, request_of(USER, *answered(turn.message))).message.text == "Hm."
    server.script = lambda request: blocks(
        {**USED, "input": given}, *texts("Then"), stop_reason=stop
    )
    assert asking(claude).message.calls[0].arguments == json.dumps(given)


def test_the_text_of_a_call_that_was_cut_off_in_a_stream_is_kept(
    claude: AnthropicModel, server: ModelServer
) -> None:
    server.script = lambda request: blocks({**USED, "input": '{"a": "b}'}, stop_reason="max_tokens")
    assert watch(claude).message.calls[0].arguments == '{"a": "b}'
    server.script = lambda request: blocks({**USED, "input": '{"a":1}}'}, stop_reason="max_tokens")
    assert watch(claude).message.calls[0].arguments == '{"a":1}}'


@pytest.mark.parametrize(
    "body",
    [
        {"type": "message"},
        {"content": "text"},
        {"content": [None]},
        {"content": [{"text": "a"}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "tool_use", "id": "a", "input": {}}]},
        {"content": [{"type": "tool_use", "id": "a", "name": "", "input": {}}]},
    ],
)
def test_an_answer_that_is_none_is_a_trouble_worth_a_retry(
    claude: AnthropicModel, server: ModelServer, body: Body
) -> None:
    server.answer_with(json.dumps(body))
    trouble = trouble_of(claude)
    assert (trouble.code, trouble.retryable) == ("model_malformed", True)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "null", "[" * 100_000, '{"content": [{"type": "x", "n": 1e999}]}', "<html></html>"],
)
def test_a_body_that_is_no_message_is_a_trouble_worth_a_retry(
    claude: AnthropicModel, server: ModelServer, content: str
) -> None:
    server.answer_with(content)
    assert trouble_of(claude).code == "model_malformed"
    assert trouble_of(claude, watched=True).code == "model_malformed"


def test_arguments_given_as_text_or_not_at_all_are_read_too(
    claude: AnthropicModel, server: ModelServer
) -> None:
    for given, read in (('"{oops"', "{oops"), ("null", ""), ("[1]", "[1]")):
        server.answer_with(
            '{"content": [{"type": "tool_use", "id": "a", "name": "pay", "input": '
            f'{given}}}], "stop_reason": "tool_use"}}'
        )
        turn = ask(claude)
        assert turn.message.calls[0].arguments == read
        assert (turn.model, turn.usage) == ("claude-test", Usage())


def test_odd_calls_are_passed_on_and_accepted_back(
    claude: AnthropicModel, server: ModelServer
) -> None:
    history: list[Message] = [USER]
    for fault in (
        Fault.UNREADABLE_ARGUMENTS,
        Fault.UNKNOWN_TOOL,
        Fault.DUPLICATE_IDS,
        Fault.MISSING_IDS,
        Fault.EMPTY_CONTENT,
    ):
        for asking in (ask, watch):
            server.fail(fault)
            history += [*answered(asking(claude, request_of(*history)).message), USER]
    said = [message for message in history if isinstance(message, AssistantMessage)]
    assert [len(message.calls) for message in said] == [1, 1, 1, 1, 2, 2, 1, 1, 0, 0]
    assert said[0].calls[0].arguments == '{"order_id": "7"'
    assert said[2].calls[0].name == "no such tool"
    assert [made.id for made in said[6].calls] == ["call_6_0"]
    assert ask(claude, request_of(*history)).message.calls
