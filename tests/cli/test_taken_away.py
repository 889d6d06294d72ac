"""What an edit took away is told nowhere, and neither is what it put in its place (G5, H2)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from placet import Agent, ScriptedModel, tool
from placet.agent.messages import AssistantMessage, ModelRequest, ModelTurn
from placet.agent.models import OnText
from placet.agent.models.scripted import call, calls, say
from placet.settings import current_account
from tests.cli.dialog import dialog
from tests.cli.place import Ended, Place, do

ME = current_account()
OLD, NEW, THIRD = "correct horse", "battery staple", "glass onion"
WORDS = ("horse", "staple", "onion")


@tool
def login(user: str, password: str) -> str:
    """Log somebody in."""
    return "done"


@tool
def fail(password: str) -> str:
    """Say in vain what was tried."""
    raise OSError(f"{password} is wrong")


@tool
def lose(password: str) -> str:
    """Act, and die before anybody can say so."""
    os._exit(9)


@tool(reads_only=True)
def look(password: str) -> str:
    """Look at something behind a password."""
    return f"{password} opens nothing"


def _agent(name: str, *script: AssistantMessage) -> Agent:
    return Agent(name=name, model=ScriptedModel([*script, say(f"Not {OLD}.")]), tools=TOOLS)


class Quiet(ScriptedModel):
    """A model that says nothing before its turn is whole."""

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        """Give the reply of the script."""
        return await super().complete(request)


TOOLS = [login, fail, lose, look]
CLERK = (calls(call("login", user="bob", password=OLD), text=f"I use {OLD}."), say(f"Not {OLD}."))
agents = [
    Agent(name="quiet", model=Quiet(CLERK), tools=TOOLS),
    _agent("clerk", calls(call("login", user="bob", password=OLD), text=f"I use {OLD}.")),
    _agent(
        "vain",
        calls(call("fail", password=OLD), text=f"{OLD}, or {NEW}."),
        calls(call("fail", password=NEW), text=f"Now {NEW}."),
    ),
    _agent("risky", calls(call("lose", password=OLD), text=f"I use {OLD}.")),
    _agent("wrong", call("look", password=OLD, other=1), call("look", password=NEW)),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", ME, agents="tests.cli.test_taken_away:agents")


def waiting(agent: str) -> tuple[str, str]:
    begun = do("run", "--agent", agent, "--session", "main", "--json", "go").document
    return begun["run_id"], begun["waiting"][0]


def edited(request: str, password: str) -> str:
    """Edit a request, and give the one that takes its place."""
    new = f"password={json.dumps(password)}"
    done = do("edit", request, "--set", new, "--json", by="ana")
    successor: str = quiet(done).document["successor"]
    return successor


def quiet(*told: Ended) -> Ended:
    """Give the last of what was told, all of it without a secret."""
    for each in told:
        for word in WORDS:
            assert word not in each.out + each.err
    return told[-1]


def shown(name: str) -> Ended:
    """Show a request or a run, as text and as JSON; give the text."""
    return quiet(do("show", name, "--json"), do("show", name))


@pytest.mark.promise("G5", "H2")
def test_a_run_is_shown_without_the_secrets_that_edits_took_away(place: Place) -> None:
    run, first = waiting("clerk")
    second = edited(first, NEW)
    quiet(do("withdraw", second, by="ana"))
    third = edited(second, THIRD)
    do("resume", run, "--json")

    told = shown(run).out

    assert "Before it ran, ana changed the arguments: password: " in told
    assert "  answer\n    → Not ‹secret, 13 characters" in told
    for request in (first, second, third):
        assert "claims: I use ‹secret, 13 characters" in shown(request).out


@pytest.mark.promise("G5", "H1", "H2")
def test_an_edited_request_is_shown_without_what_was_put_in_its_place(place: Place) -> None:
    run, first = waiting("vain")
    edited(first, NEW)
    again = do("resume", run, "--json").document["waiting"][0]

    for request in (first, again):
        shown(request)
    claim = do("show", first, "--json").document["card"]["claim"]
    assert re.fullmatch("‹secret, 13 [^›]*›, or ‹secret, 14 [^›]*›.", claim)
    earlier = do("show", again, "--json").document["card"]["earlier"]["told"]
    assert 'changed the arguments: password: "‹secret, 13 characters' in earlier


@pytest.mark.slow
@pytest.mark.promise("D4", "G5", "H2")
def test_a_settlement_is_shown_without_the_secrets_that_an_edit_took_away(place: Place) -> None:
    run, first = waiting("risky")
    edited(first, NEW)
    assert place.placet("resume", run).code == 9, "the process dies in the tool's body"
    (settlement,) = do("resume", run, "--json").document["waiting"]
    assert "claims: I use ‹secret, 13 characters" in shown(settlement).out
    quiet(do("inbox"), do("inbox", "--json"))

    quiet(do("settle", settlement, "--happened", f"not {OLD} but {NEW}", by="ana"))

    assert "happened: not ‹secret, 13 characters" in shown(settlement).out


@pytest.mark.promise("H2")
def test_why_a_run_was_ended_is_told_without_the_secrets_of_its_requests(place: Place) -> None:
    run, first = waiting("clerk")
    second = edited(first, NEW)
    do("cancel", run, "--cause", f"{OLD} and {NEW} are known", by="ana")

    assert ": ‹secret, 13 characters, fingerprint" in shown(second).out
    shown(run)
    late = quiet(do("approve", second, by="ana"))
    assert f"It was cancelled. [cancelled request_id={second}] `placet show {second}` says" in (
        late.err
    )


@pytest.mark.promise("H2")
def test_a_run_is_shown_without_the_secrets_of_calls_that_were_never_made(place: Place) -> None:
    run = do("run", "--agent", "wrong", "--session", "main", "--json", "go").document["run_id"]

    told = shown(run).out

    assert "look: invalid_arguments" in told or "look: answered" in told
    assert "→ ‹secret, 14 characters" in told, "what a read found"


@pytest.mark.slow
@pytest.mark.promise("G5", "H2")
@pytest.mark.parametrize("agent", ["clerk", "quiet"])
def test_what_an_agent_says_in_a_chat_repeats_no_secret_of_its_sessions_calls(
    place: Place, agent: str
) -> None:
    _, first = waiting(agent)
    edited(first, NEW)

    with dialog(place, "chat", "--agent", agent, "--session", "main") as talk:
        talk.expect("Not ‹secret, 13 characters")
        talk.say("again")
        said = talk.expect("approve, reject, edit or later? ")
        assert ("\nI use ‹secret, 13 " in said.replace("\r", "")) is (agent == "clerk")

    assert not [word for word in WORDS if word in talk.seen]
