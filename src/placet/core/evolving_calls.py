"""What becomes of calls and attempts: their part of `evolve`."""

from __future__ import annotations

from datetime import datetime

from placet.core import events as e
from placet.core.changing import changed
from placet.core.state import (
    Allowed,
    Approved,
    Asking,
    Call,
    CallOver,
    Delegated,
    Executing,
    Lost,
    No,
    RetryDue,
    Session,
    Spent,
    UndoDue,
    Unsettled,
    Unwinding,
    UnwoundEffect,
    overlap,
    top_of,
)
from placet.core.updating import decided, put, put_call, put_request, put_run
from placet.core.values import FAILURES, PEOPLES_NOES, REMEMBERED_NOES, Recovery


def call_proposed(state: Session, event: e.CallProposed) -> Session:
    """An action is frozen for a call, or another version of it."""
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
        escalation=event.escalation,
        not_requester=event.not_requester,
        grant=event.grant,
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
    return changed(state, calls=put(state.calls, event.at, call))


def _proposed_key(known: Call | None, key: str) -> str:
    if known is None:
        return ""
    return known.proposed_key or (known.call_key if known.call_key != key else "")


def call_delegated(state: Session, event: e.CallDelegated) -> Session:
    """A child run works the call out."""
    return _spent(put_call(state, event.at, Delegated(child=event.child)), event.request)


def attempt_begun(state: Session, event: e.AttemptBegun) -> Session:
    """The intent stands, and the approval that it names is spent."""
    call = state.calls[event.at]
    executing = Executing(
        fence=event.fence,
        holder=event.holder,
        until=event.until,
        purpose=event.purpose,
        lost=isinstance(call.state, RetryDue) and call.state.lost,
    )
    snapshot = event.snapshot.ref if event.snapshot else call.snapshot_ref
    state = put_call(
        state,
        event.at,
        executing,
        attempts=event.attempt,
        snapshot_ref=snapshot,
        begun_at=call.begun_at or state.now,
        undo_begun_at=_undo_begun_at(state, call, event),
        grant=call.grant if call.attempts else event.grant,
    )
    if call.result is None:  # Nobody foresaw that what had succeeded would be taken back.
        state = _known_to_later(state, call)
    fence = max(event.fence, state.runs[event.at.run].fence)
    if fence != state.runs[event.at.run].fence:
        state = put_run(state, event.at.run, fence=fence)
    begun = state.surfaces.get(event.surface, 0) + 1
    state = changed(state, surfaces=put(state.surfaces, event.surface, begun))
    return _counted(_spent(state, event.request), event.grant)


def _undo_begun_at(state: Session, call: Call, event: e.AttemptBegun) -> datetime | None:
    first = event.purpose != "run" and call.attempts == call.undone_from
    return state.now if first else call.undo_begun_at


def _counted(state: Session, grant: str | None) -> Session:
    """Count a call on the grant under which it began; one with none left is none any more."""
    if grant is None:
        return state
    found = state.grants[grant]
    left = {id_: each for id_, each in state.grants.items() if id_ != grant}
    if found.left > 1:
        left[grant] = changed(found, left=found.left - 1)
    return changed(state, grants=left)


def _spent(state: Session, request: str | None) -> Session:
    if request is None:
        return state
    approved = state.requests[request].state
    assert isinstance(approved, Approved), "only what is approved is spent"
    return put_request(state, request, Spent(votes=approved.votes))


def _known_to_later(state: Session, call: Call) -> Session:
    """Count an effect as known to those who were asked about another step's call after it (G13).

    It was there to be seen when they were asked; within a step `Session.foreign` sees to the same.
    """
    step = (call.at.run, call.at.step)
    for other in state.calls.values():
        later = (other.at.run, other.at.step) != step and other.order > call.order
        if later and isinstance(other.state, Asking) and overlap(other.surface, call.surface):
            state = put_call(state, other.at, other.state, foreign=other.foreign + 1)
    return state


