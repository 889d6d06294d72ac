"""What lists have in common: how much they list, and that there is more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from placet.results import LISTED, Listed

F = TypeVar("F", bound=Callable[..., Any])


def limit_option(command: F) -> F:
    """Give a command that lists something the option to say how much at most."""
    return click.option(
        "--limit",
        default=LISTED,
        show_default=True,
        type=click.IntRange(min=1),
        help="How many are listed; it is said where there are more.",
    )(command)


def more_line(listed: Listed[Any]) -> list[str]:
    """Say that a list is not all there is."""
    return [f"… and more: --limit N lists more than {len(listed)}."] if listed.more else []
