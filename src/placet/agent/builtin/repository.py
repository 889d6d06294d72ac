"""What a directory's git repository is at: its commit and branch, read from git's files.

git itself is never run: a repository's own settings can name programs that it would start. What
is read is bounded and believed only in the form that it must have (gitrepository-layout(5)).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

#: How much of a small file of git's is read, and how much of its list of packed refs.
SMALL_BYTES = 4 * 1024
PACKED_REFS_BYTES = 16 * 1024 * 1024

#: How many symbolic refs may lead to one another.
MOST_SYMBOLIC = 5

_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF = re.compile(r"refs/[^\x00-\x20~^:?*\[\\\x7f]+\Z")


def head_of(directory: Path) -> str:
    """Name the commit and branch that a directory's repository is at; empty without one.

    Give `unreadable` for a repository whose head is not where git puts it.
    """
    for parent in (directory, *directory.parents):
        found = parent / ".git"
        if found.is_dir():
            return _head(found)
        if (pointer := _small(found)) is not None:
            return _head(_led_to(parent, pointer))
    return ""


def _led_to(parent: Path, pointer: str) -> Path | None:
    """Give where a `.git` file, as of a worktree or a submodule, says that the repository is."""
    prefix, _, path = pointer.partition(": ")
    return parent / path if prefix == "gitdir" and path else None


def _head(repository: Path | None) -> str:
    head = None if repository is None else _small(repository / "HEAD")
    if repository is None or head is None:
        return "unreadable"
    if _COMMIT.match(head):
        return f"{head} detached"
    shared = _small(repository / "commondir")
    common = repository if shared is None else repository / shared
    if (common / "reftable").is_dir():
        return f"{_reftable(repository, common)} refs in tables"
    branch = _symbolic(head)
    if branch is None:
        return "unreadable"
    return f"{_commit(repository, common, branch) or 'no commit'} on {branch}"


def _symbolic(text: str) -> str | None:
    prefix, _, name = text.partition(": ")
    fits = prefix == "ref" and _REF.match(name) and ".." not in name and "//" not in name
    return name if fits else None


def _commit(repository: Path, common: Path, ref: str) -> str | None:
    """Give the commit of a ref: its own file's, else that of the packed ones."""
    for _ in range(MOST_SYMBOLIC):
        text = _small(repository / ref)
        if text is None:
            text = _small(common / ref)
        if text is None:
            return _packed(common / "packed-refs", ref)
        if _COMMIT.match(text):
            return text
        following = _symbolic(text)
        if following is None:
            return None
        ref = following
    return None


def _packed(path: Path, ref: str) -> str | None:
    for line in (_read(path, PACKED_REFS_BYTES) or "").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _COMMIT.match(commit):
            return commit
    return None


def _reftable(repository: Path, common: Path) -> str:
    """Give a hash over the names of the tables, which are others whenever any ref changes."""
    lists = [_read(place / "reftable/tables.list", SMALL_BYTES) for place in (common, repository)]
    return hashlib.sha256("\0".join(each or "" for each in lists).encode()).hexdigest()


def _small(path: Path) -> str | None:
    text = _read(path, SMALL_BYTES)
    return None if text is None else text.removesuffix("\n").rstrip("\r")


def _read(path: Path, limit: int) -> str | None:
    """Read the start of a regular file, and of nothing else; None where there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read(limit).decode("utf-8", "backslashreplace")
    except OSError:
        return None
    finally:
        os.close(file)
