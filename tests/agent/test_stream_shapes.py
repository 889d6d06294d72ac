"""Streams as servers send them: whole, odd, and wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.messages import RawCall
from placet.agent.models.anthropic import AnthropicModel
from placet.agent.models.openai import OpenAIModel
from placet.agent.models.streaming import Decoder, Event
from tests.agent.wire import ask, trouble_of, watch
from tests.servers.model_server import Body, ModelServer
from tests.servers.model_server import calls as wire_calls

# --- errors within a stream


@pytest.mark.parametrize(
    "error, code, status",
    [
        ({"message": "Down", "type": "server_error", "code": None}, "model_unavailable", "500"),
        ({"message": "Slow", "code": "rate_limit_exceeded"}, "model_rate_limited", "429"),
        ({"message": "Slow", "code": 429}, "model_rate_limited", "429"),
        ({"message": "No", "type": "invalid_request_error"}, "model_refused", "400"),
        ({"message": "No", "code": 403}, "model_refused", "403"),
        ("Down", "model_unavailable", "500"),
    ],
)
@pytest.mark.parametrize("with_choice", [False, True])
def test_an_error_in_openais_stream_is_told_by_its_code(
    model: OpenAIModel,
    server: ModelServer,
    error: object,
    code: str,
    status: str,
    with_choice: bool,
) -> None:
    failing: Body = {"error": error}
    if with_choice:
        failing["choices"] = [{"index": 0, "delta": {}, "finish_reason": "error"}]
    server.answer_with(_stream([_chunk({"content": "Hal"}), failing, "[DONE]"]))
    trouble = trouble_of(model, watched=True)
    assert (trouble.code, trouble.ids["status"]) == (code, status)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 7}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": [], "delta": {}},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {"type": "content_block_start", "index": None, "content_block": {"type": "text"}},
        {"type": "content_block_stop", "index": 3},
        {"type": "message_start"},
        {"type": "message_delta"},
        [],
    ],
)
def test_events_of_anthropic_that_make_no_answer_are_told(
    claude: AnthropicModel, server: ModelServer, event: object
) -> None:
    begun = [
        {"type": "message_start", "message": {"usage": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    server.answer_with(_stream([*begun, event, {"type": "message_stop"}]))
    assert trouble_of(claude, watched=True).code == "model_malformed"
    server.answer_with(_stream([{"type": "message_delta", "delta": {}, "usage": {}}]))
    assert trouble_of(claude, watched=True).code == "model_malformed"


def test_events_of_anthropic_that_are_yet_to_be_invented_are_skipped(
    claude: AnthropicModel, server: ModelServer
) -> None:
    server.answer_with(
        "event: surprise\ndata: {}\n\n"
        + _stream(
            [
                {"type": "message_start", "message": {"model": "claude-9"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "new"}},
                {"type": "content_block_stop", "index": 0},
                {"type": "surprise"},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
                {"type": "error", "error": {"message": "after the end"}},
            ]
        )
    )
    turn = watch(claude)
    assert (turn.model, turn.message.text, turn.finish) == ("claude-9", "", "end_turn")
    assert turn.message.provider_content is not None


# --- servers that stream in ways of their own


def _chunk(delta: Body, finish: str | None = None, **more: object) -> Body:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def _stream(events: Sequence[object]) -> str:
    written = (each if isinstance(each, str) else json.dumps(each) for each in events)
    return "".join(f"data: {each}\n\n" for each in written)


def _fragment(arguments: object, **more: object) -> Body:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    return _chunk({"tool_calls": [{**more, "function": {**function, "arguments": arguments}}]})


WANTED = [("a", "pay", '{"a": 1}'), ("b", "tell", "{}")]


@pytest.mark.parametrize(
    "fragments",
    [
        # The id, the name and the type in every fragment.
        [
            _fragment('{"a"', index=0, id="a", type="function", name="pay"),
            _fragment(": 1}", index=0, id="a", type="function", name="pay"),
            _fragment("{}", index=1, id="b", type="function", name="tell"),
        ],
        # Side by side.
        [
            _fragment("{", index=1, id="b", name="tell"),
            _fragment("", index=0, id="a", name="pay"),
            _fragment('{"a": ', index=0),
            _fragment("}", index=1),
            _fragment("1}", index=0),
        ],
        # No index.
        [
            _fragment('{"a"', id="a", name="pay"),
            _fragment(": 1}", id="a"),
            _fragment("{}", id="b", name="tell"),
        ],
        # Neither index nor id after the first fragment.
        [
            _fragment('{"a"', id="a", name="pay"),
            _fragment(": 1}"),
            _fragment("{", id="b", name="tell"),
            _fragment("}"),
        ],
        # Every call is the first.
        [
            _fragment('{"a": 1}', index=0, id="a", name="pay"),
            _fragment("{}", index=0, id="b", name="tell"),
        ],
        # The name in pieces, the id late, arguments as an object.
        [
            _fragment(None, index=0, name="p"),
            _fragment(None, index=0, name="ay"),
            _fragment({"a": 1}, index=0, id="a"),
            _fragment("{}", index=1, id="b", name="tell"),
        ],
    ],
)
def test_calls_are_put_together_however_a_server_streams_them(
    model: OpenAIModel, server: ModelServer, fragments: list[Body]
) -> None:
    server.answer_with(_stream([*fragments, _chunk({}, "tool_calls"), "[DONE]"]))
    made = watch(model).message.calls
    assert [(call.id, call.name, call.arguments) for call in made] == WANTED


@pytest.mark.promise("G4")
def test_calls_that_cannot_be_told_apart_are_never_read_as_one(
    model: OpenAIModel, server: ModelServer
) -> None:
    same = [_fragment('{"a": 1}', index=0, name="pay"), _fragment('{"a": 2}', index=0, name="pay")]
    server.answer_with(_stream([*same, _chunk({}, "tool_calls")]))
    (made,) = watch(model).message.calls
    assert made == RawCall(id="call_0_0", name="pay", arguments='{"a": 1}{"a": 2}')


@pytest.mark.promise("G4")
def test_a_call_cut_off_before_its_arguments_does_not_read_as_one_without_any(
    model: OpenAIModel, server: ModelServer
) -> None:
    for finish, read in (("length", "{"), ("content_filter", "{"), ("tool_calls", "")):
        _answers(server, wire_calls(("pay", "")) | {"finish_reason": finish})
        for asking in (ask, watch):
            assert asking(model).message.calls[0].arguments == read


def _answers(server: ModelServer, reply: Body) -> None:
    server.script = lambda request: dict(reply)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": 7},
        {"tool_calls": {}},
        {"tool_calls": ["text"]},
        {"tool_calls": [{"index": 0, "id": "a"}]},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]},
    ],
)
def test_a_part_of_openais_stream_that_is_none_is_told(
    model: OpenAIModel, server: ModelServer, delta: Body
) -> None:
    server.answer_with(_stream([_chunk(delta), _chunk({}, "stop"), "[DONE]"]))
    assert trouble_of(model, watched=True).code == "model_malformed"


def test_chunks_without_a_choice_or_of_another_choice_are_no_part_of_the_answer(
    model: OpenAIModel, server: ModelServer
) -> None:
    other = {"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}
    server.answer_with(
        ": keep-alive\n\n"
        + _stream(
            [
                {"choices": [], "model": "", "prompt_filter_results": []},
                _chunk({"content": "A"}, model="m-1"),
                {"choices": [other], "error": None},
                {"choices": [{"index": 0, "finish_reason": "stop"}]},
                {"choices": None, "usage": {"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}},
                "[DONE]",
            ]
        )
    )
    turn = watch(model)
    assert (turn.message.text, turn.model, turn.finish) == ("A", "m-1", "stop")
    assert (turn.usage.input_tokens, turn.usage.cached_input_tokens) == (3, 2)


def test_a_server_that_tells_no_usage_has_used_nothing(
    model: OpenAIModel, server: ModelServer
) -> None:
    server.answer_with(_stream([_chunk({"content": "A"}, "stop")]))
    assert watch(model).usage.input_tokens == 0


def test_a_character_cut_in_two_is_put_together_again(
    model: OpenAIModel, claude: AnthropicModel, server: ModelServer
) -> None:
    first, second = (json.dumps("🌂")[1:-1][start : start + 6] for start in (0, 6))
    chat = [_chunk({"content": f"a{half}b"}) for half in "12"] + [_chunk({}, "stop")]
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}}
        for half in ("a1b", "a2b")
    ]
    messages = [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    for client, events in ((model, chat), (claude, messages)):
        text = _stream(events).replace("a1b", "a" + first).replace("a2b", second + "b")
        server.answer_with(text)
        told: list[str] = []
        assert watch(client, pieces=told).message.text == "a🌂b"
        assert told == ["a", "🌂b"]
        server.answer_with(text.replace(second + "b", ""))
        told.clear()
        assert watch(client, pieces=told).message.text == "a\\ud83c"
        assert "".join(told) == "a\\ud83c"


# --- events


STREAM = (
    b"\xef\xbb\xbfdata: 1\r\rid: 7\r\nevent: e\r\n: hi\r\ndata:2\r\ndata\r\n"
    b'data:  {"\xe2\x98\x82"}\n\n'
)
EVENTS = [Event(name="", data="1"), Event(name="e", data='2\n\n {"☂"}')]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    decoder = Decoder()
    chunks = [STREAM[start:end] for start, end in pairwise(ends)]
    found = [event for chunk in chunks for event in decoder.feed(chunk)]
    assert [*found, *decoder.end()] == EVENTS


def test_an_event_is_given_as_soon_as_it_has_ended() -> None:
    decoder = Decoder()
    assert list(decoder.feed(b"data: 1\n\ndata: 2")) == [Event(name="", data="1")]
    assert list(decoder.feed(b"3\n\n")) == [Event(name="", data="23")]
    assert list(decoder.end()) == []


def test_a_stream_that_is_no_utf8_is_told(model: OpenAIModel, server: ModelServer) -> None:
    server.verbatim = (200, b"data: \xff\n\n")
    assert trouble_of(model, watched=True).code == "model_malformed"
