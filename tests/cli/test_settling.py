"""Settlements and cancelling at the command line: who says what became of an effect, and how."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pytest

from placet import Placet
from placet.runtime.authority import MARK
from placet.settings import current_account
from placet.stores.sqlite import SqliteStore
from tests.cli import till
from tests.cli.place import PATIENCE_SECONDS, Ended, Place, do
from tests.cli.talkers import HELD

ME = current_account()

DAY = timedelta(hours=24)
FINDINGS = [
    (("--happened", "receipt 9"), "happened", "succeeded", "receipt 9\n(Established by ana;"),
    (("--did-not-happen", "--detail", "no trace"), "did_not_happen", "interrupted", "no trace"),
    (("--abandon", "--detail", "the log is gone"), "abandoned", "outcome_unknown", "log is gone"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", "ben", ME, agents="tests.cli.till:till")


@pytest.fixture
def lost(place: Place) -> tuple[str, str]:
    """Give a run whose payment has no known outcome, and the settlement that it waits for."""
    begun = do("run", "--session", "main", "--json", "lose")
    assert begun.code == 10
    (settlement,) = begun.document["waiting"]
    return begun.document["run_id"], settlement


def status(settlement: str) -> str:
    found: str = do("show", settlement, "--json").document["status"]
    return found


def later(by: timedelta) -> None:
    """Let a worker do what is due by then; the store's clock never goes back after that."""
    store = SqliteStore("placet.db", clock=lambda: datetime.now(UTC) + by)
    with Placet(store, agents=[till.till], approvers=["ana", "ben", ME]) as placet:
        asyncio.run(placet.worker(report=lambda *_: None).once())


# --- what is said, and by whom ------------------------------------------------------------------


@pytest.mark.promise("D4")
@pytest.mark.parametrize("words, finding, code, told", FINDINGS)
def test_each_finding_has_its_option_and_is_what_the_model_is_told(
    lost: tuple[str, str], words: tuple[str, ...], finding: str, code: str, told: str
) -> None:
    run, settlement = lost

    settled = do("settle", settlement, *words, "--json", by="ana")
    carried_on = do("resume", run, "--json")

    assert (settled.code, carried_on.code) == (0, 0)
    document = settled.document
    assert (document["status"], document["finding"], document["code"]) == ("settled", finding, code)
    assert (document["by"], document["via"], document["decided_by"]) == ("ana", "token", "ana")
    assert document["card"]["kind"] == "settlement"
    assert told in carried_on.document["answer"]
    assert Path("effects.txt").read_text() == "lose 129\n", "nothing runs by a settlement"


@pytest.mark.promise("D4", "H5")
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--detail", "it is there"),
        ("--happened", ""),
        ("--happened", " \n"),
        ("--happened", "x", "--abandon"),
        ("--did-not-happen", "--abandon"),
        ("--happened", "x", "--detail", "y"),
        ("happened",),
        ("--happen", "x"),
        ("--happened", "--did-not-happen"),
        ("--happened", "--abandon"),
        ("--happened", "--token-file", "ana.token"),
        ("--did-not-happen", "--detail", "--yes"),
        ("--happened", "-h"),
    ],
)
def test_what_is_no_finding_settles_nothing_for_there_is_no_default(
    lost: tuple[str, str], words: tuple[str, ...]
) -> None:
    _, settlement = lost

    assert do("settle", settlement, *words, by="ana").code == 2
    assert status(settlement) == "waiting"


def test_an_option_is_no_value_of_another_one_and_the_error_says_what_is(
    lost: tuple[str, str],
) -> None:
    _, settlement = lost

    refused = do("settle", settlement, "--happened", "--token-file", "ana.token", by="ana")
    no_reason = do("reject", settlement, "--reason", "--json", by="ana")
    taken = do("settle", settlement, "--happened", " --paid, says the bank", by="ana")

    assert "--happened takes the RESULT, and '--token-file' is no such thing." in refused.err
    assert (no_reason.code, "--reason takes the REASON" in no_reason.out) == (2, True)
    assert (taken.code, status(settlement)) == (0, "settled")


