"""A model that only repeats a failing call gets nowhere: the third time stops its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import Agent, ScriptedModel, tool
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.agent.tools import Tool
from tests.runtime.desk import Desk, effect


def broken(entered: list[str], **options: Any) -> Tool:
    def body(what: str) -> str:
        """Fail, unless it is good."""
        entered.append(what)
        if what != "good" and not (what == "mended" and len(entered) > 2):
            raise ValueError("broken")
        return f"{what} done"

    body.__name__ = "pay"
    return tool(**{"approval": "never", **options})(body)


def limited(script: Any, *tools: Any) -> Agent:
    return Agent(name="support", model=ScriptedModel(script), tools=tools, max_steps=9)


def steps(desk: Desk) -> int:
    return desk.state().runs["run_1"].step


@pytest.mark.promise("G6")
@pytest.mark.parametrize(
    "kind, again, enters",
    [
        ("raises", call("pay", what="bad"), 3),
        ("invalid arguments", call("pay", what=3), 0),
        ("unknown tool", call("nothing", what="x"), 0),
        ("a read that raises", call("look", what="bad"), 3),
        ("not even named", raw_call("nothing", "not json"), 0),
    ],
)
def test_the_same_failing_call_three_times_stops_the_run(
    tmp_path: Path, kind: str, again: Any, enters: int
) -> None:
    entered: list[str] = []
    look = broken(entered, name="look", reads_only=True)
    with Desk(tmp_path, agent=limited(lambda _: again, broken(entered), look)) as desk:
        result = desk.start()
        assert (result.stop, len(entered), steps(desk)) == ("failed", enters, 3)
        assert len(desk.results()) == 3, "each call has its own result"
        (stopping,) = [event for event in desk.log() if event.kind == "RunStopping"]
        assert "the same call failed 3 times" in stopping.body


@pytest.mark.promise("G6", "D2")
def test_failures_are_counted_across_pauses_and_restarts(tmp_path: Path) -> None:
    entered: list[str] = []
    agent = limited(lambda _: call("pay", what="bad"), broken(entered, approval="always"))
    waiting = []
    with Desk(tmp_path, agent=agent) as desk:
        waiting = list(desk.start().waiting)
    for times in (1, 2, 3):
        with Desk(tmp_path, agent=agent) as desk:
            desk.decide(waiting[0], "approve")
        with Desk(tmp_path, agent=agent) as desk:
            result = desk.resume()
            assert len(entered) == times
            assert result.stop == ("failed" if times == 3 else "approval_required")
            waiting = list(result.waiting)


@pytest.mark.promise("G6")
def test_a_success_in_between_counts_anew(tmp_path: Path) -> None:
    entered: list[str] = []
    # It fails twice, succeeds once, and is then called for as long as the run may.
    agent = limited(
        lambda r: say("ok") if r.assistant_count == 3 else call("pay", what="mended"),
        broken(entered),
    )
    with Desk(tmp_path, agent=agent) as desk:
        assert desk.start().stop == "final"
        assert [each.partition(":")[0] for each in desk.results()] == [
            "Failed",
            "Failed",
            "mended done",
        ]


@pytest.mark.promise("G6")
def test_after_a_success_three_more_failures_stop_the_run(tmp_path: Path) -> None:
    entered: list[str] = []

    @tool(approval="never")
    def pay() -> str:
        """Fail but for the third time."""
        entered.append("x")
        if len(entered) != 3:
            raise ValueError("broken")
        return "done"

    with Desk(tmp_path, agent=limited(lambda _: call("pay"), pay)) as desk:
        assert desk.start().stop == "failed"
        assert len(entered) == 6


@pytest.mark.promise("G6")
def test_a_call_with_other_arguments_is_another_call(tmp_path: Path) -> None:
    entered: list[str] = []

    def reply(request: ModelRequest) -> Any:
        at = request.assistant_count
        return say("gave up") if at == 6 else call("pay", what=f"bad {at % 3}")

    with Desk(tmp_path, agent=limited(reply, broken(entered))) as desk:
        assert desk.start().stop == "final"
        assert len(entered) == 6


@pytest.mark.promise("G6")
def test_a_step_that_repeats_the_call_stops_with_it_and_answers_the_rest(tmp_path: Path) -> None:
    entered, done = list[str](), list[str]()
    bad = [call("pay", what="bad")] * 4
    step = calls(*bad, call("log", what="x"))
    log = effect(done, "log", approval="never")
    with Desk(tmp_path, agent=limited([step], broken(entered), log)) as desk:
        assert desk.start().stop == "failed"
        assert (len(entered), done) == (3, [])
        assert [each.partition(":")[0] for each in desk.results()] == [
            *["Failed"] * 3,
            *["Interrupted"] * 2,
        ]


@pytest.mark.promise("G6")
def test_a_request_that_waits_when_the_run_fails_is_retired(tmp_path: Path) -> None:
    entered, done = list[str](), list[str]()
    step = calls(*[call("look", what="bad")] * 3, call("log", what="x"))
    look = broken(entered, name="look", reads_only=True)
    with Desk(tmp_path, agent=limited([step], look, effect(done, "log"))) as desk:
        assert desk.start().stop == "failed"
        (row,) = desk.store.requests("main", pending=False)
        assert desk.refused(row.request.id, "approve") == "cancelled"
        assert (len(desk.results()), done) == (4, [])


@pytest.mark.promise("G6")
def test_an_agent_that_fails_the_same_way_three_times_stops_the_outer_run(tmp_path: Path) -> None:
    entered: list[str] = []
    inner = Agent(
        name="child",
        model=ScriptedModel(lambda _: call("pay", what="bad")),
        tools=[broken(entered)],
    )
    boss = limited(lambda _: call("child", message="x"), inner)
    with Desk(tmp_path, agent=boss) as desk:
        assert desk.start().stop == "failed"
        assert len(desk.children()) == 3
        assert len(entered) == 9
        assert all("stopped before it was done: failed" in each for each in desk.results())


@pytest.mark.promise("G6")
def test_a_rejection_is_no_failure_and_is_not_forgotten_over_one(tmp_path: Path) -> None:
    entered: list[str] = []
    agent = limited(lambda _: call("pay", what="bad"), broken(entered, approval="always"))
    with Desk(tmp_path, agent=agent) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        (request,) = desk.resume().waiting
        desk.decide(request, "reject", reason="it only fails")
        assert desk.resume().stop == "rejection_loop"
        assert len(entered) == 1
