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
from dataclasses import replace
from typing import Any

from placet.core import commands as c
from placet.core import events as e
from placet.core.canonical import digest_of
from placet.core.decide import unfold
from placet.core.errors import Refusal
from placet.core.state import (
    Executing,
    RetryDue,
    Run,
    RunOver,
    UndoDue,
    Working,
)
from placet.core.values import Occurrence, RunKind
from placet.core.work import (
    CallModel,
    Delegate,
    ExpireDue,
    Finish,
    Probe,
    Recover,
    RunEffect,
    TakeBack,
    Unwind,
    Wait,
    next_work,
)
from tests.core import explorer_hosting as hosting
from tests.core.build import ANN, BOB, EVE, session, sound
from tests.core.shadow import (
    HOLDERS,
    PARENT,
    Driver,
    Node,
    Scenario,
    Shadow,
    Walk,
    at_rest,
    hold,
    key,
    noticed,
    with_driver,
)


class Broken(AssertionError):
    """A promise does not hold; says after which moves."""


def explore(scenario: Scenario, *, most: int = 400_000) -> Walk:
    """Walk every interleaving; raises Broken with the moves that lead to the fault."""
    kind: RunKind = "hosted" if scenario.hosted else "driven"
    started = c.StartRun(
        run=PARENT,
        agent="a",
        requester="user",
        message="go",
        kind=kind,
        on_failure=scenario.on_failure,
    )
    drivers = [Driver() for _ in range(scenario.drivers)]
    drivers[0] = Driver(live=scenario.hosted)
    first = Node(unfold(session(), started)[1], Shadow(tuple(drivers)))
    walk = Walk()
    numbers = {key(first): 0}
    came_from: list[tuple[int, str]] = [(-1, "")]
    before: list[list[int]] = [[]]
    ends: list[int] = []
    queue = deque([(0, first)])
    while queue:
        number, node = queue.popleft()
        label = ""
        try:
            hold(node)
            if all(isinstance(run.state, RunOver) for run in node.state.runs.values()):
                ends.append(number)
            for label, after in () if at_rest(node) else _moves(scenario, node, walk):
                walk.transitions += 1
                known = key(after)
                if known not in numbers:
                    numbers[known] = len(came_from)
                    came_from.append((number, label))
                    before.append([])
                    queue.append((numbers[known], after))
                before[numbers[known]].append(number)
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


# --- the moves ----------------------------------------------------------------------------------


def _moves(scenario: Scenario, node: Node, walk: Walk) -> Iterator[tuple[str, Node]]:
    yield from _of_time(scenario, node)
    for label, who, command in (
        *_of_people(scenario, node),
        *_of_drivers(scenario, node),
        *hosting.moves(scenario, node, lambda at, version: _proposal(scenario, node, at, version)),
    ):
        after = _applied(scenario, node, who, command, walk)
        if after is not None:
            yield label, after
    yield from hosting.silent_moves(node)
    for number, driver in enumerate(node.shadow.drivers):
        # What a framework's process leaves before anybody was asked, its owner starts again.
        lasting = not driver.live or node.state.requests
        if driver != Driver() and lasting and node.shadow.crashes < scenario.crashes:
            loose = frozenset(body for body in node.shadow.loose if body[0] != number)
            crashed = replace(node.shadow, crashes=node.shadow.crashes + 1, loose=loose)
            yield f"crash {number}", Node(node.state, with_driver(crashed, number, Driver()))
    if node.shadow.environment < scenario.worlds:
        changed = replace(node.shadow, environment=node.shadow.environment + 1)
        yield "the world changes", Node(node.state, changed)
    waiting = sum(request.pending for request in node.state.requests.values())
    if node.shadow.foreign < scenario.foreign and waiting > 1:
        yield "another effect begins", _with_foreign(node)
    if len(node.shadow.dismissed) < scenario.dismissals:
        yield "ann leaves", Node(node.state, replace(node.shadow, dismissed=frozenset({"ann"})))


def _with_foreign(node: Node) -> Node:
    """Let an effect begin outside of all runs here, after whatever is asked now was asked."""
    surfaces = {**node.state.surfaces, "payments": node.state.generation("payments") + 1}
    asked = {r.id for r in node.state.requests.values() if r.pending and r.kind == "approval"}
    outdated = node.shadow.outdated | asked
    shadow = replace(node.shadow, foreign=node.shadow.foreign + 1, outdated=outdated)
    return Node(replace(node.state, surfaces=surfaces), shadow)


