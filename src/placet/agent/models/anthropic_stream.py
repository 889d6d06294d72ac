"""Puts the events of a streamed Messages answer together into the answer itself."""

from __future__ import annotations

from typing import Any

from placet.agent.models.raw_json import joined, parse
from placet.agent.models.streaming import Event, TextWatcher
from placet.agent.models.troubles import Troubles

# Which field of a block a delta goes on with, by the delta's type; the delta has it by this name.
_GROWS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("input", "partial_json"),
}


class _Block:
    """A block that still grows, each field in pieces."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = dict(start)
        self._pieces: dict[str, list[str]] = {}
        self.ended = False

    def grow(self, field: str, piece: str) -> None:
        self._pieces.setdefault(field, []).append(piece)

    def cite(self, citation: object) -> None:
        begun = self._start.get("citations")
        self._start["citations"] = [*(begun if isinstance(begun, list) else []), citation]

    def sign(self, signature: object) -> None:
        # It comes whole, and the official package lets a second one take the first one's place.
        self._start["signature"] = signature

    def body(self) -> dict[str, Any]:
        made = dict(self._start)
        for field, pieces in self._pieces.items():
            text = joined(pieces)
            if field == "input":
                # A call without arguments comes in no pieces, or empty ones, and begins with {}.
                made[field] = _input(text) if text.strip() else made.get(field)
            else:
                begun = made.get(field)
                made[field] = (begun if isinstance(begun, str) else "") + text
        return made


class MessageFold:
    """The fold of one streamed answer; visible text is told of as it comes."""

    def __init__(self, watcher: TextWatcher, troubles: Troubles) -> None:
        self._watcher = watcher
        self._troubles = troubles
        self._message: dict[str, Any] | None = None
        self._usage: dict[str, object] = {}
        self._blocks: dict[int, _Block] = {}
        self._ended = False

    def add(self, event: Event) -> bool:
        """Take the next event; say whether it was the last. Raises `ModelTrouble`."""
        said = self._troubles.parsed(event.data)
        if not isinstance(said, dict):
            raise self._troubles.malformed("A part of the stream is no JSON object")
        match said.get("type") or event.name:
            case "error":
                raise self._troubles.of_error(said.get("error") or said)
            case "message_start":
                self._message = dict(self._part(said, "message"))
                self._count(self._message.get("usage"))
            case "content_block_start":
                self._begin(said.get("index"), self._part(said, "content_block"))
            case "content_block_delta":
                self._grow(self._block(said), self._part(said, "delta"))
            case "content_block_stop":
                self._block(said).ended = True
            case "message_delta":
                self._begun().update(self._part(said, "delta"))
                self._count(said.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass  # Pings, and events that are yet to be invented: the API says to skip them.
        return self._ended

    def body(self) -> object:
        """Give the answer's body. Raises `ModelTrouble` where the stream ended before it did."""
        if not self._ended or not all(block.ended for block in self._blocks.values()):
            raise self._troubles.broken_off()
        content = [self._blocks[index].body() for index in sorted(self._blocks)]
        return {**self._begun(), "content": content, "usage": self._usage}

    def _begun(self) -> dict[str, Any]:
        if self._message is None:
            raise self._troubles.malformed("The stream has no beginning")
        return self._message

    def _part(self, said: dict[str, Any], key: str) -> dict[str, Any]:
        part = said.get(key)
        if not isinstance(part, dict):
            raise self._troubles.malformed(f"A part of the stream holds no {key!r}")
        return part

    def _begin(self, index: object, start: dict[str, Any]) -> None:
        if not isinstance(index, int) or index in self._blocks:
            raise self._troubles.malformed("A block of the stream has no place of its own")
        self._blocks[index] = _Block(start)
        if start.get("type") == "text" and isinstance(start.get("text"), str):
            self._watcher.tell(start["text"])

    def _block(self, said: dict[str, Any]) -> _Block:
        index = said.get("index")
        if not isinstance(index, int) or index not in self._blocks:
            raise self._troubles.malformed("A part of the stream is of a block that never began")
        return self._blocks[index]

    def _grow(self, block: _Block, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "citations_delta":
            block.cite(delta.get("citation"))
            return
        if kind == "signature_delta":
            block.sign(delta.get("signature"))
            return
        field, key = _GROWS.get(str(kind), ("", ""))
        piece = delta.get(key)
        if not isinstance(piece, str):
            # To skip it would give the block back changed, and the API checks its own blocks.
            raise self._troubles.malformed(f"A part of the stream is of an unknown kind, {kind!r}")
        block.grow(field, piece)
        if field == "text":
            self._watcher.tell(piece)

    def _count(self, usage: object) -> None:
        # Each is a total so far; what a later event leaves out stands as it was.
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if value is not None}


def _input(text: str) -> object:
    """Give what the server would have made of a call's text; as it is where it is no JSON."""
    try:
        return parse(text)
    except (ValueError, RecursionError):
        return text
