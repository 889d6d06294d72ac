"""The explorer's moves of a framework that hosts the run, in two processes, and of the worker.

The framework goes on in a process that is `live`: the one in which it began, and any in which the
worker told it to go on. There it takes its calls through the gate, and finishes the run once all
have their results. Where it must wait it first looks, and only later suspends itself and says that
it has taken what there was: in between, anything may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from placet.core import commands as c
from placet.core.decide import unfold
from placet.core.state import (
    Allowed,
    Approved,
    Asking,
    Call,
    Executing,
    Lost,
    RetryDue,
    RunOver,
    Session,
    UndoDue,
)
from placet.core.values import Occurrence
from placet.core.work import (
    ExpireDue,
    Finish,
    Probe,
    Recover,
    ResumeHost,
    TakeBack,
    held_by,
    next_work,
)
from tests.core.shadow import HOLDERS, PARENT, Node, Scenario, with_driver

Move = tuple[str, int | None, c.Command]
Proposing = Callable[[Occurrence, int], c.Sound]


def moves(scenario: Scenario, node: Node, proposing: Proposing) -> Iterator[Move]:
    """Give the commands of the framework's live processes and of the worker."""
    run = node.state.runs[PARENT]
    if run.kind != "hosted" or isinstance(run.state, RunOver):
        return
    for number, driver in enumerate(node.shadow.drivers):
        if driver.live and driver.inside is None:
            for label, command in _of_process(scenario, node, number, proposing):
                yield f"{number} {label}", number, command
    match next_work(node.state, PARENT):
        case ExpireDue():
            yield "worker expires", None, c.Expire(run=PARENT)
        case Recover(at=at):
            attempt = node.state.calls[at].attempts
            yield "worker recovers", None, c.Lose(at=at, attempt=attempt, fence=None, cause="gone")
        case Probe(at=at):
            attempt = node.state.calls[at].attempts
            probed = c.Probed(at=at, attempt=attempt, fence=None, happened=None)
            yield "worker probes", None, probed
        case TakeBack(at=at):
            for number, driver in enumerate(node.shadow.drivers):
                if driver.inside is None:
                    yield f"{number} takes back {at}", number, take_back(node, at, number, None)
        case Finish(stop=stop):
            yield "worker finishes", None, c.FinishRun(run=PARENT, fence=None, stop=stop)
        case _:
            pass


def take_back(node: Node, at: Occurrence, number: int, fence: int | None) -> c.TakeBack:
    """Give the command with which a process begins to take a call back."""
    digest = node.state.calls[at].digest
    return c.TakeBack(at=at, fence=fence, holder=HOLDERS[number], digest=digest)


def _of_process(
    scenario: Scenario, node: Node, number: int, proposing: Proposing
) -> Iterator[tuple[str, c.Command]]:
    run = node.state.runs[PARENT]
    calls = node.state.step_calls(PARENT, 1)
    if not run.step:
        places = [Occurrence(PARENT, 1, index) for index in range(len(scenario.calls))]
        proposed = tuple(proposing(place, 1) for place in places)
        yield "proposes", _propose(proposed)
        return
    for call in calls:
        if _may_begin(node.state, call):
            yield f"begins {call.at}", _begin(node, number, call, proposing)
    if not any(call.open for call in calls):
        yield "finishes", c.FinishRun(run=PARENT, fence=None, stop="final", answer="done")


def _propose(calls: tuple[c.Proposal, ...]) -> c.Propose:
    return c.Propose(run=PARENT, step=1, fence=None, entry="turn", calls=calls, policy_version="p")


def _begin(node: Node, number: int, call: Call, proposing: Proposing) -> c.Begin:
    return c.Begin(
        at=call.at,
        fence=None,
        holder=HOLDERS[number],
        digest=call.digest,
        today=proposing(call.at, call.version + 1),
        eligible=frozenset({"ann", "bob"}),
        policy_version="p",
    )


def _may_begin(state: Session, call: Call) -> bool:
    """Say whether the gate would let a call begin, as far as it can be seen from outside."""
    match call.state:
        case Allowed():
            ready = True
        case Asking(request=request):
            ready = isinstance(state.requests[request].state, Approved)
        case RetryDue(again_at=again_at):
            ready = state.now >= again_at
        case _:
            ready = False
    return ready and held_by(state, call) is None


def silent_moves(node: Node) -> Iterator[tuple[str, Node]]:
    """Give what happens without a command: a look, and the worker's word to go on."""
    run = node.state.runs[PARENT]
    if run.kind != "hosted" or isinstance(run.state, RunOver):
        return
    due = isinstance(next_work(node.state, PARENT), ResumeHost)
    for number, driver in enumerate(node.shadow.drivers):
        if driver.inside is not None:
            continue
        if due and not driver.live:
            told = replace(driver, live=True, looked=None)
            yield (
                f"worker resumes {number}",
                Node(node.state, with_driver(node.shadow, number, told)),
            )
        if driver.live and run.step and driver.looked is None and _must_wait(node.state):
            looking = replace(driver, looked=node.state.seq)
            yield f"{number} looks", Node(node.state, with_driver(node.shadow, number, looking))
        if driver.looked is not None:
            rests = replace(driver, live=False, looked=None)
            taken = _taken(node.state, driver.looked)
            yield f"{number} suspends", Node(taken, with_driver(node.shadow, number, rests))


def _taken(state: Session, looked: int) -> Session:
    """Say what the framework knows; it is not told again of what it knows and cannot act upon."""
    after = unfold(state, c.TakeResults(run=PARENT, step=1, seen=looked))[1]
    if _must_wait(after) and looked >= after.runs[PARENT].decided:
        again = isinstance(next_work(after, PARENT), ResumeHost)
        assert not again, "the framework is told to go on with nothing new"
    return after


def _must_wait(state: Session) -> bool:
    """Say whether people must act first; an attempt that is under way is waited for in place."""
    calls = [call for call in state.step_calls(PARENT, 1) if call.open]
    under_way = any(isinstance(call.state, (Executing, RetryDue, Lost, UndoDue)) for call in calls)
    return bool(calls) and not under_way and not any(_may_begin(state, call) for call in calls)
