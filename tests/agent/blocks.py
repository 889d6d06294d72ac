"""Blocks of Anthropic's content, and messages as they come back from a transcript."""

from __future__ import annotations

import json
from typing import Any

from placet.agent.messages import Message, from_json, to_json
from tests.servers.model_server import Body, Reply

SPOKEN = {"type": "text", "text": "Refunding."}
USED = {"type": "tool_use", "name": "issue_refund", "input": {"order_id": "7"}}


def blocks(*content: Body, **more: object) -> Reply:
    """Make a reply of these blocks, and of what else an answer says."""
    return {"blocks": [dict(block) for block in content], **more}


def texts(*said: str) -> list[Body]:
    """Make a block of each text."""
    return [{"type": "text", "text": text} for text in said]


def stored(message: Message) -> Any:
    """Give a message as it comes back from a transcript."""
    return from_json(json.loads(json.dumps(to_json(message))))
