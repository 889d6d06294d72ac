"""Power loss: a life is lived once and written down, and the power goes after each of its calls.

For each call the files are made again as disks may have had them (power.py). placet then opens
them, and brings the life to its end, against a payment server that has done what it had been asked
for until then. What had been acknowledged must be there, and nothing half.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from tests.disk import shim
from tests.disk.forge import Ended, Forge
from tests.disk.life import Kind, Manner, Phase, Place
from tests.disk.lives import RECORDED, Life, a_directory, living, wrong_with
from tests.disk.power import Disk, Files
from tests.disk.shim import Call, Calls, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A life that was lived on a disk, with every call on that disk, and its whole event log.

    The power goes after one of the calls from number `since` on.
    """

    kind: Kind
    calls: tuple[Call, ...]
    events: dict[int, str]
    since: int = 1

    def failures(self) -> list[Call]:
        """Give the calls that failed."""
        return [call for call in self.calls if call.error]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The power goes after `at` calls: what is left, and what had happened until then."""

    at: int
    what: str
    files: Files = field(repr=False)
    acknowledged: int
    done: tuple[tuple[str, Any, str], ...]

    def identity(self) -> str:
        """Tell outages apart that differ in what follows from them."""
        digest = sha256(repr((self.acknowledged, self.done)).encode())
        for name in sorted(self.files):
            digest.update(f"{name} {len(self.files[name])} ".encode())
            digest.update(self.files[name])
        return digest.hexdigest()


# --- lives that are written down --------------------------------------------------------------


def recorded(
    forge: Forge,
    place: Place,
    kind: Kind,
    phases: Sequence[Phase],
    *,
    manner: Manner = RECORDED,
) -> Recorded:
    """Live a life in processes of its own, and write down all that its disk was asked for.

    In a life that is to be recovered the process that pays is killed once it has paid.
    """
    with living(forge, place, kind) as lived:
        for phase in phases:
            dies = phase == "resume" and "recover" in phases
            ended = lived.phase(phase, replace(manner, records=True, dies=dies))
            assert ended.killed if dies else ended.answer(), ended.told()
        calls = tuple(shim.calls_of(place.record))
        return _written_down(lived, lived.finish(), calls=calls)


def recorded_with_kill(
    forge: Forge, place: Place, kind: Kind, phase: Phase, setting: Setting
) -> Recorded:
    """Live a life of which one phase is killed at a call, and finished by another process.

    The power goes after the kill.
    """
    with living(forge, place, kind) as lived:
        lived.up_to(phase)
        ended = lived.phase(phase, Manner(setting=setting, records=True))
        assert ended.killed, ended.told()
        since = _count(place)
        finished = lived.finish(records=True)
        calls = tuple(shim.calls_of(place.record))
        return _written_down(lived, finished, calls=calls, since=since)


def recorded_with_trouble(
    forge: Forge, place: Place, kind: Kind, phase: Phase, setting: Setting, *, goes_on: bool
) -> Recorded:
    """Live a life whose disk fails in one phase, and which is then brought to its end.

    The power goes after that phase has begun.
    """
    with living(forge, place, kind) as lived:
        lived.up_to(phase)
        since = _count(place)
        finished = lived.troubled(phase, setting, goes_on=goes_on, records=True)
        if not goes_on:
            finished.answer()
            finished = lived.finish(records=True)
        calls = tuple(shim.calls_of(place.record))
        return _written_down(lived, finished, calls=calls, since=since)


def _count(place: Place) -> int:
    return sum(1 for _ in shim.calls_of(place.record))


def _written_down(
    lived: Life, finished: Ended, *, calls: tuple[Call, ...], since: int = 1
) -> Recorded:
    seen = finished.answer()
    wrong = wrong_with(lived.kind, seen, dies=False)
    assert not wrong, wrong
    return Recorded(kind=lived.kind, calls=calls, events=dict(seen["events"]), since=since)


# --- the power goes ---------------------------------------------------------------------------


def outages(lived: Recorded, *, seeds: Sequence[int]) -> Iterator[Outage]:
    """Give the outages of a life that differ, in order."""
    disk, acknowledged, done = Disk(), 0, list[tuple[str, Any, str]]()
    known: set[str] = set()
    for at, call in enumerate(lived.calls, start=1):
        if call.kind == Calls.MARK:
            match json.loads(call.data):
                case ["acknowledged", seq]:
                    acknowledged = max(acknowledged, seq)
                case ["did", path, body, key]:
                    done.append((path, body, key))
                case _:
                    pass
        else:
            disk.take(call)
        if at < lived.since:
            continue
        for what, files in disk.left([seed * 100_003 + at for seed in seeds]):
            outage = Outage(
                at=at, what=what, files=files, acknowledged=acknowledged, done=tuple(done)
            )
            if (identity := outage.identity()) not in known:
                known.add(identity)
                yield outage


def wrong_after(lived: Recorded, forge: Forge, outage: Outage) -> list[str]:
    """Open what an outage has left, finish the life, and give what is wrong."""
    where = f"{lived.kind}: the power went after call {outage.at}, and left {outage.what}"
    with a_directory() as directory:
        place = Place(directory / "life")
        place.disk.mkdir(parents=True)
        for name, content in outage.files.items():
            # What processes share in memory is nothing that lasts: anything may be there.
            junk = name.endswith("-shm")
            (place.disk / name).write_bytes(b"\xa5" * 32_768 if junk else content)
        with living(forge, place, lived.kind, done=outage.done) as again:
            ended = again.finish()
    if ended.status != 0:
        return [f"{where}: {ended.told()}"]
    seen = ended.said
    wrong = wrong_with(lived.kind, seen, dies=False)
    found = dict(seen["events"])
    if lost := [
        seq
        for seq, hash_ in lived.events.items()
        if seq <= outage.acknowledged and found.get(seq) != hash_
    ]:
        wrong.append(f"events {lost} were acknowledged, and are lost")
    return [f"{where}: {what}" for what in wrong]
