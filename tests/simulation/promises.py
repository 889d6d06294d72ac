"""The promises, held against every commit and everything that is done to the world.

A second opinion: nothing here calls `decide`, `evolve` or `next_work`. It knows what no session can
know (which process is truly gone, what a body truly did) and keeps a record of its own of each
session. The first promise that does not hold ends the world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placet.core import commands as c
from placet.core import events as e
from placet.core.codec import instant_of
from placet.core.values import Recovery
from tests.simulation import rules_of_effects as effects
from tests.simulation import rules_of_people as people
from tests.simulation.disk import Commit
from tests.simulation.machine import Machine, Process
from tests.simulation.policies import VARIANTS, Variant, may_decide, named
from tests.simulation.record import Attempt, Call, Hearing, Record, Request, Run
from tests.simulation.truth import Body, Truth

#: The functions that are guarded: one call of one is one action, in however many runs.
GUARDED = frozenset({"charge", "post"})

#: How long a process may take from its last look at a lease until it enters a body, in seconds of
#: the world, where nothing has stopped it.
LONGEST_LOOK = 6.0

#: The commands that only the driver of a driven run may give (D5).
DRIVERS = (
    c.Propose,
    c.RecordReads,
    c.Begin,
    c.TakeBack,
    c.Unwind,
    c.Probed,
    c.Lose,
    c.RenewLease,
    c.ReleaseLease,
    c.FinishRun,
    c.Compact,
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A promise that does not hold."""

    promise: str
    text: str


