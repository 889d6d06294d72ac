"""The worker: looks for runs whose time has come, and has them carried on.

Theory of operation. Whatever a run waits for, a person, a deadline, a retry or a lease that ran
out, its row says when to look at it again. The worker keeps no list: between two looks it holds
nothing (D1), and a worker that dies is replaced by any other. It promises nothing that would not
be true without it: deadlines are in the rulings, and single use is in the transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from placet.core.errors import InProgress, ModelTrouble, PlacetError, StoreTrouble
from placet.core.state import Working
from placet.core.values import LEASE
from placet.runtime.anchors import EVERY, Anchors
from placet.runtime.bodies import described
from placet.runtime.detached import Stop
from placet.runtime.engine import Engine
from placet.runtime.hosted_runs import LEFT_TO_CALLER
from placet.runtime.processes import is_gone
from placet.runtime.relaying import Relay
from placet.stores.store import RunRow

#: How long the worker sleeps between looks while nothing in the store changes.
POLL = timedelta(milliseconds=50)

#: How often the worker looks for runs whose driver, a process of its host, has died.
SEARCH = timedelta(seconds=1)

#: How long a run that this worker cannot drive is left alone before it is tried again.
LEAVE_ALONE = timedelta(seconds=30)

#: How many due runs are looked at first.
DUE_AT_ONCE = 100

#: How many runs a worker carries on at once.
AT_ONCE = 8

Happening = Literal[
    "resumed", "in_progress", "no_agent", "trouble", "notice", "delivered", "undelivered"
]
#: Told of what the worker does: the happening, the run or request, and a sentence.
Report = Callable[[Happening, str, str], None]


class Worker:
    """Carries on what is due, of the agents that this process has.

    Where it has `anchors`, it adds to them while it works, and at its end. A `relay` tells people
    through channels; a worker without one reports that there is something to tell, and no more.
    """

    anchors: Anchors | None = None
    relay: Relay | None = None

    def __init__(
        self,
        engine: Engine,
        *,
        drive: Callable[[RunRow, Stop], Awaitable[object]],
        can_drive: Callable[[RunRow], Awaitable[bool]],
        report: Report,
    ) -> None:
        self._engine = engine
        self._drive = drive
        self._can_drive = can_drive
        self._report = report
        self._ends = Stop()
        self._left_alone: dict[str, float] = {}
        self._searched_at = -SEARCH.total_seconds()
        self._anchored_at = -EVERY.total_seconds()

    def end(self) -> None:
        """Have it begin nothing more: what a run is doing is finished first."""
        self._ends.ask()

    async def once(self) -> int:
        """Carry on everything that is due now, until nothing is; give how many runs that were."""
        carried = 0
        tried: set[tuple[str, datetime | None]] = set()
        while True:
            due = [row for row in await self._due() if (row.run.id, row.wake_at) not in tried]
            await self._deliver()
            if self.relay is not None:
                await self.relay.once()
            if not due or self._ends.asked:
                await self._anchor()
                return carried
            tried |= {(row.run.id, row.wake_at) for row in due}
            carried += sum(await self._carry_all(due))

    async def forever(self, stop: asyncio.Event | None = None) -> None:
        """Carry on what becomes due, until `stop` is set.

        What a run is doing then is finished first, and nothing more of it begins here. A run that
        takes long keeps no other one waiting while there is room.
        """
        stop = stop or asyncio.Event()
        under_way: dict[str, asyncio.Task[bool]] = {}
        over = asyncio.Event()
        relaying = None if self.relay is None else asyncio.create_task(self.relay.forever(over))
        try:
            await self._until(stop, under_way, relaying)
        except (Exception, asyncio.CancelledError):
            if relaying is not None:
                relaying.cancel()
            await self._finish(under_way)
            raise
        over.set()
        await self._finish(under_way)
        if relaying is not None:
            await relaying
        await self._anchor()

    async def _until(
        self,
        stop: asyncio.Event,
        under_way: dict[str, asyncio.Task[bool]],
        relaying: asyncio.Task[None] | None,
    ) -> None:
        seen: int | None = None
        while not (stop.is_set() or self._ends.asked):
            try:
                seen = await self._look(seen, under_way)
                pause = POLL
            except StoreTrouble as trouble:
                self._report("trouble", "", str(trouble))
                pause = LEAVE_ALONE
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause.total_seconds())
            if relaying is not None and relaying.done() and not stop.is_set():
                relaying.result()
            for run in [run for run, task in under_way.items() if task.done()]:
                under_way.pop(run).result()

    async def _finish(self, under_way: dict[str, asyncio.Task[bool]]) -> None:
        """Begin nothing more, and wait for what was begun: an outcome is not to be unknown."""
        self.end()
        try:
            ended = await asyncio.gather(*under_way.values(), return_exceptions=True)
        finally:
            self._ends = Stop()
        for each in ended:
            if isinstance(each, BaseException):
                raise each

    async def _look(self, seen: int | None, under_way: dict[str, asyncio.Task[bool]]) -> int:
        """Begin what is due and has room; give the state of the store that was looked at."""
        changed = self._engine.store.changes()
        if changed != seen:
            await self._deliver()
        now = asyncio.get_running_loop().time()
        if now - self._anchored_at >= EVERY.total_seconds():
            self._anchored_at = now
            await self._anchor()
        if len(under_way) < AT_ONCE:
            for row in await self._due():
                if row.run.id not in under_way and len(under_way) < AT_ONCE:
                    under_way[row.run.id] = asyncio.create_task(self._carry(row))
        return changed

    async def _due(self) -> list[RunRow]:
        """Give what is due, and now and then also what a process of this host left as it died."""
        now = asyncio.get_running_loop().time()
        self._left_alone = {run: until for run, until in self._left_alone.items() if until > now}
        rows = await self._ours(timedelta(0))
        if now - self._searched_at >= SEARCH.total_seconds():
            self._searched_at = now
            due = {row.run.id for row in rows}
            soon = await self._ours(LEASE)
            rows += [row for row in soon if row.run.id not in due and _is_orphan(row)]
        return rows

    async def _ours(self, within: timedelta) -> list[RunRow]:
        limit = DUE_AT_ONCE
        while True:  # Past those that are not this worker's, however many they are.
            rows = await self._engine.read(self._engine.store.due, within=within, limit=limit)
            ours = [
                row
                for row in rows
                if row.tenant == self._engine.tenant and row.run.id not in self._left_alone
            ]
            if ours or len(rows) < limit:
                return ours
            limit *= 4

    async def _carry_all(self, due: Sequence[RunRow]) -> list[bool]:
        room = asyncio.Semaphore(AT_ONCE)

        async def in_turn(row: RunRow) -> bool:
            async with room:
                return await self._carry(row)

        return await asyncio.gather(*(in_turn(row) for row in due))

    async def _carry(self, row: RunRow) -> bool:
        run = row.run
        if self._ends.asked:
            return False
        try:
            if not await self._can_drive(row):
                self._leave_alone(run.id)
                self._report("no_agent", run.id, f"this worker does not have {run.agent}")
                return False
            await self._drive(row, self._ends)
        except InProgress as busy:
            if busy.code != "run_driven":  # That run's row says when it is due again.
                self._leave_alone(run.id)
            if busy.code != LEFT_TO_CALLER:  # That is nobody's trouble, and no news either.
                self._report("in_progress", run.id, busy.message)
            return False
        except ModelTrouble as trouble:  # The run rests by its own row, and is due again later.
            self._report("trouble", run.id, str(trouble))
            return False
        except PlacetError as error:
            self._leave_alone(run.id)
            self._report("trouble", run.id, str(error))
            return False
        except Exception as error:  # noqa: BLE001  # One run's broken code is no other's trouble.
            self._leave_alone(run.id)
            self._report("trouble", run.id, described(error))
            return False
        self._left_alone.pop(run.id, None)
        self._report("resumed", run.id, "")
        return True

    def _leave_alone(self, run: str) -> None:
        now = asyncio.get_running_loop().time()
        self._left_alone[run] = now + LEAVE_ALONE.total_seconds()

    async def _anchor(self) -> None:
        """Add an anchor over what is now; that it cannot be added is told, and stops nothing."""
        if self.anchors is not None:
            try:
                await self._engine.read(self.anchors.add)
            except StoreTrouble as trouble:
                self._report("trouble", "", str(trouble))

    async def _deliver(self) -> None:
        """Report, at least once, that requests opened and closed; or let channels tell it (H3)."""
        if self.relay is not None:
            await self.relay.address()
            return
        store, tenant = self._engine.store, self._engine.tenant
        while notices := await self._engine.read(store.outbox, tenant):
            for notice in notices:
                self._report("notice", notice.request, f"the request is {notice.kind}")
            await self._engine.read(store.sent, [notice.id for notice in notices])


def _is_orphan(row: RunRow) -> bool:
    """Say whether the process that drives a run is seen, on this host, to exist no more (D5)."""
    return isinstance(row.run.state, Working) and is_gone(row.run.state.holder)
