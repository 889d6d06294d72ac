"""The SQLite store: one file, one writing thread, any number of readers; the default store.

Theory of operation. Writing is `sqlite_writer`'s. Reading takes a connection of its own from a
small pool, opens a snapshot, reads, and gives the connection back: in WAL mode neither waits for
the other. Several processes may open one file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from placet.core.codec import NewerValue, instant_of
from placet.core.commands import Command, Names
from placet.core.errors import StoreTrouble
from placet.core.records import EntryRow, NameKind
from placet.core.state import Call, Session
from placet.core.values import Holder, Occurrence
from placet.stores.loading import load_named
from placet.stores.sealing import KeyPort, Keys, key_missing
from placet.stores.sqlite_held import call_in, kept_of, strays_of
from placet.stores.sqlite_keys import (
    Texts,
    cut_log,
    heads_of,
    rotate,
    standing_of,
    take_under_key,
)
from placet.stores.sqlite_opening import (
    SQL,
    connect_reader,
    create_file,
    identity,
    placet_errors,
    read_meta,
)
from placet.stores.sqlite_reading import (
    course_row,
    health_of,
    notice_row,
    request_row,
    run_row,
    scope,
    text_of,
)
from placet.stores.sqlite_rows import SqliteParts, load_base
from placet.stores.sqlite_writer import Writer, check_process, closed
from placet.stores.store import (
    Answer,
    CourseRow,
    Head,
    Kept,
    NoticeRow,
    Recorded,
    RequestRow,
    RunRow,
    Standing,
)

T = TypeVar("T")

#: How many idle connections are kept for reading.
READERS_KEPT = 8

_EVENTS_AT_ONCE = 500


def utc_now() -> datetime:
    """Give the wall's time."""
    return datetime.now(UTC)


