"""Keys as files and texts: a store's key of 32 bytes, and Ed25519 pairs that sign.

A key that is made here is written to a new file that its owner alone may read, and is printed
nowhere. Signing needs `cryptography` (the extra `crypto`); reading a store's key does not.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from placet.core.errors import InvalidInput, InvalidSetting, StoreTrouble
from placet.runtime.protected import protect
from placet.stores.sealing import KEY_BYTES, PlacetKey, key_id

#: Only the owner of a file with a key may read it.
KEY_FILE_MODE = 0o600

#: Anybody may read a public key.
PUBLIC_FILE_MODE = 0o644

#: What stands behind the name of a file with a private key in the name of its public one.
PUBLIC_SUFFIX = ".pub"

_LARGEST_FILE_BYTES = 16_384
_MAKE_KEY = "`placet keys new FILE` makes a key."


class Signer(Protocol):
    """What signs: a pair's private key, or a key that is shared with who checks (an HMAC)."""

    @property
    def algorithm(self) -> str:
        """Name the algorithm."""
        ...

    @property
    def key_id(self) -> str:
        """Name the key, so that what it signed is told apart."""
        ...

    def sign(self, data: bytes) -> str:
        """Give the signature, as hexadecimal text."""
        ...


class Checker(Protocol):
    """What checks signatures of one key."""

    @property
    def algorithm(self) -> str:
        """Name the algorithm."""
        ...

    @property
    def key_id(self) -> str:
        """Name the key whose signatures it can check."""
        ...

    def is_signature(self, signature: str, data: bytes) -> bool:
        """Say whether a signature is this key's, over this."""
        ...


# --- a store's key ----------------------------------------------------------------------------


