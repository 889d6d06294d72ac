"""From a policy and a call to what the policy's rules say: all of them, and the strictest of them.

Every rule is held against every call. Of those that are for it the strictest answer counts (deny,
ask, allow); where several ask, all that they demand is demanded. What follows where no rule is for
the call, and what a tool's own declaration adds, is the runtime's (placet.runtime.rulings).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from placet.core.values import EVERY_SURFACE
from placet.policy.conditions import UNREADABLE, Facts, find, value_at
from placet.policy.demands import Joined, joined
from placet.policy.doubts import DOUBT_HOLDS, Finding, Part, Truth, counts
from placet.policy.operators import matches_pattern
from placet.policy.rules import (
    STRICTNESS,
    Annotated,
    Answer,
    Commands,
    Condition,
    FirstOfItsKind,
    LowConfidence,
    Policy,
    Rule,
    Selector,
    SelectorKind,
)
from placet.policy.shell import parse, ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A condition that was held against a call: what was found, and whether it counts as so."""

    part: Part
    condition: Condition
    finding: Finding
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A rule that was held against a call.

    `answer` is what it says where it `matches`: its ruling, or what its commands make of it; None:
    its commands have nothing to say. `unlike` is the first selector that does not choose the call,
    and then nothing further was looked at. `commands` say why they answered so, and in what they
    were in doubt.
    """

    rule: Rule
    matches: bool
    answer: Answer | None
    unlike: SelectorKind | None = None
    held: tuple[Held, ...] = ()
    commands: tuple[str, ...] = ()
    commands_doubt: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Give the doubts by which the rule is for the call, or is not."""
        doubtful = [each.finding.doubt for each in self.held if each.finding.truth is Truth.DOUBT]
        return tuple(dict.fromkeys([*filter(None, [self.commands_doubt]), *doubtful]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a policy says of a call. `answer` None: no rule is for it.

    `deciding` are the rules that gave the strictest answer, and `demands` theirs together, where
    they ask.
    """

    checked: tuple[Checked, ...]
    answer: Answer | None
    deciding: tuple[Checked, ...] = ()
    demands: Joined | None = None

    @property
    def names(self) -> str:
        """Name the rules that decide."""
        return ", ".join(each.rule.name for each in self.deciding)

    def names_tool(self, tool: str) -> bool:
        """Say whether a deciding rule names the tool itself."""
        return any(each.rule.names_tool(tool) for each in self.deciding)


def evaluate(policy: Policy, facts: Facts, *, lasts: timedelta) -> Evaluation:
    """Hold a call against every rule; `lasts` is the deadline where nothing says one."""
    checked = tuple(check(rule, facts) for rule in policy.rules)
    matching = [each for each in checked if each.matches]
    strictest: Answer | None = None
    for each in matching:
        assert each.answer is not None, "what matches answers"
        if strictest is None or STRICTNESS[each.answer] > STRICTNESS[strictest]:
            strictest = each.answer
    deciding = tuple(each for each in matching if each.answer == strictest)
    demands = None
    if strictest == "ask":
        demands = joined(policy, [each.rule.demands for each in deciding], lasts=lasts)
    return Evaluation(checked=checked, answer=strictest, deciding=deciding, demands=demands)


def check(rule: Rule, facts: Facts) -> Checked:
    """Hold a call against one rule."""
    answer: Answer | None = rule.ruling
    commands: tuple[str, ...] = ()
    doubt = ""
    if (unlike := _unlike(rule, facts, _widest(rule))) is not None:
        return Checked(rule=rule, matches=False, answer=answer, unlike=unlike)
    if rule.commands is not None:
        answer, commands, doubt = answer_of(rule.commands, rule.ruling, facts)
    if answer is None:
        return Checked(rule=rule, matches=False, answer=None, commands=commands)
    if (unlike := _unlike(rule, facts, answer)) is not None:
        return Checked(rule=rule, matches=False, answer=answer, unlike=unlike)
    held = tuple(_held(rule, facts, answer))
    return Checked(
        rule=rule,
        matches=all(each.counts is (each.part == "when") for each in held),
        answer=answer,
        held=held,
        commands=commands,
        commands_doubt=doubt,
    )


def _held(rule: Rule, facts: Facts, answer: Answer) -> Iterator[Held]:
    parts: tuple[tuple[Part, tuple[Condition, ...]], ...] = (
        ("when", rule.when),
        ("unless", rule.unless),
    )
    for part, conditions in parts:
        for condition in conditions:
            finding = find(condition, facts, answer, part)
            yield Held(
                part=part,
                condition=condition,
                finding=finding,
                counts=counts(finding, answer, part),
            )


# --- whom a rule is for -----------------------------------------------------------------------


def _widest(rule: Rule) -> Answer:
    """Give the answer of a rule by which it is for the most calls.

    A rule that allows binds as widely as one that denies, where it denies by its commands.
    """
    return rule.ruling if rule.commands is None else "deny"


def _unlike(rule: Rule, facts: Facts, answer: Answer) -> SelectorKind | None:
    """Name a selector that does not choose the call, where the rule would answer so."""
    for each in rule.selectors:
        if not _chooses(each, facts, answer):
            return each.kind
    return None


def _chooses(selector: Selector, facts: Facts, answer: Answer) -> bool:
    """Say whether a selector chooses the call.

    What binds an agent binds those that stand under it, and what is allowed to it is not. A tool
    with several scopes is bound by a rule for any of them, and allowed by one for all. An effect
    that declares no surface touches each of them, and is bound by the rules for any.
    """
    widely = DOUBT_HOLDS[answer, "when"]
    touches_all = facts.kind == "effect" and facts.surface == EVERY_SURFACE
    if selector.kind == "surfaces" and touches_all and widely:
        return True
    match selector.kind:
        case "tools":
            names: tuple[str, ...] = (facts.tool,)
        case "surfaces":
            names = (facts.surface,)
        case "agents":
            names = facts.agents if widely else facts.agents[:1]
        case "sessions":
            names = (facts.session,)
        case "requesters":
            names = (facts.requester,)
        case "scopes":
            names = facts.scopes
    chosen = [any(matches_pattern(name, one) for one in selector.patterns) for name in names]
    return bool(chosen) and (any(chosen) if widely else all(chosen))


# --- commands ---------------------------------------------------------------------------------


def answer_of(
    commands: Commands, answer: Answer, facts: Facts
) -> tuple[Answer | None, tuple[str, ...], str]:
    """Say what a rule makes of a shell command, why, and what it is in doubt of.

    | the rule says | a command of `deny` | not provably of `allow` | provably of `allow` |
    |---------------|---------------------|-------------------------|---------------------|
    | allow         | deny                | ask                     | allow               |
    | ask           | deny                | ask                     | nothing             |
    | deny          | deny                | ask, if it is doubtful  | (has no `allow`)    |

    A text that is not there, or is none, might be anything: it counts as what is the strictest.
    """
    strictest: Answer = "deny" if commands.deny else "ask"
    if isinstance(facts.arguments, str):
        return strictest, (), UNREADABLE
    text = value_at(facts.arguments, commands.argument)
    if not isinstance(text, str):
        return strictest, (), f"{commands.argument} is no text"
    parsed = parse(text)
    ruled = ruling(parsed, allow=commands.allow, deny=commands.deny)
    if ruled.answer == "deny":
        return "deny", ruled.reasons, ""
    if answer == "deny":
        return ("ask" if ruled.doubts else None), ruled.doubts, ""
    if ruled.answer == "ask":
        return "ask", ruled.reasons, ""
    return ("allow" if answer == "allow" else None), ruled.reasons, ""


# --- what must be known before ----------------------------------------------------------------


def kinds(policy: Policy, facts: Facts) -> frozenset[tuple[str, ...]]:
    """Name the kinds of which it matters whether a call has succeeded before."""
    return frozenset(
        condition.kind_of
        for condition in _conditions(policy, facts)
        if isinstance(condition, FirstOfItsKind)
    )


def sources(policy: Policy, facts: Facts) -> frozenset[str] | None:
    """Name the sources whose annotations matter for a call; None: those of all that there are."""
    wanted = list(_conditions(policy, facts))
    if any(isinstance(condition, LowConfidence) for condition in wanted):
        return None
    return frozenset(condition.source for condition in wanted if isinstance(condition, Annotated))


def _conditions(policy: Policy, facts: Facts) -> Iterator[Condition]:
    for rule in policy.rules:
        if _unlike(rule, facts, _widest(rule)) is None:
            yield from rule.when
            yield from rule.unless
