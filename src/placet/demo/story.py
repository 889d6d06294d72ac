"""The story that `placet demo` tells: a refund, the people who decide on it, and killed processes.

Each part checks what it tells, so that a story that was told to its end is true.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from placet.demo import shop
from placet.demo.stage import (
    DONE,
    REFUSED,
    UNFINISHED,
    WAITING,
    Ended,
    NotAsTold,
    Stage,
    check,
    say,
)

_REQUEST = r"\b(rq_\w+)"
_SETTLEMENT = r"\b(st_\w+)"
_RUN = r"\b(run_\w+)"
_DIGEST = r"\b([0-9a-f]{64})\b"


def a_process_dies(stage: Stage) -> None:
    """A run waits, its process is killed, a person approves, another process carries it on."""
    heading("1. The process is killed while a person is asked")
    message = complaint("A-1001")
    say()
    say(f"$ python -m placet.demo.shop '{message}' &   # process A")
    process = stage.start("placet.demo.shop", message)
    waits = Ended(code=0, output=stage.line_of(process))
    say(waits.output, indent=4)
    run, request = waits.find(_RUN), waits.find(_REQUEST)
    stage.kill(process)
    check(True, "Process A was killed (SIGKILL) while it waited. The question is still there.")
    stage.paid("A-1001", [], "nothing was paid.")

    amount = amount_of(stage.placet("show", request))
    stage.placet("approve", request, by="ana", note="process B")
    stage.paid("A-1001", [], "still nothing. Process B took a yes, and runs no tools.")
    carried_on = stage.placet("resume", run, note="process C")
    stage.paid("A-1001", [amount], f"{amount} paid, once, by process C.")
    said(stage, carried_on, amount)

    late = stage.placet("approve", request, by="ben", expect=REFUSED)
    check("already_approved" in late.output, "The second yes is refused, with a code for programs.")
    stage.paid("A-1001", [amount], f"{amount} paid, still once.")


def an_edit(stage: Stage) -> None:
    """An edit makes a new version; the old one can never run."""
    heading("2. A person changes the amount")
    run, request = waiting(stage, "A-1002")
    before = stage.placet("show", request, show=False)
    changed = stage.placet("edit", request, "--set", "amount=50.00", by="ana")
    successor = changed.find(rf"\b(?!{request})(rq_\w+)")
    shown = "amount|changed|votes|digest"
    after = stage.placet("show", successor, only=shown)
    check(
        before.find(_DIGEST) != after.find(_DIGEST),
        "The edit is a new action, with an id and a digest of its own.",
    )
    old = stage.placet("approve", request, by="ben", expect=REFUSED)
    check("superseded" in old.output, "The old version is refused: it can never run.")
    carried_on = stage.placet("resume", run)
    stage.paid("A-1002", ["50.00"], "50.00 paid, once; never the amount that was proposed.")
    said(stage, carried_on, "50.00")


def a_rejection(stage: Stage) -> None:
    """A no has a reason, which reaches the model."""
    heading("3. A person says no")
    run, request = waiting(stage, "A-1003")
    reason = "the jug was sold as seen"
    stage.placet("reject", request, "--reason", reason, by="ben")
    # A real model may insist, and is then stopped.
    ends = DONE if stage.stands_in else (DONE, UNFINISHED)
    carried_on = stage.placet("resume", run, expect=ends)
    stage.paid("A-1003", [], "nothing was paid.")
    said(stage, carried_on, reason)


def a_crash_in_the_refund(stage: Stage) -> None:
    """A process dies between the payment and its record: a person is asked, nothing is retried."""
    heading("4. The process is killed in the middle of the refund")
    run, request = waiting(stage, "A-1004")
    amount = amount_of(stage.placet("show", request, show=False))
    stage.placet("approve", request, by="ana")
    say()
    say(f"$ placet resume {run}")
    stage.environment[shop.SLOW_BANK] = "1"
    process = stage.start("placet", "resume", run)
    del stage.environment[shop.SLOW_BANK]
    stage.await_payment("A-1004", process)
    stage.kill(process)
    check(True, "It was killed (SIGKILL) after it paid, before it wrote down that it had.")
    asked = stage.placet("resume", run, expect=WAITING)
    stage.paid("A-1004", [amount], f"{amount} paid, once. What may have happened is not retried.")
    settlement = asked.find(_SETTLEMENT)
    check(True, "Instead, a person is asked to find out.")
    result = f"Refunded {amount} USD for order A-1004."
    stage.placet("settle", settlement, "--happened", "--detail", result, by="ana")
    carried_on = stage.placet("resume", run)
    stage.paid("A-1004", [amount], f"{amount} paid, once.")
    said(stage, carried_on, amount)


def the_record(stage: Stage) -> None:
    """The audit log says who allowed what, and proves that nobody changed it."""
    heading("5. The record")
    stage.placet("audit", "verify")
    check(True, "No event in the log was changed, inserted or moved.")
    say()
    say("The whole ledger:")
    for row in shop.payments(stage.ledger):
        say(f"{row.order_id}  {row.amount}", indent=4)


PARTS: tuple[Callable[[Stage], None], ...] = (
    a_process_dies,
    an_edit,
    a_rejection,
    a_crash_in_the_refund,
    the_record,
)


# --- what the parts share -------------------------------------------------------------------


def heading(text: str) -> None:
    """Begin a part."""
    say()
    say(text, indent=0)


def complaint(order_id: str) -> str:
    """Give what the customer writes."""
    return f"Order {order_id} arrived broken. Please refund it."


def waiting(stage: Stage, order_id: str) -> tuple[str, str]:
    """Begin a run that waits at its refund; give its id and its request's."""
    session = f"order-{order_id}"
    begun = stage.placet("run", "--session", session, complaint(order_id), expect=WAITING)
    return begun.find(_RUN), begun.find(_REQUEST)


