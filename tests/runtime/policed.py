"""A place for the tests of policy files: a directory with one, and what was done there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placet.agent.models.scripted import call, say
from tests.runtime.desk import Desk, effect


class Place:
    """A directory with a policy file, and what was done there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.policy = directory / "placet.policy.toml"
        self.done: list[str] = []

    def write(self, text: str) -> None:
        self.policy.write_text("version = 1\n" + text, encoding="utf-8")

    def desk(self, script: Any, *tools: Any, **more: Any) -> Desk:
        declared = tools or (effect(self.done, approval="never", surface="payments"),)
        return Desk(self.directory, script, declared, policy=str(self.policy), **more)


def rule(ruling: str, *lines: str, name: str = "a rule") -> str:
    return "\n".join(["[[rule]]", f'name = "{name}"', f'ruling = "{ruling}"', *lines, ""])


PAY = [call("pay", what="a"), say("ok")]
TOOLS = 'tools = ["pay"]'
