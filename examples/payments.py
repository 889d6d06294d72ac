"""Tools that pay through a gateway, once. The agent of docs/how-to/pay-once.md.

    python examples/payments.py        # a story: a real gateway, told to misbehave, in processes

The gateway is examples/payment_server.py; the tools find it by PAYMENTS_URL. A script stands for
the model. tests/examples/test_payments.py runs all this, and tests/test_docs.py holds the page's
code to the parts between the marks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from placet import (
    Agent,
    Happened,
    IdempotencyKey,
    NotHappened,
    Placet,
    RunResult,
    ScriptedModel,
    Unsure,
    tool,
)
from placet.agent.messages import AssistantMessage, ModelRequest, ToolMessage, UserMessage
from placet.agent.models.scripted import call, say


# Shown: what the gateway may answer.
class Busy(Exception):
    """The gateway did not act; asked again, it may."""


class Declined(Exception):
    """The gateway did not act, and will not."""


class Unanswered(ConnectionError):
    """Nobody can tell whether the gateway acted. After a ConnectionError nobody pretends to."""


#: How long the gateway has to answer; less than the tools' time limit.
ANSWER_WITHIN = timedelta(seconds=10)


def ask(path: str, asked: Mapping[str, object], key: str = "") -> tuple[int, Any]:
    """Ask the gateway, and give the status and the body of its answer."""
    where = urlsplit(os.environ.get("PAYMENTS_URL", "http://127.0.0.1:8000")).netloc
    line = HTTPConnection(where, timeout=ANSWER_WITHIN.total_seconds())
    try:
        line.connect()
    except OSError as error:
        raise Busy(f"the gateway cannot be reached: {error}") from error  # So nothing was sent.
    try:
        body = json.dumps(asked) if asked else None
        line.request("POST" if asked else "GET", path, body, {"Idempotency-Key": key})
        answer = line.getresponse()  # Raises a ConnectionError or a TimeoutError, or tells.
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


def act(path: str, asked: Mapping[str, object], key: str) -> Any:
    """Have the gateway act under a key; raises what its answer says about the world."""
    status, told = ask(path, asked, key)
    if status in (200, 201):
        return told
    why = told.get("error", f"status {status}")
    if status == 429:
        raise Busy(why)
    raise Declined(why) if 400 <= status < 500 else Unanswered(why)


# Shown: a payment.
@tool(
    version="1",
    surface="payments",
    effect="pays {cents} cents for order {order}",
    idempotent=True,
    retries=3,
    backoff=timedelta(milliseconds=100),
    jitter=0.5,
    time_limit=timedelta(seconds=30),
    not_done=(Busy, Declined),
    retry_on=(Busy,),
)
def pay(order: str, cents: int, *, key: IdempotencyKey) -> str:
    """Pay for an order."""
    paid = act("/payments", {"order": order, "amount": cents}, key)
    return f"paid {paid['amount']} cents for {order}"


# Shown: how it is looked up.
@pay.probe
def paid(order: str, *, key: IdempotencyKey, **_: object) -> Happened | NotHappened | Unsure:
    """Look up by the key what was paid. A probe only looks."""
    status, told = ask(f"/payments/by-key/{key}", {})
    if status == 200:
        did = {"payment": "paid", "refund": "refunded"}[told["kind"]]
        return Happened(result=f"{did} {told['amount']} cents for {order}")
    return NotHappened() if status == 404 else Unsure()


# Shown: how it is taken back.
@pay.compensate(
    safe_if_absent=True, idempotent=True, retries=3, backoff=timedelta(milliseconds=100)
)
def void(order: str, *, key: IdempotencyKey, **_: object) -> str:
    """Take back what was paid for the order, if anything was. The key is one of its own."""
    voided = act("/voids", {"order": order, "of": "payments"}, key)
    return f"{-voided['amount']} cents of {order} voided"


# Shown: a refund.
@tool(
    surface="payments",
    effect="pays {cents} cents back for order {order}",
    idempotent=True,
    retries=3,
    backoff=timedelta(milliseconds=100),
    not_done=(Busy, Declined),
    retry_on=(Busy,),
)
def refund(order: str, cents: int, *, key: IdempotencyKey) -> str:
    """Pay a customer back."""
    act("/refunds", {"order": order, "amount": cents}, key)
    return f"refunded {cents} cents for {order}"


refund.probe(paid)


# Shown: nothing declared.
@tool(surface="payments", effect="wires {cents} cents for order {order}")
def wire(order: str, cents: int, *, key: IdempotencyKey) -> str:
    """Pay by wire."""
    act("/payments", {"order": order, "amount": cents}, key)
    return f"wired {cents} cents for {order}"


# Shown until here.
CENTS = 12900


def reply(request: ModelRequest) -> AssistantMessage:
    """Speak for the model: do what the message names (`pay A-42`), and say what came of it."""
    told = [message.text for message in request.messages if isinstance(message, ToolMessage)]
    if told:
        return say(told[-1])
    (said,) = [message.text for message in request.messages if isinstance(message, UserMessage)]
    name, order = said.split()
    return call(name, order=order, cents=CENTS)


agent = Agent(name="cashier", model=ScriptedModel(reply), tools=[pay, refund, wire])


# --- the story --------------------------------------------------------------------------------

EXAMPLES = Path(__file__).resolve().parent
PATIENCE_SECONDS = 30


@contextmanager
def gateway(place: Path, *options: str) -> Iterator[str]:
    """Run the gateway in a process of its own, and give its address."""
    command = [sys.executable, str(EXAMPLES / "payment_server.py"), *options]
    command += ["--database", str(place / "gateway.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None, "it was asked for"
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def opened() -> Placet:
    """Open the store of the current directory."""
    return Placet.open("sqlite:///placet.db", agents=[agent], approvers=["ana"])


def approved(message: str) -> str:
    """Begin a run, have ana approve what it asks, and give the run's id."""
    with opened() as placet:
        waits = placet.run_sync(agent, message, session=message.split()[-1])
        (request,) = waits.waiting
        print(f"   ana approves: {placet.show_sync(request).effect}")
        placet.decide_sync(request, "approve", by="ana")
        return waits.run_id


