"""Small bugs around a body, its probe and its mark: each of these tests is the one that finds some.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Unsure, tool
from placet.agent.models.scripted import call, raw_call, say
from placet.runtime.authority import MARK, inside_tool
from placet.runtime.bodies import environment_of, probe
from tests.runtime.desk import Desk, effect

NOW = timedelta(milliseconds=1)
SCRIPT = [call("act", what="after"), say("ok")]


# --- probes (D4) --------------------------------------------------------------------------------


def raises(what: str) -> Any:
    raise OSError("the bank does not answer")


def ends(what: str) -> Any:
    raise SystemExit(1)


@pytest.mark.promise("D4")
@pytest.mark.parametrize(
    "looks", [raises, ends, lambda what: None, lambda what: False, lambda what: "not happened"]
)
def test_a_probe_that_fails_or_gives_none_of_its_answers_is_unsure(
    looks: Callable[[str], Any],
) -> None:
    act = effect([], "act")
    act.probe(looks)
    answer = asyncio.run(probe(act.declaration, {"what": "a"}, "key", call="run_1/1/0"))
    assert isinstance(answer, Unsure)


# --- what only looks (G4) -----------------------------------------------------------------------


@pytest.mark.promise("G4")
def test_what_a_tool_does_to_the_arguments_as_it_looks_is_done_to_a_copy() -> None:
    def looks(arguments: Mapping[str, Any]) -> str:
        arguments["what"].append("more")
        return "looked"

    framework = replace(effect([]).declaration, environment=looks)
    frozen: dict[str, Any] = {"what": ["one"]}
    assert asyncio.run(environment_of(framework, frozen)) == "looked"
    assert frozen == {"what": ["one"]}


# --- the mark (G10) -----------------------------------------------------------------------------


@pytest.mark.promise("G10")
def test_of_two_bodies_at_once_the_one_that_ends_first_leaves_the_other_its_mark() -> None:
    async def both() -> None:
        done, seen = asyncio.Event(), list[str | None]()

        async def short() -> None:
            with inside_tool("short"):
                await asyncio.sleep(0)
            done.set()

        async def long() -> None:
            with inside_tool("long"):
                await done.wait()
                seen.append(os.environ.get(MARK))

        await asyncio.gather(short(), long())
        assert seen == ["long"]

    asyncio.run(both())
    assert MARK not in os.environ


# --- snapshots (D8) -----------------------------------------------------------------------------


@pytest.mark.promise("D8")
def test_what_is_rolled_back_is_what_was_there_before_any_attempt_however_many_there_were(
    tmp_path: Path,
) -> None:
    path, attempts = tmp_path / "file", list[str]()
    path.write_text("before")

    @tool(approval="never", idempotent=True, retries=1, backoff=NOW)
    def act(what: str) -> str:
        """Write half of it, each time."""
        attempts.append(path.read_text())
        path.write_text(f"half of {what}")
        raise OSError("disk full")

    act.snapshot(lambda what: path.read_text())

    @act.restore
    def restore(taken: str, what: str) -> None:
        path.write_text(taken)

    with Desk(tmp_path, SCRIPT, [act]) as desk:
        assert desk.start().stop == "final"
    assert attempts == ["before", "half of after"]
    assert path.read_text() == "before"


@pytest.mark.promise("D8", "G1")
def test_a_body_whose_snapshot_cannot_be_taken_is_not_entered(tmp_path: Path) -> None:
    done: list[str] = []
    act = effect(done, "act", approval="never")

    @act.snapshot
    def unreadable(what: str) -> str:
        raise PermissionError("no right to read it")

    @act.restore
    def restore(taken: str, what: str) -> None:
        done.append("restored")

    with Desk(tmp_path, SCRIPT, [act]) as desk:
        assert desk.start().stop == "final"
        (result,) = desk.results()
    assert done == []
    assert "no right to read it" in result
    assert "did not act" in result


# --- rulings (G1, G4) ---------------------------------------------------------------------------


@pytest.mark.promise("G4", "G1")
def test_a_tool_that_never_asks_is_asked_about_where_its_arguments_cannot_be_read(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    script = [raw_call("act", "{not json"), say("ok")]
    with Desk(tmp_path, script, [effect(done, "act", approval="never")]) as desk:
        (request,) = desk.start().waiting
        assert desk.refused(request, "approve") == "unreadable_arguments"
    assert done == []


@pytest.mark.promise("G1")
def test_a_read_that_its_approval_function_has_come_to_ask_about_does_not_run(
    tmp_path: Path,
) -> None:
    done, answers = list[str](), [False, True]

    def asks(arguments: Mapping[str, Any]) -> bool:
        return answers.pop(0)

    looks = effect(done, "act", reads_only=True, approval=asks)
    with Desk(tmp_path, SCRIPT, [looks]) as desk:
        assert desk.start().stop == "final"
        (result,) = desk.results()
    assert (done, answers) == ([], [])
    assert "declared otherwise" in result
