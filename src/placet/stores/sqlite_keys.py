"""The keys of a SQLite store: which one it is under, how its sessions stand, and changes of keys.

Theory of operation. A store is under a key from the first time on that it is opened with one: it
then keeps what tells this key from another (`keys` in the database), and no program without the
key, or with another, writes to it. New sessions are sealed and keyed from their first event on;
those from before go on as they are, with what is new in them sealed, until they are taken under
the key on purpose. That is not done by itself, because to vouch for a session is a decision:
whoever can write the file could have changed it before.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from placet.core.codec import UnreadableValue
from placet.core.errors import NotFound, no_session
from placet.stores.sealing import Keys, Seal, can_seal, forged_head, is_sealed, key_missing
from placet.stores.sqlite_held import held_text, salt_in
from placet.stores.sqlite_opening import SQL, connect_writer
from placet.stores.sqlite_texts import text_of
from placet.stores.store import Head, Standing

_LOOK_AGAIN = timedelta(milliseconds=10)


def kept_rows(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Give what the store keeps of the key that it is under; nothing: it is under none."""
    return dict(connection.execute(SQL["keys"]).fetchall())


def take_keys(
    connection: sqlite3.Connection, keys: Keys | None, *, known: Mapping[str, bytes] | None
) -> dict[str, bytes]:
    """Hold a key against the store, and put the store under it where it is under none yet.

    Gives what the store keeps of it; `known` is what it gave last. Raises StoreTrouble.
    """
    rows = kept_rows(connection)
    if keys is None or (rows and rows == known):
        return rows
    if rows:
        keys.take(rows)
        return rows
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN IMMEDIATE")
    try:
        rows = kept_rows(connection)  # Another process may have been here first.
        if rows:
            keys.take(rows)
        else:
            rows = keys.rows()
            connection.executemany(SQL["put_key"], rows.items())
        if own:
            connection.execute("COMMIT")
    finally:
        if own and connection.in_transaction:
            connection.execute("ROLLBACK")
    return rows


# --- reading ----------------------------------------------------------------------------------


class Texts:
    """The texts of one session as they are read: each is held against its reference.

    The session's data key and salt are fetched for the first one.
    """

    def __init__(
        self, connection: sqlite3.Connection, tenant: str, session: str, keys: Keys | None
    ) -> None:
        self._connection = connection
        self._key = (tenant, session)
        self._keys = keys
        self._fetched: tuple[Seal | None, str] | None = None

    def read(self, ref: str, stored: str | bytes) -> str:
        """Give a text as it was; raises UnreadableValue, StoreTrouble, or NotFound(`erased`)."""
        if self._fetched is None:
            self._fetched = self._fetch()
        seal, salt = self._fetched
        if not is_sealed(stored):
            return held_text(salt, ref, text_of(stored))
        assert isinstance(stored, bytes), "a sealed text is a blob"
        if seal is None:
            raise UnreadableValue("a text is sealed, and its session has no data key")
        return held_text(salt, ref, text_of(seal.open(ref, stored)))

    def _fetch(self) -> tuple[Seal | None, str]:
        """Give what the texts are sealed with, if they are, and the salt of their references."""
        row = self._connection.execute(SQL["session"], self._key).fetchone()
        if row is None:
            raise UnreadableValue("a text is there, and its session is not")
        salt, data_key, is_erased = row[1], row[5], row[7]
        if is_erased:
            raise erased(self._key[1])
        if data_key is None:
            return None, salt_in(salt)
        if self._keys is None:
            raise key_missing()
        seal = self._keys.seal_of(*self._key, data_key)
        return seal, salt_in(seal.open_salt(salt))

    def check_there(self) -> None:
        """Say where there are no texts because they were erased; raises NotFound(`erased`)."""
        row = self._connection.execute(SQL["session"], self._key).fetchone()
        if row is not None and row[7]:
            raise erased(self._key[1])


def erased(session: str) -> NotFound:
    """Say that a session's texts were erased."""
    return NotFound(
        "erased",
        "The texts of this session were erased.",
        hint="What was decided is still on record: `placet audit verify` holds it to itself.",
        session=session,
    )


