"""The channel of docs/how-to/operate.md: it posts what people are to be told to a URL.

    placet worker --app post_channel:app          # with the URL in DESK_URL

tests/examples/test_post_channel.py runs it, and tests/test_docs.py holds the page's code to the
parts between the marks.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request

from placet import Agent, Notice, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, say


@tool(effect="pays {cents} cents back for order {order}")
def refund(order: str, cents: int) -> str:
    """Pay a customer back."""
    return f"refunded {cents} cents for {order}"


model = ScriptedModel([call("refund", order="A-42", cents=12900), say("done")])
desk = Agent(name="desk", model=model, tools=[refund])


# Shown: a channel.
class Posting:
    """Posts each notice to a URL; what is no success there is told again later."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    async def tell(self, notice: Notice) -> None:
        card = await notice.card()
        body = {
            "id": f"{notice.tenant}/{notice.id}",
            "about": f"{card.kind} {card.request} of {card.tool}: {card.status}",
            "effect": card.effect,
            "approvers": card.approvers,
            "until": f"{card.deadline_at:%Y-%m-%d %H:%M} UTC",
        }
        await asyncio.to_thread(self._post, json.dumps(body).encode())

    def _post(self, body: bytes) -> None:
        urllib.request.urlopen(urllib.request.Request(self._url, data=body), timeout=5).close()


# Shown: an app with it.
def app(placet: Placet) -> Agent:
    """Give the agent, and the worker a way out to people: `--app post_channel:app`."""
    placet.channels.append(Posting("desk", os.environ["DESK_URL"]))
    return desk


# Shown until here.
