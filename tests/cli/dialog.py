"""A dialog with the real command at a real terminal: read until a text comes, then type."""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.place import PATIENCE_SECONDS, Place

#: Takes the terminal as its own, so that Ctrl-C there is an interrupt, and becomes the command.
_AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "placet", *sys.argv[1:]])
"""

CTRL_C, CTRL_D = "\x03", "\x04"


class Dialog:
    """A process whose input and output are a terminal, at which a test sits."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen = ""
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._read_to = 0

    def type(self, text: str) -> None:
        """Strike keys."""
        os.write(self._terminal, text.encode())

    def say(self, line: str, *, at: str = "> ") -> str:
        """Wait for a prompt, and type a line; give what came before the prompt."""
        before = self.expect(at)
        self.enter(line, at=at)
        return before

    def enter(self, line: str, *, at: str = "> ") -> None:
        """Type a line at a prompt that is there, and read on to where it is shown.

        Line editing draws the prompt anew once a key is struck.
        """
        self.type(f"{line}\r")
        self.expect(line.partition("\r")[0].strip() or at)

    def expect(self, text: str) -> str:
        """Read until a text comes; give what came before it, since the last one."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen[self._read_to :]:
            assert self._more(until), f"{text!r} never came:\n{self.seen[self._read_to :]}"
        found = self.seen.index(text, self._read_to)
        before, self._read_to = self.seen[self._read_to : found], found + len(text)
        return before

    def ended(self) -> int:
        """Read to the end, and give the exit code."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self._more(until):
            pass
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def kill(self) -> None:
        """Kill the process as an operator or a power cut does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=PATIENCE_SECONDS)

    def _more(self, until: float) -> bool:
        """Read more of what the terminal shows; False: there is none, or it takes too long."""
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            got = os.read(self._terminal, 65536)
        except OSError:  # The other side has closed the terminal.
            return False
        self.seen += self._decoder.decode(got).replace("\r\n", "\n")
        return bool(got)


@contextmanager
def dialog(
    place: Place, *words: str, by: str = "", width: int = 250, **more: str
) -> Iterator[Dialog]:
    """Start the command at a terminal of its own."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (50, width))
    keys = place.write("inputrc", "set enable-bracketed-paste off")
    env = place.environment(by=by, **{"TERM": "xterm", "INPUTRC": str(keys), **more})
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_TERMINAL, *words],
        cwd=place.directory,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Dialog(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
