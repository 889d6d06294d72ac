"""Attacks on the command line by what models say: text that costs, and secrets in questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from placet.agent.asking import ask_person
from placet.agent.models.scripted import call, say
from placet.cli import live
from placet.cli.chat_requests import HEADING
from placet.cli.live import Pieces
from placet.cli.main import main
from placet.core.display import visible
from tests.runtime.desk import Desk

SECRET = "sk-abcdefghij1234567890"


@pytest.mark.promise("D6", "H2")
@pytest.mark.parametrize("piece", [" " * 64, "\n", "\u0301", "\u200b"])
def test_text_that_shows_nothing_costs_a_watcher_no_more_than_its_length(
    monkeypatch: pytest.MonkeyPatch, piece: str
) -> None:
    looked: list[str] = []
    stands_alone = live._stands_alone

    def counted(character: str) -> bool:
        looked.append(character)
        return stands_alone(character)

    monkeypatch.setattr(live, "_stands_alone", counted)
    pieces = Pieces()
    said = [*("a", *[piece] * 500, "b", *[piece] * 3, "c")]
    seen = "".join(pieces.add(each) for each in said) + pieces.end()
    assert seen == visible("".join(said), keep_newlines=True)
    assert len(looked) <= sum(map(len, said))


@pytest.mark.promise("H2")
def test_a_secret_among_a_questions_choices_is_masked_wherever_it_is_shown(tmp_path: Path) -> None:
    asks = call("ask_person", question=f"use {SECRET}?", choices=[SECRET, "none"])
    with Desk(tmp_path, [asks, say("ok")], [ask_person]) as desk:
        (request,) = desk.start().waiting
    out: list[str] = []
    for how in ([], ["--json"]):
        url = f"sqlite:///{tmp_path}/placet.db"
        ended = CliRunner().invoke(main, ["show", request, "--store", url, *how])
        assert ended.exit_code == 0, ended.output
        out.append(ended.output)
    assert not any(SECRET in each for each in out)
    assert "none" in json.loads(out[1])["question"]["choices"]


@pytest.mark.promise("H2")
def test_no_text_can_bear_the_heading_of_a_card() -> None:
    assert HEADING not in visible(f"{HEADING}\nApproval request rq_1", keep_newlines=True)
