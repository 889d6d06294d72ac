"""Holds the project to the rules of tests/tidy.py, and each rule to snippets it must catch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from tests import tidy
from tests.tidy import ROOT, RULES, Source
from tests.vocabulary import EXEMPT

Rule = Callable[[Sequence[Source]], Iterator[str]]

HEAVY = frozenset(
    "anthropic cryptography fastapi httpx httpx2 langgraph mcp openai psycopg pydantic"
    " starlette".split()
)
LIGHT_MODULES = {
    "placet": "src/placet/__init__.py",
    "placet.core": "src/placet/core/__init__.py",
    "placet.stores.sqlite": "src/placet/stores/sqlite.py",
    "placet.cli.main": "src/placet/cli/main.py",
}

CORE = "src/placet/core/made_up.py"
RUNTIME = "src/placet/runtime/made_up.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Files that a rule must find fault with (or none), and words of its finding."""

    rule: Rule
    files: dict[str, str]
    says: str


def bad(rule: Rule, path: str, text: str, says: str) -> Case:
    return Case(rule=rule, files={path: text}, says=says)


def cycle(first: str, second: str) -> dict[str, str]:
    return {"src/placet/core/a.py": first, "src/placet/core/b.py": second}


LONG_FUNCTION = "def f():\n" + "    pass\n" * 70

