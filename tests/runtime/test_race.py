"""Eight processes at once, on one request in one file: one winner, one effect, typed losers."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Placet, PlacetError, ScriptedModel
from placet.agent.models.scripted import call, say
from placet.stores.sqlite import SqliteStore
from tests.runtime.life import Killer, paid, refund_tool

ROUNDS = 50
PROCESSES = 8
TYPED = {"already_approved", "already_rejected", "run_driven", "run_over", "call_executing"}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.runtime.life"])


def opened(place: Path) -> Placet:
    model = ScriptedModel([call("refund", order="A-42", amount=129), say("done")])
    ledger = refund_tool(place / "ledger", "plain", Killer(None))
    people = [f"person{number}" for number in range(PROCESSES)]
    agent = Agent(name="support", model=model, tools=[ledger])
    return Placet(SqliteStore(place / "placet.db"), agents=[agent], approvers=people)


async def asked_in(placet: Placet, round_number: int) -> str:
    session = f"round{round_number}"
    result = await placet.run("support", "refund", session=session, run_id=f"run_{round_number}")
    (request,) = result.waiting
    return request


async def decided(placet: Placet, request: str, number: int, *, decision: Any) -> str:
    """Decide and carry on; give `ok`, or the code of the typed refusal."""
    try:
        await placet.decide(request, decision, by=f"person{number}", reason="no")
    except PlacetError as error:
        return error.code
    return "ok"


async def resumed(placet: Placet, run: str) -> str:
    try:
        return str((await placet.resume(run)).stop)
    except PlacetError as error:
        return error.code


def contender(
    place: str, number: int, barrier: Barrier, requests: list[str], answers: Any, mixed: bool
) -> None:
    placet = opened(Path(place))

    async def contend() -> None:
        for round_number, request in enumerate(requests):
            decision = "reject" if mixed and number % 2 else "approve"
            await asyncio.to_thread(barrier.wait, 60)
            said = await decided(placet, request, number, decision=decision)
            done = await resumed(placet, f"run_{round_number}")
            answers.put((round_number, number, decision, said, done))

    asyncio.run(contend())
    placet.close()


def contest(place: Path, *, mixed: bool) -> list[tuple[int, int, str, str, str]]:
    """Let the processes contend round by round; give what each was answered."""

    async def ask_all() -> list[str]:
        with opened(place) as placet:
            return [await asked_in(placet, number) for number in range(ROUNDS)]

    requests = asyncio.run(ask_all())
    barrier = _processes.Barrier(PROCESSES)
    answers = _processes.Queue()
    contenders = [
        _processes.Process(
            target=contender, args=(str(place), number, barrier, requests, answers, mixed)
        )
        for number in range(PROCESSES)
    ]
    for process in contenders:
        process.start()
    found = [answers.get(timeout=120) for _ in range(ROUNDS * PROCESSES)]
    for process in contenders:
        process.join(60)
        assert process.exitcode == 0
    return found


def finish_all(place: Path) -> Counter[str]:
    """Carry every run to its end, as a worker would; give how they ended."""

    async def finish() -> Counter[str]:
        with opened(place) as placet:
            ends = [await placet.resume(f"run_{number}") for number in range(ROUNDS)]
            return Counter(str(end.stop) for end in ends)

    return asyncio.run(finish())


@pytest.mark.slow
@pytest.mark.promise("G7", "D5")
@pytest.mark.conformance(22, 39)
def test_eight_processes_approving_one_request_run_it_once(tmp_path: Path) -> None:
    answers = contest(tmp_path, mixed=False)
    for round_number in range(ROUNDS):
        said = Counter(a[3] for a in answers if a[0] == round_number)
        assert said["ok"] == 1, f"winners in round {round_number}: {said}"
        assert set(said) <= {"ok", *TYPED}
    assert {a[4] for a in answers} <= {"final", "None", *TYPED}
    assert finish_all(tmp_path) == {"final": ROUNDS}
    assert len(paid(tmp_path / "ledger")) == ROUNDS


@pytest.mark.slow
@pytest.mark.promise("G7", "G6")
def test_approvers_against_rejecters_have_one_winner_and_the_record_tells(tmp_path: Path) -> None:
    answers = contest(tmp_path, mixed=True)
    approved = 0
    for round_number in range(ROUNDS):
        winners = [a for a in answers if a[0] == round_number and a[3] == "ok"]
        assert len(winners) == 1, f"winners in round {round_number}: {winners}"
        approved += winners[0][2] == "approve"
    assert finish_all(tmp_path) == {"final": ROUNDS}
    assert len(paid(tmp_path / "ledger")) == approved
    store = SqliteStore(tmp_path / "placet.db")
    for round_number in range(ROUNDS):
        kinds = Counter(e.kind for e in store.events("main", f"round{round_number}"))
        assert kinds["VoteCast"] + kinds["RequestRejected"] == 1
        assert kinds["AttemptBegun"] == kinds["VoteCast"]
    store.close()
