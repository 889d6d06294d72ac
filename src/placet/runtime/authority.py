"""Who may decide, and the mark that keeps tools from deciding (G10).

Approvers are people, named in the settings. Being on this machine is no identity: the command line
asks for the account at a terminal, or for a token. What a tool's body starts carries a mark, in
its context and in the environment of its child processes, under which nothing decides.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

from placet.core.canonical import digest_of
from placet.core.errors import NotPermitted
from placet.core.state import Request

#: Set in the environment while a tool's body runs, and so in what it starts.
MARK = "PLACET_INSIDE_TOOL"

_inside: ContextVar[str] = ContextVar("placet_inside_tool", default="")
_bodies: list[str] = []
_bodies_change = threading.Lock()

#: The mark under which this process itself was started, if a tool started it.
_STARTED_BY = os.environ.get(MARK, "")


@dataclass(frozen=True, slots=True)
class Authority:
    """The people who may decide, as the settings name them now."""

    approvers: tuple[str, ...]

    @property
    def version(self) -> str:
        """Name this state of affairs, for the record."""
        return _version_of(self.approvers)

    def eligible(self, _request: Request | None = None) -> frozenset[str]:
        """Give those who may decide a request today."""
        return frozenset(self.approvers)


@lru_cache(maxsize=64)
def _version_of(approvers: tuple[str, ...]) -> str:
    return digest_of([*sorted(approvers)])[:16]


@contextmanager
def inside_tool(call: str) -> Iterator[None]:
    """Mark what runs within as started by a tool."""
    token = _inside.set(call)
    with _bodies_change:
        _bodies.append(call)
        os.environ[MARK] = call
    try:
        yield
    finally:
        _inside.reset(token)
        with _bodies_change:
            _bodies.remove(call)
            if not _bodies and _STARTED_BY:
                os.environ[MARK] = _STARTED_BY
            elif not _bodies:
                os.environ.pop(MARK, None)


def still_inside() -> AbstractContextManager[None]:
    """Keep the mark of the context for as long as this lasts, which may be longer than its call."""
    call = _inside.get()
    return inside_tool(call) if call else nullcontext()


def refuse_inside_tool() -> None:
    """Refuse to decide in a tool's own body, or in what one started; raises NotPermitted."""
    if _inside.get():
        raise NotPermitted("inside_tool", "A tool cannot decide (G10).", call=_inside.get())


def refuse_to_decide() -> None:
    """Refuse to decide in a tool's body, or in a process that one started; raises NotPermitted."""
    refuse_inside_tool()
    _refuse_marked(_STARTED_BY)


def refuse_under_mark() -> None:
    """Refuse to decide in a process that a tool started; raises NotPermitted."""
    refuse_inside_tool()
    _refuse_marked(os.environ.get(MARK, ""))


def _refuse_marked(mark: str) -> None:
    if mark:
        raise NotPermitted(
            "inside_tool",
            "This process was started by a tool, and a tool cannot decide (G10).",
            hint="Decide from a terminal of your own.",
            call=mark,
        )
