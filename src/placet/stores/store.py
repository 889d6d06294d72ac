"""The Store: where state lives. Its contract, which one shared suite holds every store to.

Theory of operation. A store has one way to write, `execute`. It loads the session that a command
is of (what is open, and what the command names), stamps it, calls core's `unfold`, and writes
down in one transaction (D3): the events, chained by hash; the parts of the state that changed;
the transcript entries, texts and notices that the events bring; and, in each changed run's row,
when a driver should look at it again. It answers after the commit. A refusal changes nothing and
is the answer; a failed commit fails every command in it, and then none of them happened.

- The stamp never goes back, whatever the wall clock does (G9).
- A command id that was carried out before has the same answer again (D5), and changes nothing.
- Every query begins with the tenant (G11); only `due` looks across tenants, for the worker.
- What a store cannot read (an event or a part written by a newer version) is a `StoreTrouble` with
  code `newer_value` for that session alone (D7).
- A text is held against its reference, and a row's columns against its value, whenever they are
  read: what was put in another's place is refused (`store_damaged`), and nothing is built on it.
- Reads see what was committed before they began, and never wait for a writer.
- A `SessionEnded` that erases destroys the session's texts, and what they were sealed with, in the
  same transaction (H4). Its log, and the rows that follow from it, stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from placet.core.commands import Command, Names
from placet.core.events import Event
from placet.core.records import EntryKind, EntryRow, NameKind, NoticeKind
from placet.core.state import Call, Request, Run, Session
from placet.core.values import Holder, Occurrence
from placet.stores.sealing import KeyPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command brought about, and the session after it.

    `repeated` says that the command's id had been carried out before; then `state` is today's.
    """

    events: tuple[Event, ...]
    state: Session
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run where it is found: its session, and when a driver should look at it."""

    tenant: str
    session: str
    run: Run
    wake_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A request where it is found."""

    tenant: str
    session: str
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event as it stands in the log: `body` is exactly the text that `hash` covers.

    `hash` is SHA-256 over the previous event's hash, the seq, the instant, the kind and the body.
    """

    seq: int
    at: datetime
    kind: str
    body: str
    command_id: str
    previous: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRow:
    """A notice that has not yet left; `attempts` counts how often a channel was given it.

    `channel` is the one that it goes to; empty before it is addressed: every one that there is.
    """

    id: int
    tenant: str
    session: str
    request: str
    kind: NoticeKind
    channel: str = ""
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseRow:
    """Who may go on with a framework's course now: a process, by one `token` each time."""

    token: str
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A session's last event: its seq, and the hash that all events before it lead to."""

    tenant: str
    session: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a session stands to the key of its store (H4).

    Its texts are plain, sealed, or erased. Its head is `keyed` with the store's key; `forged`, by
    who does not have it; `unkeyed`, though the store is under a key; `unchecked`, because no key
    was given; or `plain`, because there is none.
    """

    texts: Literal["plain", "sealed", "erased"]
    head: Literal["keyed", "forged", "unkeyed", "unchecked", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What of a session stands in the store beside its values, whole, to be held to its events.

    `entries` has each transcript entry's kind and its text's reference by (run, step, index),
    `names` a step by (run, kind, name), and `notices` what has not left, by request and kind.
    `events` counts all there are, and `stamp` is the last that the store gave to any command.
    """

    events: int
    stamp: datetime
    calls: frozenset[Occurrence]
    noes: frozenset[tuple[str, str]]
    entries: Mapping[tuple[str, int, int], tuple[EntryKind, str]]
    names: Mapping[tuple[str, NameKind, str], int]
    texts: frozenset[str]
    notices: frozenset[tuple[str, NoticeKind]]


