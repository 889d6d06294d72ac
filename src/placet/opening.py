"""Opening the store that the settings name: one URL, one kind of store."""

from __future__ import annotations

from pathlib import Path

from placet.core.errors import InvalidSetting, StoreTrouble
from placet.keyring import key_of
from placet.settings import Settings
from placet.stores.sealing import KeyPort
from placet.stores.store import KeyedStore


def store_path(url: str) -> Path:
    """Give the file that a `sqlite:///` URL names; raises InvalidSetting."""
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path:
        raise InvalidSetting(
            "setting_invalid",
            f"The store {url!r} cannot be opened.",
            hint="Name a file as sqlite:///placet.db, or sqlite:////absolute/path.db.",
        )
    return Path(path)


def open_store(
    url: str, settings: Settings | None = None, *, key: KeyPort | None = None
) -> KeyedStore:
    """Open the store that a URL names; raises InvalidSetting or StoreTrouble.

    It is under the `key`, or else the one that the settings and the environment name, if any.
    """
    path = store_path(url)
    key = key or key_of(settings or Settings())
    if not path.parent.is_dir():
        raise StoreTrouble(
            "store_unreachable",
            f"The store's directory {path.parent} is not there.",
            hint="Make it, for the account that runs this alone, or name another with --store.",
            path=str(path),
        )
    from placet.stores.sqlite import SqliteStore  # Lazily: other URLs will name other stores.

    return SqliteStore(path, key=key)
