"""Sessions that stand for each state of a request, a call and a run, and each command to them.

tests/core/test_state_table.py and docs/reference/states.md are made of them by the real `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from placet.core import commands as c
from placet.core import events as e
from placet.core.decide import unfold
from placet.core.errors import PlacetError
from placet.core.state import Session
from placet.core.values import Recovery
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    ASK_MORE,
    COMPENSATED,
    DENY,
    DONE,
    ESCALATION,
    LOST,
    OTHER,
    PROBED,
    RAISED,
    TERMS,
    World,
    answer,
    approve,
    approved,
    asking,
    at,
    edit,
    executing,
    failed,
    grant,
    question,
    reject,
    settle,
    sound,
    start,
    unsettled,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A session, and the run, call and request in it that the row is about."""

    world: World
    request: str = "rq_none"


def _of(world: World) -> Subject:
    about = [r.id for r in world.state.requests.values()]
    return Subject(world, about[0] if about else "rq_none")


def _then(world: World, *commands: Callable[[World], c.Command]) -> Subject:
    subject = _of(world)
    for command in commands:
        world.apply(command(world))
    return subject


def _past(world: World) -> Subject:
    world.until(world.asked().deadline_at)
    return _of(world)


def _escalating() -> Subject:
    world = asking(ASK_MORE)
    world.wait(ESCALATION[0].after)
    return _of(world)


def _voided() -> Subject:
    world = approved()
    subject = _of(world)
    world.begin(today=sound(environment="changed"))
    return subject


def _lapsed() -> Subject:
    world = unsettled()
    request = world.asked().id
    world.until(world.asked().deadline_at)
    world.expire()
    return Subject(world, request)


def _settlement(happened: bool | None = None, *, settled: bool = False) -> Subject:
    world = unsettled()
    request = world.asked().id
    if settled:
        world.apply(settle(request, happened))
    return Subject(world, request)


def _cancel(world: World) -> c.Command:
    return c.CancelRun(run="r1", by=ANN, cause="enough")


def _reject(world: World) -> c.Command:
    return reject(world.asked().id)


def _edit(world: World) -> c.Command:
    return edit(world.asked().id, sound(arguments={"amount": 5}))


def _delegated() -> Subject:
    world = asking(ALLOW, kind="agent")
    world.delegate()
    return _of(world)


def _retry() -> Subject:
    world = executing(recovery=AGAIN)
    world.conclude(RAISED)
    world.wait(timedelta(seconds=1))
    world.lease()
    return _of(world)


def _undoing() -> Subject:
    world = failed()
    world.take_back()
    return _of(world)


def unwinding(*, recovery: Recovery = COMPENSATED, fails: bool = True) -> World:
    """Give a world in which the call 1 succeeded, and then the call 0 of its step failed."""
    world = World()
    world.start(on_failure="compensate_earlier")
    world.propose(sound(0, ruling=ALLOW), sound(1, ruling=ALLOW, recovery=recovery))
    world.begin(1)
    world.conclude(DONE, 1)
    world.begin(0)
    if fails:
        world.conclude(RAISED, 0)
    return world


def _unwound() -> Subject:
    world = unwinding()
    world.unwind()
    world.take_back(1)
    world.conclude(DONE, 1)
    return _of(world)


def _taken_up() -> Subject:
    world = unwinding()
    world.unwind()
    world.take_back(1)
    return _of(world)


def _granted() -> Subject:
    world = World()
    world.start()
    world.propose(sound(1, arguments={"amount": 5}))
    world.apply(grant(world, world.asked(1).id))
    world.lease()
    world.begin(1)
    world.conclude(DONE, 1)
    world.propose(sound(0, step=2, arguments={"amount": 5}))
    return _of(world)


def _probed() -> Subject:
    world = executing(recovery=PROBED)
    world.conclude(LOST)
    return _of(world)


