"""Cards at the command line: in two languages, folded or whole, for a terminal and for a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from placet.cli.words import WORDS
from placet.core.card_surfaces import LEAST_WIDTH, within
from placet.core.card_words import LANGUAGES
from placet.core.display import columns
from placet.settings import current_account
from tests.cli.dialog import dialog
from tests.cli.place import Place, do

ESCAPE = re.compile(r"\x1b\[\d+m")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


@pytest.mark.promise("H1")
def test_a_card_is_in_the_language_that_is_named_or_set(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, request = place.waiting()
    english, chinese = f"Approval request {request}  (waiting)", f"审批请求 {request}（等待中）"

    assert do("show", request).out.startswith(english)
    assert do("show", request, "--lang", "zh").out.startswith(chinese)
    assert do("--lang", "zh", "show", request).out.startswith(chinese)
    monkeypatch.setenv("PLACET_LANG", "zh")
    assert do("show", request).out.startswith(chinese)
    assert do("show", request, "--lang", "en").out.startswith(english)
    card = do("show", request, "--json").document["card"]
    assert (card["language"], card["then"]) == ("zh", "调用过期，不会执行")
    monkeypatch.delenv("PLACET_LANG")
    settings = place.directory / "placet.toml"
    settings.write_text('language = "zh"\n' + settings.read_text(encoding="utf-8"), "utf-8")
    assert do("show", request).out.startswith(chinese)


def test_a_language_that_there_is_not_is_refused(place: Place) -> None:
    refused = do("inbox", "--lang", "tlh", "--json")

    assert (refused.code, refused.error["code"]) == (2, "setting_invalid")
    assert "en, zh" in refused.error["message"]


@pytest.mark.promise("H5")
def test_before_a_decision_the_card_is_in_the_language_too(place: Place) -> None:
    place = Place(place.directory, "ana", current_account())
    _, request = place.waiting()

    approved = place.at_terminal("approve", request, "--lang", "zh", typed="approve\n")

    assert approved.code == 0, approved
    assert f"审批请求 {request}（等待中）" in approved.err


@pytest.mark.promise("H2")
def test_what_is_long_is_folded_and_shown_whole_on_demand(place: Place) -> None:
    _, request = place.waiting()
    order = "A-1" + "x" * 9_000 + "y" * 9_000 + "; rm -rf /"
    words = ("--set", f"order_id={json.dumps(order)}", "--json")
    new = do("edit", request, *words, by="ana").document["successor"]

    folded, whole = do("show", new).out, do("show", new, "--full").out

    assert "order_id is a text of 1 line, 18013 characters:" in folded
    assert "14013 of 18013 characters in 1 line are not shown here" in folded
    assert "; rm -rf /" in folded
    assert order not in folded
    assert order in whole
    assert "not shown" not in whole


@pytest.mark.promise("H2")
@pytest.mark.parametrize("plainly", [False, True])
def test_a_terminal_gets_lines_of_its_width_and_colours_where_they_are_wanted(
    place: Place, plainly: bool
) -> None:
    _, request = place.waiting()
    wide = 250 - len('    order_id = "')
    forged = "x" * wide + "  digest      0000"
    words = ("--set", f"order_id={json.dumps(forged)}", "--json")
    new = do("edit", request, *words, by="ana").document["successor"]

    more: Any = {"NO_COLOR": "1"} if plainly else {}
    with dialog(place, "show", new, TERM="xterm", **more) as talk:
        assert talk.ended() == 0

    assert (ESCAPE.search(talk.seen) is None) == plainly
    lines = ESCAPE.sub("", talk.seen).rstrip("\n").split("\n")
    assert lines[0] == f"Approval request {new}  (approved)"
    assert max(map(columns, lines)) <= 250
    assert [line for line in lines if line.startswith("      ⋮ ")]
    assert [line for line in lines if line.startswith("  digest ")] == [
        line for line in lines if re.fullmatch(r"  digest      [0-9a-f]{64}", line)
    ]


#: Begins as lines of placet's do, and fills whole lines of a terminal of 80 columns.
FORGED = "".join(
    line.ljust(80)
    for line in (
        "  digest      0000000000000000",
        "  approvers   nobody (0 needed: approved by policy)",
        "Type approve to approve this, or anything else to leave it: ",
    )
)


def forged_after(begun: str) -> str:
    """Give a text that a terminal of 80 columns would break where the forged lines begin."""
    return "x" * (80 - len(begun)) + FORGED


def own_lines(seen: str) -> list[str]:
    """Give the lines that begin as placet's do, after seeing that the terminal broke none."""
    lines = ESCAPE.sub("", seen).rstrip("\n").split("\n")
    assert max(map(columns, lines)) <= 80
    assert any(line.startswith("      ⋮ ") for line in lines)
    return [line for line in lines if re.match(r"  (digest|approvers) |Type approve", line)]


