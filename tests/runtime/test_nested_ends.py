"""How nested runs end: cancelled from above or by themselves, by workers, by two processes."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, ModelTrouble, Placet, PlacetError, ScriptedModel, tool
from placet.agent.loop import REST_REFUSED
from placet.agent.messages import ModelRequest, ModelTurn, Usage
from placet.agent.models.scripted import Script, call, calls, say
from placet.agent.tools import Tool
from placet.core.state import RunOver
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import Clock, Desk, answers, code_of, effect, said, told
from tests.runtime.life import Killer, paid, refund_tool


def agent(name: str, script: Script, *tools: Any, **options: Any) -> Agent:
    return Agent(name=name, model=ScriptedModel(script), tools=tools, **options)


def relay(name: str, below: Agent) -> Agent:
    """Give an agent that hands its message down and its answer up."""

    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call(below.name, message=said(request))

    return agent(name, reply, below)


def payer(*tools: Tool) -> Agent:
    def reply(request: ModelRequest) -> Any:
        return answers(request) if told(request) else call("pay", what=said(request))

    return agent("payer", reply, *tools)


@pytest.mark.promise("G6")
@pytest.mark.conformance(21, 30)
def test_cancelling_the_outer_run_ends_all_below_and_retires_their_requests(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    middle = relay("middle", payer(effect(done)))
    script = [calls(call("middle", message="a"), call("middle", message="b")), say("ok")]
    with Desk(tmp_path, agent=agent("boss", script, middle)) as desk:
        requests = desk.start().waiting
        assert len(requests) == 2
        assert desk.do(lambda p: p.cancel("run_1", by="ana", cause="stop")).stop == "cancelled"
        rows = desk.store.runs("main", session="s")
        assert len(rows) == 5
        ends = [row.run.state for row in rows]
        assert all(isinstance(end, RunOver) and end.stop == "cancelled" for end in ends)
        for request in requests:
            assert desk.refused(request, "approve") == "cancelled"
        assert desk.resume().stop == "cancelled"
        desk.work_once()
        assert done == []
        for run in [row.run.id for row in rows]:
            turn_calls = 2 if run == "run_1" else 1
            assert len(desk.results(run)) == turn_calls, "every call has its one result"


@pytest.mark.promise("G6")
def test_cancelling_a_child_answers_its_call_and_the_outer_run_goes_on(tmp_path: Path) -> None:
    done: list[str] = []
    script = [calls(call("payer", message="a"), call("payer", message="b")), say("ok")]
    with Desk(tmp_path, agent=agent("boss", script, payer(effect(done)))) as desk:
        first, second = desk.start().waiting
        child = desk.show(first).run
        ended = desk.do(lambda p: p.cancel(child, by="ana", cause="not this one"))
        assert ended.stop == "cancelled"
        assert desk.resume().waiting == (second,)
        desk.decide(second, "approve")
        assert desk.resume().stop == "final"
        cancelled, answered = desk.results()
        assert cancelled.startswith("The agent stopped before it was done: cancelled.")
        assert (answered, done) == ("pay b done", ["pay b"])


@pytest.mark.promise("D4", "D5")
def test_a_cancel_while_a_nested_effect_runs_waits_for_its_outcome(tmp_path: Path) -> None:
    done: list[str] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(approval="never")
    async def pay(what: str) -> str:
        """Pay, and take some time."""
        begun.set()
        await may_end.wait()
        done.append(what)
        return "paid"

    async def life(placet: Placet) -> tuple[Any, Any]:
        going = asyncio.create_task(placet.run("boss", "a", session="s", run_id="run_1"))
        await begun.wait()
        between = await placet.cancel("run_1", by="ana", cause="stop")
        may_end.set()
        return between, await going

    boss = relay("boss", relay("middle", payer(pay)))
    with Desk(tmp_path, agent=boss) as desk:
        between, ended = desk.do(life)
        assert between.stop is None, "what has begun is carried to its outcome first"
        assert (ended.stop, done) == ("cancelled", ["a"])
        (middle,) = desk.children()
        (child,) = desk.children(middle)
        assert desk.results(child) == ["paid"], "and the outcome is on record"
        (told_of,) = desk.results()
        assert told_of.startswith("The agent stopped before it was done: cancelled.")


@pytest.mark.promise("D5", "D2")
def test_a_caller_that_leaves_leaves_what_its_children_began_to_its_outcome(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    begun, may_end = {what: asyncio.Event() for what in "ab"}, asyncio.Event()

    def pay_for(name: str) -> Tool:
        @tool(name="pay", approval="never", surface=name)
        async def pay(what: str) -> str:
            """Pay, and take some time."""
            begun[what].set()
            await may_end.wait()
            done.append(what)
            return f"{what} is paid"

        return pay

    async def life(placet: Placet) -> None:
        going = asyncio.create_task(placet.run("boss", "x", session="s", run_id="run_1"))
        await begun["a"].wait()
        await begun["b"].wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        may_end.set()
        while desk.kinds().count("CallEnded") < 2:  # noqa: ASYNC110  # The record is awaited.
            await asyncio.sleep(0.01)

    script = [calls(call("left", message="a"), call("right", message="b")), say("ok")]
    tools = [payer(pay_for(name)).as_tool(name=name) for name in ("left", "right")]
    with Desk(tmp_path, agent=agent("boss", script, *tools)) as desk:
        desk.do(life)
        assert sorted(done) == ["a", "b"]
    with Desk(tmp_path, agent=agent("boss", script, *tools)) as desk:
        assert desk.resume().stop == "final"
        assert sorted(done) == ["a", "b"]
        assert desk.results() == ["a is paid", "b is paid"]


@pytest.mark.promise("D2")
@pytest.mark.conformance(30)
def test_a_worker_alone_carries_children_and_parents_to_their_end(tmp_path: Path) -> None:
    done: list[str] = []
    middle = relay("middle", payer(effect(done, surface="bank")))
    tasks = [f"t{number}" for number in range(4)]
    script = [calls(*(call("middle", message=task) for task in tasks)), say("ok")]
    boss = agent("boss", script, middle)
    with Desk(tmp_path, agent=boss) as desk:
        requests = desk.start().waiting
        for request in requests:
            desk.decide(request, "approve")
    with Desk(tmp_path, agent=boss) as desk:
        reports = desk.work_once()
        assert {kind for kind, _, _ in reports} <= {"resumed", "notice"}, reports
        assert desk.result("run_1").stop == "final"
        assert sorted(done) == [f"pay {task}" for task in tasks]
        assert desk.results() == [f"pay {task} done" for task in tasks]


@pytest.mark.promise("D2")
def test_a_worker_begins_what_a_start_that_was_cut_off_left(tmp_path: Path) -> None:
    """A run that is only on record, with nobody to drive it, is a worker's from its first step."""
    from placet.core import commands as c

    done: list[str] = []
    boss = relay("boss", relay("middle", payer(effect(done, approval="never"))))
    with Desk(tmp_path, agent=boss) as desk:
        start = c.StartRun(run="run_1", agent="boss", requester="rob", message="a")
        desk.do(lambda p: p.engine.execute("s", start))
        desk.work_once()
        assert desk.result("run_1").stop == "final"
        assert done == ["pay a"]


