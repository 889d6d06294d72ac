"""The life of the coding agent on a real repository, in processes that may be killed in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from examples.coding_agent import SCRIPT, coder, scratch
from placet import Placet, ScriptedModel, Workspace
from placet.core.state import Open
from placet.stores.sqlite import SqliteStore
from tests.runtime.life import Killer


def repository(place: Path) -> Path:
    """Make the scratch repository; its remote counts, in a file, what was pushed to it."""
    work = scratch(place)
    hook = place / "remote.git" / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ncat >> {place}/pushes\n", encoding="utf-8")
    hook.chmod(0o755)
    return work


def pushes(place: Path) -> int:
    """Count the pushes that the remote took."""
    counted = place / "pushes"
    return len(counted.read_text().splitlines()) if counted.exists() else 0


def opened(place: Path) -> Placet:
    """Open a store beside the repository, with the agent that works on it."""
    agent = coder(Workspace(place / "work"), speaks=ScriptedModel(SCRIPT))
    return Placet(SqliteStore(place / "placet.db"), agents=[agent], approvers=["ana"])


def live(directory: str, kill_at: int | None) -> None:
    """Live the whole life in this process, which may not survive it."""
    killer = Killer(kill_at, statements=("COMMIT",))
    killer.watch_statements()
    place = Path(directory)
    placet = opened(place)
    try:
        (place / "end").write_text(asyncio.run(_lived(placet)))
    finally:
        placet.close()
    (place / "points").write_text(str(killer.passed))


async def _lived(placet: Placet) -> str:
    for _ in range(10):
        if not await placet.runs():
            await placet.run("coder", "mend the discount", run_id="run_1")
        for row in await placet.inbox():
            if row.request.kind == "settlement":
                return "settlement"
            if isinstance(row.request.state, Open):
                await placet.decide(row.request.id, "approve", by="ana")
        result = await placet.resume("run_1")
        if result.stop not in (None, "approval_required"):
            return str(result.stop)
    return "it does not end"
