"""Hosts and processes, and the seams at which placet asks its operating system about them.

What placet asks a kernel (who am I, is that process gone, what is the time, give me random bits,
start a thread) is answered from here while a world runs. Nothing of placet's own logic is replaced:
which of two processes is gone is still for `placet.runtime.processes` to say.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from placet.core.values import Holder
from placet.runtime import authority, processes, threads
from tests.simulation.clockwork import OWNER, Clockwork, Owner, Thread


@dataclass(slots=True)
class Host:
    """A machine: what its kernel knows. `skew` is how far its wall clock is from the true time."""

    name: str
    boots: int = 1
    skew: float = 0.0
    table: dict[int, str] = field(default_factory=dict)

    @property
    def boot(self) -> str:
        return f"boot-{self.boots}"


class Process(Owner):
    """A simulated process. `approvers` are those that its settings named when it began."""

    def __init__(
        self, role: str, host: Host, pid: int, started: str, approvers: tuple[str, ...]
    ) -> None:
        super().__init__(f"{role}.{pid}.{started}")
        self.role = role
        self.host = host
        self.boot = host.boot
        self.pid = pid
        self.started = started
        self.approvers = approvers
        self.stopped = False
        self.is_cut_off = False
        self.version = 1

    @property
    def holder(self) -> Holder:
        return Holder(host=self.host.name, boot=self.boot, pid=self.pid, started=self.started)


class Machine:
    """All hosts, and the processes on them."""

    def __init__(self, loop: Clockwork, hosts: int) -> None:
        self.loop = loop
        self.hosts = [Host(name=f"host{number}") for number in range(hosts)]
        self.processes: list[Process] = []
        self._starts = itertools.count(1)

    def start(
        self, role: str, host: Host, approvers: tuple[str, ...], *, pid: int | None = None
    ) -> Process:
        """Start a process; a `pid` that a dead process had may be given out again."""
        started = str(next(self._starts))
        if pid is None or pid in host.table:
            pid = 100 + len(self.processes)
        process = Process(role, host, pid, started, approvers)
        host.table[pid] = started
        self.processes.append(process)
        return process

    def kill(self, process: Process) -> None:
        """End a process at once, with all that it was doing."""
        if process.lives:
            self.loop.kill(process)
            if process.host.table.get(process.pid) == process.started:
                del process.host.table[process.pid]

    def reboot(self, host: Host) -> list[Process]:
        """Start a host anew; give the processes that ended with it."""
        ended = [each for each in self.processes if each.host is host and each.lives]
        for process in ended:
            self.kill(process)
        host.boots += 1
        return ended

    def is_gone(self, holder: Holder) -> bool:
        """Say whether a process is truly gone, seen from nowhere."""
        return not any(each.holder == holder and each.lives for each in self.processes)


def current() -> Process:
    """Give the process that runs."""
    found = OWNER.get()
    assert isinstance(found, Process), "nobody runs outside of the processes"
    return found


class _Kernel:
    """What the kernel answers, to whichever process asks."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        #: Stands in the place of the modules `os` and `time` that `processes` asks.
        self.os = SimpleNamespace(getpid=lambda: current().pid)
        self.time = SimpleNamespace(monotonic=machine.loop.time)

    def host(self) -> tuple[str, str]:
        process = current()
        return process.host.name, process.host.boot

    def started(self, pid: int) -> str:
        return current().host.table.get(pid, "")


@contextlib.contextmanager
def the_system(machine: Machine, seed: Random) -> Iterator[None]:
    """Answer from `machine` whatever placet asks of its operating system, for as long as it lasts.

    Random bits come from `seed`: the standard generator's, and those of `secrets`.
    """
    kernel = _Kernel(machine)
    state, bits, environment = random.getstate(), secrets.token_bytes, authority.MARK in os.environ
    seams: list[tuple[Any, str, object]] = [
        (processes, "_host", kernel.host),
        (processes, "_machine", lambda: "machine"),
        (processes, "_started", kernel.started),
        (processes, "os", kernel.os),
        (processes, "time", kernel.time),
        (threads, "threading", SimpleNamespace(Thread=Thread)),
        (secrets, "token_bytes", lambda count=32: seed.randbytes(count or 32)),
    ]
    before = [(place, name, getattr(place, name)) for place, name, _ in seams]
    random.seed(seed.getrandbits(64))
    for place, name, seam in seams:
        setattr(place, name, seam)
    try:
        yield
    finally:
        for place, name, own in before:
            setattr(place, name, own)
        random.setstate(state)
        assert secrets.token_bytes is bits, "the operating system's own bits are back"
        _forget_bodies(marked=environment)


def _forget_bodies(*, marked: bool) -> None:
    """Take away the marks of bodies that killed processes never left."""
    cast(Any, authority)._bodies.clear()
    if not marked:
        os.environ.pop(authority.MARK, None)
