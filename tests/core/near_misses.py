"""Random lives of a session, and near misses: valid commands that are wrong in one field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from placet.core import commands as c
from placet.core.decide import decide
from placet.core.errors import PlacetError
from placet.core.state import (
    Allowed,
    Executing,
    Request,
    RetryDue,
    RunOver,
    UndoDue,
    Working,
)
from placet.core.values import CallCode, Occurrence, Principal, Recovery, Ruling, Undoing
from placet.core.work import (
    CallModel,
    Delegate,
    Done,
    ExpireDue,
    Finish,
    Probe,
    Recover,
    ResumeHost,
    RunEffect,
    RunReads,
    TakeBack,
    Unwind,
    Wait,
)
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK,
    ASK_MORE,
    ASK_TWO,
    BOB,
    BOT,
    DENY,
    DONE,
    ENDED,
    EVE,
    EVERYBODY,
    HOLDER,
    LOST,
    MICROSECOND,
    NOT_DONE,
    ONCE,
    OTHER,
    PROBED,
    RAISED,
    ROLL_BACK,
    SAFE,
    SAFE_AGAIN,
    TERMS,
    USER,
    World,
    answer,
    approve,
    edit,
    grant,
    question,
    reject,
    settle,
    sound,
    start,
    unsound,
)

Choose = Callable[[Sequence[Any]], Any]

RULINGS: tuple[Ruling, ...] = (ASK, ASK_MORE, ASK_TWO, ALLOW, DENY)
RECOVERIES: tuple[Recovery, ...] = (
    ONCE,
    AGAIN,
    PROBED,
    Recovery(compensation=SAFE),
    Recovery(compensation=Undoing(idempotent=True)),
    replace(AGAIN, roll_back=ROLL_BACK, compensation=SAFE_AGAIN),
)
#: What leads away from the deeper states, and is chosen less often.
DISTURBING = (
    c.StartRun,
    c.CancelRun,
    c.EndSession,
    c.Withdraw,
    c.ReleaseLease,
    c.RenewLease,
    c.Compact,
    c.Expire,
    c.RecordDelivery,
)

SOMEBODY_ELSE = Principal(id="mallory")


# --- lives ----------------------------------------------------------------------------------------


def live(choose: Choose, *, moves: int, commands: set[type] | None = None) -> World:
    """Give a world after so many moves, each chosen among those that are possible.

    The classes of the commands that were applied are added to `commands`.
    """
    world = World(careful=False)  # Long lives would take long.
    world.apply(_start("r1", choose))
    for _ in range(moves):
        possible = valid(world, choose)
        instants = later(world)
        if instants and (not possible or choose(range(8)) == 0):
            world.until(choose(instants))
        elif possible:
            kinds = list(dict.fromkeys(type(command) for command in possible))
            kind = choose([*kinds, *[k for k in kinds if k not in DISTURBING] * 3])
            command = choose([command for command in possible if type(command) is kind])
            world.apply(command)
            if commands is not None:
                commands.add(type(command))
    return world


def valid(world: World, choose: Choose) -> list[c.Command]:
    """Give commands that bring something about now."""
    found = [*_people(world, choose), *_runs(world, choose), *_bodies(world)]
    return [command for command in found if _does_something(world, command)]


def _does_something(world: World, command: c.Command) -> bool:
    try:
        return bool(decide(world.state, command))
    except PlacetError:
        return False


def later(world: World) -> list[datetime]:
    """Give the instants at which something changes by itself, in order."""
    state = world.state
    found = [r.deadline_at for r in state.requests.values() if r.pending and not r.lapsed]
    found += [r.escalates_at for r in state.requests.values() if r.escalates_at is not None]
    found += [x.state.until for x in state.runs.values() if isinstance(x.state, Working)]
    found += [x.state.until for x in state.calls.values() if isinstance(x.state, Executing)]
    due = (RetryDue, UndoDue)
    found += [x.state.again_at for x in state.calls.values() if isinstance(x.state, due)]
    return sorted(instant for instant in found if instant > state.now)


def _people(world: World, choose: Choose) -> Iterator[c.Command]:
    for request in world.state.requests.values():
        if request.kind == "settlement":
            yield settle(request.id, choose((True, False, None)))
            continue
        if request.kind == "question":
            yield answer(request.id, choose(("red", "blue")), choose((ANN, USER)))
            yield reject(request.id, choose((ANN, USER)))
            continue
        for by in (ANN, BOB):
            yield approve(request.id, by)
            yield c.Withdraw(request=request.id, by=by)
            if request.at in world.drafts:
                terms = replace(TERMS, scope=choose(("run", "session")), uses=choose((1, 2)))
                yield grant(world, request.id, terms, by=by)
        yield reject(request.id, choose((ANN, BOB)))
        yield _edit(world, request, choose)
    for request in world.state.requests.values():
        channel, delivered = choose(("mail", "phone")), choose((True, False))
        yield c.RecordDelivery(
            request=request.id, channel=channel, delivered=delivered, cause="500"
        )
    for given in world.state.grants:
        yield c.Revoke(grant=given, by=choose((ANN, BOB)), eligible=EVERYBODY)
    for run in world.state.runs.values():
        if choose(range(6)) == 0:
            yield c.CancelRun(run=run.id, by=ANN, cause="enough")
        yield c.Expire(run=run.id)
    if choose(range(20)) == 0:
        yield c.EndSession(by=ANN, cause="enough")


def _edit(world: World, request: Request, choose: Choose) -> c.Command:
    place = request.at
    proposal = sound(
        place.index,
        step=place.step,
        run=place.run,
        arguments={"amount": choose((1, 2, 3))},
        ruling=choose(RULINGS),
    )
    return edit(request.id, proposal)


def _runs(world: World, choose: Choose) -> Iterator[c.Command]:
    over = all(isinstance(run.state, RunOver) for run in world.state.runs.values())
    if over or choose(range(6)) == 0:
        yield replace(_start(f"r{len(world.state.runs) + 1}", choose), supersede=True)
    for run in list(world.state.runs.values()):
        if isinstance(run.state, RunOver):
            continue
        if run.kind == "hosted":
            yield c.TakeResults(run=run.id, step=run.step)
            yield from _hosted(world, run.id, choose)
            continue
        for holder in (HOLDER, OTHER):
            yield c.TakeLease(run=run.id, holder=holder)
        yield c.RenewLease(run=run.id, fence=run.fence)
        yield c.ReleaseLease(run=run.id, fence=run.fence, pause=choose((None, timedelta(hours=1))))
        step = choose(range(run.view_from, run.step + 1))
        yield c.Compact(run=run.id, fence=run.fence, step=step, summary="so far")
        yield from _works(world, run.id, run.fence, choose)


def _start(run: str, choose: Choose) -> c.StartRun:
    if choose(range(4)) == 0:
        return start(run, kind="hosted", holder=None)
    mode = choose(("act", "act", "act", "act", "plan-act", "think"))
    on_failure = choose(("continue", "stop", "compensate_earlier", "compensate_earlier"))
    saga = choose(("step", "run"))
    return start(run, max_steps=choose((1, 4)), mode=mode, on_failure=on_failure, saga=saga)


def _hosted(world: World, run: str, choose: Choose) -> Iterator[c.Command]:
    """Give what a framework does with its run; it may have several steps open."""
    if world.run(run).step < 4:
        yield _turn(world, run, choose)
    for call in list(world.state.calls.values()):
        if call.at.run == run and call.open and call.kind in ("effect", "agent"):
            yield from _begins_of(world, call.at, choose)
    yield from _works(world, run, None, choose)
    yield c.FinishRun(run=run, fence=None, stop="final")


def _turn(world: World, run: str, choose: Choose) -> c.Propose:
    found = world.run(run)
    count = choose((0, 1, 2, 3))
    if found.mode != "act" and found.plan is None:
        count = choose((0, 0, 0, 1))
    step = found.step + 1
    calls = [_call(choose, Occurrence(run, step, index)) for index in range(count)]
    for call in calls:
        if isinstance(call, c.Sound):
            world.drafts[call.draft.at] = call
    return world.proposal(
        *calls, run=run, answer=None if calls else "done", plan=choose((("look",), ("a", "b")))
    )


def _begins_of(world: World, place: Occurrence, choose: Choose) -> Iterator[c.Begin]:
    """Give how a call is taken through the gate: in the same world, in others, by fewer people."""
    child = c.Child(run=f"k{len(world.state.runs)}", agent="b", message="do", max_steps=4)
    begin = world.beginning(place.index, step=place.step, run=place.run)
    if world.state.calls[place].kind == "agent":
        begin = replace(begin, child=child)
    elif world.state.calls[place].recovery.roll_back is not None:
        begin = replace(begin, snapshot="as it was")
    yield begin
    today = begin.today
    assert isinstance(today, c.Sound)
    draft = replace(today.draft, environment=f"head {choose((1, 2))}")
    yield replace(begin, today=replace(today, draft=draft))
    yield replace(begin, eligible=frozenset({"bob", "eve"}))


def _works(world: World, run: str, fence: int | None, choose: Choose) -> Iterator[c.Command]:
    match world.work(run):
        case CallModel():
            yield _turn(world, run, choose)
        case RunReads(calls=calls):
            ok: CallCode = "succeeded"
            results = tuple((place.index, ok, "42") for place in calls)
            yield c.RecordReads(run=run, step=calls[0].step, fence=fence, results=results)
        case RunEffect(at=place) | Delegate(at=place):
            yield from _begins_of(world, place, choose)
        case Recover(at=place):
            attempt = world.state.calls[place].attempts
            yield c.Lose(at=place, attempt=attempt, fence=fence, cause="gone")
        case Probe(at=place):
            attempt = world.state.calls[place].attempts
            yield c.Probed(
                at=place,
                attempt=attempt,
                fence=fence,
                happened=choose((True, False, None)),
                told="done",
                body_gone=choose((True, False)),
            )
        case TakeBack(at=place):
            yield world.taking_back(place.index, step=place.step, run=run)
        case Unwind(at=place):
            yield world.unwinding(place.index, step=place.step, run=run)
        case Finish(stop=stop):
            yield c.FinishRun(run=run, fence=fence, stop=stop)
        case ExpireDue() | Wait() | ResumeHost() | Done():
            pass


def _call(choose: Choose, place: Occurrence) -> c.Proposal:
    where: dict[str, Any] = {"step": place.step, "run": place.run}
    kind = choose(("effect", "effect", "effect", "read", "agent", "question", "unsound"))
    if kind == "unsound":
        return unsound(place.index, **where)
    if kind == "question":
        return question(place.index, **where)
    return sound(
        place.index,
        **where,
        kind=kind,
        ruling=choose(RULINGS) if kind == "effect" else choose((ALLOW, ALLOW, ASK)),
        surface=choose(("payments", "payments", "shell", "*")),
        recovery=choose(RECOVERIES),
        arguments={"amount": choose((1, 2, 3, 4, 5, 6))},
    )


def _bodies(world: World) -> Iterator[c.Command]:
    for call in world.state.calls.values():
        if isinstance(call.state, Executing):
            for outcome in (DONE, RAISED, NOT_DONE, LOST, ENDED):
                yield c.Conclude(
                    at=call.at, attempt=call.attempts, fence=call.state.fence, outcome=outcome
                )


# --- near misses ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A command that is wrong in what `wrong` names, perhaps by its time."""

    wrong: str
    command: c.Command
    at: datetime | None = None


