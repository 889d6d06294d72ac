"""A long run costs what is new in it: bytes a step do not grow with the conversation (D6)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import pytest

from placet import tool
from placet.core import commands as c
from placet.core.values import Occurrence
from placet.people import Decider, People
from placet.runtime.authority import Authority
from placet.runtime.engine import Engine
from placet.runtime.gate import Gate
from placet.runtime.proposing import Toolbox, ToolCall
from placet.stores.sqlite import SqliteStore

STEPS = 1000
NEW_TEXT = 2048
ALLOWANCE = 4096


def bytes_of(place: Path) -> int:
    return sum(file.stat().st_size for file in place.iterdir())


def words(step: int) -> str:
    """Give about as much text as a model writes in a step, no two alike, that packs like prose."""
    chosen = Random(step)
    text = ""
    while len(text) < NEW_TEXT - 20:
        text += "".join(chosen.choices("etaoinshrdlu", k=chosen.randint(2, 9))) + " "
    return json.dumps({"text": text})


async def gated_steps(store: SqliteStore, place: Path) -> dict[int, int]:
    """Take a hosted run through many gated steps; give the size of the database on the way."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    engine, authority = Engine(store, tenant="main"), Authority(approvers=("ana",))
    gate = Gate(engine, Toolbox([pay.declaration]), authority)
    people = People(engine, authority, lambda *_: gate)
    await engine.execute(
        "s", c.StartRun(run="run_1", agent="a", requester="rob", message="go", kind="hosted")
    )
    sizes: dict[int, int] = {}
    for step in range(1, STEPS + 1):
        text = words(step)
        call = ToolCall(id=f"call_{step}", name="pay", arguments=json.dumps({"amount": step}))
        asked = await gate.propose("s", "run_1", step, [call], checkpoint=text)
        request = next(r.id for r in asked.state.requests.values() if r.pending)
        await people.approve(request, by=Decider(name="ana"))
        ended = await gate.run("s", Occurrence("run_1", step, 0))
        assert not ended.state.calls[Occurrence("run_1", step, 0)].open
        if step % 250 == 0:
            sizes[step] = bytes_of(place)
    return sizes


@pytest.mark.slow
@pytest.mark.promise("D6")
def test_a_thousand_gated_steps_grow_the_database_by_their_new_text(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "placet.db")
    sizes = asyncio.run(gated_steps(store, tmp_path))
    store.close()
    first, last = sizes[500] - sizes[250], sizes[1000] - sizes[750]
    assert last <= 1.1 * first + 65536, f"later steps cost more: {sizes}"
    assert bytes_of(tmp_path) <= STEPS * (NEW_TEXT + ALLOWANCE), f"too large: {sizes}"
