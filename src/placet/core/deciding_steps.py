"""Deciding about steps: a model turn and its calls, taken whole in one transaction.

All calls of a step are classified before any is begun, and all that must be asked are asked at
once (the design, section 4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.canonical import short_id
from placet.core.deciding_runs import active
from placet.core.errors import Conflict, InvalidInput, Refusal
from placet.core.grants import covering
from placet.core.state import Allowed, Run, Session
from placet.core.unfolding import Unfolding
from placet.core.values import (
    FAILURES,
    Allow,
    Ask,
    CallCode,
    Deny,
    Display,
    Needs,
    Occurrence,
    Payload,
    action_digest,
)

#: A remembered "no" answers this many proposals; the next one stops the run (G6).
PROPOSALS_BEFORE_LOOP = 2


def propose(so_far: Unfolding, command: c.Propose) -> None:
    """Record a step and rule on each of its calls; the same step again is the same answer."""
    if _known(so_far, command):  # Of a run that is over, too.
        return
    run = active(so_far, command.run)
    so_far.driven_by(command.run, command.fence)
    so_far.end_outdated_grants(command.policy_version)
    if run.kind == "driven" and command.step != run.step + 1:
        raise Conflict("step_out_of_order", f"The run is at step {run.step}.", run_id=run.id)
    _check_places(command)
    if run.kind == "driven" and any(
        call.open for at, call in so_far.state.calls.items() if at.run == run.id
    ):
        raise Conflict(
            "calls_open", "Calls of the run still wait for their results.", run_id=run.id
        )
    so_far.add(
        e.StepRecorded(
            run=run.id,
            step=command.step,
            entry=so_far.text(command.entry),
            calls=len(command.calls),
            reference=command.reference,
            place=command.place,
        )
    )
    if run.stopping is not None:
        _answer_all(so_far, command, wording.stopped(run.stopping))
        so_far.finish_if_idle(run.id)
        return
    if run.kind == "driven" and _without_tools(run):
        _answer_toolless(so_far, command, run)
        return
    if not command.calls:
        if run.kind == "driven":
            _answered(so_far, command, run)
        return
    if run.kind == "driven" and command.step > run.max_steps:
        _answer_all(so_far, command, "this was the last step.")
        so_far.end_run(run.id, "max_steps", command.answer)
        return
    so_far.answering = run.id
    for call in command.calls:
        _classify(so_far, command, run, call)
    so_far.answering = ""
    so_far.finish_if_idle(run.id)


def _without_tools(run: Run) -> bool:
    """Say whether the turn is one in which the model has no tools."""
    return run.mode == "think" or (run.mode == "plan-act" and run.plan is None)


def _answer_toolless(so_far: Unfolding, command: c.Propose, run: Run) -> None:
    """Take a turn that only speaks: a thought, or a plan; one that calls a tool stops the run."""
    if command.calls:
        told = so_far.text(wording.no_tools(run.mode))
        for call in command.calls:
            so_far.add(_ended(call, "policy_denied", told))
        so_far.end_run(run.id, "tool_policy_blocked", command.answer)
    elif run.mode == "think":
        so_far.end_run(run.id, "final", command.answer)
    elif not command.plan:
        raise InvalidInput("no_plan", "A plan has at least one item.", run_id=run.id)
    else:
        plan = so_far.text(json.dumps(command.plan, ensure_ascii=False))
        so_far.add(e.PlanMade(run=run.id, plan=plan, items=len(command.plan)))


def _answered(so_far: Unfolding, command: c.Propose, run: Run) -> None:
    """Take a turn without calls: the answer, or that the plan's current item is done."""
    if run.plan is not None:
        if command.step > run.max_steps:
            so_far.end_run(run.id, "max_steps", command.answer)
            return
        so_far.add(e.PlanItemDone(run=run.id, item=run.plan.done + 1))
        if run.plan.done + 1 < run.plan.items:
            return
    so_far.end_run(run.id, "final", command.answer)


def _check_places(command: c.Propose) -> None:
    """Each call has a place of its own in this step of this run, and nowhere else (G11)."""
    if command.step < 1:
        raise InvalidInput("invalid_step", "Steps are counted from 1; 0 is the message's.")
    places = [_at(call) for call in command.calls]
    elsewhere = any((at.run, at.step) != (command.run, command.step) for at in places)
    if elsewhere or len(set(places)) != len(places):
        raise InvalidInput(
            "wrong_occurrence", "Each call of a step has an occurrence of its own in that step."
        )


def _known(so_far: Unfolding, command: c.Propose) -> bool:
    """Recognise a step that was recorded before: an adapter may propose it again."""
    keys = {_at(call): call.call_key for call in command.calls}
    return is_known(so_far.state, command.run, command.step, keys, count=len(command.calls))


