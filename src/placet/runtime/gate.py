"""The gate: the one door to a tool body (G2), for our own loop and for every adapter alike.

`propose` takes a whole step in one transaction and freezes each of its calls; `run` takes one
frozen call to its body at most once, or gives the outcome that is on record. What is run is read
back from the store and held against its digest: what was approved is what runs (G3, G4).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from placet.core import commands as c
from placet.core import wording
from placet.core.canonical import JsonValue, Unreadable, short_id
from placet.core.card import changes_of
from placet.core.deciding_steps import is_known
from placet.core.errors import Conflict, InvalidInput, NotFound, StaleHolder, StoreTrouble
from placet.core.events import AttemptBegun
from placet.core.state import Call, Executing, Lost, Request, UndoDue
from placet.core.values import (
    Allow,
    CallCode,
    Draft,
    Mode,
    Occurrence,
    action_digest,
    draft_from,
    idempotency_key,
)
from placet.runtime.authority import Authority
from placet.runtime.declarations import (
    Body,
    Happened,
    NotHappened,
    Unsure,
)
from placet.runtime.effects import (
    Outcome,
    attempt,
    described,
    probe,
    snapshot_of,
    text_of,
    way_back,
)
from placet.runtime.engine import Engine
from placet.runtime.processes import awake, is_gone, this_process
from placet.runtime.proposing import Proposer, Toolbox, ToolCall, unsound
from placet.stores.store import Answer

#: How often, and after how long, an outcome is written down again where the store could not.
CONCLUDE_RETRIES = 4
CONCLUDE_PAUSE = timedelta(seconds=0.5)

#: Refusals that looking again does not mend.
LASTING_REFUSALS = frozenset({"digest_mismatch", "digest_reused", "call_changed"})

#: How old the reading of a lease, made in the intent's own transaction, may be when the body is
#: entered. It is far less than any lease lasts.
STALE_AFTER = timedelta(seconds=1)


class Gate:
    """The door to the bodies of one agent's tools."""

    def __init__(self, engine: Engine, toolbox: Toolbox, authority: Authority) -> None:
        self._engine = engine
        self._toolbox = toolbox
        self._authority = authority
        self._proposer = Proposer(engine.tenant, toolbox, authority)
        self._holder = this_process()

    # --- proposing ----------------------------------------------------------------------------

    async def propose(
        self,
        session: str,
        run: str,
        step: int,
        calls: Sequence[ToolCall],
        *,
        checkpoint: str,
        fence: int | None = None,
        answer: str | None = None,
        claim: str = "",
        plan: Sequence[str] = (),
        reference: str = "",
        place: str = "",
    ) -> Answer:
        """Take a whole step: freeze, rule on and, where it must be, ask about each call.

        `checkpoint` is what the run goes on from, written down in the same transaction; `answer`
        is the run's last text where there are no calls, `claim` what the model said of the calls,
        `plan` what a turn that plans has planned; `reference` and `place` are the framework's own
        names of the step.
        Raises Conflict(`call_changed`) where the step was proposed before with other calls.
        """
        proposals = [
            await self._proposer.proposal(session, Occurrence(run, step, index), call, claim=claim)
            for index, call in enumerate(calls)
        ]
        return await self._engine.execute(
            session,
            c.Propose(
                run=run,
                step=step,
                fence=fence,
                entry=checkpoint,
                calls=tuple(proposals),
                policy_version=self._authority.version,
                answer=answer,
                plan=tuple(plan),
                reference=reference,
                place=place,
            ),
        )

    async def knows(self, session: str, run: str, step: int, calls: Sequence[ToolCall]) -> bool:
        """Say whether a step was proposed before, by its calls' keys alone: nothing is ruled on.

        Raises Conflict(`call_changed`) where it was proposed with other calls.
        """
        state = await self._engine.session(session, c.Names(steps=((run, step),)))
        keys = {
            Occurrence(run, step, index): self._proposer.key_of(call)
            for index, call in enumerate(calls)
        }
        return is_known(state, run, step, keys, count=len(calls))

    async def edited(
        self, session: str, request: Request, call: Call, arguments: Mapping[str, object]
    ) -> tuple[c.Sound, str]:
        """Give the proposal of an action with other arguments, and as JSON what is changed (G5).

        Raises InvalidInput where they do not fit the tool.
        """
        _, stored = await self._frozen(session, call.at)
        try:
            text = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput("unreadable_edit", f"The arguments are no JSON: {error}.") from error
        proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments=text)
        made = await self._proposer.proposal(session, call.at, proposed)
        if isinstance(made, c.Unsound) or not made.readable:
            detail = made.detail if isinstance(made, c.Unsound) else "they cannot be read"
            raise InvalidInput(
                "invalid_edit",
                f"The edited arguments do not fit {call.tool}: {detail}",
                hint="The request still waits.",
                request_id=request.id,
            )
        return made, _changes(stored.arguments, made.draft.arguments)

    # --- running ------------------------------------------------------------------------------

    async def run(
        self,
        session: str,
        at: Occurrence,
        *,
        fence: int | None = None,
        body: Body | None = None,
    ) -> Answer:
        """Take a call through the door, at most once; the answer's state has its outcome.

        `body`, where given, is entered in place of the declared one: a framework's own way to the
        same tool, with the frozen arguments and the idempotency key.

        Where the call may not run after all (its world has changed, its votes have lapsed) the
        state says so. Raises a Refusal where it may not run now, InProgress where another is at
        it.
        """
        call, stored = await self._frozen(session, at)
        edits = call.edits_ref
        changes = "" if edits is None else await self._engine.payload(session, edits)
        asked_at = awake()
        begun = await self._begin(session, call, stored, fence=fence)
        intent = next((e for e in begun.events if isinstance(e, AttemptBegun)), None)
        if intent is None:
            return begun
        tool = self._toolbox.tools[call.tool]
        assert isinstance(stored.arguments, Mapping), "what cannot be read is never approved"
        if awake() - asked_at > STALE_AFTER.total_seconds():
            await self._still_mine(session, at, intent)
        if body is not None:
            tool = replace(tool, body=body)
        outcome = await attempt(tool, stored.arguments, intent.key, call=str(at))
        return await self._conclude(session, intent, _noted(call, changes, outcome))

    async def delegate(
        self,
        session: str,
        at: Occurrence,
        *,
        agent: str,
        max_steps: int,
        mode: Mode = "act",
        fence: int | None = None,
    ) -> Answer:
        """Open the run of an agent that is used as a tool, with the frozen message to it.

        The same call opens the same run. Raises a Refusal where it may not be opened now.
        """
        call, stored = await self._frozen(session, at)
        found = stored.arguments.get("message") if isinstance(stored.arguments, Mapping) else None
        child = c.Child(
            run=short_id("run", call.digest),
            agent=agent,
            message=found if isinstance(found, str) else "",
            max_steps=max_steps,
            mode=mode,
        )
        return await self._begin(session, call, stored, fence=fence, child=child)

    async def noted(self, session: str, call: Call, told: str) -> str:
        """Tell of an edit, if there was one, along with what came of the call (G5)."""
        if call.edits_ref is None:
            return told
        changes = await self._engine.payload(session, call.edits_ref)
        return wording.edited(call.edited_by, _in_words(changes), told)

    async def run_reads(
        self,
        session: str,
        calls: Sequence[Occurrence],
        *,
        fence: int | None = None,
        body: Body | None = None,
    ) -> Answer:
        """Run declared reads together, without intents, and record their results at once (G1).

        `body`, where given, is entered in place of the declared one.
        """
        raised: dict[int, str] = {}
        results = await asyncio.gather(*(self._read(session, at, body, raised) for at in calls))
        first = calls[0]
        return await self._engine.execute(
            session,
            c.RecordReads(
                run=first.run,
                step=first.step,
                fence=fence,
                results=tuple(results),
                raised=raised,
            ),
        )

    async def _read(
        self, session: str, at: Occurrence, body: Body | None, raised: dict[int, str]
    ) -> tuple[int, CallCode, str]:
        call, stored = await self._frozen(session, at)
        tool = self._toolbox.tools.get(call.tool)
        today = await self._today(session, call, stored)
        if tool is None or isinstance(today, c.Unsound) or not _still_a_read(call, today):
            told = wording.interrupted("the tool is declared otherwise now.")
            return at.index, "interrupted", told
        assert isinstance(stored.arguments, Mapping), "what cannot be read is never allowed"
        tool = tool if body is None else replace(tool, body=body)
        match await attempt(tool, stored.arguments, "", call=str(at)):
            case c.Succeeded(told=told):
                return at.index, "succeeded", told
            case c.Failed(error=error):
                raised[at.index] = error
                return at.index, "tool_failed", wording.failed(error, not_done=True, attempts=1)
            case c.Unknown(cause=cause):
                return at.index, "tool_failed", wording.failed(cause, not_done=True, attempts=1)

    async def recover(self, session: str, at: Occurrence, *, fence: int | None = None) -> Answer:
        """Take a lost attempt from its holder; what then follows is retry, probe or a person."""
        state = await self._engine.session(session, c.Names(steps=((at.run, at.step),)))
        call = state.calls[at]
        gone = None
        if isinstance(call.state, Executing) and is_gone(call.state.holder):
            gone = call.state.holder
        cause = "the process that ran it is gone" if gone else "its lease ran out while it ran"
        return await self._engine.execute(
            session, c.Lose(at=at, attempt=call.attempts, fence=fence, cause=cause, gone=gone)
        )

    async def take_back(self, session: str, at: Occurrence, *, fence: int | None = None) -> Answer:
        """Take back what a call may have done: an attempt like any other (D8).

        Raises a Refusal where it may not be done now.
        """
        call, stored = await self._frozen(session, at)
        if not isinstance(call.state, UndoDue):
            return await self._engine.execute(session, self._taking_back(call, fence))
        failure = await self._text(session, call.failure_ref)
        snapshot = (
            None if call.snapshot_ref is None else await self._text(session, call.snapshot_ref)
        )
        asked_at = awake()
        begun = await self._engine.execute(session, self._taking_back(call, fence))
        intent = next((e for e in begun.events if isinstance(e, AttemptBegun)), None)
        if intent is None:
            return begun
        if awake() - asked_at > STALE_AFTER.total_seconds():
            await self._still_mine(session, at, intent)
        tool = self._toolbox.tools.get(call.tool)
        outcome: Outcome = c.Failed(error=f"there is no tool {call.tool} any more", not_done=True)
        if tool is not None and isinstance(stored.arguments, Mapping):
            how = way_back(tool, call, snapshot, intent.purpose)
            outcome = await attempt(how, stored.arguments, intent.key, call=str(at))
        if isinstance(outcome, c.Succeeded):
            told = (
                wording.rolled_back(failure, attempts=call.ran)
                if intent.purpose == "roll_back"
                else wording.compensated(failure, outcome.told, attempts=call.ran)
            )
            outcome = c.Succeeded(told=told)
        return await self._conclude(session, intent, outcome)

    def _taking_back(self, call: Call, fence: int | None) -> c.TakeBack:
        return c.TakeBack(at=call.at, fence=fence, holder=self._holder, digest=call.digest)

    async def _text(self, session: str, ref: str | None) -> str:
        return "" if ref is None else await self._engine.payload(session, ref)

    async def probe(self, session: str, at: Occurrence, *, fence: int | None = None) -> Answer:
        """Ask the tool's probe what became of a lost attempt, and record its answer (D4)."""
        call, stored = await self._frozen(session, at)
        tool = self._toolbox.tools.get(call.tool)
        # Seen before the probe looks: a body that is gone only after may have acted in between.
        body_gone = isinstance(call.state, Lost) and is_gone(call.state.holder)
        happened: bool | None = None
        told = ""
        if tool is not None and isinstance(stored.arguments, Mapping):
            key = idempotency_key(call.digest)
            match await probe(tool, stored.arguments, key, call=str(at)):
                case Happened(result=result):
                    happened, told = True, text_of(result)
                case NotHappened():
                    happened = False
                case Unsure():
                    happened = None
        return await self._engine.execute(
            session,
            c.Probed(
                at=at,
                attempt=call.attempts,
                fence=fence,
                happened=happened,
                told=told,
                body_gone=body_gone,
            ),
        )

    async def _frozen(self, session: str, at: Occurrence) -> tuple[Call, Draft]:
        """Read a call and its stored action back, and hold them against the digest."""
        call, body = await self._engine.read(self._read_frozen, session, at)
        return call, _held_against_digest(call, body)

    def _read_frozen(self, session: str, at: Occurrence) -> tuple[Call, str]:
        found = self._engine.store.action(self._engine.tenant, session, at)
        if found is None:
            raise NotFound("call_not_found", "There is no such call here.", call=str(at))
        return found

    async def _today(self, session: str, call: Call, stored: Draft) -> c.Proposal:
        """Propose the stored action in the world as it is now (G13)."""
        text = stored.arguments
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
        proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments=text)
        return await self._proposer.proposal(session, call.at, proposed)

    async def _begin(
        self,
        session: str,
        call: Call,
        stored: Draft,
        *,
        fence: int | None,
        child: c.Child | None = None,
    ) -> Answer:
        today = await self._today(session, call, stored)
        snapshot = None
        tool = self._toolbox.tools.get(call.tool)
        if tool is not None and isinstance(today, c.Sound) and not call.acted:
            try:
                snapshot = await snapshot_of(tool, stored.arguments)
            except Exception as error:  # noqa: BLE001  # Fails closed: the body is not entered.
                told = wording.failed(described(error), not_done=True, attempts=1)
                proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments="")
                today = unsound(call.at, proposed, call.call_key, "tool_failed", told)
        return await self._engine.execute(
            session,
            c.Begin(
                at=call.at,
                fence=fence,
                holder=self._holder,
                digest=call.digest,
                today=today,
                eligible=self._authority.eligible(),
                policy_version=self._authority.version,
                child=child,
                snapshot=snapshot,
            ),
        )

    async def _still_mine(self, session: str, at: Occurrence, intent: AttemptBegun) -> None:
        """Read the lease again where the process may have slept since it read it (D5)."""
        state = await self._engine.session(session, c.Names(steps=((at.run, at.step),)))
        call, run = state.calls[at], state.runs[at.run]
        held = isinstance(call.state, Executing) and call.state.fence == intent.fence
        # A hosted run's fence is each action's own, and grows with the next one's intent.
        passed = run.kind == "driven" and run.fence != intent.fence
        if not held or passed or state.now >= intent.until:
            raise StaleHolder(
                "stale_attempt", "The attempt passed to another before it began.", call=str(at)
            )

    async def _conclude(self, session: str, intent: AttemptBegun, outcome: Outcome) -> Answer:
        command = c.Conclude(
            at=intent.at, attempt=intent.attempt, fence=intent.fence, outcome=outcome
        )
        left = CONCLUDE_RETRIES
        while True:
            answer = self._engine.hand_over(session, command)
            try:
                return await asyncio.shield(asyncio.wrap_future(answer))
            except asyncio.CancelledError:  # The event loop is being torn down.
                return answer.result()
            except StoreTrouble as trouble:  # The outcome is known, and is worth some patience.
                left -= 1
                if trouble.code == "store_closed" or left < 0:
                    raise
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(CONCLUDE_PAUSE.total_seconds())


