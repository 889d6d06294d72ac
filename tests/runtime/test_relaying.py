"""Notices through channels: at least once, each channel on its own, failures on record (H3)."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Channel, InvalidDeclaration, Notice, Placet
from placet.agent.models.scripted import call, say
from placet.core import events as e
from placet.core.card_surfaces import plain
from placet.core.codec import decode_event
from placet.runtime import relaying
from placet.runtime.audit import verify
from placet.runtime.relaying import Relay
from placet.runtime.worker import Worker
from tests.runtime.desk import Clock, Desk, effect
from tests.runtime.post_office import Mode, PostChannel, PostOffice, post_office

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
PAYS = [call("pay", what="a"), say("ok")]

_processes = multiprocessing.get_context("forkserver")


def posting(desk: Desk, office: PostOffice, *names: str) -> None:
    desk.placet.channels += [
        PostChannel(name, office.url, patience=office.patience(name)) for name in names
    ]


def deliveries(desk: Desk) -> list[tuple[str, str]]:
    """Give what is on record of deliveries, in order: the kind of the event, and the channel."""
    kinds = (e.NoticeDelivered, e.NoticeUndelivered)
    log = [decode_event(row.kind, row.body) for row in desk.log()]
    return [(type(x).__name__, x.channel) for x in log if isinstance(x, kinds)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def desk(tmp_path: Path, clock: Clock, done: list[str]) -> Iterator[Desk]:
    with Desk(tmp_path, PAYS, [effect(done)], clock=clock) as desk:
        yield desk


@pytest.mark.promise("G9", "H3")
@pytest.mark.parametrize("mode", ["500", "hang", "drop"])
def test_with_one_live_channel_beside_a_dead_one_a_request_expires(
    desk: Desk, clock: Clock, done: list[str], mode: Mode
) -> None:
    with post_office(dead=mode) as office:
        posting(desk, office, "dead", "live")
        (request,) = desk.start().waiting
        desk.work_once()
        assert sorted(deliveries(desk)) == [
            ("NoticeDelivered", "live"),
            ("NoticeUndelivered", "dead"),
        ]
        clock.now += DAY
        desk.work_once()
        assert office.kinds("live") == ["opened", "closed"]
        assert [post["status"] for post in office.posts["live"]] == ["waiting", "expired"]
        assert {post["request"] for post in office.posts["live"]} == {request}
    assert desk.result().stop == "final"
    assert desk.results()[0].startswith("Expired: no decision was in force")
    assert done == []


@pytest.mark.promise("G9", "H3")
@pytest.mark.parametrize("mode", ["500", "hang", "drop"])
def test_with_dead_channels_alone_it_ends_unreachable_and_the_model_is_told(
    desk: Desk, clock: Clock, done: list[str], mode: Mode
) -> None:
    with post_office(dead=mode) as office:
        posting(desk, office, "dead")
        (request,) = desk.start().waiting
        told = desk.work_once()
        clock.now += timedelta(hours=1)
        told += desk.work_once()
        clock.now += DAY
        desk.work_once()
        told_of = office.attempts("dead", at_least=3)
        assert told_of == 3, "twice that it is asked, and once that it is closed"
    assert [happening for happening, *_ in told] == ["notice", "undelivered"]
    assert deliveries(desk) == [("NoticeUndelivered", "dead")]
    assert desk.result().stop == "final"
    assert desk.results() == [
        "Unreachable: no notification could be delivered by 2026-11-30 12:00:00 UTC (tried: dead)."
        "\nNobody could be asked, and the call did not run."
    ]
    card = desk.show(request)
    assert card.status == "unreachable"
    assert "dead could not deliver: " in plain(card)
    assert done == []
    assert verify(desk.store, "main", "s").findings == ()


@pytest.mark.promise("G9", "H3")
def test_what_could_not_be_told_is_told_late_and_then_it_expires(desk: Desk, clock: Clock) -> None:
    with post_office(mail="500") as office:
        posting(desk, office, "mail")
        desk.start()
        desk.work_once()
        office.modes["mail"] = "ok"
        clock.now += SECOND
        desk.work_once()
        assert [post["attempt"] for post in office.posts["mail"]] == [2]
        clock.now += DAY
        desk.work_once()
    assert deliveries(desk) == [("NoticeUndelivered", "mail"), ("NoticeDelivered", "mail")]
    assert desk.results()[0].startswith("Expired:")


@pytest.mark.promise("H3")
def test_a_dead_channel_is_tried_after_pauses_that_grow_and_never_in_a_loop(
    desk: Desk, clock: Clock
) -> None:
    with post_office(mail="500") as office:
        posting(desk, office, "mail")
        desk.start()
        tried_at: list[float] = []
        for second in range(16):
            before = office.attempts("mail")
            for _ in range(3):
                desk.work_once()
            tried_at += [second] * (office.attempts("mail") - before)
            clock.now += SECOND
    assert tried_at == [0, 1, 3, 7, 15]


@pytest.mark.promise("H3")
def test_what_was_answered_meanwhile_asks_nobody_any_more_and_is_closed(
    desk: Desk, clock: Clock
) -> None:
    with post_office(mail="500") as office:
        posting(desk, office, "mail")
        (request,) = desk.start().waiting
        desk.work_once()
        office.modes["mail"] = "ok"
        desk.decide(request, "reject", reason="no")
        clock.now += SECOND
        desk.work_once()
        assert office.kinds("mail") == ["closed"]


@pytest.mark.promise("H3")
def test_a_dead_channel_is_told_of_a_closed_request_for_a_while_and_then_no_more(
    desk: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "MOST_CLOSINGS", 3)
    with post_office() as office:
        posting(desk, office, "mail")
        (request,) = desk.start().waiting
        desk.work_once()
        office.modes["mail"] = "500"
        desk.decide(request, "reject", reason="no")
        for _ in range(6):
            desk.work_once()
            clock.now += relaying.LONGEST_PAUSE
        assert office.attempts("mail") == 1 + 3
    assert deliveries(desk) == [("NoticeDelivered", "mail"), ("NoticeUndelivered", "mail")]


@pytest.mark.promise("H3")
def test_a_worker_without_channels_reports_and_that_is_no_delivery(
    desk: Desk, clock: Clock
) -> None:
    (request,) = desk.start().waiting
    assert ("notice", request, "the request is opened") in desk.work_once()
    clock.now += DAY
    desk.work_once()
    assert deliveries(desk) == []
    assert desk.results()[0].startswith("Expired:")


# --- killed -----------------------------------------------------------------------------------


def _die_telling(place: str, url: str) -> None:
    with Desk(Path(place), PAYS, [effect([])]) as desk:
        desk.placet.channels.append(PostChannel("mail", url, dies=True))
        desk.work_once()


@pytest.mark.promise("H3")
@pytest.mark.slow
def test_a_worker_killed_between_delivery_and_record_tells_again_and_loses_nothing(
    tmp_path: Path,
) -> None:
    clock = Clock()
    with post_office() as office:
        with Desk(tmp_path, PAYS, [effect([])]) as desk:
            (request,) = desk.start().waiting
            clock.now = desk.state().now
        process = _processes.Process(target=_die_telling, args=(str(tmp_path), office.url))
        process.start()
        process.join(60)
        assert process.exitcode == -9
        clock.now += timedelta(minutes=2)
        with Desk(tmp_path, PAYS, [effect([])], clock=clock) as desk:
            posting(desk, office, "mail")
            assert deliveries(desk) == []
            desk.work_once()
            assert deliveries(desk) == [("NoticeDelivered", "mail")]
            assert desk.work_once() == []
        first, second = office.posts["mail"]
    assert (first["id"], first["request"]) == (second["id"], request)
    assert (first["attempt"], second["attempt"]) == (1, 2)


# --- channels that misbehave ------------------------------------------------------------------


class Heard:
    """A channel in this process: it keeps what it is told, or does worse."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notices: list[Notice] = []
        self._more = asyncio.Event()

    async def tell(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._more.set()

    async def until(self, count: int) -> None:
        """Wait until it was told so many notices."""
        while len(self.notices) < count:
            self._more.clear()
            await self._more.wait()

    @property
    def heard(self) -> list[tuple[str, str]]:
        return [(notice.kind, notice.request.id) for notice in self.notices]


class Endless(Heard):
    """A channel that comes to no end, and does not heed that it should."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.over = asyncio.Event()

    async def tell(self, notice: Notice) -> None:
        await super().tell(notice)
        while not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                continue


class Poisoned(Heard):
    """A channel that breaks on the notices of one request."""

    poison = ""

    async def tell(self, notice: Notice) -> None:
        if notice.request.id == self.poison:
            raise ValueError("it cannot be shown")
        await super().tell(notice)


class Leaving(Heard):
    """A channel that would have the process end."""

    async def tell(self, notice: Notice) -> None:
        await super().tell(notice)
        raise SystemExit(3)


def relayed(placet: Placet, channels: Sequence[Channel], *, patience: timedelta) -> Worker:
    """Give a worker with less patience than it has by default."""
    worker = placet.worker(report=lambda *_: None)
    worker.relay = Relay(
        placet.engine, channels, card=placet.show, report=lambda *_: None, patience=patience
    )
    return worker


@pytest.mark.promise("H3")
def test_a_channel_that_never_ends_keeps_no_other_waiting_and_is_on_record(desk: Desk) -> None:
    live = Heard("live")
    runs = [f"run_{number}" for number in range(relaying.AT_ONCE + 2)]
    for run in runs:
        desk.start(session=run, run_id=run)

    async def work(placet: Placet) -> list[str]:
        stop, dead = asyncio.Event(), Endless("dead")
        worker = relayed(placet, [dead, live], patience=timedelta(milliseconds=100))
        working = asyncio.create_task(worker.forever(stop))
        try:
            await live.until(len(runs))
            await dead.until(len(runs))
            stop.set()
            await working
        finally:
            dead.over.set()
        return [notice.request.id for notice in dead.notices]

    tried = desk.do(lambda placet: asyncio.wait_for(work(placet), 60))
    assert len(set(tried)) == len(runs), "one by one, each had its turn"
    for run in runs:
        kinds = desk.kinds(session=run)
        assert (kinds.count("NoticeDelivered"), kinds.count("NoticeUndelivered")) == (1, 1)


@pytest.mark.promise("H3")
def test_a_notice_that_breaks_its_channel_blocks_no_other(desk: Desk) -> None:
    channel = Poisoned("mail")
    (channel.poison,) = desk.start().waiting
    (other,) = desk.start(session="t", run_id="run_2").waiting
    desk.placet.channels.append(channel)
    desk.work_once()
    assert channel.heard == [("opened", other)]
    assert deliveries(desk) == [("NoticeUndelivered", "mail")]


@pytest.mark.promise("H3")
def test_a_channel_that_would_end_the_process_has_failed_and_no_more(desk: Desk) -> None:
    channel, live = Leaving("mail"), Heard("live")
    (request,) = desk.start().waiting
    desk.placet.channels += [channel, live]
    desk.work_once()
    assert channel.heard == live.heard == [("opened", request)]
    assert set(deliveries(desk)) == {("NoticeUndelivered", "mail"), ("NoticeDelivered", "live")}


@pytest.mark.promise("H3")
def test_a_worker_that_goes_on_tells_what_happens_while_it_does(desk: Desk) -> None:
    channel = Heard("mail")
    told: list[tuple[str, str]] = []
    (request,) = desk.start().waiting

    async def work(placet: Placet) -> None:
        stop = asyncio.Event()
        worker = placet.worker(
            report=lambda happening, subject, _: told.append((happening, subject)),
            channels=[channel],
        )
        working = asyncio.create_task(worker.forever(stop))
        await channel.until(1)
        await placet.decide(request, "approve", by="ana")
        await channel.until(2)
        stop.set()
        await working

    desk.do(lambda placet: asyncio.wait_for(work(placet), 60))
    assert channel.heard == [("opened", request), ("closed", request)]
    assert told.count(("delivered", request)) == 1


# --- escalation -------------------------------------------------------------------------------


def escalating(*steps: str) -> str:
    return "\n".join(
        (
            "version = 1",
            "[[rule]]",
            'name = "payments"',
            'ruling = "ask"',
            'tools = ["pay"]',
            'approvers = ["ana"]',
            f"escalate = [{', '.join(steps)}]",
        )
    )


def escalated(place: Path, clock: Clock, *steps: str) -> tuple[Desk, list[Heard]]:
    policy = place / "placet.policy.toml"
    policy.write_text(escalating(*steps), encoding="utf-8")
    desk = Desk(place, PAYS, [effect([])], clock=clock, policy=str(policy))
    heard = [Heard("mail"), Heard("phone")]
    desk.placet.channels += heard
    desk.start()
    desk.work_once()
    clock.now += timedelta(minutes=10)
    desk.work_once()
    return desk, heard


@pytest.mark.promise("G9", "H3")
@pytest.mark.parametrize(
    "step, mail, phone",
    [
        ('{after = "10m", channel = "phone"}', ["opened"], ["opened", "escalated"]),
        ('{after = "10m"}', ["opened", "escalated"], ["opened", "escalated"]),
        (
            '{after = "10m", channel = "pager"}',
            ["opened", "escalated"],
            ["opened", "escalated"],
        ),
    ],
    ids=["the channel that it names", "every channel", "every channel, for nobody has that one"],
)
def test_an_escalation_step_goes_to(
    tmp_path: Path, clock: Clock, step: str, mail: list[str], phone: list[str]
) -> None:
    desk, heard = escalated(tmp_path, clock, step)
    with desk:
        assert [[kind for kind, _ in each.heard] for each in heard] == [mail, phone]
        missing = ("NoticeUndelivered", "pager") in deliveries(desk)
        assert missing == ("pager" in step)


# --- declarations -----------------------------------------------------------------------------


class Mute:
    name = "mute"


class Blocking:
    """Tells, and then cannot be awaited: people would be told again and again."""

    name = "blocking"

    def tell(self, notice: Any) -> None:
        """Tell nobody."""


class Classy:
    name = "classy"

    async def tell(self, notice: Any) -> None:
        """Tell nobody."""


class Nameless(Heard):
    def __init__(self) -> None:
        super().__init__("")


@pytest.mark.parametrize(
    "channels",
    [[Mute()], [Nameless()], [Heard("mail"), Heard("mail")], [Blocking()], [Classy]],
    ids=["cannot tell", "has no name", "are two of a name", "is not async", "is a class"],
)
def test_what_is_no_channel_is_refused_at_once(desk: Desk, channels: list[Any]) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        Placet(desk.store, channels=channels)
    assert refused.value.code == "invalid_channel"
    with pytest.raises(InvalidDeclaration):
        desk.placet.worker(report=lambda *_: None, channels=channels)
