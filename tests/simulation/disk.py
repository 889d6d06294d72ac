"""What a simulated store keeps, in memory: the rows of a database, and one transaction on them.

It decides by the real `unfold`, loads by the real `stores/loading.py`, and keeps parts as the
values that they are; the log is written down in its stored form only when it is read. A commit is
told of to whoever watches, with all that it brought about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from placet.core.changing import changed
from placet.core.codec import instant_of, micros_of
from placet.core.commands import Command, Names, StartRun
from placet.core.decide import unfold
from placet.core.errors import Conflict, InvalidInput, NotFound
from placet.core.events import Event
from placet.core.records import Entry, Notice, entries, notices, payloads, step_names
from placet.core.state import Call, No, Request, Run, RunOver, Session
from placet.core.values import Occurrence, Payload
from placet.core.work import wake_at
from placet.stores.loading import Base, base_of, load_named
from placet.stores.store import Answer, CourseRow


@dataclass(frozen=True, slots=True)
class Logged:
    """An event as it was committed."""

    stamp: int
    event: Event
    command_id: str


@dataclass(slots=True)
class Book:
    """The rows of one session."""

    tenant: str
    session: str
    salt: str
    order: int
    base: Base
    log: list[Logged] = field(default_factory=list)
    all_runs: dict[str, Run] = field(default_factory=dict)
    calls: dict[tuple[str, int], dict[int, Call]] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    noes: dict[tuple[str, str], No] = field(default_factory=dict)
    payloads: dict[str, str] = field(default_factory=dict)
    entries: dict[str, dict[tuple[int, int], Entry]] = field(default_factory=dict)
    names: dict[tuple[str, str, str], int] = field(default_factory=dict)
    commands: dict[str, tuple[int, int]] = field(default_factory=dict)

    # --- how a session is loaded: `loading.Parts` ---------------------------------------------

    def run(self, run: str) -> Run | None:
        return self.all_runs.get(run)

    def step(self, run: str, step: int) -> Iterable[Call]:
        return self.calls.get((run, step), {}).values()

    def request(self, request: str) -> Request | None:
        return self.requests.get(request)

    def no(self, run: str, call_key: str) -> No | None:
        return self.noes.get((run, call_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a command has brought about."""

    tenant: str
    session: str
    command: Command
    seq: int
    stamp: int
    events: tuple[Event, ...]
    before: Session
    after: Session


@dataclass(slots=True)
class Outgoing:
    """A notice that has not left; `due_at` in microseconds."""

    tenant: str
    session: str
    notice: Notice
    addressed: bool = False
    attempts: int = 0
    due_at: int = 0