def standing_of(
    connection: sqlite3.Connection, tenant: str, session: str, keys: Keys | None
) -> Standing | None:
    """Say how a session stands to the store's key; None: there is no such session."""
    row = connection.execute(SQL["session"], (tenant, session)).fetchone()
    if row is None:
        return None
    seq, _, _, head, _, data_key, mac, is_erased = row
    texts: Any = "plain" if data_key is None else "sealed"
    if is_erased and connection.execute(SQL["texts"], (tenant, session)).fetchone() is None:
        texts = "erased"
    under_key = keys is not None or bool(kept_rows(connection))
    if mac is None:
        return Standing(texts=texts, head="unkeyed" if under_key else "plain")
    if keys is None:
        return Standing(texts=texts, head="unchecked")
    is_ours = keys.is_mac(mac, tenant, session, seq=seq, head=head.hex())
    return Standing(texts=texts, head="keyed" if is_ours else "forged")


def heads_of(connection: sqlite3.Connection) -> Iterator[Head]:
    """Give the heads of all sessions, of all tenants, in order."""
    for tenant, session, seq, head, *_ in connection.execute(SQL["heads"]):
        yield Head(tenant=tenant, session=session, seq=seq, hash=head.hex())


def cut_log(path: Path, *, patience: timedelta) -> bool:
    """Carry SQLite's log over into the file, and cut it; False: somebody reads an older state."""
    connection = connect_writer(path)
    try:
        until = time.monotonic() + patience.total_seconds()
        while True:
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy or time.monotonic() >= until:
                return not busy
            time.sleep(_LOOK_AGAIN.total_seconds())
    finally:
        connection.close()


# --- changes of keys --------------------------------------------------------------------------


def rotate(connection: sqlite3.Connection, keys: Keys, new: Keys) -> int:
    """Put the store under another key: data keys are wrapped anew, heads keyed anew.

    No text is touched. Gives how many sessions there are. Raises StoreTrouble(`forged_head`) where
    a head is not of who has the present key, and then nothing is changed.
    """
    rows = new.rows()
    sessions = connection.execute(SQL["heads"]).fetchall()
    for tenant, session, seq, hash_, data_key, mac in sessions:
        key, head = (tenant, session), hash_.hex()
        if data_key is not None:
            salt = connection.execute(SQL["session"], key).fetchone()[1]
            wrapped = keys.wrapped_anew(data_key, new)
            connection.execute(SQL["put_data_key"], (salt, wrapped, *key))
        if mac is not None:
            if not keys.is_mac(mac, *key, seq=seq, head=head):
                raise forged_head(*key)
            connection.execute(SQL["put_mac"], (new.mac(*key, seq=seq, head=head), *key))
    connection.execute(SQL["drop_keys"])
    connection.executemany(SQL["put_key"], rows.items())
    return len(sessions)


def take_under_key(
    connection: sqlite3.Connection, keys: Keys, tenant: str, session: str, *, at: Head
) -> int:
    """Seal what is plain of a session, and vouch for its head; give how many texts were sealed.

    Raises StoreTrouble(`forged_head`) where its head is another than `at`, or not of who has the
    key; NotFound.
    """
    key = (tenant, session)
    row = connection.execute(SQL["session"], key).fetchone()
    if row is None:
        raise no_session(session)
    seq, salt, _, head, _, data_key, mac, is_erased = row
    if (seq, head.hex()) != (at.seq, at.hash):
        raise forged_head(*key)
    if mac is not None and not keys.is_mac(mac, *key, seq=seq, head=at.hash):
        raise forged_head(*key)
    connection.execute(SQL["put_mac"], (keys.mac(*key, seq=seq, head=at.hash), *key))
    if is_erased or not can_seal():
        return 0
    seal = keys.new_seal(*key) if data_key is None else keys.seal_of(*key, data_key)
    assert seal is not None, "texts can be sealed here"
    if data_key is None:
        connection.execute(SQL["put_data_key"], (seal.close_salt(salt), seal.wrapped, *key))
    sealed = 0
    # What a long text leaves behind on pages of its own is overwritten only where this is on.
    connection.execute("PRAGMA secure_delete = ON")
    for ref, body in connection.execute(SQL["texts"], key).fetchall():
        if not is_sealed(body):
            connection.execute(SQL["put_body"], (seal.close(ref.hex(), body), *key, ref))
            sealed += 1
    connection.execute("PRAGMA secure_delete = FAST")
    return sealed