def key_from(text: str, *, named: str) -> PlacetKey:
    """Read a key of 32 bytes, in hexadecimal or base64; raises InvalidSetting that names it."""
    written = text.strip()
    try:
        if len(written) == 2 * KEY_BYTES:
            return PlacetKey(bytes.fromhex(written))
        return PlacetKey(base64.b64decode(written, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise InvalidSetting(
            "setting_invalid",
            f"{named} must be {KEY_BYTES} bytes, in hexadecimal or base64.",
            hint=_MAKE_KEY,
        ) from None


def key_in(path: Path, *, named: str) -> PlacetKey:
    """Read a key from a file, and put it out of the tools' reach; raises InvalidSetting."""
    protect(path)
    try:
        text = _read(path).decode("ascii")
    except (OSError, ValueError) as error:
        told = f"{named}: there is no key in {path} ({error})."
        hint = f"Put the key back, where a store is under it: no other opens it. Else {_MAKE_KEY}"
        raise InvalidSetting("setting_invalid", told, hint=hint) from error
    return key_from(text, named=f"{named} ({path})")


class SharedKey:
    """Signs and checks with an HMAC under a key that is derived from a store's."""

    algorithm = "HMAC-SHA256"

    def __init__(self, key: PlacetKey, purpose: str) -> None:
        self._key = key.derived(purpose)

    @property
    def key_id(self) -> str:
        """Name the key; the name tells nothing of it."""
        return key_id(self._key)

    def sign(self, data: bytes) -> str:
        """Give the HMAC of `data`."""
        return hmac.digest(self._key, data, "sha256").hex()

    def is_signature(self, signature: str, data: bytes) -> bool:
        """Say whether it is the HMAC of `data`."""
        return hmac.compare_digest(signature.encode(), self.sign(data).encode())


# --- pairs ------------------------------------------------------------------------------------


class PublicKey:
    """Checks what the private key of an Ed25519 pair signed."""

    algorithm = "Ed25519"

    def __init__(self, key: Any) -> None:
        self._key = key

    @property
    def key_id(self) -> str:
        """Name the pair."""
        return key_id(self._key.public_bytes_raw())

    def is_signature(self, signature: str, data: bytes) -> bool:
        """Say whether the pair's private key signed `data`."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(bytes.fromhex(signature), data)
        except (InvalidSignature, ValueError):
            return False
        return True

    def pem(self) -> bytes:
        """Give the key as it is written to a file."""
        serial = _serialization()
        written: bytes = self._key.public_bytes(
            serial.Encoding.PEM, serial.PublicFormat.SubjectPublicKeyInfo
        )
        return written


class SigningKey:
    """The private key of an Ed25519 pair."""

    algorithm = "Ed25519"

    def __init__(self, key: Any) -> None:
        self._key = key

    @property
    def public(self) -> PublicKey:
        """Give the key that checks what this one signs."""
        return PublicKey(self._key.public_key())

    @property
    def key_id(self) -> str:
        """Name the pair."""
        return self.public.key_id

    def sign(self, data: bytes) -> str:
        """Sign `data`."""
        signature: bytes = self._key.sign(data)
        return signature.hex()

    def pem(self) -> bytes:
        """Give the key as it is written to a file that its owner alone may read."""
        serial = _serialization()
        written: bytes = self._key.private_bytes(
            serial.Encoding.PEM, serial.PrivateFormat.PKCS8, serial.NoEncryption()
        )
        return written


def signing_key_in(path: Path) -> SigningKey:
    """Read a private key, and put it out of the tools' reach; raises InvalidSetting."""
    protect(path)
    named = f"The private key in {path}"
    try:
        found = _serialization().load_pem_private_key(_read(path), None)
    except (OSError, ValueError, TypeError) as error:
        raise _no_key(named, error) from error
    if not isinstance(found, _ed25519().Ed25519PrivateKey):
        raise _no_key(named, None)
    return SigningKey(found)


def public_key_in(path: Path) -> PublicKey:
    """Read a public key; raises InvalidInput."""
    try:
        found = _serialization().load_pem_public_key(_read(path))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput("invalid_key", f"There is no public key in {path}: {error}") from error
    if not isinstance(found, _ed25519().Ed25519PublicKey):
        raise InvalidInput("invalid_key", f"The public key in {path} is of no Ed25519 pair.")
    return PublicKey(found)


def _no_key(named: str, error: Exception | None) -> InvalidSetting:
    told = f"{named} is of no Ed25519 pair." if error is None else f"{named}: {error}"
    hint = "`placet keys new --signing FILE` makes a pair."
    return InvalidSetting("setting_invalid", told, hint=hint)


# --- making -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The files that were made, and the name of the key in them."""

    files: tuple[Path, ...]
    key_id: str


def new_key(path: Path) -> Made:
    """Make a store's key in a new file; raises InvalidInput where there is one already."""
    key = secrets.token_bytes(KEY_BYTES)
    _write_new(path, f"{key.hex()}\n".encode(), KEY_FILE_MODE)
    return Made(files=(path,), key_id=SharedKey(PlacetKey(key), "anchors").key_id)


def new_pair(path: Path) -> Made:
    """Make a pair: the private key in a new file, the public one beside it; raises InvalidInput."""
    made = SigningKey(_ed25519().Ed25519PrivateKey.generate())
    public = path.with_name(path.name + PUBLIC_SUFFIX)
    if public.exists():
        raise _exists(public)
    _write_new(path, made.pem(), KEY_FILE_MODE)
    _write_new(public, made.public.pem(), PUBLIC_FILE_MODE)
    return Made(files=(path, public), key_id=made.key_id)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise InvalidInput("file_unwritable", f"The key was not made: {error}") from error
    try:
        os.fchmod(file, mode)
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def _exists(path: Path) -> InvalidInput:
    return InvalidInput(
        "file_exists",
        f"There is a file {path} already, and no key was made.",
        hint="A key that is lost takes all that it sealed with it: name another file.",
    )


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        found = file.read(_LARGEST_FILE_BYTES + 1)
    if len(found) > _LARGEST_FILE_BYTES:
        raise ValueError("it is no file with a key")
    return found


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise _crypto_missing() from error
    return serialization


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise _crypto_missing() from error
    return ed25519


def _crypto_missing() -> StoreTrouble:
    return StoreTrouble(
        "crypto_missing",
        "What signs is not installed here.",
        hint="Install it: `pip install 'placet[crypto]'`.",
    )
