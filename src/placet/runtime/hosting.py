"""Hosting: the runs of a framework whose own loop drives them, through the gate's two verbs.

Theory of operation. The framework keeps its own state, and may run any part of it again; so
whatever is said here twice is the same. A step is named by the framework's own name for it, and
proposing it again gives the same occurrences. `carry_out` takes a call through the gate at most
once: whoever comes second gets the outcome that is on record, or waits for the attempt that is
under way, here or in another process. It never waits for people: then it says who must act, and
the framework suspends itself, in its own way. Nothing is held while it does (D1).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from weakref import WeakValueDictionary

from placet.core import commands as c
from placet.core import work as w
from placet.core.errors import Closed, Conflict, NotFound, Refusal
from placet.core.records import NameKind
from placet.core.state import (
    Allowed,
    Asking,
    Call,
    CallOver,
    Executing,
    Lost,
    Open,
    RetryDue,
    RunOver,
    Session,
    UndoDue,
    Unsettled,
)
from placet.core.values import CallCode, GuardKind, Holder, Occurrence, StopReason, keyed
from placet.runtime.authority import Authority
from placet.runtime.declarations import Arguments, Body, Declaration
from placet.runtime.detached import Detached
from placet.runtime.engine import Engine, new_salt
from placet.runtime.gate import LASTING_REFUSALS, Gate
from placet.runtime.processes import is_gone, this_process
from placet.runtime.proposing import Toolbox, ToolCall

#: How often the outcome of an attempt that is under way elsewhere is looked for.
LOOK_AGAIN = timedelta(milliseconds=50)

#: How often a refusal that another's change explains is looked at again before it is passed on.
MOST_REFUSALS = 200

#: How long a call waits for one that goes before it, and that nobody carries out.
HELD_LASTS = timedelta(seconds=30)

#: How many runs to one message are looked at, the newest being the one that goes on.
MOST_RUNS = 100

#: A run that ended so makes room for another one to the same message.
_MAKES_ROOM = frozenset({"final", "superseded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The call has its one result: `code` says of what kind, `told` is what the model reads.

    `own` is what the body itself returned or raised, where `told` says more; `by_hand` says that a
    person found it out.
    """

    code: CallCode
    told: str
    own: str | None = None
    by_hand: bool = False

    @property
    def result(self) -> str:
        """Give what the body itself returned or raised, as it stands on record."""
        return self.told if self.own is None else self.own


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Others must act first: people, on these requests; or `held_by` must be carried out (G8)."""

    requests: tuple[str, ...]
    held_by: str = ""


class Entry:
    """One caller's way into a body, and what came of it here.

    `written` gives the text under which the body's value stands on record.
    """

    def __init__(self, body: Body, written: Callable[[Any], str]) -> None:
        self._body = body
        self._written = written
        self.text: str | None = None
        self.value: Any = None
        self.error: BaseException | None = None

    async def body(self, arguments: Arguments, key: str) -> object:
        """Enter the body, and give what it returned as it is written down."""
        try:
            value = await self._body(arguments, key)
            text = self._written(value)
        except BaseException as error:
            self.error = error
            raise
        self.value, self.text = value, text
        return text


class Hosting:
    """The runs of one framework's agent."""

    #: The gate of the agent's tools, as they are declared now.
    gate: Gate

    #: Names the course that a run of a session is of, where several runs may have one.
    course: Callable[[str, str], Awaitable[str]] | None

    #: The tasks in which its bodies are entered, and which closing waits for.
    detached: Detached

    def __init__(
        self,
        engine: Engine,
        authority: Authority,
        detached: Detached,
        *,
        agent: str,
        tools: Iterable[Declaration],
        guard: GuardKind | None = None,
    ) -> None:
        self.course = None
        self.detached = detached
        self._engine = engine
        self._authority = authority
        self._agent = agent
        self._guard = guard
        self._waited: dict[Occurrence, int] = {}
        self._proposing: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
        self.redeclare(tools)

    def redeclare(self, tools: Iterable[Declaration]) -> None:
        """Put other tools in the place of the agent's tools; what is frozen stays as it is."""
        self.gate = Gate(self._engine, Toolbox(tools, agent=self._agent), self._authority)

    async def begin(
        self,
        session: str,
        run: str,
        message: str,
        *,
        requester: str,
        supersede: bool = True,
        salt: str = "",
    ) -> None:
        """Begin a run, or find it as it is; `salt` is the one that it was named under.

        The session's run before it is over if nothing of it is open, and is superseded if it
        waits; without `supersede` it stays as it is, and this raises Conflict(`run_waiting` or
        `run_active`). Raises InProgress where an effect of it is under way, Closed where the
        session was ended, and Conflict(`other_salt`) where the session has another salt.
        """
        if supersede:
            await self._finish_idle(session, but=run, salt=salt)
        start = c.StartRun(
            run=run,
            agent=self._agent,
            requester=requester,
            message=message,
            kind="hosted",
            guard=self._guard,
            supersede=supersede,
            salt=salt,
        )
        try:
            await self._engine.execute(session, start)
        except Conflict as conflict:
            if conflict.code == "other_salt":
                self._engine.forget_salt(session)
            raise

    async def _finish_idle(self, session: str, *, but: str, salt: str) -> None:
        try:
            state = await self._engine.session(session, c.Names(runs=(but,)))
        except NotFound:
            return
        if but in state.runs or salt not in ("", state.salt):  # It may be there by another name.
            return
        for run in state.runs.values():
            idle = not any(call.open for call in state.calls.values() if call.at.run == run.id)
            if run.kind == "hosted" and idle and not isinstance(run.state, RunOver):
                await self.end(session, run.id)

    async def end(self, session: str, run: str) -> None:
        """End a run of which nothing is open; one that is over already stays as it is."""
        try:
            await self._engine.execute(session, c.FinishRun(run=run, fence=None, stop="final"))
        except (Closed, Conflict):
            return

    async def propose(
        self,
        session: str,
        run: str,
        reference: str,
        calls: Sequence[ToolCall],
        *,
        checkpoint: str,
        place: str = "",
        claim: str = "",
    ) -> tuple[Occurrence, ...]:
        """Take a whole step in one transaction, and give its calls' occurrences in their order.

        `reference` is the framework's own name of the step: the same one again is the same step.
        `place` says where in the framework's course it stands: where two processes drive one
        course, each has its model's turn there, under a reference of its own, and both are the
        same step. `checkpoint` says, in the framework's words, where its state is. Raises
        Conflict(`call_changed`) where the step was proposed with other calls.
        """
        salt = await self._engine.salt(session)
        reference = keyed(salt, "reference", reference)  # A framework may have made them of texts.
        place = keyed(salt, "place", place)
        names: dict[NameKind, str] = {"reference": reference, "place": place}
        told = {"checkpoint": checkpoint, "process": asdict(this_process())}
        entry = json.dumps(told, ensure_ascii=False)
        async with self._one_at_a_time(run):
            for _ in range(MOST_REFUSALS):
                step, is_named = await self._step(session, run, names)
                if is_named and await self.gate.knows(session, run, step, calls):
                    return _occurrences(run, step, calls)
                try:
                    await self.gate.propose(
                        session,
                        run,
                        step,
                        calls,
                        checkpoint=entry,
                        claim=claim,
                        reference=reference,
                        place=place,
                    )
                except Conflict as conflict:
                    if is_named or conflict.code != "call_changed":
                        raise
                    continue  # Another reference took the number meanwhile.
                if is_named or await self._step(session, run, names) == (step, True):
                    return _occurrences(run, step, calls)
        raise Conflict("step_out_of_order", "Other steps of the run come before.", run_id=run)

    async def propose_answering(
        self,
        session: str,
        message: str,
        name: Callable[[str, int], str],
        reference: str,
        calls: Sequence[ToolCall],
        *,
        requester: str,
        checkpoint: str,
        place: str = "",
        claim: str = "",
    ) -> tuple[Occurrence, ...]:
        """Propose a step in the run that answers a message, which begins where it has not yet.

        `name` gives, under the session's salt, the id of the message's first run, and of those
        after it: a framework may go back to a message whose run has ended, and go on otherwise.
        Raises as `propose` and `begin`.
        """
        may_begin_with, again = new_salt(), 0
        while again < MOST_RUNS:
            salt = await self._engine.salt(session) or may_begin_with
            run = name(salt, again)
            try:
                stop = await self._begun(session, run, message, requester, salt)
            except Conflict as conflict:
                if conflict.code != "other_salt":
                    raise
                continue
            try:
                return await self.propose(
                    session, run, reference, calls, checkpoint=checkpoint, place=place, claim=claim
                )
            except Closed:
                if stop not in _MAKES_ROOM:
                    raise
            again += 1
        raise Closed("run_over", "The framework went back to this message too often.")

    async def _begun(
        self, session: str, run: str, message: str, requester: str, salt: str
    ) -> StopReason | None:
        """See that a run has begun; give why it has ended, if it has."""
        try:
            row = await self._engine.find_run(run)
        except NotFound:
            await self.begin(session, run, message, requester=requester, salt=salt)
            return None
        return row.run.state.stop if isinstance(row.run.state, RunOver) else None

    def _one_at_a_time(self, run: str) -> asyncio.Lock:
        """Let who proposes a step that another proposes now find it, and not rule on it as well."""
        key = (id(asyncio.get_running_loop()), run)
        return self._proposing.setdefault(key, asyncio.Lock())

    async def _step(
        self, session: str, run: str, names: Mapping[NameKind, str]
    ) -> tuple[int, bool]:
        """Find the step that has one of these names; or give the next one's number.

        That is read first, so that a step which is recorded meanwhile has this number or is found.
        """
        store, tenant = self._engine.store, self._engine.tenant
        row = await self._engine.find_run(run)
        for kind, name in names.items():
            if not name:
                continue
            step = await self._engine.read(
                store.step_named, tenant, session, run, kind=kind, name=name
            )
            if step is not None:
                return step, True
        return row.run.step + 1, False

    async def checkpoint(self, session: str, run: str) -> str:
        """Give the checkpoint of the run's last step; raises NotFound where it has none."""
        found: str = (await self._last_entry(session, run))["checkpoint"]
        return found

    async def proposer(self, session: str, run: str) -> Holder:
        """Name the process that proposed the run's last step, or one that nobody can see.

        Raises NotFound where it has none.
        """
        unseen = {"host": "another host", "boot": "", "pid": 0, "started": ""}
        return Holder(**(await self._last_entry(session, run)).get("process", unseen))

    async def _last_entry(self, session: str, run: str) -> dict[str, Any]:
        last = (await self._engine.find_run(run)).run.step
        rows = await self._engine.read(
            self._engine.store.transcript, self._engine.tenant, session, run, since=last
        )
        turns = [row for row in rows if row.kind == "turn"]
        if not turns:
            raise NotFound("no_checkpoint", "The run has no step yet.", run_id=run)
        found: dict[str, Any] = json.loads(turns[-1].body)
        return found

    async def carry_out(
        self,
        session: str,
        at: Occurrence,
        *,
        body: Body | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Answered | Waiting:
        """Take a call to its one result, at most once, or say which people must act first.

        `body` is entered in place of the declared one. An attempt that is under way elsewhere is
        waited for; one whose process is gone is recovered (D4). A caller that is cancelled leaves
        what was begun, and closing waits for it (D5). Once nobody has `wanted` it any more, or the
        runtime closes, nothing further is begun, and this raises Refusal(`not_begun`).
        """
        return await self.detached.do(
            lambda stop: self._carried_out(session, at, body, lambda: wanted() and not stop.asked)
        )

    async def _carried_out(
        self, session: str, at: Occurrence, body: Body | None, wanted: Callable[[], bool]
    ) -> Answered | Waiting:
        refusals, looks = 0, 0
        while True:
            state = await self._state(session, at)
            call = state.calls.get(at)
            if call is None:
                raise NotFound("call_not_found", "There is no such call here.", call=str(at))
            if isinstance(call.state, CallOver):
                self._waited.pop(at, None)
                return await self.answer(session, call.state)
            self._waited[at] = state.seq
            if (waiting := _waits_for_people(state, call)) is not None:
                return waiting
            if not wanted():
                raise Refusal("not_begun", "Nobody waits for its outcome now.", call=str(at))
            try:
                if await self._go_on(session, state, call, body):
                    continue
            except Refusal as refusal:  # Mostly, another process changed the session meanwhile.
                refusals += 1
                if refusals > MOST_REFUSALS or refusal.code in LASTING_REFUSALS:
                    raise
            by = w.held_by(state, call)
            looks = 0 if by is None or _is_under_way(state, by) else looks + 1
            if by is not None and looks * LOOK_AGAIN > HELD_LASTS:
                return Waiting(requests=(), held_by=by)
            await asyncio.sleep(LOOK_AGAIN.total_seconds())

    async def answer(self, session: str, over: CallOver) -> Answered:
        """Give the one result of a call that is over."""
        told = await self._engine.payload(session, over.told_ref)
        ref = over.own_ref
        own = None if ref is None else await self._engine.payload(session, ref)
        return Answered(code=over.code, told=told, own=own, by_hand=over.by_hand)

    async def _state(self, session: str, at: Occurrence) -> Session:
        return await self._engine.session(session, c.Names(steps=((at.run, at.step),)))

    async def _go_on(self, session: str, state: Session, call: Call, body: Body | None) -> bool:
        """Do the next thing that the call needs; answer False where it is another's to do."""
        if w.due_requests(state):
            await self._engine.execute(session, c.Expire(run=call.at.run))
            return True
        match call.state:
            case Executing(holder=holder, until=until):
                if state.now < until and not is_gone(holder):
                    return False
                await self.gate.recovery.recover(session, call.at)
            case Lost():
                await self.gate.recovery.probe(session, call.at)
            case RetryDue(again_at=again_at) | UndoDue(again_at=again_at) if state.now < again_at:
                return False
            case UndoDue():
                await self.gate.recovery.take_back(session, call.at)
            case Allowed() if call.kind == "read":
                await self.gate.run_reads(session, (call.at,), body=body)
            case _ if w.held_by(state, call) is not None:
                return False
            case _:
                await self.gate.run(session, call.at, body=body)
        return True

    def told(self, run: str) -> None:
        """Note that the framework is about to look anew at what the run waits for."""
        for at in [at for at in self._waited if at.run == run]:
            self._waited.pop(at, None)

    async def taken(self, session: str, run: str) -> None:
        """Note that the framework has gone on with the results that the run has so far.

        What was decided since it saw that a call must wait, it is still to be told of.
        """
        state = await self._engine.session(session, c.Names(runs=(run,)))
        if run in state.runs:
            seen = min((seq for at, seq in self._waited.items() if at.run == run), default=None)
            taken = c.TakeResults(run=run, step=state.runs[run].step, seen=seen)
            await self._engine.execute(session, taken)


def _occurrences(run: str, step: int, calls: Sequence[ToolCall]) -> tuple[Occurrence, ...]:
    return tuple(Occurrence(run, step, index) for index in range(len(calls)))


def _is_under_way(state: Session, by: str) -> bool:
    """Say whether what holds a call is an attempt that may yet be alive, and so will end."""
    for call in state.calls.values():
        if str(call.at) == by and isinstance(call.state, Executing):
            return state.now < call.state.until and not is_gone(call.state.holder)
    return False


def _waits_for_people(state: Session, call: Call) -> Waiting | None:
    """Name the requests that people must act on before the call can go on, if there are any."""
    if w.due_requests(state):
        return None
    if isinstance(call.state, (Asking, Unsettled)):
        request = state.requests[call.state.request]
        if isinstance(request.state, Open):
            return Waiting(requests=(request.id,))
    by = None if call.kind == "read" else w.held_by(state, call)
    if by is None or by not in state.requests or not isinstance(state.requests[by].state, Open):
        return None
    return Waiting(requests=(by,), held_by=by)
