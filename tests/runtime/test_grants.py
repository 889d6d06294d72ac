"""Standing grants through the real gate and store, over a restart (G12)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from placet import GrantTerms, tool
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from tests.runtime.desk import Desk, code_of

TERMS = GrantTerms(scope="session", lasts=timedelta(hours=1), uses=1, same=("to",), any=("amount",))


def payer(paid: list[int]) -> Tool:
    @tool(surface="payments")
    def pay(to: str, amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay


SCRIPT = [
    call("pay", to="shop", amount=1),
    call("pay", to="shop", amount=2),
    call("pay", to="shop", amount=3),
    say("done"),
]


@pytest.mark.promise("G12")
@pytest.mark.conformance(18, 32)
def test_a_grant_outlives_a_restart_and_ends_with_its_count(tmp_path: Path) -> None:
    paid: list[int] = []
    with Desk(tmp_path, SCRIPT, [payer(paid)]) as desk:
        request = desk.start().waiting[0]
        desk.decide(request, "approve", grant=TERMS)
        (grant,) = desk.do(lambda p: p.grants("s"))
        assert (grant.left, grant.run, grant.by) == (1, None, "ana")
    with Desk(tmp_path, SCRIPT, [payer(paid)]) as desk:
        result = desk.resume()
        assert paid == [1, 2], "the third asks again"
        assert result.stop == "approval_required"
        assert desk.do(lambda p: p.grants("s")) == []


@pytest.mark.promise("G12")
def test_a_revoked_grant_covers_nothing(tmp_path: Path) -> None:
    paid: list[int] = []
    with Desk(tmp_path, SCRIPT, [payer(paid)]) as desk:
        desk.decide(desk.start().waiting[0], "approve", grant=TERMS)
        (grant,) = desk.do(lambda p: p.grants("s"))

        def stranger() -> None:
            desk.do(lambda p: p.revoke(grant.id, session="s", by="eve"))

        assert code_of(stranger) == "not_an_approver"
        desk.do(lambda p: p.revoke(grant.id, session="s", by="ana"))
        assert desk.resume().stop == "approval_required"
        assert paid == [1]


def test_a_grant_goes_with_an_approval_alone(tmp_path: Path) -> None:
    with Desk(tmp_path, SCRIPT, [payer([])]) as desk:
        request = desk.start().waiting[0]
        assert desk.refused(request, "reject", reason="no", grant=TERMS) == "invalid_grant"
        assert desk.result().waiting == (request,)
