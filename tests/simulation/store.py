"""The simulated store: one process's connection to what is durable, which fails as it is told to.

Theory of operation. Several connections may be open on one `Disk`, each with its own wall clock. A
command is handed to a `Wire`, which says when it is carried out and when its answer arrives, and
whether either fails; without one, both happen at once. Whoever blocks on an answer that has not
come has it carried out there and then, as a thread that waits for it would. Reads ask the wire
too. What is in a `Disk` outlives every process.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, cast

from placet.core.codec import chain_hash, encode, event_kind, instant_of, micros_of
from placet.core.commands import Command, Names
from placet.core.errors import NotFound, StoreTrouble
from placet.core.records import EntryRow, NameKind
from placet.core.state import Approved, Call, Request, RunOver, Session
from placet.core.values import SALT_BYTES, Holder, Occurrence
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
from tests.simulation.disk import Book, Disk, call_at, holdable


class Pending(Future[Answer]):
    """An answer that comes later, unless somebody blocks on it: then it comes now."""

    def __init__(self, carry_out: Callable[[], Answer]) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self._carry_out: Callable[[], Answer] | None = carry_out
        self._found: Answer | Exception | None = None

    def commit(self) -> None:
        """Carry the command out, once; the answer is not told of yet."""
        carry_out, self._carry_out = self._carry_out, None
        if carry_out is None:
            return
        try:
            self._found = carry_out()
        except Exception as error:  # noqa: BLE001  # It is the answer, whatever it is.
            self._found = error

    def arrive(self, instead: Exception | None = None) -> None:
        """Tell of the answer, or of a trouble in its place."""
        if self.done():
            return
        found = self._found if instead is None else instead
        if isinstance(found, Answer):
            self.set_result(found)
        else:
            assert found is not None, "an answer arrives after it was made"
            self.set_exception(found)

    def drop(self) -> None:
        """Let the command never be carried out."""
        self._carry_out = None

    def result(self, timeout: float | None = None) -> Answer:
        if not self.done():
            self.commit()
            self.arrive(None if self._found else unreachable())
        return super().result(timeout)


class Wire(Protocol):
    """What lies between a process and the store."""

    def write(self, pending: Pending) -> None:
        """Have a command carried out, and its answer arrive, or not."""
        ...

    def read(self) -> None:
        """Let a read through, or raise StoreTrouble."""
        ...


class Direct:
    """A wire on which everything happens at once."""

    def write(self, pending: Pending) -> None:
        pending.commit()
        pending.arrive()

    def read(self) -> None:
        return


class SimulatedStore:
    """A connection to a disk. `clock` is the wall clock of the host where its process runs."""

    def __init__(
        self,
        disk: Disk,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        wire: Wire | None = None,
        by: object = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._wire = wire or Direct()
        self._by = by
        self._closed = False
        self._guard = threading.RLock()

    def execute(
        self, tenant: str, session: str, command: Command, *, command_id: str = ""
    ) -> Future[Answer]:
        def carry_out() -> Answer:
            with self._guard:
                return self._disk.execute(
                    tenant,
                    session,
                    command,
                    command_id=command_id,
                    now=micros_of(self._clock()),
                    salt=secrets.token_hex(SALT_BYTES),
                    by=self._by,
                )

        pending = Pending(carry_out)
        if self._closed:
            pending.drop()
            pending.arrive(_closed())
        else:
            self._wire.write(pending)
        return pending

    def address(self, notice: int, channels: Sequence[str]) -> None:
        self._read()
        with self._guard:
            self._disk.address(notice, channels)

    def take(
        self, tenant: str, channel: str, *, lasts: timedelta, limit: int = 100
    ) -> Sequence[NoticeRow]:
        self._read()
        with self._guard:
            until = self._now() + lasts // timedelta(microseconds=1)
            taken = self._disk.take(tenant, channel, now=self._now(), until=until, limit=limit)
            return [self._notice_row(number) for number in taken]

    def postpone(self, notice: int, *, lasts: timedelta) -> None:
        self._read()
        with self._guard:
            if (found := self._disk.outbox.get(notice)) is not None and found.addressed:
                found.due_at = self._now() + lasts // timedelta(microseconds=1)

    def sent(self, notices: Sequence[int]) -> None:
        self._read()
        with self._guard:
            for number in notices:
                self._disk.outbox.pop(number, None)

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
        self._read()
        with self._guard:
            now, key = self._now(), (tenant, course)
            held, until = self._disk.courses.get(key, (None, 0))
            if held is None or until <= now or held.token in (token, gone):
                held = CourseRow(token=token, holder=holder)
                self._disk.courses[key] = held, now + lasts // timedelta(microseconds=1)
            return held

    def leave_course(self, tenant: str, course: str, *, token: str) -> None:
        self._read()
        with self._guard:
            held, _ = self._disk.courses.get((tenant, course), (None, 0))
            if held is not None and held.token == token:
                del self._disk.courses[tenant, course]

    def close(self) -> None:
        self._closed = True

    # --- one session --------------------------------------------------------------------------

    def session(self, tenant: str, session: str, names: Names | None = None) -> Session | None:
        book = self._book(tenant, session)
        with self._guard:
            return None if book is None else self._disk.loaded(book, names or Names(), self._now())

    def payload(self, tenant: str, session: str, ref: str) -> str:
        book = self._book(tenant, session)
        if book is None or ref not in book.payloads:
            raise NotFound("payload_not_found", "There is no such text.", ref=ref, session=session)
        return book.payloads[ref]

    def action(self, tenant: str, session: str, at: Occurrence) -> tuple[Call, str] | None:
        book = self._book(tenant, session)
        call = None if book is None else call_at(book, at)
        if book is None or call is None:
            return None
        return call, self.payload(tenant, session, call.action_ref)

    def transcript(
        self, tenant: str, session: str, run: str, *, since: int = 0
    ) -> Sequence[EntryRow]:
        book = self._book(tenant, session)
        rows = {} if book is None else book.entries.get(run, {})
        return [
            EntryRow(
                run=run,
                step=step,
                index=index,
                kind=entry.kind,
                body=self.payload(tenant, session, entry.payload.ref),
            )
            for (step, index), entry in sorted(rows.items(), key=lambda item: item[0])
            if step >= since
        ]

    def step_named(
        self, tenant: str, session: str, run: str, *, kind: NameKind, name: str
    ) -> int | None:
        book = self._book(tenant, session)
        return None if book is None else book.names.get((run, kind, name))

    def events(self, tenant: str, session: str, *, after: int = 0) -> Iterator[Recorded]:
        book = self._book(tenant, session)
        previous = ""
        for seq, each in enumerate(() if book is None else list(book.log), start=1):
            kind, body = event_kind(each.event), encode(each.event)
            made = chain_hash(previous, seq=seq, at_micros=each.stamp, kind=kind, body=body)
            if seq > after:
                yield Recorded(
                    seq=seq,
                    at=instant_of(each.stamp),
                    kind=kind,
                    body=body,
                    command_id=each.command_id,
                    previous=previous,
                    hash=made,
                )
            previous = made

    def head(self, tenant: str, session: str) -> tuple[int, str] | None:
        last = None
        for each in self.events(tenant, session):
            last = (each.seq, each.hash)
        return last

    # --- across sessions ----------------------------------------------------------------------

    def find_request(self, tenant: str, request: str) -> RequestRow | None:
        self._read()
        holdable(request)
        book = self._disk.requests.get((tenant, request))
        return None if book is None else _request_row(book, book.requests[request])

    def find_run(self, tenant: str, run: str) -> RunRow | None:
        self._read()
        holdable(run)
        book = self._disk.runs.get((tenant, run))
        return None if book is None else _run_row(book, run)

    def requests(
        self, tenant: str, *, session: str | None = None, pending: bool = True, limit: int = 100
    ) -> Sequence[RequestRow]:
        rows = [
            _request_row(book, request)
            for book in self._books(tenant, session)
            for request in book.requests.values()
            if not pending or _waits_for_people(request)
        ]
        if pending:
            rows.sort(key=lambda row: (row.request.deadline_at, row.request.id))
        else:
            place = {key: place for place, key in enumerate(self._disk.requests)}
            rows.sort(key=lambda row: place[row.tenant, row.request.id], reverse=True)
        return rows[:limit]

    def runs(
        self, tenant: str, *, session: str | None = None, active: bool = False, limit: int = 100
    ) -> Sequence[RunRow]:
        rows = [
            _run_row(book, run)
            for book in self._books(tenant, session)
            for run in book.all_runs
            if not active or run in book.base.wakes
        ]
        place = {(book.tenant, run): place for place, (run, book) in enumerate(self._by_age())}
        rows.sort(key=lambda row: place[row.tenant, row.run.id], reverse=True)
        return rows[:limit]

    def sessions(self, tenant: str) -> Sequence[str]:
        return sorted(book.session for book in self._books(tenant, None))

    def due(self, *, within: timedelta = timedelta(0), limit: int = 100) -> Sequence[RunRow]:
        self._read()
        until = self._now() + within // timedelta(microseconds=1)
        with self._guard:
            found = [
                (wake, book.order, run, book)
                for book in self._disk.books.values()
                for run, wake in book.base.wakes.items()
                if wake is not None and wake <= until
            ]
            found.sort(key=lambda each: each[:3])
            return [_run_row(book, run) for _, _, run, book in found[:limit]]

    def outbox(self, tenant: str, *, limit: int = 100) -> Sequence[NoticeRow]:
        self._read()
        return [self._notice_row(number) for number in self._disk.unsent(tenant)[:limit]]

    def _notice_row(self, number: int) -> NoticeRow:
        found = self._disk.outbox[number]
        return NoticeRow(
            id=number,
            tenant=found.tenant,
            session=found.session,
            request=found.notice.request,
            kind=found.notice.kind,
            channel=found.notice.channel,
            attempts=found.attempts,
        )

    def heads(self) -> Sequence[Head]:
        self._read()
        made = []
        for tenant, session in sorted(self._disk.books):
            if (last := self.head(tenant, session)) is not None:
                made.append(Head(tenant=tenant, session=session, seq=last[0], hash=last[1]))
        return made

    def standing(self, tenant: str, session: str) -> Standing | None:
        return (
            None if self._book(tenant, session) is None else Standing(texts="plain", head="plain")
        )

    def kept(self, tenant: str, session: str) -> Kept:
        book = self._book(tenant, session)
        assert book is not None, "only what is there is looked at"
        return Kept(
            events=len(book.log),
            stamp=instant_of(self._disk.stamp),
            calls=frozenset(call.at for step in book.calls.values() for call in step.values()),
            noes=frozenset(book.noes),
            entries={
                (run, *place): (entry.kind, entry.payload.ref)
                for run, places in book.entries.items()
                for place, entry in places.items()
            },
            names={
                (run, cast(NameKind, kind), name): s for (run, kind, name), s in book.names.items()
            },
            texts=frozenset(book.payloads),
            notices=frozenset(
                (found.notice.request, found.notice.kind)
                for found in self._disk.outbox.values()
                if (found.tenant, found.session) == (tenant, session)
            ),
        )

    def strays(self, tenant: str) -> Sequence[str]:
        return ()

    # --- the store itself ---------------------------------------------------------------------

    def purge(self) -> bool:
        return True

    def files(self) -> Sequence[Path]:
        return ()

    def changes(self) -> int:
        self._read()
        return self._disk.changes

    def check(self) -> dict[str, str]:
        self._read()
        return {"integrity": "ok"}

    # ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._closed:
            raise _closed()
        self._wire.read()

    def _now(self) -> int:
        return max(micros_of(self._clock()), self._disk.stamp)

    def _book(self, tenant: str, session: str) -> Book | None:
        self._read()
        return self._disk.books.get((tenant, session))

    def _books(self, tenant: str, session: str | None) -> list[Book]:
        self._read()
        return [
            book
            for book in self._disk.books.values()
            if book.tenant == tenant and session in (None, book.session)
        ]

    def _by_age(self) -> list[tuple[str, Book]]:
        return [(run, book) for (_, run), book in self._disk.runs.items()]


def _run_row(book: Book, run: str) -> RunRow:
    wake = book.base.wakes.get(run)
    return RunRow(
        tenant=book.tenant,
        session=book.session,
        run=book.all_runs[run],
        wake_at=None if wake is None else instant_of(wake),
    )


def _request_row(book: Book, request: Request) -> RequestRow:
    return RequestRow(tenant=book.tenant, session=book.session, request=request)


def _waits_for_people(request: Request) -> bool:
    return request.pending and not isinstance(request.state, Approved)


def _closed() -> StoreTrouble:
    return StoreTrouble("store_closed", "The store was closed.", hint="Open it anew.")


def unreachable() -> StoreTrouble:
    """Say that the store could not be reached, or broke off."""
    return StoreTrouble("store_unreachable", "The store could not be reached.")


__all__ = ["Direct", "Pending", "RunOver", "SimulatedStore", "Wire", "unreachable"]
