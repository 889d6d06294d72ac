"""evolve(state, event) -> state: what a session is after an event, and nothing about whether.

An event that is in the log is true; `evolve` never refuses. Each handler touches the parts that
its event names and leaves every other value the same object, so that the store writes down what
changed and no more (D6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placet.core import events as e
from placet.core import evolving_calls as calls
from placet.core.changing import changed
from placet.core.state import (
    Answered,
    Approved,
    Asking,
    Cancelled,
    Delivery,
    Expired,
    Grant,
    Lost,
    Open,
    Plan,
    Rejected,
    Request,
    Resting,
    Run,
    RunOver,
    Session,
    Settled,
    Superseded,
    Unsettled,
    Voided,
    Working,
)
from placet.core.updating import decided, put, put_call, put_request, put_run


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
        on_failure=event.on_failure,
        saga=event.saga,
        state=Resting(),
    )
    return changed(state, runs=put(state.runs, event.run, run))


def _lease_taken(state: Session, event: e.LeaseTaken) -> Session:
    working = Working(holder=event.holder, until=event.until)
    return put_run(state, event.run, fence=event.fence, state=working)


def _lease_renewed(state: Session, event: e.LeaseRenewed) -> Session:
    working = state.runs[event.run].state
    assert isinstance(working, Working), "only a lease that is held is renewed"
    return put_run(state, event.run, state=changed(working, until=event.until))


def _lease_released(state: Session, event: e.LeaseReleased) -> Session:
    return put_run(state, event.run, state=Resting(not_before=event.not_before, cause=event.cause))


def _step_recorded(state: Session, event: e.StepRecorded) -> Session:
    return put_run(state, event.run, step=max(event.step, state.runs[event.run].step))


def _plan_made(state: Session, event: e.PlanMade) -> Session:
    return put_run(state, event.run, plan=Plan(ref=event.plan.ref, items=event.items))


def _plan_item_done(state: Session, event: e.PlanItemDone) -> Session:
    plan = state.runs[event.run].plan
    assert plan is not None, "only what has a plan has an item of it"
    return put_run(state, event.run, plan=changed(plan, done=event.item))


def _transcript_compacted(state: Session, event: e.TranscriptCompacted) -> Session:
    return put_run(state, event.run, view_from=event.step, summary_ref=event.summary.ref)


def _results_taken(state: Session, event: e.ResultsTaken) -> Session:
    return put_run(state, event.run, taken=state.seq)


def _session_ended(state: Session, event: e.SessionEnded) -> Session:
    return changed(state, ended=True, erased=state.erased or event.erased)


def _run_stopping(state: Session, event: e.RunStopping) -> Session:
    return put_run(state, event.run, stopping=event.stop)


def _run_ended(state: Session, event: e.RunEnded) -> Session:
    over = RunOver(stop=event.stop, answer_ref=event.answer.ref if event.answer else None)
    state = put_run(state, event.run, state=over)
    if any(grant.run == event.run for grant in state.grants.values()):
        left = {id_: each for id_, each in state.grants.items() if each.run != event.run}
        state = changed(state, grants=left)
    return state


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
        asked_since=event.asked_since,
        deadline_at=event.deadline_at,
        rule=event.rule,
        policy_version=event.policy_version,
        generation=call.generation,
        readable=event.readable,
        replaces=event.replaces,
        grounds_ref=event.grounds.ref if event.grounds else None,
        changes_ref=event.changes.ref if event.changes else None,
        escalation=event.escalation,
        hold=event.hold,
        state=Open(),
    )
    state = changed(state, requests=put(state.requests, event.request, request))
    if event.kind == "settlement":  # From here on nothing tells any more that its body is over.
        stray = call.stray or (isinstance(call.state, Lost) and not call.state.body_over)
        return put_call(state, event.at, Unsettled(request=event.request), stray=stray)
    return put_call(state, event.at, Asking(request=event.request), asked=True)


def _votes(state: Session, request: str) -> tuple[str, ...]:
    standing = state.requests[request].state
    return standing.votes if isinstance(standing, (Open, Approved)) else ()


def _vote_cast(state: Session, event: e.VoteCast) -> Session:
    votes = (*_votes(state, event.request), event.by)
    return put_request(
        state, event.request, Approved(votes=votes) if event.met else Open(votes=votes)
    )


def _vote_withdrawn(state: Session, event: e.VoteWithdrawn) -> Session:
    votes = tuple(v for v in _votes(state, event.request) if v != event.by)
    return put_request(state, event.request, Open(votes=votes), voted=True)


def _grant_given(state: Session, event: e.GrantGiven) -> Session:
    grant = Grant(
        id=event.grant,
        by=event.by,
        request=event.request,
        tool=event.tool,
        tool_fingerprint=event.tool_fingerprint,
        scope=event.scope,
        surface=event.surface,
        policy_version=event.policy_version,
        same_key=event.same_key,
        until=event.until,
        left=event.uses,
        rule=event.rule,
        run=event.run,
        same=event.same,
        any=event.any,
        children=event.children,
    )
    live = {id_: each for id_, each in state.grants.items() if state.now < each.until}
    standing = state.requests[event.request].state
    state = put_request(state, event.request, standing, granted=event.terms)
    return changed(state, grants={**live, grant.id: grant})


def _grant_revoked(state: Session, event: e.GrantRevoked) -> Session:
    left = {id_: each for id_, each in state.grants.items() if id_ != event.grant}
    return changed(state, grants=left)


def _votes_dropped(state: Session, event: e.VotesDropped) -> Session:
    votes = tuple(v for v in _votes(state, event.request) if v not in event.people)
    standing = Open(votes=votes) if event.reopened else Approved(votes=votes)
    return put_request(state, event.request, standing, voted=True)


def _request_escalated(state: Session, event: e.RequestEscalated) -> Session:
    standing = state.requests[event.request].state
    return put_request(state, event.request, standing, escalated=event.step)


def _notice_delivered(state: Session, event: e.NoticeDelivered) -> Session:
    return _with_delivery(state, event.request, event.channel, cause_ref=None)


def _notice_undelivered(state: Session, event: e.NoticeUndelivered) -> Session:
    return _with_delivery(state, event.request, event.channel, cause_ref=event.cause.ref)


def _with_delivery(
    state: Session, request_id: str, channel: str, *, cause_ref: str | None
) -> Session:
    """Note what became of the latest notice on a channel; that one was delivered stays so."""
    request = state.requests[request_id]
    known = request.delivery(channel)
    delivered = cause_ref is None or (known is not None and known.delivered)
    now = Delivery(channel=channel, delivered=delivered, cause_ref=cause_ref)
    others = tuple(each for each in request.deliveries if each.channel != channel)
    return put_request(state, request_id, request.state, deliveries=(*others, now))


def _request_rejected(state: Session, event: e.RequestRejected) -> Session:
    return put_request(state, event.request, Rejected(by=event.by, reason_ref=event.reason.ref))


def _question_answered(state: Session, event: e.QuestionAnswered) -> Session:
    return put_request(state, event.request, Answered(by=event.by, answer_ref=event.answer.ref))


def _request_edited(state: Session, event: e.RequestEdited) -> Session:
    state = put_request(state, event.request, Superseded(by=event.by, successor=event.successor))
    if event.successor is None:
        return state
    successor = state.requests[event.successor]
    call = state.calls[successor.at]
    return put_call(state, call.at, call.state, edited_by=event.by, edits_ref=successor.changes_ref)


def _request_voided(state: Session, event: e.RequestVoided) -> Session:
    request = state.requests[event.request]
    state = put_request(
        state, event.request, Voided(changed=event.changed, successor=event.successor)
    )
    call = state.calls[request.at]
    return put_call(state, request.at, call.state, voids=call.voids + 1)


def _request_expired(state: Session, event: e.RequestExpired) -> Session:
    expired = Expired(votes=_votes(state, event.request), unreachable=event.unreachable)
    return put_request(state, event.request, expired)


def _request_cancelled(state: Session, event: e.RequestCancelled) -> Session:
    return put_request(state, event.request, Cancelled(cause=event.cause))


def _request_superseded(state: Session, event: e.RequestSuperseded) -> Session:
    return put_request(state, event.request, Superseded(by="", successor=None))


def _request_settled(state: Session, event: e.RequestSettled) -> Session:
    state = decided(state)  # A surface that was closed may be open now.
    detail = event.detail.ref if event.detail else None
    settled = Settled(by=event.by, finding=event.finding, detail_ref=detail)
    return put_request(state, event.request, settled)


def _settlement_lapsed(state: Session, event: e.SettlementLapsed) -> Session:
    request = state.requests[event.request]
    return put_request(state, event.request, request.state, lapsed=True)


_HANDLERS: dict[type, Callable[[Session, Any], Session]] = {
    e.RunStarted: _run_started,
    e.LeaseTaken: _lease_taken,
    e.LeaseRenewed: _lease_renewed,
    e.LeaseReleased: _lease_released,
    e.StepRecorded: _step_recorded,
    e.CallProposed: calls.call_proposed,
    e.RequestOpened: _request_opened,
    e.RequestEscalated: _request_escalated,
    e.NoticeDelivered: _notice_delivered,
    e.NoticeUndelivered: _notice_undelivered,
    e.VoteCast: _vote_cast,
    e.VoteWithdrawn: _vote_withdrawn,
    e.GrantGiven: _grant_given,
    e.GrantRevoked: _grant_revoked,
    e.VotesDropped: _votes_dropped,
    e.RequestRejected: _request_rejected,
    e.RequestEdited: _request_edited,
    e.RequestVoided: _request_voided,
    e.RequestExpired: _request_expired,
    e.RequestCancelled: _request_cancelled,
    e.RequestSuperseded: _request_superseded,
    e.RequestSettled: _request_settled,
    e.QuestionAnswered: _question_answered,
    e.AttemptBegun: calls.attempt_begun,
    e.AttemptFailed: calls.attempt_failed,
    e.AttemptLost: calls.attempt_lost,
    e.CallUndoing: calls.call_undoing,
    e.UnwindingBegun: calls.unwinding_begun,
    e.EffectUnwound: calls.effect_unwound,
    e.CallDelegated: calls.call_delegated,
    e.CallEnded: calls.call_ended,
    e.SettlementLapsed: _settlement_lapsed,
    e.PlanMade: _plan_made,
    e.PlanItemDone: _plan_item_done,
    e.TranscriptCompacted: _transcript_compacted,
    e.ResultsTaken: _results_taken,
    e.RunStopping: _run_stopping,
    e.RunEnded: _run_ended,
    e.SessionEnded: _session_ended,
}
