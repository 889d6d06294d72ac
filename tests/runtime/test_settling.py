"""Settlements, and cancelling in the middle of an effect, through the API (D4).

A person says what became of it, with a decision's authority, digest and record; nothing else does,
however long it takes. Until then the surface is closed, in that session and in no other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet import Placet, PlacetError, tool
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.core import commands as c
from placet.core.values import Principal
from placet.runtime.hosting import Answered, Waiting
from tests.runtime.desk import Clock, Desk, code_of, effect, said
from tests.runtime.hosts import Framework, called

DAY = timedelta(hours=24)


def losing(done: list[str], approval: Any = "never") -> Tool:
    """Declare a payment whose connection is lost."""

    @tool(name="lose", approval=approval, surface="payments")
    def lose(what: str) -> str:
        """Pay."""
        done.append(f"lose {what}")
        raise ConnectionResetError("the bank hung up")

    return lose


def script(request: Any) -> Any:
    """Do what the last message says, once."""
    return (
        say("ok") if request.messages[-1].text != said(request) else call(said(request), what="a")
    )


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(tmp_path: Path, done: list[str], clock: Clock) -> Iterator[Desk]:
    """Give a desk with a payment that is lost, and effects on its surface, another and all."""
    tools = [
        losing(done),
        effect(done, "pay", approval="never", surface="payments"),
        effect(done, "mail", approval="never", surface="mail"),
        effect(done, "shell", approval="never"),
        effect(done, "look", reads_only=True),
    ]
    with Desk(tmp_path, script, tools, clock=clock, approvers=("ana", "ben")) as made:
        yield made


def lost(desk: Desk) -> str:
    """Lose a payment, and give the settlement."""
    (settlement,) = desk.start("lose").waiting
    assert settlement.startswith("st_")
    return str(settlement)


def settle(desk: Desk, settlement: str, happened: bool | None, **more: Any) -> Any:
    given = {"by": "ana", "happened": happened, "detail": "receipt 9", **more}
    return desk.do(lambda p: p.settle(settlement, **given))


@pytest.mark.promise("D4", "G8")
def test_a_lost_outcome_closes_its_surface_in_its_session_and_nothing_else(
    desk: Desk, done: list[str]
) -> None:
    settlement = lost(desk)
    desk.do(lambda p: p.cancel("run_1", by="ana"))
    for number, (message, session, closed) in enumerate(
        [
            ("look", "s", False),
            ("mail", "s", False),
            ("pay", "another", False),
            ("shell", "another", False),
            ("pay", "s", True),
            ("shell", "s", True),
        ]
    ):
        run = f"run_of_{number}"
        result = desk.start(message, session=session, run_id=run, on_message="supersede")
        wanted = ("approval_required", (settlement,)) if closed else ("final", ())
        assert (result.stop, result.waiting) == wanted, (message, session)
    assert done == ["lose a", "look a", "mail a", "pay a", "shell a"]
    settle(desk, settlement, False)
    assert desk.resume("run_of_5").stop == "final"
    assert done[5:] == ["shell a"], "it touches every surface"


@pytest.mark.promise("D4", "G9")
def test_no_time_that_passes_settles_anything(desk: Desk, done: list[str], clock: Clock) -> None:
    settlement = lost(desk)
    for pause in (DAY - timedelta(seconds=1), timedelta(seconds=1), 30 * DAY, 365 * DAY):
        clock.now += pause
        desk.work_once()
        (row,) = desk.do(lambda p: p.inbox())
        assert (row.request.id, row.request.pending) == (settlement, True)
    assert desk.result().stop == "outcome_unknown"
    assert "RequestSettled" not in desk.kinds()
    assert "RequestExpired" not in desk.kinds()
    assert desk.results()[0].startswith("Outcome unknown: ")
    held = desk.start("pay", run_id="run_2")
    assert (held.stop, held.waiting) == ("approval_required", (settlement,))
    assert settle(desk, settlement, True).status == "settled"
    assert ("resumed", "run_2", "") in desk.work_once(), "what the surface held goes on"
    assert done == ["lose a", "pay a"]
    assert desk.results()[0].startswith("Outcome unknown: "), "and what was told stands"


@pytest.mark.promise("D4", "G10")
@pytest.mark.parametrize("kind", ["agent", "runtime"])
@pytest.mark.parametrize("happened", [True, False, None])
def test_the_credential_of_no_agent_settles_even_under_an_approvers_name(
    desk: Desk, kind: Any, happened: bool | None
) -> None:
    settlement = lost(desk)
    command = c.Settle(
        request=settlement,
        by=Principal(id="ana", kind=kind),
        eligible=frozenset({"ana"}),
        happened=happened,
        detail="paid",
    )
    assert code_of(lambda: desk.do(lambda p: p.engine.execute("s", command))) == "not_a_person"
    assert desk.result().waiting == (settlement,)


@pytest.mark.promise("D4", "G10")
def test_a_tool_settles_nothing_though_it_knows_the_api(tmp_path: Path) -> None:
    told: list[str] = []
    desks: list[Desk] = []

    @tool(approval="never", surface="mail")
    def cheat(what: str) -> str:
        """Settle what the bank lost."""
        told.append(code_of(lambda: settle(desks[0], what, True)))
        return "tried"

    with Desk(tmp_path, [call("lose", what="a"), say("ok")], [losing([]), cheat]) as desk:
        desks.append(desk)
        settlement = lost(desk)

        def sly(request: Any) -> Any:
            return say("ok") if request.assistant_count else call("cheat", what=settlement)

        with Desk(tmp_path, sly, [cheat]) as other:
            assert other.start(session="t", run_id="run_2").stop == "final"
        assert told == ["inside_tool"]
        assert desk.result().waiting == (settlement,)


@pytest.mark.promise("D4")
@pytest.mark.parametrize("detail", ["", " \n"])
def test_what_happened_has_a_result_which_the_model_is_told(desk: Desk, detail: str) -> None:
    settlement = lost(desk)
    assert code_of(partial(settle, desk, settlement, True, detail=detail)) == "no_result"
    assert desk.result().waiting == (settlement,)


@pytest.mark.promise("D4", "G7")
def test_of_two_people_who_say_otherwise_at_once_one_is_heard(desk: Desk) -> None:
    settlement = lost(desk)

    async def both(placet: Placet) -> list[Any]:
        say_so = partial(placet.settle, settlement, detail="I looked")
        words = (say_so(by="ana", happened=True), say_so(by="ben", happened=False))
        return [*await asyncio.gather(*words, return_exceptions=True)]

    answers = desk.do(both)
    (refused,) = [each for each in answers if isinstance(each, PlacetError)]
    assert refused.code == "already_settled"
    assert desk.kinds().count("RequestSettled") == 1


@pytest.mark.promise("D4", "D5", "G3")
def test_the_same_command_is_the_same_answer_and_a_settlement_has_a_digest_of_its_own(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    asking = losing(done, "always")
    with Desk(tmp_path, [call("lose", what="a"), say("ok")], [asking]) as desk:
        (approval,) = desk.start().waiting
        approved = desk.decide(approval, "approve")
        (settlement,) = desk.resume().waiting
        card = desk.show(settlement)
        assert card.digest != approved.digest
        refused = partial(settle, desk, settlement, True, digest=approved.digest)
        assert code_of(refused) == "digest_mismatch", "what approved it settles nothing"
        first = settle(desk, settlement, True, digest=card.digest, command_id="one")
        assert settle(desk, settlement, True, digest=card.digest, command_id="one") == first
        assert desk.kinds().count("RequestSettled") == 1
        assert done == ["lose a"]


@pytest.mark.promise("D4", "D5")
def test_a_hosted_action_that_nobody_settles_in_time_can_be_settled_after_it(
    tmp_path: Path, clock: Clock
) -> None:
    done: list[str] = []
    pay = effect(done, "pay", approval="never", surface="payments")
    with Framework(tmp_path, [losing(done), pay], clock=clock) as framework:
        at = framework.asked(called("lose", what="a"))
        (settlement,) = _requests(framework.carry(at))
        clock.now += 2 * DAY
        framework.work()
        assert _answered(framework.carry(at)).code == "outcome_unknown"
        next_one = framework.asked(called("pay", what="b"), run="r2")
        assert framework.carry(next_one) == Waiting(requests=(settlement,), held_by=settlement)
        framework.placet.settle_sync(settlement, by="ana", happened=False)
        assert _answered(framework.carry(next_one)).code == "succeeded"
        assert done == ["lose a", "pay b"]


def _requests(found: Answered | Waiting) -> tuple[str, ...]:
    assert isinstance(found, Waiting)
    return found.requests


def _answered(found: Answered | Waiting) -> Answered:
    assert isinstance(found, Answered)
    return found


# --- cancelling in the middle of an effect --------------------------------------------------------


class Slow:
    """A payment that says when it has begun, and ends when it is let go."""

    def __init__(self, *, fails: BaseException | None = None) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.done: list[str] = []
        self.fails = fails

    def tool(self, **options: Any) -> Tool:
        @tool(name="pay", approval="never", surface="payments", **options)
        def pay(what: str) -> str:
            """Pay, slowly."""
            self.begun.set()
            assert self.let_go.wait(60)
            self.done.append(what)
            if self.fails is not None:
                raise self.fails
            return "paid"

        return pay

    async def underway(self, placet: Placet, *, run: str = "run_1") -> asyncio.Task[Any]:
        """Begin a run, and give the task that waits for it once the body is entered."""
        task = asyncio.create_task(placet.run("support", "go", session="s", run_id=run))
        await asyncio.to_thread(self.begun.wait, 60)
        return task


SCRIPT = [call("pay", what="a"), say("ok")]


@pytest.mark.promise("D4", "D5")
@pytest.mark.conformance(21)
@pytest.mark.parametrize(
    "fails, told",
    [
        (None, "paid"),
        (ValueError("no funds"), "Failed: ValueError: no funds"),
        (ConnectionResetError("gone"), "Outcome unknown: "),
    ],
)
def test_a_run_that_is_cancelled_in_an_effect_ends_with_its_outcome_or_with_unknown(
    tmp_path: Path, fails: BaseException | None, told: str
) -> None:
    slow = Slow(fails=fails)

    async def cancelled(placet: Placet) -> Any:
        task = await slow.underway(placet)
        assert (await placet.cancel("run_1", by="ana", cause="enough")).stop is None
        assert (await placet.cancel("run_1", by="ben")).stop is None, "twice is once"
        slow.let_go.set()
        return await task

    with Desk(tmp_path, SCRIPT, [slow.tool()]) as desk:
        assert desk.do(cancelled).stop == "cancelled"
        (result,) = desk.results()
        assert result.startswith(told)
        assert slow.done == ["a"]
        open_ones = [row.request.kind for row in desk.do(lambda p: p.inbox())]
        assert open_ones == (["settlement"] if "unknown" in told else [])


@pytest.mark.promise("D4", "D8")
def test_what_may_be_taken_back_is_taken_back_though_its_run_was_cancelled(tmp_path: Path) -> None:
    slow = Slow(fails=OSError("the answer made no sense"))
    pay = slow.tool()

    @pay.compensate(safe_if_absent=True)
    def void(what: str) -> str:
        slow.done.append(f"void {what}")
        return "void"

    async def cancelled(placet: Placet) -> Any:
        task = await slow.underway(placet)
        await placet.cancel("run_1", by="ana")
        slow.let_go.set()
        return await task

    with Desk(tmp_path, SCRIPT, [pay]) as desk:
        assert desk.do(cancelled).stop == "cancelled"
        assert slow.done == ["a", "void a"]
        assert "was compensated (void)" in desk.results()[0]


@pytest.mark.promise("D5")
@pytest.mark.parametrize("begins", [True, False])
def test_whoever_stops_waiting_leaves_the_body_and_its_outcome_is_on_record(
    tmp_path: Path, begins: bool
) -> None:
    slow = Slow()

    async def left(placet: Placet) -> None:
        if begins:
            task = await slow.underway(placet)
        else:
            start = c.StartRun(run="run_1", agent="support", requester="rob", message="go")
            await placet.engine.execute("s", start)
            task = asyncio.create_task(placet.resume("run_1"))
            await asyncio.to_thread(slow.begun.wait, 60)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.01)
        slow.let_go.set()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)

    with Desk(tmp_path, SCRIPT, [slow.tool()]) as desk:
        desk.do(left)
        assert (slow.done, desk.results()) == (["a"], ["paid"])
        assert desk.do(lambda p: p.inbox()) == []
        assert desk.resume().stop == "final"
        assert slow.done == ["a"]


@pytest.mark.promise("D4", "D5")
def test_ending_the_session_in_an_effect_waits_for_its_outcome_too(tmp_path: Path) -> None:
    slow = Slow()

    async def ended(placet: Placet) -> Any:
        task = await slow.underway(placet)
        await placet.end_session("s", by="ana", cause="the shop is closed")
        slow.let_go.set()
        return await task

    with Desk(tmp_path, SCRIPT, [slow.tool()]) as desk:
        assert desk.do(ended).stop == "cancelled"
        assert desk.results() == ["paid"]
        assert code_of(partial(desk.start, "more", run_id="run_2")) == "session_ended"


@pytest.mark.promise("D4", "D5")
def test_a_hosted_run_that_is_cancelled_in_an_effect_ends_with_its_outcome_too(
    tmp_path: Path,
) -> None:
    slow = Slow()
    with Framework(tmp_path, [slow.tool()]) as framework:
        at = framework.asked(called("pay", what="a"))

        async def cancelled() -> Answered | Waiting:
            task = asyncio.create_task(framework.hosting.carry_out("s", at))
            await asyncio.to_thread(slow.begun.wait, 60)
            assert (await framework.placet.cancel("r", by="ana")).stop is None
            slow.let_go.set()
            return await task

        assert _answered(asyncio.run(cancelled())) == Answered(code="succeeded", told="paid")
        assert framework.placet.result_sync("r").stop == "cancelled"
        assert slow.done == ["a"]
