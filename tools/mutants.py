"""Plants one bug after another in a copy of the project, and sees that a test fails for each.

`make mutants` runs the campaign that `tests/mutants/*.toml` lists. A mutant is one bug at a point
that a promise rests on; it is killed where one of its own tests fails, and one that survives says
that a test is missing. The working tree is only read: each worker has a copy of it, with a virtual
environment of its own in which `placet` is the copy's, for child processes too.

An entry of a list has an `id`; `what` the bug is, in a sentence; the `promises` that it breaks; its
`file` below src/placet, in which the text `old` stands exactly once and becomes `new`; further
changes that belong to it under `also`; and the `tests` below tests/ that are to find it, the
quickest first. `hangs` says that tests which do not come to an end have found it too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
LISTS = Path("tests/mutants")
SOURCES = Path("src/placet")
TESTS = Path("tests")

#: How long a selection of tests may take, at least, and how much longer than without a mutant.
LEAST_LIMIT_SECONDS = 30.0
LEAST_HANGING_LIMIT_SECONDS = 10.0
TIMES_AS_LONG = 10.0

#: Not copied: what is made anew, and what is not the project's.
NOT_COPIED = (".*", "__pycache__", "build", "dist", "*.egg-info")

#: A mutant that dies of one of these is no bug of the kind that tests are there to find.
_BROKEN = re.compile(
    r"^E\s+(?:(?:NameError|UnboundLocalError|ImportError|SyntaxError|IndentationError)\b.*"
    r"|.*(?:near \".*\": syntax error|no such column|Incorrect number of bindings).*)$",
    re.MULTILINE,
)
_FAILED = re.compile(r"^FAILED (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_HUNG = ("from pytest-timeout", "+++ Timeout +++", "++ Timeout ++")

Verdict = Literal["killed", "survived", "hung", "broken", "unfit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of a file: `old`, which stands there exactly once, becomes `new`."""

    path: Path
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Give the text with the change; raises ValueError where `old` is not there just once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.path}: its old text is there {found} times:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug. `what` says it, `promises` what it breaks, `tests` who is to find it out.

    Where `hangs`, it may also show by tests that do not come to an end.
    """

    id: str
    what: str
    promises: tuple[str, ...]
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    hangs: bool = False

    def texts(self, root: Path) -> dict[Path, str]:
        """Give the changed files' texts; raises ValueError where the mutant does not apply."""
        changed: dict[Path, str] = {}
        for edit in self.edits:
            text = changed.get(edit.path) or (root / edit.path).read_text(encoding="utf-8")
            changed[edit.path] = edit.applied(text)
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of a mutant: the verdict, the test that told, and pytest's last words."""

    verdict: Verdict
    seconds: float
    by: str = ""
    words: str = ""


# --- the lists --------------------------------------------------------------------------------


