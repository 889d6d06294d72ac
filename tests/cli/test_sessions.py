"""Sessions and runs at the command line: which is meant, how one ends, and what runs are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placet.cli.sessions import session_here, workspace_session
from placet.core import commands as c
from placet.core.values import Principal
from placet.runtime.engine import Engine
from placet.stores.sqlite import SqliteStore
from tests.cli.dialog import dialog
from tests.cli.place import Place, do


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, agents="tests.cli.talkers:support")


# --- which ----------------------------------------------------------------------------------------


def test_a_directory_has_a_session_of_its_own_by_whatever_path_it_is_named(tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "shop", tmp_path / "b" / "shop"
    one.mkdir(parents=True)
    other.mkdir(parents=True)
    (tmp_path / "link").symlink_to(one)
    odd = tmp_path / "\u202eein Ordner\n"

    assert re.fullmatch(r"shop-[0-9a-f]{8}", workspace_session(one))
    assert workspace_session(one) != workspace_session(other)
    assert workspace_session(tmp_path / "link") == workspace_session(one)
    assert re.fullmatch(r"ein-Ordner-[0-9a-f]{8}", workspace_session(odd))
    assert re.fullmatch(r"session-[0-9a-f]{8}", workspace_session(Path("/")))


def test_a_run_without_a_session_is_in_that_of_the_working_directory(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = do("run", "refund", "--json").document
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PLACET_CONFIG", str(tmp_path / "placet.toml"))
    monkeypatch.chdir(elsewhere)
    second = do("run", "refund", "--json", "--store", f"sqlite:///{tmp_path}/placet.db").document

    assert first["session"] == workspace_session(tmp_path)
    assert second["session"] == workspace_session(elsewhere)
    assert second["stop"] == "approval_required", "it is held up by no run of the other directory"


# --- the end --------------------------------------------------------------------------------------


def test_a_session_that_is_ended_cancels_its_runs_and_takes_no_more(place: Place) -> None:
    begun = do("run", "--session", "s", "refund", "--json").document

    ended = do("end", "s", "--cause", "moved", "--json")
    again = do("end", "s")
    later = do("run", "--session", "s", "hello", "--json")

    assert (ended.code, ended.document["session"], ended.document["ended"]) == (0, "s", True)
    (run,) = ended.document["runs"]
    assert (run["run_id"], run["stop"]) == (begun["run_id"], "cancelled")
    assert (again.code, again.out) == (0, "session s is ended, and takes no further message\n")
    assert (later.code, later.error["code"]) == (3, "session_ended")
    assert do("end", "none").code == 5
    assert place.status(begun["waiting"][0]) == "cancelled"


@pytest.mark.promise("G10")
def test_what_a_tool_started_ends_no_session(place: Place) -> None:
    do("run", "--session", "s", "refund")

    assert place.placet("end", "s", PLACET_INSIDE_TOOL="run_x/1/0").code == 4


# --- a message ------------------------------------------------------------------------------------


@pytest.mark.promise("H5")
@pytest.mark.parametrize("message", ["/approve rq_abcd", "/Reject rq_abcd no", " /approve"])
def test_a_command_as_a_message_is_given_to_no_model(place: Place, message: str) -> None:
    refused = do("run", "--json", "--", message)

    assert (refused.code, refused.error["code"]) == (2, "command_as_message")
    assert do("runs", "--json").document["runs"] == []


def test_a_run_can_be_told_how_to_go_about_it_and_runs_say_so(place: Place) -> None:
    thought = do("run", "--mode", "think", "--session", "1", "tools", "--json").document
    do("run", "--mode", "plan-act", "--session", "2", "refund")
    unknown = do("run", "--mode", "dream", "tools")

    told = do("runs").out
    found = {each["session"]: each for each in do("runs", "--json").document["runs"]}
    assert thought["answer"].startswith("I have 0 tools")
    assert (found["1"]["mode"], found["1"]["plan"]) == ("think", None)
    assert "session 1, step 1, mode think" in told
    assert unknown.code == 2


def test_the_plan_of_a_run_is_told_with_where_it_is(place: Place) -> None:
    do("run", "--mode", "plan-act", "--session", "1", "plan it")

    (run,) = do("runs", "--json").document["runs"]

    assert (run["plan"], run["mode"]) == ({"items": 1, "done": 1}, "plan-act")
    assert "mode plan-act, plan 1 of 1" in do("runs").out


# --- what is seen ---------------------------------------------------------------------------------


@pytest.mark.promise("H2")
def test_at_a_terminal_the_text_comes_live_and_the_answer_once(place: Place) -> None:
    with dialog(place, "run", "nasty") as seen:
        code = seen.ended()

    assert code == 0
    assert seen.seen.count("desrever") == 1
    assert "plain ⟦U+001B⟧[31mred" in seen.seen
    assert "\x1b" not in seen.seen
    assert re.search(r"asks the model\nplain .+\n\(run_\w+ ended: final\)\n", seen.seen)


@pytest.mark.slow
def test_into_a_pipe_goes_the_answer_as_it_stands_on_record(place: Place) -> None:
    piped = place.placet("run", "nasty")

    assert re.fullmatch(r"plain .+desrever ⟦U\+0007⟧\n\(run_\w+ ended: final\)\n", piped.out)


def test_runs_that_stand_under_others_are_told_with_whose_they_are(place: Place) -> None:
    begun = do("run", "--session", "s", "delegate")
    (request,) = do("inbox", "--json").document["requests"]
    child, (top,) = request["run_id"], re.findall(r"^(run_\w+) begins", begun.err)

    told = do("runs").out
    shown = do("show", request["request_id"], "--json").document
    found = {each["run_id"]: each for each in do("runs", "--json").document["runs"]}
    do("approve", request["request_id"], by="ana")
    decided = do("runs").out
    worked = do("worker", "--once")

    assert f"{child} is a run of helper, under {top}\n{child} step 1: asks the model" in begun.err
    assert f"waits for people: {request['request_id']}  helper  session s, step 1, under {top}" in (
        told
    )
    assert found[child]["parent_run_id"] == shown["parent_run_id"] == top
    assert found[top]["parent_run_id"] is None
    assert f"{top}  resting: waits for what stands under it, {child}: `placet resume" in decided
    assert (
        f"{child} is a run of helper, under {top}\n{child} step 1: is about to run refund"
        in worked.err
    )
    assert f"{child} resumed: ended: final" in worked.err
    assert f"{top} resumed: ended: final" in worked.err
    assert place.effects == ["refund A-1 129"]


def test_a_directory_whose_session_was_ended_has_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(tmp_path / "placet.db")
    engine = Engine(store, tenant="main")
    first = session_here(engine)
    start = c.StartRun(run="r1", agent="a", requester="rob", message="go")
    store.execute("main", first, start).result()
    assert session_here(engine) == first
    store.execute("main", first, c.EndSession(by=Principal(id="rob"))).result()
    assert session_here(engine) == f"{first}-2"
    store.close()
