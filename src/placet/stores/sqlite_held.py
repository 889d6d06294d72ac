"""Rows as they are read: each is held against what stands in it, before anything is built on it.

A row of a part has its value, and beside it the columns by which it is found: its id, and whether
it is open. All of them follow from the value, and a row in which they do not was written by
somebody else: were it believed, an answer to one request would count for another. A text is found
by its reference, which only the session's salt makes of it; for the same reason it is held to that.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from placet.core.codec import UnreadableValue, decode, instant_of, micros_of
from placet.core.state import Approved, Call, Grant, No, Request, Run, RunOver
from placet.core.values import Occurrence, payload_of
from placet.stores.sqlite_opening import SQL, read_meta
from placet.stores.store import Kept

_MOST_SALT_BYTES = 64


def run_in(value: str, *columns: object) -> Run:
    """Read a run of (value, id, active); raises UnreadableValue, NewerValue."""
    run = decode(Run, value)
    _hold("run", columns, (run.id, int(not isinstance(run.state, RunOver))))
    return run


def call_in(value: str, *columns: object) -> Call:
    """Read a call of (value, run, step, place, open); raises UnreadableValue, NewerValue."""
    call = decode(Call, value)
    _hold("call", columns, (call.at.run, call.at.step, call.at.index, int(call.open)))
    return call


def request_in(value: str, *columns: object) -> Request:
    """Read a request of (value, id, pending, deadline_at); raises UnreadableValue, NewerValue."""
    request = decode(Request, value)
    _hold("request", columns, (request.id, pending(request), micros_of(request.deadline_at)))
    return request


def no_in(value: str, *columns: object) -> No:
    """Read a "no" of (value, run, call_key); raises UnreadableValue, NewerValue."""
    no = decode(No, value)
    _hold("no", columns, (no.run, no.call_key))
    return no


def grant_in(value: str, *columns: object) -> Grant:
    """Read a grant of (value, id); raises UnreadableValue, NewerValue."""
    grant = decode(Grant, value)
    _hold("grant", columns, (grant.id,))
    return grant


def pending(request: Request) -> int:
    """Tell apart what waits for people (1), for its approval to be spent (2), and for nothing."""
    if not request.pending:
        return 0
    return 2 if isinstance(request.state, Approved) else 1


def surfaces_in(written: str) -> Mapping[str, int]:
    """Read the generations of a session's surfaces; raises UnreadableValue."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise UnreadableValue(f"the surfaces of a session: {error}") from error
    if not isinstance(found, dict) or not all(type(each) is int for each in found.values()):
        raise UnreadableValue("the surfaces of a session are none")
    return found


def salt_in(written: str) -> str:
    """Give a salt that can be one; raises UnreadableValue."""
    try:
        if len(bytes.fromhex(written)) > _MOST_SALT_BYTES:
            raise ValueError("it is too long")
    except ValueError as error:
        raise UnreadableValue(f"the salt of a session: {error}") from error
    return written


def held_text(salt: str, ref: str, body: str) -> str:
    """Give a text that its reference stands for; raises UnreadableValue where it is another."""
    if payload_of(salt, body).ref != ref:
        raise UnreadableValue(f"the text {ref} is another than was written")
    return body


def must_change(done: sqlite3.Cursor) -> None:
    """Hold that a statement changed its one row; raises UnreadableValue."""
    if done.rowcount != 1:
        raise UnreadableValue("a row that was to be changed is not there")


def _hold(what: str, columns: tuple[object, ...], expected: tuple[object, ...]) -> None:
    if columns != expected:
        raise UnreadableValue(f"the {what} in the row of {columns[0]!r} is not that row's")


# --- what is there ----------------------------------------------------------------------------


def kept_of(connection: sqlite3.Connection, tenant: str, session: str) -> Kept:
    """Say what stands of a session beside its values."""
    key = (tenant, session)

    def rows(query: str) -> list[tuple[Any, ...]]:
        return connection.execute(SQL[query], key).fetchall()

    ((events,),) = rows("kept_events")
    return Kept(
        events=events,
        stamp=instant_of(read_meta(connection, "stamp") or 0),
        calls=frozenset(Occurrence(*place) for place in rows("kept_calls")),
        noes=frozenset((run, key) for run, key in rows("kept_noes")),
        entries={
            (run, step, index): (kind, ref.hex())
            for run, step, index, kind, ref in rows("kept_entries")
        },
        names={(run, kind, name): step for run, kind, name, step in rows("kept_names")},
        texts=frozenset(ref.hex() for (ref,) in rows("kept_texts")),
        notices=frozenset((request, kind) for request, kind in rows("kept_notices")),
    )


def strays_of(connection: sqlite3.Connection, tenant: str) -> list[str]:
    """Name the sessions of which there are rows, and not their own."""
    return [session for (session,) in connection.execute(SQL["strays"], (tenant,))]
