"""The commands with which people decide on a request: approve, reject, withdraw.

Here too is what all decisions share: their options, and what was shown before and is said after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from placet.cards import telling_of
from placet.cli.cards import laid_out
from placet.cli.granting import grant_document, grant_line, granting, in_words, terms_of
from placet.cli.identity import FINDINGS, Identity, confirmed, who_decides
from placet.cli.output import Given, runnable, shared
from placet.cli.status import last_line
from placet.cli.store import card_document, office, record_of
from placet.core.card import Card, Field, fields_of, status_of
from placet.core.card_parts import argument_rows
from placet.core.card_surfaces import plain_rows
from placet.core.display import visible
from placet.core.state import Answered, Open, Rejected, Request, Superseded
from placet.people import Decided, People
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
@granting
@click.pass_obj
def approve_command(
    given: Given,
    request: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
    yes: bool,
    always: Literal["run", "session"] | None,
    same: str,
    any_: str,
    lasts: str,
    uses: int,
    children: bool,
) -> None:
    """Approve exactly the action that a request stands for.

    At a terminal the card is shown, and only the exact word approves, unless --digest quotes the
    action or --yes is given. --always permits calls to come, too: --same and --any must name all
    of their arguments.
    """
    terms = terms_of(always, same, any_, lasts, uses, children=children)
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def decide(people: People, bound: str | None) -> tuple[dict[str, Any], str]:
        by = who.decider(session=session, digest=bound)
        found = await people.approve(request, by=by, grant=terms)
        return await decision_of(people, found, who, f"approved by {who.name}")

    with office(settings) as people:
        word = "approve" if who.via == "terminal" and not yes else ""
        more = "" if terms is None else in_words(terms)
        bound = bound_digest(people, who, request, session, digest, word=word, more=more)
        given.show(*asyncio.run(decide(people, bound)))


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

    async def decide(people: People) -> tuple[dict[str, Any], str]:
        by = who.decider(session=session, digest=digest)
        found = await people.reject(request, by=by, reason=reason)
        return await decision_of(people, found, who, f"rejected by {who.name}")

    with office(settings) as people:
        given.show(*asyncio.run(decide(people)))


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

    async def decide(people: People) -> tuple[dict[str, Any], str]:
        found = await people.withdraw(request, by=who.decider(session=session, digest=digest))
        return await decision_of(people, found, who, f"{who.name}'s approval is withdrawn")

    with office(settings) as people:
        given.show(*asyncio.run(decide(people)))


# --- what was shown, and what a decision says --------------------------------------------------


def bound_digest(
    people: People,
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
        row = await people.engine.find_request(request, session=session)
        return row, await people.card(row)

    row, card = asyncio.run(look())
    if not isinstance(row.request.state, Open):
        return None
    kind = "settlement" if word in FINDINGS else "approval"
    if row.request.kind != kind:
        return card.digest  # Refused at once, with what to do: nothing is typed in vain.
    people.check_authority(row, by=who.name)
    shown = laid_out(card, to_stderr=True)
    confirmed(word, "\n".join(part for part in (shown, more) if part))
    return card.digest


def made_no_version(found: Decided) -> bool:
    """Say whether an edit closed its request, and no new version took its place (G5)."""
    after = found.row.request.state
    return isinstance(after, Superseded) and after.successor is None


async def decision_of(
    people: People, found: Decided, who: Identity, what: str, new: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], str]:
    """Give what was decided: the request as it now is, with what it stands for.

    An edit that made no new version says why: policy denied it, or it is remembered as refused; and
    what it had proposed. Its `new` arguments are on no record, and what they keep secret is not
    told, either.
    """
    shown, after, engine = found.row, found.row.request, people.engine
    document = {**await record_of(engine, shown), "code": found.code, "told": None}
    telling = await telling_of(engine, shown, language=people.language)
    said = await telling.text(_words_of(after))
    what = visible(f"{what}: {said.strip()}" if said else what)
    lines = [f"{after.id} {what}  ({status_of(after)}, via {who.via})"]
    if found.grant is not None:
        document["grant"] = grant_document(found.grant, shown.session)
        lines.append(f"  grant        {found.grant.id}: {grant_line(found.grant, shown.session)}")
        revoke = runnable(f"`placet revoke {found.grant.id}` takes it back")
        lines.append(f"               {revoke}")
    masking = telling.masking.knowing(new or {})
    if made_no_version(found):
        told = visible(masking.told(found.told or ""), keep_newlines=True)
        document["told"] = told
        lines.append(f"  no new version: {found.code}")
        lines += [f"    {line}" for line in told.splitlines()]
    elif isinstance(after.state, Superseded) and after.state.successor is not None:
        shown = await engine.find_request(after.state.successor)
        document["successor_status"] = status_of(shown.request)
        lines.append(f"  new version  {shown.request.id}  ({status_of(shown.request)})")
    card = await people.card(shown)
    document |= {"by": who.name, "via": who.via, "card": card_document(card)}
    lines.append(f"  tool         {card.tool}")
    fields: Sequence[Field] = card.fields
    if new is not None and made_no_version(found):
        fields = fields_of(masking, new)
        document["proposed"] = [asdict(field) for field in fields]
        lines.append("  proposed, and not asked about:")
    if fields:
        lines.append(plain_rows(argument_rows(card.language, fields)))
    if isinstance(shown.request.state, Open) and shown.request.kind == "approval":
        lines.append(f"  votes        {len(card.votes)} of {card.quorum}")
    lines.append(f"  digest       {card.digest}")
    lines.append(f"  run          {await last_line(people, shown)}")
    return document, "\n".join(lines)


def _words_of(request: Request) -> str | None:
    """Name the text that a person decided with: the reason of a no, or an answer."""
    match request.state:
        case Rejected(reason_ref=ref) | Answered(answer_ref=ref):
            return ref
        case _:
            return None
