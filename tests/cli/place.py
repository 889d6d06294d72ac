"""A place for the command line's tests: a directory with settings, two approvers and an app."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from placet import Placet
from placet.cli.main import main
from placet.stores.sqlite import SqliteStore
from tests.cli import app
from tests.tidy import ROOT

#: The tokens of the approvers, and of one who is none.
TOKENS = {"ana": "ana's token", "ben": "ben's token", "mallory": "mallory's token"}

#: The field names of older systems.
LEGACY = {
    "approval_id",
    "run_id",
    "tool_call_id",
    "action_digest",
    "permission_scope",
    "policy_version",
    "created_at",
    "status",
    "checkpoint_id",
}

#: With what a command asks for the word that decides.
PROMPT = "anything else to leave it: "

#: What takes longer than this hangs.
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def error(self) -> Mapping[str, Any]:
        """The error of the JSON document."""
        found: Mapping[str, Any] = self.document["error"]
        return found


class Place:
    """A working directory, and processes of the real command in it."""

    def __init__(
        self, directory: Path, *approvers: str, agents: str = "tests.cli.app:agents"
    ) -> None:
        self.directory = directory
        self.approvers = approvers or ("ana", "ben")
        sums = [f'{name} = "{sha256(t.encode()).hexdigest()}"' for name, t in TOKENS.items()]
        lines = [
            f'app = "{agents}"',
            f"approvers = {json.dumps(self.approvers)}",
            "[approver_tokens]",
            *sums,
        ]
        self.write("placet.toml", "\n".join(lines))

    def write(self, name: str, text: str) -> Path:
        """Write a file of the directory."""
        path = self.directory / name
        path.write_text(f"{text}\n", encoding="utf-8")
        return path

    @property
    def effects(self) -> list[str]:
        """What the tools did."""
        path = self.directory / "effects.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    # --- processes ----------------------------------------------------------------------------

    def environment(self, *, by: str = "", **more: str) -> dict[str, str]:
        """Give the environment of a process, with the token of who decides."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PLACET_")}
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        token = {"PLACET_APPROVER_TOKEN": TOKENS.get(by, by)} if by else {}
        return {**kept, "PYTHONPATH": paths, **token, **more}

    def placet(self, *words: str, by: str = "", **more: str) -> Ended:
        """Run the command without a terminal."""
        done = subprocess.run(
            [sys.executable, "-m", "placet", *words],
            cwd=self.directory,
            env=self.environment(by=by, **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr)

    def at_terminal(
        self, *words: str, typed: str = "", ahead: str = "", by: str = "", **more: str
    ) -> Ended:
        """Run the command with a terminal as its input.

        What is `typed` is typed once the command asks, if it does; what is typed `ahead` is there
        before it has begun.
        """
        ours, theirs = os.openpty()
        try:
            os.write(ours, ahead.encode())
            with self._started(theirs, *words, by=by, **more) as process:
                os.close(theirs)
                asked = _read_until(PROMPT, process) if typed else ""
                os.write(ours, typed.encode())
                out, err = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            os.close(ours)
        return Ended(code=process.returncode, out=out, err=asked + err)

    def interrupted_at(self, prompt: str, *words: str) -> Ended:
        """Run the command at a terminal, and interrupt it once it asks."""
        ours, theirs = os.openpty()
        try:
            with self._started(theirs, *words) as process:
                os.close(theirs)
                asked = _read_until(prompt, process)
                assert prompt in asked, f"the process ended and never asked: {asked}"
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            os.close(ours)
        return Ended(code=process.returncode, out=out, err=asked + err)

    @contextmanager
    def _started(
        self, terminal: int, *words: str, by: str = "", **more: str
    ) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "placet", *words],
            cwd=self.directory,
            env=self.environment(by=by, **more),
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()  # One that hangs is not waited for.

    # --- what most tests begin with -----------------------------------------------------------

    def waiting(self, agent: str = "shop", *, session: str = "main") -> tuple[str, str]:
        """Begin a run that waits for a person, in this process; give the run and the request."""
        with self.opened() as placet:
            begun = placet.run_sync(agent, "please", session=session)
        assert begun.stop == "approval_required"
        return begun.run_id, begun.waiting[0]

    def opened(self, *, by: timedelta = timedelta(0)) -> Placet:
        """Open the runtime over the place's store, with the app's agents, and a clock that late."""
        store = SqliteStore(self.directory / "placet.db", clock=lambda: datetime.now(UTC) + by)
        policy = self.directory / "placet.policy.toml"
        return Placet(
            store,
            agents=app.agents,
            approvers=self.approvers,
            policy=str(policy) if policy.exists() else None,
        )

    def pass_time(self, by: timedelta) -> None:
        """Let the store's clock be later from now on: it never goes back."""
        with self.opened(by=by) as placet:
            run = placet.run_sync("shop", "please", session="another")
            placet.cancel_sync(run.run_id, by="ana")

    def status(self, request: str) -> str:
        """Give the status of a request."""
        with self.opened() as placet:
            return placet.show_sync(request).status


def _read_until(prompt: str, process: subprocess.Popen[str]) -> str:
    """Read standard error until a prompt, or to the end of a process that never asks."""
    assert process.stderr is not None
    seen = ""
    while prompt not in seen and (read := process.stderr.read(1)):
        seen += read
    return seen


def do(*words: str, by: str = "") -> Ended:
    """Run the command in this process, without a terminal, in the current directory."""
    token = {"PLACET_APPROVER_TOKEN": TOKENS[by]} if by else {}
    done = CliRunner().invoke(main, words, env=token)
    return Ended(code=done.exit_code, out=done.stdout, err=done.stderr)
