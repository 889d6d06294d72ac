"""What was typed wrongly is told what is wrong, in its own words, and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import Agent, Placet, ScriptedModel
from placet.core.errors import InvalidDeclaration
from placet.settings import current_account
from tests.cli.place import Place, do

CASE = """[[case]]
name = "{name}"
tool = "{tool}"
arguments = {{order_id = "A-1", amount = 1}}
expect = "ask"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def test_a_key_that_a_file_of_cases_has_not_is_told_of_that_file(place: Place) -> None:
    place.write("cases.toml", "version = 1\n" + CASE.format(name="one", tool="refund"))

    wrong = do("policy", "test", "cases.toml", "--json")

    assert "cases.toml:1: There is no key 'version' in a file of cases." in wrong.error["message"]


def test_a_case_of_a_tool_that_is_not_there_is_named_with_its_file_and_line(place: Place) -> None:
    several = CASE.format(name="one", tool="refund")
    place.write("cases.toml", several)
    unclear = do("policy", "test", "cases.toml", "--json").error
    place.write("cases.toml", f'{several}agent = "shop"\n{CASE.format(name="two", tool="refnd")}')

    wrong = do("policy", "test", "cases.toml", "--json")

    assert unclear["message"].startswith("cases.toml:1: one: Several agents have it: ")
    assert unclear["hint"] == "Say `agent` in the case."
    assert (wrong.code, wrong.error["code"]) == (2, "unknown_tool")
    assert wrong.error["message"] == "cases.toml:7: two: The app has no tool named refnd."
    assert "refund" in wrong.error["hint"]


def test_an_id_of_a_run_that_is_not_there_is_told_where_runs_are_listed(place: Place) -> None:
    place.waiting()

    run, request = do("show", "run_nope", "--json").error, do("show", "rq_nope", "--json").error

    assert run["message"] == "There is no such run here, and no such request."
    assert "`placet runs` lists the runs" in run["hint"]
    assert request["message"] == "There is no such request here."


@pytest.mark.parametrize(
    "words",
    [
        ("end", "nope"),
        ("erase", "nope", "--yes"),
        ("audit", "export", "--session", "nope"),
        ("audit", "verify", "--session", "nope"),
        ("policy", "report", "--session", "nope"),
    ],
)
def test_a_session_that_is_not_there_is_told_what_lists_them(
    place: Place, words: tuple[str, ...]
) -> None:
    place.waiting()

    wrong = do(*words, "--json")

    assert (wrong.code, wrong.error["code"]) == (5, "session_not_found")
    assert "`placet runs` lists" in wrong.error["hint"]
    assert "session main" in do("runs").out


@pytest.mark.promise("H5")
def test_what_is_no_settlement_is_refused_before_a_word_is_typed(place: Place) -> None:
    place = Place(place.directory, "ana", current_account())
    _, request = place.waiting()

    refused = place.at_terminal("settle", request, "--abandon", "--json", typed="abandon\n")

    assert refused.code == 3
    assert "Type abandon" not in refused.err
    assert do("show", request, "--json").document["status"] == "waiting"


def test_a_pair_that_signs_is_told_of_as_what_it_is(place: Place) -> None:
    key, pair = do("keys", "new", "one.key").out, do("keys", "new", "--signing", "pair.pem").out

    assert "sealed" in key
    assert "sealed" not in pair
    assert "signs in your name" in pair
    assert "pair.pem.pub" in pair.splitlines()[-1]


def test_a_command_that_is_pointed_to_has_what_it_needs(place: Place) -> None:
    _, request = place.waiting()

    assert "`placet keys new FILE`" in do("doctor").out
    assert "`placet token NAME` makes one" in do("approve", request, "--json").error["hint"]


def test_a_program_is_told_how_an_agent_becomes_known_and_of_two_of_one_name(
    place: Place,
) -> None:
    one, two = (Agent(name="shop", model=ScriptedModel([])) for _ in range(2))
    with Placet.open("sqlite:///placet.db", agents=[one], approvers=["ana"]) as placet:
        with pytest.raises(InvalidDeclaration) as unknown:
            placet.run_sync("desk", "go")
        with pytest.raises(InvalidDeclaration) as twice:
            placet.run_sync(two, "go")

    assert "Placet.open(agents=[…])" in unknown.value.hint
    assert twice.value.message == "Two agents are named shop."
    assert twice.value.hint == "Give one another name."
