"""The commands with which people look: inbox and show. Nothing here decides (H5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from placet.cli.cards import laid_out
from placet.cli.office import card_document, office, record_of, records
from placet.cli.output import Given, shared
from placet.cli.standing import about
from placet.cli.words import said
from placet.core.card_words import Language
from placet.core.display import visible
from placet.core.errors import PlacetError
from placet.people import People
from placet.results import LISTED, Listed, inbox_of
from placet.stores.store import RequestRow

F = TypeVar("F", bound=Callable[..., Any])

#: How much of an effect stands in a line of the inbox; the card has all of it.
MOST_OF_EFFECT = 100


def limit_option(command: F) -> F:
    """Give a command that lists something the option to say how much at most."""
    return click.option(
        "--limit",
        default=LISTED,
        show_default=True,
        type=click.IntRange(min=1),
        help="How many are listed; it is said where there are more.",
    )(command)


def more_line(listed: Listed[Any]) -> list[str]:
    """Say that a list is not all there is."""
    return [f"… and more: --limit N lists more than {len(listed)}."] if listed.more else []


@click.command("inbox", short_help="List the requests that wait for people.")
@click.option("--session", help="Only requests of this session.")
@limit_option
@shared
@click.pass_obj
def inbox_command(given: Given, session: str | None, limit: int) -> None:
    """List the requests that wait for people, the nearest deadline first."""
    with office(given.settings()) as people:
        rows = inbox_of(people.engine, session=session, limit=limit)
        documents, text = asyncio.run(inbox_listed(people, rows))
    given.show({"requests": documents, "more": rows.more}, text)


async def inbox_listed(
    people: People, rows: Listed[RequestRow]
) -> tuple[list[dict[str, Any]], str]:
    """Give the requests of an inbox as JSON, and laid out one a line."""
    documents = await records(people.engine, rows)
    lines = []
    for row, document in zip(rows, documents, strict=True):
        document |= await _in_short(people, row)
        lines.append(_line(people.language, row, document))
    nothing = said(people.language, "inbox.nothing")
    return documents, "\n".join([*lines, *more_line(rows)]) or nothing


async def _in_short(people: People, row: RequestRow) -> dict[str, str]:
    """Say what a request would do and cost, as its card does; without an effect, its arguments.

    What cannot be shown says so in its place, so that one request hides none of the others.
    """
    try:
        card = await people.card(row)
    except PlacetError as error:
        return {"effect": f"{visible(error.message)} [{error.code}]", "cost": ""}
    effect = card.effect or ", ".join(f"{name} = {value}" for name, value in card.arguments)
    return {"effect": effect or visible(card.raw_arguments or ""), "cost": card.cost}


def _line(language: Language, row: RequestRow, document: Mapping[str, Any]) -> str:
    request, effect = row.request, document["effect"]
    if len(effect) > MOST_OF_EFFECT:
        effect = f"{effect[: MOST_OF_EFFECT - 1]}…"
    tool, place = visible(request.tool), visible(row.session)
    deadline = f"{request.deadline_at:%Y-%m-%d %H:%M:%S}"
    until = "inbox.expired" if document["late"] else "inbox.until"
    votes = len(document["votes"])
    parts = [
        visible(request.id),
        said(language, f"inbox.{request.kind}", tool=tool),
        effect,
        document["cost"],
        said(language, "inbox.votes", count=votes, quorum=request.needs.quorum)
        if request.kind == "approval" and request.needs.quorum > 1
        else "",
        said(language, until, session=place, deadline=deadline),
    ]
    return "  ".join(part for part in parts if part)


@click.command("show", short_help="Show the card of a request.")
@click.argument("request")
@click.option("--session", help="Refuse a request of any other session.")
@click.option("--full", is_flag=True, help="Fold nothing, however long it is.")
@shared
@click.pass_obj
def show_command(given: Given, request: str, session: str | None, full: bool) -> None:
    """Show the card of a request: all that would happen, and what is known of it."""
    with office(given.settings()) as people:
        given.show(*asyncio.run(shown(people, request, session=session, whole=full)))


async def shown(
    people: People,
    request: str,
    *,
    session: str | None,
    whole: bool = False,
    to_stderr: bool = False,
) -> tuple[dict[str, Any], str]:
    """Give a request with its card and what is known beside it, as JSON and as text."""
    row = await people.engine.find_request(request, session=session)
    card = await people.card(row)
    more = await about(people, row)
    document = {**await record_of(people.engine, row), "card": card_document(card), **more}
    return document, card_text(laid_out(card, to_stderr=to_stderr, whole=whole), more)


def card_text(laid: str, more: Mapping[str, Any]) -> str:
    """Put what `about` gives under a card that is laid out."""
    return "\n".join([laid, *_about_lines(more)])


def _about_lines(more: Mapping[str, Any]) -> list[str]:
    question = more["question"] or {}
    facts = [
        ("wanted", question.get("wanted")),
        ("ended", more["ending"]),
    ]
    lines = [f"  {name:<11} {visible(str(value))}" for name, value in facts if value]
    if more["answers"]:
        lines.append("  answer with one of:")
        lines += [f"    {visible(each)}" for each in more["answers"]]
    return lines
