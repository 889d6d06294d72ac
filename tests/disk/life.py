"""The life of one payment at a payment server, phase by phase, on a disk that fails (D3, D4, D8).

An agent proposes the payment, a person approves it, another process makes it; where the server
pays and then answers 503, it is taken back. The server is examples/payment_server.py, a process of
its own with a table of its own: what happens twice is there twice. It has a dedupe by key for the
kind of tool that counts on one, and for no other.

The functions here are called in processes of a forge (forge.py). They answer with what they saw.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.error import HTTPError
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from examples.payment_server import Books, PaymentServer
from placet import Agent, Happened, IdempotencyKey, NotHappened, Placet, ScriptedModel, tool
from placet.agent.messages import AssistantMessage, ModelRequest
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.core.codec import UnreadableValue, decode, decode_event, encode
from placet.core.commands import Command
from placet.core.errors import InProgress, PlacetError
from placet.core.events import Event
from placet.core.state import Call, No, Open, Request, Run
from placet.core.values import LEASE
from placet.runtime import attempts
from placet.runtime.audit import verify
from placet.stores import sqlite_opening
from placet.stores.sqlite import SqliteStore
from placet.stores.store import Answer
from tests.disk import forge, shim
from tests.disk.shim import Setting
from tests.runtime.life import Killer

Kind = Literal["plain", "idempotent", "probe", "compensate", "compensate once"]
Phase = Literal["propose", "decide", "resume", "recover", "settle", "end"]

KINDS: tuple[Kind, ...] = ("plain", "idempotent", "probe", "compensate", "compensate once")

#: The phases of a life that goes well, and of one whose process dies after it paid.
STRAIGHT: tuple[Phase, ...] = ("propose", "decide", "resume")
BROKEN: tuple[Phase, ...] = ("propose", "decide", "resume", "recover", "settle", "end")

RUN = "run_1"
ORDER, CENTS = "A-42", 12_900
SOON = timedelta(milliseconds=1)
PHASE_LASTS = 60.0


def phases_of(kind: Kind) -> tuple[Phase, ...]:
    """Give the phases of a life of a kind: only what cannot be known needs a person at the end."""
    return BROKEN if kind == "plain" else BROKEN[:4]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a life is lived: the store's directory, which is the failing disk, and the rest."""

    root: Path

    @property
    def disk(self) -> Path:
        """Give the directory that the failing disk stands for."""
        return self.root / "disk"

    @property
    def store(self) -> Path:
        """Give the store's file."""
        return self.disk / "placet.db"

    @property
    def bank(self) -> Path:
        """Give the payment server's own database."""
        return self.root / "bank.db"

    @property
    def record(self) -> Path:
        """Give the file in which the calls on the disk are written down."""
        return self.root / "record"


def make_ready() -> None:
    """Have done once what each process would do anew: to learn the forms of what is stored."""
    for part in (Run, Call, Request, No):
        with suppress(UnreadableValue):
            decode(part, "{}")  # type: ignore[type-var]  # each of them is one
    for kind in get_args(Event):
        with suppress(UnreadableValue):
            decode_event(kind.__name__, "{}")


# --- the payment server -----------------------------------------------------------------------