BAD = [
    bad(tidy.files_are_short, CORE, "x = 1\n" * 501, ":1: 501 lines"),
    bad(tidy.files_are_short, "tests/test_x.py", "x = 1\n" * 501, ":1: 501 lines"),
    bad(tidy.functions_are_short, CORE, LONG_FUNCTION, ":1: f has 71 lines"),
    bad(tidy.functions_are_short, RUNTIME, f"async {LONG_FUNCTION}", ":1: f has 71 lines"),
    bad(tidy.lines_fit, CORE, "\n#" + "x" * 100, ":2: 101 columns"),
    bad(tidy.modules_say_what_they_are_for, CORE, '"""."""', ":1: the module's docstring"),
    bad(tidy.modules_say_what_they_are_for, CORE, "x = 1", ":1: the module's docstring"),
    bad(tidy.no_module_is_a_grab_bag, "src/placet/core/utils.py", "", "a module named 'utils'"),
    bad(tidy.no_module_is_a_grab_bag, "src/placet/base/x.py", "", "a module named 'base'"),
    bad(tidy.nothing_is_left_unfinished, CORE, "x = 1\n# TODO later", ":2: TODO"),
    bad(tidy.nothing_is_left_unfinished, CORE, '"""FIXME"""', ":1: FIXME"),
    bad(tidy.names_use_the_words, CORE, "class TicketStore: ...", "say 'request'"),
    bad(tidy.names_use_the_words, CORE, "def f(*, ttl_seconds): ...", "say 'deadline'"),
    bad(tidy.names_use_the_words, CORE, "class A:\n    org_id: str", ":2: the name 'org_id'"),
    bad(tidy.names_use_the_words, CORE, "class A(Enum):\n    VERDICT = 1", "say 'ruling'"),
    bad(tidy.names_use_the_words, CORE, "def thread(): ...", "say 'session'"),
    bad(tidy.names_use_the_words, RUNTIME, "def close_jobs(): ...", "say 'run'"),
    bad(tidy.names_use_the_words, RUNTIME, "MAX_REVIEWERS = 3", "say 'approver'"),
    bad(tidy.names_use_the_words, "src/placet/api.py", "AlwaysApprove = 1", "say 'grant'"),
    bad(tidy.ignores_have_reasons, CORE, "x = 1  # type: ignore", ":1: a bare `type: ignore`"),
    bad(tidy.ignores_have_reasons, CORE, "x = 1  # type: ignore[misc]", "without a reason"),
    bad(tidy.ignores_have_reasons, CORE, "x = 1  # noqa", "a bare `noqa`"),
    bad(tidy.ignores_have_reasons, "tests/test_x.py", "x = 1  # noqa: E501", "without a reason"),
    bad(tidy.imports_go_down, CORE, "import placet.runtime.gate", "core imports placet.runtime"),
    bad(tidy.imports_go_down, CORE, "from placet import stores", "core imports placet.stores"),
    bad(tidy.imports_go_down, CORE, "def f():\n    from placet import Placet", ":2: core imports"),
    bad(tidy.imports_go_down, "src/placet/stores/x.py", "import placet.runtime", "stores imports"),
    bad(tidy.imports_go_down, RUNTIME, "from placet.agent.loop import x", "runtime imports"),
    bad(tidy.imports_go_down, RUNTIME, "from placet.settings import x", "runtime imports"),
    bad(
        tidy.imports_go_down,
        "src/placet/agent/x.py",
        "import placet.stores.sqlite",
        "agent imports",
    ),
    bad(tidy.imports_go_down, "src/placet/api.py", "import placet.cli.main", "api imports"),
    bad(tidy.imports_go_down, "src/placet/web/x.py", "import placet.cli.main", "web imports"),
    bad(
        tidy.imports_go_down,
        "src/placet/api.py",
        "import importlib\nimportlib.import_module('placet.adapters.functions')",
        ":2: api imports placet.adapters.functions",
    ),
    bad(
        tidy.bodies_have_one_door,
        "src/placet/agent/side.py",
        "from placet.runtime.bodies import attempt, described",
        "placet.agent.side enters attempt: go through placet.runtime.gate",
    ),
    bad(
        tidy.bodies_have_one_door,
        "src/placet/agent/side.py",
        "async def f(tool):\n    await tool.body({}, '')",
        ":2: placet.agent.side enters a body",
    ),
    bad(tidy.core_is_pure, CORE, "import time", ":1: core imports time"),
    bad(tidy.core_is_pure, CORE, "from os.path import join", "core imports os.path"),
    bad(tidy.core_is_pure, CORE, "def f():\n    import random", ":2: core imports random"),
    bad(tidy.core_is_pure, CORE, "import pydantic", "core imports pydantic"),
    bad(tidy.core_is_pure, CORE, "x = datetime.now(UTC)", "reads the clock (.now)"),
    bad(tidy.core_is_pure, CORE, "clock = datetime.utcnow", "reads the clock (.utcnow)"),
    bad(tidy.core_is_pure, CORE, "import datetime as d\nx = d.date.today()", "the clock (.today)"),
    bad(tidy.core_is_pure, CORE, "from datetime import datetime as D\nD.now()", "clock (.now)"),
    bad(tidy.core_is_pure, CORE, "open('x')", "core calls open()"),
    bad(tidy.core_is_pure, CORE, "print('x')", "core calls print()"),
    bad(tidy.core_is_pure, CORE, "async def f(): ...", "core awaits"),
    bad(tidy.core_is_pure, CORE, "def f():\n    global x\n    x = 1", "in a global"),
    Case(
        rule=tidy.imports_make_no_cycle,
        files=cycle("import placet.core.b", "from placet.core import a"),
        says="placet.core.a -> placet.core.b -> placet.core.a",
    ),
    Case(
        rule=tidy.imports_make_no_cycle,
        files=cycle("try:\n    from placet.core.b import x\nfinally: ...", "import placet.core.a"),
        says="move down what both need",
    ),
]

