"""From the intent to the outcome: the steps of every attempt, whatever its body is for (D4).

What is run is read back from the store and held against its digest; the lease is read again where
the process may have slept since the intent; the outcome is known before it is written down, and is
worth some patience.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta

from placet.core import commands as c
from placet.core.canonical import Unreadable
from placet.core.deciding_effects import ATTEMPT_MARGIN
from placet.core.errors import Conflict, NotFound, StaleHolder, StoreTrouble
from placet.core.events import AttemptBegun
from placet.core.state import Call, Executing
from placet.core.values import Draft, Occurrence, action_digest, draft_from
from placet.runtime.bodies import Outcome, described
from placet.runtime.engine import Engine
from placet.runtime.processes import awake
from placet.stores.store import Answer

#: How often, and after how long, an outcome is written down again where the store could not.
CONCLUDE_RETRIES = 4
CONCLUDE_PAUSE = timedelta(seconds=0.5)

#: How old the reading of a lease, made in the intent's own transaction, may be when the body is
#: entered. It is far less than any lease lasts.
STALE_AFTER = timedelta(seconds=1)

#: What is said of an attempt that was not made because its process stood still before it.
TOO_LATE = "the process stood still before the attempt, and it was not made"


class Attempts:
    """Attempts at the calls of one store's sessions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def frozen(self, session: str, at: Occurrence) -> tuple[Call, Draft]:
        """Read a call and its stored action back, and hold them against the digest (G3, G4).

        Raises Conflict(`digest_mismatch`) where they were changed from outside, and NotFound.
        """
        call, body = await self._engine.read(self._read_frozen, session, at)
        return call, _held_against_digest(call, body)

    async def carried_out(
        self,
        session: str,
        begin: c.Begin | c.TakeBack,
        entered: Callable[[AttemptBegun], Awaitable[Outcome]],
    ) -> Answer:
        """Write the intent down, let `entered` enter the body, and write down what came of it.

        Where the command brings about no intent, its answer says why, and nothing is entered.
        Raises what the command is refused with, and StaleHolder.
        """
        asked_at = awake()
        begun = await self._engine.execute(session, begin)
        intent = next((e for e in begun.events if isinstance(e, AttemptBegun)), None)
        if intent is None:
            return begun
        if awake() - asked_at > STALE_AFTER.total_seconds():
            await self._still_mine(session, intent)
        if awake() - asked_at > ATTEMPT_MARGIN.total_seconds():
            # Its key would be used later than the intent allowed for.
            return await self._conclude(session, intent, c.Failed(error=TOO_LATE, not_done=True))
        return await self._conclude(session, intent, await entered(intent))

    def _read_frozen(self, session: str, at: Occurrence) -> tuple[Call, str]:
        found = self._engine.store.action(self._engine.tenant, session, at)
        if found is None:
            raise NotFound("call_not_found", "There is no such call here.", call=str(at))
        return found

    async def _still_mine(self, session: str, intent: AttemptBegun) -> None:
        """Read the lease again where the process may have slept since it read it (D5).

        Who slept while reading has seen what was, and reads once more.
        """
        at, looked_at = intent.at, -math.inf
        names = c.Names(runs=(at.run,), steps=((at.run, at.step),))  # It may be over by now.
        while awake() - looked_at > STALE_AFTER.total_seconds():
            looked_at = awake()
            state = await self._engine.session(session, names)
            call, run = state.calls[at], state.runs[at.run]
            held = isinstance(call.state, Executing) and call.state.fence == intent.fence
            # A hosted run's fence is each action's own, and grows with the next one's intent.
            passed = run.kind == "driven" and run.fence != intent.fence
            if not held or passed or state.now >= intent.until:
                raise StaleHolder(
                    "stale_attempt", "The attempt passed to another before it began.", call=str(at)
                )

    async def _conclude(self, session: str, intent: AttemptBegun, outcome: Outcome) -> Answer:
        command = c.Conclude(
            at=intent.at, attempt=intent.attempt, fence=intent.fence, outcome=outcome
        )
        left = CONCLUDE_RETRIES
        while True:
            answer = self._engine.hand_over(session, command)
            try:
                return await asyncio.shield(asyncio.wrap_future(answer))
            except asyncio.CancelledError:  # The event loop is being torn down.
                return answer.result()
            except StoreTrouble as trouble:  # The outcome is known, and is worth some patience.
                left -= 1
                if trouble.code == "store_closed" or left < 0:
                    raise
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(CONCLUDE_PAUSE.total_seconds())


def _held_against_digest(call: Call, body: str) -> Draft:
    """Give the action that is stored, if it is what the digest stands for; raises Conflict."""
    try:
        document = json.loads(body)
        stored = draft_from(document)
        digest = action_digest(document, generation=call.generation)
    except (ValueError, KeyError, TypeError, Unreadable) as error:
        raise _tampered(call, f"it cannot be read: {described(error)}") from error
    if digest != call.digest:
        raise _tampered(call, "it is not what its digest stands for")
    return stored


def _tampered(call: Call, what: str) -> Conflict:
    return Conflict(
        "digest_mismatch",
        f"The stored action was changed from outside: {what}.",
        hint="Nothing runs. Run `placet audit verify`.",
        call=str(call.at),
    )
