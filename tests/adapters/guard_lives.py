"""Lives of a guarded call, for processes that race for it or are killed in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from placet import Happened, IdempotencyKey, NotHappened, Placet, PlacetError
from placet.core.errors import ApprovalRequired
from placet.guarding import Guarded
from placet.stores.sqlite import SqliteStore
from tests.adapters.guards import keys, opened, refund_of
from tests.runtime.life import Killer, Kind

PHASES = ("ask", "approve", "call")

#: The session of calls that meet one another.
ONE = "one"


def guarded(placet: Placet, place: Path, kind: Kind, killer: Killer) -> Guarded[str]:
    """Declare the guarded refund of a life."""
    refund = refund_of(
        placet,
        place,
        before=lambda: killer.point("before the effect"),
        after=lambda: killer.point("after the effect"),
        idempotent=kind == "idempotent",
    )
    if kind == "probe":

        @refund.probe
        def was_paid(order: str, amount: int, *, key: IdempotencyKey) -> Happened | NotHappened:
            if key in keys(place):
                return Happened(result=f"refunded {amount} for {order}")
            return NotHappened()

    return refund


def run_phase(phase: str, directory: str, kind: Kind, kill_at: int | None) -> None:
    """Do one phase of a life in this process, which may not survive it."""
    killer = Killer(kill_at)
    killer.watch_statements()
    place = Path(directory)
    with opened(place) as placet:
        refund = guarded(placet, place, kind, killer)
        match phase:
            case "ask":
                called(lambda: refund("A-42", 129))
            case "approve":
                approve(placet)
            case _:
                called(lambda: refund("A-42", 129))
    (place / f"{phase}.points").write_text(str(killer.passed))


def call_between_kills(directory: str, order: str, kill_at: int | None, at_begin: bool) -> None:
    """Make a call that nobody is asked about; be killed at a point, or as it is to be begun."""
    killer, looks = Killer(kill_at), Killer(2 if at_begin else None)
    killer.watch_statements()
    place = Path(directory)
    with opened(place) as placet:
        refund = refund_of(
            placet,
            place,
            before=lambda: killer.point("before the effect"),
            after=lambda: killer.point("after the effect"),
            guard={"session": ONE},
            approval="never",
        )

        @refund.environment
        def world(order: str, amount: int) -> str:
            looks.point("a look at the world: to propose, and then to begin")
            return "the same"

        refund(order, 1)
    (place / "points").write_text(str(killer.passed))


def called(call: Callable[[], str]) -> str:
    """Call, and give the result, or the code of the refusal."""
    try:
        return call()
    except ApprovalRequired as needed:
        return "settlement" if needed.requests[0].startswith("st_") else needed.code
    except PlacetError as refusal:
        return refusal.code


def approve(placet: Placet) -> None:
    """Approve what waits for approval."""
    for row in placet.inbox_sync():
        if row.request.kind == "approval":
            placet.decide_sync(row.request.id, "approve", by="ana")


def finish(place: Path, kind: Kind) -> str:
    """Bring a life to its end as its callers and people would, whatever state it was left in."""
    with opened(place) as placet:
        refund = guarded(placet, place, kind, Killer(None))
        end = "it does not end"
        for _ in range(5):
            end = called(lambda: refund("A-42", 129))
            if end != "approval_required":
                break
            approve(placet)
        return end


def asked(directory: Path) -> int:
    """Count how often a person was asked to approve, in the event log."""
    store = SqliteStore(directory / "placet.db")
    try:
        return sum(
            event.kind == "RequestOpened" and '"approval"' in event.body
            for session in store.sessions("main")
            for event in store.events("main", session)
        )
    finally:
        store.close()


def contender(place: str, number: int, barrier: Any, rounds: int, how: str, answers: Any) -> None:
    """Call each round's refund at the same moment as all others."""
    options: dict[str, Any] = {} if how == "approved" else {"approval": "never"}
    is_one = how == "one session"
    terms: dict[str, Any] = {"session": ONE} if is_one else {}
    with opened(Path(place)) as placet:
        refund = refund_of(placet, Path(place), guard=terms, **options)

        for round_number in range(rounds):
            barrier.wait(60)
            said = called(partial(refund, f"A-{round_number}", number if is_one else 1))
            answers.put((round_number, number, said))
