"""A payment by a process that stops itself (SIGSTOP) at one point, and is let go on much later.

The bank is a directory outside the store. Its ledger has a line a payment; of the kind that is
idempotent it takes each key once, and of the others whatever comes. Who entered the tool's body is
written down too. Time is the wall's, and as much more as the file `ahead` says: every process of a
life reads it, so that a lease passes for all of them, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from placet import (
    Agent,
    Happened,
    IdempotencyKey,
    NotHappened,
    Placet,
    PlacetError,
    ScriptedModel,
    tool,
)
from placet.agent.messages import AssistantMessage, ModelRequest, ToolMessage
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.core import commands as c
from placet.core.state import Session
from placet.core.values import Occurrence
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Answer
from tests.runtime.hosts import Framework

Kind = Literal["plain", "idempotent", "probed", "compensated"]
KINDS: tuple[Kind, ...] = ("plain", "idempotent", "probed", "compensated")

#: Where a process stops: the model has answered and nothing is proposed (of the other model: and it
#: has answered otherwise than that of the processes after it); the intent is written and the body
#: not entered; there, and once more when the lease was read again; in the body, before and after it
#: acts.
Point = Literal["model", "other model", "intent", "second look", "body", "acted"]

AMOUNT = 129
FIRST = Occurrence("run_1", 1, 0)


class Stop:
    """Stops this process at some points, once at each."""

    def __init__(self, *points: str) -> None:
        self.left = [*points]

    def __call__(self, point: Point) -> None:
        """Pass a point."""
        if point in self.left:
            self.left.remove(point)
            # To this thread, which then does nothing more; one to the process may come later.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class Stopping(SqliteStore):
    """Stops its process once an intent is committed, before anybody in it hears of that.

    What its writes are refused with stands in the file `refused`.
    """

    place: Path
    stop: Stop
    intended = False

    def execute(self, *args: Any, **named: Any) -> Future[Answer]:
        answer = super().execute(*args, **named)
        command = args[2]
        answer.add_done_callback(lambda done: self._committed(command, done))
        return answer

    def _committed(self, command: c.Command, done: Future[Answer]) -> None:
        if isinstance(error := done.exception(), PlacetError):
            append(self.place / "refused", f"{type(command).__name__} {error.code}")
        elif isinstance(command, c.Begin):
            self.intended = True
            self.stop("intent")

    def session(self, *args: Any, **named: Any) -> Session | None:
        found = super().session(*args, **named)
        if self.intended:
            self.stop("second look")
        return found


def clock_of(place: Path) -> Callable[[], datetime]:
    """Give the clock of all processes of a life."""
    ahead = place / "ahead"

    def now() -> datetime:
        more = float(ahead.read_text()) if ahead.exists() else 0.0
        return datetime.now(UTC) + timedelta(seconds=more)

    return now


def append(path: Path, line: str) -> None:
    """Write a line down for good."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.fsync(handle)
    os.close(handle)


def lines(path: Path) -> list[str]:
    """Give the lines of a file that may not be there."""
    return path.read_text().splitlines() if path.exists() else []


def paid(place: Path) -> list[str]:
    """Give the keys of the payments made, one a payment."""
    return [line.split()[0] for line in lines(place / "ledger")]


def entered(place: Path) -> list[int]:
    """Give the processes that entered the tool's body, in their order."""
    return [int(line) for line in lines(place / "entered")]


def _is_new(place: Path, key: str) -> bool:
    """Take a key at the bank, whoever comes with it; answer False where it was taken before."""
    try:
        os.close(os.open(place / f"key {key}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def payment(place: Path, kind: Kind, stop: Stop) -> Tool:
    """Give the tool that pays, and what it declares for the case that its outcome is lost."""

    @tool(surface="payments", idempotent=kind == "idempotent")
    def pay(amount: int, *, key: IdempotencyKey) -> str:
        """Pay an amount."""
        append(place / "entered", str(os.getpid()))
        stop("body")
        if kind != "idempotent" or _is_new(place, key):
            append(place / "ledger", f"{key} {amount}")
        stop("acted")
        return f"paid {amount}"

    if kind == "probed":

        @pay.probe
        def was_paid(amount: int, *, key: IdempotencyKey) -> Happened | NotHappened:
            return Happened(result=f"paid {amount}") if key in paid(place) else NotHappened()

    if kind == "compensated":

        @pay.compensate(safe_if_absent=True)
        def void(amount: int, *, key: IdempotencyKey) -> str:
            append(place / "ledger", f"{key} {-amount}")
            return "void"

    return pay


def payer(place: Path, kind: Kind, stop: Stop, *, amount: int = AMOUNT) -> Agent:
    """Give the agent that pays once, and proposes it again where it is told that it may."""

    def reply(request: ModelRequest) -> AssistantMessage:
        last = request.messages[-1]
        told = last.text if isinstance(last, ToolMessage) else "It may be proposed again."
        made = call("pay", amount=amount) if "may be proposed again" in told else say("done")
        stop("model" if amount == AMOUNT else "other model")
        return made

    return Agent(name="support", model=ScriptedModel(reply), tools=[payment(place, kind, stop)])


def main() -> None:
    """Begin or carry on the payment in this process, until it stops itself, and then to its end."""
    where, kind, point, how = sys.argv[1:]
    place, stop = Path(where), Stop(*(["intent", point] if point == "second look" else [point]))
    Stopping.place, Stopping.stop = place, stop
    found: Any
    if how == "hosted":
        tools = [payment(place, _kind(kind), stop)]
        with Framework(place, tools, store=Stopping, clock=clock_of(place)) as framework:
            found = framework.carry(FIRST)
    else:
        store = Stopping(place / "placet.db", clock=clock_of(place))
        amount = AMOUNT + 1 if point == "other model" else AMOUNT
        agent = payer(place, _kind(kind), stop, amount=amount)
        with Placet(store, agents=[agent], approvers=["ana"]) as placet:
            found = asyncio.run(_driven(placet))
    (place / "end").write_text(str(found))


async def _driven(placet: Placet) -> object:
    try:
        if await placet.runs():
            result = await placet.resume("run_1")
        else:
            result = await placet.run("support", "pay", session="s", run_id="run_1")
    except PlacetError as error:
        return error.code
    return result.stop


def _kind(text: str) -> Kind:
    return next(kind for kind in KINDS if kind == text)
