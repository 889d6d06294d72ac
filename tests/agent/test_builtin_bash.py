"""The tool `bash`: real commands, which all end, are bounded, and cannot decide."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections import UserDict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import InvalidDeclaration, NotDone
from placet.agent.builtin import shell
from placet.agent.builtin.workspace import Workspace
from placet.core.commands import Failed, Succeeded
from placet.runtime.authority import MARK, inside_tool
from placet.runtime.bodies import Outcome, attempt
from placet.runtime.declarations import InvalidArguments
from tests.cli.place import TOKENS, Place
from tests.tidy import ROOT

PATIENCE_SECONDS = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what will not hear little time, but for those who ask whether it is enough."""
    monkeypatch.setattr(shell, "GRACE", timedelta(milliseconds=200))


def outcome_of(
    root: Path, command: str, seconds: int = PATIENCE_SECONDS, **options: Any
) -> Outcome:
    bash = Workspace(root).bash(approval="never", **options).declaration
    arguments = bash.validate({"command": command, "timeout_seconds": seconds})
    return asyncio.run(attempt(bash, arguments, "ik", call="run_1/1/0"))


def outcome_at_its_limit(root: Path, command: str) -> tuple[Outcome, int]:
    """Run a command to the end of its time; give its outcome and that time, in seconds.

    A command that had not noted its process id by then is given more: the machine stood still.
    """
    for seconds in (1, 5, 20):
        outcome = outcome_of(root, command, seconds=seconds)
        if (root / "pids").exists() and noted(root):
            return outcome, seconds
    raise AssertionError("it did not begin in time")


def told(root: Path, command: str, **options: Any) -> str:
    outcome = outcome_of(root, command, **options)
    assert isinstance(outcome, Succeeded), outcome
    return outcome.told


