"""Deciding about runs: their start and end, and the lease under which one is driven (D5)."""

from __future__ import annotations

from placet.core import commands as c
from placet.core import events as e
from placet.core.errors import Closed, Conflict, InProgress, InvalidInput, NotPermitted
from placet.core.state import Resting, Run, RunOver, Working
from placet.core.unfolding import Unfolding
from placet.core.values import LEASE
from placet.core.work import Wait, is_awaited, next_work


def start(so_far: Unfolding, command: c.StartRun) -> None:
    """Begin a run of a session that has none which is active."""
    if command.salt and command.salt != so_far.state.salt:
        raise Conflict(
            "other_salt",
            "The session was begun by another meanwhile, and names its runs otherwise.",
            hint="Name the run under the session's salt.",
            run_id=command.run,
        )
    known = so_far.state.runs.get(command.run)
    if known is not None:
        message_ref = so_far.text(command.message).ref
        started = (known.agent, known.requester, known.message_ref)
        if started != (command.agent, command.requester, message_ref):
            raise Conflict("run_exists", "That run id stands for another run.", run_id=command.run)
        return
    if so_far.state.ended:
        raise Closed(
            "session_ended",
            "The session was ended, and takes no further message.",
            hint="Begin another session.",
            session=so_far.state.id,
        )
    name = command.requester
    if not name.isprintable() or name != name.strip() or name.startswith("@"):
        raise InvalidInput(
            "invalid_requester",
            f"{name!r} is no name of a requester.",
            hint="It is printable, has no spaces around it and does not begin with @.",
        )
    _make_room(so_far, command)
    so_far.add(
        e.RunStarted(
            run=command.run,
            agent=command.agent,
            requester=command.requester,
            kind=command.kind,
            max_steps=command.max_steps,
            message=so_far.text(command.message),
            mode=command.mode,
            guard=command.guard,
            on_failure=command.on_failure,
            saga=command.saga,
        )
    )
    if command.holder is not None:
        take_lease(so_far, c.TakeLease(run=command.run, holder=command.holder))


def _make_room(so_far: Unfolding, command: c.StartRun) -> None:
    """A session has one active run besides child runs; a newer message may supersede it."""
    runs = [run for run in so_far.state.runs.values() if not isinstance(run.state, RunOver)]
    for run in runs:
        if isinstance(run.state, Working) and run.state.until > so_far.state.now:
            raise InProgress("run_active", "A run of this session is under way.", run_id=run.id)
    for run in runs:
        if run.parent is not None:
            continue
        if not command.supersede:
            waits = all(isinstance(next_work(so_far.state, each.id), Wait) for each in runs)
            raise Conflict(
                "run_waiting" if waits else "run_open",
                "A run of this session has not ended.",
                hint="Decide what it waits for, resume it, cancel it, or supersede it.",
                run_id=run.id,
            )
        so_far.stop_run(run.id, "superseded", code="superseded", cause="a newer message")
        if not isinstance(so_far.run(run.id).state, RunOver):
            raise InProgress(
                "run_active", "An effect of this session's run is under way.", run_id=run.id
            )


def take_lease(so_far: Unfolding, command: c.TakeLease) -> None:
    """Give the right to drive to one process: the holder's time is up, or it is gone."""
    run = active(so_far, command.run)
    if run.kind == "hosted":
        raise NotPermitted("hosted_run", "A framework's loop drives this run.", run_id=command.run)
    held = run.state
    if isinstance(held, Working) and so_far.state.now < held.until and held.holder != command.gone:
        raise InProgress(
            "run_driven",
            f"Process {held.holder.pid} on {held.holder.host} drives this run.",
            hint="Wait for it, or until its lease ends.",
            run_id=command.run,
        )
    if isinstance(held, Resting) and isinstance(next_work(so_far.state, command.run), Wait):
        return  # There is nothing to drive, and so nothing is held (D1).
    so_far.add(
        e.LeaseTaken(
            run=command.run,
            holder=command.holder,
            fence=run.fence + 1,
            until=so_far.state.now + LEASE,
        )
    )


def renew_lease(so_far: Unfolding, command: c.RenewLease) -> None:
    """Keep the lease of a driver that is alive."""
    so_far.driven_by(command.run, command.fence)
    until = so_far.state.now + LEASE
    so_far.add(e.LeaseRenewed(run=command.run, fence=command.fence, until=until))


