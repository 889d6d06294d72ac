"""The operators of conditions: one value of a call against what the file says.

Numbers are compared exactly, as decimals: JSON's, and texts that are plain numbers. What an
operator cannot compare is in doubt, and never simply unlike. Nothing here is quicker or slower
than in proportion to the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from placet.core.canonical import JsonValue
from placet.policy.doubts import Finding, all_of, any_of, found, in_doubt, not_
from placet.policy.rules import ANY, Operand, Operator, Scalar

_PLAIN = re.compile(r"[+-]?[0-9]{1,60}(?:\.[0-9]{1,60})?", re.ASCII)


class Missing:
    """Stands where a call has no value."""


MISSING: Final = Missing()

#: What an operator finds of values that it cannot compare.
UNLIKE: Final = in_doubt("of another kind")


#: What is found of two texts that are one number: whether they are meant as texts nobody knows.
SPELLED: Final = in_doubt("the same number, written otherwise")


def number(value: object) -> Decimal | None:
    """Give the exact number that a value is, or that is written in it; None: it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        exact = Decimal(str(value))
        return exact if exact.is_finite() else None
    if isinstance(value, Decimal):
        return value
    return Decimal(value) if isinstance(value, str) and _PLAIN.fullmatch(value) else None


def matches_pattern(text: str, pattern: str) -> bool:
    """Say whether a whole text is within a pattern, in which `*` stands for any text.

    The pieces between the stars are looked for from the left, which is enough.
    """
    first, *pieces = pattern.split(ANY)
    if not pieces:
        return text == pattern
    last = pieces.pop()
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def compared(
    value: JsonValue | Missing, tests: tuple[tuple[Operator, Operand], ...], *, called: str
) -> Finding:
    """Hold a value against all of the tests; `called` is what doubts call it."""
    return all_of(_compared(value, operator, operand, called) for operator, operand in tests)


def _compared(
    value: JsonValue | Missing, operator: Operator, operand: Operand, called: str
) -> Finding:
    if operator in ("present", "absent"):
        there = value is not None and not isinstance(value, Missing)
        return found(there is (operator == "present"))
    if isinstance(value, Missing):
        return in_doubt(f"{called} is not there")
    finding = _OPERATORS[operator](value, operand)
    if finding is not UNLIKE:
        return finding
    return in_doubt(f"{called} is {_kind(value)}, which `{operator}` cannot be asked of")


def same(value: JsonValue, operand: Operand) -> Finding:
    """Compare for equality; what is of two kinds is in doubt."""
    if isinstance(operand, bool) or isinstance(value, bool):
        both = isinstance(operand, bool) and isinstance(value, bool)
        return found(value is operand) if both else UNLIKE
    ours, theirs = number(value), number(operand)
    if isinstance(operand, str) and isinstance(value, str):
        written_otherwise = value != operand and ours is not None and ours == theirs
        return SPELLED if written_otherwise else found(value == operand)
    return UNLIKE if ours is None or theirs is None else found(ours == theirs)


def _among(value: JsonValue, operand: Operand) -> Finding:
    assert isinstance(operand, tuple), "reading has seen to it"
    return any_of(same(value, one) for one in operand)


def _ordered(holds: Callable[[Decimal, Decimal], bool]) -> Callable[[JsonValue, Operand], Finding]:
    def in_order(value: JsonValue, operand: Operand) -> Finding:
        ours, theirs = number(value), number(operand)
        return UNLIKE if ours is None or theirs is None else found(holds(ours, theirs))

    return in_order


def _matches(value: JsonValue, operand: Operand) -> Finding:
    if not isinstance(value, str) or not isinstance(operand, str):
        return UNLIKE
    return found(matches_pattern(value, operand))


def _contains(value: JsonValue, operand: Operand) -> Finding:
    if isinstance(value, list):
        return any_of(same(one, operand) for one in value)
    if isinstance(value, (str, dict)) and isinstance(operand, str):
        return found(operand in value)
    return UNLIKE


def _longer(value: JsonValue, operand: Operand) -> Finding:
    if not isinstance(value, (str, list, dict)):
        return UNLIKE
    limit = number(operand)
    assert limit is not None, "reading has seen to it"
    return found(len(value) > limit)


_OPERATORS: Mapping[Operator, Callable[[JsonValue, Operand], Finding]] = {
    "equals": same,
    "not_equals": lambda value, operand: not_(same(value, operand)),
    "in": _among,
    "not_in": lambda value, operand: not_(_among(value, operand)),
    "above": _ordered(lambda ours, theirs: ours > theirs),
    "below": _ordered(lambda ours, theirs: ours < theirs),
    "at_least": _ordered(lambda ours, theirs: ours >= theirs),
    "at_most": _ordered(lambda ours, theirs: ours <= theirs),
    "matches": _matches,
    "contains": _contains,
    "longer_than": _longer,
}


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"


def shown_operand(operand: Operand) -> str:
    """Write out what a value is compared with, as the file has it."""
    if isinstance(operand, tuple):
        return f"[{', '.join(map(_shown, operand))}]"
    return _shown(operand)


def _shown(operand: Scalar) -> str:
    if isinstance(operand, bool):
        return "true" if operand else "false"
    return f"{operand:f}" if isinstance(operand, Decimal) else operand
