"""What the API answers with: where a run stands, and what a decision brought about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from placet.core.card import status_of
from placet.core.state import Request, Superseded
from placet.core.values import StopReason
from placet.stores.store import RequestRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Where a run stands: over, or `approval_required` with the requests that wait.

    `stop` is None while the run can go on at once, or later by itself. `waiting` has the requests
    of the runs under it, too.
    """

    run_id: str
    session: str
    stop: StopReason | Literal["approval_required"] | None
    answer: str | None
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionResult:
    """What a decision brought about. `successor` is the new version that an edit made."""

    request_id: str
    run_id: str
    session: str
    status: str
    digest: str
    successor: str | None = None


def decided(row: RequestRow, request: Request) -> DecisionResult:
    """Give what a decision has made of a request."""
    successor = request.state.successor if isinstance(request.state, Superseded) else None
    return DecisionResult(
        request_id=request.id,
        run_id=request.at.run,
        session=row.session,
        status=status_of(request),
        digest=request.digest,
        successor=successor,
    )
