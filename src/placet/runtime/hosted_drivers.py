"""The courses of frameworks: who is at one, who may go on with it, and whether it has gone on.

Theory of operation. A framework's loop may be driven from anywhere: by a worker that was told, by a
user's own process, by two of them at once. What each does to the world is single (the gate sees to
that), but a course that two drive has its model asked twice. So a course is gone on with by one
task of this process at a time; and where it stands still, though its framework could go on, it is
left alone for as long as the process that was last at it may live. That is whoever entered a body
of the run last, or proposed its last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from placet.core import commands as c
from placet.core.codec import decode_event
from placet.core.errors import Closed, InProgress
from placet.core.events import AttemptBegun
from placet.core.values import Holder, Principal
from placet.runtime.engine import Engine
from placet.runtime.hosting import Hosting
from placet.runtime.processes import awake, is_gone
from placet.stores.store import RunRow

#: How long a course that stands still is left to a process that lives, and may be driving it.
LEFT_ALONE = timedelta(minutes=2)

#: How many of a session's last events are searched for who drove a course last.
LAST_EVENTS = 200


class Courses:
    """The courses of one hosted agent."""

    def __init__(self, engine: Engine, hosting: Hosting) -> None:
        self._engine = engine
        self._hosting = hosting
        self._driven: set[str] = set()
        self._standing: dict[str, tuple[str, float]] = {}

    @contextmanager
    def alone(self, course: str, run: str) -> Iterator[None]:
        """Hold a course for one task of this process; raises InProgress where another has it."""
        if course in self._driven:
            raise InProgress("thread_driven", "The thread is being resumed.", run_id=run)
        self._driven.add(course)
        try:
            yield
        finally:
            self._driven.discard(course)

    async def leave_to_the_living(self, row: RunRow, place: str) -> None:
        """Raise InProgress while the process that was last at a course may be at it still.

        `place` says where the course stands: one that has moved is alive.
        """
        last = await self._engine.read(self._last_holder, row)
        if last is None:
            last = await self._hosting.proposer(row.session, row.run.id)
        since = awake()
        known, seen = self._standing.get(row.run.id, ("", 0.0))
        if known == place:
            since = seen
        self._standing[row.run.id] = (place, since)
        if not is_gone(last) and awake() - since < LEFT_ALONE.total_seconds():
            raise InProgress(
                "thread_driven",
                f"Process {last.pid} on {last.host} may be driving the thread.",
                hint=f"Try again in {LEFT_ALONE.total_seconds():g} seconds.",
                run_id=row.run.id,
            )

    def moved(self, run: str) -> None:
        """Note that a run's course has been gone on with."""
        self._standing.pop(run, None)

    def _last_holder(self, row: RunRow) -> Holder | None:
        """Name the process that entered a body of the run last."""
        store, last = self._engine.store, None
        seq, _ = store.head(row.tenant, row.session) or (0, "")
        for each in store.events(row.tenant, row.session, after=max(0, seq - LAST_EVENTS)):
            if each.kind == "AttemptBegun":
                event = decode_event(each.kind, each.body)
                if isinstance(event, AttemptBegun) and event.at.run == row.run.id:
                    last = event.holder
        return last

    async def served(self, row: RunRow, checkpoint: str, *, is_over: bool) -> None:
        """Take it that a run's course has gone on past the step that has this checkpoint.

        What is open of the run can never be carried out, and is cancelled; the run is ended where
        the course `is_over`. A run that has taken a further step meanwhile is left as it is.
        """
        session, run = row.session, row.run.id
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if await self._hosting.checkpoint(session, run) != checkpoint:
            return
        if any(call.open for call in state.calls.values() if call.at.run == run):
            by = Principal(id=row.run.agent, kind="runtime")
            cancel = c.CancelRun(run=run, by=by, cause="its thread has gone on without it")
            with suppress(Closed):
                await self._engine.execute(session, cancel)
        elif is_over:
            await self._hosting.end(session, run)
