"""The cases of `placet policy test`: calls, and how they are expected to be ruled.

[[case]]
name = "a large refund is asked"
tool = "issue_refund"
arguments = {order = "A-1", amount = 1500}
requester = "rita"
expect = "ask"
rule = "big refunds"
approvers = ["ana", "bo"]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placet.policy.faults import Fault, PolicyTrouble
from placet.policy.fields import Fields, Table
from placet.policy.lines import Path, lines_of
from placet.policy.rules import STRICTNESS, Answer

KEYS = (
    "name",
    "tool",
    "arguments",
    "raw_arguments",
    "agent",
    "session",
    "requester",
    "expect",
    "rule",
    "approvers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call, and the ruling that is expected; None: of that nothing is expected.

    `arguments` are the text that a model would write.
    """

    name: str
    line: int
    tool: str
    arguments: str
    expect: Answer
    agent: str = ""
    session: str = "main"
    requester: str = ""
    rule: str | None = None
    approvers: tuple[str, ...] | None = None


def read_cases(data: bytes, *, file: str) -> tuple[Case, ...]:
    """Read a file of cases; raises PolicyTrouble with all that is wrong with it."""
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
        found = tomllib.loads(text)
        fields = Fields(lines_of(text), kind="a file of cases")
    except (ValueError, RecursionError) as error:
        told = f"It is no TOML: {error}."
        broken = [Fault(line=0, message=told)]
        raise PolicyTrouble(file, broken, code="cases_broken") from error
    table = fields.table(found, (), ("case",))
    cases = [_case(fields, value, path) for value, path in fields.tables(table, (), "case")]
    if not cases and not fields.faults:
        fields.fault((), "There is no case in it: each begins with [[case]].")
    if fields.faults:
        raise PolicyTrouble(file, fields.faults, code="cases_broken")
    return tuple(cases)


def _case(fields: Fields, value: object, path: Path) -> Case:
    table = fields.table(value, path, KEYS)
    tool = fields.name(table.get("tool"), (*path, "tool"), "tool")
    approvers = None
    if "approvers" in table:
        empty = table["approvers"] == []
        approvers = () if empty else fields.names(table, path, "approvers")
    return Case(
        name=fields.text(table, path, "name") or tool,
        line=fields.line(path),
        tool=tool,
        arguments=_arguments(fields, table, path),
        expect=fields.word(table, path, "expect", tuple(STRICTNESS), must=True) or "deny",
        agent=fields.text(table, path, "agent"),
        session=fields.text(table, path, "session") or "main",
        requester=fields.text(table, path, "requester"),
        rule=fields.text(table, path, "rule") or None,
        approvers=approvers,
    )


def _arguments(fields: Fields, table: Table, path: Path) -> str:
    if ("arguments" in table) is ("raw_arguments" in table):
        fields.fault(path, "A case has either arguments, as a table, or raw_arguments, as a text.")
        return ""
    if "raw_arguments" in table:
        return fields.text(table, path, "raw_arguments")
    value: Mapping[str, Any] = table["arguments"]
    if not isinstance(value, dict):
        fields.fault((*path, "arguments"), "arguments must be a table.")
        return ""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        fields.fault((*path, "arguments"), f"arguments are no JSON: {error}.")
        return ""
