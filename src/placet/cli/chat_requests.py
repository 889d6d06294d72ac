"""What waits for a person in a chat: its card is shown, and it is decided in place by exact words.

A decision is bound to the digest of the card that was shown (G3). Who may not decide is told who
was asked and until when. What others decide meanwhile is told, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from placet.cards import telling_of
from placet.cli.cards import laid_out
from placet.cli.editing import arguments_text, assignment, stored_arguments
from placet.cli.identity import Identity
from placet.cli.inbox import card_text
from placet.cli.output import tell
from placet.cli.status import about
from placet.cli.words import said
from placet.core.card import Card
from placet.core.display import visible
from placet.core.errors import Conflict, InvalidInput, NotPermitted
from placet.core.masking import Masking
from placet.core.state import Open, Request
from placet.core.values import RequestKind
from placet.people import Decided, Decider, People
from placet.stores.store import RequestRow


class Further(Protocol):
    """Gives a further line that a decision needs, such as a reason."""

    def __call__(self, prompt: str, *, fresh: bool = False) -> str:
        """Ask for it; `fresh` says that only what is typed after the prompt counts."""
        ...


#: Stands before each card. No text of a model's or a tool's can hold its brackets: they are made
#: visible in it as something else, so that what looks like a card without this is none (H2).
HEADING = "⟦placet asks⟧"

#: What can be said of an approval request.
_WORDS = "approve, reject, edit or later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A request as it was shown; `cause` says why it is not decided here, empty where it may be."""

    request: str
    kind: RequestKind
    digest: str
    cause: str

    @property
    def prompt(self) -> str:
        """Ask for what can be said."""
        return "answer? " if self.kind == "question" else f"{_WORDS}? "


