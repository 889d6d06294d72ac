"""How nested runs end: cancelled from above or by themselves, by workers, by two processes."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Placet, PlacetError, ScriptedModel, tool
from placet.agent.messages import ModelRequest
from placet.agent.models.scripted import Script, call, calls, say
from placet.agent.tools import Tool
from placet.core.state import RunOver
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import Desk, answers, effect, said, told
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
        child = desk.do(lambda p: p.show(first)).run
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
        assert desk.do(lambda p: p.result("run_1")).stop == "final"
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
        assert desk.do(lambda p: p.result("run_1")).stop == "final"
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

    async def twice(first: Placet, second: Placet) -> list[Any]:
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
