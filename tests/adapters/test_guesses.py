"""What is made of a session's texts is keyed with its salt, and after an erasure tells nothing."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from placet import Agent, GrantTerms, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, say
from placet.core import commands as c
from placet.core.canonical import call_digest, digest_of, sha256_hex, short_id
from placet.core.codec import decode_event
from placet.core.errors import Closed
from placet.core.values import SALT_BYTES, Occurrence, keyed
from placet.runtime.engine import new_salt
from placet.stores.sqlite import SqliteStore
from tests.adapters import graphs
from tests.adapters.guards import opened, paid, refund_of, required
from tests.adapters.guesses import confirmed, reference_of, world_of
from tests.runtime.hosts import Framework, called, pays

AMOUNT = 4_711
ARGUMENTS: dict[str, Any] = {"order": "A-42", "amount": AMOUNT}

#: The salt of a session that was begun when call keys and names had none.
OLDER_SALT = "ab" * 16


def begun_with(placet: Placet, session: str, salt: str) -> None:
    """Let a session begin under a salt, with a run that is over at once."""

    async def begin() -> None:
        hosted = c.StartRun(
            run=f"first_{session}",
            agent="a",
            requester="rob",
            message="go",
            kind="hosted",
            salt=salt,
        )
        await placet.engine.execute(session, hosted)
        over = c.FinishRun(run=f"first_{session}", fence=None, stop="final")
        await placet.engine.execute(session, over)

    asyncio.run(begin())


def live(placet: Placet, place: Path, session: str) -> None:
    """Let one call be made in every way: guarded, granted, refused again and again, and hosted."""
    guarded = refund_of(placet, place, guard={"session": session})
    guarded.environment(world_of)
    (request,) = required(partial(guarded, **ARGUMENTS)).requests
    terms = GrantTerms(scope="session", lasts=timedelta(hours=1), uses=3, same=("order", "amount"))
    placet.decide_sync(request, "approve", by="ana", grant=terms)
    guarded(**ARGUMENTS)

    @tool
    def refund(order: str, amount: int) -> str:
        """Pay a refund, as an agent wants it."""
        raise AssertionError("nobody approved it")

    calls = [call(name, **ARGUMENTS) for name in ("refund", "nothing", "refund")]
    model = ScriptedModel([*calls, say("It is not to be.")])
    agent = Agent(name=f"agent of {session}", model=model, tools=[refund])
    run = placet.run_sync(agent, "go", session=session)
    (request,) = [row.request.id for row in placet.inbox_sync()]
    placet.decide_sync(request, "reject", by="ana", reason="not this one")
    assert placet.resume_sync(run.run_id).stop == "final"

    async def hosted() -> None:
        hosting = placet.host(f"host of {session}", [refund.declaration], resume=_nothing)
        await hosting.begin(session, f"hosted_{session}", "go", requester="rob")
        await hosting.propose(
            session,
            f"hosted_{session}",
            reference_of(**ARGUMENTS),
            [called("refund", **ARGUMENTS)],
            checkpoint="here",
        )

    asyncio.run(hosted())
    placet.end_session_sync(session, by="ana")


async def _nothing(_: str) -> None:
    return


@pytest.mark.slow
@pytest.mark.promise("H4", "G6")
@pytest.mark.parametrize("salt", ["", OLDER_SALT], ids=["now", "older"])
def test_of_an_erased_session_no_amount_can_be_guessed_from_any_file_of_the_store(
    tmp_path: Path, salt: str
) -> None:
    with opened(tmp_path) as placet:
        if salt:
            begun_with(placet, "s", salt)
        live(placet, tmp_path, "s")
        told = {"call", "environment", "reference", "run", "grant"}
        near = range(AMOUNT - 50, AMOUNT + 50)
        assert told <= confirmed(tmp_path, "s", near)[AMOUNT], "the thief knows what to look for"
        assert placet.erase_session_sync("s", by="ana")
    if salt:  # What a session tells that was begun with the older one, where nothing is keyed.
        assert confirmed(tmp_path, "s", near) == {AMOUNT: told - {"grant"}}
    else:
        assert confirmed(tmp_path, "s") == {}


def keys_of(placet: Placet, session: str) -> set[str]:
    """Give the keys of a session's calls, as its events have them."""
    events = placet.engine.store.events("main", session)
    found = [decode_event(each.kind, each.body) for each in events]
    return {each.call_key for each in found if hasattr(each, "call_key")}


@pytest.mark.promise("H4", "G6")
def test_the_same_call_has_one_key_in_a_session_and_another_in_every_other(tmp_path: Path) -> None:
    with Framework(tmp_path, [pays(tmp_path)]) as framework:
        for session in ("s", "z"):
            framework.begin(f"r_{session}", session=session)
            for reference in ("one", "two"):
                run = f"r_{session}"
                framework.propose(
                    called("refund", **ARGUMENTS), run=run, session=session, reference=reference
                )
        keys = [keys_of(framework.placet, session) for session in ("s", "z")]
        assert [len(each) for each in keys] == [1, 1]
        assert len(keys[0] | keys[1] | {call_digest("refund", ARGUMENTS)}) == 3


# --- a session that begins ------------------------------------------------------------------


class Late(SqliteStore):
    """Lets another process be first to begin a session that was just found not to be there."""

    elsewhere: Callable[[], object] | None = None

    def session(self, *args: Any) -> Any:
        found = super().session(*args)
        if found is None and self.elsewhere is not None:
            elsewhere, self.elsewhere = self.elsewhere, None
            elsewhere()
        return found


