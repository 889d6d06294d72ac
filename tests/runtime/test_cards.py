"""Cards made from a store: what a tool declares, what failed before, and what nobody knows (H1)."""

from __future__ import annotations

import re
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from placet import InvalidDeclaration, Money, tool
from placet.agent.models.scripted import call, calls, say
from placet.core.card_surfaces import plain
from tests.runtime.desk import Desk, code_of, effect
from tests.runtime.forging import forge_action


class Payer(BaseModel):
    """Who pays, and with what."""

    name: str
    number: str


@pytest.mark.promise("H1", "H2")
def test_a_card_shows_the_declared_cost_and_not_the_declared_secret(tmp_path: Path) -> None:
    number = "ACME 0042 7"

    @tool(cost=Money("amount", "USD"), secret=("payer.number",), effect="charges {payer}")
    def charge(payer: Payer, amount: Decimal) -> str:
        """Charge a card."""
        return f"charged {payer.number}"

    proposed = calls(
        call("charge", payer={"name": "mia", "number": number}, amount="1290.50"),
        text=f"I charge {number}.",
    )
    with Desk(tmp_path, [proposed, say("ok")], [charge]) as desk:
        (request,) = desk.start().waiting
        card = desk.show(request)
        assert card.cost == "1,290.50 USD"
        assert number not in plain(card)
        assert "mia" in card.effect
        masks = set(re.findall(r"‹secret, 11 characters, fingerprint \w{8}›", plain(card)))
        assert len(masks) == 1
        desk.decide(request, "edit", arguments={**ARGUMENTS, "payer": {**PAYER, "name": "ben"}})
        edited = desk.show(next(r.id for r in desk.state().requests.values() if r.replaces))
        assert number not in plain(edited)
        assert PAYER["number"] not in plain(edited)
        assert "ana edited" in plain(edited)
        assert '"name": "ben"' in str(edited.edits[0].new)
        desk.resume()
        assert desk.results()[0].endswith(f"charged {PAYER['number']}")


PAYER = {"name": "mia", "number": "ACME 0043 7"}
ARGUMENTS: dict[str, Any] = {"payer": PAYER, "amount": "1290.50"}


@pytest.mark.promise("H1")
def test_a_call_that_failed_before_says_so_when_it_is_proposed_again(tmp_path: Path) -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        raise OSError("the bank is down, password=hunter2secret")

    again = [call("pay", amount=5), call("pay", amount=5), call("pay", amount=6), say("ok")]
    with Desk(tmp_path, again, [pay]) as desk:
        (first,) = desk.start().waiting
        assert desk.show(first).earlier is None
        desk.decide(first, "approve")
        (second,) = desk.resume().waiting
        earlier = desk.show(second).earlier
        assert earlier is not None
        assert (earlier.code, earlier.times) == ("tool_failed", 1)
        assert "the bank is down" in earlier.told
        assert "hunter2secret" not in plain(desk.show(second))
        assert "It may have acted before it failed." in plain(desk.show(second))
        desk.decide(second, "reject", reason="no")
        (third,) = desk.resume().waiting
        assert desk.show(third).earlier is None, "another call"
        assert desk.show(first).earlier is None, "closed"


@pytest.mark.promise("D4", "H1")
@pytest.mark.slow
def test_a_settlement_shows_the_attempts_that_led_to_it(tmp_path: Path) -> None:
    failures = iter([OSError("busy"), ConnectionError("reset"), ConnectionError("reset again")])

    @tool(idempotent=True, retries=1)
    def pay(amount: int) -> str:
        """Pay."""
        raise next(failures, ConnectionError("gone"))

    with Desk(tmp_path, [call("pay", amount=5), say("ok")], [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        (settlement,) = desk.resume().waiting
        card = desk.show(settlement)
        assert card.kind == "settlement"
        assert [(each.number, each.end) for each in card.failures][:2] == [
            (1, "failed"),
            (2, "lost"),
        ]
        assert card.attempts == len(card.failures)
        assert " UTC) failed, and may have acted: OSError: busy" in plain(card)
        assert " UTC) has no known outcome: the connection was lost" in plain(card)
        assert card.key.startswith("ik_")


@pytest.mark.promise("H2")
@pytest.mark.parametrize("given", [{"secret": ("pasword",)}, {"cost": Money("amuont.x", "USD")}])
def test_a_declared_field_that_is_no_argument_is_refused(given: dict[str, Any]) -> None:
    def log_in(password: str, amount: int) -> str:
        """Log in."""
        return ""

    with pytest.raises(InvalidDeclaration, match="it has no argument") as refused:
        tool(log_in, **given)
    assert "Its arguments are: password, amount." in str(refused.value.hint)


@pytest.mark.promise("G3", "H1")
def test_an_action_that_was_changed_from_outside_is_shown_to_nobody(tmp_path: Path) -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    with Desk(tmp_path, [call("pay", amount=129), say("ok")], [pay]) as desk:
        request = desk.start().waiting[0]
        assert desk.show(request).tool == "pay"
    forge_action(tmp_path / "placet.db", "129", "999")
    with Desk(tmp_path, [call("pay", amount=129), say("ok")], [pay]) as desk:
        assert code_of(lambda: desk.show(request)) == "digest_mismatch"


@pytest.mark.promise("G3")
def test_a_text_that_was_changed_in_its_place_is_shown_to_nobody(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, [call("pay", what="129"), say("ok")], [effect(done)]) as desk:
        request = desk.start().waiting[0]
    kept = sqlite3.connect(tmp_path / "placet.db")
    with kept:
        changed = kept.execute("UPDATE payloads SET body = replace(body, '129', '999')")
        assert changed.rowcount > 0
    kept.close()
    with Desk(tmp_path, [call("pay", what="129"), say("ok")], [effect(done)]) as desk:
        assert code_of(lambda: desk.show(request)) == "store_damaged"
