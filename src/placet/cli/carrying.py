"""Carrying a run on while a person looks on, who may interrupt it from the keyboard.

Theory of operation. Each time the run is driven in an event loop of its own. The first interrupt
asks the drivers to stop after what they are doing; where no tool's effect is under way the loop is
torn down at once, and with it goes whatever is asked of a model: the leases are given back, and the
run rests. An effect that has begun is waited for, because one that is cut off has an outcome that
nobody knows (D4); a second interrupt cuts it off all the same.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from placet.agent.watching import RunEvent, TextArrives
from placet.cli.live import LiveText
from placet.cli.output import tell
from placet.cli.progress import Effects, Family, described
from placet.core import work as w
from placet.core.display import visible
from placet.core.masking import Masking

P = ParamSpec("P")
T = TypeVar("T")


class Onlooker:
    """Shows what runs do, in few words: text as it comes, tools, and the items of a plan."""

    def __init__(self, family: Family, *, masking: Callable[[], Masking]) -> None:
        self.text = LiveText(family.agent, masking=masking)
        self.begun = False
        self._family = family
        self.effects = Effects()

    def begin(self, run: str) -> None:
        """Look at a run from now on."""
        self.text.own.add(run)
        self.begun = False
        self.effects.clear()

    def watch(self, event: RunEvent) -> None:
        """Be told of what happens."""
        self.begun = True
        self.effects.watch(event)
        if isinstance(event, TextArrives):
            self.text.arrives(event)
            return
        self.text.close()
        if isinstance(event.work, w.CallModel):
            told = self._family.item(event.run)
        else:
            told = described(event.work, event.tools)
        if told:
            whose = "" if event.run in self.text.own else f"{self._family.agent(event.run)}: "
            tell(f"  · {visible(whose)}{told}")


class _Threads(ThreadPoolExecutor):
    """Gives each call a daemon thread: one that hangs keeps no other waiting, and no end."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread of its own."""
        done: Future[T] = Future()

        def call() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # Whoever waits is told.
                done.set_exception(error)
            else:
                done.set_result(result)

        done.set_running_or_notify_cancel()
        threading.Thread(target=call, name="placet-tool", daemon=True).start()
        return done


def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do work in an event loop that ends with it, whatever tools have left behind in threads."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(_Threads())
        return runner.run(work)


def carried(work: Coroutine[Any, Any, T], effects: Effects) -> T | None:
    """Carry out work on a run; None: it was interrupted, and the run rests."""
    return to_the_end(_interruptible(work, lambda: effects.now))


async def _interruptible(work: Coroutine[Any, Any, T], effect: Callable[[], str]) -> T | None:
    interrupt = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt.set)
    try:
        working = asyncio.create_task(work)
        await _either(interrupt, {working})
        if working.done():
            return working.result()
        working.cancel()
        interrupt.clear()
        if acting := effect():
            tell(f"\n{acting} has begun and is waited for; Ctrl-C again cuts it off.")
            await _either(interrupt, asyncio.all_tasks() - {asyncio.current_task()})
        return None
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _either(interrupt: asyncio.Event, tasks: set[asyncio.Task[Any]]) -> None:
    """Wait until all of some tasks are done, or an interrupt comes."""
    pressed = asyncio.create_task(interrupt.wait())
    ended = asyncio.ensure_future(asyncio.wait(tasks))
    await asyncio.wait({pressed, ended}, return_when=asyncio.FIRST_COMPLETED)
    pressed.cancel()
    ended.cancel()