@pytest.mark.promise("D5", "G6")
@pytest.mark.parametrize("which", ["run_1", "child"])
def test_a_cancel_while_a_nested_model_answers_throws_its_answer_away(
    tmp_path: Path, which: str
) -> None:
    done: list[str] = []
    asked, may_answer = asyncio.Event(), asyncio.Event()

    class Slow:
        name = "slow"

        async def complete(self, request: ModelRequest, *, on_text: Any = None) -> ModelTurn:
            asked.set()
            await may_answer.wait()
            said_now = call("pay", id="c1", what="a")
            return ModelTurn(message=said_now, usage=Usage(), model="m", finish="tool_calls")

        async def close(self) -> None:
            """Hold nothing."""

    async def life(placet: Placet) -> Any:
        going = asyncio.create_task(placet.run("boss", "a", session="s", run_id="run_1"))
        await asked.wait()
        (child,) = desk.children()
        await placet.cancel(child if which == "child" else which, by="ana", cause="stop")
        may_answer.set()
        return await going

    inner = Agent(name="slow", model=Slow(), tools=[effect(done, approval="never")])
    with Desk(tmp_path, agent=relay("boss", inner)) as desk:
        ended = desk.do(life)
        assert ended.stop == ("final" if which == "child" else "cancelled")
        (child,) = desk.children()
        assert desk.result(child).stop == "cancelled"
        assert desk.results(child) == []
        assert desk.results() == ["The agent stopped before it was done: cancelled."]
        assert done == []


@pytest.mark.promise("D2", "G1")
def test_a_child_whose_agent_is_gone_waits_for_it_to_be_given_back(tmp_path: Path) -> None:
    done: list[str] = []
    script = [calls(call("payer", message="a"), call("other", message="b")), say("ok")]
    other = agent("other", [call("log", what="b"), say("logged")], effect(done, "log"))
    with Desk(tmp_path, agent=agent("boss", script, payer(effect(done)), other)) as desk:
        for request in desk.start().waiting:
            desk.decide(request, "approve")
    with Desk(tmp_path, agent=agent("boss", script, other)) as desk:
        assert code_of(desk.resume) == "unknown_agent"
        assert "trouble" in {kind for kind, _, _ in desk.work_once()}
        assert "pay a" not in done
        assert desk.result().stop is None
    with Desk(tmp_path, agent=agent("boss", script, payer(effect(done)), other)) as desk:
        assert desk.resume().stop == "final"
        assert sorted(done) == ["log b", "pay a"]
        assert desk.results() == ["pay a done", "logged"]