def has_ended(process: int) -> bool:
    """Wait until a process has ended, and say whether it has."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        ready, _, _ = select.select([watched], [], [], PATIENCE_SECONDS)
        return bool(ready)
    finally:
        os.close(watched)


def noted(root: Path) -> list[int]:
    return [int(line) for line in (root / "pids").read_text().split()]


#: Waits, in the shell, until so many processes have noted their ids.
NOTED = "until [ $(wc -l < pids) -ge {} ]; do :; done"


# --- what it answers ------------------------------------------------------------------------------


def test_output_and_errors_come_in_order_with_the_exit_code(root: Path) -> None:
    assert told(root, "echo a; echo b >&2; echo c; exit 3") == "a\nb\nc\n(exit code 3)"
    assert told(root, "true") == "(no output)\n(exit code 0)"
    assert told(root, "kill -9 $$").endswith("(ended by SIGKILL)")
    assert told(root, "pwd") == f"{root}\n(exit code 0)"
    assert told(root, "printf 'a\\0\\377'") == "a\\0\ufffd\n(exit code 0)"
    assert told(root, "-v").endswith("(exit code 127)")


def test_nothing_waits_for_input(root: Path) -> None:
    assert told(root, "cat; read x || echo none; tty") == "none\nnot a tty\n(exit code 1)"


def test_a_flood_of_output_is_bounded_and_keeps_head_and_tail(root: Path) -> None:
    output = told(root, "echo first; yes | head -c 50000000; echo last")
    assert len(output) < shell.HEAD_BYTES + shell.TAIL_BYTES + 200
    left_out = 50_000_011 - shell.HEAD_BYTES - shell.TAIL_BYTES
    assert output.startswith("first\ny\n")
    assert f"\n(… {left_out} bytes of the output are left out …)\n" in output
    assert output.endswith("y\nlast\n(exit code 0)")


def test_a_pipe_that_nobody_reads_ends_a_writer_as_in_any_shell(root: Path) -> None:
    assert told(root, "yes | head -1; echo ${PIPESTATUS[0]}") == "y\n141\n(exit code 0)"


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ""},
        {"command": "a\0b"},
        {"command": "true", "timeout_seconds": 0},
        {"command": "true", "timeout_seconds": 601},
        {},
    ],
)
def test_what_is_no_command_does_not_fit(root: Path, arguments: Any) -> None:
    with pytest.raises(InvalidArguments):
        Workspace(root).bash().declaration.validate(arguments)


def test_a_command_that_cannot_be_started_was_not_done(root: Path) -> None:
    for command, directory in (("true", root / "nothing"), ("x" * 3_000_000, root)):
        asked = shell.Command(text=command, directory=str(directory), lasts=timedelta(seconds=9))

        with pytest.raises(NotDone, match="could not be started"):
            asyncio.run(shell.run_command(asked))


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.promise("D4")
def test_a_command_that_hangs_ends_at_its_limit_and_may_have_acted(root: Path) -> None:
    outcome, seconds = outcome_at_its_limit(root, "echo begun; echo $$ > pids; sleep 1000")
    assert isinstance(outcome, Failed)
    assert not outcome.not_done
    assert f"did not end within {seconds} seconds, and was ended" in outcome.error
    assert "\nbegun\n" in outcome.error
    assert has_ended(*noted(root))


def test_a_command_that_will_not_hear_is_killed_and_its_flood_is_bounded(root: Path) -> None:
    flood = "trap '' TERM; echo $$ > pids; while :; do echo x; done"
    outcome, seconds = outcome_at_its_limit(root, flood)
    assert isinstance(outcome, Failed)
    assert f"did not end within {seconds} seconds, and was ended" in outcome.error
    assert len(outcome.error) < shell.HEAD_BYTES + shell.TAIL_BYTES + 300
    assert has_ended(*noted(root))


def test_the_commands_time_ends_before_that_of_the_attempt(root: Path) -> None:
    bash = Workspace(root).bash(longest=timedelta(seconds=30)).declaration
    longest = bash.parameters["properties"]["timeout_seconds"]
    assert (longest["maximum"], longest["default"]) == (30, 30)
    assert bash.recovery.time_limit > timedelta(seconds=30) + shell.GRACE + timedelta(seconds=5)
    with pytest.raises(InvalidDeclaration, match="longest"):
        Workspace(root).bash(longest=timedelta(0))


# --- nothing is left behind -----------------------------------------------------------------------


def test_what_a_command_leaves_in_the_background_ends_with_it(root: Path) -> None:
    note = "echo $$ >> pids; exec sleep 1000"
    ways = [
        f"sh -c '{note}' &",
        f"(sh -c '{note}' &)",
        f"nohup sh -c '{note}' > /dev/null 2>&1 &",
        f"setsid sh -c '{note}' &",
        f"(setsid setsid sh -c '{note}' > /dev/null 2>&1 < /dev/null &)",
        f"setsid sh -c 'trap \"\" TERM HUP; {note}' &",
        "sh -c 'echo $$ >> pids; kill -STOP $$' &",
    ]
    if not Path("/proc/self/stat").exists():
        ways = [way for way in ways if "setsid" not in way]
    begun = time.monotonic()
    output = told(root, "touch pids\n" + "\n".join([*ways, NOTED.format(len(ways)), "echo done"]))
    assert "done\n" in output
    assert f"({len(ways)} processes that it left in the background were ended.)" in output
    assert len(noted(root)) == len(ways)
    assert all(has_ended(process) for process in noted(root))
    assert time.monotonic() - begun < PATIENCE_SECONDS


def test_what_starts_anew_whenever_it_is_ended_is_ended_all_the_same(root: Path) -> None:
    again = "trap './again & exit' TERM; echo $$ >> pids; while :; do sleep 0.01; done\n"
    (root / "again").write_text(f"#!/bin/bash\n{again}")
    (root / "again").chmod(0o755)
    told(root, f"touch pids; ./again & ./again & {NOTED.format(2)}")
    assert all(has_ended(process) for process in noted(root))


def test_a_command_that_kills_its_supervisor_is_ended_and_that_is_said(root: Path) -> None:
    outcome = outcome_of(root, "echo $$ > pids; kill -9 $PPID; sleep 1000")
    assert isinstance(outcome, Failed)
    assert not outcome.not_done
    assert "was ended from outside" in outcome.error
    assert has_ended(*noted(root))


def test_a_command_that_stops_its_supervisor_ends_soon_after_its_limit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "SLACK", timedelta(milliseconds=300))
    stops = "echo $$ > pids; kill -STOP $PPID; sleep 1000"
    outcome, _ = outcome_at_its_limit(root, stops)
    assert isinstance(outcome, Failed)
    assert not outcome.not_done
    assert has_ended(*noted(root))


@pytest.mark.promise("D4")
def test_a_cancelled_command_is_ended(root: Path) -> None:
    os.mkfifo(root / "begun")

    async def cancelled() -> int:
        command = "trap '' TERM; (echo $$ > begun); sleep 1000"
        work = asyncio.ensure_future(Workspace(root).bash()(command, timeout_seconds=600))
        process = int(await asyncio.to_thread((root / "begun").read_text))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return process

    assert has_ended(asyncio.run(cancelled()))


def test_a_command_that_is_cancelled_before_it_began_is_ended(root: Path) -> None:
    async def cancelled() -> None:
        work = asyncio.ensure_future(
            Workspace(root).bash()("echo $$ > pids; sleep 1000", timeout_seconds=600)
        )
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    assert not (root / "pids").exists() or all(has_ended(each) for each in noted(root))


def test_a_command_whose_event_loop_ends_is_ended(root: Path) -> None:
    os.mkfifo(root / "begun")

    async def left() -> int:
        command = "trap '' TERM; (echo $$ > begun); sleep 1000"
        self_held.append(
            asyncio.ensure_future(Workspace(root).bash()(command, timeout_seconds=600))
        )
        return int(await asyncio.to_thread((root / "begun").read_text))

    self_held: list[object] = []
    assert has_ended(asyncio.run(left()))


@pytest.mark.promise("D4")
def test_a_runtime_that_is_killed_takes_its_commands_along(root: Path) -> None:
    os.mkfifo(root / "begun")
    program = (
        "import asyncio, sys\n"
        "from placet.agent.builtin.workspace import Workspace\n"
        "bash = Workspace(sys.argv[1]).bash()\n"
        "asyncio.run(bash('(setsid sh -c \"echo $$ > begun; exec sleep 1000\" &); sleep 1000',"
        " timeout_seconds=600))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", program, str(root)], env=environment) as runtime:
        process = int((root / "begun").read_text())
        runtime.send_signal(signal.SIGKILL)
    assert has_ended(process)


# --- what it is given -----------------------------------------------------------------------------


def test_secrets_and_settings_are_not_handed_on_and_the_mark_always_is() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/home/ana",
        "SSH_AUTH_SOCK": "/run/agent",
        "LANG": "C.UTF-8",
        "QUOTED": "‹secret‹",
        "OPENAI_API_KEY": "x",
        "ANTHROPIC_API_KEY": "x",
        "STRIPE_KEY": "x",
        "GITHUB_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP",
        "DB_PASSWORD": "x$DB_PASSWORD",
        "LOGIN": "password=hunter22 | $password",
        "DATABASE_URL": "postgres://ana:hunter2@db/x",
        "PLACET_APPROVER_TOKEN": "x",
        "PLACET_STORE": "x",
        "PLACET_CONFIG": "x",
        "BASH_ENV": "x",
        "BASH_FUNC_ls%%": "x",
        "ENV": "x",
    }
    kept = shell.handed_on(
        given, more={"TOKEN": "mine", "PATH": "/usr/bin", MARK: "", "PLACET_X": ""}
    )
    assert kept == {
        "PATH": "/usr/bin",
        "HOME": "/home/ana",
        "SSH_AUTH_SOCK": "/run/agent",
        "LANG": "C.UTF-8",
        "QUOTED": "‹secret‹",
        "TOKEN": "mine",
        MARK: "bash",
    }
    assert shell.handed_on({MARK: "run_1/1/0"}) == {MARK: "run_1/1/0"}


class Vanishing(UserDict[str, str]):
    """Variables of which one is taken away between being named and being read."""

    def __getitem__(self, name: str) -> str:
        if name == MARK:
            raise KeyError(name)
        return self.data[name]


def test_a_variable_that_another_call_takes_away_meanwhile_holds_no_command_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(os, "environ", Vanishing({MARK: "run_9/1/0", "PATH": "/bin"}))
        found = shell._present_environment()
    assert shell.handed_on(found) == {"PATH": "/bin", MARK: "bash"}


def test_a_command_gets_what_the_developer_gives_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-runtime")
    monkeypatch.setenv("PLACET_APPROVER_TOKEN", "of-ana")
    output = told(root, "env", environment={"DEPLOY_TOKEN": "given"})
    assert "DEPLOY_TOKEN=given\n" in output
    assert f"{MARK}=run_1/1/0\n" in output
    assert "of-the-runtime" not in output
    assert "of-ana" not in output
    for name in ("PLACET_STORE", MARK, "", "a=b", "a\0"):
        with pytest.raises(InvalidDeclaration, match="no variable"):
            Workspace(root).bash(environment={name: ""})


@pytest.mark.promise("G10")
@pytest.mark.parametrize(
    "way",
    [
        "setsid --wait {}",
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in ("{}", "(cd / && cd - > /dev/null && exec {})")
        ),
    ],
)
def test_the_command_line_refuses_to_decide_in_a_command(tmp_path: Path, way: str) -> None:
    place = Place(tmp_path)
    _, request = place.waiting()
    approve = f'PLACET_APPROVER_TOKEN="$T" {sys.executable} -m placet approve {request} --yes'
    approve = way.format(f"env {approve}")
    given = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "T": TOKENS["ana"]}
    output = told(tmp_path, approve, environment=given)
    assert output.endswith("(exit code 4)")
    assert "[inside_tool" in output
    assert place.status(request) == "waiting"


@pytest.mark.promise("G10")
def test_the_mark_is_that_of_the_call_or_there_at_least(root: Path) -> None:
    def called() -> str:
        return str(asyncio.run(Workspace(root).bash()("env", timeout_seconds=PATIENCE_SECONDS)))

    with inside_tool("run_7/1/0"):
        assert f"{MARK}=run_7/1/0\n" in called()
    assert f"{MARK}=bash\n" in called()


# --- what is declared -----------------------------------------------------------------------------


def test_a_command_asks_and_touches_everything_unless_it_is_said_otherwise(root: Path) -> None:
    declared = Workspace(root).bash().declaration
    assert (declared.approval, declared.surface, declared.kind) == ("always", "*", "effect")
    assert not declared.recovery.idempotent

    def pushes(arguments: Any) -> bool:
        return "git push" in arguments["command"]

    assert Workspace(root).tools(bash=pushes)[3].declaration.approval is pushes
