"""Real processes: a decision made in one, a kill in another, and whoever carries the thread on."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.adapters.graphs import THREAD, Bench, paid, saver, wait_until
from tests.adapters.lives import Kind, When, approve, begin, carry, life, resume, work

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.adapters.lives"])

KILLED = -9


def in_process(function: Callable[..., None], *args: object) -> int:
    """Run a function in a process of its own, and give how it ended."""
    process = _processes.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


@pytest.mark.slow
@pytest.mark.promise("D1", "D2")
def test_a_worker_resumes_a_thread_that_was_begun_and_decided_in_other_processes(
    tmp_path: Path,
) -> None:
    place = str(tmp_path)
    assert in_process(begin, place, "plain") == 0
    assert in_process(approve, place, "plain") == 0
    assert in_process(work, place, "plain") == 0
    assert len(paid(tmp_path / "ledger")) == 1
    with life(tmp_path, "plain", "never") as bench:
        assert bench.told() == [("success", "refunded 129 for A-42")]
        assert bench.graph.get_state(THREAD).next == ()


def seen_by_hand(bench: Bench) -> None:
    """Have LangGraph run its thread again, as whoever finds it dead does."""
    bench.invoke(None)


def seen_by_a_worker(bench: Bench) -> None:
    """Let a worker do what is due, for as long as it takes: a retry has its pause."""

    def seen() -> bool:
        assert carry(bench) == []
        return bool(bench.waiting()) or bench.graph.get_state(THREAD).next == ()

    wait_until(seen)


@pytest.mark.slow
@pytest.mark.promise("D4", "G7")
@pytest.mark.parametrize("kind", ["plain", "idempotent", "probe"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "seen, later",
    [(seen_by_hand, timedelta(0)), (seen_by_a_worker, timedelta(minutes=10))],
    ids=["by hand", "by a worker once the lease has ended"],
)
def test_a_kill_in_the_middle_of_a_tool_pays_at_most_once_and_never_in_the_dark(
    tmp_path: Path, kind: Kind, when: When, seen: Callable[[Bench], None], later: timedelta
) -> None:
    place = str(tmp_path)
    assert in_process(begin, place, kind) == 0
    assert in_process(approve, place, kind) == 0
    assert in_process(resume, place, kind, when) == KILLED
    before = paid(tmp_path / "ledger")
    assert len(before) == (when == "after")
    with life(tmp_path, kind, "never", later=later) as bench:
        seen(bench)
        if kind == "plain":
            assert paid(tmp_path / "ledger") == before, "nobody knows, and so nothing is done"
            (row,) = bench.placet.inbox_sync()
            assert row.request.kind == "settlement"
            bench.placet.settle_sync(
                row.request.id, by="ana", happened=when == "after", detail="the bank's statement"
            )
            assert carry(bench) == []
        payments = paid(tmp_path / "ledger")
        assert len(payments) == (0 if (kind, when) == ("plain", "before") else 1)
        assert bench.graph.get_state(THREAD).next == ()
        assert bench.told()[0][0] == ("error" if (kind, when) == ("plain", "before") else "success")
        assert told_of(bench) == EXPECTED[kind == "plain", when]


@pytest.mark.slow
@pytest.mark.promise("D2")
@pytest.mark.parametrize("written", [True, False])
def test_a_thread_whose_process_died_as_the_model_was_asked_is_carried_on(
    tmp_path: Path, written: bool
) -> None:
    """LangGraph writes checkpoints in the background, so the last may not have been `written`."""
    place = str(tmp_path)
    assert in_process(begin, place, "plain") == 0
    assert in_process(approve, place, "plain") == 0
    assert in_process(resume, place, "plain", "thinking") == KILLED
    if not written:
        lose_the_newest_checkpoint(tmp_path)
    assert in_process(work, place, "plain") == 0
    with life(tmp_path, "plain", "never") as bench:
        assert len(bench.ledger) == 1
        assert bench.graph.get_state(THREAD).values["messages"][-1].text == "done"
        assert bench.placet.result_sync(bench.run()).stop == "final"


def lose_the_newest_checkpoint(place: Path) -> None:
    kept = saver(place)
    with kept.cursor() as cursor:
        cursor.execute(
            "DELETE FROM checkpoints WHERE checkpoint_id IN"
            " (SELECT max(checkpoint_id) FROM checkpoints)"
        )
    kept.conn.close()


#: What the model is told, by whether nobody knew, and when the process died.
EXPECTED = {
    (False, "before"): "refunded 129 for A-42",
    (False, "after"): "refunded 129 for A-42",
    (True, "after"): "the bank's statement",
    (True, "before"): (
        "Interrupted: ana found that it did not happen (the bank's statement)."
        " It may be proposed again."
    ),
}


def told_of(bench: Bench) -> str:
    return bench.told()[0][1].split("\n")[0]
