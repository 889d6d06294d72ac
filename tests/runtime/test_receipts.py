"""Receipts: they say who decided what, and nothing else passes for one (H4)."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from placet.core import commands as c
from placet.core.codec import chain_hash
from placet.core.errors import PlacetError
from placet.core.values import Principal
from placet.runtime.keys import SigningKey, new_pair, public_key_in, signing_key_in
from placet.runtime.receipts import check_receipt, read_receipt, receipt
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from tests.stores.build import ANN, BOB, PEOPLE, Clock, Session, asking, opened


class Notary:
    """A store under a key, and a pair that signs of it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "placet.db"
        self.store = SqliteStore(self.path, clock=Clock(), key=PlacetKey(b"k" * 32))
        self.session = Session(self.store)
        self.session.start()
        new_pair(directory / "signing.pem")
        self.signing: SigningKey = signing_key_in(directory / "signing.pem")
        self.public = public_key_in(directory / "signing.pem.pub")

    def of(self, request: str) -> dict[str, Any]:
        made = receipt(self.store, "main", request, signing=self.signing)
        read: dict[str, Any] = json.loads(json.dumps(made))
        assert check_receipt(read, self.public) == ()
        return read

    def refused(self, request: str) -> str:
        with pytest.raises(PlacetError) as caught:
            self.of(request)
        return caught.value.code

    def sql(self, statement: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            assert connection.execute(statement).rowcount > 0


@pytest.fixture
def notary(tmp_path: Path) -> Iterator[Notary]:
    made = Notary(tmp_path)
    yield made
    made.store.close()


@pytest.mark.promise("H4")
def test_a_receipt_of_a_rejection_has_all_that_it_stands_for(notary: Notary) -> None:
    request = notary.session.ask()
    notary.session.reject(request, reason="The card is 4000-0012.")
    made = notary.of(request)
    body = made["receipt"]
    found = notary.store.find_request("main", request)
    assert found is not None
    log = {row.seq: row for row in notary.store.events("main", "s1")}
    event = body["event"]
    row = log[event["seq"]]
    assert (event["hash"], event["previous"]) == (row.hash, log[event["seq"] - 1].hash)
    expected = {
        "tenant": "main",
        "session": "s1",
        "run": "run_1",
        "request": request,
        "digest": found.request.digest,
        "decision": "reject",
        "by": "ann",
        "at": "2026-03-01T12:00:00Z",
        "policy_version": "p1",
        "requester": "rita",
    }
    assert {name: body[name] for name in expected} == expected
    assert "4000-0012" not in json.dumps(made)


@pytest.mark.promise("H4", "G10")
def test_a_receipt_of_a_quorum_names_the_votes_that_stand(notary: Notary) -> None:
    request = opened(notary.session.propose(asking(quorum=2)))[0]
    notary.session.approve(request, ANN)
    assert notary.refused(request) == "not_decided"
    notary.session.approve(request, BOB)
    notary.session.do(c.Withdraw(request=request, by=ANN))
    assert notary.refused(request) == "not_decided"
    notary.session.approve(request, ANN)
    body = notary.of(request)["receipt"]
    assert (body["decision"], body["by"], body["quorum"]) == ("approve", "ann", 2)
    assert [vote["by"] for vote in body["votes"]] == ["bob", "ann"]


@pytest.mark.promise("H4", "G9")
def test_what_nobody_decided_has_no_receipt(notary: Notary) -> None:
    request = notary.session.ask()
    assert notary.refused(request) == "not_decided"
    notary.session.do(c.CancelRun(run="run_1", by=ANN, cause=""))
    assert notary.refused(request) == "not_decided"
    assert notary.refused("rq_none") == "request_not_found"


@pytest.mark.promise("H4", "G5")
def test_an_edit_has_a_receipt_and_so_has_the_vote_that_it_is(notary: Notary) -> None:
    request = notary.session.ask()
    call = notary.session.store.session("main", "s1")
    assert call is not None
    (at,) = call.calls
    command = c.Edit(
        request=request,
        by=ANN,
        eligible=PEOPLE,
        proposal=notary.session.sound(at, salt="cd" * 16, order_id="8"),
        changes="order_id",
        policy_version="p2",
    )
    successor = opened(notary.session.do(command))[0]
    assert notary.of(request)["receipt"]["decision"] == "edit"
    body = notary.of(successor)["receipt"]
    assert (body["decision"], body["by"], body["via"]) == ("approve", "ann", "edit")
    assert body["policy_version"] == "p2"


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "statement, code",
    [
        ("UPDATE sessions SET head = zeroblob(32)", "forged_head"),
        ("UPDATE sessions SET mac = NULL", "unkeyed_head"),
        ("UPDATE events SET at = at - 1 WHERE kind = 'RequestRejected'", "store_damaged"),
        ("UPDATE events SET body = replace(body, 'ann', 'eve')", "store_damaged"),
        ("UPDATE requests SET value = json_set(value, '$.tool', 'read_news')", "store_damaged"),
        ("UPDATE requests SET value = json_set(value, '$.rule', 'none')", "store_damaged"),
        ("UPDATE requests SET value = json_set(value, '$.requester', 'ceo')", "store_damaged"),
        ("UPDATE calls SET value = json_set(value, '$.tool', 'read_news')", "store_damaged"),
        ("DELETE FROM payloads", "store_damaged"),
    ],
)
def test_nothing_is_signed_of_a_record_that_was_changed(
    notary: Notary, statement: str, code: str
) -> None:
    request = notary.session.ask()
    notary.session.reject(request)
    notary.of(request)
    notary.sql(statement)
    assert notary.refused(request) == code