def _of_time(scenario: Scenario, node: Node) -> Iterator[tuple[str, Node]]:
    state = node.state
    deadlines = [r.deadline_at for r in state.requests.values() if r.pending and not r.lapsed]
    due = (RetryDue, UndoDue)
    retries = [x.state.again_at for x in state.calls.values() if isinstance(x.state, due)]
    leases = [x.state.until for x in state.runs.values() if isinstance(x.state, Working)]
    leases += [
        x.state.until
        for x in state.calls.values()
        if isinstance(x.state, Executing) and state.runs[x.at.run].kind == "hosted"
    ]
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
    believed = {(run, fence) for driver in node.shadow.drivers for run, fence in driver.fences}
    if any(driver.inside is not None for driver in node.shadow.drivers):
        return False
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
        for delivered in (True, False) if scenario.channel else ():
            told = c.RecordDelivery(request=request.id, channel="mail", delivered=delivered)
            yield f"{name} is told of: {delivered}", None, told
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
            yield f"{by.id} rejects {name}", None, c.Reject(**given, reason="no")
            if request.kind == "question":
                yield f"{by.id} answers {name}", None, c.Answer(**given, answer="so")
                continue
            yield f"{by.id} approves {name}", None, c.Approve(**given)
            if scenario.withdrawals and by is not EVE:
                yield f"{by.id} withdraws {name}", None, c.Withdraw(request=request.id, by=by)
        if node.shadow.edited < scenario.edits and request.kind == "approval":
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
            if isinstance(run.state, RunOver) or run.kind == "hosted":
                continue
            work = next_work(node.state, run.id)
            if run.id not in fences:
                if not isinstance(work, Wait):
                    take = c.TakeLease(run=run.id, holder=HOLDERS[number])
                    yield f"{number} takes {run.id}", number, take
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
        case RunEffect(at=at) | Delegate(at=at):
            call = node.state.calls[at]
            today = _proposal(scenario, node, at, call.version + 1, edited=bool(call.edited_by))
            child = c.Child(run=f"k{at.index}", agent="b", message="do", max_steps=9)
            begin = c.Begin(
                at=at,
                fence=fence,
                holder=HOLDERS[number],
                digest=call.digest,
                today=today,
                eligible=frozenset({"ann", "bob"}) - node.shadow.dismissed,
                policy_version="p",
                child=child if call.kind == "agent" else None,
                snapshot=None if call.recovery.roll_back is None else "as it was",
            )
            yield f"begins {at}", begin
        case Recover(at=at):
            yield f"recovers {at}", _lose(node, at, fence)
        case Probe(at=at):
            attempts = node.state.calls[at].attempts
            gone = not node.shadow.bodies(at)
            for happened in (True, False, None):
                yield (
                    f"probes {at} {happened}",
                    c.Probed(
                        at=at, attempt=attempts, fence=fence, happened=happened, body_gone=gone
                    ),
                )
        case TakeBack(at=at):
            yield f"takes back {at}", hosting.take_back(node, at, number, fence)
        case Unwind(at=at, earlier=earlier):
            told = dict(node.shadow.withheld)[at]
            yield f"unwinds {at}", c.Unwind(at=at, fence=fence, earlier=earlier, told=told)
        case ExpireDue():
            yield "expires", c.Expire(run=run.id)
        case Finish(stop=stop):
            yield f"finishes {run.id}", c.FinishRun(run=run.id, fence=fence, stop=stop)
        case Wait():
            if not any(isinstance(call.state, Executing) for call in node.state.calls.values()):
                # A driver that does not know that its lease is gone tries what it may no more.
                for call in node.state.calls.values():
                    if call.at.run == run.id and call.open and not call.attempts:
                        yield from _works(scenario, node, number, run, fence, RunEffect(at=call.at))
        case _:
            pass


def _lose(node: Node, at: Occurrence, fence: int) -> c.Lose:
    """Take an attempt from its holder, which is seen to be gone where its body is."""
    call = node.state.calls[at]
    assert isinstance(call.state, Executing), "only an attempt under way is recovered"
    gone = None if node.shadow.bodies(at) else call.state.holder
    return c.Lose(at=at, attempt=call.attempts, fence=fence, cause="gone", gone=gone)


def _turn(scenario: Scenario, node: Node, run: Run, step: int, fence: int) -> c.Propose:
    templates = scenario.calls if run.id == PARENT else scenario.child
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
    template = (scenario.calls if at.run == PARENT else scenario.child)[at.index]
    return sound(
        at.index,
        step=at.step,
        run=at.run,
        arguments={"amount": 5 if edited else 1000 + at.index},
        environment=f"e{node.shadow.environment}",
        salt=digest_of({"at": str(at), "version": version, "edited": edited})[:32],
        **template,
    )


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
        case c.RecordDelivery(request=request, delivered=True):
            shadow = replace(shadow, reached=shadow.reached | {request})
        case c.RecordDelivery(request=request):
            shadow = replace(shadow, unreached=shadow.unreached | {request})
        case c.Withdraw(request=request, by=by):
            left, reached = shadow.votes - {(request, by.id)}, shadow.reached | {request}
            shadow = replace(shadow, votes=left, reached=reached)  # Who voted was reached.
        case c.Answer(request=request, by=by):
            assert by.id in ("ann", "bob"), "who may not answer has answered"
            assert node.state.now < node.state.requests[request].deadline_at, "answered too late"
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
        case c.Conclude(at=at, attempt=attempt, outcome=c.Failed(not_done=True)):
            shadow = replace(shadow, acted=shadow.acted - {(at, attempt)})
        case c.Conclude(at=at, attempt=attempt, outcome=c.Unknown(body_over=False)):
            recovery = node.state.calls[at].recovery
            if recovery.probe or recovery.roll_back or recovery.compensation:
                assert who is not None
                shadow = replace(shadow, loose=shadow.loose | {(who, at, attempt)})
        case c.Probed(at=at, attempt=attempt, happened=False, body_gone=True):
            shadow = replace(shadow, acted=shadow.acted - {(at, attempt)})
        case _:
            pass
    if isinstance(command, c.Conclude):
        assert who is not None
        shadow = with_driver(shadow, who, replace(shadow.drivers[who], inside=None))
    if scenario.hosted and who is not None:
        shadow = with_driver(shadow, who, replace(shadow.drivers[who], looked=None))
    before = node.state
    for event in events:
        shadow = noticed(scenario, before, shadow, who, event, walk)
    pending = {request.id for request in state.requests.values() if request.pending}
    votes = frozenset(vote for vote in shadow.votes if vote[0] in pending)
    outdated = shadow.outdated & pending
    loose = frozenset(body for body in shadow.loose if state.calls[body[1]].open)
    return Node(state, replace(shadow, votes=votes, outdated=outdated, loose=loose))


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
        named = command.names()
        run = named.runs[0]
        gone = replace(driver, fences=tuple(f for f in driver.fences if f[0] != run))
    else:
        return None
    return Node(node.state, with_driver(node.shadow, who, gone))
