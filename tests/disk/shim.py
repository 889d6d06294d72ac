"""The failing disk of shim.c: built, preloaded, set, and what it wrote down read back.

It needs Linux and a C compiler; `why_not()` says what is missing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import cache
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")

#: So many calls fail where a disk stays ill.
FOR_EVER = 1_000_000


class Calls(IntFlag):
    """The kinds of calls that are counted; the values are those of shim.c."""

    WRITE = 1
    SYNC = 2
    TRUNCATE = 4
    UNLINK = 8
    RENAME = 16
    CREATE = 32
    READ = 64
    MARK = 128


#: All that changes files, and all that makes it last.
CHANGES = Calls.WRITE | Calls.SYNC | Calls.TRUNCATE | Calls.UNLINK | Calls.RENAME | Calls.CREATE


class Deed(IntEnum):
    """What is done at the chosen call; the values are those of shim.c."""

    COUNT = 0
    KILL_BEFORE = 1
    KILL_AFTER = 2
    KILL_HALFWAY = 3
    FAIL = 4
    FAIL_HALFWAY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the disk is to do: `deed` at call number `at` of the kinds `calls`.

    A failure lasts for `times` calls, and is the error number `error`.
    """

    deed: Deed = Deed.COUNT
    at: int = 0
    calls: Calls = CHANGES
    times: int = 1
    error: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it was written down: `error` is 0, or what it failed with."""

    kind: Calls
    error: int
    inode: int
    offset: int
    path: str
    other: str
    data: bytes = field(repr=False)


def compiler() -> str | None:
    """Find a C compiler."""
    found = (shutil.which(name) for name in ("cc", "gcc", "clang"))
    return next((path for path in found if path), None)


@cache
def why_not() -> str | None:
    """Say why the failing disk cannot be had here; None: it can."""
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return "the failing disk is preloaded, which is done on Linux with glibc alone"
    found = compiler()
    if found is None:
        return "there is no C compiler (cc, gcc or clang) to build the failing disk with"
    trying = [found, "-x", "c", "-fsyntax-only", "-"]
    tried = subprocess.run(trying, input=b"#include <stdio.h>\n", capture_output=True, check=False)
    return None if tried.returncode == 0 else f"{found} has not what it needs to build C with"


def build(directory: Path) -> Path:
    """Compile shim.c into `directory`, and give the library."""
    found = compiler()
    assert found is not None, "the caller has asked for one"
    library = directory / "shim.so"
    command = [found, "-O1", "-Wall", "-Wextra", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    return library


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.shim_arm.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
    ]
    library.shim_arm.restype = None
    library.shim_disarm.argtypes = []
    library.shim_disarm.restype = ctypes.c_long
    library.shim_heal.argtypes = []
    library.shim_heal.restype = ctypes.c_long
    library.shim_mark.argtypes = [ctypes.c_char_p]
    library.shim_mark.restype = None
    return library


def arm(directory: Path, setting: Setting, *, record: Path | None = None) -> None:
    """Set this process's disk, under `directory`; what is done is appended to `record`."""
    file = -1
    if record is not None:
        file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    _library().shim_arm(
        str(directory.resolve()).encode(),
        setting.calls,
        setting.at,
        setting.times,
        setting.deed,
        setting.error,
        file,
    )


def heal() -> int:
    """Make the disk well again, and give how many calls were counted."""
    return int(_library().shim_heal())


def disarm() -> int:
    """Watch the disk no more, and give how many calls were counted."""
    return int(_library().shim_disarm())


def mark(text: str) -> None:
    """Write something down in its place among the calls."""
    _library().shim_mark(text.encode())


_HEAD = struct.Struct("<IiQQQII")


def calls_of(record: Path) -> Iterator[Call]:
    """Read back what was written down; what a kill cut off in the middle was not done."""
    text = record.read_bytes()
    place = 0
    while place + _HEAD.size <= len(text):
        kind, error, inode, offset, length, path, other = _HEAD.unpack_from(text, place)
        has_data = kind in (Calls.WRITE, Calls.MARK)
        ends = [place + _HEAD.size]
        for size in (path, other, length if has_data else 0):
            ends.append(ends[-1] + size)
        if ends[-1] > len(text):
            return
        parts = [text[a:b] for a, b in pairwise(ends)]
        yield Call(
            Calls(kind), error, inode, offset, parts[0].decode(), parts[1].decode(), parts[2]
        )
        place = ends[-1]


def setting_of(values: list[int]) -> Setting:
    """Give a setting from its numbers, as `numbers` makes them."""
    deed, at, calls, times, error = values
    return Setting(deed=Deed(deed), at=at, calls=Calls(calls), times=times, error=error)


def numbers(setting: Setting) -> list[int]:
    """Give a setting as numbers, which is how it goes to another process."""
    return [int(setting.deed), setting.at, int(setting.calls), setting.times, setting.error]
