"""Messages: their form in a transcript, the order of calls and results, and the ids of calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ProviderContent,
    RawCall,
    ToolMessage,
    UserMessage,
    check_request,
    distinct_ids,
    from_json,
    to_json,
)
from placet.core.errors import InvalidInput

RAW_CALLS = st.builds(RawCall, id=st.text(), name=st.text(), arguments=st.text())
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, text=st.text()),
    st.builds(
        AssistantMessage,
        text=st.text(),
        calls=st.lists(RAW_CALLS, max_size=3).map(tuple),
        reasoning=st.text(),
        provider_content=st.none()
        | st.builds(
            ProviderContent, provider=st.text(), blocks=st.lists(st.text(), max_size=2).map(tuple)
        ),
    ),
    st.builds(ToolMessage, call_id=st.text(), name=st.text(), text=st.text()),
)
ASSISTANT = AssistantMessage(text="", calls=(RawCall(id="a", name="pay", arguments="{}"),))
OWN = replace(
    ASSISTANT, provider_content=ProviderContent(provider="anthropic", blocks=('{"n": 1.0}', ""))
)


@given(MESSAGES)
def test_a_message_comes_back_from_its_json_as_it_was(message: Message) -> None:
    assert from_json(json.loads(json.dumps(to_json(message)))) == message


@pytest.mark.promise("D7")
def test_the_stored_form_is_this_and_stays_readable() -> None:
    stored = {
        "kind": "assistant/1",
        "text": "Paying.",
        "calls": [{"id": "a", "name": "pay", "arguments": '{"amount": 1}'}],
        "reasoning": "They asked.",
    }
    call = RawCall(id="a", name="pay", arguments='{"amount": 1}')
    message = AssistantMessage(text="Paying.", calls=(call,), reasoning="They asked.")
    assert from_json(stored) == message
    assert to_json(message) == stored
    user = UserMessage(text="Hello")
    assert from_json({"kind": "user/1", "text": "Hello"}) == user
    tool = ToolMessage(call_id="a", name="pay", text="ok")
    assert from_json({"kind": "tool/1", "call_id": "a", "name": "pay", "text": "ok"}) == tool


@pytest.mark.promise("D7")
def test_what_only_a_provider_reads_makes_a_kind_of_its_own_and_nothing_else_does() -> None:
    stored = {
        "kind": "assistant/2",
        "text": "",
        "calls": [{"id": "a", "name": "pay", "arguments": "{}"}],
        "reasoning": "",
        "provider": "anthropic",
        "blocks": ['{"n": 1.0}', ""],
    }
    assert to_json(OWN) == stored
    assert from_json(stored) == OWN
    assert to_json(replace(OWN, provider_content=None)) == {
        key: "assistant/1" if key == "kind" else stored[key]
        for key in ("kind", "text", "calls", "reasoning")
    }


@pytest.mark.parametrize("kind", ["user/2", "assistant/3", "user", None, 1])
def test_an_unknown_kind_is_named_with_what_to_do(kind: object) -> None:
    with pytest.raises(InvalidInput, match=repr(kind)) as caught:
        from_json({"kind": kind, "text": "Hello"})
    assert caught.value.code == "message_kind_unknown"
    assert "newer" in caught.value.hint


@pytest.mark.parametrize("message", [UserMessage(text="Hello"), ASSISTANT, OWN])
@pytest.mark.parametrize("change", ["missing", "other type", "superfluous"])
def test_a_stored_message_wrong_in_one_key_is_refused(message: Message, change: str) -> None:
    for key in to_json(message).keys() - {"kind"}:
        stored = to_json(message)
        if change == "missing":
            del stored[key]
        elif change == "other type":
            stored[key] = None
        else:
            stored[f"{key}_too"] = ""
        with pytest.raises(InvalidInput) as caught:
            from_json(stored)
        assert caught.value.code == "message_malformed"


@pytest.mark.parametrize("call", ["text", {"id": "a", "name": "pay", "arguments": {}}, {}])
def test_a_stored_call_that_is_none_is_refused(call: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_json(to_json(ASSISTANT) | {"calls": [call]})
    assert caught.value.code == "message_malformed"


# --- order


def _assistant(*ids: str) -> AssistantMessage:
    made = tuple(RawCall(id=call_id, name="pay", arguments="{}") for call_id in ids)
    return AssistantMessage(text="", calls=made)


def _result(call_id: str) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="pay", text="ok")


USER = UserMessage(text="Go on")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER, USER],
        [USER, _assistant("a", "b"), _result("a"), _result("b"), _assistant()],
        [_assistant("a"), _result("a"), _assistant("a"), _result("a")],
    ],
)
def test_calls_answered_in_place_pass(messages: Sequence[Message]) -> None:
    check_request(ModelRequest(instructions="", messages=tuple(messages)))


@pytest.mark.promise("G6")
@pytest.mark.parametrize(
    "messages",
    [
        [_assistant("a")],
        [_assistant("a"), USER, _result("a")],
        [_assistant("a", "b"), _result("b"), _result("a")],
        [_assistant("a", "b"), _result("a"), USER],
        [_assistant("a"), _result("a"), _result("a")],
        [_assistant("a"), _assistant()],
        [_result("a")],
        [USER, _result("a"), _assistant("a")],
    ],
)
def test_a_call_without_its_one_result_in_place_is_refused(messages: Sequence[Message]) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_request(ModelRequest(instructions="", messages=tuple(messages)))
    assert caught.value.code == "messages_out_of_order"


# --- ids


def _ids(*given_ids: str, step: int = 3) -> list[str]:
    return [call.id for call in distinct_ids(_assistant(*given_ids).calls, step=step)]


def test_the_first_call_keeps_an_id_and_later_ones_get_a_suffix() -> None:
    assert _ids("a", "a", "b", "a") == ["a", "a-2", "b", "a-3"]


def test_a_suffix_takes_no_id_that_the_model_gave() -> None:
    assert _ids("a", "a", "a-2") == ["a", "a-3", "a-2"]


def test_a_missing_id_is_made_of_step_and_index() -> None:
    assert _ids("", "a", "") == ["call_3_0", "a", "call_3_2"]
    assert _ids("call_3_1", "") == ["call_3_1", "call_3_1-2"]


@given(st.lists(st.sampled_from(["", "a", "a-2", "a-3", "call_3_0", "call_3_1"]), max_size=8))
def test_ids_are_distinct_and_the_same_each_time(given_ids: list[str]) -> None:
    made = _ids(*given_ids)
    assert len(set(made)) == len(given_ids)
    assert "" not in made
    assert made == _ids(*given_ids)
    assert {call_id for call_id in given_ids if call_id} <= set(made)


def test_messages_and_models_import_neither_pydantic_nor_a_vendors_package() -> None:
    code = (
        "import sys, placet.agent.messages, placet.agent.models.scripted,"
        " placet.agent.models.openai, placet.agent.models.anthropic;"
        " print(sorted({'pydantic', 'openai', 'anthropic', 'httpx2'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("blocks", ["text", [{}], [None], {}])
def test_stored_blocks_that_are_no_texts_are_refused(blocks: object) -> None:
    with pytest.raises(InvalidInput, match="blocks") as caught:
        from_json(to_json(OWN) | {"blocks": blocks})
    assert caught.value.code == "message_malformed"
