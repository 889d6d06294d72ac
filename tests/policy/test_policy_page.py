"""docs/reference/policy.md lists what the reader reads, and rules as its tables say."""

from __future__ import annotations

import re
from datetime import timedelta
from importlib import import_module
from typing import get_args

import pytest

from placet.core.grants import MOST_GRANTS, MOST_LASTS, MOST_USES
from placet.policy.cel import SEEN
from placet.policy.doubts import DOUBT_HOLDS, Part
from placet.policy.fields import LONGEST
from placet.policy.reading import DEFAULTS, KEYS, LASTS
from placet.policy.reading_rules import COMMAND_KEYS, DEMANDS, RULE_KEYS
from placet.policy.rules import Answer, Operator
from placet.runtime.authority import REQUEST_LASTS
from tests.policy.files import faults, policy, rule
from tests.tidy import ROOT

PAGE = (ROOT / "docs/reference/policy.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Give the cells of the table whose head begins so."""
    part = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].strip()
    return [[c.strip() for c in line.strip("|").split("|")] for line in part.split("\n")[1:]]


def names(head: str) -> list[str]:
    return [row[0].strip("`") for row in table(head)]


def test_the_page_lists_every_key_of_a_file() -> None:
    assert names("key | holds") == list(KEYS)
    assert names("default | where a rule says nothing") == list(DEFAULTS)


def test_the_page_lists_every_key_of_a_rule() -> None:
    listed = names("key | means")

    assert sorted(listed) == sorted(RULE_KEYS)
    assert set(listed[listed.index("approvers") :]) == set(DEMANDS)


def test_the_page_lists_every_operator() -> None:
    assert names("operator | holds where the value") == list(get_args(Operator))


def test_the_page_says_how_doubts_count() -> None:
    rows = table("in a rule that | a doubt in `when` | a doubt in `unless`")
    answers: dict[str, Answer] = {"allows": "allow", "asks": "ask", "denies": "deny"}
    parts: tuple[Part, ...] = get_args(Part)

    said = {
        (answers[row[0]], part): cell == "holds"
        for row in rows
        for part, cell in zip(parts, row[1:], strict=True)
    }
    assert said == DOUBT_HOLDS


def test_the_page_lists_what_an_expression_sees_and_the_parts_of_a_command() -> None:
    seen = re.search(r"The expression sees ([^.]*)\.", PAGE)
    words = re.search(r"or a table with ([^.]*)\.", PAGE)

    assert seen is not None
    assert words is not None
    assert re.findall(r"`(\w+)`", seen[1]) == list(SEEN)
    assert re.findall(r"`(\w+)`", words[1]) == list(COMMAND_KEYS)


@pytest.mark.parametrize("limit, value, where", table("limit | value | where"))
def test_the_limits_of_the_page_are_those_of_the_code(limit: str, value: str, where: str) -> None:
    module, _, constant = where.strip("`").rpartition(".")

    limits = getattr(import_module(module), constant)
    found = limits.days if isinstance(limits, timedelta) else limits
    assert found == int(value.split()[0].replace(",", "")), limit


def test_the_page_and_the_guide_say_how_long_a_time_and_a_grant_may_be() -> None:
    guide = (ROOT / "docs/how-to/approve.md").read_text(encoding="utf-8")

    assert f"at\nmost {LONGEST.days} days" in PAGE
    assert faults("version = 1\n" + rule(deadline='"366d"')) == []
    assert len(faults("version = 1\n" + rule(deadline='"367d"'))) == 1
    assert f"up to {MOST_LASTS.days} days and {MOST_USES:,} calls" in guide
    assert f"up to {MOST_GRANTS} of them" in guide


def test_people_are_asked_as_long_as_the_page_says_where_nothing_does() -> None:
    assert f"without it {LASTS.total_seconds() / 3600:.0f} hours" in PAGE
    assert LASTS == REQUEST_LASTS


@pytest.mark.parametrize("text", re.findall(r"`(command = \{.*?\})`", PAGE))
def test_what_the_page_shows_of_commands_is_read(text: str) -> None:
    assert policy(rule("allow", command=text.partition(" = ")[2])).rules[0].commands


@pytest.mark.parametrize("text", re.findall(r"`(\{argument = .*?\})`", PAGE))
def test_the_conditions_that_the_page_shows_are_read(text: str) -> None:
    assert faults("version = 1\n" + rule(when=f"[{text}]")) == []
