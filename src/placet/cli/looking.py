"""The commands with which people look: inbox and show. Nothing here decides (H5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from placet.cli.office import card_document, office, record_of, records
from placet.cli.output import Given, limit_option, more_line, shared
from placet.cli.standing import about
from placet.core.card import Card, render_text
from placet.core.display import visible
from placet.core.state import Open
from placet.people import People
from placet.results import LISTED, Listed
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow


@click.command("inbox", short_help="List the requests that wait for people.")
@click.option("--session", help="Only requests of this session.")
@limit_option
@shared
@click.pass_obj
def inbox_command(given: Given, session: str | None, limit: int) -> None:
    """List the requests that wait for people, the nearest deadline first."""
    with office(given.settings()) as people:
        rows = waiting_rows(people.engine, session, limit=limit)
        documents = asyncio.run(records(people.engine, rows))
    given.show({"requests": documents, "more": rows.more}, inbox_text(rows))


def waiting_rows(engine: Engine, session: str | None, *, limit: int = LISTED) -> Listed[RequestRow]:
    """Give the requests that wait for people, of all sessions where none is named."""
    store, tenant = engine.store, engine.tenant
    return Listed.of(lambda most: store.requests(tenant, session=session, limit=most), limit=limit)


def inbox_text(rows: Listed[RequestRow]) -> str:
    """Lay requests out, one a line."""
    return "\n".join([*map(_line, rows), *more_line(rows)]) or "Nothing waits."


def _line(row: RequestRow) -> str:
    request = row.request
    late = f"{request.deadline_at:%Y-%m-%d %H:%M:%S} UTC"
    what = "" if request.kind == "approval" else f"{request.kind} of "
    return (
        f"{visible(request.id)}  {what}{visible(request.tool)}"
        f"  session {visible(row.session)}, until {late}"
    )


@click.command("show", short_help="Show the card of a request.")
@click.argument("request")
@click.option("--session", help="Refuse a request of any other session.")
@shared
@click.pass_obj
def show_command(given: Given, request: str, session: str | None) -> None:
    """Show the card of a request: all that would happen, and what is known of it."""
    with office(given.settings()) as people:
        given.show(*asyncio.run(shown(people, request, session=session)))


async def shown(people: People, request: str, *, session: str | None) -> tuple[dict[str, Any], str]:
    """Give a request with its card and what is known beside it, as JSON and as text."""
    row = await people.engine.find_request(request, session=session)
    card = await people.card(row)
    more = await about(people, row)
    document = {**await record_of(people.engine, row), "card": card_document(row, card), **more}
    return document, card_text(row, card, more)


def card_text(row: RequestRow, card: Card, more: Mapping[str, Any]) -> str:
    """Lay a card out, with what `about` gives beside it.

    What is closed has no "then" after its deadline any more.
    """
    text = render_text(card)
    if not isinstance(row.request.state, Open):
        before, then, after = text.rpartition(f"; then {card.then}")
        text = f"{before}{after}" if then else text
    return "\n".join([text, *_about_lines(more)])


def _about_lines(more: Mapping[str, Any]) -> list[str]:
    question = more["question"] or {}
    facts = [
        ("under", more["parent_run_id"]),
        ("wanted", question.get("wanted")),
        ("key", more["idempotency_key"]),
        ("ended", more["ending"]),
    ]
    lines = [f"  {name:<11} {visible(str(value))}" for name, value in facts if value]
    if more["answers"]:
        lines.append("  answer with one of:")
        lines += [f"    {visible(each)}" for each in more["answers"]]
    return lines
