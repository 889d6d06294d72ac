"""`Placet`: what a program holds of the runtime. Opens a store, drives runs, takes decisions.

It translates, and decides nothing itself: each method ends in one command to the engine, or in the
loop. Every async method has a blocking twin, `..._sync`, through one portal.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack, get_args

from placet.agent.agent import Agent
from placet.agent.tools import ToolOptions
from placet.agent.watching import Watcher, Watching
from placet.client_decisions import Deciding
from placet.core import commands as c
from placet.core import wording
from placet.core.errors import InvalidDeclaration, InvalidInput
from placet.core.spoken import refuse_command
from placet.core.state import RunOver
from placet.core.values import Mode
from placet.driving import Driving, root_of
from placet.explaining import Explaining
from placet.guarding import Guarded, Terms
from placet.opening import open_store
from placet.people import People
from placet.portal import blocking
from placet.results import (
    LISTED,
    MAIN_SESSION,
    Decision,
    Listed,
    RunResult,
    runs_of,
    stands,
)
from placet.runtime.authority import Annotator, Authority, refuse_inside_tool
from placet.runtime.declarations import Declaration
from placet.runtime.detached import Stop
from placet.runtime.engine import Engine, new_id
from placet.runtime.hosting import Hosting
from placet.runtime.policies import PolicyFile
from placet.runtime.processes import this_process
from placet.runtime.relaying import Channel, Relay, checked
from placet.runtime.worker import Report, Worker
from placet.settings import Settings, current_account
from placet.stores.store import RunRow, Store

if TYPE_CHECKING:
    from placet.policy.faults import PolicyTrouble

R = TypeVar("R")


class NoApproverWarning(UserWarning):
    """An agent's tools may ask, and nobody may decide: whatever asks is answered `no_approver`."""


class BrokenPolicyWarning(UserWarning):
    """The policy file cannot be taken, and until it is mended every call is denied (G1)."""


