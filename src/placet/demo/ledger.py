"""The shop's ledger: a real database of its own, in which each payment is a row.

It refuses no payment: if a refund were paid twice, it would be there twice.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

LEDGER = "ledger.db"

#: Set to have the bank take so long to answer that a process can be killed meanwhile.
SLOW_BANK = "SHOP_SLOW_BANK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """One row of the ledger."""

    order_id: str
    amount: str
    key: str


def pay(ledger: Path, order_id: str, amount: Decimal, key: str) -> None:
    """Write a payment into the ledger."""
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS payment (order_id, amount, key)")
        connection.execute("INSERT INTO payment VALUES (?, ?, ?)", (order_id, str(amount), key))


def payments(ledger: Path, order_id: str = "") -> list[Payment]:
    """Read the payments for an order, or all of them."""
    if not ledger.exists():
        return []
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'payment'").fetchone()
        if table is None:
            return []
        rows = connection.execute(
            "SELECT order_id, amount, key FROM payment WHERE ? IN ('', order_id)", (order_id,)
        )
        return [Payment(order_id=row[0], amount=row[1], key=row[2]) for row in rows]
