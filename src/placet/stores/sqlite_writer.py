"""The one thread that writes to a SQLite store.

Theory of operation. Callers put commands into a queue and hold futures. The thread takes what is
there, up to `MOST_TOGETHER`, opens one transaction (`BEGIN IMMEDIATE`: from here on no other
process writes), carries the commands out one after another, commits, and only then answers.

- A command that is refused, or that fails on its own account, has written nothing: `decide` is
  pure and comes before the first row, and rows stand behind a savepoint. The others go on.
- A failure of SQLite fails every command of the transaction, and none of them happened, unless the
  disk failed as it was told to make them last: then they may yet be found in the log by whoever
  opens the store next. The connection is thrown away and opened anew with the next transaction,
  because after an error of the disk nothing it remembers can be trusted. While that fails too, so
  does every command.
- What an unclean end has left is put on the disk before anything is built on it, and so are the
  names of the files, once for each connection, before its first commit.
- The open part of recently used sessions is kept between commands. It is what the last commit
  left, and is good as long as nobody else has committed since, which `PRAGMA data_version` tells
  inside the transaction; and it is dropped whenever anything is rolled back.
- A file that was moved or replaced under its path is not written to any more: what would be
  written there, nobody would find.
- Writers of several processes wait for each other here, not in SQLite, whose waits grow to a
  tenth of a second: pauses are short and random, and get shorter the longer one has waited.
"""

from __future__ import annotations

import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from placet.core.changing import changed
from placet.core.codec import instant_of, micros_of
from placet.core.commands import Command, StartRun
from placet.core.decide import unfold
from placet.core.errors import StoreTrouble, no_session
from placet.core.state import Session
from placet.core.values import SALT_BYTES
from placet.stores.loading import Base, load_named
from placet.stores.sealing import Keys, key_missing
from placet.stores.sqlite_keys import take_keys
from placet.stores.sqlite_opening import (
    SQL,
    as_placet_error,
    connect_writer,
    identity,
    make_log_last,
    make_names_last,
    prepare,
    primary_code,
)
from placet.stores.sqlite_rows import Change, SqliteParts, carried_out, load_base, write
from placet.stores.store import Answer

T = TypeVar("T")

#: How many commands share one transaction at most.
MOST_TOGETHER = 128

#: Of how many sessions the open part is kept between commands.
SESSIONS_KEPT = 256

_FIRST_PAUSE = timedelta(milliseconds=2)
_LAST_PAUSE = timedelta(microseconds=300)
_PATIENCE = timedelta(milliseconds=50)