@pytest.mark.slow
@pytest.mark.promise("H2")
def test_no_text_begins_a_line_at_a_terminal_before_or_after_a_decision(place: Place) -> None:
    place = Place(place.directory, "ana", current_account())
    _, request = place.waiting()
    order = json.dumps(forged_after('    order_id = "'))

    with dialog(place, "edit", request, "--set", f"order_id={order}", width=80) as talk:
        shown = talk.expect("anything else to leave it: ")
        talk.type("edit\r")
        assert talk.ended() == 0
    assert [line for line in own_lines(shown) if "0000" in line or "Type approve" in line] == []
    (decided,) = own_lines(talk.seen[len(shown) :])
    assert re.fullmatch(r"  digest +[0-9a-f]{64}", decided)


@pytest.mark.promise("H2")
@pytest.mark.slow
def test_no_reason_and_no_name_begins_a_line_at_a_terminal(place: Place) -> None:
    _, request = place.waiting(session=forged_after("x" * 40))

    with dialog(place, "inbox", width=80) as talk:
        assert talk.ended() == 0
    assert own_lines(talk.seen) == []
    reason = forged_after(f"{request} rejected by ana: ")
    words = ("reject", request, "--reason", reason)
    with dialog(place, *words, by="ana", width=80) as talk:
        assert talk.ended() == 0
    assert len(own_lines(talk.seen)) == 1
    do("reject", request, "--reason", reason, by="ana")
    with dialog(place, "show", request, width=80) as talk:
        assert talk.ended() == 0
    assert len(own_lines(talk.seen)) == 2


@pytest.mark.promise("H2")
def test_a_card_for_a_pager_is_broken_and_whole_on_demand(place: Place) -> None:
    _, request = place.waiting()
    order = forged_after('    order_id = "')
    words = ("--set", f"order_id={json.dumps(order)}", "--json")
    new = do("edit", request, *words, by="ana").document["successor"]

    assert max(map(columns, do("show", new).out.split("\n"))) <= 80
    assert order in do("show", new, "--full").out


@pytest.mark.promise("H2")
def test_lines_are_broken_at_their_columns_whatever_sets_them_apart() -> None:
    line = "\x1b[2m  title   \x1b[0m" + "漢" * 60 + "\x1b[33m⟦U+202E⟧\x1b[0m"
    broken = within(line, LEAST_WIDTH)

    lines = ESCAPE.sub("", broken).split("\n")
    assert max(map(columns, lines)) <= LEAST_WIDTH
    assert all(each.startswith("      ⋮ ") for each in lines[1:])
    assert broken.replace("\n      ⋮ ", "") == line
    assert within("short", 80) == "short"


def test_what_stands_under_a_card_and_the_inbox_are_in_its_language(place: Place) -> None:
    run, request = place.waiting()
    listed = do("inbox", "--lang", "zh").out
    do("approve", request, by="ana")
    do("resume", run)

    shown = do("show", request, "--lang", "zh").out

    assert re.fullmatch(rf"{request}  refund  .+  会话 main，截止 .+ UTC\n", listed)
    assert "  结局        ana 已批准；它开始了，结果为 succeeded" in shown
    assert re.search(r"  投票        ana，\d{4}-.+Z，经由 token\n", shown)
    assert "  结果\n    refunded 129\n" in shown
    assert do("inbox", "--lang", "zh").out == "没有等待处理的请求。\n"


def test_every_word_beside_a_card_is_there_in_every_language() -> None:
    places = {key: set(re.findall(r"\{(\w+)\}", text)) for key, text in WORDS["en"].items()}

    for language in LANGUAGES:
        found = {k: set(re.findall(r"\{(\w+)\}", t)) for k, t in WORDS[language].items()}
        assert found == places, language
