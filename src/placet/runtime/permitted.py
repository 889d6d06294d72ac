"""Whether an event was permitted in the state before it, so far as the log itself can say (H4).

What runs is decided upon rows, and a row may be changed and put back. So each event of the log is
held to what the events before it lead to: who was asked, how many must say yes and by when (G9,
G10), which action a request, a vote, an intent and a result are of (G3), which approval an intent
spends (G7), which calls a grant covers (G12), and how often, when and after what an attempt is made
again (D4, D8). What policy said at that time is not in the log, and is not held: whether somebody
whom an event says to have stood in was a deputy, and what was allowed unasked. Nor is what a tool
declared: a call is held to what its own event says of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from placet.core import events as e
from placet.core.canonical import short_id
from placet.core.state import Approved, Open, Session
from placet.core.values import is_alike
from placet.runtime import permitted_attempts as attempts
from placet.runtime import permitted_calls as calls
from placet.runtime import permitted_grants as grants
from placet.runtime.permitted_calls import votes_of
from placet.runtime.permitted_grants import Arguments

Decision = e.VoteCast | e.RequestRejected | e.RequestEdited | e.RequestSettled | e.QuestionAnswered


def wrong_with(state: Session, event: e.Event, arguments: Arguments) -> str:
    """Say why an event was not permitted in a state, stamped; empty: nothing is against it.

    `arguments` gives those of an action by its reference, where they are there to be read. Raises
    KeyError where the event names what there is not.
    """
    found: list[Iterable[str]] = []
    if check := _CHECKS.get(type(event)):
        found.append(check(state, event))
    if covered := _COVERED.get(type(event)):
        found.append(covered(state, event, arguments))
    return next(chain.from_iterable(found), "")


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
    votes = votes_of(request)
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
    if event.by not in votes_of(request):
        yield f"{event.by} had no vote to take back"
    if event.reopened != isinstance(request.state, Approved):
        yield "it says otherwise than is whether it was approved"


def _dropped(state: Session, event: e.VotesDropped) -> Iterable[str]:
    request = state.requests[event.request]
    left = {*votes_of(request)} - {*event.people}
    if not {*event.people} <= {*votes_of(request)}:
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
    e.CallProposed: calls.proposed,
    e.CallDelegated: calls.delegated,
    e.CallEnded: calls.ended,
    e.AttemptBegun: attempts.begun,
    e.AttemptFailed: attempts.failed,
    e.AttemptLost: attempts.lost,
    e.CallUndoing: attempts.undoing,
}

_COVERED: dict[type, Callable[[Session, Any, Arguments], Iterable[str]]] = {
    e.GrantGiven: grants.given,
    e.CallProposed: grants.proposed,
    e.AttemptBegun: grants.begun,
}
