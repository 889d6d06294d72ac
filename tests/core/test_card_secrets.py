"""The card shows no secret: not in arguments, effect or changes, nor in what is told (H2)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from placet.core.card import Attempt, Card, Earlier, Version
from placet.core.card_surfaces import html, markdown, plain, terminal
from placet.core.card_words import LANGUAGES
from tests.core.build import SALT
from tests.core.cards import Making

EFFECT = "logs {who} in with {password}"


def shown(arguments: dict[str, Any], *, effect: str = "", changes: str = "") -> Card:
    making = Making(arguments).told(display={"effect": effect, "cost": None}, changes=changes)
    return making.card(salt="")


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


@pytest.mark.promise("G5", "H2")
def test_what_a_version_kept_secret_by_its_own_declaration_is_told_by_no_other() -> None:
    declared: dict[str, Any] = {"secrets": ["note"]}
    before = Version(tool="pay", arguments={"note": "plum jam"}, display=declared)
    unreadable = Version(tool="pay", arguments='{"password": "fig\\ntree",,}', display={})
    made = Making({"note": "fine"}).told(
        versions=(before, unreadable), claim="plum jam, and fig", grounds="tree"
    )
    card = made.card(salt="")
    assert (card.claim, card.reason) == (
        "‹secret, 8 characters›, and fig",
        "‹secret, 4 characters›",
    )
    assert card.arguments == (("note", '"fine"'),), "it declares no secret itself"


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
