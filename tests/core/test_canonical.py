"""Arguments have one reading or none, and a digest stands for exactly one of them (G3, G4)."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import rfc8785
from hypothesis import assume, given
from hypothesis import strategies as st

from placet.core.canonical import (
    ENVELOPE_DEPTH,
    MAX_ARGUMENTS_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    JsonValue,
    Unreadable,
    call_digest,
    canonical,
    digest_of,
    parse_arguments,
    sha256_hex,
    short_id,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "digest.md"
ROW = re.compile(r"^\| `(?P<first>.+?)` \| `(?P<second>.+?)` \| (?P<relation>\w+) \| .+ \|$")
ROWS_AT_LEAST = 60


class Row(NamedTuple):
    """One row of docs/reference/digest.md."""

    first: str
    second: str
    relation: str


def rows_of(page: str) -> list[Row]:
    """Read the rows, and refuse a line of a table that is neither heading nor row."""
    rows: list[Row] = []
    for line in page.splitlines():
        if not line.startswith("|") or line.startswith(("| first |", "|---")):
            continue
        found = ROW.match(line)
        assert found is not None, f"not a row: {line}"
        rows.append(Row(**found.groupdict()))
    return rows


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.integers(-MAX_INTEGER, MAX_INTEGER),
    st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not MAX_INTEGER < abs(number) < 1e21
    ),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
objects: st.SearchStrategy[dict[str, JsonValue]] = st.dictionaries(texts, values, max_size=5)


def is_readable(raw: str | Mapping[str, object]) -> bool:
    try:
        parse_arguments(raw)
    except Unreadable:
        return False
    return True


def nested(levels: int) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


# --- the table


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) >= ROWS_AT_LEAST
    assert {row.relation for row in ROWS} == {"same", "different", "unreadable"}
    assert len(ROWS) == len(set(ROWS))


@pytest.mark.promise("G3", "G4")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.first}-{row.second}")
def test_every_row_of_the_page_is_true(row: Row) -> None:
    if row.relation == "unreadable":
        assert not is_readable(row.first)
        assert call_digest("t", row.first) != call_digest("t", row.second)
        return
    first, second = parse_arguments(row.first), parse_arguments(row.second)
    same = row.relation == "same"
    assert (digest_of(first) == digest_of(second)) is same
    assert (call_digest("t", first) == call_digest("t", second)) is same
    assert (call_digest("t", row.first) == call_digest("t", row.second)) is same


def test_the_page_names_the_limits() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"larger than {MAX_ARGUMENTS_BYTES} bytes" in page
    assert f"deeper than {MAX_DEPTH} levels" in page


# --- reading


@pytest.mark.promise("G4")
def test_what_is_read_keeps_kinds_and_order_so_that_the_original_is_what_runs() -> None:
    read = parse_arguments('{"b": 1.0, "a": 1, "c": [true, null, "x"]}')
    assert list(read) == ["b", "a", "c"]
    assert isinstance(read["b"], float)
    assert isinstance(read["a"], int)
    assert read["c"] == [True, None, "x"]


@pytest.mark.promise("G4")
@pytest.mark.parametrize("raw", ['{"a": -0.0}', {"a": -0.0}], ids=["text", "object"])
def test_no_negative_zero_is_left_for_a_tool_to_see(raw: str | Mapping[str, object]) -> None:
    zero = parse_arguments(raw)["a"]
    assert isinstance(zero, float)
    assert math.copysign(1, zero) == 1


@pytest.mark.promise("G4")
def test_what_is_read_from_an_object_shares_nothing_with_it() -> None:
    inner = [1]
    raw = {"a": inner, "b": {"c": inner}}
    read = parse_arguments(raw)
    inner.append(2)
    raw["d"] = []
    assert read == {"a": [1], "b": {"c": [1]}}


REFUSED_TEXTS = {
    "nothing": "",
    "space": "  ",
    "a byte order mark": '\ufeff{"a": 1}',
    "a no-break space": '{"a":\u00a01}',
    "an escape sequence before": '\x1b[0m{"a": 1}',
    "a control character in a text": '{"a": "\x00"}',
    "garbage before": 'x{"a": 1}',
    "garbage after": '{"a": 1}x',
    "a NUL after": '{"a": 1}\x00',
    "a fence": '```json\n{"a": 1}\n```',
    "an unended text": '{"a": "',
    "a truth value of Python's": '{"a": True}',
    "a key that is no text": "{1: 1}",
    "a comment": '{"a": 1 /* one */}',
    "a digit that is not ASCII": '{"a": \u0661}',
    "a number and nothing": '{"a": 1.}',
    "an exponent of nothing": '{"a": 1e}',
    "an underscore": '{"a": 1_000}',
    "a huge integer": '{"a": ' + "9" * 5000 + "}",
    "a huge negative integer": '{"a": -' + "9" * 5000 + "}",
    "an integer deep inside": '{"a": [{"b": [9007199254740992]}]}',
    "a duplicate deep inside": '{"a": [[{"b": 1, "c": 2, "b": 1}]]}',
    "a duplicate with a long key": '{"a": 1, "a": 2}'.replace("a", "k" * 500),
    "a NaN deep inside": '{"a": [[NaN]]}',
    "a minus infinity": '{"a": -1e999}',
    "a surrogate in the text itself": '{"a": "\ud800"}',
    "a pair of surrogates in the text itself": '{"a": "\ud83d\ude00"}',
    "a surrogate deep inside": '{"a": [{"\\udfff": 1}]}',
}


@pytest.mark.promise("G4")
@pytest.mark.parametrize("raw", REFUSED_TEXTS.values(), ids=REFUSED_TEXTS.keys())
def test_a_text_without_one_reading_is_unreadable_and_says_why(raw: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_arguments(raw)
    assert 0 < len(caught.value.reason) < 200
    assert caught.value.reason.isprintable()
    assert str(caught.value) == caught.value.reason


REFUSED_OBJECTS: dict[str, dict[str, object]] = {
    "nan": {"a": math.nan},
    "infinity": {"a": [-math.inf]},
    "an integer": {"a": MAX_INTEGER + 1},
    "a negative integer": {"a": -MAX_INTEGER - 1},
    "a double that is an integer": {"a": 2.0**53},
    "a surrogate": {"a": "\ud800"},
    "a surrogate in a key": {"a": {"\udfff": 1}},
    "bytes": {"a": b"x"},
    "a tuple": {"a": (1,)},
    "a set": {"a": {1}},
    "a key that is no text": {"a": {1: 1}},
    "an object of Python's": {"a": object()},
}


@pytest.mark.promise("G4")
@pytest.mark.parametrize("raw", REFUSED_OBJECTS.values(), ids=REFUSED_OBJECTS.keys())
def test_an_object_without_one_reading_is_unreadable(raw: dict[str, object]) -> None:
    with pytest.raises(Unreadable):
        parse_arguments(raw)


@pytest.mark.parametrize(
    "value", [math.nan, 2**53, -(2**53), 1e20, "\ud800", ["\udfff"], {"\ud800": 1}]
)
def test_a_value_without_a_canonical_form_is_unreadable(value: JsonValue) -> None:
    with pytest.raises(Unreadable):
        canonical(value)


# --- limits


@pytest.mark.promise("G4")
def test_the_size_of_arguments_is_bounded_to_the_byte() -> None:
    room = MAX_ARGUMENTS_BYTES - len('{"a":""}')
    assert is_readable('{"a":"%s"}' % ("x" * room))
    assert not is_readable('{"a":"%s"}' % ("x" * (room + 1)))
    assert not is_readable('{"a":"%s"}' % ("é" * (room // 2 + 1)))
    assert is_readable({"a": "x" * room})
    assert not is_readable({"a": "x" * (room + 1)})
    assert not is_readable({"a": "\x01" * (room // 6 + 1)})


@pytest.mark.promise("G4")
def test_the_depth_of_arguments_is_bounded_to_the_level() -> None:
    deepest, deeper = nested(MAX_DEPTH), nested(MAX_DEPTH + 1)
    assert parse_arguments(json.dumps(deepest)) == parse_arguments(deepest) == deepest
    assert not is_readable(json.dumps(deeper))
    assert not is_readable(deeper)


def test_brackets_inside_texts_are_no_levels() -> None:
    raw = json.dumps({"a": '[{"\\' * 500, "b": ["]" * 500]})
    assert json.loads(raw) == parse_arguments(raw)


@pytest.mark.promise("G3")
def test_a_document_around_the_deepest_arguments_has_a_digest() -> None:
    value: JsonValue = nested(MAX_DEPTH)
    for _ in range(ENVELOPE_DEPTH):
        value = [value]
    assert digest_of(value)
    with pytest.raises(Unreadable):
        digest_of([value])


HOSTILE_TEXTS = {
    "open arrays": "[" * MAX_ARGUMENTS_BYTES,
    "open objects": '{"a":' * (MAX_ARGUMENTS_BYTES // 5),
    "closed, then open": "]" * 1000 + "[" * 100_000,
    "quotes": '"' * MAX_ARGUMENTS_BYTES,
    "backslashes": '"' + "\\" * (MAX_ARGUMENTS_BYTES - 1),
    "escaped quotes after many brackets": "[" * 65 + '\\"' * 130_000,
    "digits": '{"a":' + "9" * 260_000 + "}",
    "a long fraction": '{"a":0.' + "9" * 260_000 + "}",
    "a long exponent": '{"a":1e' + "9" * 260_000 + "}",
    "many arrays": '{"a":[' + "[]," * 80_000 + "1]}",
    "many duplicates": "{" + '"a":1,' * 40_000 + '"a":1}',
}


@pytest.mark.promise("G4")
@pytest.mark.parametrize("raw", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
@pytest.mark.slow
def test_no_text_makes_reading_slow_or_deep(raw: str) -> None:
    began = time.process_time()
    is_readable(raw)
    assert call_digest("t", raw)
    assert time.process_time() - began < 5


@pytest.mark.promise("G4")
@pytest.mark.slow
def test_an_object_within_itself_and_one_that_unfolds_without_end_are_unreadable() -> None:
    cycle: list[object] = []
    cycle += [cycle, cycle]
    unfolding: list[object] = ["x"]
    for _ in range(MAX_DEPTH - 4):
        unfolding = [unfolding, unfolding]
    assert not is_readable({"a": cycle})
    assert not is_readable({"a": unfolding})


# --- digests


@pytest.mark.promise("G3")
@pytest.mark.parametrize(
    "value, form",
    [
        ({"b": 1, "a": [1.0, 1e-7, 1e21, 0.1, -0.0]}, '{"a":[1,1e-7,1e+21,0.1,0],"b":1}'),
        ({"\U0001f600": 1, "\ufb33": 2, "\r": 3}, '{"\\r":3,"😀":1,"\ufb33":2}'),
        ('\u20ac$\x0f\nA\'B"\\\\"/', '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        (True, "true"),
        (None, "null"),
    ],
)
def test_the_canonical_form_is_that_of_rfc_8785(value: JsonValue, form: str) -> None:
    assert canonical(value) == form.encode()


@pytest.mark.promise("G3")
def test_a_digest_is_the_sha256_of_the_canonical_form() -> None:
    assert digest_of({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()
    assert sha256_hex(b"") == hashlib.sha256(b"").hexdigest()


@pytest.mark.promise("G3", "G4")
@given(objects)
def test_what_is_written_is_read_back_as_the_same(value: dict[str, JsonValue]) -> None:
    form = canonical(value)
    assert form == rfc8785.dumps(value)
    assert parse_arguments(form.decode()) == value
    assert canonical(dict(parse_arguments(form.decode()))) == form
    assert parse_arguments(json.dumps(value)) == parse_arguments(value) == value


def reversed_keys(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        case list():
            return [reversed_keys(part) for part in value]
        case _:
            return value


@pytest.mark.promise("G3", "G6")
@given(objects)
def test_the_order_of_keys_and_the_way_of_writing_change_nothing(
    value: dict[str, JsonValue],
) -> None:
    other = reversed_keys(value)
    assert isinstance(other, dict)
    assert digest_of(other) == digest_of(value)
    spellings = (other, json.dumps(other), json.dumps(value, indent=3, ensure_ascii=False))
    assert {call_digest("t", spelling) for spelling in spellings} == {call_digest("t", value)}


def near_misses_of(value: JsonValue) -> st.SearchStrategy[JsonValue]:
    """Change `value` in one place, into something that is not the same action."""
    others: list[JsonValue]
    match value:
        case dict():
            return near_misses_of_object(value).map(as_value)
        case list():
            others = [[*value, None], [value], None]
            inner = [
                near_misses_of(part).map(partial(with_item, value, at))
                for at, part in enumerate(value)
            ]
            return st.one_of(st.sampled_from(others), *inner)
        case str():
            others = [value + " ", value + "\u200b", "x" + value, [value], None]
        case bool():
            others = [not value, int(value), str(value).lower(), None]
        case int():
            others = [value - 1 if value > 0 else value + 1, str(value), [value], None]
        case float():
            others = [math.nextafter(value, 0.0) if value else 1, str(value), [value], None]
        case None:
            others = [False, 0, "", "null", [], [None], {}]
    return st.sampled_from(others)


def near_misses_of_object(
    value: dict[str, JsonValue],
) -> st.SearchStrategy[dict[str, JsonValue]]:
    added = texts.filter(lambda key: key not in value).map(lambda key: {**value, key: None})
    others = [added]
    for key, part in value.items():
        rest = {other: value[other] for other in value if other != key}
        others.append(st.just(rest))
        others.append(near_misses_of(part).map(partial(with_part, value, key)))
    return st.one_of(others)


def with_part(value: dict[str, JsonValue], key: str, part: JsonValue) -> dict[str, JsonValue]:
    return {**value, key: part}


def with_item(value: list[JsonValue], at: int, part: JsonValue) -> JsonValue:
    return [*value[:at], part, *value[at + 1 :]]


def as_value(value: JsonValue) -> JsonValue:
    return value


@pytest.mark.promise("G3")
@given(objects, st.data())
def test_a_near_miss_has_another_digest(value: dict[str, JsonValue], data: st.DataObject) -> None:
    other = data.draw(near_misses_of_object(value))
    assume(is_readable(other))  # Below 1e21 a double has no canonical form.
    assert digest_of(other) != digest_of(value)
    assert call_digest("t", other) != call_digest("t", value)


@pytest.mark.promise("G4")
@given(st.text(max_size=40))
def test_any_text_at_all_is_read_or_unreadable_and_has_a_key(raw: str) -> None:
    is_readable(raw)
    assert call_digest(raw, raw) == call_digest(raw, raw)


# --- keys and ids


@pytest.mark.promise("G6", "G12")
def test_a_key_is_for_one_tool() -> None:
    assert call_digest("pay", {"a": 1}) != call_digest("play", {"a": 1})
    assert call_digest("pay", "no") != call_digest("play", "no")
    assert call_digest("\ud800", "{}") != call_digest("\ufffd", "{}")


@pytest.mark.promise("G4", "G6")
def test_an_unreadable_text_is_keyed_by_its_text_and_never_like_a_readable_one() -> None:
    raw = '{"a": 1, "a": 1}'
    keys = {
        call_digest("t", raw),
        call_digest("t", raw + " "),
        call_digest("t", {"a": 1}),
        call_digest("t", {"raw_arguments": raw}),
        call_digest("t", {"raw_arguments": sha256_hex(raw.encode())}),
        call_digest("t", json.dumps(raw)),
    }
    assert len(keys) == 6
    assert call_digest("t", '{"a": "\ud800"}') != call_digest("t", '{"a": "\\ud800"}')


@pytest.mark.promise("G4")
def test_an_object_that_cannot_be_read_has_no_key() -> None:
    with pytest.raises(Unreadable):
        call_digest("t", {"a": math.nan})


@pytest.mark.promise("G3")
def test_a_short_id_is_the_first_hundred_bits_of_a_digest() -> None:
    digest = sha256_hex(b"")
    assert short_id("rq", digest) == "rq_4oymiquy7qobjgx36tej"
    assert short_id("rq", digest[:26] + "0" * 38) == short_id("rq", digest)
    bits = bin(int(digest, 16) ^ (1 << (256 - 100)))[2:].zfill(256)
    assert short_id("rq", f"{int(bits, 2):064x}") != short_id("rq", digest)
    assert re.fullmatch(r"ru_[a-z2-7]{20}", short_id("ru", "f" * 64))


@pytest.mark.parametrize("digest", ["", "abc", "z" * 64])
def test_a_short_id_of_what_is_no_digest_is_refused(digest: str) -> None:
    with pytest.raises(ValueError, match=r"hexadecimal"):
        short_id("rq", digest)


def test_the_key_of_a_usual_call_takes_microseconds() -> None:
    value: dict[str, JsonValue] = {
        "order_id": "A-1234567",
        "amount": "12.50",
        "reason": "the parcel came open and half of what was in it is gone",
        "lines": [{"sku": "x1", "count": 2}, {"sku": "x2", "count": 3}],
        "notify": True,
        "pad": "p" * 100,
    }
    raw = json.dumps(value)
    assert 250 < len(raw) < 350
    times: list[float] = []
    for _ in range(50):
        began = time.perf_counter()
        for _ in range(20):
            call_digest("issue_refund", raw)
        times.append((time.perf_counter() - began) / 20)
    assert min(times) < 0.000_2
