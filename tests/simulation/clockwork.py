"""An event loop without a clock, a selector or a thread: what runs next is chosen by a seed.

Theory of operation. Each simulated process has a lane of handles, which run in the order in which
they were scheduled, as asyncio promises; each job of a thread has a lane of its own. At every step
one lane that has a handle is chosen, at random, and its first handle runs. While any lane has one,
no time passes; when none has, time goes on to the next timer. Whose a handle is, is said by the
context it runs in. The handles of a process that was killed are never run: nothing of it is
cancelled, and no `finally` of it is entered. Those of one that is stopped wait until it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from random import Random
from typing import TYPE_CHECKING, Any, cast

if (
    TYPE_CHECKING
):  # Every method of a loop is somewhere in it; those that are not here nobody calls.
    from asyncio import SelectorEventLoop as _EventLoop
else:
    from asyncio import AbstractEventLoop as _EventLoop


class Lane:
    """Handles that run in the order in which they came; `waits` says that its process is stopped.

    `place` is where the loop has it among the lanes that have a handle, and -1 while it has none.
    """

    __slots__ = ("handles", "name", "place", "waits")

    def __init__(self, name: str) -> None:
        self.name = name
        self.handles: deque[Handle] = deque()
        self.waits = False
        self.place = -1


class Owner:
    """What handles belong to: a simulated process. Its tasks are kept, so that none is collected.

    `lives` turns False when it is killed, and it is never to live again.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.lives = True
        self.lane = Lane(name)
        self.jobs: list[Lane] = []


#: The process that runs; None outside of all processes, where the world itself acts.
OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


class Handle:
    """A callback that is to run; asyncio asks no more of a handle than `cancel`."""

    __slots__ = ("args", "callback", "cancelled_", "context", "when_")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[object, ...],
        context: contextvars.Context,
        when: float = 0.0,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.cancelled_ = False
        self.when_ = when

    def cancel(self) -> None:
        self.cancelled_ = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self.when_


