"""However many secrets are known, a text is looked through once, and none is left in it (H2)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core.card_surfaces import plain
from placet.core.finding import Finder, Known
from tests.core.cards import Making

words = st.text("ab .", min_size=1, max_size=5)


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not any(
        0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum() for at in (start, end)
    )


def _looked_up(known: list[str], text: str) -> list[tuple[int, int]]:
    """Look for each word at each place, and put together what overlaps."""
    found = sorted(
        (start, start + len(word))
        for word in known
        for start in range(len(text))
        if text.startswith(word, start) and _stands_alone(text, start, start + len(word))
    )
    spans: list[tuple[int, int]] = []
    for start, end in found:
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


@pytest.mark.promise("H2")
@given(st.lists(words, max_size=6), st.text("ab .", max_size=30))
def test_what_is_found_is_what_one_finds_looking_word_by_word(known: list[str], text: str) -> None:
    assert list(Finder(known).spans(text)) == _looked_up(known, text)


@pytest.mark.promise("H2")
def test_a_secret_within_a_longer_one_or_beside_it_leaves_nothing_of_either() -> None:
    text = "open sesame now, or sesame now and then"
    assert list(Finder(["open sesame", "sesame now"]).spans(text)) == [(0, 15), (20, 30)]


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    "secret, told",
    [
        ('pa"ss\\word', r"{'a': \"pa\"ss\\word\"}".replace('pa"ss', 'pa\\"ss')),
        ("pä ss!word", "GET /?p=p%C3%A4%20ss%21word&x"),
        ("pä ss!word", "GET /?p=p%C3%A4+ss%21word&x"),
        ("pä ss!word", '"p\\u00e4 ss!word"'),
        ("line one\nline two", "+line two\n-"),
        ("line one\r\n  line two", "+ line one"),
    ],
)
def test_a_secret_is_known_as_json_and_urls_write_it_and_line_by_line(
    secret: str, told: str
) -> None:
    ((start, end),) = Known([secret]).spans(told)
    assert end - start >= 8
    rest = told[:start] + told[end:]
    assert not any(part in rest for part in ("ss", "line"))


@pytest.mark.promise("H2")
@pytest.mark.slow
def test_thousands_of_secrets_in_a_long_claim_make_a_card_in_seconds_not_minutes() -> None:
    making = Making({"tokens": [f"{number * 7919:09}" for number in range(5000)]})
    making.told(claim="1 " * 50_000)
    before = time.process_time()
    page = plain(making.card())
    assert time.process_time() - before < 15
    assert "000007919" not in page


@pytest.mark.promise("H2")
@pytest.mark.slow
def test_secrets_that_are_parts_of_each_other_are_found_in_time() -> None:
    known = Known("b" + " bb" * count for count in range(1, 400))
    before = time.process_time()
    spans = list(known.spans("bb " * 30_000))
    assert time.process_time() - before < 15
    assert len(spans) == 1, "who makes it so costly to look closely has more masked, not less"