class Requests:
    """The requests of a session, as a person in a chat meets them."""

    def __init__(
        self, people: People, session: str, who: Identity | NotPermitted, *, further: Further
    ) -> None:
        self._people = people
        self._session = session
        self._who = who
        self._further = further
        self._shown: dict[str, Shown] = {}
        self._left: set[str] = set()

    def next(self, waiting: tuple[str, ...]) -> Shown | None:
        """Show what has not been shown yet, and give the first that this person is asked now."""
        for request in waiting:
            if request in self._left:
                continue
            found = self._shown.get(request) or self._show(request)
            if not found.cause:
                return found
        return None

    def leave(self, request: str) -> None:
        """Ask no more about a request for now."""
        self._left.add(request)
        tell("left for later; /resume asks again")

    def ask_again(self) -> None:
        """Show and ask again what was left."""
        self._shown.clear()
        self._left.clear()

    def tell_closed(self) -> None:
        """Tell what others have made of requests that were shown."""
        for request in list(self._shown):
            ending = asyncio.run(self._ending(request))
            if ending:
                del self._shown[request]
                tell(f"{request}: {visible(ending, keep_newlines=True)}")

    async def _ending(self, request: str) -> str:
        row = await self._found(request)
        if isinstance(row.request.state, Open):
            return ""
        ending: str = (await about(self._people, row))["ending"]
        return ending

    def _show(self, request: str) -> Shown:
        row, card, more = asyncio.run(self._look(request))
        cause = self._cause(row)
        here = more if cause else {**more, "answers": []}
        tell(f"\n{HEADING}\n{card_text(laid_out(card, to_stderr=True), here, card.language)}")
        if row.request.kind == "settlement":
            tell("Nobody knows whether it happened: find out, and say so with one of these.")
        elif cause:
            people = " or ".join(card.approvers) or "nobody"
            tell(f"Asked of {people}, until {card.deadline_at:%Y-%m-%d %H:%M:%S} UTC. {cause}")
            tell("You can leave, and come back; the run goes on here once it is decided.")
        found = Shown(
            request=request,
            kind=row.request.kind,
            digest=card.digest,
            cause=cause,
        )
        self._shown[request] = found
        return found

    async def _look(self, request: str) -> tuple[RequestRow, Card, dict[str, Any]]:
        row = await self._found(request)
        return row, await self._people.card(row), await about(self._people, row)

    async def _found(self, request: str) -> RequestRow:
        return await self._people.engine.find_request(request, session=self._session)

    def _cause(self, row: RequestRow) -> str:
        """Say why this person is not asked; empty where they are."""
        if row.request.kind == "settlement":
            return "It is settled by a command."
        if isinstance(self._who, NotPermitted):
            return visible(self._who.message)
        try:
            self._people.check_authority(row, by=self._who.name)
        except NotPermitted as error:
            return visible(error.message)
        return ""

    # --- deciding -----------------------------------------------------------------------------

    def take(self, shown: Shown, line: str) -> None:
        """Take a line as what is said of a request that was shown; raises a PlacetError."""
        if shown.kind == "question":
            self.answer(shown.request, line, digest=shown.digest)
        elif line == "approve":
            self.approve(shown.request, digest=shown.digest)
        elif line == "reject":
            reason = self._further("why (the model is told it)? ")
            self.reject(shown.request, reason, digest=shown.digest)
        elif line == "edit" or line.startswith("edit "):
            self._edit(shown, line.removeprefix("edit").strip())
        elif line == "later":
            self.leave(shown.request)
        else:
            raise Conflict(
                "run_waiting",
                "Nothing was decided, and nothing was sent: the run waits.",
                hint=f"Say exactly {_WORDS}; or /supersede MESSAGE, to say that instead.",
                request_id=shown.request,
            )

    def approve(self, request: str, *, digest: str | None = None) -> None:
        """Approve a request."""
        after = self._decided(request, self._people.approve(request, by=self._decider(digest)))
        if isinstance(after.state, Open):
            self._left.add(request)
            tell(f"It waits for {after.needs.quorum - len(after.state.votes)} more.")

    def reject(self, request: str, reason: str, *, digest: str | None = None) -> None:
        """Say no, for a reason."""
        by = self._decider(digest)
        self._decided(request, self._people.reject(request, by=by, reason=reason))

    def answer(self, request: str, text: str, *, digest: str | None = None) -> None:
        """Answer a question."""
        by = self._decider(digest)
        self._decided(request, self._people.answer(request, by=by, text=text))

    def _edit(self, shown: Shown, change: str) -> None:
        """Change arguments, which are shown before exactly `edit` makes it so (H5)."""
        by = self._decider(shown.digest)
        changes = [change or self._further("NAME=JSON? ")]
        while more := self._further("NAME=JSON, or nothing more? "):
            changes.append(more)
        changed = dict(map(assignment, changes))
        arguments, masking = asyncio.run(self._edited(shown.request, changed))
        tell(arguments_text("new arguments", arguments, masking))
        if self._further("type edit to make it so, or anything else? ", fresh=True) != "edit":
            raise InvalidInput("not_confirmed", "Nothing was decided: that was not 'edit'.")
        self._decided(shown.request, self._people.edit(shown.request, by=by, arguments=arguments))

    async def _edited(
        self, request: str, changed: dict[str, Any]
    ) -> tuple[dict[str, Any], Masking]:
        row = await self._found(request)
        engine, language = self._people.engine, self._people.language
        telling = await telling_of(engine, row, language=language)
        return {**await stored_arguments(engine, row), **changed}, telling.masking

    def _decider(self, digest: str | None) -> Decider:
        if isinstance(self._who, NotPermitted):
            raise self._who
        return self._who.decider(session=self._session, digest=digest)

    def _decided(self, request: str, decision: Awaitable[Decided]) -> Request:
        """Take a decision to the runtime, and tell what it has made of the request."""

        async def decided() -> tuple[Request, str]:
            found = await decision
            return found.row.request, (await about(self._people, found.row))["ending"]

        after, ending = asyncio.run(decided())
        self._shown.pop(request, None)
        language = self._people.language
        begins = said(language, "ended.then", then=said(language, "ended.not_begun"))
        told = ending.removesuffix(begins) or "your vote is counted"
        tell(f"{request}: {visible(told, keep_newlines=True)}")
        return after
