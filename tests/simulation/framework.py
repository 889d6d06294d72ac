"""A framework whose own loop drives its runs: it keeps no state, and goes over its course again.

Each time it is told to go on, or its process is started again, it proposes its steps from the first
one on, and takes each call through placet; what is on record is answered from there. Where people
must act first it lets go. Two processes may be at one course at once.
"""

from __future__ import annotations

import asyncio
import json
from typing import Protocol

from placet import Placet
from placet.core.errors import InProgress, PlacetError
from placet.core.values import Occurrence
from placet.runtime.hosting import Answered, Hosting, Waiting
from placet.runtime.proposing import ToolCall
from tests.simulation.plan import Plan, PlannedCall, PlannedRun
from tests.simulation.tools import EFFECTS, READS

#: The framework's agent, among the agents that runs begin with.
FRAMEWORK = "framework"


class Stage(Protocol):
    """What the framework asks of the world."""

    plan: Plan

    def heard(self, who: str, what: str) -> None:
        """Note what somebody was answered."""
        ...


class Framework:
    """The framework in one process."""

    def __init__(self, world: Stage, placet: Placet) -> None:
        self._world = world
        declared = [made.declaration for made in (*EFFECTS.values(), *READS.values())]
        self.hosting: Hosting = placet.host(FRAMEWORK, declared, resume=self._told)

    async def go(self, index: int) -> None:
        """Go over a run's course as far as it goes; raises PlacetError."""
        planned = self._world.plan.runs[index]
        run, session = f"run{index}", planned.session
        await self.hosting.begin(
            session,
            run,
            f"run {index}",
            requester=planned.requester,
            supersede=planned.supersede,
        )
        for number, step in enumerate(planned.steps):
            calls = [_call(call, number, index) for index, call in enumerate(step)]
            places = await self.hosting.propose(
                session, run, f"step {number}", calls, checkpoint=f"before {number}"
            )
            found = await self._carried_out(planned, places)
            if any(isinstance(each, Waiting) for each in found):
                self._world.heard(FRAMEWORK, "waiting")
                return
        await self.hosting.end(session, run)

    async def _carried_out(
        self, planned: PlannedRun, places: tuple[Occurrence, ...]
    ) -> list[Answered | Waiting]:
        """Take a step's calls, one after another or all at once."""
        carry_out, session = self.hosting.carry_out, planned.session
        if planned.at_once:
            return list(await asyncio.gather(*(carry_out(session, at) for at in places)))
        return [await carry_out(session, at) for at in places]

    async def _told(self, run: str) -> None:
        """Go on with a run, as the framework is told to."""
        try:
            await self.go(int(run.removeprefix("run")))
        except InProgress:
            raise
        except PlacetError as error:
            self._world.heard(FRAMEWORK, error.code)


def _call(call: PlannedCall, step: int, index: int) -> ToolCall:
    arguments = call.raw or json.dumps({"n": call.n})
    return ToolCall(id=f"call_{step}_{index}", name=call.tool, arguments=arguments)
