"""What a program says for people: decisions, answers, settlements, grants; and what they look at.

The part of `Placet` that takes people's words to the engine. The caller answers for having made
sure who each of them is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.core.card import Card
from placet.core.card_words import Language
from placet.core.errors import InvalidInput
from placet.core.state import Grant
from placet.core.values import GrantTerms
from placet.people import Decider, People
from placet.portal import blocking
from placet.results import LISTED, Decision, DecisionResult, Listed, decided, inbox_of
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow


class Deciding:
    """The words of people, taken to one store."""

    engine: Engine
    people: People

    async def decide(
        self,
        request_id: str,
        decision: Decision,
        *,
        by: str,
        reason: str = "",
        arguments: Mapping[str, Any] | None = None,
        grant: GrantTerms | None = None,
        digest: str | None = None,
        session: str | None = None,
        via: str = "api",
        command_id: str = "",
    ) -> DecisionResult:
        """Approve, reject (with a reason) or edit (with new arguments) an approval request.

        `by` is the person; the caller answers for having made sure who it is. `digest` and
        `session`, where given, must be the request's (G3, G11). The same `command_id` again is the
        same answer. `grant` permits calls to come along with an approval (G12). Only the exact
        words decide (H5). Raises InvalidInput, NotPermitted, Conflict
        where another decision stands, Closed where it is too late; and so of the others below.
        """
        who = Decider(name=by, via=via, session=session, digest=digest, command_id=command_id)
        if grant is not None and decision != "approve":
            raise InvalidInput("invalid_grant", "A grant is given with an approval alone.")
        match decision:
            case "approve":
                found = await self.people.approve(request_id, by=who, grant=grant)
            case "reject":
                found = await self.people.reject(request_id, by=who, reason=reason)
            case "edit":
                if arguments is None:
                    raise InvalidInput("no_arguments", "An edit needs the new arguments.")
                found = await self.people.edit(request_id, by=who, arguments=arguments)
            case _:
                raise InvalidInput(
                    "not_a_decision",
                    f"{decision!r} is no decision.",
                    hint="Say exactly approve, reject or edit.",
                    request_id=request_id,
                )
        return decided(found)

    async def answer(
        self,
        request_id: str,
        text: str,
        *,
        by: str,
        digest: str | None = None,
        session: str | None = None,
        via: str = "api",
        command_id: str = "",
    ) -> DecisionResult:
        """Answer a question of a run; the text must be what the question wants.

        Who the run acts for may answer, and the approvers. Where the text does not fit
        (InvalidInput) the question still waits.
        """
        who = Decider(name=by, via=via, session=session, digest=digest, command_id=command_id)
        return decided(await self.people.answer(request_id, by=who, text=text))

    async def settle(
        self,
        request_id: str,
        *,
        by: str,
        happened: bool | None,
        detail: str = "",
        digest: str | None = None,
        session: str | None = None,
        via: str = "api",
        command_id: str = "",
    ) -> DecisionResult:
        """Say what became of an attempt whose outcome is unknown (D4).

        `happened` True needs the result as `detail`; False lets the model propose it again; None
        gives up on finding out.
        """
        who = Decider(name=by, via=via, session=session, digest=digest, command_id=command_id)
        return decided(
            await self.people.settle(request_id, by=who, happened=happened, detail=detail)
        )

    async def withdraw(
        self,
        request_id: str,
        *,
        by: str,
        digest: str | None = None,
        session: str | None = None,
        via: str = "api",
        command_id: str = "",
    ) -> DecisionResult:
        """Take one's approval back before it is spent."""
        who = Decider(name=by, via=via, session=session, digest=digest, command_id=command_id)
        return decided(await self.people.withdraw(request_id, by=who))

    async def inbox(self, *, session: str | None = None, limit: int = LISTED) -> Listed[RequestRow]:
        """Give the requests that wait for people, those with the nearest deadline first.

        There are `limit` at most; `more` of the answer says that more wait.
        """
        return await self.engine.read(inbox_of, self.engine, session=session, limit=limit)

    async def show(
        self, request_id: str, *, session: str | None = None, language: Language | None = None
    ) -> Card:
        """Give the card of a request; one of another session than is named is not found (G11)."""
        row = await self.engine.find_request(request_id, session=session)
        return await self.people.card(row, language=language)

    async def grants(self, session: str) -> Sequence[Grant]:
        """Give the standing grants of a session, those that end first before the others (G12).

        Raises NotFound where there is no such session.
        """
        return [grant for _, grant in await self.people.grants(session=session)]

    async def revoke(self, grant_id: str, *, session: str, by: str, via: str = "api") -> None:
        """Take a standing grant back: it covers nothing any more, whatever was allowed by it.

        Raises NotFound where it has ended, and NotPermitted where `by` may not decide.
        """
        await self.people.revoke(grant_id, session=session, by=Decider(name=by, via=via))

    decide_sync = blocking(decide)
    answer_sync = blocking(answer)
    settle_sync = blocking(settle)
    withdraw_sync = blocking(withdraw)
    inbox_sync = blocking(inbox)
    show_sync = blocking(show)
    grants_sync = blocking(grants)
    revoke_sync = blocking(revoke)
