"""What a run's model knows of the earlier runs of its session: sound, bounded, no other's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet import Agent, ScriptedModel, ask_person
from placet.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ToolMessage,
    UserMessage,
    check_request,
)
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.agent.view import RUNS_REMEMBERED, SUMMARISE, size_of
from placet.core.state import RunOver
from tests.runtime.desk import Desk, answers, effect, said, told


class Keeping:
    """A script that keeps what it was shown, and answers as it is told to."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.shown: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Any:
        self.shown.append(request)
        return self.reply(request)

    @property
    def last(self) -> tuple[Message, ...]:
        return self.shown[-1].messages


def agent(script: Any, *tools: Any, limit: int = 200_000, **options: Any) -> Agent:
    return Agent(
        name="support", model=ScriptedModel(script), tools=tools, view_limit=limit, **options
    )


def sound(messages: Sequence[Message]) -> None:
    """Hold what every vendor wants of a request's messages."""
    check_request(ModelRequest(instructions="", messages=tuple(messages)))
    assert isinstance(messages[0], UserMessage), "the user speaks first"
    assert not isinstance(messages[-1], AssistantMessage), "it is the model's turn"
    for one, other in pairwise(messages):
        assert not (isinstance(one, AssistantMessage) and isinstance(other, AssistantMessage))


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


@pytest.mark.promise("G6")
def test_the_next_run_sees_the_earlier_ones_with_each_result_in_its_place(tmp_path: Path) -> None:
    done: list[str] = []
    step = calls(
        call("pay", what="a"), call("look", what="b"), call("nothing"), raw_call("look", "{}")
    )

    def reply(request: ModelRequest) -> Any:
        asks = isinstance(request.messages[-1], UserMessage) and said(request) == "first"
        return step if asks else say(f"answer to {said(request)}")

    script = Keeping(reply)
    tools = (effect(done), effect(done, "look", reads_only=True))
    with Desk(tmp_path, agent=agent(script, *tools)) as desk:
        (request,) = desk.start("first").waiting
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
        assert desk.start("second", run_id="run_2").stop == "final"
    with Desk(tmp_path, agent=agent(script, *tools)) as desk:
        assert desk.start("third", run_id="run_3").stop == "final"
    first, said_calls, *results = script.last[:6]
    assert first == UserMessage(text="first")
    assert isinstance(said_calls, AssistantMessage)
    assert [each.name for each in said_calls.calls] == ["pay", "look", "nothing", "look"]
    assert [getattr(each, "call_id", "") for each in results] == [c.id for c in said_calls.calls]
    assert texts(results)[:2] == ["pay a done", "look b done"]
    assert texts(script.last[6:]) == ["answer to first", "second", "answer to second", "third"]
    sound(script.last)


@pytest.mark.promise("G11")
def test_another_sessions_memory_is_never_seen(tmp_path: Path) -> None:
    script = Keeping(lambda r: say(f"answer to {said(r)}"))
    with Desk(tmp_path, agent=agent(script)) as desk:
        desk.start("secret of s", session="s", run_id="run_1")
        desk.start("hello", session="t", run_id="run_2")
        assert texts(script.last) == ["hello"]
        desk.start("again", session="s", run_id="run_3")
        assert texts(script.last) == ["secret of s", "answer to secret of s", "again"]


@pytest.mark.slow
@pytest.mark.promise("D6")
def test_older_runs_are_told_in_short_and_the_oldest_not_at_all(tmp_path: Path) -> None:
    done: list[str] = []
    look = effect(done, "look", reads_only=True)

    def reply(request: ModelRequest) -> Any:
        if isinstance(request.messages[-1], UserMessage):
            return call("look", what=said(request) + "." * 300)
        return say(f"answer to {said(request)}")

    script = Keeping(reply)
    with Desk(tmp_path, agent=agent(script, look, limit=3_000)) as desk:
        for number in range(40):
            assert desk.start(f"message {number}", run_id=f"run_{number}").stop == "final"
    shown = script.shown[-2].messages
    assert size_of(shown) <= 3_000
    asked = [m.text for m in shown if isinstance(m, UserMessage)]
    assert asked == [f"message {number}" for number in range(40 - len(asked), 40)]
    assert 5 < len(asked) < 40
    whole = sum(isinstance(message, ToolMessage) for message in shown)
    assert 0 < whole < len(asked) - 1, "the newest whole, the older ones in short"
    sound(shown)