def _abandoned() -> Subject:
    world = executing()
    world.wait(timedelta(minutes=2))
    world.lease(holder=OTHER)
    return _of(world)


def _over() -> Subject:
    world = executing()
    world.conclude(DONE)
    return _of(world)


def _started(**changes: Any) -> Subject:
    world = World()
    world.start(**changes)
    return _of(world)


def _lease_over() -> Subject:
    subject = _started()
    subject.world.wait(timedelta(minutes=2))
    return subject


def _asking(*calls: c.Sound, **changes: Any) -> World:
    world = World()
    world.start(**changes)
    world.propose(*calls)
    return world


def _answer(world: World) -> c.Command:
    return answer(world.asked().id)


def _approved_agent() -> Subject:
    world = asking(kind="agent")
    world.apply(approve(world.asked().id))
    world.lease()
    return _of(world)


def _planned() -> Subject:
    subject = _started(mode="plan-act")
    subject.world.propose(plan=("look", "pay"))
    return subject


def _taken() -> Subject:
    subject = _started()
    subject.world.propose(sound(ruling=DENY))
    return subject


def _decided() -> Subject:
    return _then(_asking(sound(), kind="hosted", holder=None), _reject)


def _ended_session() -> Subject:
    return _then(executing(), lambda world: c.EndSession(by=ANN))


def _final() -> Subject:
    world = World()
    world.start()
    world.propose(answer="done")
    return _of(world)


def _delivery(request: str, *, delivered: bool) -> c.Command:
    return c.RecordDelivery(request=request, channel="mail", delivered=delivered, cause="500")


def _told(*, delivered: bool) -> Subject:
    return _then(asking(), lambda world: _delivery(world.asked().id, delivered=delivered))


def _expired(world: World) -> Subject:
    return _then(_past(world).world, lambda _: c.Expire(run="r1"))


REQUESTS: Mapping[str, Callable[[], Subject]] = {
    "Open": lambda: _of(asking()),
    "Open, at its deadline": lambda: _past(asking()),
    "Open, more people to be asked": _escalating,
    "Approved": lambda: _of(approved()),
    "Approved, at its deadline": lambda: _past(approved()),
    "Spent": lambda: _of(executing()),
    "Rejected": lambda: _then(asking(), _reject),
    "Superseded": lambda: _then(asking(), _edit),
    "Voided": _voided,
    "Expired": lambda: _expired(asking()),
    "Expired, and nobody could be told": lambda: _expired(_told(delivered=False).world),
    "Open, told of on a channel": lambda: _told(delivered=True),
    "Open, and a channel has failed": lambda: _told(delivered=False),
    "Cancelled": lambda: _then(asking(), _cancel),
    "Open question": lambda: _of(_asking(question())),
    "Answered": lambda: _then(_asking(question()), _answer),
    "Open settlement": _settlement,
    "Lapsed settlement": _lapsed,
    "Settled": lambda: _settlement(settled=True),
}

CALLS: Mapping[str, Callable[[], Subject]] = {
    "Allowed effect": lambda: _of(asking(ALLOW)),
    "Allowed read": lambda: _of(asking(ALLOW, kind="read")),
    "Allowed agent": lambda: _of(asking(ALLOW, kind="agent")),
    "Asking": lambda: _of(asking()),
    "Asking, approved": lambda: _of(approved()),
    "Asking, an approved agent": _approved_agent,
    "Asking a question": lambda: _of(_asking(question())),
    "Delegated": _delegated,
    "Executing": lambda: _of(executing()),
    "Executing, idempotent": lambda: _of(executing(recovery=AGAIN)),
    "Executing, with a probe": lambda: _of(executing(recovery=PROBED)),
    "Executing, driven by another": _abandoned,
    "RetryDue": _retry,
    "Lost": _probed,
    "Executing, with a compensation": lambda: _of(executing(recovery=COMPENSATED)),
    "UndoDue": lambda: _of(failed()),
    "Executing, taking back": _undoing,
    "Allowed by a grant": _granted,
    "Executing, after another of its saga": lambda: _of(unwinding(fails=False)),
    "Unwinding": lambda: _of(unwinding()),
    "Unwinding, an earlier one has no way back": lambda: _of(unwinding(recovery=Recovery())),
    "Unwinding, an earlier one under way": _taken_up,
    "Unwinding, all taken back": _unwound,
    "Unsettled": _settlement,
    "CallOver": _over,
}

