"""From what a policy says of a call, and what its tool declares, to the ruling (G1, G10).

The file's word stands in the place of the declaration's, but for one thing: where the tool itself
asks, only a rule that allows it by its very name lowers that, and nothing lowers what no rule may
(arguments that cannot be read, a question, an approval function that failed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from placet.core.values import (
    REQUESTER,
    Allow,
    Ask,
    Deny,
    Escalation,
    Needs,
    Ruling,
    Shadow,
)
from placet.policy.conditions import Facts
from placet.policy.demands import Joined, joined
from placet.policy.evaluating import Checked, Evaluation, evaluate
from placet.policy.groups import members, with_deputies
from placet.policy.rules import Policy

#: What stands before the names of rules in a ruling's `rule`.
BY_POLICY = "policy:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What is said of a call apart from the file: it asks, for a reason, or it allows (None).

    `lowers` says whether a rule that allows the tool by name counts for more.
    """

    rule: str
    reason: str | None
    lowers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """Who can be asked about a call now: the `approvers` of the settings, unless `nobody` may be.

    `lasts` is how long people are asked where nothing else is said.
    """

    approvers: tuple[str, ...]
    now: datetime
    lasts: timedelta
    nobody: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """A ruling; what the file would have ruled, where it is only tried out; and how it came."""

    ruling: Ruling
    shadow: Shadow | None = None
    evaluation: Evaluation | None = None


def rule_on(policy: Policy | None, facts: Facts, declared: Declared, circle: Circle) -> Ruled:
    """Rule on a call; without a policy the declaration rules."""
    own = _declared(policy, facts, declared, circle)
    mode = "off" if policy is None else policy.mode(facts.surface)
    if policy is None or mode == "off":
        return Ruled(ruling=own)
    evaluation = evaluate(policy, facts, lasts=circle.lasts)
    ruling = _by_file(policy, facts, declared, circle, evaluation) or own
    if mode == "enforce":
        return Ruled(ruling=ruling, evaluation=evaluation)
    shadow = None if evaluation.answer is None else _shadow(ruling)
    return Ruled(ruling=own, shadow=shadow, evaluation=evaluation)


def _declared(policy: Policy | None, facts: Facts, declared: Declared, circle: Circle) -> Ruling:
    if declared.reason is None:
        return Allow(rule=declared.rule)
    return asks_by_default(policy, facts, circle, rule=declared.rule, reason=declared.reason)


def asks_by_default(
    policy: Policy | None, facts: Facts, circle: Circle, *, rule: str, reason: str
) -> Ask:
    """Ask about a call where no rule of the file does: those who are asked by default."""
    demands = joined(policy or Policy(), [], lasts=circle.lasts)
    return _ask(policy, facts, circle, demands, rule=rule, reason=reason)


def _by_file(
    policy: Policy, facts: Facts, declared: Declared, circle: Circle, evaluation: Evaluation
) -> Ruling | None:
    """Give the file's ruling; None where the declaration counts."""
    rule = f"{BY_POLICY}{evaluation.names}"
    match evaluation.answer:
        case None:
            return None
        case "deny":
            return Deny(rule=rule, reason=reasons(evaluation.deciding))
        case "ask":
            assert evaluation.demands is not None, "rules that ask demand something"
            reason = reasons(evaluation.deciding)
            return _ask(policy, facts, circle, evaluation.demands, rule=rule, reason=reason)
        case "allow":
            lowered = declared.lowers and evaluation.names_tool(facts.tool)
            return Allow(rule=rule) if declared.reason is None or lowered else None


def _ask(
    policy: Policy | None,
    facts: Facts,
    circle: Circle,
    demands: Joined,
    *,
    rule: str,
    reason: str,
) -> Ask:
    asked = _asked(policy, facts.requester, circle, demands)
    is_question = facts.kind == "question"
    if is_question and asked:  # Whoever the run acts for may answer too.
        asked = (*asked, REQUESTER)
    return Ask(
        rule=rule,
        needs=Needs(
            approvers=() if circle.nobody else asked,
            quorum=1 if is_question else demands.quorum,
            exclude_requester=demands.exclude_requester,
        ),
        lasts=demands.deadline,
        reason=reason,
        escalation=() if circle.nobody else _reached(policy, facts.requester, circle, demands),
        hold=demands.hold,
    )


def _asked(
    policy: Policy | None, requester: str, circle: Circle, demands: Joined
) -> tuple[str, ...]:
    """Name the people who are asked from the first."""
    if demands.approvers is None:
        return ()
    return _standing_in(
        policy, demands.approvers or defaults(policy, circle), requester, circle, demands
    )


def _reached(
    policy: Policy | None, requester: str, circle: Circle, demands: Joined
) -> tuple[Escalation, ...]:
    return tuple(
        replace(
            step,
            approvers=_standing_in(policy, step.approvers, requester, circle, demands),
        )
        for step in demands.escalation
    )


def _standing_in(
    policy: Policy | None,
    people: tuple[str, ...],
    requester: str,
    circle: Circle,
    demands: Joined,
) -> tuple[str, ...]:
    if policy is None:
        return people
    but = requester if demands.exclude_requester else None
    return with_deputies(policy, people, now=circle.now, but=but)


def defaults(policy: Policy | None, circle: Circle) -> tuple[str, ...]:
    """Name the people who are asked where no rule names any."""
    named = () if policy is None else members(policy, policy.defaults.approvers)
    return named if policy is not None and policy.defaults.approvers else circle.approvers


def _shadow(ruling: Ruling) -> Shadow:
    match ruling:
        case Allow(rule=rule):
            return Shadow(ruling="allow", rule=rule)
        case Deny(rule=rule):
            return Shadow(ruling="deny", rule=rule)
        case Ask(rule=rule, lasts=lasts):
            return Shadow(ruling="ask", rule=rule, lasts=lasts)


# --- in words ---------------------------------------------------------------------------------


def reasons(deciding: tuple[Checked, ...]) -> str:
    """Say why rules rule as they do, with each doubt; of the call only its command is quoted."""
    return "; ".join(_reason(each) for each in deciding)


def _reason(checked: Checked) -> str:
    rule = checked.rule
    verb = "asks" if checked.answer == "ask" else "denies it"
    said = rule.reason or f"the rule {rule.name} {verb}"
    return said + "".join(_beside(checked))


def _beside(checked: Checked) -> Iterator[str]:
    if checked.commands:
        yield f" ({'; '.join(checked.commands)})"
    if checked.doubts:
        yield f" (in doubt: {'; '.join(checked.doubts)})"
