"""Reads which tests carry which numbered marks, from the source, without collecting a test.

Knows nothing of what the numbers mean: tests/test_guarantees.py and tests/test_conformance.py do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from tests.trees import parsed

ROOT = Path(__file__).resolve().parent.parent
NOT_RUNNING = frozenset({"skip", "xfail"})


class Listed(Protocol):
    """A row of a table of promises or behaviours."""

    @property
    def id(self) -> object: ...
    @property
    def planned_issue(self) -> int | None: ...
    @property
    def completed_by(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark as written: where, its arguments, and whether a test that runs carries it."""

    where: str
    ids: tuple[object, ...]
    literal: bool
    carried: bool


def sources() -> dict[str, str]:
    """Give the text of every test file, by its path from the root."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def scan(files: Mapping[str, str], *, mark: str) -> list[Mark]:
    """Give every `pytest.mark.<mark>(...)` in the files."""
    return [found for path, text in files.items() for found in _scan(path, text, mark=mark)]


def findings(
    rows: Sequence[Listed], marks: Sequence[Mark], *, open_issues: frozenset[int]
) -> list[str]:
    """Give what is wrong between a table and the marks, each as one line."""
    known = {row.id for row in rows}
    borne = {id_ for mark in marks if mark.carried for id_ in mark.ids}
    found = [f"{row.id}: listed twice" for row in _repeated(rows)]
    for mark in marks:
        if not mark.literal or not mark.ids:
            found.append(f"{mark.where}: the mark's ids are not literals: write them out")
        if not mark.carried:
            found.append(f"{mark.where}: no test that runs carries this mark: put it on one")
        found.extend(
            f"{mark.where}: {id_!r} is not in the table" for id_ in mark.ids if id_ not in known
        )
    for row in rows:
        if row.planned_issue is None and row.id not in borne:
            found.append(f"{row.id}: no test bears it: write one, or name the issue that brings it")
        if row.planned_issue is not None and row.completed_by is not None:
            found.append(f"{row.id}: planned and begun at once: keep one")
        for issue in (row.planned_issue, row.completed_by):
            if issue is not None and issue not in open_issues:
                found.append(f"{row.id}: waits for issue {issue}, which is not open: complete it")
    return found


def _repeated(rows: Sequence[Listed]) -> Iterator[Listed]:
    seen: set[object] = set()
    for row in rows:
        if row.id in seen:
            yield row
        seen.add(row.id)


def _scan(path: str, text: str, *, mark: str) -> Iterator[Mark]:
    if mark not in text:
        return
    tree = _parsed(path, text)
    carried = {call for carrier in _carriers(tree.body) for call in _calls(carrier, mark=mark)}
    for call in _calls([tree], mark=mark):
        constants = [arg for arg in call.args if isinstance(arg, ast.Constant)]
        yield Mark(
            where=f"{path}:{call.lineno}",
            ids=tuple(constant.value for constant in constants),
            literal=len(constants) == len(call.args) and not call.keywords,
            carried=call in carried,
        )


@cache
def _parsed(path: str, text: str) -> ast.Module:
    return parsed(text, path=path)


def _carriers(body: Iterable[ast.stmt]) -> Iterator[list[ast.expr]]:
    """Give the expressions that put marks on tests: decorators, and `pytestmark = ...`."""
    body = list(body)
    has_tests = any(_is_test(statement) for statement in body)
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if _is_test(statement):
                yield list(statement.decorator_list)
                if isinstance(statement, ast.ClassDef):
                    yield from _carriers(statement.body)
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value) if has_tests:
                yield [value]
            case _:
                pass


def _is_test(statement: ast.stmt) -> bool:
    match statement:
        case (
            ast.FunctionDef(name=name, decorator_list=decorators)
            | ast.AsyncFunctionDef(name=name, decorator_list=decorators)
        ):
            return name.startswith("test_") and not _skipped(decorators)
        case ast.ClassDef(name=name, decorator_list=decorators, body=body):
            holds = any(_is_test(inner) for inner in body)
            return name.startswith("Test") and holds and not _skipped(decorators)
        case _:
            return False


def _skipped(decorators: Iterable[ast.expr]) -> bool:
    """Say whether a decorator is `pytest.mark.skip` or `xfail`; `skipif` may still run."""
    bare = [item.func if isinstance(item, ast.Call) else item for item in decorators]
    return any(isinstance(item, ast.Attribute) and item.attr in NOT_RUNNING for item in bare)


def _calls(nodes: Iterable[ast.AST], *, mark: str) -> Iterator[ast.Call]:
    for node in nodes:
        for inner in ast.walk(node):
            match inner:
                case ast.Call(func=ast.Attribute(attr=attr, value=ast.Attribute(attr="mark"))):
                    if attr == mark:
                        yield inner
                case _:
                    pass