def amount_of(card: Ended) -> str:
    """Read from a card what would be paid."""
    return card.find(r'amount = "?([0-9.]+)')


def said(stage: Stage, carried_on: Ended, words: str) -> None:
    """Hold what the model said last against words; a real model may choose its own."""
    if stage.stands_in:
        check(words in carried_on.output, "The model knows what became of it.")


def main(argv: Sequence[str] | None = None) -> int:
    """Tell the story; give 0 where all of it was as told, else 1."""
    parser = argparse.ArgumentParser(
        prog="placet demo",
        description="Show the story: real processes, a real database, and people who decide.",
    )
    parser.add_argument("--model", default="stand-in", help="a real model's name, in its place")
    parser.add_argument("--base-url", default="", help="where that model is served")
    parser.add_argument("--directory", type=Path, help="where to play; by default a new one")
    given = parser.parse_args(argv)
    place = given.directory or Path(tempfile.mkdtemp(prefix="placet-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    stage = Stage(place=place.resolve(), model=given.model, base_url=given.base_url)
    began = time.monotonic()
    try:
        tell(stage)
    except NotAsTold as wrong:
        sys.stdout.flush()
        sys.stderr.write(f"\nThe story is not as told: {wrong}\nLook into {stage.place}\n")
        return 1
    finally:
        stage.close()
    say()
    say(f"All of this was checked as it was told, in {time.monotonic() - began:.0f} s.", indent=0)
    say(f"Look around: cd {stage.place}", indent=0)
    return 0


def tell(stage: Stage) -> None:
    """Tell the parts, in their order; raises NotAsTold."""
    model = "a stand-in, served on this machine" if stage.stands_in else stage.model
    say("placet: a refund, two people, and processes that are killed", indent=0)
    say()
    say("An agent of a shop may look orders up. To pay a refund it must ask: ana or ben decides.")
    say(f"The model is {model}. Each command is a process of its own.")
    say(f"They share one database, in {stage.place}")
    stage.serve_model()
    for part in PARTS:
        part(stage)
    heading("Shown")
    say("Waiting survives a killed process. What was approved is what ran, once. A late yes,")
    say("an old version and a no pay nothing. On doubt a person is asked. The record proves it.")


if __name__ == "__main__":
    sys.exit(main())
