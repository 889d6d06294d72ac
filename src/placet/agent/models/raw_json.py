"""Reads a server's answer without losing what the model wrote.

Some servers send a call's arguments as a JSON object and not as text. The gate must see such an
object as it was sent: a key given twice, or a number that no double holds, makes arguments
unreadable (G4), and a plain parser would have mended it in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable


class _Object(dict[str, object]):
    """An object that remembers every pair, in order."""

    pairs: list[tuple[str, object]]


class _Number(float):
    """A number that remembers its text."""

    text: str


def _object(pairs: list[tuple[str, object]]) -> _Object:
    made = _Object(pairs)
    made.pairs = pairs
    return made


def _number(text: str) -> _Number:
    made = _Number(text)
    made.text = text
    return made


def parse(content: bytes | str) -> object:
    """Parse a body. Raises `ValueError` or `RecursionError` where it is no JSON we can hold."""
    parsed: object = json.loads(content, object_pairs_hook=_object, parse_float=_number)
    return parsed


def text_of(value: object) -> str:
    """Give the JSON text of a parsed value, its repeated keys and its numbers as they came."""
    if isinstance(value, _Object):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item) for item in value) + "]"
    if isinstance(value, _Number):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def encodable(text: str) -> str:
    """Write lone surrogates as the JSON escapes they came from, so that the text can be stored.

    Inside arguments this changes no meaning: the escape reads as the same surrogate, and the gate
    still finds it.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def storable(value: object) -> str:
    """Give the JSON text of a parsed value in a form that a transcript and any parser can hold.

    Raises `ValueError` for a number that is none.
    """
    return json.dumps(_encodable(value), ensure_ascii=False, allow_nan=False)


def joined(pieces: Iterable[str]) -> str:
    """Put together a text that came in pieces, also where a pair of surrogates was cut in two.

    A server that counts in UTF-16, as JavaScript does, may cut a character so.
    """
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _encodable(value: object) -> object:
    if isinstance(value, dict):
        return {encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


def count(value: object) -> int:
    """Give a count that a server told, or zero where it told none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
