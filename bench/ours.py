"""The same cycle through the gate: with every check, the digest, the event chain and the intent."""

from __future__ import annotations

import json
from pathlib import Path

from placet import tool
from placet.core import commands as c
from placet.core.values import Occurrence
from placet.people import Decider, People
from placet.runtime.authority import Authority
from placet.runtime.engine import Engine
from placet.runtime.gate import Gate
from placet.runtime.proposing import Toolbox, ToolCall
from placet.stores.sqlite import SqliteStore


@tool
async def pay(order: str, amount: int) -> str:
    """Pay an amount for an order."""
    return f"paid {amount} for {order}"


@tool(reads_only=True)
async def look(order: str) -> str:
    """Look at an order."""
    return order


@tool(approval="never")
async def log(order: str) -> str:
    """Write down an order."""
    return order


class Ours:
    """A store and a gate, as an adapter uses them."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.engine = Engine(self.store, tenant="main")
        authority = Authority(approvers=("ana",))
        tools = [each.declaration for each in (pay, look, log)]
        self.gate = Gate(self.engine, Toolbox(tools), authority)
        self.people = People(self.engine, authority, lambda *_: self.gate)

    def close(self) -> None:
        self.store.close()

    async def start(self, session: str) -> None:
        start = c.StartRun(
            run=f"run_{session}", agent="a", requester="rob", message="go", kind="hosted"
        )
        await self.engine.execute(session, start)

    async def propose(self, session: str, step: int, name: str, text: str = "") -> str | None:
        """Propose one call; give the request that it opened, if any."""
        arguments = json.dumps({"order": f"A-{step}"} | ({"amount": step} if name == "pay" else {}))
        call = ToolCall(id=f"call_{step}", name=name, arguments=arguments)
        asked = await self.gate.propose(
            session, f"run_{session}", step, [call], checkpoint=text or '{"text": ""}'
        )
        return next((r.id for r in asked.state.requests.values() if r.pending), None)

    async def decide(self, request: str) -> None:
        await self.people.approve(request, by=Decider(name="ana", via="bench"))

    async def act(self, session: str, step: int) -> None:
        await self.gate.run(session, Occurrence(f"run_{session}", step, 0))

    async def cycle(self, session: str, number: int) -> None:
        """Ask, decide, intent, outcome: four commits."""
        request = await self.propose(session, number, "pay")
        assert request is not None, "it asks"
        await self.decide(request)
        await self.act(session, number)