def near_misses(world: World, command: c.Command) -> Iterator[NearMiss]:
    """Give what differs from a valid command in one field."""
    match command:
        case c.Approve() | c.Reject() | c.Edit() | c.Settle() | c.Answer():
            yield from _decisions(world, command)
        case c.Withdraw():
            yield NearMiss("a stranger's vote", replace(command, by=SOMEBODY_ELSE))
            yield NearMiss("an agent's credential", replace(command, by=BOT))
            yield NearMiss("another session's request", replace(command, request="rq_other"))
            yield NearMiss("another digest", replace(command, digest="0" * 64))
        case c.RecordDelivery():
            yield NearMiss("another session's request", replace(command, request="rq_other"))
            yield NearMiss("no channel", replace(command, channel=""))
        case c.Revoke():
            yield NearMiss("a stranger", replace(command, by=SOMEBODY_ELSE))
            yield NearMiss("an agent's credential", replace(command, by=BOT))
            yield NearMiss("another session's grant", replace(command, grant="gr_other"))
        case c.Begin():
            yield from _begins(world, command)
        case c.TakeBack():
            yield NearMiss("another digest", replace(command, digest="0" * 64))
            yield NearMiss("another call", replace(command, at=replace(command.at, index=99)))
            yield from _fenced(world, command, command.at.run)
        case c.Unwind():
            other = replace(command.at, index=99)
            yield NearMiss("another call", replace(command, at=other))
            yield NearMiss("another effect", replace(command, earlier=other))
            if command.earlier is None:
                yield NearMiss("another text", replace(command, told="it went well"))
            yield from _fenced(world, command, command.at.run)
        case c.Conclude():
            for field in ("attempt", "fence"):
                for step in (-1, 1):
                    wrong = replace(command, **{field: getattr(command, field) + step})
                    yield NearMiss(f"{field} {step:+}", wrong)
        case c.Lose() | c.Probed():
            for step in (-1, 1):
                yield NearMiss(
                    f"attempt {step:+}", replace(command, attempt=command.attempt + step)
                )
            yield from _fenced(world, command, command.at.run)
        case c.Propose():
            yield from _proposals(world, command)
        case c.RecordReads() | c.RenewLease() | c.ReleaseLease() | c.FinishRun():
            yield from _fenced(world, command, command.run)
        case c.StartRun():
            known = next(iter(world.state.runs))
            yield NearMiss("a known run's id", replace(command, run=known, agent="another"))
        case c.Compact():
            yield from _fenced(world, command, command.run)
            run = world.run(command.run)
            yield NearMiss("a step to come", replace(command, step=run.step + 1))
            yield NearMiss("a step out of view", replace(command, step=run.view_from))
        case c.TakeResults():
            yield NearMiss("another session's run", replace(command, run="other"))
            yield NearMiss("too early a look", replace(command, seen=0))
        case c.EndSession():
            pass  # Nothing in it can be wrong but who sends it, and that is the caller's to check.
        case c.TakeLease() | c.CancelRun() | c.Expire():
            yield NearMiss("another session's run", replace(command, run="other"))


