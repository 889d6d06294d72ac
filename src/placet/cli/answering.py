"""The commands with which people say what only they know: answer a question, settle an outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from placet.cli.deciding import asked, bound_digest, decision_of, identified
from placet.cli.identity import who_decides
from placet.cli.output import Given
from placet.cli.status import finding_word
from placet.cli.store import office
from placet.core.display import visible
from placet.core.errors import InvalidInput
from placet.core.state import Settled
from placet.people import People


@click.command("answer", short_help="Answer a question that a run asks.")
@click.argument("request")
@click.argument("text")
@identified
@click.pass_obj
def answer_command(
    given: Given,
    request: str,
    text: str,
    token_file: Path | None,
    session: str | None,
    digest: str | None,
) -> None:
    """Answer a question that a run asks; TEXT must be what the question wants.

    Whom the run acts for may answer, and the approvers. `placet reject` declines instead.
    """
    settings = given.settings()
    who = who_decides(settings, token_file)

    async def answer(people: People) -> tuple[dict[str, Any], str]:
        by = who.decider(session=session, digest=digest)
        found = await people.answer(request, by=by, text=text)
        return await decision_of(people, found, who, f"answered by {who.name}")

    with office(settings) as people:
        given.show(*asyncio.run(answer(people)))


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

    async def decide(people: People, bound: str | None) -> tuple[dict[str, Any], str]:
        by = who.decider(session=session, digest=bound)
        found = await people.settle(request, by=by, happened=finding, detail=told)
        after = found.row.request.state
        known = after.finding if isinstance(after, Settled) else word
        what = f"settled by {who.name}: {finding_word(known)}"
        return await decision_of(people, found, who, what)

    with office(settings) as people:
        asks = who.via == "terminal" and not yes
        bound = bound_digest(
            people,
            who,
            request,
            session,
            digest,
            word=word if asks else "",
            more=_said(word, told),
        )
        given.show(*asyncio.run(decide(people, bound)))


def _said(word: str, told: str) -> str:
    """Show what is about to be said of an outcome, and what the model is told with it."""
    if not told.strip():
        return f"You are about to say: {word}."
    return f"You are about to say: {word}, and this:\n{_indented(told)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in visible(text, keep_newlines=True).splitlines())


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
