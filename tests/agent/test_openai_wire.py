"""OpenAIModel on the wire: what it sends, and what it makes of odd answers. Faults: test_models."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placet.agent.messages import (
    AssistantMessage,
    Usage,
    UserMessage,
)
from placet.agent.models.openai import OpenAIModel
from placet.agent.models.scripted import ScriptedModel, call, calls, raw_call, say
from placet.core.errors import InvalidInput
from tests.agent.wire import KEY, REFUND, USER, answered, ask, request_of, trouble_of
from tests.servers.model_server import Body, Fault, ModelServer, Reply

# --- what is sent and what is read


def test_a_call_comes_back_with_its_raw_arguments(model: OpenAIModel, server: ModelServer) -> None:
    turn = ask(model)
    assert turn.message.text == "Refunding."
    (made,) = turn.message.calls
    assert (made.id, made.name) == ("call_0001_0", "issue_refund")
    assert made.arguments == '{"order_id": "7"}'
    assert (turn.model, turn.finish) == ("gpt-test", "tool_calls")
    assert turn.usage.input_tokens > 0 < turn.usage.output_tokens
    (body,) = server.bodies
    assert body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": USER.text},
    ]
    function = {
        "name": "issue_refund",
        "description": "Refunds an order.",
        "parameters": REFUND.parameters,
    }
    assert body["tools"] == [{"type": "function", "function": function}]


def test_results_follow_their_calls_with_the_same_ids(
    model: OpenAIModel, server: ModelServer
) -> None:
    both = calls(call("issue_refund", "x", order_id="7"), call("issue_refund", "y"), text="Two.")
    ask(model, request_of(USER, *answered(both), *answered(both), say("Done."), USER))
    _, _, first, result_x, result_y, *_ = server.bodies[0]["messages"]
    assert first["content"] == "Two."
    assert [each["id"] for each in first["tool_calls"]] == ["x", "y"]
    assert first["tool_calls"][0]["function"]["arguments"] == '{"order_id": "7"}'
    assert result_x == {"role": "tool", "tool_call_id": "x", "content": "ok"}
    assert result_y["tool_call_id"] == "y"


def test_an_unanswered_call_is_refused_before_anything_is_sent(
    model: OpenAIModel, server: ModelServer
) -> None:
    for client in (model, ScriptedModel([])):
        with pytest.raises(InvalidInput, match="call 'x'"):
            ask(client, request_of(USER, call("issue_refund", "x"), USER))
    assert server.requests == []


@pytest.mark.parametrize(
    "name, arguments, wire_name, wire_arguments",
    [
        ("no such tool!", "{}", "no_such_tool_", "{}"),
        ("n" * 70, "{}", "n" * 64, "{}"),
        ("pay", '{"a": ', "pay", '{"unreadable_arguments": "{\\"a\\": "}'),
        ("pay", "[1]", "pay", '{"unreadable_arguments": "[1]"}'),
        ("pay", "", "pay", "{}"),
        ("pay", '{ "a":1.0 }', "pay", '{ "a":1.0 }'),
    ],
)
def test_what_a_model_once_said_amiss_goes_back_in_a_form_every_server_takes(
    model: OpenAIModel,
    server: ModelServer,
    name: str,
    arguments: str,
    wire_name: str,
    wire_arguments: str,
) -> None:
    ask(model, request_of(USER, *answered(raw_call(name, arguments, id="x"))))
    (sent,) = server.bodies[0]["messages"][2]["tool_calls"]
    assert sent["function"] == {"name": wire_name, "arguments": wire_arguments}


def test_text_that_utf8_cannot_hold_is_sent_visibly(
    model: OpenAIModel, server: ModelServer
) -> None:
    ask(model, request_of(UserMessage(text="a\ud800b")))
    assert server.bodies[0]["messages"][1]["content"] == "a\\ud800b"


def test_reasoning_is_read_and_goes_back_only_where_asked(server: ModelServer) -> None:
    server.script = lambda request: {"content": "Hi", "reasoning_content": "They wave."}
    for send_reasoning in (False, True):
        model = OpenAIModel(
            "m", base_url=server.base_url, api_key=KEY, send_reasoning=send_reasoning
        )
        message = ask(model).message
        assert message.reasoning == "They wave."
        ask(model, request_of(USER, message, USER))
        sent = server.bodies[-1]["messages"][2]
        assert sent.get("reasoning_content") == ("They wave." if send_reasoning else None)


def test_a_servers_own_settings_are_sent(server: ModelServer) -> None:
    model = OpenAIModel(
        "m", base_url=server.base_url, api_key=KEY, extra_body={"temperature": 0, "seed": 7}
    )
    ask(model)
    assert (server.bodies[0]["temperature"], server.bodies[0]["seed"]) == (0, 7)


# --- answers that are not as they should be


def _body(message: object, **more: object) -> Callable[[Body], Reply]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return lambda request: {"choices": [choice], **more}


def _function(**function: object) -> Body:
    return {"tool_calls": [{"id": "a", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    "message, text, finish",
    [
        ({"content": None}, "", "stop"),
        ({}, "", "stop"),
        ({"content": None, "refusal": "I cannot."}, "I cannot.", "refusal"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "thinking"}]}, "a", "stop"),
        ({"content": "a\ud800"}, "a\\ud800", "stop"),
    ],
)
def test_content_of_other_shapes_is_read(
    model: OpenAIModel, server: ModelServer, message: object, text: str, finish: str
) -> None:
    server.script = _body(message)
    turn = ask(model)
    assert (turn.message.text, turn.message.calls, turn.finish) == (text, (), finish)
    assert (turn.model, turn.usage) == ("gpt-test", Usage())


@pytest.mark.promise("G4")
@pytest.mark.parametrize(
    "given, read",
    [
        ('"{\\"a\\": 1, \\"a\\": 2}"', '{"a": 1, "a": 2}'),
        ('{"a": 1, "a": {"b": 1.50, "b": []}}', '{"a": 1, "a": {"b": 1.50, "b": []}}'),
        ('{"a": [9007199254740993, 1e999, NaN]}', '{"a": [9007199254740993, 1e999, NaN]}'),
        ('{"\\ud800": "Zo\\u00eb"}', '{"\\ud800": "Zoë"}'),
        ('"{\\"a\\": \\"\\ud800\\"}"', '{"a": "\\ud800"}'),
        ("[1]", "[1]"),
        ("true", "true"),
        ("null", ""),
        ('"{oops"', "{oops"),
    ],
)
def test_arguments_are_kept_as_the_model_gave_them(
    model: OpenAIModel, server: ModelServer, given: str, read: str
) -> None:
    server.answer_with(
        '{"choices": [{"message": {"tool_calls": [{"id": "a", "type": "function", "function":'
        f' {{"name": "issue_refund", "arguments": {given}}}}}]}}}}]}}'
    )
    (made,) = ask(model).message.calls
    assert made.arguments == read
    made.arguments.encode()


@pytest.mark.parametrize(
    "script",
    [
        _body({"content": 7}),
        _body({"tool_calls": {}}),
        _body({"tool_calls": ["text"]}),
        _body({"tool_calls": [{"id": "a", "type": "function"}]}),
        _body(_function(arguments="{}")),
        _body(_function(name="", arguments="{}")),
        _body(_function(name=None, arguments="{}")),
        _body(None),
        lambda request: {"choices": None},
        lambda request: {"choices": ["text"]},
        lambda request: {"choices": [], "error": {"message": "upstream is down"}},
    ],
)
def test_an_answer_that_is_none_is_a_trouble_worth_a_retry(
    model: OpenAIModel, server: ModelServer, script: Callable[[Body], Reply]
) -> None:
    server.script = script
    trouble = trouble_of(model)
    assert (trouble.code, trouble.retryable) == ("model_malformed", True)


@pytest.mark.parametrize("content", ["", "[]", "null", "[" * 100_000, "\x00", "<html></html>"])
def test_a_body_that_is_no_completion_is_a_trouble_worth_a_retry(
    model: OpenAIModel, server: ModelServer, content: str
) -> None:
    server.answer_with(content)
    trouble = trouble_of(model)
    assert (trouble.code, trouble.retryable) == ("model_malformed", True)


def test_what_the_server_said_of_a_missing_choice_is_passed_on(
    model: OpenAIModel, server: ModelServer
) -> None:
    server.script = lambda request: {"choices": [], "error": {"message": "upstream is down"}}
    assert "upstream is down" in trouble_of(model).message
    choice = {"message": {"content": "Hal"}, "finish_reason": "error"}
    server.script = lambda request: {"choices": [choice]}
    assert trouble_of(model).code == "model_unavailable"


def test_a_missing_id_is_made_up_the_same_each_time(
    model: OpenAIModel, server: ModelServer
) -> None:
    server.fail(Fault.MISSING_IDS, times=2)
    earlier = request_of(USER, say("Hm."), USER)
    assert [ask(model, earlier).message.calls[0].id for _ in range(2)] == ["call_1_0"] * 2


def test_ids_given_twice_in_one_step_are_made_distinct_and_accepted_back(
    model: OpenAIModel, server: ModelServer
) -> None:
    server.fail(Fault.DUPLICATE_IDS)
    message = ask(model).message
    first, second = (each.id for each in message.calls)
    assert second == f"{first}-2"
    assert ask(model, request_of(USER, *answered(message))).message.calls


def test_unreadable_arguments_and_unknown_tools_are_passed_on_and_accepted_back(
    model: OpenAIModel, server: ModelServer
) -> None:
    server.fail(Fault.UNREADABLE_ARGUMENTS)
    server.fail(Fault.UNKNOWN_TOOL)
    unreadable, unknown = ask(model).message, ask(model).message
    assert unreadable.calls[0].arguments == '{"order_id": "7", "cut": '
    assert unknown.calls[0].name == "no such tool"
    request = request_of(USER, *answered(unreadable), *answered(unknown))
    assert ask(model, request).message.calls


def test_an_id_that_an_earlier_step_used_is_left_alone(
    model: OpenAIModel, server: ModelServer
) -> None:
    server.script = _body(_function(name="issue_refund", arguments="{}"))
    message = ask(model).message
    again = ask(model, request_of(USER, *answered(message))).message
    assert (message.calls[0].id, again.calls[0].id) == ("a", "a")
    third = ask(model, request_of(USER, *answered(message), *answered(again))).message
    assert third.calls == message.calls


def test_an_empty_answer_is_an_empty_text(model: OpenAIModel, server: ModelServer) -> None:
    server.fail(Fault.EMPTY_CONTENT)
    assert ask(model).message == AssistantMessage(text="")
