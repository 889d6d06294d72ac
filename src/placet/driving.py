"""Driving: which agents and hosts this process has, and how it carries their runs on.

A run is carried on together with the runs that stand under it, each under a lease of its own, and
those beside each other at once. A framework's run is carried on by the framework, which is told
when what it waited for is decided.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from placet.agent.agent import Agent, Role
from placet.agent.loop import Loop, Stop
from placet.agent.watching import Watching
from placet.core import commands as c
from placet.core import work as w
from placet.core.errors import InProgress, InvalidDeclaration
from placet.core.state import Delegated, Executing, RunOver, Session
from placet.core.values import Occurrence
from placet.runtime.authority import Authority
from placet.runtime.declarations import Declaration
from placet.runtime.engine import Engine
from placet.runtime.gate import Gate
from placet.runtime.hosting import LEFT_TO_CALLER, UNTOLD, Hosting
from placet.runtime.processes import is_gone
from placet.runtime.proposing import Toolbox
from placet.stores.store import RunRow

T = TypeVar("T")

#: How long `close` waits for bodies that are under way in other threads.
CLOSING_LASTS = timedelta(seconds=10)

#: How often a hosted run's own work (deadlines, recovery) is done before its host is told.
MOST_HOSTED_WORK = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A framework's agent: its tools, and how the framework is told to go on with a run."""

    toolbox: Toolbox
    hosting: Hosting
    resume: Callable[[str], Awaitable[object]]


