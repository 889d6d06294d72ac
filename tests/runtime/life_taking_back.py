"""The life of a payment that fails and is taken back, for processes that are killed in it (D8).

A payment, and what voids one, is a line in a real file; a price is a file of its own. Neither has
any dedupe but what the kind of life gives it: what happens twice is there twice.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Literal, get_args

from placet import Agent, IdempotencyKey, Placet, ScriptedModel, tool
from placet.agent.messages import AssistantMessage, ModelRequest
from placet.agent.models.scripted import call, calls, say
from placet.agent.tools import Tool
from placet.stores.sqlite import SqliteStore
from tests.runtime.life import Killer

Kind = Literal["compensated", "compensated once", "tried again", "rolled back", "earlier"]
KINDS: tuple[Kind, ...] = get_args(Kind)

AMOUNT = 129
NOW = timedelta(milliseconds=1)


def append(path: Path, line: str) -> None:
    """Write a line down for good."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.fsync(handle)
    os.close(handle)


def lines(path: Path) -> list[tuple[str, int]]:
    """Give each line's key and amount."""
    if not path.exists():
        return []
    return [(key, int(amount)) for key, amount in map(str.split, path.read_text().splitlines())]


def payment(place: Path, kind: Kind, killer: Killer) -> Tool:
    """Give the tool that pays, and then fails; and how it is taken back."""
    ledger = place / "ledger"
    again = kind in ("tried again", "earlier")

    @tool(approval="never", surface="payments", idempotent=again, retries=int(again), backoff=NOW)
    def pay(amount: int, *, key: IdempotencyKey) -> str:
        """Pay, and fail to say so."""
        killer.point("before the effect")
        if key not in [known for known, _ in lines(ledger)]:
            append(ledger, f"{key} {amount}")
        (place / "effect").write_text(str(killer.passed + 1))
        killer.point("after the effect")
        if kind == "earlier":
            return "paid"
        raise OSError("the bank's answer made no sense")

    once = kind == "compensated once"

    @pay.compensate(safe_if_absent=True, idempotent=not once, retries=int(not once), backoff=NOW)
    def void(amount: int, *, key: IdempotencyKey) -> str:
        killer.point("before the compensation")
        known = lines(ledger)
        if known and (once or key not in [line for line, _ in known]):
            append(ledger, f"{key} {-amount}")
        killer.point("after the compensation")
        return "void"

    return pay


def shipping(killer: Killer) -> Tool:
    """Give the tool that fails after the payment, so that the payment is taken back."""

    @tool(approval="never", surface="parcels", idempotent=True, backoff=NOW)
    def ship() -> str:
        """Fail."""
        killer.point("before it fails")
        raise OSError("no carrier")

    return ship


def price(place: Path, killer: Killer) -> Tool:
    """Give the tool that sets a price, and then fails; and how the old one is put back."""
    path = place / "ledger"

    @tool(approval="never", surface="payments")
    def pay(amount: int) -> str:
        """Set it, and fail."""
        killer.point("before the effect")
        path.write_text(f"price {amount}\n")
        (place / "effect").write_text(str(killer.passed + 1))
        killer.point("after the effect")
        raise OSError("disk full")

    @pay.snapshot
    def taken(amount: int) -> str:
        return path.read_text() if path.exists() else ""

    @pay.restore
    def back(taken: str, amount: int) -> None:
        killer.point("before the roll-back")
        path.write_text(taken)
        killer.point("after the roll-back")

    return pay


def open_life(place: Path, kind: Kind, killer: Killer) -> Placet:
    """Open the store of a life, with the agent that pays once."""

    def reply(request: ModelRequest) -> AssistantMessage:
        killer.point("the model")
        if request.assistant_count > 0:
            return say("done")
        pay = call("pay", amount=AMOUNT)
        return calls(pay, call("ship")) if kind == "earlier" else pay

    made = price(place, killer) if kind == "rolled back" else payment(place, kind, killer)
    agent = Agent(
        name="support",
        model=ScriptedModel(reply),
        tools=[made, shipping(killer)],
        on_failure="compensate_earlier" if kind == "earlier" else "continue",
    )
    return Placet(SqliteStore(place / "placet.db"), agents=[agent], approvers=["ana"])


def live(directory: str, kind: Kind, kill_at: int | None) -> None:
    """Pay, fail and take back in this process, which may not survive it."""
    killer = Killer(kill_at)
    killer.watch_statements()
    place = Path(directory)
    placet = open_life(place, kind, killer)
    try:
        asyncio.run(_begin(placet))
    finally:
        placet.close()
    (place / "points").write_text(str(killer.passed))


async def _begin(placet: Placet) -> None:
    await placet.run("support", "pay", run_id="run_1")


def finish(directory: str, kind: Kind, kill_at: int | None = None) -> None:
    """Bring a life to its end, whatever state it was left in, if this process survives it."""
    place = Path(directory)
    killer = Killer(kill_at)
    if kill_at is not None:
        killer.watch_statements()
    placet = open_life(place, kind, killer)
    try:
        (place / "end").write_text(asyncio.run(_finished(placet)))
    finally:
        placet.close()


async def _finished(placet: Placet) -> str:
    for _ in range(10):
        if not await placet.runs():
            await placet.run("support", "pay", run_id="run_1")
        if any(row.request.kind == "settlement" for row in await placet.inbox()):
            return "settlement"
        result = await placet.resume("run_1")
        if result.stop not in (None, "approval_required"):
            return str(result.stop)
    return "it does not end"
