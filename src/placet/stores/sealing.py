"""Keys of a store: what seals its texts, and what its heads are keyed with (H4).

Theory of operation. A store that is given a key keeps none of it. Each session has a data key of
its own, which stands in its row only as the key port has wrapped it; with it the session's texts
and its salt are sealed (AES-256-GCM; what a text belongs to is authenticated with it, so that a
sealed text cannot stand in another's place). To erase a session is to destroy its wrapped key and
its salt. To change the key is to wrap the data keys anew: no text is touched.

The head of a session, which its events are chained up to, carries an HMAC under a key that only
the store's key leads to. It is checked before anything is built on a head that was read from the
file: otherwise the next commit would put a true HMAC over a forged log.

Nothing here needs more than the standard library but the sealing of texts itself, which needs
`cryptography` (the extra `crypto`). Without that package texts stay plain, and heads are keyed.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import Any, Protocol

from placet.core.codec import UnreadableValue
from placet.core.errors import StoreTrouble

#: How long a key is.
KEY_BYTES = 32

#: What a sealed text begins with; a compressed one begins with 0x78, and a plain one is no blob.
SEALED = b"\x01"

#: Of how many sessions the data key is kept in memory once it was unwrapped.
SEALS_KEPT = 1_024

_NONCE_BYTES = 12
_PLAIN, _BYTES = b"\x00", b"\x01"
_WRAPPED = b"\x01"


class KeyPort(Protocol):
    """Where the key of a store is kept, such as a service that never lets it out.

    It wraps and unwraps the data key of each session, once a session and process, while the store
    may be locked: it should answer within milliseconds. What it wrapped it is asked for at once,
    and it is not relied on unless it gives that back. What it raises becomes a StoreTrouble
    (`key_unreachable`), and what was asked did not happen.
    """

    def wrap(self, key: bytes) -> bytes:
        """Give 32 secret bytes in a form that may stand in the store."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """Give back what was wrapped; raises where that is none of its own."""
        ...


class PlacetKey:
    """A key of 32 bytes that this process holds itself, as `PLACET_KEY` gives it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._secret = secret

    def derived(self, purpose: str) -> bytes:
        """Give the key that is derived from this one for a purpose."""
        return hmac.digest(self._secret, f"placet {purpose} 1".encode(), "sha256")

    def wrap(self, key: bytes) -> bytes:
        """Wrap a data key by AES-256-GCM."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed: bytes = _aead(self.derived("wrap")).encrypt(nonce, key, _WRAPPED)
        return _WRAPPED + nonce + sealed

    def unwrap(self, wrapped: bytes) -> bytes:
        """Unwrap a data key; raises StoreTrouble(`wrong_key`)."""
        nonce, sealed = wrapped[1 : 1 + _NONCE_BYTES], wrapped[1 + _NONCE_BYTES :]
        aead = _aead(self.derived("wrap"))
        try:
            key: bytes = aead.decrypt(nonce, sealed, wrapped[:1])
        except (_bad_tag(), ValueError):
            raise wrong_key() from None
        return key


class Seal:
    """One session's data key, and what it seals; `wrapped` is how it stands in the store."""

    __slots__ = ("_aead", "_place", "wrapped")

    def __init__(self, key: bytes, wrapped: bytes, *, tenant: str, session: str) -> None:
        self.wrapped = wrapped
        self._aead = _aead(key)
        self._place = (tenant, session)

    def close(self, ref: str, stored: str | bytes) -> bytes:
        """Seal what is to stand under a reference (hexadecimal)."""
        data = _PLAIN + stored.encode() if isinstance(stored, str) else _BYTES + stored
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed: bytes = self._aead.encrypt(nonce, data, self._bound(ref))
        return SEALED + nonce + sealed

    def open(self, ref: str, sealed: bytes) -> str | bytes:
        """Give back what was sealed under a reference; raises UnreadableValue."""
        nonce = sealed[1 : 1 + _NONCE_BYTES]
        try:
            data = self._aead.decrypt(nonce, sealed[1 + _NONCE_BYTES :], self._bound(ref))
        except (_bad_tag(), ValueError) as error:  # A ValueError: it is too short to be one.
            raise UnreadableValue("a sealed text is not what was sealed") from error
        return data[1:].decode() if data[:1] == _PLAIN else bytes(data[1:])

    def close_salt(self, salt: str) -> str:
        """Seal the session's salt, as hexadecimal text."""
        return self.close("salt", salt).hex()

    def open_salt(self, sealed: str) -> str:
        """Give back the session's salt; raises UnreadableValue."""
        try:
            salt = self.open("salt", bytes.fromhex(sealed))
        except ValueError as error:
            raise UnreadableValue(f"a sealed salt: {error}") from error
        return str(salt)

    def _bound(self, ref: str) -> bytes:
        """Give what a sealed text is bound to: it opens in its own place alone."""
        return json.dumps(["placet text 1", *self._place, ref]).encode()


