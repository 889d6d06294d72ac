"""The guarded function of docs/how-to/gate-another-loop.md does what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import guarded_refund
from placet import ActionRefused, ApprovalRequired, Placet
from placet.settings import current_account
from tests.tidy import ROOT


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> str:
    """Run Python in a process of its own, and give what it prints."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'examples'}"}
    ended = subprocess.run(
        [sys.executable, *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def started() -> str:
    return run(str(ROOT / "examples" / "guarded_refund.py"))


def decide(request: str, decision: Any, **more: Any) -> None:
    with Placet.open("sqlite:///placet.db") as placet:
        placet.decide_sync(request, decision, by=current_account(), **more)


def ledger(place: Path) -> list[str]:
    """Give what was paid, without its keys."""
    found = place / "ledger.txt"
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    return [line.partition(" ")[2] for line in lines]


@pytest.mark.slow
@pytest.mark.promise("G7")
def test_it_asks_and_ends_and_once_approved_it_pays_once(place: Path) -> None:
    said = started()
    request = said.removeprefix("waits for ")
    assert (started(), ledger(place)) == (said, [])
    decide(request, "approve")
    assert [started() for _ in range(2)] == ["refunded 12900 cents for A-42"] * 2
    assert ledger(place) == ["A-42 12900"]


def test_a_rejection_is_raised_with_its_reason(place: Path) -> None:
    with Placet.open("sqlite:///placet.db") as placet:
        refund = guarded_refund.guarded(placet)
        with pytest.raises(ApprovalRequired) as needed:
            refund("A-42", 12900)
        (request,) = needed.value.requests
        placet.decide_sync(request, "reject", by=current_account(), reason="sold as seen")
        with pytest.raises(ActionRefused, match="sold as seen") as refused:
            refund("A-42", 12900)
        assert refused.value.code == "rejected"
    assert ledger(place) == []


@pytest.mark.slow
def test_a_worker_with_the_app_calls_it_once_it_is_decided(place: Path) -> None:
    request = started().removeprefix("waits for ")
    decide(request, "approve")
    run("-m", "placet", "worker", "--once", "--app", "guarded_refund:app")
    assert ledger(place) == ["A-42 12900"]
    assert started() == "refunded 12900 cents for A-42"
