"""A breadth-first walk over the real `unfold` and `next_work`, with a shadow model of the world.

Theory of operation. A node is a session and a shadow. The shadow knows what no session can: which
process is inside which body, which bodies may have acted, who has said what. It is kept from the
commands that were accepted, not from what the core concludes of them, and `_entered` holds the
promises at each entry of a body. Nodes are told apart by `_key`, which leaves out what cannot
matter: sequence numbers, ids, and instants but for whether they have passed and their order.
A walk ends where no node is new; then every node must be able to reach the end of its runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from placet.core import commands as c
from placet.core import events as e
from placet.core.canonical import digest_of
from placet.core.decide import unfold
from placet.core.errors import Refusal
from placet.core.state import (
    Approved,
    Asking,
    Call,
    Executing,
    Lost,
    Open,
    Request,
    RetryDue,
    Run,
    RunOver,
    Session,
    Unsettled,
    Working,
    overlap,
)
from placet.core.values import Allow, Ask, Holder, Occurrence, Principal
from placet.core.work import (
    CallModel,
    Delegate,
    Done,
    ExpireDue,
    Finish,
    Probe,
    Recover,
    RunEffect,
    Wait,
    next_work,
)
from tests.core.build import ANN, BOB, DONE, EVE, LOST, NOT_DONE, RAISED, session, sound

PARENT, CHILD = "r", "k"
HOLDERS = tuple(Holder(host="h", boot="b", pid=pid, started="0") for pid in (0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What the model proposes in step 1, and how often each misfortune may happen."""

    calls: tuple[dict[str, Any], ...]
    child: tuple[dict[str, Any], ...] = ()
    people: tuple[Principal, ...] = (ANN, BOB)
    drivers: int = 2
    crashes: int = 1
    leases_lost: int = 1
    worlds: int = 0
    edits: int = 0
    withdrawals: bool = False
    dismissals: int = 0
    cancels: bool = False
    outcomes: tuple[c.Succeeded | c.Failed | c.Unknown, ...] = (DONE, LOST)


