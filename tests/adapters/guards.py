"""Guarded functions for tests: a real store, and payments that are lines in a real file.

The file is written and synced by the body without any dedupe of its own: what is paid twice is
there twice.
"""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from placet import IdempotencyKey, Placet
from placet.core.errors import ApprovalRequired
from placet.guarding import Guarded
from placet.runtime.worker import Worker
from placet.stores.sqlite import SqliteStore

T = TypeVar("T")

#: What a worker reports: the happening, the run or request, and a sentence.
Reported = list[tuple[str, str, str]]


@contextmanager
def opened(place: Path, *, approvers: Sequence[str] = ("ana",), **options: Any) -> Iterator[Placet]:
    """Open a place; opening it again is what another process does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placet = Placet(SqliteStore(place / "placet.db", **options), approvers=approvers)
    try:
        yield placet
    finally:
        placet.close()


def refund_of(
    placet: Placet,
    place: Path,
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
    guard: dict[str, Any] | None = None,
    **options: Any,
) -> Guarded[str]:
    """Give the guarded function that pays: it writes one line a payment."""
    terms: dict[str, Any] = {"session": lambda order, **_: f"order-{order}", **(guard or {})}

    @placet.guard(**terms, **options)
    def refund(order: str, amount: int, *, key: IdempotencyKey) -> str:
        """Pay a refund."""
        before()
        if options.get("idempotent") and key in keys(place):
            return f"refunded {amount} for {order}"
        pay(place, f"{key} {order} {amount}")
        after()
        return f"refunded {amount} for {order}"

    return refund


def pay(place: Path, line: str) -> None:
    """Write one payment down."""
    handle = os.open(place / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.fsync(handle)
    os.close(handle)


def paid(place: Path) -> list[str]:
    """Give the payments that were made, without their keys."""
    ledger = place / "ledger"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [line.partition(" ")[2] for line in lines]


def keys(place: Path) -> list[str]:
    """Give the keys of the payments that were made."""
    ledger = place / "ledger"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [line.partition(" ")[0] for line in lines]


def required(call: Callable[[], object]) -> ApprovalRequired:
    """Call what a person must approve first, and give what it raises."""
    try:
        call()
    except ApprovalRequired as needed:
        return needed
    raise AssertionError("nobody was asked")


def until(found: Callable[[], T]) -> T:
    """Wait for what others bring about, and give it."""
    latest = time.monotonic() + 60
    while not (answer := found()):
        assert time.monotonic() < latest, "it does not come about"
        time.sleep(0.005)
    return answer


def work_once(placet: Placet) -> Reported:
    """Let a worker carry on what is due until nothing is; give what it reports."""
    told: Reported = []
    worker = worker_of(placet, told)
    asyncio.run(worker.once())
    return told


def worker_of(placet: Placet, told: Reported) -> Worker:
    """Give a worker, and where it reports to."""
    return placet.worker(report=lambda *happening: told.append(happening))
