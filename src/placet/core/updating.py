"""Putting a changed part back into a session: the mappings are copied, every other value stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from placet.core.changing import changed
from placet.core.state import CallState, RequestState, RunOver, Session
from placet.core.values import Occurrence

K = TypeVar("K")
V = TypeVar("V")


def put(mapping: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    """Give a mapping with another value at one key."""
    return {**mapping, key: value}


def put_run(session: Session, run: str, **changes: Any) -> Session:
    """Give the session with a run changed in some fields."""
    after = changed(session.runs[run], **changes)
    return changed(session, runs=put(session.runs, run, after))


def put_call(state: Session, at: Occurrence, to: CallState, **changes: Any) -> Session:
    """Give the session with a call in another state, and changed in some fields."""
    call = changed(state.calls[at], state=to, **changes)
    return changed(state, calls=put(state.calls, at, call))


def put_request(state: Session, request: str, to: RequestState, **changes: Any) -> Session:
    """Give the session with a request in another state, and changed in some fields."""
    after = changed(state.requests[request], state=to, **changes)
    return changed(state, requests=put(state.requests, request, after))


def decided(state: Session) -> Session:
    """Note with each run that a framework hosts that something it may wait for is decided."""
    for run in state.runs.values():
        if run.kind == "hosted" and not isinstance(run.state, RunOver):
            state = put_run(state, run.id, decided=state.seq + 1)
    return state
