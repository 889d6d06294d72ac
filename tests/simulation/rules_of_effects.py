"""What must be true whenever an action is frozen, begun, lost, taken back or ended (D4, D8)."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import rfc8785

from placet.core import events as e
from placet.core.proposals import Sound
from placet.core.values import Ask
from tests.simulation.record import Attempt, Call, Hearing, Request, Version, overlaps
from tests.simulation.truth import Body

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

#: The result of a call that never ran.
NEVER_RAN = frozenset(
    "rejected expired unreachable no_approver policy_denied invalid_arguments unknown_tool"
    " call_changed interrupted superseded cancelled environment_unstable".split()
)

TOOL_FAILURES = ("tool_failed", "tool_failed_and_rolled_back", "tool_failed_and_compensated")

#: What an effect can be, of which the world keeps count.
EFFECTS = ("effect",)


def digest_of(document: dict[str, Any], generation: int) -> str:
    """Give an action's digest: SHA-256 over the RFC 8785 form of its parts (G3)."""
    return hashlib.sha256(rfc8785.dumps({**document, "generation": generation})).hexdigest()


def proposed(heard: Hearing, event: e.CallProposed) -> None:
    """Hold an action that is frozen: it is what its digest says, and of this session (G3, G4)."""
    record, hold = heard.record, heard.hold
    assert event.action.body is not None, "a new action comes with its text"
    document: dict[str, Any] = json.loads(event.action.body)
    call = record.calls.get(event.at)
    if call is None:
        call = Call(
            at=event.at,
            tool=event.tool,
            kind=event.kind,
            surface=event.surface,
            order=record.seq,
            recovery=event.recovery,
        )
        record.calls[event.at] = call
    hold("G5", not call.attempts, "an action that has begun is frozen anew")
    hold("G6", not call.code, "a call that has its result is frozen anew")
    hold("G5", event.version == len(call.versions) + 1, "a version is left out")
    if event.version == 1:
        hold("G6", not record.refused(event.at.run, event.call_key), "a no is asked about again")
    hold("G3", digest_of(document, event.generation) == event.digest, "the digest is another's")
    hold("G3", event.generation == record.generation(event.surface), "the generation is wrong")
    known = {version.digest for version in call.versions}
    hold("G3", event.digest not in known, "two versions have one digest")
    place = tuple(document[name] for name in ("tenant", "session", "run", "step", "index"))
    here = (record.tenant, record.session, event.at.run, event.at.step, event.at.index)
    hold("G11", place == here, "an action is of another place")
    call.tool, call.kind, call.surface = event.tool, event.kind, event.surface
    call.recovery = event.recovery
    call.versions.append(Version(event.version, event.digest, document))


# --- beginning ----------------------------------------------------------------------------------


def begun(heard: Hearing, event: e.AttemptBegun, promises: Promises) -> None:
    """Hold an intent: it is somebody's to make, and it is for what was allowed or approved."""
    record, call, hold = heard.record, heard.call(event.at), heard.hold
    hold("G6", not call.code or bool(call.undoing), "a call that has its result is begun")
    last = call.last
    hold("D4", last is None or bool(last.over), "an attempt is begun beside another")
    hold("D4", event.attempt == len(call.attempts) + 1, "an attempt is miscounted")
    hold("D5", event.holder == heard.holder, "an intent is in another's name")
    run = record.runs[event.at.run]
    if run.kind == "driven":
        hold("D5", event.fence == run.fence, "an intent has another fence")
    if not call.code:
        _alone(heard, call)
    if event.purpose != "run":
        hold("D8", call.undoing == event.purpose, "it is taken back in a way that was not chosen")
        promises.begun_to_take_back(heard, call, event)
    elif not call.attempts:
        _first(heard, call, event.request, promises)
        if event.grant is not None:
            _granted(heard, call, event.grant)
        elif event.request is None:
            promises.allowed(heard, call)
    else:
        promises.begun_again(heard, call)
    known = promises.by_key.get(event.key)
    hold("D4", known is None or known is call, "two calls have one idempotency key")
    promises.by_key[event.key] = call
    made = Attempt(
        number=event.attempt,
        key=event.key,
        purpose=event.purpose,
        holder=event.holder,
        fence=event.fence,
        until=event.until,
        seq=record.seq,
    )
    call.attempts.append(made)
    record.intents.append((call, made))


