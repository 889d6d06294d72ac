"""Work in tasks of the runtime's own: a caller that is cancelled leaves it, closing waits for it.

Theory of operation. A body that has begun belongs to the runtime (D5), and its outcome is to be on
record before the store is let go (D4). So whatever may enter one runs in a task of its own. Who
leaves it, or closes, asks it to stop: it then begins nothing further, and ends after what it is
doing. Tasks may be of several event loops.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")

#: How long `close` waits for bodies that are under way in other threads.
CLOSING_LASTS = timedelta(seconds=10)


@dataclass(slots=True)
class Stop:
    """Asks work to end after what it is doing: its caller does not wait any more (D5)."""

    own: bool = False
    also: Stop | None = None
    _heeding: list[Callable[[], object]] = field(default_factory=list)

    @property
    def asked(self) -> bool:
        """Say whether it is to end."""
        return self.own or (self.also is not None and self.also.asked)

    def ask(self) -> None:
        """Have it end."""
        self.own = True
        for heed in list(self._heeding):
            heed()

    @contextmanager
    def heeded(self, heed: Callable[[], object]) -> Iterator[None]:
        """Call `heed` once it is asked to end while this lasts; from any thread."""
        stops = [self] if self.also is None else [self, self.also]
        for each in stops:
            each._heeding.append(heed)
        try:
            yield
        finally:
            for each in stops:
                each._heeding.remove(heed)


class Detached:
    """The tasks of one process; `closed` is called once, when the last of them has ended."""

    def __init__(self, closed: Callable[[], None]) -> None:
        self._let_go = closed
        self._tasks: dict[asyncio.Task[Any], Stop] = {}
        self.closing = False
        self._closed = threading.Event()

    async def do(
        self, work: Callable[[Stop], Coroutine[Any, Any, T]], also: Stop | None = None
    ) -> T:
        """Do something in a task of its own, which `close` waits for.

        A caller that is cancelled leaves it, and asks it to stop after what it is doing (D5). So
        does whoever asks that of `also`.
        """
        stop = Stop(own=self.closing, also=also)
        task = asyncio.create_task(work(stop))
        self._tasks[task] = stop
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.ask()
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            raise

    def close(self) -> None:
        """Ask everything to stop, and let go once nothing is under way.

        In another thread than theirs this waits for it, for up to 10 seconds.
        """
        self.closing = True
        tasks = list(self._tasks.items())
        for _, stop in tasks:
            stop.ask()
        if not tasks:
            self._close()
        elif all(not _is_own_loop(task) for task, _ in tasks):
            self._closed.wait(CLOSING_LASTS.total_seconds())

    async def end(self) -> None:
        """Close, and wait for what was begun in this event loop, however long that takes."""
        own = [task for task in self._tasks if _is_own_loop(task)]
        self.close()
        if own:
            await asyncio.wait(own)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self.closing and not self._tasks:
            self._close()

    def _close(self) -> None:
        self._let_go()
        self._closed.set()


def _is_own_loop(task: asyncio.Task[Any]) -> bool:
    """Say whether a task is of the event loop that the caller itself runs in."""
    try:
        return task.get_loop() is asyncio.get_running_loop()
    except RuntimeError:
        return not task.get_loop().is_running()