def _still_a_read(call: Call, today: c.Sound) -> bool:
    """Say whether what was proposed as a read that policy allows is that still (G1)."""
    same = (call.kind, call.call_key, call.tool_fingerprint)
    now = (today.kind, today.call_key, today.draft.tool_fingerprint)
    return same == now and isinstance(today.ruling, Allow)


def _noted(call: Call, changes: str, outcome: Outcome) -> Outcome:
    """Tell the model of an edit along with the result (G5)."""
    if call.edits_ref is None:
        return outcome
    changes = _in_words(changes)
    match outcome:
        case c.Succeeded(told=told):
            return c.Succeeded(told=wording.edited(call.edited_by, changes, told), own=told)
        case c.Failed(error=error):
            told = wording.edited(call.edited_by, changes, error)
            return replace(outcome, error=told, own=error)
        case c.Unknown():
            return outcome


def _in_words(changes: str) -> str:
    found = changes_of(changes)
    return changes if found is None else wording.changes(found)


def _held_against_digest(call: Call, body: str) -> Draft:
    """Give the action that is stored, if it is what the digest stands for; raises Conflict."""
    try:
        document = json.loads(body)
        stored = draft_from(document)
        digest = action_digest(document, generation=call.generation)
    except (ValueError, KeyError, TypeError, Unreadable) as error:
        raise _tampered(call, f"it cannot be read: {described(error)}") from error
    if digest != call.digest:
        raise _tampered(call, "it is not what its digest stands for")
    return stored


def _tampered(call: Call, what: str) -> Conflict:
    return Conflict(
        "digest_mismatch",
        f"The stored action was changed from outside: {what}.",
        hint="Nothing runs. Run `placet audit verify`.",
        call=str(call.at),
    )


def _changes(before: Mapping[str, JsonValue] | str, after: Mapping[str, JsonValue] | str) -> str:
    """Write down what an edit changed, as a JSON list with each argument's `old` and `new`."""
    new = after if isinstance(after, Mapping) else {}
    old = before if isinstance(before, Mapping) else {}
    found: list[dict[str, JsonValue]] = [{"unreadable": True}] if isinstance(before, str) else []
    for name in dict.fromkeys((*old, *new)):
        sides: dict[str, JsonValue] = {
            side: arguments[name]
            for side, arguments in (("old", old), ("new", new))
            if name in arguments
        }
        if len(sides) == 1 or json.dumps(old[name]) != json.dumps(new[name]):
            found.append({"name": name, **sides})
    return json.dumps(found, ensure_ascii=False)
