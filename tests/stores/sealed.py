"""A store under a key, and a session whose texts must not be found in its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.errors import PlacetError
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Head
from tests.stores.build import ANN, Session
from tests.stores.places import SqlitePlace

KEY = PlacetKey(bytes(range(32)))
OTHER_KEY = PlacetKey(bytes(range(1, 33)))

#: Texts that stand in no file of a sealed store: a short one, and one that is compressed.
SECRET = "Rita's card is 4000-0012"
LONG_SECRET = "The account is DE89-3704 and more. " * 60


class SealedPlace(SqlitePlace):
    """A file, and the stores that were opened on it under a key."""

    def open(self, **settings: Any) -> Any:
        return super().open(**{"key": KEY, **settings})

    def head(self, store: SqliteStore, session: str = "s1") -> Head:
        (found,) = [each for each in store.heads() if each.session == session]
        return found

    def bytes(self) -> bytes:
        """Give all that stands in the store's files."""
        return b"".join(file.read_bytes() for file in sorted(self.path.parent.iterdir()))


def code(attempt: Callable[[], object]) -> str:
    with pytest.raises(PlacetError) as caught:
        attempt()
    assert caught.value.hint
    return caught.value.code


def lived(store: Any, *, id_: str = "s1", run: str = "run_1") -> Session:
    """Let a session have a run with secrets in its texts, and end it."""
    session = Session(store, id=id_)
    session.start(run, message=SECRET)
    session.propose(None, run=run, entry=LONG_SECRET, note=SECRET)
    session.do(c.CancelRun(run=run, by=ANN, cause="enough"))
    return session
