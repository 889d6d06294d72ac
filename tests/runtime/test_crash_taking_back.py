"""SIGKILL between every two durable writes of a payment that fails and is taken back (D8).

However its process dies, in the end nothing is paid, or a person is asked; and what takes back
happens twice only where it declares that twice is once.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.runtime.life_taking_back import KINDS, Kind, finish, lines, live
from tests.runtime.test_crash import in_process


def points(place: Path, kind: Kind) -> int:
    """Count the points that a life passes."""
    directory = place / "counted"
    directory.mkdir()
    assert in_process(live, str(directory), kind, None) == 0
    assert sum(amount for _, amount in lines(directory / "ledger")) == 0
    return int((directory / "points").read_text())


def ended(directory: Path, kind: Kind, where: str) -> str:
    """Let another process bring a life to its end, and hold what must be true of that."""
    assert in_process(finish, str(directory), kind) == 0
    end = (directory / "end").read_text()
    found = [amount for _, amount in lines(directory / "ledger")]
    assert len([amount for amount in found if amount > 0]) <= 1, f"paid twice, {where}"
    assert len([amount for amount in found if amount < 0]) <= 1, f"voided twice, {where}"
    assert end in ("final", "settlement"), f"it ends {end}, {where}"
    if end == "final":
        assert sum(found) == 0, f"the ledger holds {found}, {where}"
    else:
        assert kind == "compensated once", f"a person is asked for nothing, {where}"
    return end


@pytest.mark.slow
@pytest.mark.promise("D2", "D4", "D8")
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_killed_between_any_two_writes_leaves_nothing_paid_or_asks_a_person(
    tmp_path: Path, kind: Kind
) -> None:
    ends: dict[str, int] = {}
    total = points(tmp_path, kind)
    for at in range(1, total + 1):
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        assert in_process(live, str(directory), kind, at) == -9, "it was not killed"
        end = ended(directory, kind, f"killed at point {at}")
        ends[end] = ends.get(end, 0) + 1
        shutil.rmtree(directory)
    assert ends["final"] > 0
    assert kind != "compensated once" or ends["settlement"] >= 2


@pytest.mark.slow
@pytest.mark.promise("D2", "D4", "D8")
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_process_killed_while_it_takes_back_for_the_first_changes_nothing(
    tmp_path: Path, kind: Kind
) -> None:
    """The first dies right after the effect, the second at every third of its own points."""
    points(tmp_path, kind)
    effect = int((tmp_path / "counted" / "effect").read_text())
    for at in range(1, 200, 3):
        directory = tmp_path / f"killed-{at}"
        directory.mkdir()
        assert in_process(live, str(directory), kind, effect) == -9
        assert sum(amount for _, amount in lines(directory / "ledger")) > 0
        status = in_process(finish, str(directory), kind, at)
        ended(directory, kind, f"the second killed at point {at}")
        shutil.rmtree(directory)
        if status == 0:
            return
    raise AssertionError("the second process has no end")
