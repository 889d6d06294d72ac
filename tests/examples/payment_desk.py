"""A gateway in a process of its own, tools that pay through it, and what became of a payment.

What is counted is counted in the gateway's own table; the rest is read from placet's event log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from examples import payments
from placet import Agent, IdempotencyKey, Placet, RunResult, ScriptedModel, tool
from placet.agent.models.scripted import Script, call, say
from placet.agent.tools import Tool
from placet.core import events as e
from placet.core.codec import decode_event
from tests.tidy import ROOT

CENTS = 12900
PATIENCE_SECONDS = 60

#: How a tool that pays may be declared, as the page's table names it.
DECLARATIONS = (
    "`pay`, with all three",
    "a key alone",
    "a probe alone",
    "a compensation alone",
    "nothing",
)


class Gateway:
    """The payment server, as a real process that can be killed and started anew."""

    def __init__(self, place: Path, *options: str) -> None:
        self._place = place
        self._options = options
        self._start(0)

    def _start(self, port: int) -> None:
        script = ROOT / "examples" / "payment_server.py"
        command = [sys.executable, str(script), *self._options, "--port", str(port)]
        command += ["--database", str(self._place / "gateway.db")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def restart(self) -> None:
        """Kill it, and start it anew over its database, at its old address."""
        self.kill()
        self._start(int(self.url.rpartition(":")[2]))

    def ask(self, method: str, path: str, body: object = None, key: str = "") -> tuple[int, Any]:
        """Ask it something that is no part of a payment's own way."""
        line = HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
        with closing(line):
            text = None if body is None else json.dumps(body)
            line.request(method, path, text, {"Idempotency-Key": key} if key else {})
            answer = line.getresponse()
            return answer.status, json.loads(answer.read())

    def behave(self, *faults: str, on: str = "/payments") -> None:
        """Tell it what to do wrong next."""
        status, told = self.ask("POST", "/behave", {"faults": faults, "on": on})
        assert status == 200, told

    def faults(self) -> list[str]:
        """Give the faults that nothing has met."""
        found: list[str] = self.ask("GET", "/behave")[1]["faults"]
        return found

    def release(self) -> None:
        """Let go of what hangs, and of what acts late."""
        self.ask("POST", "/release", {})

    def effects(self, order: str) -> list[dict[str, Any]]:
        """Give what it did for an order, in its own table."""
        found = self.ask("GET", "/payments")[1]["payments"]
        return [each for each in found if each["order"] == order]

    def keys(self, path: str = "/payments") -> list[str]:
        """Give the keys with which it was asked, in order."""
        found = self.ask("GET", "/requests")[1]["requests"]
        return [each["key"] for each in found if each["path"] == path]


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds that another process brings about."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


class Patience:
    """How long the gateway has to answer: the first request so long, and those after it so long.

    What the gateway does answer is not lost because a machine is slow.
    """

    def __init__(self, first: timedelta, *, then: timedelta) -> None:
        self._next, self._then = first, then

    def total_seconds(self) -> float:
        """Give it, as a timedelta does."""
        found, self._next = self._next, self._then
        return found.total_seconds()


# --- tools ----------------------------------------------------------------------------------------


def declared(how: str, *, time_limit: timedelta | None = None) -> Tool:
    """Give a tool that pays, with no more declared than this."""
    if how == DECLARATIONS[0] and time_limit is None:
        return payments.pay
    everything = how == DECLARATIONS[0]

    def body(order: str, cents: int, *, key: IdempotencyKey) -> str:
        """Pay for an order."""
        paid: str = payments.pay(order, cents, key=key)
        return paid

    made = tool(
        body,
        name="pay",
        surface="payments",
        idempotent=everything or how == "a key alone",
        retries=3,
        backoff=timedelta(milliseconds=1),
        time_limit=time_limit or timedelta(seconds=30),
        not_done=(payments.Busy, payments.Declined),
        retry_on=(payments.Busy,),
    )
    if everything or how == "a probe alone":
        made.probe(payments.paid)
    if everything or how == "a compensation alone":
        undoing = made.compensate(
            safe_if_absent=True, idempotent=True, retries=3, backoff=timedelta(milliseconds=1)
        )
        undoing(payments.void)
    return made


def opened(place: Path, made: Tool, script: Script) -> Placet:
    """Open the store of a place, with an agent that has this tool."""
    agent = Agent(name="cashier", model=ScriptedModel(script), tools=[made])
    place.mkdir(exist_ok=True)
    return Placet.open(f"sqlite:///{place / 'placet.db'}", agents=[agent], approvers=["ana"])


def paying(order: str, *, by: str = "pay") -> Script:
    """Give the script of a model that pays for an order, once."""
    return [call(by, order=order, cents=CENTS), say("done")]


def approved(placet: Placet) -> str:
    """Begin a run, approve what it asks, and give its id."""
    waits = placet.run_sync("cashier", "go")
    (request,) = waits.waiting
    placet.decide_sync(request, "approve", by="ana")
    return waits.run_id


def carried_on(placet: Placet, run: str) -> RunResult:
    """Carry a run on for as long as it can go on by itself."""
    result = placet.resume_sync(run)
    while result.stop is None:
        result = placet.resume_sync(run)
    return result


def pay_in_this_process(place: str, how: str, order: str, run: str) -> None:
    """Carry a run on, in a process that will be killed."""
    with opened(Path(place), declared(how), paying(order)) as placet:
        carried_on(placet, run)


def killed(place: Path, how: str, order: str, run: str, *, once: Callable[[], object]) -> None:
    """Carry a run on in a process that is killed as soon as `once` holds."""
    words = (str(place), how, order, run)
    name = pay_in_this_process.__name__
    code = f"from {__name__} import {name}; {name}(*{words!r})"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    try:
        until(once)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"


# --- what is on record ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the event log says became of the one call of a session."""

    keys: list[str]
    undo_keys: list[str]
    code: str
    by: str
    told: str
    settlement: str


def record_of(placet: Placet, session: str = "main") -> Record:
    """Read what became of a session's one call."""
    store = placet.engine.store
    events = [decode_event(row.kind, row.body) for row in store.events("main", session)]
    begun = [event for event in events if isinstance(event, e.AttemptBegun)]
    ended = [event for event in events if isinstance(event, e.CallEnded)]
    settlements = [
        event.request
        for event in events
        if isinstance(event, e.RequestOpened) and event.kind == "settlement"
    ]
    return Record(
        keys=[event.key for event in begun if event.purpose == "run"],
        undo_keys=[event.key for event in begun if event.purpose == "compensate"],
        code=ended[-1].code if ended else "",
        by=ended[-1].by if ended else "",
        told=store.payload("main", session, ended[-1].told.ref) if ended else "",
        settlement=settlements[-1] if settlements else "",
    )


def in_words(record: Record, paid: int) -> str:
    """Say as the page's table does what became of a payment."""
    tries = len(record.keys)
    match record.code:
        case "":
            end = "a person is asked"
        case "succeeded" if record.by == "probe":
            end = "looked up"
        case "succeeded":
            end = "called again" if tries > 1 else "paid"
        case "tool_failed_and_compensated":
            end = "taken back"
        case "tool_failed":
            end = "told: " + record.told.splitlines()[-1].lower().rstrip(".")
        case code:
            end = code
    first = f"called {tries} times, then " if tries > 1 and end != "called again" else ""
    return f"{first}{end}; **{paid}** paid"
