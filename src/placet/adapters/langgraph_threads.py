"""LangGraph's threads: where a step stands in one, and resuming it once decided, or left behind.

Theory of operation. Nothing is kept here that is not in the two stores. The thread's own state says
what it waits for; the run's last checkpoint says where it was proposed. Where the thread stands at
an interrupt of ours, its tasks are run again. Where it stands at the step without one,
or later in the same course, a process is at it, or was: it is left alone while that process may
live. Where it stands at the step and waits for its user, the step's calls go on once that is
answered. Where it waits elsewhere, or at a breakpoint of the graph's, or has begun another course,
the run has been served.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from placet.adapters.langgraph_steps import Point, Step
from placet.core.errors import InvalidDeclaration, Trouble
from placet.runtime.declarations import Declaration
from placet.runtime.hosted_drivers import Courses
from placet.runtime.hosting import Hosting, Waiting
from placet.runtime.threads import in_thread

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot

    from placet.client import Placet

T = TypeVar("T")

#: Marks the interrupts that are ours.
OURS = "placet"

#: What LangGraph calls the checkpoints that begin a course: an input, a changed state, a fork.
_BEGIN = ("input", "update", "fork")

#: How long a checkpoint may take to reach LangGraph's checkpointer, and how often it is looked for.
RECORD_LASTS = timedelta(seconds=5)
LOOK_AGAIN = timedelta(milliseconds=20)


def checkpoint_text(point: Point, course: str) -> str:
    """Write down where a step's thread is, and of which course that is."""
    return json.dumps({"langgraph": asdict(point), "course": course})


def _point_in(checkpoint: str) -> Point:
    return Point(**json.loads(checkpoint)["langgraph"])


def waiting_value(session: str, run: str, waiting: Waiting) -> dict[str, Any]:
    """Give the value of an interrupt of ours: which people must act first, on what."""
    told: dict[str, Any] = {"session": session, "run": run, "requests": list(waiting.requests)}
    return {OURS: {**told, "held_by": waiting.held_by} if waiting.held_by else told}


def run_of(value: Any) -> str | None:
    """Give the run that an interrupt of ours tells of; None for all others."""
    told = value.get(OURS) if isinstance(value, dict) else None
    return str(told["run"]) if isinstance(told, dict) and "run" in told else None


async def on_side(
    is_synchronous: bool, plain: Callable[[], T], other: Callable[[], Awaitable[T]]
) -> T:
    """Call LangGraph's synchronous side, in a thread of its own, or await the other one."""
    return await in_thread(plain, name="langgraph") if is_synchronous else await other()