class Promises:
    """What is known of a world, and what of it is broken."""

    no_recovery = Recovery()

    def __init__(self, machine: Machine, truth: Truth) -> None:
        self._machine = machine
        self._truth = truth
        self.records: dict[tuple[str, str], Record] = {}
        self.faults: list[Fault] = []
        self.by_key: dict[str, Call] = {}
        self.by_mark: dict[str, Call] = {}
        self.looked: dict[tuple[Process, str], str] = {}
        self.consulted: dict[tuple[Process, str, int], bool] = {}
        self.opened: list[str] = []
        self.told: set[str] = set()
        self.disturbed_at = float("-inf")
        self._files: list[tuple[float, str]] = []

    def see_files(self, names: list[str]) -> None:
        """Note which policy file is in force from now on."""
        for name in names:
            self._files.append((self._machine.loop.time(), name))

    @property
    def files(self) -> list[str]:
        """Name the policy files that a process may have looked at just now."""
        if not self._files:
            return []
        since = min(self._machine.loop.time(), self.disturbed_at) - LONGEST_LOOK
        replaced = [began for began, _ in self._files[1:]]
        found = zip(self._files, replaced, strict=False)
        return [name for (_, name), at in found if at >= since] + [self._files[-1][1]]

    def may_decide(self, heard: Hearing, rule: str, request: Request | None) -> set[str]:
        """Name those who have authority to decide what a rule asked, as far as anybody knows.

        It asked a request, or whatever it asks.
        """
        process, now = heard.process, heard.now
        settings = () if process is None else process.approvers
        variants = [VARIANTS[name] for name in self.files] or [Variant(text="")]
        if request is None:
            return set().union(*(named(each, rule, now, settings) for each in variants))
        found = (may_decide(each, rule, request, now, settings) for each in variants)
        return set().union(*found)

    def fault(self, promise: str, text: str) -> None:
        """Note that a promise does not hold."""
        self.faults.append(Fault(promise, text))

    # --- commits ------------------------------------------------------------------------------

    def committed(
        self, commit: Commit, process: Process | None, speaker: tuple[str, str] | None
    ) -> None:
        """Hold one commit, event by event."""
        key = (commit.tenant, commit.session)
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = Record(*key)
        now = instant_of(commit.stamp)
        at = self._machine.loop.time()
        heard = Hearing(
            record, now, commit.command, process, speaker, self.fault, self.may_decide, at
        )
        self._driver(heard)
        for event in commit.events:
            record.seq += 1
            try:
                _RULES[type(event)](self, heard, event)
            except (KeyError, AssertionError) as odd:
                self.fault("D3", f"{type(event).__name__} follows from nothing on record: {odd!r}")
        self._nothing_is_held(heard)

    def _driver(self, heard: Hearing) -> None:
        """Hold that whoever drives has the lease, and that who is said to be gone is (D5)."""
        command, hold = heard.command, heard.hold
        gone = getattr(command, "gone", None)
        if gone is not None:
            hold("D5", self._machine.is_gone(gone), "a process that lives is taken for gone")
        if isinstance(command, c.Conclude):
            call = heard.record.calls.get(command.at)
            last = None if call is None else call.last
            mine = last is not None and not last.over and last.holder == heard.holder
            hold("D5", mine, "a stale holder's outcome is taken")
        elif isinstance(command, DRIVERS):
            run = heard.record.runs.get(
                command.at.run
                if isinstance(command, (c.Begin, c.TakeBack, c.Unwind, c.Probed, c.Lose))
                else command.run
            )
            if run is not None and run.kind == "hosted" and isinstance(command, c.Lose):
                self._taken_from_its_holder(heard, command)
            elif run is not None and run.kind == "driven" and not run.stop:
                held = run.holder is not None and run.holder == heard.holder
                in_time = run.until is not None and heard.now < run.until
                what = type(command).__name__
                hold("D5", held and in_time, f"{what} of one who does not hold the lease is taken")
        if isinstance(command, c.Probed) and command.happened is False and command.body_gone:
            call = heard.record.calls.get(command.at)
            lost = None if call is None else call.last
            is_gone = lost is None or self._machine.is_gone(lost.holder)
            hold("D4", is_gone, "a probe's no counts while the body's process lives")

    def _taken_from_its_holder(self, heard: Hearing, command: c.Lose) -> None:
        call = heard.record.calls.get(command.at)
        last = None if call is None else call.last
        free = last is None or heard.now >= last.until or self._machine.is_gone(last.holder)
        heard.hold("D5", free, "an attempt is taken from a holder that has it")

    def _nothing_is_held(self, heard: Hearing) -> None:
        """Hold that a run which can only wait has no lease (D1)."""
        record = heard.record
        if any(request.is_due(heard.now) for request in record.requests.values()):
            return
        for run in record.runs.values():
            if run.holder is None or run.stop:
                continue
            calls = [x for x in record.calls.values() if x.at.run == run.id and not x.code]
            asks = [
                r
                for r in record.requests.values()
                if r.at.run == run.id and r.waits and not r.lapsed
            ]
            waits = bool(calls) and len(calls) == len(asks)
            heard.hold("D1", not waits, f"{run.id} holds a lease while it waits for people")

    # --- rules of runs ------------------------------------------------------------------------

    def _started(self, heard: Hearing, event: e.RunStarted) -> None:
        runs = heard.record.runs
        heard.hold("G11", event.run not in runs, "a run's id is used twice")
        if event.parent is None:
            others = [run for run in runs.values() if run.parent is None and not run.stop]
            heard.hold("D5", not others, "a session has two active runs")
        runs[event.run] = Run(
            id=event.run,
            kind=event.kind,
            requester=event.requester,
            parent=event.parent,
            on_failure=event.on_failure,
            saga=event.saga,
        )

    def _lease_taken(self, heard: Hearing, event: e.LeaseTaken) -> None:
        run = heard.record.runs[event.run]
        free = run.holder is None or run.until is None or heard.now >= run.until
        gone = run.holder is not None and self._machine.is_gone(run.holder)
        heard.hold("D5", free or gone, "a lease is taken from a holder that has it")
        heard.hold("D5", event.fence > run.fence, "a fence does not grow")
        heard.hold("D5", event.holder == heard.holder, "a lease is taken in another's name")
        heard.hold("D5", not run.stop, "a lease is taken of a run that is over")
        run.holder, run.fence, run.until = event.holder, event.fence, event.until

    def _lease_renewed(self, heard: Hearing, event: e.LeaseRenewed) -> None:
        heard.record.runs[event.run].until = event.until

    def _lease_released(self, heard: Hearing, event: e.LeaseReleased) -> None:
        run = heard.record.runs[event.run]
        run.holder = run.until = None

    def _step(self, heard: Hearing, event: e.StepRecorded) -> None:
        run = heard.record.runs[event.run]
        heard.hold("D2", not run.stop, "a run that is over takes a step")
        if run.kind == "driven":
            heard.hold("D2", event.step == run.step + 1, "a step is left out or taken twice")
            is_open = any(x.at.run == run.id and not x.code for x in heard.record.calls.values())
            heard.hold("G6", not is_open, "a step is taken while calls wait for their results")
        run.step = max(run.step, event.step)
        run.sizes[event.step] = event.calls

    def _stopping(self, heard: Hearing, event: e.RunStopping) -> None:
        heard.record.runs[event.run].stopping = event.stop

    def _run_ended(self, heard: Hearing, event: e.RunEnded) -> None:
        run = heard.record.runs[event.run]
        heard.hold("D2", not run.stop, "a run ends twice")
        is_open = any(x.at.run == run.id and not x.code for x in heard.record.calls.values())
        heard.hold("G6", not is_open, "a run ends while calls wait for their results")
        run.stop, run.holder = event.stop, None

    def _session_ended(self, heard: Hearing, _event: e.SessionEnded) -> None:
        heard.record.ended = True

    def _proposed(self, heard: Hearing, event: e.CallProposed) -> None:
        effects.proposed(heard, event)
        self.by_mark[str(event.at)] = heard.record.calls[event.at]

    def _opened(self, heard: Hearing, event: e.RequestOpened) -> None:
        people.opened(heard, event)
        if event.kind == "approval" and self._files:
            found = [VARIANTS[name] for name in self.files]
            most = {each.quorums.get(event.rule, 1) for each in found}
            heard.hold("G10", event.needs.quorum in most, "a request asks for another quorum")
            excluding = {event.rule in each.excluding for each in found}
            excludes = event.needs.exclude_requester in excluding
            heard.hold("G10", excludes, "a request asks the requester, or does not")
        self.opened.append(event.request)

    def _other(self, _heard: Hearing, _event: Any) -> None:
        return

    # --- what the rules ask of the world ------------------------------------------------------

    def _bodies(self, call: Call, *kinds: str) -> list[Body]:
        keys = {attempt.key for attempt in call.attempts}
        mark = str(call.at)
        return [
            body
            for body in self._truth.bodies
            if body.kind in (kinds or ("run",))
            and (body.key in keys if body.key else body.mark == mark)
        ]

    def certain(self, heard: Hearing, call: Call, otherwise: str, attempt: int = 0) -> None:
        """Hold that a call, or one attempt at it, certainly did not act, and will not (D4)."""
        bodies = [body for body in self._bodies(call) if attempt in (0, body.attempt)]
        heard.hold("D4", not any(body.did for body in bodies), otherwise)
        heard.hold("D4", not any(body.may_act for body in bodies), otherwise)

    def begun_again(self, heard: Hearing, call: Call) -> None:
        """Hold another attempt: the tool says that it does no harm, or none before has acted."""
        if not call.recovery.idempotent:
            self.certain(heard, call, "an effect that may have happened is begun again")

    def begun_to_take_back(self, heard: Hearing, call: Call, event: e.AttemptBegun) -> None:
        """Hold that nothing is taken back while a body may act, or twice (D8)."""
        alive = [body for body in self._bodies(call) if body.may_act]
        heard.hold("D8", not alive, "it is taken back while its body may act yet")
        undone = [x for x in call.attempts if x.purpose == event.purpose and x.entered]
        recovery = call.recovery
        declared = recovery.roll_back if event.purpose == "roll_back" else recovery.compensation
        if undone and declared is not None and not declared.idempotent:
            did = [body for body in self._bodies(call, event.purpose) if body.did]
            heard.hold("D8", not did, "it is taken back twice")

    def allowed(self, heard: Hearing, call: Call) -> None:
        """Hold that today's policy lets a call run without asking, as the process was told (G1)."""
        n, process = call.n, heard.process
        if n is None or process is None or call.kind == "agent":
            return
        free = self.consulted.get((process, call.tool, n))
        variants = [VARIANTS[name] for name in self.files]
        always = call.tool in self.asking or (
            bool(variants) and all(call.tool in each.asks | each.denies for each in variants)
        )
        heard.hold(
            "G1", free is not False and not always, f"{call.tool} runs, and nobody allowed it"
        )

    def unchanged(self, heard: Hearing, call: Call) -> None:
        """Hold that the world is as it was when people were asked, as far as the tool looks."""
        assert heard.process is not None, "somebody has begun it"
        seen = self.looked.get((heard.process, call.tool))
        frozen = call.now.document["environment"]
        if call.tool in self.watching:
            heard.hold(
                "G13", seen == frozen, "the environment has changed since it was asked about"
            )

    def never_ran(self, heard: Hearing, call: Call) -> None:
        """Hold that a call which is said never to have run has not."""
        bodies = self._bodies(call)
        heard.hold("G6", not bodies, f"a call ended as {call.code}, and its body was entered")

    def succeeded(self, heard: Hearing, call: Call) -> None:
        """Hold that what is said to be done was done."""
        keys = {attempt.key for attempt in call.attempts}
        heard.hold("D4", bool(keys & self._truth.done), "what was not done is said to be")

    def taken_back(self, heard: Hearing, call: Call) -> None:
        """Hold that what is said to be taken back is."""
        alive = [body for body in self._bodies(call) if body.may_act]
        heard.hold("D8", not alive, "it is said to be taken back, and its body may act yet")
        n = call.n
        if n is not None and self._alone_of_its_number(call, n):
            stands = self._truth.applied.get((call.tool, n), 0)
            heard.hold("D8", not stands, "it is said to be taken back, and stands")

    def _alone_of_its_number(self, call: Call, n: int) -> bool:
        return all(
            other is call or (other.tool, other.n) != (call.tool, n)
            for record in self.records.values()
            for other in record.calls.values()
        )

    # --- the world ----------------------------------------------------------------------------

    #: The tools that always ask, and those that look at the world: the world's plan names them.
    asking: frozenset[str] = frozenset()
    watching: frozenset[str] = frozenset()

    def entered(self, body: Body) -> None:
        """Hold the entry of a body."""
        if body.kind in ("probe", "look"):
            return
        call = self.by_key.get(body.key) if body.key else self.by_mark.get(body.mark)
        attempt: Attempt | None = None if call is None else call.last
        for promise, text in effects.entered(body, call, attempt):
            self.fault(promise, text)
        if attempt is not None and attempt.was_lost and body.kind != "read":
            now = self._machine.loop.time()
            calm = min(now - attempt.lost_at, now - self.disturbed_at)
            if calm > LONGEST_LOOK:  # Nobody can look and act at once.
                self.fault("D5", f"{body.mark} is entered though it has passed to another")

    def acted(self, body: Body) -> None:
        """Hold that one call acts once (D4), and of guarded functions one call in all runs."""
        call = self.by_key.get(body.key)
        if body.kind == "run" and call is not None:
            done = sum(each.did for each in self._bodies(call))
            if body.tool in GUARDED:
                alike = (e for e in self._truth.bodies if (e.tool, e.n) == (body.tool, body.n))
                done = sum(each.did for each in alike if each.kind == "run")
            if done > 1:
                self.fault("D4", f"{call.at} has acted {done} times")

    def may_act_yet(self, mark: str) -> bool:
        """Say whether a body of a call may act yet, or is still to be entered."""
        call = self.by_mark.get(mark)
        last = None if call is None else call.last
        if call is None or last is None:
            return False
        to_come = not last.entered and not self._machine.is_gone(last.holder)
        return to_come or any(body.may_act for body in self._bodies(call))


