"""One life of a refund in a LangGraph thread, for processes that are killed in the middle of it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import Command

from placet import Happened, IdempotencyKey, NotHappened, PlacetError
from placet import tool as placet_tool
from placet.adapters.langgraph import idempotency_key
from tests.adapters.graphs import HELLO, THREAD, Bench, calls, opened, paid, script

Kind = Literal["plain", "idempotent", "probe"]
When = Literal["before", "after", "thinking", "never"]

REFUND = calls(("refund", {"order": "A-42", "amount": 129}))


def die(when: When, now: When) -> None:
    """End this process as a failing machine would, if it is time."""
    if when == now:
        os.kill(os.getpid(), signal.SIGKILL)


def life(
    place: Path, kind: Kind, when: When, *, later: timedelta = timedelta(0)
) -> AbstractContextManager[Bench]:
    """Open a life whose refund dies before or after it pays."""
    ledger = place / "ledger"

    def say(messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].type == "tool":
            die(when, "thinking")
        return script(REFUND)(messages)

    def pay(order: str, amount: int, key: str) -> str:
        die(when, "before")
        if kind != "idempotent" or not any(key in line for line in paid(ledger)):
            handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{key} {order} {amount}\n".encode())
            os.fsync(handle)
        die(when, "after")
        return f"refunded {amount} for {order}"

    if kind != "probe":  # A function, as most of LangChain's tools are.

        def refund(order: str, amount: int) -> str:
            """Pay a refund."""
            return pay(order, amount, idempotency_key())

        options: Any = {"refund": {"idempotent": kind == "idempotent"}}
        return opened(place, say, [refund], options=options, later=later)

    @placet_tool(name="refund")
    def probed(order: str, amount: int, *, key: IdempotencyKey) -> str:
        """Pay a refund."""
        return pay(order, amount, key)

    @probed.probe
    def was_paid(order: str, amount: int, *, key: IdempotencyKey) -> Happened | NotHappened:
        done = any(key in line for line in paid(ledger))
        return Happened(result=f"refunded {amount} for {order}") if done else NotHappened()

    return opened(place, say, [probed], later=later)


def begin(place: str, kind: Kind) -> None:
    """Have the thread wait, in a process that ends then."""
    with life(Path(place), kind, "never") as bench:
        bench.invoke(HELLO)


def resume(place: str, kind: Kind, when: When) -> None:
    """Resume the thread by hand, and die in the middle of the refund."""
    with life(Path(place), kind, when) as bench:
        bench.graph.invoke(Command(resume="go on"), THREAD, durability="sync")


def carry(bench: Bench) -> list[str]:
    """Carry on what is due, as a worker does; give what could not be."""
    troubles: list[str] = []

    def report(happening: str, _subject: str, told: str) -> None:
        if happening in ("trouble", "in_progress", "no_agent"):
            troubles.append(f"{happening}: {told}")

    asyncio.run(bench.placet.worker(report=report).once())
    return troubles


def work(place: str, kind: Kind) -> None:
    """Carry on what is due, in a process of its own."""
    with life(Path(place), kind, "never") as bench:
        assert carry(bench) == []


def approve(place: str, kind: Kind) -> None:
    """Approve what waits, as `placet approve` does, in a process that hosts nothing."""
    from placet import Placet
    from placet.stores.sqlite import SqliteStore

    with Placet(SqliteStore(Path(place) / "placet.db"), approvers=["ana"]) as placet:
        for row in placet.inbox_sync():
            placet.decide_sync(row.request.id, "approve", by="ana")


__all__ = ["HELLO", "THREAD", "PlacetError", "approve", "begin", "carry", "life", "resume", "work"]