@pytest.mark.promise("H4")
@pytest.mark.parametrize("chained", [False, True], ids=["itself", "and those after it"])
def test_a_decision_whose_own_hash_was_made_anew_is_not_signed(
    notary: Notary, chained: bool
) -> None:
    request = notary.session.ask()
    notary.session.approve(request)
    notary.of(request)
    with closing(sqlite3.connect(notary.path)) as connection, connection:
        rows = connection.execute("SELECT seq, at, kind, body, hash FROM events ORDER BY seq")
        previous = ""
        for seq, at, kind, body, hash_ in rows.fetchall():
            forged = body.replace('"ann"', '"bob"') if kind == "VoteCast" else body
            made = chain_hash(previous, seq=seq, at_micros=at, kind=kind, body=forged)
            if chained or kind == "VoteCast":
                connection.execute(
                    "UPDATE events SET body = ?, hash = ? WHERE seq = ?",
                    (forged, bytes.fromhex(made), seq),
                )
            previous = made if chained else hash_.hex()
    assert notary.refused(request) == "store_damaged"


@pytest.mark.promise("H4")
def test_without_the_key_nothing_is_signed_of_a_store_that_is_under_one(notary: Notary) -> None:
    request = notary.session.ask()
    notary.session.reject(request)
    with closing(SqliteStore(notary.path)) as store, pytest.raises(PlacetError) as caught:
        receipt(store, "main", request, signing=notary.signing)
    assert caught.value.code == "key_missing"


@pytest.mark.promise("H4", "G10")
def test_a_receipt_says_who_stood_in(notary: Notary) -> None:
    request = notary.session.ask()
    eve = Principal(id="eve")
    notary.session.do(c.Approve(request=request, by=eve, eligible=PEOPLE, stand_ins={"eve": None}))
    body = notary.of(request)["receipt"]
    assert (body["by"], body["stood_in"]) == ("eve", True)
    assert [vote["stood_in"] for vote in body["votes"]] == [True]


@pytest.mark.promise("H4")
def test_a_receipt_that_can_be_read_in_two_ways_is_none(notary: Notary) -> None:
    request = notary.session.ask()
    notary.session.reject(request)
    text = json.dumps(notary.of(request))
    assert check_receipt(read_receipt(text.encode()), notary.public) == ()
    twice = text.replace('{"receipt":', '{"receipt":{"by":"ceo","v":1},"receipt":', 1)
    within = text.replace('"by":', '"by":"ceo","by":', 1)
    for other in (twice, within, "[" * 100_000):
        with pytest.raises(ValueError, match=r"twice|deeply"):
            read_receipt(other.encode())


def put(*path: str | int, value: object) -> Callable[[Any], object]:
    def change(document: Any) -> object:
        inner = document
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        return document

    return change


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "change",
    [
        put("receipt", "by", value="eve"),
        put("receipt", "decision", value="approve"),
        put("receipt", "digest", value="0" * 64),
        put("receipt", "at", value="2026-03-02T12:00:00Z"),
        put("receipt", "event", "seq", value=1),
        put("receipt", "votes", value=[{"by": "eve"}]),
        put("receipt", "more", value=1),
        put("receipt", "v", value=2),
        put("signature", value="00" * 64),
        put("signature", value="no hexadecimal"),
        put("key", value="0" * 16),
        put("algorithm", value="none"),
        put("approved_by", value="ceo"),
        put("receipt", value=[]),
        lambda document: [document],
        lambda document: None,
    ],
)
def test_nothing_else_passes_for_a_receipt(notary: Notary, change: Callable[[Any], object]) -> None:
    request = notary.session.ask()
    notary.session.reject(request)
    made = notary.of(request)
    assert check_receipt(change(copy.deepcopy(made)), notary.public) != ()


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "change, told",
    [
        (put("by", value="eve"), "another person"),
        (put("request", value="rq_other"), "another request"),
        (put("decision", value="approve"), "another decision"),
        (put("event", "seq", value=1), "not what the hash stands for"),
        (put("event", "body", value="{"), "damaged"),
        (put("event", value=None), "damaged"),
    ],
)
def test_a_receipt_that_contradicts_its_event_is_not_valid_though_it_is_signed(
    notary: Notary, change: Callable[[Any], object], told: str
) -> None:
    request = notary.session.ask()
    notary.session.reject(request)
    body = notary.of(request)["receipt"]
    change(body)
    written = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    signed = {
        "receipt": body,
        "algorithm": "Ed25519",
        "key": notary.signing.key_id,
        "signature": notary.signing.sign(written),
    }
    assert any(told in each for each in check_receipt(signed, notary.public))
