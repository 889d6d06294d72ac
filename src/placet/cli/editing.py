"""The command edit: other arguments, as a new version of the action (G5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from placet.cards import telling_of
from placet.cli.apps import app_option, opened
from placet.cli.deciding import asked, bound_digest, decision_of, identified, made_no_version
from placet.cli.identity import who_decides
from placet.cli.output import Exit, Given
from placet.core.canonical import Unreadable, parse_arguments
from placet.core.card import fields_of
from placet.core.card_parts import argument_rows
from placet.core.card_surfaces import plain_rows
from placet.core.errors import InvalidInput
from placet.core.masking import Masking, masked
from placet.people import People
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow


@click.command("edit", short_help="Change the arguments, as a new version.")
@click.argument("request")
@click.option("--set", "changed", multiple=True, metavar="NAME=JSON", help="Change one argument.")
@click.option("--arguments", metavar="JSON", help="Put these arguments in place of all.")
@app_option
@identified
@asked
@click.pass_obj
def edit_command(
    given: Given,
    request: str,
    changed: tuple[str, ...],
    arguments: str | None,
    app: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
    yes: bool,
) -> int:
    """Change the arguments: a new version takes the request's place, with your vote for it.

    Where policy denies what is proposed, the request is closed all the same, and nothing runs.
    Values are JSON: --set 'amount=50' is a number, --set 'amount="50"' is a text.
    """
    if bool(changed) == (arguments is not None):
        raise click.UsageError("Say what to change: either --set name=JSON, or --arguments JSON.")
    values = _object(arguments) if arguments is not None else dict(map(assignment, changed))
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def changed_arguments(people: People) -> tuple[Mapping[str, Any], str]:
        row = await people.engine.find_request(request, session=session)
        stored = {} if arguments is not None else await stored_arguments(people.engine, row)
        new = {**stored, **values}
        telling = await telling_of(people.engine, row, language=people.language)
        return new, arguments_text("new arguments", new, telling.masking)

    async def decide(people: People, new: Mapping[str, Any], bound: str | None) -> Exit:
        by = who.decider(session=session, digest=bound)
        found = await people.edit(request, by=by, arguments=new)
        what = f"edited by {who.name}"
        given.show(*await decision_of(people, found, who, what, new))
        return Exit.REFUSED if made_no_version(found) else Exit.DONE

    with opened(settings, app) as placet:
        people = placet.people
        new, more = asyncio.run(changed_arguments(people))
        word = "edit" if who.via == "terminal" and not yes else ""
        bound = bound_digest(people, who, request, session, digest, word=word, more=more)
        return asyncio.run(decide(people, new, bound))


async def stored_arguments(engine: Engine, row: RequestRow) -> Mapping[str, Any]:
    """Give the arguments as they are frozen; raises InvalidInput where they cannot be read."""
    body = json.loads(await engine.payload(row.session, row.request.action_ref))
    found = body.get("arguments")
    if not isinstance(found, dict):
        raise InvalidInput(
            "edit_needs_all",
            "What cannot be read has no single arguments to change.",
            hint="Give all of them with --arguments JSON.",
            request_id=row.request.id,
        )
    return found


def assignment(text: str) -> tuple[str, Any]:
    """Read `name=JSON`; raises InvalidInput."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InvalidInput(
            "invalid_assignment",
            f"{text!r} is not of the form name=JSON.",
            hint=f"""Say --set '{text or "name"}=50', or --set '{text or "name"}="a text"'.""",
        )
    try:
        json.loads(value)
        return name, parse_arguments(f'{{"value": {value}}}')["value"]
    except (ValueError, RecursionError, Unreadable) as error:
        shown = masked({name: value})
        said = shown[name] if isinstance(shown, dict) and name in shown else value
        raise InvalidInput(
            "value_not_json",
            f"The value of {name} is not JSON: {said!r}.",
            hint=f"""Quote a text: --set '{name}={json.dumps(said, ensure_ascii=False)}'.""",
        ) from error


def _object(text: str) -> Mapping[str, Any]:
    try:
        return parse_arguments(text)
    except Unreadable as error:
        raise InvalidInput(
            "value_not_json", f"The arguments are no JSON object: {error}."
        ) from error


def arguments_text(title: str, arguments: Mapping[str, Any], masking: Masking) -> str:
    """Lay arguments out as the card of their request does, under a title."""
    rows = argument_rows(masking.language, fields_of(masking, arguments))
    return f"  {title}\n{plain_rows(rows)}"
