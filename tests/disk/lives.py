"""Lives as their tests hold them: places, payment servers, and phases in processes of a forge."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.disk import life, shim
from tests.disk.forge import Ended, Forge
from tests.disk.life import Kind, Manner, Phase, Place
from tests.disk.shim import Calls, Setting

#: Memory that looks like a disk: a kill loses nothing that was written, so it need not be slow.
MEMORY = Path("/dev/shm")

RECORDED = Manner(records=True)

#: What the payment server had been asked for: path, body and key of each.
Done = Sequence[tuple[str, Any, str]]


@contextmanager
def a_directory(parent: Path = MEMORY) -> Iterator[Path]:
    """Give a directory that is gone afterwards, in memory where that is possible."""
    made = Path(tempfile.mkdtemp(prefix="placet-disk-", dir=parent if parent.is_dir() else None))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A life in a place, with its payment server running; each phase is a process of its own."""

    forge: Forge
    place: Place
    kind: Kind
    url: str

    def phase(self, name: Phase, manner: Manner = RECORDED) -> Ended:
        """Live a phase, in a manner."""
        document = manner.document()
        return self.forge.call(
            life.phase, str(self.place.root), self.kind, name, self.url, document
        )

    def up_to(self, name: Phase, manner: Manner = RECORDED) -> None:
        """Live the phases before one, from the beginning."""
        phases = life.phases_of(self.kind)
        for each in phases[: phases.index(name)]:
            if each == "resume":  # What is recovered after it was left behind by a kill.
                assert self.phase(each, Manner(records=manner.records, dies=True)).killed
            else:
                self.phase(each, manner).answer()

    def troubled(
        self, name: Phase, setting: Setting, *, goes_on: bool, records: bool = False
    ) -> Ended:
        """Live a phase on a disk that fails."""
        numbers, root = shim.numbers(setting), str(self.place.root)
        return self.forge.call(
            life.troubled, root, self.kind, name, self.url, numbers, goes_on, records
        )

    def finish(self, *, records: bool = False) -> Ended:
        """Have others bring the life to its end, and see what is there."""
        return self.forge.call(life.finish, str(self.place.root), self.kind, self.url, records)


@contextmanager
def living(forge: Forge, place: Place, kind: Kind, *, done: Done = ()) -> Iterator[Life]:
    """Have a life in a place, with its payment server, which has `done` so much already.

    What is to be taken back fails: the server pays, and answers 503.
    """
    place.disk.mkdir(parents=True, exist_ok=True)
    process, url = forge.serve(life.serve_bank, str(place.bank), kind)
    try:
        for path, body, key in done:
            life.asked_of_bank(url, path, body, key=key)
        if kind.startswith("compensate"):
            life.asked_of_bank(url, "/behave", {"faults": ["503-after"], "on": "/payments"})
        yield Life(forge=forge, place=place, kind=kind, url=url)
    finally:
        forge.end(process)


def wrong_with(kind: Kind, seen: dict[str, Any], *, dies: bool = True) -> list[str]:
    """Hold what is there at the end of a life to what was promised; give what is wrong.

    Where the process that began a body goes on, nobody can see that the body is gone: then a
    person may be asked what a probe, or taking back, would have answered for.
    """
    paid, voided, unknown = len(seen["payments"]), len(seen["voids"]), seen["settlements"]
    requests = Counter(path for path, _ in seen["requests"])
    keys = {key for _, key in seen["requests"]}
    held = {
        f"paid {paid} times": paid <= 1,
        f"taken back {voided} times": voided <= 1,
        f"people were asked {seen['approvals']} times to approve": seen["approvals"] == 1,
        f"people were asked {unknown} times what became of it": unknown <= 1,
        f"the audit finds {seen['findings']}": not seen["findings"],
        f"it was left with {seen['before']}": not seen["before"],
        f"it ends {seen['stop']}": seen["stop"] == "final",
        "a body was entered without an intent on record": keys <= set(seen["intents"]),
    }
    match kind:
        case "plain":
            held["it paid twice over"] = requests["/payments"] <= 1
            held["not paid, and nobody was asked"] = paid == 1 or unknown == 1
        case "idempotent":
            held["not paid"] = paid == 1
            held["a person was asked for nothing"] = unknown == 0
        case "probe":
            held["not paid, and nobody was asked"] = paid == 1 or unknown == 1
            held["a person was asked for nothing"] = unknown == 0 or not dies
        case "compensate":
            held["not taken back, and nobody was asked"] = paid == voided or unknown == 1
            held["a person was asked for nothing"] = unknown == 0 or not dies
        case "compensate once":
            held["it took back twice over"] = requests["/voids"] <= 1
            held["not taken back, and nobody was asked"] = paid == voided or unknown == 1
    return [what for what, holds in held.items() if not holds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a phase passes: its SQL statements, and the kinds of its calls on the disk."""

    statements: int
    calls: tuple[Calls, ...]


class Prepared:
    """Lives of one kind, each lived up to the beginning of one phase, to be copied."""

    def __init__(self, forge: Forge, kind: Kind, root: Path) -> None:
        self.kind: Kind = kind
        self.phases = life.phases_of(kind)
        self.passed: dict[Phase, Passed] = {}
        self._root = root
        for phase in self.phases:
            with living(forge, self._before(phase), kind) as lived:
                lived.up_to(phase, Manner())
            with self.copy(phase) as place, living(forge, place, kind) as lived:
                counted = lived.phase(phase).answer()
                kinds = [call.kind for call in shim.calls_of(place.record)]
            calls = tuple(each for each in kinds if each != Calls.MARK)
            assert len(calls) == counted["calls"]
            assert Calls.SYNC in calls, "the disk is asked to make something last"
            self.passed[phase] = Passed(statements=counted["statements"], calls=calls)

    def _before(self, phase: Phase) -> Place:
        return Place(self._root / f"{self.kind}-{phase}".replace(" ", "-"))

    @contextmanager
    def copy(self, phase: Phase) -> Iterator[Place]:
        """Give a copy of the life that is about to begin a phase."""
        with a_directory(self._root) as directory:
            place = Place(directory / "life")
            shutil.copytree(self._before(phase).root, place.root)
            yield place
