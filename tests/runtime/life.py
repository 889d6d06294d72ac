"""Two lives of a refund, phase by phase, for processes that are killed in the middle of them.

In the first an agent looks and then pays. In the second, the long one, a plan has three items: ask
a person, hand the payment to another agent, which must ask too, and sum up.

A refund is a line in a real file, written and synced by the tool's body, without any dedupe of its
own: one that is paid twice is there twice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from placet import (
    Agent,
    Happened,
    IdempotencyKey,
    NotHappened,
    Placet,
    ScriptedModel,
    ask_person,
    tool,
)
from placet.agent.messages import AssistantMessage, ModelRequest, ToolMessage
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.agent.view import SUMMARISE
from placet.core.state import Open
from placet.stores.sqlite import SqliteStore

Kind = Literal["plain", "idempotent", "probe"]
Phase = Literal["start", "approve", "resume"]

LongPhase = Literal["start", "answer", "resume", "approve", "end"]

PHASES: tuple[Phase, ...] = ("start", "approve", "resume")
LONG_PHASES: tuple[LongPhase, ...] = ("start", "answer", "resume", "approve", "end")
_TRANSACTIONS = ("COMMIT",)
_WRITES = ("BEGIN", "COMMIT", "INSERT", "UPDATE", "DELETE", "SAVEPOINT", "RELEASE")


@dataclass(slots=True)
class Killer:
    """Counts the points that a process passes, and ends it with SIGKILL at one of them."""

    at: int | None
    passed: int = 0
    statements: tuple[str, ...] = _WRITES

    def point(self, _name: str = "") -> None:
        """Pass a point."""
        self.passed += 1
        if self.passed == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch_statements(self) -> None:
        """Pass a point before every statement that writes, on every connection from now on."""
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect

        def watched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection = connect(*args, **kwargs)
            connection.set_trace_callback(self._statement)
            return connection

        sqlite3.connect = watched  # type: ignore[assignment]  # The child process only.

    def _statement(self, sql: str) -> None:
        if sql.lstrip().upper().startswith(self.statements):
            self.point(sql)


def refund_tool(ledger: Path, kind: Kind, killer: Killer) -> Tool:
    """Give the tool that pays: it writes one line a payment."""

    @tool(surface="payments", idempotent=kind == "idempotent")
    def refund(order: str, amount: int, *, key: IdempotencyKey) -> str:
        """Pay a refund."""
        killer.point("before the effect")
        if kind == "idempotent" and key in paid(ledger):
            return f"refunded {amount} for {order}"
        line = f"{key} {order} {amount}\n".encode()
        handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.fsync(handle)
        os.close(handle)
        killer.point("after the effect")
        return f"refunded {amount} for {order}"

    if kind == "probe":

        @refund.probe
        def was_paid(order: str, amount: int, *, key: IdempotencyKey) -> Happened | NotHappened:
            if key in paid(ledger):
                return Happened(result=f"refunded {amount} for {order}")
            return NotHappened()

    return refund


@tool(reads_only=True)
def get_order(order: str) -> str:
    """Look at an order."""
    return f"{order}: delivered, total 129"


def paid(ledger: Path) -> list[str]:
    """Give the keys of the payments made, one a payment."""
    if not ledger.exists():
        return []
    return [line.split()[0] for line in ledger.read_text().splitlines()]


def open_life(directory: Path, kind: Kind, killer: Killer) -> Placet:
    """Open the store of a life, with the agent that proposes one refund."""

    def reply(request: ModelRequest) -> AssistantMessage:
        killer.point("the model")
        if request.assistant_count == 0:
            return call("get_order", order="A-42")
        if request.assistant_count == 1:
            return call("refund", order="A-42", amount=129)
        return say(f"done: {request.messages[-1].text}")

    agent = Agent(
        name="support",
        model=ScriptedModel(reply),
        tools=[get_order, refund_tool(directory / "ledger", kind, killer)],
    )
    store = SqliteStore(directory / "placet.db")
    return Placet(store, agents=[agent], approvers=["ana"])


def run_phase(phase: Phase, directory: str, kind: Kind, kill_at: int | None) -> None:
    """Do one phase of a life in this process, which may not survive it."""
    killer = Killer(kill_at)
    killer.watch_statements()
    place = Path(directory)
    placet = open_life(place, kind, killer)
    try:
        asyncio.run(_do(placet, phase))
    finally:
        placet.close()
    (place / f"{phase}.points").write_text(str(killer.passed))


async def _do(placet: Placet, phase: Phase) -> None:
    match phase:
        case "start":
            await placet.run("support", "refund A-42", run_id="run_1")
        case "approve":
            (row,) = await placet.inbox()
            await placet.decide(row.request.id, "approve", by="ana")
        case "resume":
            await placet.resume("run_1")


def finish(directory: str, kind: Kind) -> None:
    """Bring a life to its end as people and workers would, whatever state it was left in."""
    place = Path(directory)
    placet = open_life(place, kind, Killer(None))
    try:
        (place / "end").write_text(asyncio.run(_finished(placet)))
    finally:
        placet.close()


async def _finished(placet: Placet) -> str:
    for _ in range(10):
        if not await placet.runs():
            await placet.run("support", "refund A-42", run_id="run_1")
            continue
        for row in await placet.inbox():
            if row.request.kind == "settlement":
                return "settlement"
            if isinstance(row.request.state, Open):
                await placet.decide(row.request.id, "approve", by="ana")
        result = await placet.resume("run_1")
        if result.stop not in (None, "approval_required"):
            return str(result.stop)
    return "it does not end"


def asked(directory: Path) -> int:
    """Count how often a person was asked to approve, in the event log."""
    store = SqliteStore(directory / "placet.db")
    try:
        return sum(
            event.kind == "RequestOpened" and '"approval"' in event.body
            for session in store.sessions("main")
            for event in store.events("main", session)
        )
    finally:
        store.close()


# --- the long life -------------------------------------------------------------------------------

#: So much is said of it that the view is summed up on the way.
PLAN = f"1. ask for the colour {'.' * 300}\n2. pay\n3. sum up"


def open_long_life(directory: Path, kind: Kind, killer: Killer) -> Placet:
    """Open the store of a long life. What its model does follows from the plan's current item."""

    def planner(request: ModelRequest) -> AssistantMessage:
        killer.point("the planner's model")
        if request.instructions == SUMMARISE:
            return say("so far it went well")
        if not request.tools:
            return say(PLAN)
        worked = isinstance(last := request.messages[-1], ToolMessage)
        match worked, "[>] 1." in request.instructions, "[>] 2." in request.instructions:
            case False, True, _:
                return call("ask_person", question="Which colour?", choices=["red", "blue"])
            case False, _, True:
                return call("payer", message="pay it")
            case True, _, _:
                return say(f"done with it: {last.text} {'.' * 300}")
            case _:
                return say("the whole plan is done")

    def payer(request: ModelRequest) -> AssistantMessage:
        killer.point("the payer's model")
        if request.assistant_count == 0:
            return call("refund", order="A-42", amount=129)
        return say(f"paid: {request.messages[-1].text}")

    refund = refund_tool(directory / "ledger", kind, killer)
    inner = Agent(name="payer", model=ScriptedModel(payer), tools=[refund])
    outer = Agent(
        name="planner",
        model=ScriptedModel(planner),
        tools=[ask_person, inner],
        mode="plan-act",
        view_limit=1_000,
    )
    return Placet(SqliteStore(directory / "placet.db"), agents=[outer], approvers=["ana"])


