"""What a command has brought about so far: the events, and the session after them.

The functions that decide share it, so that each of their steps sees the effect of the ones before.
It also holds the endings that many commands bring about: a call's, a request's, a run's.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.core import events as e
from placet.core import wording
from placet.core.errors import NotFound, StaleHolder
from placet.core.evolve import evolve
from placet.core.state import (
    Allowed,
    Asking,
    Call,
    Delegated,
    Executing,
    Lost,
    No,
    Request,
    RetryDue,
    Run,
    RunOver,
    Session,
    Unsettled,
    Unwinding,
    Working,
    top_of,
    undoable,
)
from placet.core.values import (
    FAILURES,
    REMEMBERED_NOES,
    TOOL_FAILURES,
    CallCode,
    Occurrence,
    Payload,
    Purpose,
    StopReason,
    Unwound,
    keyed,
    payload_of,
)
from placet.core.work import under_way

#: How often the same call may fail in a run; the run stops with the last of them.
MOST_FAILURES = 3

#: What the end of taking an earlier call back says of its effect; a person may have found it out.
_UNWOUND: dict[CallCode, Unwound] = {
    "tool_failed_and_rolled_back": "rolled_back",
    "tool_failed_and_compensated": "compensated",
    "interrupted": "compensated",
    "succeeded": "succeeded",
    "outcome_unknown": "unknown",
}


def _has_failed(call: Call, code: CallCode) -> bool:
    """Say whether a call did not come to its end; of an agent's nobody may know what it did."""
    unknown = code == "outcome_unknown"
    return code in TOOL_FAILURES or unknown or (call.attempts > 0 and code != "succeeded")


