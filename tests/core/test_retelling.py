"""Placet's own sentences in the record are told in every language, and nobody else's changed."""

from __future__ import annotations

import ast
import inspect
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from placet.core import wording
from placet.core.card import Attempt, Earlier
from placet.core.card_surfaces import html, markdown, plain, terminal
from placet.core.card_words import LANGUAGES, WORDS, Language, said
from placet.core.deciding_steps import nobody
from placet.core.record_words import FAMILY
from placet.core.retelling import retold, retold_end
from placet.core.values import Needs
from tests.core.cards import Making
from tests.tidy import ROOT

OWN = sorted(key for key in WORDS["en"] if key.startswith(FAMILY))
PLACE = re.compile(r"\{(\w+)\}")
OTHERS: list[Language] = [language for language in LANGUAGES if language != "en"]

#: What can stand in places that take no sentence.
NUMBERED = ("attempts", "count", "most", "quorum", "seconds", "times", "waiting")


def places(key: str) -> dict[str, str]:
    """Give something for each place of a sentence."""
    names = PLACE.findall(WORDS["en"][key])
    return {name: "3" if name in NUMBERED else f"<{name}>" for name in names}


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("key", OWN)
def test_a_sentence_of_the_record_is_told_in_each_language(key: str, language: Language) -> None:
    recorded = said("en", key, **places(key))
    told = retold(language, recorded)
    assert told == said(language, key, **places(key)) != recorded
    assert retold("en", recorded) == recorded


# --- no sentence is written down that is not among them ---------------------------------------

#: What some functions of `wording` that tell an end are given: words without any letter.
GIVEN: dict[str, Any] = {
    "request": None,
    "deadline_at": datetime(2026, 1, 2, tzinfo=UTC),
    "attempts": 2,
    "not_done": True,
    "most": 3,
    "found": [],
}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "failed": [{"attempts": 1}, {"not_done": False}],
    "compensated": [{"told": ""}, {"attempts": 1}],
    "rolled_back": [{"attempts": 1}],
    "settled_unknown": [{"detail": ""}],
    "settled_not_done": [{"detail": ""}],
    "no_tools": [{"mode": "plan-act"}],
    "child_ended": [{"answer": ""}],
    "unknown_tool": [{"known": ()}],
}
#: What says something else than how a call ended, or puts a stranger's text first.
NOT_ENDS = {"command_for", "changes", "answered", "expired"}


def ends() -> Iterator[tuple[str, str]]:
    """Give what each function of `wording` tells, by its name."""
    for name, function in inspect.getmembers(wording, inspect.isfunction):
        if name.startswith("_") or name in NOT_ENDS or function.__module__ != wording.__name__:
            continue
        names = inspect.signature(function).parameters
        many = {"known": ("<>",), "tried": ("<>",), "changed": ("<>",)}
        given = {each: GIVEN.get(each, many.get(each, "<>")) for each in names}
        for variant in [{}, *VARIANTS.get(name, [])]:
            yield name, function(**{**given, **variant})


@pytest.mark.parametrize("language", OTHERS)
def test_whatever_a_model_is_told_of_an_end_is_told_in_each_language(language: Language) -> None:
    seen = 0
    for name, told in ends():
        left = re.sub(r"UTC|plan-act", "", retold_end(language, told))
        assert not re.search("[A-Za-z]{2}", left), (name, left)
        seen += 1
    assert seen > 25
    for needs in (Needs(approvers=()), Needs(approvers=("a",), quorum=2)):
        assert not re.search("[A-Za-z]", retold(language, nobody(needs, "b")))
    left_out = Needs(approvers=("a", "b"), quorum=2, exclude_requester=True)
    assert not re.search("[A-Za-z]", retold(language, nobody(left_out, "b")))
    request = Making().request
    told = wording.expired(request)
    for each in request.needs.approvers:
        told = told.replace(each, "<>")
    assert not re.search("[A-Za-z]{4}", retold_end(language, told)), told


#: Where sentences are made that are recorded, and not only said to who calls.
MAKERS = (
    *sorted((ROOT / "src/placet/core").glob("deciding_*.py")),
    ROOT / "src/placet/core/unfolding.py",
    *(
        ROOT / f"src/placet/runtime/{name}.py"
        for name in ("rulings", "bodies", "recovering", "relaying", "gate", "hosted_drivers")
    ),
)
#: Keywords and names that such a sentence is given by, and functions that take one.
BY_NAME = {"cause", "reason", "told", "first", "what"}
TAKERS = {"put_to_a_person", "lapse", "give_up", "interrupted", "stop_run", "take_back"}