def load(root: Path = ROOT) -> list[Mutant]:
    """Read the lists; raises ValueError where an entry is not what an entry is."""
    found: list[Mutant] = []
    for path in sorted((root / LISTS).glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            try:
                found.append(_mutant(entry))
            except (KeyError, TypeError) as error:
                raise ValueError(f"{path.name}: {entry.get('id')}: {error!r}") from error
    return found


def _mutant(entry: dict[str, object]) -> Mutant:
    given = dict(entry)
    file = str(given.pop("file"))
    edits = [{"old": given.pop("old"), "new": given.pop("new")}, *_listed(given.pop("also", []))]
    made = Mutant(
        id=str(given.pop("id")),
        what=str(given.pop("what")),
        promises=tuple(map(str, _listed(given.pop("promises")))),
        edits=tuple(
            Edit(path=SOURCES / str(e.get("file", file)), old=str(e["old"]), new=str(e["new"]))
            for e in edits
        ),
        tests=tuple(f"{TESTS}/{each}" for each in _listed(given.pop("tests"))),
        hangs=bool(given.pop("hangs", False)),
    )
    if given:
        raise TypeError(f"there is nothing named {', '.join(given)}")
    return made


def _listed(value: object) -> list[object] | list[dict[str, object]]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


# --- a copy -----------------------------------------------------------------------------------


class Copy:
    """A copy of the project, and a Python in which `placet` is the copy's."""

    def __init__(self, place: Path, *, source: Path = ROOT) -> None:
        self.root = place / "project"
        self._python = place / "venv" / "bin" / "python"
        self._place = place
        shutil.copytree(source, self.root, ignore=shutil.ignore_patterns(*NOT_COPIED))
        self._make_python(place / "venv")
        # By its hash, and not by its time, a compiled file is known to be of another text.
        self._ask("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src")
        self._check_imports()

    def _make_python(self, place: Path) -> None:
        """Make an environment that sees what this one has installed, but for this project."""
        venv.create(place, symlinks=True)
        purelib = sysconfig.get_path("purelib", "venv", {"base": str(place)})
        installed = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
        # A directory that is named in such a file is searched; those that it names are not.
        names = [self.root / "src", self.root, *installed]
        (Path(purelib) / "copy.pth").write_text("\n".join(map(str, names)), encoding="utf-8")

    def _ask(self, *words: str, env: dict[str, str] | None = None) -> str:
        command = [str(self._python), *words]
        return subprocess.run(
            command, cwd=self.root, env=env, check=True, capture_output=True, text=True
        ).stdout

    def _check_imports(self) -> None:
        """Hold that the copy is what is imported, in a process, and in a child of it, bare."""
        here = "import placet; print(placet.__file__)"
        child = f"import subprocess, sys; {here}; "
        child += f"subprocess.run([sys.executable, '-c', {here!r}], cwd='/', env={{}}, check=True)"
        for env in (self._environment(), {}):
            found = self._ask("-u", "-c", child, env=env).split()
            assert len(found) == 2, found
            assert all(Path(each).is_relative_to(self.root / "src") for each in found), found

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        paths = os.pathsep.join([str(self.root / "src"), str(self.root)])
        # The plugins that happen to be installed would take longer to load than most tests to run.
        return {**kept, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Plant a mutant's bug for as long as this lasts."""
        before = {path: (self.root / path).read_text(encoding="utf-8") for path in _paths(mutant)}
        try:
            for path, text in mutant.texts(self.root).items():
                (self.root / path).write_text(text, encoding="utf-8")
            yield
        finally:
            for path, text in before.items():
                (self.root / path).write_text(text, encoding="utf-8")

    def tested(self, tests: Sequence[str], *, limit: float) -> tuple[int | None, str, float]:
        """Run tests up to the first failure: pytest's exit code (None: it hung), and its words."""
        options = "-x -q -p pytest_timeout -p no:cacheprovider --tb=short -rfE".split()
        temporary = self._place / "temporary"
        command = [str(self._python), "-m", "pytest", *options, f"--basetemp={temporary}"]
        began = time.monotonic()
        running = subprocess.Popen(
            [*command, f"--timeout={limit}", *tests],
            cwd=self.root,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        code: int | None
        try:
            words, _ = running.communicate(timeout=limit * 1.5)
            code = running.returncode
        except subprocess.TimeoutExpired:
            code, words = None, ""
        finally:
            _end_all_of(running)
        if any(each in words for each in _HUNG):
            code = None
        return code, words, time.monotonic() - began


def _paths(mutant: Mutant) -> set[Path]:
    return {edit.path for edit in mutant.edits}


def _end_all_of(running: subprocess.Popen[str]) -> None:
    """End what the tests started and left behind, which is in their own group of processes."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


# --- the campaign -----------------------------------------------------------------------------


class Campaign:
    """Tries mutants, several at a time, each in the copy of whoever tries it."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._idle: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            self._idle.put(copy)
        self._usual: dict[tuple[str, ...], Found] = {}

    def run(self, mutants: Sequence[Mutant], *, workers: int) -> list[Found]:
        """Give what became of each mutant; first its tests pass without it, or it is unfit."""
        with ThreadPoolExecutor(workers) as pool:
            selections = list(dict.fromkeys(mutant.tests for mutant in mutants))
            usual = pool.map(self._without, selections)
            self._usual = dict(zip(selections, usual, strict=True))
            return list(pool.map(self._told, mutants))

    def _without(self, tests: tuple[str, ...]) -> Found:
        copy = self._idle.get()
        try:
            code, words, seconds = copy.tested(tests, limit=LEAST_LIMIT_SECONDS * TIMES_AS_LONG)
        finally:
            self._idle.put(copy)
        fits = code == 0 and re.search(r"\b\d+ passed", words) and "skipped" not in words
        verdict: Verdict = "survived" if fits else "unfit"
        return Found(verdict=verdict, seconds=seconds, words=_last(words))

    def _told(self, mutant: Mutant) -> Found:
        found = self._usual[mutant.tests]
        if found.verdict != "unfit":
            copy = self._idle.get()
            try:
                found = self._tried(mutant, copy, found.seconds)
            except ValueError as error:
                found = Found(verdict="unfit", seconds=0, words=str(error))
            finally:
                self._idle.put(copy)
        by = found.by.rpartition("::")[2] if found.verdict == "killed" else mutant.what
        print(
            f"{found.verdict:9}{found.seconds:5.1f} s  {'/'.join(mutant.promises):10}"
            f" {mutant.id:45} {by}",
            flush=True,
        )
        return found

    def _tried(self, mutant: Mutant, copy: Copy, usual: float) -> Found:
        least = LEAST_HANGING_LIMIT_SECONDS if mutant.hangs else LEAST_LIMIT_SECONDS
        with copy.mutated(mutant):
            limit = max(least, usual * TIMES_AS_LONG)
            code, words, seconds = copy.tested(mutant.tests, limit=limit)
        return judged(code, words, seconds, hangs=mutant.hangs)


def judged(code: int | None, words: str, seconds: float, *, hangs: bool) -> Found:
    """Say what pytest's exit code and words mean for a mutant.

    Only a test that failed by itself has killed it: 1, and no other code, says that some did.
    """
    failed = _FAILED.search(words)
    verdict: Verdict = "broken"
    by = failed[1] if failed else ""
    if code is None:
        verdict, by = ("killed", "it does not end") if hangs else ("hung", "")
    elif code == 0:
        verdict = "survived"
    elif code == 1 and failed and not _BROKEN.search(words):
        verdict = "killed"
    return Found(verdict=verdict, seconds=seconds, by=by, words=_last(words))


def _last(words: str, *, lines: int = 12) -> str:
    return "\n".join(words.rstrip().splitlines()[-lines:])


def main() -> int:
    """Run the campaign; give 0 where every mutant was killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", action="append", default=[], help="a mutant's id, or its start")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    only = tuple(given.only)
    mutants = [each for each in load() if not only or each.id.startswith(only)]
    if not mutants:
        print(f"There is no mutant named {', '.join(only)}.")
        return 1
    workers, began = min(given.workers, len(mutants)), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="placet-mutants-") as place:
        copies = [Copy(Path(place) / "0")]  # The others are of it: the tree may change meanwhile.
        for number in range(1, workers):
            copies.append(Copy(Path(place) / str(number), source=copies[0].root))
        results = Campaign(copies).run(mutants, workers=workers)
    killed = sum(found.verdict == "killed" for found in results)
    for mutant, found in zip(mutants, results, strict=True):
        if found.verdict != "killed":
            print(f"\n--- {mutant.id} ({found.verdict}): {mutant.what}\n{found.words}")
    took = time.monotonic() - began
    print(f"\n{killed} of {len(mutants)} mutants were killed, in {took:.0f} seconds.")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
