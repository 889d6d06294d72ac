"""Holds the pages to the code: links resolve, code is run, tables and texts are the source's."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import click
import pytest

from examples import payment_tools
from placet import IdempotencyKey, Placet, ScriptedModel
from placet.agent.agent import Agent
from placet.agent.models.scripted import raw_call, say
from placet.agent.tools import Tool
from placet.cli.identity import TOKEN
from placet.cli.main import COMMANDS, main
from placet.cli.output import Given
from placet.core import wording
from placet.core.deciding_effects import MOST_DEPTH
from placet.core.errors import NotPermitted
from placet.core.state import Open, Request
from placet.core.values import CallCode, Needs, Occurrence, StopReason
from placet.settings import Settings, current_account
from tests.tidy import ROOT

PAGES = tuple(sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
OURS = tuple(page for page in PAGES if page.name not in ("design.md", "CHANGELOG.md"))

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(
    r"<!-- code:begin (\S+): ([^\n]+) -->\n```python\n(.*?)```\n<!-- code:end -->", re.DOTALL
)
_PART = re.compile(r"^# Shown: ([^\n]+)\.\n(.*?)(?=^# Shown)", re.M | re.DOTALL)
_COMMAND = re.compile(r"(?:^\$ |`)placet ([a-z]+)", re.MULTILINE)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page: str, heading: str) -> list[list[str]]:
    """Give the cells of the table under a heading, without its head."""
    part = read(page).partition(f"{heading}\n")[2].partition("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# --- links and commands ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {target}"
        assert there.is_relative_to(ROOT), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(there), f"{name_of(page)}: {target}"


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_a_page_names_only_commands_that_there_are(page: Path) -> None:
    named = set(_COMMAND.findall(page.read_text(encoding="utf-8")))

    assert named <= set(COMMANDS)


CONSOLE_LINES = sorted(
    {
        line.removeprefix("$ ")
        for page in OURS
        for block in re.findall(
            r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        )
        for line in block.splitlines()
        if line.startswith("$ placet ")
    }
)


@pytest.mark.parametrize("line", CONSOLE_LINES)
def test_a_command_line_of_the_pages_is_understood(line: str) -> None:
    _, name, *given = shlex.split(line)
    if find_spec(f"placet.cli.{COMMANDS[name]}") is None:
        pytest.skip(f"`placet {name}` is not there yet")
    command = main.commands.get(name) or main.get_command(click.Context(main), name)
    while isinstance(command, click.Group):
        name = given.pop(0)
        command = command.get_command(click.Context(command), name)
    assert command is not None

    command.make_context(name, given, obj=Given(), resilient_parsing=False)


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_a_page_never_promises_exactly_once(page: Path) -> None:
    assert "exactly once" not in " ".join(page.read_text(encoding="utf-8").lower().split())


def test_the_map_names_every_page() -> None:
    mapped = {
        (ROOT / "docs" / target.partition("#")[0]).resolve()
        for target in _LINK.findall(read("docs/index.md"))
    }
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}

    assert pages - {ROOT / "docs/index.md"} <= mapped


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_a_page_installs_an_extra_from_a_clone_for_placet_is_on_no_index(page: Path) -> None:
    installed = re.findall(r"pip install '?([^\s'`]+)", page.read_text(encoding="utf-8"))

    assert [each for each in installed if each.startswith("placet")] == []


# --- settings and limits --------------------------------------------------------------------------

SETTINGS = "docs/reference/settings.md"


def test_the_settings_are_those_of_the_page_with_their_defaults() -> None:
    listed = {row[0].strip("`"): row[2].strip("`") for row in rows(SETTINGS, "# Settings")}
    shown = {(): "(empty)", (current_account(),): "(the account of the process)"}
    defaults = {
        field.name: shown.get(tuple(value) if not isinstance(value, str) else (), str(value))
        if not isinstance(value, str) or not value
        else value
        for field in fields(Settings)
        for value in [getattr(Settings(), field.name)]
    }

    assert listed == defaults


def test_each_variable_of_the_page_sets_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    set_by: dict[str, str] = {}
    for name, variable, *_ in rows(SETTINGS, "# Settings"):
        if variable.startswith("`"):
            value = "zh" if name == "`language`" else "ana"
            found = Settings.load({variable.strip("`"): value})
            assert getattr(found, name.strip("`")) in (value, (value,))
            set_by[name.strip("`")] = variable.strip("`")

    named = {name: f"PLACET_{name.upper()}" for name in set_by}
    assert set_by == {**named, "language": "PLACET_LANG"}
    assert {field.name for field in fields(Settings)} - set(set_by) == {"approver_tokens"}


def test_the_file_of_the_page_is_read(tmp_path: Path) -> None:
    text = re.findall(r"```toml\n(.*?)```", read(SETTINGS), re.DOTALL)[0]
    (tmp_path / "shop.toml").write_text(text, encoding="utf-8")

    found = Settings.load({"PLACET_CONFIG": str(tmp_path / "shop.toml")})

    assert found.approvers == ("ana", "ben")
    assert set(found.approver_tokens) == {"ana"}


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    units = {"hours": 3600, "minutes": 60, "seconds": 1}
    for _, value, where in rows(SETTINGS, "## Limits that are no settings"):
        module, _, constant = where.strip("`").rpartition(".")
        number, unit = value.replace(",", "").split()
        found = getattr(import_module(module), constant)
        expected = timedelta(seconds=int(number) * units[unit]) if unit in units else int(number)
        assert found == expected, where


def test_the_pages_name_the_variable_of_the_token() -> None:
    assert TOKEN in read("docs/how-to/approve.md")


# --- authority ------------------------------------------------------------------------------------


@pytest.mark.promise("G10")
def test_the_pages_say_who_decides_where_those_asked_are_named_no_more(
    open_shop: Callable[..., Placet],
) -> None:
    for page in ("docs/how-to/approve.md", "SECURITY.md"):
        assert "named today take their place" in " ".join(read(page).split())
        assert "and* one of" not in " ".join(read(page).split())
    with open_shop(payment_tools.refund, order="A-42", cents=5_000) as placet:
        (waiting,) = placet.run_sync("shop", "go").waiting
    with Placet.open("sqlite:///placet.db", approvers=["cy"]) as placet:
        with pytest.raises(NotPermitted):
            placet.decide_sync(waiting, "approve", by="ana")
        placet.decide_sync(waiting, "approve", by="cy")
        assert placet.show_sync(waiting).status == "approved"


# --- outcomes -------------------------------------------------------------------------------------

OUTCOMES = "docs/reference/outcomes.md"
DEADLINE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REQUEST = Request(
    id="rq_1",
    kind="approval",
    at=Occurrence("run_1", 1, 0),
    digest="",
    action_ref="",
    tool="refund",
    surface="*",
    order=1,
    version=1,
    needs=Needs(approvers=("{approvers}",)),
    requester="",
    opened_at=DEADLINE,
    deadline_at=DEADLINE,
    rule="",
    policy_version="",
    generation=0,
    state=Open(),
)
SEVERAL = 2

TOLD: dict[str, list[str]] = {
    "rejected": [wording.rejected("{by}", "{reason}")],
    "expired": [wording.expired(REQUEST).replace("2026-01-02 03:04:05", "{deadline}")],
    "unreachable": [
        wording.unreachable(DEADLINE, ["{channels}"]).replace("2026-01-02 03:04:05", "{deadline}")
    ],
    "no_approver": [wording.no_approver("{cause}")],
    "policy_denied": [
        wording.policy_denied("{rule}", "{reason}"),
        wording.no_tools("think").replace("think", "{mode}"),
        wording.too_deep(MOST_DEPTH).replace(str(MOST_DEPTH), "{most}"),
    ],
    "invalid_arguments": [wording.invalid("{detail}")],
    "unknown_tool": [wording.unknown_tool("{tool}", ["{known}"])],
    "interrupted": [
        wording.interrupted("{cause}"),
        wording.settled_not_done("{by}", "{detail}"),
    ],
    "superseded": [wording.superseded()],
    "cancelled": [wording.cancelled("{cause}")],
    "environment_unstable": [
        wording.unstable(["{changed}"]),
        wording.unreadable_environment("{error}"),
    ],
    "tool_failed": [
        wording.failed("{error}", not_done=not_done, attempts=SEVERAL).replace("2", "{attempts}")
        for not_done in (False, True)
    ]
    + [wording.child_ended("{stop}", "{answer}")],
    "tool_failed_and_rolled_back": [
        wording.rolled_back("{error}", attempts=SEVERAL).replace("2", "{attempts}")
    ],
    "tool_failed_and_compensated": [
        wording.compensated("{error}", "{told}", attempts=SEVERAL).replace("2", "{attempts}")
    ],
    "outcome_unknown": [
        wording.outcome_unknown("{cause}"),
        wording.settled_unknown("{by}", "{detail}"),
    ],
    "succeeded": [
        wording.settled_done("{by}", "{result}"),
        wording.edited("{by}", "{changes}", "{result}"),
        wording.answered("{by}", "{answer}"),
    ],
}
NOT_YET = {"call_changed"}


def test_the_texts_of_the_page_are_those_that_the_model_is_told() -> None:
    part = read(OUTCOMES).partition("## Codes and texts")[2].partition("\n## ")[0]
    shown = {
        section.partition("`")[0]: re.findall(r"```text\n(.*?)\n```", section, re.DOTALL)
        for section in part.split("### `")[1:]
    }

    assert shown == TOLD


def test_the_page_has_every_code_and_says_which_do_not_occur_yet() -> None:
    later = read(OUTCOMES).partition("## Not in this release")[2].partition("\n## ")[0]

    assert set(get_args(CallCode)) == TOLD.keys() | NOT_YET
    assert set(re.findall(r"`(\w+)`", later)) == NOT_YET


def test_the_page_has_every_reason_why_a_run_stops() -> None:
    listed = {row[0].strip("`") for row in rows(OUTCOMES, "## Why a run stops")}

    assert listed == set(get_args(StopReason))


# --- code -----------------------------------------------------------------------------------------

GUIDES = {
    "docs/how-to/build-an-agent.md": ["support_agents"],
    "docs/how-to/gate-another-loop.md": ["guarded_refund", "langgraph_refund"],
    "docs/how-to/operate.md": ["post_channel"],
    "docs/how-to/use-built-in-tools.md": ["workspace_tools"],
    "docs/how-to/pay-once.md": ["payments"],
    "docs/how-to/write-a-tool.md": ["payment_tools", "trip"],
    "docs/reference/shell-rules.md": ["shell_rules"],
}


@pytest.mark.parametrize("page", GUIDES)
def test_the_code_of_a_guide_is_the_example_that_is_run(page: str) -> None:
    parts = [
        (where, name, code.strip())
        for where in (f"examples/{example}.py" for example in GUIDES[page])
        for name, code in _PART.findall(read(where))
    ]

    assert [(where, name, code.strip()) for where, name, code in _CODE.findall(read(page))] == parts


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_python_stands_in_guides_alone_and_is_code_that_is_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if not page.name.startswith("README"):  # tests/test_readme.py holds these.
        assert text.count("```python") == len(_CODE.findall(text))
        assert bool(_CODE.findall(text)) == (name_of(page) in GUIDES)


# --- the guide's tools ----------------------------------------------------------------------------


@pytest.fixture
def open_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Placet]:
    """Open a store in an empty directory, with an agent that makes one call of a guide's tool."""
    monkeypatch.chdir(tmp_path)

    def opened(tool: Tool, **arguments: object) -> Placet:
        proposed = raw_call(tool.__name__, json.dumps(arguments))
        model = ScriptedModel([proposed, say("done")])
        agent = Agent(name="shop", model=model, tools=[tool])
        return Placet.open("sqlite:///placet.db", agents=[agent], approvers=["ana"])

    return opened


