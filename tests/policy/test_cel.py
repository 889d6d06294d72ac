"""Conditions in CEL: plain truth counts, all else is in doubt, and nothing of it takes long."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from placet.policy import cel
from placet.policy.cel import MAX_EXPRESSION, MAX_VALUES, ExpressionTrouble, checked, evaluated
from placet.policy.doubts import Truth
from tests.policy.files import call, faults, rule, said

ARGUMENTS = {"amount": 1500, "half": 0.5, "to": ["a", "b"], "note": None, "text": "a" * 40}


def truth(text: str, arguments: Any = ARGUMENTS) -> Truth:
    return evaluated(text, {**cel.SEEN, "args": arguments, "tool": "pay"}).truth


@pytest.mark.parametrize(
    "text, expected",
    [
        ("args.amount > 1000 && tool == 'pay'", Truth.HOLDS),
        ("args.amount > 2000", Truth.FAILS),
        ("args.half < 0.6", Truth.HOLDS),
        ("args.to.exists(one, one == 'b')", Truth.HOLDS),
        ("args.note == null", Truth.HOLDS),
        ("has(args.missing)", Truth.FAILS),
        ("args.missing > 5", Truth.DOUBT),
        ("args.amount > 'x'", Truth.DOUBT),
        ("args.amount", Truth.DOUBT),
        ("'true'", Truth.DOUBT),
        ("1 / 0 > 1", Truth.DOUBT),
    ],
)
def test_an_expression_is_true_or_false_or_in_doubt(text: str, expected: Truth) -> None:
    assert truth(text) is expected


def test_an_expression_sees_the_whole_call() -> None:
    text = (
        "surface == 'payments' && agent == 'support' && session == 's' && requester == 'rita'"
        " && scopes == ['x'] && !reversible"
    )
    rules = rule("deny", cel=f'"{text}"')

    assert said(rules, call(scopes=("x",))).answer == "deny"
    assert said(rules, call(scopes=("y",))).answer is None


def test_no_expression_takes_long_whatever_a_call_holds() -> None:
    begun = time.process_time()
    many = {"to": list(range(1_000)), "text": "a" * 5_000}

    assert truth("args.to.all(x, args.to.all(y, x + y >= 0))", many) is Truth.DOUBT
    assert truth("args.text.matches('(a+)+$b')", {"text": "a" * 5_000}) is Truth.FAILS
    assert truth("args.amount > 5", {"amount": 6, "text": "a" * MAX_VALUES}) is Truth.DOUBT
    assert time.process_time() - begun < 5


def test_an_expression_that_is_too_long_is_none() -> None:
    with pytest.raises(ExpressionTrouble, match="longer than 1000 characters"):
        checked("true" + " " * MAX_EXPRESSION)


def test_without_the_extra_a_file_with_an_expression_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cel._program.cache_clear()
    monkeypatch.setitem(sys.modules, "celpy", None)

    assert faults("version = 1\n" + rule(cel='"true"')) == [
        "5: CEL needs the extra `cel`: pip install 'placet[cel]'."
    ]
    cel._program.cache_clear()