@pytest.mark.promise("D6")
def test_a_run_too_large_to_be_told_whole_hides_no_older_one(tmp_path: Path) -> None:
    long = "z" * 50_000
    replies = {"one": "first answer", "two": long, "three": "third answer"}
    script = Keeping(lambda r: say(replies[said(r)]))
    with Desk(tmp_path, agent=agent(script, limit=2_000)) as desk:
        for number, message in enumerate(replies):
            assert desk.start(message, run_id=f"run_{number}").stop == "final"
    found = texts(script.last)
    assert found[:3] == ["one", "first answer", "two"]
    assert "characters are left out here" in found[3]
    assert size_of(script.last) <= 2_000


@pytest.mark.promise("D6")
def test_what_was_said_earlier_is_not_lost_when_a_run_is_summed_up(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Any:
        if request.instructions == SUMMARISE:
            return say("the summary")
        if said(request) == "my name is Rob":
            return say("hello Rob")
        at = sum(each.instructions != SUMMARISE for each in script.shown)
        return say("done") if at > 14 else call("look", what=f"{at}" + "." * 300)

    script = Keeping(reply)
    look = effect([], "look", reads_only=True)
    with Desk(tmp_path, agent=agent(script, look, limit=3_000)) as desk:
        desk.start("my name is Rob")
        assert desk.start("a long task", run_id="run_2").stop == "final"
    summed_up = [each for each in script.shown if each.instructions == SUMMARISE]
    assert summed_up
    assert "my name is Rob" in summed_up[0].messages[0].text
    for request in script.shown[1:]:
        if not any("the summary" in text for text in texts(request.messages)):
            assert "my name is Rob" in "\n".join(texts(request.messages))


@pytest.mark.promise("D6")
def test_a_run_that_was_summed_up_is_remembered_by_its_summary(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Any:
        if request.instructions == SUMMARISE:
            return say("the summary")
        if said(request) != "a long task" and "summed up" not in said(request):
            return say("short answer")
        at = sum(each.instructions != SUMMARISE for each in script.shown)
        return say("done") if at > 14 else call("look", what=f"{at}" + "." * 300)

    script = Keeping(reply)
    look = effect([], "look", reads_only=True)
    with Desk(tmp_path, agent=agent(script, look, limit=3_000)) as desk:
        desk.start("before")
        assert desk.start("a long task", run_id="run_2").stop == "final"
        desk.start("and now", run_id="run_3")
    found = texts(script.last)
    assert "a long task" in found
    assert found[-1] == "and now"
    told = "\n".join(found)
    assert "the summary" in told or "done" in found, "by its summary, or in short"
    sound(script.last)
    assert size_of(script.last) <= 3_000


@pytest.mark.slow
def test_what_children_did_is_not_remembered_and_hides_no_earlier_run(tmp_path: Path) -> None:
    inner = Agent(name="child", model=ScriptedModel([say("child's answer")]))

    def reply(request: ModelRequest) -> Any:
        if said(request) == "many" and isinstance(request.messages[-1], UserMessage):
            return calls(*(call("child", message=f"task {n}") for n in range(RUNS_REMEMBERED + 5)))
        return say(f"answer to {said(request)}")

    script = Keeping(reply)
    with Desk(tmp_path, agent=agent(script, inner)) as desk:
        desk.start("the first")
        assert desk.start("many", run_id="run_2").stop == "final"
        desk.start("now", run_id="run_3")
    found = texts(script.last)
    assert found[:3] == ["the first", "answer to the first", "many"]
    assert found[-2:] == ["answer to many", "now"]
    assert not any(text.startswith("task ") for text in found)


@pytest.mark.promise("G6")
@pytest.mark.parametrize("end", ["cancelled", "superseded", "rejected", "blocked", "max_steps"])
def test_a_run_that_ended_badly_is_remembered_soundly(tmp_path: Path, end: str) -> None:
    done: list[str] = []
    step = calls(call("pay", what="a"), call("log", what="b"), call("pay", what="c"))

    def reply(request: ModelRequest) -> Any:
        begins = isinstance(request.messages[-1], UserMessage)
        return step if begins and said(request) == "bad" else say("fine")

    script = Keeping(reply)
    tools = (effect(done), effect(done, "log", approval="never"))
    options = {"max_steps": 1} if end == "max_steps" else {}
    with Desk(tmp_path, agent=agent(script, *tools, **options)) as desk:
        more: dict[str, Any] = {"mode": "think"} if end == "blocked" else {}
        waiting = desk.start("bad", **more).waiting
        if end == "cancelled":
            desk.do(lambda p: p.cancel("run_1", by="ana", cause="wrong"))
        for request in waiting if end in ("rejected", "max_steps") else ():
            desk.decide(request, "reject", reason="no")
        if end in ("rejected", "max_steps"):
            desk.resume()
        how = "supersede" if end == "superseded" else "refuse"
        assert desk.start("next", run_id="run_2", on_message=how).stop == "final"
        assert desk.result("run_1").stop != "approval_required"
    sound(script.last)
    assert texts(script.last)[0] == "bad"
    assert sum(isinstance(message, ToolMessage) for message in script.last) == 3
    assert done == (["log b"] if end in ("rejected", "max_steps") else [])


# --- any life at all -----------------------------------------------------------------------------

CALLS = {
    "pay": call("pay", what="a"),
    "free": call("log", what="b" * 200),
    "look": call("look", what="c" * 400),
    "ask": call("ask_person", question="Which?"),
    "hand over": call("child", message="do it"),
    "unknown": call("nothing", what="x"),
    "unreadable": raw_call("pay", '{"what": '),
    "invalid": call("pay", what=3),
}
TURNS = st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=4)
ENDS = st.sampled_from(["decide", "reject", "cancel", "supersede", "decide", "end"])
LIVES = st.lists(
    st.tuples(
        st.sampled_from(["act", "act", "act", "plan-act", "think"]),
        st.lists(TURNS, min_size=1, max_size=6),
        ENDS,
        st.integers(min_value=1, max_value=900),
    ),
    min_size=2,
    max_size=5,
)


class Living:
    """A model that takes its turns from a list, whatever it is shown, and holds it to be sound."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = []
        self.size = 1

    def __call__(self, request: ModelRequest) -> Any:
        sound(request.messages)
        if request.instructions == SUMMARISE:
            return say("summary " + "s" * self.size)
        turn = self.turns.pop(0) if self.turns else []
        if not turn or (not request.tools and self.size % 4):
            return say("1. one\n2. two " + "t" * self.size)
        return calls(*(CALLS[each] for each in turn), text="x" * self.size)


def lived(desk: Desk, number: int, end: str, begun: Any) -> None:
    """Bring a run to an end, as people would."""
    result = begun
    for _ in range(20):
        if result.stop != "approval_required":
            return
        if end == "cancel":
            desk.do(lambda p: p.cancel(f"run_{number}", by="ana"))
            return
        if end == "supersede":
            return
        for request in result.waiting:
            kind = desk.show(request).kind
            if end == "decide" and kind == "question":
                desk.answer(request, "this one")
            elif end == "decide":
                card = desk.show(request)
                approves = card.raw_arguments is None
                desk.decide(request, "approve" if approves else "reject", reason="unreadable")
            else:
                desk.decide(request, "reject", reason="no")
        result = desk.resume(f"run_{number}")


@pytest.mark.promise("G6", "D6")
@settings(max_examples=settings().max_examples // 3)
@given(lives=LIVES, limit=st.sampled_from([1_000, 2_500, 200_000]))
@pytest.mark.slow
def test_whatever_a_session_lived_through_what_its_model_is_shown_is_sound(
    lives: list[tuple[Any, list[list[str]], str, int]], limit: int
) -> None:
    model = Living()
    done: list[str] = []
    inner = agent(
        lambda r: answers(r) if told(r) else call("inner", what=said(r)), effect(done, "inner")
    )
    tools = [
        effect(done),
        effect(done, "log", approval="never"),
        effect(done, "look", reads_only=True),
        ask_person,
        inner.as_tool(name="child"),
    ]
    with tempfile.TemporaryDirectory() as place:
        for number, (mode, turns, end, size) in enumerate(lives):
            with Desk(Path(place), agent=agent(model, *tools, limit=limit, max_steps=8)) as desk:
                model.turns, model.size = list(turns), size
                how: dict[str, Any] = {"mode": mode, "on_message": "supersede"}
                begun = desk.start(f"message {number} " * 20, run_id=f"run_{number}", **how)
                lived(desk, number, end, begun)
                for row in desk.store.runs("main", session="s"):
                    _one_result_a_call(desk, row.run.id)
                if end == "end" and begun.stop != "approval_required":
                    desk.do(lambda p: p.end_session("s", by="ana"))
                    break


def _one_result_a_call(desk: Desk, run: str) -> None:
    """Hold that each call of a run that is over has one result, and no two have one place."""
    rows = desk.store.transcript("main", "s", run)
    places = [(row.step, row.index) for row in rows]
    assert len(set(places)) == len(places)
    if isinstance(desk.state(run).runs[run].state, RunOver):
        turns = [json.loads(row.body)["message"] for row in rows if row.kind == "turn"]
        made = sum(len(turn["calls"]) for turn in turns)
        assert made == sum(row.kind == "result" for row in rows)
