"""What is in doubt counts as what is the stricter, whatever the operator, the doubt and the rule.

The property, which each part below holds in its way: put a doubt in the place of anything that a
condition looks at. The ruling is then at least as strict as it is for any value that could stand
there. "Removing or spoiling an argument" is the case of it that an agent can bring about; only
`present` and `absent` ask whether something is there, and so have their answer when it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.values import Allow, Ask, Deny, Ruling
from placet.policy.conditions import Facts
from placet.policy.doubts import (
    DOUBT_HOLDS,
    FAILS,
    HOLDS,
    Finding,
    Part,
    Truth,
    all_of,
    any_of,
    counts,
    in_doubt,
    not_,
    of_each,
)
from placet.policy.rules import STRICTNESS, Answer, Operator
from placet.policy.ruling import Declared
from tests.policy.files import ALWAYS, CERTAIN, NEVER, call, rule, ruled

ANSWERS: tuple[Answer, ...] = ("allow", "ask", "deny")
PARTS: tuple[Part, ...] = get_args(Part)
DOUBT = in_doubt("who knows")
DECLARATIONS = (NEVER, ALWAYS, CERTAIN)

#: For each operator: what it is compared with, a value of which it holds, one of which it fails,
#: and one of each kind that it cannot be asked of.
OPERATORS: Mapping[Operator, tuple[str, Any, Any, tuple[Any, ...]]] = {
    "equals": ('"DE"', "DE", "FR", (5, True, [], {})),
    "not_equals": ('"DE"', "FR", "DE", (5, True, [], {})),
    "in": ('["DE", "FR"]', "FR", "IT", (5, 1.5, True, ["DE"], {})),
    "not_in": ('["DE", "FR"]', "IT", "FR", (5, 1.5, True, ["DE"], {})),
    "above": ('"10.5"', 10.6, 10.5, ("much", "1e9", "", True, [11], {})),
    "below": ("10.5", "10.4", 10.5, ("little", "١", True, [1], {})),
    "at_least": ("10", 10, 9.99, ("ten", False, [10], {})),
    "at_most": ("10", "10.0", 10.01, ("ten", False, [1], {})),
    "matches": ('"test-*"', "test-1", "a test-1", (5, True, ["test-1"], {})),
    "contains": ('"rm"', "rm -rf", "ls", (5, True, 1.5)),
    "longer_than": ("2", "abc", [1, 2], (5, True, 1.5)),
    "present": ("true", 0, None, ()),
    "absent": ("true", None, 0, ()),
}
THERE = ("present", "absent")


def strictness(ruling: Ruling) -> int:
    return {Allow: 0, Ask: 1, Deny: 2}[type(ruling)]


def strict(text: str, facts: Facts, declared: Declared = NEVER) -> int:
    return strictness(ruled(text, facts, declared).ruling)


# --- the table --------------------------------------------------------------------------------


def test_the_table_knows_every_answer_in_every_part() -> None:
    assert set(DOUBT_HOLDS) == set(product(ANSWERS, PARTS))


@pytest.mark.parametrize("answer, part", list(product(ANSWERS, PARTS)))
def test_a_doubt_counts_as_that_which_makes_a_strict_rule_be_for_the_call_and_a_mild_one_not(
    answer: Answer, part: Part
) -> None:
    is_for_the_call = counts(DOUBT, answer, part) is (part == "when")

    assert is_for_the_call is (STRICTNESS[answer] > STRICTNESS["allow"])


@pytest.mark.parametrize("answer, part", list(product(ANSWERS, PARTS)))
def test_what_is_known_counts_as_what_it_is(answer: Answer, part: Part) -> None:
    assert counts(HOLDS, answer, part)
    assert not counts(FAILS, answer, part)


@pytest.mark.parametrize("one, other", list(product((HOLDS, FAILS, DOUBT), repeat=2)))
def test_findings_join_as_their_truths_would(one: Finding, other: Finding) -> None:
    def truths(finding: Finding) -> list[bool]:
        known = {Truth.HOLDS: [True], Truth.FAILS: [False], Truth.DOUBT: [True, False]}
        return known[finding.truth]

    def known(answers: set[bool]) -> Truth:
        if len(answers) > 1:
            return Truth.DOUBT
        return Truth.HOLDS if answers.pop() else Truth.FAILS

    pairs = list(product(truths(one), truths(other)))
    assert all_of([one, other]).truth is known({a and b for a, b in pairs})
    assert any_of([one, other]).truth is known({a or b for a, b in pairs})
    assert not_(one).truth is known({not a for a in truths(one)})


@pytest.mark.parametrize("answer, part", list(product(ANSWERS, PARTS)))
def test_of_no_elements_nothing_holds(answer: Answer, part: Part) -> None:
    assert of_each([], answer, part) is FAILS


# --- every operator, every doubt, every ruling, everywhere ------------------------------------


def rules_with(operator: Operator, answer: str, part: str) -> str:
    """Give a file with one condition: for it alone the rule is for the call, or is not."""
    operand = OPERATORS[operator][0]
    condition = f'[{{argument = "it", {operator} = {operand}}}]'
    return rule(answer, tools='["pay"]', **{part: condition})


def spoilt(operator: Operator) -> list[Mapping[str, Any] | str]:
    """Give arguments in which what the condition looks at is in doubt, in every way."""
    wrong = [{"it": value} for value in OPERATORS[operator][3]]
    missing: list[Mapping[str, Any]] = [{}, {"It": 1}, {"it ": 1}, {"it": None}]
    return [*wrong, *([] if operator in THERE else missing), "{not json", ""]


@pytest.mark.promise("G1")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_under_doubt_a_ruling_is_as_strict_as_under_any_truth(
    operator: Operator, answer: Answer, part: Part
) -> None:
    text = rules_with(operator, answer, part)
    _, holding, failing, _ = OPERATORS[operator]
    for declared, arguments in product(DECLARATIONS, spoilt(operator)):
        doubtful = strict(text, call(arguments), declared)
        for value in (holding, failing):
            assert doubtful >= strict(text, call({"it": value}), declared), (declared, arguments)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_operators_are_shown_values_of_which_they_hold_and_of_which_they_fail(
    operator: Operator,
) -> None:
    text = rules_with(operator, "deny", "when")
    _, holding, failing, _ = OPERATORS[operator]

    assert strict(text, call({"it": holding})) == STRICTNESS["deny"]
    assert strict(text, call({"it": failing})) == STRICTNESS["allow"]


def test_every_operator_is_in_the_table_above() -> None:
    assert set(OPERATORS) == set(get_args(Operator))


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_doubt_is_said_in_the_reason_of_a_ruling(operator: Operator) -> None:
    text = rules_with(operator, "ask", "when")
    for arguments in spoilt(operator):
        ruling = ruled(text, call(arguments)).ruling
        assert isinstance(ruling, Ask)
        assert "in doubt: " in ruling.reason


# --- triggers ---------------------------------------------------------------------------------

#: Each trigger with the facts of which it holds, of which it fails, and in which it is in doubt.
COST = {"amount": "1000", "currency": "USD"}
#: Labels that are neither true nor false.
ODD_LABELS: tuple[Any, ...] = (0, 1, "", "no", [], {}, None)

TRIGGERS: Mapping[str, tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = {
    "low_confidence_below": (
        "0.8",
        [
            {"annotations": {"judge": {"confidence": 0.7}}},
            {"annotations": {"judge": {"confidence": 0.8}}},
        ],
        [
            {"annotations": {}},
            {"annotations": {"judge": None}},
            {"annotations": {"judge": {}}},
            {"annotations": {"judge": {"confidence": "high"}}},
            {"annotations": {"judge": {"confidence": 40}}},
            {"annotations": {"judge": {"confidence": 1.01}}},
            {"annotations": {"judge": {"confidence": -0.5}}},
            {"annotations": {"judge": {"confidence": 0.9}, "other": None}},
        ],
    ),
    "annotation": (
        '{source = "judge", label = "pii"}',
        [{"annotations": {"judge": {"pii": True}}}, {"annotations": {"judge": {"pii": False}}}],
        [
            {"annotations": {}},
            {"annotations": {"judge": None}},
            *({"annotations": {"judge": {"pii": odd}}} for odd in ODD_LABELS),
        ],
    ),
    "first_of_its_kind": (
        "true",
        [{"seen": {(): True}}, {"seen": {(): False}}],
        [{"seen": {}}],
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_trigger_under_doubt_is_as_strict_as_under_any_truth(
    trigger: str, answer: Answer
) -> None:
    value, truths, doubts = TRIGGERS[trigger]
    text = rule(answer, tools='["pay"]', **{trigger: value})
    for declared, doubt, truth in product(DECLARATIONS, doubts, truths):
        doubtful = strict(text, call({}, **doubt), declared)
        assert doubtful >= strict(text, call({}, **truth), declared), (doubt, truth)


def test_the_triggers_are_shown_facts_of_which_they_hold_and_of_which_they_fail() -> None:
    for trigger, (value, truths, _) in TRIGGERS.items():
        text = rule("deny", **{trigger: value})
        assert {strict(text, call({}, **truth)) for truth in truths} == {0, 2}


# --- many rules, many conditions --------------------------------------------------------------

#: What an argument may hold: the condition on it holds, fails, or is in doubt.
TRUE, FALSE, NOTHING, WRONG = True, False, None, "true"
NAMES = ("a", "b", "c", "d")

Rules = list[tuple[Answer, bool, dict[Part, list[str]]]]

rules_of_conditions = st.lists(
    st.tuples(
        st.sampled_from(ANSWERS),
        st.booleans(),
        st.fixed_dictionaries(
            {part: st.lists(st.sampled_from(NAMES), max_size=3) for part in PARTS}
        ),
    ),
    max_size=5,
)
arguments_of_conditions = st.fixed_dictionaries({name: st.booleans() for name in NAMES})


def text_of(rules: Rules) -> str:
    """Write rules down; each condition wants one argument to be true."""
    texts = []
    for number, (answer, by_name, parts) in enumerate(rules):
        conditions = {
            part: "[" + ", ".join(f'{{argument = "{n}", equals = true}}' for n in names) + "]"
            for part, names in parts.items()
            if names
        }
        tools = '["pay"]' if by_name else '["p*"]'
        texts.append(rule(answer, f"rule {number}", tools=tools, **conditions))
    return "\n".join(texts)


@pytest.mark.promise("G1")
@given(
    rules=rules_of_conditions,
    truth=arguments_of_conditions,
    spoil=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([NOTHING, WRONG])),
    gone=st.sets(st.sampled_from(NAMES)),
    declared=st.sampled_from(DECLARATIONS),
)
def test_removing_or_spoiling_arguments_makes_no_ruling_less_strict(
    rules: Rules,
    truth: dict[str, bool],
    spoil: dict[str, Any],
    gone: set[str],
    declared: Declared,
) -> None:
    text = text_of(rules)
    whole = ruled(text, call(truth), declared).ruling
    left = {name: value for name, value in {**truth, **spoil}.items() if name not in gone}

    spoilt_ruling = ruled(text, call(left), declared).ruling
    unreadable = ruled(text, call(json.dumps(left)), declared).ruling

    assert strictness(unreadable) >= strictness(spoilt_ruling) >= strictness(whole)


@given(
    rules=rules_of_conditions,
    more=rules_of_conditions,
    truth=arguments_of_conditions,
    declared=st.sampled_from(DECLARATIONS),
)
def test_another_rule_that_asks_or_denies_makes_no_ruling_less_strict(
    rules: Rules, more: Rules, truth: dict[str, bool], declared: Declared
) -> None:
    strict_ones = [each for each in more if each[0] != "allow"]
    before = ruled(text_of(rules), call(truth), declared).ruling
    after = ruled(text_of([*rules, *strict_ones]), call(truth), declared).ruling

    assert strictness(after) >= strictness(before)


@given(rules=rules_of_conditions, truth=arguments_of_conditions, order=st.randoms())
def test_the_order_of_rules_is_of_no_matter(
    rules: Rules, truth: dict[str, bool], order: Any
) -> None:
    shuffled = list(rules)
    order.shuffle(shuffled)
    one = ruled(text_of(rules), call(truth)).ruling
    other = ruled(text_of(shuffled), call(truth)).ruling

    assert strictness(one) == strictness(other)


# --- several elements -------------------------------------------------------------------------


@pytest.mark.parametrize("answer, part", list(product(ANSWERS, PARTS)))
def test_more_elements_behind_a_star_make_no_strict_ruling_milder(
    answer: Answer, part: Part
) -> None:
    """An agent that adds a recipient cannot thereby have what it could not have without."""
    condition = '[{argument = "to.*", in = ["a", "b"]}]'
    text = rule(answer, tools='["pay"]', **{part: condition})
    for declared in DECLARATIONS:
        alone = {each: strict(text, call({"to": [each]}), declared) for each in ("a", "x")}
        together = strict(text, call({"to": ["a", "x"]}), declared)
        assert together >= max(alone.values())