RUNS: Mapping[str, Callable[[], Subject]] = {
    "Working": _started,
    "Working, its lease over": _lease_over,
    "Working, a step taken": _taken,
    "Working, to think": lambda: _started(mode="think"),
    "Working, to make a plan": lambda: _started(mode="plan-act"),
    "Working on a plan": _planned,
    "Resting, work to do": lambda: _started(holder=None),
    "Resting, waiting": lambda: _of(asking()),
    "Stopping": lambda: _then(executing(), _cancel),
    "RunOver, final": _final,
    "RunOver, cancelled": lambda: _then(_started().world, _cancel),
    "Hosted": lambda: _started(holder=None, kind="hosted"),
    "Hosted, its request decided": _decided,
    "Stopping, its session ended": _ended_session,
}


def commands(subject: Subject) -> Mapping[str, Mapping[str, c.Command]]:
    """Give every command, as the run's driver or an eligible person would send it to a subject."""
    world = subject.world
    run = world.run()
    if at() not in world.drafts:
        world.drafts[at()] = sound()
    fence = run.fence if run.kind == "driven" else None
    return {
        "People": _of_people(subject),
        "Runs": _of_runs(world, fence),
        "Steps": _of_steps(world, fence),
        "Effects": _of_effects(world, fence),
    }


def _of_people(subject: Subject) -> Mapping[str, c.Command]:
    world, request = subject.world, subject.request
    return {
        "Approve": approve(request),
        "Approve, with a grant": _with_grant(world, request),
        "Revoke": c.Revoke(grant=next(iter(world.state.grants), "gr_none"), by=ANN, eligible=ALL),
        "Reject": reject(request),
        "Withdraw": c.Withdraw(request=request, by=ANN),
        "Edit": edit(request, sound(arguments={"amount": 7}, salt="cd" * 16)),
        "Answer": answer(request),
        "Settle": settle(request, False),
        "Expire": c.Expire(run="r1"),
        "RecordDelivery": _delivery(request, delivered=True),
        "RecordDelivery, in vain": _delivery(request, delivered=False),
        "EndSession": c.EndSession(by=ANN),
    }


ALL = frozenset({"ann", "bob"})


def _with_grant(world: World, request: str) -> c.Command:
    known = world.state.requests.get(request)
    if known is None or known.at not in world.drafts:
        return approve(request, grant=TERMS)
    return grant(world, request)


def _of_runs(world: World, fence: int | None) -> Mapping[str, c.Command]:
    run = world.run()
    return {
        "StartRun": start("r2", holder=None),
        "StartRun, superseding": start("r2", holder=None, supersede=True),
        "TakeLease": c.TakeLease(run="r1", holder=OTHER),
        "RenewLease": c.RenewLease(run="r1", fence=run.fence),
        "ReleaseLease": c.ReleaseLease(run="r1", fence=run.fence),
        "FinishRun": c.FinishRun(run="r1", fence=fence, stop="final"),
        "CancelRun": c.CancelRun(run="r1", by=ANN, cause="enough"),
        "Compact": c.Compact(run="r1", fence=run.fence, step=1, summary="so far"),
        "TakeResults": c.TakeResults(run="r1", step=1),
    }


