"""The gate: the one door to a tool body (G2), for our own loop and for every adapter alike.

`propose` takes a whole step in one transaction and freezes each of its calls; `run` takes one
frozen call to its body at most once, or gives the outcome that is on record. What is run is read
back from the store and held against its digest: what was approved is what runs (G3, G4).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from placet.core import commands as c
from placet.core import wording
from placet.core.canonical import JsonValue, short_id
from placet.core.card import changes_of, masked_arguments
from placet.core.deciding_steps import is_known
from placet.core.errors import InvalidInput
from placet.core.events import AttemptBegun
from placet.core.masking import Masking
from placet.core.state import Asking, Call, Request
from placet.core.values import (
    Allow,
    CallCode,
    Draft,
    Mode,
    Occurrence,
    OnFailure,
    SagaScope,
)
from placet.runtime.attempts import Attempts
from placet.runtime.authority import Authority, Deciders
from placet.runtime.bodies import (
    Outcome,
    attempt,
    described,
    snapshot_of,
)
from placet.runtime.declarations import (
    Body,
)
from placet.runtime.engine import Engine
from placet.runtime.processes import this_process
from placet.runtime.proposing import Proposer, Toolbox, ToolCall, unsound
from placet.runtime.recovering import Recovering
from placet.runtime.rulings import Look
from placet.stores.store import Answer

#: Refusals that looking again does not mend.
LASTING_REFUSALS = frozenset({"digest_mismatch", "digest_reused", "call_changed"})


class Gate:
    """The door to the bodies of one agent's tools.

    `recovery` takes up what went wrong behind it.
    """

    recovery: Recovering

    def __init__(self, engine: Engine, toolbox: Toolbox, authority: Authority) -> None:
        self._engine = engine
        self._toolbox = toolbox
        self._proposer = Proposer(engine, toolbox, authority)
        self._attempts = Attempts(engine)
        self._holder = this_process()
        self.recovery = Recovering(engine, toolbox, self._attempts)

    @property
    def toolbox(self) -> Toolbox:
        """Give the tools that it is the door to."""
        return self._toolbox

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
        look = await self._proposer.look(session, run)
        places = [Occurrence(run, step, index) for index in range(len(calls))]
        proposals = [
            await self._proposer.proposal(session, at, call, look, claim=claim)
            for at, call in zip(places, calls, strict=True)
        ]
        return await self._engine.execute(
            session,
            c.Propose(
                run=run,
                step=step,
                fence=fence,
                entry=checkpoint,
                calls=tuple(proposals),
                policy_version=look.standing.version,
                most_waiting=look.standing.most_waiting,
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
            Occurrence(run, step, index): await self._proposer.key_of(session, call)
            for index, call in enumerate(calls)
        }
        return is_known(state, run, step, keys, count=len(calls))

    async def edited(
        self, session: str, request: Request, call: Call, arguments: Mapping[str, object]
    ) -> tuple[c.Sound, str]:
        """Give the proposal of an action with other arguments, and as JSON what is changed (G5).

        Raises InvalidInput where they do not fit the tool.
        """
        _, stored = await self._attempts.frozen(session, call.at)
        try:
            text = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput("unreadable_edit", f"The arguments are no JSON: {error}.") from error
        proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments=text)
        look = await self._proposer.look(session, call.at.run)
        made = await self._proposer.proposal(session, call.at, proposed, look)
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
        call, stored = await self._attempts.frozen(session, at)
        changes = await self._changes_told(session, call)
        begin = await self._beginning(session, call, stored, fence=fence)

        async def entered(intent: AttemptBegun) -> Outcome:
            tool = self._toolbox.tools[call.tool]
            assert isinstance(stored.arguments, Mapping), "what cannot be read is never approved"
            if body is not None:
                tool = replace(tool, body=body)
            return _noted(
                call, changes, await attempt(tool, stored.arguments, intent.key, call=str(at))
            )

        return await self._attempts.carried_out(session, begin, entered)

    async def delegate(
        self,
        session: str,
        at: Occurrence,
        *,
        agent: str,
        max_steps: int,
        mode: Mode = "act",
        on_failure: OnFailure = "continue",
        saga: SagaScope = "step",
        fence: int | None = None,
    ) -> Answer:
        """Open the run of an agent that is used as a tool, with the frozen message to it.

        The same call opens the same run. Raises a Refusal where it may not be opened now.
        """
        call, stored = await self._attempts.frozen(session, at)
        found = stored.arguments.get("message") if isinstance(stored.arguments, Mapping) else None
        child = c.Child(
            run=short_id("run", call.digest),
            agent=agent,
            message=found if isinstance(found, str) else "",
            max_steps=max_steps,
            mode=mode,
            on_failure=on_failure,
            saga=saga,
        )
        begin = await self._beginning(session, call, stored, fence=fence, child=child)
        return await self._engine.execute(session, begin)

    async def interrupt(self, session: str, call: Call, cause: str) -> None:
        """End a call that is allowed and that nobody has begun: it may be proposed again.

        It need not be of this gate's tools. Raises a Refusal where it was begun, or frozen anew,
        meanwhile; one that has its answer keeps it.
        """
        look = await self._proposer.look(session, call.at.run)
        proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments="")
        told = wording.interrupted(cause)
        begin = c.Begin(
            at=call.at,
            fence=None,
            holder=self._holder,
            digest=call.digest,
            today=unsound(call.at, proposed, call.call_key, "interrupted", told),
            eligible=frozenset(),
            stand_ins={},
            policy_version=look.standing.version,
        )
        await self._engine.execute(session, begin)

    async def noted(self, session: str, call: Call, told: str) -> str:
        """Tell of an edit, if there was one, along with what came of the call (G5)."""
        if call.edits_ref is None:
            return told
        return wording.edited(call.edited_by, await self._changes_told(session, call), told)

    async def _changes_told(self, session: str, call: Call) -> str:
        """Say what an edit changed, if there was one, without what the tool declares secret (H2).

        The model is given what the new value brought about, and need not have the value.
        """
        if call.edits_ref is None:
            return ""
        changes = await self._engine.payload(session, call.edits_ref)
        shown = call.display_ref
        display = {} if shown is None else json.loads(await self._engine.payload(session, shown))
        return _in_words(changes, display.get("secrets") or ())

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
        first = calls[0]
        look = await self._proposer.look(session, first.run)
        results = await asyncio.gather(
            *(self._read(session, at, body, raised, look) for at in calls)
        )
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
        self, session: str, at: Occurrence, body: Body | None, raised: dict[int, str], look: Look
    ) -> tuple[int, CallCode, str]:
        call, stored = await self._attempts.frozen(session, at)
        tool = self._toolbox.tools.get(call.tool)
        today = await self._today(session, call, stored, look)
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

    async def _today(self, session: str, call: Call, stored: Draft, look: Look) -> c.Proposal:
        """Propose the stored action in the world as it is now (G13)."""
        text = stored.arguments
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
        proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments=text)
        return await self._proposer.proposal(session, call.at, proposed, look)

    async def _beginning(
        self,
        session: str,
        call: Call,
        stored: Draft,
        *,
        fence: int | None,
        child: c.Child | None = None,
    ) -> c.Begin:
        """Give the command that asks to enter a body, with the facts that it is decided by."""
        look = await self._proposer.look(session, call.at.run)
        today = await self._today(session, call, stored, look)
        deciders = await self._deciders(session, call, look, today)
        snapshot = None
        tool = self._toolbox.tools.get(call.tool)
        if tool is not None and isinstance(today, c.Sound) and not call.acted:
            try:
                snapshot = await snapshot_of(tool, stored.arguments)
            except Exception as error:  # noqa: BLE001  # Fails closed: the body is not entered.
                told = wording.failed(described(error), not_done=True, attempts=1)
                proposed = ToolCall(id=call.tool_call_id, name=call.tool, arguments="")
                today = unsound(call.at, proposed, call.call_key, "tool_failed", told)
        return c.Begin(
            at=call.at,
            fence=fence,
            holder=self._holder,
            digest=call.digest,
            today=today,
            eligible=deciders.eligible,
            stand_ins=deciders.stand_ins,
            policy_version=look.standing.version,
            child=child,
            snapshot=snapshot,
        )

    async def _deciders(self, session: str, call: Call, look: Look, today: c.Proposal) -> Deciders:
        """Say whose votes count now, where people were asked.

        Raises PolicyTrouble while the policy is broken: what they approved waits until it is
        mended, or for its deadline.
        """
        if not isinstance(call.state, Asking):
            return Deciders(eligible=frozenset(), stand_ins={})
        if look.standing.trouble is not None:
            raise look.standing.trouble
        asked = call.state.request
        state = await self._engine.session(session, c.Names(requests=(asked,)))
        return self._proposer.deciders(look, today, state.requests[asked], now=state.now)


def _still_a_read(call: Call, today: c.Sound) -> bool:
    """Say whether what was proposed as a read that policy allows is that still (G1)."""
    same = (call.kind, call.call_key, call.tool_fingerprint)
    now = (today.kind, today.call_key, today.draft.tool_fingerprint)
    return same == now and isinstance(today.ruling, Allow)


def _noted(call: Call, changes: str, outcome: Outcome) -> Outcome:
    """Tell the model of an edit along with the result (G5)."""
    if call.edits_ref is None:
        return outcome
    match outcome:
        case c.Succeeded(told=told):
            return c.Succeeded(told=wording.edited(call.edited_by, changes, told), own=told)
        case c.Failed(error=error):
            told = wording.edited(call.edited_by, changes, error)
            return replace(outcome, error=told, own=error)
        case c.Unknown():
            return outcome


def _in_words(changes: str, secrets: Sequence[str]) -> str:
    found = changes_of(changes)
    if found is None:
        return changes
    return wording.changes(_without(each, secrets) for each in found)


def _without(change: Mapping[str, JsonValue], secrets: Sequence[str]) -> Mapping[str, JsonValue]:
    """Mask what is declared secret at or under the argument that a change is of."""
    name = str(change.get("name"))
    under = (f"{name}.", f"{name}[]", "*")
    if not any(path == name or path.startswith(under) for path in secrets):
        return change
    masking = Masking(fields=tuple(secrets))
    masked = dict(change)
    for side in change.keys() & {"old", "new"}:
        (masked[side],) = masked_arguments(masking, {name: change[side]}).values()
    return masked


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
