"""Whether an attempt was permitted: how often, when, and after what it may be made again (H4).

The rules are those by which `decide` lets it be made (D4, D8), as far as they follow from what is
on record. What is not on record is whether the error was one of those after which another attempt
is worth while, whether a body that a probe was asked about was gone, and, of an attempt at taking
back, whether it was not made at all: none of these is held to anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from placet.core import events as e
from placet.core.deciding_effects import key_is_known
from placet.core.deciding_outcomes import (
    attempts_left,
    pause_before_next,
    undo_digest,
    undoing_of,
    undoings_left,
)
from placet.core.state import (
    Call,
    CallOver,
    Executing,
    Lost,
    RetryDue,
    Session,
    UndoDue,
    Unwinding,
    undoable,
)
from placet.core.values import Purpose, idempotency_key
from placet.runtime.permitted_calls import spends

_ANOTHER = "it is no attempt of this call that was under way"
_TOO_MANY = "it is tried again more often than was declared"
_NO_KEY = "it is tried again without a key, though it may have acted"


def begun(state: Session, event: e.AttemptBegun) -> Iterable[str]:
    """Hold an intent to its action, to its approval, and to when it was due."""
    call = state.calls[event.at]
    digest = call.digest
    if event.purpose != "run":
        digest = undo_digest(digest, event.purpose)
    if event.key != idempotency_key(digest):
        yield "its key is of another action than the one that was ruled on"
    if event.attempt != call.attempts + 1 or event.surface != call.surface:
        yield "it is no attempt of this call that was next"
    match call.state:
        case UndoDue(how=how, again_at=again_at):
            if event.purpose != how or state.now < again_at or event.request is not None:
                yield "it takes back otherwise than was decided"
            lasts, first_at = undoing_of(call, how).time_limit, call.undo_begun_at
            if how == "compensate" and not key_is_known(call, first_at, lasts, now=state.now):
                yield "it takes back under a key that may be forgotten"
        case _ if event.purpose != "run":
            yield "nothing was to be taken back"
        case RetryDue(again_at=again_at):
            if state.now < again_at or event.request is not None:
                yield "another attempt was not due"
            lasts, first_at = call.recovery.time_limit, call.begun_at
            if call.acted and not key_is_known(call, first_at, lasts, now=state.now):
                yield "it is tried again under a key that may be forgotten"
        case _:
            yield from spends(state, call, event.request)


def failed(state: Session, event: e.AttemptFailed) -> Iterable[str]:
    """Hold another attempt to what is declared of the call, and to what is known of the last."""
    call = state.calls[event.at]
    purpose: Purpose = "run"
    stops = state.runs[event.at.run].stopping is not None
    if event.attempt != call.attempts:
        yield _ANOTHER
    match call.state:
        case Executing(purpose="run"):
            if stops:
                yield "it is tried again, and its run was to end"
            if not (call.recovery.idempotent or event.not_done):
                yield _NO_KEY
            if not attempts_left(call):
                yield _TOO_MANY
        case Lost(purpose="run"):
            if not event.not_done and not call.recovery.idempotent:
                yield _NO_KEY
            if event.not_done and (stops or call.stray or not call.recovery.probe):
                yield "no probe could say that it did not happen"
            if not attempts_left(call, lost=True):
                yield _TOO_MANY
        case Executing(purpose=how):
            purpose = how
            if not undoings_left(call, how):
                yield _TOO_MANY
        case Lost(purpose=how, body_over=over):
            purpose = how
            if not undoing_of(call, how).idempotent or (how == "roll_back" and not over):
                yield _NO_KEY
            if not undoings_left(call, how, lost=True):
                yield _TOO_MANY
        case _:
            yield _ANOTHER
    if event.again_at < state.now + pause_before_next(call, purpose):
        yield "it is tried again sooner than was declared"


def lost(state: Session, event: e.AttemptLost) -> Iterable[str]:
    """Hold what was lost to the attempt that was under way."""
    if event.attempt != state.calls[event.at].attempts:
        yield _ANOTHER


def undoing(state: Session, event: e.CallUndoing) -> Iterable[str]:
    """Hold what is taken back to the way that is declared, and to why it may be."""
    call = state.calls[event.at]
    how: Purpose | None = None
    match call.state:
        case Executing(purpose="run") | RetryDue() if not call.stray:
            how = call.way_back()
        case Lost(purpose="run", body_over=over) if not call.stray:
            how = call.way_back() if over or call.recovery.probe else None
        case Executing(purpose=before) if before != "run":
            how = call.way_back(after=before)
        case CallOver() if _is_unwound(state, call):
            how = call.way_back()
        case _:
            pass
    if event.how != how:
        yield "it is to be taken back otherwise than was declared, or might not be"


def _is_unwound(state: Session, call: Call) -> bool:
    """Say whether a later call of its run has failed, and this effect is the next to go with it."""
    run = state.runs[call.at.run]
    return any(
        other.at.run == run.id
        and isinstance(other.state, Unwinding)
        and undoable(run, other.at) == call.at
        for other in state.calls.values()
    )