def _of_steps(world: World, fence: int | None) -> Mapping[str, c.Command]:
    step = {"step": world.run().step + 1, "salt": "ef" * 16, "arguments": {"amount": 9}}
    proposed: dict[str, Any] = step
    return {
        "Propose": world.proposal(sound(0, **proposed)),
        "Propose, allowed": world.proposal(sound(0, ruling=ALLOW, **proposed)),
        "Propose, denied": world.proposal(sound(0, ruling=DENY, **proposed)),
        "Propose, a question": world.proposal(question(0, **proposed)),
        "Propose, no calls": world.proposal(answer="done", plan=("look", "pay")),
        "RecordReads": c.RecordReads(
            run="r1", step=1, fence=fence, results=((0, "succeeded", "x"),)
        ),
    }


def _of_effects(world: World, fence: int | None) -> Mapping[str, c.Command]:
    call = world.state.calls.get(at())
    attempts = call.attempts if call else 0
    held = getattr(call.state, "fence", 0) if call else 0
    digest = call.digest if call else ""
    today = world.drafts[at()]
    today = replace(today, draft=replace(today.draft, salt="ab" * 16))
    begin = c.Begin(
        at=at(),
        fence=fence,
        holder=OTHER,
        digest=digest,
        today=today,
        eligible=frozenset({"ann", "bob"}),
        policy_version="p1",
    )
    changed = replace(today, draft=replace(today.draft, environment="changed"))
    child = c.Child(run="k2", agent="b", message="do", max_steps=5)
    probed = c.Probed(at=at(), attempt=attempts, fence=fence, happened=None)

    def conclude(outcome: Any) -> c.Conclude:
        return c.Conclude(at=at(), attempt=attempts, fence=held, outcome=outcome)

    return {
        "Begin": begin,
        "Begin, the world changed": replace(begin, today=changed),
        "Begin, ann may not decide any more": replace(begin, eligible=frozenset({"bob"})),
        "Begin, a child run": replace(begin, child=child),
        "TakeBack": c.TakeBack(at=at(), fence=fence, holder=OTHER, digest=digest),
        "Unwind": world.unwinding(),
        "Conclude, succeeded": conclude(DONE),
        "Conclude, failed": conclude(RAISED),
        "Conclude, unknown": conclude(LOST),
        "Lose": c.Lose(at=at(), attempt=attempts, fence=fence, cause="gone"),
        "Probed, it happened": replace(probed, happened=True, told="done"),
        "Probed, unsure": probed,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What the real `decide` answers to one command in one state."""

    kind: str
    row: str
    group: str
    column: str
    events: tuple[e.Event, ...] = ()
    refused: str = ""
    moves: tuple[tuple[str, str, str], ...] = ()


def cells() -> Iterator[Cell]:
    """Give every cell of the table."""
    kinds = {"Requests": REQUESTS, "Calls": CALLS, "Runs": RUNS}
    for kind, rows in kinds.items():
        for row, make in rows.items():
            subject = make()
            for group, columns in commands(subject).items():
                for column, command in columns.items():
                    yield _cell(kind, row, group, column, subject.world.state, command)


def _cell(
    kind: str, row: str, group: str, column: str, before: Session, command: c.Command
) -> Cell:
    try:
        events, after = unfold(before, command)
    except PlacetError as error:
        return Cell(kind=kind, row=row, group=group, column=column, refused=error.code)
    return Cell(
        kind=kind,
        row=row,
        group=group,
        column=column,
        events=events,
        moves=tuple(_moves(before, after)),
    )


def _moves(before: Session, after: Session) -> Iterator[tuple[str, str, str]]:
    """Name what went from one state to another: (what, from, to)."""
    for request in after.requests.values():
        old = before.requests.get(request.id)
        name = type(request.state).__name__
        source = "[*]" if old is None else type(old.state).__name__
        if source != name:
            yield "request", source, name
    for call in after.calls.values():
        known = before.calls.get(call.at)
        name = type(call.state).__name__
        source = "[*]" if known is None else type(known.state).__name__
        if source != name:
            yield "call", source, name
