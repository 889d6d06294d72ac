"""The words of docs/internals/design.md, section 2, as far as a machine can hold them in names.

Word parts are in the singular. What is not here is left to readers, because the word has a second,
right meaning (`message`, `view`, `turn`, `response`, `task`; outside core `thread` and `lock`).
"""

from __future__ import annotations

from collections.abc import Mapping

BANNED: Mapping[tuple[str, ...], str] = {
    ("org",): "tenant",
    ("organization",): "tenant",
    ("workspace",): "tenant",
    ("chat",): "session",
    ("conversation",): "session",
    ("thread", "id"): "session_id",
    ("job",): "run",
    ("tick",): "step",
    ("turn", "id"): "occurrence",
    ("function", "call"): "tool_call",
    ("guardrail",): "policy",
    ("verdict",): "ruling",
    ("ticket",): "request",
    ("reviewer",): "approver",
    ("always", "approve"): "grant",
    ("auto", "approve"): "grant",
    ("ttl",): "deadline",
    ("timeout", "at"): "deadline",
    ("backend",): "store",
    ("plugin",): "adapter",
}

BANNED_IN_CORE: Mapping[tuple[str, ...], str] = {
    ("thread",): "session",
    ("lock",): "lease",
}

EXEMPT: Mapping[tuple[str, str], str] = {}
"""(path, name) of a name that may say a banned word, and why; one without use is an error."""