#: No more than this counts as waited between two attempts: beyond it the process stood still, and
#: could not see that the lock was free.
_LONGEST_LOOK = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A command that waits to be carried out."""

    tenant: str
    session: str
    command: Command
    command_id: str
    answer: Future[Answer]


@dataclass(frozen=True, slots=True)
class _Chore:
    """A small change beside the sessions."""

    work: Callable[[sqlite3.Connection], None]
    answer: Future[None]


class Writer:
    """Commands in, answers out. `last_stamp` is the last that was given, in microseconds."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], datetime],
        busy_timeout: timedelta,
        keys: Keys | None = None,
    ) -> None:
        """Open the store, and bring it up to date; raises StoreTrouble, sqlite3.Error, OSError."""
        self.last_stamp = 0
        self._path = path
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._keys = keys
        self._key_rows: dict[str, bytes] = {}
        self._file = identity(path)
        self._names_last = False
        self._connection: sqlite3.Connection | None = self._open()
        self._kept: dict[tuple[str, str], Base] = {}
        self._data_version = -1
        self._kept_stamp = -1  # The stamp that is in the file, where this process put it there.
        self._queue: SimpleQueue[_Asked | _Chore | None] = SimpleQueue()
        self._closing = False
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="placet-writer", daemon=True)
        self._thread.start()

    def execute(
        self, tenant: str, session: str, command: Command, command_id: str
    ) -> Future[Answer]:
        """Take a command. It is carried out whether or not anybody still waits for it (D5)."""
        answer: Future[Answer] = Future()
        self._put(_Asked(tenant, session, command, command_id, answer), answer)
        return answer

    def do(self, work: Callable[[sqlite3.Connection], None]) -> Future[None]:
        """Take a small change beside the sessions."""
        answer: Future[None] = Future()
        self._put(_Chore(work, answer), answer)
        return answer

    def close(self) -> None:
        """Finish what was asked, and let go of the file."""
        with self._guard:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join()

    def stamp(self) -> int:
        """Give the instant that counts now: the wall's, or the last stamp where that is later."""
        return max(micros_of(self._clock()), self.last_stamp)

    def _put(self, item: _Asked | _Chore, answer: Future[Answer] | Future[None]) -> None:
        answer.set_running_or_notify_cancel()  # From here on it cannot be cancelled.
        with self._guard:
            if not self._closing:
                self._queue.put(item)
                return
        answer.set_exception(closed())

    # --- in the thread ------------------------------------------------------------------------

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            batch: list[_Asked | _Chore] = []
            item = self._queue.get()
            while item is not None:
                batch.append(item)
                if len(batch) == MOST_TOGETHER:
                    break
                try:
                    item = self._queue.get_nowait()
                except Empty:
                    break
            goes_on = item is not None
            if batch:
                self._carry_out(batch)
        self._drop_connection()

    def _carry_out(self, batch: list[_Asked | _Chore]) -> None:
        answers: list[Answer | Exception | None] = []
        try:
            connection = self._begin()
            wrote_any = False
            for item in batch:
                answer, wrote = self._apart(connection, item, alone=len(batch) == 1)
                answers.append(answer)
                wrote_any = wrote_any or wrote
            if wrote_any and self.last_stamp != self._kept_stamp:
                connection.execute(SQL["put_stamp"], (self.last_stamp,))
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 fails closed: no command of the batch happened
            self._drop_connection()
            for item in batch:
                item.answer.set_exception(as_placet_error(error, self._path))
            return
        if wrote_any:
            self._kept_stamp = self.last_stamp
        for item, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                item.answer.set_exception(answer)
            else:
                item.answer.set_result(answer)  # type: ignore[arg-type]  # each has its own kind

    def _apart(
        self, connection: sqlite3.Connection, item: _Asked | _Chore, *, alone: bool
    ) -> tuple[Answer | Exception | None, bool]:
        """Carry out one item; what it fails with on its own account is its own answer.

        Raises sqlite3.Error where the whole transaction has failed. Says whether it wrote.
        """
        if not alone:
            connection.execute("SAVEPOINT item")
        try:
            if isinstance(item, _Chore):
                item.work(connection)
                answer, wrote = None, True
            else:
                answer, wrote = self._command(connection, item)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
                raise
            if isinstance(item, _Asked):
                self._kept.pop((item.tenant, item.session), None)
            if alone:
                connection.execute("ROLLBACK")
                connection.execute("BEGIN")
            else:
                connection.execute("ROLLBACK TO item")
                connection.execute("RELEASE item")
            return as_placet_error(error, self._path), False
        if not alone:
            connection.execute("RELEASE item")
        return answer, wrote

    def _command(self, connection: sqlite3.Connection, asked: _Asked) -> tuple[Answer, bool]:
        self.last_stamp = stamp = self.stamp()
        key = (asked.tenant, asked.session)
        now = instant_of(stamp)
        if self._keys is None and self._key_rows:
            raise key_missing()
        base = self._kept.get(key) or load_base(
            connection, *key, now=now, keys=self._keys, to_write=True
        )
        if base is None:
            base = _new_session(asked, now)
        parts = SqliteParts(connection, *key)
        named = asked.command.names()
        before = load_named(changed(base.state, now=now), named, parts)
        if asked.command_id:
            events = carried_out(connection, *key, asked.command_id)
            if events is not None:
                return Answer(events=events, state=before, repeated=True), False
        events, after = unfold(before, asked.command)
        if events:
            seal = base.seal
            if seal is None and self._keys is not None and not after.erased:
                seal = self._keys.new_seal(*key)
            change = Change(
                base=base,
                before=before,
                after=after,
                events=events,
                stamp=stamp,
                command_id=asked.command_id,
                seal=seal,
                keys=self._keys,
            )
            base = write(connection, change)
        if base.stored:
            self._keep(key, base)
        return Answer(events=events, state=after), bool(events)

    def forget(self) -> None:
        """Look at the store anew with the next command; for a change beside the sessions."""
        self._kept.clear()
        self._data_version = -1

    def _keep(self, key: tuple[str, str], base: Base) -> None:
        self._kept.pop(key, None)
        self._kept[key] = base
        if len(self._kept) > SESSIONS_KEPT:
            del self._kept[next(iter(self._kept))]

    # --- the connection -----------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        return self._patiently(self._open_at_once)

    def _open_at_once(self) -> sqlite3.Connection:
        make_log_last(self._path)
        self._names_last = False
        connection = connect_writer(self._path)
        try:
            prepare(connection, self._path)
            self._key_rows = take_keys(connection, self._keys, known=None)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self) -> sqlite3.Connection:
        """Open the transaction, and see whether anybody else has written since the last."""
        if identity(self._path) != self._file:
            raise StoreTrouble(
                "store_unreachable",
                "The store's file was moved or replaced while it was open.",
                hint="Nothing was changed; put the file back, or start anew on the new one.",
                path=str(self._path),
            )
        connection = self._connection
        if connection is None:
            connection = self._connection = self._open()
        if not self._names_last:
            make_names_last(self._path)
            self._names_last = True
        self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._data_version = version
            self._kept.clear()
            self._key_rows = take_keys(connection, self._keys, known=self._key_rows)
            row = connection.execute(SQL["stamp"]).fetchone()
            self.last_stamp = max(self.last_stamp, 0 if row is None else row[0])
        return connection

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Attempt what needs a lock until it is given, or for `busy_timeout` of looking for it."""
        waited, looked_at = timedelta(0), time.monotonic()
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                waited += min(timedelta(seconds=now - looked_at), _LONGEST_LOOK)
                looked_at = now
                if primary_code(error) != sqlite3.SQLITE_BUSY or waited >= self._busy_timeout:
                    raise
            longest = _FIRST_PAUSE if waited < _PATIENCE else _LAST_PAUSE
            time.sleep(random.uniform(0, longest.total_seconds()))

    def _drop_connection(self) -> None:
        """Let go of the connection, and of all that was remembered with it."""
        self._kept.clear()
        self._data_version = self._kept_stamp = -1
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):  # Closing rolls back; that it fails changes nothing.
                connection.close()


def closed() -> StoreTrouble:
    """Say that the store was closed."""
    return StoreTrouble("store_closed", "The store was closed.", hint="Open it anew.")


def _new_session(asked: _Asked, now: datetime) -> Base:
    """Give the session that a first run begins; raises NotFound for any other command."""
    if not isinstance(asked.command, StartRun):
        raise no_session(asked.session)
    salt = asked.command.salt or secrets.token_hex(SALT_BYTES)
    state = Session(tenant=asked.tenant, id=asked.session, salt=salt, now=now)
    return Base(state=state, head="", wakes={}, stored=False)
