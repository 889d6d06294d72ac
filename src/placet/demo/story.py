"""The story that `placet demo` tells: a refund, the people who decide on it, and killed processes.

Each part checks what it tells, so that a story that was told to its end is true.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from placet.demo.ledger import SLOW_BANK
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

ORDERS = ("A-1001", "A-1002", "A-1003", "A-1004")
PAID = ("A-1001", "A-1002", "A-1004")

_REQUEST = r"\b(rq_\w+)"
_SETTLEMENT = r"\b(st_\w+)"
_RUN = r"\b(run_\w+)"
_DIGEST = r"\b([0-9a-f]{64})\b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run that waits at its refund, and the request that it waits for."""

    order: str
    run: str
    request: str


def the_shop_is_killed(stage: Stage) -> list[Waiting]:
    """Four runs wait in one process, which is killed; give what waits."""
    heading("1. The process is killed while people are asked")
    say()
    say(f"$ python -m placet.demo.shop {' '.join(ORDERS)} &   # process A")
    process = stage.start("placet.demo.shop", *ORDERS)
    waiting = []
    for order in ORDERS:
        line = Ended(code=0, output=stage.line_of(process, order))
        say(line.output, indent=4)
        waiting.append(Waiting(order=order, run=line.find(_RUN), request=line.find(_REQUEST)))
    stage.kill(process, "Process A was killed (SIGKILL) while its runs waited.")
    inbox = stage.placet("inbox")
    kept = all(each.request in inbox.output for each in waiting)
    check(kept, "Every question is still there.")
    stage.whole_ledger([], "nothing was paid.")
    return waiting


def a_yes(stage: Stage, waiting: Waiting) -> None:
    """A person approves in a process of its own, and another carries the run on."""
    heading("2. A person says yes")
    run, request = waiting.run, waiting.request
    amount = amount_of(stage.placet("show", request))
    stage.placet("approve", request, by="ana", note="process B")
    stage.paid(waiting.order, [], "still nothing. Process B took a yes, and runs no tools.")
    carried_on = stage.placet("resume", run, note="process C")
    stage.paid(waiting.order, [amount], f"{amount} paid, once, by process C.")
    said(stage, carried_on, amount)

    late = stage.placet("approve", request, by="ben", expect=REFUSED)
    check("already_approved" in late.output, "The second yes is refused, with a code for programs.")
    stage.paid(waiting.order, [amount], f"{amount} paid, still once.")


def an_edit(stage: Stage, waiting: Waiting) -> None:
    """An edit makes a new version; the old one can never run."""
    heading("3. A person changes the amount")
    run, request = waiting.run, waiting.request
    before = stage.placet("show", request, only="amount|digest")
    changed = stage.placet("edit", request, "--set", 'amount="50.00"', by="ana")
    successor = changed.find(rf"\b(?!{request})(rq_\w+)")
    after = stage.placet("show", successor, only="changed|votes|digest")
    check(
        before.find(_DIGEST) != after.find(_DIGEST),
        "The edit is a new action, with an id and a digest of its own.",
    )
    old = stage.placet("approve", request, by="ben", expect=REFUSED)
    check("superseded" in old.output, "The old version is refused: it can never run.")
    carried_on = stage.placet("resume", run)
    stage.paid(waiting.order, ["50.00"], "50.00 paid, once; never the amount that was proposed.")
    said(stage, carried_on, "50.00")


def a_rejection(stage: Stage, waiting: Waiting) -> None:
    """A no has a reason, which reaches the model."""
    heading("4. A person says no")
    run, request = waiting.run, waiting.request
    reason = "the jug was sold as seen"
    stage.placet("reject", request, "--reason", reason, by="ben")
    # A real model may insist, and is then stopped.
    ends = DONE if stage.stands_in else (DONE, UNFINISHED)
    carried_on = stage.placet("resume", run, expect=ends)
    stage.paid(waiting.order, [], "nothing was paid.")
    said(stage, carried_on, reason)


def a_crash_in_the_refund(stage: Stage, waiting: Waiting) -> None:
    """A process dies between the payment and its record: a person is asked, nothing is retried."""
    heading("5. The process is killed in the middle of the refund")
    run, request = waiting.run, waiting.request
    amount = amount_of(stage.placet("approve", request, by="ana"))
    say()
    say(f"$ placet resume {run}")
    stage.environment[SLOW_BANK] = "1"
    process = stage.start("placet", "resume", run)
    del stage.environment[SLOW_BANK]
    stage.await_payment(waiting.order, process)
    stage.kill(process, "It was killed (SIGKILL) after it paid, before it wrote that down.")
    asked = stage.placet("resume", run, expect=WAITING)
    stage.paid(waiting.order, [amount], f"{amount} paid, once. A refund in doubt is not retried.")
    settlement = asked.find(_SETTLEMENT)
    check(settlement != request, "Instead, a person is asked to find out.")
    result = f"Refunded {amount} USD for order {waiting.order}."
    stage.placet("settle", settlement, "--happened", result, by="ana")
    carried_on = stage.placet("resume", run)
    stage.paid(waiting.order, [amount], f"{amount} paid, once.")
    said(stage, carried_on, amount)


def the_record(stage: Stage) -> None:
    """The audit log says who allowed what, and proves that nobody changed it."""
    heading("6. The record")
    verified = stage.placet("audit", "verify")
    check("sound" in verified.output, "No event in the log was changed, inserted or moved.")
    stage.whole_ledger(PAID, "three refunds, each paid once.")


PARTS: tuple[Callable[[Stage, Waiting], None], ...] = (
    a_yes,
    an_edit,
    a_rejection,
    a_crash_in_the_refund,
)


# --- what the parts share -------------------------------------------------------------------


def heading(text: str) -> None:
    """Begin a part."""
    say()
    say(text, indent=0)


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
    if importlib.util.find_spec("openai") is None:
        sys.stderr.write("The shop's agent needs: pip install 'placet[openai]'\n")
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
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
    for part, waiting in zip(PARTS, the_shop_is_killed(stage), strict=True):
        part(stage, waiting)
    the_record(stage)
    heading("Shown")
    say("Waiting survives a killed process. What was approved is what ran, once. A late yes,")
    say("an old version and a no pay nothing. On doubt a person is asked. The record proves it.")


if __name__ == "__main__":
    sys.exit(main())
