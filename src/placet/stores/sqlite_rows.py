"""Rows of the SQLite store: how a session is read from them, and what a command changes in them.

Only parts whose object has changed are written (D6), and of a row only the columns that have: an
index is touched where what it is over has changed. Every query begins with the tenant (G11).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from placet.core.changing import changed
from placet.core.codec import (
    chain_hash,
    decode_event,
    encode,
    event_kind,
    instant_of,
    micros_of,
)
from placet.core.errors import Conflict
from placet.core.events import Event
from placet.core.records import entries, notices, payloads, step_names
from placet.core.state import Call, No, Request, Run, RunOver, Session
from placet.core.work import wake_at
from placet.stores.loading import Base, base_of, load_open
from placet.stores.sealing import Keys, Seal, forged_head, key_missing
from placet.stores.sqlite_held import (
    call_in,
    grant_in,
    must_change,
    no_in,
    pending,
    request_in,
    run_in,
    salt_in,
    surfaces_in,
)
from placet.stores.sqlite_opening import SQL
from placet.stores.sqlite_texts import storable


@dataclass(frozen=True, slots=True)
class SqliteParts:
    """The parts of one session, as `loading` asks for them."""

    connection: sqlite3.Connection
    tenant: str
    session: str

    def run(self, run: str) -> Run | None:
        """Give a run, ended or not."""
        row = self._one("run", run)
        return None if row is None else run_in(*row)

    def step(self, run: str, step: int) -> Iterable[Call]:
        """Give the calls of a step."""
        found = self.connection.execute(SQL["step"], (self.tenant, self.session, run, step))
        return [call_in(*row) for row in found]

    def request(self, request: str) -> Request | None:
        """Give a request, closed or not."""
        row = self._one("request", request)
        return None if row is None else request_in(*row)

    def no(self, run: str, call_key: str) -> No | None:
        """Give a remembered "no"."""
        row = self._one("no", run, call_key)
        return None if row is None else no_in(*row)

    def _one(self, query: str, *key: str) -> Any:
        return self.connection.execute(SQL[query], (self.tenant, self.session, *key)).fetchone()


def load_base(
    connection: sqlite3.Connection,
    tenant: str,
    session: str,
    *,
    now: datetime,
    keys: Keys | None,
    to_write: bool = False,
) -> Base | None:
    """Load what is open in a session; None: there is no such session.

    What is loaded `to_write` on has a head that was written by who has the store's key, and nobody
    writes without one to what is sealed or keyed, whatever the store says of itself. A session that
    is sealed has no salt for who has not: such a state is for reading alone. Raises StoreTrouble.
    """
    key = (tenant, session)
    row = connection.execute(SQL["session"], key).fetchone()
    if row is None:
        return None
    seq, salt, surfaces, head, ended, data_key, mac, erased = row
    seal = None
    if to_write and keys is None and (data_key is not None or mac is not None):
        raise key_missing()
    if data_key is not None:
        seal = keys.seal_of(*key, data_key) if keys is not None else None
        salt = seal.open_salt(salt) if seal is not None else ""
    is_ours = (
        keys is None or mac is None or keys.is_mac(mac, tenant, session, seq=seq, head=head.hex())
    )
    if to_write and not is_ours:
        raise forged_head(tenant, session)
    active = [
        (run_in(value, *columns), wake)
        for value, wake, *columns in connection.execute(SQL["active_runs"], key)
    ]
    state = load_open(
        Session(
            tenant=tenant,
            id=session,
            salt=salt_in(salt),
            now=now,
            seq=seq,
            ended=bool(ended),
            erased=bool(erased),
            surfaces=surfaces_in(surfaces),
            grants={
                grant.id: grant
                for grant in (grant_in(*row) for row in connection.execute(SQL["grants"], key))
            },
        ),
        runs=[run for run, _ in active],
        calls=[call_in(*row) for row in connection.execute(SQL["open_calls"], key)],
        requests=[request_in(*row) for row in connection.execute(SQL["pending_requests"], key)],
        parts=SqliteParts(connection, tenant, session),
    )
    wakes = {run.id: wake for run, wake in active}
    return Base(state=state, head=head.hex(), wakes=wakes, seal=seal, keyed=mac is not None)


def carried_out(
    connection: sqlite3.Connection, tenant: str, session: str, command_id: str
) -> tuple[Event, ...] | None:
    """Give the events of a command that was carried out before; None: it was not (D5)."""
    row = connection.execute(SQL["command"], (tenant, session, command_id)).fetchone()
    if row is None:
        return None
    first, together = row
    bounds = (tenant, session, first, first + together - 1)
    found = connection.execute(SQL["events_between"], bounds)
    return tuple(decode_event(kind, body) for _, _, kind, body, *_ in found)


# --- writing ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a command brings about in a session, and the instant at which it does.

    `seal` is what its texts are sealed with from here on, and `keys` what its head is keyed with.
    """

    base: Base
    before: Session
    after: Session
    events: tuple[Event, ...]
    stamp: int
    command_id: str
    seal: Seal | None = None
    keys: Keys | None = None

    @property
    def erases(self) -> bool:
        """Say whether it destroys the session's texts."""
        return self.after.erased and not self.before.erased

    @property
    def keyed(self) -> bool:
        """Say whether the head has an HMAC: one that had none before is not vouched for now."""
        return self.keys is not None and (self.base.keyed or not self.base.stored)


