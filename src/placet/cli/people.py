"""The commands with which people decide: inbox, show, approve, reject, edit, settle, withdraw."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from placet.cli.identity import Identity, confirmed, who_decides
from placet.cli.office import Office, card_document, office
from placet.cli.output import Given, shared
from placet.core.canonical import Unreadable, parse_arguments
from placet.core.card import Card, render_text, status_of
from placet.core.display import visible
from placet.core.errors import InvalidInput
from placet.core.state import Open, Request
from placet.stores.store import RequestRow

F = TypeVar("F", bound=Callable[..., Any])

#: How many requests the inbox lists.
INBOX = 1_000


def identified(command: F) -> F:
    """Give a command the options of a decision: a token, and the session it is held to (G11)."""
    token = click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="A file that holds your approver token, instead of PLACET_APPROVER_TOKEN.",
    )
    session = click.option("--session", help="Refuse a request of any other session.")
    digest = click.option("--digest", help="Refuse unless the action has this digest.")
    return token(session(digest(shared(command))))


def asked(command: F) -> F:
    """Give a command the option to ask nothing at a terminal."""
    return click.option("--yes", is_flag=True, help="Ask nothing, at a terminal too.")(command)


# --- looking ----------------------------------------------------------------------------------


@click.command("inbox")
@click.option("--session", help="Only requests of this session.")
@shared
@click.pass_obj
def inbox_command(given: Given, session: str | None) -> None:
    """List the requests that wait for people, the nearest deadline first."""

    async def look(desk: Office) -> tuple[list[RequestRow], list[dict[str, Any]]]:
        engine = desk.engine
        found = await engine.read(
            engine.store.requests, engine.tenant, session=session, limit=INBOX
        )
        rows = [row for row in found if isinstance(row.request.state, Open)]
        return rows, await desk.records(rows)

    with office(given.settings()) as desk:
        rows, records = asyncio.run(look(desk))
    lines = [_line(row) for row in rows]
    given.show({"requests": records}, "\n".join(lines) or "Nothing waits.")


def _line(row: RequestRow) -> str:
    request = row.request
    late = f"{request.deadline_at:%Y-%m-%d %H:%M:%S} UTC"
    what = "settlement of " if request.kind == "settlement" else ""
    return (
        f"{visible(request.id)}  {what}{visible(request.tool)}"
        f"  session {visible(row.session)}, until {late}"
    )


@click.command("show")
@click.argument("request")
@click.option("--session", help="Refuse a request of any other session.")
@shared
@click.pass_obj
def show_command(given: Given, request: str, session: str | None) -> None:
    """Show the card of a request: all that would happen, and what is known of it."""

    async def look(desk: Office) -> tuple[dict[str, Any], str]:
        row = await desk.engine.find_request(request, session=session)
        card = await desk.people.card(row)
        document = {**await desk.record(row), "card": card_document(card)}
        return document, render_text(card)

    with office(given.settings()) as desk:
        given.show(*asyncio.run(look(desk)))


# --- deciding ---------------------------------------------------------------------------------


@click.command("approve")
@click.argument("request")
@identified
@asked
@click.pass_obj
def approve_command(
    given: Given,
    request: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
    yes: bool,
) -> None:
    """Approve exactly the action that a request stands for.

    At a terminal the card is shown, and only the exact word approves, unless --digest quotes the
    action or --yes is given.
    """
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def decide(desk: Office, bound: str | None) -> tuple[dict[str, Any], str]:
        row = await desk.engine.find_request(request, session=session)
        after = await desk.people.approve(row, by=who.name, digest=bound, via=who.via)
        return await _decision(desk, row, after, who, f"approved by {who.name}")

    with office(settings) as desk:
        asks = who.via == "terminal" and not yes
        bound = _bound(desk, request, session, digest, word="approve" if asks else "")
        given.show(*asyncio.run(decide(desk, bound)))


@click.command("reject")
@click.argument("request")
@click.option("--reason", required=True, help="Why; the model is told it.")
@identified
@click.pass_obj
def reject_command(
    given: Given,
    request: str,
    reason: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
) -> None:
    """Say no, for a reason that the model is told."""
    settings = given.settings()
    who = who_decides(settings, token_file)
    if not reason.strip():
        raise InvalidInput("no_reason", "A rejection needs a reason.", request_id=request)

    async def decide(desk: Office) -> tuple[dict[str, Any], str]:
        row = await desk.engine.find_request(request, session=session)
        after = await desk.people.reject(
            row, by=who.name, reason=reason, digest=digest, via=who.via
        )
        return await _decision(desk, row, after, who, f"rejected by {who.name}: {reason}")

    with office(settings) as desk:
        given.show(*asyncio.run(decide(desk)))


@click.command("withdraw")
@click.argument("request")
@identified
@click.pass_obj
def withdraw_command(
    given: Given,
    request: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
) -> None:
    """Take your approval back, before it is spent."""
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def decide(desk: Office) -> tuple[dict[str, Any], str]:
        row = await desk.engine.find_request(request, session=session)
        if digest is not None and digest != row.request.digest:
            raise InvalidInput("digest_mismatch", "The request has another digest.")
        after = await desk.people.withdraw(row, by=who.name)
        return await _decision(desk, row, after, who, f"{who.name}'s approval is withdrawn")

    with office(settings) as desk:
        given.show(*asyncio.run(decide(desk)))


@click.command("settle")
@click.argument("request")
@click.option("--happened", metavar="RESULT", help="It happened, and this was the result.")
@click.option("--did-not-happen", is_flag=True, help="It did not happen.")
@click.option("--abandon", is_flag=True, help="Nobody will ever know.")
@click.option("--detail", default="", help="With one of the last two: what the model is told.")
@identified
@asked
@click.pass_obj
def settle_command(
    given: Given,
    request: str,
    happened: str | None,
    did_not_happen: bool,
    abandon: bool,
    detail: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
    yes: bool,
) -> None:
    """Say what became of an action whose outcome is unknown."""
    word, finding, told = _finding(happened, did_not_happen, abandon, detail)
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def decide(desk: Office, bound: str | None) -> tuple[dict[str, Any], str]:
        row = await desk.engine.find_request(request, session=session)
        after = await desk.people.settle(
            row, by=who.name, happened=finding, detail=told, digest=bound, via=who.via
        )
        return await _decision(desk, row, after, who, f"settled by {who.name}: {word}")

    with office(settings) as desk:
        asks = who.via == "terminal" and not yes
        bound = _bound(desk, request, session, digest, word=word if asks else "")
        given.show(*asyncio.run(decide(desk, bound)))


def _finding(
    happened: str | None, did_not_happen: bool, abandon: bool, detail: str
) -> tuple[str, bool | None, str]:
    """Read what was found, of which there is no default; raises UsageError."""
    if (happened is not None) + did_not_happen + abandon != 1:
        raise click.UsageError("Say one of --happened RESULT, --did-not-happen and --abandon.")
    if happened is not None:
        if detail:
            raise click.UsageError("--happened has the result already; leave --detail out.")
        if not happened.strip():
            raise InvalidInput("no_result", "Say what the result was: the model is told it.")
        return "happened", True, happened
    return ("did-not-happen", False, detail) if did_not_happen else ("abandon", None, detail)


@click.command("edit")
@click.argument("request")
@click.option("--set", "changed", multiple=True, metavar="NAME=JSON", help="Change one argument.")
@click.option("--arguments", metavar="JSON", help="Put these arguments in place of all.")
@click.option(
    "--app", metavar="MODULE:NAME", default="", help="Where the agents are, as Python code."
)
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
) -> None:
    """Change the arguments: a new version takes the request's place, with your vote for it.

    Values are JSON: --set 'amount=50' is a number, --set 'amount="50"' is a text.
    """
    from placet.cli.apps import opened

    if bool(changed) == (arguments is not None):
        raise click.UsageError("Say what to change: either --set name=JSON, or --arguments JSON.")
    values = _object(arguments) if arguments is not None else dict(map(_assignment, changed))
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def changed_arguments(desk: Office) -> Mapping[str, Any]:
        row = await desk.engine.find_request(request, session=session)
        return values if arguments is not None else {**await _stored(desk, row), **values}

    async def decide(
        desk: Office, new: Mapping[str, Any], bound: str | None
    ) -> tuple[dict[str, Any], str]:
        row = await desk.engine.find_request(request, session=session)
        after = await desk.people.edit(row, by=who.name, arguments=new, digest=bound, via=who.via)
        return await _decision(desk, row, after, who, f"edited by {who.name}")

    with opened(settings, app) as placet:
        desk = Office(engine=placet.engine, people=placet.people)
        new = asyncio.run(changed_arguments(desk))
        asks = who.via == "terminal" and not yes
        more = _shown("new arguments", new)
        bound = _bound(desk, request, session, digest, word="edit" if asks else "", more=more)
        given.show(*asyncio.run(decide(desk, new, bound)))


async def _stored(desk: Office, row: RequestRow) -> Mapping[str, Any]:
    body = json.loads(await desk.engine.payload(row.session, row.request.action_ref))
    found = body.get("arguments")
    if not isinstance(found, dict):
        raise InvalidInput(
            "unreadable_arguments",
            "What cannot be read has no single arguments to change.",
            hint="Give all of them with --arguments JSON.",
            request_id=row.request.id,
        )
    return found


def _assignment(text: str) -> tuple[str, Any]:
    """Read `name=JSON`; raises InvalidInput."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InvalidInput("invalid_assignment", f"{text!r} is not of the form name=JSON.")
    try:
        json.loads(value)
        return name, parse_arguments(f'{{"value": {value}}}')["value"]
    except (ValueError, RecursionError, Unreadable) as error:
        raise InvalidInput(
            "value_not_json",
            f"The value of {name} is not JSON: {value!r}.",
            hint=f"""Quote a text: --set '{name}={json.dumps(value, ensure_ascii=False)}'.""",
        ) from error


