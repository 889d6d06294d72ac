"""Whether what became of a call was permitted: its versions, its approval, its result (H4)."""

from __future__ import annotations

from collections.abc import Iterable

from placet.core import events as e
from placet.core.state import (
    Allowed,
    Approved,
    Asking,
    Call,
    CallOver,
    Open,
    Request,
    Session,
    Superseded,
)


def votes_of(request: Request) -> tuple[str, ...]:
    """Name those who have approved what still waits, or waits to be spent."""
    return request.state.votes if isinstance(request.state, (Open, Approved)) else ()


def proposed(state: Session, event: e.CallProposed) -> Iterable[str]:
    """Hold an action that is frozen to the call that it is of."""
    known = state.calls.get(event.at)
    if event.version != (known.version if known else 0) + 1:
        yield "a version of the action is missing"
    if known is None:
        return
    if (known.tool, known.tool_call_id) != (event.tool, event.tool_call_id):
        yield "it is of another tool than the call"
    if not isinstance(known.state, (Allowed, Asking)) or known.attempts:
        yield "the call had begun, or was over"


def delegated(state: Session, event: e.CallDelegated) -> Iterable[str]:
    """Hold a child run to the approval that it begins with, and to its call."""
    call = state.calls[event.at]
    yield from spends(state, call, event.request)
    if state.runs[event.child].parent != event.at:
        yield "the run that it opened is another call's"


def spends(state: Session, call: Call, request_id: str | None) -> Iterable[str]:
    """Hold that what was asked about begins with its approval, and nothing else does (G1, G2)."""
    match call.state:
        case Asking(request=asked) if request_id is None or request_id != asked:
            yield "it began without its approval"
        case Asking(request=asked):
            request = state.requests[asked]
            if not isinstance(request.state, Approved):
                yield "it began, and was not approved"
            if request.digest != call.digest:
                yield "what was approved is another action"
            if len({*votes_of(request)}) < request.needs.quorum:
                yield f"it takes {request.needs.quorum} people to approve it"
            if state.now >= request.deadline_at:
                yield "its deadline had passed"
        case Allowed() if request_id is None:
            pass
        case _:
            yield "it could not begin"


def ended(state: Session, event: e.CallEnded) -> Iterable[str]:
    """Hold a result to the call that it is of."""
    call = state.calls.get(event.at)
    if call is None:  # It was answered before it stood for any action.
        return
    if isinstance(call.state, CallOver):
        yield "it has its result already"
    if (call.tool, call.tool_call_id) != (event.tool, event.tool_call_id):
        yield "it is the result of another call"
    if event.call_key != call.call_key and not _was_edited(state, call):
        yield "it is the result of other arguments than were proposed"
    if event.attempt != call.attempts:
        yield "it counts other attempts than there were"


def _was_edited(state: Session, call: Call) -> bool:
    """Say whether an edit ended it: then the "no" is to what the edit proposed (G5)."""
    if not isinstance(call.state, Asking):
        return False
    standing = state.requests[call.state.request].state
    return isinstance(standing, Superseded) and standing.successor is None and standing.by != ""
