"""A thief of a store's files, who guesses: what of a session tells the amount of a call."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from placet.core.canonical import JsonValue, call_digest, canonical, digest_of, sha256_hex, short_id
from placet.core.grants import same_key
from placet.core.values import SALT_BYTES, KeyedPurpose, keyed, payload_of

AMOUNTS = range(10_000)

#: How much of a hash must be there to be seen: 16 bytes, or characters of how it is written.
_SEEN = 16


def world_of(order: str, amount: int) -> str:
    """Give an environment fingerprint that is made of a call's arguments, as files' are."""
    return sha256(f"{order} owes {amount}".encode()).hexdigest()


def reference_of(order: str, amount: int) -> str:
    """Give the name that a framework has for a step, made of its call's arguments."""
    return sha256(f"step {order} {amount}".encode()).hexdigest()


def confirmed(place: Path, session: str, amounts: Iterable[int] = AMOUNTS) -> dict[int, set[str]]:
    """Give the guessed amounts that anything in the store's files confirms, and what does.

    The thief has every file, knows all but the amount, and tries every value in the sessions' rows
    as the salt, and that there is none.
    """
    seen = _windows(place)
    salts = ["", *_salts(place)]
    found: dict[int, set[str]] = {}
    for amount in amounts:
        arguments: Mapping[str, str | int] = {"order": "A-42", "amount": amount}
        for name, trace in _traces(session, arguments, salts):
            if trace in seen:
                found.setdefault(amount, set()).add(name)
    return found


def _windows(place: Path) -> set[bytes]:
    files = [each.read_bytes() for each in place.iterdir() if each.name.startswith("placet.db")]
    return {data[at : at + _SEEN] for data in files for at in range(len(data) - _SEEN + 1)}


def _salts(place: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{place / 'placet.db'}?mode=ro", uri=True)) as connection:
        for row in connection.execute("SELECT * FROM sessions"):
            for value in row:
                text = value.hex() if isinstance(value, bytes) else str(value)
                if len(text) in (SALT_BYTES, 2 * SALT_BYTES):
                    yield text


def _traces(
    session: str, arguments: Mapping[str, str | int], salts: Iterable[str]
) -> Iterator[tuple[str, bytes]]:
    order, amount = str(arguments["order"]), int(arguments["amount"])
    given: dict[str, JsonValue] = {**arguments}
    texts = (json.dumps(given), json.dumps(given, separators=(",", ":")))
    digest = call_digest("refund", given)
    run = digest_of(["guard", "main", session, "refund", digest, 0])
    made: dict[KeyedPurpose, str] = {
        "call": digest,
        "environment": world_of(order, amount),
        "reference": reference_of(order, amount),
    }
    hashes = {f"sha256 {number}": sha256_hex(text.encode()) for number, text in enumerate(texts)}
    hashes["jcs"] = sha256_hex(canonical(given))
    for name, told in hashes.items():
        yield from _spelled(name, told)
    for salt in salts:
        for purpose, text in made.items():
            yield from _spelled(purpose, keyed(salt, purpose, text))
        yield "run", short_id("run", keyed(salt, "run", run))[-_SEEN:].encode()
        yield from _spelled("grant", same_key(salt, "refund", given, ("order", "amount")))
        for text in texts:
            yield from _spelled("payload", payload_of(salt, text).ref)


def _spelled(name: str, told: str) -> Iterator[tuple[str, bytes]]:
    yield name, told[:_SEEN].encode()
    yield name, bytes.fromhex(told)[:_SEEN]
