"""What a guarded function is to its callers, and the terms on which it is guarded.

How it goes through the gate is `placet.adapters.functions`, which stands above this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from placet.runtime.declarations import Declaration

F = TypeVar("F", bound=Callable[..., Any])
R_co = TypeVar("R_co", covariant=True)


class EditedWarning(UserWarning):
    """A person changed the arguments: the result is that of other arguments than were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a guard takes beside the tool's options; `Placet.guard` says what each is."""

    session: str | Callable[..., str]
    requester: str | Callable[..., str] | None = None
    wait: timedelta | None = None
    on_decided: Callable[..., object] | None = None


@runtime_checkable
class Guarded(Protocol[R_co]):
    """A function behind the gate: called as itself, without its idempotency key."""

    __name__: str

    @property
    def declaration(self) -> Declaration:
        """Give what the gate sees of the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        """Have the action done once, or have what is on record of it; see `Placet.guard`."""

    async def awaited(self, *args: Any, **kwargs: Any) -> Any:
        """Do the same, awaited: a synchronous function is called in a thread of its own."""

    def probe(self, function: F) -> F:
        """Declare how to find out what became of a lost attempt, as a tool does (D4)."""

    def environment(self, function: F) -> F:
        """Declare what it reads of the world, as a tool does (G13)."""

    def preview(self, function: F) -> F:
        """Declare what a call would change, as a tool does (H1)."""

    def snapshot(self, function: F) -> F:
        """Declare how to take down what a call is about to change, as a tool does (D8)."""

    def restore(self, function: F) -> F:
        """Declare how to bring back what a snapshot holds, as a tool does (D8)."""
