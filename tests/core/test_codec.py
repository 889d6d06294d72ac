"""The stored form of events and parts: what was written once is read for ever (D7)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core import events as e
from placet.core import state as s
from placet.core.codec import (
    LEFT_OUT,
    NewerValue,
    UnreadableValue,
    chain_hash,
    decode,
    decode_event,
    encode,
    event_kind,
    instant_of,
    micros_of,
)
from placet.core.values import Holder, Needs, Occurrence, Payload, Recovery, Undoing

EVENTS: tuple[type, ...] = get_args(e.Event)
PARTS: tuple[type, ...] = (s.Run, s.Call, s.Request, s.No, s.Grant)

instants = st.datetimes(timezones=st.just(UTC))
durations = st.timedeltas(timedelta(0), timedelta(days=10_000))
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)

st.register_type_strategy(datetime, instants)
st.register_type_strategy(timedelta, durations)
st.register_type_strategy(str, texts)
st.register_type_strategy(Payload, st.builds(Payload, texts))


@pytest.mark.promise("D7")
@pytest.mark.parametrize("cls", EVENTS)
@given(data=st.data())
def test_every_event_comes_back_as_it_was(cls: type, data: st.DataObject) -> None:
    event = data.draw(st.from_type(cls))
    assert event_kind(event) == cls.__name__
    text = encode(event)
    assert text.isascii()
    assert decode_event(cls.__name__, text) == event


@pytest.mark.promise("D7")
@pytest.mark.parametrize("cls", PARTS)
@given(data=st.data())
def test_every_part_comes_back_as_it_was(cls: Any, data: st.DataObject) -> None:
    part = data.draw(st.from_type(cls))
    back = decode(cls, encode(part))
    assert back == part
    assert all(type(getattr(back, f.name)) is type(getattr(part, f.name)) for f in fields(cls))


@given(at=instants)
def test_an_instant_is_kept_to_the_microsecond(at: datetime) -> None:
    assert instant_of(micros_of(at)) == at
    assert instant_of(micros_of(at)).tzinfo is UTC
    if at.year > 1:
        elsewhere = at.astimezone(timezone(timedelta(hours=-5)))
        assert micros_of(elsewhere) == micros_of(at)


def test_a_payload_is_kept_by_its_reference_alone() -> None:
    event = e.RequestRejected(request="rq_1", by="ann", reason=Payload("00ff", "my secret"))
    assert "secret" not in encode(event)
    read = decode_event("RequestRejected", encode(event))
    assert isinstance(read, e.RequestRejected)
    assert read.reason.body is None


AT = Occurrence("run_1", 3, 0)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

WRITTEN: list[tuple[Any, str]] = [
    (
        e.VoteCast(request="rq_1", by="ann", digest="d", met=False),
        '{"request":"rq_1","by":"ann","digest":"d","met":false}',
    ),
    (
        e.AttemptBegun(
            at=AT,
            attempt=1,
            key="ik_1",
            fence=2,
            holder=Holder(host="h", boot="b", pid=7, started="1"),
            surface="*",
            until=NOON,
            request="rq_1",
        ),
        '{"at":["run_1",3,0],"attempt":1,"key":"ik_1","fence":2,'
        '"holder":{"host":"h","boot":"b","pid":7,"started":"1"},'
        '"surface":"*","until":1772366400000000,"request":"rq_1"}',
    ),
    (
        e.CallEnded(
            at=AT,
            tool_call_id="c",
            tool="t",
            call_key="k",
            code="succeeded",
            told=Payload("00", "x"),
            attempt=1,
        ),
        '{"at":["run_1",3,0],"tool_call_id":"c","tool":"t","call_key":"k",'
        '"code":"succeeded","told":"00","attempt":1}',
    ),
    (
        s.No(run="run_1", call_key="k", code="rejected", told_ref="00", times=2),
        '{"run":"run_1","call_key":"k","code":"rejected","told_ref":"00","times":2}',
    ),
    (
        s.Run(
            id="run_1",
            agent="a",
            requester="r",
            kind="driven",
            max_steps=5,
            started_at=NOON,
            order=0,
            parent=AT,
            state=s.Resting(),
        ),
        '{"id":"run_1","agent":"a","requester":"r","kind":"driven","max_steps":5,'
        '"started_at":1772366400000000,"order":0,"parent":["run_1",3,0],"state":{"is":"Resting"}}',
    ),
]


@pytest.mark.promise("D7")
@pytest.mark.parametrize("value, text", WRITTEN)
def test_what_was_written_once_is_read_for_ever(value: Any, text: str) -> None:
    assert encode(value) == text
    if type(value) in EVENTS:
        assert decode_event(event_kind(value), text) == value
    else:
        assert decode(type(value), text) == value


@pytest.mark.promise("D7")
def test_what_is_left_out_means_what_it_meant() -> None:
    assert {
        "Call.environment": "",
        "AttemptBegun.purpose": "run",
        "Call.scope": (),
        "CallProposed.environment": "",
        "CallProposed.scope": (),
        "Executing.purpose": "run",
        "Lost.purpose": "run",
        "Needs.quorum": 1,
        "Recovery.backoff": timedelta(seconds=1),
        "Recovery.time_limit": timedelta(minutes=5),
        "Request.hold": "session",
        "Request.readable": True,
        "RequestOpened.hold": "session",
        "RequestOpened.readable": True,
        "Run.mode": "act",
        "Run.on_failure": "continue",
        "Run.saga": "step",
        "RunStarted.mode": "act",
        "RunStarted.on_failure": "continue",
        "RunStarted.saga": "step",
        "Undoing.backoff": timedelta(seconds=1),
        "Undoing.time_limit": timedelta(minutes=5),
    } == LEFT_OUT
    proposed = json.loads(encode(_proposed()))
    assert proposed["recovery"] == {}
    assert "scope" not in proposed
    assert decode_event("CallProposed", json.dumps(proposed)) == _proposed()
    written_out = {**proposed, "scope": [], "recovery": {"backoff": 1_000_000}}
    assert decode_event("CallProposed", json.dumps(written_out)) == _proposed()


@pytest.mark.promise("D7")
def test_whatever_else_has_a_default_that_is_not_empty_is_written_out() -> None:
    """So that changing a default changes no value that was written before."""
    for cls in {*EVENTS, *PARTS, Needs, Recovery, Undoing, Holder}:
        for each in fields(cls):
            fixed = f"{cls.__name__}.{each.name}" in LEFT_OUT
            assert fixed or each.default is MISSING or not each.default, (cls, each.name)


def _proposed() -> e.CallProposed:
    return e.CallProposed(
        at=AT,
        tool_call_id="c",
        tool="t",
        call_key="k",
        kind="effect",
        surface="*",
        version=1,
        action=Payload("00"),
        digest="d",
        generation=0,
        tool_fingerprint="f",
        scope=(),
        environment="",
        recovery=Recovery(),
        approvers=(),
        rule="x",
    )


@pytest.mark.promise("D7")
@pytest.mark.parametrize(
    "kind, text",
    [
        ("MoodChanged", "{}"),
        ("RunEnded", '{"run":"r","stop":"bored"}'),
        ("RunEnded", '{"run":"r","stop":"final","mood":"calm"}'),
        ("RequestExpired", '{"request":"r","by":"the moon"}'),
        ("LeaseTaken", '{"run":"r","holder":{"host":"h","colour":"red"},"fence":1,"until":1}'),
    ],
)
def test_what_a_newer_version_wrote_is_recognised(kind: str, text: str) -> None:
    with pytest.raises(NewerValue):
        decode_event(kind, text)


@pytest.mark.promise("D7")
def test_a_newer_state_is_recognised() -> None:
    run = encode(WRITTEN[-1][0])
    assert isinstance(decode(s.Run, run), s.Run)
    with pytest.raises(NewerValue):
        decode(s.Run, run.replace("Resting", "Dreaming"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        "{}",
        '{"run":"r"}',
        '{"run":"r","fence":1,"until":"noon"}',
        '{"run":"r","fence":1,"until":99999999999999999999}',
    ],
)
def test_a_damaged_value_is_no_newer_one(text: str) -> None:
    with pytest.raises(UnreadableValue):
        decode_event("LeaseRenewed", text)


@pytest.mark.parametrize("text", ['{"at":"xy"}', '{"at":["r",1]}', '{"scope":"abc"}', '{"at":7}'])
def test_a_damaged_occurrence_or_list_is_damage(text: str) -> None:
    whole = {**json.loads(encode(_proposed())), **json.loads(text)}
    with pytest.raises(UnreadableValue):
        decode_event("CallProposed", json.dumps(whole))


# --- the chain


@pytest.mark.promise("H4")
def test_a_hash_is_what_anybody_can_compute() -> None:
    lines = b'\n1\n5\nRunEnded\n{"run":"r"}'
    made = chain_hash("", seq=1, at_micros=5, kind="RunEnded", body='{"run":"r"}')
    assert made == hashlib.sha256(lines).hexdigest()


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "change",
    [
        {"previous": "a" * 64},
        {"seq": 2},
        {"at_micros": 6},
        {"kind": "RunStarted"},
        {"body": '{"run":"s"}'},
    ],
)
def test_a_hash_covers_every_part(change: dict[str, Any]) -> None:
    first: dict[str, Any] = {"seq": 1, "at_micros": 5, "kind": "RunEnded", "body": '{"run":"r"}'}
    changed = {"previous": "", **first, **change}
    assert chain_hash("", **first) != chain_hash(changed.pop("previous"), **changed)
