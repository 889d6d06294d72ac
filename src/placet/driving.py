"""Driving: which agents and hosts this process has, and how it carries their runs on.

A run is carried on together with the runs that stand under it, each under a lease of its own, and
those beside each other at once. A framework's run is carried on by the framework, which is told
when what it waited for is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from placet.agent.agent import Agent, Role
from placet.agent.loop import Loop
from placet.agent.watching import Watching
from placet.core import commands as c
from placet.core.deciding_effects import MOST_DEPTH
from placet.core.errors import InProgress, InvalidDeclaration
from placet.core.state import Delegated, RunOver, Session
from placet.explaining import Office
from placet.runtime.authority import Authority
from placet.runtime.declarations import Declaration
from placet.runtime.detached import Detached, Stop
from placet.runtime.engine import Engine
from placet.runtime.gate import Gate
from placet.runtime.hosted_runs import HostedRuns, Resume
from placet.runtime.hosting import Hosting
from placet.stores.store import RunRow


class Driving:
    """The agents and hosts of one process, and the runs that it drives."""

    def __init__(self, engine: Engine, authority: Authority) -> None:
        self._engine = engine
        self._authority = authority
        self._agents: dict[str, Agent] = {}
        self._detached = Detached(engine.store.close)
        self._hosted = HostedRuns(engine, authority, self._detached)

    # --- agents and hosts ---------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Give the names of the agents that this process can drive."""
        return tuple(self._agents)

    def offices(self) -> Iterator[Office]:
        """Give the tools of each agent and host here, and of each agent under one."""
        for agent in self._agents.values():
            yield from _offices(Role.of(agent), ())
        for toolbox in self._hosted.toolboxes:
            yield Office(toolbox=toolbox)

    def add(self, agent: Agent) -> None:
        """Make an agent known; raises InvalidDeclaration where another one has its name."""
        known = self._agents.get(agent.name, agent)
        if known is not agent or self._hosted.has_agent(agent.name):
            raise _two_agents(agent.name)
        self._agents[agent.name] = agent

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
                hint="In a program give it to Placet.open(agents=[…]); at the command line name the"
                " app that has it with --app module:name, or as `app` in placet.toml.",
                agent=agent,
            )
        return found

    def host(
        self,
        agent: str,
        tools: Iterable[Declaration],
        *,
        resume: Resume | None,
        is_guard: bool = False,
    ) -> Hosting:
        """Make a framework's agent known: `resume` is called with a run that can go on."""
        if not is_guard and agent in self._agents:
            raise _two_agents(agent)
        return self._hosted.add(agent, tools, resume=resume, is_guard=is_guard)

    def gate_of(self, state: Session, run: str) -> Gate:
        """Give the gate of a run's agent; raises InvalidDeclaration where it is not here."""
        found = state.runs[run]
        if found.kind == "hosted":
            return self._hosted.gate_of(found)
        return Gate(self._engine, self._role_of(state, run).toolbox(), self._authority)

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
            return self._hosted.can_drive(row.run)
        if row.run.parent is None:
            return row.run.agent in self._agents
        state = await self._engine.session(row.session, c.Names(runs=(row.run.id,)))
        return state.runs[root_of(state, row.run.id)].agent in self._agents

    # --- driving ------------------------------------------------------------------------------

    async def drive(
        self, session: str, run: str, watching: Watching, *, fence: int | None = None
    ) -> None:
        """Carry a run on, with all that stands above and under it.

        `fence` is of the lease under which the caller began the run. It is done in a task of the
        runtime's own: a caller that is cancelled leaves it (D5). Raises InProgress while another
        drives the topmost run, unless this was at it already: then it waits for the other.
        """
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if state.runs[run].kind == "hosted":
            await self._hosted.resume(session, run)
            return
        top = root_of(state, run)
        await self._detached.do(
            lambda stop: self._drive_tree(session, top, stop, watching, fence=fence)
        )

    async def drive_alone(self, row: RunRow, watching: Watching) -> None:
        """Carry one run on and none beside it, as a worker does: the others are due themselves."""
        if row.run.kind == "hosted":
            await self._hosted.resume(row.session, row.run.id)
            return
        session, run = row.session, row.run.id
        await self._detached.do(lambda stop: self._drive_one(session, run, stop, watching))

    async def _drive_tree(
        self,
        session: str,
        run: str,
        stop: Stop,
        watching: Watching,
        *,
        fence: int | None = None,
        follows: bool = False,
    ) -> None:
        """Carry a run on, and the runs under it for as long as that changes anything.

        One of them that fails keeps no other from going on; what it raised is raised at the end.
        """
        failed: dict[str, BaseException] = {}
        seen = -1
        follows = follows or fence is not None
        while not stop.asked:
            await self._drive_one(session, run, stop, watching, fence=fence, follows=follows)
            fence, follows = None, True
            state = await self._engine.session(session, c.Names(runs=(run,)))
            children = [child for child in _children(state, run) if child not in failed]
            if state.seq == seen or not children:
                break
            seen = state.seq
            ended = await asyncio.gather(
                *(
                    self._drive_tree(session, child, stop, watching, follows=True)
                    for child in children
                ),
                return_exceptions=True,
            )
            failed |= {
                child: error
                for child, error in zip(children, ended, strict=True)
                # What another is at is in good hands.
                if isinstance(error, BaseException) and not isinstance(error, InProgress)
            }
            after = await self._engine.session(session)
            if after.seq == seen:
                break
        if failed:
            raise next(iter(failed.values()))

    async def _drive_one(
        self,
        session: str,
        run: str,
        stop: Stop,
        watching: Watching,
        *,
        fence: int | None = None,
        follows: bool = False,
    ) -> None:
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if isinstance(state.runs[run].state, RunOver):
            return
        role = self._role_of(state, run)
        gate = Gate(self._engine, role.toolbox(), self._authority)
        loop = Loop(self._engine, role, gate, watching=watching)
        await loop.drive(session, run, stop=stop, fence=fence, follows=follows)

    # --- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the store go once the bodies that were begun have their outcomes on record.

        Runs stop after what they are doing. In another thread than theirs this waits for them, for
        up to 10 seconds.
        """
        self._detached.close()


def _offices(role: Role, above: tuple[str, ...]) -> Iterator[Office]:
    toolbox = role.toolbox()
    yield Office(toolbox=toolbox, above=above)
    if len(above) < MOST_DEPTH:
        for name in toolbox.tools:
            if (below := role.below(name)) is not None:
                yield from _offices(below, (role.agent.name, *above))


def _two_agents(name: str) -> InvalidDeclaration:
    told = f"Two agents are named {name}."
    return InvalidDeclaration("invalid_agent", told, hint="Give one another name.")


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
