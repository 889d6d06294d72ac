"""The commands with which people decide on a request: approve, reject, withdraw.

Here too is what all decisions share: their options, and what was shown before and is said after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from placet.cli.identity import Identity, confirmed, who_decides
from placet.cli.office import Office, card_document, office
from placet.cli.output import Given, shared
from placet.cli.standing import last_line, stored_reason
from placet.core.card import Card, render_text, status_of
from placet.core.display import visible
from placet.core.errors import Conflict, InvalidInput
from placet.core.state import Open, Rejected, Request
from placet.stores.store import RequestRow

F = TypeVar("F", bound=Callable[..., Any])


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
        return await decision_of(desk, row, after, who, f"approved by {who.name}")

    with office(settings) as desk:
        asks = who.via == "terminal" and not yes
        bound = bound_digest(desk, who, request, session, digest, word="approve" if asks else "")
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
        return await decision_of(
            desk, row, after, who, f"{already}rejected by {who.name}: {stored}"
        )

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
        return await decision_of(desk, row, after, who, f"{who.name}'s approval is withdrawn")

    with office(settings) as desk:
        given.show(*asyncio.run(decide(desk)))


# --- what was shown, and what a decision says --------------------------------------------------


def bound_digest(
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


async def decision_of(
    desk: Office, row: RequestRow, after: Request, who: Identity, what: str
) -> tuple[dict[str, Any], str]:
    """Give what was decided: the request as it now is, with what it stands for."""
    found = await desk.record_of(row, after)
    shown = RequestRow(tenant=row.tenant, session=row.session, request=after)
    if found["successor"] is not None:
        shown = await desk.engine.find_request(found["successor"])
    card = await desk.people.card(shown)
    named = {"by": who.name, "via": who.via, "card": card_document(shown, card)}
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
