"""A model that says what a script says: for tests, for the demonstration, for trying placet out.

It keeps no counter. The reply is picked by the request's step, so that a run which another process
resumes gets the reply that comes next, and a step that is asked again after a crash gets the same
one. A request that names no step has the one that its assistant messages make it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from placet.agent.messages import (
    AssistantMessage,
    ModelRequest,
    ModelTurn,
    RawCall,
    Usage,
    check_request,
    distinct_ids,
)
from placet.agent.models import OnText
from placet.agent.models.streaming import TextWatcher
from placet.core.errors import InvalidDeclaration, ModelTrouble

Reply: TypeAlias = ModelTurn | AssistantMessage
#: In how many pieces a text is told of, where somebody watches.
PIECES = 3

Script: TypeAlias = Callable[[ModelRequest], Reply] | Sequence[Reply]


class ScriptedModel:
    """A `ModelClient` over a function of the request, or over a sequence of replies.

    A sequence holds one reply for each step of a run; `say`, `call` and `calls`, which stand beside
    it in `placet.agent.models.scripted`, make replies. A function may raise `ModelTrouble` itself.
    Calls without an id get one from their position.
    """

    name: str

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self._script = script

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        """Give the reply of this position; past the end, `ModelTrouble` (`script_ended`)."""
        check_request(request)
        reply = self._pick(request)
        if isinstance(reply, AssistantMessage):
            finish = "tool_calls" if reply.calls else "stop"
            reply = ModelTurn(message=reply, usage=Usage(), model=self.name, finish=finish)
        if not isinstance(reply, ModelTurn):
            raise InvalidDeclaration(
                "script_reply_invalid",
                f"The script of model {self.name!r} gave a {type(reply).__name__}.",
                hint="Give what `say`, `call` or `calls` make, or a ModelTurn.",
            )
        _tell(reply.message.text, TextWatcher(on_text))
        ids = distinct_ids(reply.message.calls, step=request.assistant_count)
        return replace(reply, message=replace(reply.message, calls=ids))

    async def close(self) -> None:
        """Hold nothing, so let go of nothing."""

    def _pick(self, request: ModelRequest) -> Reply:
        if callable(self._script):
            return self._script(request)
        position = request.step - 1 if request.step else request.assistant_count
        if position < len(self._script):
            return self._script[position]
        raise ModelTrouble(
            "script_ended",
            f"The script of model {self.name!r} holds {len(self._script)} replies, and number"
            f" {position + 1} was asked for.",
            hint="Add a reply for what the run does next, or give a function instead.",
            retryable=False,
            model=self.name,
        )


def _tell(text: str, watcher: TextWatcher) -> None:
    size = max(1, -(-len(text) // PIECES))
    for start in range(0, len(text), size):
        watcher.tell(text[start : start + size])
    watcher.finish(text)


def say(text: str, *, reasoning: str = "") -> AssistantMessage:
    """Make a reply that only speaks."""
    return AssistantMessage(text=text, reasoning=reasoning)


def call(name: str, /, id: str | None = None, **arguments: object) -> AssistantMessage:
    """Make a reply of one call, with `id` as the call's; `raw_call` takes any arguments."""
    return raw_call(name, json.dumps(arguments, ensure_ascii=False), id=id)


def raw_call(name: str, arguments: str, *, id: str | None = None) -> AssistantMessage:
    """Make a reply of one call whose arguments are this very text, readable or not."""
    return AssistantMessage(text="", calls=(RawCall(id=id or "", name=name, arguments=arguments),))


def calls(*replies: AssistantMessage, text: str = "") -> AssistantMessage:
    """Make one reply of all the calls of these, in order, which says `text` beside them."""
    return AssistantMessage(
        text=text, calls=tuple(made for reply in replies for made in reply.calls)
    )
