"""People's part: decisions, settlements, cards and ends, for the API and the command line alike.

It needs no agent and no model, so that a decision is quick from anywhere; only an edit needs the
agent's code, to hold the new arguments against the tool's schema (G5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from placet.cards import card_from
from placet.core import commands as c
from placet.core.card import Card
from placet.core.card_words import Language
from placet.core.deciders import check_authority
from placet.core.errors import Conflict, InvalidInput, NotFound, NotPermitted
from placet.core.questions import Question, checked, question_of
from placet.core.spoken import refuse_command
from placet.core.state import CallOver, Grant, Request, Session
from placet.core.values import CallCode, GrantTerms, Principal, draft_from
from placet.repeated import Word, is_same_word
from placet.runtime.authority import Authority, Deciders, refuse_inside_tool, refuse_to_decide
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow, RunRow

if TYPE_CHECKING:
    from placet.runtime.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """A person who decides, and what the decision is held to.

    `via` says by which way it came. `session` and `digest`, where given, must be the request's
    (G11, G3). The same `command_id` is the same answer (D5).
    """

    name: str
    via: str = "api"
    session: str | None = None
    digest: str | None = None
    command_id: str = ""

    @property
    def principal(self) -> Principal:
        """Give the person as commands name one."""
        return Principal(id=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a decision has made of a request, and of the call that it is about.

    `code` says how the call ended, and `told` what the model is told of it; None while it is open.
    `grant` is what stands for calls to come with the approval (G12).
    """

    row: RequestRow
    code: CallCode | None = None
    told: str | None = None
    grant: Grant | None = None


