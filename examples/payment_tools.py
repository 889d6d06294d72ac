"""The tools of docs/how-to/write-a-tool.md. Files stand for a bank, a post office and a web site.

tests/test_docs.py runs them, and holds the page's code to the parts between the marks.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from placet import Happened, IdempotencyKey, Money, NotDone, NotHappened, Unsure, tool


# Shown: a read.
@tool(reads_only=True)
def order_status(order: str) -> str:
    """Look an order up."""
    return f"{order}: delivered, reported broken"


# Shown: an idempotent effect.
def large(arguments: Mapping[str, Any]) -> bool:
    """Ask a person from fifty dollars on."""
    return int(arguments["cents"]) >= 5_000


@tool(
    version="1",
    surface="payments",
    effect="pays {cents} cents back for order {order}",
    cost=Money("cents", "USD", places=2),
    approval=large,
    idempotent=True,
    retries=2,
    backoff=timedelta(milliseconds=100),
    time_limit=timedelta(seconds=30),
)
def refund(order: str, cents: int, *, key: IdempotencyKey) -> str:
    """Pay a customer back."""
    if Path("bank-is-closed").exists():
        raise NotDone("the bank is closed")
    bank = sqlite3.connect("bank.db")
    with bank:
        bank.execute("CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, cents INTEGER)")
        bank.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", (key, cents))
    bank.close()
    return f"refunded {cents} cents for {order}"


# Shown: an effect with a probe.
@tool(surface="post", effect="sends a letter to {customer}")
def send_letter(customer: str, text: str, *, key: IdempotencyKey) -> str:
    """Send a letter."""
    with open("post-office.txt", "a", encoding="utf-8") as office:
        office.write(f"{key} {customer}: {text}\n")
    return f"sent to {customer}"


@send_letter.probe
def letter_sent(
    customer: str, text: str, *, key: IdempotencyKey
) -> Happened | NotHappened | Unsure:
    """Look the letter up by its key. A probe only looks."""
    try:
        sent = Path("post-office.txt").read_text(encoding="utf-8")
    except OSError:
        return Unsure()
    if f"{key} {customer}: {text}\n" in sent:
        return Happened(result=f"sent to {customer}")
    return NotHappened()


# Shown: an effect that depends on the world.
@tool(surface="site", effect="publishes {page}")
def publish(page: str) -> str:
    """Publish a page as it is now."""
    Path("site.html").write_bytes(Path(page).read_bytes())
    return f"published {page}"


@publish.environment
def page_hash(page: str) -> str:
    """Read before asking, and again before acting."""
    return hashlib.sha256(Path(page).read_bytes()).hexdigest()


# Shown: an effect with a preview and a snapshot.
@tool(surface="prices", effect="sets the price of {item}", reversible=True)
def set_price(item: str, cents: int) -> str:
    """Change a price."""
    Path(f"{item}.price").write_text(str(cents), encoding="utf-8")
    return f"{item} costs {cents} cents"


@set_price.preview
def price_change(item: str, cents: int) -> str:
    """Tell what would change: the card shows it."""
    return f"{item}: {price_now(item)} -> {cents}"


@set_price.snapshot
def price_now(item: str, **_: object) -> str:
    """Take down what is about to be changed."""
    price = Path(f"{item}.price")
    return price.read_text(encoding="utf-8") if price.exists() else "none"


@set_price.restore
def price_back(taken: str, item: str, **_: object) -> None:
    """Bring back what was taken down."""
    price = Path(f"{item}.price")
    if taken == "none":
        price.unlink(missing_ok=True)
    else:
        price.write_text(taken, encoding="utf-8")


# Shown: an effect with a compensation.
@tool(surface="couriers", effect="books a courier for {order}")
def book_courier(order: str) -> str:
    """Book a courier to fetch a parcel."""
    with open("bookings.txt", "a", encoding="utf-8") as bookings:
        bookings.write(f"{order}\n")
    raise OSError("the courier's answer made no sense")


@book_courier.compensate(safe_if_absent=True, idempotent=True, retries=2)
def cancel_courier(order: str) -> str:
    """Cancel what is booked for the order; where nothing is, that is fine."""
    bookings = Path("bookings.txt")
    booked = bookings.read_text(encoding="utf-8").splitlines() if bookings.exists() else []
    kept = [line for line in booked if line != order]
    bookings.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    return f"{len(booked) - len(kept)} booking of {order} cancelled"


# Shown until here.
