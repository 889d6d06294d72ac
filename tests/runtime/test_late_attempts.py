"""An attempt that its process comes to late: it stood still before it entered the body (D4)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from placet import NotDone, tool
from placet.agent.models.scripted import call, say
from placet.core.deciding_effects import ATTEMPT_MARGIN
from placet.runtime import attempts
from tests.runtime.desk import Desk, effect

PAY = [call("pay", what="a"), say("ok")]


class Sleeper:
    """The time since the machine began, of a process that stands still once, after an intent."""

    def __init__(self, stands_still: timedelta) -> None:
        self._looks = 0
        self._stands_still = stands_still.total_seconds()

    def __call__(self) -> float:
        self._looks += 1
        return self._stands_still if self._looks > 1 else 0.0


@pytest.mark.promise("D4")
def test_who_stood_still_for_too_long_after_the_intent_makes_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(attempts, "awake", Sleeper(ATTEMPT_MARGIN + timedelta(seconds=1)))
    with Desk(tmp_path, PAY, [effect(done, approval="never")]) as desk:
        assert desk.start().stop == "final"
        assert "the process stood still" in desk.results()[0]
        assert "did not" in desk.results()[0]
    assert done == []


@pytest.mark.promise("D4")
def test_where_another_attempt_is_worth_while_it_is_made_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    times = iter([0.0, 100.0, 100.0, 100.0, 100.0])
    monkeypatch.setattr(attempts, "awake", lambda: next(times, 100.0))
    retried = effect(done, approval="never", retries=1, backoff=timedelta(0))
    with Desk(tmp_path, PAY, [retried]) as desk:
        assert desk.start().stop == "final"
        assert desk.results() == ["pay a done"]
    assert done == ["pay a"]


@pytest.mark.promise("D4")
def test_an_attempt_that_was_not_made_does_not_speak_for_one_that_was_lost(tmp_path: Path) -> None:
    raised: list[Exception] = [ConnectionError("lost"), NotDone("not now")]

    @tool(approval="never", idempotent=True, backoff=timedelta(0))
    def pay(what: str) -> str:
        """Pay."""
        raise raised.pop(0)

    with Desk(tmp_path, PAY, [pay]) as desk:
        (settlement,) = desk.start().waiting
        assert desk.show(settlement).kind == "settlement"
        assert raised == []
