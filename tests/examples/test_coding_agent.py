"""The coding agent of the examples: real git, real commands, and a person before what matters."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Placet
from placet.core.commands import Names
from tests.examples.coding_life import live, opened, pushes, repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

_processes = multiprocessing.get_context("forkserver")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a directory with the scratch repository in it."""
    repository(tmp_path)
    return tmp_path


@pytest.fixture
def placet(place: Path) -> Iterator[Placet]:
    """Give the runtime with the agent."""
    with opened(place) as placet:
        yield placet


def told(placet: Placet) -> list[str]:
    """Give what the model was told of each call, in place."""
    rows = placet.engine.store.transcript("main", "main", "run_1")
    return [row.body for row in rows if row.kind == "result"]


def begin(placet: Placet) -> Any:
    return placet.run_sync("coder", "mend the discount", run_id="run_1")


@pytest.mark.slow
def test_it_mends_and_tests_by_itself_and_asks_before_a_lock_file(
    place: Path, placet: Placet
) -> None:
    result = begin(placet)
    assert result.stop == "approval_required"
    card = placet.show_sync(result.waiting[0])
    assert (card.tool, dict(card.arguments)["path"]) == ("edit", '"requirements.lock"')
    assert "-left-pad==1.0.0\n+left-pad==1.3.0" in card.preview
    assert "percent // 100" in (place / "work" / "prices.py").read_text()
    assert (place / "work" / "requirements.lock").read_text() == "left-pad==1.0.0\n"
    assert "exit code 0" in told(placet)[-1].lower(), told(placet)[-1]


@pytest.mark.slow
def test_it_asks_before_it_pushes_and_pushes_what_was_approved_once(
    place: Path, placet: Placet
) -> None:
    (lock,) = begin(placet).waiting
    placet.decide_sync(lock, "approve", by="ana")
    (push,) = placet.resume_sync("run_1").waiting
    assert dict(placet.show_sync(push).arguments)["command"] == '"git push -q origin main"'
    assert pushes(place) == 0
    placet.decide_sync(push, "approve", by="ana")
    assert placet.resume_sync("run_1").stop == "final"
    assert placet.resume_sync("run_1").stop == "final"
    assert pushes(place) == 1


@pytest.mark.slow
def test_a_rejected_push_leaves_the_remote_as_it_was(place: Path, placet: Placet) -> None:
    (lock,) = begin(placet).waiting
    placet.decide_sync(lock, "reject", by="ana", reason="not this week")
    assert (place / "work" / "requirements.lock").read_text() == "left-pad==1.0.0\n"
    (push,) = placet.resume_sync("run_1").waiting
    placet.decide_sync(push, "reject", by="ana", reason="review first")
    assert placet.resume_sync("run_1").stop == "final"
    assert pushes(place) == 0
    assert told(placet)[-1].startswith("Rejected by ana: review first")


@pytest.mark.slow
@pytest.mark.promise("G13")
@pytest.mark.conformance(14, 27)
def test_a_lock_file_that_changed_meanwhile_is_asked_about_anew(
    place: Path, placet: Placet
) -> None:
    (lock,) = begin(placet).waiting
    placet.decide_sync(lock, "approve", by="ana")
    (place / "work" / "requirements.lock").write_text("left-pad==1.0.0\nright-pad==2\n")
    (anew,) = placet.resume_sync("run_1").waiting
    assert anew != lock
    card = placet.show_sync(anew)
    assert "environment" in card.changes
    assert " right-pad==2" in card.preview


@pytest.mark.slow
@pytest.mark.promise("G13")
def test_a_commit_made_meanwhile_voids_the_approval_of_a_push(place: Path, placet: Placet) -> None:
    (lock,) = begin(placet).waiting
    placet.decide_sync(lock, "approve", by="ana")
    (push,) = placet.resume_sync("run_1").waiting
    placet.decide_sync(push, "approve", by="ana")
    import subprocess

    subprocess.run(
        ["git", "commit", "-q", "--allow-empty", "-m", "another's"], cwd=place / "work", check=True
    )
    (anew,) = placet.resume_sync("run_1").waiting
    assert (anew != push, pushes(place)) == (True, 0)


@pytest.mark.slow
@pytest.mark.promise("D8")
def test_what_an_edit_replaced_is_kept_with_its_intent(place: Path, placet: Placet) -> None:
    begin(placet)
    store = placet.engine.store
    state = store.session("main", "main", Names(steps=(("run_1", 2),), runs=("run_1",)))
    assert state is not None
    (edit,) = state.step_calls("run_1", 2)
    assert edit.snapshot_ref is not None
    taken = store.payload("main", "main", edit.snapshot_ref)
    restore = placet._driving.agent("coder").tools[2].declaration.restore
    assert restore is not None
    old, new = "cents * percent", "cents * percent // 100"
    restore({"path": "prices.py", "old": old, "new": new, "replace_all": False}, taken)
    assert (place / "work" / "prices.py").read_text().endswith("return cents * percent\n")


def _in_process(directory: Path, kill_at: int | None) -> int:
    process = _processes.Process(target=live, args=(str(directory), kill_at))
    process.start()
    process.join(100)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


@pytest.mark.slow
@pytest.mark.promise("D4", "G7")
def test_killed_at_any_commit_it_pushes_at_most_once_and_never_in_the_dark(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    repository(whole)
    assert _in_process(whole, None) == 0
    total = int((whole / "points").read_text())
    assert (pushes(whole), (whole / "end").read_text()) == (1, "final")
    ends: dict[str, int] = {}
    # Every third point, and of the others as many as it takes to hit the push itself.
    points = [at for first in (2, 3, 4) for at in range(first, total + 1, 3)]
    for number, at in enumerate(points):
        if number >= total // 3 and len(ends) == 2:
            break
        place = tmp_path / f"killed-{at}"
        place.mkdir()
        repository(place)
        assert _in_process(place, at) == -9, "it was not killed"
        assert _in_process(place, None) == 0
        end = (place / "end").read_text()
        assert end in ("final", "settlement"), f"it ends {end}, killed at {at}"
        assert pushes(place) <= 1, f"pushed {pushes(place)} times, killed at {at}"
        assert end == "settlement" or pushes(place) == 1
        ends[end] = ends.get(end, 0) + 1
        shutil.rmtree(place)
    assert set(ends) == {"final", "settlement"}