def delegated(heard: Hearing, event: e.CallDelegated, promises: Promises) -> None:
    call = heard.call(event.at)
    heard.hold("G7", not call.child and not call.code, "a call opens a second run")
    heard.hold("G2", call.kind == "agent", "a tool is delegated")
    _first(heard, call, event.request, promises)
    call.child = event.child


def _first(heard: Hearing, call: Call, request_id: str | None, promises: Promises) -> None:
    """Hold the first beginning of an action: with an approval that lives, or allowed by policy."""
    record, hold = heard.record, heard.hold
    run = record.runs[call.at.run]
    hold("D8", not run.stopping, "an effect begins while its run stops")
    if run.on_failure != "continue":
        broken = [x for x in record.calls.values() if _step(x) == _step(call) and _failed(x)]
        hold("D8", not broken, "an effect begins though another of its step has failed")
    asked = call.now.request
    hold("G1", (request_id or "") == asked, "an action is begun without the approval it needs")
    pending = [r for r in record.requests.values() if not r.closed and r.at != call.at]
    if request_id is None:
        if call.kind != "agent":
            waiting = [r for r in pending if _holds(r, call) and r.waits]
            hold("G8", not waiting, "an effect slips past while a request waits")
    else:
        request = heard.request(request_id)
        _approved(heard, call, request)
        promises.unchanged(heard, call)
        request.closed = "spent"
    if call.kind != "agent":
        older = [r for r in pending if _holds(r, call) and r.order < call.order]
        hold("G8", not older, "a newer action goes before an older one")


def _holds(request: Request, call: Call) -> bool:
    return request.kind != "settlement" and request.holds(call.surface)


def _granted(heard: Hearing, call: Call, grant_id: str) -> None:
    """Hold an action that begins under a standing grant to what that permits (G12)."""
    record, hold = heard.record, heard.hold
    grant = record.grants.get(grant_id)
    hold("G12", grant is not None, "an action begins under a grant that does not stand")
    if grant is None:
        return
    event, document = grant.event, call.now.document
    hold("G12", heard.now < event.until and grant.left > 0, "a grant is used past its end")
    tool = (event.tool, event.tool_fingerprint, event.surface)
    frozen = (call.tool, document["tool_fingerprint"], call.surface)
    hold("G12", tool == frozen, "a grant is used for another tool")
    arguments = document.get("arguments", {})
    hold("G12", {*arguments} == {*event.same, *event.any}, "other arguments")
    hold("G10", event.by in heard.may_decide(event.rule), "a grant outlives its giver's authority")
    given = record.calls[record.requests[event.request].at]
    version = next(v for v in given.versions if v.request == event.request)
    for name in event.same:
        same = version.document["arguments"][name] == arguments[name]
        hold("G12", same, f"a grant is used for another {name}")
    mine = call.at.run == event.run if event.run else record.runs[call.at.run].parent is None
    below = event.run is None or record.under(call.at.run, event.run)
    hold("G12", mine or (event.children and below), "a grant reaches a run that it is not for")
    policy = getattr(heard.command, "policy_version", "")
    hold("G12", policy == event.policy_version, "a grant outlives the policy it was given under")
    grant.left -= 1


def _step(call: Call) -> tuple[str, int]:
    return call.at.run, call.at.step


def _failed(call: Call) -> bool:
    return call.withheld or call.code in TOOL_FAILURES


