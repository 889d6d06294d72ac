"""Paying once: a real gateway that misbehaves, real processes that are killed, the real gate.

tests/examples/payment_desk.py holds the gateway and the ways in which a tool that pays may be
declared. The rows of the table of docs/how-to/pay-once.md are what is found here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from examples import payments
from placet import Placet
from placet.agent.models.scripted import call, say
from placet.core.canonical import digest_of
from tests.cli.place import Place
from tests.examples.payment_desk import (
    CENTS,
    DECLARATIONS,
    Gateway,
    Patience,
    approved,
    carried_on,
    declared,
    in_words,
    killed,
    opened,
    paying,
    record_of,
)
from tests.tidy import ROOT

PAGE = ROOT / "docs" / "how-to" / "pay-once.md"

#: How long the gateway has to answer where it does not answer, and where it does.
SOON, EVER = timedelta(seconds=2), timedelta(seconds=60)


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with Gateway(tmp_path) as started:
        monkeypatch.setenv("PAYMENTS_URL", started.url)
        yield started


@pytest.fixture
def careless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """Start a gateway that pays again for a key that it knows."""
    with Gateway(tmp_path, "--without-keys") as started:
        monkeypatch.setenv("PAYMENTS_URL", started.url)
        yield started


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A row of the table: what goes wrong, and where."""

    name: str
    faults: tuple[str, ...]
    kills: bool = False
    limit: timedelta | None = None
    raises: type[Exception] | None = None

    @property
    def waits(self) -> bool:
        """Say whether the tool's own wait for the gateway comes to its end."""
        unanswered = self.faults[0].startswith(("hang", "late"))
        return unanswered and not self.kills and self.limit is None


ALWAYS = 20

FAULTS = (
    Fault(name="answers 503, and has not paid", faults=("503-before",)),
    Fault(name="answers 503, and has paid", faults=("503-after",)),
    Fault(name="breaks the connection, and has not paid", faults=("drop-before",)),
    Fault(name="breaks the connection, and has paid", faults=("drop-after",)),
    Fault(name="does not answer, and has not paid", faults=("hang-before",)),
    Fault(name="does not answer, and has paid", faults=("hang-after",)),
    Fault(name="does not answer, and pays later", faults=("late",)),
    Fault(
        name="has paid, and the tool's time limit passes first",
        faults=("hang-after",),
        limit=timedelta(seconds=3),
    ),
    Fault(name="has paid, and our process is killed", faults=("hang-after",), kills=True),
    Fault(name="has not paid, and our process is killed", faults=("hang-before",), kills=True),
    Fault(name="pays later, and our process is killed", faults=("late",), kills=True),
    Fault(name="answers 503 every time, and has paid", faults=("503-after",) * ALWAYS),
    Fault(name="answers 503 every time, and never pays", faults=("503-before",) * ALWAYS),
    Fault(
        name="answers 503, has paid, and the tool raises an ordinary error",
        faults=("503-after",),
        raises=RuntimeError,
    ),
    Fault(name="is too busy to pay, and says so (429)", faults=("429",)),
    Fault(name="declines, and says so (402)", faults=("402",)),
)