def test_at_a_terminal_the_question_of_a_settlement_shows_what_will_be_said(
    place: Place, lost: tuple[str, str]
) -> None:
    _, settlement = lost

    left = place.at_terminal("settle", settlement, "--happened", "paid\u202e twice", typed="no\n")

    assert "You are about to say: happened, and this:\n  paid⟦U+202E⟧ twice\n" in left.err
    assert "Type happened to say so, or anything else to leave it: " in left.err
    assert status(settlement) == "waiting"


@pytest.mark.promise("D4", "H5")
def test_at_a_terminal_the_exact_word_of_the_finding_settles(
    place: Place, lost: tuple[str, str]
) -> None:
    _, settlement = lost
    words = ("settle", settlement, "--did-not-happen", "--json")

    left = place.at_terminal(*words, typed="did not happen\n")
    settled = place.at_terminal(*words, typed="did-not-happen\n")

    assert (left.code, left.error["code"]) == (2, "not_confirmed")
    assert f"Settlement {settlement}" in left.err
    assert (settled.code, settled.document["by"], settled.document["via"]) == (0, ME, "terminal")


@pytest.mark.promise("D4", "G10")
def test_who_may_not_decide_may_not_settle(
    place: Place, lost: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, settlement = lost
    words = ("settle", settlement, "--happened", "paid", "--yes", "--json")

    stranger, nobody = do(*words, by="mallory"), do(*words)
    monkeypatch.setenv(MARK, "run_x/1/0")
    tool = do(*words, by="ana")
    monkeypatch.delenv(MARK)
    place.write("placet.toml", 'app = "tests.cli.till:till"\napprovers = ["zoe"]')
    no_more = place.at_terminal(*words)

    refused = {each.error["code"] for each in (stranger, no_more)}
    assert refused == {"not_an_approver"}
    assert no_more.error["message"] == f"{ME} may not decide this; zoe may."
    assert (nobody.error["code"], tool.error["code"]) == ("no_identity", "inside_tool")
    assert [each.code for each in (stranger, nobody, tool, no_more)] == [4, 4, 4, 4]
    assert status(settlement) == "waiting"


@pytest.mark.promise("D4", "G3", "G11")
def test_a_settlement_is_bound_to_its_digest_and_to_its_session(lost: tuple[str, str]) -> None:
    _, settlement = lost
    digest = do("show", settlement, "--json").document["action_digest"]
    words = ("settle", settlement, "--abandon", "--json")

    other = do(*words, "--digest", "0" * 64, by="ana")
    elsewhere = do(*words, "--session", "another", by="ana")
    right = do(*words, "--digest", digest, "--session", "main", by="ana")

    assert (other.code, other.error["code"]) == (3, "digest_mismatch")
    assert (elsewhere.code, elsewhere.error["code"]) == (5, "request_not_found")
    assert (right.code, right.document["action_digest"]) == (0, digest)


@pytest.mark.promise("D4", "G7")
def test_the_same_word_of_the_same_person_is_the_same_answer_and_any_other_a_conflict(
    lost: tuple[str, str],
) -> None:
    _, settlement = lost
    words = ("settle", settlement, "--did-not-happen")
    first = do(*words, by="ana")

    again = do(*words, by="ana")
    against = do("settle", settlement, "--happened", "paid", "--json", by="ana")
    given_up = do("settle", settlement, "--abandon", "--json", by="ana")
    other = do(*words, "--json", by="ben")
    with_words = do(*words, "--detail", "no trace", "--json", by="ana")

    assert (first.code, again.code) == (0, 0)
    assert f"{settlement} settled by ana: did-not-happen  (settled, via token)" in again.out
    for each in (against, given_up, other, with_words):
        assert (each.code, each.error["code"]) == (3, "already_settled")
        assert each.error["message"] == "ana settled it: did-not-happen."


@pytest.mark.promise("D4", "H5")
def test_a_settlement_is_settled_and_nothing_else(place: Place, lost: tuple[str, str]) -> None:
    _, settlement = lost

    for words in (
        ("approve", settlement),
        ("reject", settlement, "--reason", "no"),
        ("edit", settlement, "--set", "amount=1"),
        ("withdraw", settlement),
        ("answer", settlement, "yes"),
    ):
        refused = do(*words, "--json", by="ana")
        assert (refused.code, refused.error["code"]) == (3, "other_kind"), words
        assert f"placet settle {settlement}" in refused.error["hint"]
    assert status(settlement) == "waiting"
    assert do("settle", "st_none", "--abandon", by="ana").code == 5


@pytest.mark.promise("D4", "H4")
def test_the_record_says_who_settled_what_and_by_which_way(lost: tuple[str, str]) -> None:
    _, settlement = lost

    do("settle", settlement, "--happened", "receipt 9", by="ben")
    events = [json.loads(line) for line in do("audit", "export").out.splitlines()]

    (settled,) = [json.loads(e["body"]) for e in events if e["kind"] == "RequestSettled"]
    assert settled["request"] == settlement
    assert (settled["by"], settled["finding"], settled["via"]) == ("ben", "happened", "token")
    assert "receipt" not in json.dumps(events), "the text itself can be erased"
    assert "settled by ben: happened: receipt 9" in do("show", settlement).out
    assert do("audit", "verify").code == 0


# --- before and after -----------------------------------------------------------------------------


@pytest.mark.promise("D4", "G8")
def test_until_it_is_settled_its_surface_is_closed_in_its_session_and_only_there(
    lost: tuple[str, str],
) -> None:
    run, settlement = lost
    do("cancel", run)

    mailed = do("run", "--session", "main", "--json", "mail")
    elsewhere = do("run", "--session", "another", "--json", "pay")
    held = do("run", "--session", "main", "--json", "pay")
    worked = do("worker", "--once", "--json")
    kept = Path("effects.txt").read_text().splitlines()
    do("settle", settlement, "--abandon", by="ana")
    opened = do("resume", held.document["run_id"], "--json")

    assert (mailed.code, elsewhere.code) == (0, 0)
    assert (held.code, held.document["waiting"]) == (10, [settlement])
    assert worked.document["carried"] == 0
    assert kept == ["lose 129", "mail", "pay 129"]
    assert (opened.code, opened.document["answer"]) == (0, "Done: paid 129")


@pytest.mark.promise("D4", "G9")
def test_past_its_time_nothing_is_taken_to_have_happened_and_it_can_still_be_settled(
    lost: tuple[str, str],
) -> None:
    run, settlement = lost

    later(DAY - timedelta(minutes=1))
    in_time = do("resume", run, "--json")
    later(DAY)
    over = do("resume", run, "--json")
    later(400 * DAY)
    shown = do("show", settlement).out
    held = do("run", "--session", "main", "--json", "pay")
    warned = do("doctor").out
    settled = do("settle", settlement, "--happened", "receipt 9", "--json", by="ben")
    opened = do("resume", held.document["run_id"], "--json")

    assert (in_time.code, over.code) == (10, 11)
    assert (over.document["stop"], over.document["unsettled"]) == ("outcome_unknown", [settlement])
    assert f"{settlement}  (waiting)" in shown
    assert "its run does not wait for it any more; the question and the closed surface" in shown
    assert f"placet settle {settlement} --did-not-happen" in shown
    assert (held.code, held.document["waiting"]) == (10, [settlement])
    assert settlement in warned
    assert (settled.code, settled.document["finding"]) == (0, "happened")
    assert settled.document["code"] == "outcome_unknown", "what the model was told stands"
    assert opened.document["answer"] == "Done: paid 129"
    assert do("inbox").out == "Nothing waits.\n"


# --- cancelling in the middle of an effect --------------------------------------------------------


@dataclass(slots=True)
class Holding:
    """A process in the midst of its effect, which it ends when the pipe is let go."""

    process: subprocess.Popen[str]
    pipe: IO[str]
    run: str

    def let_go(self) -> Ended:
        """Let the effect end, and then the process."""
        self.pipe.close()
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return Ended(code=self.process.returncode, out=out, err=err)

    def interrupt(self) -> str:
        """Interrupt it from the keyboard; give what it has said once it heeds that."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        said = ""
        while "is waited for" not in said:
            line = self.process.stderr.readline()
            assert line, f"it ended, and heeded nothing: {said}"
            said += line
        return said

    def end(self, how: int) -> int:
        """Send it a signal, and give how it ended."""
        self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode


@pytest.fixture
def holding(place: Place) -> Iterator[Holding]:
    """Give a process that carries on a run, and whose effect has begun."""
    os.mkfifo(HELD)
    process = subprocess.Popen(
        [sys.executable, "-m", "placet", "run", "--session", "main", "--json", "hold"],
        cwd=place.directory,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with _written_to(process) as pipe:
            (run,) = do("runs", "--json").document["runs"]
            yield Holding(process=process, pipe=pipe, run=run["run_id"])
    finally:
        process.kill()
        process.communicate()


def _written_to(process: subprocess.Popen[str]) -> IO[str]:
    """Open the pipe for writing, as can be done once the tool's body reads it."""
    while True:
        assert process.poll() is None, "it ended, and never began its effect"
        try:
            return os.fdopen(os.open(HELD, os.O_WRONLY | os.O_NONBLOCK), "w", encoding="utf-8")
        except OSError as error:
            if error.errno != errno.ENXIO:  # Nobody reads it yet.
                raise
        time.sleep(0.01)


def results(place: Place, run: str) -> list[str]:
    """Give what the model is told of each call."""
    with place.opened() as placet:
        rows = placet.engine.store.transcript("main", "main", run)
    return [row.body for row in rows if row.kind == "result"]


@pytest.mark.promise("D4", "D5")
@pytest.mark.conformance(21)
def test_a_run_that_is_cancelled_from_elsewhere_waits_for_the_outcome_of_what_has_begun(
    place: Place, holding: Holding
) -> None:
    run = holding.run

    cancelled = do("cancel", run, "--cause", "enough")
    again = do("cancel", run, "--json")
    before = (place.effects, results(place, run))
    ended = holding.let_go()

    assert cancelled.code == 0
    assert f"{run} ends as soon as what it has begun has its outcome" in cancelled.out
    assert (again.code, again.document["status"], again.document["stop"]) == (0, "working", None)
    assert before == ([], [])
    assert (ended.code, ended.document["stop"]) == (11, "cancelled")
    assert (place.effects, results(place, run)) == (["held"], ["let go"])
    assert do("inbox").out == "Nothing waits.\n"


@pytest.mark.promise("D4", "D5")
def test_a_cancelled_run_whose_process_dies_in_its_effect_leaves_the_question_to_people(
    place: Place, holding: Holding
) -> None:
    run = holding.run

    do("cancel", run)
    assert holding.end(signal.SIGKILL) == -signal.SIGKILL
    resumed = do("resume", run, "--json")
    (asked,) = do("inbox", "--json").document["requests"]
    (told,) = results(place, run)
    settled = do("settle", asked["request_id"], "--did-not-happen", "--json", by="ana")

    assert (resumed.code, resumed.document["stop"]) == (11, "cancelled")
    assert resumed.document["unsettled"] == [asked["request_id"]]
    assert told.startswith("Outcome unknown: ")
    assert (settled.code, settled.document["run_id"]) == (0, run)
    assert do("resume", run, "--json").document["unsettled"] == []
    assert place.effects == []


@pytest.mark.promise("D4", "D5")
def test_a_command_that_is_interrupted_in_an_effect_waits_for_it(
    place: Place, holding: Holding
) -> None:
    said = holding.interrupt()
    ended = holding.let_go()
    resumed = do("resume", holding.run, "--json")

    assert "hold has begun and is waited for; Ctrl-C again cuts it off." in said
    assert (ended.code, place.effects) == (130, ["held"])
    assert f"`placet resume {holding.run}" in ended.err
    assert (resumed.code, resumed.document["stop"]) == (0, "final")
    assert (place.effects, results(place, holding.run)) == (["held"], ["let go"])


@pytest.mark.promise("D4", "D5")
def test_a_command_that_is_interrupted_twice_in_an_effect_leaves_the_question_to_people(
    place: Place, holding: Holding
) -> None:
    holding.interrupt()
    interrupted = holding.end(signal.SIGINT)
    resumed = do("resume", holding.run, "--json")

    assert interrupted == 130
    assert resumed.document["waiting"] == resumed.document["unsettled"] != []
    assert place.effects == []
