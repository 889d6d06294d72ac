"""Attacks on the promises by values: arguments, declarations, results and errors that mean harm."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, Json, SecretStr

from placet import NotDone, PlacetError, tool
from placet.agent.messages import AssistantMessage, ModelRequest, RawCall
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.agent.tools import Tool
from placet.core.commands import Failed, Succeeded, Unknown
from placet.core.state import CallOver
from placet.core.values import Holder, Occurrence
from placet.runtime import processes
from placet.runtime.bodies import Outcome, attempt
from tests.runtime.desk import Desk

FIRST = Occurrence("run_1", 1, 0)


def ended(declared: Tool, **arguments: Any) -> Outcome:
    return asyncio.run(attempt(declared.declaration, arguments, "ik_1", call="run_1/1/0"))


def code_of(desk: Desk, at: Occurrence = FIRST) -> str:
    from placet.core.commands import Names

    found = desk.store.session("main", "s", Names(steps=((at.run, at.step),)))
    assert found is not None
    state = found.calls[at].state
    assert isinstance(state, CallOver)
    return state.code


# --- arguments --------------------------------------------------------------------------------


@pytest.mark.promise("G4")
@pytest.mark.parametrize("approval", ["never", "always"])
def test_a_validator_that_is_not_idempotent_cannot_run_another_value_than_was_frozen(
    tmp_path: Path, approval: Any
) -> None:
    done: list[int] = []

    @tool(approval=approval)
    def pay(amount: Annotated[int, AfterValidator(lambda amount: amount * 2)]) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    with Desk(tmp_path, [call("pay", amount=5), say("ok")], [pay]) as desk:
        assert desk.start().stop == "final"
        assert done == [], "10 would be shown and digested, and 20 paid"
        assert code_of(desk) == "invalid_arguments"


@pytest.mark.promise("G4")
def test_a_validator_that_changes_its_mind_between_freezing_and_running_runs_nothing(
    tmp_path: Path,
) -> None:
    done: list[int] = []

    @tool
    def pay(amount: Annotated[int, AfterValidator(lambda amount: amount * _rate[0])]) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    frozen = pay.declaration.validate({"amount": 5})
    try:
        _rate[0] = 3
        outcome = ended(pay, **frozen)
    finally:
        _rate[0] = 1
    assert done == []
    assert isinstance(outcome, Failed)
    assert outcome.not_done


@pytest.mark.slow
@pytest.mark.promise("G13", "G4")
def test_a_set_is_the_same_arguments_in_every_process(tmp_path: Path) -> None:
    program = (
        "import json\n"
        "from placet import tool\n"
        "def f(to: set[str], deep: dict[str, list[frozenset[str]]]) -> str: return ''\n"
        "d = tool(f).declaration\n"
        "words = ['ana', 'ben', 'cleo', 'dan', 'eve']\n"
        "print(json.dumps(d.validate({'to': words, 'deep': {'x': [words, words[:2]]}})))\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(1, 5)
    }
    assert len(seen) == 1, "else an approval given in one process is voided by the next"


_rate = [1]


class _Line(BaseModel):
    order_id: str = Field(alias="orderId")


@pytest.mark.promise("G4", "G13")
def test_aliases_and_json_in_json_are_frozen_as_they_are_read(tmp_path: Path) -> None:
    done: list[object] = []

    @tool
    def pay(line: _Line, more: Json[dict[str, int]]) -> str:
        """Pay."""
        done.append((line.order_id, more))
        return "paid"

    script = [call("pay", line={"orderId": "A-1"}, more='{"a": 1}'), say("ok")]
    with Desk(tmp_path, script, [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        desk.resume()
        assert done == [("A-1", {"a": 1})]


@pytest.mark.promise("G4")
def test_a_type_that_hides_its_value_when_written_down_is_no_type_of_a_tool() -> None:
    def log_in(password: SecretStr) -> str:
        """Log in: with asterisks, were it allowed."""
        return password.get_secret_value()

    with pytest.raises(PlacetError) as refused:
        tool(log_in)
    assert refused.value.code == "invalid_tool"


@pytest.mark.promise("G4")
def test_an_approval_function_cannot_change_what_it_is_shown(tmp_path: Path) -> None:
    done: list[list[str]] = []

    def policy(arguments: Any) -> bool:
        arguments["to"].append("mallory")
        arguments["to"].append(7)
        return True

    @tool(approval=policy)
    def pay(to: list[str]) -> str:
        """Pay."""
        done.append(to)
        return "paid"

    with Desk(tmp_path, [call("pay", to=["ana"]), say("ok")], [pay]) as desk:
        (request,) = desk.start().waiting
        card = desk.do(lambda p: p.show(request))
        assert card.arguments == (("to", '["ana"]'),)
        desk.decide(request, "approve")
        desk.resume()
        assert done == [["ana"]]


@pytest.mark.promise("G1")
def test_an_approval_function_that_ends_its_process_means_ask(tmp_path: Path) -> None:
    done: list[str] = []

    def policy(arguments: Any) -> bool:
        raise SystemExit(3)

    @tool(approval=policy)
    def pay(what: str) -> str:
        """Pay."""
        done.append(what)
        return "paid"

    with Desk(tmp_path, [call("pay", what="a"), say("ok")], [pay]) as desk:
        assert desk.start().stop == "approval_required"
        assert done == []


@pytest.mark.promise("G6", "G3")
def test_a_call_id_that_has_no_utf8_still_gets_its_one_result(tmp_path: Path) -> None:
    done: list[str] = []

    @tool
    def pay(what: str) -> str:
        """Pay."""
        done.append(what)
        return "paid"

    def script(request: ModelRequest) -> AssistantMessage:
        if request.assistant_count:
            return say("ok")
        bad = RawCall(id="c\ud800", name="pay", arguments='{"what": "a"}')
        worse = RawCall(id="\udfff\x00", name="", arguments="\ud800")
        return AssistantMessage(text="", calls=(bad, worse))

    with Desk(tmp_path, script, [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert done == ["a"]
        assert len(desk.results()) == 2


@pytest.mark.promise("H1", "H2")
def test_an_argument_cannot_borrow_another_in_the_effect_that_is_shown(tmp_path: Path) -> None:
    @tool(effect="pays {to}: {amount}")
    def pay(to: str, amount: int) -> str:
        """Pay."""
        return "paid"

    with Desk(tmp_path, [call("pay", to="bob {amount}", amount=5), say("ok")], [pay]) as desk:
        (request,) = desk.start().waiting
        assert desk.do(lambda p: p.show(request)).effect == "pays bob {amount}: 5"


# --- results and errors -----------------------------------------------------------------------


class _Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class _MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _MuteEnd(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class _OddText(str):
    __slots__ = ()

    def encode(self, *_: object, **__: object) -> bytes:
        raise RuntimeError("no bytes")


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "result",
    [_Mute(), {"a": _Mute()}, [_Mute()], _OddText("paid")],
    ids=["mute", "in an object", "in an array", "a text of its own kind"],
)
def test_a_body_that_returned_has_succeeded_whatever_its_result_does(
    tmp_path: Path, result: object
) -> None:
    done: list[int] = []

    @tool(approval="never", idempotent=True)
    def pay() -> object:
        """Pay."""
        done.append(1)
        return result

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        assert desk.start().stop == "final"
        assert done == [1]
        assert code_of(desk) == "succeeded"


@pytest.mark.promise("D4")
def test_an_error_that_cannot_be_told_is_still_an_outcome() -> None:
    def raising(error: BaseException) -> Tool:
        def pay() -> str:
            """Pay."""
            raise error

        return tool(pay)

    assert isinstance(ended(raising(_MuteError())), Failed)
    assert isinstance(ended(raising(_MuteEnd())), Unknown)
    chained = RuntimeError("x")
    chained.__cause__ = _MuteError()
    assert isinstance(ended(raising(chained)), Failed)
    assert isinstance(ended(raising(ConnectionError(_Mute()))), Unknown)
    assert ended(tool(_plain)) == Succeeded(told="null")


def _plain() -> None:
    """Give nothing."""


@pytest.mark.slow
@pytest.mark.promise("G6", "G8")
def test_three_hundred_calls_in_one_turn_get_a_thousand_results(tmp_path: Path) -> None:
    done: list[int] = []

    @tool(reads_only=True)
    def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    @tool
    def pay(n: int) -> str:
        """Pay."""
        done.append(n)
        return "paid"

    made = [call("look" if n % 2 else "pay", n=n) for n in range(300)]
    made.append(raw_call("", "{}"))
    with Desk(tmp_path, [calls(*made), say("ok")], [look, pay]) as desk:
        waiting = desk.start().waiting
        assert len(waiting) == 25
        for request in waiting:
            desk.decide(request, "reject", reason="no")
        assert desk.resume().stop == "final"
        assert done == []
        assert len(desk.results()) == 301
        assert json.dumps(desk.results()).count("saw ") == 150


@pytest.mark.promise("D5", "G7")
def test_a_command_id_that_was_used_for_another_request_is_refused(tmp_path: Path) -> None:
    @tool
    def pay(what: str) -> str:
        """Pay."""
        return "paid"

    step = calls(call("pay", what="a"), call("pay", what="b"))
    with Desk(tmp_path, [step, say("ok")], [pay]) as desk:
        first, second = desk.start().waiting
        desk.decide(first, "approve", command_id="x")
        assert desk.decide(first, "approve", command_id="x").status == "approved"
        with pytest.raises(PlacetError) as refused:
            desk.decide(second, "reject", reason="no", command_id="x")
        assert refused.value.code == "command_id_used"


@pytest.mark.promise("D4")
def test_not_done_does_not_speak_for_an_earlier_attempt_that_was_lost(tmp_path: Path) -> None:
    raised: list[Exception] = [NotDone("refused"), ConnectionError("lost")]

    @tool(approval="never", idempotent=True, retries=1, backoff=timedelta(milliseconds=10))
    def pay() -> str:
        """Pay."""
        if raised:
            raise raised.pop()
        raise NotDone("refused")

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        (settlement,) = desk.start().waiting
        assert desk.show(settlement).kind == "settlement"


@pytest.mark.promise("D4")
def test_another_machine_of_the_same_name_is_not_seen_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = tmp_path / "machine-id"
    monkeypatch.setattr(processes, "_MACHINE_IDS", (ours,), raising=False)
    processes._host.cache_clear()
    try:
        ours.write_text("one\n")
        other = processes.this_process()
        elsewhere = Holder(host=other.host, boot="another", pid=1, started="1")
        assert processes.is_gone(elsewhere), "the same machine, started anew"
        processes._host.cache_clear()
        ours.write_text("two\n")
        assert not processes.is_gone(elsewhere), "another machine of that name"
        processes._host.cache_clear()
        ours.unlink()
        unnamed = processes.this_process()
        elsewhere = Holder(host=unnamed.host, boot="another", pid=1, started="1")
        assert not processes.is_gone(elsewhere), "nobody can tell which machine that is"
    finally:
        processes._host.cache_clear()
