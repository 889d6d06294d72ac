"""How often people are asked, how fast they decide, and how often they approve, by rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from placet import tool
from placet.agent.models.scripted import calls, raw_call, say
from placet.runtime.fatigue import count
from tests.runtime.desk import Desk

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_figures_are_counted_from_the_log(tmp_path: Path) -> None:
    now = [START]
    paid: list[int] = []

    @tool(surface="payments")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    asks = [raw_call("pay", f'{{"amount": {amount}}}', id=f"c{amount}") for amount in (1, 2, 3, 4)]
    with Desk(tmp_path, [calls(*asks), say("done")], [pay], clock=lambda: now[0]) as desk:
        first, second, third, fourth = desk.start().waiting
        now[0] += timedelta(seconds=1)
        desk.decide(first, "approve")
        now[0] += timedelta(seconds=59)
        desk.decide(second, "reject", reason="no")
        desk.decide(third, "edit", arguments={"amount": 30})
        now[0] += timedelta(days=2)
        desk.resume()
        found = count([desk.log()])
        assert fourth
    (rule,) = found.rules
    figures = found.rules[rule]
    assert rule == "tool:pay"
    assert (found.runs, found.asked, found.asks_per_run) == (1, 4, 4.0)
    assert (figures.approved, figures.rejected, figures.edited) == (1, 1, 1)
    assert (figures.decided, figures.quick) == (3, 1)
    assert figures.expired >= 1
    assert figures.approve_rate == 1 / 3
    assert figures.mean_wait == timedelta(seconds=(1 + 60 + 60) / 3)


def test_nothing_is_divided_by_nothing() -> None:
    found = count([])
    assert (found.runs, found.asked, found.asks_per_run) == (0, 0, None)
