"""Whether an event was permitted in the state before it, so far as the log itself can say (H4).

What runs is decided upon rows, and a row may be changed and put back. So each event of the log is
held to what the events before it lead to: who was asked, how many must say yes and by when (G9,
G10), which action a request, a vote, an intent and a result are of (G3), and which approval or
grant an intent spends (G7, G12). What policy said at that time is not in the log, and is not held:
whether somebody whom an event says to have stood in was a deputy, and what was allowed unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from placet.core import events as e
from placet.core.canonical import short_id
from placet.core.deciding_outcomes import undo_digest
from placet.core.state import (
    Allowed,
    Approved,
    Asking,
    Call,
    CallOver,
    Open,
    Request,
    RetryDue,
    Session,
    Superseded,
    UndoDue,
)
from placet.core.values import idempotency_key, is_alike

Decision = e.VoteCast | e.RequestRejected | e.RequestEdited | e.RequestSettled | e.QuestionAnswered


def wrong_with(state: Session, event: e.Event) -> str:
    """Say why an event was not permitted in a state, stamped; empty: nothing is against it.

    Raises KeyError where it names what there is not.
    """
    check = _CHECKS.get(type(event))
    return "" if check is None else next(iter(check(state, event)), "")


# --- what people are asked, and say -----------------------------------------------------------


def _opened(state: Session, event: e.RequestOpened) -> Iterable[str]:
    call, run = state.calls[event.at], state.runs[event.at.run]
    if event.request in state.requests:
        yield "there is such a request already"
    if event.tool != call.tool or event.requester != run.requester:
        yield "it is of another tool, or for another person"
    if event.kind == "settlement":
        asked = (event.needs.approvers, event.needs.quorum, event.needs.exclude_requester)
        if asked != (call.approvers, 1, call.not_requester):
            yield "others are asked to settle than the call says"
        return
    if event.digest != call.digest or event.request != short_id("rq", call.digest):
        yield "it is of another action than the call"
    if event.replaces is not None:
        before = state.requests[event.replaces]
        if (before.at, before.deadline_at) != (event.at, event.deadline_at):
            yield "it replaces one of another call, or of another deadline"
        if event.asked_since not in (None, before.since):
            yield "people are asked since another instant than before"


def _decided(state: Session, event: Decision, *kinds: str, in_time: bool = True) -> Iterable[str]:
    request = state.requests[event.request]
    if request.kind not in kinds:
        yield f"a {request.kind} is not decided so"
    if not isinstance(request.state, Open):
        yield "the request was not open"
    if in_time and state.now >= request.deadline_at:
        yield "its deadline had passed"
    if event.by not in request.people(state.now) and not event.stood_in:
        yield f"{event.by} was not asked, and stood in for nobody"
    if request.needs.exclude_requester and is_alike(event.by, request.requester):
        yield f"{event.by} made the request, and may not decide it"


def _voted(state: Session, event: e.VoteCast) -> Iterable[str]:
    yield from _decided(state, event, "approval")
    request = state.requests[event.request]
    votes = _votes(request)
    if event.digest != request.digest:
        yield "the vote is for another action than was asked about"
    if not request.readable:
        yield "what cannot be read is not approved"
    if event.by in votes:
        yield f"{event.by} has a vote already"
    if event.met != (len({*votes, event.by}) >= request.needs.quorum):
        yield f"it takes {request.needs.quorum} people to approve it"


def _rejected(state: Session, event: e.RequestRejected) -> Iterable[str]:
    return _decided(state, event, "approval", "question")


def _edited(state: Session, event: e.RequestEdited) -> Iterable[str]:
    yield from _decided(state, event, "approval")
    if event.successor is not None:
        successor = state.requests[event.successor]
        if successor.replaces != event.request:
            yield "its successor replaces another request"


def _settled(state: Session, event: e.RequestSettled) -> Iterable[str]:
    return _decided(state, event, "settlement", in_time=False)


def _answered(state: Session, event: e.QuestionAnswered) -> Iterable[str]:
    yield from _decided(state, event, "question")
    if not state.requests[event.request].readable:
        yield "what cannot be read is not answered"


def _withdrawn(state: Session, event: e.VoteWithdrawn) -> Iterable[str]:
    request = state.requests[event.request]
    if event.by not in _votes(request):
        yield f"{event.by} had no vote to take back"
    if event.reopened != isinstance(request.state, Approved):
        yield "it says otherwise than is whether it was approved"


def _dropped(state: Session, event: e.VotesDropped) -> Iterable[str]:
    request = state.requests[event.request]
    left = {*_votes(request)} - {*event.people}
    if not {*event.people} <= {*_votes(request)}:
        yield "votes are dropped that nobody cast"
    if event.reopened != (len(left) < request.needs.quorum):
        yield f"it takes {request.needs.quorum} people to approve it"


def _expired(state: Session, event: e.RequestExpired) -> Iterable[str]:
    request = state.requests[event.request]
    if not request.pending or request.kind == "settlement" or state.now < request.deadline_at:
        yield "it could not expire yet, or any more"


def _escalated(state: Session, event: e.RequestEscalated) -> Iterable[str]:
    request = state.requests[event.request]
    step = request.escalation[event.step - 1 : event.step]
    if (
        not step
        or step[0].approvers != event.approvers
        or state.now < request.since + step[0].after
    ):
        yield "it is no step of its escalation that was due"


def _granted(state: Session, event: e.GrantGiven) -> Iterable[str]:
    request = state.requests[event.request]
    call = state.calls[request.at]
    of_call = (call.tool, call.tool_fingerprint, call.scope, call.surface, request.rule)
    if (event.tool, event.tool_fingerprint, event.scope, event.surface, event.rule) != of_call:
        yield "it permits another tool than was asked about"
    if event.by not in _votes(request) or request.needs.quorum != 1:
        yield "it does not come with the approval that may give it"


def _votes(request: Request) -> tuple[str, ...]:
    return request.state.votes if isinstance(request.state, (Open, Approved)) else ()


# --- what is done -----------------------------------------------------------------------------


def _proposed(state: Session, event: e.CallProposed) -> Iterable[str]:
    known = state.calls.get(event.at)
    if event.version != (known.version if known else 0) + 1:
        yield "a version of the action is missing"
    if known is None:
        return
    if (known.tool, known.tool_call_id) != (event.tool, event.tool_call_id):
        yield "it is of another tool than the call"
    if not isinstance(known.state, (Allowed, Asking)) or known.attempts:
        yield "the call had begun, or was over"


def _began(state: Session, event: e.AttemptBegun) -> Iterable[str]:
    call = state.calls[event.at]
    digest = call.digest
    if event.purpose != "run":
        digest = undo_digest(digest, event.purpose)
    if event.key != idempotency_key(digest):
        yield "its key is of another action than the one that was ruled on"
    if event.attempt != call.attempts + 1 or event.surface != call.surface:
        yield "it is no attempt of this call that was next"
    match call.state:
        case UndoDue(how=how, again_at=again_at):
            if event.purpose != how or state.now < again_at or event.request is not None:
                yield "it takes back otherwise than was decided"
        case _ if event.purpose != "run":
            yield "nothing was to be taken back"
        case RetryDue(again_at=again_at):
            if state.now < again_at or event.request is not None:
                yield "another attempt was not due"
        case _:
            yield from _spends(state, call, event.request)
            if event.grant is not None:
                yield from _under_grant(state, call, event.grant)


def _delegated(state: Session, event: e.CallDelegated) -> Iterable[str]:
    call = state.calls[event.at]
    yield from _spends(state, call, event.request)
    if state.runs[event.child].parent != event.at:
        yield "the run that it opened is another call's"


def _spends(state: Session, call: Call, request_id: str | None) -> Iterable[str]:
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
            if len({*_votes(request)}) < request.needs.quorum:
                yield f"it takes {request.needs.quorum} people to approve it"
            if state.now >= request.deadline_at:
                yield "its deadline had passed"
        case Allowed() if request_id is None:
            pass
        case _:
            yield "it could not begin"


def _under_grant(state: Session, call: Call, grant_id: str) -> Iterable[str]:
    grant = state.grants[grant_id]
    of_call = (call.tool, call.tool_fingerprint, call.scope, call.surface)
    if (grant.tool, grant.tool_fingerprint, grant.scope, grant.surface) != of_call:
        yield "the grant that it counts on is of another tool"
    if state.now >= grant.until or grant.left < 1:
        yield "the grant that it counts on has ended"
    if grant.run not in (None, call.at.run) and not grant.children:
        yield "the grant that it counts on is of another run"


def _ended(state: Session, event: e.CallEnded) -> Iterable[str]:
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


_CHECKS: dict[type, Callable[[Session, Any], Iterable[str]]] = {
    e.RequestOpened: _opened,
    e.VoteCast: _voted,
    e.RequestRejected: _rejected,
    e.RequestEdited: _edited,
    e.RequestSettled: _settled,
    e.QuestionAnswered: _answered,
    e.VoteWithdrawn: _withdrawn,
    e.VotesDropped: _dropped,
    e.RequestExpired: _expired,
    e.RequestEscalated: _escalated,
    e.GrantGiven: _granted,
    e.CallProposed: _proposed,
    e.AttemptBegun: _began,
    e.CallDelegated: _delegated,
    e.CallEnded: _ended,
}
