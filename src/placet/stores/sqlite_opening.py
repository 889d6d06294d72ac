"""Opening a SQLite store: its file, its settings, its migrations, and what its errors mean.

A new file is made readable by its owner alone (SQLite gives its `-wal` and `-shm` the same mode).
A database says its version and the oldest version that may still work with it (D7); only one whose
oldest reader is newer than this program is refused.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from placet.core.codec import NewerValue, UnreadableValue
from placet.core.errors import InvalidInput, PlacetError, StoreTrouble
from placet.stores.sqlite_texts import name_in

_FILES = Path(__file__).with_name("sql") / "sqlite"
_FILE_MODE = 0o600
_STATEMENTS_KEPT = 256

#: How many pages the log may hold before a commit carries them over into the database.
_PAGES_BETWEEN_CHECKPOINTS = 1_000

#: How much of a log that is written again is read at a time.
_WRITTEN_AT_ONCE = 1 << 20

#: Texts of a few kilobytes fill such pages better than those of SQLite's own 4 KB.
PAGE_BYTES = 8_192

_NAME = re.compile(r"^-- name: (\w+)\n(?:--.*\n)+", re.MULTILINE)
_OLDEST_READER = re.compile(r"^-- oldest_reader: (\d+)$", re.MULTILINE)


def _queries(text: str) -> dict[str, str]:
    """Read a file of named blocks: `-- name: …`, what it is for, one statement."""
    _, *parts = _NAME.split(text)
    return {
        name: statement.strip().removesuffix(";")
        for name, statement in zip(parts[::2], parts[1::2], strict=True)
    }


#: The queries of queries.sql, by name.
SQL: Mapping[str, str] = _queries((_FILES / "queries.sql").read_text(encoding="utf-8"))

#: The migrations, by number, in the order in which they are to be run.
MIGRATIONS: Mapping[int, Path] = {
    int(path.name.split("_")[0]): path for path in sorted(_FILES.glob("[0-9]*.sql"))
}

#: The version of the databases that this program makes.
VERSION = max(MIGRATIONS)


# --- errors -----------------------------------------------------------------------------------

_TROUBLES: Mapping[int, tuple[str, str, str]] = {
    sqlite3.SQLITE_BUSY: (
        "store_locked",
        "Another process keeps the store locked.",
        "Nothing was changed; try again. If it stays so, see which process has the file open.",
    ),
    sqlite3.SQLITE_READONLY: (
        "store_read_only",
        "The store may only be read here.",
        "Give this account the right to write the file and its directory.",
    ),
    sqlite3.SQLITE_FULL: (
        "store_full",
        "There is no room left for the store.",
        "Nothing was changed; free some disk space and try again.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "store_damaged",
        "The store is damaged, or is no SQLite database.",
        "Nothing was changed. A disk that cannot be read looks the same, so see to that first; keep"
        " the file, and only if it stays so bring a backup back, as the page on operating says.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "store_unreachable",
        "The store cannot be opened.",
        "See that its directory is there and may be entered.",
    ),
    sqlite3.SQLITE_IOERR: (
        "store_unreachable",
        "The disk under the store answers with errors, or has no room left.",
        "What was asked may have happened or not; ask again once the disk is well.",
    ),
}

_SAME_AS: Mapping[int, int] = {
    sqlite3.SQLITE_LOCKED: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_PERM: sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_AUTH: sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOTADB: sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT: sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CONSTRAINT: sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_MISMATCH: sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR: sqlite3.SQLITE_CORRUPT,
}

_OF_ERRNO: Mapping[int, int] = {
    errno.EACCES: sqlite3.SQLITE_READONLY,
    errno.EPERM: sqlite3.SQLITE_READONLY,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
}


def primary_code(error: sqlite3.Error) -> int:
    """Give SQLite's primary result code of an error."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # The module's own: a text that is no UTF-8, a column of the wrong type.
        return sqlite3.SQLITE_CORRUPT
    primary = int(code) & 0xFF
    return _SAME_AS.get(primary, primary)


def trouble(error: sqlite3.Error | OSError, path: Path) -> StoreTrouble:
    """Say what an error of SQLite or of the system means for the store."""
    if isinstance(error, OSError):
        code = _OF_ERRNO.get(error.errno or 0, sqlite3.SQLITE_CANTOPEN)
    else:
        code = primary_code(error)
    # The module asks without raising: a writer that fails while it says what failed answers nobody.
    if code == sqlite3.SQLITE_CANTOPEN and os.path.isfile(path) and not _writable(path):
        code = sqlite3.SQLITE_READONLY  # Even reading needs the files beside it.
    name, message, hint = _TROUBLES.get(code, _TROUBLES[sqlite3.SQLITE_IOERR])
    return StoreTrouble(name, f"{message} ({error})", hint=hint, path=str(path))


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def as_placet_error(error: Exception, path: Path) -> Exception:
    """Give what a caller is to see of an error inside the store."""
    match error:
        case PlacetError():
            return error
        case sqlite3.ProgrammingError():  # A connection that was closed, or a mistake of ours.
            return error
        case sqlite3.Error() | OSError():
            return trouble(error, path)
        case NewerValue():
            return StoreTrouble(
                "newer_value",
                f"A newer version of placet wrote {error}.",
                hint="Bring this program up to date, and leave the session to newer ones.",
                path=str(path),
            )
        case UnreadableValue():
            _, message, hint = _TROUBLES[sqlite3.SQLITE_CORRUPT]
            return StoreTrouble("store_damaged", f"{message} ({error})", hint=hint, path=str(path))
        case UnicodeEncodeError() | OverflowError():
            return InvalidInput("unreadable_text", f"An id or number cannot be stored: {error}.")
        case _:
            return error


