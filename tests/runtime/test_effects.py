"""What the end of a body tells about the world."""

from __future__ import annotations

import asyncio
import http.client
import threading
import urllib.error
from collections.abc import Callable
from datetime import timedelta
from email.message import Message
from typing import Any

import pytest

from placet import NotDone, NotPermitted, tool
from placet.agent.tools import Tool
from placet.core.commands import Failed, Succeeded, Unknown
from placet.runtime.authority import MARK, refuse_inside_tool
from placet.runtime.bodies import Outcome, attempt


def ended(declared: Tool, **arguments: Any) -> Outcome:
    return asyncio.run(attempt(declared.declaration, arguments, "ik_1", call="run_1/1/0"))


def raising(error: BaseException) -> Tool:
    @tool
    def act() -> str:
        """Act."""
        raise error

    return act


class Declared(Exception):
    """An error that a tool declares to mean that it did not act."""


def wrapped(cause: BaseException) -> Exception:
    try:
        raise RuntimeError("the gateway did not answer") from cause
    except RuntimeError as error:
        return error


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("peer"),
        TimeoutError("read"),
        http.client.RemoteDisconnected("no answer"),
        http.client.IncompleteRead(b""),
        urllib.error.URLError("unreachable"),
        EOFError(),
        KeyboardInterrupt(),
        SystemExit(1),
        asyncio.CancelledError(),
        wrapped(ConnectionError("deep")),
        ExceptionGroup("several", [ValueError("x"), ConnectionError("one of them")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_way_to_the_world_leaves_the_outcome_unknown(error: BaseException) -> None:
    assert isinstance(ended(raising(error)), Unknown)


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such order"),
        urllib.error.HTTPError("http://127.0.0.1", 409, "conflict", Message(), None),
        StopIteration("odd"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_body_that_raised_has_failed_and_may_have_acted(error: BaseException) -> None:
    outcome = ended(raising(error))
    assert isinstance(outcome, Failed)
    assert not outcome.not_done


@pytest.mark.promise("D4")
def test_only_not_done_or_a_declared_type_says_that_nothing_was_done() -> None:
    outcome = ended(raising(NotDone("refused")))
    assert isinstance(outcome, Failed)
    assert outcome == Failed(error="NotDone: refused", not_done=True, spread=outcome.spread)

    @tool(not_done=(Declared,))
    def act() -> str:
        """Act."""
        raise Declared from ConnectionError("even so")

    outcome = ended(act)
    assert isinstance(outcome, Failed)
    assert outcome.not_done


@pytest.mark.promise("D4")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_body_that_does_not_end_in_time_is_unknown_and_left_behind(asynchronous: bool) -> None:
    release = threading.Event()
    short = timedelta(milliseconds=50)

    @tool(time_limit=short)
    def hang() -> str:
        """Hang."""
        release.wait(60)
        return "too late"

    @tool(time_limit=short)
    async def deaf() -> str:
        """Do not listen to cancellation at first."""
        for _ in range(3):
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                continue
        return "too late"

    outcome = ended(deaf if asynchronous else hang)
    release.set()
    assert isinstance(outcome, Unknown)
    assert "within 0.05 seconds" in outcome.cause


def test_a_result_is_told_as_text_or_json() -> None:
    @tool
    def text() -> str:
        """Give a text."""
        return "done"

    @tool
    async def structured() -> dict[str, int]:
        """Give a structure."""
        return {"refunds": 1}

    assert ended(text) == Succeeded(told="done")
    assert ended(structured) == Succeeded(told='{"refunds": 1}')


@pytest.mark.promise("G10")
def test_a_body_and_what_it_starts_carry_the_mark_and_nothing_else_does() -> None:
    import os

    seen: list[tuple[str | None, bool]] = []

    def decides(refused: Callable[[], None]) -> bool:
        try:
            refused()
        except NotPermitted:
            return False
        return True

    @tool
    def look() -> str:
        """Look."""
        seen.append((os.environ.get(MARK), decides(refuse_inside_tool)))
        return ""

    ended(look)
    assert seen == [("run_1/1/0", False)]
    assert MARK not in os.environ
    assert decides(refuse_inside_tool)


@pytest.mark.promise("G10")
def test_a_body_left_behind_keeps_its_mark_until_it_really_ends() -> None:
    import os

    release, seen = threading.Event(), threading.Event()
    marks: list[str | None] = []

    @tool(time_limit=timedelta(milliseconds=20))
    def linger() -> str:
        """Outlast the time limit."""
        release.wait(60)
        marks.append(os.environ.get(MARK))
        seen.set()
        return ""

    assert isinstance(ended(linger), Unknown)
    release.set()
    assert seen.wait(60)
    assert marks == ["run_1/1/0"]
