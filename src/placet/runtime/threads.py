"""Calling a synchronous function from async code, in a daemon thread of its own.

A pool's threads are waited for when the interpreter ends; a tool that hangs would keep the process
from ever ending. These are left behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


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
            result = context.run(function)
        except StopIteration as stop:  # A future cannot carry one.
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001  # Carried to who awaits, not handled here.
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=call, name=name, daemon=True).start()
    return await done
