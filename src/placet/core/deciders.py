"""Who may decide a request at an instant: whom it was asked of, as far as policy still names them.

Policy is asked twice, at the decision and when the action is about to run (G10); what it says of
today comes with the command, and is held here against the request and the store's own time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from placet.core.errors import NotPermitted
from placet.core.state import Request
from placet.core.values import Principal, is_alike, without

#: People who may decide a request that was not asked of them, each with the end of that, if any.
StandIns = Mapping[str, datetime | None]


def may_decide(
    request: Request, eligible: frozenset[str], stand_ins: StandIns, *, now: datetime
) -> frozenset[str]:
    """Give those who may decide a request at an instant.

    `eligible` are those whom policy names today. A question may be answered by whom the run acts
    for, too; a requester who is excluded may not stand in for anybody either.
    """
    if request.kind == "question":
        eligible |= {request.requester}
    standing = {who for who, until in stand_ins.items() if until is None or now < until}
    people = (request.people(now) & eligible) | standing
    return without(people, request.requester) if request.needs.exclude_requester else people


def with_heirs(
    request: Request, named: frozenset[str], stand_ins: StandIns, heirs: StandIns
) -> StandIns:
    """Let `heirs` in, too, where so few of those who were asked are left that it can never be met.

    `named` are all whom policy names today, be it later. No request is left to its deadline because
    people are not named any more.
    """
    left = (request.people(request.deadline_at) & named) | stand_ins.keys()
    if request.needs.exclude_requester:
        left = without(left, request.requester)
    if len(left) >= request.needs.quorum:
        return stand_ins
    without_end = {who: until for who, until in heirs.items() if until is None}
    return {**heirs, **stand_ins, **without_end}


def too_few(request: Request, left: Collection[str]) -> bool:
    """Say whether fewer are left than it takes; of what is no approval one is enough."""
    return len(left) < (request.needs.quorum if request.kind == "approval" else 1)


def check_authority(
    request: Request,
    by: Principal,
    eligible: frozenset[str],
    stand_ins: StandIns,
    *,
    now: datetime,
) -> None:
    """Refuse who may not decide a request at an instant; raises NotPermitted (G10)."""
    check_person(by)
    people = may_decide(request, eligible, stand_ins, now=now)
    if by.id in people:
        return
    ids = {"request_id": request.id}
    if people:
        left_out = request.needs.exclude_requester and is_alike(by.id, request.requester)
        cause = f", which is for {request.requester}" if left_out else ""
        told = f"{by.id} may not decide this{cause}; {', '.join(sorted(people))} may."
        raise NotPermitted("not_an_approver", told, **ids)
    asked = ", ".join(sorted(request.people(now))) or "nobody"
    raise NotPermitted(
        "not_an_approver",
        f"Nobody may decide this now: it was asked of {asked}, and policy has none of them decide.",
        hint=f"Name an approver, or `placet cancel {request.at.run}`.",
        **ids,
    )


def check_person(by: Principal) -> None:
    """Refuse whoever is no person; raises NotPermitted (G10)."""
    if by.kind != "person":
        raise NotPermitted(
            "not_a_person", "Only a person decides; an agent's credential never does (G10)."
        )
