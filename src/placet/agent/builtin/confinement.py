"""Files of one directory tree, opened so that nothing leads out of it or to placet's own files.

Theory of operation. A path is resolved once, links and `..` included, and refused where it leads
out. What is left is a list of names from the root, and these are walked one by one, each opened
relative to the directory before it and never through a link. A link that takes the place of a
directory or file after the path was resolved so makes the walk fail, and cannot lead it elsewhere.
What is out of reach (G10) is compared by device and inode with what was opened, so that another
name, a hard link or another mount of it is found too, and by its name in its directory where it
does not exist yet; but a hard link to a file within a protected directory is not found. It is
not a sandbox: it holds for what goes through here, and not for `bash`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from placet.core.display import visible
from placet.runtime.declarations import InvalidArguments, NotDone
from placet.runtime.protected import protected_paths

#: Files of this name are placet's own settings, wherever they stand.
RESERVED_NAMES = frozenset({"placet.toml", "placet.policy.toml"})

#: What names the file of settings, where it has another name.
CONFIG_VARIABLE = "PLACET_CONFIG"

#: A larger file is not changed: it would be kept whole, so that the change can be taken back.
LARGEST_FILE_BYTES = 4 * 1024 * 1024

#: A path is no longer than what programs can name, and leads no deeper than people go.
MOST_PATH_BYTES = 4_000
MOST_DEPTH = 100

_CLOSED = os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _CLOSED
#: A fifo's other side is not waited for, and a terminal does not become ours.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _CLOSED
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED

_CHUNK_BYTES = 256 * 1024


class OutOfReach(NotDone, InvalidArguments):
    """The path cannot be used: it leads out, to placet's own files, or to what is no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path leads: names from the root, none of them a link. `shown` is fit to be shown."""

    parts: tuple[str, ...]
    shown: str
    is_linked: bool = False
    names_directory: bool = False

    @property
    def real(self) -> str:
        """The path from the root, fit to be shown."""
        return visible("/".join(self.parts) or ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells a file, as it was when it was looked at, from any other and from a later one."""

    device: int
    inode: int
    changed_ns: int  # Of the inode, which nobody can set.
    size: int
    mode: int

    @staticmethod
    def of(found: os.stat_result) -> Identity:
        """Take it from what the kernel says of a file."""
        return Identity(
            device=found.st_dev,
            inode=found.st_ino,
            changed_ns=found.st_ctime_ns,
            size=found.st_size,
            mode=stat.S_IMODE(found.st_mode),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file as it was read."""

    data: bytes
    identity: Identity


class Confinement:
    """The files below `root`, without those that are out of reach."""

    root: str

    def __init__(self, root: str, *, protected: tuple[Path, ...] = ()) -> None:
        self.root = os.path.realpath(root)
        self._protected = tuple(Path(self.root, path) for path in protected)

    def place(self, path: str) -> Place:
        """Resolve a path, relative to the root or absolute; raises OutOfReach."""
        shown = visible(path)
        if not path or "\0" in path:
            raise OutOfReach(
                "The path is empty." if not path else f"The path {shown} holds a NUL.",
            )
        try:
            lexical = os.path.normpath(os.path.join(self.root, path))
            real = os.path.realpath(os.path.join(self.root, path))
        except (OSError, ValueError) as error:
            raise OutOfReach(f"The path {shown} cannot be resolved: {error}.") from error
        within = self.root.rstrip("/") + "/"
        if real != self.root and not real.startswith(within):
            leads = "" if real == lexical else f", where it leads to {visible(real)}"
            raise OutOfReach(
                f"{shown} is outside of the workspace{leads}."
                f" Give a path inside {visible(self.root)}, relative to it."
            )
        parts = tuple(part for part in real[len(within) :].split("/") if part)
        if len(parts) > MOST_DEPTH or len(os.fsencode(real)) > MOST_PATH_BYTES:
            raise OutOfReach(f"The path {shown} is too long.")
        return Place(
            parts=parts,
            shown=shown,
            is_linked=real != lexical,
            names_directory=path.endswith("/"),
        )

    @contextlib.contextmanager
    def directory(self, place: Place) -> Iterator[int]:
        """Open the directory at a place; raises OutOfReach, and FileNotFoundError."""
        with self._walked(place, place.parts, _Guard(self._protected)) as found:
            yield found

    @contextlib.contextmanager
    def file(self, place: Place) -> Iterator[int | None]:
        """Open the file at a place to read it, or give None where nothing is; raises OutOfReach."""
        guard = _Guard(self._protected)
        with contextlib.ExitStack() as opened:
            try:
                parent = opened.enter_context(self._walked(place, _above(place), guard))
            except FileNotFoundError:
                yield None
                return
            found = _opened_file(parent, place, guard)
            if found is not None:
                opened.callback(os.close, found)
            yield found

    def is_directory(self, place: Place) -> bool:
        """Say whether a directory is at a place; raises OutOfReach."""
        if not place.parts:
            return True
        try:
            with self._walked(place, _above(place), _Guard(self._protected)) as parent:
                found = os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode)

    def content(self, place: Place, *, limit: int = LARGEST_FILE_BYTES) -> Content | None:
        """Read the file at a place, or give None where nothing is; raises OutOfReach."""
        with self.file(place) as file:
            if file is None:
                return None
            with _told(place):
                return _read_whole(file, place, limit)

    def missing(self, place: Place) -> tuple[str, ...]:
        """Name the directories above a place that do not exist, the uppermost first."""
        above = _above(place)
        for depth in range(1, len(above) + 1):
            inner = Place(parts=above[:depth], shown=place.shown)
            try:
                with self.directory(inner):
                    pass
            except FileNotFoundError:
                return tuple("/".join(above[:end]) for end in range(depth, len(above) + 1))
        return ()

    def put(self, place: Place, data: bytes, *, over: Identity | None, mode: int | None) -> None:
        """Put a file in a place at once, and on the disk, or leave all as it was.

        `over` is what stands there, None for nothing: where that has changed, nothing is done.
        `mode` is the new file's, None for what the process gives new files. Raises OutOfReach or
        NotDone where nothing was done, and OSError where it was and may not outlive the machine.
        """
        guard = _Guard(self._protected)
        made: list[tuple[int, str]] = []
        with contextlib.ExitStack() as opened:
            try:
                parent = opened.enter_context(self._walked(place, _above(place), guard, made))
                name = place.parts[-1]
                guard.refuse_name(parent, name, place)
                with _told(place):
                    _replace(parent, name, data, mode, lambda: _expect(parent, place, guard, over))
            except NotDone:
                for directory, made_name in reversed(made):
                    with contextlib.suppress(OSError):
                        os.rmdir(made_name, dir_fd=directory)
                raise
            finally:
                for directory, _ in made:
                    opened.callback(os.close, directory)
            _sync(parent)

    def remove(self, place: Place, *, made: tuple[str, ...] = ()) -> None:
        """Take away the file at a place, if any, and those of the directories `made` left empty."""
        guard = _Guard(self._protected)
        try:
            with self._walked(place, _above(place), guard) as parent:
                file = _opened_file(parent, place, guard)
                if file is not None:
                    os.close(file)
                    os.unlink(place.parts[-1], dir_fd=parent)
                    _sync(parent)
        except FileNotFoundError:
            return
        for path in reversed(made):
            inner = Place(parts=tuple(path.split("/")), shown=visible(path))
            with contextlib.suppress(OSError), self._walked(inner, _above(inner), guard) as parent:
                os.rmdir(inner.parts[-1], dir_fd=parent)

    @contextlib.contextmanager
    def _walked(
        self,
        place: Place,
        parts: tuple[str, ...],
        guard: _Guard,
        made: list[tuple[int, str]] | None = None,
    ) -> Iterator[int]:
        """Open a directory name by name; with `made`, make what is missing and note it there."""
        with _told(place):
            here = os.open(self.root, _DIRECTORY)
        try:
            guard.refuse_opened(here, place)
            for part in parts:
                guard.refuse_name(here, part, place)
                inner = _entered(here, part, place, made)
                os.close(here)
                here = inner
                guard.refuse_opened(here, place)
            yield here
        finally:
            os.close(here)