@pytest.mark.promise("G13")
def test_an_agent_that_was_let_begin_and_is_gone_never_begins(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("payer", message="a"), say("ok")]
    asked = payer(effect(done)).as_tool(approval="always")
    with Desk(tmp_path, agent=agent("boss", script, asked)) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
    with Desk(tmp_path, agent=agent("boss", script, effect(done, "log"))) as desk:
        assert desk.resume().stop == "final"
        assert desk.results()[0].startswith("Unknown tool 'payer'")
        assert (desk.children(), done) == ([], [])
        assert desk.show(request).status == "voided"


@pytest.mark.promise("G3", "G13")
def test_an_agent_that_became_a_plain_tool_is_asked_about_anew(tmp_path: Path) -> None:
    done: list[str] = []
    script = [call("payer", message="a"), say("ok")]

    @tool(name="payer")
    def plain(message: str) -> str:
        """Pay."""
        done.append(f"plainly {message}")
        return "paid"

    asked = payer(effect(done)).as_tool(approval="always")
    with Desk(tmp_path, agent=agent("boss", script, asked)) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
    with Desk(tmp_path, agent=agent("boss", script, plain)) as desk:
        (again,) = desk.resume().waiting
        assert (again == request, done) == (False, [])
        desk.decide(again, "approve")
        assert desk.resume().stop == "final"
        assert done == ["plainly a"]


@pytest.mark.promise("D2")
def test_a_worker_carries_all_on_though_no_clock_moves(tmp_path: Path) -> None:
    done: list[str] = []
    clock = Clock()
    boss = relay("boss", relay("middle", payer(effect(done))))
    with Desk(tmp_path, agent=boss, clock=clock) as desk:
        (request,) = desk.start("a").waiting
        desk.decide(request, "approve")
        desk.work_once()
        assert desk.result().stop == "final"
    with Desk(tmp_path, agent=boss, clock=clock) as desk:
        (request,) = desk.start("a", session="t", run_id="run_2").waiting
        clock.now = desk.show(request).deadline_at
        desk.work_once()
        assert desk.result("run_2").stop == "final"
        assert done == ["pay a"]


@pytest.mark.promise("D4", "G9")
@pytest.mark.conformance(30)
@pytest.mark.parametrize("settled", [True, False])
def test_a_nested_outcome_that_nobody_knows_is_put_to_a_person_on_the_outer_run(
    tmp_path: Path, settled: bool
) -> None:
    clock = Clock()

    @tool(approval="never", time_limit=timedelta(milliseconds=20))
    async def pay(what: str) -> str:
        """Pay, and never come back."""
        await asyncio.Event().wait()
        return what

    with Desk(tmp_path, agent=relay("boss", payer(pay)), clock=clock) as desk:
        (request,) = desk.start("a").waiting
        assert desk.show(request).kind == "settlement"
        if settled:
            desk.do(lambda p: p.settle(request, by="ana", happened=True, detail="it was paid"))
        else:
            clock.now = desk.show(request).deadline_at
        result = desk.resume()
        assert result.stop == "final"
        (child,) = desk.children()
        if settled:
            assert str(result.answer).startswith("it was paid")
        else:
            assert desk.result(child).stop == "outcome_unknown"
            assert str(result.answer).startswith(
                "The agent stopped before it was done: outcome_unknown."
            )
        assert desk.kinds().count("AttemptBegun") == 1


@pytest.mark.conformance(30)
def test_the_older_entry_point_gives_where_the_outer_run_stands(tmp_path: Path) -> None:
    done: list[str] = []
    with Desk(tmp_path, agent=relay("boss", payer(effect(done)))) as desk:
        (request,) = desk.start("a").waiting
        result = desk.do(lambda p: p.resume_approval(request, "approve", "s", by="ana"))
        assert (result.run_id, result.stop, result.answer) == ("run_1", "final", "pay a done")
        assert done == ["pay a"]