def run_long_phase(phase: LongPhase, directory: str, kind: Kind, kill_at: int | None) -> None:
    """Do one phase of a long life in this process, which may not survive it."""
    killer = Killer(kill_at, statements=_TRANSACTIONS)
    killer.watch_statements()
    place = Path(directory)
    placet = open_long_life(place, kind, killer)
    try:
        asyncio.run(_do_long(placet, phase))
    finally:
        placet.close()
    (place / f"{phase}.points").write_text(str(killer.passed))


async def _do_long(placet: Placet, phase: LongPhase) -> None:
    match phase:
        case "start":
            await placet.run("planner", "refund it", requester="rob", run_id="run_1")
        case "answer" | "approve":
            (row,) = await placet.inbox()
            if phase == "answer":
                await placet.answer(row.request.id, "blue", by="rob")
            else:
                await placet.decide(row.request.id, "approve", by="ana")
        case "resume" | "end":
            await placet.resume("run_1")


def finish_long(directory: str, kind: Kind) -> None:
    """Bring a long life to its end, whatever state it was left in."""
    place = Path(directory)
    placet = open_long_life(place, kind, Killer(None))
    try:
        (place / "end").write_text(asyncio.run(_finished_long(placet, place)))
    finally:
        placet.close()


async def _finished_long(placet: Placet, place: Path) -> str:
    for _ in range(10):
        if not await placet.runs():
            await placet.run("planner", "refund it", requester="rob", run_id="run_1")
        for row in await placet.inbox():
            request = row.request
            if request.kind == "question":
                await placet.answer(request.id, "blue", by="rob")
            elif request.kind == "settlement":
                done = True if paid(place / "ledger") else None
                await placet.settle(request.id, by="ana", happened=done, detail="I looked")
            elif isinstance(request.state, Open):
                await placet.decide(request.id, "approve", by="ana")
        result = await placet.resume("run_1")
        if result.stop not in (None, "approval_required"):
            return f"{result.stop}: {result.answer}"
    return "it does not end"
