"""A command id that is used again: the same word is the same answer, and another one is refused.

The store answers a repeated id with what its first use brought about (D5). Whoever used it for
another decision by mistake must not be told that all is well (G6, G7).
"""

from __future__ import annotations

from collections.abc import Sequence

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.errors import NotFound
from placet.core.grants import terms_digest
from placet.core.values import Payload
from placet.runtime.engine import Engine

Word = c.Approve | c.Reject | c.Withdraw | c.Edit | c.Settle | c.Answer

_BRINGS_ABOUT: dict[type, type[e.Event]] = {
    c.Approve: e.VoteCast,
    c.Reject: e.RequestRejected,
    c.Withdraw: e.VoteWithdrawn,
    c.Edit: e.RequestEdited,
    c.Settle: e.RequestSettled,
    c.Answer: e.QuestionAnswered,
}


async def is_same_word(
    engine: Engine, session: str, command: Word, events: Sequence[e.Event]
) -> bool:
    """Say whether events are what this word of this person on this request brought about."""
    kind = _BRINGS_ABOUT[type(command)]
    found = [event for event in events if isinstance(event, kind)]
    said = [event for event in found if _names(event) == (command.request, command.by.id)]
    if not said:
        return False
    given = any(isinstance(event, e.GrantGiven) for event in events)
    if isinstance(command, c.Approve) and given != (command.grant is not None):
        return False
    texts = [pair for event in events if (pair := _text_of(command, event)) is not None]
    return all([await _reads(engine, session, ref, text) for ref, text in texts]) and all(
        _fits(command, event) for event in events
    )


def _names(event: e.Event) -> tuple[str, str]:
    return getattr(event, "request", ""), getattr(event, "by", "")


def _text_of(command: Word, event: e.Event) -> tuple[Payload | None, str] | None:
    """Pair a text that an event holds with what the command would have had it hold."""
    match command, event:
        case c.Reject(reason=reason), e.RequestRejected(reason=held):
            return held, reason.strip() or wording.NO_REASON
        case c.Settle(detail=detail), e.RequestSettled(detail=held_detail):
            return held_detail, detail
        case c.Answer(answer=answer), e.QuestionAnswered(answer=held):
            return held, answer
        case _:
            return None


def _fits(command: Word, event: e.Event) -> bool:
    """Say whether what is no text is the same, too."""
    match command, event:
        case c.Settle(happened=happened), e.RequestSettled(finding=finding):
            return c.FINDINGS[happened] == finding
        case c.Approve(grant=terms), e.GrantGiven(terms=digest):
            return terms is not None and terms_digest(terms) == digest
        case c.Edit(proposal=proposal), e.CallProposed(call_key=key) | e.CallEnded(call_key=key):
            return proposal.call_key == key
        case _:
            return True


async def _reads(engine: Engine, session: str, held: Payload | None, text: str) -> bool:
    if held is None:
        return not text
    try:
        return await engine.payload(session, held.ref) == text
    except NotFound:
        return False
