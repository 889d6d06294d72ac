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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from placet.core import commands as c
from placet.core import work as w
from placet.core.errors import Closed, Conflict, NotFound, Refusal
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
from placet.core.values import CallCode, Occurrence
from placet.runtime.declarations import Body
from placet.runtime.engine import Engine
from placet.runtime.gate import LASTING_REFUSALS, Gate
from placet.runtime.processes import is_gone
from placet.runtime.proposing import ToolCall

#: How often the outcome of an attempt that is under way elsewhere is looked for.
LOOK_AGAIN = timedelta(milliseconds=50)

#: How often a refusal that another's change explains is looked at again before it is passed on.
MOST_REFUSALS = 200

#: How long a call waits for one that goes before it, and that nobody carries out.
HELD_LASTS = timedelta(seconds=30)

#: Begins the names of agents that are nobody's loop: whoever calls again goes on with their runs.
UNTOLD = "guard:"

#: The code with which a run is left to whoever calls again.
LEFT_TO_CALLER = "left_to_caller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The call has its one result: `code` says of what kind, `told` is what the model reads."""

    code: CallCode
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Others must act first: people, on these requests; or `held_by` must be carried out (G8)."""

    requests: tuple[str, ...]
    held_by: str = ""


class Hosting:
    """The runs of one framework's agent."""

    def __init__(self, engine: Engine, gate: Gate, *, agent: str) -> None:
        self._engine = engine
        self._gate = gate
        self._agent = agent
        self._waited: dict[Occurrence, int] = {}

    async def begin(
        self, session: str, run: str, message: str, *, requester: str, supersede: bool = True
    ) -> None:
        """Begin a run, or find it as it is.

        The session's run before it is over if nothing of it is open, and is superseded if it
        waits; without `supersede` it stays as it is, and this raises Conflict(`run_waiting` or
        `run_active`). Raises InProgress where an effect of it is under way, and Closed where the
        session was ended.
        """
        if supersede:
            await self._finish_idle(session, but=run)
        await self._engine.execute(
            session,
            c.StartRun(
                run=run,
                agent=self._agent,
                requester=requester,
                message=message,
                kind="hosted",
                supersede=supersede,
            ),
        )

    async def _finish_idle(self, session: str, *, but: str) -> None:
        try:
            state = await self._engine.session(session, c.Names(runs=(but,)))
        except NotFound:
            return
        if but in state.runs:
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
        names = {"reference": reference, "place": place}
        entry = json.dumps({**names, "checkpoint": checkpoint}, ensure_ascii=False)
        for _ in range(MOST_REFUSALS):
            step, known = await self._step(session, run, names)
            try:
                await self._gate.propose(session, run, step, calls, checkpoint=entry, claim=claim)
            except Conflict as conflict:
                if known or conflict.code != "call_changed":
                    raise
                continue  # Another reference took the number meanwhile.
            if known or await self._step(session, run, names) == (step, "reference"):
                return tuple(Occurrence(run, step, index) for index in range(len(calls)))
        raise Conflict("step_out_of_order", "Other steps of the run come before.", run_id=run)

    async def _step(
        self, session: str, run: str, names: Mapping[str, str]
    ) -> tuple[int, Literal["reference", "place", ""]]:
        """Find the step that has one of these names, and say which; or the next one's number."""
        rows = await self._engine.read(
            self._engine.store.transcript, self._engine.tenant, session, run, since=1
        )
        turns = {row.step: json.loads(row.body) for row in rows if row.kind == "turn"}
        kinds: tuple[Literal["reference", "place"], ...] = ("reference", "place")
        for kind in kinds:
            for step, turn in turns.items():
                if names[kind] and turn.get(kind) == names[kind]:
                    return step, kind
        return max(turns, default=0) + 1, ""

    async def checkpoint(self, session: str, run: str) -> str:
        """Give the checkpoint of the run's last step; raises NotFound where it has none."""
        rows = await self._engine.read(
            self._engine.store.transcript, self._engine.tenant, session, run, since=1
        )
        turns = [row for row in rows if row.kind == "turn"]
        if not turns:
            raise NotFound("no_checkpoint", "The run has no step yet.", run_id=run)
        found: str = json.loads(turns[-1].body)["checkpoint"]
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
        waited for; one whose process is gone is recovered (D4). Once nobody has `wanted` it any
        more nothing further is begun, and this raises Refusal(`not_begun`).
        """
        refusals, looks = 0, 0
        while True:
            state = await self._state(session, at)
            call = state.calls.get(at)
            if call is None:
                raise NotFound("call_not_found", "There is no such call here.", call=str(at))
            if isinstance(call.state, CallOver):
                told = await self._engine.payload(session, call.state.told_ref)
                self._waited.pop(at, None)
                return Answered(code=call.state.code, told=told)
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
                await self._gate.recover(session, call.at)
            case Lost():
                await self._gate.probe(session, call.at)
            case RetryDue(again_at=at) | UndoDue(again_at=at) if state.now < at:
                return False
            case UndoDue():
                await self._gate.take_back(session, call.at)
            case Allowed() if call.kind == "read":
                await self._gate.run_reads(session, (call.at,), body=body)
            case _ if w.held_by(state, call) is not None:
                return False
            case _:
                await self._gate.run(session, call.at, body=body)
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