def resumed(run: str) -> RunResult:
    """Carry a run on, in this process."""
    with opened() as placet:
        return placet.resume_sync(run)


def behave(*faults: str) -> None:
    """Tell the gateway what to do wrong next."""
    ask("/behave", {"faults": faults})


def asked_for(order: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Give the keys that came with what the gateway was asked for an order, and what it did."""
    effects = [each for each in ask("/payments", {})[1]["payments"] if each["order"] == order]
    keys = {each["key"] for each in effects}
    asked = [each["key"] for each in ask("/requests", {})[1]["requests"]]
    return [key for key in asked if key in keys], effects


def tell(order: str) -> None:
    """Tell what the gateway's own records hold about an order."""
    keys, effects = asked_for(order)
    named = " and ".join(dict.fromkeys(f"{key[:7]}…" for key in keys))
    print(f"   the gateway was asked {times(len(keys))}, under the key {named}")
    print(f"   it paid {times(len(effects))}: {sum(each['amount'] for each in effects)} cents")


def times(count: int) -> str:
    """Say a count in words."""
    return "once" if count == 1 else f"{count} times"


def pay_and_be_killed(run: str, order: str) -> None:
    """Carry a run on in a process that is killed once the gateway has paid."""
    process = subprocess.Popen([sys.executable, __file__, run])
    end = time.monotonic() + PATIENCE_SECONDS
    while not asked_for(order)[1] and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


def story() -> None:
    """Tell three payments, in the current directory."""
    print("1. The gateway pays, and answers 503.")
    behave("503-after")
    run = approved("pay A-1")
    print(f"   the model is told: {resumed(run).answer}")
    tell("A-1")

    print("2. The gateway pays and does not answer; the process that waits for it is killed.")
    behave("hang-after")
    run = approved("pay A-2")
    pay_and_be_killed(run, "A-2")
    print("   killed. Another process carries the run on.")
    print(f"   the model is told: {resumed(run).answer}")
    tell("A-2")

    print("3. The connection breaks after the payment, and the tool declares nothing.")
    behave("drop-after")
    run = approved("wire A-3")
    (settlement,) = resumed(run).waiting
    print("   it is not sent again: a person is asked what became of it")
    tell("A-3")
    with opened() as placet:
        placet.settle_sync(settlement, by="ana", happened=True, detail="wired 12900 cents for A-3")
    print("   ana found the payment in the gateway's records: settled as happened")
    told = str(resumed(run).answer).splitlines()
    print("   the model is told:", *told)


def main() -> None:
    """Tell the story; or, in the process that is to be killed, carry a run on."""
    if len(sys.argv) > 1:
        resumed(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as made, gateway(Path(made)) as url:
        os.environ["PAYMENTS_URL"] = url
        os.chdir(made)
        try:
            story()
        finally:
            os.chdir(EXAMPLES)


if __name__ == "__main__":
    main()
