"""The keys that the settings name: what a store is under, and what signs.

A secret stands in no setting: `PLACET_KEY` is read from the environment alone, and `placet.toml`
names files, or the Python object of a key port. Two keys for one store are a mistake, and not a
matter of which wins.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placet.core.errors import InvalidSetting
from placet.runtime.keys import SharedKey, Signer, SigningKey, key_from, key_in, signing_key_in
from placet.settings import Settings
from placet.stores.sealing import KeyPort, PlacetKey

#: The store's key, as it is.
KEY = "PLACET_KEY"

#: The key that the store was under before, for `placet keys rotate` alone.
OLD_KEY, OLD_KEY_FILE = "PLACET_OLD_KEY", "PLACET_OLD_KEY_FILE"


def key_of(settings: Settings, environment: Mapping[str, str] | None = None) -> KeyPort | None:
    """Give the key that the store is to be under; None: none is named. Raises InvalidSetting."""
    env = os.environ if environment is None else environment
    named = {
        KEY: KEY in env,
        "key_file": bool(settings.key_file),
        "key_port": bool(settings.key_port),
    }
    if len(several := [name for name, is_set in named.items() if is_set]) > 1:
        raise InvalidSetting(
            "setting_invalid",
            f"A store is under one key, and several settings name one: {', '.join(several)}.",
            hint="Leave one of them.",
        )
    if KEY in env:
        return key_from(env[KEY], named=KEY)
    if settings.key_file:
        return key_in(Path(settings.key_file), named="key_file")
    return _port(settings.key_port) if settings.key_port else None


def old_key_of(environment: Mapping[str, str] | None = None) -> PlacetKey:
    """Give the key that the store was under until now; raises InvalidSetting."""
    env = os.environ if environment is None else environment
    if (OLD_KEY in env) == (OLD_KEY_FILE in env):
        raise InvalidSetting(
            "setting_invalid",
            f"One of {OLD_KEY} and {OLD_KEY_FILE} says which key the store is under now.",
            hint=f"{KEY}, or the file that it may stand in, is the new one.",
        )
    if OLD_KEY in env:
        return key_from(env[OLD_KEY], named=OLD_KEY)
    return key_in(Path(env[OLD_KEY_FILE]), named=OLD_KEY_FILE)


def signing_key_of(settings: Settings) -> SigningKey:
    """Give the private key that signs receipts; raises InvalidSetting."""
    if not settings.signing_key_file:
        raise InvalidSetting(
            "setting_invalid",
            "Nothing says which key signs.",
            hint="`placet keys new --signing FILE` makes a pair; name it as signing_key_file.",
        )
    return signing_key_in(Path(settings.signing_key_file))


def signer_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Signer | None:
    """Give what signs anchors: a pair where there is one, else the store's own key; or nothing."""
    if settings.signing_key_file:
        return signing_key_of(settings)
    return shared_key_of(settings, environment)


def shared_key_of(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> SharedKey | None:
    """Give the store's own key as it signs anchors; None where there is none, or a port has it."""
    key = key_of(settings, environment)
    return SharedKey(key, "anchors") if isinstance(key, PlacetKey) else None


def _port(named: str) -> KeyPort:
    """Import what `key_port` names: an object with both methods, or a function that gives one."""
    module, _, name = named.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        if not _is_port(found):
            found = found()
    except Exception as error:
        told = f"key_port: {named} gives no key port ({type(error).__name__}: {error})."
        raise InvalidSetting("setting_invalid", told, hint=_PORT_HINT) from error
    if not _is_port(found):
        told = f"key_port: {named} has not both wrap and unwrap."
        raise InvalidSetting("setting_invalid", told, hint=_PORT_HINT)
    port: KeyPort = found
    return port


_PORT_HINT = "It is module:name of an object with wrap and unwrap, or of a function that gives one."


def _is_port(found: object) -> bool:
    methods = (getattr(found, "wrap", None), getattr(found, "unwrap", None))
    return not isinstance(found, type) and all(callable(each) for each in methods)
