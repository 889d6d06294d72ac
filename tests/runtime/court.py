"""A session, the trace of its log, and what the program `agentack` says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from placet.core import commands as c
from placet.core.values import Occurrence, Ruling
from placet.runtime.export_agentack import trace
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Recorded
from tests.stores.build import ANN, HOLDER, PEOPLE, Clock, Session, asking, intent, opened

FIRST = Occurrence("run_1", 1, 0)

#: Every call of the tool needs an approval; or only those that people were asked about.
TOOL, ASKED = ("issue-refund:*",), ("issue-refund:ask",)

PASSES: tuple[int, dict[str, int]] = (0, {})


class Court:
    """A session, the trace of its log, and what agentack says of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = Clock()
        self.store = SqliteStore(directory / "placet.db", clock=self.clock)
        self.session = Session(self.store)
        self.session.start()

    def ask(self, ruling: Ruling | None = None, *, step: int = 1, **more: Any) -> str:
        return opened(self.session.propose(ruling or asking(), step=step, **more))[0]

    def drive(self, run: str = "run_1") -> None:
        """Take the lease, whoever of this process has it."""
        answer = self.session.do(c.TakeLease(run=run, holder=HOLDER, gone=HOLDER))
        self.session.fences[run] = answer.state.runs[run].fence

    def run(self, at: Occurrence = FIRST, **more: Any) -> None:
        self.drive(at.run)
        self.session.conclude(intent(self.session.begin(at, **more)))

    def edit(self, request: str, **arguments: int) -> str:
        proposal = self.session.sound(FIRST, salt="cd" * 16, **arguments)
        made = self.session.do(
            c.Edit(
                request=request,
                by=ANN,
                eligible=PEOPLE,
                proposal=proposal,
                changes="amount",
                policy_version="p1",
            )
        )
        return opened(made)[0]

    def log(self) -> list[Recorded]:
        return list(self.store.events("main", "s1"))

    def trace(self, rows: list[Recorded] | None = None) -> list[dict[str, Any]]:
        made = trace(
            self.log() if rows is None else rows,
            tenant="main",
            session="s1",
            read=lambda ref: self.store.payload("main", "s1", ref),
        )
        return list(made)

    def judged(
        self, rows: list[Recorded] | None = None, *, patterns: tuple[str, ...] = TOOL
    ) -> tuple[int, dict[str, int]]:
        """Let agentack check the trace: its exit code, and its findings by rule."""
        lines = [json.dumps(line) for line in self.trace(rows)]
        file, policy = self.directory / "trace.jsonl", self.directory / "policy.toml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        policy.write_text(
            f"version = 1\n[approval]\nmax_age_seconds = 60\nrequire_for = {json.dumps(patterns)}\n"
        )
        report = self.directory / "report.json"
        words = ["check", str(file), "--policy", str(policy), "--json", str(report)]
        ran = subprocess.run(
            [sys.executable, "-m", "agentack", *words], capture_output=True, text=True, check=False
        )
        found = json.loads(report.read_text(encoding="utf-8"))
        counts: dict[str, int] = _rule_counts(found)
        return ran.returncode, counts


def _rule_counts(document: Any) -> dict[str, int]:
    """Find the counts in a report, whatever is around them."""
    if isinstance(document, dict):
        if "rule_counts" in document:
            return dict(document["rule_counts"])
        document = list(document.values())
    if isinstance(document, list):
        for part in document:
            if (found := _rule_counts(part)) or "rule_counts" in str(part):
                return found
    return {}