def results(placet: Placet, run_id: str) -> list[str]:
    rows = placet.engine.store.transcript("main", "main", run_id)
    return [row.body for row in rows if row.kind == "result"]


def payments() -> list[int]:
    bank = sqlite3.connect("bank.db")
    try:
        return [cents for (cents,) in bank.execute("SELECT cents FROM payments")]
    finally:
        bank.close()


def test_the_read_of_the_guide_asks_nobody(open_shop: Callable[..., Placet]) -> None:
    with open_shop(payment_tools.order_status, order="A-42") as placet:
        assert placet.run_sync("shop", "go").stop == "final"


@pytest.mark.parametrize("cents, stop", [(4_999, "final"), (5_000, "approval_required")])
def test_the_refund_of_the_guide_asks_from_fifty_dollars_on(
    open_shop: Callable[..., Placet], cents: int, stop: str
) -> None:
    with open_shop(payment_tools.refund, order="A-42", cents=cents) as placet:
        result = placet.run_sync("shop", "go")
        assert result.stop == stop
        if result.waiting:
            placet.decide_sync(result.waiting[0], "approve", by="ana")
            assert placet.resume_sync(result.run_id).stop == "final"
        assert payments() == [cents]


def test_the_refund_of_the_guide_says_that_it_was_not_done(
    open_shop: Callable[..., Placet],
) -> None:
    Path("bank-is-closed").touch()
    with open_shop(payment_tools.refund, order="A-42", cents=1) as placet:
        result = placet.run_sync("shop", "go")
        (told,) = results(placet, result.run_id)
        assert told.startswith("Failed after 3 attempts: NotDone: the bank is closed\n")


