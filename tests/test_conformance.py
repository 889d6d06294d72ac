"""Holds the behaviours of older systems and the tests that show them together, both ways."""

from __future__ import annotations

from tests.conformance import BEHAVIOURS
from tests.guarantees import OPEN_ISSUES
from tests.marks import findings, scan, sources


def test_every_behaviour_has_a_test_and_every_mark_names_a_behaviour() -> None:
    found = findings(BEHAVIOURS, scan(sources(), mark="conformance"), open_issues=OPEN_ISSUES)

    assert not found, "\n".join(["", *found])


def test_the_behaviours_are_numbered_without_a_gap() -> None:
    assert [behaviour.id for behaviour in BEHAVIOURS] == list(range(1, 42))


def test_a_behaviour_that_no_test_shows_is_found() -> None:
    wanted = [behaviour for behaviour in BEHAVIOURS if behaviour.planned_issue is None]

    assert len(findings(BEHAVIOURS, [], open_issues=OPEN_ISSUES)) == len(wanted) > 0
