"""A model that fails loses no run: it rests, and goes on where it was."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import OpenAIModel, PlacetError, tool
from placet.agent import loop
from placet.agent.tools import Tool
from tests.runtime.desk import Desk
from tests.servers.model_server import Fault, ModelServer
from tests.servers.model_server import calls as wire_calls


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model that failed be asked again at once."""
    monkeypatch.setattr(loop, "MODEL_BACKOFF", timedelta(milliseconds=1))


def refund_tool(done: list[int]) -> Tool:
    @tool
    def refund(amount: int) -> str:
        """Refund an amount."""
        done.append(amount)
        return f"refunded {amount}"

    return refund


def script(body: dict[str, Any]) -> Any:
    results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
    return f"done: {results}" if results else wire_calls(("refund", {"amount": 5}))


def desk_on(place: Path, server: ModelServer, done: list[int], *, fault: Fault) -> Desk:
    """Give a desk whose model is waited for, but for one that hangs: a slow answer is no fault."""
    limit = timedelta(milliseconds=500) if fault is Fault.HANG else timedelta(minutes=1)
    model = OpenAIModel("m", base_url=server.base_url, api_key="k", timeout=limit)
    return Desk(place, [], [refund_tool(done)], model=model)


@pytest.mark.promise("D2")
@pytest.mark.parametrize(
    "fault",
    [
        Fault.SERVER_ERROR,
        Fault.UNAVAILABLE,
        Fault.HANG,
        Fault.DROP,
        Fault.MALFORMED_JSON,
        Fault.NO_CHOICES,
        Fault.UNAUTHORIZED,
    ],
)
@pytest.mark.slow
def test_a_failing_model_loses_no_run(tmp_path: Path, fault: Fault) -> None:
    done: list[int] = []
    with ModelServer(script) as server, desk_on(tmp_path, server, done, fault=fault) as desk:
        server.fail(fault, times=3)
        with pytest.raises(PlacetError) as failed:
            desk.start()
        assert failed.value.code.startswith("model_")
        assert failed.value.ids["run_id"] == "run_1"
        server.close()
    with ModelServer(script) as server, desk_on(tmp_path, server, done, fault=fault) as desk:
        (request,) = desk.resume().waiting
        server.fail(fault, times=1)
        desk.decide(request, "approve")
        try:
            result = desk.resume()
        except PlacetError:
            result = desk.resume()
        assert (result.stop, result.answer) == ("final", "done: ['refunded 5']")
        assert done == [5], "a model that fails after the effect does not repeat it"


@pytest.mark.promise("G4", "G6")
@pytest.mark.parametrize(
    "fault, results",
    [
        (Fault.UNKNOWN_TOOL, ["Unknown tool"]),
        (Fault.UNREADABLE_ARGUMENTS, None),
        (Fault.DUPLICATE_IDS, None),
    ],
)
def test_odd_calls_of_a_model_are_answered_or_asked_about(
    tmp_path: Path, fault: Fault, results: list[str] | None
) -> None:
    done: list[int] = []
    with ModelServer(script) as server, desk_on(tmp_path, server, done, fault=fault) as desk:
        server.fail(fault, times=1)
        result = desk.start()
        if results is None:
            assert result.stop == "approval_required"
            for request in result.waiting:
                desk.decide(request, "reject", reason="no")
            result = desk.resume()
            assert result.stop == "final"
            assert all(told.startswith("Rejected by ana: no") for told in desk.results())
        else:
            assert any(told.startswith(results[0]) for told in desk.results())
        assert done == []
