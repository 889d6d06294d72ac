"""What is made of texts an erasure is to reach stands keyed with the session's salt (H4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.core import events as e
from placet.core.state import Voided
from placet.core.values import SALT_BYTES, call_key, keyed
from tests.core.build import ASK, World, approve, sound, start

SALT = "cd" * SALT_BYTES
OTHER = "ce" * SALT_BYTES
OLDER = "ab" * (SALT_BYTES // 2)


@pytest.mark.promise("H4")
def test_a_text_is_keyed_under_its_session_for_its_purpose_and_no_text_stays_none() -> None:
    found = {
        keyed(SALT, "call", "x"),
        keyed(SALT, "call", "y"),
        keyed(SALT, "environment", "x"),
        keyed(OTHER, "call", "x"),
    }
    assert len(found | {"x"}) == 5
    assert keyed(SALT, "call", "x") in found
    assert keyed(SALT, "environment", "") == ""


@pytest.mark.promise("D7", "H4")
def test_under_an_older_salt_a_text_stands_as_it_is() -> None:
    assert keyed(OLDER, "call", "x") == keyed("", "call", "x") == "x"
    assert len(keyed("0" + SALT[1:], "call", "x")) == 2 * SALT_BYTES


@pytest.mark.promise("G6", "H4")
def test_a_call_has_one_key_in_a_session_however_it_is_written() -> None:
    spellings = {call_key(SALT, "pay", text) for text in ('{"a":1}', '{ "a": 1.0 }')}
    assert spellings == {call_key(SALT, "pay", {"a": 1})}
    assert spellings.isdisjoint(
        {call_key(OTHER, "pay", {"a": 1}), call_key(SALT, "play", {"a": 1})}
    )


@pytest.mark.promise("H4", "G13")
@pytest.mark.parametrize("salt", [SALT, OLDER])
def test_an_environment_is_keyed_on_record_and_another_one_is_seen_all_the_same(salt: str) -> None:
    for found, changed in (("head 1", ()), ("head 2", ("environment",))):
        world = World()
        world.state = replace(world.state, salt=salt)
        world.start()
        events = world.propose(sound(ruling=ASK, environment="head 1"))
        (proposed,) = [each for each in events if isinstance(each, e.CallProposed)]
        assert (proposed.environment == "head 1") is (salt == OLDER)
        assert world.call().environment == keyed(salt, "environment", "head 1")
        request = world.asked().id
        world.apply(approve(request))
        world.lease()
        world.begin(today=sound(environment=found))
        state = world.state.requests[request].state
        assert (state.changed if isinstance(state, Voided) else ()) == changed


@pytest.mark.promise("H4", "D5")
def test_a_run_that_was_named_under_another_salt_does_not_begin() -> None:
    world = World()
    assert world.refused(start(salt=OTHER)) == "other_salt"
    world.start(salt=world.state.salt)
    assert world.refused(start(salt=OTHER)) == "other_salt"
    assert world.apply(start(salt=world.state.salt)) == ()
