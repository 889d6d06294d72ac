"""What an action costs is read exactly, or not at all (H1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import InvalidDeclaration, Money
from placet.core.money import written


@pytest.mark.promise("H1")
@given(st.decimals(allow_nan=False, allow_infinity=False, places=4), st.integers(0, 18))
def test_an_amount_is_exact_however_it_is_given(amount: Decimal, places: int) -> None:
    found = Money("order.total", "USD", places=places).amount({"order": {"total": f"{amount:f}"}})
    assert found is not None
    assert found * 10**places == amount
    assert Decimal(written(found).replace(",", "")) == found


@pytest.mark.promise("H1")
@given(st.integers(-(2**53), 2**53))
def test_a_whole_number_of_cents_loses_nothing(cents: int) -> None:
    found = Money("cents", "USD", places=2).amount({"cents": cents})
    assert found is not None
    assert found * 100 == cents


@pytest.mark.promise("H1")
@pytest.mark.parametrize(
    "value",
    [
        "1e9",
        "1_000",
        "1,5",
        " 1",
        "1\n",
        "١٢",
        "NaN",
        "-Infinity",
        "",
        "9" * 61,
        True,
        None,
        [1],
        {},
    ],
)
def test_what_is_no_number_is_no_amount(value: Any) -> None:
    assert Money("amount", "USD").amount({"amount": value}) is None


def test_an_amount_that_is_not_there_is_none() -> None:
    assert Money("a.b", "USD").amount({"a": 1}) is None
    assert Money("a", "USD").amount({}) is None


@pytest.mark.parametrize(
    "given",
    [("", "USD"), ("a..b", "USD"), ("a", "usd"), ("a", "U"), ("a", "US D"), ("a", "USD", -1),
     ("a", "USD", 19), ("a", "USD", True), ("a", "USD", 1.5)],
)  # fmt: skip
def test_money_that_cannot_be_meant_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDeclaration, match="invalid_money"):
        Money(*given)
