"""What rules that ask demand, joined: whoever meets what is joined meets each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from placet.core.values import Escalation, Hold
from placet.policy.groups import members
from placet.policy.rules import Demands, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What several rules that ask demand together.

    `approvers` are people, and None where the rules that name some have nobody in common; they are
    () where no rule names any.
    """

    approvers: tuple[str, ...] | None
    quorum: int
    exclude_requester: bool
    deadline: timedelta
    hold: Hold
    escalation: tuple[Escalation, ...]


def joined(policy: Policy, demands: list[Demands], *, lasts: timedelta) -> Joined:
    """Join what rules demand: each of them is met by what is joined.

    Whom escalation reaches must be somebody whom every rule that names people reaches by then.
    """
    defaults = policy.defaults
    deadline = defaults.deadline or lasts
    named = [each for each in demands if each.approvers]
    approvers: tuple[str, ...] | None = ()
    if named:
        common = set.intersection(*(set(members(policy, each.approvers)) for each in named))
        ordered = (person for each in named for person in members(policy, each.approvers))
        approvers = tuple(dict.fromkeys(p for p in ordered if p in common)) or None
    shortest = min((each.deadline or deadline for each in demands), default=deadline)
    holds = {each.hold or defaults.hold for each in demands} or {defaults.hold}
    return Joined(
        approvers=approvers,
        quorum=max((each.quorum for each in demands), default=1),
        exclude_requester=any(each.exclude_requester for each in demands),
        deadline=shortest,
        hold="surface" if holds == {"surface"} else "session",
        escalation=_escalation(policy, demands, named, before=shortest),
    )


def _escalation(
    policy: Policy, demands: list[Demands], named: list[Demands], *, before: timedelta
) -> tuple[Escalation, ...]:
    reached = [_reached(policy, each) for each in named]
    steps: dict[Escalation, None] = {}
    for each in demands:
        for step in each.escalation:
            people = tuple(
                person
                for person in members(policy, step.approvers)
                if all(other.get(person, before) <= step.after for other in reached)
            )
            if step.after < before:
                steps[replace(step, approvers=people)] = None
    return tuple(sorted(steps, key=lambda step: step.after))


def _reached(policy: Policy, demands: Demands) -> dict[str, timedelta]:
    """Say how long after a call is asked a rule that names people reaches each of them."""
    found = dict.fromkeys(members(policy, demands.approvers), timedelta(0))
    for step in sorted(demands.escalation, key=lambda step: step.after):
        found = {**dict.fromkeys(members(policy, step.approvers), step.after), **found}
    return found