class Disk:
    """All that is durable. `watch` is called with every commit that changed something."""

    def __init__(self) -> None:
        self.books: dict[tuple[str, str], Book] = {}
        self.outbox: dict[int, Outgoing] = {}
        self.courses: dict[tuple[str, str], tuple[CourseRow, int]] = {}
        self.runs: dict[tuple[str, str], Book] = {}
        self.requests: dict[tuple[str, str], Book] = {}
        self.stamp = 0
        self.changes = 0
        self.watch: Callable[[Commit, object], None] | None = None
        self._notices = 0

    def execute(
        self,
        tenant: str,
        session: str,
        command: Command,
        *,
        command_id: str,
        now: int,
        salt: str,
        by: object,
    ) -> Answer:
        """Carry out a command in one transaction; `salt` is a new session's own, `by` who asks."""
        for text in (tenant, session, command_id):
            holdable(text)
        self.stamp = stamp = max(now, self.stamp)
        book = self.books.get((tenant, session))
        if book is None:
            if not isinstance(command, StartRun):
                raise NotFound("session_not_found", "There is no such session.", session=session)
            salt = command.salt or salt
            state = Session(tenant=tenant, id=session, salt=salt, now=instant_of(stamp))
            base = Base(state=state, head="", wakes={}, stored=False)
            book = Book(tenant, session, salt, len(self.books), base)
        before = self.loaded(book, command.names(), stamp)
        if command_id and (known := book.commands.get(command_id)) is not None:
            first, together = known
            repeated = tuple(each.event for each in book.log[first - 1 : first - 1 + together])
            return Answer(
                events=tuple(_without_texts(each) for each in repeated), state=before, repeated=True
            )
        events, after = unfold(before, command)
        if events:
            self._write(book, before, after, events, stamp, command_id)
            if self.watch is not None:
                self.watch(
                    Commit(
                        tenant=tenant,
                        session=session,
                        command=command,
                        seq=before.seq,
                        stamp=stamp,
                        events=events,
                        before=before,
                        after=after,
                    ),
                    by,
                )
        return Answer(events=events, state=after)

    def loaded(self, book: Book, names: Names, stamp: int) -> Session:
        """Load a session as a command that names these would see it."""
        return load_named(changed(book.base.state, now=instant_of(stamp)), names, book)

    def unsent(self, tenant: str) -> list[int]:
        """Give a tenant's notices, the oldest first."""
        return [n for n, it in self.outbox.items() if it.tenant == tenant and not it.addressed]

    def address(self, number: int, channels: Iterable[str]) -> None:
        """Put a notice for each channel in the place of one that is not addressed yet."""
        if (found := self.outbox.get(number)) is None or found.addressed:
            return
        for channel in dict.fromkeys(channels):
            self._notices += 1
            notice = replace(found.notice, channel=channel)
            self.outbox[self._notices] = Outgoing(
                found.tenant, found.session, notice, addressed=True
            )
        del self.outbox[number]

    def take(self, tenant: str, channel: str, *, now: int, until: int, limit: int) -> list[int]:
        """Give the numbers of what is due on a channel: of each request the first alone."""
        first: dict[str, int] = {}
        for number, it in self.outbox.items():
            if it.addressed and (it.tenant, it.notice.channel) == (tenant, channel):
                first.setdefault(it.notice.request, number)
        due = [number for number in first.values() if self.outbox[number].due_at <= now]
        taken = sorted(due, key=lambda number: (self.outbox[number].due_at, number))[:limit]
        for number in taken:
            self.outbox[number].due_at = until
            self.outbox[number].attempts += 1
        return taken

    # --- writing ------------------------------------------------------------------------------

    def _write(
        self,
        book: Book,
        before: Session,
        after: Session,
        events: tuple[Event, ...],
        stamp: int,
        command_id: str,
    ) -> None:
        tenant, session = book.tenant, book.session
        for run in after.runs:
            holdable(run)
            if run not in before.runs and (tenant, run) in self.runs:
                told = "That run id stands for another run."
                raise Conflict("run_exists", told, run_id=run)
        added = entries(events)
        for entry in added:
            taken = book.entries.get(entry.run, {}).get((entry.step, entry.index))
            assert taken is None or entry.kind == "turn", f"two results at {entry}"
        if not book.base.stored:
            self.books[tenant, session] = book
        for entry in added:
            book.entries.setdefault(entry.run, {})[entry.step, entry.index] = entry
        if command_id:
            book.commands[command_id] = (before.seq + 1, len(events))
        for event in events:
            book.log.append(Logged(stamp, event, command_id))
            command_id = ""
        book.payloads.update(payloads(events))
        for named in step_names(events):
            book.names.setdefault((named.run, named.kind, named.name), named.step)
        for notice in notices(events):
            self._notices += 1
            self.outbox[self._notices] = Outgoing(tenant, session, notice)
        wakes = self._write_parts(book, before, after, stamp)
        book.base = Base(state=base_of(after), head="", wakes=wakes)
        self.changes += 1

    def _write_parts(
        self, book: Book, before: Session, after: Session, stamp: int
    ) -> dict[str, int | None]:
        wakes: dict[str, int | None] = {}
        for id_, run in after.runs.items():
            if before.runs.get(id_) is not run:
                book.all_runs[id_] = run
                self.runs[book.tenant, id_] = book
            if not isinstance(run.state, RunOver):
                wakes[id_] = _wake(after, run, book.base.wakes.get(id_), stamp)
        for at, call in after.calls.items():
            if before.calls.get(at) is not call:
                book.calls.setdefault((at.run, at.step), {})[at.index] = call
        for id_, request in after.requests.items():
            if before.requests.get(id_) is not request:
                book.requests[id_] = request
                self.requests[book.tenant, id_] = book
        for key, no in after.noes.items():
            if before.noes.get(key) is not no:
                book.noes[key] = no
        return wakes


def _wake(state: Session, run: Run, woken: int | None, stamp: int) -> int | None:
    """Give when a run is to be woken; one that is due already stays due since when it was."""
    at = wake_at(state, run)
    wake = None if at is None else micros_of(at)
    if wake is not None and woken is not None and max(wake, woken) <= stamp:
        return woken
    return wake


def holdable(text: str) -> None:
    """Hold an id to be one that a store can hold; raises InvalidInput."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput("unstorable", f"An id that no store can hold: {error}") from error


def _without_texts(event: Event) -> Event:
    """Give an event as it is read back: of texts the reference alone."""
    for name in event.__slots__:
        value = getattr(event, name)
        if isinstance(value, Payload) and value.body is not None:
            event = changed(event, **{name: Payload(value.ref)})
    return event


def instant(micros: int) -> datetime:
    """Give the instant of a stamp."""
    return instant_of(micros)


def call_at(book: Book, at: Occurrence) -> Call | None:
    """Give a call of a session, open or not."""
    return book.calls.get((at.run, at.step), {}).get(at.index)
