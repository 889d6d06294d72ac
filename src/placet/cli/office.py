"""Where the commands of people work: the store, and what people may do, without any agent.

Nothing here imports an agent, a model or the gate: a decision is quick from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from placet.core.card import Card
from placet.core.commands import Names
from placet.core.errors import InvalidInput, NotFound
from placet.core.state import Open, Request, Session
from placet.opening import open_store, store_path
from placet.people import People
from placet.runtime.authority import Authority
from placet.runtime.engine import Engine
from placet.runtime.files import instant, record
from placet.settings import Settings
from placet.stores.store import RequestRow, RunRow, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """An engine over the store, and the people's part of it."""

    engine: Engine
    people: People

    async def find(self, request: str, *, session: str | None = None) -> RequestRow:
        """Find a request; raises NotFound, which says so where the id is a run's."""
        try:
            return await self.engine.find_request(request, session=session)
        except NotFound:
            run = await self.engine.read(self.engine.store.find_run, self.engine.tenant, request)
            if run is None or session not in (None, run.session):
                raise
            raise NotFound(
                "request_not_found",
                "That is a run, and no request.",
                hint=f"`placet resume {run.run.id}` says what it waits for; `placet inbox` lists"
                " the requests.",
                run_id=run.run.id,
            ) from None

    async def record(self, row: RequestRow) -> dict[str, Any]:
        """Give a request as JSON."""
        return (await self.records([row]))[0]

    async def records(self, rows: Sequence[RequestRow]) -> list[dict[str, Any]]:
        """Give requests as JSON, in their order."""
        ids: dict[str, list[str]] = {}
        for row in rows:
            ids.setdefault(row.session, []).append(row.request.id)
        states = {
            session: await self.engine.session(session, Names(requests=tuple(requests)))
            for session, requests in ids.items()
        }
        return [record(row, states[row.session].calls[row.request.at]) for row in rows]

    async def record_of(self, row: RequestRow, request: Request) -> dict[str, Any]:
        """Give a request as JSON, as a decision has left it."""
        return await self.record(
            RequestRow(tenant=row.tenant, session=row.session, request=request)
        )


async def find_run(engine: Engine, run: str) -> RunRow:
    """Find a run; raises NotFound, which names the run where the id is a request's."""
    try:
        return await engine.find_run(run)
    except NotFound:
        row = await engine.read(engine.store.find_request, engine.tenant, run)
        if row is None:
            raise
        raise NotFound(
            "run_not_found",
            "That is a request, and no run.",
            hint=f"Its run is {row.request.at.run}.",
            request_id=run,
        ) from None


def existing_store(settings: Settings) -> Store:
    """Open the store, and make none where there is none; raises NotFound or StoreTrouble."""
    path = store_path(settings.store)
    if not path.exists():
        raise NotFound(
            "store_not_found",
            "There is no store there yet.",
            hint="Name it with --store sqlite:///path, or begin a run with `placet run`.",
            path=str(path),
        )
    return open_store(settings.store)


@contextmanager
def office(settings: Settings) -> Iterator[Office]:
    """Open the store for people."""
    store = existing_store(settings)
    try:
        engine = Engine(store, tenant=settings.tenant)
        authority = Authority(approvers=settings.approvers)
        yield Office(engine=engine, people=People(engine, authority, _no_agents))
    finally:
        store.close()


def _no_agents(state: Session, run: str) -> NoReturn:
    raise InvalidInput("no_app", f"The agent {state.runs[run].agent} is not known here.")


def card_document(row: RequestRow, card: Card) -> dict[str, Any]:
    """Give a card as JSON: its texts are those that are shown, masked and made visible.

    What is closed has no `then` after its deadline any more.
    """
    waits = isinstance(row.request.state, Open)
    document = asdict(card if waits else replace(card, then=""))
    document["arguments"] = [
        {"name": name, "shown": value} for name, value in document["arguments"]
    ]
    return {
        key: instant(value) if isinstance(value, datetime) else value
        for key, value in document.items()
    }
