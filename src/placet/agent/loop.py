"""The loop: asks `next_work` what to do, does it, and asks again. Start, resume and crash recovery
are this one loop over the stored state (D2).

Theory of operation. The loop holds a lease while it works and renews it (D5); each of its commands
carries the lease's fence, so that one that has lost it can write nothing. It keeps nothing in
memory that the store does not have. A run that waits has no lease, by the transaction in which it
began to wait. The loop uses of the gate what any adapter can use.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from placet.agent.agent import Role
from placet.agent.messages import ModelRequest, ModelTurn, UserMessage, to_json
from placet.agent.modes import has_tools, instructions_for, plan_of
from placet.agent.view import SUMMARISE, View, as_text, first_kept, view_of
from placet.agent.watching import TextArrives, Watching, WorkBegins
from placet.core import commands as c
from placet.core import work as w
from placet.core.errors import Closed, InProgress, ModelTrouble, PlacetError, Refusal, StaleHolder
from placet.core.state import Resting, RetryDue, Run, RunOver, Session, UndoDue, Working
from placet.core.values import LEASE, Occurrence
from placet.runtime.detached import Stop
from placet.runtime.engine import Engine
from placet.runtime.gate import LASTING_REFUSALS, Gate
from placet.runtime.processes import is_gone, this_process
from placet.runtime.proposing import ToolCall
from placet.runtime.threads import without_end

T = TypeVar("T")

#: How often a model that fails is asked again at once, and how long the first pause is.
MODEL_RETRIES = 2
MODEL_BACKOFF = timedelta(seconds=0.5)

#: How long a run rests after its model failed: until it is likely to answer, or is mended.
REST_RETRYABLE = timedelta(seconds=30)
REST_REFUSED = timedelta(minutes=10)

#: The longest pause before a retry that a driver sits out, instead of leaving it to a worker.
SITS_OUT = timedelta(seconds=10)

#: How long one that follows another driver waits between two looks.
LOOKS_AGAIN = timedelta(milliseconds=100)

#: How often a driver looks again after a refusal that another's change explains.
MOST_REFUSALS = 20

#: What a call means that a model makes without any text of arguments.
NO_ARGUMENTS = "{}"


class _Left(Exception):
    """Says that whoever a run is driven for left while nothing of it acted."""


class Loop:
    """Drives the runs of one agent, in the place where it stands."""

    def __init__(
        self, engine: Engine, role: Role, gate: Gate, *, watching: Watching | None = None
    ) -> None:
        self._engine = engine
        self._role = role
        self._agent = role.agent
        self._gate = gate
        self._watching = watching or Watching(None)
        self._stop = Stop()

    async def drive(
        self,
        session: str,
        run: str,
        *,
        stop: Stop | None = None,
        fence: int | None = None,
        follows: bool = False,
    ) -> None:
        """Carry a run on until it waits or is over.

        `fence` is of the lease under which its caller began the run. While another drives the run,
        this raises InProgress, or waits for the other where it `follows`. Raises ModelTrouble where
        its model failed; the run then rests, and nothing is lost.
        """
        self._stop = stop = stop or Stop()
        while not stop.asked:
            try:
                state = await self._take_lease(session, run, held=fence)
            except InProgress:
                if not follows:
                    raise
                await asyncio.sleep(LOOKS_AGAIN.total_seconds())
                continue
            fence = None
            if not isinstance(state.runs[run].state, Working):
                with contextlib.suppress(_Left):
                    if not await self._sat_out(state, run):
                        return
                continue
            async with self._renewed(session, run, state.runs[run].fence):
                await self._work(session, run, state, stop)
        if fence is not None:
            await self._release(session, run, fence, None, "its caller left")

    async def _take_lease(self, session: str, run: str, *, held: int | None) -> Session:
        """Take the lease of a run, unless the one that is held is its lease still."""
        before = await self._engine.session(session, c.Names(runs=(run,)))
        if run not in before.runs or isinstance(before.runs[run].state, RunOver):
            return before
        now = before.runs[run].state
        if isinstance(now, Working) and before.runs[run].fence == held:
            return before
        gone = now.holder if isinstance(now, Working) and is_gone(now.holder) else None
        take = c.TakeLease(run=run, holder=this_process(), gone=gone)
        try:
            return (await self._engine.execute(session, take)).state
        except Closed:  # It ended between the two looks.
            return await self._engine.session(session, c.Names(runs=(run,)))

    async def _sat_out(self, state: Session, run: str) -> bool:
        """Wait for a retry that is due soon; answer False where there is nothing to wait for.

        While the store's clock stands still, because the wall stepped back, nothing comes due.
        """
        found = state.runs[run]
        if isinstance(found.state, RunOver):
            return False
        assert isinstance(found.state, Resting), "a run that nobody drives rests"
        due = [
            call.state.again_at
            for call in state.calls.values()
            if call.at.run == run and isinstance(call.state, (RetryDue, UndoDue))
        ]
        if not due or min(due) - state.now > SITS_OUT:
            return False
        pause = max(min(due) - state.now, timedelta(milliseconds=1))
        await self._unless_left(asyncio.sleep(pause.total_seconds()))
        after = await self._engine.session(state.id)
        return after.now - state.now >= pause / 2

    @contextlib.asynccontextmanager
    async def _renewed(self, session: str, run: str, fence: int) -> AsyncIterator[None]:
        """Renew the lease for as long as this lasts."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(LEASE.total_seconds() / 3)
                with contextlib.suppress(PlacetError):  # A lease that lapses fails closed.
                    await self._engine.execute(session, c.RenewLease(run=run, fence=fence))

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()

    async def _release(
        self, session: str, run: str, fence: int, pause: timedelta | None, cause: str
    ) -> None:
        """Give the lease back if it is still held; a store that fails too lets it lapse."""
        release = c.ReleaseLease(run=run, fence=fence, pause=pause, cause=cause)
        with contextlib.suppress(PlacetError):
            await self._engine.execute(session, release)

    async def _work(self, session: str, run: str, state: Session, stop: Stop) -> None:
        fence, refusals = state.runs[run].fence, 0
        while isinstance(state.runs[run].state, Working) and state.runs[run].fence == fence:
            if stop.asked:
                await self._release(session, run, fence, None, "its caller left")
                return
            work = w.next_work(state, run)
            self._watching.tell(WorkBegins(run=run, work=work, tools=_tools_of(state, work)))
            try:
                state = await self._do(session, state, run, fence, work)
            except StaleHolder:
                # What others began may leave this run nothing to do but wait, and then its lease
                # is taken from it (D1). Anything else says that another drives it, or may, or that
                # this one stood still.
                state = await self._engine.session(session, c.Names(runs=(run,)))
                if isinstance(state.runs[run].state, Working):
                    return  # `drive` looks whose it is now.
            except _Left:
                continue
            except ModelTrouble as trouble:
                pause = REST_RETRYABLE if trouble.retryable else REST_REFUSED
                await self._release(session, run, fence, pause, trouble.code)
                trouble.ids["run_id"] = run
                raise
            except Refusal as refusal:
                # Somebody else changed the session since this state was read: look again.
                refusals += 1
                if refusal.code in LASTING_REFUSALS or refusals > MOST_REFUSALS:
                    await self._release(session, run, fence, REST_RETRYABLE, refusal.code)
                    raise
                state = await self._engine.session(session, c.Names(runs=(run,)))
            except asyncio.CancelledError:
                # The event loop ends: what was begun is on record, and nothing waits any more.
                with contextlib.suppress(PlacetError):
                    release = c.ReleaseLease(run=run, fence=fence, cause="its process ends")
                    self._engine.hand_over(session, release).result()
                raise
            except Exception as error:  # Nothing is under way: another may take over at once.
                await self._release(session, run, fence, REST_RETRYABLE, type(error).__name__)
                raise

    async def _do(
        self, session: str, state: Session, run: str, fence: int, work: w.Work
    ) -> Session:
        match work:
            case w.CallModel(step=step, closing=closing):
                return await self._call_model(session, state, run, fence, step, closing=closing)
            case w.RunReads(calls=calls):
                answer = await self._gate.run_reads(session, calls, fence=fence)
            case w.RunEffect(at=at):
                answer = await self._gate.run(session, at, fence=fence)
            case w.Recover(at=at):
                answer = await self._gate.recovery.recover(session, at, fence=fence)
            case w.Probe(at=at):
                answer = await self._gate.recovery.probe(session, at, fence=fence)
            case w.TakeBack(at=at):
                answer = await self._gate.recovery.take_back(session, at, fence=fence)
            case w.Unwind(at=at, earlier=earlier):
                answer = await self._gate.recovery.unwind(session, at, earlier, fence=fence)
            case w.ExpireDue():
                answer = await self._engine.execute(session, c.Expire(run=run))
            case w.Finish(stop=stop):
                finish = c.FinishRun(run=run, fence=fence, stop=stop)
                answer = await self._engine.execute(session, finish)
            case w.Delegate(at=at):
                return await self._delegate(session, state, at, fence)
            case w.Wait() | w.Done() | w.ResumeHost():
                return await self._engine.session(session, c.Names(runs=(run,)))
        return answer.state

    async def _delegate(self, session: str, state: Session, at: Occurrence, fence: int) -> Session:
        """Open the run of the agent that is the call's tool; what is none any more fails there."""
        tool = state.calls[at].tool
        below = self._role.below(tool)
        opened = await self._gate.delegate(
            session,
            at,
            agent=tool if below is None else below.agent.name,
            max_steps=1 if below is None else below.agent.max_steps,
            mode="act" if below is None else below.agent.mode,
            on_failure="continue" if below is None else below.agent.on_failure,
            saga="step" if below is None else below.agent.saga,
            fence=fence,
        )
        return opened.state

    async def _call_model(
        self, session: str, state: Session, run_id: str, fence: int, step: int, *, closing: bool
    ) -> Session:
        run, plan = state.runs[run_id], list[str]()
        if run.plan is not None:
            plan = json.loads(await self._engine.payload(session, run.plan.ref))
        view = await view_of(self._engine, session, run, limit=self._agent.view_limit)
        if (kept := first_kept(view, limit=self._agent.view_limit)) is not None:
            return await self._compact(session, run, fence, view, kept)
        usable = has_tools(run) and not closing
        request = ModelRequest(
            instructions=instructions_for(run, self._agent.instructions, plan),
            messages=view.messages,
            tools=self._agent.schemas() if usable else (),
            step=step,
        )
        turn = await self._unless_left(self._retried(lambda: self._asked(request, run.id, step)))
        calls = [
            ToolCall(id=call.id, name=call.name, arguments=call.arguments or NO_ARGUMENTS)
            for call in turn.message.calls
        ]
        plans = run.mode == "plan-act" and run.plan is None and not calls
        answer = turn.message.text
        if run.parent is not None and not calls:
            # It becomes the result of a call, whose message a person may have edited.
            answer = await self._gate.noted(session, state.calls[run.parent], answer)
        proposed = await self._gate.propose(
            session,
            run.id,
            step,
            calls,
            checkpoint=json.dumps(_turn_document(turn), ensure_ascii=False),
            fence=fence,
            answer=answer,
            claim=turn.message.text,
            plan=plan_of(turn.message.text) if plans else (),
        )
        return proposed.state

    async def _compact(self, session: str, run: Run, fence: int, view: View, kept: int) -> Session:
        """Have the model sum up what came before the step `kept`, and write that down (D6)."""
        older = [step for step in view.steps if step.number < kept]
        spoken = [*view.before, *(message for step in older for message in step.messages)]
        request = ModelRequest(
            instructions=SUMMARISE, messages=(UserMessage(text=as_text(spoken)),)
        )
        turn = await self._unless_left(self._retried(lambda: self._summed_up(request)))
        summary = {**_turn_document(turn), "text": turn.message.text}
        compact = c.Compact(
            run=run.id, fence=fence, step=kept, summary=json.dumps(summary, ensure_ascii=False)
        )
        return (await self._engine.execute(session, compact)).state

    async def _unless_left(self, asked: Coroutine[Any, Any, T]) -> T:
        """Await what does nothing to the world; raises _Left once this is asked to stop."""
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(asked)

        def leave() -> None:
            with contextlib.suppress(RuntimeError):  # A loop that was torn down asks nothing.
                loop.call_soon_threadsafe(task.cancel)

        with self._stop.heeded(leave):
            if self._stop.asked:
                task.cancel()
            try:
                return await task
            except asyncio.CancelledError:
                own = asyncio.current_task()
                if self._stop.asked and own is not None and not own.cancelling():
                    raise _Left from None
                raise

    async def _summed_up(self, request: ModelRequest) -> ModelTurn:
        """Have a summary made; one that says nothing would only lose what it stands for."""
        turn = await without_end(self._agent.model.complete(request))
        if not turn.message.text.strip():
            raise ModelTrouble("model_malformed", "The model's summary is empty.", retryable=True)
        return turn

    async def _retried(self, ask: Callable[[], Awaitable[ModelTurn]]) -> ModelTurn:
        """Ask the model, and once more where it failed for a moment."""
        for tried in range(MODEL_RETRIES):
            try:
                return await ask()
            except ModelTrouble as trouble:
                if not trouble.retryable:
                    raise
                asked = float(trouble.ids.get("retry_after_seconds", "0") or 0)
                pause = max(asked, MODEL_BACKOFF.total_seconds() * 2**tried)
                if pause > SITS_OUT.total_seconds():
                    raise
                await asyncio.sleep(pause)
        return await ask()

    async def _asked(self, request: ModelRequest, run: str, step: int) -> ModelTurn:
        """Ask the model once; a watcher sees the text as it comes, and changes nothing."""
        if not self._watching.watched:
            return await without_end(self._agent.model.complete(request))

        def on_text(text: str) -> None:
            self._watching.tell(TextArrives(run=run, step=step, text=text))

        return await without_end(self._agent.model.complete(request, on_text=on_text))


def _tools_of(state: Session, work: w.Work) -> tuple[str, ...]:
    """Name the tools of the calls that a piece of work is about."""
    match work:
        case w.RunReads(calls=calls):
            return tuple(state.calls[at].tool for at in calls)
        case (
            w.RunEffect(at=at)
            | w.Delegate(at=at)
            | w.Recover(at=at)
            | w.Probe(at=at)
            | w.TakeBack(at=at)
            | w.Unwind(at=at)
        ):
            return (state.calls[at].tool,)
        case _:
            return ()


def _turn_document(turn: ModelTurn) -> dict[str, object]:
    """Give a model's turn as it is written down, with what it cost."""
    return {
        "message": to_json(turn.message),
        "model": turn.model,
        "finish": turn.finish,
        "usage": {
            "input_tokens": turn.usage.input_tokens,
            "output_tokens": turn.usage.output_tokens,
            "cached_input_tokens": turn.usage.cached_input_tokens,
            "cache_creation_input_tokens": turn.usage.cache_creation_input_tokens,
        },
    }
