"""Where the commands of people work: the store, and what people may do, without any agent.

Nothing here imports an agent, a model or the gate: a decision is quick from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any, NoReturn

from placet.cards import telling_of
from placet.core.card import Card
from placet.core.commands import Names
from placet.core.errors import InvalidInput, NotFound
from placet.core.state import Cancelled, Session
from placet.core.work import is_late
from placet.opening import open_store, store_path
from placet.people import People
from placet.runtime.authority import Authority
from placet.runtime.engine import Engine
from placet.runtime.policies import PolicyFile
from placet.runtime.state_files import instant, record
from placet.settings import Settings
from placet.stores.sealing import KeyPort
from placet.stores.store import KeyedStore, RequestRow


def existing_store(settings: Settings, *, key: KeyPort | None = None) -> KeyedStore:
    """Open the store, and make none where there is none; raises NotFound or StoreTrouble.

    It is opened with the `key`, or with the one that the settings name.
    """
    path = store_path(settings.store)
    if not path.exists():
        raise NotFound(
            "store_not_found",
            "There is no store there yet.",
            hint="Name it with --store sqlite:///path, or begin a run with `placet run`.",
            path=str(path),
        )
    return open_store(settings.store, settings, key=key)


@contextmanager
def office(settings: Settings) -> Iterator[People]:
    """Open the store for people; raises NotFound where there is none, or StoreTrouble."""
    store = existing_store(settings)
    try:
        engine = Engine(store, tenant=settings.tenant)
        policy = PolicyFile.of(settings.policy)
        authority = Authority(approvers=settings.approvers, policy=policy)
        people = People(engine, authority, _no_agents)
        people.language = settings.language
        yield people
    finally:
        store.close()


def _no_agents(state: Session, run: str) -> NoReturn:
    raise InvalidInput("no_app", f"The agent {state.runs[run].agent} is not known here.")


# --- documents --------------------------------------------------------------------------------


async def records(engine: Engine, rows: Sequence[RequestRow]) -> list[dict[str, Any]]:
    """Give requests as JSON, in their order, with whether each is past its deadline and open."""
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row.session, []).append(row.request.id)
    states = {
        session: await engine.session(session, Names(requests=tuple(requests)))
        for session, requests in ids.items()
    }
    found = []
    for row in rows:
        state = states[row.session]
        document = record(row, state.calls[row.request.at])
        if isinstance(row.request.state, Cancelled):  # Other states tell no text of anybody's.
            document["cause"] = (await telling_of(engine, row)).told(row.request.state.cause)
        found.append({**document, "late": is_late(state, row.request.id)})
    return found


async def record_of(engine: Engine, row: RequestRow) -> dict[str, Any]:
    """Give a request as JSON."""
    return (await records(engine, [row]))[0]


def card_document(card: Card) -> dict[str, Any]:
    """Give a card as JSON: its texts are those that are shown, masked and made visible."""
    document = asdict(card)
    document["arguments"] = [
        {"name": name, "shown": value} for name, value in document["arguments"]
    ]
    written: dict[str, Any] = _with_instants(document)
    return written


def _with_instants(value: Any) -> Any:
    match value:
        case datetime():
            return instant(value)
        case dict():
            return {key: _with_instants(part) for key, part in value.items()}
        case list() | tuple():
            return [_with_instants(part) for part in value]
        case _:
            return value
