"""Texts as a SQLite store keeps them: short ones as they are, long ones compressed."""

from __future__ import annotations

import json
import zlib

from placet.core.codec import UnreadableValue

#: From this size on a text is compressed: below, it would cost more time than it saves.
COMPRESSED_FROM_BYTES = 1_024
_COMPRESSION = 1


def storable(body: str) -> str | bytes:
    """Give a text as it is stored: a short one as it is, a long one compressed.

    What has lone surrogates has no UTF-8, and is kept as bytes whatever its length.
    """
    try:
        data = body.encode()
    except UnicodeEncodeError:
        data = body.encode("utf-8", "surrogatepass")
    else:
        if len(data) < COMPRESSED_FROM_BYTES:
            return body
    return zlib.compress(data, _COMPRESSION)


def text_of(stored: str | bytes) -> str:
    """Give back a text that `storable` made storable; raises UnreadableValue."""
    if isinstance(stored, str):
        return stored
    if not isinstance(stored, bytes):
        raise UnreadableValue("a stored text is none")
    try:
        return zlib.decompress(stored).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as error:
        raise UnreadableValue(f"a stored text: {error}") from error


def name_in(stored: str | bytes, kind: str) -> str:
    """Give a step's name out of its stored text, as older versions wrote it; empty: it has none."""
    try:
        written = json.loads(text_of(stored))
        name = written.get(kind)
        if isinstance(name, str):
            name.encode()
            return name
    except (UnreadableValue, ValueError, AttributeError):
        pass
    return ""
