"""A trip that is booked in parts: where one part fails, the earlier ones are cancelled.

Run it: python examples/trip.py
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from placet import Agent, IdempotencyKey, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, calls, say

bookings: dict[str, str] = {}  # By idempotency key: booked twice with one key is booked once.


@tool(approval="never", surface="flights")
def book_flight(to: str, *, key: IdempotencyKey) -> str:
    """Book a flight."""
    bookings[key] = f"flight to {to}"
    return f"flight to {to} booked"


@book_flight.compensate(idempotent=True, retries=2, backoff=timedelta(seconds=1))
def cancel_flight(to: str) -> str:
    """Cancel it: only ever called where the flight was booked. Cancelled twice is cancelled."""
    for key in [key for key, booked in bookings.items() if booked == f"flight to {to}"]:
        del bookings[key]
    return "cancelled"


@tool(approval="never", surface="hotels")
def book_hotel(city: str) -> str:
    """Book a hotel."""
    raise OSError(f"no room left in {city}")


# Shown: an agent whose steps hold together.
def travel_agent() -> Agent:
    """Make an agent that books both, or neither."""
    return Agent(
        name="travel",
        model=ScriptedModel(
            [
                calls(call("book_flight", to="Lisbon"), call("book_hotel", city="Lisbon")),
                say("No hotel was to be had, so nothing is booked."),
            ]
        ),
        tools=[book_flight, book_hotel],
        on_failure="compensate_earlier",
        saga="step",
    )


# Shown.
async def main() -> None:
    """Book the trip, and say what came of it."""
    with tempfile.TemporaryDirectory() as place:
        async with Placet.open(f"sqlite:///{Path(place) / 'placet.db'}") as placet:
            placet.add(travel_agent())
            result = await placet.run("travel", "A weekend in Lisbon, please.", session="trip")
            print(result.answer)
            print("booked:", ", ".join(bookings.values()) or "nothing")


if __name__ == "__main__":
    asyncio.run(main())
