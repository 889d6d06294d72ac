"""The LangGraph agent of docs/how-to/gate-another-loop.md does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from examples import langgraph_refund
from placet import Placet
from placet.settings import current_account


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ledger(place: Path) -> list[str]:
    """Give what was paid, without its keys."""
    found = place / "ledger.txt"
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    return [line.partition(" ")[2] for line in lines]


@pytest.mark.promise("D2", "G7")
def test_the_thread_waits_and_goes_on_once_after_the_decision(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    langgraph_refund.main()
    run, _, _, request = capsys.readouterr().out.split()
    assert ledger(place) == []
    with (
        Placet.open("sqlite:///placet.db") as placet,
        SqliteSaver.from_conn_string("threads.db") as threads,
    ):
        graph = langgraph_refund.graph_of(placet, threads)
        assert placet.show_sync(request).effect == "pays 12900 cents back for A-42"
        placet.decide_sync(request, "approve", by=current_account())
        for _ in range(2):
            assert placet.resume_sync(run).stop == "final"
        state = graph.get_state({"configurable": {"thread_id": "customer-7"}})
        assert state.values["messages"][-1].content == "Your money is on its way."
    assert ledger(place) == ["A-42 12900"]