@pytest.mark.promise("D2")
def test_a_child_that_rests_after_its_model_failed_is_a_workers_in_time(tmp_path: Path) -> None:
    done: list[str] = []
    clock, broken = Clock(), [True]

    def reply(request: ModelRequest) -> Any:
        if broken[0]:
            raise ModelTrouble("model_refused", "no", retryable=False)
        return answers(request) if told(request) else call("pay", what="a")

    boss = relay("boss", agent("payer", reply, effect(done, approval="never")))
    with Desk(tmp_path, agent=boss, clock=clock) as desk:
        assert code_of(desk.start) == "model_refused"
        broken[0] = False
        assert desk.work_once() == [], "it rests"
        clock.now += REST_REFUSED
        desk.work_once()
        assert desk.result().stop == "final"
        assert done == ["pay a"]


# --- two processes at once -----------------------------------------------------------------------

PROCESSES = 2
ROUNDS = 12
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.runtime.life"])
TYPED = {"run_driven", "run_over", "call_executing"}


def opened(place: Path) -> Placet:
    refund = refund_tool(place / "ledger", "plain", Killer(None))
    inner = agent("payer", lambda r: say("done") if told(r) else pays(r), refund)
    script = [calls(*(call("payer", message=task) for task in "abc")), say("all done")]
    boss = agent("boss", script, inner)
    return Placet(SqliteStore(place / "placet.db"), agents=[boss], approvers=["ana"])


def pays(request: ModelRequest) -> Any:
    return call("refund", order=said(request), amount=1)


def contender(place: str, barrier: Barrier, answered: Any) -> None:
    placet = opened(Path(place))

    async def contend() -> None:
        for number in range(ROUNDS):
            await asyncio.to_thread(barrier.wait, 60)
            code = "ok"
            try:
                await placet.resume(f"run_{number}")
            except PlacetError as error:
                code = error.code
            answered.put(code)

    asyncio.run(contend())
    placet.close()


async def prepared(place: Path) -> None:
    """Begin runs with three children each, and approve what they ask, in one process."""
    with opened(place) as placet:
        for number in range(ROUNDS):
            result = await placet.run("boss", "x", session=f"s{number}", run_id=f"run_{number}")
            assert len(result.waiting) == 3
            for request in result.waiting:
                await placet.decide(request, "approve", by="ana")


async def finished(place: Path) -> list[Any]:
    with opened(place) as placet:
        return [await placet.resume(f"run_{number}") for number in range(ROUNDS)]


@pytest.mark.slow
@pytest.mark.promise("D5", "G7")
@pytest.mark.conformance(30)
def test_two_processes_at_once_double_no_child_and_no_effect(tmp_path: Path) -> None:
    asyncio.run(prepared(tmp_path))
    barrier, answered = _processes.Barrier(PROCESSES), _processes.Queue()
    contenders = [
        _processes.Process(target=contender, args=(str(tmp_path), barrier, answered))
        for _ in range(PROCESSES)
    ]
    for process in contenders:
        process.start()
    codes = Counter(answered.get(timeout=120) for _ in range(ROUNDS * PROCESSES))
    for process in contenders:
        process.join(60)
        assert process.exitcode == 0
    assert set(codes) <= {"ok", *TYPED}, codes
    assert {result.stop for result in asyncio.run(finished(tmp_path))} == {"final"}
    assert len(paid(tmp_path / "ledger")) == len(set(paid(tmp_path / "ledger"))) == 3 * ROUNDS
    store = SqliteStore(tmp_path / "placet.db")
    for number in range(ROUNDS):
        kinds = Counter(event.kind for event in store.events("main", f"s{number}"))
        wanted = {"RunStarted": 4, "CallDelegated": 3, "AttemptBegun": 3, "RequestOpened": 3}
        assert {kind: kinds[kind] for kind in wanted} == wanted
        assert kinds["RequestVoided"] == 0
    store.close()


@pytest.mark.promise("D5")
def test_two_drivers_of_one_start_open_each_child_once(tmp_path: Path) -> None:
    done: list[str] = []
    script = [calls(*(call("payer", message=task) for task in "abcd")), say("ok")]
    boss = agent("boss", script, payer(effect(done, approval="never", surface="bank")))

    async def twice(first: Placet, second: Placet) -> tuple[Any, ...]:
        def start(placet: Placet) -> Any:
            return placet.run("boss", "x", session="s", run_id="run_1", requester="rob")

        return await asyncio.gather(start(first), start(second), return_exceptions=True)

    with Desk(tmp_path, agent=boss) as one, Desk(tmp_path, agent=boss) as two:
        ended = asyncio.run(twice(one.placet, two.placet))
        for each in ended:
            if isinstance(each, BaseException):
                assert isinstance(each, PlacetError), each
                assert each.code in TYPED
        one.resume()
        assert one.do(lambda p: p.result("run_1")).stop == "final"
        assert sorted(done) == [f"pay {task}" for task in "abcd"]
        assert one.kinds().count("CallDelegated") == 4
