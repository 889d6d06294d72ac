"""The trip of docs/how-to/write-a-tool.md: booked whole, or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import trip
from tests.runtime.desk import Desk
from tests.tidy import ROOT


@pytest.mark.promise("D8")
def test_what_the_model_is_told_is_what_the_page_says(tmp_path: Path) -> None:
    with Desk(tmp_path, agent=trip.travel_agent()) as desk:
        assert desk.start().answer == "No hotel was to be had, so nothing is booked."
        told = desk.results()[-1]
    assert trip.bookings == {}
    assert told in (ROOT / "docs/how-to/write-a-tool.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_runs_by_itself(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples/trip.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "booked: nothing"