def _wrap(rule: Callable[[Hearing, Any], None]) -> Callable[[Promises, Hearing, Any], None]:
    return lambda _promises, heard, event: rule(heard, event)


def _knowing(
    rule: Callable[[Hearing, Any, Promises], None],
) -> Callable[[Promises, Hearing, Any], None]:
    return lambda promises, heard, event: rule(heard, event, promises)


_RULES: dict[type, Callable[[Promises, Hearing, Any], None]] = {
    e.RunStarted: Promises._started,
    e.LeaseTaken: Promises._lease_taken,
    e.LeaseRenewed: Promises._lease_renewed,
    e.LeaseReleased: Promises._lease_released,
    e.StepRecorded: Promises._step,
    e.RunStopping: Promises._stopping,
    e.RunEnded: Promises._run_ended,
    e.SessionEnded: Promises._session_ended,
    e.CallProposed: Promises._proposed,
    e.RequestOpened: Promises._opened,
    e.VoteCast: _wrap(people.voted),
    e.RequestEscalated: _wrap(people.escalated),
    e.NoticeDelivered: _wrap(people.delivered),
    e.NoticeUndelivered: _wrap(people.undelivered),
    e.GrantGiven: _wrap(people.granted),
    e.GrantRevoked: _wrap(people.revoked),
    e.VoteWithdrawn: _wrap(people.withdrawn),
    e.VotesDropped: _wrap(people.dropped),
    e.RequestRejected: _wrap(people.rejected),
    e.RequestEdited: _wrap(people.edited),
    e.RequestVoided: _wrap(people.voided),
    e.RequestExpired: _wrap(people.expired),
    e.RequestCancelled: _wrap(people.closed),
    e.RequestSuperseded: _wrap(people.closed),
    e.RequestSettled: _wrap(people.settled),
    e.QuestionAnswered: _wrap(people.answered),
    e.SettlementLapsed: _wrap(people.lapsed),
    e.AttemptBegun: _knowing(effects.begun),
    e.AttemptFailed: _knowing(effects.failed),
    e.AttemptLost: _wrap(effects.lost),
    e.CallUndoing: _knowing(effects.undoing),
    e.UnwindingBegun: _wrap(effects.unwinding),
    e.EffectUnwound: _knowing(effects.unwound),
    e.CallDelegated: _knowing(effects.delegated),
    e.CallEnded: _knowing(effects.ended),
    e.PlanMade: Promises._other,
    e.PlanItemDone: Promises._other,
    e.TranscriptCompacted: Promises._other,
    e.ResultsTaken: Promises._other,
}
