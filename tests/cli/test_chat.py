"""The chat at a real terminal: who decides in place, by which words, and what leaving leaves."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from placet.settings import current_account
from tests.cli.dialog import CTRL_C, CTRL_D, dialog
from tests.cli.place import Place, do
from tests.cli.talkers import GO, HELD

ME = current_account()
ASKS = "approve, reject, edit or later? "
CHAT = ("chat", "--session", "main")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", "ben", ME, agents="tests.cli.talkers:support")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Give a place in which the account at the terminal is no approver."""
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, "ana", "ben", agents="tests.cli.talkers:support")


def waiting(session: str = "main") -> str:
    """Name the request that waits."""
    (found,) = do("inbox", "--session", session, "--json").document["requests"]
    return str(found["request_id"])


# --- deciding in place ----------------------------------------------------------------------------


@pytest.mark.promise("H1", "H5", "G3")
def test_what_must_ask_is_shown_and_the_exact_word_approves_it(place: Place) -> None:
    with dialog(place, "chat") as talk:
        talk.say("refund A-1")
        card = talk.expect(ASKS)
        request = re.findall(r"rq_\w+", card)[0]
        for words in ("yes", "APPROVE", " approve", "approve it", "Approve", "refund A-2"):
            talk.enter(f"{words}")
            assert f"run_waiting request_id={request}" in talk.expect(ASKS), words
        assert place.effects == []
        talk.enter("approve")
        assert f"{request}: approved by {ME}\n  · is about to run refund\nDone: refunded 129\n" in (
            talk.expect("> ")
        )
        talk.type(CTRL_D)
        assert talk.ended() == 0

    assert "It broke: I pay." in card
    assert "amount = 129" in card
    assert place.effects == ["refund A-1 129"]