@dataclass(frozen=True, slots=True)
class Driver:
    """A process: the leases that it believes it holds, and the body that it is inside."""

    fences: tuple[tuple[str, int], ...] = ()
    inside: tuple[Occurrence, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Shadow:
    """What is true of the world, whatever the session says."""

    drivers: tuple[Driver, ...]
    acted: frozenset[Occurrence] = frozenset()
    votes: frozenset[tuple[str, str]] = frozenset()
    noes: frozenset[str] = frozenset()
    asks: frozenset[tuple[Occurrence, int]] = frozenset()
    environment: int = 0
    edited: int = 0
    crashes: int = 0
    leases_lost: int = 0
    dismissed: frozenset[str] = frozenset()
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    state: Session
    shadow: Shadow


@dataclass(slots=True)
class Walk:
    """How far a walk came."""

    states: int = 0
    transitions: int = 0
    refusals: int = 0
    ends: int = 0
    entered: int = 0
    events: set[str] = field(default_factory=set)


class Broken(AssertionError):
    """A promise does not hold; says after which moves."""


def explore(scenario: Scenario, *, most: int = 400_000) -> Walk:
    """Walk every interleaving; raises Broken with the moves that lead to the fault."""
    first = Node(session(), Shadow(tuple(Driver() for _ in range(scenario.drivers))))
    started = c.StartRun(run=PARENT, agent="a", requester="user", message="go")
    first = Node(unfold(first.state, started)[1], first.shadow)
    walk = Walk()
    numbers = {_key(first): 0}
    came_from: list[tuple[int, str]] = [(-1, "")]
    before: list[list[int]] = [[]]
    ends: list[int] = []
    queue = deque([(0, first)])
    while queue:
        number, node = queue.popleft()
        label = ""
        try:
            _hold(node)
            if all(isinstance(run.state, RunOver) for run in node.state.runs.values()):
                ends.append(number)
            for label, after in _moves(scenario, node, walk):
                walk.transitions += 1
                key = _key(after)
                if key not in numbers:
                    numbers[key] = len(came_from)
                    came_from.append((number, label))
                    before.append([])
                    queue.append((numbers[key], after))
                before[numbers[key]].append(number)
                label = ""
        except (AssertionError, KeyError) as error:
            raise Broken(f"{error!r} after {_path(came_from, number)} > {label}") from error
        if len(came_from) > most:
            raise Broken(f"more than {most} states")
    walk.states, walk.ends = len(came_from), len(ends)
    _all_reach_an_end(before, ends, came_from)
    return walk


def _path(came_from: list[tuple[int, str]], number: int) -> str:
    moves: list[str] = []
    while number > 0:
        number, label = came_from[number]
        moves.append(label)
    return " > ".join(reversed(moves))


def _all_reach_an_end(
    before: list[list[int]], ends: list[int], came_from: list[tuple[int, str]]
) -> None:
    reached = set(ends)
    stack = list(ends)
    while stack:
        for number in before[stack.pop()]:
            if number not in reached:
                reached.add(number)
                stack.append(number)
    stuck = [n for n in range(len(before)) if n not in reached]
    if stuck:
        raise Broken(f"no end is reached after {_path(came_from, stuck[0])}")


# --- what tells nodes apart ---------------------------------------------------------------------


def _key(node: Node) -> object:
    state, shadow = node.state, node.shadow
    names = {r.id: (r.at, r.kind, r.version, r.replaces is None) for r in state.requests.values()}
    deadlines = sorted({r.deadline_at for r in state.requests.values() if r.pending})
    return (
        tuple(_run_key(state, run) for _, run in sorted(state.runs.items())),
        tuple(_call_key(state, call) for _, call in sorted(state.calls.items())),
        tuple(
            sorted(
                (names[r.id], repr(r.state) if r.pending else type(r.state).__name__, r.lapsed)
                + ((r.deadline_at <= state.now, deadlines.index(r.deadline_at)) if r.pending else ())
                for r in state.requests.values()
            )
        ),
        tuple(
            (
                tuple((run, fence == state.runs[run].fence) for run, fence in driver.fences),
                driver.inside
                and (driver.inside[0], driver.inside[1], _held(state, driver.inside)),
            )
            for driver in shadow.drivers
        ),
        shadow.acted,
        frozenset((names[request], by) for request, by in shadow.votes),
        shadow.asks,
        (shadow.environment, shadow.edited, shadow.crashes, shadow.leases_lost),
        shadow.dismissed,
        shadow.cancelled,
    )


def _run_key(state: Session, run: Run) -> object:
    match run.state:
        case Working(holder=holder, until=until):
            return run.id, run.step, run.stopping, holder.pid, state.now < until
        case RunOver(stop=stop):
            return run.id, stop
        case _:
            return run.id, run.step, run.stopping


def _call_key(state: Session, call: Call) -> object:
    more: object = ()
    match call.state:
        case Executing(fence=fence):
            more = fence == state.runs[call.at.run].fence
        case RetryDue(again_at=again_at, lost=lost):
            more = (again_at <= state.now, lost)
        case Asking():
            more = state.foreign(call.surface, call.at) - call.foreign
        case _:
            pass
    if not call.open:
        return call.at, getattr(call.state, "code", "")
    counts = (call.attempts, call.voids, call.version, call.asked, call.environment)
    return call.at, type(call.state).__name__, more, counts, call.edited_by


def _held(state: Session, inside: tuple[Occurrence, int, int]) -> bool:
    call = state.calls[inside[0]]
    held = isinstance(call.state, Executing) and call.state.fence == inside[2]
    return held and call.attempts == inside[1]


# --- the moves ----------------------------------------------------------------------------------


def _moves(scenario: Scenario, node: Node, walk: Walk) -> Iterator[tuple[str, Node]]:
    yield from _of_time(scenario, node)
    for label, who, command in (
        *_of_people(scenario, node),
        *_of_drivers(scenario, node),
    ):
        after = _applied(scenario, node, who, command, walk)
        if after is not None:
            yield label, after
    for number, driver in enumerate(node.shadow.drivers):
        if driver != Driver() and node.shadow.crashes < scenario.crashes:
            crashed = replace(node.shadow, crashes=node.shadow.crashes + 1)
            yield f"crash {number}", Node(node.state, _with(crashed, number, Driver()))
    if node.shadow.environment < scenario.worlds:
        changed = replace(node.shadow, environment=node.shadow.environment + 1)
        yield "the world changes", Node(node.state, changed)
    if len(node.shadow.dismissed) < scenario.dismissals:
        yield "ann leaves", Node(node.state, replace(node.shadow, dismissed=frozenset({"ann"})))


def _of_time(scenario: Scenario, node: Node) -> Iterator[tuple[str, Node]]:
    state = node.state
    deadlines = [r.deadline_at for r in state.requests.values() if r.pending and not r.lapsed]
    retries = [x.state.again_at for x in state.calls.values() if isinstance(x.state, RetryDue)]
    leases = [x.state.until for x in state.runs.values() if isinstance(x.state, Working)]
    for label, instants in (("deadline", deadlines), ("retry", retries)):
        later = [instant for instant in instants if instant > state.now]
        if later:
            yield f"to the {label}", Node(replace(state, now=min(later)), node.shadow)
    later = [instant for instant in leases if instant > state.now]
    if later and node.shadow.leases_lost < scenario.leases_lost:
        shadow = replace(node.shadow, leases_lost=node.shadow.leases_lost + 1)
        yield "to the lease's end", Node(replace(state, now=min(later)), shadow)
    elif later and _nobody_drives(node):
        yield "to a dead lease's end", Node(replace(state, now=min(later)), node.shadow)


def _nobody_drives(node: Node) -> bool:
    """Say whether every lease was left behind by a process that is gone."""
    believed = {
        (run, fence) for driver in node.shadow.drivers for run, fence in driver.fences
    }
    return not any(
        isinstance(run.state, Working) and (run.id, run.fence) in believed
        for run in node.state.runs.values()
    )


Move = tuple[str, int | None, c.Command]


def _of_people(scenario: Scenario, node: Node) -> Iterator[Move]:
    eligible = frozenset({"ann", "bob"}) - node.shadow.dismissed
    people = scenario.people
    for request in node.state.requests.values():
        if not request.pending:
            continue
        name = f"{request.at} v{request.version}"
        if request.kind == "settlement":
            for happened in (True, False, None):
                yield (
                    f"settle {name} {happened}",
                    None,
                    c.Settle(
                        request=request.id, by=BOB, eligible=eligible, happened=happened, detail="x"
                    ),
                )
            continue
        for by in (*people, EVE):
            given: dict[str, Any] = {"request": request.id, "by": by, "eligible": eligible}
            yield f"{by.id} approves {name}", None, c.Approve(**given)
            yield f"{by.id} rejects {name}", None, c.Reject(**given, reason="no")
            if scenario.withdrawals and by is not EVE:
                yield f"{by.id} withdraws {name}", None, c.Withdraw(request=request.id, by=by)
        if node.shadow.edited < scenario.edits:
            edited = _proposal(scenario, node, request.at, request.version + 1, edited=True)
            if edited.call_key != node.state.calls[request.at].call_key:
                command = c.Edit(
                    request=request.id,
                    by=people[-1],
                    eligible=eligible,
                    proposal=edited,
                    changes="amount",
                    policy_version="p",
                )
                yield f"edit {name}", None, command
    if scenario.cancels and not node.shadow.cancelled:
        yield "cancel", None, c.CancelRun(run=PARENT, by=ANN, cause="enough")
    if any(r.pending and r.deadline_at <= node.state.now for r in node.state.requests.values()):
        yield "timer", None, c.Expire(run=PARENT)


def _of_drivers(scenario: Scenario, node: Node) -> Iterator[Move]:
    for number, driver in enumerate(node.shadow.drivers):
        if driver.inside is not None:
            at, attempt, fence = driver.inside
            for outcome in scenario.outcomes:
                command = c.Conclude(at=at, attempt=attempt, fence=fence, outcome=outcome)
                yield f"{number} concludes {at} {outcome}", number, command
            continue
        fences = dict(driver.fences)
        for run in node.state.runs.values():
            if isinstance(run.state, RunOver):
                continue
            work = next_work(node.state, run.id)
            if run.id not in fences:
                if not isinstance(work, Wait):
                    command = c.TakeLease(run=run.id, holder=HOLDERS[number])
                    yield f"{number} takes {run.id}", number, command
                continue
            for label, does in _works(scenario, node, number, run, fences[run.id], work):
                yield f"{number} {label}", number, does


def _works(
    scenario: Scenario, node: Node, number: int, run: Run, fence: int, work: Any
) -> Iterator[tuple[str, c.Command]]:
    """Give what a driver does about a run's next work, under the fence that it believes in."""
    match work:
        case CallModel(step=step):
            yield f"turns {run.id} {step}", _turn(scenario, node, run, step, fence)
        case RunEffect(at=at):
            call = node.state.calls[at]
            today = _proposal(
                scenario, node, at, call.version + 1, edited=bool(call.edited_by)
            )
            yield (
                f"begins {at}",
                c.Begin(
                    at=at,
                    fence=fence,
                    holder=HOLDERS[number],
                    digest=call.digest,
                    today=today,
                    eligible=frozenset({"ann", "bob"}) - node.shadow.dismissed,
                    policy_version="p",
                ),
            )
        case Delegate(at=at):
            yield (
                f"delegates {at}",
                c.StartRun(
                    run=CHILD,
                    agent="b",
                    requester="user",
                    message="do",
                    parent=at,
                    holder=HOLDERS[number],
                ),
            )
        case Recover(at=at):
            attempts = node.state.calls[at].attempts
            yield f"recovers {at}", c.Lose(at=at, attempt=attempts, fence=fence, cause="gone")
        case Probe(at=at):
            attempts = node.state.calls[at].attempts
            gone = all(
                driver.inside is None or driver.inside[0] != at for driver in node.shadow.drivers
            )
            for happened in (True, False, None):
                yield (
                    f"probes {at} {happened}",
                    c.Probed(
                        at=at, attempt=attempts, fence=fence, happened=happened, body_gone=gone
                    ),
                )
        case ExpireDue():
            yield "expires", c.Expire(run=run.id, fence=fence)
        case Finish(stop=stop):
            yield f"finishes {run.id}", c.FinishRun(run=run.id, fence=fence, stop=stop)
        case Wait():
            if not any(isinstance(call.state, Executing) for call in node.state.calls.values()):
                # A driver that does not know that its lease is gone tries what it may no more.
                for call in node.state.calls.values():
                    if call.at.run == run.id and call.open and not call.attempts:
                        yield from _works(
                            scenario, node, number, run, fence, RunEffect(at=call.at)
                        )
        case Done():
            pass


def _turn(scenario: Scenario, node: Node, run: Run, step: int, fence: int) -> c.Propose:
    templates = scenario.child if run.id == CHILD else scenario.calls
    calls: tuple[c.Proposal, ...] = ()
    if step == 1:
        calls = tuple(
            _proposal(scenario, node, Occurrence(run.id, 1, index), 1)
            for index in range(len(templates))
        )
    return c.Propose(
        run=run.id,
        step=step,
        fence=fence,
        entry=f"turn {step}",
        calls=calls,
        policy_version="p",
        answer=None if calls else "done",
    )


def _proposal(
    scenario: Scenario, node: Node, at: Occurrence, version: int, *, edited: bool = False
) -> c.Sound:
    template = (scenario.child if at.run == CHILD else scenario.calls)[at.index]
    return sound(
        at.index,
        step=at.step,
        run=at.run,
        arguments={"amount": 5 if edited else 1000 + at.index},
        environment=f"e{node.shadow.environment}",
        salt=digest_of({"at": str(at), "version": version, "edited": edited})[:32],
        **template,
    )


# --- the shadow ---------------------------------------------------------------------------------


def _with(shadow: Shadow, number: int, driver: Driver) -> Shadow:
    drivers = list(shadow.drivers)
    drivers[number] = driver
    return replace(shadow, drivers=tuple(drivers))


def _applied(
    scenario: Scenario, node: Node, who: int | None, command: c.Command, walk: Walk
) -> Node | None:
    """Apply a command; None where it changes nothing, for the session and for who sent it."""
    try:
        events, state = unfold(node.state, command)
    except Refusal as refusal:
        walk.refusals += 1
        return _after_refusal(node, who, command, refusal)
    if not events:
        return None
    walk.events.update(type(event).__name__ for event in events)
    shadow = node.shadow
    match command:
        case c.Approve(request=request, by=by):
            assert by.id in ("ann", "bob"), "who may not decide has decided"
            assert node.state.now < node.state.requests[request].deadline_at, "decided too late"
            shadow = replace(shadow, votes=shadow.votes | {(request, by.id)})
        case c.Withdraw(request=request, by=by):
            shadow = replace(shadow, votes=shadow.votes - {(request, by.id)})
        case c.Reject(request=request, by=by):
            assert by.id in ("ann", "bob"), "who may not decide has decided"
            shadow = replace(shadow, noes=shadow.noes | {request})
        case c.Edit(request=request, by=by):
            new = [event.request for event in events if isinstance(event, e.RequestOpened)]
            votes = shadow.votes | {(request, by.id) for request in new}
            shadow = replace(
                shadow, votes=votes, noes=shadow.noes | {request}, edited=shadow.edited + 1
            )
        case c.CancelRun():
            shadow = replace(shadow, cancelled=True)
        case c.Conclude(at=at, outcome=c.Failed(not_done=True)):
            shadow = replace(shadow, acted=shadow.acted - {at})
        case c.Probed(at=at, happened=False, body_gone=True):
            shadow = replace(shadow, acted=shadow.acted - {at})
        case _:
            pass
    if isinstance(command, c.Conclude):
        assert who is not None
        shadow = _with(shadow, who, replace(shadow.drivers[who], inside=None))
    before = node.state
    for event in events:
        shadow = _noticed(scenario, before, shadow, who, event, walk)
    pending = {request.id for request in state.requests.values() if request.pending}
    votes = frozenset(vote for vote in shadow.votes if vote[0] in pending)
    return Node(state, replace(shadow, votes=votes))


def _after_refusal(
    node: Node, who: int | None, command: c.Command, refusal: Refusal
) -> Node | None:
    """A driver that is refused as stale forgets its lease, and a body its attempt."""
    if who is None:
        return None
    driver = node.shadow.drivers[who]
    if isinstance(command, c.Conclude):
        gone = replace(driver, inside=None)
    elif refusal.code == "stale_fence":
        run = getattr(command, "run", None) or getattr(command, "at").run
        gone = replace(driver, fences=tuple(f for f in driver.fences if f[0] != run))
    else:
        return None
    return Node(node.state, _with(node.shadow, who, gone))


def _noticed(
    scenario: Scenario,
    before: Session,
    shadow: Shadow,
    who: int | None,
    event: e.Event,
    walk: Walk,
) -> Shadow:
    match event:
        case e.LeaseTaken(run=run, fence=fence):
            assert who is not None
            driver = shadow.drivers[who]
            fences = tuple(sorted({**dict(driver.fences), run: fence}.items()))
            return _with(shadow, who, replace(driver, fences=fences))
        case e.RequestOpened(kind="approval", at=at, replaces=replaces):
            asks = dict(shadow.asks)
            if replaces is None:
                assert at not in asks, "a person is asked twice about one action"
            asks[at] = asks.get(at, 0) + 1
            return replace(shadow, asks=frozenset(asks.items()))
        case e.CallEnded(at=at):
            assert at not in before.calls or before.calls[at].open, "a call has two results"
            return shadow
        case e.AttemptBegun():
            assert who is not None
            walk.entered += 1
            _entered(scenario, before, shadow, who, event)
            inside = (event.at, event.attempt, event.fence)
            shadow = replace(shadow, acted=shadow.acted | {event.at})
            return _with(shadow, who, replace(shadow.drivers[who], inside=inside))
        case _:
            return shadow


def _entered(
    scenario: Scenario, before: Session, shadow: Shadow, who: int, event: e.AttemptBegun
) -> None:
    """Hold the promises at the moment in which a process enters a body."""
    call, run = before.calls[event.at], before.runs[event.at.run]
    template = (scenario.child if event.at.run == CHILD else scenario.calls)[event.at.index]
    held = run.state
    assert isinstance(held, Working), "no lease is held"
    assert held.holder == HOLDERS[who], "another process holds the lease"
    assert before.now < held.until, "the lease has run out"
    assert call.open, "a call that has a result runs"
    first = call.attempts == 0
    again = call.recovery.idempotent or event.at not in shadow.acted
    assert again, "an effect that may have happened is begun again"
    if not first:
        return
    assert not shadow.cancelled, "an effect begins after its run was cancelled"
    for other in before.calls.values():
        under_way = isinstance(other.state, (Executing, RetryDue, Lost, Unsettled))
        if other.at != call.at and overlap(other.surface, call.surface):
            assert not under_way, "two effects on one surface"
    if event.request is None:
        assert isinstance(template["ruling"], Allow), "nobody was asked"
        waiting = [r for r in before.requests.values() if isinstance(r.state, Open)]
        assert not waiting, "an effect slips past while a request waits"
        return
    _approved(before, shadow, call, before.requests[event.request])


def _approved(before: Session, shadow: Shadow, call: Call, request: Request) -> None:
    eligible = {"ann", "bob"} - shadow.dismissed
    votes = {by for request_id, by in shadow.votes if request_id == request.id and by in eligible}
    assert request.digest == call.digest, "another action was approved"
    assert len(votes) >= request.needs.quorum, "too few have approved"
    assert before.now < request.deadline_at, "the deadline has passed"
    assert request.id not in shadow.noes, "it was rejected or edited"
    assert call.environment == f"e{shadow.environment}", "the world has changed"
    older = [
        other
        for other in before.requests.values()
        if other.pending and other.id != request.id and other.order < request.order
    ]
    assert not older, "a newer action goes first"


# --- what holds in every state ------------------------------------------------------------------


def _hold(node: Node) -> None:
    state = node.state
    executing = {call.at.run for call in state.calls.values() if isinstance(call.state, Executing)}
    for run in state.runs.values():
        calls = [call for call in state.calls.values() if call.at.run == run.id]
        work = next_work(state, run.id)
        if isinstance(run.state, RunOver):
            assert not any(call.open for call in calls), "a run is over with open calls"
            assert isinstance(work, Done)
        elif isinstance(work, Wait):
            held = isinstance(run.state, Working) and run.id not in executing
            assert not held, "a lease is held while nothing can be done"
            assert work.until is not None or work.requests or work.held_by, "a wait for nothing"
    for call in state.calls.values():
        _hold_call(state, call)
    for request in state.requests.values():
        call = state.calls[request.at]
        if request.kind == "approval" and request.pending:
            assert call.state == Asking(request=request.id), "a request waits for no call"
        if request.kind == "settlement" and request.pending and not request.lapsed:
            assert call.state == Unsettled(request=request.id), "a settlement waits for no call"
    for at, asked in node.shadow.asks:
        anew = state.calls[at].voids + node.shadow.edited
        assert asked <= 1 + anew, "a person is asked again for no reason"


def _hold_call(state: Session, call: Call) -> None:
    about = [r for r in state.requests.values() if r.at == call.at and r.pending and not r.lapsed]
    assert len(about) <= 1, "two requests about one call are open"
    match call.state:
        case Asking(request=request):
            standing = state.requests[request]
            assert isinstance(standing.state, (Open, Approved)), "a call asks nobody"
            assert standing.digest == call.digest, "the request stands for another version"
        case Unsettled(request=request):
            assert isinstance(state.requests[request].state, Open), "an outcome asks nobody"
        case _:
            assert not about, "a request outlived its call"


__all__ = ["Ask", "Broken", "NOT_DONE", "RAISED", "Scenario", "Walk", "explore"]
