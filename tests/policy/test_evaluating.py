"""All rules are held against a call, the strictest counts, and what several demand is joined."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.money import Money
from placet.core.values import Escalation
from placet.policy.conditions import Facts, kind_values
from placet.policy.demands import joined
from placet.policy.doubts import Truth
from placet.policy.evaluating import kinds, sources
from placet.policy.rules import Answer, Demands, Policy
from tests.policy.files import DAY, call, policy, rule, said

# --- the strictest ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answers, expected",
    [
        ([], None),
        (["allow"], "allow"),
        (["allow", "ask"], "ask"),
        (["deny", "allow", "ask"], "deny"),
        (["ask", "ask"], "ask"),
    ],
)
def test_the_strictest_of_the_rules_for_a_call_counts(
    answers: list[str], expected: Answer | None
) -> None:
    text = "".join(rule(answer, f"r{n}") for n, answer in enumerate(answers))
    other = rule("deny", "another tool's", tools='["refund"]')

    assert said(text + other, call()).answer == expected


def test_the_rules_that_decide_are_those_of_the_strictest_answer() -> None:
    text = rule("ask", "a") + rule("allow", "b") + rule("ask", "c")

    assert said(text, call()).names == "a, c"


# --- whom a rule is for -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "selector, facts, expected",
    [
        ({"tools": '["pay"]'}, {}, True),
        ({"tools": '["pa*", "refund"]'}, {}, True),
        ({"tools": '["Pay"]'}, {}, False),
        ({"surfaces": '["payments"]'}, {}, True),
        ({"surfaces": '["pay*"]'}, {"surface": "shell"}, False),
        ({"sessions": '["s"]'}, {"session": "s2"}, False),
        ({"requesters": '["ri*"]'}, {}, True),
        ({"requesters": '["@staff"]'}, {"requester": "bo"}, True),
        ({"requesters": '["@staff"]'}, {"requester": "staff"}, False),
        ({"scopes": '["payments:*"]'}, {"scopes": ("payments:refund", "mail:send")}, True),
        ({"scopes": '["payments:*"]'}, {"scopes": ()}, False),
        ({"agents": '["support"]'}, {}, True),
        ({"agents": '["boss"]'}, {"agents": ("helper", "boss")}, True),
        ({"tools": '["pay"]', "sessions": '["other"]'}, {}, False),
        ({"tools": '["pay"]', "sessions": '["s"]'}, {}, True),
    ],
)
def test_every_selector_must_choose_the_call(
    selector: Mapping[str, str], facts: Mapping[str, Any], expected: bool
) -> None:
    text = '[groups]\nstaff = ["bo", "@more"]\nmore = ["cy"]\n' + rule("deny", **selector)

    assert (said(text, call(**facts)).answer == "deny") is expected


def test_what_is_allowed_to_an_agent_is_not_allowed_to_those_under_it() -> None:
    text = rule("allow", agents='["boss"]')

    assert said(text, call(agents=("helper", "boss"))).answer is None
    assert said(text, call(agents=("boss",))).answer == "allow"


def test_an_effect_that_declares_no_surface_is_bound_by_the_rules_for_any() -> None:
    denies, allows = (rule(answer, surfaces='["payments"]') for answer in ("deny", "allow"))

    assert said(denies, call(surface="*")).answer == "deny"
    assert said(denies, call(surface="*", kind="read")).answer is None
    assert said(allows, call(surface="*")).answer is None
    assert said(rule("allow", surfaces='["*"]'), call(surface="*")).answer == "allow"


def test_a_tool_with_several_scopes_is_allowed_by_a_rule_for_all_of_them() -> None:
    text = rule("allow", scopes='["payments:*"]')

    assert said(text, call(scopes=("payments:refund", "admin"))).answer is None
    assert said(text, call(scopes=("payments:refund", "payments:read"))).answer == "allow"


# --- where a condition looks ------------------------------------------------------------------


@pytest.mark.parametrize(
    "place, arguments, truth",
    [
        ("a.b", {"a": {"b": 5}}, Truth.HOLDS),
        ("a.b", {"a": {"b": 4}}, Truth.FAILS),
        ("a.1", {"a": [4, 5]}, Truth.HOLDS),
        ("a.2", {"a": [4, 5]}, Truth.DOUBT),
        ("a.1", {"a": {"1": 5}}, Truth.HOLDS),
        ("a.x", {"a": [5]}, Truth.DOUBT),
        ("a.-1", {"a": [5]}, Truth.DOUBT),
        ("a.b", {"a": "5"}, Truth.DOUBT),
        ("a.b", {"a.b": 5}, Truth.DOUBT),
        ("a.*", {"a": [4, 5]}, Truth.HOLDS),
        ("a.*", {"a": {"x": 5}}, Truth.HOLDS),
        ("a.*", {"a": []}, Truth.FAILS),
        ("a.*", {"a": 5}, Truth.DOUBT),
        ("a.*.b", {"a": [{"b": 4}, {"b": 5}]}, Truth.HOLDS),
        ("a.*.b", {"a": [{"b": 4}, {}]}, Truth.DOUBT),
        ("a.*.*", {"a": [[4], [4, 5]]}, Truth.HOLDS),
        ("a.*.*", {"a": [[], []]}, Truth.FAILS),
    ],
)
def test_a_place_leads_through_objects_and_lists(
    place: str, arguments: Mapping[str, Any], truth: Truth
) -> None:
    text = rule("ask", when=f'[{{argument = "{place}", equals = 5}}]')
    (checked,) = said(text, call(arguments)).checked

    assert checked.held[0].finding.truth is truth


@pytest.mark.parametrize(
    "ruling, part, several, expected",
    [
        ("deny", "when", ["a", "x"], True),
        ("deny", "when", ["x", "y"], False),
        ("allow", "when", ["a", "x"], False),
        ("allow", "when", ["a", "b"], True),
        ("deny", "unless", ["a", "x"], True),
        ("deny", "unless", ["a", "b"], False),
        ("allow", "unless", ["a", "x"], False),
        ("allow", "unless", ["x", "y"], True),
    ],
)
def test_a_star_means_any_element_or_every_one_whichever_is_stricter(
    ruling: str, part: str, several: list[str], expected: bool
) -> None:
    text = rule(ruling, **{part: '[{argument = "to.*", in = ["a", "b"]}]'})

    assert (said(text, call({"to": several})).answer == ruling) is expected


# --- triggers ---------------------------------------------------------------------------------

USD = Money("amount", "USD")


@pytest.mark.parametrize(
    "cost, arguments, truth",
    [
        (USD, {"amount": "1000.01"}, Truth.HOLDS),
        (USD, {"amount": 1000}, Truth.FAILS),
        (Money("cents", "USD", places=2), {"cents": 100_001}, Truth.HOLDS),
        (Money("order.total", "USD"), {"order": {"total": 2000}}, Truth.HOLDS),
        (None, {"amount": 5000}, Truth.FAILS),
        (USD, {"amount": "a lot"}, Truth.DOUBT),
        (USD, {}, Truth.DOUBT),
        (Money("amount", "EUR"), {"amount": 1}, Truth.DOUBT),
        (USD, "{not json", Truth.DOUBT),
        (USD, {"amount": 0}, Truth.FAILS),
        (USD, {"amount": "-0.00"}, Truth.FAILS),
        (USD, {"amount": -5000}, Truth.DOUBT),
        (USD, {"amount": "-0.01"}, Truth.DOUBT),
        (Money("cents", "USD", places=2), {"cents": -1}, Truth.DOUBT),
    ],
)
def test_a_cost_is_what_the_tool_declares_in_the_currency_of_the_rule(
    cost: Money | None, arguments: Any, truth: Truth
) -> None:
    text = rule("ask", cost_above='{amount = "1000", currency = "USD"}')
    (checked,) = said(text, call(arguments, cost=cost)).checked

    assert checked.held[0].finding.truth is truth


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("reversible", [True, False])
def test_an_effect_is_irreversible_where_its_tool_does_not_say_otherwise(
    wanted: bool, reversible: bool
) -> None:
    text = rule("ask", irreversible=str(wanted).lower())

    expected = "ask" if wanted is not reversible else None
    assert said(text, call(reversible=reversible)).answer == expected


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_the_first_of_a_kind_is_one_that_has_not_succeeded_before(wanted: bool, seen: bool) -> None:
    text = rule("ask", first_of_its_kind=str(wanted).lower(), kind_of='["to"]')

    expected = "ask" if wanted is not seen else None
    assert said(text, call({"to": "x"}, seen={("to",): seen})).answer == expected


def test_the_kinds_and_sources_that_matter_are_those_of_the_rules_for_the_tool() -> None:
    label = '{source = "judge", label = "pii"}'
    text = (
        rule("ask", "a", tools='["pay"]', first_of_its_kind="true", kind_of='["to"]')
        + rule("ask", "b", tools='["p*"]', first_of_its_kind="false")
        + rule("ask", "c", tools='["mail"]', first_of_its_kind="true", kind_of='["cc"]')
        + rule("ask", "d", tools='["mail"]', low_confidence_below="0.5")
        + rule("ask", "e", annotation=label)
    )

    assert kinds(policy(text), call()) == {("to",), ()}
    assert sources(policy(text), call()) == frozenset({"judge"})
    assert sources(policy(text), call(tool="mail")) is None
    assert sources(policy(""), call()) == frozenset()


def test_calls_are_of_one_kind_by_the_values_at_its_places() -> None:
    one: dict[str, Any] = {"to": {"iban": "DE1"}, "amount": 5}

    assert kind_values(one, ("to.iban",)) == kind_values({**one, "amount": 6}, ("to.iban",))
    assert kind_values(one, ("to.iban",)) != kind_values(one, ("amount",))
    assert kind_values({"to": {"iban": "DE2"}}, ("to.iban",)) != kind_values(one, ("to.iban",))
    assert kind_values(one, ("to.bic",)) is None
    assert kind_values(one, ()) == kind_values({}, ())


@pytest.mark.parametrize(
    "test, labels, expected",
    [
        ("", {"pii": True}, "deny"),
        ("", {"pii": "a name"}, "deny"),
        ("", {"pii": False}, None),
        ("", {}, None),
        (", at_least = 0.5", {"pii": 0.5}, "deny"),
        (", at_least = 0.5", {"pii": 0.4}, None),
        (", at_least = 0.5", {"pii": "much"}, "deny"),
        (", at_least = 0.5", {}, "deny"),
    ],
)
def test_an_annotation_is_a_label_of_a_trusted_source(
    test: str, labels: Mapping[str, Any], expected: str | None
) -> None:
    text = rule("deny", annotation=f'{{source = "judge", label = "pii"{test}}}')

    assert said(text, call(annotations={"judge": labels})).answer == expected


@pytest.mark.promise("G1")
@pytest.mark.parametrize("value", [0, 0.0, 1, "", "no", "false", "true", [], {}, None, [True]])
def test_a_label_that_is_neither_true_nor_false_allows_nothing(value: Any) -> None:
    text = rule("allow", annotation='{source = "judge", label = "safe"}')

    assert said(text, call(annotations={"judge": {"safe": value}})).answer is None
    assert said(text, call(annotations={"judge": {"safe": True}})).answer == "allow"


# --- commands ---------------------------------------------------------------------------------

BOTH = '{allow = [["git", "status", "**"]], deny = [["rm", "**"]]}'
DENIES = '{deny = [["rm", "**"]]}'
ALLOWS = '{allow = [["git", "status", "**"]]}'


@pytest.mark.parametrize(
    "ruling, commands, command, expected",
    [
        ("allow", BOTH, "git status", "allow"),
        ("allow", BOTH, "git status && rm x", "deny"),
        ("allow", BOTH, "git status $(rm x)", "deny"),
        ("allow", BOTH, "git push", "ask"),
        ("allow", BOTH, "git status $X", "ask"),
        ("allow", BOTH, None, "deny"),
        ("allow", ALLOWS, 5, "ask"),
        ("ask", BOTH, "git status", None),
        ("ask", BOTH, "git push", "ask"),
        ("ask", BOTH, "rm x", "deny"),
        ("deny", DENIES, "rm x", "deny"),
        ("deny", DENIES, "git push", None),
        ("deny", DENIES, "git $X", "ask"),
        ("deny", DENIES, None, "deny"),
        ("deny", DENIES, "runner rm x", "ask"),
        ("deny", DENIES, "runner farm x", None),
        ("deny", DENIES, "uv run rm x", "deny"),
    ],
)
def test_a_rule_on_commands_answers_by_its_lists(
    ruling: str, commands: str, command: Any, expected: str | None
) -> None:
    text = rule(ruling, tools='["bash"]', command=commands)

    assert said(text, call({"command": command}, tool="bash")).answer == expected


SHELL = {"tool": "bash", "surface": "*", "agents": ("helper", "boss"), "scopes": ("sh", "net")}


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    "selector, allows",
    [
        ({"tools": '["bash"]'}, True),
        ({"surfaces": '["shell"]'}, False),
        ({"agents": '["boss"]'}, False),
        ({"sessions": '["s"]'}, True),
        ({"requesters": '["rita"]'}, True),
        ({"scopes": '["sh"]'}, False),
    ],
)
@pytest.mark.parametrize("ruling", ["allow", "ask", "deny"])
def test_a_rule_that_denies_a_command_binds_as_widely_as_one_that_denies(
    ruling: str, selector: Mapping[str, str], allows: bool
) -> None:
    commands = DENIES if ruling == "deny" else BOTH
    text = rule(ruling, command=commands, **selector)

    assert said(text, call({"command": "rm x"}, **SHELL)).answer == "deny"
    quiet = said(text, call({"command": "git status"}, **SHELL)).answer
    assert quiet == ("allow" if ruling == "allow" and allows else None)


def test_what_a_rule_that_denies_commands_looks_at_is_known_wherever_it_binds() -> None:
    label = '{source = "judge", label = "pii"}'
    text = rule(
        "allow", surfaces='["shell"]', command=BOTH, first_of_its_kind="true", annotation=label
    )

    assert kinds(policy(text), call(surface="*")) == {()}
    assert sources(policy(text), call(surface="*")) == frozenset({"judge"})
    assert sources(policy(text), call(surface="mail")) == frozenset()


def test_what_a_command_is_denied_for_is_denied_though_a_condition_is_in_doubt() -> None:
    where = '[{argument = "cwd", equals = "/srv"}]'
    text = rule("allow", tools='["bash"]', command=BOTH, when=where)

    denied = said(text, call({"command": "rm x"}, tool="bash"))
    allowed = said(text, call({"command": "git status"}, tool="bash"))

    assert (denied.answer, allowed.answer) == ("deny", None)


def test_commands_may_stand_in_another_argument() -> None:
    commands = '{argument = "do.0", deny = [["rm", "**"]]}'
    text = rule("deny", command=commands)

    assert said(text, call({"do": ["rm x"]})).answer == "deny"
    assert said(text, call({"do": ["ls"]})).answer is None


# --- what several demand ----------------------------------------------------------------------

MINUTE = timedelta(minutes=1)


def of(*demands: Demands, text: str = "") -> Any:
    return joined(policy(text), list(demands), lasts=DAY)


def test_the_most_is_demanded_for_the_shortest_time() -> None:
    one = Demands(quorum=2, deadline=5 * MINUTE, hold="surface")
    other = Demands(exclude_requester=True, deadline=9 * MINUTE, hold="surface")

    found = of(one, other)

    assert (found.quorum, found.exclude_requester) == (2, True)
    assert (found.deadline, found.hold) == (5 * MINUTE, "surface")


def test_where_one_rule_holds_the_session_the_session_is_held() -> None:
    surface, session = Demands(hold="surface"), Demands(hold="session")

    assert of(surface, session).hold == "session"
    assert of(surface, Demands()).hold == "session"
    assert of(surface, Demands(), text='[defaults]\nhold = "surface"').hold == "surface"


def test_a_rule_without_a_deadline_has_that_of_the_file() -> None:
    assert of(Demands(deadline=48 * timedelta(hours=1)), Demands()).deadline == DAY
    assert of(Demands(), text='[defaults]\ndeadline = "5m"').deadline == 5 * MINUTE
    assert of().deadline == DAY


def test_those_are_asked_whom_every_rule_that_names_people_names() -> None:
    groups = '[groups]\nfinance = ["ana", "bo"]\nall = ["cy", "@finance"]\n'
    finance, everybody = Demands(approvers=("@finance",)), Demands(approvers=("@all",))

    assert of(finance, everybody, Demands(), text=groups).approvers == ("ana", "bo")
    assert of(everybody, text=groups).approvers == ("cy", "ana", "bo")
    assert of(finance, Demands(approvers=("cy",)), text=groups).approvers is None
    assert of(Demands(), text=groups).approvers == ()


def test_escalation_reaches_nobody_whom_another_rule_would_not_reach() -> None:
    managers = Escalation(after=MINUTE, approvers=("mia",), channel="phone")
    one = Demands(approvers=("ana",), escalation=(managers,))
    same = Demands(
        approvers=("ana",), escalation=(Escalation(after=9 * MINUTE, approvers=("mia",)),)
    )
    other = Demands(approvers=("ana",))
    late = Demands(deadline=MINUTE)

    assert of(one).escalation == (managers,)
    assert [step.approvers for step in of(one, same).escalation] == [(), ("mia",)]
    assert of(one, other).escalation == (Escalation(after=MINUTE, channel="phone"),)
    assert of(one, late).escalation == ()


demands = st.builds(
    Demands,
    approvers=st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(tuple),
    quorum=st.integers(1, 3),
    exclude_requester=st.booleans(),
    deadline=st.one_of(st.none(), st.integers(1, 5).map(lambda n: n * MINUTE)),
    hold=st.sampled_from([None, "session", "surface"]),
    escalation=st.lists(
        st.builds(
            Escalation,
            after=st.integers(1, 5).map(lambda n: n * MINUTE),
            approvers=st.lists(st.sampled_from("abcd"), unique=True, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


@given(several=st.lists(demands, min_size=1, max_size=4))
def test_whoever_meets_what_is_joined_meets_each_rule(several: list[Demands]) -> None:
    whole = joined(Policy(), several, lasts=DAY)
    reached = {person for step in whole.escalation for person in step.approvers}

    for one in several:
        alone = joined(Policy(), [one], lasts=DAY)
        assert whole.quorum >= alone.quorum
        assert whole.exclude_requester >= alone.exclude_requester
        assert whole.deadline <= alone.deadline
        assert (whole.hold, alone.hold) != ("surface", "session")
        if one.approvers:
            own = {*one.approvers, *(p for step in one.escalation for p in step.approvers)}
            assert whole.approvers is None or set(whole.approvers) <= set(one.approvers)
            assert reached <= own
    assert list(whole.escalation) == sorted(whole.escalation, key=lambda step: step.after)


# --- doubts -----------------------------------------------------------------------------------


def test_the_doubts_of_a_rule_are_said_once_each() -> None:
    conditions = '[{argument = "a", above = 1}, {argument = "b", above = 1}]'
    text = rule("ask", when=conditions, unless='[{argument = "a", equals = "x"}]')
    evaluation = said(text, call({"b": "much"}))

    assert evaluation.deciding[0].doubts == (
        "a is not there",
        "b is a text, which `above` cannot be asked of",
    )


def test_no_value_of_a_call_stands_in_a_doubt() -> None:
    conditions = '[{argument = "token", above = 1}]'
    text = rule(
        "ask", when=conditions, cel='"args.token > 5"', cost_above='{amount = 1, currency = "USD"}'
    )
    facts = call({"token": "s3cr3t"}, cost=Money("token", "USD"))
    (checked,) = said(text, facts).deciding

    assert len(checked.doubts) == 3
    assert "s3cr3t" not in " ".join(checked.doubts)


def test_facts_are_those_of_a_call_that_touches_everything_where_nothing_is_said() -> None:
    assert Facts(tool="pay", arguments={}).surface == "*"
