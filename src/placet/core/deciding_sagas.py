"""Deciding about sagas: what earlier calls did is taken back because a later one failed (D8).

The failed call's result is withheld (`UnwindingBegun`); what has begun ends first; then the effects
that stand are taken back one by one, the latest first, each an attempt like any other under its own
call. Where one cannot be, a person is asked before the next. At the end the model is told, in the
failed call's one result, what became of each.
"""

from __future__ import annotations

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.deciding_outcomes import put_to_a_person, undoing_of
from placet.core.errors import Conflict, Refusal
from placet.core.state import Call, Unwinding, undoable
from placet.core.unfolding import Unfolding
from placet.core.values import Payload, Purpose
from placet.core.work import under_way


def unwind(so_far: Unfolding, command: c.Unwind) -> None:
    """Take up the next earlier effect, or end the failed call where none is left."""
    call = so_far.call(command.at)
    if not isinstance(call.state, Unwinding):
        return
    run = so_far.driven_by(call.at.run, command.fence)
    if under_way(so_far.state, besides=call.at) or undoable(run, call.at) != command.earlier:
        raise Refusal("not_yet", "What has begun ends first.", call=str(call.at))
    if command.earlier is None:
        _end(so_far, call, call.state, command.told)
        so_far.finish_if_idle(run.id)
        return
    earlier = so_far.call(command.earlier)
    how = earlier.way_back()
    if how is None:  # It declares none: it stands, and the model is told so.
        so_far.add(e.EffectUnwound(at=earlier.at, outcome="succeeded"))
        return
    so_far.take_back(earlier, how, wording.later_failed(call.tool))
    if not _is_safe(earlier, how):
        cause = "it is to be taken back, but an earlier attempt at it may act yet"
        put_to_a_person(so_far, earlier, cause)


def _is_safe(call: Call, how: Purpose) -> bool:
    """Say whether nothing that may act yet can meet with taking a call back.

    A body of its own that is late would act after a roll-back; under its key it acts once. One that
    was to take it back before may be late, too.
    """
    if how == "roll_back":
        return not call.stray and not call.ran
    return not call.ran or undoing_of(call, how).idempotent


def _end(so_far: Unfolding, call: Call, state: Unwinding, told: str) -> None:
    """Give the failed call its one result, with what became of the earlier ones."""
    if so_far.text(told).ref != state.told_ref:
        raise Conflict(
            "digest_mismatch",
            "The text that was withheld is not what is stored.",
            hint="Run `placet audit verify`.",
            call=str(call.at),
        )
    found = [
        (f"{each.tool} ({each.at.step}.{each.at.index})", each.outcome) for each in state.unwound
    ]
    text = so_far.text(wording.unwound(told, found) if found else told)
    own = None if state.own_ref is None else Payload(state.own_ref)
    so_far.end_call(call.at, state.code, text, own=own)
