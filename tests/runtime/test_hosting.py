"""Runs that a framework hosts: whatever it says twice is the same, and each call runs once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, InvalidDeclaration, NotDone, Placet, ScriptedModel, tool
from placet.client import NoApproverWarning
from placet.core.errors import Refusal
from placet.core.values import Occurrence
from placet.runtime import hosting
from placet.runtime.hosting import Answered, Waiting
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import code_of, effect
from tests.runtime.forging import forge_action
from tests.runtime.hosts import Framework, Interrupted, Measured, called, lines, pays

PAY = called("refund", order="A-42", amount=129)
PAID = Answered(code="succeeded", told="refunded 129 for A-42")


@tool(reads_only=True)
def get_order(order: str) -> str:
    """Look at an order."""
    return f"{order}: delivered"


# --- proposing --------------------------------------------------------------------------------


@pytest.mark.promise("D2", "D3")
def test_a_step_that_is_proposed_again_is_the_same_answer_also_after_a_restart(
    tmp_path: Path,
) -> None:
    with Framework(tmp_path, [pays(tmp_path), get_order]) as framework:
        at = framework.asked(PAY, called("get_order", order="A-42", id="call_1"))
        (request,) = framework.waiting()
    with Framework(tmp_path, [pays(tmp_path), get_order]) as framework:
        framework.begin()
        again = framework.propose(PAY, called("get_order", order="A-42", id="call_1"))
        assert again == (at, Occurrence("r", 1, 1))
        assert framework.waiting() == [request]
        assert framework.kinds().count("StepRecorded") == 1
        assert asyncio.run(framework.hosting.checkpoint("s", "r")) == "at one"


def test_a_step_with_other_calls_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path), get_order]) as framework:
        framework.asked(PAY)
        before = framework.kinds()
        for other in (
            [called("refund", order="A-42", amount=130)],
            [called("get_order", order="A-42")],
            [PAY, PAY],
            [],
        ):
            assert code_of(partial(framework.propose, *other)) == "call_changed"
        assert framework.kinds() == before


def test_a_new_step_is_asked_anew_though_the_provider_uses_a_call_id_again(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        first = framework.asked(PAY)
        framework.decide(framework.waiting()[0])
        assert framework.carry(first) == PAID
        (second,) = framework.propose(PAY, reference="two")
        assert second == Occurrence("r", 2, 0)
        (request,) = framework.waiting()
        assert framework.carry(second) == Waiting(requests=(request,))
        assert framework.carry(first) == PAID
        framework.decide(request)
        assert framework.carry(second) == PAID
    assert len(lines(tmp_path)) == 2


@pytest.mark.promise("D6")
def test_a_step_is_proposed_and_found_again_without_reading_what_the_steps_before_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Framework(tmp_path, [get_order]) as framework:
        framework.begin()
        store = Measured(tmp_path / "placet.db")
        monkeypatch.setattr(framework.placet.engine, "store", store)
        for step in range(1, 21):
            for _ in range(2):
                order = called("get_order", order=str(step))
                assert framework.propose(order, reference=f"r{step}")[0].step == step
            framework.carry(Occurrence("r", step, 0))
        assert store.rows == 0
        assert asyncio.run(framework.hosting.checkpoint("s", "r")) == "at r20"
        assert store.rows == 2
        store.close()


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_step_that_several_propose_is_ruled_on_once(tmp_path: Path, is_at_once: bool) -> None:
    asked: list[str] = []

    def approval(arguments: Mapping[str, Any]) -> bool:
        asked.append(arguments["order"])
        return False

    with Framework(tmp_path, [pays(tmp_path, approval=approval)]) as framework:
        framework.begin()
        step = [called("refund", order=str(n), amount=n, id=str(n)) for n in range(5)]

        async def proposed() -> list[Any]:
            makes = [
                framework.hosting.propose("s", "r", "one", step, checkpoint="") for _ in range(5)
            ]
            return await asyncio.gather(*makes) if is_at_once else [await each for each in makes]

        assert len(set(asyncio.run(proposed()))) == 1
        assert asked == ["0", "1", "2", "3", "4"]


@pytest.mark.promise("G7", "D5")
@pytest.mark.parametrize("before", range(5))
def test_two_processes_at_one_place_of_a_course_have_one_step_however_they_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    with Framework(tmp_path, [get_order]) as one, Framework(tmp_path, [get_order]) as other:
        one.begin()
        one.carry(one.propose(called("get_order", order="1"))[0])
        order = called("get_order", order="2")

        def at_the_place(framework: Framework, reference: str) -> Occurrence:
            propose = framework.hosting.propose
            made = propose("s", "r", reference, [order], checkpoint="", place="here")
            return asyncio.run(made)[0]

        found: list[Occurrence] = []
        store = Interrupted(tmp_path / "placet.db")
        store.left, store.elsewhere = before, lambda: found.append(at_the_place(other, "b"))
        monkeypatch.setattr(one.placet.engine, "store", store)
        found.append(at_the_place(one, "a"))
        store.close()
        assert set(found) == {Occurrence("r", 2, 0)}
        assert len(found) == 2


# --- carrying out -----------------------------------------------------------------------------


@pytest.mark.promise("G7")
def test_a_call_is_carried_out_once_and_then_its_outcome_is_given(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        at = framework.asked(PAY)
        (request,) = framework.waiting()
        assert framework.carry(at) == Waiting(requests=(request,))
        framework.decide(request)

        async def both() -> Any:
            carried = (framework.hosting.carry_out("s", at) for _ in range(4))
            return await asyncio.gather(*carried)

        assert asyncio.run(both()) == [PAID] * 4
    with Framework(tmp_path, []) as framework:
        assert framework.carry(at) == PAID
    assert len(lines(tmp_path)) == 1


@pytest.mark.promise("G4", "G5")
def test_a_frameworks_own_body_gets_the_frozen_arguments_and_the_key_alone(tmp_path: Path) -> None:
    entered: list[tuple[Mapping[str, Any], str]] = []

    async def body(arguments: Mapping[str, Any], key: str) -> object:
        entered.append((dict(arguments), key))
        return {"done": True}

    with Framework(tmp_path, [pays(tmp_path), get_order]) as framework:
        at = framework.asked(PAY, called("get_order", order="A-42", id="call_1"))
        framework.decide(framework.waiting()[0], "edit", arguments={"order": "B", "amount": 1})
        found = framework.carry(at, body=body)
        assert isinstance(found, Answered)
        assert found.told.endswith('\n{"done": true}')
        framework.carry(Occurrence("r", 1, 1), body=body)
    assert [arguments for arguments, _ in entered] == [
        {"order": "B", "amount": 1},
        {"order": "A-42"},
    ]
    assert entered[0][1]
    assert lines(tmp_path) == []


@pytest.mark.promise("G3", "G4")
def test_a_stored_action_that_was_changed_from_outside_does_not_run(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        at = framework.asked(PAY)
        framework.decide(framework.waiting()[0])
    forge_action(tmp_path / "placet.db", "129", "999")
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        assert code_of(lambda: framework.carry(at)) == "digest_mismatch"
    assert lines(tmp_path) == []


def test_what_nobody_wants_any_more_is_not_begun(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path, approval="never")]) as framework:
        at = framework.asked(PAY)
        assert code_of(lambda: framework.carry(at, wanted=lambda: False)) == "not_begun"
        assert lines(tmp_path) == []
        assert framework.carry(at) == PAID
        assert framework.carry(at, wanted=lambda: False) == PAID


@pytest.mark.promise("D4", "D5")
@pytest.mark.parametrize("is_own_loop", [True, False])
def test_closing_waits_for_a_body_that_has_begun_and_begins_nothing_more(
    tmp_path: Path, is_own_loop: bool
) -> None:
    order: list[str] = []
    with Framework(tmp_path, [pays(tmp_path, approval="never")]) as framework:
        framework.begin()
        at, later = framework.propose(PAY, called("refund", order="B", amount=1, id="call_1"))
        close, carry = framework.placet.close, framework.hosting.carry_out

        async def closed_in_the_middle() -> Answered | Waiting:
            begun, go_on = asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            async def slow(arguments: Mapping[str, Any], key: str) -> object:
                begun.set()
                await go_on.wait()
                order.append("the body ended")
                return "done"

            def closed_elsewhere() -> None:
                loop.call_soon_threadsafe(go_on.set)
                close()
                order.append("closing ended")

            carrying = asyncio.ensure_future(carry("s", at, body=slow))
            await begun.wait()
            if not is_own_loop:
                await asyncio.to_thread(closed_elsewhere)
                return await carrying
            close()
            with pytest.raises(Refusal, match="Nobody waits"):
                await carry("s", later)
            go_on.set()
            return await carrying

        assert asyncio.run(closed_in_the_middle()) == Answered(code="succeeded", told="done")
        assert order == ["the body ended", "closing ended"][: 1 if is_own_loop else 2]
    with Framework(tmp_path, []) as framework:
        assert framework.carry(at) == Answered(code="succeeded", told="done")
        assert framework.kinds().count("AttemptBegun") == 1


# --- what is held (G8) ------------------------------------------------------------------------


@pytest.mark.promise("G8")
def test_a_second_effect_of_a_step_waits_for_the_first(tmp_path: Path) -> None:
    done: list[str] = []
    tools = [effect(done, name, approval="never") for name in ("first", "second")]
    order: list[str] = []

    async def slow(arguments: Mapping[str, Any], key: str) -> object:
        order.append("begun")
        await asyncio.sleep(0)
        order.append("ended")
        return "ok"

    with Framework(tmp_path, tools) as framework:
        framework.begin()
        calls = (called("first", what="a"), called("second", what="b", id="call_1"))
        places = framework.propose(*calls)

        async def both() -> None:
            carry = framework.hosting.carry_out
            await asyncio.gather(*(carry("s", at, body=slow) for at in reversed(places)))

        asyncio.run(both())
    assert order == ["begun", "ended"] * 2


@pytest.mark.promise("G8")
def test_an_approved_call_goes_on_while_a_newer_one_waits_and_not_while_an_older_one_does(
    tmp_path: Path,
) -> None:
    done: list[str] = []
    with Framework(tmp_path, [effect(done)]) as framework:
        framework.begin()
        first, second = framework.propose(
            called("pay", what="a"), called("pay", what="b", id="call_1")
        )
        older, newer = framework.waiting()
        framework.decide(newer)
        assert framework.carry(second) == Waiting(requests=(older,), held_by=older)
        assert done == []
        framework.decide(older)
        assert framework.carry(first) == Answered(code="succeeded", told="pay a done")
        assert framework.carry(second) == Answered(code="succeeded", told="pay b done")


@pytest.mark.promise("G8", "D1")
def test_a_call_that_is_held_by_one_that_nobody_carries_out_says_so_and_never_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(hosting, "HELD_LASTS", timedelta(0))
    with Framework(tmp_path, [effect(done), effect(done, "send", approval="never")]) as framework:
        framework.begin()
        _, held = framework.propose(called("pay", what="a"), called("send", what="b", id="call_1"))
        (request,) = framework.waiting()
        framework.decide(request)
        assert framework.carry(held) == Waiting(requests=(), held_by=request)
    assert done == []


@pytest.mark.promise("G8", "D1")
def test_a_call_that_is_held_by_a_retry_that_nobody_makes_says_so_and_never_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(hosting, "HELD_LASTS", timedelta(0))
    later = timedelta(hours=1)

    @tool(approval="never", retries=1, backoff=later)
    def fails() -> str:
        """Fail, and say that nothing was done."""
        raise NotDone

    with Framework(tmp_path, [fails, effect(done, approval="never")]) as framework:
        framework.begin()
        first, held = framework.propose(called("fails"), called("pay", what="b", id="call_1"))

        def is_first_try() -> bool:
            return "AttemptFailed" not in framework.kinds()

        assert code_of(lambda: framework.carry(first, wanted=is_first_try)) == "not_begun"
        assert framework.carry(held) == Waiting(requests=(), held_by=str(first))
    assert done == []


# --- the run ----------------------------------------------------------------------------------


def test_a_message_ends_the_idle_run_before_it_and_supersedes_one_that_waits(
    tmp_path: Path,
) -> None:
    with Framework(tmp_path, [pays(tmp_path), get_order]) as framework:
        framework.carry(framework.asked(called("get_order", order="A-42")))
        at = framework.asked(PAY, run="r2")
        framework.begin("r2")
        framework.begin("r3")
        stops = {
            row.run.id: getattr(row.run.state, "stop", "") for row in framework.placet.runs_sync()
        }
        assert stops == {"r": "final", "r2": "superseded", "r3": ""}
        found = framework.carry(at)
        assert isinstance(found, Answered)
        assert found.code == "superseded"
        other = called("get_order", order="B")
        assert code_of(lambda: framework.propose(other, run="r2", reference="two")) == "run_over"


def test_a_run_that_is_not_to_be_superseded_stays_as_it_is(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        framework.asked(PAY)
        begin = framework.hosting.begin("s", "r2", "go", requester="rob", supersede=False)
        assert code_of(lambda: asyncio.run(begin)) == "run_waiting"
        assert len(framework.waiting()) == 1


@pytest.mark.promise("D4", "D5")
def test_a_message_in_the_middle_of_an_effect_is_refused_and_the_effect_has_its_outcome(
    tmp_path: Path,
) -> None:
    with Framework(tmp_path, [pays(tmp_path, approval="never")]) as framework:
        at = framework.asked(PAY)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(arguments: Mapping[str, Any], key: str) -> object:
            begun.set()
            await go_on.wait()
            return "done"

        async def in_the_middle() -> Answered | Waiting:
            carrying = asyncio.ensure_future(framework.hosting.carry_out("s", at, body=slow))
            await begun.wait()
            with pytest.raises(Exception, match="An effect of this session's run is under way"):
                await framework.hosting.begin("s", "r2", "stop", requester="rob")
            go_on.set()
            return await carrying

        assert asyncio.run(in_the_middle()) == Answered(code="succeeded", told="done")
        framework.begin("r2")


def test_a_session_that_was_ended_takes_no_run_and_what_waited_in_it_is_cancelled(
    tmp_path: Path,
) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        at = framework.asked(PAY)
        framework.placet.end_session_sync("s", by="ana", cause="closed")
        found = framework.carry(at)
        assert isinstance(found, Answered)
        assert found.code == "cancelled"
        assert code_of(lambda: framework.begin("r2")) == "session_ended"
    assert lines(tmp_path) == []


# --- declaring --------------------------------------------------------------------------------


@pytest.mark.promise("G1")
def test_a_host_whose_tools_ask_in_vain_says_so_or_is_refused(tmp_path: Path) -> None:
    done: list[str] = []
    asking, free = effect(done).declaration, effect(done, "free", approval="never").declaration
    for required in (False, True):
        store = SqliteStore(tmp_path / "placet.db")
        with Placet(store, approvers=(), require_approver=required) as placet:
            placet.host("free", [free], resume=_nowhere)
            if required:
                with pytest.raises(InvalidDeclaration, match="tools of the agent asking may ask"):
                    placet.host("asking", [asking], resume=_nowhere)
                placet.host("asking", [free], resume=_nowhere)  # What was refused is not there.
            else:
                with pytest.warns(NoApproverWarning, match="tools of the agent asking may ask"):
                    placet.host("asking", [asking], resume=_nowhere)


def test_an_agents_name_is_of_one_host_and_can_be_read(tmp_path: Path) -> None:
    with Framework(tmp_path) as framework:
        placet = framework.placet
        agent = Agent(name="support", model=ScriptedModel([]))
        placet.add(agent)
        for taken in ("framework", "support", "", " a", "a\nb", "a\ud800"):
            with pytest.raises(InvalidDeclaration) as refused:
                placet.host(taken, [], resume=_nowhere)
            assert refused.value.code == "invalid_agent"
        same = Agent(name="framework", model=ScriptedModel([]))
        for _ in range(2):
            with pytest.raises(InvalidDeclaration):
                placet.add(same)
        assert placet.agent_names == ("support",)
        framework.carry(framework.asked(called("get_order", order="A")))  # It is hosted as before.


async def _nowhere(_run: str) -> None:
    """Go on with nothing."""
