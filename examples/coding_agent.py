"""A coding agent on a repository: it asks before `git push`, and before it touches a lock file.

    python coding_agent.py scratch          # makes a repository to try it on, and says where
    cd scratch/work && placet chat --app coding_agent:agent     # with this directory on PYTHONPATH

With ANTHROPIC_API_KEY or OPENAI_API_KEY a real model speaks; without one, a script does, which
mends the scratch repository's bug. The tools work in the current directory. `bash` is no sandbox.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from placet import Agent, AnthropicModel, OpenAIModel, ScriptedModel, Workspace, ask_person
from placet.agent.models import ModelClient
from placet.agent.models.scripted import call, calls, say

LOCK_FILES = frozenset({"requirements.lock", "uv.lock", "poetry.lock", "package-lock.json"})

#: Commands that only look or test, or that a person can take back. Whatever else is asked.
_PLAIN = re.compile(r"[\w./=:@%+,'\" -]+")
_HARMLESS = (
    "git status",
    "git diff",
    "git log",
    "git add",
    "git commit",
    "ls",
    "python -m unittest",
    "python -m pytest",
)


def touches_lock_file(arguments: Mapping[str, Any]) -> bool:
    """Ask before a lock file is written."""
    return PurePosixPath(str(arguments["path"])).name in LOCK_FILES


def may_reach_out(arguments: Mapping[str, Any]) -> bool:
    """Ask before any command that is not plainly one of the harmless ones; `git push` is none."""
    command = str(arguments["command"])
    plain = _PLAIN.fullmatch(command) is not None and "--output" not in command
    return not plain or not any(
        command == known or command.startswith(f"{known} ") for known in _HARMLESS
    )


def model() -> ModelClient:
    """Give the model whose key is there, or the script."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return AnthropicModel(os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5"))
    if os.environ.get("OPENAI_API_KEY"):
        return OpenAIModel(os.environ.get("OPENAI_MODEL", "gpt-5-mini"))
    return ScriptedModel(SCRIPT)


SCRIPT = [
    calls(call("read", path="prices.py"), call("read", path="test_prices.py")),
    calls(
        call(
            "edit",
            path="prices.py",
            old="return cents * percent",
            new="return cents * percent // 100",
        ),
        text="The discount is not a percentage: I divide by 100.",
    ),
    call("bash", command="python -m unittest -q"),
    calls(
        call("edit", path="requirements.lock", old="left-pad==1.0.0", new="left-pad==1.3.0"),
        text="left-pad 1.0.0 is yanked; the lock file should name 1.3.0.",
    ),
    calls(
        call("bash", command="git add prices.py requirements.lock"),
        call("bash", command="git commit -q -m 'Count the discount in percent'"),
        text="The tests pass: I commit.",
    ),
    call("bash", command="git push -q origin main"),
    say("The discount is counted in percent now; the tests pass, and the change is pushed."),
]


def coder(workspace: Workspace, *, speaks: ModelClient | None = None) -> Agent:
    """Give the agent for a workspace."""
    return Agent(
        name="coder",
        model=speaks or model(),
        tools=[
            *workspace.tools(write=touches_lock_file, edit=touches_lock_file, bash=may_reach_out),
            ask_person,
        ],
        instructions="You are a careful programmer. Read before you change, and run the tests.",
    )


def agent() -> Agent:
    """Give the agent for the current directory: `--app coding_agent:agent`."""
    return coder(Workspace(Path.cwd()))


def scratch(place: Path) -> Path:
    """Make a repository with a bug, and a remote beside it; give the repository."""
    work, remote = place / "work", place / "remote.git"
    work.mkdir(parents=True)
    files = {
        "prices.py": "def discount(cents: int, percent: int) -> int:\n    return cents * percent\n",
        "test_prices.py": (
            "import unittest\n\nfrom prices import discount\n\n\n"
            "class Prices(unittest.TestCase):\n"
            "    def test_a_discount_is_in_percent(self) -> None:\n"
            "        self.assertEqual(discount(2000, 10), 200)\n"
        ),
        "requirements.lock": "left-pad==1.0.0\n",
        ".gitignore": "__pycache__/\nplacet.db*\n",
    }
    for name, text in files.items():
        (work / name).write_text(text, encoding="utf-8")
    _git(place, "init", "-q", "--bare", "--initial-branch=main", str(remote))
    _git(work, "init", "-q", "--initial-branch=main")
    _git(work, "config", "user.name", "coder")
    _git(work, "config", "user.email", "coder@localhost")
    _git(work, "remote", "add", "origin", str(remote))
    _git(work, "add", ".")
    _git(work, "commit", "-q", "-m", "Prices")
    _git(work, "push", "-q", "origin", "main")
    return work


def _git(where: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=where, check=True)


if __name__ == "__main__":
    print(scratch(Path(sys.argv[1]).resolve()))
