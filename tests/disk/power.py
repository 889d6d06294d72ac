"""What is on a disk after the power has gone: the files made again from the calls on them.

A file has two contents: what processes see (the system's cache), and what lasts. A write changes
the first; a sync makes the second like the first. A sync that fails loses what it was for: the
cache goes on showing it and counts it as written, so that no later sync writes it either (as Linux
does), unless its page is written to again. Names are likewise: a file that was made, moved or
removed is so for good once its directory was synced.

When the power goes, any part of what had not been synced may be on the disk: `left` gives what may
be there as some of the disks that there could be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.disk.shim import Call, Calls

SECTOR = 512
PAGE = 4_096

#: A file's content when the power is back, by the file's name.
Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file's content that may not last yet: bytes in a place, or another length."""

    offset: int
    data: bytes | None

    def on(self, content: bytearray) -> None:
        """Make the change."""
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
            return
        end = self.offset + len(self.data)
        content.extend(bytes(max(0, end - len(content))))
        content[self.offset : end] = self.data

    def sectors(self) -> Iterator[Change]:
        """Give the change in the parts in which a disk makes it."""
        if self.data is None:
            yield self
            return
        start, end = self.offset, self.offset + len(self.data)
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            yield Change(start, self.data[start - self.offset : stop - self.offset])
            start = stop


@dataclass(slots=True)
class _File:
    """One file: what is seen of it, what lasts, and what lies between."""

    seen: bytearray = field(default_factory=bytearray)
    lasting: bytearray = field(default_factory=bytearray)
    waiting: list[Change] = field(default_factory=list)
    lost_pages: set[int] = field(default_factory=set)

    def change(self, change: Change) -> None:
        """Change what is seen."""
        change.on(self.seen)
        if change.data is not None and self.lost_pages:
            # Whole pages are written: what was lost of a page that is written to is there again.
            first, last = change.offset // PAGE, (change.offset + len(change.data) - 1) // PAGE
            if again := self.lost_pages.intersection(range(first, last + 1)):
                self.lost_pages -= again
                for page in again:
                    start = page * PAGE
                    self.waiting.append(Change(start, bytes(self.seen[start : start + PAGE])))
        self.waiting.append(change)

    def sync(self) -> None:
        """Make what is seen last, but for what was lost."""
        for change in self.waiting:
            change.on(self.lasting)
        self.waiting.clear()

    def fail_to_sync(self) -> None:
        """Lose what was to last, and say no more of it."""
        for change in self.waiting:
            if change.data is None:
                change.on(self.lasting)
            else:
                end = change.offset + len(change.data)
                self.lost_pages.update(range(change.offset // PAGE, (end - 1) // PAGE + 1))
        self.waiting.clear()


class Disk:
    """The files of one directory, made again call by call."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._numbers = 0
        self._by_inode: dict[int, int] = {}
        self._seen: dict[str, int] = {}
        self._lasting: dict[str, int | None] = {}
        self._waiting: list[tuple[str, int | None]] = []

    def take(self, call: Call) -> None:
        """Go on by one call."""
        name = Path(call.path).name
        match call.kind:
            case Calls.CREATE if not call.error:
                self._numbers += 1
                self._files[self._numbers] = _File()
                self._by_inode[call.inode] = self._numbers
                self._name(name, self._numbers)
            case Calls.WRITE:
                self._file(call).change(Change(call.offset, call.data))
            case Calls.TRUNCATE if not call.error:
                self._file(call).change(Change(call.offset, None))
            case Calls.SYNC if call.inode in self._by_inode:
                self._file(call).fail_to_sync() if call.error else self._file(call).sync()
            case Calls.SYNC if not call.error:  # Of the directory: there is no other.
                for changed, number in self._waiting:
                    self._lasting[changed] = number
                self._waiting.clear()
            case Calls.UNLINK if not call.error:
                self._name(name, None)
            case Calls.RENAME if not call.error:
                self._name(Path(call.other).name, self._seen[name])
                self._name(name, None)
            case _:
                pass

    def _file(self, call: Call) -> _File:
        return self._files[self._by_inode[call.inode]]

    def _name(self, name: str, number: int | None) -> None:
        if number is None:
            self._seen.pop(name, None)
        else:
            self._seen[name] = number
        self._waiting.append((name, number))

    def seen(self) -> Files:
        """Give the files as processes see them: what is there after a kill."""
        return {name: bytes(self._files[number].seen) for name, number in self._seen.items()}

    def left(self, seeds: Sequence[int]) -> Iterator[tuple[str, Files]]:
        """Give disks as the power may have left them, each with what is true of it.

        Only what was synced; everything; everything but for the end of what was written last; and
        for each seed a part of it by chance, sector by sector and name by name.
        """
        yield "only what was synced", self._with(lambda: False, names=0)
        yield "everything", self._with(lambda: True, names=len(self._waiting))
        for half in (1, 2):
            yield f"the last write torn ({half})", self._torn(half)
        for seed in seeds:
            chance = random.Random(seed)
            names = chance.randint(0, len(self._waiting))
            yield f"a part by chance (seed {seed})", self._with(_by(chance), names=names)

    def _with(self, keeps: Callable[[], bool], *, names: int) -> Files:
        contents: dict[int, bytes] = {}
        for number, file in self._files.items():
            content = bytearray(file.lasting)
            for change in file.waiting:
                for part in change.sectors():
                    if keeps():
                        part.on(content)
            contents[number] = bytes(content)
        return self._named(contents, names)

    def _torn(self, half: int) -> Files:
        """Keep all, and of what each file was last changed by only a beginning, or only an end."""
        contents: dict[int, bytes] = {}
        for number, file in self._files.items():
            content = bytearray(file.lasting)
            for change in file.waiting[:-1]:
                change.on(content)
            parts = [part for change in file.waiting[-1:] for part in change.sectors()]
            middle = (len(parts) + 1) // 2
            for part in parts[:middle] if half == 1 else parts[middle:]:
                part.on(content)
            contents[number] = bytes(content)
        return self._named(contents, len(self._waiting))

    def _named(self, contents: dict[int, bytes], names: int) -> Files:
        entries = dict(self._lasting)
        entries.update(self._waiting[:names])
        return {name: contents[number] for name, number in entries.items() if number is not None}


def _by(chance: random.Random) -> Callable[[], bool]:
    return lambda: chance.random() < 0.5
