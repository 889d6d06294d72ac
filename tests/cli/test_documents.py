"""What the commands print, held to docs/reference/cli.md; and what a quick one must not load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import placet.runtime.audit
from placet.cli.main import COMMANDS, main
from placet.cli.output import MEANINGS, Exit
from placet.cli.slash import FORMS
from tests.cli.place import LEGACY, Place, do
from tests.tidy import ROOT

PAGE = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def rows(heading: str) -> list[list[str]]:
    """Give the cells of the table under a heading of the page."""
    part = PAGE.partition(f"# {heading}\n")[2].partition("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def documented(command: str) -> set[str]:
    """Give the fields of a command's document: those outside of parentheses."""
    (cell,) = [row[1] for row in rows("JSON") if command in names(row[0])]
    listed, _, beside = cell.partition(": of each")
    beside = beside.partition("; and ")[2]
    return set(names(re.sub(r"\([^)]*\)", "", listed + beside)))


# --- the page -------------------------------------------------------------------------------------


def test_the_page_says_every_exit_code() -> None:
    said = {int(code): text for code, text in rows("Exit codes")}

    assert said == {int(code): MEANINGS[code] for code in Exit}


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        found = main.get_command(click.Context(main), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in found.commands.items())
        else:
            yield name, found


def test_the_page_says_every_command_and_what_it_takes() -> None:
    said = {re.split(r" [-\[A-Z]", names(row[0])[0])[0]: " ".join(row) for row in rows("Commands")}
    shared = {"--store", "--json", "--lang", "--session", "--digest", "--token-file", "--yes"}

    assert set(said) == set(dict(commands()))
    for name, command in commands():
        options = {
            option
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for option in parameter.opts
        }
        for option in options - shared:
            assert option in said[name], f"{name} {option}"


