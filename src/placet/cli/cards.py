"""Cards as the command line prints them: for a terminal of its width, and else as plain lines."""

from __future__ import annotations

import os
import sys

from placet.cli.output import WIDTH, width_of
from placet.core.card import Card
from placet.core.card_parts import LIMITS
from placet.core.card_surfaces import plain, terminal


def laid_out(card: Card, *, to_stderr: bool = False, whole: bool = False) -> str:
    """Lay a card out for standard output or standard error; `whole` folds nothing."""
    stream = sys.stderr if to_stderr else sys.stdout
    limits = None if whole else LIMITS
    width = width_of(stream)
    if width is None:  # A pager breaks lines, too.
        return plain(card, width=None if whole else WIDTH, limits=limits)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return terminal(card, width=width, colour=colour, limits=limits)
