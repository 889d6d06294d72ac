"""Puts the chunks of a streamed `chat.completions` answer together into the answer itself.

Servers differ in how they stream calls: with the index in each fragment, with none, with the same
one for all; the id once or each time. What is certain is kept: a fragment goes to the call that it
names, and only fragments of one call are joined, in the order they came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.agent.models.raw_json import joined, text_of
from placet.agent.models.streaming import Event, TextWatcher
from placet.agent.models.troubles import Troubles

_DONE = "[DONE]"
_SPOKEN = ("refusal", "reasoning_content", "reasoning")


def content_text(content: object) -> str | None:
    """Give the text of a message's content, or None where it is no content.

    Some servers give a list of parts; what is no text (thinking, say) is not for the reader.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return None


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call that still grows."""

    index: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    has_arguments: bool = False

    def body(self) -> dict[str, object]:
        arguments = joined(self.arguments) if self.has_arguments else None
        function = {"name": self.name, "arguments": arguments}
        return {"id": self.id, "type": "function", "function": function}


class ChatFold:
    """The fold of one streamed answer; visible text is told of as it comes."""

    def __init__(self, watcher: TextWatcher, troubles: Troubles) -> None:
        self._watcher = watcher
        self._troubles = troubles
        self._content: list[str] = []
        self._spoken: dict[str, list[str]] = {key: [] for key in _SPOKEN}
        self._calls: list[_Call] = []
        self._finish: str | None = None
        self._failure: object = None
        self._model: object = None
        self._usage: object = None

    def add(self, event: Event) -> bool:
        """Take the next event; say whether it was the last. Raises `ModelTrouble`."""
        if event.data.strip() == _DONE:
            return True
        chunk = self._troubles.parsed(event.data)
        if not isinstance(chunk, dict):
            raise self._troubles.malformed("A part of the stream is no JSON object")
        choices = chunk.get("choices")
        if event.name == "error" or (chunk.get("error") and not choices):
            raise self._troubles.of_error(chunk.get("error") or chunk)
        self._failure = chunk.get("error") or self._failure
        self._model = self._model or chunk.get("model")
        self._usage = chunk.get("usage") or self._usage
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._take(choice)
        return False

    def body(self) -> object:
        """Give the answer's body. Raises `ModelTrouble` where the stream ended before it did."""
        if self._failure:
            raise self._troubles.of_error(self._failure)
        if self._finish is None:
            raise self._troubles.broken_off()
        message: dict[str, object] = {"content": joined(self._content)}
        message |= {key: joined(pieces) for key, pieces in self._spoken.items() if pieces}
        # Calls that a server streams side by side are told apart, and put in order, by the index.
        calls = sorted(self._calls, key=lambda call: call.index)
        message["tool_calls"] = [call.body() for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    def _take(self, choice: dict[str, object]) -> None:
        self._failure = choice.get("error") or self._failure
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        piece = content_text(delta.get("content"))
        if piece is None:
            raise self._troubles.malformed("The message's content is no text")
        self._content.append(piece)
        self._watcher.tell(piece)
        for key, pieces in self._spoken.items():
            if isinstance(said := delta.get(key), str):
                pieces.append(said)
        fragments = delta.get("tool_calls")
        if fragments is None:
            return
        if not isinstance(fragments, list):
            raise self._troubles.malformed("The message's tool calls are no list")
        for fragment in fragments:
            self._grow(fragment)

    def _grow(self, fragment: object) -> None:
        if not isinstance(fragment, dict):
            raise self._troubles.malformed("A tool call holds no function")
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        call = self._call_of(fragment, names=isinstance(name, str) and bool(name))
        if isinstance(name, str) and name != call.name:
            call.name += name
        arguments = function.get("arguments")
        if arguments is not None:
            call.has_arguments = True
            call.arguments.append(arguments if isinstance(arguments, str) else text_of(arguments))

    def _call_of(self, fragment: dict[str, object], *, names: bool) -> _Call:
        """Find the call that a fragment belongs to, or begin it."""
        index, given = fragment.get("index"), fragment.get("id")
        call_id = given if isinstance(given, str) else ""
        if isinstance(index, int):
            # The last with this index: some servers count every call as the first.
            known = [call for call in self._calls if call.index == index][-1:]
        elif call_id:
            known = [call for call in self._calls if call.id == call_id]
        else:
            # Without either, a name begins a call, and anything else belongs to the last one.
            known = [] if names else self._calls[-1:]
        if known and not (call_id and known[0].id and call_id != known[0].id):
            known[0].id = known[0].id or call_id
            return known[0]
        follows = self._calls[-1].index + 1 if self._calls else 0
        begun = _Call(index=index if isinstance(index, int) else follows, id=call_id)
        self._calls.append(begun)
        return begun
