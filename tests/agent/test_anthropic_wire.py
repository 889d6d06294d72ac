"""AnthropicModel on the wire: what it sends, and what of its answers it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ProviderContent,
    RawCall,
    ToolMessage,
    UserMessage,
)
from placet.agent.models.anthropic import AnthropicModel
from placet.agent.models.openai import OpenAIModel
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.core.errors import InvalidInput
from tests.agent.blocks import SPOKEN, USED, blocks, stored, texts
from tests.agent.wire import KEY, REFUND, USER, answered, ask, request_of, trouble_of, watch
from tests.servers.messages_wire import thought
from tests.servers.model_server import Body, ModelServer

THINKING = {"thinking": {"type": "adaptive"}}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}

# --- what is sent


def test_a_request_is_sent_as_the_messages_api_wants_it(
    claude: AnthropicModel, server: ModelServer
) -> None:
    turn = ask(claude)
    assert turn.message.text == "Refunding."
    (made,) = turn.message.calls
    assert (made.id, made.name) == ("toolu_0001_1", "issue_refund")
    assert made.arguments == '{"order_id": "7"}'
    assert (turn.model, turn.finish) == ("claude-test", "tool_use")
    assert turn.message.provider_content is None
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "claude-test",
        "max_tokens": 16_384,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": texts(USER.text)}],
        "tools": [
            {
                "name": "issue_refund",
                "description": "Refunds an order.",
                "input_schema": REFUND.parameters,
            }
        ],
    }


def test_results_and_text_after_them_are_one_message_of_the_user(
    claude: AnthropicModel, server: ModelServer
) -> None:
    both = calls(call("issue_refund", "x", order_id="7"), call("issue_refund", "y"), text="Two.")
    ask(claude, request_of(USER, USER, *answered(both), USER, USER))
    first, said, results = server.bodies[0]["messages"]
    assert first == {"role": "user", "content": texts(USER.text, USER.text)}
    assert [block["type"] for block in said["content"]] == ["text", "tool_use", "tool_use"]
    assert said["content"][1] == {**USED, "id": "x"}
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "x", "content": "ok"},
        {"type": "tool_result", "tool_use_id": "y", "content": "ok"},
        *texts(USER.text, USER.text),
    ]


@pytest.mark.parametrize(
    "messages, wire",
    [
        ([UserMessage(text=" \n")], [("user", texts("(empty message)"))]),
        ([UserMessage(text=""), USER], [("user", texts(USER.text))]),
        ([USER, say(""), USER], [("user", texts(USER.text, USER.text))]),
        (
            [USER, say("a"), say("b"), USER],
            [
                ("user", texts(USER.text)),
                ("assistant", texts("a", "b")),
                ("user", texts(USER.text)),
            ],
        ),
        (
            [USER, say("a"), UserMessage(text=""), say("b"), USER],
            [
                ("user", texts(USER.text)),
                ("assistant", texts("a")),
                ("user", texts("(empty message)")),
                ("assistant", texts("b")),
                ("user", texts(USER.text)),
            ],
        ),
        ([UserMessage(text="a\ud800b")], [("user", texts("a\\ud800b"))]),
    ],
)
def test_what_says_nothing_is_not_sent_and_turns_still_alternate(
    claude: AnthropicModel,
    server: ModelServer,
    messages: Sequence[Message],
    wire: list[tuple[str, list[Body]]],
) -> None:
    ask(claude, request_of(*messages, instructions=" "))
    sent = server.bodies[0]
    assert "system" not in sent
    assert [(each["role"], each["content"]) for each in sent["messages"]] == wire


def test_a_result_that_says_nothing_is_sent_without_content(
    claude: AnthropicModel, server: ModelServer
) -> None:
    empty = ToolMessage(call_id="x", name="issue_refund", text="\n")
    ask(claude, request_of(USER, call("issue_refund", "x"), empty))
    assert server.bodies[0]["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "x"}
    ]


@pytest.mark.parametrize(
    "messages",
    [(), (say("Hello."), USER), (USER, say("Hello.")), (USER, *answered(call("a", "x")), say("b"))],
)
@pytest.mark.parametrize("asking", [ask, watch])
def test_a_request_that_leaves_nothing_to_answer_is_refused_before_anything_is_sent(
    claude: AnthropicModel, server: ModelServer, messages: tuple[Message, ...], asking: Any
) -> None:
    with pytest.raises(InvalidInput) as caught:
        asking(claude, ModelRequest(instructions="", messages=messages))
    assert caught.value.code == "messages_out_of_order"
    assert server.requests == []


@pytest.mark.promise("G6")
def test_an_unanswered_call_is_refused_before_anything_is_sent(
    claude: AnthropicModel, server: ModelServer
) -> None:
    with pytest.raises(InvalidInput, match="call 'x'"):
        ask(claude, request_of(USER, call("issue_refund", "x"), USER))
    assert server.requests == []


@pytest.mark.parametrize(
    "name, arguments, wire_name, wire_input",
    [
        ("no such tool!", "{}", "no_such_tool_", {}),
        ("n" * 70, "{}", "n" * 64, {}),
        ("", " ", "_", {}),
        ("pay", '{"a": ', "pay", {"unreadable_arguments": '{"a": '}),
        ("pay", "[1]", "pay", {"unreadable_arguments": "[1]"}),
        ("pay", '{"a":1,"a":2}', "pay", {"unreadable_arguments": '{"a":1,"a":2}'}),
        ("pay", '{"a": 1e999}', "pay", {"unreadable_arguments": '{"a": 1e999}'}),
        ("pay", '{"a": "\\ud800"}', "pay", {"unreadable_arguments": '{"a": "\\ud800"}'}),
        ("pay", "{\ud800", "pay", {"unreadable_arguments": "{\\ud800"}),
        ("pay", '{"a": ' * 900 + "1" + "}" * 900, "pay", None),
        ("pay", '{ "a":1.0, "b": "Zoë" }', "pay", {"a": 1.0, "b": "Zoë"}),
    ],
)
def test_what_a_model_once_said_amiss_goes_back_in_a_form_the_api_takes(
    claude: AnthropicModel,
    server: ModelServer,
    name: str,
    arguments: str,
    wire_name: str,
    wire_input: Body | None,
) -> None:
    ask(claude, request_of(USER, *answered(raw_call(name, arguments, id="x"))))
    (sent,) = server.bodies[0]["messages"][1]["content"]
    assert sent["name"] == wire_name
    assert sent["input"] == (
        {"unreadable_arguments": arguments} if wire_input is None else wire_input
    )


def test_ids_that_other_models_gave_are_made_sound_and_distinct_with_their_results(
    claude: AnthropicModel, server: ModelServer
) -> None:
    odd = [raw_call("issue_refund", "{}", id=each) for each in ("a", "fn.pay:0|x", "i" * 70, "a")]
    history = [message for each in odd for message in answered(each)]
    ask(claude, request_of(USER, *history, *answered(odd[2])))
    sent = server.bodies[0]["messages"]
    wire = ["a", "fn_pay_0_x", "i" * 64, "a-2", "i" * 62 + "-2"]
    assert [each["content"][0]["id"] for each in sent[1::2]] == wire
    assert [each["content"][0]["tool_use_id"] for each in sent[2::2]] == wire


def test_a_closing_turn_without_tools_still_names_those_of_the_history(
    claude: AnthropicModel, server: ModelServer
) -> None:
    both = calls(call("issue_refund", "x"), call("no such", "y"), call("issue_refund", "z"))
    ask(claude, ModelRequest(instructions="", messages=(USER, *answered(both))))
    sent = server.bodies[0]
    assert sent["tools"] == [
        {"name": name, "input_schema": {"type": "object"}} for name in ("issue_refund", "no_such")
    ]
    assert sent["tool_choice"] == {"type": "none"}
    ask(claude, ModelRequest(instructions="", messages=(USER,)))
    assert server.bodies[1].keys() == {"model", "max_tokens", "messages"}


def test_the_servers_own_settings_are_sent_and_go_before_ours(server: ModelServer) -> None:
    model = AnthropicModel(
        "m",
        base_url=server.origin,
        api_key=KEY,
        max_tokens=100,
        extra_body={"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 2_000},
    )
    ask(model)
    assert server.bodies[0]["max_tokens"] == 2_000
    assert server.bodies[0]["thinking"]["budget_tokens"] == 1_024
    colder = AnthropicModel(
        "m", base_url=server.origin, api_key=KEY, extra_body={"temperature": 0.1}
    )
    assert "temperature: Extra inputs" in trouble_of(colder).message


# --- what only the provider reads


def test_signed_thinking_survives_a_transcript_and_goes_back_as_it_came(
    server: ModelServer,
) -> None:
    content = [thought("Hm, 20 USD.\n"), REDACTED, thought("Zoë ☂"), SPOKEN, USED, USED]
    server.script = lambda request: blocks(*content)
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY, extra_body=THINKING)
    for asking in (ask, watch):
        message = asking(model).message
        assert message.reasoning == "Hm, 20 USD.\n\n\nZoë ☂"
        assert stored(message) == message
        asking(model, request_of(USER, *answered(stored(message)), USER))
        sent = server.bodies[-1]["messages"][1]["content"]
        assert sent[:4] == content[:4]
        assert [block["id"] for block in sent[4:]] == [made.id for made in message.calls]
        assert [block["input"] for block in sent[4:]] == [{"order_id": "7"}] * 2


@pytest.mark.parametrize("change", ["text", "signature", "order", "dropped"])
def test_the_test_server_refuses_thinking_that_was_changed(
    server: ModelServer, change: str
) -> None:
    content = [thought("One."), thought("Two."), SPOKEN, USED]
    server.script = lambda request: blocks(*content)
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY, extra_body=THINKING)
    message = ask(model).message
    kept = message.provider_content
    assert kept is not None
    first, second, *rest = kept.blocks
    changed = {
        "text": (first.replace("One", "Won"), second, *rest),
        "signature": (first.replace('"signature": "', '"signature": "0'), second, *rest),
        "order": (second, first, *rest),
        "dropped": (second, *rest),
    }[change]
    altered = AssistantMessage(
        text=message.text,
        calls=message.calls,
        provider_content=ProviderContent(provider="anthropic", blocks=changed),
    )
    assert trouble_of(model, request_of(USER, *answered(altered))).code == "model_refused"


def test_thinking_stays_with_calls_whose_ids_were_made_distinct(server: ModelServer) -> None:
    same = {**USED, "id": "toolu_a"}
    content = [thought("Twice."), same, {**same, "input": {"order_id": "8"}}, {**USED, "id": ""}]
    server.script = lambda request: blocks(*content)
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY)
    message = ask(model).message
    ids = ["toolu_a", "toolu_a-2", "call_0_2"]
    assert [made.id for made in message.calls] == ids
    again = request_of(USER, *answered(stored(message)), *answered(stored(message)), USER)
    ask(model, again)
    _, first, results, second, later = server.bodies[-1]["messages"]
    assert first["content"][0] == second["content"][0] == content[0]
    assert [block["id"] for block in first["content"][1:]] == ids
    assert [block["tool_use_id"] for block in results["content"]] == ids
    assert [block["input"]["order_id"] for block in first["content"][1:]] == ["7", "8", "7"]
    others = ["toolu_a-3", "toolu_a-2-2", "call_0_2-2"]
    assert [block["id"] for block in second["content"][1:]] == others
    assert [block["tool_use_id"] for block in later["content"][:3]] == others


@pytest.mark.slow
def test_another_vendors_client_goes_by_text_and_calls(
    claude: AnthropicModel, model: OpenAIModel, server: ModelServer
) -> None:
    server.script = lambda request: blocks(thought("Hm."), SPOKEN, USED)
    message = stored(ask(claude).message)
    server.script = lambda request: "Done."
    assert ask(model, request_of(USER, *answered(message))).message.text == "Done."
    plain = AssistantMessage(text=message.text, calls=message.calls)
    ask(model, request_of(USER, *answered(plain)))
    assert server.bodies[1] == server.bodies[2]


@pytest.mark.parametrize(
    "content",
    [
        ProviderContent(provider="other", blocks=('{"type": "new"}', '{"type": "tool_use"}')),
        ProviderContent(provider="anthropic", blocks=()),
        ProviderContent(provider="anthropic", blocks=('{"type": "text", "text": "Paid."}',)),
        ProviderContent(provider="anthropic", blocks=("{oops",)),
        ProviderContent(provider="anthropic", blocks=("[]",)),
        ProviderContent(provider="anthropic", blocks=('{"type": "tool_use"}',) * 2),
    ],
)
def test_provider_content_that_is_anothers_or_does_not_fit_the_calls_is_not_sent(
    claude: AnthropicModel, server: ModelServer, content: ProviderContent
) -> None:
    made = RawCall(id="x", name="issue_refund", arguments="{}")
    message = AssistantMessage(text="Paying.", calls=(made,), provider_content=content)
    ask(claude, request_of(USER, *answered(message)))
    sent = server.bodies[0]["messages"][1]["content"]
    assert sent == [*texts("Paying."), {**USED, "id": "x", "input": {}}]


def test_thinking_that_nothing_came_of_is_not_sent(server: ModelServer) -> None:
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY)
    server.script = lambda request: blocks(thought("Cut"), REDACTED, stop_reason="max_tokens")
    only = stored(ask(model).message)
    server.script = lambda request: blocks(
        thought("First."), *texts("Half", "\n"), thought("Cut"), stop_reason="max_tokens"
    )
    trailing = stored(ask(model).message)
    assert (only.text, trailing.text) == ("", "Half\n")
    ask(model, request_of(USER, only, USER, trailing, USER))
    first, said, last = server.bodies[-1]["messages"]
    assert first["content"] == texts(USER.text, USER.text)
    assert said["content"] == texts("Half\n")
    assert last["content"] == texts(USER.text)


def test_blocks_of_tools_that_the_server_runs_itself_go_back_as_they_came(
    server: ModelServer,
) -> None:
    content: list[Body] = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": 1.5}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"a": None}]},
        {"type": "text", "text": "So.", "citations": [{"url": "x", "index": 1}, {"url": "y"}]},
    ]
    server.script = lambda request: blocks(*content, stop_reason="pause_turn")
    model = AnthropicModel("m", base_url=server.origin, api_key=KEY)
    for asking in (ask, watch):
        turn = asking(model)
        assert (turn.message.text, turn.message.calls, turn.finish) == ("So.", (), "pause_turn")
        ask(model, request_of(USER, stored(turn.message), USER))
        assert server.bodies[-1]["messages"][1]["content"] == content
