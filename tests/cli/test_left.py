"""What is told of a request where those who were asked are named no more, or too few are left."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from placet.cli.output import Exit
from tests.cli.place import Place, do
from tests.cli.test_standing import ESCALATES


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


@pytest.mark.promise("G10")
def test_a_request_whose_approvers_are_no_more_says_so_before_it_asks(place: Place) -> None:
    run, request = place.waiting()
    place.write("placet.toml", "approvers = []")

    refused = place.at_terminal("approve", request, typed="approve\n")
    doctor = do("doctor").out

    assert refused.code == 4
    assert "Type approve" not in refused.err
    assert "it was asked of ana, ben, and policy has none of them decide" in refused.err
    assert "  nobody is left who may decide  " in do("inbox").out
    assert f"`placet cancel {run}`" in refused.err
    assert re.search(rf"warning +asked of .*{request} \(of ana, ben\)", doctor)


@pytest.mark.promise("G10")
def test_where_all_who_were_asked_are_gone_whoever_is_named_today_decides(place: Place) -> None:
    _, request = place.waiting()
    place.write("placet.toml", 'approvers = ["root", "zoe"]')

    decided = place.at_terminal("approve", request, typed="approve\n")

    assert (decided.code, place.status(request)) == (0, "approved")


ASKS = """version = 1
[[rule]]
name = "refunds"
ruling = "ask"
tools = ["refund"]
approvers = [{people}]
quorum = {quorum}
"""


@pytest.mark.promise("G10", "G13")
def test_where_too_few_are_left_who_may_decide_it_is_said_at_once_and_nothing_runs(
    place: Place,
) -> None:
    place.write("placet.policy.toml", ASKS.format(people='"ana", "ben"', quorum=2))
    run, request = place.waiting()
    assert "left" not in do("inbox").out
    place.write("placet.policy.toml", ASKS.format(people='"ana"', quorum=1))

    told = "too few are left: 2 must approve, and ana may"
    assert f"  {told}  " in do("inbox").out
    assert do("inbox", "--json").document["requests"][0]["may_decide"] == ["ana"]
    assert re.search(rf"warning +asked of +{request}: {told}; name more, or cancel", doctor())
    approved = do("approve", request, by="ana")
    assert f"{run}: waits for people: {request}; {told}\n" in approved.out
    assert do("resume", run).code == Exit.WAITING
    assert (place.effects, place.status(request)) == ([], "waiting")

    place.write("placet.policy.toml", ASKS.format(people='"ana", "ben"', quorum=2))
    assert "left" not in do("inbox").out
    do("approve", request, by="ben")
    do("resume", run)
    assert len(place.effects) == 1


def doctor() -> str:
    return do("doctor").out


@pytest.mark.promise("G9", "G10")
def test_where_an_escalation_step_of_today_reaches_somebody_later_it_says_so(place: Place) -> None:
    place.write("placet.policy.toml", ESCALATES)
    _, request = place.waiting()
    place.write("placet.policy.toml", ESCALATES.replace('["ana"]', '["zoe"]'))

    early = [do("approve", request, by=who) for who in ("ana", "ben")]
    asked = place.at_terminal("approve", request, typed="approve\n", by="ana")
    inbox = do("inbox", "--json").document["requests"][0]

    for refused in (*early, asked):
        assert refused.code == 4
        assert "it was asked of ana, and policy has none of them decide" in refused.err
        assert "From a later escalation step on ben may." in refused.err
        assert "Name an approver" not in refused.err
    assert inbox["may_decide"] == ["ben"]
    assert "left" not in do("inbox").out
    place.pass_time(timedelta(hours=1))
    assert do("approve", request, by="ben").code == 0