def cell(
    gateway: Gateway, place: Path, how: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Pay once, with a tool that is declared so, through a gateway that does this; say the end."""
    order = f"A-{DECLARATIONS.index(how)}"
    patience = Patience(SOON if fault.waits else EVER, then=EVER)
    monkeypatch.setattr(payments, "ANSWER_WITHIN", patience)
    monkeypatch.setattr(payments, "Unanswered", fault.raises or payments.Unanswered)
    asked, undone = len(gateway.keys()), len(gateway.keys("/voids"))
    gateway.behave(*fault.faults)
    with opened(place, declared(how, time_limit=fault.limit), paying(order)) as placet:
        run = approved(placet)
        if not fault.kills:
            carried_on(placet, run)
    if fault.kills:
        killed(place, how, order, run, once=lambda: acted(gateway, order, fault, asked))
    with opened(place, declared(how, time_limit=fault.limit), paying(order)) as placet:
        carried_on(placet, run)
        gateway.release()
        assert len(gateway.faults()) < len(fault.faults), "the fault was not met"
        gateway.behave()
        record = record_of(placet)
        assert record.keys == gateway.keys()[asked:], "what was sent has its intent, and its key"
        assert record.undo_keys == gateway.keys("/voids")[undone:]
        paid = held_to_the_truth(gateway, placet, order, run)
    return in_words(record, paid)


def acted(gateway: Gateway, order: str, fault: Fault, asked: int) -> bool:
    """Say whether the gateway has met a fault that it does not answer."""
    if fault.faults[0].endswith("-after"):
        return bool(gateway.effects(order))
    return len(gateway.keys()) > asked


def held_to_the_truth(gateway: Gateway, placet: Placet, order: str, run: str) -> int:
    """Hold what is on record of a payment against the gateway's table; give what stands as paid."""
    record, effects = record_of(placet), gateway.effects(order)
    made = [each for each in effects if each["kind"] == "payment"]
    stands = sum(int(each["amount"]) for each in effects)
    assert len(made) <= 1, "it was paid twice"
    assert stands in (0, CENTS)
    assert len(set(record.keys)) == 1, "an attempt had another key"
    assert len(set(record.undo_keys)) <= 1
    assert not set(record.keys) & set(record.undo_keys)
    told = {
        "succeeded": stands == CENTS,
        "tool_failed_and_compensated": stands == 0,
        "tool_failed": stands == 0 or "may have acted" in record.told,
        "": bool(record.settlement),
    }
    assert told[record.code], f"{record} is not what happened: {effects}"
    if record.settlement:
        happened = stands == CENTS
        found = f"paid {CENTS} cents for {order}" if happened else "it is not in its records"
        placet.settle_sync(record.settlement, by="ana", happened=happened, detail=found)
        assert carried_on(placet, run).stop == "final"
        assert record_of(placet).code == ("succeeded" if happened else "interrupted")
        assert gateway.effects(order) == effects, "a settlement sends nothing"
    return stands // CENTS


def listed() -> dict[str, list[str]]:
    """Give the rows of the page's table, by the fault."""
    part = PAGE.read_text(encoding="utf-8").partition("<!-- table:begin -->")[2]
    lines = part.partition("<!-- table:end -->")[0].strip().splitlines()
    head, _, *rows = [[each.strip() for each in line.strip("|").split("|")] for line in lines]
    assert head == ["the gateway", *DECLARATIONS]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.slow
@pytest.mark.promise("D4", "D8")
@pytest.mark.conformance(10)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_becomes_of_a_payment_is_what_the_page_says(
    gateway: Gateway, tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        cell(gateway, tmp_path / str(number), how, fault, monkeypatch)
        for number, how in enumerate(DECLARATIONS)
    ]
    row = f"| {' | '.join([fault.name, *found])} |"

    assert listed().get(fault.name) == found, f"the page should say:\n{row}"


def test_the_page_has_every_fault_in_order() -> None:
    assert list(listed()) == [fault.name for fault in FAULTS]


# --- the key --------------------------------------------------------------------------------------


@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
def test_the_key_is_made_of_the_digest_that_was_approved(gateway: Gateway, tmp_path: Path) -> None:
    gateway.behave("503-after")
    with opened(tmp_path / "p", payments.pay, paying("A-42")) as placet:
        waits = placet.run_sync("cashier", "go")
        (request,) = waits.waiting
        digest = placet.show_sync(request).digest
        placet.decide_sync(request, "approve", by="ana")
        assert carried_on(placet, waits.run_id).stop == "final"
    assert gateway.keys() == [f"ik_{digest[:32]}"] * 2
    assert [each["key"] for each in gateway.effects("A-42")] == gateway.keys()[:1]


@pytest.mark.promise("D8")
def test_a_compensation_has_a_key_that_is_made_of_the_same_digest_and_is_another(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.behave("503-after")
    gateway.behave("503-after", on="/voids")
    with opened(tmp_path / "p", declared("a compensation alone"), paying("A-42")) as placet:
        waits = placet.run_sync("cashier", "go")
        digest = placet.show_sync(waits.waiting[0]).digest
        placet.decide_sync(waits.waiting[0], "approve", by="ana")
        assert carried_on(placet, waits.run_id).stop == "final"
        assert record_of(placet).code == "tool_failed_and_compensated"
    assert gateway.keys() == [f"ik_{digest[:32]}"]
    undo = digest_of({"action": digest, "undo": "compensate"})
    assert gateway.keys("/voids") == [f"ik_{undo[:32]}"] * 2
    assert [each["amount"] for each in gateway.effects("A-42")] == [CENTS, -CENTS]


@pytest.mark.promise("G5")
def test_an_edited_payment_has_another_key_and_the_first_is_never_sent(
    gateway: Gateway, tmp_path: Path
) -> None:
    with opened(tmp_path / "p", payments.pay, paying("A-42")) as placet:
        waits = placet.run_sync("cashier", "go")
        edited = placet.decide_sync(
            waits.waiting[0], "edit", by="ana", arguments={"order": "A-42", "cents": 5000}
        )
        assert edited.successor is not None
        digest = placet.show_sync(edited.successor).digest
        assert carried_on(placet, waits.run_id).stop == "final"
    assert gateway.keys() == [f"ik_{digest[:32]}"]
    assert [each["amount"] for each in gateway.effects("A-42")] == [5000]


def test_what_the_model_proposes_again_is_another_action_with_another_key(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.behave("402")
    proposed = call("pay", order="A-42", cents=CENTS)
    with opened(tmp_path / "p", payments.pay, [proposed, proposed, say("done")]) as placet:
        run = approved(placet)
        again = carried_on(placet, run)
        assert gateway.effects("A-42") == []
        (second,) = again.waiting  # A person is asked again.
        placet.decide_sync(second, "approve", by="ana")
        assert carried_on(placet, run).stop == "final"
    assert len(set(gateway.keys())) == len(gateway.keys()) == 2
    assert len(gateway.effects("A-42")) == 1


def was_asked(gateway: Gateway, times: int) -> bool:
    return len(gateway.keys()) == times


@pytest.mark.slow
@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
def test_three_processes_that_are_killed_one_after_another_pay_once_under_one_key(
    gateway: Gateway, tmp_path: Path
) -> None:
    place, how = tmp_path / "p", "`pay`, with all three"
    gateway.behave("hang-before", "hang-after", "hang-after")
    with opened(place, payments.pay, paying("A-42")) as placet:
        run = approved(placet)
    for sent in (1, 2, 3):
        killed(place, how, "A-42", run, once=partial(was_asked, gateway, sent))
    with opened(place, payments.pay, paying("A-42")) as placet:
        assert carried_on(placet, run).stop == "final"
        assert record_of(placet).keys == gateway.keys()
    assert (len(gateway.keys()), len(set(gateway.keys()))) == (4, 1)
    assert len(gateway.effects("A-42")) == 1


# --- people ---------------------------------------------------------------------------------------

ENDS = {
    "--happened": "wired 12900 cents for A-3\n(Established by ana;",
    "--did-not-happen": "Interrupted: ana found that it did not happen.",
    "--abandon": "Outcome unknown: ana could not find out what became of it.",
}


@pytest.mark.slow
@pytest.mark.promise("D4")
@pytest.mark.conformance(10)
@pytest.mark.parametrize("word", ENDS)
def test_a_person_settles_an_unknown_payment_and_it_is_not_sent_again(
    gateway: Gateway, tmp_path: Path, word: str
) -> None:
    place = Place(tmp_path, "ana", agents="examples.payments:agent")
    gateway.behave("drop-after")
    with opened(tmp_path, payments.wire, paying("A-3", by="wire")) as placet:
        run = approved(placet)
        (settlement,) = carried_on(placet, run).waiting
    shown = place.placet("show", settlement, "--json").document
    assert shown["idempotency_key"] == gateway.effects("A-3")[0]["key"], "it can be looked up"
    result = ["wired 12900 cents for A-3"] if word == "--happened" else []
    assert place.placet("settle", settlement, word, *result, by="ana").code == 0
    with opened(tmp_path, payments.wire, paying("A-3", by="wire")) as placet:
        assert carried_on(placet, run).stop == "final"
        assert record_of(placet).told.startswith(ENDS[word])
    assert (len(gateway.keys()), len(gateway.effects("A-3"))) == (1, 1)


@pytest.mark.promise("D8")
@pytest.mark.conformance(10)
def test_a_compensation_that_stays_unanswered_is_put_to_a_person(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.behave("drop-after")
    gateway.behave(*("drop-before",) * ALWAYS, on="/voids")
    with opened(tmp_path / "p", declared("a compensation alone"), paying("A-42")) as placet:
        run = approved(placet)
        (settlement,) = carried_on(placet, run).waiting
        assert placet.show_sync(settlement).kind == "settlement"
    voids = gateway.keys("/voids")
    assert (len(gateway.keys()), len(voids), len(set(voids))) == (1, 4, 1)
    assert [each["amount"] for each in gateway.effects("A-42")] == [CENTS]


# --- what is only believed ------------------------------------------------------------------------


def test_a_tool_that_says_idempotent_of_a_gateway_that_is_not_pays_twice(
    careless: Gateway, tmp_path: Path
) -> None:
    careless.behave("503-after")
    with opened(tmp_path / "p", declared("a key alone"), paying("A-42")) as placet:
        assert carried_on(placet, approved(placet)).stop == "final"
    assert len(careless.effects("A-42")) == 2


def test_a_probe_does_without_a_gateway_that_takes_keys(careless: Gateway, tmp_path: Path) -> None:
    careless.behave("503-after")
    with opened(tmp_path / "p", declared("a probe alone"), paying("A-42")) as placet:
        assert carried_on(placet, approved(placet)).stop == "final"
        assert record_of(placet).by == "probe"
    assert len(careless.effects("A-42")) == 1


@pytest.mark.slow
def test_a_probe_that_says_no_too_early_pays_twice_where_the_gateway_takes_no_keys(
    careless: Gateway, tmp_path: Path
) -> None:
    place, how = tmp_path / "p", "a probe alone"
    careless.behave("late")
    with opened(place, declared(how), paying("A-42")) as placet:
        run = approved(placet)
    killed(place, how, "A-42", run, once=careless.keys)
    with opened(place, declared(how), paying("A-42")) as placet:
        assert carried_on(placet, run).stop == "final"
    careless.release()
    assert len(careless.effects("A-42")) == 2


# --- the example's tools --------------------------------------------------------------------------


def test_pay_is_declared_as_the_table_says() -> None:
    ours, of_table = payments.pay.declaration, declared(DECLARATIONS[0], time_limit=EVER)
    assert ours.recovery.idempotent
    assert ours.recovery.probe
    assert ours.recovery.compensation is not None
    assert ours.recovery.compensation.safe_if_absent
    assert ours.recovery.retries == of_table.declaration.recovery.retries
    assert (ours.not_done, ours.retry_on) == (
        of_table.declaration.not_done,
        of_table.declaration.retry_on,
    )


def test_a_gateway_that_cannot_be_reached_is_tried_again_and_did_not_act(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.kill()
    with opened(tmp_path / "p", declared("nothing"), paying("A-42")) as placet:
        assert carried_on(placet, approved(placet)).stop == "final"
        record = record_of(placet)
    assert (record.code, len(record.keys)) == ("tool_failed", 4)
    assert record.told.endswith("It did not act.")


@pytest.mark.conformance(10)
def test_a_refund_that_is_never_answered_is_looked_up_and_is_made_once(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.behave(*("drop-after",) * ALWAYS, on="/refunds")
    script = [call("refund", order="A-42", cents=CENTS), say("done")]
    with opened(tmp_path / "p", payments.refund, script) as placet:
        assert carried_on(placet, approved(placet)).stop == "final"
        record = record_of(placet)
        assert (record.code, record.by) == ("succeeded", "probe")
        assert record.told == f"refunded {CENTS} cents for A-42"
    assert (len(gateway.keys("/refunds")), len(set(gateway.keys("/refunds")))) == (4, 1)
    assert [each["kind"] for each in gateway.effects("A-42")] == ["refund"]


@pytest.mark.slow
@pytest.mark.conformance(10)
def test_the_story_pays_each_order_once() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "payments.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = [re.sub(r"ik_\w+", "ik_", line) for line in done.stdout.splitlines()]
    shown = re.findall(r"```text\n(1\. The gateway.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert [told] == [[re.sub(r"ik_\w+", "ik_", line) for line in shown[0].splitlines()]]
