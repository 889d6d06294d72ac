"""The card shows no secret, wherever it stands: in arguments, effect or changes (H2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from placet.core.card import Card, card
from tests.core.build import ASK, World, asking, sound

EFFECT = "logs {who} in with {password}"


def shown(
    arguments: dict[str, Any], *, effect: str = "", changes: str = "", world: World | None = None
) -> Card:
    world = world or asking(ASK)
    (request,) = world.state.requests.values()
    draft = replace(sound(0).draft, arguments=arguments)
    return card(
        request,
        world.state.calls[request.at],
        world.state.runs["r1"],
        draft,
        display={"effect": effect},
        changes=changes,
    )


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
