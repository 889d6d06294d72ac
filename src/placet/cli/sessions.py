"""Sessions at the command line: which one is meant where none is named, and the command end."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from placet.cli.output import Given, shared
from placet.cli.runs import run_document, standing_in
from placet.cli.status import unsettled_lines
from placet.cli.store import office
from placet.core.display import visible
from placet.core.values import Mode
from placet.runtime.authority import refuse_under_mark
from placet.runtime.engine import Engine
from placet.settings import current_account

F = TypeVar("F", bound=Callable[..., Any])

#: How much of a directory's name, and of the sum of its path, the name of its session has.
NAME_CHARACTERS = 32
SUM_CHARACTERS = 8

_UNPLAIN = re.compile(r"[^A-Za-z0-9_.-]+")


def workspace_session(directory: Path | None = None) -> str:
    """Name the session of a directory, by default the working one: its name, and a short hash.

    The hash is of the resolved path, so that directories that share a store share no session.
    """
    resolved = (directory or Path.cwd()).resolve()
    digest = sha256(os.fsencode(resolved)).hexdigest()[:SUM_CHARACTERS]
    name = _UNPLAIN.sub("-", resolved.name)[:NAME_CHARACTERS].strip("-.")
    return f"{name or 'session'}-{digest}"


def session_here(engine: Engine) -> str:
    """Name the working directory's session: the first one that has not been ended."""
    name = workspace_session()
    for number in count(1):
        numbered = name if number == 1 else f"{name}-{number}"
        state = engine.store.session(engine.tenant, numbered)
        if state is None or not state.ended:
            return numbered
    raise AssertionError("numbers do not end")


def session_option(command: F) -> F:
    """Give a command the option to name its session."""
    told = "The session it belongs to; by default that of the working directory."
    return click.option("--session", help=told)(command)


def mode_option(command: F) -> F:
    """Give a command the option to say how a run goes about its message."""
    told = "How the run goes about it; by default as its agent says."
    return click.option("--mode", type=click.Choice(get_args(Mode)), help=told)(command)


@click.command("end", short_help="End a session.")
@click.argument("session")
@click.option("--cause", default="", help="Why; the record says it.")
@shared
@click.pass_obj
def end_command(given: Given, session: str, cause: str) -> None:
    """End a session: its runs are cancelled, and it takes no further message.

    What a run has begun is carried to its outcome first.
    """
    refuse_under_mark()
    with office(given.settings()) as people:
        ended = people.end_session(session, by=current_account(), cause=cause)
        found = [(row, standing_in(people.engine.store, row)) for row in asyncio.run(ended)]
    lines = [f"session {visible(session)} is ended, and takes no further message"]
    for row, standing in found:
        ends = "" if standing.word == "over" else "ends once what it has begun has its outcome: "
        lines += [f"  {row.run.id} {ends}{standing.detail}", *unsettled_lines(standing)]
    documents = [run_document(row, standing) for row, standing in found]
    given.show({"session": session, "ended": True, "runs": documents}, "\n".join(lines))