def test_the_page_of_the_chat_says_what_can_be_said_to_it() -> None:
    page = (ROOT / "docs/how-to/chat.md").read_text(encoding="utf-8").replace(r"\|", "¦")
    part = page.partition("## Speak to the chat\n")[2].partition("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    said = [(names(form)[0].replace("¦", "|"), what) for form, what in cells]
    assert said == list(FORMS.values())


def test_every_command_takes_json_store_and_language_after_its_name() -> None:
    for name, command in commands():
        options = {option for parameter in command.params for option in parameter.opts}
        assert name == "demo" or {"--json", "--lang", "--store"} <= options, name


def test_the_page_says_every_code_of_a_finding() -> None:
    source = Path(placet.runtime.audit.__file__).read_text(encoding="utf-8")
    used = set(re.findall(r'(?:_find\w*\(\s*|code=)"(\w+)"', source))

    assert used == {code for row in rows("What `audit verify` finds") for code in names(row[0])}


# --- documents ------------------------------------------------------------------------------------


def test_a_request_has_the_fields_that_the_page_says(place: Place) -> None:
    run, request = place.waiting()

    (listed,) = do("inbox", "--json").document["requests"]
    shown = do("--json", "show", request).document

    said = {field for row in rows("A request") for field in names(row[0])}
    assert set(listed) == said | {"effect", "cost", "may_decide"}
    assert set(shown) == said | documented("show")
    assert set(listed) >= LEGACY
    assert listed["approval_id"] == listed["request_id"] == request
    assert (listed["run_id"], listed["checkpoint_id"]) == (run, f"{run}.1")
    assert listed["permission_scope"] == ["payments:refund"]
    assert listed["status"] == "waiting"
    assert listed["tool_call_id"]
    assert len(listed["action_digest"]) == 64
    assert listed["created_at"].endswith("Z")
    assert shown["card"]["arguments"] == [
        {"name": "order_id", "shown": '"A-1"'},
        {"name": "amount", "shown": "129"},
    ]


def test_the_other_documents_have_the_fields_that_the_page_says(place: Place) -> None:
    run, request = place.waiting()
    approved = do("approve", request, "--json", by="ana").document
    made: dict[str, Any] = {
        "end": do("end", "main", "--json").document,
        "run": do("run", "--agent", "shop", "--session", "2", "go", "--json").document,
        "worker --once": do("worker", "--once", "--json").document,
        "runs": do("runs", "--json").document,
        "audit verify": do("audit", "verify", "--json").document,
        "audit export": json.loads(do("audit", "export").out.splitlines()[0]),
        "export": do("export", "--layout", "files", "out", "--json").document,
        "import": do("import", "--layout", "files", "out", "--json").document,
        "doctor": do("doctor", "--json").document,
        "token": do("token", "eve", "--json").document,
    }

    for command, document in made.items():
        said = documented(command) - {"--once", "happening", "id", "detail"}
        assert set(document) == said, command
    said_of_requests = {field for row in rows("A request") for field in names(row[0])}
    assert set(approved) == said_of_requests | {"by", "via", "code", "told", "card"}
    assert made["runs"]["runs"][-1]["run_id"] == run
    cell = next(row[1] for row in rows("JSON") if "`runs`" in row[0])
    assert set(made["runs"]["runs"][0]) == set(names(cell)) - {"runs", "more"}
    assert do("cancel", made["run"]["run_id"], "--json").document["stop"] == "cancelled"


def instants(document: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Give every instant of a document, with the name that it stands under."""
    match document:
        case dict():
            for key, part in document.items():
                yield from instants(part, key)
        case list():
            for part in document:
                yield from instants(part, name)
        case str() if re.match(r"\d{4}-\d\d-\d\dT", document):
            yield name, document


@pytest.mark.promise("D7")
def test_every_instant_of_every_document_is_written_alike(place: Place) -> None:
    _, request = place.waiting()
    always = ("--always", "session", "--any", "order_id,amount")
    documents = [
        do("inbox", "--json").document,
        do("show", request, "--json").document,
        do("approve", request, *always, "--json", by="ana").document,
        do("grants", "--session", "main", "--json").document,
        do("runs", "--json").document,
        do("worker", "--once", "--json").document,
        do("audit", "verify", "--json").document,
        *map(json.loads, do("audit", "export").out.splitlines()),
        *map(json.loads, do("audit", "export", "--format", "agentack").out.splitlines()),
        do("fatigue", "--json").document,
        do("doctor", "--json").document,
        do("end", "main", "--json").document,
    ]

    found = list(instants(documents))

    assert {"created_at", "deadline_at", "opened_at", "started_at", "until", "at"} <= {
        name for name, _ in found
    }
    assert [(name, at) for name, at in found if not re.fullmatch(r"[0-9T:.-]+Z", at)] == []


def test_documents_are_one_line_of_ascii(place: Place) -> None:
    do("run", "--agent", "shop", "--session", "séance \u202e", "go")

    out = do("inbox", "--json").out

    assert out.isascii()
    assert out.count("\n") == 1
    assert json.loads(out)["requests"][0]["session"] == "séance \u202e"


@pytest.mark.promise("H2")
def test_what_people_read_shows_hidden_characters(place: Place) -> None:
    do("run", "--agent", "shop", "--session", "a\u202eb\x1b[31m", "go")

    for words in (("inbox",), ("runs",), ("audit", "verify")):
        text = do(*words).out
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "a⟦U+202E⟧b⟦U+001B⟧[31m" in text


# --- what is loaded -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, ends",
    [
        ("approve {}", "0"),
        pytest.param("show {}", "0", marks=pytest.mark.slow),
        ("inbox", "0"),
        pytest.param("answer {} yes", "3", marks=pytest.mark.slow),
    ],
)
def test_a_decision_loads_no_agent_no_model_and_nothing_heavy(
    place: Place, line: str, ends: str
) -> None:
    _, request = place.waiting()
    program = (
        "import sys\n"
        "from placet.cli.main import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    print(end.code, *sys.modules, file=sys.stderr)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *line.format(request).split()],
        env=place.environment(by="ana"),
        capture_output=True,
        text=True,
        check=True,
    )

    code, *loaded = done.stderr.splitlines()[-1].split()
    assert code == ends
    assert not {"pydantic", "openai", "httpx2", "placet.client", "placet.runtime.gate"} & set(
        loaded
    )
    assert not [name for name in loaded if name.startswith("placet.agent")]


def test_help_is_there_for_every_command() -> None:
    for name, _ in commands():
        if name != "demo":
            assert do(*name.split(), "--help").out.startswith(f"Usage: placet {name} ")
    assert do("--version").out.startswith("placet 0.")
