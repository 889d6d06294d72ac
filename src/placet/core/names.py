"""What a command is about, so that a store can load it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a command is about: the store loads these, closed or not, beside what is open."""

    runs: tuple[str, ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    requests: tuple[str, ...] = ()
    call_keys: tuple[tuple[str, str], ...] = ()