class Clockwork(_EventLoop):
    """The loop. `random` chooses lanes; `sticks` is how likely the same lane runs again at once.

    `delay` is asked how long a job of a thread takes before it runs, and before its end is heard;
    `watch` is told of every step, and of what is about to run.
    """

    def __init__(self, random: Random, *, sticks: float = 0.0) -> None:
        self._random = random.random
        self._sticks = sticks
        self._now = 0.0
        self._ready: list[Lane] = []
        self._last: Lane | None = None
        self._timers: list[tuple[float, int, Handle]] = []
        self._order = 0
        self._outside = Lane("world")
        self._tasks: list[tuple[Owner | None, asyncio.Task[Any]]] = []
        self._closed = False
        self.steps = 0
        self.troubles: list[str] = []
        self.delay: Callable[[], float] = lambda: 0.0
        self.watch: Callable[[Lane, Handle], None] | None = None

    # --- what asyncio asks of a loop ----------------------------------------------------------

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # typeshed's has one more form than is needed
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        owner = OWNER.get() if context is None else context.get(OWNER)
        self._tasks.append((owner, task))
        return task

    def call_soon(  # type: ignore[override]  # a handle of its own kind
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        handle = Handle(callback, args, context or contextvars.copy_context())
        self._put(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_at(  # type: ignore[override]  # a handle of its own kind
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        handle = Handle(callback, args, context or contextvars.copy_context(), when)
        self._order += 1
        heapq.heappush(self._timers, (when, self._order, handle))
        return handle

    def call_later(  # type: ignore[override]  # a handle of its own kind
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., object], *args: object
    ) -> asyncio.Future[Any]:
        """Do it in this thread, which is the only one, later: whatever the executor is."""
        done = self.create_future()

        def ran() -> None:
            try:
                result: object = func(*args)
            except Exception as error:  # noqa: BLE001  # Carried to who awaits, not handled here.
                self._heard(done, error)
            else:
                self._heard(done, result)

        self.start_job(ran, "executor")
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note what nobody handled, but for what a killed process leaves behind."""
        if "was never retrieved" not in context["message"] and not self._closed:
            self.troubles.append(f"{context['message']}: {context.get('exception')!r}")

    # --- threads ------------------------------------------------------------------------------

    def start_job(self, run: Callable[[], object], name: str) -> None:
        """Run something as a thread would: beside everything else of its process."""
        self.beside(self.delay(), run, name=name)

    def beside(
        self,
        delay: float,
        run: Callable[..., object],
        *args: object,
        name: str,
        context: contextvars.Context | None = None,
    ) -> None:
        """Run something in a lane of its own, after a while."""
        handle = Handle(run, args, context or contextvars.copy_context())
        if delay > 0:
            self.call_later(delay, self._begin_job, name, handle, context=handle.context)
        else:
            self._begin_job(name, handle)

    def _begin_job(self, name: str, handle: Handle) -> None:
        owner = handle.context.get(OWNER)
        if owner is None:
            self._put_in(Lane(name), handle)
        elif owner.lives:
            lane = Lane(f"{owner.name}/{name}")
            lane.waits = owner.lane.waits
            owner.jobs = [job for job in owner.jobs if job.handles]
            owner.jobs.append(lane)
            self._put_in(lane, handle)

    def _heard(self, done: asyncio.Future[Any], found: object) -> None:
        if (delay := self.delay()) > 0:
            self.call_later(delay, _settle, done, found)
        else:
            _settle(done, found)

    # --- processes ----------------------------------------------------------------------------

    def spawn(self, owner: Owner | None, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a task in a process, or in the world outside of them."""
        context = contextvars.copy_context()
        context.run(OWNER.set, owner)
        return self.create_task(coro, context=context)

    def kill(self, owner: Owner) -> None:
        """End a process at once: nothing of it runs any more."""
        owner.lives = False
        for lane in (owner.lane, *owner.jobs):
            lane.handles.clear()
            self._unlist(lane)
        owner.jobs.clear()

    def halt(self, owner: Owner) -> None:
        """Stop a process, as a signal or a sleeping host does; its timers still pass."""
        for lane in (owner.lane, *owner.jobs):
            lane.waits = True
            self._unlist(lane)

    def go_on(self, owner: Owner) -> None:
        """Let a stopped process go on."""
        for lane in (owner.lane, *owner.jobs):
            lane.waits = False
            if lane.handles and owner.lives:
                self._list(lane)

    def tasks_of(self, owner: Owner) -> list[asyncio.Task[Any]]:
        """Give the tasks of a process that have not ended."""
        return [task for whose, task in self._tasks if whose is owner and not task.done()]

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Be the running loop of this thread, for as long as this lasts."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # --- running ------------------------------------------------------------------------------

    def step(self) -> bool:
        """Run one handle, or let time go on to the next timer; False: there is nothing more."""
        ready = self._ready
        if not ready:
            return self.pass_time()
        lane = self._last
        if lane is None or lane.place < 0 or self._random() >= self._sticks:
            lane = ready[int(self._random() * len(ready))] if len(ready) > 1 else ready[0]
            self._last = lane
        handle = lane.handles.popleft()
        if not lane.handles:
            self._unlist(lane)
        if handle.cancelled_:
            return True
        self.steps += 1
        if self.watch is not None:
            self.watch(lane, handle)
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt) as ended:
            self.troubles.append(f"{lane.name} was ended by {ended!r}")
        except Exception as error:  # noqa: BLE001  # Told of as a fault of the world.
            self.troubles.append(f"in {lane.name}: {error!r}")
        return True

    @property
    def is_idle(self) -> bool:
        """Say whether nothing can run before time goes on."""
        return not self._ready

    def next_timer(self) -> float | None:
        """Say when the next timer is due."""
        timers = self._timers
        while timers and self._is_void(timers[0][2]):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def pass_time(self) -> bool:
        """Let time go on to the next timer; False: there is none."""
        when = self.next_timer()
        if when is None:
            return False
        self.leap(when)
        return True

    def leap(self, until: float) -> None:
        """Let time go on at once to an instant; whatever timers it passes are due after it."""
        self._now = max(self._now, until)
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled_:
                self._put(handle)

    def close(self) -> None:
        """Let go of everything; what still runs is closed, and heard by nobody."""
        self._closed = True
        for lane in list(self._ready):
            lane.handles.clear()
        self._ready.clear()
        self._timers.clear()
        for _, task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own
                _close_quietly(task.get_coro())
        self._tasks.clear()

    # ------------------------------------------------------------------------------------------

    def _is_void(self, handle: Handle) -> bool:
        if handle.cancelled_:
            return True
        owner = handle.context.get(OWNER)
        return owner is not None and not owner.lives

    def _put(self, handle: Handle) -> None:
        owner = handle.context.get(OWNER)
        if owner is None:
            self._put_in(self._outside, handle)
        elif owner.lives:
            self._put_in(owner.lane, handle)

    def _put_in(self, lane: Lane, handle: Handle) -> None:
        if self._closed:
            return
        lane.handles.append(handle)
        if lane.place < 0 and not lane.waits:
            self._list(lane)

    def _list(self, lane: Lane) -> None:
        if lane.place < 0:
            lane.place = len(self._ready)
            self._ready.append(lane)

    def _unlist(self, lane: Lane) -> None:
        if lane.place >= 0:
            last = self._ready.pop()
            if last is not lane:
                self._ready[lane.place] = last
                last.place = lane.place
            lane.place = -1


class Thread:
    """What stands for `threading.Thread` in a simulated process: a job beside its others."""

    def __init__(self, *, target: Callable[[], object], name: str, daemon: bool) -> None:
        self._target = target
        self._name = name.replace(" ", "-")
        assert daemon, "a thread that keeps its process from ending"

    def start(self) -> None:
        cast(Clockwork, asyncio.get_running_loop()).start_job(self._target, self._name)


def running(handle: Handle) -> str:
    """Name what a handle runs, by its code alone."""
    task = getattr(handle.callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coro: Any = task.get_coro()
        return str(coro.__qualname__)
    return str(getattr(handle.callback, "__qualname__", type(handle.callback).__name__))


def _settle(done: asyncio.Future[Any], found: object) -> None:
    if done.done():
        return
    if isinstance(found, Exception):
        done.set_exception(found)
    else:
        done.set_result(found)


def _close_quietly(coro: Any) -> None:
    try:
        coro.close()
    except BaseException:  # noqa: BLE001  # Of a process that was killed: nobody is there to hear.
        return
