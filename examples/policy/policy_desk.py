"""A support desk whose tools a policy file rules on: the app of docs/how-to/write-a-policy.md.

The policy is `examples/policy/placet.policy.toml`; tests/cli/test_policy.py holds the page to both.
"""

from __future__ import annotations

from decimal import Decimal

from placet import Agent, Money, ScriptedModel, tool


@tool(reads_only=True)
def order_status(order: str) -> str:
    """Look an order up."""
    return f"{order}: delivered"


@tool(
    surface="payments",
    effect="moves {amount} USD to the customer of {order}",
    cost=Money("amount", "USD"),
    scopes=["payments:refund"],
)
def issue_refund(order: str, amount: Decimal, country: str | None = None) -> str:
    """Pay a customer back."""
    return f"refunded {amount} for {order} ({country or 'somewhere'})"


@tool(surface="mail", effect="sends a mail to {to}", approval="never")
def send_mail(to: list[str], text: str) -> str:
    """Send a mail."""
    return f"sent {len(text)} characters to {', '.join(to)}"


@tool(surface="shell", effect="runs {command}")
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


desk = Agent(
    name="desk",
    model=ScriptedModel([]),
    tools=[order_status, issue_refund, send_mail, shell],
)