def write(connection: sqlite3.Connection, change: Change) -> Base:
    """Write a change down, and give the session's next base. Raises Conflict(`run_exists`)."""
    key = (change.after.tenant, change.after.id)
    head = _write_events(connection, key, change)
    _write_beside(connection, key, change)
    wakes = _write_runs(connection, key, change)
    _write_calls(connection, key, change.before, change.after)
    _write_requests(connection, key, change.before, change.after)
    _write_noes(connection, key, change.before, change.after)
    _write_grants(connection, key, change.before, change.after)
    _write_session(connection, key, change, head)
    state, seal = base_of(change.after), change.seal
    if change.erases:
        _erase(connection, key)
        state, seal = changed(state, salt=""), None
    return Base(state=state, head=head, wakes=wakes, seal=seal, keyed=change.keyed)


def _write_events(connection: sqlite3.Connection, key: tuple[str, str], change: Change) -> str:
    rows: list[tuple[object, ...]] = []
    head, seq = change.base.head, change.before.seq
    command_id, together = change.command_id, len(change.events)
    for event in change.events:
        seq += 1
        kind, body = event_kind(event), encode(event)
        head = chain_hash(head, seq=seq, at_micros=change.stamp, kind=kind, body=body)
        hash_ = bytes.fromhex(head)
        rows.append((*key, seq, change.stamp, kind, body, hash_, command_id, together))
        command_id, together = "", 0
    _many(connection, "insert_event", rows)
    return head


def _write_beside(connection: sqlite3.Connection, key: tuple[str, str], change: Change) -> None:
    """Write the texts, transcript entries, names of steps and notices that events bring."""
    events, seal = change.events, change.seal
    texts: list[tuple[object, ...]] = []
    for ref, body in payloads(events).items():
        stored = storable(body)
        texts.append(
            (*key, bytes.fromhex(ref), stored if seal is None else seal.close(ref, stored))
        )
    _many(connection, "put_payload", texts)
    for entry in entries(events):
        place = (entry.run, entry.step, entry.index)
        query = "put_turn" if entry.kind == "turn" else "insert_entry"
        connection.execute(SQL[query], (*key, *place, entry.kind, bytes.fromhex(entry.payload.ref)))
    named = [(*key, each.run, each.kind, each.name, each.step) for each in step_names(events)]
    _many(connection, "put_step_name", named)
    told = [(*key, each.request, each.kind, each.channel) for each in notices(events)]
    _many(connection, "insert_notice", told)


def _write_runs(
    connection: sqlite3.Connection, key: tuple[str, str], change: Change
) -> dict[str, int | None]:
    """Write the runs that have changed, and when they, and others, are to be woken."""
    wakes: dict[str, int | None] = {}
    for run in change.after.runs.values():
        known, woken = change.before.runs.get(run.id), change.base.wakes.get(run.id)
        active = not isinstance(run.state, RunOver)
        wake = _wake(change, run, woken) if active else None
        if active:
            wakes[run.id] = wake
        if known is run:
            if wake != woken:
                _update(connection, "update_run_wake", wake, *key, run.id)
        elif known is None:
            _check_new(connection, key, run.id)
            connection.execute(SQL["insert_run"], (encode(run), active, wake, *key, run.id))
        elif wake == woken and active:
            _update(connection, "update_run_value", encode(run), *key, run.id)
        elif active and not isinstance(known.state, RunOver):
            _update(connection, "update_run_and_wake", encode(run), wake, *key, run.id)
        else:
            _update(connection, "update_run", encode(run), active, wake, *key, run.id)
    return wakes


