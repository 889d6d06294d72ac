"""Each exit code, from what brings it about; and the errors that people and programs read."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.cli.output import MEANINGS, Exit, exit_code_of
from placet.core import commands as c
from placet.core.errors import InProgress, ModelTrouble, PlacetError, Refusal
from placet.runtime.processes import this_process
from placet.settings import current_account
from placet.stores.sealing import crypto_missing
from placet.stores.sqlite import SqliteStore
from tests.cli.place import Place, do


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def test_what_is_done_is_0(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ana")

    done = do("resume", run)

    assert done.code == 0
    assert done.out == f"Done: refunded 129\n({run} ended: final)\n"
    assert f"{run} step 1: is about to run refund" in done.err
    assert f"{run} step 2: asks the model" in done.err
    assert do("resume", run).code == 0, "a run that is over says so again"


def test_an_unexpected_error_is_1_and_one_line(place: Place) -> None:
    wrong = do("run", "--app", "tests.cli.app:broken", "go", "--json")
    told = do("run", "--app", "tests.cli.app:broken", "--session", "2", "go")

    assert (wrong.code, wrong.error["code"]) == (1, "unexpected")
    assert "RuntimeError: the model's client is broken" in wrong.error["message"]
    assert told.code == 1
    assert "Traceback" not in told.err
    assert "PLACET_DEBUG=1" in told.err


@pytest.mark.parametrize(
    "app, told",
    [
        ("tests.cli.app", "not of the form module:name"),
        ("nowhere.at.all:app", "there is no module nowhere"),
        ("tests.cli.app:missing", "there is no 'missing'"),
        ("tests.cli.app:nothing", "it gives a int"),
        ("tests.cli.app:raising", "it raised RuntimeError: no agents today"),
        ("faulty:app", "faulty cannot be imported: ZeroDivisionError"),
        ("needy:app", "needy cannot be imported: No module named 'nowhere_at_all'"),
    ],
)
def test_an_app_that_is_none_is_2(place: Place, app: str, told: str) -> None:
    place.write("faulty.py", "1 / 0")
    place.write("needy.py", "import nowhere_at_all")

    wrong = do("run", "--app", app, "go", "--json")

    assert (wrong.code, wrong.error["code"]) == (2, "invalid_app")
    assert told in wrong.error["message"]


@pytest.mark.promise("G2")
def test_an_app_that_is_a_tool_is_not_called(place: Place) -> None:
    place.write(
        "handy.py",
        "from pathlib import Path\nfrom placet import tool\n"
        "@tool(surface='disk')\ndef wipe() -> str:\n"
        "    'Wipe.'\n    Path('wiped').touch()\n    return 'wiped'\n",
    )
    for command in (("worker", "--once"), ("run", "go")):
        wrong = do(*command, "--app", "handy:wipe", "--json")
        assert (wrong.code, wrong.error["code"]) == (2, "invalid_app")
        assert "it is a tool" in wrong.error["message"]
    assert not Path("wiped").exists()


def test_what_is_not_installed_ends_as_its_exit_code_says(place: Place) -> None:
    place.write("needy.py", "import nowhere_at_all")
    asking = "from placet.agent.models.checks import need_package\n"
    place.write("wanting.py", f"{asking}need_package('nowhere', client='It')")
    codes = {
        "invalid_app": do("run", "--app", "needy:app", "go", "--json"),
        "extra_missing": do("run", "--app", "wanting:app", "go", "--json"),
    }

    for code, ended in codes.items():
        assert (ended.code, ended.error["code"]) == (2, code)
    assert exit_code_of(crypto_missing()) == 6
    told = {code: MEANINGS[code].partition("not installed")[0] for code in Exit}
    assert told[Exit.MISTAKE].endswith("a package that the app needs is ")
    assert told[Exit.TROUBLE].endswith("the extra `crypto`, which the store or a key needs, is ")


def test_an_app_can_be_an_agent_a_list_or_a_function_in_the_working_directory(
    place: Place,
) -> None:
    place.write("here.py", "from tests.cli.app import made, shop\napp = [shop]")

    for session, app in enumerate(("tests.cli.app:shop", "here:app", "here:made")):
        assert do("run", "--app", app, "--session", str(session), "go").code == 10, app


def test_mistakes_are_2(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    several = do("run", "go", "--json")
    unknown = do("run", "--agent", "nobody", "go", "--json")
    usage = do("reject", "rq_x", "--json")
    command = do("aprove", "rq_x")
    store = do("inbox", "--store", "redis://here", "--json")
    place.write("placet.toml", "colour = 1")
    settings = do("inbox", "--json")
    place.write("placet.toml", "")
    no_app = do("run", "go", "--json")

    assert (several.code, several.error["code"]) == (2, "which_agent")
    assert (unknown.code, unknown.error["code"]) == (2, "unknown_agent")
    assert (usage.code, usage.error["code"]) == (2, "usage")
    assert "--reason" in usage.error["message"]
    assert command.code == 2
    assert "No such command" in command.err
    assert (store.code, store.error["code"]) == (2, "setting_invalid")
    assert (settings.code, settings.error["code"]) == (2, "setting_unknown")
    assert (no_app.code, no_app.error["code"]) == (2, "no_app")


def test_refusals_are_3(place: Place) -> None:
    run, request = place.waiting()

    second = do("run", "--agent", "shop", "--session", "main", "again", "--json")
    superseding = do(
        "run", "--agent", "shop", "--session", "main", "--supersede", "again", "--json"
    )
    closed = do("approve", request, "--json", by="ana")

    assert (second.code, second.error["code"]) == (3, "run_waiting")
    assert superseding.code == 10
    assert closed.code == 3
    assert do("resume", run).code == 11


def test_what_is_not_there_is_5(place: Place) -> None:
    no_store = do("inbox", "--json")
    assert (no_store.code, no_store.error["code"]) == (5, "store_not_found")
    assert not Path("placet.db").exists(), "looking makes no store"
    place.waiting()

    for words in (
        ("show", "rq_none"),
        ("resume", "run_none"),
        ("cancel", "run_none"),
        ("audit", "verify", "--session", "none"),
        ("audit", "export", "--session", "none"),
    ):
        missing = do(*words, "--json")
        assert missing.code == 5, words
        assert missing.error["code"].endswith("_not_found")


def test_the_worlds_trouble_is_6(place: Place) -> None:
    silent = do("run", "--agent", "silent", "go", "--json")
    Path("other.db").write_text("no database" * 1000)
    damaged = do("inbox", "--store", "sqlite:///other.db", "--json")

    assert (silent.code, silent.error["code"]) == (6, "script_ended")
    assert silent.error["ids"]["run_id"] in silent.error["hint"]
    assert (damaged.code, damaged.error["code"]) == (6, "store_damaged")


def test_a_run_that_another_process_drives_is_7(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ana")
    store = SqliteStore("placet.db")
    taking = c.TakeLease(run=run, holder=this_process())
    store.execute("main", "main", taking).result()
    store.close()

    busy = place.placet("resume", run, "--json")

    assert busy.code == 7, busy
    assert place.effects == []


def test_a_run_that_waits_is_10_and_says_for_what(place: Place) -> None:
    waiting = do("run", "--agent", "shop", "go")

    request = do("inbox", "--json").document["requests"][0]["request_id"]
    assert waiting.code == 10
    assert "approval_required" in waiting.out
    assert f"placet show {request}" in waiting.out
    assert "step 1: asks the model" in waiting.err


@pytest.mark.conformance(21)
def test_a_cancelled_run_is_11(place: Place) -> None:
    run, request = place.waiting()

    cancelled = do("cancel", run, "--cause", "not today", "--json")
    resumed = do("resume", run, "--json")

    assert (cancelled.code, cancelled.document["stop"]) == (0, "cancelled")
    assert (resumed.code, resumed.document["stop"]) == (11, "cancelled")
    shown = do("show", request, "--json").document
    assert (shown["status"], shown["cause"]) == ("cancelled", f"{current_account()}: not today")


def test_a_run_that_rests_is_12(place: Place) -> None:
    resting = do("run", "--agent", "patient", "go", "--json")

    assert (resting.code, resting.document["stop"]) == (12, None)


def test_every_branch_of_the_errors_has_a_code() -> None:
    assert exit_code_of(Refusal("x", "x")) == Exit.REFUSED
    assert exit_code_of(InProgress("x", "x")) == Exit.IN_PROGRESS
    assert exit_code_of(ModelTrouble("x", "x", retryable=True)) == Exit.TROUBLE
    assert exit_code_of(PlacetError("x", "x")) == Exit.WRONG


def test_an_error_is_one_line_with_its_code_and_what_to_do(place: Place) -> None:
    place.waiting()

    missing = do("show", "rq_\x1b[31m")

    assert missing.out == ""
    assert missing.err.count("\n") == 1
    assert "[request_not_found request_id=rq_⟦U+001B⟧[31m]" in missing.err
    assert "`placet inbox`" in missing.err


def test_an_agent_that_may_ask_nobody_is_warned_of(place: Place) -> None:
    place.write("placet.toml", 'app = "tests.cli.app:shop"\napprovers = []')

    done = do("run", "go")

    assert "warning: Agent shop has tools that may ask, and nobody may decide" in done.err
    assert "No approver" in done.out
    assert place.effects == []


def test_the_worker_carries_on_what_was_decided(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ana")

    worked = do("worker", "--once", "--json")
    again = do("worker", "--once")

    ended = {"run_id": run, "stop": "final", "waiting": []}
    assert worked.document == {"carried": 1, "runs": [ended]}
    assert f"{run} resumed: ended: final" in worked.err
    assert f"{request} notice: refund, session main: approved" in worked.err
    assert worked.err.count(f"{request} notice") == 1, "what says nothing new is said once"
    assert again.out == "0 carried on\n"
    assert place.effects == ["refund A-1 129"]