def is_known(
    state: Session, run: str, step: int, keys: Mapping[Occurrence, str], *, count: int
) -> bool:
    """Say whether a step was recorded before, with calls of these `count` keys.

    Raises Conflict(`call_changed`) where it was recorded with others.
    """
    known = {call.at: call.proposed_key or call.call_key for call in state.step_calls(run, step)}
    if not known:
        return False
    if len(known) != count:
        raise Conflict(
            "call_changed",
            f"This step was proposed with {len(known)} calls, not {count}.",
            run_id=run,
        )
    for at, key in keys.items():
        if known.get(at) != key:
            raise Conflict(
                "call_changed",
                "This occurrence was proposed with another call.",
                hint="A step that is proposed again holds the same calls; a new step asks anew.",
                call=str(at),
            )
    return True


def _at(call: c.Proposal) -> Occurrence:
    return call.draft.at if isinstance(call, c.Sound) else call.at


def _answer_all(so_far: Unfolding, command: c.Propose, cause: str) -> None:
    told = so_far.text(wording.interrupted(cause))
    for call in command.calls:
        so_far.add(_ended(call, "interrupted", told))


def _ended(call: c.Proposal, code: CallCode, told: Payload) -> e.CallEnded:
    sound = isinstance(call, c.Sound)
    return e.CallEnded(
        at=_at(call),
        tool_call_id=call.draft.tool_call_id if isinstance(call, c.Sound) else call.tool_call_id,
        tool=call.draft.tool if isinstance(call, c.Sound) else call.tool,
        call_key=call.call_key,
        code=code,
        told=told,
        by="" if sound else "runtime",
        shadow=call.shadow if isinstance(call, c.Sound) else None,
    )


def _classify(so_far: Unfolding, command: c.Propose, run: Run, call: c.Proposal) -> None:
    if (stop := so_far.run(run.id).stopping) is not None:
        told = so_far.text(wording.interrupted(wording.stopped(stop)))
        so_far.add(_ended(call, "interrupted", told))
    elif _remembered(so_far, run, call):
        return
    elif isinstance(call, c.Unsound):
        so_far.add(_ended(call, call.code, so_far.text(answer_to(call))))
        so_far.count_failure(run.id, call.call_key, call.code)
    elif run.on_failure != "continue" and (broken := _unsound(command)):
        told = so_far.text(wording.interrupted(wording.step_broken(broken.tool)))
        so_far.add(_ended(call, "interrupted", told))
    else:
        _rule(so_far, command, run, call)


def _unsound(command: c.Propose) -> c.Unsound | None:
    """Give a call of the step that has failed before anything of it was begun, if one has."""
    for call in command.calls:
        if isinstance(call, c.Unsound) and call.code in FAILURES:
            return call
    return None


def answer_to(call: c.Unsound) -> str:
    """Give what the model is told of a call that is answered at once."""
    return wording.invalid(call.detail) if call.code == "invalid_arguments" else call.detail


def _remembered(so_far: Unfolding, run: Run, call: c.Proposal) -> bool:
    """Answer a call that was answered "no" before in this run without asking anybody (G6)."""
    no = so_far.no_to(run.id, call.call_key)
    if no is None:
        return False
    so_far.add(_ended(call, no.code, Payload(no.told_ref)))
    if no.times >= PROPOSALS_BEFORE_LOOP:
        so_far.stop_run(
            run.id,
            "rejection_loop",
            code="interrupted",
            cause="the run stops: a call was proposed again and again after a no.",
            finish=False,  # The step's later calls are answered first.
        )
    return True


def _rule(so_far: Unfolding, command: c.Propose, run: Run, call: c.Sound) -> None:
    match call.ruling:
        case Deny(rule=rule, reason=reason):
            told = so_far.text(wording.policy_denied(rule, reason))
            so_far.add(_ended(call, "policy_denied", told))
        case Allow():
            if not call.readable:
                raise InvalidInput(
                    "unreadable_allowed", "Unreadable arguments are never allowed (G4)."
                )
            if call.kind == "question":
                raise InvalidInput("question_allowed", "A question is always put to a person.")
            freeze(so_far, call, version=1)
        case Ask() if grant := covering(so_far.state, call, command.policy_version):
            freeze(so_far, call, version=1, grant=grant.id)
        case Ask():
            needs = call.ruling.needs
            waiting = sum(
                r.pending and r.kind != "settlement" for r in so_far.state.requests.values()
            )
            if not needs.possible(run.requester):
                told = so_far.text(wording.no_approver(nobody(needs, run.requester)))
                so_far.add(_ended(call, "no_approver", told))
            elif waiting >= command.most_waiting:
                cause = f"{waiting} requests wait in this session, and no more may."
                so_far.add(_ended(call, "interrupted", so_far.text(wording.interrupted(cause))))
            else:
                freeze(so_far, call, version=1)
                ask(
                    so_far,
                    call,
                    needs=needs,
                    deadline_at=so_far.state.now + call.ruling.lasts,
                    policy_version=command.policy_version,
                )


