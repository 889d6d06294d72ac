"""Holds the two READMEs to the code: what they show is under test, and what they name is there."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from placet import Conflict, Placet
from placet.cli.identity import TOKEN
from placet.settings import current_account
from tests.tidy import ROOT

READMES = ("README.md", "README.zh-CN.md")
EXAMPLE = "examples/readme_agent.py"
SHOWN_FROM = "# The README shows what follows.\n"
SHOWN_UNTIL = "# The README shows what stands above.\n"

MOST_WORDS = 650
FIRST_CODE_BY_LINE = 25

_TRANSCRIPT = re.compile(r"(?<=<!-- demo:begin -->\n).*?(?=<!-- demo:end -->)", re.DOTALL)
_CODE = re.compile(r"<!-- code:begin (\S+) -->\n```python\n(.*?)```\n<!-- code:end -->", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_INLINE_COMMAND = re.compile(r"`((?:make|placet|pip) [^`]+)`")
_HAN = re.compile(r"[\u3400-\u9fff]")
_NOT_HAN = re.compile(r"[^\s\u3000-\u9fff\uff00-\uffef]+")


def readme(name: str) -> str:
    """Give a README without the transcript, which a generator writes."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(_TRANSCRIPT.findall(text)) == 1, f"{name} has one place for the transcript"
    return _TRANSCRIPT.sub("", text)


def words(text: str) -> float:
    """Count words: what stands between spaces, and two Han characters as one word."""
    return len(_HAN.findall(text)) / 2 + len(_NOT_HAN.findall(text))


def commands(text: str) -> list[str]:
    """Give every command that a README names, in the order in which it names them."""
    blocks = [line for block in _CONSOLE.findall(text) for line in block.splitlines()]
    return [*blocks, *_INLINE_COMMAND.findall(text)]


# --- what they say --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READMES)
def test_the_code_of_a_readme_is_the_example_that_is_run(name: str) -> None:
    example = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    shown = example.partition(SHOWN_FROM)[2].partition(SHOWN_UNTIL)[0]

    assert _CODE.findall(readme(name)) == [(EXAMPLE, shown)]
    assert readme(name).count("```python") == 1


@pytest.mark.parametrize("name", READMES)
def test_a_readme_is_short_and_shows_code_early(name: str) -> None:
    lines = readme(name).splitlines()

    assert 100 < words(readme(name)) < MOST_WORDS
    assert lines.index("```python") < FIRST_CODE_BY_LINE


def test_both_readmes_name_the_same_commands_and_the_same_pages() -> None:
    english, chinese = (readme(name) for name in READMES)

    assert commands(english) == commands(chinese)
    assert "make demo" in commands(english)
    pages = [set(re.findall(r"\]\(([^)]+)\)", text)) - set(READMES) for text in (english, chinese)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("name", READMES)
def test_a_readme_never_says_exactly_once(name: str) -> None:
    assert not re.search(r"exactly[ -]once|恰好一次|精确一次|有且仅有一次", readme(name), re.I)


def test_words_are_counted_in_both_scripts() -> None:
    assert words("two words") == 2
    assert words("批准与 `placet approve`，") == 3.5


# --- what they show -------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty directory, without the key of any model."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("OPENAI_", "PLACET_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def loaded() -> ModuleType:
    """Load the example as another process does that has its agent."""
    spec = importlib.util.spec_from_file_location("readme_agent", ROOT / EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ledger(place: Path) -> list[str]:
    """Give what was paid, one line a payment."""
    found = place / "ledger.txt"
    return found.read_text(encoding="utf-8").splitlines() if found.exists() else []


@pytest.mark.promise("D2", "G7")
@pytest.mark.slow
def test_the_example_waits_is_approved_by_another_process_and_pays_once(place: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    started = subprocess.run(
        [sys.executable, str(ROOT / EXAMPLE)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    run_id, stop, request_id = started.stdout.split()
    assert stop == "approval_required"
    assert ledger(place) == []

    me = current_account()
    with Placet.open("sqlite:///placet.db", agents=[loaded().agent], approvers=[me]) as placet:
        shown = placet.show_sync(request_id)
        assert shown.effect == "pays 12900 cents back for order A-42"
        assert placet.decide_sync(request_id, "approve", by=me).status == "approved"
        result = placet.resume_sync(run_id)
        again = placet.resume_sync(run_id)
        with pytest.raises(Conflict):
            placet.decide_sync(request_id, "reject", by=me, reason="too late")

    assert (result.stop, result.answer) == ("final", "Your money is back.")
    assert again == result
    assert ledger(place) == ["A-42 12900"]


@pytest.mark.slow
def test_the_commands_of_the_readme_do_what_it_says(place: Path) -> None:
    text = "a token that nobody guesses"
    digest = hashlib.sha256(text.encode()).hexdigest()
    settings = f'approvers = ["ana"]\n[approver_tokens]\nana = "{digest}"\n'
    (place / "placet.toml").write_text(settings, encoding="utf-8")
    for found in (ROOT / EXAMPLE).parent.iterdir():  # All that lies beside it, as in a clone.
        if found.is_file():
            (place / found.name).write_bytes(found.read_bytes())
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), TOKEN: text, "PYTHONUTF8": "1"}
    block = next(b for b in _CONSOLE.findall(readme("README.md")) if "placet approve" in b)
    run_id, request_id, said = "", "", ""
    for line in re.findall(r"^\$ (python|placet) (.+)$", block, re.MULTILINE):
        given = line[1].replace("rq_…", request_id).replace("run_…", run_id).split()
        module = ["-m", "placet"] if line[0] == "placet" else []
        ended = subprocess.run(
            [sys.executable, *module, *given],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, (given, ended.stderr)
        said = ended.stdout
        if line[0] == "python":
            run_id, stop, request_id = said.split()
            assert stop == "approval_required"

    assert "Your money is back." in said
    assert ledger(place) == ["A-42 12900"]


def test_the_example_uses_a_real_model_where_there_is_a_key(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-no-such-key")

    assert type(loaded().agent.model).__name__ == "OpenAIModel"
    assert ledger(place) == []
