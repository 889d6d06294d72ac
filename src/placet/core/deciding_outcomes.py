"""Deciding about outcomes: what the end of an attempt means, and what follows from it (D4, D8).

What nobody can know is never guessed. In this order, and each only as its tool declares: the same
attempt again, the probe, a roll-back to the snapshot, a compensation, a person. What takes an
effect back is an attempt like any other, with a key of its own, under the call that it takes back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.canonical import JsonValue, digest_of, short_id
from placet.core.errors import Conflict, InProgress, StaleHolder
from placet.core.state import Call, Executing, Lost
from placet.core.unfolding import Unfolding
from placet.core.values import CallCode, Needs, Purpose, Undoing

#: How often an idempotent body whose outcome was lost is entered again, whatever it declares.
MOST_LOST_RETRIES = 3

#: How long people have to settle an unknown outcome before its run ends without them.
SETTLEMENT_LASTS = timedelta(hours=24)


def conclude(so_far: Unfolding, command: c.Conclude) -> None:
    """Record what became of an attempt, by whoever still holds it."""
    call = so_far.call(command.at)
    state = call.state
    held = isinstance(state, Executing) and state.fence == command.fence
    if not isinstance(state, Executing) or not held or call.attempts != command.attempt:
        raise StaleHolder(
            "stale_attempt",
            "The attempt is not the caller's any more; another has taken it over.",
            call=str(call.at),
        )
    outcome = command.outcome
    match outcome:
        case c.Succeeded(told=told, own=own) if state.purpose == "run":
            so_far.end_call(call.at, "succeeded", so_far.text(told), own=own)
        case c.Succeeded(told=told):
            _taken_back(so_far, call, state.purpose, told)
        case c.Failed() if state.purpose == "run":
            _failed(so_far, call, outcome)
        case c.Failed():
            _undo_failed(so_far, call, state.purpose, outcome)
        case c.Unknown():
            _lost(so_far, call, outcome)
        case _:
            assert_never(outcome)
    so_far.finish_if_idle(call.at.run)


def _failed(so_far: Unfolding, call: Call, failed: c.Failed) -> None:
    again = (call.recovery.idempotent or failed.not_done) and failed.retriable
    if again and not _stopping(so_far, call) and attempts_left(call):
        _again(so_far, call, failed.error, spread=failed.spread, not_done=failed.not_done)
        return
    certain = failed.not_done and not call.acted
    if not certain and give_up(so_far, call, failed.error):
        return
    if failed.not_done and isinstance(call.state, Executing) and call.state.lost:
        # That this attempt was not made says nothing of the one that was lost (D4).
        _record_lost(so_far, call, failed.error, body_over=True)
        put_to_a_person(so_far, call, failed.error)
        return
    told = wording.failed(failed.error, not_done=certain, attempts=call.attempts)
    so_far.end_call(call.at, "tool_failed", so_far.text(told), own=failed.own or failed.error)


def attempts_left(call: Call, *, lost: bool = False) -> bool:
    """Say whether a call may be tried once more by count, after what was lost or only failed."""
    retries = call.recovery.retries
    return call.attempts <= (max(retries, MOST_LOST_RETRIES) if lost else retries)


def undoings_left(call: Call, how: Purpose, *, lost: bool = False) -> bool:
    """Say whether it may be tried once more by count to take a call back in a way."""
    retries = undoing_of(call, how).retries
    tried = call.attempts - call.undone_from
    return tried <= (max(retries, MOST_LOST_RETRIES) if lost else retries)


def pause_before_next(call: Call, purpose: Purpose) -> timedelta:
    """Give how long it is waited at least before the next attempt: it doubles with each."""
    if purpose == "run":
        pause, tried = call.recovery.backoff, call.attempts
    else:
        pause, tried = undoing_of(call, purpose).backoff, call.attempts - call.undone_from
    return pause * (1 << (tried - 1))


def _stopping(so_far: Unfolding, call: Call) -> bool:
    return so_far.run(call.at.run).stopping is not None


def _again(
    so_far: Unfolding, call: Call, cause: str, *, spread: float = 0.0, not_done: bool = False
) -> None:
    pause = pause_before_next(call, "run")
    pause *= 1 + call.recovery.jitter_percent * spread / 100
    _tried(so_far, call, pause, cause, not_done=not_done)


def _tried(
    so_far: Unfolding, call: Call, pause: timedelta, cause: str, *, not_done: bool = False
) -> None:
    so_far.add(
        e.AttemptFailed(
            at=call.at,
            attempt=call.attempts,
            again_at=so_far.state.now + pause,
            cause=so_far.text(cause),
            not_done=not_done,
        )
    )


def _lost(so_far: Unfolding, call: Call, unknown: c.Unknown) -> None:
    """An outcome that nobody knows: the same key again, the probe, a way back, or a person."""
    assert isinstance(call.state, Executing), "only an attempt under way can be lost"
    purpose, cause = call.state.purpose, unknown.cause
    _record_lost(so_far, call, cause, body_over=unknown.body_over)
    if purpose != "run":
        undoing = undoing_of(call, purpose)
        # A body that puts a snapshot back late would undo what was done since: it has no key.
        again = undoing.idempotent and (purpose == "compensate" or unknown.body_over)
        if again and _undo_again(so_far, call, purpose, cause, lost=True):
            return
        put_to_a_person(so_far, call, f"it was being taken back, and {cause}")
    elif call.recovery.idempotent and attempts_left(call, lost=True):
        _again(so_far, call, cause, spread=unknown.spread)
    elif call.recovery.probe or give_up(so_far, call, cause, body_over=unknown.body_over):
        return
    else:
        put_to_a_person(so_far, call, cause)


def _record_lost(so_far: Unfolding, call: Call, cause: str, *, body_over: bool) -> None:
    told = so_far.text(cause)
    lost = e.AttemptLost(at=call.at, attempt=call.attempts, cause=told, body_over=body_over)
    so_far.add(lost)


def lose(so_far: Unfolding, command: c.Lose) -> None:
    """Take an attempt from a holder whose lease has passed or whose process is gone (D5)."""
    call = so_far.call(command.at)
    if not isinstance(call.state, Executing) or call.attempts != command.attempt:
        return
    run = so_far.run(call.at.run)
    if run.kind == "hosted":
        if so_far.state.now < call.state.until and command.gone != call.state.holder:
            raise InProgress("call_executing", "An attempt is under way.", call=str(call.at))
    else:
        so_far.driven_by(run.id, command.fence)
        if call.state.fence == command.fence:
            raise InProgress("call_executing", "An attempt is under way.", call=str(call.at))
    is_gone = command.gone == call.state.holder
    _lost(so_far, call, c.Unknown(cause=command.cause, body_over=is_gone))
    so_far.finish_if_idle(run.id)


def probed(so_far: Unfolding, command: c.Probed) -> None:
    """Take a probe's answer; only a provably dead body permits another attempt (D4)."""
    call = so_far.call(command.at)
    if not isinstance(call.state, Lost) or call.attempts != command.attempt:
        return
    so_far.driven_by(call.at.run, command.fence)
    if command.happened:
        so_far.end_call(call.at, "succeeded", so_far.text(command.told), by="probe")
    elif command.happened is False and command.body_gone and not call.stray:
        stops = _stopping(so_far, call)
        if not stops and attempts_left(call, lost=True):
            _again(so_far, call, "the probe says that it did not happen", not_done=True)
        else:
            cause = "the run stops." if stops else "the probe says that it did not happen."
            told = wording.failed(cause, not_done=True, attempts=call.attempts)
            so_far.end_call(call.at, "tool_failed", so_far.text(told), by="probe")
    else:
        cause = (
            "the tool's probe could not tell"
            if command.happened is None
            else ("the probe says that it did not happen, but the attempt may still be under way")
        )
        over = command.body_gone or call.state.body_over
        if not give_up(so_far, call, cause, body_over=over):
            put_to_a_person(so_far, call, cause)
    so_far.finish_if_idle(call.at.run)


