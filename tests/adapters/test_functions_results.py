"""What guarded functions return: who calls later gets a value equal to what the first one got."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from placet import InvalidDeclaration
from placet.core import wording
from placet.core.errors import ActionRefused
from placet.guarding import EditedWarning
from tests.adapters.guards import opened, required


@dataclass
class Receipt:
    number: int
    paid_at: datetime


class Order(BaseModel):
    id: str = Field(alias="order_id")
    lines: list[Decimal]


def free(value: Any):  # type: ignore[no-untyped-def]  # What has no annotation is the point.
    """Return something."""
    return VALUES[value]


VALUES: list[Any] = ["null", "5", "plain", 5, 1.5, None, True, [], {"a": [1, {"b": None}]}, "ä\n"]

TYPED: list[tuple[Any, Any]] = [
    (str, "null"),
    (str, "ends so\n(Established by ana; the tool's own answer was lost.)"),
    (str | None, "null"),
    (str | None, None),
    (int | str, "5"),
    (int, 5),
    (None, None),
    (float, 1e-7),
    (bytes, b"abc"),
    (date, date(2026, 11, 29)),
    (Decimal, Decimal("0.10")),
    (tuple[int, str], (1, "a")),
    (set[int], {3, 1, 2}),
    (dict[int, list[Decimal]], {1: [Decimal("2.50")]}),
    (Receipt, Receipt(7, datetime(2026, 11, 29, 12, tzinfo=UTC))),
    (list[Order], [Order(order_id="A-42", lines=[Decimal("1.0")])]),
    (Annotated[str, "told"], "5"),
    (Any, {"a": 1}),
    (object, ["a"]),
]


def returning(annotation: Any, value: Any) -> Callable[[int], Any]:
    def give(number: int) -> Any:
        """Return something."""
        return value

    give.__annotations__["return"] = annotation
    return give


@pytest.mark.parametrize("number", range(len(TYPED)))
def test_an_annotated_result_comes_back_as_it_was(tmp_path: Path, number: int) -> None:
    annotation, value = TYPED[number]
    entered: list[int] = []
    for _ in range(2):
        with opened(tmp_path) as placet:
            function = returning(annotation, value)
            guarded = placet.guard(session="s", approval="never")(function)
            found = guarded(number)
            assert (type(found), found) == (type(value), value)
            entered.append(len(list(placet.engine.store.events("main", "s"))))
    assert entered[0] == entered[1]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_a_result_without_annotation_comes_back_as_the_json_that_it_is(
    tmp_path: Path, number: int
) -> None:
    with opened(tmp_path) as placet:
        guarded = placet.guard(session="s", approval="never")(free)
        for _ in range(2):
            found = guarded(number)
            assert (type(found), found) == (type(VALUES[number]), VALUES[number])


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "annotation, value", [(dict[str, int], object()), (int, "five"), (bytes, b"\xff"), (str, 5)]
)
def test_a_result_that_cannot_be_kept_is_returned_once_and_never_made_up(
    tmp_path: Path, annotation: Any, value: Any
) -> None:
    with opened(tmp_path) as placet:
        guarded = placet.guard(session="s", approval="never")(returning(annotation, value))
        assert guarded(1) is value
        if annotation is str:
            assert guarded(1) == "5"
            return
        with pytest.raises(ActionRefused) as refused:
            guarded(1)
        assert refused.value.code == "result_unreadable"
        assert refused.value.hint.startswith("It is done;")


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "annotation, detail, value",
    [
        (str, "receipt 9", "receipt 9"),
        (int, "9", 9),
        (str | None, "9 a", "9 a"),
        (Any, "9 a", "9 a"),
        (None, "it was sent", None),
    ],
)
def test_what_a_person_found_out_is_read_as_what_the_function_returns(
    tmp_path: Path, annotation: Any, detail: str, value: Any
) -> None:
    def lost(number: int) -> Any:
        """Lose the connection."""
        raise ConnectionResetError

    lost.__annotations__["return"] = annotation
    with opened(tmp_path) as placet:
        guarded = placet.guard(session="s", approval="never")(lost)
        (settlement,) = required(lambda: guarded(1)).requests
        placet.settle_sync(settlement, by="ana", happened=True, detail=detail)
        assert guarded(1) == value
        needed = required(lambda: guarded(2))
        placet.settle_sync(needed.requests[0], by="ana", happened=True, detail="who knows")
        if annotation is int:
            assert "takes the result (--happened) as JSON of int;" in needed.hint
            with pytest.raises(ActionRefused) as refused:
                guarded(2)
            assert refused.value.code == "result_unreadable"
            assert "a person wrote down what is not JSON of int" in refused.value.hint
            assert refused.value.told.startswith("who knows")
        else:
            assert guarded(2) == (None if annotation is None else "who knows")


@pytest.mark.slow
@pytest.mark.promise("D4", "D6")
def test_what_a_person_found_out_is_had_in_a_session_of_many_requests_too(tmp_path: Path) -> None:
    asked: list[int] = []

    def lost(number: int) -> int:
        """Lose the connection of the first call."""
        asked.append(number)
        if number == 0:
            raise ConnectionResetError
        return number

    with opened(tmp_path) as placet:
        guarded = placet.guard(session="s", approval=lambda given: given["number"] != 0)(lost)
        (settlement,) = required(lambda: guarded(0)).requests
        placet.settle_sync(settlement, by="ana", happened=True, detail="0")
        for number in range(1, 102):
            (request,) = required(partial(guarded, number)).requests
            placet.decide_sync(request, "reject", by="ana", reason="no")
            with pytest.raises(ActionRefused):
                guarded(number)
        assert guarded(0) == 0
        assert asked == [0]


@pytest.mark.promise("G5")
def test_what_the_model_is_told_of_an_edit_or_a_failure_is_not_taken_for_the_result(
    tmp_path: Path,
) -> None:
    preface = wording.edited("ana", "number: 2 -> 1", "")

    def odd(number: int) -> str:
        """Return what sounds like the record's own words, or raise."""
        if number == 9:
            raise LookupError("no such order")
        return f"{preface}{wording.settled_done('ana', str(number))}"

    with opened(tmp_path) as placet:
        guarded = placet.guard(session="s")(odd)

        def edit(given: int, edited: int) -> None:
            (request,) = required(partial(guarded, given)).requests
            placet.decide_sync(request, "edit", by="ana", arguments={"number": edited})

        edit(2, 1)
        for _ in range(2):
            with pytest.warns(EditedWarning):
                assert guarded(2) == odd(1)
        edit(3, 9)
        with pytest.raises(LookupError):
            guarded(3)
        with pytest.raises(ActionRefused, match="LookupError: no such order"):
            guarded(3)


def test_a_function_whose_result_cannot_be_read_back_is_refused_when_it_is_declared(
    tmp_path: Path,
) -> None:
    class Connection:
        pass

    with opened(tmp_path) as placet, pytest.raises(InvalidDeclaration) as refused:
        placet.guard(session="s")(returning(Connection, Connection()))
    assert refused.value.code == "invalid_guard"
