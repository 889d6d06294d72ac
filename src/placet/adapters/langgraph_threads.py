"""Resuming LangGraph's threads: after a decision, and after a process that drove one has died.

Theory of operation. Nothing is kept here that is not in the two stores. The thread's own state says
what it waits for; the run's last checkpoint says where it was proposed. Where the thread stands at
an interrupt of ours, it is resumed by that interrupt's id. Where it stands at the step without one,
or later in the same course, a process is at it, or was: it is left alone while that process may
live. Where it waits for others or has begun another course, the run has been served, and what is
open of it can never be carried out, so that it is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from placet.adapters.langgraph_steps import Point
from placet.core import commands as c
from placet.core.errors import Closed, InProgress, InvalidDeclaration, Trouble
from placet.core.values import Holder, Principal
from placet.runtime.engine import Engine
from placet.runtime.processes import awake, is_gone, this_process
from placet.runtime.threads import in_thread
from placet.stores.store import RunRow

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot

    from placet.runtime.hosting import Hosting, Waiting

#: Marks the interrupts that are ours.
OURS = "placet"

#: How long a checkpoint may take to reach LangGraph's checkpointer, and how often it is looked for.
RECORD_LASTS = timedelta(seconds=5)
LOOK_AGAIN = timedelta(milliseconds=20)

#: How long a thread that stands still is left to a process that lives, and may be driving it.
LEFT_ALONE = timedelta(minutes=2)

#: How many of a session's last events are searched for who drove a thread last.
LAST_EVENTS = 200


def checkpoint_text(point: Point) -> str:
    """Write down where a step's thread is, and who proposed the step."""
    return json.dumps({"langgraph": asdict(point), "process": asdict(this_process())})


def waiting_value(session: str, run: str, waiting: Waiting) -> dict[str, Any]:
    """Give the value of an interrupt of ours: which people must act first, on what."""
    told: dict[str, Any] = {"session": session, "run": run, "requests": list(waiting.requests)}
    return {OURS: {**told, "held_by": waiting.held_by} if waiting.held_by else told}


