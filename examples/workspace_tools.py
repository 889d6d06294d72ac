"""The agent of docs/how-to/use-built-in-tools.md: it works on the current directory.

tests/examples/test_workspace_tools.py runs it, and tests/test_docs.py holds the page's code to the
part between the marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placet import Agent, ScriptedModel, Workspace, ask_person
from placet.agent.models import ModelClient
from placet.agent.models.scripted import call, say

HARMLESS = frozenset({"git status", "git diff", "python -m unittest"})


# Shown: a workspace.
def may_reach_out(arguments: Mapping[str, Any]) -> bool:
    """Ask before any command that is not known to be harmless."""
    return arguments["command"] not in HARMLESS


def coder(model: ModelClient) -> Agent:
    workspace = Workspace(Path.cwd(), protected=[".env", "secrets"])
    return Agent(
        name="coder",
        model=model,
        tools=[*workspace.tools(bash=may_reach_out), ask_person],
    )


# Shown until here.
def agent() -> Agent:
    """Give the agent with a script: `--app workspace_tools:agent`."""
    script = [call("write", path="notes.txt", content="one\n"), say("Noted.")]
    return coder(ScriptedModel(script))
