"""From a tool's declaration to a ruling: allow, ask or deny.

Every doubt is an ask: an approval function that raises, takes too long, or answers anything but a
plain yes or no means that a person decides (G1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from datetime import timedelta

from placet.core.canonical import JsonValue
from placet.core.values import Allow, Ask, Needs, Ruling
from placet.runtime.declarations import Declaration
from placet.runtime.threads import in_thread, without_exit

#: How long an approval function may take before its silence means ask.
APPROVAL_FUNCTION_LASTS = timedelta(seconds=5)

#: How long a request waits for people where nothing else is said.
REQUEST_LASTS = timedelta(hours=24)


async def rule(
    tool: Declaration,
    arguments: Mapping[str, JsonValue] | str,
    *,
    approvers: tuple[str, ...],
    lasts: timedelta = REQUEST_LASTS,
) -> Ruling:
    """Rule on a call; raw text as arguments means that they could not be read, and asks (G4)."""
    reason = await _reason_to_ask(tool, arguments)
    name = f"tool:{tool.name}"
    if reason is None:
        return Allow(rule=name)
    return Ask(rule=name, needs=Needs(approvers=approvers), lasts=lasts, reason=reason)


async def _reason_to_ask(tool: Declaration, arguments: Mapping[str, JsonValue] | str) -> str | None:
    if isinstance(arguments, str):
        return "its arguments cannot be read"
    if tool.approval == "never":
        return None
    if tool.approval == "always":
        return "the tool always asks"
    asks = tool.approval
    shown = deepcopy(dict(arguments))
    try:
        answer: object = await asyncio.wait_for(
            in_thread(
                without_exit(lambda: asks(shown)),
                name=f"approval of {tool.name}",
            ),
            APPROVAL_FUNCTION_LASTS.total_seconds(),
        )
    except Exception as error:  # noqa: BLE001  # Fails closed: a person is asked.
        return f"its approval function failed: {type(error).__name__}"
    if answer is False:
        return None
    if answer is True:
        return "its approval function asks"
    if asyncio.iscoroutine(answer):
        answer.close()
    return "its approval function answered neither yes nor no"
