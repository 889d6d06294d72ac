"""Watching a turn as it comes: the turn is the same, and whatever breaks is told."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.messages import ModelTurn
from placet.agent.models import ModelClient
from placet.agent.models.anthropic import AnthropicModel
from placet.agent.models.openai import OpenAIModel
from placet.agent.models.scripted import ScriptedModel, calls, raw_call, say
from tests.agent.wire import KEY, ask, request_of, trouble_of, watch
from tests.servers.messages_wire import thought
from tests.servers.model_server import Body, Fault, ModelServer
from tests.servers.model_server import calls as wire_calls

CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\{}[] \n\r\u2028☂🌂')
TEXTS = st.text(CHARACTERS, max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
WRITTEN = st.builds(
    lambda value, indent, plain: json.dumps(value, indent=indent, ensure_ascii=plain),
    OBJECTS,
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
COUNTS = st.integers(0, 10**6)


# --- the same turn


@pytest.fixture(scope="module")
def stage() -> Iterator[ModelServer]:
    """Give a server for a whole module, since making one for each example takes long."""
    with ModelServer(lambda request: "Hello.", api_key=KEY) as made:
        yield made
    assert made.errors == []


def both_ways(model: ModelClient) -> tuple[ModelTurn, ModelTurn, str]:
    told: list[str] = []
    return ask(model), watch(model, pieces=told), "".join(told)


def _without_ids(turn: ModelTurn) -> tuple[object, ...]:
    # The server gives each answer other ids, as vendors do.
    made = [(call.name, call.arguments) for call in turn.message.calls]
    said = (turn.message.text, turn.message.reasoning, turn.message.provider_content)
    return (*said, made, turn.usage, turn.model, turn.finish)


CHAT_MESSAGES = st.fixed_dictionaries(
    {
        "content": st.none() | TEXTS,
        "tool_calls": st.lists(st.tuples(st.sampled_from("abc"), WRITTEN | TEXTS), max_size=4).map(
            lambda made: wire_calls(*made)["tool_calls"]
        ),
        "usage": st.fixed_dictionaries(
            {
                "prompt_tokens": COUNTS,
                "completion_tokens": COUNTS,
                "prompt_tokens_details": st.fixed_dictionaries(
                    {"cached_tokens": COUNTS, "cache_write_tokens": COUNTS}
                ),
            }
        ),
        "finish_reason": st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
    },
    optional={"refusal": st.none() | TEXTS, "reasoning_content": TEXTS},
)


@given(message=CHAT_MESSAGES, piece=st.integers(1, 8))
def test_a_turn_of_openai_is_the_same_with_and_without_a_watcher(
    stage: ModelServer, message: Body, piece: int
) -> None:
    stage.script, stage.piece = (lambda request: dict(message)), piece
    plain, watched, told = both_ways(OpenAIModel("m", base_url=stage.base_url, api_key=KEY))
    assert _without_ids(watched) == _without_ids(plain)
    assert told == plain.message.text
    given_arguments = [each["function"]["arguments"] for each in message["tool_calls"]]
    read = [call.arguments for call in watched.message.calls]
    cut = given_arguments[-1:] == [""] or (given_arguments and not given_arguments[-1].strip())
    if not (cut and message["finish_reason"] in ("length", "content_filter")):
        assert read == given_arguments


BLOCKS = st.lists(
    st.one_of(
        TEXTS.map(thought),
        st.builds(lambda data: {"type": "redacted_thinking", "data": data}, TEXTS),
        st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
        st.builds(
            lambda text, cited: {"type": "text", "text": text, "citations": cited},
            TEXTS,
            st.lists(OBJECTS, min_size=1, max_size=2),
        ),
        st.builds(
            lambda name, given: {"type": "tool_use", "name": name, "input": given},
            st.sampled_from("abc"),
            WRITTEN,
        ),
    ),
    max_size=6,
)
MESSAGES = st.fixed_dictionaries(
    {
        "blocks": BLOCKS,
        "stop_reason": st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal"]),
        "usage": st.fixed_dictionaries(
            {"input_tokens": COUNTS, "output_tokens": COUNTS},
            optional={"cache_read_input_tokens": COUNTS, "cache_creation_input_tokens": COUNTS},
        ),
    }
)


@given(message=MESSAGES, piece=st.integers(1, 8))
def test_a_turn_of_anthropic_is_the_same_with_and_without_a_watcher(
    stage: ModelServer, message: Body, piece: int
) -> None:
    stage.script, stage.piece = (lambda request: dict(message)), piece
    plain, watched, told = both_ways(AnthropicModel("m", base_url=stage.origin, api_key=KEY))
    assert _without_ids(watched) == _without_ids(plain)
    assert told == plain.message.text


@given(text=TEXTS)
def test_a_scripted_turn_is_the_same_with_and_without_a_watcher(text: str) -> None:
    script = [calls(raw_call("pay", "{"), raw_call("pay", "{}"), text=text)]
    told: list[str] = []
    assert watch(ScriptedModel(script), pieces=told) == ask(ScriptedModel(script))
    assert "".join(told) == text
    assert len(told) <= 3


@pytest.fixture(params=["openai", "anthropic"])
def either(
    request: pytest.FixtureRequest, model: OpenAIModel, claude: AnthropicModel
) -> ModelClient:
    return model if request.param == "openai" else claude


# --- the watcher only watches


def test_a_text_is_told_of_in_pieces_as_they_come(either: ModelClient, server: ModelServer) -> None:
    server.piece = 4
    for client in (either, ScriptedModel([say("Refunding.")])):
        told: list[str] = []
        watch(client, pieces=told)
        assert told == ["Refu", "ndin", "g."]


def test_a_watcher_that_raises_harms_no_turn_and_is_left_alone(
    either: ModelClient, server: ModelServer
) -> None:
    called = []

    def fails(text: str) -> None:
        called.append(text)
        raise ValueError("the screen is gone")

    async def asked(model: ModelClient) -> ModelTurn:
        return await model.complete(request_of(), on_text=fails)

    for model in (either, ScriptedModel([say("Refunding.")])):
        called.clear()
        turn = asyncio.run(asked(model))
        assert turn.message.text == "Refunding."
        assert len(called) == 1


def test_a_server_that_does_not_stream_is_watched_all_the_same(
    either: ModelClient, server: ModelServer
) -> None:
    answer = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
    server.answer_with(json.dumps(answer | {"content": [{"type": "text", "text": "Hello."}]}))
    told: list[str] = []
    assert watch(either, pieces=told).message == say("Hello.")
    assert told == ["Hello."]


def test_a_refusal_is_told_of_too(model: OpenAIModel, server: ModelServer) -> None:
    server.script = lambda request: {"content": None, "refusal": "I cannot."}
    told: list[str] = []
    turn = watch(model, pieces=told)
    assert (turn.message.text, turn.finish, told) == ("I cannot.", "refusal", ["I cannot."])


def test_a_turn_without_a_watcher_is_not_streamed(either: ModelClient, server: ModelServer) -> None:
    ask(either)
    watch(either)
    assert [body.get("stream", False) for body in server.bodies] == [False, True]


# --- what breaks midway


@pytest.mark.parametrize(
    "fault, code, told",
    [
        (Fault.STREAM_DROPPED, "model_unavailable", "connection"),
        (Fault.TRUNCATED_BODY, "model_unavailable", "connection"),
        (Fault.STREAM_ERROR, "model_unavailable", "broke off"),
        (Fault.STREAM_ENDS, "model_malformed", "ended before"),
        (Fault.STREAM_MALFORMED, "model_malformed", "no JSON"),
    ],
)
def test_a_stream_that_breaks_midway_is_told_after_one_try(
    either: ModelClient, server: ModelServer, fault: Fault, code: str, told: str
) -> None:
    server.fail(fault)
    trouble = trouble_of(either, watched=True)
    assert (trouble.code, trouble.retryable) == (code, True)
    assert told in trouble.message
    assert len(server.requests) == 1
    assert watch(either).message.calls


def test_a_stream_cut_anywhere_gives_a_trouble_and_never_a_part(
    either: ModelClient, server: ModelServer
) -> None:
    wire = server.chat if isinstance(either, OpenAIModel) else server.messages
    made = wire_calls(("pay", {"amount": 500}), ("pay", {"amount": 7}), text="Paying.")
    request: Body = {"model": "m", "stream_options": {"include_usage": True}}
    events = list(wire.events(request, wire.answer(request, made, 1), 3))
    whole = b"".join(events)
    server.answer_with(whole.decode())
    assert len(watch(either).message.calls) == 2
    # OpenAI's answer is whole with its reason to stop; its usage and its last mark come after.
    needed = len(b"".join(events[:-2])) if wire is server.chat else len(whole)
    last = 4  # So many bytes at the end, a brace and two empty lines among them, may be missing.
    for end in [*range(0, needed - last, 97), needed - last]:
        server.answer_with(": begins\n" + whole[:end].decode())
        trouble = trouble_of(either, watched=True)
        assert (trouble.code, trouble.retryable) == ("model_malformed", True)


# --- the server's streams, held to the official packages


OFFICIAL_BLOCKS: list[Body] = [
    thought("Hm."),
    {"type": "text", "text": "Zoë 🌂"},
    {"type": "tool_use", "name": "pay", "input": {"amount": 5, "to": ["Zoë"]}},
    {"type": "tool_use", "name": "tell", "input": {}},
]


def test_anthropics_own_package_reads_the_servers_stream_as_its_answer(server: ModelServer) -> None:
    import anthropic

    server.script = lambda request: {"blocks": copy.deepcopy(OFFICIAL_BLOCKS)}
    client = anthropic.Anthropic(api_key=KEY, base_url=server.origin, max_retries=0)
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Go"}]}
    with client:
        whole = client.messages.create(**asked).model_dump()
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message().model_dump()
    for body in (whole, streamed):
        for block in body["content"]:
            block.pop("id", None)
            block.pop("parsed_output", None)
    assert streamed["content"] == whole["content"]
    assert streamed["stop_reason"] == whole["stop_reason"] == "tool_use"
    assert streamed["usage"]["output_tokens"] == whole["usage"]["output_tokens"]


def test_openais_own_package_reads_the_servers_stream_as_its_answer(server: ModelServer) -> None:
    import openai

    made = wire_calls(("pay", {"amount": 5, "to": ["Zoë"]}), ("tell", {}), text="Zoë 🌂")
    server.script = lambda request: dict(made)
    client = openai.OpenAI(api_key=KEY, base_url=server.base_url, max_retries=0)
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "Go"}]}
    with client:
        whole = client.chat.completions.create(**asked).choices[0].message
        with client.chat.completions.stream(**asked) as stream:
            streamed = stream.get_final_completion().choices[0].message
    assert streamed.content == whole.content == "Zoë 🌂"
    read: list[Any] = [message.model_dump()["tool_calls"] for message in (whole, streamed)]
    for calls_read in read:
        assert [each["function"]["name"] for each in calls_read] == ["pay", "tell"]
    assert len({each["function"]["arguments"] for one in read for each in one}) == 2
