"""The commands with which people decide: inbox, show, approve, reject, edit, settle, withdraw."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from placet.cli.identity import Identity, confirmed, who_decides
from placet.cli.office import Office, card_document, office
from placet.cli.output import Given, shared
from placet.cli.standing import about, finding_word, last_line, stored_reason
from placet.core.canonical import Unreadable, parse_arguments
from placet.core.card import Card, render_text, status_of
from placet.core.display import visible
from placet.core.errors import Conflict, InvalidInput
from placet.core.state import Open, Rejected, Request, Settled
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


@click.command("inbox", short_help="List the requests that wait for people.")
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


@click.command("show", short_help="Show the card of a request.")
@click.argument("request")
@click.option("--session", help="Refuse a request of any other session.")
@shared
@click.pass_obj
def show_command(given: Given, request: str, session: str | None) -> None:
    """Show the card of a request: all that would happen, and what is known of it."""

    async def look(desk: Office) -> tuple[dict[str, Any], str]:
        row = await desk.find(request, session=session)
        card = await desk.people.card(row)
        more = await about(desk, row)
        document = {**await desk.record(row), "card": _card_document(row, card), **more}
        return document, "\n".join([_card_text(row, card), *_about_lines(more)])

    with office(given.settings()) as desk:
        given.show(*asyncio.run(look(desk)))


def _card_text(row: RequestRow, card: Card) -> str:
    """Lay a card out; what is closed has no "then" after its deadline any more."""
    text = render_text(card)
    if isinstance(row.request.state, Open):
        return text
    before, then, after = text.rpartition(f"; then {card.then}")
    return f"{before}{after}" if then else text


def _card_document(row: RequestRow, card: Card) -> dict[str, Any]:
    waits = isinstance(row.request.state, Open)
    return card_document(card if waits else replace(card, then=""))


def _about_lines(more: Mapping[str, Any]) -> list[str]:
    facts = [("key", more["idempotency_key"]), ("ended", more["ending"])]
    lines = [f"  {name:<11} {visible(str(value))}" for name, value in facts if value]
    if more["answers"]:
        lines.append("  answer with one of:")
        lines += [f"    {visible(each)}" for each in more["answers"]]
    return lines


# --- deciding ---------------------------------------------------------------------------------


@click.command("approve", short_help="Approve the action that a request stands for.")
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
        row = await desk.find(request, session=session)
        after = await desk.people.approve(row, by=who.name, digest=bound, via=who.via)
        return await _decision(desk, row, after, who, f"approved by {who.name}")

    with office(settings) as desk:
        asks = who.via == "terminal" and not yes
        bound = _bound(desk, who, request, session, digest, word="approve" if asks else "")
        given.show(*asyncio.run(decide(desk, bound)))


@click.command("reject", short_help="Say no, for a reason that the model is told.")
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
        row = await desk.find(request, session=session)
        after = await desk.people.reject(
            row, by=who.name, reason=reason, digest=digest, via=who.via
        )
        stored = await stored_reason(desk, row, after)
        before = isinstance(row.request.state, Rejected)
        if stored != reason.strip():
            raise Conflict(
                "already_rejected",
                f"Already rejected by {who.name}: {stored}",
                hint="That reason stands, and the model is told it; the new one is not recorded.",
                request_id=after.id,
            )
        already = "already " if before else ""
        return await _decision(desk, row, after, who, f"{already}rejected by {who.name}: {stored}")

    with office(settings) as desk:
        given.show(*asyncio.run(decide(desk)))


@click.command("withdraw", short_help="Take your approval back, before it is spent.")
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
        row = await desk.find(request, session=session)
        if digest is not None and digest != row.request.digest:
            raise InvalidInput("digest_mismatch", "The request has another digest.")
        after = await desk.people.withdraw(row, by=who.name)
        return await _decision(desk, row, after, who, f"{who.name}'s approval is withdrawn")

    with office(settings) as desk:
        given.show(*asyncio.run(decide(desk)))


@click.command("settle", short_help="Say what became of an unknown outcome.")
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
        row = await desk.find(request, session=session)
        after = await desk.people.settle(
            row, by=who.name, happened=finding, detail=told, digest=bound, via=who.via
        )
        found = after.state.finding if isinstance(after.state, Settled) else word
        what = f"settled by {who.name}: {finding_word(found)}"
        return await _decision(desk, row, after, who, what)

    with office(settings) as desk:
        asks = who.via == "terminal" and not yes
        bound = _bound(desk, who, request, session, digest, word=word if asks else "")
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


@click.command("edit", short_help="Change the arguments, as a new version.")
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
        row = await desk.find(request, session=session)
        return values if arguments is not None else {**await _stored(desk, row), **values}

    async def decide(
        desk: Office, new: Mapping[str, Any], bound: str | None
    ) -> tuple[dict[str, Any], str]:
        row = await desk.find(request, session=session)
        after = await desk.people.edit(row, by=who.name, arguments=new, digest=bound, via=who.via)
        return await _decision(desk, row, after, who, f"edited by {who.name}")

    with opened(settings, app) as placet:
        desk = Office(engine=placet.engine, people=placet.people)
        new = asyncio.run(changed_arguments(desk))
        asks = who.via == "terminal" and not yes
        more = _shown("new arguments", new)
        word = "edit" if asks else ""
        bound = _bound(desk, who, request, session, digest, word=word, more=more)
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
        raise InvalidInput(
            "invalid_assignment",
            f"{text!r} is not of the form name=JSON.",
            hint=f"""Say --set '{text or "name"}=50', or --set '{text or "name"}="a text"'.""",
        )
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
    who: Identity,
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
        row = await desk.find(request, session=session)
        return row, await desk.people.card(row)

    row, card = asyncio.run(look())
    if not isinstance(row.request.state, Open):
        return None
    desk.people.check_authority(row, by=who.name)
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
    named = {"by": who.name, "via": who.via, "card": _card_document(shown, card)}
    document: dict[str, Any] = {**found, **named}
    lines = [f"{after.id} {visible(what)}  ({status_of(after)}, via {who.via})"]
    if found["successor"] is not None:
        document["successor_status"] = card.status
        lines.append(f"  new version  {card.request}  ({card.status})")
    lines.append(f"  tool         {card.tool}")
    lines += [f"    {name} = {value}" for name, value in card.arguments]
    if isinstance(shown.request.state, Open) and shown.request.kind == "approval":
        lines.append(f"  votes        {len(card.votes)} of {card.quorum}")
    lines.append(f"  digest       {card.digest}")
    lines.append(f"  run          {await last_line(desk, shown, shown.request)}")
    return document, "\n".join(lines)
