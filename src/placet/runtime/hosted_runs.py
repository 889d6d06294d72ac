"""The runs that frameworks host, as a worker sees them: their own work, and telling their hosts.

What a run needs without its framework (deadlines, recovery, an end) is done here, by any process;
then the framework is told to go on, by one process at a time. A guarded function without
`on_decided` is told nothing: its runs are left to whoever calls it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from placet.core import commands as c
from placet.core import work as w
from placet.core.errors import InProgress, InvalidDeclaration
from placet.core.state import Executing, Run, Session
from placet.core.values import GuardKind, Occurrence
from placet.runtime.authority import Authority
from placet.runtime.declarations import Declaration
from placet.runtime.detached import Detached
from placet.runtime.engine import Engine
from placet.runtime.gate import Gate
from placet.runtime.hosted_drivers import Rights
from placet.runtime.hosting import Hosting
from placet.runtime.processes import is_gone
from placet.runtime.proposing import Toolbox
from placet.runtime.threads import without_end

#: How often a hosted run's own work (deadlines, recovery) is done before its host is told.
MOST_HOSTED_WORK = 50

#: The code with which a run is left to whoever calls again.
LEFT_TO_CALLER = "left_to_caller"

#: How a framework is told to go on with a run.
Resume = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A framework's agent, and how the framework is told; None: nobody is."""

    hosting: Hosting
    resume: Resume | None


class HostedRuns:
    """The hosts of one process, and the runs of theirs."""

    def __init__(self, engine: Engine, authority: Authority, detached: Detached) -> None:
        self._engine = engine
        self._authority = authority
        self._detached = detached
        self._rights = Rights(engine)
        self._hosts: dict[tuple[str, bool], Host] = {}

    def add(
        self, agent: str, tools: Iterable[Declaration], *, resume: Resume | None, is_guard: bool
    ) -> Hosting:
        """Make a framework's agent, or a guarded function, known; raises InvalidDeclaration."""
        if not is_guard and resume is None:
            raise InvalidDeclaration("invalid_agent", f"Agent {agent}: nobody would resume it.")
        _check_name(agent)
        key = (agent, is_guard)
        if key in self._hosts:
            what = "guarded functions" if is_guard else "agents"
            raise InvalidDeclaration(
                "invalid_guard" if is_guard else "invalid_agent",
                f"Two {what} are named {agent}.",
                hint="What they do is found again by that name: give one a name of its own.",
            )
        told: GuardKind = "untold" if resume is None else "told"
        hosting = Hosting(
            self._engine,
            self._authority,
            self._detached,
            agent=agent,
            tools=tools,
            guard=told if is_guard else None,
        )
        self._hosts[key] = Host(hosting=hosting, resume=resume)
        return hosting

    @property
    def toolboxes(self) -> tuple[Toolbox, ...]:
        """Give the tools of each host, as they are declared now."""
        return tuple(host.hosting.gate.toolbox for host in self._hosts.values())

    def has_agent(self, agent: str) -> bool:
        """Say whether a framework's agent has this name."""
        return (agent, False) in self._hosts

    def can_drive(self, run: Run) -> bool:
        """Say whether this process has the host of a run, or a run needs none."""
        return run.guard == "untold" or self._is_here(run)

    def gate_of(self, run: Run) -> Gate:
        """Give the gate of a run's host; raises InvalidDeclaration where it is not here."""
        return self._host_of(run).hosting.gate

    def _is_untold(self, run: Run) -> bool:
        """Say whether nobody is told of a run: it was begun so, or its guard says so by now."""
        host = self._hosts.get(_key(run))
        return run.guard == "untold" or (host is not None and host.resume is None)

    def _is_here(self, run: Run) -> bool:
        return _key(run) in self._hosts

    def _host_of(self, run: Run) -> Host:
        if not self._is_here(run):
            raise InvalidDeclaration(
                "unknown_agent",
                f"This process does not host the agent {run.agent}.",
                hint="Resume it where the framework that drives it is set up.",
                agent=run.agent,
            )
        return self._hosts[_key(run)]

    # --- carrying on --------------------------------------------------------------------------

    async def resume(self, session: str, run: str) -> None:
        """Do what a framework's run needs without it, and tell the framework to go on.

        Raises InProgress(`left_to_caller`) where nobody is to be told.
        """
        for _ in range(MOST_HOSTED_WORK):
            state = await self._engine.session(session, c.Names(runs=(run,)))
            found = state.runs[run]
            is_untold = self._is_untold(found)
            match w.next_work(state, run):
                case w.ExpireDue():
                    await self._engine.execute(session, c.Expire(run=run))
                case w.Recover(at=at):
                    await self._recover(session, at)
                case w.Wait() if (gone := _left_by_the_dead(state, run)) is not None:
                    await self._recover(session, gone)
                case w.Probe(at=at) if not is_untold or self._is_here(found):
                    await self.gate_of(found).recovery.probe(session, at)
                case w.TakeBack(at=at) if not is_untold or self._is_here(found):
                    await self.gate_of(found).recovery.take_back(session, at)
                case w.Finish(stop=stop):
                    await self._engine.execute(session, c.FinishRun(run=run, fence=None, stop=stop))
                case w.ResumeHost() | w.Wait() if is_untold and _has_its_answers(state, run):
                    finish = c.FinishRun(run=run, fence=None, stop="final")
                    await self._engine.execute(session, finish)
                case w.Probe() | w.TakeBack() | w.ResumeHost() if is_untold:
                    raise InProgress(
                        LEFT_TO_CALLER,
                        "It may go on, and is carried out by whoever calls the function again.",
                        hint="Call it with the same arguments.",
                        run_id=run,
                    )
                case w.ResumeHost():
                    await self._tell(session, found)
                case _:
                    return

    async def _recover(self, session: str, at: Occurrence) -> None:
        """Take a lost attempt from its holder, which needs nothing of the tool."""
        await Gate(self._engine, Toolbox(()), self._authority).recovery.recover(session, at)

    async def _tell(self, session: str, run: Run) -> None:
        """Tell a run's framework, as nobody else does meanwhile.

        Raises InProgress where another is told to go on with its course, or where it goes on with
        nothing.
        """
        host = self._host_of(run)
        assert host.resume is not None, "only what is told has somebody to tell"
        named = host.hosting.course
        course = f"run {run.id}" if named is None else await named(session, run.id)
        async with self._rights.held(course, run.id):
            state = await self._engine.session(session, c.Names(runs=(run.id,)))
            if not isinstance(w.next_work(state, run.id), w.ResumeHost):
                return  # Another was told just before.
            host.hosting.told(run.id)
            await without_end(host.resume(run.id))
            await host.hosting.taken(session, run.id)
        after = await self._engine.session(session, c.Names(runs=(run.id,)))
        if isinstance(w.next_work(after, run.id), w.ResumeHost) and after.seq == state.seq:
            raise InProgress(
                "host_not_done",
                f"The framework of {run.agent} was told, and has not gone on yet.",
                hint="Another process may be at it.",
                run_id=run.id,
            )


def _key(run: Run) -> tuple[str, bool]:
    return run.agent, run.guard is not None


def _check_name(agent: object) -> None:
    """Hold a name to be one that people can read, and that can be kept."""
    if not isinstance(agent, str) or not agent.isprintable() or agent != agent.strip() or not agent:
        raise InvalidDeclaration(
            "invalid_agent", f"An agent needs a name that can be read, not {agent!r}."
        )


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
