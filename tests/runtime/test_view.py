"""What a model is shown of a long run, and what a watcher is told: never the record itself."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, ModelTrouble, ScriptedModel, tool
from placet.agent import loop
from placet.agent.messages import (
    AssistantMessage,
    ModelRequest,
    ModelTurn,
    ToolMessage,
    Usage,
    UserMessage,
)
from placet.agent.models.scripted import call, calls, say
from placet.agent.view import SUMMARISE, shortened, size_of
from placet.agent.watching import TextArrives, WorkBegins
from placet.core.work import CallModel, Delegate, RunEffect, RunReads
from tests.runtime.desk import Desk, effect, told

LIMIT = 3_000


@tool(reads_only=True)
def look(number: int, size: int = 300) -> str:
    """Look at something, and see much."""
    return f"seen {number} " + "x" * size


class Counting:
    """A script that looks `steps` times and then answers; it keeps what it was shown."""

    def __init__(self, steps: int, *, size: int = 300) -> None:
        self.steps, self.size, self.made = steps, size, 0
        self.shown: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Any:
        if request.instructions == SUMMARISE:
            self.summaries.append(request)
            return say(f"summary {len(self.summaries)}")
        self.shown.append(request)
        self.made += 1
        if self.made > self.steps:
            return say("done")
        return call("look", number=self.made, size=self.size)


def agent(script: Any, *tools: Any, limit: int = LIMIT, **options: Any) -> Agent:
    return Agent(
        name="support",
        model=ScriptedModel(script),
        tools=tools or (look,),
        max_steps=2_000,
        view_limit=limit,
        **options,
    )


def rows(desk: Desk, run: str = "run_1") -> list[tuple[int, int, str, str]]:
    found = desk.store.transcript("main", "s", run)
    return [(row.step, row.index, row.kind, row.body) for row in found]


@pytest.mark.promise("D6")
def test_a_long_run_is_summed_up_by_one_row_and_nothing_is_rewritten(tmp_path: Path) -> None:
    script, before = Counting(30), list[tuple[int, int, str, str]]()

    def reply(request: ModelRequest) -> Any:
        now = rows(desk)
        assert [row for row in now if row in before] == before, "an earlier row was changed"
        before[:] = now
        return script(request)

    with Desk(tmp_path, agent=agent(reply)) as desk:
        assert desk.start("the task").stop == "final"
        found = rows(desk)
        kinds = [kind for _, _, kind, _ in found]
        assert (kinds.count("turn"), kinds.count("result")) == (31, 30)
        assert kinds.count("summary") == desk.kinds().count("TranscriptCompacted") > 2
        assert kinds.count("summary") == len(script.summaries)
        assert len(set(found)) == len(found)


@pytest.mark.promise("D6")
def test_the_model_sees_the_message_the_summary_and_the_last_steps_within_the_limit(
    tmp_path: Path,
) -> None:
    script = Counting(40)
    with Desk(tmp_path, agent=agent(script)) as desk:
        assert desk.start("the task").stop == "final"
    assert max(size_of(request.messages) for request in script.shown) <= LIMIT
    last = script.shown[-1].messages
    assert last[0] == UserMessage(text="the task")
    assert isinstance(last[1], UserMessage)
    assert last[1].text.endswith(f"summary {len(script.summaries)}")
    assert last[-1].text.startswith("seen 40 ")
    assert isinstance(last[2], AssistantMessage)
    shown = " ".join(told(script.shown[-1]))
    assert "seen 40" in shown
    assert "seen 2 " not in shown
    assert all(request.tools == () for request in script.summaries)
    asked = [request.messages[0].text for request in script.summaries]
    assert all("the task" in each for each in asked), "each goes on from the one before"
    assert all(f"summary {at}" in each for at, each in enumerate(asked[1:], 1))
    for number in range(1, 41 - LIMIT // 300):
        assert any(f"result of look: seen {number} " in each for each in asked)


@pytest.mark.promise("D6", "D2")
@pytest.mark.parametrize("breaks", ["before the summary", "after the summary"])
def test_a_break_around_a_summary_repeats_soundly(tmp_path: Path, breaks: str) -> None:
    script, broken = Counting(12), [True]

    def reply(request: ModelRequest) -> Any:
        summing = request.instructions == SUMMARISE
        due = summing if breaks == "before the summary" else bool(script.summaries)
        if due and broken[0]:
            raise ModelTrouble("model_refused", "no", retryable=False)
        return script(request)

    with Desk(tmp_path, agent=agent(reply)) as desk:
        with pytest.raises(ModelTrouble):
            desk.start("the task")
        first = rows(desk)
        compacted = breaks == "after the summary"
        assert ("TranscriptCompacted" in desk.kinds()) == compacted
    broken[0] = False
    with Desk(tmp_path, agent=agent(reply)) as desk:
        assert desk.resume().stop == "final"
        found = rows(desk)
        assert [row for row in found if row in first] == first
        assert len(desk.results()) == 12
        places = [(step, index) for step, index, _, _ in found]
        assert len(set(places)) == len(places)
        summed = [step for step, _, kind, _ in found if kind == "summary"]
        assert len(summed) == len(script.summaries), "no step was summed up twice"


@pytest.mark.promise("D6")
def test_a_summary_that_says_nothing_is_no_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MODEL_BACKOFF", timedelta(milliseconds=1))
    script, empty = Counting(12), [True]

    def reply(request: ModelRequest) -> Any:
        if request.instructions == SUMMARISE and empty[0]:
            return say(" \n")
        return script(request)

    with Desk(tmp_path, agent=agent(reply)) as desk:
        with pytest.raises(ModelTrouble) as failed:
            desk.start("the task")
        assert failed.value.code == "model_malformed"
        assert "TranscriptCompacted" not in desk.kinds()
        empty[0] = False
        assert desk.resume().stop == "final"


@pytest.mark.promise("D6")
def test_a_child_run_is_summed_up_as_any(tmp_path: Path) -> None:
    script = Counting(20)
    inner = Agent(
        name="child", model=ScriptedModel(script), tools=[look], max_steps=50, view_limit=LIMIT
    )
    boss = agent([call("child", message="the task"), say("ok")], inner)
    with Desk(tmp_path, agent=boss) as desk:
        assert desk.start().stop == "final"
        (child,) = desk.children()
        assert desk.results() == ["done"]
        assert [kind for _, _, kind, _ in rows(desk, child)].count("summary") > 1
        assert "summary" not in [kind for _, _, kind, _ in rows(desk)]
        assert script.shown[-1].messages[0] == UserMessage(text="the task")


@pytest.mark.slow
@pytest.mark.promise("D6")
def test_what_a_step_costs_does_not_grow_with_the_run(tmp_path: Path) -> None:
    sizes: dict[int, int] = {}
    script = Counting(600)

    def reply(request: ModelRequest) -> Any:
        if script.made % 150 == 0 and request.instructions != SUMMARISE:
            sizes[script.made] = sum(file.stat().st_size for file in tmp_path.iterdir())
        return script(request)

    with Desk(tmp_path, agent=agent(reply)) as desk:
        assert desk.start("the task").stop == "final"
    first, last = sizes[300] - sizes[150], sizes[600] - sizes[450]
    assert last <= 1.1 * first + 65_536, f"later steps cost more: {sizes}"
    assert max(size_of(request.messages) for request in script.shown) <= LIMIT
    assert max(size_of(request.messages) for request in script.summaries) <= 2 * LIMIT
    assert len(script.summaries) < 600 / 2, "not every step is summed up"


@pytest.mark.promise("D6", "H2")
def test_one_huge_result_is_shown_in_part_and_says_what_was_left_out(tmp_path: Path) -> None:
    script = Counting(1, size=50_000)
    with Desk(tmp_path, agent=agent(script)) as desk:
        assert desk.start("the task").stop == "final"
        (shown,) = told(script.shown[-1])
        (whole,) = desk.results()
        assert len(whole) > 50_000, "the record has all of it"
        assert shown.startswith("seen 1 xxx")
        assert len(shown) < LIMIT / 2
        left_out = len(whole) - (LIMIT // 4) * 2 // 3 - (LIMIT // 4) // 3
        assert f"[... {left_out} characters are left out here ...]" in shown
        assert script.summaries == []


@pytest.mark.promise("D6")
@pytest.mark.parametrize("count", [3, 40, pytest.param(400, marks=pytest.mark.slow)])
def test_many_large_results_of_one_step_fit_together(tmp_path: Path, count: int) -> None:
    shown: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        assert request.instructions != SUMMARISE, "there is nothing to sum up"
        shown.append(request)
        if told(request):
            return say("done")
        return calls(*(call("look", number=at, size=2_000) for at in range(count)))

    with Desk(tmp_path, agent=agent(reply)) as desk:
        assert desk.start("the task").stop == "final"
    results = [message for message in shown[-1].messages if isinstance(message, ToolMessage)]
    assert len(results) == count
    notes = sum(len(each.text) - len(each.text.replace("\n[...", "")) for each in results)
    assert notes > 0
    text = sum(len(each.text.partition("\n[...")[0]) for each in results)
    assert text <= LIMIT


def test_a_long_message_of_the_user_is_shown_in_part_too(tmp_path: Path) -> None:
    script = Counting(20)
    with Desk(tmp_path, agent=agent(script)) as desk:
        assert desk.start("begin " + "m" * 20_000 + " end").stop == "final"
    for request in script.shown:
        text = request.messages[0].text
        assert text.startswith("begin ")
        assert text.endswith(" end")
        assert "characters are left out here" in text


@pytest.mark.parametrize("most", range(12))
def test_a_text_shown_in_part_holds_no_more_of_it_than_it_may(most: int) -> None:
    shown = shortened("abcdefghijklmnopqrst", most)
    head, _, tail = shown.partition("\n[... ")
    note, _, tail = tail.partition("...]\n")
    assert len(head) + len(tail) <= most
    assert note == f"{20 - len(head) - len(tail)} characters are left out here "
    assert shortened("abc", 3) == "abc"


# --- on record, and watched ----------------------------------------------------------------------


def test_what_a_turn_cost_is_on_record_with_it(tmp_path: Path) -> None:
    usage = Usage(
        input_tokens=120, output_tokens=7, cached_input_tokens=100, cache_creation_input_tokens=20
    )
    turn = ModelTurn(message=say("done"), usage=usage, model="m-1", finish="stop")
    with Desk(tmp_path, agent=agent([turn])) as desk:
        assert desk.start().stop == "final"
        ((_, _, _, body),) = [row for row in rows(desk) if row[2] == "turn"]
        document = json.loads(body)
        assert (document["model"], document["finish"]) == ("m-1", "stop")
        assert document["usage"] == {
            "input_tokens": 120,
            "output_tokens": 7,
            "cached_input_tokens": 100,
            "cache_creation_input_tokens": 20,
        }


def test_a_summarys_cost_is_on_record_with_it(tmp_path: Path) -> None:
    script = Counting(12)

    def reply(request: ModelRequest) -> Any:
        made = script(request)
        usage = Usage(input_tokens=9, output_tokens=1)
        return ModelTurn(message=made, usage=usage, model="m-1", finish="stop")

    with Desk(tmp_path, agent=agent(reply)) as desk:
        assert desk.start().stop == "final"
        summaries = [json.loads(row[3]) for row in rows(desk) if row[2] == "summary"]
        assert summaries
        assert all(each["usage"]["input_tokens"] == 9 for each in summaries)
        assert summaries[0]["text"] == "summary 1"


def test_a_watcher_is_told_of_work_and_text_in_order(tmp_path: Path) -> None:
    events: list[Any] = []
    inner = Agent(name="child", model=ScriptedModel([say("child says")]))
    script = [
        calls(call("look", number=1), call("pay", what="a"), call("child", message="x")),
        say("all is done"),
    ]
    tools = (look, effect([], approval="never"), inner)
    with Desk(tmp_path, agent=agent(script, *tools)) as desk:
        result = desk.start(on_event=events.append)
        assert (result.stop, result.answer) == ("final", "all is done")
        (child,) = desk.children()
    mine = [event for event in events if event.run == "run_1"]
    work = [type(e.work) for e in mine if isinstance(e, WorkBegins)]
    assert work[:4] == [CallModel, RunReads, Delegate, RunEffect]
    assert CallModel in work[4:]
    named = [e.tools for e in mine if isinstance(e, WorkBegins) and e.tools]
    assert named == [("look",), ("child",), ("pay",)]
    text = [e for e in mine if isinstance(e, TextArrives)]
    assert "".join(e.text for e in text) == "all is done"
    assert {e.step for e in text} == {2}
    last_turn = max(at for at, e in enumerate(mine) if isinstance(e, WorkBegins))
    assert all(mine.index(e) > last_turn for e in text), "text comes after its turn began"
    assert "".join(e.text for e in events if e.run == child and isinstance(e, TextArrives)) == (
        "child says"
    )


@pytest.mark.parametrize("at", [0, 1, 2, 5])
def test_a_watcher_that_raises_changes_nothing_and_is_told_no_more(tmp_path: Path, at: int) -> None:
    events: list[Any] = []

    def watch(event: Any) -> None:
        events.append(event)
        if len(events) > at:
            raise RuntimeError("the watcher is broken")

    script = [call("look", number=1), call("look", number=2), say("all is done")]
    for place in ("plain", "watched"):
        (tmp_path / place).mkdir()
    with Desk(tmp_path / "plain", agent=agent(script)) as desk:
        plain = (desk.start().answer, desk.results(), desk.kinds())
    with Desk(tmp_path / "watched", agent=agent(script)) as desk:
        watched = (desk.start(on_event=watch).answer, desk.results(), desk.kinds())
    assert watched == plain
    assert len(events) == at + 1


class Babbling:
    """A model whose stream says other things than its turn."""

    name = "babbling"

    async def complete(self, request: ModelRequest, *, on_text: Any = None) -> ModelTurn:
        for piece in ("I shall pay ", "a million"):
            if on_text is not None:
                on_text(piece)
        return ModelTurn(message=say("nothing is paid"), usage=Usage(), model="b", finish="stop")

    async def close(self) -> None:
        """Hold nothing."""


@pytest.mark.promise("G4")
def test_text_that_streams_is_never_what_is_recorded(tmp_path: Path) -> None:
    events: list[Any] = []
    babbler = Agent(name="support", model=Babbling())
    with Desk(tmp_path, agent=babbler) as desk:
        assert desk.start(on_event=events.append).answer == "nothing is paid"
        assert "million" not in str(rows(desk))
    assert "".join(e.text for e in events if isinstance(e, TextArrives)) == "I shall pay a million"


class Plain:
    """A client that knows of no watching, as older ones do."""

    name = "plain"

    async def complete(self, request: ModelRequest) -> ModelTurn:
        return ModelTurn(message=say("done"), usage=Usage(), model="p", finish="stop")

    async def close(self) -> None:
        """Hold nothing."""


def test_a_client_that_cannot_be_watched_serves_who_does_not_watch(tmp_path: Path) -> None:
    odd: Any = Plain()
    with Desk(tmp_path, agent=Agent(name="support", model=odd)) as desk:
        assert desk.start().answer == "done"
