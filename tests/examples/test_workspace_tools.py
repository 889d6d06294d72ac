"""The agent of docs/how-to/use-built-in-tools.md does what the page says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples import workspace_tools
from placet import Placet, RunResult, ScriptedModel
from placet.agent.messages import AssistantMessage
from placet.agent.models.scripted import call, say

Open = Callable[[AssistantMessage], tuple[Placet, RunResult]]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Have the page's agent make one call in an empty directory; `ana` decides."""
    monkeypatch.chdir(tmp_path)
    made: list[Placet] = []

    def begin(turn: AssistantMessage) -> tuple[Placet, RunResult]:
        agent = workspace_tools.coder(ScriptedModel([turn, say("ok")]))
        placet = Placet.open("sqlite:///placet.db", agents=[agent], approvers=["ana"])
        made.append(placet)
        return placet, placet.run_sync(agent, "go")

    yield begin
    for placet in made:
        placet.close()


def told(placet: Placet, result: RunResult) -> str:
    """Approve what waits, and give what the model was told of its call."""
    for request in result.waiting:
        placet.decide_sync(request, "approve", by="ana")
    assert placet.resume_sync(result.run_id).stop == "final"
    rows = placet.engine.store.transcript("main", "main", result.run_id)
    (row,) = [row for row in rows if row.kind == "result"]
    return row.body


def test_a_write_waits_with_its_diff_and_is_asked_about_anew_when_the_file_changes(
    opened: Open,
) -> None:
    placet, result = opened(call("write", path="notes.txt", content="one\n"))
    (request,) = result.waiting
    card = placet.show_sync(request)
    assert card.preview == "--- /dev/null\n+++ notes.txt\n@@ -0,0 +1 @@\n+one"
    placet.decide_sync(request, "approve", by="ana")
    Path("notes.txt").write_text("two\n", encoding="utf-8")
    (anew,) = placet.resume_sync(result.run_id).waiting
    assert "-two\n+one" in placet.show_sync(anew).preview
    assert Path("notes.txt").read_text(encoding="utf-8") == "two\n"


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/hostname", ".env", "secrets/key", "placet.db", "placet.toml"]
)
def test_what_is_outside_protected_or_placets_own_is_not_read(opened: Open, path: str) -> None:
    Path("secrets").mkdir()
    for name in (".env", "secrets/key", "placet.toml"):
        Path(name).write_text("", encoding="utf-8")
    placet, result = opened(call("read", path=path))
    assert result.waiting == ()
    assert "out" in told(placet, result).partition("\n")[0]


def test_bash_asks_and_reads_what_it_is_asked_to(opened: Open) -> None:
    Path(".env").write_text("password\n", encoding="utf-8")
    placet, result = opened(call("bash", command="cat .env"))
    assert placet.show_sync(result.waiting[0]).effect.startswith("runs a shell command")
    assert told(placet, result) == "password\n(exit code 0)"


def test_a_harmless_command_asks_nobody_and_sees_no_key(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Any = workspace_tools.HARMLESS | {"echo $MY_API_KEY; echo $PLACET_APPROVER_TOKEN"}
    monkeypatch.setattr(workspace_tools, "HARMLESS", seen)
    monkeypatch.setenv("MY_API_KEY", "a-key")
    placet, result = opened(call("bash", command="echo $MY_API_KEY; echo $PLACET_APPROVER_TOKEN"))
    assert result.waiting == ()
    assert told(placet, result).strip() == "(exit code 0)"


def test_the_app_of_the_page_gives_an_agent_for_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = workspace_tools.agent()
    names = [each.declaration.name for each in agent.tools]
    assert names == ["read", "write", "edit", "bash", "ask_person"]
    assert agent.tools[0].declaration.scopes == (f"workspace:{tmp_path.resolve()}",)
