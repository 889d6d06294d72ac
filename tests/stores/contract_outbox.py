"""What every store must do of the outbox: notices are addressed, taken, postponed and sent (H3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core import commands as c
from placet.core.state import Delivery
from placet.core.values import Escalation
from placet.stores.store import NoticeRow, Store
from tests.stores.build import Clock, Session, asking
from tests.stores.contract import Place

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def told(rows: list[NoticeRow] | tuple[NoticeRow, ...]) -> list[tuple[str, str, int]]:
    return [(row.request, row.kind, row.attempts) for row in rows]


def take(store: Store, channel: str, *, limit: int = 100) -> list[NoticeRow]:
    return list(store.take("main", channel, lasts=MINUTE, limit=limit))


def address_all(store: Store, *channels: str) -> None:
    for row in store.outbox("main"):
        store.address(row.id, channels)


class OutboxContract:
    """The part of the shared suite that is about notices; `place` and others come from there."""

    @pytest.mark.promise("H3")
    def test_an_addressed_notice_leaves_on_each_channel_on_its_own(
        self, session: Session, store: Store
    ) -> None:
        session.start()
        request = session.ask()
        address_all(store, "mail", "phone", "mail")
        assert store.outbox("main") == []
        (mail,), (phone,) = take(store, "mail"), take(store, "phone")
        assert (mail.request, mail.session, mail.tenant) == (request, "s1", "main")
        assert (mail.channel, phone.channel) == ("mail", "phone")
        store.sent([mail.id])
        store.postpone(mail.id, lasts=timedelta(0))
        store.postpone(phone.id, lasts=timedelta(0))
        assert take(store, "mail") == []
        assert told(take(store, "phone")) == [(request, "opened", 2)]

    @pytest.mark.promise("H3")
    def test_what_is_taken_is_nobody_elses_for_a_while_and_then_anybodys(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        request = session.ask()
        address_all(store, "mail")
        other = place.open(clock=clock)
        assert told(take(store, "mail")) == [(request, "opened", 1)]
        clock.now += MINUTE - timedelta(microseconds=1)
        assert take(other, "mail") == []
        clock.now += timedelta(microseconds=1)
        assert told(take(other, "mail")) == [(request, "opened", 2)]

    @pytest.mark.promise("H3")
    def test_of_one_request_the_first_is_given_and_the_others_wait_until_it_was_sent(
        self, session: Session, store: Store
    ) -> None:
        session.start()
        session.reject(session.ask())
        session.lease()
        other = session.ask(step=2)
        address_all(store, "mail", "phone")
        first, beside = take(store, "mail")
        assert (first.kind, beside.request) == ("opened", other)
        assert take(store, "mail") == []
        store.sent([first.id])
        (last,) = take(store, "mail")
        assert (last.request, last.kind) == (first.request, "closed")
        assert [row.kind for row in take(store, "phone")] == ["opened", "opened"]

    def test_what_is_postponed_is_due_after_its_pause(
        self, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        session.ask()
        address_all(store, "mail")
        (row,) = take(store, "mail")
        store.postpone(row.id, lasts=3 * MINUTE)
        clock.now += 3 * MINUTE - timedelta(microseconds=1)
        assert take(store, "mail") == []
        clock.now += timedelta(microseconds=1)
        assert len(take(store, "mail")) == 1

    def test_what_was_never_taken_is_given_first_then_what_was_due_longest_and_no_more_than_wanted(
        self, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        session.propose(None, None, None)
        asked = [row.request for row in store.outbox("main")]
        address_all(store, "mail")
        first, second = taken = take(store, "mail", limit=2)
        assert [row.request for row in taken] == asked[:2]
        store.postpone(first.id, lasts=2 * SECOND)
        store.postpone(second.id, lasts=SECOND)
        clock.now += 2 * SECOND
        assert [row.request for row in take(store, "mail")] == [asked[2], asked[1], asked[0]]

    @pytest.mark.promise("G11")
    def test_a_channel_is_given_what_is_of_its_tenant_alone(self, store: Store) -> None:
        for tenant in ("main", "other"):
            session = Session(store, tenant=tenant)
            session.start(f"run_{tenant}")
            session.ask(run=f"run_{tenant}")
            for row in store.outbox(tenant):
                store.address(row.id, ["mail"])
        (row,) = store.take("other", "mail", lasts=MINUTE)
        assert row.tenant == "other"
        assert len(take(store, "mail")) == 1

    @pytest.mark.promise("H3")
    def test_of_several_workers_one_addresses_a_notice_and_one_is_given_it(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        session.ask()
        (row,) = store.outbox("main")
        stores = [store, *(place.open(clock=clock) for _ in range(3))]
        with ThreadPoolExecutor(len(stores)) as pool:
            list(pool.map(lambda each: each.address(row.id, ["mail", "phone"]), stores))
            taken = list(pool.map(lambda each: take(each, "mail"), stores))
        assert sorted(map(len, taken)) == [0, 0, 0, 1]
        assert len(take(store, "phone")) == 1

    def test_what_is_addressed_to_nobody_has_left(self, session: Session, store: Store) -> None:
        session.start()
        session.ask()
        address_all(store)
        assert store.outbox("main") == []

    @pytest.mark.promise("G9", "H3")
    def test_an_escalation_goes_to_the_channel_that_its_step_names(
        self, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        steps = (
            Escalation(after=MINUTE, channel="phone"),
            Escalation(after=2 * MINUTE),
        )
        session.propose(replace(asking(), escalation=steps))
        clock.now += 2 * MINUTE
        session.do(c.Expire(run="run_1"))
        rows = store.outbox("main")
        assert [(row.kind, row.channel) for row in rows] == [
            ("opened", ""),
            ("escalated", "phone"),
            ("escalated", ""),
        ]

    @pytest.mark.promise("H3", "D5")
    def test_deliveries_are_kept_with_their_request(
        self, place: Place, clock: Clock, session: Session, store: Store
    ) -> None:
        session.start()
        request = session.ask()
        record = c.RecordDelivery(
            request=request, channel="mail", delivered=False, cause="HTTP 500"
        )
        answer = session.do(record, command_id="told-1")
        again = session.do(record, command_id="told-1")
        assert again.repeated
        assert len(again.events) == len(answer.events) == 1
        found = place.open(clock=clock).find_request("main", request)
        assert found is not None
        (delivery,) = found.request.deliveries
        assert isinstance(delivery, Delivery)
        assert delivery.cause_ref is not None
        assert store.payload("main", "s1", delivery.cause_ref) == "HTTP 500"
