"""The courses of frameworks: who is at one, who may go on with it, and whether it has gone on.

Theory of operation. A framework's loop may be driven from anywhere: by a worker that was told, by a
user's own process, by two of them at once. What each does to the world is single (the gate sees to
that), but a course that two drive has its model asked twice, and each of its two answers leads on
elsewhere. So of all that are told, in any process, one at a time has the right to go on with a
course. It is a row of the store with an end, renewed while its holder is at it, and another's as
soon as that one is seen to be gone: no event, for it decides nothing, and several runs, of several
sessions, may have one course. It is not asked for by a framework's loop that its user drives.
So where a course stands still, though its framework could go on, it is also left alone for as long
as the process that was last at it may live. That is whoever entered a body of the run last, or
proposed its last step.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from weakref import WeakValueDictionary

from placet.core import commands as c
from placet.core.codec import decode_event
from placet.core.errors import Closed, Conflict, InProgress, NotFound, PlacetError
from placet.core.events import AttemptBegun
from placet.core.state import Allowed, Asking, Run
from placet.core.values import LEASE, Holder, Principal, keyed, payload_of
from placet.runtime.engine import Engine
from placet.runtime.hosting import Hosting
from placet.runtime.processes import awake, is_gone, this_process
from placet.stores.store import CourseRow, RunRow

#: How long a course that stands still is left to a process that lives, and may be driving it.
LEFT_ALONE = timedelta(minutes=2)

#: How long a course rests that failed twice as it was gone on with, and how long at most: each
#: further time it is twice as long.
FIRST_REST = timedelta(minutes=1)
LONGEST_REST = timedelta(hours=1)

#: How many of a session's last events are searched for who drove a course last.
LAST_EVENTS = 200

_TURNS: WeakValueDictionary[tuple[int, int, str], asyncio.Lock] = WeakValueDictionary()


class Rights:
    """The rights to go on with courses that this process has."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def held(self, course: str, run: str) -> AsyncIterator[None]:
        """Have the right to a course for as long as this lasts; InProgress: another has it."""
        token = secrets.token_hex(16)
        found = await self._take(course, token)
        if found.token != token and is_gone(found.holder):
            found = await self._take(course, token, gone=found.token)
        if found.token != token:
            raise InProgress(
                "thread_driven",
                f"Process {found.holder.pid} on {found.holder.host} was told to go on with it.",
                hint="Wait for it, or until its right ends.",
                run_id=run,
            )
        renewing = asyncio.create_task(self._renew(course, token))
        try:
            yield
        except (Exception, asyncio.CancelledError):
            renewing.cancel()
            await self._leave(course, token)
            raise
        renewing.cancel()
        await self._leave(course, token)

    async def _leave(self, course: str, token: str) -> None:
        with suppress(PlacetError):  # A store that fails too lets it lapse.
            await self._engine.read(
                self._engine.store.leave_course, self._engine.tenant, course, token=token
            )

    async def _take(self, course: str, token: str, *, gone: str = "") -> CourseRow:
        return await self._engine.read(
            self._engine.store.take_course,
            self._engine.tenant,
            course,
            token=token,
            holder=this_process(),
            lasts=LEASE,
            gone=gone,
        )

    async def _renew(self, course: str, token: str) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            with suppress(PlacetError):  # It may be put off until it lapses, and no longer.
                await self._take(course, token)


class Courses:
    """The courses of one hosted agent."""

    def __init__(self, engine: Engine, hosting: Hosting, agent: str) -> None:
        self._engine = engine
        self._hosting = hosting
        self._agent = agent
        self._standing: dict[str, tuple[str, float]] = {}
        self._failed: dict[str, tuple[int, float]] = {}

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

    @asynccontextmanager
    async def gone_on_with(self, run: str) -> AsyncIterator[None]:
        """Go on with a run's course; one that failed repeatedly rests longer each time.

        What fails is the framework's, or its user's: each time it may act before it does. Raises
        InProgress while the course rests.
        """
        failures, until = self._failed.get(run, (0, 0.0))
        if awake() < until:
            raise InProgress(
                "thread_rests",
                f"The thread failed {failures} times as it was resumed, and rests.",
                hint=f"It is tried again in {until - awake():.0f} seconds.",
                run_id=run,
            )
        try:
            yield
        except Exception:
            pause = (
                min(FIRST_REST * 2 ** min(failures - 1, 9), LONGEST_REST)
                if failures
                else timedelta(0)
            )
            self._failed[run] = failures + 1, awake() + pause.total_seconds()
            raise
        self._failed.pop(run, None)

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
            await self._supersede(session, row.run)
        elif is_over:
            await self._hosting.end(session, run)

    async def leave_behind(
        self,
        session: str,
        message: str,
        reference: str,
        *,
        is_older: Callable[[str], bool],
        is_beside: Callable[[str], bool],
    ) -> None:
        """Close what waits in a session of courses that its framework has left for a newer one.

        The framework is about to propose the step that it calls `reference`, to answer `message`.
        `is_older` tells whether a step's checkpoint is of a course that was left. What has begun is
        carried to its end, and what follows is held by it; what was approved and has not begun
        never would be. Raises Conflict(`session_shared`) where another run of the session waits
        that `is_beside` this one, in the same course: a session has one run at a time, and neither
        may end the other.
        """
        try:
            state = await self._engine.session(session)
        except NotFound:
            return
        mine = (self._agent, payload_of(state.salt, message).ref)
        named = keyed(state.salt, "reference", reference)
        for run in state.runs.values():
            waits = [call for call in state.calls.values() if call.at.run == run.id and call.open]
            if run.kind != "hosted" or run.guard is not None or not waits:
                continue
            if await self._knows(session, run, named):
                continue
            turns = await self._turns(session, run, {call.at.step for call in waits})
            if (run.agent, run.message_ref) != mine and any(is_beside(each) for each in turns):
                raise Conflict(
                    "session_shared",
                    f"A call of {run.agent} waits in the same list of messages, beside this one.",
                    hint="Give each gate, and each task with messages of its own, its session.",
                    session=session,
                )
            begun = not all(isinstance(call.state, (Allowed, Asking)) for call in waits)
            if run.agent != self._agent or begun or not turns:
                continue
            if all(is_older(each) for each in turns):
                await self._supersede(session, run)

    def in_turn(self, session: str) -> asyncio.Lock:
        """Let the gates of this process look at a session, and propose in it, one by one."""
        key = (id(asyncio.get_running_loop()), id(self._engine), session)
        return _TURNS.setdefault(key, asyncio.Lock())

    async def _knows(self, session: str, run: Run, named: str) -> bool:
        store, tenant = self._engine.store, self._engine.tenant
        step = await self._engine.read(
            store.step_named, tenant, session, run.id, kind="reference", name=named
        )
        return step is not None

    async def _turns(self, session: str, run: Run, steps: set[int]) -> list[str]:
        """Give the checkpoints of some steps of a run."""
        store, tenant = self._engine.store, self._engine.tenant
        rows = await self._engine.read(store.transcript, tenant, session, run.id, since=min(steps))
        turns = [row.body for row in rows if row.kind == "turn" and row.step in steps]
        return [json.loads(body)["checkpoint"] for body in turns]

    async def _supersede(self, session: str, run: Run) -> None:
        """End a run so that another to the same message may take its place."""
        by = Principal(id=run.agent, kind="runtime")
        cause = "its thread has gone on without it"
        cancel = c.CancelRun(run=run.id, by=by, cause=cause, stop="superseded")
        with suppress(Closed):
            await self._engine.execute(session, cancel)
