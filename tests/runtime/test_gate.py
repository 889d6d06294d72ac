"""The gate: what a request that takes another's place keeps, and why a call is answered at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from placet import tool
from placet.agent.models.scripted import call, calls, say
from tests.runtime.desk import Desk

CLAIM = "The customer asked for it."


def card_of(desk: Desk, request: str) -> Any:
    return desk.do(lambda p: p.show(request))


@pytest.mark.promise("G5", "H1", "H2")
def test_an_edit_keeps_the_claim_and_hides_the_old_secret_from_the_card(tmp_path: Path) -> None:
    @tool(effect="logs {who} in with {password}")
    def log_in(who: str, password: str) -> str:
        """Log in."""
        return "in"

    proposed = calls(call("log_in", who="bob", password="hunter2old"), text=CLAIM)
    with Desk(tmp_path, [proposed, say("ok")], [log_in]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "edit", arguments={"who": "eve", "password": 'q"'})
        successor = next(r.id for r in desk.state().requests.values() if r.replaces == request)
        shown = card_of(desk, successor)
        assert shown.claim == CLAIM
        changes = re.sub(r", fingerprint [0-9a-f]{8}›", "›", shown.changes)
        assert re.fullmatch(
            r"logs eve in with ‹secret, 2 characters, fingerprint [0-9a-f]{8}›", shown.effect
        )
        assert changes == (
            'who: "bob" -> "eve"; password: "‹secret, 10 characters›" -> "‹secret, 2 characters›"'
        )
        assert (shown.edited_by, shown.replaces) == ("ana", request)
        assert desk.resume().stop == "final"
        assert desk.results() == [
            'Before it ran, ana changed the arguments: who: "bob" -> "eve"; '
            'password: "hunter2old" -> "q\\""\nin'
        ]


@pytest.mark.promise("G5", "H2")
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_told_of_an_edit_without_what_the_tool_declares_secret(
    tmp_path: Path, fails: bool
) -> None:
    given: list[Any] = []

    @tool(secret=["token", "card.number"])
    def push(repo: str, token: str, card: dict[str, str]) -> str:
        """Push."""
        given.append((token, card["number"]))
        if fails:
            raise LookupError("no such repo")
        return "pushed"

    proposed: dict[str, Any] = {
        "repo": "a",
        "token": "hunter2-old",
        "card": {"of": "bob", "number": "old"},
    }
    edited = {"repo": "b", "token": "hunter2-new", "card": {"of": "eve", "number": "new"}}
    with Desk(tmp_path, [call("push", **proposed), say("ok")], [push]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "edit", arguments=edited)
        assert desk.resume().stop == "final"
        assert given == [("hunter2-new", "new")]
        (told,) = desk.results()
        assert (
            'repo: "a" -> "b"; token: "‹secret, 11 characters›" -> "‹secret, 11 characters›"; '
            'card: {"of": "bob", "number": "‹secret, 3 characters›"}'
            ' -> {"of": "eve", "number": "‹secret, 3 characters›"}\n'
        ) in told
        assert ("LookupError: no such repo" if fails else "pushed") in told


@pytest.mark.promise("G13", "H1")
def test_a_void_keeps_the_claim_and_says_what_changed(tmp_path: Path) -> None:
    world = ["one"]

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    pay.environment(lambda amount: world[0])
    proposed = calls(call("pay", amount=5), text=CLAIM)
    with Desk(tmp_path, [proposed, say("ok")], [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        world[0] = "two"
        (successor,) = desk.resume().waiting
        shown = card_of(desk, successor)
        assert shown.claim == CLAIM
        assert shown.changes == "changed since it was approved: environment"
        assert (shown.changed, shown.replaces) == (("environment",), request)


def _breaks(amount: int) -> int:
    raise RuntimeError("the validator broke")


@pytest.mark.promise("G1", "G4")
def test_a_validator_that_breaks_answers_that_the_arguments_are_invalid(tmp_path: Path) -> None:
    @tool
    def pay(amount: Annotated[int, AfterValidator(_breaks)]) -> str:
        """Pay."""
        return "paid"

    with Desk(tmp_path, [call("pay", amount=5), say("ok")], [pay]) as desk:
        assert desk.start().stop == "final"
        assert desk.results() == [
            "Invalid arguments: RuntimeError: the validator broke\n"
            "The call did not run. Mend the arguments."
        ]


@pytest.mark.promise("G1", "G13")
def test_an_environment_that_cannot_be_read_is_no_environment_that_changed(tmp_path: Path) -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    @pay.environment
    def look(amount: int) -> str:
        raise OSError("no such branch")

    with Desk(tmp_path, [call("pay", amount=5), say("ok")], [pay]) as desk:
        assert desk.start().stop == "final"
        assert desk.results() == [
            "Environment unreadable: what the tool reads of the world could not be read "
            "(OSError: no such branch).\nThe call did not run."
        ]


_limit = [10]


def _fits(amount: int) -> int:
    if amount > _limit[0]:
        raise ValueError("too much")
    return amount


@pytest.mark.promise("G13")
@pytest.mark.parametrize("approval", ["never", "always"])
def test_arguments_that_fit_no_more_are_answered_as_invalid_ones(
    tmp_path: Path, approval: Any
) -> None:
    _limit[0] = 10

    @tool(approval=approval)
    def pay(amount: Annotated[int, AfterValidator(_fits)]) -> str:
        """Pay."""
        return "paid"

    @tool(name="lower", approval=approval)
    def lower() -> str:
        """Lower the limit."""
        _limit[0] = 1
        return "lowered"

    script = [calls(call("lower"), call("pay", amount=5)), say("ok")]
    with Desk(tmp_path, script, [pay, lower]) as desk:
        for request in desk.start().waiting:
            desk.decide(request, "approve")
        assert approval == "never" or desk.resume().stop == "final"
        assert desk.results()[1] == (
            "Invalid arguments: amount: Value error, too much\n"
            "The call did not run. Mend the arguments."
        )


@pytest.mark.promise("H1")
def test_a_settlement_says_of_the_action_what_its_approval_said(tmp_path: Path) -> None:
    @tool(effect="pays {amount}", reversible=True)
    def pay(amount: int) -> str:
        """Pay."""
        raise ConnectionResetError("after it was sent")

    script = [call("pay", amount=5), say("ok")]
    with Desk(tmp_path, script, [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        (settlement,) = desk.resume().waiting
        asked, unsettled = card_of(desk, request), card_of(desk, settlement)
        assert unsettled.kind == "settlement"
        assert (unsettled.effect, unsettled.reversible) == ("pays 5", True)
        assert (asked.effect, asked.reversible, asked.claim) == ("pays 5", True, unsettled.claim)
        assert unsettled.reason.startswith("the connection was lost")
