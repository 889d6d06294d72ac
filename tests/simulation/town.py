"""Who lives in a world: its processes and people, and what they do; and what can befall them.

Drivers begin runs and resume them, workers carry on what is due, and people come and go, each time
in a process of their own.
"""

from __future__ import annotations

import contextvars
import heapq
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from placet import Placet
from placet.core.errors import PlacetError
from placet.stores.store import RequestRow
from tests.simulation import people
from tests.simulation.clockwork import Clockwork
from tests.simulation.disk import Disk
from tests.simulation.framework import FRAMEWORK, Framework
from tests.simulation.guards import GUARD, Guards
from tests.simulation.machine import Machine, Process, current
from tests.simulation.plan import Plan, PlannedRun, Reaction
from tests.simulation.policies import FileInForce
from tests.simulation.promises import Promises
from tests.simulation.scene import Scene
from tests.simulation.store import SimulatedStore
from tests.simulation.tools import AGENTS, ASKING, WATCHING
from tests.simulation.wire import FaultyWire, Network

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

_TYPED = re.compile(r"\[[a-z_]+(?: [a-z_]+=[^\]]*)?\]")


class Town:
    """The processes and people of one world, and what they share."""

    def __init__(self, plan: Plan, *, schedule: int, traced: bool) -> None:
        self.plan = plan
        self.random = Random(f"world {plan.seed} {schedule}")
        self.loop = Clockwork(Random(f"schedule {plan.seed} {schedule}"), sticks=plan.sticks)
        self.machine = Machine(self.loop, plan.hosts)
        for host, skew in zip(self.machine.hosts, plan.skews, strict=False):
            host.skew = skew
        self.disk = Disk()
        self.network = Network(plan, self.loop, self.random)
        self.scene = Scene(plan, self.network, self.open)
        self.truth = self.scene.truth
        self.promises = Promises(self.machine, self.truth)
        self.promises.asking, self.promises.watching = ASKING, WATCHING
        self.version = 1
        self.trace: list[str] | None = [] if traced else None
        self.approvers = plan.approvers
        self._later_approvers = list(plan.later_approvers)
        self.files = list(plan.files)
        self.promises.see_files(self.files[:1])
        self._roles: dict[str, Process] = {}
        self.outside = contextvars.Context()
        self.answers: Counter[str] = Counter()
        self.is_ending = False
        self.dates: list[float] = []
        self.frameworks: dict[Process, Framework] = {}
        self.guards: dict[Process, Guards] = {}
        self._leads = {run.agent for run in plan.runs}
        self.has_guards = any(run.agent == GUARD for run in plan.runs)

    # --- what happens -------------------------------------------------------------------------

    def leap(self, until: float) -> None:
        """Let the machine sleep."""
        self.loop.leap(until)
        self.disturbed(0.0)

    def disturbed(self, seconds: float) -> None:
        """Note that what a process has seen may be old by now, or will be for a while."""
        self.promises.disturbed_at = self.loop.time() + seconds

    def later(self, seconds: float, does: Callable[[], object]) -> None:
        """Do something in the world outside of all processes, after a while."""
        heapq.heappush(self.dates, self.loop.time() + seconds)
        self.loop.call_later(seconds, does, context=self.outside)

    def of_role(self, role: str) -> Process | None:
        return self._roles.get(role)

    def that_stay(self) -> list[Process]:
        """Give the processes that live for longer than one decision."""
        return [process for process in self._roles.values() if process.lives]

    def note(self, who: str, what: str) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.loop.steps:>6} {self.loop.time():>12.3f}  {who}: {what}")

    def heard(self, who: str, what: str) -> None:
        self.answers[what] += 1
        self.note(who, f"is told {what}")

    def other_session(self, session: str) -> str:
        return next((run.session for run in self.plan.runs if run.session != session), "elsewhere")

    @property
    def strictness(self) -> int:
        return self.scene.strictness

    @strictness.setter
    def strictness(self, value: int) -> None:
        self.scene.strictness = value

    def change_environment(self) -> None:
        for tool in sorted(WATCHING):
            self.truth.environment[tool] = self.truth.environment.get(tool, 0) + 1

    def replace_file(self) -> None:
        """Put the next policy file in the place of the one that is in force."""
        if len(self.files) > 1:
            self.files.pop(0)
            self.promises.see_files(self.files[:1])

    def name_approvers(self) -> None:
        if self._later_approvers:
            self.approvers = self._later_approvers.pop(0)

    def cancel_something(self, nth: int) -> None:
        active = [(run, book.session) for (_, run), book in self.disk.runs.items()]
        if active:
            run, session = active[nth % len(active)]
            self._say("rita", lambda placet: placet.cancel(run, by="rita", session=session))

    def end_a_session(self, nth: int) -> None:
        sessions = [book.session for book in self.disk.books.values()]
        if sessions:
            session = sessions[nth % len(sessions)]
            self._say("rita", lambda placet: placet.end_session(session, by="rita"))

    # --- processes ----------------------------------------------------------------------------

    def start(self, role: str, *, pid: int | None = None) -> Process:
        """Start a process in a role, on its host."""
        number = int(role[-1]) if role[-1].isdigit() else 0
        host = self.machine.hosts[number % len(self.machine.hosts)]
        process = self.machine.start(role, host, self.approvers, pid=pid)
        process.version = self.version
        known = self._roles.get(role)
        self._roles[role] = process
        self.note(process.name, "starts")
        if role.startswith("driver"):
            self.loop.spawn(process, self._drive(process, number, again=known is not None))
        elif role.startswith("worker"):
            self.loop.spawn(process, self._work(process))
        return process

    def open(self, process: Process) -> Placet:
        """Open the store in a process, with the agents of its release."""

        def clock() -> datetime:
            return START + timedelta(seconds=self.loop.time() + process.host.skew)

        wire = FaultyWire(self.network, process)
        store = SimulatedStore(self.disk, clock=clock, wire=wire, by=process)
        placet = Placet(
            store,
            agents=[each for each in AGENTS[process.version] if each.name in self._leads],
            approvers=process.approvers,
            policy=FileInForce(lambda: self.files[0]) if self.files else None,
        )
        self.frameworks[process] = Framework(self, placet)
        if self.has_guards and process.role.startswith(("driver", "worker")):
            self.guards[process] = Guards(self, placet)
        return placet

    async def _drive(self, process: Process, number: int, *, again: bool) -> None:
        placet = self.open(process)
        for index, planned in enumerate(self.plan.runs):
            if planned.driver == number:
                self.loop.create_task(self._drive_run(placet, index, planned, again=again))

    async def _drive_run(
        self, placet: Placet, index: int, planned: PlannedRun, *, again: bool
    ) -> None:
        who = f"driver of run{index}"
        await self.scene.wait(0.0 if again else planned.starts)
        for _ in range(5):
            if self.is_ending:
                return
            code = await self.call(who, self._begin(placet, index, planned))
            if code in ("", "session_ended"):
                break
            await self.scene.wait(20.0)
        for pause in planned.resumes:
            await self.scene.wait(pause)
            if planned.agent in (FRAMEWORK, GUARD):
                await self.call(who, self._begin(placet, index, planned))
            else:
                await self.call(who, placet.resume(f"run{index}"))

    async def _begin(self, placet: Placet, index: int, planned: PlannedRun) -> None:
        if planned.agent == FRAMEWORK:
            await self.frameworks[current()].go(index)
            return
        if planned.agent == GUARD:
            await self.guards[current()].go(index)
            return
        await placet.run(
            planned.agent,
            f"run {index}",
            session=planned.session,
            requester=planned.requester,
            run_id=f"run{index}",
            on_message="supersede" if planned.supersede else "refuse",
        )

    async def _work(self, process: Process) -> None:
        placet = self.open(process)

        def report(happening: str, about: str, detail: str) -> None:
            if happening == "notice":
                self.promises.told.add(about)
            elif happening == "trouble" and not _TYPED.search(detail):
                self.promises.fault("D2", f"a worker met with {detail}")
            else:
                self.heard(process.name, f"{happening} {about} {detail}".strip()[:90])

        try:
            await placet.worker(report=report).forever()
        except Exception as error:  # noqa: BLE001  # A worker that ends is a fault.
            self.promises.fault("D2", f"a worker ended with {error!r}")

    async def call(self, who: str, doing: Coroutine[Any, Any, object]) -> str:
        """Call placet as a program would, and give the code with which it was refused."""
        try:
            await doing
        except PlacetError as error:
            self.heard(who, error.code)
            return error.code
        except Exception as error:  # noqa: BLE001  # Whatever is not typed is a fault.
            self.promises.fault("D2", f"{who} met with {error!r}")
            return "odd"
        return ""

    # --- people -------------------------------------------------------------------------------

    def _say(self, who: str, says: Callable[[Placet], Coroutine[Any, Any, object]]) -> None:
        """Let somebody do one thing, in a process of its own."""
        host = self.machine.hosts[0]
        process = self.machine.start(f"{who}-", host, self.approvers)
        process.version = self.version

        async def said() -> None:
            await self.call(who, says(self.open(process)))

        task = self.loop.spawn(process, said())
        task.add_done_callback(lambda _: self.machine.kill(process))

    def react(self, request: str, reaction: Reaction) -> None:
        if self.is_ending:
            return

        async def reacts(placet: Placet) -> None:
            row = await placet.engine.find_request(request)
            await people.act(self, placet, row, reaction.person, reaction.act)

        self._say(reaction.person, reacts)

    def answer(self, row: RequestRow) -> None:
        person = next(iter(row.request.needs.approvers), "ann")
        self._say(person, lambda placet: people.do_the_right_thing(self, placet, row, person))
