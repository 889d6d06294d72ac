"""The rules of CONTRIBUTING.md that a machine can hold: functions from source files to findings.

A finding reads `path:line: what is wrong: what to do`. Rules read syntax trees and never import the
code. tests/test_tidy.py applies them to the project, and shows for each that it can fail.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.trees import parsed
from tests.vocabulary import BANNED, BANNED_IN_CORE, EXEMPT

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("src", "tests", "tools", "bench", "examples", "docs_src")

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = 100
MIN_DOCSTRING_WORDS = 3
MIN_REASON_WORDS = 2

GRAB_BAGS = frozenset({"base", "common", "helper", "helpers", "misc", "util", "utils"})

EDGES = ("adapters", "channels", "cli", "web")
LAYERS = {
    "core": frozenset({"core"}),
    "stores": frozenset({"core", "stores"}),
    "policy": frozenset({"core", "policy"}),
    "runtime": frozenset({"core", "policy", "stores", "runtime"}),
    "agent": frozenset({"core", "runtime", "agent"}),
    "settings": frozenset({"core", "settings"}),
    "api": frozenset({"core", "policy", "stores", "runtime", "agent", "settings", "api"}),
    **{
        edge: frozenset({"core", "policy", "stores", "runtime", "agent", "settings", "api", edge})
        for edge in EDGES
    },
    "demo": frozenset({"core", "stores", "runtime", "agent", "settings", "api", "demo"}),
}
"""What each may import (docs/internals/design.md, section 3). `api` is `placet/*.py` itself."""
LAYERS["cli"] |= {"demo"}

#: What goes up all the same, and why: the module, and what it imports when it is called.
UP_ALL_THE_SAME = {
    ("placet.client", "placet.adapters.functions"): "`Placet.guard` is that adapter's own door",
}

#: Who may enter a tool's body: the one door, and what takes up what went wrong behind it (G2).
BODIES = "placet.runtime.bodies"
ENTERS = frozenset({"attempt", "probe", "way_back"})
DOORS = frozenset({"placet.runtime.gate", "placet.runtime.recovering"})

#: Who makes a body of another one, which the gate enters.
GIVE_BODIES = frozenset({"placet.adapters.functions"})

VOCABULARY_LAYERS = frozenset({"core", "policy", "stores", "runtime", "api", "settings"})

THIRD_PARTY_IN_CORE = frozenset({"rfc8785"})
IMPURE_MODULES = frozenset(
    "asyncio builtins concurrent contextvars http importlib io logging multiprocessing os pathlib"
    " random secrets select shutil signal socket sqlite3 ssl subprocess tempfile threading time"
    " uuid warnings".split()
)
IMPURE_CALLS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})
CLOCK_READS = frozenset({"now", "today", "utcnow"})

_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_IGNORE = re.compile(r"#\s*type:\s*ignore(?P<codes>\[[\w\-, ]+\])?(?P<rest>.*)")
_NOQA = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?(?P<rest>.*)")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.text, path=self.path)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of the module's name: those of the path below `src`, without `__init__`."""
        parts = Path(self.path).with_suffix("").parts
        parts = parts[1:] if parts[0] == "src" else parts
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def module(self) -> str:
        return ".".join(self.parts)

    @property
    def layer(self) -> str | None:
        """The layer of a module of placet, else None."""
        return layer_of(self.module) if self.path.startswith("src/placet/") else None

    def at(self, line: int, wrong: str, todo: str) -> str:
        return f"{self.path}:{line}: {wrong}: {todo}"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, and whether importing the file imports it too."""

    target: str
    line: int
    eager: bool


def load(root: Path) -> list[Source]:
    """Read every Python file that the rules are for."""
    paths = sorted(path for folder in CHECKED for path in (root / folder).rglob("*.py"))
    return [Source(str(path.relative_to(root)), path.read_text(encoding="utf-8")) for path in paths]


def layer_of(module: str) -> str:
    """Give the layer of a module's name; `placet` itself and what lies beside it are the `api`."""
    parts = module.split(".")
    if parts[1:] == ["__main__"]:
        return "cli"
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "api"


# --- size


