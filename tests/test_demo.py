"""The demonstration, run for real: it ends well, says what docs/demo.txt says, and can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from placet.demo.ledger import LEDGER, pay
from placet.demo.model_server import reply
from placet.demo.shop import get_order
from placet.demo.stage import NotAsTold, Stage
from tools import demo_transcript

ROOT = demo_transcript.ROOT


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> str:
    return demo_transcript.played(tmp_path_factory.mktemp("demo"))


@pytest.mark.slow
@pytest.mark.promise("D1", "D2", "D4", "G5", "G6", "G7", "H1")
@pytest.mark.conformance(2, 3, 13)
def test_the_demonstration_runs_and_says_what_its_page_says(transcript: str) -> None:
    page = (ROOT / demo_transcript.PAGE).read_text(encoding="utf-8")

    assert transcript == page, "run: python tools/demo_transcript.py"


@pytest.mark.parametrize("name", [str(path) for path in demo_transcript.READMES])
def test_a_readme_holds_the_page(name: str) -> None:
    readme = ROOT / name
    if not readme.exists() or demo_transcript.BEGIN not in readme.read_text(encoding="utf-8"):
        pytest.skip(f"{name} shows no demonstration")
    text = readme.read_text(encoding="utf-8")
    page = (ROOT / demo_transcript.PAGE).read_text(encoding="utf-8")

    assert demo_transcript.with_transcript(text, page) == text


def test_nothing_that_differs_from_run_to_run_is_on_the_page() -> None:
    page = (ROOT / demo_transcript.PAGE).read_text(encoding="utf-8")

    assert demo_transcript.normalised(page, Path("/nowhere")) == page
    assert str(ROOT) not in page


@pytest.mark.slow
@pytest.mark.promise("G7")
def test_a_second_payment_ends_the_story(tmp_path: Path) -> None:
    pay(tmp_path / LEDGER, "A-1001", Decimal("129.00"), "an earlier key")

    done = subprocess.run(
        [sys.executable, "-m", "placet.demo.story", "--directory", str(tmp_path)],
        env={**os.environ, "OPENAI_API_KEY": "a key that must not be used"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "Ledger: nothing was paid" in done.stderr
    assert "5. The record" not in done.stdout


def test_the_ledger_refuses_no_payment(tmp_path: Path) -> None:
    for _ in range(2):
        pay(tmp_path / LEDGER, "A-1001", Decimal("129.00"), "one key")
    stage = Stage(place=tmp_path)

    with pytest.raises(NotAsTold, match="once"):
        stage.paid("A-1001", ["129.00"], "129.00 paid, once.")


def test_a_wrong_exit_code_ends_the_story(tmp_path: Path) -> None:
    stage = Stage(place=tmp_path)

    with pytest.raises(NotAsTold, match="ended with"):
        stage.placet("show", "rq_nothing")


def test_the_stand_in_is_a_function_of_the_messages() -> None:
    asked = [{"role": "user", "content": "Order A-1001 arrived broken."}]
    looked = reply(asked)
    found = [*asked, looked, {"role": "tool", "content": get_order("A-1001")}]
    proposed = reply(found)
    no = {"role": "tool", "content": "Rejected by ben: sold as seen\nThe call did not run."}

    assert looked["tool_calls"][0]["function"]["name"] == "get_order"
    assert '"129.00"' in proposed["tool_calls"][0]["function"]["arguments"]
    assert "sold as seen" in reply([*found, proposed, no])["content"]
    assert (
        "could not find" in reply([*asked, looked, {"role": "tool", "content": "No."}])["content"]
    )
    assert reply(found) == proposed
