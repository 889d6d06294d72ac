"""Recovery: what is done about an attempt that went wrong, in the declared order (D4, D8).

Nobody rules on it: it carries what has begun to an end that somebody knows. Each verb is one piece
of the work that `next_work` names.
"""

from __future__ import annotations

from collections.abc import Mapping

from placet.core import commands as c
from placet.core import wording
from placet.core.events import AttemptBegun
from placet.core.state import Executing, Lost, UndoDue, Unwinding
from placet.core.values import Occurrence, idempotency_key
from placet.runtime.attempts import Attempts
from placet.runtime.bodies import Outcome, attempt, probe, text_of, way_back
from placet.runtime.declarations import Happened, NotHappened, Unsure
from placet.runtime.engine import Engine
from placet.runtime.processes import is_gone, this_process
from placet.runtime.proposing import Toolbox
from placet.stores.store import Answer


class Recovering:
    """The recovery of calls of one agent's tools."""

    def __init__(self, engine: Engine, toolbox: Toolbox, attempts: Attempts) -> None:
        self._engine = engine
        self._toolbox = toolbox
        self._attempts = attempts
        self._holder = this_process()

    async def recover(self, session: str, at: Occurrence, *, fence: int | None = None) -> Answer:
        """Take a lost attempt from its holder; what then follows is retry, probe or a person."""
        state = await self._engine.session(session, c.Names(steps=((at.run, at.step),)))
        call = state.calls[at]
        gone = None
        if isinstance(call.state, Executing) and is_gone(call.state.holder):
            gone = call.state.holder
        cause = "the process that ran it is gone" if gone else "its lease ran out while it ran"
        return await self._engine.execute(
            session, c.Lose(at=at, attempt=call.attempts, fence=fence, cause=cause, gone=gone)
        )

    async def probe(self, session: str, at: Occurrence, *, fence: int | None = None) -> Answer:
        """Ask the tool's probe what became of a lost attempt, and record its answer (D4)."""
        call, stored = await self._attempts.frozen(session, at)
        tool = self._toolbox.tools.get(call.tool)
        # Seen before the probe looks: a body that is gone only after may have acted in between.
        body_gone = isinstance(call.state, Lost) and is_gone(call.state.holder)
        happened: bool | None = None
        told = ""
        if tool is not None and isinstance(stored.arguments, Mapping):
            key = idempotency_key(call.digest)
            match await probe(tool, stored.arguments, key, call=str(at)):
                case Happened(result=result):
                    happened, told = True, text_of(result)
                case NotHappened():
                    happened = False
                case Unsure():
                    happened = None
        return await self._engine.execute(
            session,
            c.Probed(
                at=at,
                attempt=call.attempts,
                fence=fence,
                happened=happened,
                told=told,
                body_gone=body_gone,
            ),
        )

    async def take_back(self, session: str, at: Occurrence, *, fence: int | None = None) -> Answer:
        """Take back what a call may have done: an attempt like any other (D8).

        Raises a Refusal where it may not be done now.
        """
        call, stored = await self._attempts.frozen(session, at)
        begin = c.TakeBack(at=at, fence=fence, holder=self._holder, digest=call.digest)
        if not isinstance(call.state, UndoDue):
            return await self._engine.execute(session, begin)
        failure = await self._text(session, call.failure_ref)
        snapshot = (
            None if call.snapshot_ref is None else await self._text(session, call.snapshot_ref)
        )

        async def entered(intent: AttemptBegun) -> Outcome:
            tool = self._toolbox.tools.get(call.tool)
            if tool is None or not isinstance(stored.arguments, Mapping):
                return c.Failed(error=f"there is no tool {call.tool} any more", not_done=True)
            how = way_back(tool, call, snapshot, intent.purpose)
            outcome = await attempt(how, stored.arguments, intent.key, call=str(at))
            if not isinstance(outcome, c.Succeeded):
                return outcome
            if call.result is not None:
                return outcome
            if intent.purpose == "roll_back":
                return c.Succeeded(told=wording.rolled_back(failure, attempts=call.ran))
            return c.Succeeded(told=wording.compensated(failure, outcome.told, attempts=call.ran))

        return await self._attempts.carried_out(session, begin, entered)

    async def unwind(
        self, session: str, at: Occurrence, earlier: Occurrence | None, *, fence: int | None = None
    ) -> Answer:
        """Take up what an earlier call did, because the one at `at` failed; None ends that (D8).

        Raises a Refusal where something else comes first.
        """
        state = await self._engine.session(session, c.Names(steps=((at.run, at.step),)))
        withheld = state.calls[at].state
        told = (
            await self._text(session, withheld.told_ref) if isinstance(withheld, Unwinding) else ""
        )
        unwind = c.Unwind(at=at, fence=fence, earlier=earlier, told=told)
        return await self._engine.execute(session, unwind)

    async def _text(self, session: str, ref: str | None) -> str:
        return "" if ref is None else await self._engine.payload(session, ref)
