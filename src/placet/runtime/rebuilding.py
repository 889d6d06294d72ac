"""The state that a log leads to, event by event, and what was not permitted on the way (H4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from placet.core import events as e
from placet.core.evolve import evolve
from placet.core.state import Asking, Call, No, Request, Run, Session
from placet.core.values import Occurrence
from placet.runtime.permitted import wrong_with
from placet.runtime.permitted_grants import Arguments
from placet.stores.loading import base_of

#: After how many events what has closed is put aside.
PUT_ASIDE_EVERY = 200


class Rebuilt:
    """The state that a log leads to. What has closed is put aside, so that a walk is linear."""

    def __init__(self, state: Session) -> None:
        self.state = state
        self.runs: dict[str, Run] = {}
        self.calls: dict[Occurrence, Call] = {}
        self.requests: dict[str, Request] = {}
        self.noes: dict[tuple[str, str], No] = {}
        self._steps: dict[tuple[str, int], set[Occurrence]] = {}

    def take(self, event: e.Event, at: datetime, arguments: Arguments) -> tuple[str, str]:
        """Go on by one event; gives why it cannot follow, and why it was not permitted, if so.

        After one that cannot follow there is no state to go on from. `arguments` gives those of an
        action, where they can be read.
        """
        wrong = ""
        try:
            self._recall(event)
            self.state = replace(self.state, now=at)
            wrong = wrong_with(self.state, event, arguments)
            self.state = evolve(self.state, event)
        except Exception as error:  # noqa: BLE001  # A finding, whatever a made-up body leads to.
            return f"{type(error).__name__}: {error}", wrong
        if self.state.seq % PUT_ASIDE_EVERY == 0:
            self.put_aside()
        return "", wrong

    def put_aside(self) -> None:
        """Keep what the state holds, and go on with what is open."""
        self.runs.update(self.state.runs)
        self.calls.update(self.state.calls)
        self.requests.update(self.state.requests)
        self.noes.update(self.state.noes)
        for at in self.state.calls:
            self._steps.setdefault((at.run, at.step), set()).add(at)
        self.state = base_of(self.state)

    def base(self) -> Session:
        """Give what is open: what a store keeps at hand of the session."""
        self.put_aside()
        whole = replace(
            self.state, runs=self.runs, calls=self.calls, requests=self.requests, noes=self.noes
        )
        return base_of(whole)

    def _recall(self, event: e.Event) -> None:
        """Bring back what an event names and has been put aside."""
        state = self.state
        named = [*_requests_of(event), *self._asked_by(event)]
        requests = {
            id_: self.requests[id_]
            for id_ in named
            if id_ not in state.requests and id_ in self.requests
        }
        places = list(_occurrences_of(event)) + [
            (requests.get(id_) or state.requests[id_]).at
            for id_ in named
            if id_ in requests or id_ in state.requests
        ]
        runs = {
            run: self.runs[run]
            for run in [*(at.run for at in places), *_runs_of(event)]
            if run not in state.runs and run in self.runs
        }
        calls = {
            at: self.calls[at]
            for place in places
            for at in self._steps.get((place.run, place.step), ())
            if at not in state.calls
        }
        noes = {}
        if isinstance(event, e.CallEnded):  # It counts on from the run's own, and the top one's.
            for key in {(run, event.call_key) for run in (event.at.run, self._top(event.at.run))}:
                if key not in state.noes and key in self.noes:
                    noes[key] = self.noes[key]
        if runs or calls or requests or noes:
            self.state = replace(
                state,
                runs={**runs, **state.runs},
                calls={**calls, **state.calls},
                requests={**requests, **state.requests},
                noes={**noes, **state.noes},
            )

    def _top(self, run: str) -> str:
        """Name the run that stands at the top of a run."""
        while True:
            found = self.state.runs.get(run) or self.runs.get(run)
            if found is None or found.parent is None:
                return run
            run = found.parent.run

    def _asked_by(self, event: e.Event) -> Iterator[str]:
        """Name the requests that the calls which an event is of stand before."""
        for at in _occurrences_of(event):
            call = self.state.calls.get(at) or self.calls.get(at)
            if call is not None and isinstance(call.state, Asking):
                yield call.state.request


def _requests_of(event: e.Event) -> Iterator[str]:
    for name in ("request", "successor", "replaces"):
        if isinstance(value := getattr(event, name, None), str):
            yield value


def _runs_of(event: e.Event) -> Iterator[str]:
    for name in ("run", "child"):
        if isinstance(value := getattr(event, name, None), str):
            yield value


def _occurrences_of(event: e.Event) -> Iterator[Occurrence]:
    for name in ("at", "parent"):
        if isinstance(value := getattr(event, name, None), Occurrence):
            yield value
