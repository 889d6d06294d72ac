"""What befalls the processes, hosts and people of a world, when the plan says so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.machine import Process
from tests.simulation.plan import Mark, Misfortune

if TYPE_CHECKING:
    from tests.simulation.world import World

#: A restarted process is given the pid of the one before it this often.
SAME_PID = 0.2


class Fortune:
    """The misfortunes of one world, by the mark that each waits for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counts: Counter[str] = Counter()
        self._waiting: defaultdict[tuple[str, int], list[Misfortune]] = defaultdict(list)
        self._stopped: set[Process] = set()
        self.befell: Counter[str] = Counter()
        self.is_over = False
        for misfortune in world.plan.misfortunes:
            self._waiting[misfortune.mark, misfortune.nth].append(misfortune)
        self.steps = sorted(m.nth for m in world.plan.misfortunes if m.mark == "step")

    def mark(self, mark: Mark, process: Process | None) -> None:
        """Count something that was done, and let happen what waits for it."""
        self._counts[mark] += 1
        found = self._waiting.get((mark, self._counts[mark]))
        if found and not self.is_over:
            for misfortune in found:
                self._meet(misfortune, process)

    def step(self, number: int) -> None:
        """Let happen what waits for a step of the scheduler."""
        while self.steps and number >= self.steps[0]:
            for misfortune in self._waiting["step", self.steps.pop(0)]:
                if not self.is_over:
                    self._meet(misfortune, None)

    def end(self) -> None:
        """End all misfortune: whoever was stopped goes on."""
        self.is_over = True
        for process in list(self._stopped):
            self._go_on(process)

    # ------------------------------------------------------------------------------------------

    def _meet(self, misfortune: Misfortune, process: Process | None) -> None:
        if misfortune.after > 0:
            self._world.later(misfortune.after, lambda: self._befall(misfortune, process))
        else:
            self._befall(misfortune, process)

    def _befall(self, misfortune: Misfortune, process: Process | None) -> None:
        world = self._world
        if self.is_over:
            return
        victim = process
        if misfortune.who or victim is None:
            victim = world.of_role(misfortune.who or "worker0")
        does = _BEFALLS[misfortune.kind]
        if victim is not None and victim.lives:
            self.befell[misfortune.kind] += 1
            world.note(victim.name, f"{misfortune.kind} ({misfortune.mark} {misfortune.nth})")
            does(self, misfortune, victim)

    def _kill(self, misfortune: Misfortune, victim: Process) -> None:
        self._world.machine.kill(victim)
        self._again(misfortune, victim)

    def _again(self, misfortune: Misfortune, victim: Process) -> None:
        if misfortune.lasts >= 0:
            same = victim.pid if self._world.random.random() < SAME_PID else None
            world = self._world
            world.later(misfortune.lasts, lambda: world.start(victim.role, pid=same))

    def _stop(self, misfortune: Misfortune, victim: Process) -> None:
        if victim not in self._stopped:
            self._stopped.add(victim)
            self._world.loop.halt(victim)
            self._world.later(misfortune.lasts, lambda: self._go_on(victim))

    def _go_on(self, process: Process) -> None:
        if process in self._stopped:
            self._stopped.discard(process)
            self._world.note(process.name, "goes on")
            self._world.loop.go_on(process)
            self._world.promises.disturbed_at = self._world.loop.time()

    def _reboot(self, misfortune: Misfortune, victim: Process) -> None:
        for process in self._world.machine.reboot(victim.host):
            self._again(misfortune, process)

    def _interrupt(self, misfortune: Misfortune, victim: Process) -> None:
        """End a process as an interrupt at a terminal does: its tasks are cancelled, and end."""
        world = self._world
        for task in world.loop.tasks_of(victim):
            task.cancel()

        def look() -> None:
            if not victim.lives:
                return
            if world.loop.tasks_of(victim):
                world.later(0.05, look)
                return
            world.note(victim.name, "has ended")
            world.machine.kill(victim)
            self._again(misfortune, victim)

        world.later(0.0, look)

    def _cut_off(self, misfortune: Misfortune, victim: Process) -> None:
        victim.is_cut_off = True

        def join() -> None:
            victim.is_cut_off = False

        self._world.later(misfortune.lasts, join)

    def _clock(self, misfortune: Misfortune, victim: Process) -> None:
        victim.host.skew += misfortune.by

    def _leap(self, misfortune: Misfortune, _victim: Process) -> None:
        self._world.leap(self._world.loop.time() + abs(misfortune.by))

    def _environment(self, _misfortune: Misfortune, _victim: Process) -> None:
        self._world.change_environment()

    def _policy(self, _misfortune: Misfortune, _victim: Process) -> None:
        self._world.strictness += 1

    def _file(self, _misfortune: Misfortune, _victim: Process) -> None:
        self._world.replace_file()

    def _deploy(self, misfortune: Misfortune, victim: Process) -> None:
        self._world.version = 2
        self._kill(misfortune, victim)

    def _approvers(self, misfortune: Misfortune, _victim: Process) -> None:
        """Name other approvers: all that stay are started anew, as with any change of settings."""
        self._world.name_approvers()
        for process in self._world.that_stay():
            self._kill(misfortune, process)

    def _cancel(self, misfortune: Misfortune, _victim: Process) -> None:
        self._world.cancel_something(misfortune.nth)

    def _end_session(self, misfortune: Misfortune, _victim: Process) -> None:
        self._world.end_a_session(misfortune.nth)


_BEFALLS: dict[str, Callable[[Fortune, Misfortune, Process], None]] = {
    "kill": Fortune._kill,
    "stop": Fortune._stop,
    "reboot": Fortune._reboot,
    "interrupt": Fortune._interrupt,
    "cut_off": Fortune._cut_off,
    "clock": Fortune._clock,
    "leap": Fortune._leap,
    "environment": Fortune._environment,
    "policy": Fortune._policy,
    "file": Fortune._file,
    "deploy": Fortune._deploy,
    "approvers": Fortune._approvers,
    "cancel": Fortune._cancel,
    "end_session": Fortune._end_session,
}