class Keys:
    """What one store does with its key port. Safe to use from several threads."""

    def __init__(self, port: KeyPort) -> None:
        self._port = port
        self._heads = port.derived("heads") if isinstance(port, PlacetKey) else b""
        self._seals: OrderedDict[tuple[str, str, bytes], Seal] = OrderedDict()
        self._guard = threading.Lock()

    # --- the store's own rows -----------------------------------------------------------------

    def take(self, rows: Mapping[str, bytes]) -> None:
        """Take what a store keeps of the key that it is under; raises StoreTrouble."""
        if "check" not in rows:
            return
        if "heads" in rows and not isinstance(self._port, PlacetKey):
            self._heads = self._asked(lambda: self._port.unwrap(rows["heads"]))
        if not self._heads or not hmac.compare_digest(self._check(), rows["check"]):
            raise wrong_key()

    def rows(self) -> dict[str, bytes]:
        """Give what a store is to keep of this key, once it is under it; raises StoreTrouble."""
        if isinstance(self._port, PlacetKey):
            return {"check": self._check()}
        self._heads = secrets.token_bytes(KEY_BYTES)
        return {"heads": self._wrapped(self._heads), "check": self._check()}

    def _check(self) -> bytes:
        return hmac.digest(self._heads, b"placet check 1", "sha256")

    # --- heads --------------------------------------------------------------------------------

    def mac(self, tenant: str, session: str, *, seq: int, head: str) -> bytes:
        """Give the HMAC of a session's head: its last event's seq and hash."""
        assert self._heads, "the store's rows are taken first"
        text = json.dumps(["placet head 1", tenant, session, seq, head])
        return hmac.digest(self._heads, text.encode(), "sha256")

    def is_mac(self, mac: bytes, tenant: str, session: str, *, seq: int, head: str) -> bool:
        """Say whether an HMAC is that of a head."""
        return hmac.compare_digest(mac, self.mac(tenant, session, seq=seq, head=head))

    # --- data keys ----------------------------------------------------------------------------

    def new_seal(self, tenant: str, session: str) -> Seal | None:
        """Make a data key for a session; None where nothing can be sealed here."""
        if not can_seal():
            return None
        key = secrets.token_bytes(KEY_BYTES)
        wrapped = self._wrapped(key)
        return self._kept(Seal(key, wrapped, tenant=tenant, session=session), tenant, session)

    def seal_of(self, tenant: str, session: str, wrapped: bytes) -> Seal:
        """Give a session's data key; raises StoreTrouble."""
        name = (tenant, session, wrapped)
        with self._guard:
            if (known := self._seals.get(name)) is not None:
                self._seals.move_to_end(name)
                return known
        key = self._asked(lambda: self._port.unwrap(wrapped))
        if len(key) != KEY_BYTES:
            raise wrong_key()
        return self._kept(Seal(key, wrapped, tenant=tenant, session=session), tenant, session)

    def wrapped_anew(self, wrapped: bytes, by: Keys) -> bytes:
        """Give a data key as another store key wraps it; raises StoreTrouble."""
        key = self._asked(lambda: self._port.unwrap(wrapped))
        if len(key) != KEY_BYTES:
            raise wrong_key()
        return by._wrapped(key)

    def _wrapped(self, key: bytes) -> bytes:
        """Wrap a key, and hold that the port gives it back: what it lost, nobody would open."""
        wrapped = self._asked(lambda: self._port.wrap(key))
        if not hmac.compare_digest(self._asked(lambda: self._port.unwrap(wrapped)), key):
            raise _unreachable("it does not give back what it wrapped")
        return wrapped

    def _kept(self, seal: Seal, tenant: str, session: str) -> Seal:
        with self._guard:
            self._seals[(tenant, session, seal.wrapped)] = seal
            if len(self._seals) > SEALS_KEPT:
                self._seals.popitem(last=False)
        return seal

    def _asked(self, ask: Callable[[], object]) -> bytes:
        try:
            answer = ask()
        except StoreTrouble:
            raise
        except Exception as error:
            raise _unreachable(f"{type(error).__name__}: {error}") from error
        if not (isinstance(answer, bytes) and answer):  # A port is code of somebody else's.
            raise _unreachable(f"its port gave {type(answer).__name__}, and no bytes")
        return answer


def is_sealed(stored: str | bytes) -> bool:
    """Say whether a stored text is a sealed one."""
    return isinstance(stored, bytes) and stored[:1] == SEALED


def key_id(key: bytes) -> str:
    """Name a key, so that what was made with it is told apart; it tells nothing of the key."""
    return sha256(b"placet key id 1" + key).hexdigest()[:16]


@cache
def can_seal() -> bool:
    """Say whether texts can be sealed here: the extra `crypto` is installed."""
    return find_spec("cryptography") is not None


@cache
def _aead_class() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise crypto_missing() from error
    return AESGCM


@cache
def _bad_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag


def _aead(key: bytes) -> Any:
    return _aead_class()(key)


def _unreachable(why: str) -> StoreTrouble:
    return StoreTrouble(
        "key_unreachable",
        f"The key of the store cannot be used ({why}).",
        hint="Nothing was changed; see that the key's own service answers.",
    )


def wrong_key() -> StoreTrouble:
    """Say that the store is under another key than the one that was given."""
    return StoreTrouble(
        "wrong_key",
        "The store is under another key than the one that is given.",
        hint="Nothing was changed. Set PLACET_KEY or PLACET_KEY_FILE to the key that it is under; a"
        " process that was begun before the key was changed is begun anew.",
    )


def key_missing() -> StoreTrouble:
    """Say that the store is under a key, and that none was given."""
    return StoreTrouble(
        "key_missing",
        "The store is under a key, and none is given.",
        hint="Nothing was changed. Set PLACET_KEY or PLACET_KEY_FILE to the key that it is under.",
    )


def crypto_missing() -> StoreTrouble:
    """Say that what is sealed cannot be opened here."""
    return StoreTrouble(
        "crypto_missing",
        "The store is sealed, and the package that opens it is not installed here.",
        hint="Nothing was changed. Install it: `pip install 'placet[crypto]'`.",
    )


def forged_head(tenant: str, session: str) -> StoreTrouble:
    """Say that a session's head was not written by who holds the key."""
    return StoreTrouble(
        "forged_head",
        "The record of this session was changed by somebody who does not have the store's key.",
        hint="Nothing goes on in it. `placet audit verify` says more; keep the file as it is.",
        tenant=tenant,
        session=session,
    )
