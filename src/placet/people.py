"""People's part: decisions, settlements and cards, for the API and the command line alike.

It needs no agent and no model, so that a decision is quick from anywhere; only an edit needs the
agent's code, to hold the new arguments against the tool's schema (G5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from placet.core import commands as c
from placet.core.card import Card, card
from placet.core.deciding_requests import check_authority
from placet.core.errors import Conflict
from placet.core.questions import Question, checked, question_of
from placet.core.spoken import refuse_command
from placet.core.state import Request, Session
from placet.core.values import Principal, draft_from
from placet.runtime.authority import Authority, refuse_to_decide
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow

if TYPE_CHECKING:
    from placet.runtime.gate import Gate


class People:
    """Takes what people say of requests to the engine."""

    def __init__(
        self, engine: Engine, authority: Authority, gate_of: Callable[[Session, str], Gate]
    ) -> None:
        self._engine = engine
        self._authority = authority
        self._gate_of = gate_of

    def check_authority(self, row: RequestRow, *, by: str) -> None:
        """Say before anything is asked whether a person may decide; raises NotPermitted (G10)."""
        eligible = self._authority.eligible(row.request)
        if row.request.kind == "question":  # Whom the run acts for may answer it.
            eligible |= {row.request.requester}
        check_authority(row.request, Principal(id=by), eligible)

    async def approve(
        self, row: RequestRow, *, by: str, digest: str | None, via: str, command_id: str = ""
    ) -> Request:
        """Count a person's yes."""
        command = c.Approve(
            request=row.request.id,
            by=Principal(id=by),
            eligible=self._authority.eligible(row.request),
            digest=digest,
            via=via,
        )
        return await self._execute(row, command, command_id)

    async def reject(
        self,
        row: RequestRow,
        *,
        by: str,
        reason: str,
        digest: str | None,
        via: str,
        command_id: str = "",
    ) -> Request:
        """Take a person's no."""
        command = c.Reject(
            request=row.request.id,
            by=Principal(id=by),
            eligible=self._authority.eligible(row.request),
            reason=reason,
            digest=digest,
            via=via,
        )
        return await self._execute(row, command, command_id)

    async def withdraw(self, row: RequestRow, *, by: str) -> Request:
        """Take a person's vote back."""
        return await self._execute(row, c.Withdraw(request=row.request.id, by=Principal(id=by)), "")

    async def edit(
        self,
        row: RequestRow,
        *,
        by: str,
        arguments: Mapping[str, Any],
        digest: str | None,
        via: str,
        command_id: str = "",
    ) -> Request:
        """Put other arguments in the action's place."""
        at = row.request.at
        names = c.Names(requests=(row.request.id,), steps=((at.run, at.step),))
        state = await self._engine.session(row.session, names)
        gate = self._gate_of(state, at.run)
        proposal, changes = await gate.edited(row.session, row.request, state.calls[at], arguments)
        command = c.Edit(
            request=row.request.id,
            by=Principal(id=by),
            eligible=self._authority.eligible(row.request),
            proposal=proposal,
            changes=changes,
            policy_version=self._authority.version,
            digest=digest,
            via=via,
        )
        return await self._execute(row, command, command_id)

    async def settle(
        self,
        row: RequestRow,
        *,
        by: str,
        happened: bool | None,
        detail: str,
        digest: str | None,
        via: str,
    ) -> Request:
        """Take a person's word on an unknown outcome."""
        command = c.Settle(
            request=row.request.id,
            by=Principal(id=by),
            eligible=self._authority.eligible(row.request),
            happened=happened,
            detail=detail,
            digest=digest,
            via=via,
        )
        return await self._execute(row, command, "")

    async def answer(
        self, row: RequestRow, *, by: str, text: str, digest: str | None, via: str
    ) -> Request:
        """Take a person's answer to a question, if it is what the question wants.

        It goes to a model, and so it must not be a command (H5).
        """
        if row.request.kind == "question":
            refuse_command(text)
            text = checked(await self.question(row), text)
        command = c.Answer(
            request=row.request.id,
            by=Principal(id=by),
            eligible=self._authority.eligible(row.request),
            answer=text,
            digest=digest,
            via=via,
        )
        return await self._execute(row, command, "")

    async def question(self, row: RequestRow) -> Question:
        """Read the question that a request puts; raises InvalidInput."""
        body = await self._engine.payload(row.session, row.request.action_ref)
        return question_of(draft_from(json.loads(body)).arguments)

    async def card(self, row: RequestRow) -> Card:
        """Make the card of a request from the store."""
        request = row.request
        at = request.at
        names = c.Names(requests=(request.id,), steps=((at.run, at.step),), runs=(at.run,))
        state = await self._engine.session(row.session, names)
        call = state.calls[at]

        async def text(ref: str | None) -> str:
            return "" if ref is None else await self._engine.payload(row.session, ref)

        return card(
            state.requests[request.id],
            call,
            state.runs[at.run],
            draft_from(json.loads(await text(request.action_ref))),
            display=json.loads(await text(call.display_ref) or "{}"),
            grounds=await text(request.grounds_ref),
            claim=await text(call.claim_ref),
            changes=await text(request.changes_ref),
        )

    async def _execute(self, row: RequestRow, command: c.Command, command_id: str) -> Request:
        refuse_to_decide()
        answer = await self._engine.execute(row.session, command, command_id=command_id)
        found = answer.state.requests.get(row.request.id)
        about = {getattr(event, "request", None) for event in answer.events}
        if found is None or (answer.repeated and row.request.id not in about):
            raise Conflict(
                "command_id_used",
                "That command id was used for another request.",
                request_id=row.request.id,
            )
        return found
