"""placet: durable human control for AI agents.

    from placet import Agent, Placet, tool

Names are loaded when they are first used, so that the command line stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.agent.agent import Agent
    from placet.agent.asking import ask_person
    from placet.agent.builtin.workspace import Workspace
    from placet.agent.models.anthropic import AnthropicModel
    from placet.agent.models.openai import OpenAIModel
    from placet.agent.models.scripted import ScriptedModel
    from placet.agent.tools import IdempotencyKey, Money, Tool, tool
    from placet.agent.watching import RunEvent, TextArrives, Watcher, WorkBegins
    from placet.client import BrokenPolicyWarning, NoApproverWarning, Placet
    from placet.core.card import Card
    from placet.core.errors import (
        ActionRefused,
        ApprovalRequired,
        Closed,
        Conflict,
        InProgress,
        InvalidDeclaration,
        InvalidInput,
        InvalidSetting,
        Mistake,
        ModelTrouble,
        NotFound,
        NotPermitted,
        PlacetError,
        Refusal,
        StaleHolder,
        StoreTrouble,
        Trouble,
    )
    from placet.core.state import Grant
    from placet.core.values import GrantTerms, Mode
    from placet.guarding import EditedWarning, Guarded
    from placet.policy.faults import PolicyTrouble
    from placet.results import Decision, DecisionResult, RunResult
    from placet.runtime.declarations import Happened, NotDone, NotHappened, Unsure
    from placet.runtime.hosting import Hosting
    from placet.runtime.relaying import Channel, Notice
    from placet.runtime.worker import Worker
    from placet.settings import Settings

__version__ = "0.1.0"

_HOMES = {
    "placet.agent.agent": ("Agent",),
    "placet.agent.asking": ("ask_person",),
    "placet.agent.builtin.workspace": ("Workspace",),
    "placet.agent.models.anthropic": ("AnthropicModel",),
    "placet.agent.models.openai": ("OpenAIModel",),
    "placet.agent.models.scripted": ("ScriptedModel",),
    "placet.agent.tools": ("IdempotencyKey", "Money", "Tool", "tool"),
    "placet.agent.watching": ("RunEvent", "TextArrives", "Watcher", "WorkBegins"),
    "placet.client": ("BrokenPolicyWarning", "NoApproverWarning", "Placet"),
    "placet.core.card": ("Card",),
    "placet.core.errors": (
        "ActionRefused",
        "ApprovalRequired",
        "Closed",
        "Conflict",
        "InProgress",
        "InvalidDeclaration",
        "InvalidInput",
        "InvalidSetting",
        "Mistake",
        "ModelTrouble",
        "NotFound",
        "NotPermitted",
        "PlacetError",
        "Refusal",
        "StaleHolder",
        "StoreTrouble",
        "Trouble",
    ),
    "placet.core.values": ("GrantTerms", "Mode"),
    "placet.guarding": ("EditedWarning", "Guarded"),
    "placet.results": ("Decision", "DecisionResult", "RunResult"),
    "placet.runtime.declarations": ("Happened", "NotDone", "NotHappened", "Unsure"),
    "placet.core.state": ("Grant",),
    "placet.policy.faults": ("PolicyTrouble",),
    "placet.runtime.hosting": ("Hosting",),
    "placet.runtime.relaying": ("Channel", "Notice"),
    "placet.runtime.worker": ("Worker",),
    "placet.settings": ("Settings",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ActionRefused",
    "Agent",
    "AnthropicModel",
    "ApprovalRequired",
    "BrokenPolicyWarning",
    "Card",
    "Channel",
    "Closed",
    "Conflict",
    "Decision",
    "DecisionResult",
    "EditedWarning",
    "Grant",
    "GrantTerms",
    "Guarded",
    "Happened",
    "Hosting",
    "IdempotencyKey",
    "InProgress",
    "InvalidDeclaration",
    "InvalidInput",
    "InvalidSetting",
    "Mistake",
    "Mode",
    "ModelTrouble",
    "Money",
    "NoApproverWarning",
    "NotDone",
    "NotFound",
    "NotHappened",
    "NotPermitted",
    "Notice",
    "OpenAIModel",
    "Placet",
    "PlacetError",
    "PolicyTrouble",
    "Refusal",
    "RunEvent",
    "RunResult",
    "ScriptedModel",
    "Settings",
    "StaleHolder",
    "StoreTrouble",
    "TextArrives",
    "Tool",
    "Trouble",
    "Unsure",
    "Watcher",
    "WorkBegins",
    "Worker",
    "Workspace",
    "ask_person",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'placet' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
