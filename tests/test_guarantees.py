"""Holds the promises and their tests together, both ways."""

from __future__ import annotations

import re

import pytest

from tests.guarantees import OPEN_ISSUES, PROMISES, Promise
from tests.marks import ROOT, Mark, findings, scan, sources

ONE = Promise(id="G1", title="one")


def test_every_promise_has_a_test_and_every_mark_names_a_promise() -> None:
    found = findings(PROMISES, scan(sources(), mark="promise"), open_issues=OPEN_ISSUES)

    assert not found, "\n".join(["", *found])


def test_the_table_lists_exactly_the_promises_of_the_design() -> None:
    design = (ROOT / "docs/internals/design.md").read_text(encoding="utf-8")

    assert [promise.id for promise in PROMISES] == re.findall(r"^- \*\*([GDH]\d+) ", design, re.M)


def test_a_promise_without_a_test_is_found() -> None:
    assert findings([ONE], [], open_issues=OPEN_ISSUES) == [
        "G1: no test bears it: write one, or name the issue that brings it"
    ]


def test_a_planned_promise_needs_no_test_and_may_have_one() -> None:
    planned = Promise(id="G1", title="one", planned_issue=5)

    assert findings([planned], [], open_issues=frozenset({5})) == []
    assert findings([planned], _marks('"G1"'), open_issues=frozenset({5})) == []


def test_a_promise_that_waits_for_a_closed_issue_is_found() -> None:
    planned = Promise(id="G1", title="one", planned_issue=5)
    begun = Promise(id="G1", title="one", completed_by=5)

    for row in (planned, begun):
        found = findings([row], _marks('"G1"'), open_issues=frozenset({4}))
        assert found == ["G1: waits for issue 5, which is not open: complete it"]


def test_a_mark_that_names_no_promise_is_found() -> None:
    assert findings([ONE], _marks('"G1", "G99"'), open_issues=OPEN_ISSUES) == [
        "tests/test_x.py:1: 'G99' is not in the table"
    ]


def test_a_mark_whose_ids_are_computed_is_found() -> None:
    found = findings([ONE], [*_marks('"G1"'), *_marks("SOME")], open_issues=OPEN_ISSUES)

    assert found == ["tests/test_x.py:1: the mark's ids are not literals: write them out"]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.promise('G1')\ndef helper(): ...",
        "@pytest.mark.promise('G1')\nclass TestNothing: ...",
        "@pytest.mark.skip\n@pytest.mark.promise('G1')\ndef test_it(): ...",
        "@pytest.mark.xfail(reason='no')\n@pytest.mark.promise('G1')\ndef test_it(): ...",
        "pytestmark = pytest.mark.promise('G1')",
    ],
)
def test_a_mark_that_no_running_test_carries_bears_nothing(text: str) -> None:
    found = findings(
        [ONE], scan({"tests/test_x.py": text}, mark="promise"), open_issues=OPEN_ISSUES
    )

    assert [line.split(":")[0] for line in found] == ["tests/test_x.py", "G1"]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.promise('G1')\ndef test_it(): ...",
        "@pytest.mark.promise('G1')\nasync def test_it(): ...",
        "@pytest.mark.promise('G1')\nclass TestIt:\n    def test_it(self): ...",
        "class TestIt:\n    @pytest.mark.promise('G1')\n    def test_it(self): ...",
        "pytestmark = [pytest.mark.slow, pytest.mark.promise('G1')]\ndef test_it(): ...",
        "@parametrize('x', [param(1, marks=pytest.mark.promise('G1'))])\ndef test_it(x): ...",
        "@pytest.mark.skipif(x, reason='r')\n@pytest.mark.promise('G1')\ndef test_it(): ...",
    ],
)
def test_every_way_to_mark_a_test_is_seen(text: str) -> None:
    assert (
        findings([ONE], scan({"tests/test_x.py": text}, mark="promise"), open_issues=OPEN_ISSUES)
        == []
    )


def _marks(ids: str) -> list[Mark]:
    text = f"@pytest.mark.promise({ids})\ndef test_it(): ..."
    return scan({"tests/test_x.py": text}, mark="promise")
