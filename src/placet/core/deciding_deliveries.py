"""Deciding about deliveries: whether the notices of a request left, channel by channel (H3).

What is on record is each change, and no retry: a channel that fails for an hour has failed once. A
request that no channel told anybody of by its deadline ends otherwise than one that nobody
answered.
"""

from __future__ import annotations

from placet.core import commands as c
from placet.core import events as e
from placet.core import wording
from placet.core.errors import InvalidInput
from placet.core.state import Request
from placet.core.unfolding import Unfolding


def record(so_far: Unfolding, command: c.RecordDelivery) -> None:
    """Put a delivery, or that there was none, on record where that is news.

    What closes a request is delivered, too, and so a closed one is no refusal. What is past its
    deadline and not closed yet has its end already: nothing that comes later is its cause.
    """
    request = so_far.request(command.request)
    if not command.channel:
        raise InvalidInput("no_channel", "A delivery names its channel.", request_id=request.id)
    if _is_over(so_far, request):
        return
    known = request.delivery(command.channel)
    if command.delivered:
        if known is None or known.cause_ref is not None:
            so_far.add(e.NoticeDelivered(request=request.id, channel=command.channel))
    elif known is None or known.cause_ref is None:
        cause = so_far.text(command.cause.strip() or wording.NO_CAUSE)
        so_far.add(e.NoticeUndelivered(request=request.id, channel=command.channel, cause=cause))


def _is_over(so_far: Unfolding, request: Request) -> bool:
    """Say whether a request waits for nothing but to be closed; a settlement has no such end."""
    ends = request.pending and request.kind != "settlement"
    return ends and so_far.state.now >= request.deadline_at