def attempt_failed(state: Session, event: e.AttemptFailed) -> Session:
    """Another attempt is due, at the effect or at taking it back."""
    tried = state.calls[event.at].state
    assert isinstance(tried, (Executing, Lost)), "only an attempt that was begun can fail"
    if tried.purpose != "run":
        return put_call(state, event.at, UndoDue(how=tried.purpose, again_at=event.again_at))
    lost = isinstance(tried, Lost) or tried.lost
    call = state.calls[event.at]
    # What is not idempotent is tried again only where its last body is known to be over.
    left = isinstance(tried, Lost) and not tried.body_over and call.recovery.idempotent
    due = RetryDue(again_at=event.again_at, lost=lost)
    acted = call.acted or not event.not_done
    return put_call(state, event.at, due, acted=acted, stray=call.stray or left)


def call_undoing(state: Session, event: e.CallUndoing) -> Session:
    """What the call may have done is to be taken back."""
    call = state.calls[event.at]
    due = UndoDue(how=event.how, again_at=event.again_at)
    if isinstance(call.state, CallOver):  # It did what it was to do; a later one failed.
        return put_call(
            state,
            event.at,
            due,
            result=call.state,
            failure_ref=event.cause.ref,
            ran=call.attempts,
            undone_from=call.attempts,
        )
    return put_call(
        state,
        event.at,
        due,
        failure_ref=call.failure_ref or event.cause.ref,
        ran=call.ran or call.attempts,
        undone_from=call.attempts,
    )


def unwinding_begun(state: Session, event: e.UnwindingBegun) -> Session:
    """The call's result is withheld until what earlier ones did is taken back."""
    own = event.own.ref if event.own else None
    unwinding = Unwinding(code=event.code, told_ref=event.told.ref, own_ref=own)
    return put_call(state, event.at, unwinding)


def effect_unwound(state: Session, event: e.EffectUnwound) -> Session:
    """The earlier call has the result that it had, and the one before it is next."""
    call = state.calls[event.at]
    over = call.result or call.state
    state = put_call(state, event.at, over, result=None, unwound=event.outcome)
    state = put_run(state, event.at.run, undoable=call.before)
    unwound = UnwoundEffect(at=event.at, tool=call.tool, outcome=event.outcome)
    for other in state.calls.values():
        if other.at.run == event.at.run and isinstance(other.state, Unwinding):
            after = changed(other.state, unwound=(*other.state.unwound, unwound))
            return put_call(state, other.at, after)
    return state


def attempt_lost(state: Session, event: e.AttemptLost) -> Session:
    """Nobody knows what came of the attempt."""
    executing = state.calls[event.at].state
    assert isinstance(executing, Executing), "only an attempt under way can be lost"
    lost = Lost(holder=executing.holder, purpose=executing.purpose, body_over=event.body_over)
    return put_call(state, event.at, lost)


def call_ended(state: Session, event: e.CallEnded) -> Session:
    """The call has its result; a "no" and a failure are remembered by its key."""
    call = state.calls.get(event.at)
    if call is not None and (call.asked or isinstance(call.state, (Delegated, Unsettled))):
        state = decided(state)
    over = CallOver(
        code=event.code,
        told_ref=event.told.ref,
        own_ref=event.own.ref if event.own else None,
        by_hand=event.own is not None and event.by != "",
    )
    if event.at in state.calls:
        stray = _may_act_yet(state.calls[event.at])
        state = put_call(state, event.at, over, attempts=event.attempt, stray=stray)
        state = _undoable(state, state.calls[event.at])
    else:
        call = _never_proposed(state, event, over)
        state = changed(state, calls=put(state.calls, event.at, call))
    people = event.code in PEOPLES_NOES
    run = top_of(state.runs, event.at.run) if people else event.at.run
    key = (run, event.call_key)
    known = state.noes.get(key)
    if event.code == "succeeded" and known is not None and known.code in FAILURES:
        return changed(state, noes=put(state.noes, key, changed(known, times=0)))
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
    return changed(state, noes=put(state.noes, key, no))


def _may_act_yet(call: Call) -> bool:
    """Say whether a body of a call may act though others have found out what became of it."""
    return call.stray or (isinstance(call.state, Lost) and not call.state.body_over)


def _undoable(state: Session, call: Call) -> Session:
    """Note an effect that a later call's failure would take back: each names the one before."""
    run = state.runs[call.at.run]
    succeeded = isinstance(call.state, CallOver) and call.state.code == "succeeded"
    if run.on_failure != "compensate_earlier" or call.kind != "effect" or not succeeded:
        return state
    state = put_call(state, call.at, call.state, before=run.undoable)
    return put_run(state, run.id, undoable=call.at)


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