@contextmanager
def placet_errors(path: Path) -> Iterator[None]:
    """Let nothing but placet's errors out of a block that reads or opens the store."""
    try:
        yield
    except Exception as error:
        seen = as_placet_error(error, path)
        if seen is error:
            raise
        raise seen from error


# --- files and connections --------------------------------------------------------------------


def identity(path: Path) -> tuple[int, int]:
    """Name the file that a path stands for; raises OSError."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one; raises OSError."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    except FileExistsError:
        return
    os.fchmod(file, _FILE_MODE)
    os.close(file)


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the connection that writes. It never waits for locks: the writer does."""
    made = _connect(path, "rw", timedelta(0))
    try:
        made.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BETWEEN_CHECKPOINTS}")
        made.execute("PRAGMA synchronous = FULL")
        made.execute("PRAGMA secure_delete = FAST")  # What a row was, no page keeps (H4).
    except BaseException:
        made.close()
        raise
    return made


def connect_reader(path: Path, *, busy_timeout: timedelta) -> sqlite3.Connection:
    """Open a connection that reads."""
    return _connect(path, "ro", busy_timeout)


def _connect(path: Path, mode: str, busy_timeout: timedelta) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_timeout.total_seconds(),
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS_KEPT,
    )


# --- what lasts -------------------------------------------------------------------------------


def make_log_last(path: Path) -> None:
    """Put what an unclean end has left in the log on the disk, before anything is built on it.

    A process that died before its sync ended, or whose sync failed, leaves commits that are in the
    system's cache alone. SQLite takes them for made, and a later sync may not write them: after one
    that failed the system counts them as written. So the log is written again, each byte as it is,
    and synced. SQLite reads the log anew only where nobody has the store open, and then this keeps
    everybody out for as long as it takes; otherwise those who have it open know what was made.
    Raises sqlite3.Error or OSError.
    """
    log = path.with_name(path.name + "-wal")
    if not log.exists() or not log.stat().st_size or not _writable(path):
        return  # Who may only read builds nothing on what is there.
    alone = _connect(path, "rw", timedelta(0))
    try:
        alone.execute("PRAGMA locking_mode = EXCLUSIVE")
        alone.execute("BEGIN IMMEDIATE")
        _write_again(log)
        alone.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_BUSY:
            raise
    finally:
        alone.close()  # This carries the log over into the database.


def _write_again(log: Path) -> None:
    if not log.exists():  # SQLite found that it belongs to no database, and removed it.
        return
    with log.open("r+b", buffering=0) as file:
        while part := file.read(_WRITTEN_AT_ONCE):
            file.seek(-len(part), os.SEEK_CUR)
            file.write(part)
        os.fsync(file.fileno())


def make_names_last(path: Path) -> None:
    """Put the names of the store's files on the disk; raises OSError.

    SQLite does so too, and does not look at whether it failed.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # It may be entered and written to, and not read: nobody can sync it.
        return
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # Some systems have no such thing.
            raise
    finally:
        os.close(directory)


# --- migrations -------------------------------------------------------------------------------


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a database up to this program's version; raises StoreTrouble or sqlite3.Error."""
    version = _version(connection, path)
    if connection.execute(SQL["triggers"]).fetchone() != (0,):
        raise StoreTrouble(
            "store_damaged",
            "The store has a trigger, which would write along with whatever is written.",
            hint="placet has none of its own. See who made it, and what it did; then drop it.",
            path=str(path),
        )
    if version >= VERSION:
        return
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # Of a file that is still empty.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been here first, and so it is looked at again.
        migrate(connection, after=_version(connection, path))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def migrate(connection: sqlite3.Connection, *, after: int, until: int = VERSION) -> None:
    """Run the migrations above `after` up to `until`, inside the caller's transaction."""
    if after == 0:
        connection.execute(SQL["create_meta"])
    connection.create_function("name_in", 2, name_in, deterministic=True)
    for number, file in MIGRATIONS.items():
        if not after < number <= until:
            continue
        text = file.read_text(encoding="utf-8")
        for statement in _statements(text):
            connection.execute(statement)
        oldest = _OLDEST_READER.search(text)
        assert oldest is not None, f"{file.name} says the oldest reader after it"
        connection.execute(SQL["put_meta"], ("version", number))
        connection.execute(SQL["put_meta"], ("oldest_reader", int(oldest[1])))


def read_meta(connection: sqlite3.Connection, name: str) -> int | None:
    """Give one thing that a database says of itself."""
    row = connection.execute(SQL["meta"], (name,)).fetchone()
    return None if row is None else int(row[0])


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Give a database's version, 0 for an empty one; raises StoreTrouble where it is not ours."""
    tables, ours = connection.execute(SQL["meta_exists"]).fetchone()
    if not tables:
        return 0
    version = read_meta(connection, "version") if ours else None
    oldest = read_meta(connection, "oldest_reader") if ours else None
    if version is None or oldest is None:
        raise StoreTrouble(
            "store_damaged",
            "The file is a SQLite database, but no store of placet.",
            hint="Nothing was changed; name another file.",
            path=str(path),
        )
    if oldest > VERSION:
        raise StoreTrouble(
            "store_too_new",
            f"The store is of version {version}, which needs a program of at least {oldest};"
            f" this one is of {VERSION}.",
            hint="Nothing was changed; bring placet up to date (`pip install -U placet`).",
            path=str(path),
        )
    return version


def _statements(text: str) -> Iterator[str]:
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement
            statement = ""
