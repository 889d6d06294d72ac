"""A world: a town as a plan has it, under one scheduler, from its beginning to its end.

Theory of operation. First what the plan says comes about, in the order that the scheduler chooses.
Then the faults end: whoever was stopped goes on, a worker is there, people answer (or nobody does,
and every deadline passes); and by then each run must end. After every step that has changed
something the promises are held; the first that is broken ends the world.
"""

from __future__ import annotations

import heapq
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from types import ModuleType

from placet import EditedWarning
from placet.adapters import function_runs, functions
from placet.core import events as e
from placet.core.state import RunOver
from placet.runtime import hosting, worker
from placet.stores.store import RequestRow
from tests.simulation.clockwork import OWNER, Handle, Lane, running
from tests.simulation.closing import hold_the_end
from tests.simulation.disk import Commit
from tests.simulation.fortune import Fortune
from tests.simulation.framework import FRAMEWORK
from tests.simulation.guards import GUARD
from tests.simulation.machine import Process, the_system
from tests.simulation.outcome import Outcome, told
from tests.simulation.people import SPEAKER
from tests.simulation.plan import Mark, Plan
from tests.simulation.policies import VARIANTS
from tests.simulation.tools import under_way
from tests.simulation.town import START, Town
from tests.simulation.truth import Body

HOUR = 3_600.0

#: How long what the plan says may take, in seconds of the world and in steps.
HORIZON = 80 * HOUR
MOST_STEPS = 40_000

#: From how many steps on a world is taken to go on for ever.
TOO_MANY_STEPS = 100_000

#: How many timers pass without any change before time leaps, and how far it leaps first.
QUIET = 1
FIRST_LEAP = 30.0
LONGEST_LEAP = 12 * HOUR

#: What is due sooner than this is something that takes time, and no look at the clock.
LONGEST_LATENCY = 2.0

#: How often people answer, or time passes, until every run must have ended; and how often without
#: any change.
ROUNDS = 500
PATIENCE = 5


#: How often what is under way elsewhere is looked for, in seconds: less often than in a true one.
LOOKS_AGAIN = 1.0


