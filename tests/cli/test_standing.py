"""What commands say of where a run and a request stand, and what to do next: never more than is."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from placet import ApprovalRequired, Placet
from placet.core import commands as c
from placet.core.values import Holder
from placet.runtime.processes import this_process
from placet.stores.sqlite import SqliteStore
from tests.cli.dialog import CTRL_C, dialog
from tests.cli.place import TOKENS, Place, do

SUM = sha256(TOKENS["ana"].encode()).hexdigest()
DEFAULT = "sqlite:///placet.db"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


@pytest.fixture
def settlement(place: Place) -> tuple[str, str]:
    """Give a run, and the settlement that its killed process left behind."""
    run, request = place.waiting("risky")
    do("approve", request, by="ana")
    assert place.placet("resume", run).code == 9
    (found,) = do("resume", run, "--json").document["waiting"]
    return run, found


# --- decisions ------------------------------------------------------------------------------------


@pytest.mark.promise("G7")
def test_a_second_rejection_tells_the_reason_that_is_on_record(place: Place) -> None:
    _, request = place.waiting()
    first = do("reject", request, "--reason", "too much", by="ben")

    same = do("reject", request, "--reason", "too much ", by="ben")
    other = do("reject", request, "--reason", "another", by="ben")

    assert f"{request} rejected by ben: too much" in first.out
    assert same.code == 0
    assert f"{request} rejected by ben: too much" in same.out
    assert (other.code, other.out) == (3, "")
    assert "ben has rejected it for another reason, which stands. [already_rejected" in other.err
    assert f"`placet show {request}` says it" in other.err


def test_the_last_line_of_a_decision_follows_the_run(place: Place) -> None:
    run, request = place.waiting()

    approved = do("approve", request, by="ana").out
    withdrawn = do("withdraw", request, by="ana").out
    do("approve", request, by="ana")
    do("resume", run)
    again = do("approve", request, by="ana").out

    assert f"{run}: `placet resume {run}`, or a worker, goes on" in approved
    assert f"{run}: waits for people: {request}" in withdrawn
    assert "goes on" not in withdrawn
    assert f"{run}: ended: final (the approval is spent" in again


def test_what_is_spent_is_not_taken_back_and_says_why(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ana")
    against = do("reject", request, "--reason", "no", by="ana")
    other = do("reject", request, "--reason", "no", by="ben")
    do("resume", run)

    late = do("withdraw", request, by="ana")

    assert f"`placet withdraw {request}`" in against.err
    assert "withdraw" not in other.err
    assert late.code == 3
    assert "It has begun or is done, and cannot be taken back. [spent" in late.err
    assert f"`placet cancel {run}`" in late.err


@pytest.mark.parametrize(
    "words, told",
    [
        (("reject", "{run}", "--reason", "x"), "That is a run, and no request."),
        (("approve", "{run}"), "`placet resume {run}` says what it waits for"),
        (("resume", "{request}"), "That is a request, and no run."),
        (("cancel", "{request}"), "Its run is {run}."),
        (("edit", "{request}", "--set", "amount"), "Say --set 'amount=50'"),
        (("run", "--app", "shop/x.py:agent", "go"), "Say --app shop.x:agent."),
        (("run", "--agent", "nobody", "go"), "Name one of these with --agent"),
        (("run", "--agent", "shop", "--session", "main", "go"), "`placet inbox --session main`"),
        (("run", "--agent", "shop", "--store", "sqlite:///no/x.db", "go"), "directory no is not"),
        (("aprove", "{request}"), "Did you mean 'approve'?"),
        (("approve", "{request}", "--token-file", "none"), "none cannot be read: No such file"),
        (("approve", "{request}", "--token-file", "two"), "a token file holds the token alone"),
    ],
)
def test_a_mistake_is_told_what_was_meant(place: Place, words: tuple[str, ...], told: str) -> None:
    run, request = place.waiting()
    place.write("two", f"{TOKENS['ana']}\nana")
    named = {"run": run, "request": request}

    wrong = do(*(word.format(**named) for word in words), by="ana")

    assert wrong.code in (2, 3, 5, 6)
    assert told.format(**named) in wrong.err
    assert "Errno" not in wrong.err
    assert " begins\n" not in wrong.err


def test_a_sum_that_is_none_is_told_of_the_command_that_makes_one(place: Place) -> None:
    place.write("placet.toml", '[approver_tokens]\nana = "her token"')

    assert "`placet token`" in do("inbox").err


def test_the_doctor_warns_of_a_token_that_two_people_hold(place: Place) -> None:
    line = do("token", "ana", "--json").document["line"]
    place.write("placet.toml", f"[approver_tokens]\n{line}\nben{line.removeprefix('ana')}")

    assert re.search("warning +tokens +ana and ben: one token", do("doctor").out)


# --- settlements ----------------------------------------------------------------------------------


@pytest.mark.promise("D4", "H1")
def test_a_settlement_shows_its_key_and_its_three_answers(
    place: Place, settlement: tuple[str, str]
) -> None:
    _, asked = settlement

    text = do("show", asked).out
    shown = do("show", asked, "--json").document
    do("settle", asked, "--did-not-happen", by="ana")
    closed = do("show", asked).out

    assert f"key         {shown['idempotency_key']}" in text
    assert shown["idempotency_key"].startswith("ik_")
    for answer in ("--happened RESULT", "--did-not-happen", "--abandon"):
        assert f"    placet settle {asked} {answer}\n" in f"{text}\n"
    assert "; then " in text
    assert "settled by ana: did-not-happen" in closed
    assert "; then " not in closed
    assert "placet settle" not in closed


@pytest.mark.promise("D4")
def test_a_run_that_ends_names_the_settlement_that_it_leaves_open(
    place: Place, settlement: tuple[str, str]
) -> None:
    run, asked = settlement

    cancelled = do("cancel", run)
    resumed = do("resume", run)

    for told in (cancelled.out, resumed.out, do("runs").out):
        assert f"{asked}: nobody knows that outcome yet" in told
    assert do("resume", run, "--json").document["unsettled"] == [asked]


def test_the_card_of_what_is_closed_tells_its_end(place: Place) -> None:
    _, rejected = place.waiting(session="1")
    do("reject", rejected, "--reason", "no need", by="ben")
    _, edited = place.waiting(session="2")
    new = do("edit", edited, "--set", "amount=1", "--json", by="ana").document["successor"]
    run, cancelled = place.waiting(session="3")
    do("cancel", run, "--cause", "late")
    run, spent = place.waiting(session="4")
    do("approve", spent, by="ana")
    do("resume", run)

    ends = {
        rejected: "rejected by ben: no need",
        edited: f"edited by ana; the new version is {new}",
        new: "approved by ana; it has not begun",
        cancelled: ": late",
        spent: "approved by ana; it began, and its outcome is succeeded",
    }
    for request, end in ends.items():
        assert end in do("show", request).out
        shown = do("show", request, "--json").document
        assert (end in shown["ending"], shown["card"]["then"]) == (True, "")


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.promise("G9", "H3", "H4")
def test_the_card_of_what_nobody_could_be_told_of_says_so_and_the_record_is_sound(
    place: Place,
) -> None:
    run, request = place.waiting()
    later = datetime.now(UTC) + timedelta(days=2)
    for clock in (lambda: datetime.now(UTC), lambda: later):
        store = SqliteStore("placet.db", clock=clock)
        failed = c.RecordDelivery(
            request=request, channel="mail\u202e", delivered=False, cause="HTTP 500"
        )
        store.execute("main", "main", failed).result()
        store.execute("main", "main", c.Expire(run=run)).result()
        store.close()

    shown = do("show", request)
    document = do("show", request, "--json").document

    assert "(unreachable)" in shown.out
    assert "could not deliver: HTTP 500" in shown.out
    assert "\u202e" not in shown.out
    ending = "nobody could be told of it by the deadline ("
    assert document["ending"].startswith(ending)
    assert (document["status"], document["card"]["status"]) == ("unreachable", "unreachable")
    exported = [json.loads(line) for line in do("audit", "export").out.splitlines()]
    expired = [json.loads(row["body"]) for row in exported if row["kind"] == "RequestExpired"]
    assert expired == [{"request": request, "unreachable": ["mail\u202e"]}]
    assert do("audit", "verify").code == 0


def test_runs_say_for_what_they_wait_rest_and_work(place: Place) -> None:
    waiting, request = place.waiting()
    do("run", "--agent", "patient", "--session", "2", "go")
    do("run", "--agent", "silent", "--session", "3", "go")
    driven, decided = place.waiting(session="4")
    do("approve", decided, by="ana")
    over, closed = place.waiting(session="5")
    do("cancel", over)
    store = SqliteStore("placet.db")
    store.execute("main", "4", c.TakeLease(run=driven, holder=this_process())).result()

    told = do("runs").out
    found = {each["session"]: each for each in do("runs", "--json").document["runs"]}

    statuses = {session: each["status"] for session, each in found.items()}
    assert statuses == {
        "main": "waiting",
        "2": "resting",
        "3": "resting",
        "4": "working",
        "5": "over",
    }
    assert found["main"]["waiting"] == [request]
    assert f"{waiting}  waiting: waits for people: {request}" in told
    assert "rests until" in found["2"]["detail"]
    assert "because of script_ended" in found["3"]["detail"]
    assert f"process {this_process().pid} drives it" in found["4"]["detail"]
    here = this_process()
    gone = Holder(host=here.host, boot=here.boot, pid=here.pid, started="another")
    again, decided = place.waiting(session="6")
    do("approve", decided, by="ana")
    store.execute("main", "6", c.TakeLease(run=again, holder=gone)).result()
    store.close()
    assert f"{again}  working: its process is gone; `placet resume {again}`" in do("runs").out
    assert closed not in told


@pytest.mark.parametrize("command", ["inbox", "runs"])
def test_a_list_says_that_there_is_more_than_it_lists(place: Place, command: str) -> None:
    for session in ("1", "2"):
        place.waiting(session=session)

    cut, whole = do(command, "--limit", "1").out, do(command, "--limit", "2").out
    documents = [do(command, "--limit", limit, "--json").document for limit in "12"]

    assert cut.endswith("\n… and more: --limit N lists more than 1.\n")
    assert "more" not in whole
    assert [document["more"] for document in documents] == [True, False]


def test_a_run_says_that_it_begins_once_it_has_begun(place: Place) -> None:
    begun = do("run", "--agent", "shop", "go").err

    assert re.match(r"run_\w+ begins\nrun_\w+ step 1: asks the model\n", begun)


def test_the_short_helps_stand_whole() -> None:
    assert "..." not in do("--help").out.partition("Commands:")[2]


# --- what is due ----------------------------------------------------------------------------------

ESCALATES = """version = 1
[[rule]]
name = "refunds"
ruling = "ask"
tools = ["refund"]
approvers = ["ana"]
quorum = 1
deadline = "4h"
escalate = [{after = "30m", approvers = ["ben"]}]
"""


@pytest.mark.promise("G9")
def test_a_run_says_what_it_waits_for_when_more_people_are_to_be_asked(place: Place) -> None:
    place.write("placet.policy.toml", ESCALATES)
    run, request = place.waiting()
    place.pass_time(timedelta(hours=1))

    (found,) = do("runs", "--active", "--json").document["runs"]
    carried_on = do("resume", run)

    assert (found["status"], found["waiting"]) == ("waiting", [request])
    assert found["detail"] == (
        f"waits for people: {request}; more people are to be asked: `placet resume {run}`, or a"
        " worker, goes on"
    )
    assert f"{run} asks more people\n" in carried_on.err
    assert "past its deadline" not in carried_on.err
    (found,) = do("runs", "--active", "--json").document["runs"]
    assert found["detail"] == f"waits for people: {request}"


@pytest.mark.promise("G9")
def test_a_request_past_its_deadline_looks_open_nowhere(place: Place) -> None:
    run, request = place.waiting()
    in_time = do("inbox")
    place.pass_time(timedelta(hours=25))

    listed, shown = do("inbox"), do("show", request)
    (document,) = do("inbox", "--json").document["requests"]
    late = do("reject", request, "--reason", "no", "--json", by="ana")
    (found,) = do("runs", "--active", "--json").document["runs"]

    assert (", until " in in_time.out, ", expired at " in listed.out) == (True, True)
    assert (document["status"], document["late"]) == ("waiting", True)
    goes_on = f"`placet resume {run}`, or a worker, goes on"
    assert f"ended       it has expired, which is a no; {goes_on}\n" in shown.out
    assert (late.code, late.error["code"]) == (3, "expired")
    assert late.error["message"].endswith(" UTC: it has expired, which is a no.")
    assert late.error["hint"] == f"{goes_on} with its run."
    assert (found["status"], found["waiting"]) == ("resting", [])
    assert found["detail"] == f"past its deadline: {request}; {goes_on}"
    assert f"{run} closes what is past its deadline\n" in do("resume", run).err


def test_the_lines_of_an_inbox_say_what_each_request_would_do(place: Place) -> None:
    place.write(
        "placet.policy.toml", ESCALATES.replace("ana", 'ana", "ben').replace("= 1\nd", "= 2\nd")
    )
    _, first = place.waiting()
    _, second = place.waiting("risky", session="other")
    do("approve", first, by="ana")

    lines = {line.split("  ")[0]: line for line in do("inbox").out.splitlines()}

    assert (
        f"{first}  refund  pays 129 USD for order A-1  1 of 2 approved  session main, until"
        in (lines[first])
    )
    assert f"{second}  vanish  may or may not happen  session other, until" in lines[second]
    assert "会话 main，截止" in do("inbox", "--lang", "zh").out


@pytest.mark.promise("G10")
def test_who_is_left_out_as_the_requester_is_told_so(place: Place) -> None:
    left_out = ESCALATES.replace('"ana"', '"ana", "ben"').replace(
        "quorum", "exclude_requester = true\nquorum"
    )
    place.write("placet.policy.toml", left_out)
    begun = do("run", "--agent", "shop", "--requester", "ben", "go", "--json").document

    refused = do("approve", *begun["waiting"], "--json", by="ben")

    assert (refused.code, refused.error["code"]) == (4, "not_an_approver")
    told = "ben may not decide this, which is for ben; ana may."
    assert refused.error["message"] == told


def test_fatigue_tells_votes_rejections_and_edits_apart(place: Place) -> None:
    _, first = place.waiting()
    _, second = place.waiting(session="two")
    _, third = place.waiting(session="three")
    do("approve", first, by="ana")
    do("reject", second, "--reason", "no", by="ana")
    do("edit", third, "--set", "amount=1", by="ana")

    assert "3 requests" in do("fatigue").out
    assert "3 asked, 0 expired; 1 vote to approve, 1 rejection, 1 edit: 33% approve, " in (
        do("fatigue").out
    )


# --- commands that are printed --------------------------------------------------------------------


def test_a_command_that_is_printed_names_the_app_where_the_settings_name_none(place: Place) -> None:
    place.write("placet.toml", f'approvers = ["ana"]\n[approver_tokens]\nana = "{SUM}"')
    app = ("--app", "tests.cli.app:agents")

    rests = do("run", *app, "--agent", "patient", "go")
    broken = do("run", *app, "--agent", "silent", "--session", "2", "go", "--json")
    waits = do("run", *app, "--agent", "shop", "--session", "3", "go", "--json").document
    approved = do("approve", *waits["waiting"], by="ana")
    named = [w for told in (rests.out, broken.document["error"]["hint"]) for w in told.split("`")]

    (resume, again) = (words for words in named if words.startswith("placet resume "))
    assert resume.endswith(" --app tests.cli.app:agents")
    assert do(*resume.split()[1:]).code == 12
    assert do(*again.split()[1:]).code == 6
    assert f"`placet resume {waits['run_id']} --app MODULE:NAME`, or a worker" in approved.out
    place.write("placet.toml", 'app = "tests.cli.app:agents"')
    assert f"`placet resume {waits['run_id']}`, or a worker" in do("runs").out


def test_a_command_that_is_printed_names_the_store_that_was_given(place: Place) -> None:
    store = ("--store", "sqlite:///a shelf.db")
    waits = do("run", *store, "--agent", "shop", "--session", "main", "go")

    (show,) = (words for words in waits.out.split("`") if words.startswith("placet show "))
    assert show.endswith(" --store 'sqlite:///a shelf.db'")
    assert do(*shlex.split(show)[1:]).code == 0


def test_what_others_wrote_is_never_taken_for_a_command_that_is_printed(place: Place) -> None:
    _, request = place.waiting()
    do("reject", request, "--reason", "say `placet resume x` instead", by="ana")

    assert "say `placet resume x` instead" in do("show", request, "--store", DEFAULT).out


@pytest.mark.slow
def test_a_resume_that_is_interrupted_says_how_to_go_on(place: Place) -> None:
    place.write("placet.toml", 'app = "tests.cli.talkers:support"\napprovers = ["ana"]')
    with dialog(place, "run", "--session", "main", "hang on") as begun:
        begun.expect("let me see")
        begun.type(CTRL_C)
        assert begun.ended() == 130
    (run,) = do("runs", "--json").document["runs"]

    with dialog(place, "resume", run["run_id"]) as resumed:
        resumed.expect("let me see")
        resumed.type(CTRL_C)
        resumed.expect(f"`placet resume {run['run_id']}` goes on with the run.")
        assert resumed.ended() == 130


def test_a_guarded_function_that_nobody_is_told_of_goes_on_where_it_is_called(
    place: Place,
) -> None:
    paid: list[int] = []
    with Placet(SqliteStore(place.directory / "placet.db"), approvers=["ana"]) as placet:

        @placet.guard(session="main")
        def pay(amount: int) -> int:
            """Pay."""
            paid.append(amount)
            return amount

        with pytest.raises(ApprovalRequired) as asked:
            pay(5)
        (request,) = asked.value.requests
        approved = do("approve", request, by="ana")
        listed = do("runs")

        assert "calling pay again with the same arguments goes on" in approved.out
        assert "calling pay again with the same arguments goes on" in listed.out
        assert "resume" not in approved.out + listed.out
        assert (pay(5), paid) == (5, [5])
