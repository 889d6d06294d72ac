"""What `doctor` says of keys, sealed texts and anchors: how they stand, and who could read them."""

from __future__ import annotations

import os
import pwd
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from placet.core.errors import PlacetError
from placet.keyring import KEY, key_of
from placet.opening import store_path
from placet.settings import Settings
from placet.stores.sealing import can_seal
from placet.stores.store import Store

Said = tuple[str, Literal["ok", "warning", "problem"], str]

#: Of how many sessions it is looked at how they stand.
LOOKED_AT = 10_000


def keeping(store: Store, settings: Settings) -> Iterator[Said]:
    """Say how the keys, the texts and the anchors of a store stand."""
    yield _key(settings, under=store.check().get("key", "none"))
    yield _texts(store, settings)
    yield _anchors(settings)


def _key(settings: Settings, *, under: str) -> Said:
    if under == "missing":
        told = "the store is under a key, and none is given: no text is read, and nothing runs"
        return "key", "problem", f"{told}; set PLACET_KEY or key_file"
    if key_of(settings) is None:
        return "key", "ok", "none: texts are plain, and heads have no HMAC; `placet keys new FILE`"
    if not can_seal():
        told = "given, and keys the heads; texts stay plain without `pip install 'placet[crypto]'`"
        return "key", "warning", told
    if KEY in os.environ:
        told = f"from {KEY}: whoever may look at the process's variables has it"
        return "key", "ok", told
    if settings.key_port:
        return "key", "ok", f"from the port {settings.key_port}"
    path = Path(settings.key_file)
    told = f"from {path}, which {_readers(path)} can read"
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        return "key", "warning", f"{told}; make it 0600"
    if path.absolute().parent == store_path(settings.store).absolute().parent:
        return "key", "warning", f"{told}; it lies beside the store, and is copied with it"
    return "key", "ok", told


def _texts(store: Store, settings: Settings) -> Said:
    counted: Counter[str] = Counter()
    unkeyed = 0
    for session in list(store.sessions(settings.tenant))[:LOOKED_AT]:
        standing = store.standing(settings.tenant, session)
        if standing is not None:
            counted[standing.texts] += 1
            unkeyed += standing.head == "unkeyed"
    said = ", ".join(f"{number} {texts}" for texts, number in sorted(counted.items()))
    told = f"sessions: {said or 'none'}"
    if counted["plain"]:
        readers = _readers(store_path(settings.store))
        told += f"; plain texts are read by {readers}, who can read the file"
    if unkeyed or (counted["plain"] and _has_key(settings) and can_seal()):
        return "texts", "warning", f"{told}; `placet keys seal` takes old sessions under the key"
    return "texts", "ok", told


def _has_key(settings: Settings) -> bool:
    try:
        return key_of(settings) is not None
    except PlacetError:
        return False


def _anchors(settings: Settings) -> Said:
    if not settings.anchors:
        told = "none are kept: a tail that was cut with its state, or another database, is not seen"
        return "anchors", "ok", told
    path = Path(settings.anchors)
    if path.absolute().parent == store_path(settings.store).absolute().parent:
        told = f"{path} lies beside the store: who can change the one can change the other"
        return "anchors", "warning", told
    if not path.exists():
        return "anchors", "warning", f"{path} is not there yet: let a worker run"
    return "anchors", "ok", f"{path}; `placet audit verify --anchors {path}` holds the store to it"


def _readers(path: Path) -> str:
    """Name the accounts that can read a file, as far as its mode says."""
    found = path.stat()
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = f"uid-{found.st_uid}"
    mode = stat.S_IMODE(found.st_mode)
    if mode & stat.S_IROTH:
        return "every account of this machine"
    others = " and its group" if mode & stat.S_IRGRP else ""
    return f"{owner}{others}" + ("" if owner == "root" else " and root")
