"""Deciding about requests: votes, rejections, edits, settlements and deadlines.

One of any number of deciders wins, and the others get a typed conflict; the same person deciding
the same twice is the same answer (G7).
"""

from __future__ import annotations

from dataclasses import replace

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.deciders import check_authority, check_person
from placet.core.deciding_grants import grant_with, same_grant
from placet.core.deciding_runs import active
from placet.core.deciding_steps import ask, freeze, nobody
from placet.core.errors import Closed, Conflict, InvalidInput, Refusal
from placet.core.retelling import is_own
from placet.core.state import (
    Answered,
    Approved,
    Cancelled,
    Expired,
    Open,
    Rejected,
    Request,
    Settled,
    Spent,
    Superseded,
    Unsettled,
    Voided,
)
from placet.core.unfolding import Unfolding
from placet.core.values import (
    Ask,
    Deny,
    Needs,
    Payload,
    RequestKind,
)
from placet.core.work import due_escalations, due_requests


def approve(so_far: Unfolding, command: c.Approve) -> None:
    """Count one person's yes; with the quorum met the request is approved."""
    request = _bound(so_far, command.request, ("approval",), command.digest)
    by = command.by.id
    match request.state:
        case Approved(votes=votes) | Spent(votes=votes) if by in votes:
            same_grant(command, request)
            return
        case Approved() | Spent():
            raise _decided(request)
        case Open(votes=votes):
            _in_time(so_far, request)
            _check_authority(so_far, command, request)
            if by in votes:
                same_grant(command, request)
                return
            _readable(request)
            met = len(votes) + 1 >= request.needs.quorum
            given = None if command.grant is None else grant_with(so_far, command, request)
            so_far.add(
                e.VoteCast(
                    request=request.id,
                    by=by,
                    digest=request.digest,
                    met=met,
                    via=command.via,
                    stood_in=_stands_in(so_far, command, request),
                )
            )
            if given is not None:
                so_far.add(given)
        case _:
            raise _decided(request)


def reject(so_far: Unfolding, command: c.Reject) -> None:
    """Close a request, or decline a question: one eligible person's no is enough."""
    request = _bound(so_far, command.request, ("approval", "question"), command.digest)
    said = command.reason.strip() or wording.NO_REASON
    reason = so_far.text(said)
    match request.state:
        case Rejected(by=by, reason_ref=ref) if by == command.by.id:
            if ref == reason.ref:
                return
            raise Conflict(
                "already_rejected",
                f"{by} has rejected it for another reason, which stands.",
                hint=f"The model is told the first one; `placet show {request.id}` says it.",
                request_id=request.id,
            )
        case Open():
            _in_time(so_far, request)
            _check_authority(so_far, command, request)
        case _:
            raise _decided(request, by=command.by.id)
    so_far.add(
        e.RequestRejected(
            request=request.id,
            by=command.by.id,
            reason=reason,
            via=command.via,
            stood_in=_stands_in(so_far, command, request),
        )
    )
    told = so_far.text(wording.rejected(command.by.id, said))
    so_far.end_call(request.at, "rejected", told, by=command.by.id)
    so_far.finish_if_idle(request.at.run)


def withdraw(so_far: Unfolding, command: c.Withdraw) -> None:
    """Take one's vote back, while nothing was begun on it."""
    request = _bound(so_far, command.request, ("approval",), command.digest)
    check_person(command.by)
    match request.state:
        case Open(votes=votes) | Approved(votes=votes):
            if command.by.id not in votes:
                raise Conflict(
                    "no_vote", f"{command.by.id} has not approved it.", request_id=request.id
                )
            reopened = isinstance(request.state, Approved)
            so_far.add(
                e.VoteWithdrawn(
                    request=request.id, by=command.by.id, reopened=reopened, via=command.via
                )
            )
            for grant in list(so_far.state.grants.values()):  # What went with it goes with it.
                if (grant.request, grant.by) == (request.id, command.by.id):
                    so_far.add(e.GrantRevoked(grant=grant.id, by=grant.by, via=command.via))
        case Spent():
            raise Closed(
                "spent",
                "It has begun or is done, and cannot be taken back.",
                hint=f"While the run goes on, `placet cancel {request.at.run}` ends it after that.",
                request_id=request.id,
            )
        case _:
            raise _decided(request)