class _Guard:
    """What is out of reach, as it stands on the disk when this is made."""

    def __init__(self, protected: tuple[Path, ...]) -> None:
        paths = {*protected, *protected_paths()}
        with contextlib.suppress(OSError):  # The working directory may be gone.
            paths |= {Path(os.path.abspath(name)) for name in RESERVED_NAMES}
        if named := os.environ.get(CONFIG_VARIABLE):
            with contextlib.suppress(OSError):
                paths.add(Path(os.path.abspath(named)))
        self._opened: set[tuple[int, int]] = set()
        self._names: set[tuple[int, int, str]] = set()
        paths |= {Path(os.path.realpath(path)) for path in paths}
        for path in paths:
            if (found := _identity_of(path)) is not None:
                self._opened.add(found)
            if (parent := _identity_of(path.parent)) is not None:
                self._names.add((*parent, _folded(path.name)))

    def refuse_opened(self, descriptor: int, place: Place) -> None:
        """Raise OutOfReach for an open file or directory that is out of reach."""
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) in self._opened:
            raise _reserved(place)

    def refuse_name(self, directory: int, name: str, place: Place) -> None:
        """Raise OutOfReach for a name in a directory, whether or not anything is there."""
        found = os.fstat(directory)
        folded = _folded(name)
        if folded in RESERVED_NAMES or (found.st_dev, found.st_ino, folded) in self._names:
            raise _reserved(place)


