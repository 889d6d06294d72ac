"""Each code of the page of errors says something, and it is what the source says."""

from __future__ import annotations

import re

import pytest

from tools.errors_page import UNKNOWN, Raised, errors_in, raised, said_of

RAISED = raised()
CODES = sorted({each.code for each in RAISED})


@pytest.mark.parametrize("code", CODES)
def test_no_code_of_the_page_stands_without_a_sentence(code: str) -> None:
    said = said_of(each for each in RAISED if each.code == code)

    assert said
    assert any(re.search("[a-z]{2}", text) for text in said)


SOURCE = """
def refuse(given):
    told = f"{given} is none."
    told = told + " Really."
    if given:
        told = "It is another." if given > 1 else "It is one."
    raise InvalidInput("a_code", told)

def say(found):
    raise InvalidInput("b_code", found.told, hint="Say another.")

def tell(found):
    raise Closed("a_code", found.told, hint="It is late.")
"""


def test_a_message_is_found_where_it_is_made_and_else_the_hint_is_told() -> None:
    found = list(errors_in(SOURCE))

    assert set(found) == {
        Raised("a_code", "InvalidInput", f"{UNKNOWN} is none."),
        Raised("a_code", "InvalidInput", "It is another."),
        Raised("a_code", "InvalidInput", "It is one."),
        Raised("a_code", "Closed", UNKNOWN, "It is late."),
        Raised("b_code", "InvalidInput", UNKNOWN, "Say another."),
    }
    assert said_of(each for each in found if each.code == "b_code") == ["Say another."]
    assert "It is late." not in said_of(each for each in found if each.code == "a_code")
