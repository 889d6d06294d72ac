"""The card says all that a decision needs (H1), in either language."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.core.card import Attempt, Card, card_of
from placet.core.card_parts import layout_of
from placet.core.card_surfaces import plain
from placet.core.card_words import LANGUAGES, WORDS
from placet.core.state import Approved, Open, Superseded, Voided
from placet.core.values import Escalation, Needs, Occurrence
from tests.core.cards import Making

FINGERPRINT = re.compile(r"(, fingerprint |，指纹 )[0-9a-f]{8}›")


def lines(card: Card) -> list[str]:
    return plain(card).split("\n")


def part(making: Making, key: str, language: Any = "en") -> str:
    """Give what stands in one part of a card, as plain lines."""
    card = making.card(language)
    titles = [found.title for found in layout_of(card).parts]
    (title,) = [found.title for found in layout_of(card).parts if found.key == key]
    begun = False
    found = []
    for line in lines(card)[1:]:
        if line.startswith("  ") and line[2] != " ":
            begun = line.startswith(f"  {title} ")
            assert any(line.startswith(f"  {each} ") for each in titles)
        if begun:
            found.append(line)
    return FINGERPRINT.sub("›", "\n".join(found))


# --- what a decision needs ------------------------------------------------------------------------


@pytest.mark.promise("H1")
def test_a_card_says_all_that_a_decision_needs() -> None:
    making = Making(
        {"order": "A-1", "amount": "1290.00", "lines": [{"sku": "cup", "n": 2}], "to": ["a", "b"]}
    ).told(
        display={"effect": "moves {amount} USD", "preview": "paid: no -> yes"},
        claim="It arrived broken.",
    )
    making.request = replace(
        making.request,
        rule="large refunds",
        needs=Needs(approvers=("user", "bob", "ann"), quorum=2, exclude_requester=True),
    )
    making.run = replace(making.run, parent=Occurrence("run_top", 1, 0))

    assert (
        plain(making.card())
        == f"""\
Approval request {making.request.id}  (waiting)
  tool        pay
    order = "A-1"
    amount = "1290.00"
    lines[0].sku = "cup"
    lines[0].n = 2
    to = ["a", "b"]
  effect      moves 1290.00 USD
  cost        1,290.00 USD
  preview     paid: no -> yes
  reversible  not declared to be
  asked by    "large refunds": it is above the limit
  the model   claims: It arrived broken.
  changed     since it was approved as rq_before: the tool
  attempts    attempt 1 failed, and may have acted: OSError: down
  before      proposed 2 times before in this run; then tool_failed: Failed: down
  for         user (a, session s1)
  run         r1, under run_top
  approvers   ann, bob (2 needed)
  votes       ann (1 of 2)
  deadline    2026-01-01 13:00:00 UTC; then the call expires and does not run
  digest      {making.request.digest}"""
    )


@pytest.mark.promise("H1")
def test_a_card_says_it_in_chinese() -> None:
    making = Making({"金额": "1290.00"}).told(
        display={"effect": "退款 {金额} 元", "cost": {**COST, "field": "金额", "currency": "CNY"}}
    )

    assert (
        plain(making.card("zh"))
        == f"""\
