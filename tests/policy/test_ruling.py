"""The file's word and the declaration's: who wins, who is asked, and what is only tried out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.values import REQUESTER, Allow, Ask, Deny, Escalation, Needs, Ruling, Shadow
from placet.policy.deciders import people_today
from placet.policy.ruling import Circle, Declared, rule_on
from tests.policy.files import ALWAYS, CERTAIN, DAY, NEVER, NOW, call, policy, rule, ruled

GROUPS = '[groups]\nfinance = ["ana", "bo"]\n'


def word(ruling: Ruling) -> str:
    return type(ruling).__name__.lower()


def asked(text: str, *, requester: str = "rita", **more: Any) -> Ask:
    found = ruled(text, call(requester=requester), **more).ruling
    assert isinstance(found, Ask)
    return found


# --- who wins ---------------------------------------------------------------------------------


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    "rules, declared, expected",
    [
        ("", NEVER, "allow"),
        ("", ALWAYS, "ask"),
        (rule("ask"), NEVER, "ask"),
        (rule("deny"), NEVER, "deny"),
        (rule("deny"), ALWAYS, "deny"),
        (rule("allow"), ALWAYS, "ask"),
        (rule("allow", tools='["*"]'), ALWAYS, "ask"),
        (rule("allow", tools='["pa*"]'), ALWAYS, "ask"),
        (rule("allow", tools='["pay"]'), ALWAYS, "allow"),
        (rule("allow", tools='["pay*", "pay"]'), ALWAYS, "allow"),
        (rule("allow", tools='["pay"]'), CERTAIN, "ask"),
        (rule("allow", tools='["pay"]') + rule("ask", "b"), ALWAYS, "ask"),
        (rule("allow", tools='["pay"]') + rule("deny", "b"), NEVER, "deny"),
        (rule("allow"), NEVER, "allow"),
    ],
)
def test_what_a_tool_asks_is_lowered_by_a_rule_that_names_it_and_by_no_other(
    rules: str, declared: Declared, expected: str
) -> None:
    assert word(ruled(rules, call(), declared).ruling) == expected


def test_the_rules_that_decide_are_on_record() -> None:
    text = rule("deny", "a", reason='"No."') + rule("deny", "b")
    ruling = ruled(text, call()).ruling

    assert ruling == Deny(rule="policy:a, b", reason="No.; the rule b denies it")
    assert ruled(rule("allow", tools='["pay"]'), call()).ruling == Allow(rule="policy:a rule")
    assert ruled("", call(), ALWAYS).ruling.rule == "tool:pay"


def test_what_no_policy_is_there_for_is_ruled_by_the_declaration() -> None:
    circle = Circle(approvers=("ana",), now=NOW, lasts=DAY)

    found = rule_on(None, call(), ALWAYS, circle)

    assert found.ruling == Ask(
        rule="tool:pay",
        needs=Needs(approvers=("ana",)),
        lasts=DAY,
        reason="the tool always asks",
    )


# --- who is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, people",
    [
        (rule(), ("ana",)),
        (rule(approvers='["bo"]'), ("bo",)),
        (GROUPS + rule(approvers='["@finance", "dora"]'), ("ana", "bo", "dora")),
        (GROUPS + '[defaults]\napprovers = ["@finance"]\n' + rule(), ("ana", "bo")),
        (rule("ask", "a", approvers='["bo"]') + rule("ask", "b", approvers='["cy"]'), ()),
        (rule("ask", "a", approvers='["bo"]') + rule("ask", "b"), ("bo",)),
        (rule(approvers='["@requester"]'), (REQUESTER,)),
        ("[groups]\nnone = []\n" + rule(approvers='["@none"]'), ()),
    ],
)
def test_those_are_asked_whom_the_rules_name(text: str, people: tuple[str, ...]) -> None:
    assert asked(text).needs.approvers == people


def test_nobody_is_asked_where_nobody_may_be() -> None:
    text = rule(approvers='["bo"]', escalate='[{after = "1m", approvers = ["cy"]}]')
    found = asked(text, nobody=True)

    assert (found.needs.approvers, found.escalation) == ((), ())


def test_all_that_a_rule_demands_is_in_the_ruling() -> None:
    text = GROUPS + rule(
        reason='"Much money."',
        approvers='["@finance", "dora"]',
        quorum="2",
        exclude_requester="true",
        deadline='"2h"',
        hold='"surface"',
        escalate='[{after = "10m", approvers = ["mia"], channel = "phone"}, {after = "5m"}]',
    )

    assert asked(text) == Ask(
        rule="policy:a rule",
        needs=Needs(approvers=("ana", "bo", "dora"), quorum=2, exclude_requester=True),
        lasts=timedelta(hours=2),
        reason="Much money.",
        escalation=(
            Escalation(after=timedelta(minutes=5)),
            Escalation(after=timedelta(minutes=10), approvers=("mia",), channel="phone"),
        ),
        hold="surface",
    )


def test_the_defaults_of_the_file_hold_for_what_the_declaration_asks() -> None:
    text = '[defaults]\napprovers = ["bo"]\ndeadline = "5m"\nhold = "surface"\n'
    found = asked(text, declared=ALWAYS)

    assert (found.needs.approvers, found.lasts, found.hold) == (
        ("bo",),
        timedelta(minutes=5),
        "surface",
    )


def test_a_question_is_put_to_one_person_and_to_whom_the_run_acts_for() -> None:
    text = rule(approvers='["bo", "cy"]', quorum="2")
    facts = call(kind="question")
    found = ruled(text, facts, CERTAIN).ruling

    assert isinstance(found, Ask)
    assert found.needs == Needs(approvers=("bo", "cy", REQUESTER))
    nobody = ruled(text, facts, CERTAIN, nobody=True).ruling
    assert isinstance(nobody, Ask)
    assert nobody.needs.approvers == ()


# --- delegation -------------------------------------------------------------------------------

UNTIL = timedelta(hours=1)
DELEGATED = (
    '[[delegation]]\nfrom = "ana"\nto = "cy"\nuntil = 2026-11-29T13:00:00Z\n'
    '[[delegation]]\nfrom = "cy"\nto = "dan"\nuntil = 2026-11-29T13:00:00Z\n'
)


@pytest.mark.promise("G10")
def test_until_its_end_a_deputy_may_decide_and_nobody_else_for_them() -> None:
    text = DELEGATED + rule(approvers='["ana"]')
    moment = timedelta(microseconds=1)

    assert asked(text, now=NOW).needs.approvers == ("ana", "cy")
    assert asked(text, now=NOW + UNTIL - moment).needs.approvers == ("ana", "cy")
    assert asked(text, now=NOW + UNTIL).needs.approvers == ("ana",)


def test_whom_escalation_reaches_has_deputies_too() -> None:
    text = DELEGATED + rule(approvers='["bo"]', escalate='[{after = "1m", approvers = ["ana"]}]')

    assert asked(text).escalation[0].approvers == ("ana", "cy")
    assert asked(text, now=NOW + UNTIL).escalation[0].approvers == ("ana",)


def test_a_requester_who_may_not_decide_has_no_deputy_do_so() -> None:
    text = DELEGATED + rule(approvers='["ana", "bo"]', exclude_requester="true")

    assert asked(text, requester="ana").needs.people("ana") == {"bo"}
    assert asked(text, requester="bo").needs.people("bo") == {"ana", "cy"}


# --- who may decide today ---------------------------------------------------------------------


def today(text: str, name: str = "policy:a rule", **more: Any) -> set[str]:
    circle = Circle(approvers=("zoe",), now=more.get("now", NOW), lasts=DAY)
    return set(people_today(policy(text), name, more.get("requester", "rita"), circle))


@pytest.mark.promise("G10")
@pytest.mark.parametrize(
    "text, name, people",
    [
        (rule(approvers='["bo"]'), "policy:a rule", {"bo"}),
        (rule(approvers='["cy"]'), "policy:a rule", {"cy"}),
        (rule(), "policy:a rule", {"zoe"}),
        (rule(approvers='["bo"]'), "policy:gone", {"zoe"}),
        (rule(approvers='["bo"]'), "tool:pay", {"zoe"}),
        ('[defaults]\napprovers = ["dora"]\n', "tool:pay", {"dora"}),
        (
            rule("ask", "a", approvers='["bo", "cy"]') + rule("ask", "b", approvers='["cy"]'),
            "policy:a, b",
            {"cy"},
        ),
        (rule(approvers='["@requester"]'), "policy:a rule", {"rita"}),
        (
            rule(approvers='["bo"]', escalate='[{after = "1m", approvers = ["mia"]}]'),
            "policy:a rule",
            {"bo", "mia"},
        ),
    ],
)
def test_who_may_decide_is_what_the_rules_of_those_names_say_today(
    text: str, name: str, people: set[str]
) -> None:
    assert today(text, name) == people


def test_a_deputy_may_decide_today_until_the_end() -> None:
    text = DELEGATED + rule(approvers='["ana"]')

    assert today(text) == {"ana", "cy"}
    assert today(text, now=NOW + UNTIL) == {"ana"}


@given(
    rules=st.lists(
        st.tuples(
            st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=3),
            st.booleans(),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_whom_a_ruling_asks_may_decide_while_the_file_is_as_it_was(
    rules: list[tuple[list[str], bool]],
) -> None:
    text = "".join(
        rule("ask", f"r{n}", **({"approvers": str(people).replace("'", '"')} if named else {}))
        for n, (people, named) in enumerate(rules)
    )
    found = asked(text, approvers=("zoe",))

    assert today(text, found.rule) == set(found.needs.approvers)


# --- tried out --------------------------------------------------------------------------------


@pytest.mark.conformance(28)
@pytest.mark.parametrize("declared", [NEVER, ALWAYS, CERTAIN])
@pytest.mark.parametrize("ruling", ["allow", "ask", "deny"])
def test_in_shadow_the_declaration_rules_and_what_the_file_would_have_is_recorded(
    ruling: str, declared: Declared
) -> None:
    rules = rule(ruling, tools='["pay"]')
    trial = ruled('[surfaces]\npayments = "shadow"\n' + rules, call(), declared)
    alone = ruled("", call(), declared)
    real = ruled(rules, call(), declared)

    assert trial.ruling == alone.ruling
    assert trial.shadow is not None
    assert (trial.shadow.ruling, trial.shadow.rule) == (word(real.ruling), real.ruling.rule)
    assert real.shadow is None


def test_in_shadow_it_is_recorded_for_how_long_people_would_have_been_asked() -> None:
    text = '[surfaces]\npayments = "shadow"\n' + rule(deadline='"2h"')

    assert ruled(text, call()).shadow == Shadow(
        ruling="ask", rule="policy:a rule", lasts=timedelta(hours=2)
    )


def test_what_no_rule_is_for_leaves_no_shadow() -> None:
    text = '[surfaces]\npayments = "shadow"\n' + rule("deny", tools='["refund"]')

    assert ruled(text, call()).shadow is None


def test_where_rules_are_off_nothing_is_looked_at() -> None:
    text = '[surfaces]\npayments = "off"\n' + rule("deny")
    found = ruled(text, call())

    assert (word(found.ruling), found.shadow, found.evaluation) == ("allow", None, None)


def test_a_surface_that_is_not_named_is_ruled_and_a_star_is_the_surface_of_all() -> None:
    text = '[surfaces]\n"*" = "off"\n' + rule("deny")

    assert word(ruled(text, call()).ruling) == "deny"
    assert word(ruled(text, call(surface="*")).ruling) == "allow"
