"""The agent of docs/how-to/use-built-in-tools.md does what the page says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples import workspace_tools
from placet import Placet, ScriptedModel
from placet.agent.models.scripted import call, calls, say

Told = Callable[..., list[str]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Let the page's agent make calls in an empty directory; give what it was told of each."""
    monkeypatch.chdir(tmp_path)
    opened: list[Placet] = []

    def make(*proposed: object) -> list[str]:
        turns = [calls(*(call(name, **arguments) for name, arguments in proposed)), say("ok")]  # type: ignore[misc,attr-defined]  # pairs
        agent = workspace_tools.coder(ScriptedModel(turns))
        placet = Placet.open("sqlite:///placet.db", agents=[agent], approvers=["ana"])
        opened.append(placet)
        result = placet.run_sync(agent, "go")
        for request in result.waiting:
            placet.decide_sync(request, "reject", by="ana", reason="no")
        assert placet.resume_sync(result.run_id).stop == "final"
        rows = placet.engine.store.transcript("main", "main", result.run_id)
        return [row.body for row in rows if row.kind == "result"]

    yield make
    for placet in opened:
        placet.close()
