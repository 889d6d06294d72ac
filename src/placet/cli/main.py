"""The command `placet`: finds the sub-command, and turns every error into a line and an exit code.

Sub-commands are loaded when they are called, so that a decision imports no model and no agent.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

import click

from placet.cli.output import Exit, Given, exit_code_of, runnable, shared, tell_error
from placet.core.errors import PlacetError

#: Set to have an unexpected error print where it comes from.
DEBUG = "PLACET_DEBUG"

#: Each command, and the module that has it.
COMMANDS = {
    "chat": "chat",
    "run": "running",
    "resume": "running",
    "worker": "worker",
    "runs": "runs",
    "cancel": "runs",
    "end": "sessions",
    "inbox": "inbox",
    "show": "inbox",
    "approve": "deciding",
    "reject": "deciding",
    "edit": "editing",
    "answer": "answering",
    "settle": "answering",
    "withdraw": "deciding",
    "grants": "granting",
    "revoke": "granting",
    "fatigue": "fatigue",
    "policy": "policy",
    "audit": "audit",
    "export": "state_files",
    "import": "state_files",
    "erase": "keys",
    "keys": "keys",
    "doctor": "operate",
    "token": "operate",
    "demo": "operate",
}


class Lazy(click.Group):
    """The group of all commands, each of which is imported when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # As click calls it.
        """Give the names of the commands, in the order in which they are of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        home = COMMANDS.get(cmd_name)
        if home is None:
            return super().get_command(ctx, cmd_name)
        return _loaded(home, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; the commands that an error points to stand there as they can be run."""
        try:
            return super().invoke(ctx)
        except PlacetError as error:
            error.hint = runnable(error.hint)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named; one that is not there may be meant as another."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            told = f"No such command {args[0]!r}."
            if like := difflib.get_close_matches(args[0].lower(), COMMANDS, n=1):
                told += f" Did you mean {like[0]!r}?"
            raise click.UsageError(told, ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *given: Any, **extra: Any) -> NoReturn:
        """Run the command line, and end the process with one of the documented codes."""
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words[: words.index("--") if "--" in words else len(words)]
        extra = {**extra, "prog_name": "placet", "standalone_mode": False}
        try:
            ended = super().main(words, *given, **extra)
        except PlacetError as error:
            tell_error(
                error.code,
                error.message,
                hint=error.hint,
                ids=error.ids,
                told=str(error),
                as_json=as_json,
            )
            sys.exit(exit_code_of(error))
        except click.ClickException as error:
            _tell_usage(error, as_json=as_json)
            sys.exit(Exit.MISTAKE)
        except click.Abort:
            told = "Interrupted."
            tell_error("interrupted", told, ids={}, told=told, as_json=as_json)
            sys.exit(Exit.INTERRUPTED)
        except Exception as error:  # noqa: BLE001  # The end: whatever it was, nothing goes on.
            _tell_unexpected(error, as_json=as_json)
            sys.exit(Exit.WRONG)
        sys.exit(ended if isinstance(ended, int) else Exit.DONE)


@cache
def _loaded(home: str, name: str) -> click.Command:
    module = importlib.import_module(f"placet.cli.{home}")
    found: click.Command = getattr(module, f"{name}_command")
    _hold_values(found)
    return found


def _hold_values(command: click.Command) -> None:
    """Have no option of a command, or of those under it, take the next option as its value."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count):
            parameter.callback = _held(parameter.callback)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _hold_values(below)


def _held(before: Callable[..., Any] | None) -> Callable[..., Any]:
    """Give what holds the value of an option, before whatever else looks at it."""

    def hold(context: click.Context, option: click.Parameter, value: Any) -> Any:
        options = {name for each in context.command.params for name in each.opts}
        options |= set(context.help_option_names)
        for each in value if isinstance(value, tuple) else (value,):
            if str(each).startswith("--") or str(each) in options:
                takes = getattr(option, "metavar", None) or str(option.name).upper()
                told = f"{option.opts[0]} takes the {takes}, and {str(each)!r} is no such thing."
                raise click.UsageError(f"{told} A text that begins so can begin with a space.")
        return value if before is None else before(context, option, value)

    return hold


def _tell_usage(error: click.ClickException, *, as_json: bool) -> None:
    if as_json:
        message = error.format_message()
        tell_error("usage", message, ids={}, told=message, as_json=True)
    else:
        error.show()


def _tell_unexpected(error: Exception, *, as_json: bool) -> None:
    message = f"{type(error).__name__}: {error}"
    hint = f"This is a mistake in placet or in the app; {DEBUG}=1 shows where."
    told = f"{message} [unexpected] {hint}"
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    tell_error("unexpected", message, hint=hint, ids={}, told=told, as_json=as_json)


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="placet", message="placet %(version)s")
@shared
@click.pass_context
def main(context: click.Context) -> None:
    """placet: durable human control for AI agents.

    People talk with an agent in chat, and decide with inbox, show, approve, reject, edit and
    answer; processes work with run, resume and worker; operators look with runs, audit and doctor.
    """
    context.ensure_object(Given)
