"""A desk for tests: a store, an agent with a script, and a list in which its effects stand."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from placet import Agent, Placet, ScriptedModel
from placet.agent.messages import AssistantMessage, Message, ToolMessage
from placet.agent.models.scripted import Script
from placet.agent.tools import Tool
from placet.core.commands import Names
from placet.core.state import Session
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Recorded

T = TypeVar("T")


class Desk:
    """One agent over one real store. Opening a second desk on the same place is a restart."""

    def __init__(
        self,
        place: Path,
        script: Script,
        tools: Sequence[Tool],
        *,
        approvers: Sequence[str] = ("ana",),
        max_steps: int = 20,
        model: Any = None,
        **options: Any,
    ) -> None:
        self.seen: list[tuple[Message, ...]] = []
        self.store = SqliteStore(place / "placet.db", **options)
        agent = Agent(
            name="support",
            model=model or ScriptedModel(script),
            tools=tools,
            max_steps=max_steps,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.placet = Placet(self.store, agents=[agent], approvers=approvers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.placet.close()

    def do(self, work: Callable[[Placet], Coroutine[Any, Any, T]]) -> T:
        """Do something with the client in an event loop of its own."""
        return asyncio.run(work(self.placet))

    def start(self, message: str = "go", *, session: str = "s", run_id: str = "run_1") -> Any:
        """Begin a run and drive it as far as it goes."""
        return self.do(lambda p: p.run("support", message, session=session, run_id=run_id))

    def resume(self, run_id: str = "run_1") -> Any:
        """Carry a run on."""
        return self.do(lambda p: p.resume(run_id))

    def decide(self, request: str, decision: Any, *, by: str = "ana", **more: Any) -> Any:
        """Decide."""
        return self.do(lambda p: p.decide(request, decision, by=by, **more))

    def results(self, run_id: str = "run_1", *, session: str = "s") -> list[str]:
        """Give what the model was told of each call, in place."""
        rows = self.store.transcript("main", session, run_id)
        return [row.body for row in rows if row.kind == "result"]

    def log(self, *, session: str = "s") -> list[Recorded]:
        """Give the event log."""
        return list(self.store.events("main", session))

    def kinds(self, *, session: str = "s") -> list[str]:
        """Give the kinds of the events, in order."""
        return [event.kind for event in self.log(session=session)]

    def state(self, run_id: str = "run_1", *, session: str = "s") -> Session:
        """Give the session as it is now."""
        found = self.store.session("main", session, Names(runs=(run_id,)))
        assert found is not None
        return found


def told(request: Any) -> list[str]:
    """Give the tool results that a model was shown."""
    return [m.text for m in request.messages if isinstance(m, ToolMessage)]


__all__ = ["AssistantMessage", "Desk", "told"]