def _decisions(
    world: World, command: c.Approve | c.Reject | c.Edit | c.Settle | c.Answer
) -> Iterator[NearMiss]:
    request = world.state.requests[command.request]
    yield NearMiss("another digest", replace(command, digest="0" * 64))
    yield NearMiss("another session's request", replace(command, request="rq_other"))
    yield NearMiss("a stranger", replace(command, by=SOMEBODY_ELSE))
    yield NearMiss("an agent's credential", replace(command, by=replace(command.by, kind="agent")))
    yield NearMiss("the runtime's", replace(command, by=replace(command.by, kind="runtime")))
    if command.by.id != request.requester:  # Whom a run acts for may answer its questions.
        yield NearMiss("not eligible", replace(command, eligible=EVERYBODY - {command.by.id}))
    if EVE.id not in request.needs_at(world.state.now).approvers:
        yield NearMiss("no approver of this", replace(command, by=EVE))
    if isinstance(command, c.Settle):
        yield NearMiss("no result", replace(command, happened=True, detail=""))
        return
    yield NearMiss("at the deadline", command, request.deadline_at)
    yield NearMiss("a microsecond too late", command, request.deadline_at + MICROSECOND)
    if isinstance(command, c.Edit):
        draft = command.proposal.draft
        for field, value in (("tool", "wire"), ("tool_call_id", "x"), ("session", "s2")):
            changes: dict[str, Any] = {field: value}
            other = replace(command.proposal, draft=replace(draft, **changes))
            yield NearMiss(f"edited {field}", replace(command, proposal=other))
        same = replace(command.proposal, call_key=world.state.calls[request.at].call_key)
        yield NearMiss("the same arguments", replace(command, proposal=same))


