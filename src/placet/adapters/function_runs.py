"""The runs of guarded functions: one call is one run, which every process finds by its names.

Theory of operation. A run's id is made of tenant, session, the function's name and the call's
digest, keyed with the session's salt (H4), and so is found again by whoever calls the same. Where
there is no session yet, the run that begins it brings a salt along: of two who do so at once one
begins the session, and the other names its run anew, under the salt that stands. A run has one
step with one call, and is over with it. A call that did not run, and may be proposed again, has a
further run the next time.

A session has one run at a time, and one that is there is never superseded. What stands before a
call is brought on as far as that needs nothing of another's function: a deadline is kept, a lost
attempt taken from the dead, a run that has its answer ended. So a process that died in the middle
of a call keeps nobody from the next.

A call that was proposed, may run and was not begun is its caller's to begin, and nobody is woken
for it. A caller who leaves it ends it, and what a caller has left without that (it was killed, or
is not to be seen) any other call of the session ends: as interrupted, so that whoever makes it
again proposes it in a further run. Whether the intent or that end comes first, the store decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from placet.core import commands as c
from placet.core import wording
from placet.core import work as w
from placet.core.canonical import digest_of, short_id
from placet.core.errors import Closed, Conflict, InProgress, NotFound, PlacetError, Refusal
from placet.core.state import Allowed, Call, CallOver, Open, Run, RunOver, Session
from placet.core.values import Occurrence, keyed
from placet.runtime.engine import new_salt
from placet.runtime.hosted_drivers import LEFT_ALONE
from placet.runtime.hosting import LOOK_AGAIN, Answered, Entry, Hosting, Waiting
from placet.runtime.processes import is_gone
from placet.runtime.proposing import ToolCall

if TYPE_CHECKING:
    from placet.client import Placet

#: How long a call waits for another action of its session that no person has to decide.
BUSY_LASTS = timedelta(seconds=10)

#: How long a run that was begun, and has no call yet, is taken to be in its caller's hands: it may
#: be making a preview, or be looking at the world, and two that ended each other's would not end.
LEFT_TO_BEGIN = timedelta(seconds=30)

#: How often a call that did not run, and may be proposed again, is proposed.
MOST_AGAIN = 100

#: How often a caller who leaves a call ends it. One that is made again and again, each time for
#: too short a while, then stays proposed, and so comes to its turn.
MOST_LEFT = 10

#: Why a call is ended that was proposed and not begun.
LEFT = "whoever made the call left before it was begun."

#: Refusals that say that another run of the session comes first.
_BUSY = frozenset({"run_waiting", "run_open", "run_active"})

#: Refusals that another process explains, which was at the same call meanwhile.
_MEANWHILE = frozenset({"run_over", "run_exists", "other_salt"})

#: What is told of a call that was left.
_TOLD_LEFT = wording.interrupted(LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call as it is asked for: `arguments` is JSON, frozen as it will run.

    `proposed` are the runs in which this caller has proposed it.
    """

    session: str
    requester: str
    arguments: str
    names: tuple[str, ...]
    proposed: set[str] = field(default_factory=set)

    def run(self, salt: str, *, again: int) -> str:
        """Name the run that the call has under the session's salt, the first time or later."""
        return short_id("run", keyed(salt, "run", digest_of(["guard", *self.names, again])))