class Threads:
    """The threads of one compiled graph."""

    hosting: Hosting

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._graph: CompiledStateGraph[Any, Any, Any, Any] | None = None
        self._config: RunnableConfig = {}
        self._synchronous: bool | None = None
        self._resuming: set[str] = set()
        self._standing: dict[str, tuple[str, float]] = {}

    def resumes(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig | None
    ) -> None:
        """Take the graph; raises InvalidDeclaration where it keeps no state."""
        from langgraph.checkpoint.base import BaseCheckpointSaver

        if not isinstance(graph.checkpointer, BaseCheckpointSaver):
            raise InvalidDeclaration(
                "no_checkpointer", "The graph has no checkpointer, and no thread could be resumed."
            )
        self._graph = graph
        self._config = config or {}

    # --- the checkpoint first -----------------------------------------------------------------

    def course(self, point: Point) -> str:
        """See that the checkpoint is on record, and name the course that it is of.

        People are asked to go on from it, and LangGraph writes it in the background. A course
        begins with an input, a change of the state or a fork. Raises Trouble where the checkpoint
        does not come, and InvalidDeclaration where no graph was named.
        """
        saver = self._saver()
        for _ in range(RECORD_LASTS // LOOK_AGAIN):
            if saver.get_tuple(point.config()) is not None:
                found = [each for query in _beginnings(point) for each in saver.list(**query)]
                return _newest(found)
            time.sleep(LOOK_AGAIN.total_seconds())
        raise _not_on_record(point)

    async def acourse(self, point: Point) -> str:
        """Do the same under asyncio."""
        saver = self._saver()
        for _ in range(RECORD_LASTS // LOOK_AGAIN):
            if await saver.aget_tuple(point.config()) is not None:
                queries = _beginnings(point)
                return _newest([each for query in queries async for each in saver.alist(**query)])
            await asyncio.sleep(LOOK_AGAIN.total_seconds())
        raise _not_on_record(point)

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

    # --- resuming -----------------------------------------------------------------------------

    async def resume(self, run: str) -> None:
        """Have the run's thread go on, if it can.

        Raises InProgress while another process may be driving it, and InvalidDeclaration where no
        graph was named.
        """
        graph = self._named_graph()
        row = await self._engine.find_run(run)
        written = json.loads(await self.hosting.checkpoint(row.session, run))
        point = Point(**written["langgraph"])
        with self._alone_with(point.thread_id, run):
            await self._go_on(graph, row, point, Holder(**written["process"]))

    @contextmanager
    def _alone_with(self, thread_id: str, run: str) -> Iterator[None]:
        if thread_id in self._resuming:
            raise InProgress("thread_driven", "The thread is being resumed.", run_id=run)
        self._resuming.add(thread_id)
        try:
            yield
        finally:
            self._resuming.discard(thread_id)

    async def _go_on(
        self,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        row: RunRow,
        point: Point,
        proposer: Holder,
    ) -> None:
        from langgraph.types import Command

        head = await self._head(graph, point.thread_id)
        ours = [each for each in head.interrupts if run_of(each.value)]
        if any(run_of(each.value) == row.run.id for each in ours):
            # The value decides nothing: each of ours asks the gate again.
            decided: Command[Any] = Command(resume={each.id: "decided" for each in ours})
            await self._invoke(graph, point.thread_id, decided)
        elif await self._is_left(head, point):
            await self._leave_to_the_living(row, head, proposer)
            await self._invoke(graph, point.thread_id, None)
        self._standing.pop(row.run.id, None)
        await self._served(row, point, await self._head(graph, point.thread_id))

    async def _leave_to_the_living(
        self, row: RunRow, head: StateSnapshot, proposer: Holder
    ) -> None:
        """Raise InProgress while the process that was last at the thread may be at it still."""
        last = await self._engine.read(self._last_holder, row) or proposer
        place, since = str(head.config), awake()
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

    def _last_holder(self, row: RunRow) -> Holder | None:
        """Name the process that entered a body of the run last."""
        store, last = self._engine.store, None
        seq, _ = store.head(row.tenant, row.session) or (0, "")
        for event in store.events(row.tenant, row.session, after=max(0, seq - LAST_EVENTS)):
            if event.kind == "AttemptBegun":
                body = json.loads(event.body)
                last = Holder(**body["holder"]) if body["at"][0] == row.run.id else last
        return last

    async def _served(self, row: RunRow, point: Point, head: StateSnapshot) -> None:
        """Close what the thread has gone on without, and end the run where the graph is done."""
        waits = any(run_of(each.value) == row.run.id for each in head.interrupts)
        if waits or await self._is_left(head, point) or _id_of(head) < point.root_id:
            return
        state = await self._engine.session(row.session, c.Names(runs=(row.run.id,)))
        newer = await self.hosting.checkpoint(row.session, row.run.id)
        if Point(**json.loads(newer)["langgraph"]) != point:
            return
        if any(call.open for call in state.calls.values() if call.at.run == row.run.id):
            by = Principal(id="langgraph", kind="runtime")
            cancel = c.CancelRun(run=row.run.id, by=by, cause="its thread has gone on without it")
            with suppress(Closed):
                await self._engine.execute(row.session, cancel)
        elif not head.next:
            await self.hosting.end(row.session, row.run.id)

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
        if self._synchronous:
            began = await in_thread(lambda: self.course(here), name="langgraph")
        else:
            began = await self.acourse(here)
        return began <= point.root_id < _id_of(head)

    # --- the graph, synchronous or not ----------------------------------------------------------

    def _for(self, thread_id: str) -> RunnableConfig:
        more = self._config.get("configurable", {})
        return {**self._config, "configurable": {**more, "thread_id": thread_id}}

    async def _head(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str
    ) -> StateSnapshot:
        config = self._for(thread_id)
        if self._synchronous is None:
            try:
                found = await graph.aget_state(config)
            except NotImplementedError:  # A checkpointer that has no async side says so.
                self._synchronous = True
            else:
                self._synchronous = False
                return found
        if self._synchronous:
            return await in_thread(lambda: graph.get_state(config), name="langgraph")
        return await graph.aget_state(config)

    async def _invoke(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str, given: Any
    ) -> None:
        config = self._for(thread_id)
        if self._synchronous:
            await in_thread(
                lambda: graph.invoke(given, config, durability="sync"), name="langgraph"
            )
        else:
            await graph.ainvoke(given, config, durability="sync")


def _beginnings(point: Point) -> list[dict[str, Any]]:
    """Ask for the newest checkpoint before a point of each kind that begins a course."""
    config = {"thread_id": point.thread_id, "checkpoint_ns": point.checkpoint_ns}
    return [
        {
            "config": {"configurable": config},
            "filter": {"source": source},
            "before": point.config(),
            "limit": 1,
        }
        for source in ("input", "update", "fork")
    ]


def _newest(found: Sequence[CheckpointTuple]) -> str:
    ids = [each.config.get("configurable", {}).get("checkpoint_id", "") for each in found]
    return max(ids, default="")


def _not_on_record(point: Point) -> Trouble:
    return Trouble(
        "checkpoint_not_on_record",
        "LangGraph has not written down the checkpoint that the tool is called from.",
        hint="Invoke the graph with durability='sync' or 'async', not 'exit'.",
        **point.config()["configurable"],
    )


def run_of(value: Any) -> str | None:
    """Give the run that an interrupt of ours tells of; None for all others."""
    told = value.get(OURS) if isinstance(value, dict) else None
    return str(told["run"]) if isinstance(told, dict) and "run" in told else None


def _id_of(head: StateSnapshot) -> str:
    return str(head.config.get("configurable", {}).get("checkpoint_id", ""))
