"""A framework for tests: it has no loop of its own, and does what the test says, step by step."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import warnings
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from placet import IdempotencyKey, Placet, tool
from placet.agent.tools import Tool
from placet.core.commands import Names
from placet.core.state import Session
from placet.core.values import Occurrence
from placet.runtime import worker as workers
from placet.runtime.hosting import Answered, Hosting, Waiting
from placet.runtime.proposing import ToolCall
from placet.runtime.worker import Worker
from placet.stores.sqlite import SqliteStore

T = TypeVar("T")
Reported = list[tuple[str, str, str]]

AGENT = "framework"

#: How often a worker looks before it is said that it does nothing.
LOOKS = 120


def called(name: str, *, id: str = "call_0", **arguments: Any) -> ToolCall:
    """Give a call as a framework hands it over."""
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


class Framework:
    """One process with a hosted agent. Opening a second one on the same place is a restart."""

    def __init__(
        self,
        place: Path,
        tools: Sequence[Tool] = (),
        *,
        resume: Callable[[str], Coroutine[Any, Any, object]] | None = None,
        agent: str = AGENT,
        is_guard: bool = False,
        store: type[SqliteStore] = SqliteStore,
        **options: Any,
    ) -> None:
        self.resumed: list[str] = []
        self.store = store(place / "placet.db", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.placet = Placet(self.store, approvers=["ana"])

        async def counted(run: str) -> object:
            self.resumed.append(run)
            return None if resume is None else await resume(run)

        declared = [each.declaration for each in tools]
        self.hosting: Hosting = self.placet.host(
            agent, declared, resume=None if is_guard else counted, is_guard=is_guard
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.placet.close()

    def begin(self, run: str = "r", *, session: str = "s", message: str = "go") -> None:
        asyncio.run(self.hosting.begin(session, run, message, requester="rob"))

    def propose(
        self, *calls: ToolCall, run: str = "r", session: str = "s", reference: str = "one"
    ) -> tuple[Occurrence, ...]:
        return asyncio.run(
            self.hosting.propose(session, run, reference, calls, checkpoint=f"at {reference}")
        )

    def asked(self, *calls: ToolCall, run: str = "r", session: str = "s") -> Occurrence:
        """Begin a run, propose a step, and give its first call."""
        self.begin(run, session=session)
        return self.propose(*calls, run=run, session=session)[0]

    def carry(self, at: Occurrence, *, session: str = "s", **more: Any) -> Answered | Waiting:
        return asyncio.run(self.hosting.carry_out(session, at, **more))

    def taken(self, run: str = "r", *, session: str = "s") -> None:
        asyncio.run(self.hosting.taken(session, run))

    def decide(self, request: str, decision: Any = "approve", **more: Any) -> Any:
        more = {"reason": "no", **more} if decision == "reject" else more
        return self.placet.decide_sync(request, decision, by="ana", **more)

    def waiting(self) -> list[str]:
        rows = sorted(self.placet.inbox_sync(), key=lambda row: row.request.at)
        return [row.request.id for row in rows]

    def work(self) -> Reported:
        """Let a worker carry on what is due until nothing is; give what it reports."""
        told: Reported = []
        asyncio.run(worker_of(self.placet, told).once())
        return [each for each in told if each[0] != "notice"]

    def state(self, *, session: str = "s", **names: Any) -> Session:
        found = self.store.session("main", session, Names(**names))
        assert found is not None
        return found

    def kinds(self, *, session: str = "s") -> list[str]:
        return [event.kind for event in self.store.events("main", session)]


def worker_of(placet: Placet, told: Reported) -> Worker:
    """Give a worker, and where it reports to."""
    return placet.worker(report=lambda *happening: told.append(happening))


def pays(place: Path, *, dies: bool = False, **options: Any) -> Tool:
    """Give a tool that writes one line a payment, and whose process may die right after."""

    @tool(surface="payments", **options)
    def refund(order: str, amount: int, *, key: IdempotencyKey) -> str:
        """Pay a refund."""
        written(place, f"{key} {order} {amount}")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"refunded {amount} for {order}"

    return refund


def written(place: Path, line: str) -> None:
    """Write a line down, synced, without any dedupe."""
    handle = os.open(place / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.fsync(handle)
    os.close(handle)


def lines(place: Path) -> list[str]:
    """Give the lines that were written."""
    ledger = place / "ledger"
    return ledger.read_text().splitlines() if ledger.exists() else []


class Measured(SqliteStore):
    """Notes how many rows of transcripts, with their texts, are read."""

    rows = 0

    def transcript(self, *args: Any, **named: Any) -> Any:
        found = super().transcript(*args, **named)
        self.rows += len(found)
        return found


class Interrupted(SqliteStore):
    """Lets something happen elsewhere before the read that is `left` reads away."""

    left = -1
    elsewhere: Callable[[], object]

    def find_run(self, *args: Any) -> Any:
        self._let_happen()
        return super().find_run(*args)

    def step_named(self, *args: Any, **named: Any) -> Any:
        self._let_happen()
        return super().step_named(*args, **named)

    def session(self, *args: Any) -> Any:
        self._let_happen()
        return super().session(*args)

    def _let_happen(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.elsewhere()


class Counting(SqliteStore):
    """Counts how often a worker looks for what is due, and stops it after `LOOKS` times."""

    looks = 0
    stop: Callable[[], None]

    def due(self, **given: Any) -> Any:
        self.looks += 1
        if self.looks >= LOOKS:
            self.stop()
        return super().due(**given)


def looked(placet: Placet, place: Path) -> Reported:
    """Let a worker look a hundred times and more; give what it reports beside notices."""
    told: Reported = []
    store = Counting(place / "placet.db")

    async def until_looked() -> None:
        stop = asyncio.Event()
        store.stop = stop.set
        await worker_of(placet, told).forever(stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "POLL", timedelta(milliseconds=1))
        patch.setattr(placet.engine, "store", store)
        asyncio.run(until_looked())
    store.close()
    assert store.looks >= LOOKS
    return [each for each in told if each[0] != "notice"]
