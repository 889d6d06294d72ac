"""Declaring a tool: what it takes, and what it says of a declaration that is wrong."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from placet import Agent, Happened, IdempotencyKey, InvalidDeclaration, ScriptedModel, tool
from placet.agent.tools import Tool


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
        ("cost", "USD", "a placet.Money"),
        ("secret", "password", "a tuple or list of texts"),
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


def test_an_effect_says_arguments_that_there_are() -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        tool(pay, effect="pays {amuont}")
    assert "it has no argument amuont" in str(refused.value)
    assert "Its arguments are: " in str(refused.value)


@pytest.mark.parametrize("model", ["gpt-5-mini", None, ScriptedModel])
def test_a_model_is_a_client_and_no_name_of_one(model: Any) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        Agent(name="a", model=model)
    assert refused.value.code == "invalid_agent"
    assert "OpenAIModel('gpt-5-mini')" in refused.value.hint


def test_a_key_must_last_longer_than_an_attempt_may() -> None:
    limit, second = timedelta(minutes=2), timedelta(seconds=1)
    with pytest.raises(InvalidDeclaration, match="key_lasts must be above 150 s"):
        tool(pay, idempotent=True, time_limit=limit, key_lasts=150 * second)
    assert tool(pay, idempotent=True, time_limit=limit, key_lasts=151 * second).__name__ == "pay"


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


def writing() -> tuple[Tool, dict[str, str]]:
    """Give a tool over a world of texts by name, with all that can be declared beside its body."""
    world: dict[str, str] = {}

    @tool
    def put(name: str, text: str = "") -> str:
        """Put a text in the world."""
        world[name] = text
        return "put"

    @put.preview
    def preview(name: str, text: str) -> str:
        return f"-{world.get(name)}\n+{text}"

    @put.snapshot
    def snapshot(name: str, **_: str) -> str:
        return world.get(name, "")

    @put.restore
    def restore(taken: str, name: str, **_: str) -> None:
        world[name] = taken

    return put, world


def test_a_preview_a_snapshot_and_a_way_back_are_declared_beside_the_body() -> None:
    put, world = writing()
    declared = put.declaration
    assert declared.preview is not None
    assert declared.snapshot is not None
    assert declared.restore is not None
    world["a"] = "old"
    arguments = declared.validate({"name": "a", "text": "new"})
    assert declared.preview(arguments) == "-old\n+new"
    taken = declared.snapshot(arguments)
    put(**arguments)
    assert world == {"a": "new"}
    declared.restore(arguments, taken)
    assert world == {"a": "old"}


def test_what_is_declared_beside_the_body_leaves_the_fingerprint_alone() -> None:
    put, _ = writing()

    def bare(name: str, text: str = "") -> str:
        """Put a text in the world."""
        return "put"

    assert tool(bare, name="put").declaration.fingerprint == put.declaration.fingerprint
    assert tool(bare).declaration.preview is None


@pytest.mark.parametrize("what", ["environment", "preview", "snapshot"])
def test_what_reads_the_world_must_answer_with_a_text(what: str) -> None:
    declared = tool(pay)
    getattr(declared, what)(lambda amount: amount)
    with pytest.raises(TypeError, match=f"{what} is a text, not int"):
        getattr(declared.declaration, what)({"amount": 1})


@pytest.mark.parametrize("what", ["environment", "preview", "snapshot", "restore"])
def test_what_nobody_would_await_must_not_be_async(what: str) -> None:
    async def never(**_: object) -> str:
        return ""

    with pytest.raises(InvalidDeclaration, match=f"its {what} must not be async"):
        getattr(tool(pay), what)(never)


def test_a_type_that_is_not_read_from_json_is_refused_by_the_tools_name() -> None:
    class Opaque:
        """Nothing that JSON can hold."""

    def send(what: Opaque) -> str:
        return "sent"

    send.__annotations__["what"] = Opaque
    with pytest.raises(InvalidDeclaration, match="Tool send: a parameter's type"):
        tool(send)
