"""Runs one command and leaves none of its processes behind: a program of its own, run by path.

    python -I -S supervisor.py REPORT LIFELINE SECONDS GRACE PROGRAM ARGUMENT...

Theory of operation. The runtime has threads, in which nothing may happen between fork and exec,
and it may be killed at any time; so this stands between it and the command. The command gets a
session of its own. On Linux whatever loses its parent in it, by a double fork or `setsid`, becomes
a child of this process (PR_SET_CHILD_SUBREAPER), and so there is nothing of it that is not found.
LIFELINE is a pipe that the runtime holds open: `s` on it asks to end the command, `k` to end it at
once, and its end means that the runtime is no more. When the command has ended, or is to end,
all that is left of it gets SIGTERM, and SIGKILL once GRACE seconds have passed. REPORT gets the
command's process id, and then its exit code, why it was ended, how many processes it had left
behind, and how many could not be ended. It imports nothing of placet, and judges nothing.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36

#: How long what got SIGKILL is waited for.
KILL_SECONDS = 5.0

#: How often what is left is looked for anew: processes may start others while they end.
LOOK_SECONDS = 0.05

#: Signals that ask this process to end, and the command with it.
ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

#: Signals that Python ignores, or whoever started the runtime may have, and a command expects.
DEFAULTS = (*ENDING, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


class Supervised:
    """The command, and what became of it."""

    def __init__(self, lifeline: int, wake: int) -> None:
        self.main = 0
        self.code: int | None = None
        self.is_reaper = become_reaper()
        self.left_behind: set[int] = set()
        self._lifeline: int | None = lifeline
        self._wake = wake
        self._is_hurried = False

    def start(self, command: list[str], report: int) -> int:
        """Start the command, and give 0, or the number of the error that kept it from starting."""
        reading, writing = os.pipe()
        self.main = os.fork()
        if self.main == 0:
            become(command, writing, report)
        os.close(writing)
        failed = os.read(reading, 16)
        os.close(reading)
        return int(failed or b"0")

    def watch(self, seconds: float) -> str:
        """Wait for the command's end, and say why it must be ended if it has not."""
        until = time.monotonic() + seconds
        while self.reap() and self.code is None:
            left = until - time.monotonic()
            if left <= 0:
                return "time"
            if self._is_asked(left):
                return "asked"
        return "itself"

    def end(self, grace: float) -> int:
        """End what is left, and give how many processes could not be ended."""
        told: set[int] = set()
        until = time.monotonic() + grace
        while self.is_left() and time.monotonic() < until and not self._is_hurried:
            for process in self.remaining() - told:
                send(process, signal.SIGTERM)
                told.add(process)
            self._is_asked(LOOK_SECONDS)
        self.left_behind |= told
        until = time.monotonic() + KILL_SECONDS
        while self.is_left() and time.monotonic() < until:
            for process in self.remaining():
                send(process, signal.SIGKILL)
                self.left_behind.add(process)
            self._is_asked(LOOK_SECONDS)
        return max(len(self.remaining()), 1) if self.is_left() else 0

    def reap(self) -> bool:
        """Take note of what has ended, and say whether any child is left."""
        try:
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return True
                if process == self.main:
                    self.code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def is_left(self) -> bool:
        """Say whether anything that the command started is seen to be left."""
        if self.reap():
            return True
        return not self.is_reaper and send(-self.main, 0)

    def remaining(self) -> set[int]:
        """Give what is left: on Linux each process, elsewhere the command's process group."""
        found = descendants() if self.is_reaper else None
        return {-self.main} if found is None else found

    def _is_asked(self, seconds: float) -> bool:
        """Wait for a child's end or for a word, and say whether it was asked to end."""
        watched = [self._wake] if self._lifeline is None else [self._wake, self._lifeline]
        ready, _, _ = select.select(watched, [], [], seconds)
        asked = False
        if self._wake in ready:
            asked = any(number in ENDING for number in os.read(self._wake, 512))
        if self._lifeline in ready and self._lifeline is not None:
            asked = True
            words = os.read(self._lifeline, 16)
            self._is_hurried = self._is_hurried or b"k" in words
            if not words:
                self._lifeline = None
        return asked


def become_reaper() -> bool:
    """Have orphans of the command become children of this process, where the system knows how."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes  # Lazily: it is large, and of no use elsewhere.

        done: int = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False
    return done == 0


def become(command: list[str], failure: int, report: int) -> None:
    """Make of a process just forked the command, in a session of its own; does not return.

    It reports its process id itself: once it is the command, it may end its parent at any time.
    """
    try:
        os.setsid()
        os.write(report, f"started {os.getpid()}\n".encode())
        for number in DEFAULTS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execv(command[0], command)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def send(process: int, number: int) -> bool:
    """Send a signal, to a process or as os.kill takes it to a group; say whether it is there."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def descendants() -> set[int] | None:
    """Give all that descends from this process, but for what has ended; proc(5), if it is there."""
    parents: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return None
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    state, parent = stat.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state not in b"ZXx":
                parents[int(name)] = int(parent)
    found: set[int] = set()
    wanted = {os.getpid()}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted} - found
        found |= wanted
    return found


def main(words: list[str]) -> None:
    """Run the command that the words name; see above."""
    report, lifeline = int(words[0]), int(words[1])
    for inherited in (report, lifeline):
        os.set_inheritable(inherited, False)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (*ENDING, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    supervised = Supervised(lifeline, wake)
    failed = supervised.start(words[4:], report)
    if failed:
        os.write(report, f"failed {failed}\n".encode())
        return
    why = supervised.watch(float(words[2]))
    left = supervised.end(float(words[3]))
    code = "-" if supervised.code is None else str(supervised.code)
    behind = len(supervised.left_behind - {supervised.main})
    os.write(report, f"ended {code} {why} {behind} {left}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
