"""The one blocking edge: an async method of the API, called from code that is not async."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from placet.core.errors import Mistake

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_making = threading.Lock()


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """Give the blocking twin of an async method; it runs on an event loop of its own thread."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise Mistake(
                "inside_event_loop",
                f"{method.__name__}_sync was called inside an event loop.",
                hint=f"Use `await {method.__name__}(...)` there.",
            )
        with _making:  # Of several threads that call first, one makes the loop.
            loop = _loop()
        running = asyncio.run_coroutine_threadsafe(method(self, *args, **kwargs), loop)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.cancel()
            raise

    call.__name__ = f"{method.__name__}_sync"
    return call


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="placet portal", daemon=True).start()
    return loop


def _forget() -> None:
    global _making  # noqa: PLW0603  # Whoever held it is no thread of a forked process.
    _making = threading.Lock()
    _loop.cache_clear()


if hasattr(os, "register_at_fork"):  # A forked process does not have the thread.
    os.register_at_fork(after_in_child=_forget)