@pytest.mark.slow
@pytest.mark.promise("H5")
def test_what_was_typed_before_the_question_was_there_decides_nothing(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("refund A-1\rapprove\rapprove")
        talk.expect(ASKS)
        talk.enter("/inbox")
        talk.expect(f"{waiting()}  refund")
        talk.say("later", at=ASKS)
        talk.say("/inbox")
        talk.expect("rq_")

    assert place.effects == []


@pytest.mark.promise("G6")
def test_a_no_is_asked_for_its_reason_which_the_model_is_told(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("refund A-1")
        talk.say("reject", at=ASKS)
        talk.say(" ", at="why (the model is told it)? ")
        talk.expect("a rejection needs a reason")
        talk.say("reject", at=ASKS)
        talk.say("it is\\", at="? ")
        talk.say("too much", at="… ")
        talk.expect(f"Done: Rejected by {ME}: it is\ntoo much\n")

    assert place.effects == []


@pytest.mark.slow
@pytest.mark.promise("G5", "H5")
def test_an_edit_is_shown_and_made_so_by_its_word(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("refund A-1")
        talk.say("edit amount=fifty", at=ASKS)
        talk.say("", at="nothing more? ")
        talk.expect("value_not_json")
        talk.say("edit amount=50", at=ASKS)
        talk.say("", at="nothing more? ")
        talk.say("approve", at="anything else? ")
        talk.expect("not_confirmed")
        talk.say("edit", at=ASKS)
        talk.say("amount=50", at="NAME=JSON? ")
        talk.say('order_id="B-2"', at="nothing more? ")
        talk.say("", at="nothing more? ")
        assert 'order_id = "B-2"\n    amount = 50' in talk.expect("type edit")
        talk.say("edit", at="? ")
        talk.expect("refunded 50")

    assert place.effects == ["refund B-2 50"]


@pytest.mark.slow
def test_a_question_is_answered_in_place_and_asked_again_where_the_answer_does_not_fit(
    elsewhere: Place,
) -> None:
    with dialog(elsewhere, *CHAT) as talk:
        talk.say("colour")
        assert "wanted      one of: red, blue" in talk.expect("answer? ")
        talk.enter("green")
        talk.expect("[answer_does_not_fit]")
        talk.say("red", at="answer? ")
        talk.expect(f"Done: {ME} answered: red\n> ")


@pytest.mark.slow
@pytest.mark.promise("G10")
def test_who_may_not_decide_is_told_who_was_asked_and_sees_what_others_decide(
    elsewhere: Place,
) -> None:
    with dialog(elsewhere, *CHAT) as talk:
        talk.say("refund A-1")
        told = talk.expect("> ")
        request = waiting()
        assert re.search(r"Asked of ana or ben, until \d{4}-.+ UTC. .+ may not decide this", told)
        talk.enter(f"/approve {request}")
        talk.expect("not_an_approver")
        talk.say("again")
        talk.expect("[run_waiting")
        talk.expect("/supersede MESSAGE")
        talk.expect("> ")
        assert elsewhere.status(request) == "waiting"

        do("approve", request, by="ana")
        talk.expect(f"{request}: approved by ana")
        talk.expect("Done: refunded 129\n")
        talk.expect("> ")

    assert elsewhere.effects == ["refund A-1 129"]


@pytest.mark.slow
def test_what_a_worker_carries_on_meanwhile_is_shown(elsewhere: Place) -> None:
    with dialog(elsewhere, *CHAT, "--requester", "mia") as talk:
        talk.say("two")
        talk.expect("> ")
        first, second = [r["request_id"] for r in do("inbox", "--json").document["requests"]]
        do("reject", first, "--reason", "no", by="ana")
        talk.expect(f"{first}: rejected by ana: no")
        do("cancel", do("runs", "--json").document["runs"][0]["run_id"], "--cause", "late")
        talk.expect(f"{second}: its run was ended: {ME}: late")
        talk.expect("ended: cancelled)")
        talk.say("well")
        talk.expect("You said:\nwell\n")


@pytest.mark.slow
def test_of_several_requests_each_is_asked_in_turn(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("two")
        talk.say("approve", at=ASKS)
        talk.expect("is about to run refund")
        talk.say("reject", at=ASKS)
        talk.say("one is enough", at="? ")
        talk.expect("Done: Rejected")

    assert len(place.effects) == 1


@pytest.mark.slow
def test_the_work_of_a_run_under_the_run_is_shown_behind_its_agents_name(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("delegate")
        shown = talk.expect(ASKS)
        talk.enter("approve")
        after = talk.expect("> ")

    assert "  · hands a task to the agent helper\n  helper | It broke: I pay.\n" in shown
    assert re.search(r"under +run_", shown)
    assert (
        "  · helper: is about to run refund\n  helper | Done: refunded 129\n"
        "Done: Done: refunded 129" in after
    )


@pytest.mark.slow
@pytest.mark.promise("D4")
def test_an_outcome_that_nobody_knows_is_shown_with_what_settles_it(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("vanish")
        talk.say("approve", at=ASKS)
        assert talk.ended() == 9, "the process dies in the tool's body"
    with dialog(place, *CHAT) as talk:
        shown = talk.expect("> ")
        (settlement,) = re.findall(r"Settlement (st_\w+)", shown)
        assert f"placet settle {settlement} --did-not-happen" in shown
        do("settle", settlement, "--did-not-happen", by="ana")
        talk.expect("settled by ana: did-not-happen")
        talk.expect("Done: Interrupted")

    assert place.effects == ["vanish"]


# --- leaving and coming back ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.promise("D1", "D2", "G7")
def test_a_chat_that_is_killed_is_come_back_to_and_the_effect_is_one(place: Place) -> None:
    with dialog(place, "chat") as talk:
        talk.say("refund A-1")
        talk.expect(ASKS)
        talk.kill()
    with dialog(place, "chat") as talk:
        talk.expect("amount = 129")
        talk.say("approve", at=ASKS)
        talk.expect("Done: refunded 129\n")

    assert place.effects == ["refund A-1 129"]


@pytest.mark.slow
@pytest.mark.parametrize("key", [CTRL_D, CTRL_C, "/quit\r"])
def test_leaving_leaves_what_waits(place: Place, key: str) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("refund A-1")
        talk.expect(ASKS)
        talk.type(key)
        talk.expect(f"waits for {waiting()}: `placet chat --session main` comes back to it")
        assert talk.ended() == 10

    assert place.status(waiting()) == "waiting"


@pytest.mark.slow
@pytest.mark.promise("D2")
def test_what_was_decided_while_nobody_was_there_goes_on_when_one_comes_back(place: Place) -> None:
    do("run", "--session", "main", "refund A-1")
    do("approve", waiting(), by="ana")
    with dialog(place, *CHAT) as talk:
        assert "Done: refunded 129\n" in talk.expect("> ")

    assert place.effects == ["refund A-1 129"]


@pytest.mark.slow
@pytest.mark.promise("D2")
def test_an_interrupted_model_leaves_the_run_resting_and_nothing_is_lost(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("hang on")
        talk.expect("let me see")
        talk.type(CTRL_C)
        talk.expect(" rests: /resume goes on with it")
        (run,) = do("runs", "--active", "--json").document["runs"]
        assert run["status"] == "resting"
        assert run["run_id"] in talk.seen
        talk.say("well?")
        talk.expect("[run_open")
        place.write(GO, "")
        talk.say("/resume")
        talk.expect("You said:\nhang on\n")


@pytest.mark.promise("D4")
def test_an_effect_that_has_begun_is_waited_for_when_interrupted(place: Place) -> None:
    os.mkfifo(HELD)
    with dialog(place, *CHAT) as talk:
        talk.say("hold")
        talk.expect("· is about to run hold")
        talk.type(CTRL_C)
        talk.expect("hold has begun and is waited for")
        Path(HELD).write_text("go", encoding="utf-8")
        talk.expect(" rests: ")
        talk.say("/resume")
        talk.expect("Done: let go\n")

    assert place.effects == ["held"]


# --- what begins with a slash ---------------------------------------------------------------------


@pytest.mark.promise("H5")
def test_what_begins_with_a_slash_reaches_no_model(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        for said, told in {
            "/approve": "malformed_command",
            "/Approve rq_abcd please": "malformed_command",
            "/reject rq_abcd": "needs a reason",
            "/approve rq_abcd": "request_not_found",
            "/etc/passwd": "There is no command /etc/passwd.",
            "/show": "Say exactly `/show ID`",
            "/end now": "Say exactly `/end`",
            "/mode": "Say exactly `/mode think|act|plan-act`",
            "/mode dream": "There is no mode dream",
            "/later": "Nothing is asked",
            "/help": "/supersede MESSAGE",
            "/inbox": "Nothing waits.",
        }.items():
            talk.say(said)
            talk.expect(told)
        talk.say("/supersede /approve rq_abcd")
        talk.expect("command_as_message")

    assert do("runs", "--json").document["runs"] == []


@pytest.mark.slow
def test_requests_are_decided_answered_and_shown_by_their_ids(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("two")
        talk.say("later", at=ASKS)
        talk.say("later", at=ASKS)
        talk.expect("> ")
        first, second = [r["request_id"] for r in do("inbox", "--json").document["requests"]]
        talk.enter(f"/show {first}")
        talk.expect("amount = 1\n")
        talk.say(f"/reject {first} it was\\")
        talk.say("sold as seen", at="… ")
        talk.expect(f"{first}: rejected by {ME}: it was\nsold as seen\n")
        talk.say(f"/approve {second}")
        talk.expect("is about to run refund")
        talk.say("colour")
        talk.expect("answer? ")
        talk.enter(f"/answer {waiting()} blue")
        talk.expect("answered: blue\n")

    assert place.effects == ["refund A-2 2"]
    assert "it was\nsold as seen" in do("show", first).out.replace("⟦U+000A⟧", "\n")


@pytest.mark.slow
@pytest.mark.promise("G11")
def test_a_request_of_another_session_is_decided_by_no_chat_of_this_one(place: Place) -> None:
    do("run", "--session", "other", "refund A-1")
    request = waiting("other")
    with dialog(place, *CHAT) as talk:
        for said in (f"/approve {request}", f"/reject {request} no", f"/show {request}"):
            talk.say(said)
            talk.expect("request_not_found")

    assert place.status(request) == "waiting"


@pytest.mark.slow
def test_a_newer_message_takes_the_place_of_a_run_that_waits(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("refund A-1")
        request_of_old = waiting() if talk.expect(ASKS) else ""
        talk.enter("/supersede never mind")
        told = talk.expect("> ")

    assert "You said:\nnever mind\n" in told
    assert f"{request_of_old}: a newer message took its run's place" in told
    assert place.effects == []


@pytest.mark.slow
def test_a_mode_is_for_the_next_message_alone(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("/mode think")
        talk.say("tools", at="think> ")
        talk.expect("I have 0 tools")
        talk.say("tools", at="\n> ")
        talk.expect("I have 7 tools")
        talk.say("/mode plan-act")
        talk.say("plan it", at="plan-act> ")
        talk.expect("works on item 1 of 1")


@pytest.mark.slow
def test_a_session_that_is_ended_takes_no_further_message(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("refund A-1")
        talk.say("/end", at=ASKS)
        talk.expect("The session is ended")
        assert talk.ended() == 0
    with dialog(place, *CHAT) as talk:
        talk.expect("session_ended")
        assert talk.ended() == 3

    assert do("run", "--session", "main", "go", "--json").error["code"] == "session_ended"


# --- what is shown --------------------------------------------------------------------------------


@pytest.mark.promise("H2")
def test_nothing_that_a_model_writes_acts_on_the_terminal(place: Place) -> None:
    with dialog(place, *CHAT) as talk:
        talk.say("nasty")
        shown = talk.expect("> ")

    assert "plain ⟦U+001B⟧[31mred⟦U+001B⟧[0m ⟦U+202E⟧desrever ⟦U+0007⟧\n" in shown
    assert "\x1b[31m" not in shown
    assert "\u202e" not in shown
    assert shown.count("desrever") == 1, "what was seen as it came is not shown again"


@pytest.mark.slow
def test_without_line_editing_a_line_decides_too(place: Place) -> None:
    with dialog(place, *CHAT, TERM="dumb") as talk:
        talk.say("refund A-1\rapprove")
        request = waiting() if talk.expect(ASKS) else ""
        do("reject", request, "--reason", "no", by="ben")
        talk.expect(f"{request}: rejected by ben: no")
        talk.expect("Done: Rejected by ben")
        talk.say("two")
        talk.say("approve", at=ASKS)
        talk.expect(ASKS)

    assert len(place.effects) == 1
