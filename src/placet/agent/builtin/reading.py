"""What `read` answers: a file's lines with their numbers, or a directory's names; always bounded.

What was left out is said, with how to read on. Memory is bounded too, however large the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from placet.agent.builtin.confinement import Confinement, Place
from placet.core.display import visible
from placet.runtime.declarations import NotDone

#: How many lines, or names, are read at once, if no fewer are asked for.
MOST_LINES = 2_000

#: How many bytes are read at once, and how many of one line.
MOST_BYTES = 64 * 1024
MOST_LINE_BYTES = 4 * 1024

#: A file with a NUL among so many bytes from where it is read is no text.
_BINARY_LOOK_BYTES = 8 * 1024
_CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    data: bytes
    cut_bytes: int


def read_path(files: Confinement, path: str, *, offset: int, limit: int) -> str:
    """Read `limit` lines from line `offset` on, from 1; raises OutOfReach or NotDone."""
    place = files.place(path)
    if files.is_directory(place):
        return _listed(files, place, offset=offset, limit=limit)
    with files.file(place) as descriptor:
        if descriptor is None:
            raise NotDone(f"{place.shown}: there is no such file.")
        with os.fdopen(os.dup(descriptor), "rb", buffering=_CHUNK_BYTES) as file:
            return _numbered(file, place, offset=offset, limit=limit)


def _numbered(file: BinaryIO, place: Place, *, offset: int, limit: int) -> str:
    skipped = _skip(file, offset - 1)
    head = file.read(_BINARY_LOOK_BYTES)
    file.seek(-len(head), os.SEEK_CUR)
    if b"\0" in head:
        size = os.fstat(file.fileno()).st_size
        raise NotDone(f"{place.shown} is no text: it has {size} bytes, with NUL among them.")
    lines: list[_Line] = []
    room = MOST_BYTES
    for line in _lines(file):
        room -= len(line.data)
        if len(lines) == limit or room < 0:
            return "\n".join((_shown(lines, offset), _read_on(offset + len(lines))))
        lines.append(line)
    if lines:
        return _shown(lines, offset)
    if offset > 1:
        raise NotDone(f"{place.shown} has {skipped} lines; there is no line {offset}.")
    return "(The file is empty.)"


def _skip(file: BinaryIO, count: int) -> int:
    """Go past `count` line ends, and give how many lines that were."""
    passed, in_line = 0, False
    while passed < count and (chunk := file.read(_CHUNK_BYTES)):
        here = chunk.count(b"\n")
        in_line = not chunk.endswith(b"\n")
        if passed + here >= count:
            at = -1
            for _ in range(count - passed):
                at = chunk.index(b"\n", at + 1)
            file.seek(at + 1 - len(chunk), os.SEEK_CUR)
            return count
        passed += here
    return passed + in_line


def _lines(file: BinaryIO) -> Iterator[_Line]:
    """Give the lines that follow, without their ends, each bounded."""
    while data := file.readline(MOST_LINE_BYTES):
        cut, last = 0, data
        while not last.endswith(b"\n") and (last := file.readline(_CHUNK_BYTES)):
            cut += len(last.rstrip(b"\r\n"))
        yield _Line(data=data.rstrip(b"\n"), cut_bytes=cut)


def _shown(lines: Sequence[_Line], first: int) -> str:
    shown: list[str] = []
    notes: list[str] = []
    for number, line in enumerate(lines, start=first):
        data = line.data.removesuffix(b"\r")
        more = f"… ({line.cut_bytes} more bytes of this line)" if line.cut_bytes else ""
        shown.append(f"{number}\t{data.decode('utf-8', 'backslashreplace')}{more}")
    if all(line.data.endswith(b"\r") for line in lines if not line.cut_bytes):
        notes += ["(The lines end in CRLF.)"] if lines[0].data.endswith(b"\r") else []
    if not all(_is_utf8(line) for line in lines):
        notes.append("(Bytes that are no UTF-8 are shown as \\xNN; edit does not take such files.)")
    return "\n".join((*shown, *notes))


def _is_utf8(line: _Line) -> bool:
    try:
        line.data.decode("utf-8")
    except UnicodeDecodeError as error:
        # The cut may have gone through a character.
        return bool(line.cut_bytes) and error.reason == "unexpected end of data"
    return True


def _read_on(offset: int) -> str:
    return f"(More follows. Read on with offset={offset}.)"


def _listed(files: Confinement, place: Place, *, offset: int, limit: int) -> str:
    """List a directory by names: directories end in a slash, links say where they lead."""
    try:
        with files.directory(place) as directory, os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            names = [_entry(directory, e) for e in found[offset - 1 : offset - 1 + limit]]
    except OSError as error:
        raise NotDone(f"{place.shown}: {error.strerror}.") from error
    if not found:
        return "(The directory is empty.)"
    if not names:
        raise NotDone(f"{place.shown} has {len(found)} entries; there is no entry {offset}.")
    head = f"{place.shown} is a directory with {len(found)} entries:"
    more = [_read_on(offset + limit)] if offset - 1 + limit < len(found) else []
    return "\n".join((head, *names, *more))


def _entry(directory: int, entry: os.DirEntry[str]) -> str:
    name = visible(os.fsencode(entry.name).decode("utf-8", "backslashreplace"))
    try:
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(entry.name, dir_fd=directory)
            return f"{name} -> {visible(os.fsencode(target).decode('utf-8', 'backslashreplace'))}"
    except OSError:
        return name
    return f"{name}/" if stat.S_ISDIR(found.st_mode) else name