def serve_bank(path: str, kind: Kind) -> None:
    """Serve payments until killed; say where."""
    books = Books(Path(path), uses_keys=kind == "idempotent")
    server = PaymentServer(books, port=0)
    forge.say(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()


def asked_of_bank(url: str, path: str, body: object = None, *, key: str = "") -> Any:
    """Ask the payment server for something; raises HTTPError."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Idempotency-Key": key} if key else {}
    with urlopen(
        HttpRequest(url + path, data=data, headers=headers), timeout=PHASE_LASTS
    ) as answer:
        return json.load(answer)


def effect(url: str, path: str, body: object, key: str) -> Any:
    """Have the payment server act, and write down that it has."""
    shim.mark(json.dumps(["enters", key]))
    try:
        return asked_of_bank(url, path, body, key=key)
    finally:
        shim.mark(json.dumps(["did", path, body, key]))


# --- the agent --------------------------------------------------------------------------------


def payment(kind: Kind, url: str, *, dies: bool = False) -> Tool:
    """Give the tool that pays; `dies` kills the process once the server has paid."""

    @tool(surface="payments", idempotent=kind == "idempotent", backoff=SOON)
    def pay(order: str, cents: int, *, key: IdempotencyKey) -> str:
        """Pay a customer."""
        try:
            paid = effect(url, "/payments", {"order": order, "amount": cents}, key)
        finally:
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {paid['amount']} for {order}"

    if kind == "probe":

        @pay.probe
        def was_paid(order: str, cents: int, *, key: IdempotencyKey) -> Happened | NotHappened:
            try:
                found = asked_of_bank(url, f"/payments/by-key/{key}")
            except HTTPError as error:
                if error.code != 404:
                    raise
                return NotHappened()
            return Happened(result=f"paid {found['amount']} for {order}")

    elif kind.startswith("compensate"):
        again = kind == "compensate"

        @pay.compensate(safe_if_absent=True, idempotent=again, retries=int(again), backoff=SOON)
        def void(order: str, cents: int, *, key: IdempotencyKey) -> str:
            done = effect(url, "/voids", {"order": order, "of": "payments"}, key)
            return f"took {-done['amount']} back"

    return pay


def reply(request: ModelRequest) -> AssistantMessage:
    """Be the model: it proposes one payment, and then says what became of it."""
    if request.assistant_count == 0:
        return call("pay", order=ORDER, cents=CENTS)
    return say(f"It ended so: {request.messages[-1].text}")


class WatchedStore(SqliteStore):
    """The store, with each answer that it gave written down in its place among the disk's calls."""

    def execute(
        self, tenant: str, session: str, command: Command, *, command_id: str = ""
    ) -> Future[Answer]:
        """Carry a command out, and note what was acknowledged."""
        answer = super().execute(tenant, session, command, command_id=command_id)
        answer.add_done_callback(_acknowledged)
        return answer


#: What was acknowledged in this process: the seq of each event, and a digest of its body.
ACKNOWLEDGED: list[tuple[int, str]] = []


def _acknowledged(answer: Future[Answer]) -> None:
    if answer.exception() is not None:
        return
    events, last = answer.result().events, answer.result().state.seq
    if not answer.result().repeated:
        for seq, event in enumerate(events, start=last - len(events) + 1):
            ACKNOWLEDGED.append((seq, digest_of(encode(event))))
    shim.mark(json.dumps(["acknowledged", last]))


def digest_of(body: str) -> str:
    """Give a short text that stands for an event's body."""
    return sha256(body.encode()).hexdigest()[:16]


class Clock:
    """The wall's time, and how far a life has moved it on."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def opened(place: Place, kind: Kind, url: str, *, dies: bool = False) -> tuple[Placet, Clock]:
    """Open the store of a life, with the agent that pays."""
    clock = Clock()
    store = WatchedStore(place.store, clock=clock)
    agent = Agent(name="cashier", model=ScriptedModel(reply), tools=[payment(kind, url, dies=dies)])
    return Placet(store, agents=[agent], approvers=["ana"]), clock


# --- phases -----------------------------------------------------------------------------------


def run_async(work: Coroutine[Any, Any, object]) -> None:
    """Run something to its end, and fail where it hangs."""
    asyncio.run(asyncio.wait_for(work, PHASE_LASTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a process lives a phase.

    `setting` is the disk's, which writes down what it is asked for where it `records`; `statement`
    is the SQL statement before which the process is killed; one that `dies` is killed once the
    server has paid; `careless` is how SQLite syncs, where that is otherwise than placet has it,
    and `log_pages` how many pages its log may hold, likewise.
    """

    setting: Setting = field(default_factory=Setting)
    records: bool = False
    statement: int | None = None
    dies: bool = False
    careless: str = ""
    log_pages: int | None = None

    def document(self) -> dict[str, Any]:
        """Give it as JSON, which is how it goes to another process."""
        return {**asdict(self), "setting": shim.numbers(self.setting)}


def phase(root: str, kind: Kind, name: Phase, url: str, manner: dict[str, Any]) -> dict[str, int]:
    """Live one phase in this process, which may not survive it; say how many points it passed."""
    how = Manner(**{**manner, "setting": shim.setting_of(manner["setting"])})
    place = Place(Path(root))
    killer = Killer(how.statement, statements=("",))
    if how.careless:
        sync_carelessly(how.careless)
    if how.log_pages is not None:
        sqlite_opening._PAGES_BETWEEN_CHECKPOINTS = how.log_pages
    killer.watch_statements()
    shim.arm(place.disk, how.setting, record=place.record if how.records else None)
    placet, _ = opened(place, kind, url, dies=how.dies)
    try:
        run_async(lived(placet, name, url))
    finally:
        placet.close()
    return {"calls": shim.disarm(), "statements": killer.passed}


def sync_carelessly(how: str) -> None:
    """Have SQLite sync as `how` says on every connection from now on, whatever placet asks for."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    class Careless(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous"):
                sql = f"PRAGMA synchronous = {how}"
            return super().execute(sql, *values)

    def connected(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        return connect(*args, factory=Careless, **kwargs)

    sqlite3.connect = connected  # type: ignore[assignment]  # The child process only.


async def lived(placet: Placet, name: Phase, url: str) -> None:
    """Do what people and processes do in a phase."""
    match name:
        case "propose":
            await placet.run("cashier", "pay for A-42", requester="rob", run_id=RUN)
        case "decide":
            (row,) = await placet.inbox()
            await placet.decide(row.request.id, "approve", by="ana")
        case "resume" | "recover" | "end":
            await placet.resume(RUN)
        case "settle":
            (row,) = await placet.inbox()
            await settled(placet, row.request.id, url)


async def settled(placet: Placet, request: str, url: str) -> None:
    """Be the person who looks into the server's books, and says what is there."""
    found = asked_of_bank(url, "/payments")["payments"]
    paid = any(effect["kind"] == "payment" for effect in found)
    detail = f"the books say {[effect['kind'] for effect in found]}"
    await placet.settle(request, by="ana", happened=paid, detail=detail)


# --- troubles ---------------------------------------------------------------------------------


def troubled(
    root: str,
    kind: Kind,
    name: Phase,
    url: str,
    setting: list[int],
    goes_on: bool,
    records: bool = False,
) -> dict[str, Any]:
    """Live a phase on a disk that fails, and say what was refused; then the disk is well again.

    Where the process `goes_on`, it brings the life to its end.
    """
    attempts.CONCLUDE_PAUSE = SOON  # The outcome is written down again and again: not for long.
    place, refused = Place(Path(root)), list[dict[str, str]]()
    shim.arm(place.disk, shim.setting_of(setting), record=place.record if records else None)
    placet: Placet | None = None
    try:
        placet, clock = opened(place, kind, url)
        run_async(lived(placet, name, url))
    except Exception as error:  # noqa: BLE001  # It is told; whether it is right is asked later.
        refused.append(told_of(error))
    if placet is not None and not goes_on:
        placet.close()
    shim.heal()
    answer: dict[str, Any] = {"refused": refused, "before": [], "acknowledged": ACKNOWLEDGED}
    if goes_on:
        if placet is None:
            placet, clock = opened(place, kind, url)
        run_async(ended(placet, clock, url))
        answer |= seen(placet, url)
        placet.close()
    shim.disarm()
    return answer


def told_of(error: Exception) -> dict[str, str]:
    """Say what an error is, and what it tells whoever sees it."""
    found = {"type": type(error).__name__, "told": str(error), "code": "", "hint": ""}
    if isinstance(error, PlacetError):
        found |= {"code": error.code, "hint": error.hint}
    return found


# --- the end ----------------------------------------------------------------------------------


def finish(root: str, kind: Kind, url: str, records: bool = False) -> dict[str, Any]:
    """Bring a life to its end, whatever state it was left in, and say what is there then."""
    place = Place(Path(root))
    if records:
        shim.arm(place.disk, Setting(), record=place.record)
    placet, clock = opened(place, kind, url)
    try:
        before = found(placet)
        run_async(ended(placet, clock, url))
        return {**seen(placet, url), "before": before}
    finally:
        placet.close()


def found(placet: Placet) -> list[str]:
    """Say what is wrong with a store as it was left."""
    store = placet.engine.store
    wrong = [] if store.check()["integrity"] == "ok" else ["the file is damaged"]
    for session in store.sessions("main"):
        wrong += [str(finding) for finding in verify(store, "main", session).findings]
    return wrong


async def ended(placet: Placet, clock: Clock, url: str) -> None:
    """Do what people and workers would do until the run is over."""
    for _ in range(20):
        if not await placet.runs():
            await placet.run("cashier", "pay for A-42", requester="rob", run_id=RUN)
        for row in await placet.inbox():
            if row.request.kind == "settlement":
                await settled(placet, row.request.id, url)
            elif isinstance(row.request.state, Open):
                await placet.decide(row.request.id, "approve", by="ana")
        try:
            result = await placet.resume(RUN)
        except InProgress:  # A lease that could not be given back ends by itself.
            clock.ahead += LEASE
            continue
        if result.stop not in (None, "approval_required"):
            return
        if result.stop is None:
            clock.ahead += LEASE
    raise AssertionError("the life does not end")


def seen(placet: Placet, url: str) -> dict[str, Any]:
    """Say what is on record in the store, and in the payment server's books."""
    store = placet.engine.store
    (session,) = store.sessions("main")
    (run,) = store.runs("main")
    log = list(store.events("main", session))
    opened = [json.loads(event.body) for event in log if event.kind == "RequestOpened"]
    begun = [json.loads(event.body) for event in log if event.kind == "AttemptBegun"]
    bank = asked_of_bank(url, "/payments")["payments"]
    return {
        "stop": getattr(run.run.state, "stop", None),
        "approvals": sum(request["kind"] == "approval" for request in opened),
        "settlements": sum(request["kind"] == "settlement" for request in opened),
        "intents": [attempt["key"] for attempt in begun],
        "findings": [str(finding) for finding in verify(store, "main", session).findings],
        "events": [[event.seq, event.hash] for event in log],
        "bodies": [[event.seq, digest_of(event.body)] for event in log],
        "payments": [effect["key"] for effect in bank if effect["kind"] == "payment"],
        "voids": [effect["key"] for effect in bank if effect["kind"] == "void of payment"],
        "requests": [
            [asked["path"], asked["key"]] for asked in asked_of_bank(url, "/requests")["requests"]
        ],
    }