def nobody(needs: Needs, requester: str) -> str:
    """Say why nobody may decide."""
    people = needs.people(requester)
    if not needs.approvers:
        return "no approver is named."
    excluded = " (the requester is excluded)" if needs.exclude_requester else ""
    return f"{needs.quorum} must approve, and {len(people)} may{excluded}."


def freeze(so_far: Unfolding, call: c.Sound, *, version: int, grant: str | None = None) -> str:
    """Write down the action that a call stands for from now on, and give its digest (G3, G4)."""
    if (call.draft.tenant, call.draft.session) != (so_far.state.tenant, so_far.state.id):
        raise InvalidInput("other_session", "The action belongs to another session (G11).")
    document = call.draft.document()
    generation = so_far.state.generation(call.surface)
    digest = action_digest(document, generation=generation)
    so_far.add(
        e.CallProposed(
            at=call.draft.at,
            tool_call_id=call.draft.tool_call_id,
            tool=call.draft.tool,
            call_key=call.call_key,
            kind=call.kind,
            surface=call.surface,
            version=version,
            action=so_far.text(json.dumps(document, ensure_ascii=False)),
            digest=digest,
            generation=generation,
            tool_fingerprint=call.draft.tool_fingerprint,
            scope=call.draft.scope,
            environment=so_far.environment(call.draft.environment),
            recovery=call.recovery,
            approvers=call.approvers,
            rule=call.ruling.rule,
            escalation=call.escalation,
            not_requester=isinstance(call.ruling, Ask) and call.ruling.needs.exclude_requester,
            grant=grant,
            shadow=call.shadow,
            display=so_far.text(_shown(call.display)),
            claim=so_far.text(call.display.claim) if call.display.claim else None,
        )
    )
    return digest


def ask(
    so_far: Unfolding,
    call: c.Sound,
    *,
    needs: Needs,
    deadline_at: datetime,
    policy_version: str,
    replaces: str | None = None,
    changes: str | None = None,
) -> str:
    """Open the request for the action that a call now stands for, and give its id."""
    frozen = so_far.call(call.draft.at)
    requester = so_far.run(frozen.at.run).requester
    request = short_id("rq", frozen.digest)
    if request in so_far.state.requests:
        raise Conflict(
            "digest_reused", "A new version needs a salt of its own (G3).", request_id=request
        )
    so_far.add(
        e.RequestOpened(
            request=request,
            kind="question" if frozen.kind == "question" else "approval",
            at=frozen.at,
            digest=frozen.digest,
            tool=frozen.tool,
            needs=needs.named(requester),
            requester=requester,
            deadline_at=deadline_at,
            rule=call.ruling.rule,
            policy_version=policy_version,
            grounds=so_far.text(call.ruling.reason),
            replaces=replaces,
            asked_since=None if replaces is None else so_far.request(replaces).since,
            changes=None if changes is None else so_far.text(changes),
            readable=call.readable,
            escalation=call.ruling.escalation if isinstance(call.ruling, Ask) else (),
            hold=call.ruling.hold if isinstance(call.ruling, Ask) else "session",
        )
    )
    return request


def _shown(display: Display) -> str:
    """Write down what the tool declares for people to read, as JSON (H1)."""
    return json.dumps(
        {
            "effect": display.effect,
            "reversible": display.reversible,
            **({"preview": display.preview} if display.preview else {}),
            **({"cost": asdict(display.cost)} if display.cost is not None else {}),
            **({"secrets": list(display.secrets)} if display.secrets else {}),
        },
        ensure_ascii=False,
    )


def record_reads(so_far: Unfolding, command: c.RecordReads) -> None:
    """Give each declared read of a step its result."""
    so_far.driven_by(command.run, command.fence)
    # What was found is told, though the failure of another read stops the run.
    for index, code, told in sorted(command.results, key=lambda result: result[1] in FAILURES):
        call = so_far.call(Occurrence(command.run, command.step, index))
        if not call.open:
            continue
        if call.kind != "read" or not isinstance(call.state, Allowed):
            raise Refusal(
                "not_a_read", "Only a read that is allowed has no intent.", call=str(call.at)
            )
        so_far.end_call(call.at, code, so_far.text(told), own=command.raised.get(index))
    so_far.finish_if_idle(command.run)
