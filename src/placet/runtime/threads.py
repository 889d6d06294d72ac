"""Calling a synchronous function from async code, in a daemon thread of its own.

A pool's threads are waited for when the interpreter ends; a tool that hangs would keep the process
from ever ending. These are left behind, and keep the mark of the tool that they run for (G10).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from placet.runtime.authority import still_inside

T = TypeVar("T")


def _marked(function: Callable[[], T]) -> T:
    with still_inside():
        return function()


async def in_thread(function: Callable[[], T], *, name: str) -> T:
    """Call `function` in its own thread, with the caller's context, and give its result."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # No error: the result is a T.

    def call() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(_marked, function)
        except StopIteration as stop:  # A future cannot carry one.
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001  # Carried to who awaits, not handled here.
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=call, name=name, daemon=True).start()
    return await done


def without_exit(function: Callable[[], T]) -> Callable[[], T]:
    """Give `function` with any exit or interrupt that it raises as an error.

    An event loop lets those two through to its own end, and a function that is only asked
    something shall not end the process.
    """

    def called() -> T:
        try:
            return function()
        except (KeyboardInterrupt, SystemExit) as ended:
            raise RuntimeError(f"it ended with {type(ended).__name__}") from None

    return called


async def without_end(asked: Awaitable[T]) -> T:
    """Await what is not ours, with an exit, or a cancellation that nobody asked for, as an error.

    An event loop would end with the one, and whoever waits would take the other for its own.
    """
    try:
        return await asked
    except SystemExit:
        raise RuntimeError("it ended with SystemExit") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it ended with CancelledError") from None
