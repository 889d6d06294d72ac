"""Attacks on the promises by processes, clocks and deploys: by what races, and what changes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Happened, NotDone, NotHappened, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, calls, say
from placet.agent.watching import WorkBegins
from placet.core import commands as c
from placet.core.state import CallOver, Open
from placet.core.values import Occurrence
from placet.core.work import RunReads
from placet.runtime import attempts
from placet.runtime.authority import Authority
from placet.runtime.gate import Gate
from placet.runtime.proposing import Toolbox, ToolCall
from placet.runtime.worker import Worker
from tests.runtime.desk import Desk

FIRST = Occurrence("run_1", 1, 0)

_processes = multiprocessing.get_context("forkserver")


def code_of(desk: Desk, at: Occurrence = FIRST) -> str:
    found = desk.store.session("main", "s", c.Names(steps=((at.run, at.step),)))
    assert found is not None
    state = found.calls[at].state
    assert isinstance(state, CallOver)
    return state.code


def later() -> datetime:
    """Give a time at which every lease of today has passed."""
    return datetime.now(UTC) + timedelta(minutes=10)


# --- a deploy in the middle -------------------------------------------------------------------


@pytest.mark.promise("G3", "G13")
@pytest.mark.parametrize("change", ["another version", "gone"])
def test_a_retry_never_enters_a_body_that_was_not_approved(tmp_path: Path, change: str) -> None:
    done: list[str] = []

    @tool(name="pay", retries=3, backoff=timedelta(seconds=20))
    def pay(what: str) -> str:
        """Pay."""
        done.append("first")
        raise NotDone("busy")

    @tool(name="pay" if change == "another version" else "other", version="2")
    def pay_anew(what: str) -> str:
        """Pay."""
        done.append("second")
        return "paid"

    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        desk.resume()
    with Desk(tmp_path, script, [pay_anew], clock=later) as desk:
        assert desk.resume().stop == "final"
        assert done == ["first"]
        assert code_of(desk) == "tool_failed"


@pytest.mark.promise("G3", "G13", "D4")
def test_recovery_of_a_lost_attempt_by_another_tool_goes_to_a_person(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(name="pay", idempotent=True, backoff=timedelta(seconds=20))
    def pay(what: str) -> str:
        """Pay."""
        done.append("first")
        raise ConnectionError("lost")

    @tool(name="pay", version="2", idempotent=True)
    def pay_anew(what: str) -> str:
        """Pay."""
        done.append("second")
        return "paid"

    script = [call("pay", what="a"), say("ok")]
    with Desk(tmp_path, script, [pay]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        desk.resume()
    with Desk(tmp_path, script, [pay_anew], clock=later) as desk:
        desk.resume()
        assert done == ["first"]
        (row,) = desk.do(lambda p: p.inbox())
        assert row.request.kind == "settlement"


@pytest.mark.promise("G4")
def test_an_allowed_call_that_waited_for_a_deploy_is_frozen_anew_before_it_runs(
    tmp_path: Path,
) -> None:
    done: list[object] = []

    @tool
    def ask_first(what: str) -> str:
        """Ask."""
        return "asked"

    @tool(name="log", approval="never")
    def log(what: str) -> str:
        """Log."""
        done.append(what)
        return "logged"

    @tool(name="log", version="2", approval="never")
    def log_anew(what: str, force: bool = True) -> str:
        """Log."""
        done.append((what, force))
        return "logged"

    script = [calls(call("ask_first", what="a"), call("log", what="b")), say("ok")]
    with Desk(tmp_path, script, [ask_first, log]) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
    with Desk(tmp_path, script, [ask_first, log_anew]) as desk:
        assert desk.resume().stop == "final"
        assert done == [("b", True)]
        found = desk.store.session("main", "s", c.Names(steps=(("run_1", 1),)))
        assert found is not None
        frozen = found.calls[Occurrence("run_1", 1, 1)]
        assert frozen.version == 2
        assert '"force": true' in desk.store.payload("main", "s", frozen.action_ref)


@pytest.mark.promise("G8", "G2")
def test_a_read_that_a_deploy_made_an_effect_does_not_run_as_a_read(tmp_path: Path) -> None:
    done: list[str] = []
    broken = [True]

    @tool(name="look", reads_only=True)
    async def look() -> str:
        """Look."""
        return ""

    @tool(name="look", approval="never")
    def look_anew() -> str:
        """Look."""
        done.append("effect")
        return "acted"

    script = [call("look"), say("ok")]

    def fail(event: object) -> None:
        if broken[0] and isinstance(event, WorkBegins) and isinstance(event.work, RunReads):
            raise SystemExit("killed before the read")

    with Desk(tmp_path, script, [look]) as desk, pytest.raises(SystemExit):
        desk.do(lambda p: p.run("support", "go", session="s", run_id="run_1", on_event=fail))
    with Desk(tmp_path, script, [look_anew], clock=later) as desk:
        assert desk.resume().stop == "final"
        assert done == []


# --- processes --------------------------------------------------------------------------------


def _slow_payer(place: str) -> None:
    """Drive a run whose body begins, then waits for a sign before it pays."""
    where = Path(place)

    @tool(name="pay", approval="never")
    def pay() -> str:
        """Pay."""
        (where / "entered").touch()
        while not (where / "go").exists():
            time.sleep(0.01)
        with (where / "ledger").open("a") as ledger:
            ledger.write("paid\n")
        (where / "acted").touch()
        time.sleep(60)
        return "paid"

    @pay.probe
    def was_paid() -> NotHappened:
        return NotHappened()

    with Desk(where, [call("pay"), say("ok")], [pay]) as desk:
        desk.start()


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"no {path.name}"
        time.sleep(0.01)


@pytest.mark.promise("D4", "G7")
@pytest.mark.slow
def test_a_body_that_acts_and_dies_while_it_is_probed_is_not_entered_again(tmp_path: Path) -> None:
    old = _processes.Process(target=_slow_payer, args=(str(tmp_path),))
    old.start()
    wait_for(tmp_path / "entered")
    assert old.pid is not None
    ledger = tmp_path / "ledger"

    @tool(name="pay", approval="never")
    def pay() -> str:
        """Pay."""
        with ledger.open("a") as file:
            file.write("paid\n")
        return "paid"

    @pay.probe
    def was_paid() -> Happened | NotHappened:
        found = ledger.exists()
        (tmp_path / "go").touch()
        wait_for(tmp_path / "acted")
        old.kill()
        old.join()
        return Happened(result="paid") if found else NotHappened()

    with Desk(tmp_path, [call("pay"), say("ok")], [pay], clock=later) as desk:
        desk.resume()
        (row,) = desk.do(lambda p: p.inbox())
        assert row.request.kind == "settlement"
    assert ledger.read_text() == "paid\n"


@pytest.mark.promise("G10")
@pytest.mark.slow
def test_a_process_that_a_tool_started_cannot_decide_through_the_api(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from placet.stores.sqlite import SqliteStore\n"
        "from placet import Placet\n"
        "p = Placet(SqliteStore(sys.argv[1]), approvers=['ana'])\n"
        "try:\n"
        "    p.decide_sync(sys.argv[2], 'approve', by='ana')\n"
        "except Exception as error:\n"
        "    print(getattr(error, 'code', error))\n"
        "p.close()\n"
    )
    said: list[str] = []

    @tool(approval="never")
    def bash(request: str) -> str:
        """Start a program that approves."""
        command = [sys.executable, "-c", program, str(tmp_path / "placet.db"), request]
        env = {**os.environ, "PYTHONPATH": "src"}
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        said.append(ran.stdout.strip() + ran.stderr)
        return "ran"

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    with Desk(tmp_path, [call("pay"), say("ok")], [pay]) as desk:
        (request,) = desk.start().waiting
        script = [call("bash", request=request), say("ok")]
        other = Agent(name="other", model=ScriptedModel(script), tools=[bash])
        desk.do(lambda p: p.run(other, "go", session="t"))
        assert said == ["inside_tool"]
        assert [r.request.state for r in desk.do(lambda p: p.inbox())] == [Open()]


@pytest.mark.promise("G10")
def test_a_body_that_is_left_behind_keeps_its_mark(tmp_path: Path) -> None:
    from placet.runtime.authority import MARK

    left = threading.Event()
    seen: list[str | None] = []
    looked = threading.Event()

    @tool(approval="never", time_limit=timedelta(milliseconds=50))
    def linger() -> str:
        """Outlive the time limit."""
        left.wait(60)
        seen.append(os.environ.get(MARK))
        looked.set()
        return ""

    with Desk(tmp_path, [call("linger"), say("ok")], [linger]) as desk:
        desk.start()
        left.set()
        assert looked.wait(60)
    assert seen == ["run_1/1/0"]
    until = time.monotonic() + 60
    while MARK in os.environ and time.monotonic() < until:
        time.sleep(0.01)
    assert MARK not in os.environ


# --- the store and the clock ------------------------------------------------------------------


@pytest.mark.promise("D4", "D5")
def test_an_outcome_outlives_a_store_that_is_locked_for_longer_than_a_command_waits(
    tmp_path: Path,
) -> None:
    done: list[int] = []
    threads: list[threading.Thread] = []

    @tool(approval="never")
    def pay() -> str:
        """Pay, while somebody locks the store."""
        done.append(1)
        locker = sqlite3.connect(
            tmp_path / "placet.db", isolation_level=None, check_same_thread=False
        )
        locker.execute("BEGIN IMMEDIATE")

        def unlock() -> None:
            time.sleep(0.8)
            locker.execute("ROLLBACK")
            locker.close()

        threads.append(threading.Thread(target=unlock))
        threads[0].start()
        return "paid"

    with Desk(
        tmp_path, [call("pay"), say("ok")], [pay], busy_timeout=timedelta(milliseconds=200)
    ) as desk:
        assert desk.start().stop == "final"
        threads[0].join()
        assert (done, desk.results()) == ([1], ["paid"])


@pytest.mark.promise("G9")
def test_a_driver_does_not_sit_out_a_retry_while_the_clock_stands_still(tmp_path: Path) -> None:
    stopped = datetime.now(UTC)

    @tool(approval="never", retries=1, backoff=timedelta(milliseconds=10))
    def pay() -> str:
        """Pay."""
        raise NotDone("busy")

    with Desk(tmp_path, [call("pay"), say("ok")], [pay], clock=lambda: stopped) as desk:
        waits = asyncio.wait_for
        result = desk.do(
            lambda p: waits(p.run("support", "go", session="s", run_id="run_1"), timeout=60)
        )
        assert result.stop is None


@pytest.mark.promise("G9", "D2")
def test_what_is_due_by_the_stores_clock_is_due_though_the_wall_stepped_back(
    tmp_path: Path,
) -> None:
    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    script = [call("pay"), say("ok")]
    ahead = datetime.now(UTC) + timedelta(hours=3)
    with Desk(tmp_path, script, [pay], clock=lambda: ahead) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
    with Desk(tmp_path, script, [pay]) as desk:
        assert [row.run.id for row in desk.store.due()] == ["run_1"]


# --- workers ----------------------------------------------------------------------------------


def worker_of(placet: Placet, told: list[tuple[str, str]]) -> Worker:
    return placet.worker(report=lambda happening, run, _: told.append((happening, run)))


@pytest.mark.promise("D2")
def test_a_run_whose_code_is_broken_does_not_end_the_worker(tmp_path: Path) -> None:
    class Broken:
        name = "broken"

        async def complete(self, request: object) -> Any:
            raise ValueError("a bug in the model's client")

        async def close(self) -> None: ...

    with Desk(tmp_path, [], [], model=Broken()) as desk:
        desk.do(
            lambda p: p.engine.execute(
                "s", c.StartRun(run="run_1", agent="support", requester="mia", message="go")
            )
        )
        told: list[tuple[str, str]] = []
        desk.do(lambda p: worker_of(p, told).once())
        assert ("trouble", "run_1") in told


@pytest.mark.promise("D2", "D7")
def test_runs_that_a_worker_cannot_drive_do_not_starve_those_that_it_can(tmp_path: Path) -> None:
    with Desk(tmp_path, [say("ok")], []) as desk:

        async def fill(p: Placet) -> None:
            for number in range(150):
                start = c.StartRun(
                    run=f"other_{number}", agent="elsewhere", requester="mia", message="go"
                )
                await p.engine.execute(f"o{number}", start)
            start = c.StartRun(run="run_1", agent="support", requester="mia", message="go")
            await p.engine.execute("s", start)

        desk.do(fill)
        told: list[tuple[str, str]] = []
        worker = worker_of(desk.placet, told)
        desk.do(lambda _: worker.once())
        assert ("resumed", "run_1") in told


@pytest.mark.promise("D5")
def test_two_actions_of_a_hosted_run_may_be_entered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "STALE_AFTER", timedelta(seconds=-1))  # Each looks again.
    done: list[str] = []
    both = threading.Barrier(2, timeout=60)

    def declared(name: str) -> Any:
        def act() -> str:
            done.append(name)
            both.wait()
            return name

        return tool(name=name, surface=name, approval="never")(act)

    made_tools = [declared("one"), declared("two")]
    with Desk(tmp_path, [], made_tools) as desk:

        async def host(p: Placet) -> None:
            start = c.StartRun(
                run="run_1", agent="support", requester="mia", message="go", kind="hosted"
            )
            await p.engine.execute("s", start)
            declarations = [tool_.declaration for tool_ in made_tools]
            gate = Gate(p.engine, Toolbox(declarations), Authority(approvers=("ana",)))
            made = [ToolCall(id=n, name=n, arguments="{}") for n in ("one", "two")]
            await gate.propose("s", "run_1", 1, made, checkpoint="{}")
            begun = asyncio.Event()
            still_mine = gate._attempts._still_mine
            waiting = [0]

            async def together(*args: Any) -> None:
                waiting[0] += 1
                if waiting[0] == 2:
                    begun.set()
                await begun.wait()
                monkeypatch.setattr(attempts, "STALE_AFTER", timedelta(hours=1))
                await still_mine(*args)

            monkeypatch.setattr(gate._attempts, "_still_mine", together)
            await asyncio.gather(*(gate.run("s", Occurrence("run_1", 1, n)) for n in (0, 1)))

        desk.do(host)
        assert sorted(done) == ["one", "two"]
        assert sorted(desk.results()) == ["one", "two"]
