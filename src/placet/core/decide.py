"""decide(state, command) -> the events that the command brings about, or a typed refusal.

The rules stand in one module for each thing that is decided about: `deciding_runs`,
`deciding_steps`, `deciding_requests`, `deciding_grants`, `deciding_deliveries`, `deciding_effects`,
`deciding_outcomes` and `deciding_sagas`.
A refusal is raised and changes nothing; an empty answer says that what was asked is so already.
"""

from __future__ import annotations

from typing import assert_never

from placet.core import commands as c
from placet.core import deciding_deliveries as deliveries
from placet.core import deciding_effects as effects
from placet.core import deciding_grants as grants
from placet.core import deciding_outcomes as outcomes
from placet.core import deciding_requests as requests
from placet.core import deciding_runs as runs
from placet.core import deciding_sagas as sagas
from placet.core import deciding_steps as steps
from placet.core import events as e
from placet.core.errors import Closed
from placet.core.state import Executing, Session, Working
from placet.core.unfolding import Unfolding
from placet.core.work import Wait, next_work


def decide(state: Session, command: c.Command) -> tuple[e.Event, ...]:
    """Give the events of `command`; raises a Refusal, NotFound or InvalidInput."""
    return unfold(state, command)[0]


def unfold(state: Session, command: c.Command) -> tuple[tuple[e.Event, ...], Session]:
    """Give the events of `command`, and the session after them."""
    so_far = Unfolding(state, [])
    _not_erased(state, command)
    _dispatch(so_far, command)
    _rest_what_waits(so_far)
    return tuple(so_far.events), so_far.state


def _not_erased(state: Session, command: c.Command) -> None:
    """Take nothing more of a session whose texts are no more: none could have a reference (H4)."""
    if state.erased and not isinstance(command, c.EndSession):
        raise Closed(
            "session_erased",
            "The texts of this session were erased, and nothing of it goes on.",
            hint="Begin another session.",
            session=state.id,
        )


def _dispatch(so_far: Unfolding, command: c.Command) -> None:
    match command:
        case c.StartRun():
            runs.start(so_far, command)
        case c.TakeLease():
            runs.take_lease(so_far, command)
        case c.RenewLease():
            runs.renew_lease(so_far, command)
        case c.ReleaseLease():
            runs.release_lease(so_far, command)
        case c.FinishRun():
            runs.finish(so_far, command)
        case c.CancelRun():
            runs.cancel(so_far, command)
        case c.EndSession():
            runs.end_session(so_far, command)
        case c.Compact():
            runs.compact(so_far, command)
        case c.TakeResults():
            runs.take_results(so_far, command)
        case c.Propose():
            steps.propose(so_far, command)
        case c.RecordReads():
            steps.record_reads(so_far, command)
        case c.Begin():
            effects.begin(so_far, command)
        case c.TakeBack():
            effects.take_back(so_far, command)
        case c.Unwind():
            sagas.unwind(so_far, command)
        case c.Conclude():
            outcomes.conclude(so_far, command)
        case c.Lose():
            outcomes.lose(so_far, command)
        case c.Probed():
            outcomes.probed(so_far, command)
        case c.Approve():
            requests.approve(so_far, command)
        case c.Reject():
            requests.reject(so_far, command)
        case c.Withdraw():
            requests.withdraw(so_far, command)
        case c.Revoke():
            grants.revoke(so_far, command)
        case c.Edit():
            requests.edit(so_far, command)
        case c.Settle():
            requests.settle(so_far, command)
        case c.Answer():
            requests.answer(so_far, command)
        case c.Expire():
            requests.expire(so_far, command)
        case c.RecordDelivery():
            deliveries.record(so_far, command)
        case _:
            assert_never(command)


def _rest_what_waits(so_far: Unfolding) -> None:
    """Take the lease from a run that has nothing to do but wait: D1, in the same transaction."""
    if not so_far.events:
        return
    for run in list(so_far.state.runs.values()):
        if isinstance(run.state, Working):
            work = next_work(so_far.state, run.id)
            if isinstance(work, Wait) and not _under_way(so_far.state, run.id):
                so_far.add(e.LeaseReleased(run=run.id))


def _under_way(state: Session, run: str) -> bool:
    return any(
        isinstance(call.state, Executing) for call in state.calls.values() if call.at.run == run
    )