def edit(so_far: Unfolding, command: c.Edit) -> None:
    """Supersede a request by one for other arguments of the same call (G5)."""
    request = _bound(so_far, command.request, ("approval",), command.digest)
    if not isinstance(request.state, Open):
        raise _decided(request)
    _in_time(so_far, request)
    _check_authority(so_far, command, request)
    call, proposal = so_far.call(request.at), command.proposal
    draft = proposal.draft
    if not proposal.readable:
        raise InvalidInput("unreadable_edit", "The edited arguments cannot be read (G4).")
    here = (so_far.state.tenant, so_far.state.id)
    same = (draft.at, draft.tool_call_id, draft.tool) == (call.at, call.tool_call_id, call.tool)
    if not same or (draft.tenant, draft.session) != here or proposal.kind == "question":
        raise InvalidInput("edit_changes_call", "An edit changes arguments only (G5).")
    if proposal.call_key == call.call_key:
        raise InvalidInput(
            "edit_unchanged", "The edited arguments are the same.", hint="Approve it instead."
        )
    run, by = active(so_far, request.at.run), command.by.id
    no = so_far.no_to(run.id, proposal.call_key)
    ruling = proposal.ruling
    # A tool whose policy would let the edited call run is still answered for by its editor.
    needs = ruling.needs if isinstance(ruling, Ask) else Needs(approvers=(by,))
    if isinstance(ruling, Deny) or no is not None or not needs.possible(run.requester):
        so_far.add(_edited(so_far, command, request, successor=None))
        # The "no" is remembered of what the edit proposed, not of what the model did.
        edited = replace(call, call_key=proposal.call_key)
        if isinstance(ruling, Deny):
            told = wording.policy_denied(ruling.rule, ruling.reason)
            so_far.end_call(call.at, "policy_denied", so_far.text(told), by=by, like=edited)
        elif no is not None:
            so_far.end_call(call.at, no.code, Payload(no.told_ref), by=by, like=edited)
        else:
            told = wording.no_approver(nobody(needs, run.requester))
            so_far.end_call(call.at, "no_approver", so_far.text(told), by=by, like=edited)
        so_far.finish_if_idle(run.id)
        return
    _reopen_edited(so_far, command, request, needs)


def _reopen_edited(so_far: Unfolding, command: c.Edit, request: Request, needs: Needs) -> None:
    by = command.by.id
    freeze(so_far, command.proposal, version=request.version + 1)
    successor = ask(
        so_far,
        command.proposal,
        needs=needs,
        deadline_at=request.deadline_at,
        policy_version=command.policy_version,
        replaces=request.id,
        changes=command.changes,
    )
    so_far.add(_edited(so_far, command, request, successor=successor))
    asked = so_far.request(successor)
    if by in asked.people(so_far.state.now):
        digest = asked.digest
        met = needs.quorum == 1
        so_far.add(e.VoteCast(request=successor, by=by, digest=digest, met=met, via="edit"))


def _edited(
    so_far: Unfolding, command: c.Edit, request: Request, *, successor: str | None
) -> e.RequestEdited:
    return e.RequestEdited(
        request=request.id,
        by=command.by.id,
        successor=successor,
        via=command.via,
        stood_in=_stands_in(so_far, command, request),
    )


