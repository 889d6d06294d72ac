"""Finding the agents that `--app module:name` or the setting `app` names.

What the name stands for is an Agent, a list or tuple of Agents, or a function that gives these. A
function with a parameter is given the runtime, so that it can set up frameworks and guarded
functions. The current directory is looked in first.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from placet.cli.output import Given, tell
from placet.core.errors import InvalidDeclaration, InvalidInput, PlacetError
from placet.settings import Settings

if TYPE_CHECKING:
    from placet.agent.agent import Agent
    from placet.client import Placet

F = TypeVar("F", bound=Callable[..., Any])


def app_option(command: F) -> F:
    """Give a command the option `--app`."""

    def set_app(context: click.Context, _: click.Parameter, value: str) -> str:
        context.ensure_object(Given).app = value
        return value

    return click.option(
        "--app",
        metavar="MODULE:NAME",
        default="",
        callback=set_app,
        help="Where the agents are, as Python code.",
    )(command)


@contextmanager
def opened(settings: Settings, app: str) -> Iterator[Placet]:
    """Open the runtime with the agents of an app, and with the hosts that it sets up."""
    from placet.client import Placet

    name = app or settings.app
    found = load_app(name)
    with Placet.open(settings=settings) as placet:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            for agent in _agents(name, found, placet):
                placet.add(agent)
        for warning in raised:
            tell(f"placet: warning: {warning.message}")
        yield placet


def the_agent(placet: Placet, name: str) -> str:
    """Say which agent is meant; raises a Mistake where that is not clear."""
    names = placet.agent_names
    if name and name not in names:
        raise InvalidDeclaration(
            "unknown_agent",
            f"The app has no agent named {name}; it has: {', '.join(names)}.",
            hint="Name one of these with --agent, or another app with --app.",
        )
    if name:
        return name
    if not names:
        raise InvalidInput(
            "no_agent",
            "The app has no agent that placet's own loop drives.",
            hint="Its framework begins runs; `placet resume` and a worker go on with them.",
        )
    if len(names) > 1:
        raise InvalidInput(
            "which_agent",
            f"The app has several agents: {', '.join(names)}.",
            hint="Name one with --agent.",
        )
    return names[0]


def load_app(app: str) -> object:
    """Import what an app's name stands for; raises InvalidInput or InvalidDeclaration."""
    if not app:
        raise InvalidInput(
            "no_app",
            "Nothing says where the agents are.",
            hint="Name them with --app module:name, or as `app` in placet.toml.",
        )
    module_name, separator, name = app.partition(":")
    if module_name.endswith(".py") and separator:
        module_name = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        said = f"{module_name}:{name}"
        raise _invalid(app, "it names a file, and no module", hint=f"Say --app {said}.")
    if not separator or not module_name or not name:
        raise _invalid(app, "it is not of the form module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return _attribute(app, _module(app, module_name), name)


def _module(app: str, name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _invalid(app, f"there is no module {error.name}") from error
        raise _invalid(app, f"{name} cannot be imported: {error}") from error
    except PlacetError:
        raise
    except Exception as error:
        raise _invalid(
            app, f"{name} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _attribute(app: str, found: Any, name: str) -> object:
    for part in name.split("."):
        if not hasattr(found, part):
            raise _invalid(app, f"there is no {part!r} in it")
        found = getattr(found, part)
    return found


def _agents(app: str, found: Any, placet: Placet) -> list[Agent]:
    """Give the agents that an app's name stands for; one that sets up hosts may give none."""
    from placet.agent.agent import Agent
    from placet.agent.tools import Tool
    from placet.guarding import Guarded

    sets_up = False
    if isinstance(found, (Tool, Guarded)):  # Its body is entered by the gate alone (G2).
        what = "a tool" if isinstance(found, Tool) else "a guarded function"
        hint = "Name the agent that has it, or the function that sets it up."
        raise _invalid(app, f"it is {what}", hint=hint)
    if callable(found) and not isinstance(found, Agent):
        try:
            sets_up = _takes_one(found)
            found = found(placet) if sets_up else found()
        except PlacetError:
            raise
        except Exception as error:
            raise _invalid(app, f"it raised {type(error).__name__}: {error}") from error
    if found is None and sets_up:
        return []
    agents = list(found) if isinstance(found, (list, tuple)) else [found]
    wrong = [each for each in agents if not isinstance(each, Agent)]
    if wrong or not (agents or sets_up):
        what = f"a {type(wrong[0]).__name__}" if wrong else "nothing"
        raise _invalid(app, f"it gives {what}")
    return agents


def _takes_one(function: Callable[..., object]) -> bool:
    """Say whether a function must be given something: it is the runtime, to set up hosts with."""
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(function).parameters.values()
    )


def _invalid(app: str, what: str, *, hint: str = "") -> InvalidDeclaration:
    return InvalidDeclaration(
        "invalid_app",
        f"The app {app!r} cannot be taken: {what}.",
        hint=hint
        or "It names an Agent, a list of Agents, or a function that gives them; one with a"
        " parameter is given the Placet, to set up hosts with.",
    )
