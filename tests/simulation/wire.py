"""What lies between a simulated process and the store: time, and whatever fault the plan has.

A command that was handed over is either on its way through the process itself, and is lost with it,
or already with the store, and is carried out whatever becomes of the process. Which of the two it
is, and how long it takes, is the scheduler's to choose.
"""

from __future__ import annotations

import contextvars
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.simulation.clockwork import OWNER, Clockwork
from tests.simulation.machine import Process
from tests.simulation.plan import Plan, StoreFault
from tests.simulation.store import Pending, unreachable

#: How long something takes, in seconds, where it takes any time.
LATENCIES = (0.0, 0.0, 0.001, 0.005, 0.05, 0.3, 1.5)

#: How long it takes to find out that there is no connection.
CUT_OFF = 0.2

WRITE_FAULTS = ("lost", "unheard", "late", "slow")


class Network:
    """The wires of one world: they share the count of commands and reads, and the faults."""

    def __init__(self, plan: Plan, loop: Clockwork, random: Random) -> None:
        self.loop = loop
        self.hurry = plan.hurry
        self.is_sound = False
        self.injected: Counter[str] = Counter()
        self.wrote: Callable[[Process], None] = lambda _: None
        self.noted: Callable[[str], None] = lambda _: None
        self.delayed: Callable[[float], None] = lambda _: None
        self._random = random.random
        self._writes = 0
        self._reads = 0
        self._stale = 0.0
        self._faults = {
            (fault.kind in WRITE_FAULTS, fault.nth): fault for fault in plan.store_faults
        }

    def some_time(self) -> float:
        """Say how long the next thing takes."""
        if self._random() < self.hurry:
            return 0.0
        return LATENCIES[int(self._random() * len(LATENCIES))]

    def job_time(self) -> float:
        """Say how long a thread's job takes, or its answer; a stale read is heard of late."""
        stale, self._stale = self._stale, 0.0
        return stale or self.some_time()

    def fault(self, *, writes: bool) -> StoreFault | None:
        """Count a command or a read, and give what is to happen to it."""
        if writes:
            self._writes += 1
        else:
            self._reads += 1
        found = self._faults.get((writes, self._writes if writes else self._reads))
        if found is None or self.is_sound:
            return None
        self.injected[found.kind] += 1
        self.noted(f"the store fails: {found.kind}")
        return found

    def be_stale(self, seconds: float) -> None:
        """Let the answer to the read under way be heard of late."""
        self._stale = seconds
        self.delayed(seconds)

    def with_the_store(self) -> bool:
        """Say whether a command that was just handed over has left its process."""
        return self._random() < 0.5


class FaultyWire:
    """One process's wire."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    def write(self, pending: Pending) -> None:
        """Have a command carried out, and its answer arrive, or not."""
        network, loop = self._network, self._network.loop
        if not self._process.lives:
            pending.drop()
            return
        network.wrote(self._process)
        fault = network.fault(writes=True)
        if self._process.is_cut_off:
            pending.drop()
            loop.call_later(CUT_OFF, pending.arrive, unreachable())
            return
        on_its_way, back, instead = network.some_time(), network.some_time(), None
        if fault is not None:
            match fault.kind:
                case "lost":
                    pending.drop()
                    loop.call_later(fault.lasts, pending.arrive, unreachable())
                    return
                case "unheard":
                    back, instead = fault.lasts, unreachable()
                case "late":
                    on_its_way = fault.lasts
                case _:
                    back = fault.lasts
        here = contextvars.copy_context()
        carrier = contextvars.copy_context()
        if network.with_the_store():
            carrier.run(OWNER.set, None)

        def carried() -> None:
            pending.commit()
            loop.beside(back, pending.arrive, instead, name="answer", context=here)

        loop.beside(on_its_way, carried, name="command", context=carrier)

    def read(self) -> None:
        """Let a read through, or raise StoreTrouble."""
        if self._process.is_cut_off or not self._process.lives:
            raise unreachable()
        fault = self._network.fault(writes=False)
        if fault is not None and fault.kind == "refused":
            raise unreachable()
        if fault is not None:
            self._network.be_stale(fault.lasts)
