"""Policy files for tests: the text of one, and what it says of a call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from placet.policy.conditions import Facts
from placet.policy.evaluating import Evaluation, evaluate
from placet.policy.faults import PolicyTrouble
from placet.policy.reading import read
from placet.policy.rules import Policy
from placet.policy.ruling import Circle, Declared, Ruled, rule_on

NAME = "placet.policy.toml"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY = timedelta(hours=24)

#: What tools declare.
NEVER = Declared(rule="tool:pay", reason=None)
ALWAYS = Declared(rule="tool:pay", reason="the tool always asks")
CERTAIN = Declared(rule="tool:pay", reason="its arguments cannot be read", lowers=False)


def policy(text: str, *, version: bool = True) -> Policy:
    """Read a policy from the text of a file."""
    head = "version = 1\n" if version else ""
    return read((head + text).encode(), file=NAME)


def faults(text: str) -> list[str]:
    """Give what is wrong with a file, a line each."""
    try:
        read(text.encode(), file=NAME)
    except PolicyTrouble as trouble:
        return [line.removeprefix(f"{NAME}:") for line in trouble.lines]
    return []


def rule(ruling: str = "ask", name: str = "a rule", **more: object) -> str:
    """Give the text of a rule; a value that is a text stands in the file as it is given."""
    lines = [f"{key} = {value}" for key, value in more.items()]
    return "\n".join(["[[rule]]", f'name = "{name}"', f'ruling = "{ruling}"', *lines, ""])


def call(arguments: Mapping[str, Any] | str = {}, **more: Any) -> Facts:
    """Give the facts of a call of the tool `pay`."""
    about: dict[str, Any] = {
        "tool": "pay",
        "surface": "payments",
        "agents": ("support",),
        "session": "s",
        "requester": "rita",
    }
    return Facts(arguments=arguments, **{**about, **more})


def said(text: str, facts: Facts) -> Evaluation:
    """Say what a file's rules say of a call."""
    return evaluate(policy(text), facts, lasts=DAY)


def ruled(
    text: str,
    facts: Facts,
    declared: Declared = NEVER,
    *,
    approvers: tuple[str, ...] = ("ana",),
    now: datetime = NOW,
    nobody: bool = False,
) -> Ruled:
    """Rule on a call by a file and a declaration."""
    circle = Circle(approvers=approvers, now=now, lasts=DAY, nobody=nobody)
    return rule_on(policy(text), facts, declared, circle)
