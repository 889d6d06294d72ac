"""The rules of docs/reference/shell-rules.md, and an agent whose `bash` is bound by them.

tests/policy/test_shell_page.py holds the page's rulings to these rules, and runs the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placet import Agent, Workspace
from placet.agent.models import ModelClient
from placet.policy.shell import CommandRule, ShellRuling, parse, ruling

# Shown: rules.
ALLOW = [
    CommandRule(words=("cat", "**")),
    CommandRule(words=("grep", "**")),
    CommandRule(words=("ls", "**"), assigns=("LC_ALL",)),
    CommandRule(words=("wc", "**")),
    CommandRule(words=("sort", "**"), writes=True),
    CommandRule(words=("git", "status", "**"), options=("-s", "--short", "--branch")),
    CommandRule(words=("git", "log", "**"), options=("--oneline", "--stat", "-n", "-[0-9]*")),
    CommandRule(words=("git", "diff", "**"), unless=("--no-index",)),
    CommandRule(words=("make", "test")),
    CommandRule(words=("pytest", "**")),
    CommandRule(words=("find", "**")),
    CommandRule(words=("xargs", "**")),
    CommandRule(words=("timeout", "*", "**")),
    CommandRule(words=("bash", "-c", "*")),
]
DENY = [
    CommandRule(words=("rm", "**"), having=("-[rR]*", "-[!-]*[rR]*", "--recursive")),
    CommandRule(words=("git", "push", "**"), having=("-f*", "-[!-]*f*", "--force*", "+*")),
    CommandRule(words=("sh",), name="a shell that reads its input"),
]


# Shown: an agent that is bound by them.
def ruled(arguments: Mapping[str, Any]) -> ShellRuling:
    return ruling(parse(str(arguments["command"])), allow=ALLOW, deny=DENY)


def asks(arguments: Mapping[str, Any]) -> bool:
    return ruled(arguments).answer != "allow"


def policy(tool: str, arguments: Mapping[str, Any]) -> str:
    return "deny" if tool == "bash" and ruled(arguments).answer == "deny" else "allow"


def coder(model: ModelClient) -> Agent:
    workspace = Workspace(Path.cwd())
    return Agent(name="coder", model=model, tools=workspace.tools(bash=asks), policy=policy)


# Shown until here.