GOOD = [
    bad(tidy.files_are_short, CORE, "x = 1\n" * 500, ""),
    bad(tidy.functions_are_short, CORE, LONG_FUNCTION.removesuffix("    pass\n"), ""),
    bad(tidy.lines_fit, CORE, "#" + "x" * 99, ""),
    bad(tidy.names_use_the_words, RUNTIME, "def f(lock, thread): ...", ""),
    bad(tidy.names_use_the_words, CORE, "def organ(jobber, ticking, blocked): ...", ""),
    bad(tidy.names_use_the_words, "src/placet/agent/x.py", "workspace = 1", ""),
    bad(tidy.ignores_have_reasons, CORE, "x = 1  # type: ignore[misc]  # the stub is wrong", ""),
    bad(tidy.ignores_have_reasons, CORE, "x = '# type: ignore'", ""),
    bad(tidy.imports_go_down, RUNTIME, "from placet.core import digest\nimport placet.stores", ""),
    bad(tidy.imports_go_down, "src/placet/__main__.py", "from placet.cli.main import main", ""),
    bad(
        tidy.bodies_have_one_door,
        "src/placet/runtime/gate.py",
        "from placet.runtime.bodies import attempt",
        "",
    ),
    bad(tidy.core_is_pure, CORE, "from datetime import datetime, UTC\nimport hashlib", ""),
    bad(tidy.core_is_pure, CORE, "due = command.now >= deadline", ""),
    bad(tidy.core_is_pure, RUNTIME, "import time", ""),
    Case(
        rule=tidy.imports_make_no_cycle,
        files=cycle("import placet.core.b", "if TYPE_CHECKING:\n    import placet.core.a"),
        says="",
    ),
    Case(
        rule=tidy.imports_make_no_cycle,
        files=cycle("import placet.core.b", "def f():\n    import placet.core.a"),
        says="",
    ),
]


@cache
def project() -> Sequence[Source]:
    """Read the project once: the rules only look at it."""
    return tidy.load(ROOT)


#: The rules that take every file apart stand together, so that one process does.
READ_ALL = (tidy.modules_say_what_they_are_for, tidy.imports_make_no_cycle)


@pytest.mark.parametrize(
    "rules",
    [READ_ALL, *((rule,) for rule in RULES if rule not in READ_ALL)],
    ids=lambda rules: ", ".join(rule.__name__ for rule in rules),
)
def test_the_project_keeps_the_rules(rules: tuple[Rule, ...]) -> None:
    found = [finding for rule in rules for finding in rule(project())]

    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.rule.__name__)
def test_a_rule_catches_what_breaks_it(case: Case) -> None:
    found = findings(case)

    assert len(found) == 1
    assert case.says in found[0]
    assert found[0].count(": ") >= 2


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.rule.__name__)
def test_a_rule_leaves_alone_what_keeps_it(case: Case) -> None:
    assert findings(case) == []


def test_every_rule_has_a_snippet_that_breaks_it() -> None:
    assert {case.rule for case in BAD} == set(RULES)


def test_the_rules_see_the_project() -> None:
    layers = {source.layer for source in project()}

    assert layers >= {"core", "stores", "runtime", "agent", "cli", None}


def test_every_exemption_has_a_reason_and_a_use() -> None:
    named = {path for path, _ in EXEMPT}
    defined = {
        (source.path, name)
        for source in project()
        if source.path in named
        for name, _ in tidy.defined_names(source.tree)
    }

    assert EXEMPT.keys() <= defined
    assert all(reason.strip() for reason in EXEMPT.values())


@pytest.mark.parametrize("module", LIGHT_MODULES)
def test_the_hot_path_imports_nothing_heavy(module: str) -> None:
    if not (ROOT / LIGHT_MODULES[module]).exists():
        pytest.skip(f"{LIGHT_MODULES[module]} does not exist yet")

    assert loaded_by(f"import {module}") & HEAVY == set()


def test_a_heavy_import_is_seen() -> None:
    assert loaded_by("import placet.core, pydantic") & HEAVY == {"pydantic"}


def loaded_by(statement: str) -> set[str]:
    """Give the top-level names of all modules that a fresh interpreter has after the statement."""
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{statement}\n"
    done = subprocess.run(
        [sys.executable, "-c", program + "print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


def findings(case: Case) -> list[str]:
    return list(case.rule([Source(path, text) for path, text in case.files.items()]))
