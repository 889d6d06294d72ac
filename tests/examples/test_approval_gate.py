"""What examples/approval_gate.py prints of its four scenarios, and that the store bears it out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.approval_gate import SCENARIOS, Scenario, World, approve, play, store_url
from placet.agent.models.scripted import call, say
from placet.core import events as e
from placet.core.codec import decode_event
from placet.runtime.audit import verify
from placet.stores.sqlite import SqliteStore
from tests.tidy import ROOT

EXPECTED = ROOT / "tests" / "cases" / "approval-gate.txt"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """Run the example in a process of its own; give what it prints, and where its stores are."""
    place = tmp_path_factory.mktemp("gate") / "stores"
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "approval_gate.py"), str(place)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout, place


@contextmanager
def opened(printed: tuple[bytes, Path], scenario: str) -> Iterator[list[e.Event]]:
    """Give the events of a scenario's store, which must be sound."""
    store = SqliteStore(printed[1] / f"{scenario}.db")
    try:
        assert verify(store, "main", "main").findings == ()
        yield [decode_event(row.kind, row.body) for row in store.events("main", "main")]
    finally:
        store.close()


def of(events: list[e.Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def attempts(events: list[e.Event]) -> list[tuple[str, str]]:
    """Give what each attempt was for, and its key."""
    return [(event.purpose, event.key) for event in of(events, e.AttemptBegun)]


def ends(events: list[e.Event]) -> list[tuple[str, str]]:
    return [(event.tool, event.code) for event in of(events, e.CallEnded)]


@pytest.mark.conformance(7)
def test_the_four_scenarios_print_what_is_expected_byte_for_byte(
    printed: tuple[bytes, Path],
) -> None:
    assert printed[0] == EXPECTED.read_bytes()


@pytest.mark.conformance(7)
def test_approved_it_fails_once_and_is_tried_again_under_the_same_key(
    printed: tuple[bytes, Path],
) -> None:
    with opened(printed, "a") as events:
        (opened_,), (vote,) = of(events, e.RequestOpened), of(events, e.VoteCast)
        assert (vote.by, vote.digest, vote.met) == ("ana", opened_.digest, True)
        first, second = of(events, e.AttemptBegun)
        assert (first.request, second.request) == (opened_.request, None), "spent with the first"
        assert first.key == second.key
        assert [event.attempt for event in of(events, e.AttemptFailed)] == [1]
        assert ends(events) == [("get_order", "succeeded"), ("issue_refund", "succeeded")]


@pytest.mark.conformance(7)
def test_rejected_no_attempt_is_on_record(printed: tuple[bytes, Path]) -> None:
    with opened(printed, "b") as events:
        assert [event.by for event in of(events, e.RequestRejected)] == ["ana"]
        assert (attempts(events), ends(events)) == ([], [("issue_refund", "rejected")])


@pytest.mark.conformance(6, 7)
@pytest.mark.promise("G1")
def test_with_no_approver_nobody_is_asked_and_no_attempt_is_on_record(
    printed: tuple[bytes, Path],
) -> None:
    with opened(printed, "c") as events:
        assert of(events, e.RequestOpened) == []
        assert (attempts(events), ends(events)) == ([], [("issue_refund", "no_approver")])


@pytest.mark.conformance(7)
@pytest.mark.promise("D8")
def test_what_failed_twice_is_compensated_under_a_key_of_its_own(
    printed: tuple[bytes, Path],
) -> None:
    with opened(printed, "d") as events:
        (one, key), (two, again), (three, undoing) = attempts(events)
        assert (one, two, three) == ("run", "run", "compensate")
        assert key == again != undoing
        assert [event.attempt for event in of(events, e.AttemptFailed)] == [1]
        assert [event.how for event in of(events, e.CallUndoing)] == ["compensate"]
        assert ends(events) == [("ship_label", "tool_failed_and_compensated")]


def played(place: Path, scenario: Scenario) -> tuple[World, list[str]]:
    """Play a scenario, and give its world and the lines of its calls."""
    world, lines = play(scenario, store_url(place, "other"))
    return world, lines[1:-1]


@pytest.mark.conformance(7)
def test_the_tools_act_and_fail_as_often_as_is_printed(tmp_path: Path) -> None:
    worlds = {name: play(each, store_url(tmp_path, name))[0] for name, each in SCENARIOS.items()}
    did = {
        name: ([line.split()[0] for line in world.asked], len(world.refunds), world.voided)
        for name, world in worlds.items()
    }
    assert did == {
        "a": (["issue_refund", "issue_refund"], 1, []),
        "b": ([], 0, []),
        "c": ([], 0, []),
        "d": (["ship_label", "ship_label", "void_label"], 0, ["A-42"]),
    }


@pytest.mark.parametrize(
    "down, lines",
    [
        (0, ["issue_refund -> refund A-42 issued"]),
        (
            2,
            [
                "retry: attempt 1 failed (payment gateway 503)",
                "issue_refund -> tool_failed: payment gateway 503",
            ],
        ),
    ],
)
def test_a_gateway_that_fails_more_or_less_often_is_told_of_otherwise(
    tmp_path: Path, down: int, lines: list[str]
) -> None:
    _, found = played(tmp_path, replace(SCENARIOS["a"], gateway_down=down))
    assert found[1:] == lines


def test_a_carrier_that_fails_once_is_told_of_otherwise(tmp_path: Path) -> None:
    world, found = played(tmp_path, replace(SCENARIOS["d"], carrier_down=1))
    assert found == [
        "retry: attempt 1 failed (carrier API down)",
        "ship_label -> label for A-42 bought",
    ]
    assert world.voided == []


def test_a_yes_in_place_of_the_no_is_told_of_otherwise(tmp_path: Path) -> None:
    script = [call("issue_refund", order="A-43"), say("ok")]
    _, found = played(tmp_path, replace(SCENARIOS["b"], script=script, answer=approve))
    assert found == ["issue_refund -> refund A-43 issued"]


@pytest.mark.slow
def test_a_directory_that_holds_stores_is_not_written_to(printed: tuple[bytes, Path]) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "approval_gate.py"), str(printed[1])],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
