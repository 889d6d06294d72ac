"""What the story plays on: a directory with a store and a ledger, real processes, and checks.

Each process is started as a user would start it, and shown so. Whatever is not as told ends the
story with `NotAsTold`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import IO

from placet.demo import ledger

APPROVERS = ("ana", "ben")
APP = "placet.demo.shop:app"

#: Exit codes of the command line (docs/reference/cli.md) that the story expects.
DONE = 0
REFUSED = 3
WAITING = 10
UNFINISHED = 11

#: How long any one process of the story may take.
PATIENCE_SECONDS = 120.0

_OWN_VARIABLES = ("PLACET_", "SHOP_")


class NotAsTold(Exception):
    """Something in the story is not as it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended: its exit code, and all that it wrote."""

    code: int
    output: str

    def find(self, pattern: str) -> str:
        """Give what the pattern's group matches; raises NotAsTold."""
        found = re.search(pattern, self.output)
        if found is None:
            raise NotAsTold(f"the output holds no {pattern!r}:\n{self.output}")
        return found[1]


def say(text: str = "", *, indent: int = 2) -> None:
    """Print a text at once, indented."""
    for line in text.splitlines() or [""]:
        sys.stdout.write(f"{' ' * indent}{line}".rstrip() + "\n")
    sys.stdout.flush()


def check(holds: bool, told: str, *, but: object = "") -> None:
    """Say what is so; raises NotAsTold where it is not."""
    if not holds:
        raise NotAsTold(f"this does not hold: {told}" + (f" (found: {but})" if but else ""))
    say(f"✓ {told}")


@dataclass(slots=True, kw_only=True)
class Stage:
    """A directory to play in. `environment` is what every process of the story gets."""

    place: Path
    model: str = "stand-in"
    base_url: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write the settings: the store, the app, who may decide, and by which token."""
        self.tokens = {name: secrets.token_urlsafe(24) for name in APPROVERS}
        sums = {name: hashlib.sha256(t.encode()).hexdigest() for name, t in self.tokens.items()}
        lines = [
            'store = "sqlite:///placet.db"',
            f'app = "{APP}"',
            f"approvers = {json.dumps(list(APPROVERS))}",
            "[approver_tokens]",
            *(f'{name} = "{digest}"' for name, digest in sums.items()),
        ]
        (self.place / "placet.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_OWN_VARIABLES)}
        local = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        named = {"SHOP_MODEL": self.model, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
        self.environment = {**kept, **named}
        if self.base_url:
            self.environment["SHOP_MODEL_URL"] = self.base_url
        if self.stands_in:
            self.environment = {**self.environment, **local}
            self.environment.pop("OPENAI_API_KEY", None)
            self.environment.pop("OPENAI_BASE_URL", None)

    @property
    def stands_in(self) -> bool:
        """Say whether the stand-in plays the model, whose words are known."""
        return self.model == "stand-in"

    @property
    def ledger(self) -> Path:
        """Name the ledger's file."""
        return self.place / ledger.LEDGER

    # --- processes ----------------------------------------------------------------------------

    def serve_model(self) -> None:
        """Start the stand-in model in a process of its own, where it plays the model."""
        if not self.stands_in:
            return
        serving = self.start("placet.demo.model_server", reads=True)
        self.environment["SHOP_MODEL_URL"] = self.line_of(serving, "http://")

    def close(self) -> None:
        """End every process that still runs."""
        for process in self.started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def start(self, module: str, *given: str, reads: bool = False) -> subprocess.Popen[str]:
        """Start a module as a process, and do not wait for its end."""
        process = subprocess.Popen(
            [sys.executable, "-m", module, *given],
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self.started.append(process)
        return process

    def line_of(self, process: subprocess.Popen[str], start: str) -> str:
        """Give the next line that a process writes; raises NotAsTold where it starts otherwise."""
        given_up = threading.Timer(PATIENCE_SECONDS, process.kill)
        given_up.start()
        try:
            line = _output(process).readline()
        finally:
            given_up.cancel()
        if not line.startswith(start):
            process.kill()
            raise NotAsTold(f"a process said:\n{line}{_output(process).read()}")
        return line.strip()

    def placet(
        self,
        *given: str,
        by: str = "",
        expect: int | tuple[int, ...] = DONE,
        only: str = "",
        note: str = "",
    ) -> Ended:
        """Run the command `placet`, show it, and hold its exit code against what is expected.

        `by` decides with that person's token. `only` shows the lines that match, as `grep` does.
        `note` is a comment behind the command.
        """
        prompt = f"{by}$ " if by else "$ "
        filtered = f' | grep -E "{only}"' if only else ""
        shown = prompt + shlex.join(["placet", *given]) + filtered
        say()
        say(shown + (f"   # {note}" if note else ""))
        env = dict(self.environment)
        if by:
            env["PLACET_APPROVER_TOKEN"] = self.tokens[by]
        done = self._ended([sys.executable, "-m", "placet", *given], env)
        lines = [line for line in done.stdout.splitlines() if not only or re.search(only, line)]
        say("\n".join(lines), indent=4)
        if done.returncode:
            say(f"(exit code {done.returncode})", indent=4)
        if done.returncode not in (expect if isinstance(expect, tuple) else (expect,)):
            raise NotAsTold(
                f"`placet {shlex.join(given)}` ended with {done.returncode}, not {expect}:\n"
                f"{done.stdout}"
            )
        return Ended(code=done.returncode, output=done.stdout)

    def _ended(
        self, command: Sequence[str], env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                cwd=self.place,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise NotAsTold(f"a process took more than {late.timeout:g} s: {command}") from late

    def kill(self, process: subprocess.Popen[str], told: str) -> None:
        """Kill a process with SIGKILL, and see that it died of it; raises NotAsTold."""
        if process.poll() is not None:
            raise NotAsTold(f"the process ended by itself: {_output(process).read()}")
        process.kill()
        check(process.wait() == -signal.SIGKILL, told, but=process.returncode)

    # --- the ledger ---------------------------------------------------------------------------

    def await_payment(self, order_id: str, process: subprocess.Popen[str]) -> None:
        """Wait until the ledger holds a payment for an order; raises NotAsTold."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not ledger.payments(self.ledger, order_id):
            if process.poll() is not None or time.monotonic() > until:
                raise NotAsTold(f"nothing was paid for {order_id}")
            time.sleep(0.02)

    def paid(self, order_id: str, amounts: Sequence[str], told: str) -> None:
        """Hold the ledger against the amounts told, each paid once; raises NotAsTold."""
        rows = ledger.payments(self.ledger, order_id)
        found = [Decimal(row.amount) for row in rows]
        check(found == [Decimal(amount) for amount in amounts], f"Ledger: {told}", but=rows)

    def whole_ledger(self, orders: Sequence[str], told: str) -> None:
        """Hold the whole ledger against the orders told; raises NotAsTold."""
        rows = ledger.payments(self.ledger)
        check([row.order_id for row in rows] == list(orders), f"Ledger: {told}", but=rows)
        for row in rows:
            say(f"{row.order_id}  {row.amount}", indent=4)


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None, "every process of the story writes into a pipe"
    return process.stdout
