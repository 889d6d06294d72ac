"""evolve(state, event) -> state: what a session is after an event, and nothing about whether.

An event that is in the log is true; `evolve` never refuses. Each handler touches the parts that
its event names and leaves every other value the same object, so that the store writes down what
changed and no more (D6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from placet.core import events as e
from placet.core.changing import changed
from placet.core.state import (
    Allowed,
    Answered,
    Approved,
    Asking,
    Call,
    CallOver,
    CallState,
    Cancelled,
    Delegated,
    Executing,
    Expired,
    Lost,
    No,
    Open,
    Plan,
    Rejected,
    Request,
    RequestState,
    Resting,
    RetryDue,
    Run,
    RunOver,
    Session,
    Settled,
    Spent,
    Superseded,
    UndoDue,
    Unsettled,
    Voided,
    Working,
    overlap,
    top_of,
)
from placet.core.values import FAILURES, PEOPLES_NOES, REMEMBERED_NOES, Occurrence, Recovery

K = TypeVar("K")
V = TypeVar("V")


def evolve(state: Session, event: e.Event) -> Session:
    """Give the session after `event`."""
    return changed(_HANDLERS[type(event)](state, event), seq=state.seq + 1)


def pruned(state: Session) -> Session:
    """Give the session without tombstones: what the store loads when a command names nothing."""
    runs = {r.id: r for r in state.runs.values() if not isinstance(r.state, RunOver)}
    return changed(
        state,
        runs=runs,
        calls={
            at: c
            for at, c in state.calls.items()
            if c.open or (at.run in runs and runs[at.run].step == at.step)
        },
        requests={r.id: r for r in state.requests.values() if r.pending},
        noes={},
    )


def _put(mapping: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    return {**mapping, key: value}


def _run(session: Session, run: str, **changes: Any) -> Session:
    after = changed(session.runs[run], **changes)
    return changed(session, runs=_put(session.runs, run, after))


def _call(state: Session, at: Occurrence, to: CallState, **changes: Any) -> Session:
    call = changed(state.calls[at], state=to, **changes)
    return changed(state, calls=_put(state.calls, at, call))


def _request(state: Session, request: str, to: RequestState, **changes: Any) -> Session:
    after = changed(state.requests[request], state=to, **changes)
    return changed(state, requests=_put(state.requests, request, after))


# --- runs -------------------------------------------------------------------------------------


def _run_started(state: Session, event: e.RunStarted) -> Session:
    run = Run(
        id=event.run,
        agent=event.agent,
        requester=event.requester,
        kind=event.kind,
        max_steps=event.max_steps,
        started_at=state.now,
        order=state.seq,
        message_ref=event.message.ref,
        parent=event.parent,
        mode=event.mode,
        guard=event.guard,
        state=Resting(),
    )
    return changed(state, runs=_put(state.runs, event.run, run))


def _lease_taken(state: Session, event: e.LeaseTaken) -> Session:
    working = Working(holder=event.holder, until=event.until)
    return _run(state, event.run, fence=event.fence, state=working)


def _lease_renewed(state: Session, event: e.LeaseRenewed) -> Session:
    working = state.runs[event.run].state
    assert isinstance(working, Working), "only a lease that is held is renewed"
    return _run(state, event.run, state=changed(working, until=event.until))


def _lease_released(state: Session, event: e.LeaseReleased) -> Session:
    return _run(state, event.run, state=Resting(not_before=event.not_before, cause=event.cause))


def _step_recorded(state: Session, event: e.StepRecorded) -> Session:
    return _run(state, event.run, step=max(event.step, state.runs[event.run].step))


def _plan_made(state: Session, event: e.PlanMade) -> Session:
    return _run(state, event.run, plan=Plan(ref=event.plan.ref, items=event.items))


def _plan_item_done(state: Session, event: e.PlanItemDone) -> Session:
    plan = state.runs[event.run].plan
    assert plan is not None, "only what has a plan has an item of it"
    return _run(state, event.run, plan=changed(plan, done=event.item))


def _transcript_compacted(state: Session, event: e.TranscriptCompacted) -> Session:
    return _run(state, event.run, view_from=event.step, summary_ref=event.summary.ref)


def _results_taken(state: Session, event: e.ResultsTaken) -> Session:
    return _run(state, event.run, taken=state.seq)


def _session_ended(state: Session, _event: e.SessionEnded) -> Session:
    return changed(state, ended=True)


def _run_stopping(state: Session, event: e.RunStopping) -> Session:
    return _run(state, event.run, stopping=event.stop)


def _run_ended(state: Session, event: e.RunEnded) -> Session:
    over = RunOver(stop=event.stop, answer_ref=event.answer.ref if event.answer else None)
    return _run(state, event.run, state=over)


# --- calls ------------------------------------------------------------------------------------


def _call_proposed(state: Session, event: e.CallProposed) -> Session:
    known = state.calls.get(event.at)
    call = Call(
        at=event.at,
        tool_call_id=event.tool_call_id,
        tool=event.tool,
        call_key=event.call_key,
        kind=event.kind,
        surface=event.surface,
        order=known.order if known else state.seq,
        version=event.version,
        action_ref=event.action.ref,
        digest=event.digest,
        generation=event.generation,
        foreign=state.foreign(event.surface, event.at),
        tool_fingerprint=event.tool_fingerprint,
        scope=event.scope,
        environment=event.environment,
        recovery=event.recovery,
        approvers=event.approvers,
        rule=event.rule,
        attempts=known.attempts if known else 0,
        voids=known.voids if known else 0,
        asked=known.asked if known else False,
        edited_by=known.edited_by if known else "",
        display_ref=event.display.ref if event.display else None,
        claim_ref=event.claim.ref if event.claim else known.claim_ref if known else None,
        edits_ref=known.edits_ref if known else None,
        snapshot_ref=known.snapshot_ref if known else None,
        proposed_key=_proposed_key(known, event.call_key),
        state=Allowed(),
    )
    return changed(state, calls=_put(state.calls, event.at, call))


def _proposed_key(known: Call | None, key: str) -> str:
    if known is None:
        return ""
    return known.proposed_key or (known.call_key if known.call_key != key else "")


def _call_delegated(state: Session, event: e.CallDelegated) -> Session:
    return _spent(_call(state, event.at, Delegated(child=event.child)), event.request)


def _attempt_begun(state: Session, event: e.AttemptBegun) -> Session:
    executing = Executing(
        fence=event.fence, holder=event.holder, until=event.until, purpose=event.purpose
    )
    call = state.calls[event.at]
    snapshot = event.snapshot.ref if event.snapshot else call.snapshot_ref
    state = _call(state, event.at, executing, attempts=event.attempt, snapshot_ref=snapshot)
    state = _known_to_later(state, call)
    fence = max(event.fence, state.runs[event.at.run].fence)
    if fence != state.runs[event.at.run].fence:
        state = _run(state, event.at.run, fence=fence)
    begun = state.surfaces.get(event.surface, 0) + 1
    state = changed(state, surfaces=_put(state.surfaces, event.surface, begun))
    return _spent(state, event.request)


def _spent(state: Session, request: str | None) -> Session:
    if request is None:
        return state
    approved = state.requests[request].state
    assert isinstance(approved, Approved), "only what is approved is spent"
    return _request(state, request, Spent(votes=approved.votes))


def _known_to_later(state: Session, call: Call) -> Session:
    """Count an effect as known to those who were asked about another step's call after it (G13).

    It was there to be seen when they were asked; within a step `Session.foreign` sees to the same.
    """
    step = (call.at.run, call.at.step)
    for other in state.calls.values():
        later = (other.at.run, other.at.step) != step and other.order > call.order
        if later and isinstance(other.state, Asking) and overlap(other.surface, call.surface):
            state = _call(state, other.at, other.state, foreign=other.foreign + 1)
    return state


def _attempt_failed(state: Session, event: e.AttemptFailed) -> Session:
    tried = state.calls[event.at].state
    assert isinstance(tried, (Executing, Lost)), "only an attempt that was begun can fail"
    if tried.purpose != "run":
        return _call(state, event.at, UndoDue(how=tried.purpose, again_at=event.again_at))
    lost = isinstance(tried, Lost)
    call = state.calls[event.at]
    # What is not idempotent is tried again only where its last body is known to be over.
    left = isinstance(tried, Lost) and not tried.body_over and call.recovery.idempotent
    due = RetryDue(again_at=event.again_at, lost=lost)
    acted = call.acted or not event.not_done
    return _call(state, event.at, due, acted=acted, stray=call.stray or left)


def _call_undoing(state: Session, event: e.CallUndoing) -> Session:
    call = state.calls[event.at]
    return _call(
        state,
        event.at,
        UndoDue(how=event.how, again_at=event.again_at),
        failure_ref=call.failure_ref or event.cause.ref,
        ran=call.ran or call.attempts,
        undone_from=call.attempts,
    )


def _attempt_lost(state: Session, event: e.AttemptLost) -> Session:
    executing = state.calls[event.at].state
    assert isinstance(executing, Executing), "only an attempt under way can be lost"
    lost = Lost(holder=executing.holder, purpose=executing.purpose, body_over=event.body_over)
    return _call(state, event.at, lost)


def _decided(state: Session) -> Session:
    """Note with each run that a framework hosts that something it may wait for is decided."""
    for run in state.runs.values():
        if run.kind == "hosted" and not isinstance(run.state, RunOver):
            state = _run(state, run.id, decided=state.seq + 1)
    return state


def _call_ended(state: Session, event: e.CallEnded) -> Session:
    call = state.calls.get(event.at)
    if call is not None and (call.asked or isinstance(call.state, (Delegated, Unsettled))):
        state = _decided(state)
    over = CallOver(
        code=event.code,
        told_ref=event.told.ref,
        own_ref=event.own.ref if event.own else None,
        by_hand=event.own is not None and event.by != "",
    )
    if event.at in state.calls:
        state = _call(state, event.at, over, attempts=event.attempt)
    else:
        call = _never_proposed(state, event, over)
        state = changed(state, calls=_put(state.calls, event.at, call))
    people = event.code in PEOPLES_NOES
    run = top_of(state.runs, event.at.run) if people else event.at.run
    key = (run, event.call_key)
    known = state.noes.get(key)
    if event.code == "succeeded" and known is not None and known.code in FAILURES:
        return changed(state, noes=_put(state.noes, key, changed(known, times=0)))
    if event.code not in REMEMBERED_NOES | FAILURES:
        return state
    if known is not None and known.code in REMEMBERED_NOES and event.code in FAILURES:
        return state  # A "no" outlives a failure.
    if known is not None and known.code in FAILURES and event.code in REMEMBERED_NOES:
        known = None
    no = No(
        run=run,
        call_key=event.call_key,
        code=event.code,
        told_ref=event.told.ref,
        times=known.times + 1 if known else 1,
    )
    return changed(state, noes=_put(state.noes, key, no))


def _never_proposed(state: Session, event: e.CallEnded, over: CallOver) -> Call:
    """Give the tombstone of a call that was answered before it stood for any action."""
    return Call(
        at=event.at,
        tool_call_id=event.tool_call_id,
        tool=event.tool,
        call_key=event.call_key,
        kind="read",
        surface="",
        order=state.seq,
        version=0,
        action_ref="",
        digest="",
        generation=0,
        foreign=0,
        tool_fingerprint="",
        scope=(),
        environment="",
        recovery=Recovery(),
        approvers=(),
        rule="",
        state=over,
    )


# --- requests ---------------------------------------------------------------------------------


def _request_opened(state: Session, event: e.RequestOpened) -> Session:
    call = state.calls[event.at]
    request = Request(
        id=event.request,
        kind=event.kind,
        at=event.at,
        digest=event.digest,
        action_ref=call.action_ref,
        tool=event.tool,
        surface=call.surface,
        order=call.order,
        version=call.version,
        needs=event.needs,
        requester=event.requester,
        opened_at=state.now,
        deadline_at=event.deadline_at,
        rule=event.rule,
        policy_version=event.policy_version,
        generation=call.generation,
        readable=event.readable,
        replaces=event.replaces,
        grounds_ref=event.grounds.ref if event.grounds else None,
        changes_ref=event.changes.ref if event.changes else None,
        state=Open(),
    )
    state = changed(state, requests=_put(state.requests, event.request, request))
    if event.kind == "settlement":
        return _call(state, event.at, Unsettled(request=event.request))
    return _call(state, event.at, Asking(request=event.request), asked=True)


def _votes(state: Session, request: str) -> tuple[str, ...]:
    standing = state.requests[request].state
    return standing.votes if isinstance(standing, (Open, Approved)) else ()


def _vote_cast(state: Session, event: e.VoteCast) -> Session:
    votes = (*_votes(state, event.request), event.by)
    return _request(state, event.request, Approved(votes=votes) if event.met else Open(votes=votes))


def _vote_withdrawn(state: Session, event: e.VoteWithdrawn) -> Session:
    votes = tuple(v for v in _votes(state, event.request) if v != event.by)
    return _request(state, event.request, Open(votes=votes))


def _votes_dropped(state: Session, event: e.VotesDropped) -> Session:
    votes = tuple(v for v in _votes(state, event.request) if v not in event.people)
    standing = Open(votes=votes) if event.reopened else Approved(votes=votes)
    return _request(state, event.request, standing)


def _request_rejected(state: Session, event: e.RequestRejected) -> Session:
    return _request(state, event.request, Rejected(by=event.by, reason_ref=event.reason.ref))


def _question_answered(state: Session, event: e.QuestionAnswered) -> Session:
    return _request(state, event.request, Answered(by=event.by, answer_ref=event.answer.ref))


def _request_edited(state: Session, event: e.RequestEdited) -> Session:
    state = _request(state, event.request, Superseded(by=event.by, successor=event.successor))
    if event.successor is None:
        return state
    successor = state.requests[event.successor]
    call = state.calls[successor.at]
    return _call(state, call.at, call.state, edited_by=event.by, edits_ref=successor.changes_ref)


def _request_voided(state: Session, event: e.RequestVoided) -> Session:
    request = state.requests[event.request]
    state = _request(state, event.request, Voided(changed=event.changed, successor=event.successor))
    call = state.calls[request.at]
    return _call(state, request.at, call.state, voids=call.voids + 1)


def _request_expired(state: Session, event: e.RequestExpired) -> Session:
    return _request(state, event.request, Expired(votes=_votes(state, event.request)))


def _request_cancelled(state: Session, event: e.RequestCancelled) -> Session:
    return _request(state, event.request, Cancelled(cause=event.cause))


def _request_superseded(state: Session, event: e.RequestSuperseded) -> Session:
    return _request(state, event.request, Superseded(by="", successor=None))


def _request_settled(state: Session, event: e.RequestSettled) -> Session:
    state = _decided(state)  # A surface that was closed may be open now.
    return _request(state, event.request, Settled(by=event.by, finding=event.finding))


def _settlement_lapsed(state: Session, event: e.SettlementLapsed) -> Session:
    request = state.requests[event.request]
    return _request(state, event.request, request.state, lapsed=True)


_HANDLERS: dict[type, Callable[[Session, Any], Session]] = {
    e.RunStarted: _run_started,
    e.LeaseTaken: _lease_taken,
    e.LeaseRenewed: _lease_renewed,
    e.LeaseReleased: _lease_released,
    e.StepRecorded: _step_recorded,
    e.CallProposed: _call_proposed,
    e.RequestOpened: _request_opened,
    e.VoteCast: _vote_cast,
    e.VoteWithdrawn: _vote_withdrawn,
    e.VotesDropped: _votes_dropped,
    e.RequestRejected: _request_rejected,
    e.RequestEdited: _request_edited,
    e.RequestVoided: _request_voided,
    e.RequestExpired: _request_expired,
    e.RequestCancelled: _request_cancelled,
    e.RequestSuperseded: _request_superseded,
    e.RequestSettled: _request_settled,
    e.QuestionAnswered: _question_answered,
    e.AttemptBegun: _attempt_begun,
    e.AttemptFailed: _attempt_failed,
    e.AttemptLost: _attempt_lost,
    e.CallUndoing: _call_undoing,
    e.CallDelegated: _call_delegated,
    e.CallEnded: _call_ended,
    e.SettlementLapsed: _settlement_lapsed,
    e.PlanMade: _plan_made,
    e.PlanItemDone: _plan_item_done,
    e.TranscriptCompacted: _transcript_compacted,
    e.ResultsTaken: _results_taken,
    e.RunStopping: _run_stopping,
    e.RunEnded: _run_ended,
    e.SessionEnded: _session_ended,
}
