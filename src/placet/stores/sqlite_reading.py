"""From rows of the SQLite store to what is given: requests, runs, notices, courses and texts."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from string import hexdigits
from typing import Any

from placet.core.codec import instant_of
from placet.core.errors import NotFound, StoreTrouble
from placet.core.values import Holder
from placet.stores.sealing import Keys
from placet.stores.sqlite_held import request_in, run_in
from placet.stores.sqlite_keys import Texts, kept_rows
from placet.stores.sqlite_opening import SQL, read_meta
from placet.stores.sqlite_rows import micros_or_none
from placet.stores.store import CourseRow, NoticeRow, RequestRow, RunRow


def scope(what: str, tenant: str, session: str | None) -> tuple[str, tuple[str, ...]]:
    """Choose the query over one session, or over the tenant."""
    if session is None:
        return f"tenant_{what}", (tenant,)
    return f"session_{what}", (tenant, session)


def text_of(
    reading: sqlite3.Connection, tenant: str, session: str, ref: str, keys: Keys | None
) -> str:
    """Read a text, held against its reference; raises NotFound, Closed where it is erased."""
    key = (tenant, session, bytes.fromhex(ref)) if _is_hex(ref) else None
    rows = reading.execute(SQL["payload"], key).fetchall() if key is not None else ()
    if not rows:
        Texts(reading, tenant, session, keys).check_there()
        raise NotFound("payload_not_found", "There is no such text.", ref=ref, session=session)
    return Texts(reading, tenant, session, keys).read(ref.lower(), rows[0][0])


def _is_hex(ref: str) -> bool:
    return len(ref) % 2 == 0 and all(digit in hexdigits for digit in ref)


def request_row(row: tuple[Any, ...]) -> RequestRow:
    """Make a request of its row; raises StoreTrouble where its columns are another's."""
    tenant, session, *held = row
    return RequestRow(tenant=tenant, session=session, request=request_in(*held))


def notice_row(row: tuple[Any, ...]) -> NoticeRow:
    """Make a notice of its row."""
    id_, tenant, session, request, kind, channel, attempts = row
    return NoticeRow(
        id=id_,
        tenant=tenant,
        session=session,
        request=request,
        kind=kind,
        channel=channel,
        attempts=attempts,
    )


def course_row(row: tuple[Any, ...]) -> CourseRow:
    """Make of its row who has the right to a course."""
    token, host, boot, pid, started = row
    return CourseRow(token=token, holder=Holder(host=host, boot=boot, pid=pid, started=started))


def run_row(row: tuple[Any, ...]) -> RunRow:
    """Make a run of its row; raises StoreTrouble where its columns are another's."""
    tenant, session, value, wake, *columns = row
    run = run_in(value, *columns)
    return RunRow(tenant=tenant, session=session, run=run, wake_at=micros_or_none(wake))


def health_of(reading: sqlite3.Connection, path: Path, keys: Keys | None) -> dict[str, str]:
    """Say how a store is: version, integrity, mode; raises StoreTrouble where it is damaged."""
    (integrity,) = reading.execute("PRAGMA quick_check(1)").fetchone()
    (journal,) = reading.execute("PRAGMA journal_mode").fetchone()
    if integrity != "ok":
        raise StoreTrouble(
            "store_damaged",
            f"The store is damaged: {integrity}",
            hint="Keep the file, and bring a backup back, as the page on operating says.",
            path=str(path),
        )
    under_key = bool(kept_rows(reading))
    return {
        "path": str(path),
        "version": str(read_meta(reading, "version")),
        "oldest_reader": str(read_meta(reading, "oldest_reader")),
        "integrity": str(integrity),
        "journal": str(journal),
        "mode": f"{path.stat().st_mode & 0o777:04o}",
        "sqlite": sqlite3.sqlite_version,
        "key": "none" if not under_key else "missing" if keys is None else "given",
        "stamp": instant_of(read_meta(reading, "stamp") or 0).isoformat(timespec="seconds"),
    }
