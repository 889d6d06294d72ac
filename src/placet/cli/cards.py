"""Cards as the command line prints them: for a terminal of its width, and else as plain lines."""

from __future__ import annotations

import os
import sys

from placet.core.card import Card
from placet.core.card_parts import LIMITS
from placet.core.card_surfaces import WIDTH, plain, terminal


def laid_out(card: Card, *, to_stderr: bool = False, whole: bool = False) -> str:
    """Lay a card out for standard output or standard error; `whole` folds nothing."""
    stream = sys.stderr if to_stderr else sys.stdout
    limits = None if whole else LIMITS
    if stream is None or not stream.isatty():
        return plain(card, limits=limits)
    try:
        width = os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        width = WIDTH
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return terminal(card, width=width, colour=colour, limits=limits)
