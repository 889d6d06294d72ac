"""Relaying: the notices of the outbox, told through channels, at least once (H3).

Theory of operation. What people are to be told was written with what happened (D3). The relay
addresses each notice: one for each channel, or for the one that an escalation step names. Each then
leaves on its own: it is taken for a while, told, put on record and deleted, in this order. Whoever
dies in between leaves it to be taken again, so that people are told twice rather than never.

- Of one request a channel is told in order: what closes it comes after what opened it.
- What could not be told is due again after a pause that doubles, up to `LONGEST_PAUSE`. Each
  channel has places of its own, and each telling an end, so that neither a dead channel nor a
  notice that breaks one keeps any other waiting.
- What asks is told while there is something to ask, and then left; that an asking failed is on
  record by then. What closes is given up after `MOST_CLOSINGS`.
- The record says of each channel what changed, and nothing of the attempts between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from inspect import iscoroutinefunction, unwrap
from typing import Literal, Protocol

from placet.core.card import Card
from placet.core.commands import Names, RecordDelivery
from placet.core.errors import InvalidDeclaration, NotFound, PlacetError, Refusal, StoreTrouble
from placet.core.records import NoticeKind
from placet.core.state import Open, Request
from placet.runtime.bodies import described
from placet.runtime.engine import Engine
from placet.stores.store import NoticeRow

#: How long a channel may take to tell one notice.
PATIENCE = timedelta(seconds=10)

#: How long a notice is its worker's beyond that; who died with it has lost it then.
SLACK = timedelta(seconds=20)

#: The pauses before a notice that could not be told is told again: the first, and the longest.
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=5)

#: How often it is tried to close what a channel has shown: for about a day.
MOST_CLOSINGS = 300

#: How many notices one channel is given at once.
AT_ONCE = 4

#: How long the relay sleeps between looks, and after a trouble of the store.
POLL = timedelta(milliseconds=100)
REST = timedelta(seconds=5)

#: No longer than this is the cause of a failure on record.
LONGEST_CAUSE = 500

Relayed = Literal["notice", "delivered", "undelivered", "trouble"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a channel is to tell people.

    `kind` is "opened" (people are asked, or asked anew), "escalated" (more people are asked, or all
    are reminded) or "closed" (nothing is left to answer). `id` is the same at each attempt, counted
    from 1, and tells a channel that it has been given it before. `request` is as it is now, and
    `card()` makes what is shown of it.
    """

    id: str
    channel: str
    kind: NoticeKind
    tenant: str
    session: str
    request: Request
    attempt: int
    card: Callable[[], Awaitable[Card]]


class Channel(Protocol):
    """A way out to people, under a name that escalation steps of a policy use."""

    @property
    def name(self) -> str:
        """Name the channel; the name is on record with each delivery."""
        ...

    async def tell(self, notice: Notice) -> None:
        """Tell people of a request, or that it is closed; raises where it could not.

        It may be given the same notice again, also after it has told it.
        """
        ...


