"""What each operator makes of a value: exact numbers, whole texts, and doubts for all else."""

from __future__ import annotations

import fnmatch
import re
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.policy.doubts import Truth
from placet.policy.operators import MISSING, compared, matches_pattern, number
from placet.policy.rules import Operand, Operator

Y, N, D = Truth.HOLDS, Truth.FAILS, Truth.DOUBT


def truth(value: Any, operator: Operator, operand: Operand) -> Truth:
    return compared(value, ((operator, operand),), called="it").truth


@pytest.mark.parametrize(
    "value, operator, operand, expected",
    [
        (1000, "above", Decimal("1000"), N),
        (1000.01, "above", Decimal("1000"), Y),
        ("1000.000000000000000000000000000001", "above", Decimal("1000"), Y),
        ("1000", "above", "999.999999999999999999999999999999", Y),
        (0.1, "at_most", Decimal("0.1"), Y),
        (0.1, "above", Decimal("0.1"), N),
        (9007199254740991, "above", Decimal("9007199254740990"), Y),
        (True, "above", Decimal(0), D),
        ("1e3", "above", Decimal(0), D),
        (" 5", "above", Decimal(0), D),
        ("٥", "above", Decimal(0), D),
        ("-0", "at_least", Decimal(0), Y),
        (None, "above", Decimal(0), D),
        (5, "equals", "5", Y),
        ("5.0", "equals", Decimal(5), Y),
        ("5.0", "equals", "5", D),
        ("5.0", "not_equals", "5", D),
        ("05", "in", ("x", "5"), D),
        ("5", "in", ("05", "5"), Y),
        ("5.1", "equals", "5", N),
        ("5", "equals", "five", N),
        (1, "equals", True, D),
        (True, "equals", True, Y),
        (False, "equals", True, N),
        ("DE", "equals", "de", N),
        (None, "not_equals", "x", D),
        (5, "in", ("x", "5"), Y),
        (5, "in", ("x", "6"), D),
        ("x", "not_in", ("x",), N),
        ("a,b", "contains", ",", Y),
        (["a", 5], "contains", "a", Y),
        (["a", 5], "contains", "b", D),
        (["a"], "contains", "b", N),
        ([], "contains", "b", N),
        ({"a": 1}, "contains", "a", Y),
        ({"a": 1}, "contains", Decimal(1), D),
        ("", "longer_than", Decimal(0), N),
        ("é", "longer_than", Decimal(1), N),
        ({"a": 1, "b": 2}, "longer_than", Decimal(1), Y),
        ("", "present", True, Y),
        (False, "present", True, Y),
        (None, "present", True, N),
        (MISSING, "present", True, N),
        (MISSING, "absent", True, Y),
        (MISSING, "equals", "x", D),
        (MISSING, "not_equals", "x", D),
    ],
)
def test_a_value_is_compared_exactly_or_not_at_all(
    value: Any, operator: Operator, operand: Operand, expected: Truth
) -> None:
    assert truth(value, operator, operand) is expected


def test_all_tests_of_a_condition_must_hold() -> None:
    between: tuple[tuple[Operator, Operand], ...] = (("above", "10"), ("below", "20"))

    assert compared(15, between, called="it").truth is Y
    assert compared(25, between, called="it").truth is N
    assert compared("x", between, called="it").truth is D


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "NaN", "Infinity", [], {}, None])
def test_what_is_no_number_is_none(value: Any) -> None:
    assert number(value) is None


@pytest.mark.parametrize(
    "text, pattern, expected",
    [
        ("test-1", "test-*", True),
        ("test-", "test-*", True),
        ("a test-1", "test-*", False),
        ("test-1\n", "test-1", False),
        ("a@x.com", "*@x.com", True),
        ("a@x.com.evil", "*@x.com", False),
        ("ab", "ab*b", False),
        ("abb", "ab*b", True),
        ("anything", "*", True),
        ("", "*", True),
        ("", "**", True),
        ("a[b]?", "a[b]?", True),
        ("ab", "a[b]", False),
        ("aXbXc", "a*b*c", True),
        ("acb", "a*b*c", False),
        ("TEST", "test", False),
    ],
)
def test_a_pattern_is_for_a_whole_text_and_only_its_stars_are_special(
    text: str, pattern: str, expected: bool
) -> None:
    assert matches_pattern(text, pattern) is expected


@given(text=st.text(alphabet="ab*?", max_size=12), pattern=st.text(alphabet="ab*", max_size=6))
def test_a_pattern_is_for_the_same_texts_as_that_of_file_names(text: str, pattern: str) -> None:
    expected = re.compile(fnmatch.translate(pattern)).match(text) is not None

    assert matches_pattern(text, pattern) is expected


def test_no_text_makes_a_pattern_slow() -> None:
    begun = time.process_time()

    assert not matches_pattern("a" * 250_000, "a*" * 90 + "b")
    assert not matches_pattern("ab" * 100_000, "*" + "ab*" * 60 + "x")
    assert time.process_time() - begun < 1