@dataclass(slots=True)
class Unfolding:
    """The events of one command as they are decided, and the state they lead to.

    `answering` names the run whose step is being taken: it ends once all of it is answered.
    """

    state: Session
    events: list[e.Event]
    answering: str = ""

    def add(self, event: e.Event) -> None:
        """Record an event; what is decided next sees the state after it."""
        self.state = evolve(self.state, event)
        self.events.append(event)

    def text(self, body: str) -> Payload:
        """Give a text its reference in this session."""
        return payload_of(self.state.salt, body)

    def run(self, run: str) -> Run:
        """Give a run; raises NotFound."""
        found = self.state.runs.get(run)
        if found is None:
            raise NotFound("run_not_found", "There is no such run here.", run_id=run)
        return found

    def call(self, at: Occurrence) -> Call:
        """Give a call; raises NotFound."""
        found = self.state.calls.get(at)
        if found is None:
            raise NotFound("call_not_found", "There is no such call here.", call=str(at))
        return found

    def request(self, request: str) -> Request:
        """Give a request; raises NotFound."""
        found = self.state.requests.get(request)
        if found is None:
            raise NotFound(
                "request_not_found",
                "There is no such request in this session.",
                hint="`placet inbox` lists those that wait.",
                request_id=request,
            )
        return found

    def environment(self, found: str) -> str:
        """Give what stands in this session for an environment fingerprint (G13, H4)."""
        return keyed(self.state.salt, "environment", found)

    def no_to(self, run: str, call_key: str) -> No | None:
        """Give the remembered "no" to a call: its run's own, or people's to one beside it (G6)."""
        for each in (run, top_of(self.state.runs, run)):
            no = self.state.noes.get((each, call_key))
            if no is not None and no.code in REMEMBERED_NOES:
                return no
        return None

    def end_call(
        self,
        at: Occurrence,
        code: CallCode,
        told: Payload,
        *,
        by: str = "",
        like: Call | None = None,
        own: str | Payload | None = None,
    ) -> None:
        """Give a call its one result; `own` is the body's, where `told` says more.

        Where a failure takes back what earlier calls did, the result is withheld until then; and
        a call that has its result keeps it, whatever becomes of its effect.
        """
        call = like or self.call(at)
        payload = self.text(own) if isinstance(own, str) else own
        if call.result is not None:
            self.add(e.EffectUnwound(at=at, outcome=_UNWOUND[code], told=told, by=by))
            return
        if self._unwinds(call, code):
            self.add(e.UnwindingBegun(at=at, code=code, told=told, own=payload))
            self._break_step(call)
            return
        self.add(
            e.CallEnded(
                at=at,
                tool_call_id=call.tool_call_id,
                tool=call.tool,
                call_key=call.call_key,
                code=code,
                told=told,
                by=by,
                attempt=call.attempts,
                own=payload,
            )
        )
        self.count_failure(at.run, call.call_key, code)
        if code in FAILURES or _has_failed(call, code):
            self._break_step(call)

    def _unwinds(self, call: Call, code: CallCode) -> bool:
        """Say whether what earlier calls did is to be taken back, because this one failed."""
        run = self.run(call.at.run)
        if run.on_failure != "compensate_earlier" or call.kind not in ("effect", "agent"):
            return False
        if isinstance(call.state, Unwinding) or not self._may_stand(run, call):
            return False
        if any(other.at.run == run.id for other in self._unwinding()):
            return False
        return _has_failed(call, code)

    def _may_stand(self, run: Run, failed: Call) -> bool:
        """Say whether an earlier effect stands, or one is under way that may yet."""
        if undoable(run, failed.at) is not None:
            return True
        return any(
            other.kind == "effect"
            and other.at.run == run.id
            and (run.saga == "run" or other.at.step == failed.at.step)
            for other in under_way(self.state, besides=failed.at)
        )

    def _unwinding(self) -> list[Call]:
        return [c for c in self.state.calls.values() if isinstance(c.state, Unwinding)]

    def _break_step(self, failed: Call) -> None:
        """Let nothing more of the step begin, where its run says so: each call is answered."""
        run = self.run(failed.at.run)
        if run.on_failure == "continue" or isinstance(run.state, RunOver):
            return
        if run.stopping is not None:  # What stops it answers each call itself.
            return
        cause = wording.step_broken(failed.tool)
        told = wording.interrupted(cause)
        for call in self.state.step_calls(run.id, failed.at.step):
            if isinstance(call.state, (Allowed, Asking)):
                self._stop_call(call, "interrupted", told, stop="failed", cause=cause)

    def end_outdated_grants(self, policy_version: str) -> None:
        """End the grants that were given under another policy than is in force now (G12)."""
        for grant in list(self.state.grants.values()):
            if grant.policy_version != policy_version:
                self.add(e.GrantRevoked(grant=grant.id, by="", via="policy"))

    def count_failure(self, run_id: str, call_key: str, code: CallCode) -> None:
        """Stop a run whose model makes the same call again and again though it fails.

        The caller ends the run, once what else the command answers is answered.
        """
        run = self.run(run_id)
        if code not in FAILURES or run.stopping is not None or isinstance(run.state, RunOver):
            return
        counted = self.state.noes.get((run_id, call_key))
        if counted is not None and counted.code in FAILURES and counted.times >= MOST_FAILURES:
            cause = f"the same call failed {counted.times} times."
            self.stop_run(run_id, "failed", code="interrupted", cause=cause, finish=False)

    def take_back(self, call: Call, how: Purpose, cause: str) -> None:
        """Let what a call may have done be taken back, from now on (D8)."""
        now = self.state.now
        self.add(e.CallUndoing(at=call.at, how=how, again_at=now, cause=self.text(cause)))

    def stop_run(
        self, run_id: str, stop: StopReason, *, code: CallCode, cause: str, finish: bool = True
    ) -> None:
        """Let a run end: what has not begun is answered now, and what has is carried to its end."""
        run = self.run(run_id)
        if isinstance(run.state, RunOver):
            return
        if run.stopping is None:
            self.add(e.RunStopping(run=run_id, stop=stop, cause=cause))
        told = {
            "cancelled": wording.cancelled(cause),
            "superseded": wording.superseded(),
        }.get(code, wording.interrupted(cause))
        for at in sorted(self.state.calls):
            call = self.state.calls[at]  # As it is now: the end of one may end others.
            if at.run == run_id and call.open:
                self._stop_call(call, code, told, stop=stop, cause=cause)
        if finish:
            self.finish_if_idle(run_id)

    def _stop_call(
        self, call: Call, code: CallCode, told: str, *, stop: StopReason, cause: str
    ) -> None:
        match call.state:
            case Allowed():
                self.end_call(call.at, code, self.text(told))
            case Asking(request=request):
                if code == "superseded":
                    self.add(e.RequestSuperseded(request=request))
                else:
                    self.add(e.RequestCancelled(request=request, cause=cause))
                self.end_call(call.at, code, self.text(told))
            case RetryDue(lost=lost) if not (lost and call.recovery.idempotent):
                certain = not call.acted
                how = None if certain else call.way_back()
                if how is None:
                    failed = wording.failed(cause, not_done=certain, attempts=call.attempts)
                    self.end_call(call.at, "tool_failed", self.text(failed))
                elif not call.stray:  # Or else it is tried again: an earlier body may act yet.
                    self.take_back(call, how, cause)
            case Delegated(child=child):
                self.stop_run(child, stop, code=code, cause=cause)
            case Unsettled(request=request):
                self.lapse(self.request(request), cause)
            case Executing() | Lost() | RetryDue() | _:
                pass

    def lapse(self, request: Request, cause: str) -> None:
        """Answer a call whose outcome nobody settled; its surface stays closed (D4)."""
        self.add(e.SettlementLapsed(request=request.id, at=request.at))
        self.end_call(request.at, "outcome_unknown", self.text(wording.outcome_unknown(cause)))

    def finish_if_idle(self, run_id: str) -> None:
        """End a stopping run that has nothing under way any more."""
        run = self.run(run_id)
        if run.stopping is None or isinstance(run.state, RunOver) or run_id == self.answering:
            return
        if any(c.open for c in self.state.calls.values() if c.at.run == run_id):
            return
        self.end_run(run_id, run.stopping)

    def end_run(self, run_id: str, stop: StopReason, answer: str | None = None) -> None:
        """End a run; a child's answer becomes the result of the call that opened it."""
        told = None if answer is None else self.text(answer)
        self.add(e.RunEnded(run=run_id, stop=stop, answer=told))
        parent = self.run(run_id).parent
        if parent is None or not self.call(parent).open:
            return
        if stop == "final" and told is not None:
            self.end_call(parent, "succeeded", told)
        else:
            codes: dict[StopReason, CallCode] = {
                "cancelled": "cancelled",
                "superseded": "superseded",
                "outcome_unknown": "outcome_unknown",
            }
            code = codes.get(stop, "tool_failed")
            self.end_call(parent, code, self.text(wording.child_ended(stop, answer or "")))
        self.finish_if_idle(parent.run)

    def driven_by(self, run_id: str, fence: int | None) -> Run:
        """Check that the command comes from who may drive the run now (D5).

        A hosted run is driven by its framework, and its commands carry no fence. Raises
        StaleHolder.
        """
        run = self.run(run_id)
        if run.kind == "hosted" and fence is None:
            return run
        held = isinstance(run.state, Working) and self.state.now < run.state.until
        if not held or fence != run.fence:
            raise StaleHolder(
                "stale_fence",
                "The run's lease is not the caller's any more.",
                hint="Another process may have taken the run over; resume it to see.",
                run_id=run_id,
            )
        return run
