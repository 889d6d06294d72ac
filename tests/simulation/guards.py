"""Guarded functions: plain programs call them, and call them again, from whichever process.

One call with one number is one action, done at most once, whoever calls it. `charge` is left to
whoever calls again; of `post` a worker is told when it can go on, and calls it then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from placet import NotDone, Placet
from placet.adapters.functions import GuardedFunction
from placet.agent.tools import ToolOptions
from placet.core.errors import PlacetError
from tests.simulation.plan import Plan
from tests.simulation.tools import acting, probing

#: Stands among the agents for a run that is no agent's: its calls are those of guarded functions.
GUARD = "guard"

#: How the guarded functions are declared.
OPTIONS: dict[str, ToolOptions] = {
    "charge": {"name": "charge", "surface": "payments", "time_limit": timedelta(seconds=40)},
    "post": {
        "name": "post",
        "idempotent": True,
        "retries": 1,
        "time_limit": timedelta(seconds=40),
        "approval": lambda arguments: arguments["n"] not in range(0, 1_000, 3),
    },
}


class Stage(Protocol):
    """What callers ask of the world."""

    plan: Plan

    def heard(self, who: str, what: str) -> None:
        """Note what somebody was answered."""
        ...


class Guards:
    """The guarded functions of one process."""

    def __init__(self, world: Stage, placet: Placet) -> None:
        self._world = world
        self._functions: dict[str, GuardedFunction[Any]] = {}
        sessions = {
            call.n: f"{run.session}-guarded"
            for run in world.plan.runs
            if run.agent == GUARD
            for step in run.steps
            for call in step
        }
        for name, options in OPTIONS.items():
            guard: Any = placet.guard(
                session=lambda n: sessions.get(n, "guarded"),
                requester="rita",
                on_decided=self._decided(name) if name == "post" else None,
                **options,
            )
            self._functions[name] = guard(acting(name, keyed=name == "post"))
        self._functions["post"].probe(probing("post"))

    def _decided(self, name: str) -> Callable[..., Any]:
        async def call(n: int) -> None:
            await self.call(name, n)

        return call

    async def call(self, name: str, n: int) -> None:
        """Call a function as a program would; what is refused is an answer."""
        try:
            await self._functions[name].awaited(n)
        except (PlacetError, NotDone, ValueError, ConnectionError) as error:
            self._world.heard(name, getattr(error, "code", type(error).__name__))
        else:
            self._world.heard(name, "done")

    async def go(self, index: int) -> None:
        """Call what a run's plan has, step by step, or a step's at once."""
        planned = self._world.plan.runs[index]
        for step in planned.steps:
            guarded = [(call.tool, call.n) for call in step if call.tool in OPTIONS]
            if planned.at_once:
                await asyncio.gather(*(self.call(name, n) for name, n in guarded))
                continue
            for name, n in guarded:
                await self.call(name, n)
