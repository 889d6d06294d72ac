"""Where SQLite stores of tests keep their state."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from placet.stores.sqlite import SqliteStore


class SqlitePlace:
    """A file, and the stores that were opened on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stores: list[SqliteStore] = []

    def open(self, **settings: Any) -> SqliteStore:
        store = SqliteStore(self.path, **settings)
        self.stores.append(store)
        return store

    def sql(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def close(self) -> None:
        for store in self.stores:
            store.close()
