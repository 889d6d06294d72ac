"""Under a card in Chinese all that placet says of its end is in Chinese, and nothing else is."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path

import pytest

from placet.cli.words import WORDS
from placet.core.card_words import LANGUAGES
from placet.settings import current_account
from tests.cli.dialog import dialog
from tests.cli.place import Place, do
from tests.tidy import ROOT

#: A policy by which an edit comes to nothing.
LARGE = """
version = 1
[[rule]]
name = "large"
ruling = "deny"
tools = ["refund"]
when = [{argument = "amount", at_least = 1000}]
"""

#: What may stand in English letters in what placet says: names, codes, commands.
_LATIN = re.compile(
    r"`[^`]*`|rq_\w+|run_\w+|st_\w+|succeeded|policy_denied|worker|UTC|ana|ben|root"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def ending(request: str) -> str:
    """Give how a request ended, in Chinese, as JSON and as text alike."""
    shown = do("show", request, "--lang", "zh", "--json").document
    told: str = shown["ending"]
    text = re.sub(r"\n *⋮ ", "", do("show", request, "--lang", "zh").out)
    assert f"  结局        {told}".split("\n")[0] in text
    assert shown["card"]["language"] == "zh"
    return told


def only_chinese(told: str) -> str:
    assert not re.search("[A-Za-z]{2}", _LATIN.sub("", told)), told
    return told


def test_how_a_request_ended_is_told_in_the_language_of_its_card(place: Place) -> None:
    _, rejected = place.waiting(session="1")
    do("reject", rejected, "--reason", "no need", by="ben")
    _, edited = place.waiting(session="2")
    new = do("edit", edited, "--set", "amount=1", "--json", by="ana").document["successor"]
    run, cancelled = place.waiting(session="3")
    do("cancel", run, "--cause", "the tool always asks")
    run, spent = place.waiting(session="4")
    do("approve", spent, by="ana")
    do("resume", run)
    _, waits = place.waiting(session="5")
    run, late = place.waiting(session="6")
    place.pass_time(timedelta(days=2))

    assert ending(rejected) == "ben 拒绝了：no need"
    assert ending(edited) == f"ana 作了修改；新版本是 {new}"
    assert ending(cancelled).endswith(": the tool always asks"), "a person wrote it"
    assert ending(cancelled).startswith("它的运行被结束：")
    assert ending(spent) == "ana 已批准；它开始了，结果为 succeeded"
    assert only_chinese(ending(waits)).startswith("已过期，即为不批准；`placet resume ")
    do("resume", run)
    assert ending(late) == "到截止时间无人决定；它没有执行"
    assert only_chinese(ending(new)).startswith("ana 已批准；已过期")


def test_why_a_request_is_asked_and_why_an_edit_came_to_nothing_are_in_the_language(
    place: Place,
) -> None:
    _, first = place.waiting()
    card = do("show", first, "--lang", "zh", "--json").document["card"]
    assert (card["reason"], card["rule"]) == ("该工具每次都须询问", "tool:refund")

    place.write("placet.policy.toml", LARGE)
    assert do("edit", first, "--set", "amount=2000", by="ana").code == 3

    who, told = ending(first).split("（policy_denied）：")
    assert who == "ana 作了修改；没有询问新版本"
    assert told == "策略不允许（policy:large）：规则 large 不允许\n调用没有执行。"


@pytest.mark.slow
def test_a_chat_tells_how_what_it_showed_ended_in_the_language(place: Place) -> None:
    place = Place(place.directory, "ana", current_account())
    settings = place.directory / "placet.toml"
    settings.write_text('language = "zh"\n' + settings.read_text(encoding="utf-8"), "utf-8")
    _, request = place.waiting()

    with dialog(place, "chat", "--agent", "shop", "--session", "main") as talk:
        talk.say("approve", at="approve, reject, edit or later? ")
        talk.expect(f"{request}: {current_account()} 已批准")
        assert "尚未开始" not in talk.expect("> ")


def test_no_ending_is_written_down_beside_the_words() -> None:
    source = (ROOT / "src/placet/cli/status.py").read_text(encoding="utf-8")
    endings = {"_ending", "_late", "_answered_at_once", "_outcome", "_listed", "_changed"}
    seen = set()
    for function in ast.walk(ast.parse(source)):
        if getattr(function, "name", "") not in endings:
            continue
        seen.add(function.name)  # type: ignore[attr-defined]  # What has that name is a function.
        doc = ast.get_docstring(function, clean=False)  # type: ignore[arg-type]  # As above.
        beside = {n.msg for n in ast.walk(function) if isinstance(n, ast.Assert)}
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and node not in beside:
                text = str(node.value)
                assert text == doc or text.count(" ") < 2 or text.startswith("`placet "), text
    assert seen == endings


def test_every_word_of_an_ending_is_in_each_language() -> None:
    for language in LANGUAGES:
        for key, words in WORDS[language].items():
            bare = re.sub(r"\{\w+\}|worker", "", words)
            if language != "en" and not key.startswith("inbox.approval"):
                assert not re.search("[A-Za-z]{2}", bare.replace("UTC", "")), key
