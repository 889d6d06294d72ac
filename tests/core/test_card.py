"""The card says all that a decision needs (H1), and shows no secret, wherever it stands (H2)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from typing import Any

import pytest

from placet.core.card import Attempt, Card, Earlier
from placet.core.card_parts import Text, Words, layout_of
from placet.core.card_surfaces import html, markdown, plain, terminal
from placet.core.card_words import LANGUAGES, WORDS
from placet.core.state import Approved, Open, Superseded, Voided
from placet.core.values import Needs, Occurrence
from tests.core.build import SALT
from tests.core.cards import Making
from tests.tidy import ROOT

EFFECT = "logs {who} in with {password}"
FINGERPRINT = re.compile(r"(, fingerprint |，指纹 )[0-9a-f]{8}›")


def shown(arguments: dict[str, Any], *, effect: str = "", changes: str = "") -> Card:
    making = Making(arguments).told(display={"effect": effect, "cost": None}, changes=changes)
    return making.card(salt="")


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
  reversible  no, as declared
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
  可撤回      否（按工具声明）
  询问依据    gated：it is above the limit
  模型        自称：the customer asked for it
  变更        自 rq_before 获批以来有变：工具
  执行次数    第 1 次执行失败，可能已产生作用：OSError: down
  此前        本次运行中提出过 2 次，最近结果为 tool_failed：Failed: down
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


# --- no secret ------------------------------------------------------------------------------------


@pytest.mark.promise("H1", "H2")
def test_both_sides_of_an_edited_secret_are_masked_and_the_rest_is_shown() -> None:
    edited = [
        {"name": "password", "old": "hunter2old", "new": "hunter2"},
        {"name": "who", "old": "bob", "new": "eve"},
        {"name": "note", "new": "x"},
    ]
    made = shown({"who": "eve", "password": "hunter2", "note": "x"}, changes=json.dumps(edited))
    assert made.changes == (
        'password: "‹secret, 10 characters›" -> "‹secret, 7 characters›"; who: "bob" -> "eve"; '
        'note: (absent) -> "x"'
    )


@pytest.mark.promise("H1")
def test_a_sentence_of_what_changed_and_a_replaced_text_are_shown() -> None:
    sentence = "changed since it was approved: tool, environment"
    assert shown({}, changes=sentence).changes == sentence
    unreadable = json.dumps([{"unreadable": True}, {"name": "who", "new": "eve"}])
    assert shown({}, changes=unreadable).changes == (
        'the unreadable text was replaced; who: (absent) -> "eve"'
    )


@pytest.mark.promise("H2")
@pytest.mark.parametrize("secret", ['a"b', "a\nb", "a", "ab", "‹secret›"])
def test_an_effect_holds_what_the_arguments_show_and_no_more(secret: str) -> None:
    who = "abba" + secret
    made = shown({"password": secret, "who": who}, effect=EFFECT)
    told = f"‹secret, {len(secret)} character{'' if len(secret) == 1 else 's'}›"
    bob = who.replace("‹", "‹literal ‹›").replace("\n", "⟦U+000A⟧")
    assert made.effect == f"logs {bob} in with {told}"


@pytest.mark.promise("H2")
def test_a_secret_within_an_argument_is_masked_in_the_effect() -> None:
    made = shown(
        {"login": {"password": 'q"\n', "user": "bob"}, "to": "{login}"}, effect="{to}: {login}"
    )
    assert made.effect == '{login}: {"password": "‹secret, 3 characters›", "user": "bob"}'


@pytest.mark.promise("H2")
def test_a_short_secret_in_a_longer_one_leaves_nothing_of_it() -> None:
    made = shown({"pass": "hunter", "password": "hunter2old"}, effect="{pass} then {password}")
    assert made.effect == "‹secret, 6 characters› then ‹secret, 10 characters›"


SECRET = "correct horse battery"


def secretive(language: Any = "en", salt: str = SALT) -> Card:
    """Give a card of an action with a secret, of which everything else that is told tells, too."""
    edited = json.dumps([{"name": "login", "old": {"code": SECRET}, "new": {"code": SECRET}}])
    making = Making({"login": {"code": SECRET, "user": "bob"}, "list": [{"token": SECRET}]}).told(
        display={
            "effect": "logs in with {login}",
            "preview": f"+{SECRET}\n-",
            "secrets": ["login.code"],
        },
        grounds=f"because of {SECRET}",
        claim=f"I use {SECRET}",
        changes=edited,
        replaced=None,
        attempts=[Attempt(number=1, end="failed", cause=f"{SECRET} is wrong")],
        earlier=Earlier(code="tool_failed", times=1, told=f"Failed: {SECRET}"),
    )
    return making.card(language, salt=salt)


@pytest.mark.promise("H1", "H2")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("surface", [plain, terminal, markdown, html])
def test_a_secret_stands_nowhere_and_is_one_fingerprint_everywhere(
    surface: Any, language: Any
) -> None:
    page = surface(secretive(language))
    assert "horse" not in page
    assert "bob" in page
    wraps = page.replace("\n      ⋮ ", "")
    found = re.findall(r"(?:fingerprint|指纹) ?([0-9a-f]{8})›", wraps)
    assert len(found) == 10
    assert len(set(found)) == 1


@pytest.mark.promise("H2")
def test_the_fingerprint_of_a_secret_is_keyed_with_the_salt_of_the_session() -> None:
    assert plain(secretive()) == plain(secretive())
    assert plain(secretive()) != plain(secretive(salt="77" * 16))


@pytest.mark.promise("G3", "H2")
def test_masking_changes_no_digest() -> None:
    making = Making({"password": "hunter2"})
    before = json.dumps(making.draft.document(), sort_keys=True)
    made = making.card()
    assert json.dumps(making.draft.document(), sort_keys=True) == before
    assert made.digest == making.request.digest


# --- pieces and words -----------------------------------------------------------------------------


@pytest.mark.promise("H2")
def test_a_text_cannot_be_put_anywhere_without_an_escape() -> None:
    text = Text("<b>")
    for forgetful in (str, "{}".format, "{!s:>9}".format, "<p>".join, escape):
        with pytest.raises((TypeError, AttributeError)):
            forgetful(text)  # type: ignore[arg-type]  # What a forgetful surface would do.
    assert text.through(lambda shown: shown.replace("<", "&lt;")) == "&lt;b>"


@pytest.mark.promise("H2")
def test_the_layout_holds_strangers_texts_in_texts_alone() -> None:
    making = Making({"stranger": "stranger"}).asked(tool="stranger", rule="stranger")
    for found in layout_of(making.card()).parts:
        for row in found.rows:
            words = [piece.said for piece in row.pieces if isinstance(piece, Words)]
            assert not [each for each in words if "stranger" in each]


def test_the_languages_have_the_same_words_with_the_same_places() -> None:
    places = re.compile(r"\{\w+\}")
    for language in LANGUAGES:
        assert WORDS[language].keys() == WORDS["en"].keys()
        for key, words in WORDS[language].items():
            assert {*places.findall(words)} == {*places.findall(WORDS["en"][key])} or key in (
                "lines.one",
                "characters.one",
                "earlier.one",
            ), key


@pytest.mark.promise("H2")
def test_the_words_of_the_cards_are_no_markup() -> None:
    for language in LANGUAGES:
        for key, words in WORDS[language].items():
            assert not set(re.sub(r"\{\w+\}|->", "", words)) & set("`*_[]{}<>&#|~\\@$⟦⟧‹›\n"), key
            assert "://" not in words
            assert re.search(r"\w\.\w", words) is None, key


def test_every_word_is_one_that_a_card_says() -> None:
    core = ROOT / "src/placet/core"
    names = ("card.py", "card_parts.py", "masking.py")
    sources = "".join((core / name).read_text(encoding="utf-8") for name in names)
    for key in WORDS["en"]:
        family = key.partition(".")[0]
        assert (
            f'"{key}"' in sources
            or f'f"{family}.' in sources
            or family
            in (
                "lines",
                "characters",
            )
        ), key
