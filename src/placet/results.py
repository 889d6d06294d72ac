"""What the API answers with: where a run stands, and what a decision brought about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from placet.core.card import RequestStatus, status_of
from placet.core.errors import InvalidInput
from placet.core.state import Open, RunOver, Session, Superseded
from placet.core.values import CallCode, StopReason
from placet.core.work import Wait, Work, next_work
from placet.people import Decided
from placet.runtime.engine import Engine
from placet.stores.store import RequestRow, RunRow

T = TypeVar("T")

#: The session of callers that name none.
MAIN_SESSION = "main"

#: The words that decide about an approval request (H5).
Decision = Literal["approve", "reject", "edit"]

#: How many requests or runs are listed where no limit is given.
LISTED = 100


class Listed(list[T]):
    """What was found, up to a limit; `more` says that there is more than that."""

    __slots__ = ("more",)
    more: bool

    def __init__(self, found: Sequence[T], *, more: bool) -> None:
        super().__init__(found)
        self.more = more


def inbox_of(engine: Engine, *, session: str | None, limit: int = LISTED) -> Listed[RequestRow]:
    """List what waits for people, the nearest deadline first; raises InvalidInput."""
    store, tenant = engine.store, engine.tenant
    return _listed(lambda most: store.requests(tenant, session=session, limit=most), limit)


def runs_of(
    engine: Engine, *, session: str | None, active: bool, limit: int = LISTED
) -> Listed[RunRow]:
    """List runs, the newest first; raises InvalidInput."""
    store, tenant = engine.store, engine.tenant
    return _listed(
        lambda most: store.runs(tenant, session=session, active=active, limit=most), limit
    )


def _listed(find: Callable[[int], Sequence[T]], limit: int) -> Listed[T]:
    if limit < 1:
        raise InvalidInput("invalid_limit", f"The limit is at least 1, and not {limit}.")
    rows = find(limit + 1)
    return Listed(rows[:limit], more=len(rows) > limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Where a run stands: over, or `approval_required` with the requests that wait.

    `stop` is None while the run can go on at once, or later by itself. `waiting` has the requests
    of the runs under it, too, and else those of other runs that hold it (G8): a settlement may
    outlive its run.
    """

    run_id: str
    session: str
    stop: StopReason | Literal["approval_required"] | None
    answer: str | None
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionResult:
    """What a decision brought about.

    `successor` is the new version that an edit made. An edit may make none: policy denies what it
    proposed, or it is remembered as refused. `code` then says how the call ended (the outcomes are
    a closed list), and `told` what the model is told; both are None while the call is open.
    """

    request_id: str
    run_id: str
    session: str
    status: RequestStatus
    digest: str
    successor: str | None = None
    code: CallCode | None = None
    told: str | None = None


def decided(found: Decided) -> DecisionResult:
    """Give what a decision has made of a request, and of its call."""
    request = found.row.request
    successor = request.state.successor if isinstance(request.state, Superseded) else None
    return DecisionResult(
        request_id=request.id,
        run_id=request.at.run,
        session=found.row.session,
        status=status_of(request),
        digest=request.digest,
        successor=successor,
        code=found.code,
        told=found.told,
    )


def stands(state: Session, run_id: str, *, answer: str | None = None) -> RunResult:
    """Say where a run stands; `answer` is the text of its end, where it has one."""
    run = state.runs[run_id]
    if isinstance(run.state, RunOver):
        return RunResult(run_id=run_id, session=state.id, stop=run.state.stop, answer=answer)
    waiting = asked_of_people(state, next_work(state, run_id))
    return RunResult(
        run_id=run_id,
        session=state.id,
        stop="approval_required" if waiting else None,
        answer=None,
        waiting=waiting,
    )


def asked_of_people(state: Session, work: Work) -> tuple[str, ...]:
    """Name the requests that people must act on before a run goes on: its own, or what holds it."""
    if not isinstance(work, Wait):
        return ()
    held_by = dict.fromkeys(held for held in work.held_by if held in state.requests)
    return work.requests or tuple(
        held for held in held_by if isinstance(state.requests[held].state, Open)
    )
