"""Conditions in CEL, the Common Expression Language, where the extra `cel` is installed.

An expression sees the call and nothing else. What it may cost is bounded before it is evaluated,
because the values are a model's: what is above the bounds, raises, or is not plainly true or false
is in doubt. Texts are matched by RE2, in a time that grows with the text alone.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from placet.core.canonical import JsonValue
from placet.policy.doubts import Finding, found, in_doubt

#: The longest expression, in characters.
MAX_EXPRESSION = 1_000

#: How large the values may be that an expression sees, in characters of their JSON.
MAX_VALUES = 8_192

#: How many values an expression may look at, where each of its macros walks over all of them.
MAX_WALKED = 1_000

#: The names that an expression sees, each with a value of its kind.
SEEN: Mapping[str, JsonValue] = {
    "args": {},
    "tool": "",
    "surface": "",
    "agent": "",
    "session": "",
    "requester": "",
    "scopes": [],
    "reversible": False,
}

_UNDECLARED = re.compile(r"undeclared reference to '([^']+)'")
_MACROS = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter|min|reduce)\s*\(")


class ExpressionTrouble(Exception):
    """An expression cannot be taken as it is; says why."""


def checked(text: str) -> str:
    """Give an expression that can be evaluated; raises ExpressionTrouble."""
    if len(text) > MAX_EXPRESSION:
        raise ExpressionTrouble(f"it is longer than {MAX_EXPRESSION} characters")
    _program(text)
    return text


def evaluated(text: str, values: Mapping[str, JsonValue]) -> Finding:
    """Find out whether an expression is true of the values."""
    if (too_much := _too_much(text, values)) is not None:
        return in_doubt(f"CEL: {too_much}")
    try:
        celpy: Any = importlib.import_module("celpy")
        seen = {name: celpy.json_to_cel(value) for name, value in values.items()}
        answer = _program(text).evaluate(seen)
        is_plain = isinstance(answer, celpy.celtypes.BoolType)
    except ExpressionTrouble as trouble:
        return in_doubt(f"CEL: {trouble}")
    except Exception as error:  # noqa: BLE001  # Fails closed: an error is a doubt.
        return in_doubt(f"CEL: {_said(error)}")
    return found(bool(answer)) if is_plain else in_doubt("CEL: its value is not true or false")


def _too_much(text: str, values: Mapping[str, JsonValue]) -> str | None:
    if len(json.dumps(values)) > MAX_VALUES:
        return f"the call is larger than {MAX_VALUES} characters"
    walks = len(_MACROS.findall(text))
    if walks and _count(dict(values)) ** walks > MAX_WALKED:
        return "it would walk over more values than is permitted"
    return None


def _count(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


@lru_cache(maxsize=256)
def _program(text: str) -> Any:
    try:
        celpy: Any = importlib.import_module("celpy")
    except ImportError as error:
        told = "CEL needs the extra `cel`: pip install 'placet[cel]'"
        raise ExpressionTrouble(told) from error
    try:
        environment = celpy.Environment()
        program = environment.program(environment.compile(text))
    except Exception as error:
        place = getattr(error, "column", None)
        where = "" if place is None else f" at character {place}"
        raise ExpressionTrouble(f"it is no CEL{where}") from error
    try:
        program.evaluate({name: celpy.json_to_cel(value) for name, value in SEEN.items()})
    except Exception as error:  # noqa: BLE001  # Only names that are nowhere known are told.
        if unknown := _UNDECLARED.match(str(error.args[0]) if error.args else ""):
            raise ExpressionTrouble(f"there is no {unknown[1]} in CEL here") from None
    return program


def _said(error: Exception) -> str:
    """Say what went wrong; the error's own text would quote the call's values."""
    kinds = [each for each in error.args[1:2] if isinstance(each, type)]
    if any(issubclass(kind, KeyError) for kind in kinds):
        return "it looks at what is not there"
    if any(issubclass(kind, TypeError) for kind in kinds):
        return "it compares or calls what it cannot"
    return "it failed"
