"""The demonstration's shop: a support agent that looks orders up and issues refunds.

The model is reached over HTTP, by the name and the address in SHOP_MODEL and SHOP_MODEL_URL.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from placet import Agent, IdempotencyKey, OpenAIModel, Placet, PlacetError, tool
from placet.demo.ledger import LEDGER, SLOW_BANK, pay

#: Who writes to the shop, where nobody else is named.
CUSTOMER = "mia"

_SLOW_SECONDS = 60

INSTRUCTIONS = """\
You are the support agent of a small shop. When a customer asks for a refund, look the order up
with get_order, then call issue_refund at once with what was paid. Do not ask the customer anything
first: a colleague checks each refund before it is made. Then tell the customer in one or two
sentences what became of it, with amounts and reasons as the tools gave them. Never propose a refund
again after a no."""

_ORDERS = {
    "A-1001": ("1 espresso cup", "129.00"),
    "A-1002": ("1 tea pot", "129.00"),
    "A-1003": ("1 milk jug", "129.00"),
    "A-1004": ("1 coffee grinder", "129.00"),
}


@tool(reads_only=True)
def get_order(order_id: str) -> str:
    """Look an order up: what was bought, and what was paid."""
    if order_id not in _ORDERS:
        return f"There is no order {order_id}."
    what, paid = _ORDERS[order_id]
    return f"Order {order_id}: {what}, paid {paid} USD."


@tool(
    surface="payments",
    effect="moves {amount} USD from the shop to the customer of order {order_id}",
    scopes=["payments:refund"],
)
def issue_refund(order_id: str, amount: Decimal, *, key: IdempotencyKey) -> str:
    """Pay an amount in USD back to the customer of an order."""
    pay(Path(LEDGER), order_id, amount, key)
    if os.environ.get(SLOW_BANK):
        time.sleep(_SLOW_SECONDS)
    return f"Refunded {amount} USD for order {order_id}."


def model() -> OpenAIModel:
    """Give the model that the environment names."""
    return OpenAIModel(
        os.environ.get("SHOP_MODEL", "stand-in"), base_url=os.environ.get("SHOP_MODEL_URL")
    )


app = Agent(
    name="support",
    model=model(),
    tools=[get_order, issue_refund],
    instructions=INSTRUCTIONS,
    max_steps=8,
)


def complaint(order_id: str) -> str:
    """Give what a customer writes about an order."""
    return f"Order {order_id} arrived broken. Please refund it."


def main(argv: Sequence[str] | None = None) -> None:
    """Take complaints about orders in, drive each run until it waits, and stay up as a service."""
    parser = argparse.ArgumentParser(prog="python -m placet.demo.shop", description=main.__doc__)
    parser.add_argument("orders", nargs="+", metavar="ORDER")
    orders: list[str] = parser.parse_args(argv).orders
    with Placet.open(agents=[app]) as placet:
        for order in orders:
            try:
                result = placet.run_sync(
                    app, complaint(order), session=f"order-{order}", requester=CUSTOMER
                )
            except PlacetError as error:
                sys.exit(f"{order}: {error}")
            waiting = ", ".join(result.waiting)
            said = f"waits for a person to decide {waiting}" if waiting else f"is over: {result}"
            sys.stdout.write(f"{order}: {result.run_id} {said}\n")
            sys.stdout.flush()
        while True:
            time.sleep(_SLOW_SECONDS)


if __name__ == "__main__":
    main()