def _begins(world: World, command: c.Begin) -> Iterator[NearMiss]:
    yield NearMiss("another digest", replace(command, digest="0" * 64))
    yield NearMiss("another call", replace(command, at=replace(command.at, index=99)))
    today = command.today
    assert isinstance(today, c.Sound)
    moved = replace(today.draft, at=replace(command.at, index=98))
    yield NearMiss("another call's ruling", replace(command, today=replace(today, draft=moved)))
    yield from _fenced(world, command, command.at.run)
    known = c.Child(run=command.at.run, agent="b", message="do", max_steps=4)
    wrong = known if command.child is None else None
    yield NearMiss("a run too many, or too few", replace(command, child=wrong))
    if command.child is not None and today.ruling == ALLOW:
        taken = replace(command.child, run=command.at.run)
        if isinstance(world.state.calls[command.at].state, Allowed):
            yield NearMiss("a run's id that is taken", replace(command, child=taken))
    for request in world.state.requests.values():
        if request.at == command.at and request.pending:
            yield NearMiss("at the deadline", command, request.deadline_at)
            yield NearMiss("too late", command, request.deadline_at + MICROSECOND)


def _proposals(world: World, command: c.Propose) -> Iterator[NearMiss]:
    yield from _fenced(world, command, command.run)
    if command.fence is not None:  # A framework's steps are named by the framework.
        yield NearMiss("a step too far", replace(command, step=command.step + 1))
    for call in command.calls[:1]:
        if isinstance(call, c.Sound):
            for field, value in (("run", "other"), ("step", 99)):
                changes: dict[str, Any] = {field: value}
                place = replace(call.draft.at, **changes)
                moved = replace(call, draft=replace(call.draft, at=place))
                calls = (moved, *command.calls[1:])
                yield NearMiss(f"another {field}", replace(command, calls=calls))


def _fenced(world: World, command: Any, run: str) -> Iterator[NearMiss]:
    if command.fence is None:  # A framework drives the run, and there is no lease.
        return
    for step in (-1, 1):
        yield NearMiss(f"fence {step:+}", replace(command, fence=command.fence + step))
    state = world.state.runs[run].state
    if isinstance(state, Working):
        yield NearMiss("at the lease's end", command, state.until)
        yield NearMiss("after the lease's end", command, state.until + MICROSECOND)
