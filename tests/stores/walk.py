"""Random lives of a session: commands chosen from what its state makes likely, right and wrong.

After each command the session is loaded anew and held against the one that the writer went on
with; at the end the log is replayed and held against the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet.core import commands as c
from placet.core.codec import decode_event
from placet.core.errors import Mistake, Refusal
from placet.core.evolve import evolve
from placet.core.state import Call, Executing, Lost, Request, Run, RunOver
from placet.core.state import Session as State
from placet.core.values import CallCode, CallKind, Occurrence, Recovery, Ruling
from placet.stores.loading import base_of
from placet.stores.store import Store
from tests.stores.build import (
    ALLOW,
    ANN,
    BOB,
    DENY,
    HOLDER,
    OTHER,
    PEOPLE,
    START,
    Clock,
    Session,
    asking,
    sound,
    start,
    unsound,
)
from tests.stores.contract import Place, unchained

RECOVERIES = (
    Recovery(),
    Recovery(idempotent=True, retries=1),
    Recovery(probe=True),
)

OUTCOMES: tuple[c.Succeeded | c.Failed | c.Unknown, ...] = (
    c.Succeeded(told="Done."),
    c.Failed(error="No."),
    c.Unknown(cause="cut off"),
)


@dataclass
class Walk:
    """A walker: what it knows of the session is what it was last answered, tombstones included."""

    random: Random
    clock: Clock
    runs: dict[str, Run]
    calls: dict[Occurrence, Call]
    requests: dict[str, Request]

    def learn(self, state: State) -> None:
        self.runs.update(state.runs)
        self.calls.update(state.calls)
        self.requests.update(state.requests)

    def command(self) -> c.Command:
        """Choose what to do next."""
        move = self.random.choice(MOVES)
        return move(self) if self.runs else self.begin_run()

    def begin_run(self) -> c.Command:
        return start(
            f"run_{self.random.randrange(4)}",
            kind=self.random.choice(["driven", "driven", "hosted"]),
            holder=None,
            max_steps=self.random.choice([2, 9]),
            supersede=self.random.random() < 0.5,
            mode=self.random.choice(["act"] * 4 + ["think", "plan-act"]),
        )

    def run(self) -> Run:
        active = [run for run in self.runs.values() if not isinstance(run.state, RunOver)]
        most = self.random.random() < 0.9 and active
        return self.random.choice(active if most else list(self.runs.values()))

    def fence(self, run: str) -> int | None:
        known = self.runs[run]
        return None if known.kind == "hosted" else known.fence

    def request(self) -> str:
        pending = [each.id for each in self.requests.values() if each.pending]
        most = self.random.random() < 0.8 and pending
        return self.random.choice(pending if most else [*self.requests, "rq_none"])

    def call(self) -> Call | None:
        opened = [each for each in self.calls.values() if each.open]
        every = opened if opened and self.random.random() < 0.9 else list(self.calls.values())
        return self.random.choice(every) if every else None

    def proposal(
        self, at: Occurrence, *, environment: str = "", kind: CallKind | None = None
    ) -> c.Proposal:
        if self.random.random() < 0.1:
            return unsound(at)
        rulings: tuple[Ruling, ...] = (ALLOW, DENY, asking(), asking(quorum=2))
        kinds: tuple[CallKind, ...] = ("effect", "effect", "read", "agent", "question")
        return sound(
            at,
            ruling=self.random.choice(rulings),
            kind=self.random.choice(kinds) if kind is None else kind,
            surface=self.random.choice(["payments", "shell", "*"]),
            recovery=self.random.choice(RECOVERIES),
            environment=environment,
            salt=f"{self.random.getrandbits(128):032x}",
            order_id=self.random.randrange(3),
        )

    def propose(self) -> c.Command:
        run = self.run()
        step = run.step + self.random.choice([1, 1, 1, 0])
        return c.Propose(
            run=run.id,
            step=step,
            fence=self.fence(run.id),
            entry=f"{step}",
            calls=tuple(
                self.proposal(Occurrence(run.id, step, index))
                for index in range(self.random.choice([0, 1, 2, 3]))
            ),
            policy_version="p1",
            answer="So be it.",
            plan=("look", "pay"),
        )

    def begin(self) -> c.Command:
        call = self.call()
        if call is None:
            return self.propose()
        environment = self.random.choice([call.environment] * 3 + ["changed"])
        today = self.proposal(call.at, environment=environment, kind=call.kind)
        if isinstance(today, c.Sound) and self.random.random() < 0.8:
            today = replace(today, call_key=call.call_key)
        run = f"child_{self.random.randrange(6)}"
        child = c.Child(run=run, agent="helper", message="How many?", max_steps=3)
        return c.Begin(
            at=call.at,
            fence=self.fence(call.at.run),
            holder=HOLDER,
            digest=call.digest,
            today=today,
            eligible=PEOPLE,
            policy_version="p1",
            child=child if call.kind == "agent" else None,
            snapshot=self.random.choice([None, "before"]),
        )

    def end(self) -> c.Command:
        call = self.call()
        if call is None:
            return self.propose()
        fence = call.state.fence if isinstance(call.state, Executing) else 1
        at, attempt = call.at, call.attempts
        if isinstance(call.state, Lost):
            happened = self.random.choice([True, False, None])
            return c.Probed(
                at=at,
                attempt=attempt,
                fence=self.fence(at.run),
                happened=happened,
                told="It did.",
                body_gone=self.random.random() < 0.5,
            )
        if self.random.random() < 0.2:
            gone = self.random.choice([HOLDER, None])
            mine = self.fence(at.run)
            return c.Lose(at=at, attempt=attempt, fence=mine, cause="lost", gone=gone)
        return c.Conclude(at=at, attempt=attempt, fence=fence, outcome=self.random.choice(OUTCOMES))

    def read(self) -> c.Command:
        run = self.run()
        results: tuple[tuple[int, CallCode, str], ...] = (
            (0, "succeeded", "seen"),
            (1, "tool_failed", "not seen"),
        )
        kept = results[: self.random.choice([1, 2])]
        return c.RecordReads(run=run.id, step=run.step, fence=self.fence(run.id), results=kept)

    def lease(self) -> c.Command:
        holder, gone = self.random.choice([(HOLDER, None), (OTHER, HOLDER), (HOLDER, OTHER)])
        return c.TakeLease(run=self.run().id, holder=holder, gone=gone)

    def decide(self) -> c.Command:
        request, by = self.request(), self.random.choice([ANN, BOB])
        known = self.requests.get(request)
        if known is not None and known.kind == "settlement":
            happened = self.random.choice([True, False, None])
            return c.Settle(request=request, by=by, eligible=PEOPLE, happened=happened, detail="x")
        if known is not None and known.kind == "question" and self.random.random() < 0.7:
            return c.Answer(request=request, by=by, eligible=PEOPLE, answer="Seven.")
        if known is not None and self.random.random() < 0.2:
            made = self.proposal(known.at)
            if isinstance(made, c.Sound):
                return c.Edit(
                    request=request,
                    by=by,
                    eligible=PEOPLE,
                    proposal=made,
                    changes="order_id",
                    policy_version="p1",
                )
        if self.random.random() < 0.3:
            return c.Reject(request=request, by=by, eligible=PEOPLE, reason="No.")
        if self.random.random() < 0.1:
            return c.Withdraw(request=request, by=by)
        return c.Approve(request=request, by=by, eligible=PEOPLE)

    def close(self) -> c.Command:
        run = self.run()
        fence = self.fence(run.id)
        return self.random.choice(
            (
                c.CancelRun(run=run.id, by=ANN, cause="enough"),
                c.FinishRun(run=run.id, fence=fence, stop="failed"),
                c.ReleaseLease(run=run.id, fence=fence or 0, pause=timedelta(seconds=5)),
                c.RenewLease(run=run.id, fence=fence or 0),
                c.Compact(run=run.id, fence=fence or 0, step=run.step, summary="so far"),
                c.TakeResults(run=run.id, step=run.step),
                c.EndSession(by=ANN) if self.random.random() < 0.1 else c.Expire(run=run.id),
            )
        )

    def wait(self) -> c.Command:
        self.clock.move(minutes=self.random.choice([0, 0, 1, 70, 60 * 25, -5]))
        return c.Expire(run=self.run().id)


MOVES: tuple[Callable[[Walk], c.Command], ...] = (
    *[Walk.propose] * 4,
    *[Walk.begin] * 5,
    *[Walk.end] * 4,
    *[Walk.decide] * 6,
    *[Walk.lease] * 4,
    Walk.read,
    Walk.close,
    Walk.wait,
    Walk.begin_run,
)


def everything(store: Store) -> State:
    """Give the session with all that it ever held, by replaying its log."""
    first = store.session("main", "s1")
    assert first is not None
    state = State(tenant="main", id="s1", salt=first.salt, now=START)
    for each in store.events("main", "s1"):
        event = decode_event(each.kind, each.body)
        state = evolve(replace(state, now=each.at), event)
    return state


class WalkContract:
    """What holds of every life of a session, in every store."""

    # Each store that keeps the contract is another executor of the one test.
    @settings(
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.differing_executors,
        ]
    )
    @given(seed=st.integers(0, 2**32), length=st.integers(5, 80))
    def test_what_is_loaded_anew_is_what_the_writer_goes_on_with(
        self, fresh: Callable[[], Place], seed: int, length: int
    ) -> None:
        clock = Clock()
        place = fresh()
        store, other = place.open(clock=clock), place.open(clock=clock)
        walk = Walk(Random(seed), clock, {}, {}, {})
        for _ in range(length):
            # Now and then another store writes, and what this one has kept is of no use.
            writing = other if walk.random.random() < 0.1 else store
            try:
                answer = Session(writing).do(walk.command())
            except (Refusal, Mistake):
                continue
            walk.learn(answer.state)
            loaded = store.session("main", "s1")
            assert loaded is not None
            assert replace(base_of(answer.state), now=START) == replace(loaded, now=START)
        if walk.runs:
            self._replay(store)
        store.close()
        other.close()

    def _replay(self, store: Store) -> None:
        assert unchained(list(store.events("main", "s1"))) == []
        state = everything(store)
        named = c.Names(
            runs=tuple(state.runs),
            steps=tuple({(at.run, at.step) for at in state.calls}),
            requests=tuple(state.requests),
            call_keys=tuple(state.noes),
        )
        loaded = store.session("main", "s1", named)
        assert loaded is not None
        assert replace(loaded, now=START) == replace(state, now=START)