def _wake(change: Change, run: Run, woken: int | None) -> int | None:
    """Give when a run is to be woken; one that is due already stays due since when it was."""
    at = wake_at(change.after, run)
    wake = None if at is None else micros_of(at)
    if wake is not None and woken is not None and max(wake, woken) <= change.stamp:
        return woken
    return wake


def _check_new(connection: sqlite3.Connection, key: tuple[str, str], run: str) -> None:
    """Hold that a run's id stands for one run in the whole tenant, by which it is found."""
    tenant, _ = key
    if connection.execute(SQL["find_run"], (tenant, run)).fetchone() is not None:
        raise Conflict("run_exists", "That run id stands for another run.", run_id=run)


def _write_calls(
    connection: sqlite3.Connection, key: tuple[str, str], before: Session, after: Session
) -> None:
    if after.calls is before.calls:
        return
    for at, call in after.calls.items():
        known = before.calls.get(at)
        if known is call:
            continue
        place = (*key, at.run, at.step, at.index)
        if known is None:
            connection.execute(SQL["insert_call"], (encode(call), call.open, *place))
        elif known.open == call.open:
            _update(connection, "update_call_value", encode(call), *place)
        else:
            _update(connection, "update_call", encode(call), call.open, *place)


def _write_requests(
    connection: sqlite3.Connection, key: tuple[str, str], before: Session, after: Session
) -> None:
    if after.requests is before.requests:
        return
    for id_, request in after.requests.items():
        known = before.requests.get(id_)
        if known is request:
            continue
        waits = pending(request)
        columns = (encode(request), waits, micros_of(request.deadline_at))
        if known is None:
            connection.execute(SQL["insert_request"], (*columns, *key, id_))
        elif (pending(known), known.deadline_at) == (waits, request.deadline_at):
            _update(connection, "update_request_value", columns[0], *key, id_)
        else:
            _update(connection, "update_request", *columns, *key, id_)


def _write_noes(
    connection: sqlite3.Connection, key: tuple[str, str], before: Session, after: Session
) -> None:
    if after.noes is before.noes:
        return
    for place, no in after.noes.items():
        if before.noes.get(place) is not no:
            connection.execute(SQL["put_no"], (encode(no), *key, *place))


def _write_grants(
    connection: sqlite3.Connection, key: tuple[str, str], before: Session, after: Session
) -> None:
    if after.grants is before.grants:
        return
    for id_ in before.grants.keys() - after.grants.keys():
        connection.execute(SQL["delete_grant"], (*key, id_))
    for id_, grant in after.grants.items():
        if before.grants.get(id_) is not grant:
            connection.execute(SQL["put_grant"], (encode(grant), *key, id_))


def _write_session(
    connection: sqlite3.Connection, key: tuple[str, str], change: Change, head: str
) -> None:
    after, hash_, seal, mac = change.after, bytes.fromhex(head), change.seal, None
    surfaces = json.dumps(dict(after.surfaces), separators=(",", ":"))
    if change.keys is not None and change.keyed:
        mac = change.keys.mac(*key, seq=after.seq, head=head)
    kept = (after.salt, None) if seal is None else (seal.close_salt(after.salt), seal.wrapped)
    row = (after.seq, surfaces, hash_, after.ended, mac)
    if not change.base.stored:
        connection.execute(SQL["insert_session"], (*row, *kept, *key))
        return
    _update(connection, "update_session", *row, *key)
    if seal is not change.base.seal:
        _update(connection, "put_data_key", *kept, *key)


def _erase(connection: sqlite3.Connection, key: tuple[str, str]) -> None:
    """Destroy the texts of a session with their key and salt, in the file too (H4)."""
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(SQL["erase_texts"], key)
    connection.execute(SQL["erase_session"], key)
    connection.execute("PRAGMA secure_delete = FAST")


def _update(connection: sqlite3.Connection, query: str, *values: object) -> None:
    """Change one row, which must be there."""
    must_change(connection.execute(SQL[query], values))


def _many(connection: sqlite3.Connection, query: str, rows: Sequence[tuple[object, ...]]) -> None:
    if len(rows) == 1:
        connection.execute(SQL[query], rows[0])
    elif rows:
        connection.executemany(SQL[query], rows)


def micros_or_none(at: int | None) -> datetime | None:
    """Give an instant of a column that may be empty."""
    return None if at is None else instant_of(at)
