"""The peer holdpoint, run by the Python of its own environment: submit, approve, run, on record.

It commits with `synchronous=NORMAL` as shipped, which a power cut may undo; here it is set to FULL,
as ours is. It writes no intent of its own before the body runs, and takes no part in asyncio.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import sys
import time
from typing import Any

from holdpoint import HoldPoint, SQLiteStore  # type: ignore[import-not-found]  # Not in ours.


class Full(sqlite3.Connection):
    """A connection that syncs at each commit."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous=NORMAL", "synchronous=FULL"), *values)


def main(path: str, cycles: int) -> None:
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **k: connect(*a, **{**k, "factory": Full})
    hold = HoldPoint(store=SQLiteStore(path))

    @hold.guard(kind="pay", ttl="24h")  # type: ignore[untyped-decorator]  # Of the peer.
    def pay(order: str, amount: int) -> str:
        return f"paid {amount} for {order}"

    took = []
    for number in range(cycles):
        began = time.perf_counter()
        pending = pay(order=f"A-{number}", amount=number)
        hold.approve(pending.id, actor="ana")
        took.append(time.perf_counter() - began)
    sys.stdout.write(json.dumps(statistics.median(took[len(took) // 10 :])))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