def _approved(heard: Hearing, call: Call, request: Request) -> None:
    hold, now = heard.hold, call.now
    hold("G7", request.kind == "approval", "what is no approval is spent")
    hold("G7", not request.closed, f"a closed request ({request.closed}) is spent")
    hold("G3", request.at == call.at and request.digest == now.digest, "another action is approved")
    hold("G9", heard.now < request.deadline, "an approval is spent past its deadline")
    people = heard.may_decide(request.rule, request)
    today = getattr(heard.command, "today", None)
    if isinstance(today, Sound) and isinstance(today.ruling, Ask):
        people |= heard.may_decide(today.ruling.rule, request)
    standing = {vote for vote in request.votes if vote in people}
    hold("G10", len(standing) >= request.quorum, "too few with authority have approved")
    if call.kind != "agent":
        for other, attempt in heard.record.intents:
            known = other is call or other.order < call.order
            grown = attempt.seq > now.asked_seq and overlaps(other.surface, call.surface)
            hold("G13", known or not grown, "the surface has changed since it was asked about")


def _alone(heard: Hearing, call: Call) -> None:
    """Hold that nothing else is under way, or unsettled, where an effect begins (G8)."""
    for other in heard.record.calls.values():
        if other is call or not overlaps(other.surface, call.surface):
            continue
        begun_ = any(not attempt.over for attempt in other.attempts)
        open_ = other.under_way and other.kind == "effect" and call.kind == "effect"
        heard.hold("G8", not begun_ and not (open_ and not call.attempts), "two effects at once")
    if call.attempts:
        return
    for request in heard.record.requests.values():
        if request.kind == "settlement" and not request.closed and request.at != call.at:
            closed = overlaps(request.surface, call.surface)
            heard.hold("D4", not closed, "an effect begins on a surface that is to be settled")


# --- ends of attempts ---------------------------------------------------------------------------


def _ended(heard: Hearing, event: e.AttemptFailed | e.AttemptLost, over: str) -> Attempt:
    call = heard.call(event.at)
    last = call.last
    assert last is not None, "an attempt that never began has ended"
    heard.hold("D4", last.number == event.attempt, "another attempt than the last one ends")
    heard.hold("D4", last.over in ("", "lost"), "an attempt ends twice")
    last.over = over
    return last


def failed(heard: Hearing, event: e.AttemptFailed, promises: Promises) -> None:
    """Hold that another attempt is due only where it may be (D4)."""
    call = heard.call(event.at)
    last = _ended(heard, event, "failed")
    if event.not_done:
        promises.certain(heard, call, "what may have acted counts as not done", last.number)
    elif last.purpose == "run":
        heard.hold("D4", call.recovery.idempotent, "what may have acted is tried again")


def lost(heard: Hearing, event: e.AttemptLost) -> None:
    heard.hold("D4", not heard.call(event.at).code or bool(heard.call(event.at).undoing), "late")
    lost_ = _ended(heard, event, "lost")
    lost_.was_lost, lost_.lost_at = True, heard.at


def undoing(heard: Hearing, event: e.CallUndoing, promises: Promises) -> None:
    """Hold that only what may have acted is taken back, as its tool declares (D8)."""
    call, recovery = heard.call(event.at), heard.call(event.at).recovery
    declared = recovery.roll_back if event.how == "roll_back" else recovery.compensation
    heard.hold("D8", declared is not None, "it is taken back in a way that is not declared")
    if declared is not None and call.code != "succeeded":
        heard.hold("D8", declared.safe_if_absent, "it is undone though it may not have happened")
    if call.code:
        run = heard.record.runs[event.at.run]
        saga = run.on_failure == "compensate_earlier"
        heard.hold("D8", saga, "what has succeeded is taken back")
        heard.hold("D8", bool(run.stands) and run.stands[-1] is call, "not the latest goes first")
    for attempt in call.attempts:
        attempt.over = attempt.over or "failed"
    call.undoing = event.how


def unwinding(heard: Hearing, event: e.UnwindingBegun) -> None:
    call = heard.call(event.at)
    heard.hold("D8", not call.code, "a call that has its result takes earlier ones back")
    for attempt in call.attempts:
        attempt.over = attempt.over or "ended"
    call.withheld, call.undoing = True, ""


