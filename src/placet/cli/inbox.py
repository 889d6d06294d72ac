"""The commands with which people look: inbox and show. Nothing here decides (H5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from placet.cli.cards import laid_out
from placet.cli.inside import became, run_shown
from placet.cli.listing import limit_option, more_line
from placet.cli.output import Given, shared
from placet.cli.status import about, few_left
from placet.cli.store import card_document, office, record_of, records
from placet.cli.words import said
from placet.core.card_words import Language
from placet.core.display import columns, visible
from placet.core.errors import NotFound, PlacetError
from placet.people import People
from placet.results import Listed, inbox_of
from placet.stores.store import RequestRow

#: How much of an effect stands in a line of the inbox; the card has all of it.
MOST_OF_EFFECT = 100

#: How wide the titles of a card are.
TITLE_COLUMNS = 11


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
        left = None if document["late"] else await people.left(row)
        document |= await _in_short(people, row)
        document["may_decide"] = None if left is None else sorted(left)
        few = few_left(people.language, row.request, left)
        lines.append(_line(people.language, row, document, few))
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


def _line(language: Language, row: RequestRow, document: Mapping[str, Any], few: str) -> str:
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
        few,
        said(language, until, session=place, deadline=deadline),
    ]
    return "  ".join(part for part in parts if part)


@click.command("show", short_help="Show the card of a request, or what happened in a run.")
@click.argument("request")
@click.option("--session", help="Refuse a request of any other session.")
@click.option("--full", is_flag=True, help="Fold nothing, however long it is.")
@shared
@click.pass_obj
def show_command(given: Given, request: str, session: str | None, full: bool) -> None:
    """Show the card of a request: all that would happen, and what is known of it.

    Of a run it shows the calls, how each ended, and the answer.
    """
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
    """Give a request with its card and what is known beside it, as JSON and as text; or a run."""
    try:
        row = await people.engine.find_request(request, session=session)
    except NotFound as error:
        if "run_id" not in error.ids:
            raise
        return await run_shown(people, await people.engine.find_run(error.ids["run_id"]))
    card = await people.card(row)
    more = {**await about(people, row), **await became(people, row)}
    document = {**await record_of(people.engine, row), "card": card_document(card), **more}
    laid = laid_out(card, to_stderr=to_stderr, whole=whole)
    return document, card_text(laid, more, card.language)


def card_text(laid: str, more: Mapping[str, Any], language: Language) -> str:
    """Put what `about` gives under a card that is laid out."""
    return "\n".join([laid, *_about_lines(more, language)])


def _about_lines(more: Mapping[str, Any], language: Language) -> list[str]:
    question = more["question"] or {}
    votes = [
        said(language, "about.voted", person=vote["by"], at=vote["at"], via=vote["via"])
        for vote in more.get("voted", ())
    ]
    facts = [
        ("about.wanted", question.get("wanted")),
        ("about.ended", more["ending"]),
        *(("about.vote", vote) for vote in votes),
    ]
    lines = [
        f"  {_padded(said(language, name))} {visible(str(value))}" for name, value in facts if value
    ]
    if result := more.get("result"):
        lines += [f"  {said(language, 'about.result')}"]
        lines += [f"    {line}" for line in result.split("\n")]
    if more["answers"]:
        lines.append(f"  {said(language, 'about.answers')}")
        lines += [f"    {visible(each)}" for each in more["answers"]]
    return lines


def _padded(title: str) -> str:
    """Give a title as wide as those of a card; its characters may be wide ones."""
    return title + " " * (TITLE_COLUMNS - columns(title))