审批请求 {making.request.id}（等待中）
  工具        pay
    金额 = "1290.00"
  作用        退款 1290.00 元
  费用        1,290.00 CNY
  预览        2 行，7 个字符：
    | one
    | two
  可撤回      工具未声明可撤回
  询问依据    gated：it is above the limit
  模型        自称：the customer asked for it
  变更        自 rq_before 获批以来有变：工具
  执行次数    第 1 次执行失败，可能已产生作用：OSError: down
  此前        本次运行中提出过 2 次，最近结果为 tool_failed：失败：down
  代表        user（a，会话 s1）
  运行        r1
  审批人      ann、bob（需 1 人）
  已投票      ann
  截止时间    2026-01-01 13:00:00 UTC；届时调用过期，不会执行
  摘要        {making.request.digest}"""
    )


COST = {"field": "amount", "currency": "USD", "places": 0}


@pytest.mark.promise("H1")
@pytest.mark.parametrize(
    "amount, places, told",
    [
        (1290, 2, "12.90 USD"),
        ("0.10", 0, "0.10 USD"),
        (0.1, 0, "0.1 USD"),
        (9007199254740991, 2, "90,071,992,547,409.91 USD"),
        ("-5", 0, "-5 USD"),
        ("1e9", 0, 'not known: "1e9" is no amount of USD'),
        ("a lot", 0, 'not known: "a lot" is no amount of USD'),
        (True, 0, "not known: true is no amount of USD"),
        (None, 0, "not known: null is no amount of USD"),
    ],
)
def test_a_cost_is_exact_or_said_not_to_be_known(amount: Any, places: int, told: str) -> None:
    making = Making({"amount": amount}).told(display={"cost": {**COST, "places": places}})
    assert making.card().cost == told


@pytest.mark.promise("H1", "H2")
def test_a_secret_amount_stays_secret_in_the_cost() -> None:
    making = Making({"amount": "77"}).told(display={"cost": COST, "secrets": ["amount"]})
    assert making.card(salt="").cost == ('not known: "‹secret, 2 characters›" is no amount of USD')


@pytest.mark.promise("H1")
def test_values_are_shown_with_their_paths_and_kinds() -> None:
    making = Making(
        {
            "text": "1",
            "number": 1,
            "deep": {"a": {"b": [{}, [], [[1], "x"]]}},
            "odd name": {"a.b": 1, "": 2},
            "lines": "one\n\ttwo\n",
            "none": None,
            "long": "y" * 401,
        }
    )
    assert part(making, "tool") == "\n".join(
        [
            "  tool        pay",
            '    text = "1"',
            "    number = 1",
            "    deep.a.b[0] = {}",
            "    deep.a.b[1] = []",
            "    deep.a.b[2][0] = [1]",
            '    deep.a.b[2][1] = "x"',
            '    ["odd name"]["a.b"] = 1',
            '    ["odd name"][""] = 2',
            "    lines is a text of 3 lines, 9 characters:",
            "    | one",
            "    | ⟦U+0009⟧two",
            "    | ",
            "    none = null",
            "    long is a text of 1 line, 401 characters:",
            f"    | {'y' * 401}",
        ]
    )
    assert part(Making({}), "tool") == "  tool        pay\n    no arguments"


@pytest.mark.promise("H1")
def test_values_deeper_than_a_person_follows_are_shown_as_json() -> None:
    value: Any = "x"
    for _ in range(9):
        value = {"a": value}
    assert part(Making(value), "tool") == (
        '  tool        pay\n    a.a.a.a.a.a.a = {"a": {"a": "x"}}'
    )


@pytest.mark.promise("G4", "H1")
def test_arguments_that_cannot_be_read_stand_as_they_came() -> None:
    assert part(Making('{"a": 1, "a": 2}'), "tool") == (
        "  tool        pay\n    the arguments could not be read; only reject or edit is possible:"
        '\n    | {"a": 1, "a": 2}'
    )


@pytest.mark.promise("H1")
def test_earlier_attempts_say_how_each_ended() -> None:
    attempts = [
        Attempt(number=1, end="failed", cause="OSError: down"),
        Attempt(number=2, end="not_done", cause="NotDone: closed"),
        Attempt(number=3, end="lost", cause="the connection was lost:\nreset"),
    ]
    making = Making().told(attempts=attempts)
    making.call = replace(making.call, attempts=3)
    assert part(making, "attempts").split("\n") == [
        "  attempts    3 begun",
        "    attempt 1 failed, and may have acted: OSError: down",
        "    attempt 2 failed, and did not act: NotDone: closed",
        "    attempt 3 has no known outcome: ",
        "    | the connection was lost:",
        "    | reset",
    ]


@pytest.mark.promise("H1")
def test_what_changed_is_said_by_whom_and_since_when() -> None:
    edited = json.dumps(
        [
            {"name": "who", "old": "bob", "new": "eve"},
            {"name": "note", "new": "x"},
            {"unreadable": True},
        ]
    )
    making = Making().told(changes=edited)
    superseded = replace(making.request, state=Superseded(by="ana", successor="rq_1"))
    assert part(making.told(replaced=superseded), "changes").split("\n") == [
        '  changed     who: "bob" -> "eve"',
        '    note: (absent) -> "x"',
        "    the unreadable text was replaced",
        "    ana edited rq_before",
    ]
    changed = ("tool", "permission scope", "surface generation", "the weather")
    voided = replace(making.request, state=Voided(changed=changed, successor=None))
    making = Making().told(changes="changed since it was approved: tool", replaced=voided)
    assert part(making, "changes") == (
        "  changed     since it was approved as rq_before: the tool, the permission scope,"
        ' what was done on its surface, "the weather"'
    )
    assert part(making, "changes", "zh") == (
        '  变更        自 rq_before 获批以来有变：工具、权限范围、该作用面上发生的事、"the weather"'
    )


@pytest.mark.promise("H1")
def test_what_is_closed_promises_nothing_for_its_deadline() -> None:
    making = Making().asked(state=Approved(votes=("ann",)))
    assert making.card().then == ""
    assert part(making, "deadline") == "  deadline    2026-01-01 13:00:00 UTC"
    assert part(making, "votes") == "  votes       ann"


@pytest.mark.promise("G9", "H1")
def test_a_card_says_who_else_will_be_asked_and_who_may_decide_now() -> None:
    steps = (
        Escalation(after=timedelta(minutes=5), approvers=("cy", "di")),
        Escalation(after=timedelta(minutes=10)),
    )
    making = Making().asked(escalation=steps)
    assert part(making, "escalation").split("\n") == [
        "  escalation  from 2026-01-01 12:05:00 UTC on cy, di may decide, too",
        "    a reminder at 2026-01-01 12:10:00 UTC",
    ]
    assert part(making, "approvers") == "  approvers   ann, bob (1 needed)"
    late = card_of(
        making.request,
        making.call,
        making.run,
        making.draft,
        making.story,
        now=making.request.opened_at + timedelta(minutes=6),
    )
    assert late.approvers == ("ann", "bob", "cy", "di")
    closed = making.asked(state=Approved(votes=("ann",))).card()
    assert "escalation" not in [found.key for found in layout_of(closed).parts]


@pytest.mark.promise("D4", "H1")
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_settlement_says_what_each_answer_means_and_its_key(language: Any) -> None:
    making = Making().asked(kind="settlement")
    words = WORDS[language]
    told = part(making, "answers", language)
    assert [line.strip() for line in told.partition(words["answers"])[2].split("\n")] == [
        words["answer.happened"],
        words["answer.not_happened"],
        words["answer.abandon"],
    ]
    assert part(making, "key", language).endswith(f" ik_{making.call.digest[:32]}")
    assert words["then.settlement"] in part(making, "deadline", language)
    closed = making.asked(state=Approved(votes=())).card(language)
    assert "answers" not in [found.key for found in layout_of(closed).parts]


@pytest.mark.promise("H1")
def test_a_question_says_that_its_answer_approves_nothing() -> None:
    making = Making({"question": "Which?"}).asked(kind="question")
    assert part(making, "answers").endswith("for the model, and approves nothing")
    assert "reversible" not in [found.key for found in layout_of(making.card()).parts]


@pytest.mark.promise("H1")
def test_what_is_not_known_is_not_on_the_card() -> None:
    making = Making().told(
        display={"effect": "", "preview": "", "cost": None, "reversible": True},
        grounds="",
        claim="",
        attempts=(),
        earlier=None,
        replaced=None,
    )
    making.asked(state=Open(), replaces=None)
    keys = [found.key for found in layout_of(making.card()).parts]
    assert keys == [
        "tool",
        "reversible",
        "rule",
        "requester",
        "run",
        "approvers",
        "deadline",
        "digest",
    ]
    assert part(making, "reversible") == "  reversible  yes"
    assert part(making, "rule") == "  asked by    gated"
