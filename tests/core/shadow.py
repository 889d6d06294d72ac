"""The shadow of a session: what is true of the world, and the promises held against it.

Kept from the commands that were accepted, not from what the core concludes of them. `entered`
holds the promises as a process enters a body, `hold` what is true of every state, and `key` tells
which states are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from placet.core import commands as c
from placet.core import events as e
from placet.core.state import (
    Approved,
    Asking,
    Call,
    CallOver,
    Executing,
    Lost,
    Open,
    Request,
    RetryDue,
    Run,
    RunOver,
    Session,
    UndoDue,
    Unsettled,
    Unwinding,
    Working,
    overlap,
)
from placet.core.values import (
    TOOL_FAILURES,
    Allow,
    Holder,
    Occurrence,
    OnFailure,
    Principal,
    Purpose,
)
from placet.core.work import (
    Done,
    Wait,
    next_work,
)
from tests.core.build import ANN, BOB, DONE, LOST

PARENT = "r"
HOLDERS = tuple(Holder(host="h", boot="b", pid=pid, started="0") for pid in (0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What the model proposes in step 1, and how often each misfortune may happen.

    Every agent that is called proposes what `child` says. `foreign` effects begin outside of all
    runs here.
    """

    calls: tuple[dict[str, Any], ...]
    child: tuple[dict[str, Any], ...] = ()
    people: tuple[Principal, ...] = (ANN, BOB)
    drivers: int = 2
    crashes: int = 1
    leases_lost: int = 1
    worlds: int = 0
    foreign: int = 0
    hosted: bool = False
    edits: int = 0
    withdrawals: bool = False
    dismissals: int = 0
    cancels: bool = False
    outcomes: tuple[c.Succeeded | c.Failed | c.Unknown, ...] = (DONE, LOST)
    on_failure: OnFailure = "continue"
    channel: bool = False


@dataclass(frozen=True, slots=True)
class Driver:
    """A process: the leases that it believes it holds, and the body that it is inside.

    Of a framework's process, whether the framework goes on in it, and where in the log it was when
    it found that it must wait.
    """

    fences: tuple[tuple[str, int], ...] = ()
    inside: tuple[Occurrence, int, int] | None = None
    live: bool = False
    looked: int | None = None


@dataclass(frozen=True, slots=True)
class Shadow:
    """What is true of the world, whatever the session says."""

    drivers: tuple[Driver, ...]
    acted: frozenset[tuple[Occurrence, int]] = frozenset()
    votes: frozenset[tuple[str, str]] = frozenset()
    noes: frozenset[str] = frozenset()
    asks: frozenset[tuple[Occurrence, int]] = frozenset()
    environment: int = 0
    edited: int = 0
    crashes: int = 0
    leases_lost: int = 0
    dismissed: frozenset[str] = frozenset()
    cancelled: bool = False
    foreign: int = 0
    outdated: frozenset[str] = frozenset()
    delegated: frozenset[Occurrence] = frozenset()
    #: The attempts that take something back, and the bodies that their process left behind.
    undoing: frozenset[tuple[Occurrence, int]] = frozenset()
    loose: frozenset[tuple[int, Occurrence, int]] = frozenset()
    #: The texts that are withheld until what earlier calls did is taken back.
    withheld: frozenset[tuple[Occurrence, str]] = frozenset()
    #: The requests of which the channel has told somebody, and those of which it once could not.
    reached: frozenset[str] = frozenset()
    unreached: frozenset[str] = frozenset()

    def may_have_acted(self, at: Occurrence) -> bool:
        """Say whether an attempt at a call may have acted."""
        return any(place == at for place, _ in self.acted)

    def bodies(self, at: Occurrence) -> set[tuple[int, int]]:
        """Name the bodies of a call that may act yet: (process, attempt)."""
        inside = {
            (number, driver.inside[1])
            for number, driver in enumerate(self.drivers)
            if driver.inside is not None and driver.inside[0] == at
        }
        return inside | {(number, attempt) for number, left, attempt in self.loose if left == at}


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


# --- what tells nodes apart ---------------------------------------------------------------------


