"""The floor: the same four commits in hand-written SQL without any check, through the same
hand-over from asyncio to one writer thread that commits in groups.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE request (id TEXT PRIMARY KEY, session TEXT, body TEXT, status TEXT) WITHOUT ROWID;
CREATE TABLE event (session TEXT, seq INTEGER, body TEXT, PRIMARY KEY (session, seq)) WITHOUT ROWID;
"""
_EVENT = "INSERT INTO event VALUES (?, ?, ?)"

Write = Callable[[sqlite3.Connection], None]


class Floor:
    """A writer thread and nothing more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked: queue.SimpleQueue[tuple[Write, Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    async def commit(self, write: Write) -> None:
        done: Future[None] = Future()
        self._asked.put((write, done))
        await asyncio.wrap_future(done)

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join()

    def _write(self) -> None:
        db = sqlite3.connect(self._path, isolation_level=None)
        db.executescript(_SCHEMA)
        while (first := self._asked.get()) is not None:
            group = [first]
            while not self._asked.empty() and (more := self._asked.get()) is not None:
                group.append(more)
            db.execute("BEGIN IMMEDIATE")
            for write, _ in group:
                write(db)
            db.execute("COMMIT")
            for _, done in group:
                done.set_result(None)
        db.close()

    async def cycle(self, session: str, number: int) -> None:
        """Ask, decide, intent, outcome: four commits."""
        request, body = f"{session}-{number}", "x" * 300
        seq = number * 4

        def ask(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO request VALUES (?, ?, ?, 'waiting')", (request, session, body))
            db.execute(_EVENT, (session, seq, body))

        def decide(db: sqlite3.Connection) -> None:
            db.execute("UPDATE request SET status = 'approved' WHERE id = ?", (request,))
            db.execute(_EVENT, (session, seq + 1, body))

        def intent(db: sqlite3.Connection) -> None:
            db.execute("UPDATE request SET status = 'executing' WHERE id = ?", (request,))
            db.execute(_EVENT, (session, seq + 2, body))

        def outcome(db: sqlite3.Connection) -> None:
            db.execute("UPDATE request SET status = 'succeeded' WHERE id = ?", (request,))
            db.execute(_EVENT, (session, seq + 3, body))

        for write in (ask, decide, intent, outcome):
            await self.commit(write)
