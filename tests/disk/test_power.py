"""The power goes: what was acknowledged is there, nothing is half, and nothing is paid twice (D3).

`make sweep ARGS="--part power"` has the power go after every call.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import islice

import pytest

from tests.disk.forge import Forge
from tests.disk.life import BROKEN, STRAIGHT, Kind, Manner, Phase, Place
from tests.disk.lives import a_directory
from tests.disk.outage import (
    Outage,
    Recorded,
    outages,
    recorded,
    recorded_with_kill,
    recorded_with_trouble,
    wrong_after,
)
from tests.disk.power import PAGE, Disk, Files
from tests.disk.shim import FOR_EVER, Call, Calls, Deed, Setting

SYNCED, ALL = "only what was synced", "everything"


def spread(found: Sequence[Outage], count: int) -> list[Outage]:
    """Choose so many of the outages, from all over the life."""
    return list(found[:: max(1, len(found) // count)])


def wrong_with_some(forge: Forge, lived: Recorded, count: int) -> list[str]:
    found = spread(list(outages(lived, seeds=(1, 2))), count)
    assert len(found) >= count
    return [wrong for each in found for wrong in wrong_after(lived, forge, each)]


@pytest.mark.slow
@pytest.mark.promise("D3", "D4", "D8")
@pytest.mark.conformance(11)
@pytest.mark.parametrize(
    "kind, phases, log_pages",
    [("plain", BROKEN, None), ("idempotent", STRAIGHT, 4), ("compensate", BROKEN[:4], None)],
)
def test_whatever_the_power_leaves_what_was_acknowledged_is_there_and_the_life_goes_on(
    forge: Forge, kind: Kind, phases: Sequence[Phase], log_pages: int | None
) -> None:
    with a_directory() as root:
        lived = recorded(forge, Place(root), kind, phases, manner=Manner(log_pages=log_pages))
    assert wrong_with_some(forge, lived, 24) == []


@pytest.mark.slow
@pytest.mark.promise("D3")
@pytest.mark.parametrize("careless", ["OFF", "NORMAL"])
def test_a_store_that_syncs_less_loses_what_it_acknowledged_and_this_finds_it(
    forge: Forge, careless: str
) -> None:
    with a_directory() as root:
        lived = recorded(
            forge, Place(root), "idempotent", STRAIGHT, manner=Manner(careless=careless)
        )
    found = (each for each in outages(lived, seeds=()) if each.what == SYNCED and each.acknowledged)
    wrong = [wrong for each in islice(found, 3) for wrong in wrong_after(lived, forge, each)]
    assert any("were acknowledged, and are lost" in each for each in wrong)


@pytest.mark.slow
@pytest.mark.promise("D3", "D4")
@pytest.mark.parametrize("call", [Calls.CREATE, Calls.SYNC])
def test_what_a_killed_process_had_not_synced_lasts_once_another_has_built_on_it(
    forge: Forge, call: Calls
) -> None:
    setting = Setting(deed=Deed.KILL_BEFORE, at=2, calls=call)
    with a_directory() as root:
        lived = recorded_with_kill(forge, Place(root), "idempotent", "decide", setting)
    found = [each for each in outages(lived, seeds=(1,)) if each.what != ALL]
    chosen = spread(found, 12)
    assert [wrong for each in chosen for wrong in wrong_after(lived, forge, each)] == []


@pytest.mark.slow
@pytest.mark.promise("D3", "D4")
@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("goes_on", [True, False])
def test_after_a_sync_that_failed_nothing_is_built_on_what_is_in_the_cache_alone(
    forge: Forge, times: int, goes_on: bool
) -> None:
    tried = 0
    for at in range(1, 20):
        setting = Setting(deed=Deed.FAIL, at=at, calls=Calls.SYNC, times=times, error=errno.EIO)
        with a_directory() as root:
            lived = recorded_with_trouble(
                forge, Place(root), "plain", "decide", setting, goes_on=goes_on
            )
        if not lived.failures():
            break
        found = [each for each in outages(lived, seeds=()) if each.what in (SYNCED, ALL)]
        for each in spread(found, 3):
            assert wrong_after(lived, forge, each) == [], lived.failures()
            tried += 1
    assert tried >= 9


# --- the model of the disk --------------------------------------------------------------------


def made(*calls: Call) -> Disk:
    disk = Disk()
    for call in calls:
        disk.take(call)
    return disk


def did(kind: Calls, name: str, *, at: int = 0, data: bytes = b"", error: int = 0) -> Call:
    inode = 0 if name == "" else sum(map(ord, name))
    return Call(kind, error, inode, at, f"/disk/{name}".rstrip("/"), "", data)


def left(disk: Disk, what: str) -> Files:
    return dict(disk.left(()))[what]


DIRECTORY = did(Calls.SYNC, "")


def test_only_what_was_synced_lasts_and_only_under_a_name_that_was() -> None:
    disk = made(did(Calls.CREATE, "a"), did(Calls.WRITE, "a", data=b"one"), did(Calls.SYNC, "a"))
    assert left(disk, SYNCED) == {}
    assert left(disk, ALL) == {"a": b"one"}
    disk.take(DIRECTORY)
    disk.take(did(Calls.WRITE, "a", at=1, data=b"ff"))
    assert left(disk, SYNCED) == {"a": b"one"}
    assert left(disk, ALL) == disk.seen() == {"a": b"off"}
    disk.take(did(Calls.UNLINK, "a"))
    assert (left(disk, SYNCED), left(disk, ALL), disk.seen()) == ({"a": b"one"}, {}, {})


def test_what_a_failed_sync_was_for_is_seen_and_never_lasts_unless_it_is_written_again() -> None:
    disk = made(
        did(Calls.CREATE, "a"),
        DIRECTORY,
        did(Calls.WRITE, "a", data=b"x" * (PAGE + 10)),
        did(Calls.SYNC, "a", error=errno.EIO),
        did(Calls.WRITE, "a", at=PAGE + 9, data=b"yz"),
        did(Calls.SYNC, "a"),
    )
    assert disk.seen() == {"a": b"x" * (PAGE + 9) + b"yz"}
    assert left(disk, SYNCED) == left(disk, ALL) == {"a": bytes(PAGE) + b"x" * 9 + b"yz"}
    disk.take(did(Calls.WRITE, "a", data=b"x"))
    disk.take(did(Calls.SYNC, "a"))
    assert left(disk, SYNCED) == disk.seen()


def test_the_power_tears_a_write_at_sectors_and_chance_leaves_any_of_them() -> None:
    disk = made(did(Calls.CREATE, "a"), DIRECTORY, did(Calls.WRITE, "a", at=256, data=b"x" * 1_024))
    halves = [left(disk, f"the last write torn ({half})")["a"] for half in (1, 2)]
    assert halves == [bytes(256) + b"x" * 768, bytes(1_024) + b"x" * 256]
    by_chance = {files["a"] for what, files in disk.left(range(64)) if "chance" in what}
    assert len(by_chance) == 2**3
