"""The commands with which people look: inbox and show. Nothing here decides (H5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import click

from placet.cli.office import Office, card_document, office
from placet.cli.output import Given, shared
from placet.cli.standing import about
from placet.core.card import Card, render_text
from placet.core.display import visible
from placet.core.state import Open
from placet.stores.store import RequestRow

#: How many requests the inbox lists.
INBOX = 1_000


@click.command("inbox", short_help="List the requests that wait for people.")
@click.option("--session", help="Only requests of this session.")
@shared
@click.pass_obj
def inbox_command(given: Given, session: str | None) -> None:
    """List the requests that wait for people, the nearest deadline first."""

    async def look(desk: Office) -> tuple[list[RequestRow], list[dict[str, Any]]]:
        rows = await waiting_rows(desk, session)
        return rows, await desk.records(rows)

    with office(given.settings()) as desk:
        rows, records = asyncio.run(look(desk))
    given.show({"requests": records}, inbox_text(rows))


async def waiting_rows(desk: Office, session: str | None) -> list[RequestRow]:
    """Give the requests that wait for people, of all sessions where none is named."""
    engine = desk.engine
    found = await engine.read(engine.store.requests, engine.tenant, session=session, limit=INBOX)
    return [row for row in found if isinstance(row.request.state, Open)]


def inbox_text(rows: Sequence[RequestRow]) -> str:
    """Lay requests out, one a line."""
    return "\n".join(map(_line, rows)) or "Nothing waits."


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
    with office(given.settings()) as desk:
        given.show(*asyncio.run(shown(desk, request, session=session)))


async def shown(desk: Office, request: str, *, session: str | None) -> tuple[dict[str, Any], str]:
    """Give a request with its card and what is known beside it, as JSON and as text."""
    row = await desk.find(request, session=session)
    card = await desk.people.card(row)
    more = await about(desk, row)
    document = {**await desk.record(row), "card": card_document(row, card), **more}
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