class Runs:
    """The runs of one guarded function."""

    def __init__(self, placet: Placet, hosting: Hosting, name: str) -> None:
        self._placet = placet
        self._engine = placet.engine
        self._hosting = hosting
        self._name = name

    async def carried(
        self, asked: Asked, entry: Entry, *, until: float, wanted: Callable[[], bool]
    ) -> tuple[str, Answered | Waiting]:
        """Take a call to its result, in the run that is its own, or say what comes before it.

        Raises InProgress where that is no matter of waiting for people, and does not pass `until`
        that time of the event loop's; Closed where the session was ended; and
        Refusal(`not_begun`) once the call is not `wanted` any more.
        """
        loop = asyncio.get_running_loop()
        until, again = max(until, loop.time() + BUSY_LASTS.total_seconds()), 0
        may_begin_with = new_salt()
        while again < MOST_AGAIN:
            salt = await self._engine.salt(asked.session) or may_begin_with
            run = asked.run(salt, again=again)
            state, call = await self.found(asked.session, run)
            is_over = _is_over(state, run)
            if is_over or (call is not None and not call.open):
                if not is_over:
                    await self._hosting.end(asked.session, run)
                answer = await self._answer(asked.session, call)
                if answer is not None and not _is_again(answer, was_proposed=run in asked.proposed):
                    return run, answer
                again += 1
                continue
            try:
                async with self._or_let_go(asked.session, run, is_kept=again >= MOST_LEFT):
                    at = await self._proposed(asked, state, run, call, salt)
                    asked.proposed.add(run)
                    found = await self._hosting.carry_out(
                        asked.session, at, body=entry.body, wanted=wanted
                    )
            except (Closed, Conflict, InProgress) as refusal:
                if refusal.code in _MEANWHILE:
                    continue
                if refusal.code not in _BUSY:
                    raise
                waiting = await self._before(asked.session, refusal.ids["run_id"])
                if waiting is not None:
                    return run, waiting
                if loop.time() > until or not wanted():
                    raise await self._held(asked.session, refusal) from None
                await asyncio.sleep(LOOK_AGAIN.total_seconds())
                continue
            if isinstance(found, Waiting):
                return run, found
            await self._hosting.end(asked.session, run)
            if not _is_again(found, was_proposed=True):
                return run, found
        raise Closed("run_over", f"{self._name} was proposed again too often.", run_id=run)

    async def found(self, session: str, run: str) -> tuple[Session | None, Call | None]:
        """Look for a run and its one call."""
        names = c.Names(runs=(run,), steps=((run, 1),))
        try:
            state = await self._engine.session(session, names)
        except NotFound:
            return None, None
        return state, state.calls.get(Occurrence(run, 1, 0))

    async def end_if_idle(self, session: str, run: str) -> None:
        """End a run whose call has its result."""
        _, call = await self.found(session, run)
        if call is not None and not call.open:
            await self._hosting.end(session, run)

    async def _answer(self, session: str, call: Call | None) -> Answered | None:
        """Give the answer of a call in a run that is over; None where it ended without one."""
        if call is None or not isinstance(call.state, CallOver):
            return None
        return await self._hosting.answer(session, call.state)

    async def _proposed(
        self, asked: Asked, state: Session | None, run: str, call: Call | None, salt: str
    ) -> Occurrence:
        """Propose the call in its run, where nobody has yet; begin the run where nobody has."""
        if call is not None:
            return call.at
        if state is None or run not in state.runs:
            message = f"a call of {self._name}"
            await self._hosting.begin(
                asked.session, run, message, requester=asked.requester, supersede=False, salt=salt
            )
        proposed = ToolCall(id=run, name=self._name, arguments=asked.arguments)
        (at,) = await self._hosting.propose(
            asked.session, run, "call", [proposed], checkpoint=asked.arguments
        )
        return at

    # --- what is left before it is begun ------------------------------------------------------

    @asynccontextmanager
    async def _or_let_go(self, session: str, run: str, *, is_kept: bool) -> AsyncIterator[None]:
        """Leave nothing behind of a run that its caller leaves before the call was begun.

        Ending the run comes first: that waits until the store has done what it was handed before.
        Where this fails too, others see to it.
        """
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            goes_on = isinstance(error, PlacetError) and error.code in _BUSY | _MEANWHILE
            if not is_kept and not goes_on:
                with suppress(PlacetError):
                    await self._hosting.end(session, run)
                    _, call = await self.found(session, run)
                    if call is not None and isinstance(call.state, Allowed):
                        await self._interrupt(session, call)
            raise

    async def _interrupt(self, session: str, call: Call) -> None:
        """End a call that was left, and its run, unless it was begun meanwhile."""
        with suppress(Refusal):
            await self._hosting.gate.interrupt(session, call, LEFT)
            await self._hosting.end(session, call.at.run)

    async def _is_left(self, state: Session, call: Call) -> bool:
        """Say whether a call could be begun, and whoever proposed it does not begin it.

        Who proposed it and lives may be looking at the world before it begins, for a while.
        """
        if not isinstance(call.state, Allowed):
            return False
        if is_gone(await self._hosting.proposer(state.id, call.at.run)):
            return True
        is_late = state.now - state.runs[call.at.run].started_at >= LEFT_ALONE
        return is_late and w.held_by(state, call) is None

    # --- what comes before (G8) ---------------------------------------------------------------

    async def _before(self, session: str, run: str) -> Waiting | None:
        """Say for whom the session's run waits; None where it is to be looked at again."""
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if _is_over(state, run):
            return None
        if w.due_requests(state):
            await self._engine.execute(session, c.Expire(run=run))
        elif state.runs[run].guard is not None:
            await self._brought_on(state, state.runs[run])
        state = await self._engine.session(session, c.Names(runs=(run,)))
        work = w.next_work(state, run)
        if not isinstance(work, w.Wait):
            return None
        requests = work.requests or _open(state, work.held_by)
        return Waiting(requests=requests, held_by=requests[0]) if requests else None

    async def _brought_on(self, state: Session, run: Run) -> None:
        """Do for another call's run what needs nothing of its function."""
        calls = [call for call in state.calls.values() if call.at.run == run.id]
        if not calls:
            if state.now - run.started_at >= LEFT_TO_BEGIN:
                await self._hosting.end(state.id, run.id)
        elif not any(call.open for call in calls):
            await self._hosting.end(state.id, run.id)
        elif await self._is_left(state, calls[-1]):
            await self._interrupt(state.id, calls[-1])
        elif run.guard == "untold":
            with suppress(Refusal):  # It is its own caller's to go on with.
                await self._placet.resume(run.id)

    async def _held(self, session: str, busy: PlacetError) -> InProgress:
        """Say what goes first, and how it comes to its end."""
        state = await self._engine.session(session, c.Names(runs=(busy.ids["run_id"],)))
        other = state.runs[busy.ids["run_id"]]
        why = "another run of its session is under way, or goes first."
        hint = "Call it again once that one is over, or cancel that one."
        if other.guard is not None and isinstance(w.next_work(state, other.id), w.ResumeHost):
            why = (
                f"a call of {other.agent} goes first, which may go on and waits to be called again."
            )
            hint = f"Call {other.agent} again as it was called there, and after it {self._name};"
            hint += f" or end that one: `placet cancel {other.id}`."
        return InProgress("run_active", f"{self._name} has not run: {why}", hint=hint, **busy.ids)


def _open(state: Session, held_by: tuple[str, ...]) -> tuple[str, ...]:
    """Give those of what holds a call that are requests on which people are to act."""
    return tuple(
        by for by in held_by if by in state.requests and isinstance(state.requests[by].state, Open)
    )


def _is_again(answer: Answered, *, was_proposed: bool) -> bool:
    """Say whether a call with this answer is proposed again by a caller who proposed it, or not.

    Who proposed it is told that it did not run, unless it is only that another left it.
    """
    return answer.code == "interrupted" and (not was_proposed or answer.told == _TOLD_LEFT)


def _is_over(state: Session | None, run: str) -> bool:
    found = None if state is None else state.runs.get(run)
    return found is not None and isinstance(found.state, RunOver)
