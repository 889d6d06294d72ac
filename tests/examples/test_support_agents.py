"""The agents of docs/how-to/build-an-agent.md do what the page says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples import support_agents
from placet import Placet
from placet.settings import current_account


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("OPENAI_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def placet() -> Iterator[Placet]:
    """Open a store with the page's agents; `ana` decides."""
    agents = support_agents.agents()
    with Placet.open("sqlite:///placet.db", agents=agents, approvers=["ana"]) as opened:
        yield opened


def results(placet: Placet, run_id: str, session: str = "main") -> list[str]:
    """Give what the model was told of each call, in place."""
    rows = placet.engine.store.transcript("main", session, run_id)
    return [row.body for row in rows if row.kind == "result"]


def test_the_first_message_waits_for_the_account_that_runs_it() -> None:
    waits = support_agents.first_message()
    assert (waits.stop, len(waits.waiting)) == ("approval_required", 1)
    me = current_account()
    with Placet.open("sqlite:///placet.db", agents=[support_agents.support]) as placet:
        placet.decide_sync(waits.waiting[0], "approve", by=me)
        ended = placet.resume_sync(waits.run_id)
    assert (ended.stop, ended.answer) == ("final", "Your money is on its way.")


def test_the_clients_of_the_page_can_be_made_without_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    names = [client.name for client in support_agents.models()]
    assert names == ["claude-sonnet-4-5", "gpt-5-mini", "qwen3"]


def test_the_watcher_shows_the_text_and_the_tools(
    placet: Placet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert support_agents.watched_message(placet).stop == "approval_required"
    assert capsys.readouterr().out == "\n[order_status]\nIt arrived broken: I refund it."


def test_the_clerks_question_takes_yes_or_no_from_whom_it_acts_for(placet: Placet) -> None:
    waits = placet.run_sync("clerk", "What about the parcel?", requester="rob")
    (question,) = waits.waiting
    assert placet.show_sync(question).kind == "question"
    placet.answer_sync(question, "Yes", by="rob")
    assert placet.resume_sync(waits.run_id).stop == "final"
    assert results(placet, waits.run_id) == ["rob answered: yes"]


def test_a_refund_under_the_lead_waits_on_the_leads_run(placet: Placet) -> None:
    waits = placet.run_sync("lead", "Deal with A-42.")
    (request,) = waits.waiting
    card = placet.show_sync(request)
    assert (card.agent, card.tool) == ("support", "refund")
    assert card.run != waits.run_id
    placet.decide_sync(request, "approve", by="ana")
    ended = placet.resume_sync(waits.run_id)
    assert (ended.stop, ended.answer) == ("final", "It is dealt with.")
    assert results(placet, waits.run_id) == ["Your money is on its way."]


@pytest.mark.parametrize(
    "tool, cents, word",
    [("order_status", 0, "allow"), ("refund", 50_000, "ask"), ("refund", 50_001, "deny")],
)
def test_the_leads_policy_asks_about_refunds_and_denies_large_ones(
    tool: str, cents: int, word: str
) -> None:
    assert support_agents.large_refunds(tool, {"cents": cents}) == word


def test_in_mode_think_a_call_stops_the_run_and_nothing_runs(placet: Placet) -> None:
    ended = placet.run_sync("support", "Think about it.", mode="think")
    assert ended.stop == "tool_policy_blocked"
    (told,) = results(placet, ended.run_id)
    assert told.startswith("Denied by policy (mode)")
