"""The payment server of the examples: once for a key, however it is asked, killed and started."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.examples.payment_desk import CENTS, Gateway

PAYMENT = {"order": "A-42", "amount": CENTS}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path) as started:
        yield started


def test_many_requests_with_one_key_at_a_time_pay_once(gateway: Gateway) -> None:
    with ThreadPoolExecutor(max_workers=16) as crowd:
        asked = [
            crowd.submit(gateway.ask, "POST", "/payments", PAYMENT, key="k") for _ in range(64)
        ]
        answers = [each.result() for each in asked]
    assert {(status, told["id"]) for status, told in answers} == {(201, 1)}
    assert len(gateway.effects("A-42")) == 1
    assert gateway.keys() == ["k"] * 64


def test_a_key_that_comes_with_another_body_is_refused(gateway: Gateway) -> None:
    gateway.ask("POST", "/payments", PAYMENT, key="k")
    others = [("/payments", {**PAYMENT, "amount": 1}), ("/refunds", PAYMENT)]
    assert [gateway.ask("POST", path, body, key="k")[0] for path, body in others] == [422, 422]
    assert len(gateway.effects("A-42")) == 1


def test_the_gateway_knows_its_keys_when_it_was_killed_and_started_anew(
    gateway: Gateway,
) -> None:
    gateway.ask("POST", "/payments", PAYMENT, key="k")
    gateway.restart()
    assert gateway.ask("POST", "/payments", PAYMENT, key="k")[1]["id"] == 1
    assert len(gateway.effects("A-42")) == 1


def test_a_void_takes_back_what_was_paid_once_and_refuses_what_comes_late(
    gateway: Gateway,
) -> None:
    gateway.ask("POST", "/payments", PAYMENT, key="k1")
    void = {"order": "A-42", "of": "payments"}
    answers = [gateway.ask("POST", "/voids", void, key=key) for key in ("k2", "k2", "k3")]
    assert [told["amount"] for _, told in answers] == [-CENTS, -CENTS, 0]
    assert gateway.ask("POST", "/payments", PAYMENT, key="k4")[0] == 409
    assert sum(each["amount"] for each in gateway.effects("A-42")) == 0


@pytest.mark.parametrize(
    "path, body",
    [
        ("/payments", {**PAYMENT, "amount": 0}),
        ("/payments", {**PAYMENT, "amount": 10**400}),
        ("/payments", {**PAYMENT, "amount": True}),
        ("/payments", {**PAYMENT, "order": ""}),
        ("/payments", [PAYMENT]),
        ("/voids", {"order": "A-42", "of": ["payments"]}),
        ("/behave", {"faults": [["503-after"]]}),
        ("/behave", {"faults": ["504"], "on": "/payments"}),
        ("/behave", {"faults": [], "on": "/elsewhere"}),
    ],
)
def test_what_the_gateway_does_not_understand_is_refused_and_nothing_is_done(
    gateway: Gateway, path: str, body: object
) -> None:
    assert gateway.ask("POST", path, body)[0] == 400
    assert (gateway.effects("A-42"), gateway.keys()) == ([], [])
