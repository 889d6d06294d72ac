"""Reads syntax trees, for tests that hold the source to something."""

from __future__ import annotations

import ast
import gc


def parsed(text: str, *, path: str) -> ast.Module:
    """Parse a file's text; raises SyntaxError.

    A tree is of many objects and holds no cycle: looking for one meanwhile takes as long again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, filename=path)
    finally:
        if was_on:
            gc.enable()