def key(node: Node) -> object:
    state, shadow = node.state, node.shadow
    if at_rest(node):
        return (
            tuple(_run_key(state, run) for _, run in sorted(state.runs.items())),
            tuple(_call_key(state, call) for _, call in sorted(state.calls.items())),
            tuple(sorted((str(r.at), r.lapsed, r.pending) for r in state.requests.values())),
        )
    names = {r.id: (r.at, r.kind, r.version, r.replaces is None) for r in state.requests.values()}
    deadlines = sorted({r.deadline_at for r in state.requests.values() if r.pending})
    return (
        tuple(_run_key(state, run) for _, run in sorted(state.runs.items())),
        tuple(_call_key(state, call) for _, call in sorted(state.calls.items())),
        tuple(
            sorted(
                (names[r.id], repr(r.state) if r.pending else type(r.state).__name__, r.lapsed)
                + (
                    (
                        r.deadline_at <= state.now,
                        deadlines.index(r.deadline_at),
                        tuple((x.delivered, x.cause_ref is None) for x in r.deliveries),
                    )
                    if r.pending
                    else ()
                )
                for r in state.requests.values()
            )
        ),
        tuple(
            (
                tuple((run, fence == state.runs[run].fence) for run, fence in driver.fences),
                driver.inside and (driver.inside[0], driver.inside[1], _held(state, driver.inside)),
                driver.live,
                driver.looked is None or driver.looked >= state.runs[PARENT].decided,
                driver.looked is None,
            )
            for driver in shadow.drivers
        ),
        shadow.acted,
        frozenset((names[request], by) for request, by in shadow.votes),
        shadow.asks,
        (shadow.environment, shadow.edited, shadow.crashes, shadow.leases_lost),
        shadow.dismissed,
        shadow.cancelled,
        (shadow.foreign, frozenset(names[request] for request in shadow.outdated)),
        (shadow.undoing, shadow.loose),
        frozenset(names[request] for request in shadow.reached),
        frozenset(names[request] for request in shadow.unreached),
    )


def at_rest(node: Node) -> bool:
    over = all(isinstance(run.state, RunOver) for run in node.state.runs.values())
    return over and all(driver.inside is None for driver in node.shadow.drivers)


def _run_key(state: Session, run: Run) -> object:
    match run.state:
        case Working(holder=holder, until=until):
            more = (run.stopping, run.undoable)
            return run.id, run.step, more, holder.pid, state.now < until
        case RunOver(stop=stop):
            return run.id, stop
        case _:
            return run.id, run.step, run.stopping, run.undoable, run.decided > run.taken


def _call_key(state: Session, call: Call) -> object:
    more: object = ()
    match call.state:
        case Executing(fence=fence, until=until, purpose=purpose):
            more = (fence == state.runs[call.at.run].fence, until <= state.now, purpose)
        case UndoDue(how=how, again_at=again_at):
            more = (how, again_at <= state.now, call.undone_from)
        case Lost(body_over=over):
            more = over
        case RetryDue(again_at=again_at, lost=lost):
            more = (again_at <= state.now, lost)
        case Unwinding(code=code, unwound=unwound):
            more = (code, unwound)
        case Asking():
            more = state.foreign(call.surface, call.at) - call.foreign
        case _:
            pass
    if not call.open:
        return call.at, getattr(call.state, "code", ""), call.unwound
    more = (more, call.result is None)
    counts = (call.stray, call.attempts, call.voids, call.version, call.asked, call.environment)
    return call.at, type(call.state).__name__, more, counts, call.edited_by


def _held(state: Session, inside: tuple[Occurrence, int, int]) -> bool:
    call = state.calls[inside[0]]
    held = isinstance(call.state, Executing) and call.state.fence == inside[2]
    return held and call.attempts == inside[1]


# --- the shadow ---------------------------------------------------------------------------------


def with_driver(shadow: Shadow, number: int, driver: Driver) -> Shadow:
    drivers = list(shadow.drivers)
    drivers[number] = driver
    return replace(shadow, drivers=tuple(drivers))