def settle(so_far: Unfolding, command: c.Settle) -> None:
    """Take a person's word on an unknown outcome; there is no default answer (D4)."""
    request = _bound(so_far, command.request, ("settlement",), command.digest)
    finding = c.FINDINGS[command.happened]
    match request.state:
        case Settled(by=by, finding=known, detail_ref=ref) if (by, known, ref) == (
            command.by.id,
            finding,
            so_far.text(command.detail).ref if command.detail else None,
        ):
            return
        case Open():
            _check_authority(so_far, command, request)
        case _:
            raise _decided(request)
    if command.happened and not command.detail.strip():
        raise InvalidInput("no_result", "Say what the result was: the model is told it.")
    by = command.by.id
    so_far.add(
        e.RequestSettled(
            request=request.id,
            by=by,
            finding=finding,
            detail=so_far.text(command.detail) if command.detail else None,
            via=command.via,
            stood_in=_stands_in(so_far, command, request),
        )
    )
    if request.lapsed or not isinstance(so_far.call(request.at).state, Unsettled):
        return
    if command.happened:
        told = so_far.text(wording.settled_done(by, command.detail))
        so_far.end_call(request.at, "succeeded", told, by=by, own=command.detail)
    elif command.happened is None:
        told = so_far.text(wording.settled_unknown(by, command.detail))
        so_far.end_call(request.at, "outcome_unknown", told, by=by)
    else:
        told = so_far.text(wording.settled_not_done(by, command.detail))
        so_far.end_call(request.at, "interrupted", told, by=by)
    so_far.finish_if_idle(request.at.run)


def answer(so_far: Unfolding, command: c.Answer) -> None:
    """Take a person's answer to a question, which is the result of the call that asked it."""
    request = _bound(so_far, command.request, ("question",), command.digest)
    text, by = so_far.text(command.answer), command.by.id
    match request.state:
        case Answered(by=known, answer_ref=ref) if (known, ref) == (by, text.ref):
            return
        case Open():
            _in_time(so_far, request)
            _check_authority(so_far, command, request)
            _readable(request)
        case _:
            raise _decided(request)
    so_far.add(
        e.QuestionAnswered(
            request=request.id,
            by=by,
            answer=text,
            via=command.via,
            stood_in=_stands_in(so_far, command, request),
        )
    )
    told = so_far.text(wording.answered(by, command.answer))
    so_far.end_call(request.at, "succeeded", told, by=by)
    so_far.finish_if_idle(request.at.run)


def expire(so_far: Unfolding, command: c.Expire) -> None:
    """Close every request past its deadline, and reach more people where it is time (G9).

    An unsettled run ends, and its question remains.
    """
    so_far.run(command.run)
    for request in due_escalations(so_far.state):
        if so_far.state.now < request.deadline_at:
            _escalate(so_far, request)
    for request in sorted(due_requests(so_far.state), key=lambda r: (r.order, r.id)):
        if request.id not in {r.id for r in due_requests(so_far.state)}:
            continue
        if request.kind == "settlement":
            so_far.lapse(request, "nobody settled it in time.")
            cause = "an outcome is unknown."
            so_far.stop_run(request.at.run, "outcome_unknown", code="interrupted", cause=cause)
            continue
        channels = request.unreached
        so_far.add(e.RequestExpired(request=request.id, unreachable=channels))
        if channels:
            told = wording.unreachable(request.deadline_at, channels)
            so_far.end_call(request.at, "unreachable", so_far.text(told))
        else:
            so_far.end_call(request.at, "expired", so_far.text(wording.expired(request)))
        so_far.finish_if_idle(request.at.run)


def _escalate(so_far: Unfolding, request: Request) -> None:
    """Put on record which steps are due: whom they reach may decide already."""
    for step, each in enumerate(request.escalation[request.escalated :], request.escalated + 1):
        if so_far.state.now >= request.since + each.after:
            so_far.add(
                e.RequestEscalated(
                    request=request.id, step=step, approvers=each.approvers, channel=each.channel
                )
            )


