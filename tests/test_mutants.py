"""The list of mutants fits the source, names tests that there are, and leaves no promise out.

The campaign itself is `make mutants`: it plants each bug, and sees that a test finds it.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet.stores import sqlite_opening
from tests.guarantees import PROMISES
from tests.trees import parsed
from tools.mutants import ROOT, Campaign, Copy, Edit, judged, load

AT_LEAST = 60
AT_LEAST_OF_A_PROMISE = 2

MUTANTS = load()


def test_there_are_enough_mutants_each_with_an_id_and_a_bug_of_its_own() -> None:
    assert len(MUTANTS) >= AT_LEAST
    assert _repeated(mutant.id for mutant in MUTANTS) == []
    assert _repeated(mutant.edits for mutant in MUTANTS) == []
    assert [m.id for m in MUTANTS if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", m.id)] == []
    assert [m.id for m in MUTANTS if not re.fullmatch(r"[A-Z].{20,120}\.", m.what)] == []


def test_each_old_text_is_there_once_and_what_it_becomes_can_be_read() -> None:
    wrong = []
    for mutant in MUTANTS:
        try:
            for path, text in mutant.texts(ROOT).items():
                assert text != (ROOT / path).read_text(encoding="utf-8"), f"{path}: it is the same"
                _read(path, text)
        except (AssertionError, ValueError, SyntaxError, sqlite3.Error) as error:
            wrong.append(f"{mutant.id}: {error}")
    assert not wrong, "\n".join(wrong)


def test_every_test_that_is_named_is_there() -> None:
    named = {test for mutant in MUTANTS for test in mutant.tests}
    there = {file: _tests_in(file) for file in {test.partition("::")[0] for test in named}}
    assert [test for test in sorted(named) if test not in there[test.partition("::")[0]]] == []


def test_every_promise_of_the_gate_and_of_durability_has_mutants() -> None:
    count = Counter(promise for mutant in MUTANTS for promise in mutant.promises)
    assert set(count) <= {promise.id for promise in PROMISES}
    wanted = [promise.id for promise in PROMISES if promise.id[0] in "GD"]
    assert [id_ for id_ in wanted if count[id_] < AT_LEAST_OF_A_PROMISE] == []


# --- what kills a mutant ------------------------------------------------------------------------

FAILED = "E   assert 1 == 2\nFAILED tests/test_a.py::test_one - assert 1 == 2"


@pytest.mark.parametrize(
    "code, words, hangs, verdict",
    [
        (1, FAILED, False, "killed"),
        (0, "1 passed", False, "survived"),
        (1, "ERROR tests/test_a.py::test_one - a fixture", False, "broken"),
        (1, f"E   NameError: name 'x' is not defined\n{FAILED}", False, "broken"),
        (2, "ERROR tests/test_a.py - SyntaxError", False, "broken"),
        (3, FAILED, False, "broken"),
        (4, "ERROR: not found", False, "broken"),
        (5, "no tests ran", False, "broken"),
        (None, FAILED, False, "hung"),
        (None, "", True, "killed"),
    ],
)
def test_only_a_test_that_fails_by_itself_kills(
    code: int | None, words: str, hangs: bool, verdict: str
) -> None:
    assert judged(code, words, 1.0, hangs=hangs).verdict == verdict


@pytest.mark.slow
def test_a_campaign_kills_a_bug_and_lets_what_is_none_survive(tmp_path: Path) -> None:
    bug = next(mutant for mutant in MUTANTS if mutant.id == "a-person-votes-twice")
    edit = Edit(path=bug.edits[0].path, old="(G7).", new="(G7)!")
    none = replace(bug, id="a-changed-docstring", edits=(edit,))
    elsewhere = replace(none, tests=("tests/core/test_decide_requests.py::test_that_is_not",))
    twice = replace(bug, id="not-there-once", edits=(replace(edit, old="request"),))
    mutants = [bug, none, elsewhere, twice]
    before = (ROOT / edit.path).read_text(encoding="utf-8")
    found = Campaign([Copy(tmp_path)]).run(mutants, workers=1)
    assert [each.verdict for each in found] == ["killed", "survived", "unfit", "unfit"]
    assert (ROOT / edit.path).read_text(encoding="utf-8") == before


def _repeated(values: Any) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


def _read(path: Path, text: str) -> None:
    """Have Python, or SQLite, read a changed file; raises what they raise."""
    if path.suffix == ".py":
        parsed(text, path=str(path))
    else:
        assert _prepared(text) == _prepared((ROOT / path).read_text(encoding="utf-8"))


def _prepared(queries: str) -> dict[str, int]:
    """Have SQLite read each query; give how many values each takes."""
    found = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        sqlite_opening.migrate(connection, after=0)
        for name, statement in sqlite_opening._queries(queries).items():
            found[name] = statement.count("?")
            if name != "create_meta":  # It is there already.
                connection.execute(f"EXPLAIN {statement}", [""] * found[name])
    return found


def _tests_in(file: str) -> set[str]:
    """Name the tests of a file as pytest does, those that its classes inherit among them."""
    path = ROOT / file
    tree = parsed(path.read_text(encoding="utf-8"), path=file)
    found = {f"{file}::{name}" for name in _functions(tree.body)}
    modules = {
        alias.name: ROOT / f"{node.module.replace('.', '/')}.py"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests.")
        for alias in node.names
    }
    for made in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names = _functions(made.body)
        for base in made.bases:
            if isinstance(base, ast.Name) and base.id in modules:
                there = modules[base.id]
                other = parsed(there.read_text(encoding="utf-8"), path=str(there))
                for node in other.body:
                    if isinstance(node, ast.ClassDef) and node.name == base.id:
                        names |= _functions(node.body)
        found |= {f"{file}::{made.name}::{name}" for name in names}
    return found


def _functions(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}