def files_are_short(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        count = len(source.text.splitlines())
        if count > MAX_FILE_LINES:
            yield source.at(
                1, f"{count} lines, above {MAX_FILE_LINES}", "split it by what it holds"
            )


def functions_are_short(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        if source.layer is None:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > MAX_FUNCTION_LINES:
                    wrong = f"{node.name} has {count} lines, above {MAX_FUNCTION_LINES}"
                    yield source.at(node.lineno, wrong, "keep the branches, move out the leaves")


def lines_fit(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), start=1):
            if len(line) > MAX_COLUMNS:
                yield source.at(
                    number, f"{len(line)} columns, above {MAX_COLUMNS}", "break the line"
                )


# --- names and words


def modules_say_what_they_are_for(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        words = (ast.get_docstring(source.tree) or "").split()
        if len(words) < MIN_DOCSTRING_WORDS:
            wrong = f"the module's docstring has {len(words)} words"
            yield source.at(1, wrong, "say what it is for and what it must not do")


def no_module_is_a_grab_bag(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        for part in set(source.parts) & GRAB_BAGS:
            yield source.at(1, f"a module named {part!r}", "name it for what it holds")


def nothing_is_left_unfinished(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        if source.layer is None:
            continue
        for number, line in enumerate(source.text.splitlines(), start=1):
            if found := _UNFINISHED.search(line):
                yield source.at(number, f"{found[0]} in the source", "do it, or file an issue")


def names_use_the_words(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        if source.layer not in VOCABULARY_LAYERS:
            continue
        banned = {**BANNED, **BANNED_IN_CORE} if source.layer == "core" else BANNED
        for name, line in defined_names(source.tree):
            words = words_of(name)
            for bad, good in banned.items():
                if _holds(words, bad) and (source.path, name) not in EXEMPT:
                    wrong = f"the name {name!r} says {' '.join(bad)!r}"
                    yield source.at(line, wrong, f"say {good!r}")


def ignores_have_reasons(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        for line, comment in _comments(source):
            for pattern, name in ((_IGNORE, "type: ignore"), (_NOQA, "noqa")):
                found = pattern.search(comment)
                if found is None:
                    continue
                if not found["codes"]:
                    yield source.at(line, f"a bare `{name}`", "name its code")
                elif len(re.findall(r"\w+", found["rest"])) < MIN_REASON_WORDS:
                    yield source.at(line, f"`{name}` without a reason", "say why, after the code")


# --- shape


def imports_go_down(sources: Sequence[Source]) -> Iterator[str]:
    known = modules_in(sources)
    for source in sources:
        if source.layer is None:
            continue
        for found in imports_of(source.tree, known):
            if found.target.split(".")[0] != "placet":
                continue
            layer = layer_of(found.target)
            if (source.module, found.target) in UP_ALL_THE_SAME:
                continue
            if layer not in LAYERS[source.layer]:
                wrong = f"{source.layer} imports {found.target}, of {layer}"
                allowed = ", ".join(sorted(LAYERS[source.layer]))
                yield source.at(found.line, wrong, f"imports go down; here only: {allowed}")


def bodies_have_one_door(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        if source.layer is None or source.module in DOORS | {BODIES}:
            continue
        for node in ast.walk(source.tree):
            entered: set[str] = set()
            line = 0
            match node:
                case ast.ImportFrom(module=module, lineno=line) if module == BODIES:
                    entered = {alias.name for alias in node.names} & ENTERS
                case ast.Call(func=ast.Attribute(attr="body"), args=[_, _], lineno=line):
                    entered = {"a body"} - ({"a body"} if source.module in GIVE_BODIES else set())
                case _:
                    pass
            for name in sorted(entered):
                wrong = f"{source.module} enters {name}"
                yield source.at(line, wrong, "go through placet.runtime.gate (G2)")


def imports_make_no_cycle(sources: Sequence[Source]) -> Iterator[str]:
    known = modules_in(sources)
    by_module = {source.module: source for source in sources}
    graph = {
        module: {found.target for found in imports_of(source.tree, known) if found.eager} & known
        for module, source in by_module.items()
    }
    # Repeatedly taking away what imports nothing that is left leaves cycles and what leads to them.
    while free := [module for module, targets in graph.items() if not targets & graph.keys()]:
        for module in free:
            del graph[module]
    reported: set[str] = set()
    for start in sorted(graph):
        path = [start]
        while (following := min(graph[path[-1]] & graph.keys())) not in path:
            path.append(following)
        cycle = path[path.index(following) :]
        if not reported & set(cycle):
            reported |= set(cycle)
            wrong = " -> ".join([*cycle, following])
            yield by_module[following].at(1, f"an import cycle {wrong}", "move down what both need")


def core_is_pure(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        if source.layer == "core":
            yield from (source.at(line, wrong, todo) for line, wrong, todo in _impurities(source))


def _impurities(source: Source) -> Iterator[tuple[int, str, str]]:
    for found in imports_of(source.tree, frozenset()):
        top = found.target.split(".")[0]
        if top in IMPURE_MODULES:
            yield found.line, f"core imports {found.target}", "take the value as an argument"
        elif top not in sys.stdlib_module_names | THIRD_PARTY_IN_CORE | {"placet"}:
            yield found.line, f"core imports {found.target}", "leave it to the edges"
    clocks = _names_of_clocks(source.tree)
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield node.lineno, f"core calls {name}()", "leave it to the runtime"
            case ast.Attribute(attr=attr, value=value) if (
                attr in CLOCK_READS and ast.unparse(value).split(".")[0] in clocks
            ):
                yield (
                    node.lineno,
                    f"core reads the clock (.{attr})",
                    "take the instant from the command",
                )
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield node.lineno, "core awaits", "leave it to the runtime"
            case ast.Global():
                yield node.lineno, "core keeps state in a global", "put it into the state"
            case _:
                pass


def _names_of_clocks(tree: ast.Module) -> set[str]:
    """Give the names under which a file knows `datetime`, its classes included."""
    names = {"date", "datetime"}
    for node in ast.walk(tree):
        if (isinstance(node, ast.ImportFrom) and node.module == "datetime") or (
            isinstance(node, ast.Import) and node.names[0].name == "datetime"
        ):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


# --- reading


def modules_in(sources: Sequence[Source]) -> frozenset[str]:
    return frozenset(source.module for source in sources)


def imports_of(tree: ast.Module, known: frozenset[str]) -> Iterator[Import]:
    """Give the imported modules; `from a import b` means `a.b` where that is a known module.

    What only type checkers import, and what functions import when they are called, is not eager.
    """
    calls_for_modules = False
    for node, eager in _import_nodes(tree, eager=True):
        calls_for_modules |= _brings_importlib(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, eager)
        else:
            base = "." * node.level + (node.module or "")
            for name in dict.fromkeys(_submodule(base, alias.name, known) for alias in node.names):
                yield Import(name, node.lineno, eager)
    for call in ast.walk(tree) if calls_for_modules else ():
        match call:
            case ast.Call(
                func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield Import(name, call.lineno, eager=False)
            case _:
                pass


def _brings_importlib(node: ast.Import | ast.ImportFrom) -> bool:
    names = [alias.name for alias in node.names]
    return "importlib" in [name.partition(".")[0] for name in [*names, getattr(node, "module", "")]]


def _submodule(base: str, name: str, known: frozenset[str]) -> str:
    inner = f"{base}.{name}"
    return inner if inner in known or (base == "placet" and name in LAYERS) else base


def _import_nodes(
    node: ast.AST, *, eager: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import() | ast.ImportFrom():
                yield child, eager
            case ast.expr():  # In an expression nothing is imported.
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _import_nodes(child, eager=False)
            case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test):
                yield from _import_nodes(child, eager=False)
            case _:
                yield from _import_nodes(child, eager=eager)


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Give the names of classes, functions, parameters, attributes of classes, and constants."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node.lineno
                given = node.args
                rest = [arg for arg in (given.vararg, given.kwarg) if arg is not None]
                for arg in [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]:
                    yield arg.arg, arg.lineno
            case ast.ClassDef():
                yield node.name, node.lineno
                yield from _assigned(node.body)
            case ast.Module():
                yield from _assigned(node.body)
            case _:
                pass


def _assigned(body: Sequence[ast.stmt]) -> Iterator[tuple[str, int]]:
    for statement in body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement.lineno
            case ast.Assign(targets=targets):
                names = (inner for target in targets for inner in ast.walk(target))
                yield from ((name.id, name.lineno) for name in names if isinstance(name, ast.Name))
            case _:
                pass


def words_of(name: str) -> tuple[str, ...]:
    """Split a snake or camel name into lower-case words in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(name))


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _holds(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    part = tuple(_singular(word) for word in part)
    starts = range(len(words) - len(part) + 1)
    return any(words[start : start + len(part)] == part for start in starts)


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    if "ignore" not in source.text and "noqa" not in source.text:
        return  # Taking a file apart takes long, and most hold neither.
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


RULES = (
    files_are_short,
    functions_are_short,
    lines_fit,
    modules_say_what_they_are_for,
    no_module_is_a_grab_bag,
    nothing_is_left_unfinished,
    names_use_the_words,
    ignores_have_reasons,
    imports_go_down,
    bodies_have_one_door,
    imports_make_no_cycle,
    core_is_pure,
)