class Placet(Deciding):
    """The runtime over one store, for one tenant.

    `agents` are those that this process can drive; `approvers` the people who may decide (by
    default the account that runs the process; `()` means nobody, and then whatever must ask does
    not run). `policy` is the policy file, and `annotators` are the sources that it trusts: each is
    given a tool's name and a call's arguments, and answers with labels, such as `{"pii": True}`.
    `channels` are the ways out to people of the workers that are made here.
    """

    def __init__(
        self,
        store: Store,
        *,
        tenant: str = "main",
        agents: Iterable[Agent] = (),
        approvers: Sequence[str] | None = None,
        require_approver: bool = False,
        policy: PolicyFile | str | os.PathLike[str] | None = None,
        annotators: Mapping[str, Annotator] | None = None,
        channels: Iterable[Channel] = (),
    ) -> None:
        named = (current_account(),) if approvers is None else tuple(approvers)
        self.engine = Engine(store, tenant=tenant)
        if policy is not None and not isinstance(policy, PolicyFile):
            policy = PolicyFile(policy)
        given = dict(annotators or {})
        self._authority = Authority(approvers=named, policy=policy, annotators=given)
        self._require_approver = require_approver
        self._driving = Driving(self.engine, self._authority)
        self.people = People(self.engine, self._authority, self._driving.gate_of)
        self.channels = list(checked(tuple(channels)))
        for agent in agents:
            self.add(agent)

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        agents: Iterable[Agent] = (),
        approvers: Sequence[str] | None = None,
        require_approver: bool = False,
        policy: PolicyFile | str | os.PathLike[str] | None = None,
        annotators: Mapping[str, Annotator] | None = None,
        channels: Iterable[Channel] = (),
        settings: Settings | None = None,
    ) -> Placet:
        """Open a store by its URL, such as `sqlite:///placet.db`; by default the settings'.

        `policy` and `approvers`, too, are by default those of the settings.

        Raises InvalidSetting, StoreTrouble, or InvalidDeclaration where an approver is required
        and there is none.
        """
        found = settings or Settings.load()
        placet = cls(
            open_store(url or found.store, found),
            tenant=found.tenant,
            agents=agents,
            approvers=found.approvers if approvers is None else approvers,
            require_approver=require_approver,
            policy=PolicyFile.of(found.policy) if policy is None else policy,
            annotators=annotators,
            channels=channels,
        )
        placet.people.language = found.language
        return placet

    def close(self) -> None:
        """Let the store go, once the bodies that were begun have their outcomes on record.

        Runs that are driven stop after what they are doing. In another thread than theirs this
        waits for them, for up to 10 seconds.
        """
        self._driving.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._driving.end()

    def add(self, agent: Agent) -> None:
        """Make an agent known to this process.

        Warns (NoApproverWarning), or with `require_approver` raises InvalidDeclaration, where its
        tools may ask and nobody may decide (G1). Warns (BrokenPolicyWarning) where the policy file
        cannot be taken.
        """
        standing = self._authority.today()
        if standing.trouble is not None:
            _every_call_is_denied(standing.trouble)
        if agent.asks_in_vain(anybody=standing.anybody):
            self._nobody_may_decide(f"Agent {agent.name} has tools that may ask")
        self._driving.add(agent)

    def _nobody_may_decide(self, who: str) -> None:
        message = (
            f"{who}, and nobody may decide: name an approver in the settings, or declare"
            " approval='never'."
        )
        if self._require_approver:
            raise InvalidDeclaration("no_approver", message)
        warnings.warn(message, NoApproverWarning, stacklevel=3)

    # --- runs ---------------------------------------------------------------------------------

    async def run(
        self,
        agent: Agent | str,
        message: str,
        *,
        session: str = MAIN_SESSION,
        requester: str | None = None,
        run_id: str | None = None,
        mode: Mode | None = None,
        on_message: Literal["refuse", "supersede"] = "refuse",
        on_event: Watcher | None = None,
    ) -> RunResult:
        """Begin a run of an agent, and drive it until it waits for a person or is over.

        `requester` is for whom it acts (by default the account that runs the process). `mode` is by
        default the agent's own. The same `run_id` again is the same run. `on_event` is told of
        what happens, as an observer alone. Raises Conflict(`run_waiting`) where a run of the
        session waits, unless `on_message` supersedes it; Closed where the session was ended;
        InvalidInput where the message is a command such as `/approve`, which no model is given;
        ModelTrouble where the model failed, and then the run rests and can be resumed.
        """
        refuse_inside_tool()
        refuse_command(message)
        if mode is not None and mode not in get_args(Mode):
            hint = f"The modes are {', '.join(get_args(Mode))}."
            raise InvalidInput("invalid_mode", f"There is no mode {mode!r}.", hint=hint)
        if on_message not in ("refuse", "supersede"):
            told = f"A message cannot {on_message!r} what waits: say refuse or supersede."
            raise InvalidInput("invalid_on_message", told)
        found = self._agent(agent)
        name = run_id or new_id("run")
        start = c.StartRun(
            run=name,
            holder=this_process(),
            agent=found.name,
            requester=requester or current_account(),
            message=message,
            max_steps=found.max_steps,
            mode=mode or found.mode,
            on_failure=found.on_failure,
            saga=found.saga,
            supersede=on_message == "supersede",
        )
        await self._driving.begin(session, start, Watching(on_event))
        return await self.result(name)

    async def resume(
        self, run_id: str, *, session: str | None = None, on_event: Watcher | None = None
    ) -> RunResult:
        """Carry a run on: after a decision, a crash or a failure of its model.

        What stands above and under the run is carried on with it; a framework's run is carried on
        by its framework. Raises NotFound for an unknown run, or one of another session than is
        named; InvalidDeclaration where this process does not have its agent; and InProgress while
        another process drives it.
        """
        refuse_inside_tool()
        row = await self.engine.find_run(run_id, session=session)
        if not isinstance(row.run.state, RunOver):
            await self._driving.drive(row.session, run_id, Watching(on_event))
        return await self.result(run_id)

    async def result(self, run_id: str, *, session: str | None = None) -> RunResult:
        """Say where a run stands; one of another session than is named is not found (G11)."""
        row = await self.engine.find_run(run_id, session=session)
        state = await self.engine.session(row.session, c.Names(runs=(run_id,)))
        over = state.runs[run_id].state
        ref = over.answer_ref if isinstance(over, RunOver) else None
        answer = None if ref is None else await self.engine.payload(row.session, ref)
        return stands(state, run_id, answer=answer)

    async def cancel(
        self,
        run_id: str,
        *,
        by: str | None = None,
        cause: str = "",
        session: str | None = None,
    ) -> RunResult:
        """End a run: its requests close as cancelled, what has begun is carried to its outcome.

        `by` is by default the account that runs the process.
        """
        who = by or current_account()
        await self.people.cancel(run_id, by=who, cause=cause, session=session)
        return await self.result(run_id)

    async def runs(
        self, *, session: str | None = None, active: bool = False, limit: int = LISTED
    ) -> Listed[RunRow]:
        """Give the runs, the newest first, up to `limit`; `more` of the answer says: not all."""
        listed = self.engine.read(runs_of, self.engine, session=session, active=active, limit=limit)
        return await listed

    async def end_session(self, session: str, *, by: str | None = None, cause: str = "") -> None:
        """End a session: its runs are cancelled, and it takes no further message.

        Raises NotFound where there is no such session.
        """
        await self.people.end_session(session, by=by or current_account(), cause=cause)

    async def erase_session(self, session: str, *, by: str | None = None, cause: str = "") -> bool:
        """Destroy the texts of a session for good, and end it; its record of events stays (H4).

        False: a process still reads an older state; say it again once it has ended. Raises NotFound
        where there is no such session, and Conflict while anything of it is open.
        """
        return await self.people.erase_session(session, by=by or current_account(), cause=cause)

    def _agent(self, agent: Agent | str) -> Agent:
        if isinstance(agent, Agent) and agent.name not in self._driving.names:
            self.add(agent)
        return self._driving.agent(agent)

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Give the names of the agents that this process can drive."""
        return self._driving.names

    @property
    def explaining(self) -> Explaining:
        """Give what explains how calls of the tools here would be ruled, and why.

        explained = await placet.explaining.explain("refund", {"amount": 50})
        """
        return Explaining(self.engine, self._authority, self._driving.offices())

    def worker(
        self,
        *,
        report: Report,
        on_event: Watcher | None = None,
        channels: Iterable[Channel] | None = None,
    ) -> Worker:
        """Give a worker, which carries on every run of the agents here whose time has come.

            worker = placet.worker(report=print)
            await worker.once()         # until nothing is due
            await worker.forever(stop)  # until the event `stop` is set

        `report` is told of what happens ("resumed", "in_progress", "no_agent", "trouble",
        "notice", "delivered" or "undelivered"), of the id of the run or request, and of more in
        words. Troubles are told there alone: the runs rest, and are tried again. `on_event` watches
        all runs. People are told through `channels`, by default those of the runtime, at least
        once (H3); without any, the report is all, and counts as no delivery. Give every worker of a
        store the same channels. Raises InvalidDeclaration where one is none.
        """
        refuse_inside_tool()
        watching = Watching(on_event)

        async def drive(row: RunRow, stop: Stop) -> None:
            refuse_inside_tool()
            await self._driving.drive_alone(row, watching, stop)

        worker = Worker(self.engine, drive=drive, can_drive=self._driving.can_drive, report=report)
        ways_out = checked(tuple(self.channels if channels is None else channels))
        if ways_out:
            worker.relay = Relay(self.engine, ways_out, card=self.show, report=report)
        return worker

    def host(
        self,
        agent: str,
        tools: Iterable[Declaration],
        *,
        resume: Callable[[str], Awaitable[object]] | None,
        is_guard: bool = False,
    ) -> Hosting:
        """Host an agent of a framework, or a guarded function: an adapter's way in.

        `resume` is called with a run, at least once, when what it waited for is decided; a guarded
        function may have none, and is then left to its callers. Warns or raises as `add` does
        where its tools may ask and nobody may decide (G1); raises InvalidDeclaration where the
        name is taken or is none.
        """
        declared = tuple(tools)
        asks = any(each.approval != "never" for each in declared)
        standing = self._authority.today()
        if standing.trouble is not None:
            _every_call_is_denied(standing.trouble)
        if asks and not standing.anybody:
            named = f"guarded function {agent}" if is_guard else f"tools of the agent {agent}"
            self._nobody_may_decide(f"The {named} may ask")
        return self._driving.host(agent, declared, resume=resume, is_guard=is_guard)

    def guard(
        self,
        *,
        session: str | Callable[..., str],
        requester: str | Callable[..., str] | None = None,
        wait: timedelta | None = None,
        on_decided: Callable[..., object] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Callable[[Callable[..., R]], Guarded[R]]:
        """Put a function behind the gate; `options` are those of `placet.tool`.

            @placet.guard(session=lambda order_id, **_: f"order-{order_id}", surface="payments")
            def refund(order_id: str, amount: int, *, key: IdempotencyKey) -> str: ...

        One call with these arguments in this session is one action, done at most once, whoever
        calls and wherever. Where it may run, it runs, and the call returns what the function
        returns, or raises what it raises once that is on record. Where a person must act first,
        it raises ApprovalRequired, at once or after `wait`, and the program may end: called
        again with the same arguments it finds the same request. Approved, it then runs, once;
        done before, it returns a value equal to what was returned then; otherwise it raises
        ActionRefused with the call's code. What did not run and may be proposed again (code
        `interrupted`) is proposed anew. Where a person changed the arguments, the call returns
        what the changed ones brought about, and warns (EditedWarning).

        `session` (and `requester`, by default the account that runs the process) is a text or a
        function of the arguments. A session has one action at a time: while one waits another
        raises ApprovalRequired with the requests that come first, and while one is under way it
        waits a little, and raises InProgress. What tells two actions of the same arguments
        apart, such as a date, belongs into the arguments or the session.

        Results are on record as JSON, by the function's return annotation, or for `-> str` as
        they are. A synchronous function blocks, and is refused in an event loop (there
        `await refund.awaited(...)`); an async one is awaited. In a tool's body both are refused:
        the call would wait in the midst of an effect. `on_decided` is called with the arguments,
        at least once, by a worker of a process that has the guard, when the call can go on;
        without it nobody is told, and whoever calls next goes on. Raises InvalidDeclaration.
        """
        functions = importlib.import_module("placet.adapters.functions")
        terms = Terms(session=session, requester=requester, wait=wait, on_decided=on_decided)

        def guarded(function: Callable[..., R]) -> Guarded[R]:
            made: Guarded[R] = functions.GuardedFunction(self, function, terms, options)
            return made

        return guarded

    async def resume_approval(
        self,
        approval_id: str,
        decision: str,
        session: str,
        reason: str = wording.NO_REASON,
        *,
        by: str | None = None,
    ) -> RunResult:
        """Decide and carry the run on in one call: the entry point of older systems.

        An empty reason is recorded as `no reason given` (G6). The older signature names nobody:
        then it is the account that runs the process, which must be an approver all the same. Being
        on this machine is no identity (G10), so who calls this for several people names them with
        `by`. The answer is of the run at the top, on which the request of a nested agent waits.
        Raises InvalidInput for anything but the exact words approve and reject (H5).
        """
        if decision not in ("approve", "reject"):
            raise InvalidInput("not_a_decision", f"{decision!r} is neither approve nor reject.")
        row = await self.engine.find_request(approval_id, session=session)
        word: Decision = "approve" if decision == "approve" else "reject"
        who = by or current_account()
        said = reason if reason.strip() else wording.NO_REASON
        await self.decide(approval_id, word, by=who, reason=said, session=session)
        run = row.request.at.run
        state = await self.engine.session(session, c.Names(runs=(run,)))
        return await self.resume(root_of(state, run))

    run_sync = blocking(run)
    resume_sync = blocking(resume)
    result_sync = blocking(result)
    cancel_sync = blocking(cancel)
    end_session_sync = blocking(end_session)
    erase_session_sync = blocking(erase_session)
    runs_sync = blocking(runs)
    resume_approval_sync = blocking(resume_approval)


def _every_call_is_denied(trouble: PolicyTrouble) -> None:
    message = f"Every call is denied until the policy file is mended: {'; '.join(trouble.lines)}"
    warnings.warn(message, BrokenPolicyWarning, stacklevel=3)
