"""A policy file is read whole or not at all, and every fault says its line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from placet.core.canonical import digest_of
from placet.core.values import Escalation
from placet.policy.faults import PolicyTrouble
from placet.policy.groups import members
from placet.policy.reading import MAX_BYTES, MAX_GROUPS, MAX_RULES, read
from placet.policy.rules import Argument, CostAbove, Demands
from tests.policy.files import NAME, faults, policy, rule

WHOLE = """version = 1

[surfaces]
payments = "enforce"
"shell" = "shadow"

[groups]
finance = ["ana", "bo"]
managers = ["@finance", "mia"]
nobody-yet = []

[defaults]
approvers = ["@finance"]
deadline = "24h"
most_waiting = 25
hold = "session"

[[delegation]]
from = "ana"
to = "cy"
until = 2027-01-01T00:00:00+01:00

[[rule]]
name = "big refunds"
ruling = "ask"
reason = "Much money."
tools = ["issue_refund", "pay_*"]
requesters = ["@managers", "ext-*"]
when = [
  {argument = "amount", above = 1000.10},  # a number
  {argument = "to.*.country", in = ["DE", "FR"]},
]
unless = [{argument = "order_id", matches = "test-*"}]
cost_above = {amount = "1000", currency = "USD"}
irreversible = true
first_of_its_kind = true
kind_of = ["to.0.iban"]
low_confidence_below = 0.8
annotation = {source = "classifier", label = "pii"}
approvers = ["@finance", "dora", "@requester"]
quorum = 2
exclude_requester = true
deadline = "2h"
hold = "surface"
escalate = [
  {after = "20m", approvers = ["ceo"], channel = "phone"},
  {after = "5m"},
]

[[rule]]
name = "shell"
ruling = "allow"
tools = ["bash"]