class Store(Protocol):
    """The domain's verbs. All are synchronous, and safe to call from several threads."""

    def execute(
        self, tenant: str, session: str, command: Command, *, command_id: str = ""
    ) -> Future[Answer]:
        """Carry out a command. The future raises what `decide` raised, or StoreTrouble."""
        ...

    def session(self, tenant: str, session: str, names: Names | None = None) -> Session | None:
        """Give a session as a command that names `names` would see it, stamped; None: no such."""
        ...

    def payload(self, tenant: str, session: str, ref: str) -> str:
        """Give a text; raises NotFound, with code `erased` where the session's texts were."""
        ...

    def action(self, tenant: str, session: str, at: Occurrence) -> tuple[Call, str] | None:
        """Give a call, open or not, and the action's text; None: no such call. Raises NotFound."""
        ...

    def transcript(
        self, tenant: str, session: str, run: str, *, since: int = 0
    ) -> Sequence[EntryRow]:
        """Give a run's entries from step `since` on, by (step, index)."""
        ...

    def step_named(
        self, tenant: str, session: str, run: str, *, kind: NameKind, name: str
    ) -> int | None:
        """Find the first step of a run that its framework gave this name; None: no such."""
        ...

    def find_request(self, tenant: str, request: str) -> RequestRow | None:
        """Find a request by its id."""
        ...

    def find_run(self, tenant: str, run: str) -> RunRow | None:
        """Find a run by its id."""
        ...

    def requests(
        self, tenant: str, *, session: str | None = None, pending: bool = True, limit: int = 100
    ) -> Sequence[RequestRow]:
        """Give requests: those that wait for people, by deadline; or all, the newest first."""
        ...

    def runs(
        self, tenant: str, *, session: str | None = None, active: bool = False, limit: int = 100
    ) -> Sequence[RunRow]:
        """Give runs, the newest first."""
        ...

    def sessions(self, tenant: str) -> Sequence[str]:
        """Give the ids of the sessions."""
        ...

    def events(self, tenant: str, session: str, *, after: int = 0) -> Iterator[Recorded]:
        """Give the event log from seq `after` + 1 on (the first event has seq 1)."""
        ...

    def head(self, tenant: str, session: str) -> tuple[int, str] | None:
        """Give seq and hash of a session's last event, as its own row says; None: no such."""
        ...

    def heads(self) -> Iterable[Head]:
        """Give the heads of all sessions, of all tenants, as of one instant, for the anchors."""
        ...

    def standing(self, tenant: str, session: str) -> Standing | None:
        """Say how a session stands to the store's key; None: there is no such session."""
        ...

    def kept(self, tenant: str, session: str) -> Kept:
        """Say what stands of a session beside its values, for `audit verify`."""
        ...

    def strays(self, tenant: str) -> Sequence[str]:
        """Name the sessions of which there are rows, and not their own."""
        ...

    def due(self, *, within: timedelta = timedelta(0), limit: int = 100) -> Sequence[RunRow]:
        """Give runs whose `wake_at` has come, or comes `within` that time, the earliest first."""
        ...

    def outbox(self, tenant: str, *, limit: int = 100) -> Sequence[NoticeRow]:
        """Give a tenant's notices that were neither addressed nor sent yet, the oldest first."""
        ...

    def address(self, notice: int, channels: Sequence[str]) -> None:
        """Put one notice for each of these channels in the place of one of the outbox (H3).

        Each leaves, or does not, on its own. What is not there any more is not addressed again.
        """
        ...

    def take(
        self, tenant: str, channel: str, *, lasts: timedelta, limit: int = 100
    ) -> Sequence[NoticeRow]:
        """Give notices that are due on a channel, and nobody else for the time that is given.

        Those that were never taken come first, in the order in which they were addressed, and then
        those that have been due longest; of one request only the first of all, and the others wait
        until it was sent. Each that is given counts as an attempt.
        """
        ...

    def postpone(self, notice: int, *, lasts: timedelta) -> None:
        """Let a notice that was taken be due again after a time, and not before."""
        ...

    def sent(self, notices: Sequence[int]) -> None:
        """Take notices that have left out of the outbox."""
        ...

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
        """Take the right to go on with a framework's course, and say whose it is then.

        It stays another's until its time is up, unless that one's token is `gone`. Who has it may
        take it again by its token, and so keep it for `lasts` from now.
        """
        ...

    def leave_course(self, tenant: str, course: str, *, token: str) -> None:
        """Give the right to a course up; where another has it by now this changes nothing."""
        ...

    def files(self) -> Sequence[Path]:
        """Name the files that the store keeps its state in, where it does so on this host."""
        ...

    def changes(self) -> int:
        """Give a number that differs whenever something, anywhere, may have been committed."""
        ...

    def check(self) -> dict[str, str]:
        """Say how the store is, for `doctor`: version, integrity, mode. Raises StoreTrouble."""
        ...

    def purge(self) -> bool:
        """Leave nothing of what was erased in what the store keeps beside its state.

        False: somebody still reads an older state, and it is to be asked again.
        """
        ...

    def close(self) -> None:
        """Finish what was asked, and let go. Later calls raise StoreTrouble(`store_closed`)."""
        ...


class KeyedStore(Store, Protocol):
    """A store that can be put under a key (H4). Both verbs need that it is opened with one."""

    def rotate(self, port: KeyPort) -> int:
        """Put the store under another key, and give how many sessions it has.

        No text is touched, and nothing is changed where it fails. Every process with the former
        key is refused from here on, this store too. Raises StoreTrouble.
        """
        ...

    def take_under_key(self, at: Head) -> int:
        """Seal what is plain of a session and key its head, which must still be `at`.

        Gives how many texts were sealed. Raises StoreTrouble, and NotFound.
        """
        ...
