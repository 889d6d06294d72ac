"""Deciding about effects: whether a body may be entered now, or an agent's run opened (D4, G13).

What was ruled on or approved is compared with the same action in the world of now, and the intent
is on record before a body is entered. What its outcome means, `deciding_outcomes` decides.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.deciders import may_decide
from placet.core.deciding_outcomes import give_up, put_to_a_person, undo_digest, undoing_of
from placet.core.deciding_runs import active
from placet.core.deciding_steps import answer_to, ask, freeze, nobody
from placet.core.errors import Closed, Conflict, InProgress, InvalidInput, Refusal
from placet.core.grants import covering
from placet.core.state import (
    Allowed,
    Approved,
    Asking,
    Call,
    CallOver,
    Delegated,
    Executing,
    Open,
    Request,
    RetryDue,
    Run,
    UndoDue,
)
from placet.core.unfolding import Unfolding
from placet.core.values import Allow, Ask, Deny, Holder, Needs, Purpose, idempotency_key
from placet.core.work import held_by

#: How deep agents that are used as tools may stand under a run.
MOST_DEPTH = 3

#: How often the world may change under one call before it is denied (G13).
MOST_VOIDS = 3

#: How much longer than its time limit an attempt is taken to be alive: no body is entered later
#: than this after its intent.
ATTEMPT_MARGIN = timedelta(seconds=30)


def begin(so_far: Unfolding, command: c.Begin) -> None:
    """Record the intent, if the call may run now and is still what was ruled on or approved."""
    call = so_far.call(command.at)
    match call.state:
        case CallOver():
            return
        case Delegated(child=child) if command.child is not None and command.child.run == child:
            return
        case Executing():
            raise InProgress("call_executing", "An attempt is under way.", call=str(call.at))
        case _ if call.kind == "question":
            raise Conflict("not_runnable", "A person answers it.", call=str(call.at))
        case _ if (call.kind == "agent") != (command.child is not None):
            raise Conflict(
                "not_runnable", "An agent's call, and no other, opens a run.", call=str(call.at)
            )
        case Allowed() | Asking() | RetryDue():
            pass
        case _:
            raise Conflict("not_runnable", "The call cannot run now.", call=str(call.at))
    run = active(so_far, call.at.run)
    so_far.driven_by(run.id, command.fence)
    so_far.end_outdated_grants(command.policy_version)
    if run.stopping is not None and not call.attempts:
        raise Closed("run_stopping", f"The run stops: {run.stopping}.", run_id=run.id)
    today = command.today
    if (today.draft.at if isinstance(today, c.Sound) else today.at) != call.at:
        raise InvalidInput("wrong_occurrence", "Another call was ruled on.", call=str(call.at))
    _bound(call, command.digest)
    left = isinstance(today, c.Unsound) and today.code == "interrupted"
    if left and not isinstance(call.state, Allowed):
        raise Conflict("not_runnable", "It was begun, or asked about.", call=str(call.at))
    if isinstance(call.state, RetryDue):
        _due(so_far, call, call.state.again_at)
        _begin_again(so_far, command, call, call.state)
    elif isinstance(call.state, Asking):
        _begin_approved(so_far, command, call, so_far.request(call.state.request))
    else:
        _begin_allowed(so_far, command, call)
    so_far.finish_if_idle(run.id)


def take_back(so_far: Unfolding, command: c.TakeBack) -> None:
    """Record the intent to take back what a call may have done, under a key of its own (D8)."""
    call = so_far.call(command.at)
    match call.state:
        case UndoDue(how=how, again_at=again_at):
            so_far.driven_by(call.at.run, command.fence)
            _bound(call, command.digest)
            _due(so_far, call, again_at)
            lasts = undoing_of(call, how).time_limit
            if how == "compensate" and not key_is_known(
                call, call.undo_begun_at, lasts, now=so_far.state.now
            ):
                put_to_a_person(so_far, call, "its key may be forgotten by now")
                so_far.finish_if_idle(call.at.run)
                return
            _intend(so_far, call, command.holder, purpose=how)
        case Executing():
            raise InProgress("call_executing", "An attempt is under way.", call=str(call.at))
        case _:
            return


def _bound(call: Call, digest: str) -> None:
    if digest != call.digest:
        raise Conflict(
            "digest_mismatch",
            "What is stored is not what was ruled on; the store was changed from outside.",
            hint="Run `placet audit verify`.",
            call=str(call.at),
        )


def _due(so_far: Unfolding, call: Call, again_at: datetime) -> None:
    if so_far.state.now < again_at:
        raise Refusal("not_yet", f"Not before {again_at}.", call=str(call.at))


def _begin_allowed(so_far: Unfolding, command: c.Begin, call: Call) -> None:
    """Rule again: policy may have become stricter since the call was allowed."""
    today = command.today
    run = so_far.run(call.at.run)
    grant = None
    if isinstance(today, c.Sound) and isinstance(today.ruling, Ask):
        grant = covering(so_far.state, today, command.policy_version)
    if isinstance(today, c.Unsound):
        so_far.end_call(call.at, today.code, so_far.text(answer_to(today)))
    elif isinstance(today.ruling, Deny):
        told = wording.policy_denied(today.ruling.rule, today.ruling.reason)
        so_far.end_call(call.at, "policy_denied", so_far.text(told))
    elif isinstance(today.ruling, Ask) and grant is None:
        if not today.ruling.needs.possible(run.requester):
            told = wording.no_approver(nobody(today.ruling.needs, run.requester))
            so_far.end_call(call.at, "no_approver", so_far.text(told))
        else:
            freeze(so_far, today, version=call.version + 1)
            ask(
                so_far,
                today,
                needs=today.ruling.needs,
                deadline_at=so_far.state.now + today.ruling.lasts,
                policy_version=command.policy_version,
            )
    else:
        if call.kind != "agent":  # Its own effects are held one by one.
            _not_held(so_far, call)
        if not (changed := _another(today, call)):
            _enter(so_far, command, call, None, grant=None if grant is None else grant.id)
        elif call.version >= MOST_VOIDS or today.kind == "question":
            told = wording.unstable(changed)
            so_far.end_call(call.at, "environment_unstable", so_far.text(told))
        else:  # What runs is what is frozen: it is frozen anew first (G4).
            given = None if grant is None else grant.id
            freeze(so_far, today, version=call.version + 1, grant=given)


def _another(today: c.Sound, call: Call) -> tuple[str, ...]:
    """Name in what the action that would be frozen today is another one."""
    differs = {
        "tool": today.draft.tool_fingerprint != call.tool_fingerprint,
        "arguments": today.call_key != call.call_key,
        "permission scope": today.draft.scope != call.scope,
        "kind": today.kind != call.kind,
        "surface": today.surface != call.surface,
    }
    return tuple(name for name, differ in differs.items() if differ)


def _begin_again(so_far: Unfolding, command: c.Begin, call: Call, state: RetryDue) -> None:
    """Try again what is still what was ruled on, or approved; nothing else has that right (G3)."""
    today = command.today
    if isinstance(today, c.Unsound):
        changed: tuple[str, ...] = (today.code,)
    elif isinstance(today.ruling, Deny) or (
        isinstance(today.ruling, Ask) and not call.asked and call.grant is None
    ):
        changed = ("policy",)
    else:
        changed = _another(today, call)
    cause = f"it was not tried again, because it changed ({', '.join(changed)})"
    lasts = call.recovery.time_limit
    now = so_far.state.now
    if not changed and (not call.acted or key_is_known(call, call.begun_at, lasts, now=now)):
        _enter(so_far, command, call, None)
        return
    if not changed:
        cause = "it was not tried again, because its key may be forgotten by now"
    certain = not call.acted
    if not certain and give_up(so_far, call, cause):
        return
    if state.lost and not certain:  # The attempt before may have acted.
        put_to_a_person(so_far, call, cause)
    else:
        told = wording.failed(cause, not_done=certain, attempts=call.attempts)
        so_far.end_call(call.at, "tool_failed", so_far.text(told))


def key_is_known(call: Call, first_at: datetime | None, lasts: timedelta, *, now: datetime) -> bool:
    """Say whether the other side is sure to know the key for as long as another attempt may last.

    `first_at` is when it was first used. A body may use it as late as at its time limit, and may be
    entered a while after its intent.
    """
    if (known := call.recovery.key_lasts) is None or first_at is None:
        return True
    return now + lasts + ATTEMPT_MARGIN < first_at + known


def _begin_approved(so_far: Unfolding, command: c.Begin, call: Call, request: Request) -> None:
    if isinstance(request.state, Open):
        raise Conflict("not_approved", "The request still waits.", request_id=request.id)
    if not isinstance(request.state, Approved):
        raise Closed("request_closed", "The request is closed.", request_id=request.id)
    if so_far.state.now >= request.deadline_at:
        raise Closed("expired", "The deadline has passed.", request_id=request.id)
    if changed := _changed(so_far, command, call, request):
        _void(so_far, command, call, request, changed)
        return
    now, stand_ins = so_far.state.now, command.stand_ins
    people = may_decide(request, command.eligible, stand_ins, now=now)
    if isinstance(command.today, c.Sound) and isinstance(command.today.ruling, Allow):
        people |= {*request.state.votes}  # Policy asks nobody by now.
    dropped = tuple(v for v in request.state.votes if v not in people)
    reopened = len(request.state.votes) - len(dropped) < request.needs.quorum
    if reopened and _asked_by_another(command.today, request):
        _void(so_far, command, call, request, ("policy",))  # Its own people would be dropped again.
        return
    if dropped:
        so_far.add(e.VotesDropped(request=request.id, people=dropped, reopened=reopened))
    if reopened:
        return
    if call.kind != "agent":
        _not_held(so_far, call)
    _enter(so_far, command, call, request.id)


def _asked_by_another(today: c.Proposal, request: Request) -> bool:
    """Say whether another rule asks by now than the one that asked (G13)."""
    if isinstance(today, c.Unsound) or not isinstance(today.ruling, Ask):
        return False
    return today.ruling.rule != request.rule


def _changed(so_far: Unfolding, command: c.Begin, call: Call, request: Request) -> tuple[str, ...]:
    """Name what is otherwise than when it was asked about (G13)."""
    today = command.today
    if isinstance(today, c.Unsound):
        return (today.code,)
    differs = {
        "tool": (today.draft.tool_fingerprint, today.kind) != (call.tool_fingerprint, call.kind),
        "permission scope": today.draft.scope != call.scope,
        "surface": today.surface != call.surface,
        "environment": so_far.environment(today.draft.environment) != call.environment,
        "arguments": today.call_key != call.call_key,
        "policy": _stricter(today.ruling, request.needs),
        "surface generation": call.kind != "agent"
        and so_far.state.foreign(call.surface, call.at) != call.foreign,
    }
    return tuple(name for name, differ in differs.items() if differ)


def _stricter(ruling: Allow | Ask | Deny, needs: Needs) -> bool:
    match ruling:
        case Allow():
            return False
        case Deny():
            return True
        case Ask(needs=today):
            # Whoever may approve is a matter of authority, checked vote by vote.
            more = today.exclude_requester and not needs.exclude_requester
            return today.quorum > needs.quorum or more


def _void(
    so_far: Unfolding,
    command: c.Begin,
    call: Call,
    request: Request,
    changed: tuple[str, ...],
) -> None:
    """Close the request, and ask anew in the world as it is now, at most three times."""
    today, run = command.today, so_far.run(call.at.run)

    def closed() -> None:
        so_far.add(e.RequestVoided(request=request.id, changed=changed, successor=None))

    if isinstance(today, c.Unsound):
        closed()
        so_far.end_call(call.at, today.code, so_far.text(answer_to(today)))
    elif isinstance(today.ruling, Deny):
        closed()
        told = wording.policy_denied(today.ruling.rule, today.ruling.reason)
        so_far.end_call(call.at, "policy_denied", so_far.text(told))
    elif call.voids + 1 >= MOST_VOIDS:
        closed()
        so_far.end_call(call.at, "environment_unstable", so_far.text(wording.unstable(changed)))
    else:
        needs = today.ruling.needs if isinstance(today.ruling, Ask) else request.needs
        if not needs.possible(run.requester):
            closed()
            told = wording.no_approver(nobody(needs, run.requester))
            so_far.end_call(call.at, "no_approver", so_far.text(told))
        else:
            freeze(so_far, today, version=call.version + 1)
            successor = ask(
                so_far,
                today,
                needs=needs,
                deadline_at=request.deadline_at,
                policy_version=command.policy_version,
                replaces=request.id,
                changes=f"changed since it was approved: {', '.join(changed)}",
            )
            so_far.add(e.RequestVoided(request=request.id, changed=changed, successor=successor))


def _not_held(so_far: Unfolding, call: Call) -> None:
    if by := held_by(so_far.state, call):
        raise InProgress(
            "held", "Another effect or request comes first (G8).", held_by=by, call=str(call.at)
        )


def _enter(
    so_far: Unfolding,
    command: c.Begin,
    call: Call,
    request: str | None,
    *,
    grant: str | None = None,
) -> None:
    if command.child is not None:
        _delegate(so_far, call, command.child, request)
    else:
        snapshot = command.snapshot
        _intend(so_far, call, command.holder, request=request, snapshot=snapshot, grant=grant)


def _intend(
    so_far: Unfolding,
    call: Call,
    holder: Holder,
    *,
    purpose: Purpose = "run",
    request: str | None = None,
    snapshot: str | None = None,
    grant: str | None = None,
) -> None:
    """Write the intent down: who enters which body, for how long at most, under which key."""
    run, recovery = so_far.run(call.at.run), call.recovery
    digest, lasts = call.digest, recovery.time_limit
    if purpose != "run":
        digest, lasts = undo_digest(call.digest, purpose), undoing_of(call, purpose).time_limit
    so_far.add(
        e.AttemptBegun(
            at=call.at,
            attempt=call.attempts + 1,
            key=idempotency_key(digest),
            fence=run.fence + 1 if run.kind == "hosted" else run.fence,
            holder=holder,
            surface=call.surface,
            until=so_far.state.now + lasts + ATTEMPT_MARGIN,
            request=request,
            snapshot=None if snapshot is None else so_far.text(snapshot),
            purpose=purpose,
            grant=grant,
        )
    )


def _delegate(so_far: Unfolding, call: Call, child: c.Child, request: str | None) -> None:
    """Open the run of an agent that is used as a tool; what is approved is spent with it (G7)."""
    run = so_far.run(call.at.run)
    if child.run in so_far.state.runs:
        raise Conflict("run_exists", "That run id stands for another run.", run_id=child.run)
    if _depth(so_far, run) >= MOST_DEPTH:
        if request is not None:
            so_far.add(e.RequestCancelled(request=request, cause="agents stand too deep"))
        so_far.end_call(call.at, "policy_denied", so_far.text(wording.too_deep(MOST_DEPTH)))
        return
    so_far.add(
        e.RunStarted(
            run=child.run,
            agent=child.agent,
            requester=run.requester,
            kind="driven",
            max_steps=child.max_steps,
            message=so_far.text(child.message),
            parent=call.at,
            mode=child.mode,
            on_failure=child.on_failure,
            saga=child.saga,
        )
    )
    so_far.add(e.CallDelegated(at=call.at, child=child.run, request=request))


def _depth(so_far: Unfolding, run: Run) -> int:
    """Count the runs that a run stands under."""
    depth = 0
    while run.parent is not None:
        run, depth = so_far.run(run.parent.run), depth + 1
    return depth