class World(Town):
    """One world, from its plan to its end. `schedule` chooses another order of the same plan."""

    def __init__(self, plan: Plan, *, schedule: int = 0, traced: bool = False) -> None:
        super().__init__(plan, schedule=schedule, traced=traced)
        self.fortune = Fortune(self)
        self._events: Counter[str] = Counter()
        begun = [index for index, run in enumerate(plan.runs) if run.agent != GUARD]
        self._planned = {f"run{index}" for index in begun}
        self._over, self._over_at = False, -1
        self._quiet = 0
        self._wire_up()

    def _wire_up(self) -> None:
        self.disk.watch = self._committed
        self.loop.delay = self.network.job_time
        self.network.wrote = lambda process: self.fortune.mark("write", process)
        self.network.delayed = self.disturbed
        self.network.noted = lambda what: self.note("store", what)
        self.scene.promises = self.promises
        self.scene.noted = self.note
        self.truth.entered = self._entered
        self.truth.acted = self._acted
        self.truth.left = lambda body: self._saw("left", body)
        if self.trace is not None:
            self.loop.watch = self._watched

    # --- what is watched ----------------------------------------------------------------------

    def _committed(self, commit: Commit, by: object) -> None:
        process = by if isinstance(by, Process) else None
        for event in commit.events:
            self._events[type(event).__name__] += 1
            if self.trace is not None:
                self.note(process.name if process else "nobody", told(event))
        self.promises.committed(commit, process, SPEAKER.get())
        self._quiet = 0
        for event in commit.events:
            match event:
                case e.RequestOpened(request=request):
                    self._opened(request)
                    self.fortune.mark("opened", process)
                case e.AttemptBegun():
                    self.fortune.mark("intent", process)
                case e.CallEnded():
                    self.fortune.mark("ended", process)
                case e.VoteCast() | e.RequestRejected() | e.RequestEdited():
                    self.fortune.mark("decided", process)
                case _:
                    pass

    def _opened(self, request: str) -> None:
        reactions = self.plan.reactions
        if not reactions or self.is_ending:
            return
        for reaction in reactions[(len(self.promises.opened) - 1) % len(reactions)]:
            self.later(reaction.delay, partial(self.react, request, reaction))

    def _entered(self, body: Body) -> None:
        self.promises.entered(body)
        self._saw("entered", body)

    def _acted(self, body: Body) -> None:
        self.promises.acted(body)
        self._saw("acted", body)

    def _saw(self, mark: Mark, body: Body) -> None:
        self._quiet = 0
        self.note(body.process.name, f"{body.kind} {body.tool} {body.n} {mark}")
        self.fortune.mark(mark, body.process)

    def _watched(self, lane: Lane, handle: Handle) -> None:
        self.note(lane.name, f"runs {running(handle)}")

    # --- from the beginning to the end --------------------------------------------------------

    def run(self) -> Outcome:
        """Let the world come about, and say what became of it."""
        with ExitStack() as paces:
            for module, name, seconds in (
                (worker, "POLL", self.plan.poll),
                (hosting, "LOOK_AGAIN", LOOKS_AGAIN),
                (functions, "LOOK_AGAIN", LOOKS_AGAIN),
                (function_runs, "LOOK_AGAIN", LOOKS_AGAIN),
            ):
                paces.enter_context(_paced(module, name, seconds))
            paces.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", EditedWarning)
            paces.callback(under_way, None)
            with self.loop.current(), the_system(self.machine, self.random):
                under_way(self.scene)
                self.outside.run(OWNER.set, None)
                for number in range(self.plan.workers):
                    self.start(f"worker{number}")
                for number in range(self.plan.drivers):
                    self.start(f"driver{number}")
                self._come_about()
                self._come_to_an_end()
                for trouble in self.loop.troubles:
                    self.promises.fault("D2", trouble)
                if self.loop.steps >= TOO_MANY_STEPS:
                    self.promises.fault("D2", "it goes on for ever")
                if not self.promises.faults:
                    hold_the_end(self.promises, self.disk)
                self.loop.close()
        return self._outcome()

    def _come_about(self) -> None:
        leap = FIRST_LEAP
        while self._goes_on and self.loop.steps < MOST_STEPS and self.loop.time() < HORIZON:
            self.fortune.step(self.loop.steps)
            if not self.loop.is_idle:
                self.loop.step()
                continue
            if self._is_over() and (leap > FIRST_LEAP or not self.has_guards):
                return
            due = self.loop.next_timer()
            if due is None:
                return
            if due < self.loop.time() + LONGEST_LATENCY or self._quiet < QUIET or self._is_busy():
                leap = leap if self._quiet else FIRST_LEAP
                self._quiet += due > self.loop.time() + LONGEST_LATENCY
                self.loop.pass_time()
            else:
                self._quiet = 1
                self.leap(min(self.loop.time() + leap, self._next_date()))
                leap = min(leap * 4, LONGEST_LEAP)

    def _next_date(self) -> float:
        """Give when the plan has something happen next."""
        while self.dates and self.dates[0] <= self.loop.time():
            heapq.heappop(self.dates)
        return self.dates[0] if self.dates else HORIZON

    def _come_to_an_end(self) -> None:
        """End all faults, and let everything go on until each run has ended."""
        self.is_ending, self._over_at = True, -1
        self.fortune.end()
        self.network.is_sound = True
        self.approvers = tuple(sorted({*self.plan.approvers, *sum(self.plan.later_approvers, ())}))
        for process in self.machine.processes:
            process.is_cut_off = False
        self.note("world", "the faults end")
        while self.files and VARIANTS[self.files[0]].is_broken:  # Somebody mends it.
            self.files = [*self.files[1:], "reaching"][:2]
            self.promises.see_files(self.files[:1])
        owner = self.start("worker9")
        over = idle = 0
        answered = self.plan.ending == "answered"
        for _ in range(ROUNDS):
            changes = self.disk.changes
            self._pump()
            over = over + 1 if self._is_over() else 0
            if not self._goes_on or over == 2:  # What was left behind may act yet.
                return
            if answered:
                self._answer_everything()
                self._pump()
            self._begin_again(owner)
            idle = 0 if self.disk.changes != changes else idle + 1
            if idle == PATIENCE:
                if answered:
                    return
                # What nobody settles closes its surface for good: somebody must in the end.
                answered, idle = True, 0
            self.leap(self.loop.time() + (25 * HOUR if idle > 1 else self.plan.poll + 1.0))

    def _begin_again(self, owner: Process) -> None:
        """Let who owns the framework start it again: nobody else would, where it ended early."""
        for index, planned in enumerate(self.plan.runs):
            book = self.disk.runs.get(("main", f"run{index}"))
            over = book is None or isinstance(book.all_runs[f"run{index}"].state, RunOver)
            if planned.agent == FRAMEWORK and not over and owner in self.frameworks:
                self.loop.spawn(owner, self.call("owner", self.frameworks[owner].go(index)))
            elif planned.agent == GUARD and owner in self.guards:
                self.loop.spawn(owner, self.call("owner", self.guards[owner].go(index)))

    def _answer_everything(self) -> None:
        for book in self.disk.books.values():
            for request in list(book.requests.values()):
                if request.pending:
                    row = RequestRow(tenant=book.tenant, session=book.session, request=request)
                    self.answer(row)

    def _pump(self) -> None:
        """Let go on what can, for as long as anybody is at it, and a little longer."""
        until, patience = self.loop.steps + MOST_STEPS, 40
        while self._goes_on and self.loop.steps < until and patience:
            if not self.loop.is_idle:
                self.loop.step()
                continue
            due = self.loop.next_timer()
            if due is None:
                return
            if not self._is_busy():
                patience -= 1
                if due > self.loop.time() + LONGEST_LATENCY:
                    return
            self.loop.pass_time()

    def _is_busy(self) -> bool:
        """Say whether a process that lives is driving a run, or inside a body."""
        for record in self.promises.records.values():
            for run in record.runs.values():
                holder, until = run.holder, run.until
                if holder is not None and until is not None and not run.stop:
                    in_time = START + timedelta(seconds=self.loop.time()) < until
                    if in_time and not self.machine.is_gone(holder):
                        return True
        return any(body.may_act for body in self.truth.bodies)

    @property
    def _goes_on(self) -> bool:
        going = self.loop.steps < TOO_MANY_STEPS
        return going and not self.promises.faults and not self.loop.troubles

    def _is_over(self) -> bool:
        if self._over_at != self.disk.changes:
            self._over_at = self.disk.changes
            started = {run for _, run in self.disk.runs}
            self._over = (self.is_ending or self._planned <= started) and all(
                isinstance(run.state, RunOver)
                for book in self.disk.books.values()
                for run in book.all_runs.values()
            )
        return self._over and not any(body.may_act for body in self.truth.bodies)

    def _outcome(self) -> Outcome:
        made = Outcome(
            seed=self.plan.seed,
            faults=self.promises.faults,
            steps=self.loop.steps,
            seconds=self.loop.time(),
            commits=self.disk.changes,
            befell=self.fortune.befell + self.network.injected,
            answers=self.answers,
            events=self._events,
            trace=self.trace or [],
        )
        for record in self.promises.records.values():
            made.codes.update(call.code for call in record.calls.values() if call.code)
            made.stops.update(run.stop for run in record.runs.values() if run.stop)
        made.bodies.update(body.kind for body in self.truth.bodies)
        return made


@contextmanager
def _paced(module: ModuleType, name: str, seconds: float) -> Iterator[None]:
    """Have a constant that says how often something is looked at say so for a world."""
    own = getattr(module, name)
    setattr(module, name, timedelta(seconds=seconds))
    try:
        yield
    finally:
        setattr(module, name, own)