class SqliteStore:
    """State in one SQLite file; `Store` says what each verb does.

    `clock` gives aware instants; `busy_timeout` is how long to wait while another process writes.
    With a `key` what is new is sealed, and heads are keyed (H4). Raises StoreTrouble where the file
    cannot be opened, made, or brought up to date, or is under another key.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Callable[[], datetime] = utc_now,
        busy_timeout: timedelta = timedelta(seconds=5),
        key: KeyPort | None = None,
    ) -> None:
        self.path = Path(path)
        self._keys = None if key is None else Keys(key)
        self._busy_timeout = busy_timeout
        self._idle: list[sqlite3.Connection] = []
        self._watching: sqlite3.Connection | None = None
        self._guard = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        with placet_errors(self.path):
            create_file(self.path)
            self._file = identity(self.path)
            self._writer = Writer(
                self.path, clock=clock, busy_timeout=busy_timeout, keys=self._keys
            )

    # --- writing ------------------------------------------------------------------------------

    def execute(
        self, tenant: str, session: str, command: Command, *, command_id: str = ""
    ) -> Future[Answer]:
        """Carry out a command. The future raises what `decide` raised, or StoreTrouble."""
        return self._writer.execute(tenant, session, command, command_id)

    def address(self, notice: int, channels: Sequence[str]) -> None:
        """Put one notice for each of these channels in the place of one of the outbox (H3)."""
        rows = [(channel, notice) for channel in dict.fromkeys(channels)]

        def work(writing: sqlite3.Connection) -> None:
            writing.executemany(SQL["address_notice"], rows)
            writing.execute(SQL["delete_addressed"], (notice,))

        self._writer.do(work).result()

    def take(
        self, tenant: str, channel: str, *, lasts: timedelta, limit: int = 100
    ) -> Sequence[NoticeRow]:
        """Give notices that are due on a channel, and nobody else for the time that is given."""
        if not self._rows("due_notices", tenant, channel, self._later(), 1):
            return []  # Looking is no writing, and nobody who only looks waits for a writer.
        taken: list[NoticeRow] = []

        def work(writing: sqlite3.Connection) -> None:
            due = (tenant, channel, self._later(), limit)
            found = writing.execute(SQL["due_notices"], due).fetchall()
            until = self._later(lasts)
            writing.executemany(SQL["take_notice"], [(until, row[0]) for row in found])
            taken.extend(notice_row((*row[:-1], row[-1] + 1)) for row in found)

        self._writer.do(work).result()
        return taken

    def postpone(self, notice: int, *, lasts: timedelta) -> None:
        """Let a notice that was taken be due again after a time, and not before."""

        def work(writing: sqlite3.Connection) -> None:
            writing.execute(SQL["postpone_notice"], (self._later(lasts), notice))

        self._writer.do(work).result()

    def sent(self, notices: Sequence[int]) -> None:
        """Take notices that have left out of the outbox."""
        ids = [(id_,) for id_ in notices]
        if ids:
            self._writer.do(lambda writing: _delete(writing, ids)).result()

    def take_course(
        self,
        tenant: str,
        course: str,
        *,
        token: str,
        holder: Holder,
        lasts: timedelta,
        gone: str = "",
    ) -> CourseRow:
        """Take the right to go on with a framework's course, and say whose it is then."""
        found: list[CourseRow] = []
        process = (holder.host, holder.boot, holder.pid, holder.started)

        def work(writing: sqlite3.Connection) -> None:
            now, until = self._later(), self._later(lasts)
            row = (tenant, course, token, *process, until, now, gone)
            writing.execute(SQL["take_course"], row)
            found.append(course_row(writing.execute(SQL["course"], (tenant, course)).fetchone()))

        self._writer.do(work).result()
        return found[-1]

    def leave_course(self, tenant: str, course: str, *, token: str) -> None:
        """Give the right to a course up; where another has it by now this changes nothing."""
        row = (tenant, course, token)

        def work(writing: sqlite3.Connection) -> None:
            writing.execute(SQL["leave_course"], row)

        self._writer.do(work).result()

    def _later(self, lasts: timedelta = timedelta(0)) -> int:
        return self._writer.stamp() + lasts // timedelta(microseconds=1)

    def close(self) -> None:
        """Finish what was asked, and let go. Later calls raise StoreTrouble(`store_closed`)."""
        if self._process != os.getpid():  # The file is the process's that opened it.
            return
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            if self._watching is not None:
                idle.append(self._watching)
                self._watching = None
        for connection in idle:
            connection.close()
        # The writer is the last to let go, because only it may carry the log over into the file.
        self._writer.close()

    # --- one session --------------------------------------------------------------------------

    def session(self, tenant: str, session: str, names: Names | None = None) -> Session | None:
        """Give a session as a command that names `names` would see it, stamped; None: no such."""
        with self._snapshot() as reading:
            stamp = max(self._writer.stamp(), read_meta(reading, "stamp") or 0)
            base = load_base(reading, tenant, session, now=instant_of(stamp), keys=self._keys)
            if base is None:
                return None
            return load_named(base.state, names or Names(), SqliteParts(reading, tenant, session))

    def payload(self, tenant: str, session: str, ref: str) -> str:
        """Give a text; raises NotFound, with code `erased` where the session's texts were."""
        with self._lent() as reading:
            return text_of(reading, tenant, session, ref, self._keys)

    def action(self, tenant: str, session: str, at: Occurrence) -> tuple[Call, str] | None:
        """Give a call, open or not, and the action's text; None: no such call. Raises NotFound."""
        with self._snapshot() as reading:
            place = (tenant, session, at.run, at.step, at.index)
            row = reading.execute(SQL["call"], place).fetchone()
            if row is None:
                return None
            call = call_in(*row)
            return call, text_of(reading, tenant, session, call.action_ref, self._keys)

    def transcript(
        self, tenant: str, session: str, run: str, *, since: int = 0
    ) -> Sequence[EntryRow]:
        """Give a run's entries from step `since` on, by (step, index)."""
        with self._lent() as reading:
            rows = reading.execute(SQL["transcript"], (tenant, session, run, since)).fetchall()
            texts = Texts(reading, tenant, session, self._keys)
            if not rows:
                texts.check_there()
            return [
                EntryRow(
                    run=run, step=step, index=index, kind=kind, body=texts.read(ref.hex(), body)
                )
                for step, index, kind, ref, body in rows
            ]

    def step_named(
        self, tenant: str, session: str, run: str, *, kind: NameKind, name: str
    ) -> int | None:
        """Find the first step of a run that its framework gave this name; None: no such."""
        row = self._row("step_named", tenant, session, run, kind, name)
        return None if row is None else int(row[0])

    def events(self, tenant: str, session: str, *, after: int = 0) -> Iterator[Recorded]:
        """Give the event log from seq `after` + 1 on (the first event has seq 1)."""
        after = max(after, 0)
        previous = b""
        while True:
            bounds = (tenant, session, after, after + _EVENTS_AT_ONCE)
            rows = self._rows("events_between", *bounds)
            for seq, at, kind, body, hash_, command_id in rows:
                if seq > after:
                    with placet_errors(self.path):
                        stamped = instant_of(at)
                    yield Recorded(
                        seq=seq,
                        at=stamped,
                        kind=kind,
                        body=body,
                        command_id=command_id,
                        previous=previous.hex(),
                        hash=hash_.hex(),
                    )
                previous = hash_
            if not rows or rows[-1][0] == after:
                return
            after = rows[-1][0]

    def head(self, tenant: str, session: str) -> tuple[int, str] | None:
        """Give seq and hash of a session's last event, as its own row says; None: no such."""
        row = self._row("session", tenant, session)
        return None if row is None else (int(row[0]), row[3].hex())

    # --- across sessions ----------------------------------------------------------------------

    def find_request(self, tenant: str, request: str) -> RequestRow | None:
        """Find a request by its id."""
        row = self._row("find_request", tenant, request)
        with placet_errors(self.path):
            return None if row is None else request_row(row)

    def find_run(self, tenant: str, run: str) -> RunRow | None:
        """Find a run by its id."""
        row = self._row("find_run", tenant, run)
        with placet_errors(self.path):
            return None if row is None else run_row(row)

    def requests(
        self, tenant: str, *, session: str | None = None, pending: bool = True, limit: int = 100
    ) -> Sequence[RequestRow]:
        """Give requests: those that wait for people, by deadline; or all, the newest first."""
        what = "pending" if pending else "requests"
        query, key = scope(what, tenant, session)
        return self._read(request_row, query, *key, limit=limit)

    def runs(
        self, tenant: str, *, session: str | None = None, active: bool = False, limit: int = 100
    ) -> Sequence[RunRow]:
        """Give runs, the newest first."""
        query, key = scope("active_runs" if active else "runs", tenant, session)
        return self._read(run_row, query, *key, limit=limit)

    def sessions(self, tenant: str) -> Sequence[str]:
        """Give the ids of the sessions."""
        return [id_ for (id_,) in self._rows("sessions", tenant)]

    def heads(self) -> Sequence[Head]:
        """Give the heads of all sessions, of all tenants, as of one instant, for the anchors."""
        with self._lent() as reading:
            return list(heads_of(reading))

    def standing(self, tenant: str, session: str) -> Standing | None:
        """Say how a session stands to the store's key; None: there is no such session."""
        with self._snapshot() as reading:
            return standing_of(reading, tenant, session, self._keys)

    def kept(self, tenant: str, session: str) -> Kept:
        """Say what stands of a session beside its values, for `audit verify`."""
        with self._snapshot() as reading:
            return kept_of(reading, tenant, session)

    def strays(self, tenant: str) -> Sequence[str]:
        """Name the sessions of which there are rows, and not their own."""
        with self._lent() as reading:
            return strays_of(reading, tenant)

    def due(self, *, within: timedelta = timedelta(0), limit: int = 100) -> Sequence[RunRow]:
        """Give runs whose `wake_at` has come, or comes `within` that time, the earliest first."""
        with self._snapshot() as reading:
            stamp = max(self._writer.stamp(), read_meta(reading, "stamp") or 0)
        until = stamp + within // timedelta(microseconds=1)
        return self._read(run_row, "due", until, limit=limit)

    def outbox(self, tenant: str, *, limit: int = 100) -> Sequence[NoticeRow]:
        """Give the notices that were neither addressed nor sent yet, the oldest first."""
        return [notice_row(row) for row in self._rows("outbox", tenant, limit)]

    # --- the store itself ---------------------------------------------------------------------

    def files(self) -> Sequence[Path]:
        """Name the database; SQLite keeps others beside it, by its name."""
        return (self.path,)

    def changes(self) -> int:
        """Give a number that differs whenever something, anywhere, may have been committed."""
        check_process(self._process)
        with placet_errors(self.path), self._guard:
            if self._closed:
                raise closed()
            if self._watching is None:
                self._watching = connect_reader(self.path, busy_timeout=self._busy_timeout)
            (version,) = self._watching.execute("PRAGMA data_version").fetchone()
            return int(version)

    def check(self) -> dict[str, str]:
        """Say how the store is, for `doctor`: version, integrity, mode. Raises StoreTrouble."""
        with self._snapshot() as reading:
            return health_of(reading, self.path, self._keys)

    def purge(self) -> bool:
        """Cut the log that SQLite keeps beside the file; False: somebody reads an older state."""
        with placet_errors(self.path):
            return cut_log(self.path, patience=self._busy_timeout)

    # --- keys ---------------------------------------------------------------------------------

    def rotate(self, port: KeyPort) -> int:
        """Put the store under another key, and give how many sessions it has."""
        keys, new, counted = self._given_keys(), Keys(port), [0]

        def work(writing: sqlite3.Connection) -> None:
            counted[0] = rotate(writing, keys, new)
            self._writer.forget()

        self._writer.do(work).result()
        return counted[0]

    def take_under_key(self, at: Head) -> int:
        """Seal what is plain of a session and key its head, which must still be `at`."""
        keys, counted = self._given_keys(), [0]

        def work(writing: sqlite3.Connection) -> None:
            counted[0] = take_under_key(writing, keys, at.tenant, at.session, at=at)
            self._writer.forget()

        self._writer.do(work).result()
        return counted[0]

    def _given_keys(self) -> Keys:
        if self._keys is None:
            raise key_missing()
        return self._keys

    # --- reading ------------------------------------------------------------------------------

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one query that is read to its end, which needs no transaction."""
        with placet_errors(self.path):
            connection = self._take()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection on which all reads of the block see the same commit."""
        with self._lent() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    def _take(self) -> sqlite3.Connection:
        check_process(self._process)
        if self._closed:
            raise closed()
        if identity(self.path) != self._file:
            raise StoreTrouble(
                "store_unreachable",
                "The store's file was moved or replaced while it was open.",
                hint="Put the file back, or start anew on the new one.",
                path=str(self.path),
            )
        try:
            return self._idle.pop()
        except IndexError:
            return connect_reader(self.path, busy_timeout=self._busy_timeout)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._guard:
            if not self._closed and len(self._idle) < READERS_KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def _rows(self, query: str, *values: str | int | bytes) -> list[tuple[Any, ...]]:
        with self._lent() as reading:
            return reading.execute(SQL[query], values).fetchall()

    def _row(self, query: str, *values: str | int | bytes) -> tuple[Any, ...] | None:
        rows = self._rows(query, *values)
        return rows[0] if rows else None

    def _read(
        self, make: Callable[[tuple[Any, ...]], T], query: str, *values: str | int, limit: int
    ) -> list[T]:
        """Read up to `limit` rows, leaving alone those that a newer version wrote (D7)."""
        found: list[T] = []
        with self._snapshot() as reading:
            for row in reading.execute(SQL[query], values):
                if len(found) >= limit:
                    break
                with suppress(NewerValue):
                    found.append(make(row))
        return found


def _delete(writing: sqlite3.Connection, ids: Sequence[tuple[int]]) -> None:
    writing.executemany(SQL["delete_notice"], ids)
