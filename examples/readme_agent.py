"""The agent of the README, whole. Without a key a script speaks for the model.

tests/test_readme.py runs it, and holds the README's code to the part between the two marks.
"""

from __future__ import annotations

# The README shows what follows.
import os

from placet import Agent, OpenAIModel, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, say


@tool(surface="payments", effect="pays {cents} cents back for order {order}")
def refund(order: str, cents: int) -> str:
    """Pay a customer back."""
    with open("ledger.txt", "a", encoding="utf-8") as ledger:
        ledger.write(f"{order} {cents}\n")
    return f"refunded {cents} cents for {order}"


script = ScriptedModel([call("refund", order="A-42", cents=12900), say("Your money is back.")])
agent = Agent(
    name="support",
    model=OpenAIModel("gpt-5-mini") if os.environ.get("OPENAI_API_KEY") else script,
    tools=[refund],
)

if __name__ == "__main__":
    with Placet.open("sqlite:///placet.db", agents=[agent]) as placet:
        result = placet.run_sync(agent, "Order A-42 arrived broken: refund the 12900 cents.")
        print(result.run_id, result.stop, *result.waiting)
# The README shows what stands above.
