"""next_work(state, run) -> what a run's loop does next: start, resume and recovery alike (D2).

Each kind of work names one command or one call of a body. What waits for a person, for a time or
for another effect is `Wait`; then nothing is held (D1).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.core.state import (
    Allowed,
    Approved,
    Asking,
    Call,
    CallOver,
    Delegated,
    Executing,
    Lost,
    Open,
    Request,
    Resting,
    RetryDue,
    Run,
    RunOver,
    Session,
    UndoDue,
    Unsettled,
    Unwinding,
    Working,
    overlap,
    undoable,
)
from placet.core.values import Occurrence, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel:
    """Ask the model for step `step`. A `closing` turn offers it no tools."""

    step: int
    closing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReads:
    """Run these declared reads; they may run together."""

    calls: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEffect:
    """Take this effect through the gate."""

    at: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegate:
    """Open a child run for this call."""

    at: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """The attempt's holder is not the run's holder any more: its outcome was lost."""

    at: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Ask the tool's probe what became of the lost attempt."""

    at: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """Take back what this call may have done (D8)."""

    at: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwind:
    """Take back what `earlier` did, because the call at `at` failed; None: no more is left (D8)."""

    at: Occurrence
    earlier: Occurrence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDue:
    """Something in the session is past its deadline, or more people are to be asked.

    `closes` is False where nothing is past its deadline.
    """

    closes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing can be done before `until`, or before somebody acts where it is None.

    `requests` wait for people: the run's own, and those of its child runs; `held_by` names what
    else is in the way.
    """

    until: datetime | None
    requests: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeHost:
    """Tell the framework that hosts the run to go on: what it waited for is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Nothing is under way and the run is to end."""

    stop: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The run is over."""

    stop: StopReason


Work = (
    CallModel
    | RunReads
    | RunEffect
    | Delegate
    | Recover
    | Probe
    | TakeBack
    | Unwind
    | ExpireDue
    | Wait
    | ResumeHost
    | Finish
    | Done
)


#: The states of an effect that has begun, and that nobody knows the end of yet.
_UNDER_WAY = (Executing, RetryDue, Lost, UndoDue, Unsettled)


def due_requests(state: Session) -> list[Request]:
    """Give what is past its deadline and not yet closed for it (G9)."""
    return [
        request
        for request in state.requests.values()
        if request.pending and not request.lapsed and state.now >= request.deadline_at
    ]


def is_late(state: Session, request: str) -> bool:
    """Say whether a request can only be a no any more, and nothing has closed it for that yet."""
    return any(due.id == request and due.kind != "settlement" for due in due_requests(state))


def due_escalations(state: Session) -> list[Request]:
    """Give what waits for more people than have been told (G9)."""
    return [
        request
        for request in state.requests.values()
        if (at := request.escalates_at) is not None and state.now >= at
    ]


def held_by(state: Session, call: Call) -> str | None:
    """Name the request or effect that keeps this effect from starting (G8), if any does.

    An open approval request holds every effect that nobody was asked about, and of the approved
    ones those that are newer. An approved one holds what is newer than it. A settlement, and an
    effect under way, hold their surface; and the rest of their step, where a failure would end it
    (D8). What has begun is not held.
    """
    if isinstance(call.state, UndoDue) or (call.attempts and isinstance(call.state, RetryDue)):
        return None
    asked = isinstance(call.state, Asking)
    for request in sorted(state.requests.values(), key=lambda r: (r.order, r.id)):
        if not request.pending or request.at == call.at:
            continue
        if request.kind == "settlement":
            if overlap(request.surface, call.surface):
                return request.id
        elif request.hold == "surface" and not overlap(request.surface, call.surface):
            continue
        elif request.order < call.order or (isinstance(request.state, Open) and not asked):
            return request.id
    in_turn = state.runs[call.at.run].on_failure != "continue"
    step = (call.at.run, call.at.step)
    for other in state.calls.values():
        if other.at == call.at or not isinstance(other.state, (*_UNDER_WAY, Unwinding)):
            continue
        if in_turn and (other.at.run, other.at.step) == step:
            return str(other.at)
        if overlap(other.surface, call.surface) and not isinstance(other.state, Unsettled):
            return str(other.at)
    return None


def under_way(state: Session, *, besides: Occurrence) -> list[Call]:
    """Give the effects of a session that have begun and that nobody knows the end of yet.

    What a failed call takes back of earlier ones may touch any surface, and waits for them all.
    """
    calls = state.calls.values()
    return [call for call in calls if isinstance(call.state, _UNDER_WAY) and call.at != besides]