class People:
    """Takes what people say of requests, runs and sessions to the engine.

    `language` is that of the cards which it makes, where none is named.
    """

    engine: Engine
    language: Language = "en"

    def __init__(
        self, engine: Engine, authority: Authority, gate_of: Callable[[Session, str], Gate]
    ) -> None:
        self.engine = engine
        self._authority = authority
        self._gate_of = gate_of

    def check_authority(self, row: RequestRow, *, by: str) -> None:
        """Say before anything is asked whether a person may decide; raises NotPermitted (G10)."""
        # Whoever escalation may reach: the decision itself is held against its own instant.
        request = row.request
        today = self._authority.deciders(request, now=datetime.now(UTC))
        who, end = Principal(id=by), request.deadline_at
        now = dict.fromkeys(today.stand_ins)  # Those whose time has ended are not among them.
        try:
            check_authority(request, who, today.eligible, now, now=end)
        except NotPermitted as refused:
            raise self._refined(refused, request, datetime.now(UTC)) from None

    # --- decisions ----------------------------------------------------------------------------

    async def approve(
        self, request_id: str, *, by: Decider, grant: GrantTerms | None = None
    ) -> Decided:
        """Count a person's yes, and with it permit calls to come, where terms are given (G12)."""
        row = await self._find(request_id, by)
        action = ""
        if grant is not None:
            action = await self.engine.payload(row.session, row.request.action_ref)
        today = await self._deciders(row)
        command = c.Approve(
            request=request_id,
            by=by.principal,
            eligible=today.eligible,
            stand_ins=today.stand_ins,
            digest=by.digest,
            via=by.via,
            grant=grant,
            action=action,
            policy_version=self._authority.version,
        )
        return await self._execute(row, command, by)

    async def grants(self, *, session: str | None = None) -> list[tuple[str, Grant]]:
        """Give the standing grants of a session, or of all, each with its session (G12).

        Those that end first stand before the others. Raises NotFound where the session is none.
        """
        engine = self.engine
        names = [session] if session else await engine.read(engine.store.sessions, engine.tenant)
        states = [await engine.session(name) for name in names]
        live = [(s.id, each) for s in states for each in s.grants.values() if s.now < each.until]
        return sorted(live, key=lambda found: (found[1].until, found[1].id))

    async def revoke(self, grant_id: str, *, by: Decider, session: str | None = None) -> None:
        """Take a standing grant back; raises NotFound where there is none, or it has ended."""
        refuse_to_decide()
        if session is None:
            found = [place for place, grant in await self.grants() if grant.id == grant_id]
            if len(found) != 1:
                raise NotFound(
                    "grant_not_found",
                    "There is no such grant, or it has ended."
                    if not found
                    else f"Several sessions have it: {', '.join(found)}.",
                    hint="`placet grants` lists those that stand.",
                    grant=grant_id,
                )
            (session,) = found
        state = await self.engine.session(session)
        now = await self._now(session)
        eligible = self._authority.people(now=now)
        if (known := state.grants.get(grant_id)) is not None:  # Whom only its rule names may, too.
            eligible |= self._authority.people(known.rule, now=now)
        revoke = c.Revoke(grant=grant_id, by=by.principal, eligible=eligible, via=by.via)
        await self.engine.execute(session, revoke)

    async def reject(self, request_id: str, *, by: Decider, reason: str) -> Decided:
        """Take a person's no, for a reason; raises InvalidInput where there is none (G6)."""
        if not reason.strip():
            raise InvalidInput(
                "no_reason",
                "Nothing was decided: a rejection needs a reason, which the model is told (G6).",
                request_id=request_id,
            )
        row = await self._find(request_id, by)
        today = await self._deciders(row)
        command = c.Reject(
            request=request_id,
            by=by.principal,
            eligible=today.eligible,
            stand_ins=today.stand_ins,
            reason=reason,
            digest=by.digest,
            via=by.via,
        )
        return await self._execute(row, command, by)

    async def withdraw(self, request_id: str, *, by: Decider) -> Decided:
        """Take a person's vote back."""
        row = await self._find(request_id, by)
        command = c.Withdraw(request=request_id, by=by.principal, digest=by.digest, via=by.via)
        return await self._execute(row, command, by)

    async def edit(self, request_id: str, *, by: Decider, arguments: Mapping[str, Any]) -> Decided:
        """Put other arguments in the action's place."""
        row = await self._find(request_id, by)
        at = row.request.at
        names = c.Names(requests=(request_id,), steps=((at.run, at.step),))
        state = await self.engine.session(row.session, names)
        gate = self._gate_of(state, at.run)
        proposal, changes = await gate.edited(row.session, row.request, state.calls[at], arguments)
        today = await self._deciders(row)
        command = c.Edit(
            request=request_id,
            by=by.principal,
            eligible=today.eligible,
            stand_ins=today.stand_ins,
            proposal=proposal,
            changes=changes,
            policy_version=self._authority.version,
            digest=by.digest,
            via=by.via,
        )
        return await self._execute(row, command, by)

    async def settle(
        self, request_id: str, *, by: Decider, happened: bool | None, detail: str
    ) -> Decided:
        """Take a person's word on an unknown outcome; raises InvalidInput where it is none."""
        if happened and not detail.strip():
            raise InvalidInput(
                "no_result",
                "Say what the result was: the model is told it.",
                request_id=request_id,
            )
        row = await self._find(request_id, by)
        today = await self._deciders(row)
        command = c.Settle(
            request=request_id,
            by=by.principal,
            eligible=today.eligible,
            stand_ins=today.stand_ins,
            happened=happened,
            detail=detail,
            digest=by.digest,
            via=by.via,
        )
        return await self._execute(row, command, by)

    async def answer(self, request_id: str, *, by: Decider, text: str) -> Decided:
        """Take a person's answer to a question, if it is what the question wants.

        It goes to a model, and so it must not be a command (H5).
        """
        row = await self._find(request_id, by)
        if row.request.kind == "question":
            refuse_command(text)
            text = checked(await self.question(row), text)
        today = await self._deciders(row)
        command = c.Answer(
            request=request_id,
            by=by.principal,
            eligible=today.eligible,
            stand_ins=today.stand_ins,
            answer=text,
            digest=by.digest,
            via=by.via,
        )
        return await self._execute(row, command, by)

    # --- what is shown ------------------------------------------------------------------------

    async def question(self, row: RequestRow) -> Question:
        """Read the question that a request puts; raises InvalidInput."""
        body = await self.engine.payload(row.session, row.request.action_ref)
        return question_of(draft_from(json.loads(body)).arguments)

    async def card(self, row: RequestRow, *, language: Language | None = None) -> Card:
        """Make the card of a request from the store."""
        return await card_from(self.engine, row, language=language or self.language)

    # --- ends ---------------------------------------------------------------------------------

    async def cancel(
        self, run_id: str, *, by: str, cause: str, session: str | None = None
    ) -> RunRow:
        """End a run, and give it as it is then: what has begun is carried to its outcome first."""
        refuse_inside_tool()
        row = await self.engine.find_run(run_id, session=session)
        command = c.CancelRun(run=run_id, by=Principal(id=by), cause=cause)
        await self.engine.execute(row.session, command)
        return await self.engine.find_run(run_id)

    async def end_session(self, session: str, *, by: str, cause: str) -> tuple[RunRow, ...]:
        """End a session, and give the runs that were active; raises NotFound."""
        refuse_inside_tool()
        command = c.EndSession(by=Principal(id=by), cause=cause)
        ended = await self.engine.execute(session, command)
        newest_first = sorted(ended.state.runs.values(), key=lambda run: run.order, reverse=True)
        return tuple([await self.engine.find_run(run.id) for run in newest_first])

    async def erase_session(self, session: str, *, by: str, cause: str) -> bool:
        """Destroy the texts of a session of which nothing is open, and end it (H4).

        False: they are gone, but a process still reads an older state, and the store's log on the
        disk may hold them until this is said again. Raises NotFound, and Conflict where a run has
        not ended or an outcome is unknown.
        """
        refuse_inside_tool()
        command = c.EndSession(by=Principal(id=by), cause=cause, erase=True)
        await self.engine.execute(session, command)
        self.engine.forget_salt(session)
        return await self.engine.read(self.engine.store.purge)

    # ------------------------------------------------------------------------------------------

    async def left(self, row: RequestRow) -> frozenset[str] | None:
        """Give all who may decide a request by its deadline; None: policy is broken."""
        if self._authority.today().trouble is not None:
            return None
        return self._authority.left(row.request, now=await self._now(row.session))

    def _refined(self, refused: NotPermitted, request: Request, now: datetime) -> NotPermitted:
        """Say who may decide later, where nobody may now and escalation reaches somebody."""
        if refused.code != "not_an_approver":
            return refused
        if self._authority.deciders(request, now=now).may_decide(request, now=now):
            return refused
        if not (later := self._authority.left(request, now=now)):
            return refused
        hint = f"From a later escalation step on {', '.join(sorted(later))} may."
        return NotPermitted(refused.code, refused.message, hint=hint, **refused.ids)

    async def _find(self, request_id: str, by: Decider) -> RequestRow:
        return await self.engine.find_request(request_id, session=by.session)

    async def _deciders(self, row: RequestRow) -> Deciders:
        """Say who may decide a request today; raises PolicyTrouble."""
        return self._authority.deciders(row.request, now=await self._now(row.session))

    async def _now(self, session: str) -> datetime:
        """Give the store's own time, by which delegations end; without a policy there are none."""
        if self._authority.policy is None:
            return datetime.now(UTC)
        return (await self.engine.session(session)).now

    async def _execute(self, row: RequestRow, command: Word, by: Decider) -> Decided:
        refuse_to_decide()
        try:
            answer = await self.engine.execute(row.session, command, command_id=by.command_id)
        except NotPermitted as refused:
            raise self._refined(refused, row.request, await self._now(row.session)) from None
        found = answer.state.requests.get(row.request.id)
        same = not answer.repeated or await is_same_word(
            self.engine, row.session, command, answer.events
        )
        if found is None or not same:
            raise Conflict(
                "command_id_used",
                "Nothing was decided: that command id was used for something else.",
                hint="Say it under an id of its own.",
                request_id=row.request.id,
            )
        return await self._decided(row, found, answer.state)

    async def _decided(self, row: RequestRow, request: Request, state: Session) -> Decided:
        after = RequestRow(tenant=row.tenant, session=row.session, request=request)
        call = state.calls[request.at].state
        if not isinstance(call, CallOver):
            given = (grant for grant in state.grants.values() if grant.request == request.id)
            return Decided(row=after, grant=next(given, None))
        told = await self.engine.payload(row.session, call.told_ref)
        return Decided(row=after, code=call.code, told=told)
