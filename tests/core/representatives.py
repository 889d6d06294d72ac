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
from tests.core.build import (
    AGAIN,
    ALLOW,
    ANN,
    DENY,
    DONE,
    LOST,
    OTHER,
    PROBED,
    RAISED,
    World,
    approve,
    approved,
    asking,
    at,
    edit,
    executing,
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
    world.start("k1", parent=at())
    return _of(world)


def _retry() -> Subject:
    world = executing(recovery=AGAIN)
    world.conclude(RAISED)
    world.wait(timedelta(seconds=1))
    world.lease()
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


def _final() -> Subject:
    world = World()
    world.start()
    world.propose(answer="done")
    return _of(world)


REQUESTS: Mapping[str, Callable[[], Subject]] = {
    "Open": lambda: _of(asking()),
    "Open, at its deadline": lambda: _past(asking()),
    "Approved": lambda: _of(approved()),
    "Approved, at its deadline": lambda: _past(approved()),
    "Spent": lambda: _of(executing()),
    "Rejected": lambda: _then(asking(), _reject),
    "Superseded": lambda: _then(asking(), _edit),
    "Voided": _voided,
    "Expired": lambda: _then(_past(asking()).world, lambda world: c.Expire(run="r1")),
    "Cancelled": lambda: _then(asking(), _cancel),
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
    "Delegated": _delegated,
    "Executing": lambda: _of(executing()),
    "Executing, idempotent": lambda: _of(executing(recovery=AGAIN)),
    "Executing, with a probe": lambda: _of(executing(recovery=PROBED)),
    "Executing, driven by another": _abandoned,
    "RetryDue": _retry,
    "Lost": _probed,
    "Unsettled": _settlement,
    "CallOver": _over,
}

RUNS: Mapping[str, Callable[[], Subject]] = {
    "Working": _started,
    "Working, its lease over": _lease_over,
    "Resting, work to do": lambda: _started(holder=None),
    "Resting, waiting": lambda: _of(asking()),
    "Stopping": lambda: _then(executing(), _cancel),
    "RunOver, final": _final,
    "RunOver, cancelled": lambda: _then(_started().world, _cancel),
    "Hosted": lambda: _started(holder=None, kind="hosted"),
}


def commands(subject: Subject) -> Mapping[str, Mapping[str, c.Command]]:
    """Give every command, as the run's driver or an eligible person would send it to a subject."""
    world, request = subject.world, subject.request
    run = world.run()
    fence = run.fence if run.kind == "driven" else None
    call = world.state.calls.get(at())
    attempts = call.attempts if call else 0
    if at() not in world.drafts:
        world.drafts[at()] = sound()
    held = getattr(call.state, "fence", 0) if call else 0

    def conclude(outcome: Any) -> c.Conclude:
        return c.Conclude(at=at(), attempt=attempts, fence=held, outcome=outcome)

    today = world.drafts[at()]
    today = replace(today, draft=replace(today.draft, salt="ab" * 16))
    edited = sound(arguments={"amount": 7}, salt="cd" * 16)
    begin = c.Begin(
        at=at(),
        fence=fence,
        holder=OTHER,
        digest=call.digest if call else "",
        today=today,
        eligible=frozenset({"ann", "bob"}),
        policy_version="p1",
    )
    step: dict[str, Any] = {"step": run.step + 1, "salt": "ef" * 16, "arguments": {"amount": 9}}
    return {
        "People": {
            "Approve": approve(request),
            "Reject": reject(request),
            "Withdraw": c.Withdraw(request=request, by=ANN),
            "Edit": edit(request, edited),
            "Settle": settle(request, False),
            "Expire": c.Expire(run="r1"),
        },
        "Runs": {
            "StartRun": start("r2", holder=None),
            "StartRun, superseding": start("r2", holder=None, supersede=True),
            "StartRun, for a call": start("k2", holder=None, parent=at()),
            "TakeLease": c.TakeLease(run="r1", holder=OTHER),
            "RenewLease": c.RenewLease(run="r1", fence=run.fence),
            "ReleaseLease": c.ReleaseLease(run="r1", fence=run.fence),
            "FinishRun": c.FinishRun(run="r1", fence=fence, stop="final"),
            "CancelRun": c.CancelRun(run="r1", by=ANN, cause="enough"),
        },
        "Steps and effects": {
            "Propose": world.proposal(sound(0, **step)),
            "Propose, allowed": world.proposal(sound(0, ruling=ALLOW, **step)),
            "Propose, denied": world.proposal(sound(0, ruling=DENY, **step)),
            "Propose, no calls": world.proposal(answer="done"),
            "RecordReads": c.RecordReads(
                run="r1", step=1, fence=fence, results=((0, "succeeded", "x"),)
            ),
            "Begin": begin,
            "Begin, the world changed": replace(
                begin, today=replace(today, draft=replace(today.draft, environment="changed"))
            ),
            "Begin, ann may not decide any more": replace(begin, eligible=frozenset({"bob"})),
            "Conclude, succeeded": conclude(DONE),
            "Conclude, failed": conclude(RAISED),
            "Conclude, unknown": conclude(LOST),
            "Lose": c.Lose(at=at(), attempt=attempts, fence=fence, cause="gone"),
            "Probed, it happened": c.Probed(
                at=at(), attempt=attempts, fence=fence, happened=True, told="done"
            ),
            "Probed, unsure": c.Probed(at=at(), attempt=attempts, fence=fence, happened=None),
        },
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
            for group, columns in commands(make()).items():
                for column in columns:
                    yield _cell(kind, row, group, column, make())


def _cell(kind: str, row: str, group: str, column: str, subject: Subject) -> Cell:
    command = commands(subject)[group][column]
    before = subject.world.state
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
