"""What the command line prints, and the codes it ends with.

A command prints one document: as JSON, in ASCII alone, with `--json`, and else as text. What people
are told beside it (progress, questions, warnings, errors) goes to standard error.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from placet.core import errors

if TYPE_CHECKING:
    from placet.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

#: The columns of a terminal whose width nobody knows.
WIDTH = 80


class Exit(IntEnum):
    """The exit codes, which docs/reference/cli.md explains."""

    DONE = 0
    WRONG = 1
    MISTAKE = 2
    REFUSED = 3
    NOT_PERMITTED = 4
    NOT_FOUND = 5
    TROUBLE = 6
    IN_PROGRESS = 7
    WAITING = 10
    UNFINISHED = 11
    RESTING = 12
    INTERRUPTED = 130


#: What each exit code means, as the reference says it.
MEANINGS: Mapping[Exit, str] = {
    Exit.DONE: "done; for `run` and `resume`: the run ended with its answer",
    Exit.WRONG: "an unexpected error; or `doctor`, `audit verify`, `audit verify-receipt`, `keys"
    " seal`, `policy check` or `policy test` found something wrong",
    Exit.MISTAKE: "a mistake in the command, its input, the settings or the app; or a package that"
    " the app needs is not installed",
    Exit.REFUSED: "refused: another decision stands, or it is too late; or what an `edit` proposed"
    " is denied",
    Exit.NOT_PERMITTED: "refused: you may not decide this, or nobody knows who you are",
    Exit.NOT_FOUND: "there is no such request, run, session or store",
    Exit.TROUBLE: "the world's trouble: the store or the model failed, or the extra `crypto`, which"
    " the store or a key needs, is not installed; nothing is lost",
    Exit.IN_PROGRESS: "another process is on it",
    Exit.WAITING: "`run`, `resume`, `chat`: the run waits for people (`approval_required`)",
    Exit.UNFINISHED: "`run`, `resume`: the run ended without its answer; `stop` says why; `erase`:"
    " say it again, for what was erased may still stand on the disk",
    Exit.RESTING: "`run`, `resume`, `chat`: the run rests, and goes on later",
    Exit.INTERRUPTED: "interrupted from the keyboard",
}

_CODES: tuple[tuple[type[errors.PlacetError], Exit], ...] = (
    (errors.NotFound, Exit.NOT_FOUND),
    (errors.Mistake, Exit.MISTAKE),
    (errors.Trouble, Exit.TROUBLE),
    (errors.InProgress, Exit.IN_PROGRESS),
    (errors.NotPermitted, Exit.NOT_PERMITTED),
    (errors.Refusal, Exit.REFUSED),
)


def exit_code_of(error: errors.PlacetError) -> Exit:
    """Give the code that a command ends with because of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.WRONG)


#: The commands that need the agents' code.
NEEDS_APP = frozenset(("run", "resume", "chat", "worker", "edit"))

_COMMAND = re.compile(r"`(placet ([a-z-]+)[^`]*)`")


def runnable(text: str) -> str:
    """Give a text of ours with its commands, in back quotes, as they can be run here."""
    context = click.get_current_context(silent=True)
    given = None if context is None else context.find_object(Given)
    return text if given is None else given.runnable(text)


@dataclass(slots=True)
class Given:
    """What was given of the options that every command has."""

    store: str = ""
    as_json: bool = False
    language: str = ""
    app: str = ""
    _set_app: str | None = None

    def settings(self) -> Settings:
        """Load the settings, with what was named here in their place; raises InvalidSetting."""
        from dataclasses import replace

        from placet.settings import Settings, language_of

        found = Settings.load()
        if self.language:
            found = replace(found, language=language_of(self.language))
        return replace(found, store=self.store) if self.store else found

    def runnable(self, text: str) -> str:
        """Give a text with its commands, in back quotes, as they can be run here.

        What was given on this command line, and the settings do not say, stands in them: the app,
        for a command that needs one, and the store.
        """
        return _COMMAND.sub(self._with_options, text)

    def _with_options(self, found: re.Match[str]) -> str:
        command, name = found[1], found[2]
        if name in NEEDS_APP and " --app" not in command and (app := self._app()):
            command += f" --app {app}"
        if self.store and " --store" not in command:
            command += f" --store {shlex.quote(self.store)}"
        return f"`{command}`"

    def _app(self) -> str:
        """Name the app as it must be given; empty where the settings name the same one."""
        if self._set_app is None:
            try:
                self._set_app = self.settings().app
            except errors.PlacetError:  # That is what is told; no command runs before it is mended.
                self._set_app = ""
        if self.app in ("", self._set_app):
            return "" if self._set_app else "MODULE:NAME"
        return shlex.quote(self.app)

    def show(self, document: Mapping[str, Any], text: str, *, as_is: bool = False) -> None:
        """Print what a command has to say; `as_is` what a model says itself, or what is copied."""
        if self.as_json:
            click.echo(json.dumps(document))
        elif text:
            click.echo(text if as_is else fitted(text, sys.stdout))


def with_ways_out(refused: errors.Refusal, ways: Callable[[str], str]) -> errors.Refusal:
    """Say how one gets past a run that is not over, where that is why something is refused."""
    if refused.code not in ("run_waiting", "run_open", "run_active"):
        return refused
    hint = ways(refused.ids.get("run_id", ""))
    return type(refused)(refused.code, refused.message, hint=hint, **refused.ids)


def shared(command: F) -> F:
    """Give a command the options that every command has, and itself a `Given` first."""

    def set_store(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value:
            context.ensure_object(Given).store = value

    def set_json(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(Given).as_json = True

    def set_language(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value:
            context.ensure_object(Given).language = value

    language = click.option(
        "--lang",
        metavar="LANGUAGE",
        expose_value=False,
        callback=set_language,
        help="The language of cards, en or zh; by default the settings say it.",
    )
    store = click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=set_store,
        help="Where state is, as sqlite:///placet.db; by default the settings say it.",
    )
    as_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=set_json,
        help="Print one JSON document to standard output.",
    )
    return store(language(as_json(command)))


def counted(count: int, what: str, *, many: str = "") -> str:
    """Write a number of things out: `1 rule`, `2 rules`; `many` is of a word that takes no s."""
    return f"{count} {what if count == 1 else many or what + 's'}"


def tell(text: str) -> None:
    """Tell people something beside the command's document."""
    click.echo(fitted(text, sys.stderr), err=True)


def width_of(stream: TextIO | None) -> int | None:
    """Give the columns of the terminal that a stream is; None: it is none."""
    if stream is None or not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def fitted(text: str, stream: TextIO | None) -> str:
    """Break lines that are wider than the terminal they go to (H2).

    A terminal would break them too, and begin a line with whatever somebody else wrote there: with
    what reads as a line of placet's.
    """
    width = width_of(stream)
    if width is None or all(len(line) * 2 <= width for line in text.split("\n")):
        return text
    from placet.core.card_surfaces import within

    return within(text, width)


def tell_error(
    code: str, message: str, *, hint: str = "", ids: Mapping[str, str], told: str, as_json: bool
) -> None:
    """Print an error: one line to standard error, or a JSON document to standard output."""
    if as_json:
        error = {"code": code, "message": message, "hint": hint, "ids": dict(ids)}
        click.echo(json.dumps({"error": error}))
        return
    from placet.core.display import visible

    tell(f"placet: {visible(told)}")