# --- taking back ------------------------------------------------------------------------------


def give_up(so_far: Unfolding, call: Call, cause: str, *, body_over: bool = True) -> bool:
    """Take back what a call may have done; answer False where nothing is declared for that.

    A body that may act yet would act after it was taken back: then a person is asked.
    """
    how = call.way_back()
    if how is None:
        return False
    if body_over and not call.stray:
        so_far.take_back(call, how, cause)
        return True
    if isinstance(so_far.call(call.at).state, Executing):
        _record_lost(so_far, call, cause, body_over=body_over)
    put_to_a_person(so_far, call, cause)
    return True


def undoing_of(call: Call, purpose: Purpose) -> Undoing:
    """Give what is declared of taking a call back in a way."""
    recovery = call.recovery
    found = recovery.roll_back if purpose == "roll_back" else recovery.compensation
    assert found is not None, "only what is declared is begun"
    return found


def undo_digest(digest: str, how: Purpose) -> str:
    """Give the digest that stands for taking an action back, so that its key is one of its own."""
    return digest_of({"action": digest, "undo": how})


def _undo_again(
    so_far: Unfolding, call: Call, how: Purpose, cause: str, *, lost: bool = False
) -> bool:
    """Try to take back once more, if it may be; give whether it is."""
    if not undoings_left(call, how, lost=lost):
        return False
    _tried(so_far, call, pause_before_next(call, how), cause)
    return True


