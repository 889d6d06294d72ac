"""What a watcher of a run is told, as it happens: an observer, which changes nothing.

What a watcher is told may come twice, or never, where processes end; the record is in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from placet.core.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkBegins:
    """The run is about to do this; `tools` names the tools of the calls that it is about."""

    run: str
    work: Work
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArrives:
    """A piece of what the model says, as it comes; the turn is on record when it is whole."""

    run: str
    step: int
    text: str


RunEvent = WorkBegins | TextArrives
#: Is told of a run as it goes on. What it raises is ignored, and it is not told any more.
Watcher = Callable[[RunEvent], None]


class Watching:
    """Tells a watcher, for as long as it takes what it is told."""

    def __init__(self, watcher: Watcher | None) -> None:
        self._watcher = watcher

    @property
    def watched(self) -> bool:
        """Say whether anybody is told."""
        return self._watcher is not None

    def tell(self, event: RunEvent) -> None:
        """Tell the watcher."""
        if self._watcher is None:
            return
        try:
            self._watcher(event)
        except Exception:  # noqa: BLE001  # An observer's own failure is no failure of the run.
            self._watcher = None
