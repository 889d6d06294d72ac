"""A desk for tests: a store, an agent with a script, and a list in which its effects stand."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from placet import Agent, Placet, PlacetError, RunResult, ScriptedModel, tool
from placet.agent.messages import AssistantMessage, Message, ModelRequest, ToolMessage, UserMessage
from placet.agent.models.scripted import Script, say
from placet.agent.tools import Tool
from placet.core.card import Card
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
        script: Script = (),
        tools: Sequence[Any] = (),
        *,
        approvers: Sequence[str] = ("ana",),
        max_steps: int = 20,
        model: Any = None,
        agent: Agent | None = None,
        policy: str | None = None,
        annotators: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.seen: list[tuple[Message, ...]] = []
        self.store = SqliteStore(place / "placet.db", **options)
        agent = agent or Agent(
            name="support",
            model=model or ScriptedModel(script),
            tools=tools,
            max_steps=max_steps,
        )
        self.agent = agent.name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.placet = Placet(
                self.store,
                agents=[agent],
                approvers=approvers,
                policy=policy,
                annotators=annotators,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.placet.close()

    def do(self, work: Callable[[Placet], Coroutine[Any, Any, T]]) -> T:
        """Do something with the client in an event loop of its own."""
        return asyncio.run(work(self.placet))

    def start(
        self, message: str = "go", *, session: str = "s", run_id: str = "run_1", **more: Any
    ) -> Any:
        """Begin a run and drive it as far as it goes."""
        return self.do(lambda p: p.run(self.agent, message, session=session, run_id=run_id, **more))

    def resume(self, run_id: str = "run_1") -> Any:
        """Carry a run on."""
        return self.do(lambda p: p.resume(run_id))

    def decide(self, request: str, decision: Any, *, by: str = "ana", **more: Any) -> Any:
        """Decide."""
        return self.do(lambda p: p.decide(request, decision, by=by, **more))

    def refused(self, request: str, decision: Any, *, by: str = "ana", **more: Any) -> str:
        """Decide what cannot be decided, and give the code of the refusal."""
        return code_of(lambda: self.decide(request, decision, by=by, **more))

    def answer(self, request: str, text: str, *, by: str = "ana", **more: Any) -> Any:
        """Answer a question."""
        return self.do(lambda p: p.answer(request, text, by=by, **more))

    def show(self, request: str) -> Card:
        """Give the card of a request."""
        return self.do(lambda p: p.show(request))

    def result(self, run_id: str = "run_1") -> RunResult:
        """Say where a run stands."""
        return self.do(lambda p: p.result(run_id))

    def work_once(self) -> list[tuple[str, str, str]]:
        """Let a worker carry on what is due until nothing is; give what it reports."""
        told: list[tuple[str, str, str]] = []

        async def once(placet: Placet) -> None:
            await placet.worker(report=lambda *happening: told.append(happening)).once()

        self.do(once)
        return told

    def children(self, run_id: str = "run_1", *, session: str = "s") -> list[str]:
        """Name the runs that calls of a run opened, in the order in which they were opened."""
        rows = self.store.runs("main", session=session)
        found = [row.run for row in rows if row.run.parent and row.run.parent.run == run_id]
        return [run.id for run in sorted(found, key=lambda run: run.order)]

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


def said(request: ModelRequest) -> str:
    """Give the last message of the user that a model was shown."""
    return [m.text for m in request.messages if isinstance(m, UserMessage)][-1]


def answers(request: ModelRequest) -> AssistantMessage:
    """Answer with all the results that are in sight."""
    return say(" | ".join(told(request)))


def code_of(work: Callable[[], object]) -> str:
    """Give the code with which something is refused."""
    try:
        work()
    except PlacetError as error:
        return error.code
    raise AssertionError("it was not refused")


def effect(done: list[str], name: str = "pay", **options: Any) -> Tool:
    """Declare a tool whose effects stand in a list."""

    def body(what: str) -> str:
        """Do something to the world."""
        done.append(f"{name} {what}")
        return f"{name} {what} done"

    body.__name__ = name
    return tool(**options)(body)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


__all__ = ["AssistantMessage", "Clock", "Desk", "answers", "code_of", "effect", "said", "told"]