def _object(text: str) -> Mapping[str, Any]:
    try:
        return parse_arguments(text)
    except Unreadable as error:
        raise InvalidInput(
            "value_not_json", f"The arguments are no JSON object: {error}."
        ) from error


def _shown(title: str, arguments: Mapping[str, Any]) -> str:
    from placet.core.display import masked

    shown = masked(dict(arguments))
    assert isinstance(shown, dict), "a masked object is an object"
    lines = [
        f"    {visible(name)} = {visible(json.dumps(value, ensure_ascii=False))}"
        for name, value in shown.items()
    ]
    return "\n".join([f"  {title}", *lines])


# --- what was shown, and what a decision says --------------------------------------------------


def _bound(
    desk: Office,
    request: str,
    session: str | None,
    digest: str | None,
    *,
    word: str,
    more: str = "",
) -> str | None:
    """Give the digest that a decision is bound to: the one quoted, or that of the card shown.

    Where there is a `word`, a request that waits is shown, and exactly that must be typed.
    """
    # The question is asked outside of the event loop, in which an interrupt would not end it.
    if digest is not None or not word:
        return digest

    async def look() -> tuple[RequestRow, Card]:
        row = await desk.engine.find_request(request, session=session)
        return row, await desk.people.card(row)

    row, card = asyncio.run(look())
    if not isinstance(row.request.state, Open):
        return None
    confirmed(word, "\n".join(part for part in (render_text(card), more) if part))
    return card.digest


async def _decision(
    desk: Office, row: RequestRow, after: Request, who: Identity, what: str
) -> tuple[dict[str, Any], str]:
    """Give what was decided: the request as it now is, with what it stands for."""
    found = await desk.record_of(row, after)
    shown = RequestRow(tenant=row.tenant, session=row.session, request=after)
    if found["successor"] is not None:
        shown = await desk.engine.find_request(found["successor"])
    card = await desk.people.card(shown)
    document = {**found, "by": who.name, "via": who.via, "card": card_document(card)}
    lines = [f"{after.id} {visible(what)}  ({status_of(after)}, via {who.via})"]
    if found["successor"] is not None:
        document["successor_status"] = card.status
        lines.append(f"  new version  {card.request}  ({card.status})")
    lines.append(f"  tool         {card.tool}")
    lines += [f"    {name} = {value}" for name, value in card.arguments]
    if isinstance(shown.request.state, Open) and shown.request.kind == "approval":
        lines.append(f"  votes        {len(card.votes)} of {card.quorum}")
    lines.append(f"  digest       {card.digest}")
    lines.append(f"  run          {card.run}: `placet resume {card.run}`, or a worker, goes on")
    return document, "\n".join(lines)
