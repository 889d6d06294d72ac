"""One value, one spelling: strict reading of arguments, and the digests over them.

Arguments are read once, here, and whatever could be read in two ways is not read at all (G4).
What was read is stored as it was read, and that is what runs; digests are taken over its RFC 8785
form (JCS), in which `1` and `1.0` are alike. Which pairs are one action is written down, and held
by a test, in docs/reference/digest.md.

Nothing here looks at a schema, and nothing here repairs a text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from base64 import b32encode
from collections.abc import Mapping
from typing import NoReturn, TypeAlias

import rfc8785

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"

#: The largest arguments that are read: of a text its UTF-8, of an object its RFC 8785 form.
MAX_ARGUMENTS_BYTES = 256 * 1024

#: How deep objects and arrays may stand in each other; the arguments' own object is the first.
MAX_DEPTH = 64

#: How many objects and arrays a document may wrap around arguments and still be digested.
ENVELOPE_DEPTH = 16

#: The largest whole number, 2^53 - 1 (RFC 7493, section 2.2; ECMAScript's MAX_SAFE_INTEGER).
#: 2^53 itself is refused, because 2^53 + 1 becomes it wherever numbers are doubles.
MAX_INTEGER = 2**53 - 1

#: From here on RFC 8785 writes a whole double with an exponent, so it is not read as an integer.
_EXPONENT_FROM = 1e21

_LONGEST_INTEGER = len(str(-MAX_INTEGER))
_LONGEST_NAMED_KEY = 64
_SHORT_ID_CHARACTERS = 20
_BITS_PER_CHARACTER = 5

_BEYOND = "an integer lies beyond ±(2^53 - 1), where doubles no longer tell neighbours apart"
_TOO_DEEP = "objects and arrays are nested deeper than {} levels"
_TOO_LARGE = f"the arguments are larger than {MAX_ARGUMENTS_BYTES} bytes"
_LONE_SURROGATE = "a text holds a lone surrogate, which is no character"

#: A string, ended or not, or one bracket. Possessive, so that no input makes it look twice.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[\[{]|[\]}]', re.DOTALL)


class Unreadable(Exception):
    """The text or value has no single reading; `reason` says why, for people (G4)."""

    reason: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_arguments(raw: str | Mapping[str, object]) -> dict[str, JsonValue]:
    """Read a tool call's arguments, given as JSON text or as an object already read (G4).

    The answer shares nothing with `raw`, keeps the order of its keys and the kind of its numbers
    (`1` is an int, `1.0` a float), and holds `0.0` where `-0.0` stood, because RFC 8785 has only
    one zero. Raises `Unreadable` for whatever is not one JSON object with one reading: other text
    before or after it, a key twice, NaN or an infinity (`1e999` is one), a number whose RFC 8785
    form is an integer beyond ±`MAX_INTEGER`, a lone surrogate, more than `MAX_DEPTH` levels,
    more than `MAX_ARGUMENTS_BYTES`, or a value that is not of JSON.
    """
    if not isinstance(raw, str):
        return _object_from_mapping(raw)
    if len(_utf8(raw)) > MAX_ARGUMENTS_BYTES:
        raise Unreadable(_TOO_LARGE)
    if _depth_of_text(raw) > MAX_DEPTH:
        raise Unreadable(_TOO_DEEP.format(MAX_DEPTH))
    try:
        value = _DECODER.decode(raw)
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg} (character {error.pos})") from None
    if not isinstance(value, dict):
        raise Unreadable("the arguments are JSON, but not an object")
    return _checked_object(value, levels=MAX_DEPTH, most=MAX_DEPTH, budget=_Budget())


def canonical(value: JsonValue) -> bytes:
    """Give the RFC 8785 form of `value`, in UTF-8.

    Raises `Unreadable` for what has none, by the same rules as `parse_arguments`, but for size,
    and with `ENVELOPE_DEPTH` more levels, so that a document around readable arguments has one.
    """
    most = MAX_DEPTH + ENVELOPE_DEPTH
    return _written(_checked(value, levels=most, most=most, budget=None))


def sha256_hex(data: bytes) -> str:
    """Give the SHA-256 of `data` as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: JsonValue) -> str:
    """Give the SHA-256 over the RFC 8785 form of `value` (G3); raises `Unreadable` as it does."""
    return sha256_hex(canonical(value))


def call_digest(tool: str, arguments: Mapping[str, JsonValue] | str) -> str:
    """Give the digest of a call: the same tool with the same arguments has the same one (G6, G12).

    It is not to be stored: arguments can be guessed from it. A session's call keys are made of it.

    Text that can be read is digested by what it says, so a call has one digest however its
    provider writes arguments. Text that cannot be read is digested by the text, character by
    character, and shares no digest with anything readable. Raises `Unreadable` for an object
    without an RFC 8785 form, and never for a text or a tool name.
    """
    if not isinstance(arguments, str):
        return _digest(tool, "arguments", canonical(dict(arguments)))
    try:
        return _digest(tool, "arguments", _written(parse_arguments(arguments)))
    except Unreadable:
        return _digest(tool, "raw_arguments", _any_utf8(arguments))