def test_the_refund_of_the_guide_pays_once_for_one_key(open_shop: Callable[..., Placet]) -> None:
    open_shop(payment_tools.refund).close()
    for _ in range(2):
        payment_tools.refund("A-42", 700, key=IdempotencyKey("ik_1"))

    assert payments() == [700]


def looked_up(key: str) -> object:
    return payment_tools.letter_sent("Ana", "Sorry.", key=IdempotencyKey(key))


def test_the_probe_of_the_guide_finds_its_letter(open_shop: Callable[..., Placet]) -> None:
    with open_shop(payment_tools.send_letter, customer="Ana", text="Sorry.") as placet:
        assert type(looked_up("ik_1")).__name__ == "Unsure"
        result = placet.run_sync("shop", "go")
        placet.decide_sync(result.waiting[0], "approve", by="ana")
        assert placet.resume_sync(result.run_id).stop == "final"

    key = Path("post-office.txt").read_text(encoding="utf-8").split()[0]
    found = [type(looked_up(each)).__name__ for each in (key, "ik_2")]
    assert found == ["Happened", "NotHappened"]


def test_the_page_of_the_guide_is_asked_about_anew_when_it_changes(
    open_shop: Callable[..., Placet],
) -> None:
    Path("draft.html").write_text("one", encoding="utf-8")
    with open_shop(payment_tools.publish, page="draft.html") as placet:
        result = placet.run_sync("shop", "go")
        placet.decide_sync(result.waiting[0], "approve", by="ana")
        Path("draft.html").write_text("two", encoding="utf-8")
        again = placet.resume_sync(result.run_id)

        assert again.stop == "approval_required"
        assert again.waiting != result.waiting
        assert not Path("site.html").exists()


