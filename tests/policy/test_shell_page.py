"""The page of rules on shell commands: its rulings are those of its rules, and its agent works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples import shell_rules
from placet import Placet, RunResult, ScriptedModel
from placet.agent.models.scripted import call, say
from placet.policy.shell import parse, ruling
from tests.tidy import ROOT

PAGE = (ROOT / "docs/reference/shell-rules.md").read_text(encoding="utf-8")
LEAST_ROWS = 20


def rows() -> list[tuple[str, str, str]]:
    """Give the table of rulings, as its cells read: a bar and a backquote may be escaped in one."""
    table = PAGE.partition("## Rulings\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [
        (
            text.strip().strip("`").replace("\\|", "|"),
            answer.strip(),
            why.strip().replace("\\`", "`"),
        )
        for text, answer, why in cells
    ]


@pytest.mark.parametrize("text, answer, why", rows())
def test_a_row_of_the_page_is_how_its_rules_rule(text: str, answer: str, why: str) -> None:
    ruled = ruling(parse(text), allow=shell_rules.ALLOW, deny=shell_rules.DENY)

    assert ruled.answer == answer
    assert why in ruled.reasons


def test_the_page_has_some_twenty_rulings_of_each_kind() -> None:
    assert len(rows()) >= LEAST_ROWS
    assert {answer for _, answer, _ in rows()} == {"allow", "ask", "deny"}


# --- the page's agent -----------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("one\n", encoding="utf-8")
    return tmp_path


def live(command: str) -> tuple[RunResult, str]:
    """Have the page's agent run one command; give the result, and what the model was told."""
    agent = shell_rules.coder(ScriptedModel([call("bash", command=command), say("ok")]))
    with Placet.open("sqlite:///placet.db", agents=[agent], approvers=["ana"]) as placet:
        result = placet.run_sync(agent, "go")
        transcript = placet.engine.store.transcript("main", "main", result.run_id)
        return result, "".join(row.body for row in transcript if row.kind == "result")


@pytest.mark.promise("G1")
def test_the_agent_runs_what_is_allowed_asks_about_the_rest_and_never_runs_what_is_denied(
    place: Path,
) -> None:
    ran, told = live("cat notes | wc -l")
    assert (ran.waiting, told.split()[0]) == ((), "1")
    (place / "placet.db").unlink()

    asked, _ = live("cat notes > copy")
    assert len(asked.waiting) == 1
    assert not (place / "copy").exists()
    (place / "placet.db").unlink()

    denied, told = live("ls; rm -rf notes")
    assert denied.waiting == ()
    assert told.startswith("Denied by policy")
    assert (place / "notes").exists()
