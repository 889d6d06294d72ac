"""What `bash` does: one command in the workspace, its output bounded, its processes all ended.

It is no sandbox. A command can do whatever its account can: read and write outside of the
workspace, reach the network, and the store. What is promised is that it has an end, that nobody
waits for its input, that its output is bounded, and that what it starts is marked as started by a
tool and is ended with it (supervisor.py says how, and where that ends).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from placet.core.masking import is_secret
from placet.runtime.authority import MARK
from placet.runtime.declarations import NotDone
from placet.runtime.threads import in_thread

#: Which shell runs the commands: the first that is there.
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")

#: How much of a command's output is kept from its head and from its tail, in bytes.
HEAD_BYTES = 16 * 1024
TAIL_BYTES = 16 * 1024

#: How long what is to end may take over it before it is killed.
GRACE = timedelta(seconds=2)

#: How much longer than a command's own time the supervisor may take, killing included.
SLACK = timedelta(seconds=20)

#: Variables by which a shell would run what nobody was shown.
HIDDEN_CODE = ("BASH_ENV", "ENV", "BASH_FUNC_", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS")

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_KEY_NAME = re.compile(r"(?:^|_)KEYS?$", re.IGNORECASE)
_READ_BYTES = 64 * 1024
_DRAINED_BYTES = 1024 * 1024


class CommandEnded(Exception):
    """The command was ended before it had ended itself; it may have acted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command for the shell: where, with which variables, and for how long at most."""

    text: str
    directory: str
    environment: Mapping[str, str] = field(default_factory=dict)
    lasts: timedelta


async def run_command(command: Command) -> str:
    """Run a command and give its output and exit code as a text.

    Raises NotDone where it did not start, and CommandEnded where it was ended. Cancelled, it ends
    the command before it says so.
    """
    running = _Running(command)
    work = asyncio.ensure_future(in_thread(running.run, name="bash"))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        running.say(b"s")
        try:
            await asyncio.wait({work})
        finally:  # Cancelled once more, there is no time left for grace.
            if not work.done() or work.cancelled():
                running.say(b"k")
                running.over.wait(GRACE.total_seconds())
        raise


def handed_on(
    environment: Mapping[str, str], *, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Give the variables that a command gets: those of the process, but for secrets, and `more`.

    A secret is what a card would mask (placet.core.display), by its name or by the shape of its
    value, and what is named a KEY. None that begins with PLACET_ is handed on, but for the mark
    under which what a tool starts cannot decide (G10): that is always there.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(("PLACET_", *HIDDEN_CODE)) and not _is_secret(name, value)
    }
    added = {name: value for name, value in (more or {}).items() if not _is_ours(name)}
    return {**kept, **added, MARK: environment.get(MARK) or "bash"}


def _present_environment() -> dict[str, str]:
    """Give the variables of the process, of which other threads may set and take away the mark."""
    found = {name: os.environ.get(name) for name in list(os.environ)}
    return {name: value for name, value in found.items() if value is not None}


def _is_ours(name: str) -> bool:
    return name.startswith("PLACET_")


def _is_secret(name: str, value: str) -> bool:
    return bool(_KEY_NAME.search(name)) or is_secret(name, value)


class _Running:
    """One command under its supervisor. `run` is for one thread, `say` for any."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._output = _Output()
        self._lifeline: int | None = None
        self._lifeline_change = threading.Lock()
        self._said = b""
        self.over = threading.Event()

    def say(self, word: bytes) -> None:
        """Ask the supervisor to end the command: `s` with grace, `k` at once."""
        with self._lifeline_change, contextlib.suppress(OSError):
            if self._lifeline is None:
                self._said += word
            else:
                os.write(self._lifeline, word)

    def run(self) -> str:
        """Run the command to its end."""
        try:
            with contextlib.ExitStack() as closing:
                report = self._report(closing)
        finally:
            self.over.set()
        return self._told(report)

    def _report(self, closing: contextlib.ExitStack) -> str:
        """Start the supervisor, take in the output, and give what the supervisor reports."""
        output, output_end = os.pipe()
        report, report_end = os.pipe()
        closing.callback(os.close, output)
        closing.callback(os.close, report)
        lifeline_end, lifeline = os.pipe()
        closing.callback(self._let_go)
        with self._lifeline_change:
            self._lifeline = lifeline
            os.write(lifeline, self._said)  # What was said before there was anybody to hear it.
        command = self._command
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                    *(str(report_end), str(lifeline_end)),
                    *(str(command.lasts.total_seconds()), str(GRACE.total_seconds())),
                    *(_shell(), "-c", "--", command.text),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                cwd=command.directory,
                env=handed_on(_present_environment(), more=command.environment),
                pass_fds=(report_end, lifeline_end),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NotDone(f"The command could not be started: {error}") from error
        finally:
            for end in (output_end, report_end, lifeline_end):
                os.close(end)
        return self._taken_in(process, output, report)

    def _taken_in(self, process: subprocess.Popen[bytes], output: int, report: int) -> str:
        until = time.monotonic() + (self._command.lasts + SLACK).total_seconds()
        reported = b""
        with process, selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(report, selectors.EVENT_READ)
            while report in selector.get_map():
                for key, _ in selector.select(max(0.0, until - time.monotonic())):
                    data = os.read(key.fd, _READ_BYTES)
                    if not data:
                        selector.unregister(key.fd)
                    elif key.fd == output:
                        self._output.add(data)
                    else:
                        reported += data
                if time.monotonic() >= until:
                    process.kill()
                    break
        self._drain(output)
        return reported.decode("ascii", "replace")

    def _drain(self, output: int) -> None:
        """Take what is still in the pipe, and wait for nobody who might still hold it."""
        os.set_blocking(output, False)
        left = _DRAINED_BYTES
        with contextlib.suppress(BlockingIOError):
            while left > 0 and (data := os.read(output, _READ_BYTES)):
                self._output.add(data)
                left -= len(data)

    def _let_go(self) -> None:
        with self._lifeline_change:
            lifeline, self._lifeline = self._lifeline, None
            if lifeline is not None:
                os.close(lifeline)

    def _told(self, report: str) -> str:
        """Tell of the end as the supervisor reported it."""
        words = [line.split() for line in report.splitlines()]
        said = {line[0]: line[1:] for line in words if line}
        output = self._output.text() or "(no output)"
        if "failed" in said:
            raise NotDone(f"The shell could not be started: {os.strerror(int(said['failed'][0]))}.")
        if "ended" not in said:
            for group in said.get("started", ()):
                with contextlib.suppress(OSError):
                    os.killpg(int(group), signal.SIGKILL)
            raise CommandEnded(
                "What watches over the command was ended from outside. The command was ended too;"
                f" something that it started may run on.\n{output}"
            )
        code, why, behind, left = said["ended"]
        notes = []
        if int(behind) and why == "itself":
            notes.append(f"({behind} processes that it left in the background were ended.)")
        if int(left):
            notes.append(f"({left} of its processes could not be ended, and may run on.)")
        if why == "itself":
            return "\n".join((output.rstrip("\n"), *notes, _exit(int(code))))
        lasts = f"{self._command.lasts.total_seconds():g}"
        cause = f"did not end within {lasts} seconds" if why == "time" else "was asked to end"
        raise CommandEnded(
            "\n".join((f"The command {cause}, and was ended. Its output so far:", output, *notes))
        )


def _shell() -> str:
    for shell in SHELLS:
        if os.access(shell, os.X_OK):
            return shell
    raise NotDone(f"There is no shell: neither of {', '.join(SHELLS)}.")


def _exit(code: int) -> str:
    if code >= 0:
        return f"(exit code {code})"
    try:
        return f"(ended by {signal.Signals(-code).name})"
    except ValueError:
        return f"(ended by signal {-code})"


def _decoded(data: bytes) -> str:
    """Give output as a text; a NUL, which no store of texts need take, is written out."""
    return data.decode("utf-8", "replace").replace("\0", "\\0")


class _Output:
    """What a command wrote: its head and its tail, whatever the length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._count = 0

    def add(self, data: bytes) -> None:
        """Take in what follows."""
        self._count += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def text(self) -> str:
        """Give it as a text, which says what was left out."""
        tail = bytes(self._tail[-TAIL_BYTES:])
        left_out = self._count - len(self._head) - len(tail)
        if not left_out:
            return _decoded(bytes(self._head) + tail)
        note = f"(… {left_out} bytes of the output are left out …)"
        return f"{_decoded(bytes(self._head))}\n{note}\n{_decoded(tail)}"
