"""Declaring a tool: what it takes, and what it says of a declaration that is wrong."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from placet import Happened, IdempotencyKey, InvalidDeclaration, tool


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_options_beside_the_function_are_those_of_the_tool() -> None:
    declared = tool(pay, surface="payments", version="2", retries=3).declaration
    assert (declared.surface, declared.version, declared.recovery.retries) == ("payments", "2", 3)


def test_an_option_that_is_misspelt_is_refused() -> None:
    misspelt: dict[str, Any] = {"idempotant": True}
    with pytest.raises(TypeError, match="idempotant"):
        tool(**misspelt)
    with pytest.raises(TypeError, match="idempotant"):
        tool(pay, **misspelt)


@pytest.mark.parametrize(
    "option, value, must",
    [
        ("name", "", "a text"),
        ("version", 2, "a text"),
        ("reads_only", "no", "True or False"),
        ("approval", "sometimes", "'always', 'never' or a function"),
        ("surface", None, "a text"),
        ("scopes", "payments:refund", "a tuple or list of texts"),
        ("effect", None, "a text"),
        ("reversible", 1, "True or False"),
        ("idempotent", 1, "True or False"),
        ("retries", -1, "a whole number, 0 or more"),
        ("retries", True, "a whole number, 0 or more"),
        ("retries", 1.5, "a whole number, 0 or more"),
        ("backoff", 1, "a timedelta, 0 or more"),
        ("backoff", timedelta(seconds=-1), "a timedelta, 0 or more"),
        ("time_limit", 30, "a timedelta above 0"),
        ("time_limit", timedelta(0), "a timedelta above 0"),
        ("not_done", ValueError, "a tuple of exception types"),
        ("not_done", ("ValueError",), "a tuple of exception types"),
    ],
)
def test_an_option_of_the_wrong_kind_is_named_with_what_it_must_be(
    option: str, value: Any, must: str
) -> None:
    wrong: dict[str, Any] = {option: value}
    with pytest.raises(InvalidDeclaration) as refused:
        tool(pay, **wrong)
    assert f"{option} must be {must}" in str(refused.value)
    assert refused.value.code == "invalid_tool"


class Payer:
    def __call__(self, amount: int) -> str:
        return f"paid {amount}"


@pytest.mark.parametrize("what", [functools.partial(pay, amount=5), Payer(), "pay"])
@pytest.mark.parametrize("name", [None, "pay"])
def test_what_is_no_function_is_refused_with_what_to_do(what: Any, name: str | None) -> None:
    with pytest.raises(InvalidDeclaration, match="Write a function"):
        tool(what, name=name)


def test_a_probe_is_given_the_key_also_where_the_tool_takes_none() -> None:
    seen: list[str] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    @pay.probe
    def was_paid(amount: int, *, key: IdempotencyKey) -> Happened:
        seen.append(key)
        return Happened(result=amount)

    probing = pay.declaration.probe
    assert probing is not None
    assert asyncio.run(_answer(probing({"amount": 1}, "ik_1"))) == Happened(result=1)
    assert seen == ["ik_1"]


async def _answer(asked: Awaitable[object]) -> object:
    return await asked
