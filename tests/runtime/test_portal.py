"""The one blocking edge: all that is called through it is of one event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from placet import portal


class Asked:
    """Something with an async method."""

    async def loop(self) -> int:
        """Name the event loop that it is called in."""
        return id(asyncio.get_running_loop())

    loop_sync = portal.blocking(loop)


def test_threads_that_call_first_at_once_have_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    make = asyncio.new_event_loop

    def made() -> asyncio.AbstractEventLoop:
        with suppress(threading.BrokenBarrierError):  # Nobody else makes one: that is well.
            both.wait(0.2)
        return make()

    monkeypatch.setattr(asyncio, "new_event_loop", made)
    portal._loop.cache_clear()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: Asked().loop_sync(), range(2)))
    assert len(set(found)) == 1