def checked(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """Give channels that have a name each, and no two the same; raises InvalidDeclaration."""
    names: set[str] = set()
    for channel in channels:
        name, tell = getattr(channel, "name", None), getattr(channel, "tell", None)
        tells = callable(tell) and iscoroutinefunction(unwrap(tell))
        if not isinstance(name, str) or not name or isinstance(channel, type) or not tells:
            raise InvalidDeclaration(
                "invalid_channel",
                f"{type(channel).__name__} is no channel.",
                hint="A channel has a `name` and an async `tell(notice)`.",
            )
        if name in names:
            raise InvalidDeclaration("invalid_channel", f"Two channels are named {name}.")
        names.add(name)
    return tuple(channels)


class Relay:
    """Takes one tenant's outbox to the channels that there are; `card` makes a request's card."""

    def __init__(
        self,
        engine: Engine,
        channels: Sequence[Channel],
        *,
        card: Callable[[str], Awaitable[Card]],
        report: Callable[[Relayed, str, str], None],
        patience: timedelta = PATIENCE,
    ) -> None:
        self._engine = engine
        self._channels = checked(channels)
        self._card = card
        self._report = report
        self._patience = patience
        self._left: set[asyncio.Task[None]] = set()

    async def once(self) -> None:
        """Tell what is due, each at most once."""
        await self.address()
        await asyncio.gather(*map(self._all_of, self._channels))

    async def forever(self, stop: asyncio.Event) -> None:
        """Tell what becomes due, until `stop` is set; what was begun then is finished first."""
        await asyncio.gather(*(self._serve(channel, stop) for channel in self._channels))

    async def address(self) -> None:
        """Address what is new, each to its channels, and say that there is something to tell."""
        store, names = self._engine.store, [channel.name for channel in self._channels]
        while rows := await self._engine.read(store.outbox, self._engine.tenant):
            for row in rows:
                self._report("notice", row.request, f"the request is {row.kind}")
                to = [row.channel] if row.channel in names else names
                if row.channel and row.channel not in names:
                    await self._missing(row)
                await self._engine.read(store.address, row.id, to)

    async def _missing(self, row: NoticeRow) -> None:
        """Put on record that nobody here has the channel of a step: the others tell of it."""
        try:
            await self._record(row, "no worker has a channel of this name")
        except PlacetError as error:
            self._report("trouble", row.request, str(error))

    # --- one channel --------------------------------------------------------------------------

    async def _all_of(self, channel: Channel) -> None:
        tried: set[int] = set()
        while rows := await self._take(channel, AT_ONCE):
            new = [row for row in rows if row.id not in tried]
            for row in rows:
                if row.id in tried:  # Its pause was shorter than the tellings beside it.
                    await self._engine.read(self._postpone, row)
            if not new:
                return
            tried |= {row.id for row in new}
            await asyncio.gather(*(self._handle(channel, row) for row in new))

    async def _serve(self, channel: Channel, stop: asyncio.Event) -> None:
        under_way: set[asyncio.Task[None]] = set()
        while not stop.is_set():
            pause = POLL
            try:
                room = AT_ONCE - len(under_way)
                for row in await self._take(channel, room) if room else ():
                    task = asyncio.create_task(self._handle(channel, row))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
            except StoreTrouble as trouble:
                self._report("trouble", "", str(trouble))
                pause = REST
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause.total_seconds())
        await asyncio.gather(*under_way)

    async def _take(self, channel: Channel, most: int) -> Sequence[NoticeRow]:
        return await self._engine.read(
            self._engine.store.take,
            self._engine.tenant,
            channel.name,
            lasts=self._patience + SLACK,
            limit=most,
        )

    # --- one notice ---------------------------------------------------------------------------

    async def _handle(self, channel: Channel, row: NoticeRow) -> None:
        try:
            await self._tell(channel, row)
        except Exception as error:  # noqa: BLE001  # One notice's trouble is no other's.
            self._report("trouble", row.request, described(error))
            with suppress(StoreTrouble):  # Else it is due once it is not this worker's any more.
                await self._engine.read(self._postpone, row)

    async def _tell(self, channel: Channel, row: NoticeRow) -> None:
        state = await self._engine.session(row.session, Names(requests=(row.request,)))
        request = state.requests[row.request]
        if row.kind != "closed" and not _asks(request, state.now):
            await self._engine.read(self._engine.store.sent, [row.id])
            return
        notice = Notice(
            id=f"{row.id}",
            channel=channel.name,
            kind=row.kind,
            tenant=row.tenant,
            session=row.session,
            request=request,
            attempt=row.attempts,
            card=partial(self._card, row.request),
        )
        cause = await self._attempt(channel, notice)
        await self._record(row, cause)
        if cause is None or (row.kind == "closed" and row.attempts >= MOST_CLOSINGS):
            await self._engine.read(self._engine.store.sent, [row.id])
        else:
            await self._engine.read(self._postpone, row)

    async def _attempt(self, channel: Channel, notice: Notice) -> str | None:
        """Tell it, and give why that could not be done; None: it was.

        A channel that does not come to its end is left, whether or not it heeds that it should.
        """
        task = asyncio.create_task(_told(channel, notice))
        done, _ = await asyncio.wait({task}, timeout=self._patience.total_seconds())
        if not done:
            self._left.add(task)
            task.add_done_callback(self._forget)
            task.cancel()
            return f"it did not answer within {self._patience.total_seconds():g} seconds"
        if task.cancelled():
            return "it was cancelled"
        error = task.exception()
        return None if error is None else described(error)[:LONGEST_CAUSE]

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # It is nobody's any more.

    async def _record(self, row: NoticeRow, cause: str | None) -> None:
        """Put on record whether a notice left, and report it where that is news."""
        command = RecordDelivery(
            request=row.request, channel=row.channel, delivered=cause is None, cause=cause or ""
        )
        try:
            answer = await self._engine.execute(row.session, command)
        except (NotFound, Refusal):  # Its session was erased, and takes no record any more.
            return
        if answer.events:
            told = f"{row.channel} {'told it' if cause is None else f'could not tell it: {cause}'}"
            self._report("delivered" if cause is None else "undelivered", row.request, told)

    def _postpone(self, row: NoticeRow) -> None:
        doublings = min(row.attempts - 1, 30)
        pause = min(FIRST_PAUSE * 2**doublings, LONGEST_PAUSE)
        self._engine.store.postpone(row.id, lasts=pause)


async def _told(channel: Channel, notice: Notice) -> None:
    try:
        await channel.tell(notice)
    except (KeyboardInterrupt, SystemExit) as ended:  # An event loop would let them through.
        raise RuntimeError(f"it ended with {described(ended)}") from None


def _asks(request: Request, now: datetime) -> bool:
    """Say whether people can still answer a request: a settlement waits beyond its deadline."""
    if not isinstance(request.state, Open):
        return False
    return request.kind == "settlement" or now < request.deadline_at
