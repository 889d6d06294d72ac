"""Guarded functions: one call is one action, whoever calls it, and whenever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from placet import PlacetError
from placet.core.errors import ActionRefused, ApprovalRequired
from placet.guarding import EditedWarning
from tests.adapters.guards import opened, paid, refund_of, required


def test_a_call_asks_and_once_approved_it_runs_once_in_any_process(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path)
        needed = required(lambda: refund("A-42", 129))
        assert required(lambda: refund("A-42", amount=129)).requests == needed.requests
        assert paid(tmp_path) == []
    with opened(tmp_path) as placet:
        (request,) = needed.requests
        placet.decide_sync(request, "approve", by="ana")
    for _ in range(3):
        with opened(tmp_path) as placet:
            refund = refund_of(placet, tmp_path)
            assert refund("A-42", 129) == "refunded 129 for A-42"
            assert refund(amount=129, order="A-42") == "refunded 129 for A-42"
    assert paid(tmp_path) == ["A-42 129"]