def release_lease(so_far: Unfolding, command: c.ReleaseLease) -> None:
    """Let the run rest, until later where the world has failed."""
    run = so_far.run(command.run)
    if not isinstance(run.state, Working):
        return
    so_far.driven_by(command.run, command.fence)
    pause = command.pause
    so_far.add(
        e.LeaseReleased(
            run=command.run,
            not_before=None if pause is None else so_far.state.now + pause,
            cause=command.cause,
        )
    )


def finish(so_far: Unfolding, command: c.FinishRun) -> None:
    """End a run from within; refused while anything of it is open."""
    run = active(so_far, command.run)
    if run.kind == "driven":
        so_far.driven_by(command.run, command.fence)
    if any(call.open for call in so_far.state.calls.values() if call.at.run == command.run):
        raise Conflict(
            "calls_open", "Calls of the run still wait for their results.", run_id=command.run
        )
    so_far.end_run(command.run, command.stop, command.answer)


def cancel(so_far: Unfolding, command: c.CancelRun) -> None:
    """End a run and its child runs from outside."""
    run = so_far.run(command.run)
    if isinstance(run.state, RunOver):
        if run.state.stop == command.stop:
            return
        raise Closed("run_over", f"The run has ended: {run.state.stop}.", run_id=command.run)
    cause = f"{command.by.id}: {command.cause}" if command.cause else command.by.id
    so_far.stop_run(command.run, command.stop, code="cancelled", cause=cause)


def end_session(so_far: Unfolding, command: c.EndSession) -> None:
    """Cancel the session's runs, and take no further message."""
    if command.erase:
        _erase(so_far, command)
        return
    if so_far.state.ended:
        return
    so_far.add(e.SessionEnded(by=command.by.id, cause=command.cause))
    for run in list(so_far.state.runs.values()):
        if run.parent is None and not isinstance(run.state, RunOver):
            cause = f"{command.by.id} ended the session"
            so_far.stop_run(run.id, "cancelled", code="cancelled", cause=cause)


def _erase(so_far: Unfolding, command: c.EndSession) -> None:
    """Destroy the texts of a session of which nothing is open: what is open may need them."""
    state = so_far.state
    if state.erased:
        return
    if open_runs := [run.id for run in state.runs.values() if not isinstance(run.state, RunOver)]:
        raise Conflict(
            "run_open",
            "A run of this session has not ended, and nothing was erased.",
            hint="End the session first; what has begun is carried to its outcome.",
            run_id=open_runs[0],
        )
    if waiting := [request.id for request in state.requests.values() if request.pending]:
        raise Conflict(
            "request_open",
            "A person is still asked about an outcome, and nothing was erased.",
            hint="Settle it first.",
            request_id=waiting[0],
        )
    so_far.add(e.SessionEnded(by=command.by.id, cause=command.cause, erased=True))


def compact(so_far: Unfolding, command: c.Compact) -> None:
    """Put a summary in the place of what came before a step, for the model's view alone."""
    run = active(so_far, command.run)
    so_far.driven_by(command.run, command.fence)
    if not run.view_from < command.step <= run.step:
        raise Conflict(
            "step_out_of_order",
            f"Steps {run.view_from + 1} to {run.step} can be the first that is seen whole.",
            run_id=run.id,
        )
    summary = so_far.text(command.summary)
    so_far.add(e.TranscriptCompacted(run=run.id, step=command.step, summary=summary))


def take_results(so_far: Unfolding, command: c.TakeResults) -> None:
    """Note that a framework has gone on; while it still waits there is nothing to note."""
    run = so_far.run(command.run)
    if isinstance(run.state, RunOver) or run.decided <= run.taken:
        return
    if command.seen is not None and command.seen < run.decided:
        return
    if any(at.run == run.id and is_awaited(call) for at, call in so_far.state.calls.items()):
        return
    so_far.add(e.ResultsTaken(run=run.id, step=command.step))


def active(so_far: Unfolding, run_id: str) -> Run:
    """Give a run that has not ended; raises Closed or NotFound."""
    run = so_far.run(run_id)
    if isinstance(run.state, RunOver):
        raise Closed("run_over", f"The run has ended: {run.state.stop}.", run_id=run_id)
    return run
