"""Lines that a person or a script says, read so that what happens meanwhile is noticed.

While nothing has been typed the caller's `changed` is asked now and then, and ends the wait. Once
somebody has begun to type at a terminal the line is theirs: what it is about does not change under
their fingers (H5). Without a terminal's line editing, a line is there only when it is whole.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

import click

from placet.core.errors import InvalidInput

#: How often it is asked whether something has changed while a line is waited for.
LOOK = timedelta(milliseconds=100)

_ERASE_LINE = "\r\x1b[K"
_LOCAL_MODES = 3  # The index of the local modes in what termios gives.
_READ_BYTES = 65536


class Lines(Protocol):
    """Where lines come from."""

    def read(self, prompt: str, changed: Callable[[], bool], *, fresh: bool) -> str | None:
        """Give the next line without its end; None: something has changed meanwhile.

        `fresh` says that only what is typed after the prompt counts, as for a decision. Raises
        EOFError at the end, and InvalidInput for what is no text.
        """
        ...


def lines_of_stdin() -> Lines:
    """Give the lines of standard input: edited at a terminal, and else as they come."""
    if sys.stdin is None:
        return PlainLines(None)
    whole = sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    if whole and os.environ.get("TERM", "dumb") != "dumb":
        try:
            return EditedLines()
        except ImportError:  # This Python was built without it.
            pass
    return PlainLines(sys.stdin.fileno())


class PlainLines:
    """Lines of a pipe, a file, or a terminal without line editing; None has none.

    Only at a terminal is there anything to ask for before each line.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._terminal = fd is not None and os.isatty(fd)
        self._bytes = b""

    def read(self, prompt: str, changed: Callable[[], bool], *, fresh: bool) -> str | None:
        """Give the next line."""
        if fresh and self._terminal and self._fd is not None:
            termios.tcflush(self._fd, termios.TCIFLUSH)
            self._bytes = b""
        if fresh or self._terminal:
            click.echo(prompt, err=True, nl=not self._terminal)
        while b"\n" not in self._bytes and self._fd is not None:
            if not _readable(self._fd):
                if changed():
                    click.echo(err=True, nl=self._terminal)
                    return None
                continue
            got = os.read(self._fd, _READ_BYTES)
            self._bytes += got
            if not got:
                break
        if not self._bytes:
            raise EOFError
        line, _, self._bytes = self._bytes.partition(b"\n")
        return _text(lambda: line.decode(sys.stdin.encoding))


class EditedLines:
    """Lines that are typed at a terminal, with the editing and the history of readline.

    Until the first key is struck the terminal gives single keys, and shows none; then readline
    takes the line over, with that key still to be read. Decisions stay out of the history.
    """

    def __init__(self) -> None:
        import readline

        self._readline = readline
        self._fd = sys.stdin.fileno()

    def read(self, prompt: str, changed: Callable[[], bool], *, fresh: bool) -> str | None:
        """Give the next line."""
        with _as_it_was(self._fd):
            _key_by_key(self._fd, shown=False)
            if fresh:
                termios.tcflush(self._fd, termios.TCIFLUSH)
            click.echo(prompt, nl=False)
            while not _readable(self._fd):
                if changed():
                    click.echo(_ERASE_LINE, nl=False)
                    return None
            click.echo(_ERASE_LINE, nl=False)
            _key_by_key(self._fd, shown=True)  # Else readline shows nothing, either.
            self._readline.set_auto_history(not fresh)
            return _text(lambda: input(prompt))


def _readable(fd: int) -> bool:
    found, _, _ = select.select([fd], [], [], LOOK.total_seconds())
    return bool(found)


def _key_by_key(fd: int, *, shown: bool) -> None:
    """Have a terminal give keys as they are struck; only the modes change, no key is lost."""
    modes = termios.tcgetattr(fd)
    modes[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
    if shown:
        modes[_LOCAL_MODES] |= termios.ECHO
    termios.tcsetattr(fd, termios.TCSADRAIN, modes)


@contextmanager
def _as_it_was(fd: int) -> Iterator[None]:
    """Leave a terminal in the modes in which it was found."""
    before = termios.tcgetattr(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _text(read: Callable[[], str]) -> str:
    """Give a line that is text, in the encoding of standard input; raises InvalidInput."""
    try:
        line = read()
        line.encode()
    except UnicodeError as error:
        told = f"That line is no text in {sys.stdin.encoding}, and was not taken."
        raise InvalidInput("no_text", told) from error
    return line
