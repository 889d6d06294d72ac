"""Who may decide today what was asked before: by the rule as it is now, or in another's place.

Policy may have changed since. A rule that asked and is gone (or has another name) takes nobody's
authority from those who were asked and are still named anywhere. Deputies of today count for what
was asked before their delegation. And where so few of those who were asked may still decide that
the quorum can never be met, those whom policy names today take their place, so that no request is
left to its deadline because people left.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from placet.core.deciders import StandIns, with_heirs
from placet.core.state import Request
from placet.core.values import REQUESTER
from placet.policy.demands import joined
from placet.policy.groups import asked_ever, deputies, with_deputies
from placet.policy.rules import Policy
from placet.policy.ruling import BY_POLICY, Circle, defaults


def deciders(
    policy: Policy, rule: str, circle: Circle, request: Request
) -> tuple[frozenset[str], StandIns]:
    """Say who may decide today what `rule` asks: whom it names, and who may in another's place."""
    named, now = _named_by(policy, rule, request.requester, circle), circle.now
    if named is None:
        ever = eligible = asked_ever(policy) | frozenset(circle.approvers)
        heirs = frozenset(defaults(policy, circle))
    else:
        lasts = request.deadline_at - request.since
        ever = frozenset(person for person, after in named.items() if after < lasts)
        eligible = heirs = frozenset(
            person for person, after in named.items() if now >= request.since + after
        )
    but = request.requester if request.needs.exclude_requester else None
    stand_ins: StandIns = deputies(policy, request.people(now) & eligible, now=now, but=but)
    succeed = {**deputies(policy, heirs, now=now, but=but), **dict.fromkeys(heirs)}
    return eligible, with_heirs(request, ever, stand_ins, succeed)


def people_today(policy: Policy, rule: str, requester: str, circle: Circle) -> frozenset[str]:
    """Name those who may decide today whatever a rule asks, and their deputies.

    Where the rule is gone, or names nobody, they are those who are asked where no rule names any.
    """
    named = _named_by(policy, rule, requester, circle)
    people = defaults(policy, circle) if named is None else named
    return frozenset(with_deputies(policy, people, now=circle.now))


def _named_by(
    policy: Policy, rule: str, requester: str, circle: Circle
) -> dict[str, timedelta] | None:
    """Name those whom a ruling's rules have decide, and how long after it is asked; None: gone.

    What no rule of the file asked is asked of those who are asked by default.
    """
    names = rule.removeprefix(BY_POLICY).split(", ") if rule.startswith(BY_POLICY) else []
    rules = [found for name in names if (found := policy.rule(name)) is not None]
    if names and not rules:
        return None
    demands = joined(policy, [each.demands for each in rules], lasts=circle.lasts)
    first: Iterable[str] = ()
    if demands.approvers is not None:
        first = demands.approvers or defaults(policy, circle)
    named = dict.fromkeys(first, timedelta(0))
    for step in demands.escalation:  # The earliest stands first.
        named = {**dict.fromkeys(step.approvers, step.after), **named}
    return {requester if each == REQUESTER else each: after for each, after in named.items()}