def test_the_price_of_the_guide_is_shown_as_it_would_change_and_can_be_brought_back(
    open_shop: Callable[..., Placet],
) -> None:
    Path("jug.price").write_text("900", encoding="utf-8")
    with open_shop(payment_tools.set_price, item="jug", cents=700) as placet:
        result = placet.run_sync("shop", "go")
        assert placet.show_sync(result.waiting[0]).preview == "jug: 900 -> 700"
        placet.decide_sync(result.waiting[0], "approve", by="ana")
        assert placet.resume_sync(result.run_id).stop == "final"

    assert Path("jug.price").read_text(encoding="utf-8") == "700"
    restore = payment_tools.set_price.declaration.restore
    assert restore is not None
    restore({"item": "jug", "cents": 700}, "900")
    assert Path("jug.price").read_text(encoding="utf-8") == "900"
    restore({"item": "jug", "cents": 700}, "none")
    assert not Path("jug.price").exists()


def test_a_request_with_a_quorum_says_so_when_it_expires() -> None:
    needs = replace(REQUEST.needs, quorum=SEVERAL)

    assert "(2 needed)" in wording.expired(replace(REQUEST, needs=needs))


def test_the_courier_of_the_guide_is_cancelled_where_booking_failed(
    open_shop: Callable[..., Placet],
) -> None:
    with open_shop(payment_tools.book_courier, order="A-42") as placet:
        result = placet.run_sync("shop", "go")
        placet.decide_sync(result.waiting[0], "approve", by="ana")
        assert placet.resume_sync(result.run_id).stop == "final"
        (told,) = results(placet, result.run_id)
        assert told.endswith("was compensated (1 booking of A-42 cancelled).")

    assert Path("bookings.txt").read_text(encoding="utf-8") == ""