def _bound(
    so_far: Unfolding, request_id: str, kinds: tuple[RequestKind, ...], digest: str | None
) -> Request:
    """Give the request that an id and, where one is quoted, a digest stand for (G3)."""
    request = so_far.request(request_id)
    if digest is not None and digest != request.digest:
        raise Conflict(
            "digest_mismatch",
            "The request stands for another action than the one that was shown.",
            hint="Look at it again with `placet show`.",
            request_id=request_id,
        )
    if request.kind not in kinds:
        what = {
            "settlement": "settled",
            "question": "answered, or rejected",
            "approval": "approved, rejected or edited",
        }[request.kind]
        raise Conflict(
            "other_kind",
            f"This {request.kind} can only be {what}.",
            hint=f"Say `{wording.command_for(request_id, request.kind)}`.",
            request_id=request_id,
        )
    return request


_Decision = c.Approve | c.Reject | c.Edit | c.Settle | c.Answer


def _stands_in(so_far: Unfolding, command: _Decision, request: Request) -> bool:
    """Say whether who decides was not asked: the record has it, so that it can be held to it."""
    return command.by.id not in request.people(so_far.state.now)


def _check_authority(so_far: Unfolding, command: _Decision, request: Request) -> None:
    """Check authority: policy's at the request, and policy's of now (G10)."""
    now = so_far.state.now
    check_authority(request, command.by, command.eligible, command.stand_ins, now=now)


def _in_time(so_far: Unfolding, request: Request) -> None:
    if so_far.state.now >= request.deadline_at:
        raise Closed(
            "expired",
            f"The deadline was {request.deadline_at:%Y-%m-%d %H:%M:%S} UTC: it has expired"
            + (", which is a no." if request.kind == "approval" else "."),
            hint=f"`placet resume {request.at.run}`, or a worker, goes on with its run.",
            request_id=request.id,
        )


def _readable(request: Request) -> None:
    if not request.readable:
        raise Refusal(
            "unreadable_arguments",
            "What cannot be read can be neither approved nor answered (G4).",
            hint="Reject it, or edit an action's arguments.",
            request_id=request.id,
        )


def _decided(request: Request, *, by: str = "") -> Refusal:
    """Say how a request was decided or closed, to who comes too late."""
    ids = {"request_id": request.id}
    match request.state:
        case Approved(votes=votes) if by in votes:
            hint = f"Take your approval back first: `placet withdraw {request.id}`."
            told = f"Approved by {', '.join(votes)}."
            return Conflict("already_approved", told, hint=hint, **ids)
        case Approved(votes=votes) | Spent(votes=votes):
            return Conflict("already_approved", f"Approved by {', '.join(votes)}.", **ids)
        case Rejected(by=by):
            return Conflict("already_rejected", f"Rejected by {by}.", **ids)
        case Superseded(by=""):
            return Closed("superseded", "A newer message took its run's place.", **ids)
        case Superseded(by=by, successor=successor):
            hint = f"The new version is {successor}." if successor else ""
            return Closed("superseded", f"{by} edited it.", hint=hint, **ids)
        case Voided(changed=changed, successor=successor):
            hint = f"It is asked anew as {successor}." if successor else ""
            return Closed("voided", f"It changed: {', '.join(changed)}.", hint=hint, **ids)
        case Expired():
            return Closed("expired", "Its deadline has passed.", **ids)
        case Cancelled(cause=cause) if is_own(cause):
            return Closed("cancelled", f"It was cancelled: {cause.rstrip('.')}.", **ids)
        case Cancelled():  # What a person said of it may hold secrets, which `show` masks.
            hint = f"`placet show {request.id}` says why."
            return Closed("cancelled", "It was cancelled.", hint=hint, **ids)
        case Answered(by=by):
            return Conflict("already_answered", f"{by} answered it.", **ids)
        case Settled(by=by, finding=finding):
            told = finding.replace("_", "-")
            return Conflict("already_settled", f"{by} settled it: {told}.", **ids)
        case Open():
            return Conflict("still_open", "It still waits.", **ids)