def _taken_back(so_far: Unfolding, call: Call, purpose: Purpose, told: str) -> None:
    rolled_back = purpose == "roll_back"
    code: CallCode = "tool_failed_and_rolled_back" if rolled_back else "tool_failed_and_compensated"
    so_far.end_call(call.at, code, so_far.text(told))


def _undo_failed(so_far: Unfolding, call: Call, purpose: Purpose, failed: c.Failed) -> None:
    """Try again, or the next way, or ask a person; the surface is closed until then."""
    undoing = undoing_of(call, purpose)
    again = (undoing.idempotent or failed.not_done) and failed.retriable
    if again and _undo_again(so_far, call, purpose, failed.error):
        return
    if (how := call.way_back(after=purpose)) is not None:
        so_far.take_back(call, how, failed.error)
    else:
        what = "rolling it back" if purpose == "roll_back" else "compensating it"
        _record_lost(so_far, call, failed.error, body_over=True)
        first = "it failed" if call.result is None else "it succeeded, a later call failed"
        put_to_a_person(so_far, call, f"{first}, and so did {what}: {failed.error}")


def put_to_a_person(so_far: Unfolding, call: Call, cause: str) -> None:
    """Open a settlement: those are asked who were asked to approve, or may be asked now."""
    run = so_far.run(call.at.run)
    asked: dict[str, JsonValue] = {
        "action": call.digest,
        "attempt": call.attempts,
        "kind": "settlement",
    }
    if (
        so_far.call(call.at).result is not None
    ):  # No attempt need lie between it and an earlier one.
        asked["of"] = "unwinding"
    digest = digest_of(asked)
    if short_id("st", digest) in so_far.state.requests:
        raise Conflict("digest_reused", "That settlement was asked for before.", call=str(call.at))
    so_far.add(
        e.RequestOpened(
            request=short_id("st", digest),
            kind="settlement",
            at=call.at,
            digest=digest,
            tool=call.tool,
            needs=Needs(approvers=call.approvers, exclude_requester=call.not_requester),
            escalation=call.escalation,
            requester=run.requester,
            deadline_at=so_far.state.now + SETTLEMENT_LASTS,
            rule=call.rule,
            policy_version="",
            grounds=so_far.text(cause),
        )
    )
    if run.stopping is not None:
        so_far.lapse(so_far.request(short_id("st", digest)), cause)
