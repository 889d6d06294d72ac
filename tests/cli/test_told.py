"""What is stored of a request and told beside its card shows no secret, either (H2)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from placet import Agent, ScriptedModel, tool
from placet.agent.asking import ask_person
from placet.agent.messages import AssistantMessage
from placet.agent.models.scripted import call, say
from placet.settings import current_account
from tests.cli.dialog import dialog
from tests.cli.place import Ended, Place, do
from tests.tidy import ROOT

ME = current_account()
PASSWORD = "correct horse"
KEY = "sk-" + "aB3" * 12


@tool
def login(user: str, password: str) -> str:
    """Log somebody in."""
    return "done"


@tool
def lose(password: str) -> str:
    """Act, and die before anybody can say so."""
    os._exit(9)


def _agent(name: str, *script: AssistantMessage) -> Agent:
    return Agent(name=name, model=ScriptedModel([*script, say("Done.")]), tools=TOOLS)


TOOLS = [login, lose, ask_person]
agents = [
    _agent("clerk", call("login", user="bob", password=PASSWORD)),
    _agent(
        "twice",
        call("login", user="bob", password=PASSWORD),
        call("login", user="bob", password="battery staple"),
    ),
    _agent("curious", call("ask_person", question="Which key?", choices=[KEY, "none"])),
    _agent("risky", call("lose", password=PASSWORD)),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", ME, agents="tests.cli.test_told:agents")


def waiting(agent: str) -> tuple[str, str]:
    begun = do("run", "--agent", agent, "--session", "main", "--json", "go").document
    return begun["run_id"], begun["waiting"][0]


def quiet(*told: Ended) -> str:
    """Give all that was told, in which there is no secret, and where one was is a mask."""
    whole = "\n".join(each.out + each.err for each in told)
    for secret in (PASSWORD, "horse", KEY):
        assert secret not in whole
    assert "‹secret, " in whole.encode().decode("unicode-escape") or "‹secret, " in whole
    return whole


@pytest.mark.promise("H2")
def test_a_reason_is_told_without_what_the_arguments_keep_secret(place: Place) -> None:
    _, request = waiting("clerk")

    reason = f"{PASSWORD} is weak, and {KEY} too"
    rejected = do("reject", request, "--reason", reason, by="ana")
    shown = do("show", request)

    told = quiet(rejected, shown)
    mask = r"‹secret, 13 characters, fingerprint \w{8}›"
    assert len(re.findall(rf"rejected by ana: {mask} is weak, and ‹secret, 39", told)) == 2
    assert "‹secret, 13 " in do("show", request, "--json").document["ending"]
    quiet(do("show", request, "--json"))


@pytest.mark.promise("H2")
def test_an_answer_and_the_choices_of_a_question_are_told_without_their_secrets(
    place: Place,
) -> None:
    _, request = waiting("curious")

    asked = (do("show", request), do("show", request, "--json"))
    unfit = do("answer", request, "red", by="ana")
    answered = do("answer", request, KEY, by="ana")
    after = (do("show", request), do("show", request, "--json"))

    quiet(*asked)
    assert "must be one of: ‹secret, 39 characters›, none." in quiet(unfit)
    assert "answered by ana: ‹secret, 39 characters" in quiet(answered)
    quiet(*after)


@pytest.mark.slow
@pytest.mark.promise("D4", "H2")
def test_what_was_found_of_an_unknown_outcome_is_told_without_secrets(place: Place) -> None:
    run, request = waiting("risky")
    do("approve", request, by="ana")
    assert place.placet("resume", run).code == 9, "the process dies in the tool's body"
    (settlement,) = do("resume", run, "--json").document["waiting"]

    settled = do("settle", settlement, "--happened", f"in with {PASSWORD}", by="ana")
    told = quiet(settled, do("show", settlement), do("show", settlement, "--json"))

    assert "settled by ana: happened: in with ‹secret, 13 characters" in told


@pytest.mark.promise("G5", "H2")
def test_an_edit_that_is_refused_tells_neither_the_old_nor_the_new_secret(place: Place) -> None:
    run, first = waiting("twice")
    do("reject", first, "--reason", f"{PASSWORD} is weak", by="ana")
    (second,) = do("resume", run, "--json").document["waiting"]

    new = ("--set", f"password={json.dumps(PASSWORD)}")
    edited = do("edit", second, *new, by="ana")

    assert "no new version: rejected" in edited.out
    assert "Rejected by ana: ‹secret, 13 characters" in quiet(edited)


@pytest.mark.promise("H2")
def test_a_value_that_is_no_json_is_not_repeated_where_its_name_is_secret(place: Place) -> None:
    _, request = waiting("clerk")

    refused = do("edit", request, "--set", f"password={PASSWORD}", "--json", by="ana")

    assert refused.error["code"] == "value_not_json"
    quiet(refused)


@pytest.mark.slow
@pytest.mark.promise("H2")
def test_a_chat_tells_what_others_decided_without_its_secrets(place: Place) -> None:
    _, request = waiting("clerk")

    with dialog(place, "chat", "--agent", "clerk", "--session", "main") as talk:
        talk.expect("approve, reject, edit or later? ")
        do("reject", request, "--reason", f"{PASSWORD} is weak", by="ana")
        talk.expect("rejected by ana: ‹secret, 13 characters")

    assert "horse" not in talk.seen


#: Where the command line reads a stored text itself: to edit arguments, and to verify and export.
_RAW = {"cli/audit.py", "cli/editing.py"}


@pytest.mark.promise("H2")
def test_no_command_reads_a_stored_text_but_through_the_one_way_that_masks_it() -> None:
    source = ROOT / "src" / "placet"
    found = {
        str(path.relative_to(source))
        for path in (source / "cli").glob("*.py")
        if ".payload(" in path.read_text(encoding="utf-8")
    }
    assert found == _RAW
