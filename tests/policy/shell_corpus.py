"""The corpus of shell commands, read: its rules, and each text with its ruling and why."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from placet.policy.shell import CommandRule

_READ: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("shell_corpus.toml").read_text(encoding="utf-8")
)


class Case(NamedTuple):
    """A text, and how it is ruled on."""

    text: str
    answer: str
    why: str


def _rule(given: dict[str, Any]) -> CommandRule:
    lists = {key: tuple(value) for key, value in given.items() if isinstance(value, list)}
    return CommandRule(**{**given, **lists})


ALLOW = [_rule(given) for given in _READ["rules"]["allow"]]
DENY = [_rule(given) for given in _READ["rules"]["deny"]]
CASES = [
    Case(text, answer, why)
    for group, answers in _READ.items()
    if group != "rules"
    for answer, cases in answers.items()
    for text, why in cases
]