def short_id(prefix: str, digest: str) -> str:
    """Give an id that people can read out: `rq` and a digest become `rq_` and 20 characters.

    They are the digest's first 100 bits in lowercase base32 (RFC 4648), so the same digest has
    the same id. Raises ValueError for a digest that is too short or not hexadecimal.
    """
    whole_bytes = -(-_SHORT_ID_CHARACTERS * _BITS_PER_CHARACTER // 8)
    first = bytes.fromhex(digest[: 2 * whole_bytes])
    if len(first) != whole_bytes:
        raise ValueError(f"a digest has at least {2 * whole_bytes} hexadecimal digits")
    return f"{prefix}_{b32encode(first).decode('ascii')[:_SHORT_ID_CHARACTERS].lower()}"


def _digest(tool: str, kind: str, arguments: bytes) -> str:
    """Hash what has one length each: the tool's name, how arguments were given, and arguments."""
    parts = (_any_utf8(tool), kind.encode("ascii"), arguments)
    return sha256_hex("".join(map(sha256_hex, parts)).encode("ascii"))


_write_plain = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def _written(checked: JsonValue) -> bytes:
    try:
        return _write_plain(checked).encode() if _is_plain(checked) else rfc8785.dumps(checked)
    except ValueError as error:  # Both of its own errors and of text that has no UTF-8.
        raise Unreadable(str(error)) from None


def _is_plain(value: JsonValue) -> bool:
    """Say whether Python's own JSON is RFC 8785's: no floats, and keys of ASCII, in one order."""
    kind = type(value)
    if isinstance(value, dict) and kind is dict:
        return all(type(key) is str and key.isascii() for key in value) and all(
            map(_is_plain, value.values())
        )
    if isinstance(value, list) and kind is list:
        return all(map(_is_plain, value))
    return kind is str or kind is int or kind is bool or value is None


def _object_from_mapping(raw: Mapping[str, object]) -> dict[str, JsonValue]:
    value = _checked_object(raw, levels=MAX_DEPTH, most=MAX_DEPTH, budget=_Budget())
    if len(_written(value)) > MAX_ARGUMENTS_BYTES:
        raise Unreadable(_TOO_LARGE)
    return value


def _depth_of_text(raw: str) -> int:
    """Give how deep `raw` is nested, before a reader that recurses is let near it."""
    brackets = raw.count("{") + raw.count("[")
    if brackets <= MAX_DEPTH:
        return brackets
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(raw):
        if found[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in "]}":
            depth -= 1
    return deepest


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    read = dict(pairs)
    if len(read) == len(pairs):
        return read
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            named = f"{key!a}" if len(key) <= _LONGEST_NAMED_KEY else f"of {len(key)} characters"
            raise Unreadable(f"the key {named} stands twice in one object")
        seen.add(key)
    raise AssertionError("fewer keys than pairs, and no key twice")


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise Unreadable(_BEYOND)
    return int(text)


def _constant(text: str) -> NoReturn:
    raise Unreadable(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates, parse_int=_integer, parse_constant=_constant
)


class _Budget:
    """How many bytes an object may still take; it ends walks over parts that are shared."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_ARGUMENTS_BYTES

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise Unreadable(_TOO_LARGE)


def _checked(value: object, *, levels: int, most: int, budget: _Budget | None) -> JsonValue:
    """Give a copy of `value` in objects and lists of its own; each value spends at least a byte."""
    if isinstance(value, str):
        _check_text(value, budget)
        return value
    if budget is not None:
        budget.spend(1)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise Unreadable(_BEYOND)
        return value
    if isinstance(value, float):
        return _checked_float(value)
    if isinstance(value, list):
        if levels == 0:
            raise Unreadable(_TOO_DEEP.format(most))
        return [_checked(part, levels=levels - 1, most=most, budget=budget) for part in value]
    if isinstance(value, Mapping):
        return _checked_object(value, levels=levels, most=most, budget=budget)
    raise Unreadable(f"a value of type {type(value).__name__} is none of JSON's")


def _checked_object(
    value: Mapping[str, object], *, levels: int, most: int, budget: _Budget | None
) -> dict[str, JsonValue]:
    if levels == 0:
        raise Unreadable(_TOO_DEEP.format(most))
    copy: dict[str, JsonValue] = {}
    for key, part in value.items():
        if not isinstance(key, str):
            raise Unreadable("an object has a key that is no text")
        _check_text(key, budget)
        copy[key] = _checked(part, levels=levels - 1, most=most, budget=budget)
    return copy


def _checked_float(value: float) -> float:
    if not math.isfinite(value):
        raise Unreadable("a number is NaN or infinite, or too large for a double")
    if MAX_INTEGER < abs(value) < _EXPONENT_FROM:
        raise Unreadable(_BEYOND)
    return value + 0.0  # The sum of -0.0 and 0.0 is 0.0 (IEEE 754, section 6.3).


def _check_text(value: str, budget: _Budget | None) -> None:
    size = len(value) if value.isascii() else len(_utf8(value))
    if budget is not None:
        budget.spend(size + 1)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unreadable(_LONE_SURROGATE) from None


def _any_utf8(text: str) -> bytes:
    """Give bytes for any text, different for different ones, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")