@pytest.mark.promise("G7", "D5", "H4")
def test_of_two_who_begin_a_session_with_one_guarded_call_one_pays_and_both_have_its_run(
    tmp_path: Path,
) -> None:
    store = Late(tmp_path / "placet.db")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placet = Placet(store, approvers=["ana"])
    try:
        with opened(tmp_path) as other:
            allowed: dict[str, Any] = {"approval": "never"}
            second, first = (
                refund_of(placet, tmp_path, **allowed),
                refund_of(other, tmp_path, **allowed),
            )
            store.elsewhere = lambda: first("A-42", 99)
            assert second("A-42", 99) == "refunded 99 for A-42"
            assert store.elsewhere is None
            assert len(other.runs_sync()) == 1
    finally:
        placet.close()
    assert paid(tmp_path) == ["A-42 99"]


@pytest.mark.promise("D5", "H4")
@pytest.mark.parametrize("far", ["begun", "proposed"])
def test_of_two_who_begin_a_session_with_one_hosted_step_both_have_its_run(
    tmp_path: Path, far: str
) -> None:
    def name(salt: str, again: int) -> str:
        return short_id("run", keyed(salt, "run", digest_of(["m", again])))

    def begun(framework: Framework) -> None:
        salt = new_salt()
        begin = framework.hosting.begin("s", name(salt, 0), "go", requester="rob", salt=salt)
        asyncio.run(begin)

    def proposed(framework: Framework) -> tuple[Occurrence, ...]:
        return asyncio.run(
            framework.hosting.propose_answering(
                "s",
                "go",
                name,
                "one",
                [called("refund", **ARGUMENTS)],
                requester="rob",
                checkpoint="here",
            )
        )

    with (
        Framework(tmp_path, [pays(tmp_path)], store=Late) as late,
        Framework(tmp_path, [pays(tmp_path)]) as early,
    ):
        assert isinstance(late.store, Late)
        late.store.elsewhere = partial(begun if far == "begun" else proposed, early)
        assert proposed(late) == proposed(early)
        assert late.kinds().count("RunStarted") == 1
        assert len(late.waiting()) == 1


# --- sessions that are older, and that are no more ------------------------------------------------


@pytest.mark.promise("D7", "G7", "G6")
def test_what_is_under_way_in_a_session_with_an_older_salt_is_found_and_goes_on(
    tmp_path: Path,
) -> None:
    digest = call_digest("refund", {"order": "A-42", "amount": 129})
    named = short_id("run", digest_of(["guard", "main", "order-A-42", "refund", digest, 0]))
    with opened(tmp_path) as placet:
        begun_with(placet, "order-A-42", OLDER_SALT)
        needed = required(lambda: refund_of(placet, tmp_path)("A-42", 129))
        assert needed.run_id == named
        assert keys_of(placet, "order-A-42") == {digest}
        placet.decide_sync(needed.requests[0], "approve", by="ana")
    for _ in range(2):
        with opened(tmp_path) as placet:
            assert refund_of(placet, tmp_path)("A-42", 129) == "refunded 129 for A-42"
    assert paid(tmp_path) == ["A-42 129"]


@pytest.mark.promise("D7", "H4")
@pytest.mark.parametrize("salt", ["", OLDER_SALT], ids=["now", "older"])
def test_the_run_of_a_threads_message_tells_of_it_in_an_older_session_alone(
    tmp_path: Path, salt: str
) -> None:
    message: Any = {"messages": [HumanMessage("refund A-42", id="m1")]}
    seed = sha256_hex(json.dumps(["m1", "refund A-42"]).encode())
    told = short_id("run", sha256_hex(json.dumps(["support", "t", seed, 0]).encode()))
    step = graphs.calls(("refund", ARGUMENTS))
    with graphs.opened(tmp_path, graphs.script(step), [graphs.pays(tmp_path / "ledger")]) as bench:
        if salt:
            begun_with(bench.placet, "t", salt)
        bench.invoke(message)
        (waiting,) = bench.placet.inbox_sync(session="t")
        run = waiting.request.at.run
        assert (run == told) is (salt != "")
        bench.decide(waiting.request.id)
    with graphs.opened(tmp_path, graphs.script(step), [graphs.pays(tmp_path / "ledger")]) as bench:
        bench.placet.resume_sync(run)
        assert bench.ledger == [f"refund A-42 {AMOUNT}"]
    files = b"".join(file.read_bytes() for file in tmp_path.glob("placet.db*"))
    assert (told.encode() in files) is (salt != "")


@pytest.mark.promise("H4", "G7")
def test_a_call_in_a_session_that_was_erased_is_refused_and_is_not_done_again(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as placet:
        refund = refund_of(placet, tmp_path, approval="never")
        refund("A-42", 129)
        placet.erase_session_sync("order-A-42", by="ana")
        with pytest.raises(Closed) as here:
            refund("A-42", 129)
    with opened(tmp_path) as placet, pytest.raises(Closed) as elsewhere:
        refund_of(placet, tmp_path, approval="never")("A-42", 129)
    assert [each.value.code for each in (here, elsewhere)] == ["session_erased", "session_erased"]
    assert paid(tmp_path) == ["A-42 129"]


@pytest.mark.promise("H4")
def test_a_new_sessions_salt_is_as_long_as_a_key_of_what_it_keys(tmp_path: Path) -> None:
    with opened(tmp_path) as placet:
        refund_of(placet, tmp_path, approval="never")("A-42", 129)
        salt = asyncio.run(placet.engine.salt("order-A-42"))
        assert len(bytes.fromhex(salt)) == SALT_BYTES == 32
