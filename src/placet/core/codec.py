"""The stored form of events and of the session's parts, and the hash that chains the events.

A value is one compact JSON object in ASCII: its fields by name, instants and durations as whole
microseconds, an occurrence as [run, step, index], a payload as its reference alone, a member of a
union with its class's name under "is" (which is no name a field can have). What was written once
is read for ever (D7). A field that has its default, where that is empty (None, "", 0, False, ()),
is left out, and so is one that has the value which `LEFT_OUT` fixes for it; other defaults are
written, so that changing one changes no old value. Hence whatever is there and not known means
something, and the value is a newer version's: `NewerValue`.

Encoders and decoders are built once a class, from its type hints: this is the store's hot path.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from placet.core.events import Event
from placet.core.state import Call, Grant, No, Request, Run
from placet.core.values import Occurrence, Payload

Part = Run | Call | Request | No | Grant
P = TypeVar("P", Run, Call, Request, No, Grant)

#: What it means, for ever, that a field is not there; entries are added, never changed. A field
#: of an older version that was written although it has this value is read all the same.
LEFT_OUT: Mapping[str, Any] = {
    "Call.environment": "",
    "Call.scope": (),
    "AttemptBegun.purpose": "run",
    "CallProposed.environment": "",
    "CallProposed.scope": (),
    "Executing.purpose": "run",
    "Lost.purpose": "run",
    "Needs.quorum": 1,
    "Recovery.backoff": timedelta(seconds=1),
    "Recovery.time_limit": timedelta(minutes=5),
    "Request.hold": "session",
    "Request.readable": True,
    "RequestOpened.hold": "session",
    "RequestOpened.readable": True,
    "Run.mode": "act",
    "Run.on_failure": "continue",
    "Run.saga": "step",
    "RunStarted.mode": "act",
    "RunStarted.on_failure": "continue",
    "RunStarted.saga": "step",
    "Undoing.backoff": timedelta(seconds=1),
    "Undoing.time_limit": timedelta(minutes=5),
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TAG = "is"


class NewerValue(Exception):
    """A stored value holds something that only a newer version of placet knows (D7)."""


class UnreadableValue(Exception):
    """A stored value is damaged."""


# --- instants and the chain -------------------------------------------------------------------


def micros_of(at: datetime) -> int:
    """Give an aware instant as microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def instant_of(micros: int) -> datetime:
    """Give the instant that lies `micros` microseconds after 1970, in UTC.

    Raises UnreadableValue where no calendar has it.
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise UnreadableValue(f"an instant {micros}") from error


def chain_hash(previous: str, *, seq: int, at_micros: int, kind: str, body: str) -> str:
    """Give an event's hash: SHA-256 over five lines, of which only the last may hold any text.

    `previous` is the hash of the event before, in hexadecimal, and empty for the first (H4).
    """
    text = f"{previous}\n{seq}\n{at_micros}\n{kind}\n{body}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- reading and writing ----------------------------------------------------------------------


def event_kind(event: Event) -> str:
    """Give the name under which an event stands in the log."""
    return type(event).__name__


def encode(value: Event | Part) -> str:
    """Give the stored form of an event or a part."""
    cls: type = type(value)
    return _dump(_record(cls).encode(value))


def decode_event(kind: str, text: str) -> Event:
    """Read an event back; raises NewerValue or UnreadableValue."""
    cls = _EVENTS.get(kind)
    if cls is None:
        raise NewerValue(f"an event {kind!r}")
    event: Event = _read(cls, text)
    return event


def decode(cls: type[P], text: str) -> P:
    """Read a Run, Call, Request, No or Grant back; raises NewerValue or UnreadableValue."""
    part: P = _read(cls, text)
    return part


_EVENTS: dict[str, type] = {cls.__name__: cls for cls in get_args(Event)}

_dump = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


def _read(cls: type, text: str) -> Any:
    try:
        return _record(cls).decode(json.loads(text))
    except (
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise UnreadableValue(f"a stored {cls.__name__}: {error}") from error


# --- building the encoders --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """How values of one type are written and read; None: as they are."""

    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class _Record:
    """How values of one dataclass become an object and come back from one."""

    encode: Callable[[Any], dict[str, Any]]
    decode: Callable[[dict[str, Any]], Any]


@cache
def _record(cls: type) -> _Record:
    hints = get_type_hints(cls)
    names = tuple(field.name for field in fields(cls))
    forms = {name: _form(hints[name]) for name in names}
    read_all = attrgetter(*names) if len(names) > 1 else None
    absent = {field.name: _absent(cls, field) for field in fields(cls)}
    plan = tuple(
        (name, forms[name].encode, absent[name] is not MISSING, absent[name]) for name in names
    )
    fixed = {name: LEFT_OUT[f"{cls.__name__}.{name}"] for name in names if _is_fixed(cls, name)}
    decoders = {name: form.decode for name, form in forms.items()}

    def encode_record(value: Any) -> dict[str, Any]:
        values = read_all(value) if read_all else [getattr(value, name) for name in names]
        written: dict[str, Any] = {}
        for (name, convert, sparse, usual), each in zip(plan, values, strict=True):
            if sparse and each == usual:
                continue
            written[name] = each if convert is None else convert(each)
        return written

    def decode_record(written: dict[str, Any]) -> Any:
        known: dict[str, Any] = dict(fixed)
        for name, each in written.items():
            if name not in decoders:
                raise NewerValue(f"a field {name!r} of {cls.__name__}")
            convert = decoders[name]
            known[name] = each if convert is None else convert(each)
        return cls(**known)

    return _Record(encode_record, decode_record)


def _is_fixed(cls: type, name: str) -> bool:
    return f"{cls.__name__}.{name}" in LEFT_OUT


def _absent(cls: type, field: Field[Any]) -> Any:
    """Give the value with which a field is left out; MISSING: it is always written."""
    if _is_fixed(cls, field.name):
        return LEFT_OUT[f"{cls.__name__}.{field.name}"]
    return MISSING if field.default is not None and field.default else field.default


def _form(hint: Any) -> _Form:
    if hint in (str, int, bool):
        return _Form(None, None)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _Form(None, _one_of(frozenset(inner)))
    if hint == tuple[str, ...]:
        return _Form(None, _strings)  # JSON writes a tuple as an array.
    if origin in (Union, types.UnionType):
        if type(None) in inner:
            (other,) = [each for each in inner if each is not type(None)]
            return _optional(_form(other))
        return _union(inner)
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return _many(_form(inner[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        record = _record(hint)
        return _Form(record.encode, record.decode)
    raise TypeError(f"no stored form for {hint!r}")


def _occurrence(written: list[Any]) -> Occurrence:
    run, step, index = written
    return Occurrence(run, step, index)


def _strings(written: Any) -> tuple[str, ...]:
    if not isinstance(written, list):
        raise TypeError("an array was expected")
    return tuple(written)


_SIMPLE: dict[Any, _Form] = {
    datetime: _Form(micros_of, instant_of),
    timedelta: _Form(
        lambda lasts: lasts // _MICROSECOND, lambda micros: timedelta(microseconds=micros)
    ),
    Occurrence: _Form(attrgetter("run", "step", "index"), _occurrence),
    Payload: _Form(attrgetter("ref"), Payload),
}


def _one_of(known: frozenset[str]) -> Callable[[Any], Any]:
    def checked(written: Any) -> Any:
        if written not in known:
            raise NewerValue(f"a value {written!r}")
        return written

    return checked


def _optional(form: _Form) -> _Form:
    def lifted(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        if convert is None:
            return None
        return lambda value: None if value is None else convert(value)

    return _Form(lifted(form.encode), lifted(form.decode))


def _many(form: _Form) -> _Form:
    def read(written: Any) -> tuple[Any, ...]:
        if not isinstance(written, list):
            raise TypeError("an array was expected")
        return tuple(written if form.decode is None else map(form.decode, written))

    def write(values: tuple[Any, ...]) -> list[Any]:
        return list(values if form.encode is None else map(form.encode, values))

    return _Form(write, read)


def _union(members: tuple[type, ...]) -> _Form:
    encoders = {cls: (cls.__name__, _record(cls).encode) for cls in members}
    decoders = {cls.__name__: _record(cls).decode for cls in members}

    def encode_member(value: Any) -> dict[str, Any]:
        name, convert = encoders[type(value)]
        return {_TAG: name, **convert(value)}

    def decode_member(written: dict[str, Any]) -> Any:
        name = written.pop(_TAG)
        if name not in decoders:
            raise NewerValue(f"a state {name!r}")
        return decoders[name](written)

    return _Form(encode_member, decode_member)