def next_work(state: Session, run_id: str) -> Work:
    """Say what the loop of the run does next."""
    run = state.runs[run_id]
    if isinstance(run.state, RunOver):
        return Done(stop=run.state.stop)
    if (closes := bool(due_requests(state))) or due_escalations(state):
        return ExpireDue(closes=closes)
    calls = [c for c in state.calls.values() if c.at.run == run_id and c.open]
    calls.sort(key=lambda call: call.at)
    if urgent := _urgent(state, run, calls):
        return urgent
    if run.kind == "hosted" and (calls or run.stopping is None):
        return _hosted(state, run, calls)
    if calls:
        return _runnable(state, calls) or _wait(state, calls)
    return _between_steps(state, run)


def _urgent(state: Session, run: Run, calls: list[Call]) -> Work | None:
    """Recovery, before anything new: the world is in an unknown state."""
    for call in calls:
        if isinstance(call.state, Executing) and _abandoned(state, run, call.state):
            return Recover(at=call.at)
    for call in calls:
        if isinstance(call.state, Lost):
            return Probe(at=call.at)
    for call in calls:
        if isinstance(call.state, UndoDue) and state.now >= call.state.again_at:
            return TakeBack(at=call.at)
    for call in calls:
        if isinstance(call.state, Unwinding) and not under_way(state, besides=call.at):
            return Unwind(at=call.at, earlier=undoable(run, call.at))
    return None


def _abandoned(state: Session, run: Run, executing: Executing) -> bool:
    """Say whether the attempt's holder has no right to it any more (D5)."""
    if run.kind == "hosted":
        return state.now >= executing.until
    if isinstance(run.state, Working):
        return executing.fence < run.fence or state.now >= run.state.until
    return True


def is_awaited(call: Call) -> bool:
    """Say whether the framework that proposed a call waits for others, or for a body, to go on."""
    return call.open and not isinstance(call.state, Allowed)


def _hosted(state: Session, run: Run, calls: list[Call]) -> Work:
    """A framework goes on by itself, unless it waits for what others had to decide."""
    awaited = [call for call in calls if is_awaited(call)]
    for call in awaited:
        held = call.kind != "agent" and held_by(state, call) is not None
        if _may_begin(state, call) and not held:
            return ResumeHost()
    if run.decided > run.taken and not awaited:
        return ResumeHost()
    return _wait(state, calls)


def _runnable(state: Session, calls: list[Call]) -> Work | None:
    reads = tuple(c.at for c in calls if isinstance(c.state, Allowed) and c.kind == "read")
    if reads:
        return RunReads(calls=reads)
    for call in calls:
        if call.kind == "agent" and _may_begin(state, call):
            return Delegate(at=call.at)
    for call in calls:
        if _may_begin(state, call) and held_by(state, call) is None:
            return RunEffect(at=call.at)
    return None


def _may_begin(state: Session, call: Call) -> bool:
    """Say whether a call is allowed or approved, and its time has come."""
    match call.state:
        case RetryDue(again_at=again_at):
            return state.now >= again_at
        case Allowed():
            return True
        case Asking(request=request):
            return isinstance(state.requests[request].state, Approved)
        case _:
            return False


def _wait(state: Session, calls: list[Call]) -> Wait:
    until: list[datetime] = []
    requests: list[str] = []
    held: list[str] = []
    for call in calls:
        match call.state:
            case Asking(request=request) | Unsettled(request=request):
                waits = state.requests[request]
                until.append(min(waits.deadline_at, waits.escalates_at or waits.deadline_at))
                if isinstance(waits.state, Open):
                    requests.append(request)
                elif by := held_by(state, call):
                    held.append(by)
            case RetryDue(again_at=again_at) | UndoDue(again_at=again_at):
                until.append(again_at)
            case Executing(until=ends):
                until.append(ends)
            case Allowed():
                if by := held_by(state, call):
                    held.append(by)
            case Delegated(child=child):
                held.append(child)
                below = next_work(state, child)
                if isinstance(below, Wait):
                    requests.extend(below.requests)
            case Unwinding():
                held.extend(str(other.at) for other in under_way(state, besides=call.at))
            case Lost() | CallOver():
                pass
    return Wait(until=min(until) if until else None, requests=tuple(requests), held_by=tuple(held))


def _between_steps(state: Session, run: Run) -> Work:
    if run.stopping is not None:
        return Finish(stop=run.stopping)
    if run.step < run.max_steps:
        return CallModel(step=run.step + 1)
    gated = any(call.asked for call in state.step_calls(run.id, run.step))
    if run.step == run.max_steps and gated:
        return CallModel(step=run.step + 1, closing=True)
    return Finish(stop="max_steps")


def wake_at(state: Session, run: Run) -> datetime | None:
    """Say when a driver should look at the run again; None: not before somebody acts.

    While a run is driven this is the end of its lease, so that a driver that dies is missed.
    """
    match run.state:
        case RunOver():
            return None
        case Working(until=until):
            return until
        case Resting(not_before=not_before):
            work = next_work(state, run.id)
            ready = work.until if isinstance(work, Wait) else state.now
            if ready is None or not_before is None:
                return ready
            return max(ready, not_before)