def _reserved(place: Place) -> OutOfReach:
    return OutOfReach(f"{place.shown} is out of reach of tools (G10). Leave it as it is.")


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _folded(name: str) -> str:
    """Give a name as a file system would see it that tells neither case nor composition apart."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _above(place: Place) -> tuple[str, ...]:
    if not place.parts:
        raise OutOfReach(f"{place.shown} is a directory.")
    return place.parts[:-1]


@contextlib.contextmanager
def _told(place: Place) -> Iterator[None]:
    """Tell of what the system refuses by the path; only for what has not acted yet."""
    try:
        yield
    except OSError as error:
        raise NotDone(f"{place.shown}: {error.strerror or error}.") from error


def _entered(here: int, part: str, place: Place, made: list[tuple[int, str]] | None = None) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=here)
    except FileNotFoundError:
        if made is None:
            raise
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise NotDone(f"{place.shown}: {error.strerror}.") from error
        raise OutOfReach(f"{place.shown}: {visible(part)} is no directory (any more).") from error
    with _told(place):
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=here)
            made.append((os.dup(here), part))
            _sync(here)
        return os.open(part, _DIRECTORY, dir_fd=here)


def _opened_file(parent: int, place: Place, guard: _Guard) -> int | None:
    """Open a regular file in a directory, or give None where nothing is; raises OutOfReach."""
    name = place.parts[-1]
    guard.refuse_name(parent, name, place)
    with _told(place):
        try:
            _refuse_irregular(os.stat(name, dir_fd=parent, follow_symlinks=False), place)
            file = os.open(name, _FILE, dir_fd=parent)
        except FileNotFoundError:
            return None
        try:
            _refuse_irregular(os.fstat(file), place)
            guard.refuse_opened(file, place)
        except BaseException:
            os.close(file)
            raise
    return file


def _refuse_irregular(found: os.stat_result, place: Place) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise OutOfReach(f"{place.shown} is a directory.")
    if not stat.S_ISREG(found.st_mode):
        raise OutOfReach(f"{place.shown} is no regular file (a link, device, fifo or socket).")
    if place.names_directory:
        raise OutOfReach(f"{place.shown} is no directory: name the file without the slash.")


def _read_whole(file: int, place: Place, limit: int) -> Content:
    identity = Identity.of(os.fstat(file))
    parts: list[bytes] = []
    room = limit + 1
    while room and (part := os.read(file, min(room, _CHUNK_BYTES))):
        parts.append(part)
        room -= len(part)
    if not room:
        raise NotDone(
            f"{place.shown} has {max(identity.size, limit + 1)} bytes; files of more than {limit}"
            " are not changed, because the change could not be taken back."
        )
    return Content(data=b"".join(parts), identity=identity)


def _expect(parent: int, place: Place, guard: _Guard, over: Identity | None) -> None:
    """Raise NotDone where not that is in the place which was there when it was looked at."""
    file = _opened_file(parent, place, guard)
    found = None
    if file is not None:
        found = Identity.of(os.fstat(file))
        os.close(file)
    if found != over:
        raise NotDone(f"{place.shown} was changed just now. Read it again.")


def _replace(
    parent: int, name: str, data: bytes, mode: int | None, expect: Callable[[], None]
) -> None:
    """Write a file under a name of its own, and give it `name` once all of it is on the disk."""
    temporary = f".placet-{secrets.token_hex(8)}.tmp"
    file = os.open(temporary, _NEW_FILE, 0o666 if mode is None else 0o600, dir_fd=parent)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
            if mode is not None:
                os.fchmod(file, mode)
            os.fsync(file)
        finally:
            os.close(file)
        expect()
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise


def _sync(directory: int) -> None:
    """Have a directory's names on the disk, where its file system knows of that."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