def noticed(
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
            return with_driver(shadow, who, replace(driver, fences=fences))
        case e.RequestOpened(kind="approval" | "question", at=at, replaces=replaces):
            asks = dict(shadow.asks)
            if replaces is None:
                assert at not in asks, "a person is asked twice about one action"
            asks[at] = asks.get(at, 0) + 1
            return replace(shadow, asks=frozenset(asks.items()))
        case e.RequestExpired(request=request, unreachable=channels):
            asked = request in shadow.reached or any(of == request for of, _ in shadow.votes)
            in_vain = request in shadow.unreached and not asked
            assert bool(channels) == in_vain, "who was reached is misjudged"
            return shadow
        case e.UnwindingBegun(at=at, told=told):
            return replace(shadow, withheld=shadow.withheld | {(at, told.body or "")})
        case e.CallUndoing(at=at) if not before.calls[at].open:
            _in_reverse(before, at)
            return shadow
        case e.CallEnded(at=at, code=code):
            known = before.calls.get(at)
            once = known is None or (known.open and known.result is None)
            assert once, "a call has two results"
            if code == "tool_failed" and at in before.calls and before.calls[at].way_back():
                assert not shadow.may_have_acted(at), "what may have acted is not taken back"
            return shadow
        case e.RequestVoided(request=request, changed=changed) if "surface generation" in changed:
            assert request in shadow.outdated, "a request is voided by what was there to be seen"
            return shadow
        case e.CallDelegated(at=at):
            assert who is not None
            _delegated(scenario, before, shadow, who, event)
            return replace(shadow, delegated=shadow.delegated | {at})
        case e.AttemptBegun():
            assert who is not None
            walk.entered += 1
            inside = (event.at, event.attempt, event.fence)
            if event.purpose == "run":
                _entered(scenario, before, shadow, who, event)
                shadow = replace(shadow, acted=shadow.acted | {(event.at, event.attempt)})
            else:
                _taken_back(before, shadow, who, event)
                undoing = shadow.undoing | {(event.at, event.attempt)}
                shadow = replace(shadow, undoing=undoing)
            return with_driver(shadow, who, replace(shadow.drivers[who], inside=inside))
        case _:
            return shadow


def _entered(
    scenario: Scenario, before: Session, shadow: Shadow, who: int, event: e.AttemptBegun
) -> None:
    """Hold the promises at the moment in which a process enters a body."""
    call, run = before.calls[event.at], before.runs[event.at.run]
    template = (scenario.calls if event.at.run == PARENT else scenario.child)[event.at.index]
    if run.kind == "driven":
        _leased(before, run, who)
    assert call.open, "a call that has a result runs"
    first = call.attempts == 0
    again = call.recovery.idempotent or not shadow.may_have_acted(event.at)
    assert again, "an effect that may have happened is begun again"
    if not first:
        return
    assert not shadow.cancelled, "an effect begins after its run was cancelled"
    _alone(before, call)
    if event.request is None:
        assert isinstance(template["ruling"], Allow), "nobody was asked"
        waiting = [r for r in before.requests.values() if isinstance(r.state, Open)]
        assert not waiting, "an effect slips past while a request waits"
        return
    _approved(before, shadow, call, before.requests[event.request])


def _taken_back(before: Session, shadow: Shadow, who: int, event: e.AttemptBegun) -> None:
    """Hold the promises at the moment in which a process begins to take a call back (D8)."""
    call = before.calls[event.at]
    if before.runs[event.at.run].kind == "driven":
        _leased(before, before.runs[event.at.run], who)
    assert isinstance(call.state, UndoDue), "what is not to be taken back is"
    assert before.now >= call.state.again_at, "it is taken back too early"
    assert shadow.may_have_acted(event.at), "what certainly did not act is taken back"
    for _, attempt in shadow.bodies(event.at):
        of_it = (event.at, attempt) in shadow.undoing
        if call.result is not None and not of_it:
            continue  # It is known to have acted, and acts no second time under its key.
        assert of_it, "it is taken back while its body may act"
        assert call.recovery.compensation is not None, "two roll-backs at once"
        assert call.recovery.compensation.idempotent, "two compensations at once"
    again = call.attempts > call.undone_from
    assert not again or _idempotent(call, event.purpose), "it is taken back twice"
    _alone(before, call)


def _idempotent(call: Call, how: Purpose) -> bool:
    undoing = call.recovery.roll_back if how == "roll_back" else call.recovery.compensation
    return undoing is not None and undoing.idempotent


def _in_reverse(before: Session, at: Occurrence) -> None:
    """Hold that of a saga's effects that stand the latest is taken back, because one failed."""
    calls = [call for call in before.calls.values() if call.at.run == at.run]
    assert any(isinstance(call.state, Unwinding) for call in calls), "nothing has failed"
    for call in calls:
        stands = _code(call) == "succeeded" and call.unwound is None and call.kind == "effect"
        assert not stands or call.at <= at, "an earlier effect is taken back before a later one"


def _code(call: Call) -> str:
    return call.state.code if isinstance(call.state, CallOver) else ""


def _hold_saga(run: Run, calls: list[Call]) -> None:
    """Hold that nothing stands that a failure was to take back, and nothing began after it."""
    effects = [call for call in calls if call.kind == "effect" and call.attempts]
    failed = [c for c in effects if _code(c) in TOOL_FAILURES | {"outcome_unknown"}]
    if not failed or run.on_failure == "continue":
        return
    assert len(failed) == 1, "an effect began after another of its step had failed"
    for call in effects:
        stands = _code(call) == "succeeded" and call.unwound is None
        if run.on_failure == "compensate_earlier":
            assert not stands, "what an earlier call did stands, and nobody was asked"


def _alone(before: Session, call: Call) -> None:
    for other in before.calls.values():
        under_way = isinstance(other.state, (Executing, RetryDue, Lost, UndoDue, Unsettled))
        if other.at != call.at and overlap(other.surface, call.surface):
            assert not under_way, "two effects on one surface"


def _leased(before: Session, run: Run, who: int) -> None:
    held = run.state
    assert isinstance(held, Working), "no lease is held"
    assert held.holder == HOLDERS[who], "another process holds the lease"
    assert before.now < held.until, "the lease has run out"


def _delegated(
    scenario: Scenario, before: Session, shadow: Shadow, who: int, event: e.CallDelegated
) -> None:
    """Hold the promises at the moment in which an agent's run is opened."""
    call = before.calls[event.at]
    _leased(before, before.runs[event.at.run], who)
    assert call.open, "a call that has a result opens a run"
    assert event.at not in shadow.delegated, "a call opens two runs"
    assert not shadow.cancelled, "a run is opened after its parent was cancelled"
    if event.request is None:
        ruling = scenario.calls[event.at.index]["ruling"]
        assert isinstance(ruling, Allow), "nobody was asked about an agent"
        return
    request = before.requests[event.request]
    assert request.at == event.at, "the approval of another call is spent"
    _granted(before, shadow, call, request)


def _approved(before: Session, shadow: Shadow, call: Call, request: Request) -> None:
    _granted(before, shadow, call, request)
    assert request.id not in shadow.outdated, "another effect has begun since it was asked"
    older = [
        other
        for other in before.requests.values()
        if other.pending and other.id != request.id and other.order < request.order
    ]
    assert not older, "a newer action goes first"


def _granted(before: Session, shadow: Shadow, call: Call, request: Request) -> None:
    eligible = {"ann", "bob"} - shadow.dismissed
    votes = {by for request_id, by in shadow.votes if request_id == request.id and by in eligible}
    assert request.digest == call.digest, "another action was approved"
    assert len(votes) >= request.needs.quorum, "too few have approved"
    assert before.now < request.deadline_at, "the deadline has passed"
    assert request.id not in shadow.noes, "it was rejected or edited"
    assert call.environment == f"e{shadow.environment}", "the world has changed"


# --- what holds in every state ------------------------------------------------------------------


def hold(node: Node) -> None:
    state = node.state
    executing = {call.at.run for call in state.calls.values() if isinstance(call.state, Executing)}
    for run in state.runs.values():
        calls = [call for call in state.calls.values() if call.at.run == run.id]
        work = next_work(state, run.id)
        if isinstance(run.state, RunOver):
            assert not any(call.open for call in calls), "a run is over with open calls"
            _hold_saga(run, calls)
            assert isinstance(work, Done)
        elif isinstance(work, Wait):
            held = isinstance(run.state, Working) and run.id not in executing
            assert not held, "a lease is held while nothing can be done"
            if run.kind == "driven":
                assert work.until is not None or work.requests or work.held_by, "a wait for nothing"
    for call in state.calls.values():
        _hold_call(state, call)
    for request in state.requests.values():
        call = state.calls[request.at]
        if request.kind != "settlement" and request.pending:
            assert call.state == Asking(request=request.id), "a request waits for no call"
            people = request.needs.people(request.requester)
            assert len(people) >= request.needs.quorum > 0, "a request that nobody can grant"
            assert request.kind == "approval" or isinstance(request.state, Open)
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
