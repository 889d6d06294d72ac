"""What the harness and every model client say to each other, and how a transcript keeps it.

There are three kinds of message; a `ModelRequest` is what a client is asked and a `ModelTurn` what
it answers. Arguments stay the raw text that the model gave: they are parsed once, by the gate, and
never here (G4). Nothing here knows a vendor, and nothing here imports pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from placet.core.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCall:
    """One tool call as proposed. `arguments` is the model's text, readable as JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What the user said."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContent:
    """What a provider must be given back as it gave it, such as signed thinking.

    `provider` names who reads it; everybody else goes by the message's text and calls. Each of
    `blocks` is one JSON text, so that no pause, store or parser can change it; they stand in the
    order given. Where a block stands for a call, the message's call says id, name and arguments.
    """

    provider: str
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """What the model said; calls in the order proposed, reasoning where the server shows it."""

    text: str
    calls: tuple[RawCall, ...] = ()
    reasoning: str = ""
    provider_content: ProviderContent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The one result of one call; `name` is the tool's."""

    call_id: str
    name: str
    text: str


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the server counted them; zero where it did not say.

    `input_tokens` counts all that the model was shown, whether or not a cache held it, on every
    wire. Of these, `cached_input_tokens` were read from a cache and `cache_creation_input_tokens`
    written to one; both have prices of their own. `output_tokens` includes hidden reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One answer of a model. `model` and `finish` are the server's own words."""

    message: AssistantMessage
    usage: Usage
    model: str
    finish: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A tool as a model is shown it. `parameters` is a JSON Schema of type `object`."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """All that a model is shown for one step: a bounded view of the session, oldest first.

    `step` is the step's number in its run, from 1; 0 where the answer is no step of one.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    step: int = 0

    @property
    def assistant_count(self) -> int:
        """How many assistant messages the view holds: the position of the answer asked for."""
        return sum(isinstance(message, AssistantMessage) for message in self.messages)


def check_request(request: ModelRequest) -> None:
    """Hold that each call is answered at once, by exactly one result, in the order proposed (G6).

    Vendors answer anything else with an error that says little, so every client asks this first.
    Raises `InvalidInput` (`messages_out_of_order`).
    """
    awaited: list[str] = []
    for position, message in enumerate(request.messages):
        if isinstance(message, ToolMessage):
            if not awaited or message.call_id != awaited[0]:
                wanted = f"call {awaited[0]!r}" if awaited else "no call"
                raise _out_of_order(position, f"answers {message.call_id!r} where {wanted} waits")
            awaited.pop(0)
            continue
        if awaited:
            raise _out_of_order(position, f"comes before the result of call {awaited[0]!r}")
        if isinstance(message, AssistantMessage):
            awaited = [call.id for call in message.calls]
    if awaited:
        raise _out_of_order(len(request.messages), f"is missing: the result of call {awaited[0]!r}")


def _out_of_order(position: int, what: str) -> InvalidInput:
    return InvalidInput(
        "messages_out_of_order",
        f"Message {position} of the request {what}.",
        hint="Follow each assistant message with one result per call, in the order proposed.",
    )


def distinct_ids(calls: Sequence[RawCall], *, step: int) -> tuple[RawCall, ...]:
    """Give every call of one step an id of its own, the same one each time it is asked.

    The first call with an id keeps it; a later one gets the first free of `-2`, `-3`, ...; a call
    without an id gets `call_<step>_<index>`. Ids used in other steps do not matter.
    """
    taken = {call.id for call in calls if call.id}
    kept: set[str] = set()
    result: list[RawCall] = []
    for index, call in enumerate(calls):
        if call.id and call.id not in kept:
            kept.add(call.id)
            result.append(call)
            continue
        name = call.id or f"call_{step}_{index}"
        wanted, number = name, 1
        while wanted in taken:
            number += 1
            wanted = f"{name}-{number}"
        taken.add(wanted)
        result.append(replace(call, id=wanted))
    return tuple(result)


# The kind is the version: a message that needs other keys gets a new kind, and old kinds are read
# for ever (D7). What an older placet can read is still written so that it can.
_USER, _ASSISTANT, _TOOL = "user/1", "assistant/1", "tool/1"
_ASSISTANT_OF_PROVIDER = "assistant/2"


def to_json(message: Message) -> dict[str, object]:
    """Give the form a transcript keeps: plain JSON values with an explicit `kind`."""
    match message:
        case UserMessage():
            return {"kind": _USER, "text": message.text}
        case AssistantMessage():
            calls = [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in message.calls
            ]
            said = {"text": message.text, "calls": calls, "reasoning": message.reasoning}
            content = message.provider_content
            if content is None:
                return {"kind": _ASSISTANT, **said}
            theirs = {"provider": content.provider, "blocks": list(content.blocks)}
            return {"kind": _ASSISTANT_OF_PROVIDER, **said, **theirs}
        case ToolMessage():
            return {
                "kind": _TOOL,
                "call_id": message.call_id,
                "name": message.name,
                "text": message.text,
            }


def from_json(value: Mapping[str, object]) -> Message:
    """Read back what `to_json` gave.

    Raises `InvalidInput`: `message_kind_unknown` where a newer placet wrote it, `message_malformed`
    where a key is missing, superfluous or of another type.
    """
    kind = value.get("kind")
    if kind == _USER:
        return UserMessage(**_texts(value, "text"))
    if kind == _TOOL:
        return ToolMessage(**_texts(value, "call_id", "name", "text"))
    if kind == _ASSISTANT:
        return _assistant(value)
    if kind == _ASSISTANT_OF_PROVIDER:
        ours = {key: item for key, item in value.items() if key not in ("provider", "blocks")}
        blocks = value.get("blocks")
        if not isinstance(blocks, list) or not all(isinstance(block, str) for block in blocks):
            raise _malformed(value, "blocks")
        theirs = _texts({"kind": kind, "provider": value.get("provider")}, "provider")
        content = ProviderContent(provider=theirs["provider"], blocks=tuple(blocks))
        return replace(_assistant(ours), provider_content=content)
    raise InvalidInput(
        "message_kind_unknown",
        f"A message of kind {kind!r} is in the transcript, which this placet does not know.",
        hint="Read it with the version of placet that wrote it, or a newer one.",
    )


def _assistant(value: Mapping[str, object]) -> AssistantMessage:
    calls = value.get("calls")
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        raise _malformed(value, "calls")
    rest = {key: item for key, item in value.items() if key != "calls"}
    texts = _texts(rest, "text", "reasoning")
    made = tuple(_call(call) for call in calls)
    return AssistantMessage(text=texts["text"], calls=made, reasoning=texts["reasoning"])


def _call(value: Mapping[str, object]) -> RawCall:
    return RawCall(**_texts({"kind": "call", **value}, "id", "name", "arguments"))


def _texts(value: Mapping[str, object], *keys: str) -> dict[str, str]:
    for key in value.keys() - {"kind", *keys}:
        raise _malformed(value, key)
    found: dict[str, str] = {}
    for key in keys:
        text = value.get(key)
        if not isinstance(text, str):
            raise _malformed(value, key)
        found[key] = text
    return found


def _malformed(value: Mapping[str, object], key: str) -> InvalidInput:
    return InvalidInput(
        "message_malformed",
        f"A message of kind {value.get('kind')!r} has no proper {key!r}.",
        hint="Something other than placet changed the transcript; see `placet audit verify`.",
    )
