"""The files of placet itself that are out of reach of the tools `read`, `write` and `edit`.

Who opens a store, or reads settings from a file, says so here, once for the whole process (G10).
It is a list of paths and no wall: what a tool *starts* can reach whatever its account can.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

#: SQLite keeps these beside a database file, and what stands in them becomes the database.
SIDECARS = ("-wal", "-shm", "-journal")

_paths: dict[Path, None] = {}
_paths_change = threading.Lock()


def protect(path: str | os.PathLike[str]) -> None:
    """Put a file, with SQLite's files beside it, or a directory with all in it, out of reach.

    A path that is relative is one of the present working directory. Nothing need exist there.
    """
    whole = Path(os.path.abspath(path))
    with _paths_change:
        for suffix in ("", *SIDECARS):
            _paths[Path(f"{whole}{suffix}")] = None


def protected_paths() -> tuple[Path, ...]:
    """Give every path that is out of reach, absolute, in the order in which it became so."""
    with _paths_change:
        return tuple(_paths)
