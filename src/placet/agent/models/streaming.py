"""Reads an answer whole, whether it comes at once or as a stream of events.

A stream is only another way to send an answer: a `Fold` puts its events together into the body
that would have come without one, and the client reads that body with the same code. So watching
cannot change a turn. The events are read from the bytes, as the answers are, because the official
packages' decoders drop what they do not expect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from placet.agent.models import OnText
from placet.agent.models.raw_json import encodable, joined
from placet.agent.models.troubles import Troubles

_LINE_ENDS = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One server-sent event; `name` is empty where the server gave none."""

    name: str
    data: str


class Decoder:
    """Makes events of bytes as they come (WHATWG HTML, section 9.2, server-sent events).

    One thing is looser than there: an event that the end of the stream cuts short is given too,
    since some servers leave out the last empty line. Raises `UnicodeDecodeError`.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._name = ""
        self._data: list[str] = []
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Give the events that this chunk ends."""
        waited = bool(self._held) and self._held[-1].endswith(b"\r")
        if chunk:
            self._held.append(chunk)
        if not waited and not _LINE_ENDS.search(chunk):
            return
        text = b"".join(self._held)
        # A carriage return at the very end may be the first half of a line's end.
        kept = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_ENDS.split(text[: len(text) - len(kept)])
        self._held = [rest + kept]
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[Event]:
        """Give what the end of the stream ends."""
        for line in (*_LINE_ENDS.split(b"".join(self._held)), b""):
            yield from self._line(line)
        self._held = []

    def _line(self, line: bytes) -> Iterator[Event]:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            name, data = self._name, self._data
            self._name, self._data = "", []
            if data:
                yield Event(name=name, data="\n".join(data))
            return
        field, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)


class Fold(Protocol):
    """Puts a stream's events together."""

    def add(self, event: Event) -> bool:
        """Take the next event; say whether it was the last. Raises `ModelTrouble`."""
        ...

    def body(self) -> object:
        """Give the answer's body. Raises `ModelTrouble` where the stream ended before it did."""
        ...


async def read_body(response: Any, fold: Fold | None, *, troubles: Troubles) -> object:
    """Give the body of a response, which is a package's own, still unread.

    A server that was asked to stream may not know how, and answers at once. Raises `ModelTrouble`,
    and whatever the HTTP client raises.
    """
    if fold is None or "text/event-stream" not in response.headers.get("content-type", ""):
        return troubles.parsed(await response.read())
    decoder = Decoder()
    try:
        async with aclosing(response.http_response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                for event in decoder.feed(chunk):
                    if fold.add(event):
                        return fold.body()
        for event in decoder.end():
            fold.add(event)
    except UnicodeDecodeError as error:
        raise troubles.malformed("The stream is no UTF-8") from error
    return fold.body()


class TextWatcher:
    """Tells of visible text as it comes, and lets nothing that comes of it reach the turn."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._half = ""
        self._told = False

    def tell(self, piece: str) -> None:
        """Tell of one piece; half a character waits for its other half."""
        text = joined([self._half, piece])
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        self._say(text[: len(text) - len(self._half)])

    def finish(self, text: str) -> None:
        """Tell of what is left, given the whole text of the turn: all of it, if none was told."""
        self._say(self._half if self._told else text)
        self._half = ""

    def _say(self, text: str) -> None:
        if self._on_text is None or not text:
            return
        self._told = True
        try:
            self._on_text(encodable(text))
        except Exception:  # noqa: BLE001 who only watches must not be able to fail the turn
            # The turn is whole without being watched, and no decision is taken on what was shown.
            self._on_text = None
