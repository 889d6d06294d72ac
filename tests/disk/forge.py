"""A process that forks others: each is a real process, and starts in a few milliseconds.

What a life needs is imported once, here, under the disk of shim.c, and made ready where a module
has `make_ready`; each function is then called in a child of its own, which may be killed in the
middle of it. This process has one thread and opens nothing, so that a child begins as a new process
would.

    Forge(library)                 starts one
    forge.call(function, *args)    calls it in a child, and waits for that child's end
    forge.serve(function, *args)   calls it in a child that goes on, once it has said something
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_PR_SET_PDEATHSIG = 1

#: How much is told of where a child failed.
FRAMES_TOLD = 8

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: its status as `os.waitstatus_to_exitcode` gives it, and what it said.

    One that raised says how, and its status is 1.
    """

    status: int
    said: Any

    @property
    def killed(self) -> bool:
        """Say whether SIGKILL ended it."""
        return self.status == -signal.SIGKILL

    def answer(self) -> Any:
        """Give what a child said that ended well; raises AssertionError with what it raised."""
        assert self.status == 0, self.told()
        return self.said

    def told(self) -> str:
        """Give how a child ended, in words."""
        error = self.said.get("error") if isinstance(self.said, dict) else None
        return f"it ended {self.status}: {error or self.said}"


class Forge:
    """The forking process, as its user holds it."""

    def __init__(self, library: Path, *modules: str) -> None:
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.disk.forge import main; main()", *modules],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, and what it serves."""
        self._process.communicate()

    def call(self, function: Callable[..., object], *args: object) -> Ended:
        """Call a function in a child, and wait for the child's end. Arguments are JSON."""
        said = self._asked({"do": "call", "name": _name(function), "args": args})
        return Ended(status=said["status"], said=said["said"])

    def serve(self, function: Callable[..., object], *args: object) -> tuple[int, Any]:
        """Call a function that serves: give its process, and what it said when it was ready."""
        said = self._asked({"do": "serve", "name": _name(function), "args": args})
        return said["process"], said["said"]

    def end(self, process: int) -> None:
        """Kill a process that serves."""
        self._asked({"do": "end", "process": process})

    def _asked(self, asked: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the forge has ended"
        return json.loads(line)


def _name(function: Callable[..., object]) -> str:
    return f"{function.__module__}:{function.__qualname__}"


# --- the process ------------------------------------------------------------------------------


def say(value: object) -> None:
    """Say something to whoever waits for this child: what is returned is said by itself."""
    assert _Child.pipe is not None, "this process is a child of the forge"
    os.write(_Child.pipe, json.dumps(value).encode() + b"\n")


class _Child:
    pipe: int | None = None


def _child(asked: dict[str, Any], pipe: int) -> int:
    """Be the child: call the function, and give the status to end with."""
    _Child.pipe = pipe
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    module, _, name = asked["name"].partition(":")
    try:
        said = getattr(importlib.import_module(module), name)(*asked["args"])
        say(said)
    except BaseException as error:  # noqa: BLE001  # It is told, and the child ends with an error.
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES_TOLD:]
        where = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in frames[::-1])
        say({"error": f"{type(error).__name__}: {error} ({where})"})
        return 1
    return 0


def _forked(asked: dict[str, Any]) -> tuple[int, int]:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        status = 70
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # It outlives no forge.
            os.close(reading)
            status = _child(asked, writing)
        finally:
            os._exit(status)
    os.close(writing)
    return process, reading


def _all_of(pipe: int) -> list[Any]:
    with os.fdopen(pipe, encoding="utf-8") as said:
        return [json.loads(line) for line in said]


def _first_of(pipe: int) -> Any:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(pipe, 65536)
        assert more, "what was to serve has ended"
        line += more
    os.close(pipe)
    said = json.loads(line)
    assert not isinstance(said, dict) or "error" not in said, said["error"]
    return said


def main() -> None:
    """Fork as asked, line by line, until the input ends."""
    for name in sys.argv[1:]:
        module = importlib.import_module(name)
        getattr(module, "make_ready", lambda: None)()
    gc.collect()
    gc.freeze()  # What no child collects, none copies.
    serving: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, Any] = {}
        match asked["do"]:
            case "call":
                process, pipe = _forked(asked)
                said = _all_of(pipe)
                status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                answer = {"status": status, "said": said[-1] if said else None}
            case "serve":
                process, pipe = _forked(asked)
                serving.add(process)
                answer = {"process": process, "said": _first_of(pipe)}
            case _:
                serving.discard(asked["process"])
                _killed(asked["process"])
        print(json.dumps(answer), flush=True)
    for process in serving:
        _killed(process)


def _killed(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)