def unwound(heard: Hearing, event: e.EffectUnwound, promises: Promises) -> None:
    """Hold what is said of an earlier effect against what became of it (D8)."""
    call = heard.call(event.at)
    heard.hold("D8", bool(call.code), "what has no result yet is unwound")
    heard.hold("D8", not call.unwound, "an effect is unwound twice")
    for attempt in call.attempts:
        attempt.over = attempt.over or "ended"
    call.unwound, call.undoing = event.outcome, ""
    stands = heard.record.runs[event.at.run].stands
    heard.hold("D8", bool(stands) and stands[-1] is call, "not the latest is taken back first")
    if call in stands:
        stands.remove(call)
    if event.outcome in ("rolled_back", "compensated") and not event.by:
        promises.taken_back(heard, call)


# --- ends of calls ------------------------------------------------------------------------------


def ended(heard: Hearing, event: e.CallEnded, promises: Promises) -> None:
    """Hold a call's one result against what is true of the world (G6, D4)."""
    record, hold = heard.record, heard.hold
    call = record.calls.get(event.at)
    if call is None:
        call = Call(
            at=event.at,
            tool=event.tool,
            kind="read",
            surface="",
            order=record.seq,
            recovery=promises.no_recovery,
        )
        record.calls[event.at] = call
        hold("G6", event.code != "succeeded", "a call that was never ruled on succeeds")
    hold("G6", not call.code, "a call has two results")
    waiting = [
        r for r in record.requests.values() if r.at == event.at and not r.closed and not r.lapsed
    ]
    hold("G6", not waiting, "a call ends while people are asked about it")
    for attempt in call.attempts:
        attempt.over = attempt.over or "ended"
    run = record.runs[event.at.run]
    if call.withheld:
        scope = [x for x in run.stands if run.saga == "run" or x.at.step == call.at.step]
        hold("D8", not scope, "a failure is told before what earlier calls did is taken back")
    if event.code == "succeeded" and call.kind == "effect":
        run.stands.append(call)
    call.code, call.ended_by, call.undoing, call.withheld = event.code, event.by, "", False
    if event.code in ("rejected", "expired", "unreachable"):
        record.noes.add((record.top(event.at.run), event.call_key))
    elif event.code in ("no_approver", "policy_denied"):
        record.noes.add((event.at.run, event.call_key))
    if call.kind not in EFFECTS:
        return
    settled = any(record.requests[each].closed for each in call.settlements)
    if event.code in NEVER_RAN and not settled:
        promises.never_ran(heard, call)
    elif event.code == "succeeded" and not settled:
        promises.succeeded(heard, call)
    elif event.code == "outcome_unknown":
        hold("D4", bool(call.settlements), "an unknown outcome was put to nobody")
    elif event.code in ("tool_failed_and_rolled_back", "tool_failed_and_compensated"):
        promises.taken_back(heard, call)
    elif event.code == "tool_failed" and "It did not act" in (event.told.body or ""):
        promises.certain(heard, call, "the model is told that an effect was not done")


# --- in the world -------------------------------------------------------------------------------


def entered(body: Body, call: Call | None, attempt: Attempt | None) -> list[tuple[str, str]]:
    """Say what is wrong with an entry of a body."""
    if call is None or not call.versions:
        return [("G2", f"a body of {body.tool} is entered without any action on record")]
    wrong = []
    if call.tool != body.tool or call.now.document.get("arguments") != {"n": body.n}:
        wrong.append(("G4", f"a body is entered with other arguments than {call.at} has"))
    if body.kind == "read" and not call.now.request:
        if call.kind != "read":
            wrong.append(("G1", f"{call.at} is entered as a read, and is none"))
        return wrong
    if attempt is None:
        return [*wrong, ("G2", f"the body of {call.at} is entered without an intent")]
    if attempt.entered:
        wrong.append(("G7", f"the body of {call.at} is entered twice for one intent"))
    if attempt.purpose != body.kind and body.kind != "read":
        wrong.append(("D8", f"{call.at} is entered to {body.kind}, not to {attempt.purpose}"))
    if attempt.holder != body.process.holder:
        wrong.append(("D5", f"the body of {call.at} is entered by another process"))
    attempt.entered += 1
    body.attempt = attempt.number
    return wrong
