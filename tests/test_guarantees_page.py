"""The page of guarantees says of each promise what holds it, its attacks, and where it ends."""

from __future__ import annotations

import re

import pytest

from tests.guarantees import PROMISES
from tests.tidy import ROOT

PAGE = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### ([GDH]\d+) (.*?)(?=^##|\Z)", PAGE, re.M | re.S))


def test_every_promise_has_a_section_and_every_section_a_promise() -> None:
    assert list(SECTIONS) == [promise.id for promise in PROMISES]


@pytest.mark.parametrize("promise", list(SECTIONS))
def test_a_section_says_what_holds_how_it_was_attacked_and_where_it_ends(promise: str) -> None:
    said = re.findall(r"^- (Holds|Attacked|Ends): (.*?)(?=^- |\Z)", SECTIONS[promise], re.M | re.S)
    assert [word for word, _ in said] == ["Holds", "Attacked", "Ends"]
    assert all(len(text.split()) >= 6 for _, text in said)


def test_the_files_and_commands_that_it_names_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:tests|runtime)/[\w/]+\.py)`", PAGE):
        found = ROOT / path if path.startswith("tests") else ROOT / "src/placet" / path
        assert found.is_file(), path
    for target in set(re.findall(r"`make (\w+)", PAGE)):
        assert re.search(rf"^{target}:", makefile, re.M), target
