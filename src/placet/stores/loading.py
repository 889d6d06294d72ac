"""What of a session is loaded for a command: the same for every store.

The base is what is open: active runs with their current steps, open calls, pending requests, and
the noes under the call keys of open calls (a call that ends with a "no" counts on from them). On
it lie the tombstones that the command names. A base may be kept between commands: it is exactly
`base_of` the session after the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from placet.core.changing import changed
from placet.core.commands import Names
from placet.core.evolve import pruned
from placet.core.state import Call, No, Request, Run, Session, top_of
from placet.core.values import Occurrence
from placet.stores.sealing import Seal


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The open part of a session, the hash of its last event, and when its runs are to be woken.

    `wakes` has the active runs, by id, in microseconds since 1970; `stored` says whether the
    session is in the store yet. `seal` is what its texts are sealed with, where it has a data key;
    `keyed` says that its head has an HMAC.
    """

    state: Session
    head: str
    wakes: Mapping[str, int | None]
    stored: bool = True
    seal: Seal | None = None
    keyed: bool = False


class Parts(Protocol):
    """How a store reads the parts of one session."""

    def run(self, run: str) -> Run | None:
        """Give a run, ended or not."""
        ...

    def step(self, run: str, step: int) -> Iterable[Call]:
        """Give the calls of a step."""
        ...

    def request(self, request: str) -> Request | None:
        """Give a request, closed or not."""
        ...

    def no(self, run: str, call_key: str) -> No | None:
        """Give a remembered "no"."""
        ...


def base_of(state: Session) -> Session:
    """Give what is kept of a session between commands."""
    base = pruned(state)
    if not state.noes:
        return base
    keys = {
        (run, call.call_key)
        for call in base.calls.values()
        if call.open
        for run in (call.at.run, top_of(base.runs, call.at.run))
    }
    return changed(base, noes={key: no for key, no in state.noes.items() if key in keys})


def load_open(
    session: Session,
    *,
    runs: Iterable[Run],
    calls: Iterable[Call],
    requests: Iterable[Request],
    parts: Parts,
) -> Session:
    """Make a base of a session's active runs, open calls and pending requests."""
    state = changed(
        session,
        runs={run.id: run for run in runs},
        calls={call.at: call for call in calls},
        requests={request.id: request for request in requests},
    )
    loading = _Loading(state, parts)
    for call in state.calls.values():
        loading.need_no(call.at.run, call.call_key)
    for run in state.runs.values():
        loading.take_step(run.id, run.step)
    return loading.done()


def load_named(base: Session, names: Names, parts: Parts) -> Session:
    """Add to a base what a command names and the base does not hold."""
    loading = _Loading(base, parts)
    for run in names.runs:
        loading.need_run(run)
    for request in names.requests:
        loading.need_request(request)
    for run, step in names.steps:
        loading.need_step(run, step)
    for run, call_key in names.call_keys:
        loading.need_no(run, call_key)
    return loading.done()


class _Loading:
    """A base, and what is added to it; mappings are copied when they first change."""

    def __init__(self, base: Session, parts: Parts) -> None:
        self._base = base
        self._parts = parts
        self._runs: dict[str, Run] = {}
        self._calls: dict[Occurrence, Call] = {}
        self._requests: dict[str, Request] = {}
        self._noes: dict[tuple[str, str], No] = {}
        self._steps: set[tuple[str, int]] = set()

    def done(self) -> Session:
        """Give the session with what was added."""
        base = self._base
        if not (self._runs or self._calls or self._requests or self._noes):
            return base
        # What the base holds goes last, so that its objects stay the same ones.
        return changed(
            base,
            runs={**self._runs, **base.runs},
            calls={**self._calls, **base.calls},
            requests={**self._requests, **base.requests},
            noes={**self._noes, **base.noes},
        )

    def need_run(self, run: str) -> None:
        """Load a run, and where it is a child, the run and step of the call that opened it."""
        if run in self._base.runs or run in self._runs:
            found = self._base.runs.get(run) or self._runs[run]
        else:
            loaded = self._parts.run(run)
            if loaded is None:
                return
            found = self._runs[run] = loaded
        if found.parent is not None:
            self.need_step(found.parent.run, found.parent.step)
            self.need_run(found.parent.run)

    def need_request(self, request: str) -> None:
        """Load a request, the calls of its step, and its run."""
        found = self._base.requests.get(request)
        if found is None:
            found = self._parts.request(request)
            if found is None:
                return
            self._requests[request] = found
        self.need_run(found.at.run)
        self.need_step(found.at.run, found.at.step)

    def need_step(self, run: str, step: int) -> None:
        """Load the calls of a step, unless it is one that the base holds, or is still to come."""
        active = self._base.runs.get(run)
        if active is None or step < active.step:
            self.take_step(run, step)

    def take_step(self, run: str, step: int) -> None:
        """Load the calls of a step."""
        if (run, step) not in self._steps:
            self._steps.add((run, step))
            for call in self._parts.step(run, step):
                self._calls[call.at] = call

    def need_no(self, run: str, call_key: str) -> None:
        """Load a remembered "no": the run's own, and that of the run at its top."""
        top = top_of({**self._runs, **self._base.runs}, run)
        for key in {(run, call_key), (top, call_key)}:
            if key not in self._base.noes and key not in self._noes:
                found = self._parts.no(*key)
                if found is not None:
                    self._noes[key] = found
