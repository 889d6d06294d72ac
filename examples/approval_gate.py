"""Four ends of a call that a person must approve: it is tried again, rejected, not asked, undone.

    python examples/approval_gate.py [NEW-DIRECTORY]

Each scenario is a run of its own, over a store of its own; a script stands for the model. Nothing
is printed because the code below expects it: every line is read back from the store's event log.
In a directory that is named the stores stay: `PLACET_STORE=sqlite:///NEW-DIRECTORY/d.db placet
audit verify`, and the like, can be tried on them.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from placet import Agent, IdempotencyKey, NoApproverWarning, Placet, ScriptedModel, tool
from placet.agent.messages import AssistantMessage
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.core.codec import decode_event
from placet.core.events import (
    AttemptBegun,
    AttemptFailed,
    CallEnded,
    CallUndoing,
    RequestRejected,
    RunEnded,
)
from placet.core.values import Payload

SOON = timedelta(milliseconds=10)


@dataclass(kw_only=True)
class World:
    """What is outside: a payment gateway and a carrier, each down for its next so many calls."""

    gateway_down: int = 0
    carrier_down: int = 0
    refunds: dict[str, str] = field(default_factory=dict)
    voided: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        """Give the tools that reach it."""

        @tool(reads_only=True)
        def get_order(order: str) -> str:
            """Look an order up."""
            return f"order {order}: delivered 2026-08-20, total 129.00"

        @tool(surface="payments", idempotent=True, retries=1, backoff=SOON)
        def issue_refund(order: str, *, key: IdempotencyKey) -> str:
            """Pay a customer back."""
            self.asked.append(f"issue_refund {key}")
            if self.gateway_down:
                self.gateway_down -= 1
                raise OSError("payment gateway 503")
            self.refunds[key] = order
            return f"refund {order} issued"

        @tool(surface="shipping", idempotent=True, retries=1, backoff=SOON)
        def ship_label(order: str, *, key: IdempotencyKey) -> str:
            """Buy a label for a parcel."""
            self.asked.append(f"ship_label {key}")
            if self.carrier_down:
                self.carrier_down -= 1
                raise OSError("carrier API down")
            return f"label for {order} bought"

        @ship_label.compensate(safe_if_absent=True, idempotent=True)
        def void_label(order: str, *, key: IdempotencyKey) -> str:
            """Void the order's label; where there is none, that is fine."""
            self.asked.append(f"void_label {key}")
            self.voided.append(order)
            return f"label for {order} voided"

        return [get_order, issue_refund, ship_label]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run: its world, what the model says, and how people answer what it asks."""

    title: str
    script: Sequence[AssistantMessage]
    approvers: tuple[str, ...] = ("ana",)
    answer: Callable[[Placet, str], object] | None = None
    gateway_down: int = 0
    carrier_down: int = 0


def approve(placet: Placet, request: str) -> object:
    """Say yes."""
    return placet.decide_sync(request, "approve", by="ana")


def reject(placet: Placet, request: str) -> object:
    """Say no, and why."""
    reason = "delivery is older than 30 days"
    return placet.decide_sync(request, "reject", by="ana", reason=reason)


SCENARIOS = {
    "a": Scenario(
        title="scenario A: approve",
        script=[
            call("get_order", order="A-42"),
            call("issue_refund", order="A-42"),
            say("Refund issued for A-42 after human approval."),
        ],
        answer=approve,
        gateway_down=1,
    ),
    "b": Scenario(
        title="scenario B: reject",
        script=[
            call("issue_refund", order="A-42"),
            say("Refund cancelled: customer is outside the 30-day window."),
        ],
        answer=reject,
    ),
    "c": Scenario(
        title="scenario C: no approver (fail closed)",
        script=[call("issue_refund", order="A-42"), say("Refund not executed.")],
        approvers=(),
    ),
    "d": Scenario(
        title="scenario D: approve, then compensate",
        script=[
            call("ship_label", order="A-42"),
            say("Shipping aborted; the label was voided."),
        ],
        answer=approve,
        carrier_down=2,
    ),
}


def store_url(place: Path, name: str) -> str:
    """Give the URL of a scenario's store."""
    return f"sqlite:///{place / name}.db"


def play(scenario: Scenario, url: str) -> tuple[World, list[str]]:
    """Play a scenario; give what became of its world, and what the record tells of the run."""
    world = World(gateway_down=scenario.gateway_down, carrier_down=scenario.carrier_down)
    agent = Agent(name="shop", model=ScriptedModel(scenario.script), tools=world.tools())
    with warnings.catch_warnings():
        # That nobody may decide is what scenario C is about.
        warnings.simplefilter("ignore", NoApproverWarning)
        placet = Placet.open(url, agents=[agent], approvers=scenario.approvers)
    with placet:
        result = placet.run_sync(agent, "Look after order A-42.")
        while result.waiting:
            assert scenario.answer is not None, "this scenario asks nobody"
            scenario.answer(placet, result.waiting[0])
            result = placet.resume_sync(result.run_id)
        return world, [f"== {scenario.title} ==", *told(placet, result.session)]


def told(placet: Placet, session: str) -> Iterator[str]:
    """Tell from a session's event log what its calls came to."""
    store, tenant = placet.engine.store, placet.engine.tenant

    def text(payload: Payload | None) -> str:
        return "" if payload is None else store.payload(tenant, session, payload.ref)

    attempt, failure, reason = 0, "", ""
    for row in store.events(tenant, session):
        match decode_event(row.kind, row.body):
            case AttemptBegun(attempt=attempt):
                pass
            case AttemptFailed(cause=cause) | CallUndoing(cause=cause):
                _, _, failure = text(cause).partition(": ")  # The error's type comes first.
                yield f"retry: attempt {attempt} failed ({failure})"
            case RequestRejected(reason=given):
                reason = text(given)
            case CallEnded(tool=name, code="succeeded", told=result):
                yield f"{name} -> {text(result)}"
            case CallEnded(tool=name, code="rejected"):
                yield f"{name} -> approval_rejected: {reason}"
            case CallEnded(tool=name, code="no_approver"):
                yield f"{name} -> approval_rejected: no approver connected"
            case CallEnded(tool=name, code=code):
                yield f"{name} -> {code}: {failure}"
            case RunEnded(answer=answer):
                yield f"model: {text(answer)}"
            case _:
                pass


def main() -> None:
    """Play the four scenarios."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        if any(place.glob("*.db")):
            sys.exit(f"{place} holds stores already: name a new directory")
        place.mkdir(parents=True, exist_ok=True)
        stories = [play(each, store_url(place, name))[1] for name, each in SCENARIOS.items()]
    print("\n\n".join("\n".join(lines) for lines in stories))


if __name__ == "__main__":
    main()