def sentences() -> Iterator[tuple[str, str]]:
    """Give what is written down as a cause or a reason, with `{}` for what varies in it."""
    for path in MAKERS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            values: list[ast.expr] = []
            match node:
                case ast.keyword(arg="cause" | "reason" | "error", value=value):
                    values = [value]
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in BY_NAME:
                    values = [value]
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                    values = args if name in TAKERS else []
                case ast.Return(value=ast.expr() as value) if path.stem in ("relaying", "bodies"):
                    values = [value]
            for value in values:
                for text in _texts(value):
                    if text.count(" ") > 1:
                        yield f"{path.name}:{value.lineno}", text


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
        case ast.IfExp(body=one, orelse=other):
            yield from (*_texts(one), *_texts(other))
        case _:
            pass


#: What is no sentence of the record: reports of a worker, parts that are put together, and others.
PARTS = {
    "{} {}",
    "the policy of agent {} {}",  # agent_asks, agent_silent and agent_failed.
    "{}, and so did {}: {}",  # failed_ and stood_, by what failed.
    "it succeeded, a later call failed",
    "rolling it back",
    "Approved by {}.",  # Of a refusal.
    "(a result of type {} that cannot be written down)",  # Of a result, for the model.
}


def test_no_cause_and_no_reason_is_written_down_in_one_language_alone() -> None:
    known = {PLACE.sub("{}", WORDS["en"][key]) for key in OWN}
    found = {text: at for at, text in sentences()}
    assert len(found) > 20
    assert {text: at for text, at in found.items() if text not in known | PARTS} == {}


# --- what others wrote ------------------------------------------------------------------------


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "the tool always asks, says the file",
        "Please: the tool always asks",
        "the tool always asks\n",
        "its approval function failed: ",
        "the same call failed often times.",
        "bob: the cat ended the session",
        "the rule a: b asks",
        "Rejected by a\nb: c",
        "Failed",
    ],
)
def test_what_is_no_sentence_of_placets_is_told_as_it_is(text: str, language: Language) -> None:
    assert retold(language, text) == text


def test_what_stands_in_a_sentence_is_told_as_it_is_but_for_a_cause_and_what_changed() -> None:
    assert retold("zh", "its approval function failed: the tool always asks") == (
        "工具的审批函数出错：the tool always asks"
    )
    assert retold("zh", "it was being taken back, and the connection was lost: a {b}") == (
        "撤回期间，连接中断：a {b}"
    )
    assert retold("zh", "changed since it was approved: tool, surface generation, x") == (
        "获批以来有变：工具、该作用面上发生的事、x"
    )


def test_of_an_end_only_what_stands_around_a_strangers_lines_is_retold() -> None:
    told = wording.failed("OSError: no\nFailed: no\nThe end", not_done=False, attempts=1)
    assert retold_end("zh", wording.edited("ana", 'a: "b" -> "c"', told)).split("\n") == [
        '执行之前，ana 修改了参数：a: "b" -> "c"',
        "失败：OSError: no",
        "Failed: no",
        "The end",
        "它在失败之前可能已产生作用。",
    ]


@pytest.mark.promise("H1", "H2")
@pytest.mark.parametrize("surface", [plain, terminal, markdown, html])
def test_a_card_tells_placets_sentences_in_its_language_on_each_surface(surface: Any) -> None:
    late = Attempt(number=2, end="lost", cause="the process that ran it is gone")
    making = Making().told(
        grounds="the tool always asks",
        claim="the tool always asks",
        attempts=(Attempt(number=1, end="failed", cause="OSError: down"), late),
        earlier=Earlier(
            code="tool_failed",
            times=2,
            told=wording.failed("OSError: password=hunter22", not_done=True, attempts=2),
        ),
        changes="changed since it was approved: environment",
        replaced=None,
    )
    told = surface(making.card("zh"))
    for sentence in (
        "该工具每次都须询问",
        "执行它的进程已不存在",
        "执行 2 次后失败：",
        "它没有产生作用。",
        "获批以来有变：环境",
    ):
        assert sentence in told
    assert "OSError: down" in told
    assert "the tool always asks" in told, "the model's claim is as it wrote it"
    assert "hunter22" not in told


def test_a_long_text_that_is_nearly_a_sentence_takes_no_time() -> None:
    nearly = "Outcome unknown: " + " could not find out what became of it (" * 5_000
    begun = time.perf_counter()
    assert retold("zh", nearly).startswith("结果不明：")
    assert retold_end("zh", "\n".join([nearly] * 9)).endswith("(")
    assert time.perf_counter() - begun < 1


@pytest.mark.promise("H2")
@pytest.mark.parametrize("key", [key for key, words in WORDS["en"].items() if "{cause}" in words])
def test_sentences_within_each_other_without_end_are_told_to_a_depth(key: str) -> None:
    before, _, after = re.sub(r"\{\w+\}", "1", WORDS["en"][key].replace("{cause}", "\0")).partition(
        "\0"
    )
    text = before * 10_000 + "x" + after * 10_000
    assert "x" in retold("zh", text)
    assert "x" in retold_end("zh", text)