class Driving:
    """The agents and hosts of one process, and the runs that it drives."""

    def __init__(self, engine: Engine, authority: Authority) -> None:
        self._engine = engine
        self._authority = authority
        self._agents: dict[str, Agent] = {}
        self._hosts: dict[str, Host] = {}
        self._tasks: dict[asyncio.Task[Any], Stop] = {}
        self._closing = False
        self._closed = threading.Event()

    # --- agents and hosts ---------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Give the names of the agents that this process can drive."""
        return tuple(self._agents)

    def add(self, agent: Agent) -> None:
        """Make an agent known; raises InvalidDeclaration where another one has its name."""
        known = self._agents.setdefault(agent.name, agent)
        if known is not agent or agent.name in self._hosts:
            raise InvalidDeclaration("invalid_agent", f"Two agents are named {agent.name}.")

    def agent(self, agent: Agent | str) -> Agent:
        """Give an agent, and make it known where it is not; raises InvalidDeclaration."""
        if isinstance(agent, Agent):
            if self._agents.get(agent.name) is not agent:
                self.add(agent)
            return agent
        found = self._agents.get(agent)
        if found is None:
            known = ", ".join(sorted(self._agents)) or "none"
            raise InvalidDeclaration(
                "unknown_agent",
                f"This process has no agent named {agent} (it has: {known}).",
                hint="Name the app that has it with --app module:name, or `app` in placet.toml.",
                agent=agent,
            )
        return found

    def host(
        self,
        agent: str,
        tools: Iterable[Declaration],
        *,
        resume: Callable[[str], Awaitable[object]],
    ) -> Hosting:
        """Make a framework's agent known: `resume` is called with a run that can go on."""
        if agent in self._agents:
            raise InvalidDeclaration("invalid_agent", f"Two agents are named {agent}.")
        toolbox = Toolbox(tools)
        hosting = Hosting(self._engine, Gate(self._engine, toolbox, self._authority), agent=agent)
        self._hosts[agent] = Host(toolbox=toolbox, hosting=hosting, resume=resume)
        return hosting

    @property
    def host_names(self) -> tuple[str, ...]:
        """Give the names of the agents that this process hosts."""
        return tuple(self._hosts)

    def gate_of(self, state: Session, run: str) -> Gate:
        """Give the gate of a run's agent; raises InvalidDeclaration where it is not here."""
        found = state.runs[run]
        if found.kind == "hosted":
            return Gate(self._engine, self._host_of(found.agent).toolbox, self._authority)
        return Gate(self._engine, self._role_of(state, run).toolbox(), self._authority)

    def _host_of(self, agent: str) -> Host:
        found = self._hosts.get(agent)
        if found is None:
            raise InvalidDeclaration(
                "unknown_agent",
                f"This process does not host the agent {agent}.",
                hint="Resume it where the framework that drives it is set up.",
                agent=agent,
            )
        return found

    def _role_of(self, state: Session, run: str) -> Role:
        """Give the agent of a run in its place; a child's is the tool of the agent above it."""
        found = state.runs[run]
        if found.parent is None:
            return Role.of(self.agent(found.agent))
        tool = state.calls[found.parent].tool
        below = self._role_of(state, found.parent.run).below(tool)
        if below is None:
            raise InvalidDeclaration(
                "unknown_agent",
                f"The agent above run {run} does not have the agent {tool} as a tool any more.",
                hint="Give it back, or cancel the run.",
                agent=found.agent,
                run_id=run,
            )
        return below

    async def can_drive(self, row: RunRow) -> bool:
        """Say whether this process has the agent or the host of a run, or a run needs neither."""
        if row.run.kind == "hosted":
            return row.run.agent in self._hosts or row.run.agent.startswith(UNTOLD)
        if row.run.parent is None:
            return row.run.agent in self._agents
        state = await self._engine.session(row.session, c.Names(runs=(row.run.id,)))
        return state.runs[root_of(state, row.run.id)].agent in self._agents

    # --- driving ------------------------------------------------------------------------------

    async def drive(self, session: str, run: str, watching: Watching) -> None:
        """Carry a run on, with all that stands above and under it.

        It is done in a task of the runtime's own: a caller that is cancelled leaves it (D5).
        """
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if state.runs[run].kind == "hosted":
            await self._resume_hosted(session, run)
            return
        top = root_of(state, run)
        await self.detached(lambda stop: self._drive_tree(session, top, stop, watching))

    async def drive_alone(self, row: RunRow, watching: Watching) -> None:
        """Carry one run on and none beside it, as a worker does: the others are due themselves."""
        if row.run.kind == "hosted":
            await self._resume_hosted(row.session, row.run.id)
            return
        session, run = row.session, row.run.id
        await self.detached(lambda stop: self._drive_one(session, run, stop, watching))

    async def detached(self, work: Callable[[Stop], Coroutine[Any, Any, T]]) -> T:
        """Do something in a task of the runtime's own, which `close` waits for.

        A caller that is cancelled leaves it, and asks it to stop after what it is doing (D5).
        """
        stop = Stop()
        task = asyncio.create_task(work(stop))
        self._tasks[task] = stop
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.asked = True
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            raise

    async def _drive_tree(self, session: str, run: str, stop: Stop, watching: Watching) -> None:
        """Carry a run on, and the runs under it for as long as that changes anything.

        One of them that fails keeps no other from going on; what it raised is raised at the end.
        """
        failed: dict[str, BaseException] = {}
        seen = -1
        while not stop.asked:
            await self._drive_one(session, run, stop, watching)
            state = await self._engine.session(session, c.Names(runs=(run,)))
            children = [child for child in _children(state, run) if child not in failed]
            if state.seq == seen or not children:
                break
            seen = state.seq
            ended = await asyncio.gather(
                *(self._drive_tree(session, child, stop, watching) for child in children),
                return_exceptions=True,
            )
            failed |= {
                child: error
                for child, error in zip(children, ended, strict=True)
                # A child that another process drives is in good hands.
                if isinstance(error, BaseException) and not isinstance(error, InProgress)
            }
            after = await self._engine.session(session)
            if after.seq == seen:
                break
        if failed:
            raise next(iter(failed.values()))

    async def _drive_one(self, session: str, run: str, stop: Stop, watching: Watching) -> None:
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if isinstance(state.runs[run].state, RunOver):
            return
        role = self._role_of(state, run)
        gate = Gate(self._engine, role.toolbox(), self._authority)
        await Loop(self._engine, role, gate, watching=watching).drive(session, run, stop=stop)

    async def _resume_hosted(self, session: str, run: str) -> None:
        """Do what a framework's run needs without it, and tell the framework to go on."""
        for _ in range(MOST_HOSTED_WORK):
            state = await self._engine.session(session, c.Names(runs=(run,)))
            agent = state.runs[run].agent
            untold = agent.startswith(UNTOLD)
            match w.next_work(state, run):
                case w.ExpireDue():
                    await self._engine.execute(session, c.Expire(run=run))
                case w.Recover(at=at):
                    await self._recover(session, at)
                case w.Wait() if (gone := _left_by_the_dead(state, run)) is not None:
                    await self._recover(session, gone)
                case w.Probe(at=at) if agent in self._hosts or not untold:
                    await self.gate_of(state, run).probe(session, at)
                case w.TakeBack(at=at) if agent in self._hosts or not untold:
                    await self.gate_of(state, run).take_back(session, at)
                case w.Finish(stop=stop):
                    finish = c.FinishRun(run=run, fence=None, stop=stop)
                    await self._engine.execute(session, finish)
                case w.ResumeHost() | w.Wait() if untold and _has_its_answers(state, run):
                    finish = c.FinishRun(run=run, fence=None, stop="final")
                    await self._engine.execute(session, finish)
                case w.Probe() | w.TakeBack() | w.ResumeHost() if untold:
                    raise InProgress(
                        LEFT_TO_CALLER,
                        "It may go on, and is carried out by whoever calls the function again.",
                        hint="Call it with the same arguments.",
                        run_id=run,
                    )
                case w.ResumeHost():
                    await self._tell(session, run, state)
                case _:
                    return

    async def _recover(self, session: str, at: Occurrence) -> None:
        """Take a lost attempt from its holder, which needs nothing of the tool."""
        gate = Gate(self._engine, Toolbox(()), self._authority)
        await gate.recover(session, at)

    async def _tell(self, session: str, run: str, state: Session) -> None:
        """Tell a run's framework; raises InProgress where it goes on with nothing."""
        agent = state.runs[run].agent
        host = self._host_of(agent)
        host.hosting.told(run)
        await host.resume(run)
        await host.hosting.taken(session, run)
        after = await self._engine.session(session, c.Names(runs=(run,)))
        if isinstance(w.next_work(after, run), w.ResumeHost) and after.seq == state.seq:
            raise InProgress(
                "host_not_done",
                f"The framework of {agent} was told, and has not gone on yet.",
                hint="Another process may be at it.",
                run_id=run,
            )

    # --- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the store go once the bodies that were begun have their outcomes on record.

        Runs stop after what they are doing. In another thread than theirs this waits for them, for
        up to 10 seconds.
        """
        self._closing = True
        tasks = list(self._tasks.items())
        for _, stop in tasks:
            stop.asked = True
        if not tasks:
            self._close_store()
        elif all(not _is_own_loop(task) for task, _ in tasks):
            self._closed.wait(CLOSING_LASTS.total_seconds())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self._closing and not self._tasks:
            self._close_store()

    def _close_store(self) -> None:
        self._engine.store.close()
        self._closed.set()


def root_of(state: Session, run: str) -> str:
    """Name the run that a run stands under, or itself; the state has what is above it."""
    while (parent := state.runs[run].parent) is not None:
        run = parent.run
    return run


def _children(state: Session, run: str) -> list[str]:
    """Name the runs that work out calls of a run now."""
    return [
        call.state.child
        for call in state.calls.values()
        if call.at.run == run and isinstance(call.state, Delegated)
    ]


def _left_by_the_dead(state: Session, run: str) -> Occurrence | None:
    """Name a call whose attempt's process is seen to exist no more (D5)."""
    for call in state.calls.values():
        if call.at.run == run and isinstance(call.state, Executing) and is_gone(call.state.holder):
            return call.at
    return None


def _has_its_answers(state: Session, run: str) -> bool:
    """Say whether a run has taken a step, and nothing of it is open."""
    is_open = any(call.open for call in state.calls.values() if call.at.run == run)
    return state.runs[run].step > 0 and not is_open


def _is_own_loop(task: asyncio.Task[None]) -> bool:
    """Say whether a task is of the event loop that the caller itself runs in."""
    try:
        return task.get_loop() is asyncio.get_running_loop()
    except RuntimeError:
        return not task.get_loop().is_running()
