"""Which process this is, and whether another is provably gone (D4, D5).

A process is named by its host, the host's boot, its pid and its start time, so that a pid used
again names another. Only what is seen on its own host to exist no more is gone; whatever cannot be
seen from here may live.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path

from placet.core.canonical import sha256_hex
from placet.core.values import Holder

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def this_process() -> Holder:
    """Name the calling process."""
    host, boot = _host()
    return Holder(host=host, boot=boot, pid=os.getpid(), started=_started(os.getpid()) or "")


def awake() -> float:
    """Give seconds of a clock that nobody sets and that goes on while the machine sleeps."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)


def is_gone(holder: Holder) -> bool:
    """Say whether `holder` is seen, from its own host, to exist no more."""
    host, boot = _host()
    if holder.host != host or not holder.started or not boot:
        return False
    if holder.boot != boot:  # Started anew since, if it is this machine and no other of its name.
        return bool(_machine())
    started = _started(holder.pid)
    return started is not None and started != holder.started


@cache
def _host() -> tuple[str, str]:
    """Name the host as processes see it (a container's pids are its own), and its boot."""
    name = f"{platform.node()} {_machine()}"
    try:
        namespace = os.readlink("/proc/self/ns/pid")
        return f"{name} {namespace}", _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return name, _boot_without_proc()


def _machine() -> str:
    """Tell this machine from others of its name; empty where nothing does."""
    for path in _MACHINE_IDS:
        try:
            found = path.read_bytes().strip()
        except OSError:
            continue
        if found:
            return sha256_hex(b"placet" + found)[:16]
    return ""


def _boot_without_proc() -> str:
    found = _answer("sysctl", "-n", "kern.boottime")
    return found or ""


#: What `_started` says of a process that is seen to exist no more.
_NO_SUCH_PROCESS = ""


def _started(pid: int) -> str | None:
    """Give a process's start time as its system writes it, "" where there is no such process.

    None says that it cannot be seen from here: no right to look, no file descriptor left.
    """
    if not _exists(pid):
        return _NO_SUCH_PROCESS
    if not _BOOT_ID.exists():
        return _answer("ps", "-o", "lstart=", "-p", str(pid)) or None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended, though its parent has not looked (proc(5): state, starttime).
    return _NO_SUCH_PROCESS if fields[0] in "ZXx" else fields[19]


def _exists(pid: int) -> bool:
    """Ask the kernel by a signal that does nothing: it answers also for others' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _answer(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip()
