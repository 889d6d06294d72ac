"""A database in which another action stands in the place of the one that was approved (G3)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from placet.core.values import payload_of


def forge_action(path: Path, old: str, new: str) -> None:
    """Put another action text in the place of a call's, under its own reference, in every row.

    All but the digests is as if it had been proposed so: what was approved is another action.
    """
    with closing(sqlite3.connect(path)) as thief, thief:
        ((salt,),) = thief.execute("SELECT salt FROM sessions").fetchall()
        found = thief.execute("SELECT tenant, session, ref, body FROM payloads").fetchall()
        forged = 0
        for tenant, session, ref, body in found:
            if old not in body or '"tool_call_id"' not in body:
                continue
            made = payload_of(salt, body.replace(old, new))
            thief.execute(
                "INSERT INTO payloads (tenant, session, ref, body) VALUES (?, ?, ?, ?)",
                (tenant, session, bytes.fromhex(made.ref), made.body),
            )
            for table in ("calls", "requests"):
                thief.execute(
                    f"UPDATE {table} SET value = replace(value, ?, ?)",
                    (json.dumps(ref.hex()), json.dumps(made.ref)),
                )
            forged += 1
        assert forged, f"no action says {old}"
