"""What people do about requests: each time in a process of their own, as at a terminal.

Who speaks is set down apart from what placet is told, so that a decision which nobody took can be
told from one that somebody did.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable
from datetime import timedelta
from typing import Protocol

from placet import Placet
from placet.core import commands as c
from placet.core.errors import PlacetError
from placet.core.state import Request
from placet.core.values import GrantTerms, Principal
from placet.stores.store import RequestRow
from tests.simulation.promises import Promises
from tests.simulation.truth import Truth

#: Who speaks in a task: a name, and what kind of principal.
SPEAKER: contextvars.ContextVar[tuple[str, str] | None] = contextvars.ContextVar(
    "speaker", default=None
)

_HOUR = timedelta(hours=1)
_TERMS = (
    GrantTerms(scope="run", lasts=_HOUR, uses=1, any=("n",)),
    GrantTerms(scope="run", lasts=_HOUR, uses=3, any=("n",), children=True),
    GrantTerms(scope="session", lasts=_HOUR / 60, uses=2, any=("n",)),
    GrantTerms(scope="session", lasts=_HOUR, uses=5, any=("n",), children=True),
    GrantTerms(scope="session", lasts=_HOUR, uses=5, same=("n",)),
)

#: Added to a call's number by an edit: the edited call is another action.
EDITED = 1_000


class Surroundings(Protocol):
    """What people know of the world, beside what placet shows them."""

    truth: Truth
    promises: Promises

    def heard(self, who: str, what: str) -> None:
        """Note what somebody was answered."""
        ...

    def other_session(self, session: str) -> str:
        """Name another session than this one."""
        ...


async def act(town: Surroundings, placet: Placet, row: RequestRow, person: str, what: str) -> None:
    """Do something about a request; a refusal is an answer, and is noted."""
    request = row.request
    SPEAKER.set((person, "person"))
    match what:
        case "approve":
            await _try(town, person, placet.decide(request.id, "approve", by=person))
        case "approve_digest":
            await _try(town, person, _approve(placet, request, person, request.digest))
        case "approve_resume":
            await _try(town, person, _approve(placet, request, person, None))
            await _try(town, person, placet.resume(request.at.run))
        case "approve_grant":
            terms = _TERMS[request.order % len(_TERMS)]
            granting = placet.decide(request.id, "approve", by=person, grant=terms)
            await _try(town, person, granting)
        case "revoke":
            for grant in await placet.grants(row.session):
                revoking = placet.revoke(grant.id, session=row.session, by=person)
                await _try(town, person, revoking)
        case "approve_twice":
            for _ in range(2):
                await _try(town, person, _approve(placet, request, person, request.digest))
        case "approve_withdraw":
            await _try(town, person, _approve(placet, request, person, None))
            await _try(town, person, placet.withdraw(request.id, by=person))
        case "approve_and_reject":
            await _try(town, person, _approve(placet, request, person, None))
            await _try(town, person, _reject(placet, request, person))
        case "reject":
            await _try(town, person, _reject(placet, request, person))
        case "edit":
            await _try(town, person, _edit(placet, row, person))
        case "wrong_digest":
            await _try(town, person, _approve(placet, request, person, "0" * 64))
        case "other_session":
            other = town.other_session(row.session)
            deciding = placet.decide(request.id, "approve", by=person, session=other)
            await _try(town, person, deciding)
        case "stranger":
            SPEAKER.set(("eve", "person"))
            await _try(town, "eve", placet.decide(request.id, "approve", by="eve"))
        case "as_agent":
            SPEAKER.set((person, "agent"))
            await _try(town, person, _as_agent(placet, row, person))
        case "settle_it":
            await _try(town, person, _settle(town, placet, row, person))
        case "cancel_run":
            await _try(town, person, placet.cancel(request.at.run, by=person, cause="enough"))
        case _:
            raise AssertionError(f"nobody can {what}")


async def do_the_right_thing(
    town: Surroundings, placet: Placet, row: RequestRow, person: str
) -> None:
    """Answer, settle or approve, so that whatever waits goes on."""
    SPEAKER.set((person, "person"))
    match row.request.kind:
        case "settlement":
            await _try(town, person, _settle(town, placet, row, person))
        case "question":
            await _try(town, person, placet.answer(row.request.id, "so be it", by=person))
        case "approval" if row.request.readable:
            await _try(town, person, _approve(placet, row.request, person, row.request.digest))
        case "approval":
            await _try(town, person, _reject(placet, row.request, person))


async def _try(town: Surroundings, person: str, doing: Awaitable[object]) -> None:
    try:
        await doing
    except PlacetError as error:
        town.heard(person, error.code)
    else:
        town.heard(person, "ok")


async def _approve(placet: Placet, request: Request, person: str, digest: str | None) -> None:
    await placet.decide(request.id, "approve", by=person, digest=digest)


async def _reject(placet: Placet, request: Request, person: str) -> None:
    await placet.decide(request.id, "reject", by=person, reason=f"{person} says no")


async def _edit(placet: Placet, row: RequestRow, person: str) -> None:
    body = await placet.engine.payload(row.session, row.request.action_ref)
    number = int(body.partition('"n": ')[2].partition("}")[0].partition(",")[0] or 0)
    arguments = {"n": number + EDITED}
    await placet.decide(row.request.id, "edit", by=person, arguments=arguments)


async def _as_agent(placet: Placet, row: RequestRow, person: str) -> None:
    command = c.Approve(
        request=row.request.id,
        by=Principal(id=person, kind="agent"),
        eligible=frozenset({person}),
    )
    await placet.engine.execute(row.session, command)


async def _settle(town: Surroundings, placet: Placet, row: RequestRow, person: str) -> None:
    """Say what became of an effect, if that can be seen; or give up on it."""
    mark = str(row.request.at)
    bodies = [each for each in town.truth.bodies if each.mark == mark and each.kind == "run"]
    happened: bool | None = any(body.did for body in bodies)
    if not happened and town.promises.may_act_yet(mark):
        happened = None
    await placet.settle(row.request.id, by=person, happened=happened, detail="as was seen")
