"""Standing grants at the command line: given with an approval, listed, taken back (G12)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from placet.cli.identity import who_decides
from placet.cli.output import Given, shared
from placet.cli.store import office
from placet.core.display import visible
from placet.core.errors import InvalidInput
from placet.core.state import Grant
from placet.core.values import GrantTerms
from placet.people import People
from placet.runtime.state_files import instant

F = TypeVar("F", bound=Callable[..., Any])

_DURATION = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LENGTHS = [(unit, timedelta(**{name: 1})) for unit, name in reversed(_UNITS.items())]


def granting(command: F) -> F:
    """Give a command the options with which an approval permits calls to come."""
    scope = click.option(
        "--always",
        type=click.Choice(["run", "session"]),
        help="Permit calls to come, too: in this run, or in this session.",
    )
    same = click.option(
        "--same", default="", metavar="NAMES", help="Arguments that must be as they are here."
    )
    any_ = click.option(
        "--any", "any_", default="", metavar="NAMES", help="Arguments that may be anything."
    )
    lasts = click.option(
        "--lasts", default="1h", show_default=True, metavar="TIME", help="Until when: 30m, 1h, 2d."
    )
    uses = click.option(
        "--uses", default=10, show_default=True, metavar="N", help="For how many calls."
    )
    children = click.option("--children", is_flag=True, help="In runs under it, too.")
    return scope(same(any_(lasts(uses(children(command))))))


def terms_of(
    always: Literal["run", "session"] | None,
    same: str,
    any_: str,
    lasts: str,
    uses: int,
    *,
    children: bool,
) -> GrantTerms | None:
    """Give the terms that the options name; raises InvalidInput."""
    if always is None:
        if same or any_ or children:
            raise InvalidInput("invalid_grant", "--same, --any and --children go with --always.")
        return None
    return GrantTerms(
        scope=always,
        lasts=_duration(lasts),
        uses=uses,
        same=_names(same),
        any=_names(any_),
        children=children,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for each in text.split(",") if (name := each.strip()))


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "invalid_grant", f"{text!r} is no time.", hint="Say 30m, 1h or 2d, for instance."
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def in_words(terms: GrantTerms) -> str:
    """Say what terms permit, for who is about to."""
    same = ", ".join(terms.same) or "(none)"
    any_ = ", ".join(terms.any) or "(none)"
    where = f"this {terms.scope}{' and runs under it' if terms.children else ''}"
    calls = "1 call" if terms.uses == 1 else f"{terms.uses} calls"
    return visible(
        f"With it up to {calls} to come of the same tool, in {where} and within"
        f" {lasting(terms.lasts)}, need no further approval: the same {same}; any {any_}.",
        keep_newlines=True,
    )


def lasting(lasts: timedelta) -> str:
    """Write a time out as `--lasts` takes it."""
    for unit, length in _LENGTHS:
        if lasts % length == timedelta(0):
            return f"{lasts // length}{unit}"
    return f"{lasts.total_seconds():g}s"


@click.command("grants", short_help="List what people have permitted for calls to come.")
@click.option("--session", help="Only the grants of this session.")
@shared
@click.pass_obj
def grants_command(given: Given, session: str | None) -> None:
    """List the standing grants, those that end first before the others."""
    with office(given.settings()) as people:
        found = asyncio.run(people.grants(session=session))
    document = {"grants": [grant_document(grant, place) for place, grant in found]}
    lines = [f"{visible(grant.id)}  {grant_line(grant, place)}" for place, grant in found]
    given.show(document, "\n".join(lines) or "no grants")


@click.command("revoke", short_help="Take a standing grant back.")
@click.argument("grant")
@click.option("--session", help="Refuse a grant of any other session.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file that holds your approver token, instead of PLACET_APPROVER_TOKEN.",
)
@shared
@click.pass_obj
def revoke_command(given: Given, grant: str, session: str | None, token_file: Path | None) -> None:
    """Take a standing grant back: it covers nothing any more."""
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def revoke(people: People) -> tuple[dict[str, Any], str]:
        await people.revoke(grant, session=session, by=who.decider())
        return {"grant": grant, "by": who.name}, f"{visible(grant)} revoked by {who.name}"

    with office(settings) as people:
        given.show(*asyncio.run(revoke(people)))


def grant_document(grant: Grant, session: str) -> dict[str, Any]:
    """Give a grant as JSON."""
    return {
        "grant": grant.id,
        "session": session,
        "by": grant.by,
        "request_id": grant.request,
        "tool": grant.tool,
        "run_id": grant.run,
        "same": list(grant.same),
        "any": list(grant.any),
        "children": grant.children,
        "left": grant.left,
        "until": instant(grant.until),
    }


def grant_line(grant: Grant, session: str) -> str:
    """Say on one line what a grant permits, where, until when, and who gave it."""
    names = f"same {', '.join(grant.same) or '-'}; any {', '.join(grant.any) or '-'}"
    where = f"session {session}" if grant.run is None else f"{grant.run} (session {session})"
    return visible(
        f"{grant.tool}  {names}  {grant.left} left until {grant.until:%Y-%m-%d %H:%M:%S} UTC"
        f"  in {where}{', and runs under it' if grant.children else ''}  by {grant.by}"
    )