class Threads:
    """The threads of one hosted agent's graph."""

    hosting: Hosting

    def __init__(self, placet: Placet, agent: str, tools: Iterable[Declaration]) -> None:
        self._engine = placet.engine
        self._graph: CompiledStateGraph[Any, Any, Any, Any] | None = None
        self._config: RunnableConfig = {}
        self._is_synchronous: bool | None = None
        self.hosting = placet.host(agent, tools, resume=self.resume)
        self.hosting.course = self._course_of
        self._courses = Courses(placet.engine, self.hosting, agent)

    def resumes(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig | None
    ) -> None:
        """Take the graph; raises InvalidDeclaration where it keeps no state."""
        from langgraph.checkpoint.base import BaseCheckpointSaver

        if not isinstance(graph.checkpointer, BaseCheckpointSaver):
            raise InvalidDeclaration(
                "no_checkpointer", "The graph has no checkpointer, and no thread could be resumed."
            )
        self._graph, self._config, self._is_synchronous = graph, config or {}, None

    @property
    def _saver(self) -> BaseCheckpointSaver[Any]:
        saver: Any = self._named_graph().checkpointer
        return cast("BaseCheckpointSaver[Any]", saver)

    def _named_graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        if self._graph is None:
            raise InvalidDeclaration(
                "no_graph",
                "No graph was named whose threads a decision resumes.",
                hint="Call gate.resumes(graph) once it is compiled.",
            )
        return self._graph

    # --- the checkpoint first -----------------------------------------------------------------

    async def course(self, point: Point, *, is_synchronous: bool) -> str:
        """See that the checkpoint is on record, and name the course that it is of.

        People are asked to go on from it, and LangGraph writes it in the background. A course
        begins with an input, a change of the state or a fork. Raises Trouble where the checkpoint
        does not come, and InvalidDeclaration where no graph was named.
        """
        saver, config = self._saver, point.config()
        for _ in range(RECORD_LASTS // LOOK_AGAIN):
            found = await on_side(
                is_synchronous, lambda: saver.get_tuple(config), lambda: saver.aget_tuple(config)
            )
            if found is not None and (found.metadata or {}).get("source") in _BEGIN:
                return point.checkpoint_id
            if found is not None:
                return await self._beginning(point, is_synchronous=is_synchronous)
            await asyncio.sleep(LOOK_AGAIN.total_seconds())
        raise Trouble(
            "checkpoint_not_on_record",
            "LangGraph has not written down the checkpoint that the tool is called from.",
            hint="Invoke the graph with durability='sync' or 'async', not 'exit'.",
            **config["configurable"],
        )

    def in_turn(self, session: str) -> asyncio.Lock:
        """Let the calls of a session be proposed one after another."""
        return self._courses.in_turn(session)

    async def leave_behind(self, step: Step, course: str) -> None:
        """Close what waits of an older course of the same list of messages: nothing can run it.

        Raises Conflict where another run waits beside the step, in the same course.
        """
        place = (step.point.thread_id, step.point.checkpoint_ns)

        def course_of(checkpoint: str) -> str:
            """Name the course of the same list of messages; empty: another, or nobody knows."""
            told = json.loads(checkpoint)
            if "langgraph" not in told:
                return ""
            its = _point_in(checkpoint)
            same = (its.thread_id, its.checkpoint_ns) == place
            return str(told.get("course", "")) if same else ""

        await self._courses.leave_behind(
            step.session,
            step.message,
            step.reference,
            is_older=lambda checkpoint: "" < course_of(checkpoint) < course,
            is_beside=lambda checkpoint: course_of(checkpoint) == course != "",
        )

    async def _beginning(self, point: Point, *, is_synchronous: bool) -> str:
        """Name the newest checkpoint before a point that begins a course, which it does not."""
        saver = self._saver
        place: Any = {"thread_id": point.thread_id, "checkpoint_ns": point.checkpoint_ns}
        more: dict[str, Any] = {"before": point.config(), "limit": 1}
        queries = [
            {"config": {"configurable": place}, "filter": {"source": source}, **more}
            for source in _BEGIN
        ]

        async def awaited() -> list[CheckpointTuple]:
            return [each for query in queries async for each in saver.alist(**query)]

        found = await on_side(
            is_synchronous,
            lambda: [each for query in queries for each in saver.list(**query)],
            awaited,
        )
        return max((_id_of(each) for each in found), default="")

    # --- resuming -----------------------------------------------------------------------------

    async def resume(self, run: str) -> None:
        """Have the run's thread go on, if it can.

        Raises InProgress while another process may be driving it, and InvalidDeclaration where no
        graph was named.
        """
        row = await self._engine.find_run(run)
        checkpoint = await self.hosting.checkpoint(row.session, run)
        point = _point_in(checkpoint)
        thread = point.thread_id
        head = await self._head(thread)
        if await self._is_stopped_below(head, point):
            return  # Its interrupt still stands in the graph above, though the step is over.
        if _waits_for(head, run):
            # With no value at all: it would decide nothing, for each of ours asks the gate again,
            # and LangGraph would keep it for the next interrupt of that node, the user's own.
            async with self._courses.gone_on_with(run):
                await self._invoke(thread, None)
        elif await self._is_left(head, point):
            await self._courses.leave_to_the_living(row, str(head.config))
            async with self._courses.gone_on_with(run):
                await self._invoke(thread, None)
        self._courses.moved(run)
        head = await self._head(thread)
        # An interrupt of its user's may hide ours: the step's node goes on once that is answered.
        waits = _waits_for(head, run) or (_id_of(head) == point.root_id and bool(head.interrupts))
        if not waits and _id_of(head) >= point.root_id and not await self._is_left(head, point):
            await self._courses.served(row, checkpoint, is_over=not head.next)

    async def _course_of(self, session: str, run: str) -> str:
        """Name the thread that a run is of: its own steps, and those of subgraphs, have one."""
        return f"langgraph {_point_in(await self.hosting.checkpoint(session, run)).thread_id}"

    async def _is_left(self, head: StateSnapshot, point: Point) -> bool:
        """Say whether the step's course has something left to do, and nobody is waited for."""
        done = [task.result is not None for task in head.tasks]
        open_ones = [task for task in head.tasks if task.result is None and not task.interrupts]
        if not open_ones and not (done and all(done)):  # All done: the next checkpoint is missing.
            return False
        if _id_of(head) == point.root_id:
            return True
        if (head.metadata or {}).get("source") != "loop":
            return False
        here = replace(point, checkpoint_ns="", checkpoint_id=_id_of(head))
        began = await self.course(here, is_synchronous=await self._synchronous())
        return began <= point.root_id < _id_of(head) and not await self._is_stopped(head)

    async def _is_stopped(self, head: StateSnapshot) -> bool:
        """Say whether the thread stands at a breakpoint of the graph's, which its user passes.

        Who passed it and died leaves the thread there: nobody can see that it was passed.
        """
        return await self._stands_at_breakpoint(self._named_graph(), head)

    async def _is_stopped_below(self, head: StateSnapshot, point: Point) -> bool:
        """Say whether the subgraph that took the step stands at a breakpoint of its own by now."""
        if not point.checkpoint_ns or _id_of(head) != point.root_id:
            return False
        place = {**self._for(point.thread_id)["configurable"], "checkpoint_ns": point.checkpoint_ns}
        found = await self._state({**self._config, "configurable": place})
        if _id_of(found) == point.checkpoint_id:
            return False
        names = "|".join(each.split(":")[0] for each in point.checkpoint_ns.split("|"))
        below = dict(self._named_graph().get_subgraphs(namespace=names, recurse=True))
        return names in below and await self._stands_at_breakpoint(below[names], found)

    async def _stands_at_breakpoint(self, graph: Any, found: StateSnapshot) -> bool:
        if _meets(graph.interrupt_before_nodes, found):
            return True
        if not graph.interrupt_after_nodes or found.parent_config is None:
            return False
        return _meets(graph.interrupt_after_nodes, await self._state(found.parent_config))

    async def _synchronous(self) -> bool:
        """Say whether the checkpointer has its synchronous side alone, which only calling tells."""
        if self._is_synchronous is None:
            try:
                await self._saver.aget_tuple(self._for(""))
            except NotImplementedError:
                self._is_synchronous = True
            else:
                self._is_synchronous = False
        return self._is_synchronous

    async def _head(self, thread_id: str) -> StateSnapshot:
        return await self._state(self._for(thread_id))

    async def _state(self, config: RunnableConfig) -> StateSnapshot:
        graph = self._named_graph()
        return await on_side(
            await self._synchronous(),
            lambda: graph.get_state(config),
            lambda: graph.aget_state(config),
        )

    async def _invoke(self, thread_id: str, given: Any) -> None:
        graph, config = self._named_graph(), self._for(thread_id)
        await on_side(
            await self._synchronous(),
            lambda: graph.invoke(given, config, durability="sync"),
            lambda: graph.ainvoke(given, config, durability="sync"),
        )

    def _for(self, thread_id: str) -> RunnableConfig:
        more = self._config.get("configurable", {})
        return {**self._config, "configurable": {**more, "thread_id": thread_id}}


def _waits_for(head: StateSnapshot, run: str) -> bool:
    return any(run_of(each.value) == run for each in head.interrupts)


def _meets(nodes: Sequence[str] | Literal["*"], found: StateSnapshot) -> bool:
    return any(nodes == "*" or task.name in nodes for task in found.tasks)


def _id_of(found: StateSnapshot | CheckpointTuple) -> str:
    return str(found.config.get("configurable", {}).get("checkpoint_id", ""))
