"""The state x command table: made by the real `decide`, whole, and the page drawn from it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from placet.core import events as e
from placet.core.commands import Command
from placet.core.state import CallState, RequestState, RunState
from tests.core.representatives import CALLS, REQUESTS, RUNS, Cell, cells, commands
from tools.errors_page import raised
from tools.generate import PAGES, ROOT


@pytest.fixture(scope="module")
def table() -> list[Cell]:
    return list(cells())


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_is_what_the_code_generates(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), "run `make docs`"


def test_a_code_is_of_one_class() -> None:
    """A caller catches by class, and matches by code: what one class misses is not caught."""
    classes: dict[str, set[str]] = {}
    for each in raised():
        classes.setdefault(each.code, set()).add(each.error)
    assert len(classes) > 100
    assert {code: found for code, found in classes.items() if len(found) > 1} == {}


def test_every_command_is_a_column() -> None:
    groups = commands(REQUESTS["Open"]())
    given = {type(command) for group in groups.values() for command in group.values()}
    assert given == set(get_args(Command))


@pytest.mark.parametrize("union", [RequestState, CallState, RunState])
def test_every_state_is_a_row(union: type) -> None:
    seen = set()
    for rows in (REQUESTS, CALLS, RUNS):
        for make in rows.values():
            state = make().world.state
            parts: tuple[Any, ...] = (
                *state.requests.values(),
                *state.calls.values(),
                *state.runs.values(),
            )
            seen |= {type(part.state) for part in parts}
    assert set(get_args(union)) <= seen


def test_every_cell_is_filled_with_events_or_a_typed_refusal(table: list[Cell]) -> None:
    assert len(table) == (len(REQUESTS) + len(CALLS) + len(RUNS)) * sum(
        len(group) for group in commands(REQUESTS["Open"]()).values()
    )
    assert not [cell for cell in table if cell.refused and cell.events]


CLOSED = (
    "Rejected",
    "Superseded",
    "Voided",
    "Expired",
    "Expired, and nobody could be told",
    "Cancelled",
    "Answered",
    "Lapsed settlement",
)


@pytest.mark.promise("G1", "G3", "G7")
def test_no_command_leads_from_a_closed_request_to_a_body(table: list[Cell]) -> None:
    for cell in table:
        if cell.kind == "Requests" and cell.row in CLOSED:
            opened = (e.AttemptBegun, e.CallDelegated)
            assert not [event for event in cell.events if isinstance(event, opened)], cell


@pytest.mark.promise("G7")
def test_what_is_closed_is_never_open_again(table: list[Cell]) -> None:
    opened = {"Open", "Approved"}
    for cell in table:
        for what, source, target in cell.moves:
            if what == "request":
                assert source in {"[*]", *opened}, (cell.row, cell.column, source, target)
            elif (cell.column, source, target) == ("Unwind", "CallOver", "UndoDue"):
                # It keeps its result; what it did is taken back, because a later call failed.
                assert not [x for x in cell.events if isinstance(x, e.CallEnded)]
            else:
                assert source != "CallOver", (cell.row, cell.column, source, target)


@pytest.mark.promise("G1", "G2", "D8")
def test_only_begin_leads_to_a_body_or_to_a_child_run(table: list[Cell]) -> None:
    for cell in table:
        for event in cell.events:
            if isinstance(event, e.AttemptBegun) and event.purpose != "run":
                assert (cell.row, cell.column) == ("UndoDue", "TakeBack")
            elif isinstance(event, (e.AttemptBegun, e.CallDelegated)):
                assert cell.column.startswith("Begin")


def test_every_event_is_in_the_table(table: list[Cell]) -> None:
    seen = {type(event) for cell in table for event in cell.events}
    missing = set(get_args(e.Event)) - seen
    assert not missing
