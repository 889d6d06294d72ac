"""From a tool's declaration, and its agents' policies, to a ruling: allow, ask or deny.

The strictest wins: a policy can only ask or deny where the tool itself would not have asked.

Every doubt is an ask: an approval function that raises, takes too long, or answers anything but a
plain yes or no means that a person decides (G1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta

from placet.core.canonical import JsonValue
from placet.core.values import REQUESTER, Allow, Ask, Deny, Needs, Ruling
from placet.runtime.declarations import Declaration, PolicyFunction
from placet.runtime.threads import in_thread

#: How long an approval function may take before its silence means ask.
APPROVAL_FUNCTION_LASTS = timedelta(seconds=5)

#: How long a request waits for people where nothing else is said.
REQUEST_LASTS = timedelta(hours=24)


async def rule(
    tool: Declaration,
    arguments: Mapping[str, JsonValue] | str,
    *,
    approvers: tuple[str, ...],
    policies: Sequence[tuple[str, PolicyFunction]] = (),
) -> Ruling:
    """Rule on a call; raw text as arguments means that they could not be read, and asks (G4).

    `approvers` are those who can be asked, and empty where nobody may be. `policies` are those of
    the agent and of the agents that it stands under, with the agents' names.
    """
    name = f"tool:{tool.name}"
    if tool.kind == "question":
        # Whoever the run acts for may answer too, unless nobody is to be asked at all.
        approvers = (*approvers, REQUESTER) if approvers else ()
    reason = await _reason_to_ask(tool, arguments)
    if not isinstance(arguments, str):
        for agent, policy in policies:
            word = await _word_of(policy, tool.name, arguments)
            if word == "deny":
                return Deny(rule=f"agent:{agent}", reason=f"the policy of agent {agent} denies it")
            if word != "allow" and reason is None:
                name, reason = f"agent:{agent}", f"the policy of agent {agent} {word}"
    if reason is None:
        return Allow(rule=name)
    return Ask(rule=name, needs=Needs(approvers=approvers), lasts=REQUEST_LASTS, reason=reason)


async def _word_of(policy: PolicyFunction, tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Consult an agent's policy: `allow`, `deny`, or why a person is asked."""
    shown = deepcopy(dict(arguments))
    try:
        answer = await _consulted(lambda: policy(tool, shown), name=f"policy on {tool}")
    except Exception as error:  # noqa: BLE001  # Fails closed: a person is asked.
        return f"failed: {type(error).__name__}"
    if isinstance(answer, str) and answer in ("allow", "deny"):
        return answer
    return "asks" if isinstance(answer, str) and answer == "ask" else "gave no ruling"


async def _consulted(function: Callable[[], object], *, name: str) -> object:
    """Call a function that is only asked something; raises an Exception where it raises any."""

    def asked() -> object:
        try:
            return function()
        except Exception:
            raise
        except BaseException as odd:  # noqa: BLE001  # A cancellation would be taken for the run's.
            raise RuntimeError(f"it ended with {type(odd).__name__}") from None

    answer = await asyncio.wait_for(
        in_thread(asked, name=name), APPROVAL_FUNCTION_LASTS.total_seconds()
    )
    if asyncio.iscoroutine(answer):
        answer.close()
    return answer


async def _reason_to_ask(tool: Declaration, arguments: Mapping[str, JsonValue] | str) -> str | None:
    if isinstance(arguments, str):
        return "its arguments cannot be read"
    if tool.kind == "question":
        return "the run asks a person"
    if tool.approval == "never":
        return None
    if tool.approval == "always":
        return "the tool always asks"
    asks = tool.approval
    shown = deepcopy(dict(arguments))
    try:
        answer = await _consulted(lambda: asks(shown), name=f"approval of {tool.name}")
    except Exception as error:  # noqa: BLE001  # Fails closed: a person is asked.
        return f"its approval function failed: {type(error).__name__}"
    if answer is False:
        return None
    if answer is True:
        return "its approval function asks"
    return "its approval function answered neither yes nor no"