[rule.command]
allow = [["git", "status", "**"], {words = ["ls", "**"], options = ["-l"]}]
deny = [["rm", "**"]]
argument = "command"
"""


def test_everything_that_a_file_may_say_is_read() -> None:
    found = policy(WHOLE, version=False)
    big, shell = found.rules

    assert found.surfaces == {"payments": "enforce", "shell": "shadow"}
    assert found.groups["managers"] == ("@finance", "mia")
    (delegation,) = found.delegations
    assert delegation.until == datetime(2026, 12, 31, 23, tzinfo=UTC)
    assert (found.defaults.deadline, found.defaults.most_waiting) == (timedelta(hours=24), 25)
    assert big.names_tool("issue_refund")
    assert not big.names_tool("pay_now")
    assert [each.patterns for each in big.selectors] == [
        ("issue_refund", "pay_*"),
        ("ana", "bo", "mia", "ext-*"),
    ]
    assert big.when[0] == Argument(place="amount", tests=(("above", Decimal("1000.10")),))
    assert big.when[2] == CostAbove(amount=Decimal(1000), currency="USD")
    assert big.demands == Demands(
        approvers=("@finance", "dora", "@requester"),
        quorum=2,
        exclude_requester=True,
        deadline=timedelta(hours=2),
        hold="surface",
        escalation=(
            Escalation(after=timedelta(minutes=5)),
            Escalation(after=timedelta(minutes=20), approvers=("ceo",), channel="phone"),
        ),
    )
    assert shell.commands is not None
    assert [each.words[0] for each in shell.commands.allow] == ["git", "ls"]
    assert shell.commands.allow[1].options == ("-l",)


# --- faults -----------------------------------------------------------------------------------


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    "text, says",
    [
        ("", "1: The file says no version: it begins with version = 1."),
        ("# nothing\n", "1: The file says no version: it begins with version = 1."),
        ("version = 2", "1: version must be 1."),
        ("version = true", "1: version must be 1."),
        ('version = "1"', "1: version must be 1."),
        ("version = 1\nversion = 1", "2: It is no TOML: Cannot overwrite a value."),
        ("version = 1\nx =", "2: It is no TOML: Invalid value."),
        ("version = 1\nrules = []", "2: There is no key 'rules' in a policy file."
         " Did you mean 'rule'?"),
        ("version = 1\nrule = 3", "2: rule must be a list of tables."),
        ("version = 1\nrule = [3]", "2: rule must be a table."),
        ("version = 1\n\n[surfaces]\n\npayments = 'enforced'",
         "5: payments must be one of off, shadow, enforce. Did you mean 'enforce'?"),
        ("version = 1\nsurfaces = 1", "2: surfaces must be a table."),
        ("version = 1\n[groups]\nfinance = 'ana'", "3: finance must be a list of names."),
        ("version = 1\n[groups]\na = ['@b']", "3: There is no group @b."),
        ("version = 1\n[groups]\na = ['@b']\nb = ['@a']", "3: The group a includes itself."),
        ("version = 1\n[groups]\nrequester = ['a']", "3: No group can be named 'requester'."),
        ("version = 1\n[groups]\na = ['bo', 'bo']", "3: a names 'bo' twice."),
        ("version = 1\n[groups]\na = [' bo']",
         "3: a must be a name of 1 to 200 characters that can be read."),
        ("version = 1\n[defaults]\ndeadline = 24",
         "3: deadline must be a time such as 90s, 10m, 24h or 2d, and at most 366 days."),
        ("version = 1\n[defaults]\ndeadline = '0h'",
         "3: deadline must be a time such as 90s, 10m, 24h or 2d, and at most 366 days."),
        ("version = 1\n[defaults]\ndeadline = '-5m'",
         "3: deadline must be a time such as 90s, 10m, 24h or 2d, and at most 366 days."),
        ("version = 1\n[defaults]\nmost_waiting = 0",
         "3: most_waiting must be a whole number from 1 to 10000."),
        ("version = 1\n[defaults]\nhold = 'all'", "3: hold must be one of session, surface."),
        ("version = 1\n[defaults]\napprovers = []",
         "3: approvers names nothing. Leave it out, or name something."),
        ("version = 1\n[defaults]\napprovers = ['a*']",
         "3: An approver is named, and no pattern."),
        ("version = 1\n[[delegation]]\nfrom = 'a'\nto = 'b'\nuntil = 2027-01-01",
         "5: until must be an instant with its offset, as 2027-01-01T00:00:00Z."),
        ("version = 1\n[[delegation]]\nfrom = 'a'\nto = 'b'\nuntil = 2027-01-01T00:00:00",
         "5: until must be an instant with its offset, as 2027-01-01T00:00:00Z."),
        ("version = 1\n[[delegation]]\nfrom = 'a'\nto = 'a'\nuntil = 2027-01-01T00:00:00Z",
         "4: a delegates to themselves."),
        ("version = 1\n[groups]\ng = ['a']\n[[delegation]]\nfrom = '@g'\nto = 'a'\n"
         "until = 2027-01-01T00:00:00Z", "5: from must be a person, and no group."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_line(text: str, says: str) -> None:
    assert says in faults(text)


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    "more, says",
    [
        ({"rulling": '"ask"'}, "There is no key 'rulling' in rule. Did you mean 'ruling'?"),
        ({"tools": "[]"}, "tools names nothing. Leave it out, or name something."),
        ({"tools": '"bash"'}, "tools must be a list of names."),
        ({"when": "{}"}, "when must be a list of tables."),
        ({"when": '[{argument = "a"}]'}, "The condition has no operator: one of equals, "),
        ({"when": "[{above = 1}]"}, "argument must be a text."),
        ({"when": '[{argument = "a", over = 1}]'}, "There is no key 'over' in when."),
        ({"when": '[{argument = "a..b", above = 1}]'}, "'a..b' is no path"),
        ({"when": '[{argument = "a*", above = 1}]'}, "A star stands alone between dots"),
        ({"when": '[{argument = "*", above = 1}]'}, "A star stands alone between dots"),
        ({"when": '[{argument = "a", above = "much"}]'}, "above must be a number."),
        ({"when": '[{argument = "a", above = true}]'}, "above must be a number."),
        ({"when": '[{argument = "a", above = inf}]'}, "above must be a text, a number"),
        ({"when": '[{argument = "a", above = 1e999999}]'}, "above must be a text, a number"),
        ({"when": '[{argument = "a", equals = [1]}]'}, "equals must be a text, a number"),
        ({"when": '[{argument = "a", in = "DE"}]'}, "in must be a list that is not empty."),
        ({"when": '[{argument = "a", in = []}]'}, "in must be a list that is not empty."),
        ({"when": '[{argument = "a", in = ["5", 5]}]'}, "in must be a list of values of one kind"),
        ({"when": '[{argument = "a", matches = 5}]'}, "matches must be a text"),
        ({"when": '[{argument = "a", present = false}]'}, "present must be true; for the contrary"),
        ({"when": '[{argument = "a", present = true, above = 1}]'}, "present and absent stand al"),
        ({"unless": '[{argument = "a"}]'}, "The condition has no operator"),
        ({"cost_above": '{amount = "1000"}'}, "currency must be a text."),
        ({"cost_above": '{currency = "USD"}'}, "amount must be a number."),
        ({"cost_above": "1000"}, "cost_above must be a table."),
        ({"cost_above": '{amount = -1, currency = "USD"}'}, "amount must not be below 0: nothing"),
        ({"irreversible": '"yes"'}, "irreversible must be true or false."),
        ({"kind_of": '["to"]'}, "kind_of only matters beside first_of_its_kind."),
        ({"first_of_its_kind": "true", "kind_of": '["to.*"]'}, "No star stands here"),
        ({"low_confidence_below": "true"}, "low_confidence_below must be a number."),
        ({"low_confidence_below": "50"}, "low_confidence_below must be above 0 and at most 1"),
        ({"low_confidence_below": "0"}, "low_confidence_below must be above 0 and at most 1"),
        ({"annotation": '{label = "pii"}'}, "source must be a text."),
        ({"cel": '"args.amount >"'}, "It is no CEL at character 13."),
        ({"cel": '"amount > 5"'}, "There is no amount in CEL here."),
        ({"command": "{}"}, "command must say what it allows, or what it denies."),
        ({"command": '{allow = ["git status"]}'}, "words must be a list of texts"),
        ({"command": '{allow = [["**"]]}'}, "A rule on commands begins with the name of a command"),
        ({"command": '{allow = [["a", "**", "b"]]}'}, "`**` stands at the end of a rule's words"),
        ({"command": '{allow = [{word = ["a"]}]}'}, "There is no key 'word' in allow."),
        ({"quorum": "0"}, "quorum must be a whole number from 1 to 50."),
        ({"quorum": "2.0"}, "quorum must be a whole number from 1 to 50."),
        ({"quorum": "3", "approvers": '["a", "b"]'}, "quorum is 3, and only 2 may approve."),
        ({"approvers": '["@finance"]'}, "There is no group @finance."),
        ({"requesters": '["@finance"]'}, "There is no group @finance."),
        ({"escalate": '[{approvers = ["a"]}]'}, "A step of escalate says after how long"),
        ({"escalate": '[{after = "25h"}]'}, "A step of escalate comes after the deadline."),
        ({"deadline": '"1h"', "escalate": '[{after = "60m"}]'}, "A step of escalate comes after"),
        ({"hold": '"none"'}, "hold must be one of session, surface."),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_with_its_line(more: dict[str, Any], says: str) -> None:
    found = faults("version = 1\n" + rule(**more))

    told = [each.split(": ", 1)[1] for each in found if each[0] in "56"]
    assert any(each.startswith(says) for each in told), found


SPACED = "Each word stands by itself, and"
PATTERN = "Words are compared as they are, and"
NAMELESS = "A rule on commands begins with the name of a command, and"
EMPTY = "holds nothing. Leave it out, or say something."


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    "more, says",
    [
        *(
            ({"command": f"{{deny = [{command}]}}"}, says)
            for command, says in [
                ('["rm -rf"]', f"{SPACED} 'rm -rf' is empty or holds a space."),
                ('["rm **"]', SPACED),
                ('[" rm", "**"]', SPACED),
                ('["git", "push -f"]', SPACED),
                ('["rm", "", "**"]', SPACED),
                ('["rm", "\\t"]', SPACED),
                ('["rm\\u00a0", "**"]', SPACED),
                ('{words = ["rm", "**"], having = ["-r -f"]}', SPACED),
                ('{words = ["rm", "**"], unless = [""]}', SPACED),
                ('["rm*", "**"]', f"{PATTERN} 'rm*' is written as a pattern: `*` and `**` stand"),
                ('["r?", "**"]', PATTERN),
                ('["r[m]", "**"]', PATTERN),
                ('["git", "push*", "**"]', PATTERN),
                ('["git", "pus?", "**"]', PATTERN),
                ('["git", "***"]', PATTERN),
                ('["rm;", "**"]', f"{NAMELESS} 'rm;' is none."),
                ('["/usr/bin/", "**"]', NAMELESS),
                ('["./", "**"]', NAMELESS),
                ('["A=b", "rm", "**"]', NAMELESS),
                ('["\'rm\'", "**"]', NAMELESS),
                ('["$(rm)", "**"]', NAMELESS),
                ('["#rm", "**"]', NAMELESS),
                ('{words = ["rm", "**"], having = []}', f"having {EMPTY}"),
                ('{words = ["rm", "**"], unless = []}', f"unless {EMPTY}"),
            ]
        ),
        ({"when": "[]"}, f"when {EMPTY}"),
        ({"unless": "[]"}, f"unless {EMPTY}"),
    ],
)
@pytest.mark.parametrize("ruling", ["allow", "ask", "deny"])
def test_a_rule_that_could_never_matter_is_a_fault(
    ruling: str, more: dict[str, Any], says: str
) -> None:
    """Whoever wrote it meant a rule that matters, and would believe that there is one."""
    (found,) = faults("version = 1\n" + rule(ruling, **more))

    assert found.startswith(f"5: {says}"), found


def test_a_list_of_steps_with_nothing_in_it_is_a_fault() -> None:
    assert faults("version = 1\n" + rule(escalate="[]")) == [f"5: escalate {EMPTY}"]


@pytest.mark.parametrize(
    "command",
    ['["[", "**"]', '["/bin/rm", "*", "**"]', '["g++", "**"]', '{words = ["ls"], options = []}'],
)
def test_a_rule_on_commands_names_a_program_in_any_way_that_there_is(command: str) -> None:
    assert faults("version = 1\n" + rule("deny", command=f"{{deny = [{command}]}}")) == []


@pytest.mark.parametrize("ruling", ["allow", "deny"])
@pytest.mark.parametrize(
    "demand",
    [
        {"approvers": '["a"]'},
        {"quorum": "1"},
        {"exclude_requester": "true"},
        {"deadline": '"1h"'},
        {"hold": '"surface"'},
        {"escalate": '[{after = "1m"}]'},
    ],
)
def test_a_rule_that_does_not_ask_demands_nothing(ruling: str, demand: dict[str, str]) -> None:
    assert faults("version = 1\n" + rule(ruling, **demand)) == [
        f"5: {next(iter(demand))} only matters in a rule that asks."
    ]
    assert faults("version = 1\n" + rule("ask", **demand)) == []


def test_a_rule_that_denies_commands_says_which_and_allows_none() -> None:
    both = rule("deny", command='{allow = [["ls"]], deny = [["rm", "**"]]}')
    neither = rule("deny", command='{allow = [["ls"]]}')

    assert faults("version = 1\n" + both) == [
        "5: A rule that denies allows nothing: leave allow out."
    ]
    assert "5: A rule that denies commands must say which: name them in deny." in faults(
        "version = 1\n" + neither
    )


def test_all_that_is_wrong_is_told_at_once_from_the_top_down() -> None:
    text = "version = 1\n" + rule("aks", "one") + rule("ask", "one", quorum="true") + "[x]\n"

    assert faults(text) == [
        "4: ruling must be one of allow, ask, deny. Did you mean 'ask'?",
        "6: Two rules are named 'one'; the other is in line 2.",
        "8: quorum must be a whole number from 1 to 50.",
        "9: There is no key 'x' in a policy file.",
    ]


def test_the_error_names_the_first_fault_and_says_how_many_there_are() -> None:
    with pytest.raises(PolicyTrouble) as caught:
        policy(rule("aks") + rule("aks", "two"))

    assert caught.value.message == (
        f"{NAME}:4: ruling must be one of allow, ask, deny. Did you mean 'ask'? (and 1 more)"
    )


@pytest.mark.parametrize("name", ["", " a", "a,b", "a\\u202eb", "a\\nb", "x" * 101])
def test_a_rule_has_a_name_that_people_can_read(name: str) -> None:
    assert len(faults("version = 1\n" + rule(name=name))) == 1


@pytest.mark.parametrize(
    "data, says",
    [
        (b"version = 1\n# \xff", ":2: It is no UTF-8."),
        (b"#" * (MAX_BYTES + 1), ": It is larger than 262144 bytes."),
        (b"version = 1\nx = " + b"[" * 100_000, ": It is nested too deep."),
        (b"version = 1\nx = " + b"9" * 5_000, ":2: It is no TOML: "),
        (b"version = 1\x00", ":1: It is no TOML: "),
        (
            b"version = 1\nx = 0x" + b"f" * 6_000,
            ":2: There is a number with more than 1000 digits.",
        ),
        (b"version = 1\nx = [{y = 0b" + b"1" * 9_000 + b"}]", ":2: There is a number with more"),
    ],
)
def test_a_file_that_cannot_be_read_is_no_policy(data: bytes, says: str) -> None:
    with pytest.raises(PolicyTrouble) as caught:
        read(data, file=NAME)

    assert caught.value.lines[0].startswith(NAME + says)


def test_a_file_has_a_bounded_number_of_rules() -> None:
    text = "version = 1\n" + "".join(rule(name=f"r{n}") for n in range(MAX_RULES + 1))

    assert faults(text) == ["1502: There are more than 500 rules."]


UNTIL = "until = 2027-01-01T00:00:00Z"


@pytest.mark.promise("G10")
@pytest.mark.parametrize(
    "text",
    [
        rule(approvers='["ana", "Ana"]', quorum=2),
        rule(approvers='["ana", "\uff41na"]', quorum=2),
        rule(approvers='["cafe\u0301", "caf\u00e9"]', quorum=2),
        rule(approvers='["stra\u00dfe", "STRASSE"]'),
        rule(approvers='["ana"]') + rule(name="b", approvers='["Ana"]'),
        rule(approvers='["ana"]', escalate='[{after = "1m", approvers = ["Ana"]}]'),
        rule(approvers='["ana"]', requesters='["Ana"]'),
        '[groups]\na = ["ana"]\nb = ["Ana"]\n',
        '[groups]\na = ["ana", "@b"]\nb = ["Ana"]\n',
        '[groups]\na = ["ana"]\n[defaults]\napprovers = ["Ana"]\n',
        rule(approvers='["ana"]') + f'[[delegation]]\nfrom = "Ana"\nto = "bo"\n{UNTIL}',
        f'[[delegation]]\nfrom = "ana"\nto = "Ana"\n{UNTIL}',
    ],
)
def test_a_person_who_is_written_in_two_ways_is_a_fault(text: str) -> None:
    """Two spellings would be two people to a quorum, and one to whoever knows them."""
    (found,) = faults("version = 1\n" + text)

    assert "in another spelling: a person has one name." in found


def test_people_whose_names_only_look_alike_to_a_pattern_are_two() -> None:
    text = rule(approvers='["ana", "anna", "ana2"]', requesters='["Ana*"]', quorum=3)

    assert faults("version = 1\n" + text) == []


def chain(count: int) -> str:
    """Write down groups each of which is the only member of the one before it."""
    return "[groups]\n" + "".join(f"g{n} = ['@g{n + 1}']\n" for n in range(count - 1))


def test_groups_in_groups_are_read_however_deep_they_are() -> None:
    last = f"g{MAX_GROUPS - 1}"
    text = chain(MAX_GROUPS) + f"{last} = ['ana', 'bo']\n" + rule(quorum=2, approvers='["@g0"]')
    found = policy(text)

    assert members(found, found.rules[0].demands.approvers) == ("ana", "bo")
    assert faults("version = 1\n" + chain(MAX_GROUPS) + f"{last} = ['@g0']") == [
        "3: The group g0 includes itself."
    ]
    assert faults("version = 1\n" + chain(MAX_GROUPS + 1) + f"g{MAX_GROUPS} = []") == [
        "2: There are more than 1000 groups."
    ]


def test_groups_that_share_their_members_are_each_looked_at_once() -> None:
    pairs = [f"{a}{n} = ['@a{n + 1}', '@b{n + 1}']" for n in range(60) for a in "ab"]
    text = "\n".join(["[groups]", *pairs, "a60 = ['ana']", "b60 = ['bo', 'ana']", ""])
    found = policy(text + rule(approvers='["@b0", "cy"]', requesters='["@a0"]'))

    assert members(found, found.rules[0].demands.approvers) == ("ana", "bo", "cy")
    assert found.rules[0].selectors[0].patterns == ("ana", "bo")


# --- the document -----------------------------------------------------------------------------


def digest(text: str) -> str:
    return digest_of(policy(text, version=False).document)


def test_files_that_say_the_same_have_the_same_document() -> None:
    again = re.sub(r"  # a number", "", WHOLE).replace("\n\n", "\n")
    again = again.replace("2027-01-01T00:00:00+01:00", "2026-12-31T23:00:00Z")

    assert digest(WHOLE) == digest(again) == digest(WHOLE.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    "before, after",
    [
        ("1000.10", "1000.11"),
        ("1000.10", '"1000.10"'),
        ('"2h"', '"3h"'),
        ("2027-01-01T00:00:00+01:00", "2027-01-01T00:00:01+01:00"),
        ('"shadow"', '"enforce"'),
        ('reason = "Much money."', ""),
    ],
)
def test_files_that_say_something_else_have_another_document(before: str, after: str) -> None:
    assert before in WHOLE
    assert digest(WHOLE) != digest(WHOLE.replace(before, after))
