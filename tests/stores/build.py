"""Builders of commands for tests of stores: a session, its runs, and calls that are asked about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from placet.core import commands as c
from placet.core.canonical import call_digest
from placet.core.events import AttemptBegun, RequestOpened
from placet.core.values import (
    Allow,
    Ask,
    CallKind,
    Deny,
    Draft,
    Holder,
    Needs,
    Occurrence,
    Principal,
    Recovery,
    Ruling,
    RunKind,
)
from placet.stores.store import Answer, Store

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOLDER = Holder(host="desk", boot="b1", pid=100, started="1")
OTHER = Holder(host="desk", boot="b1", pid=200, started="2")
ANN = Principal(id="ann")
BOB = Principal(id="bob")
PEOPLE = frozenset({"ann", "bob"})
SALT = "00" * 16


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        """Move the clock by a duration, which may be negative."""
        self.now += timedelta(**by)


def asking(quorum: int = 1, lasts: timedelta = timedelta(hours=1)) -> Ask:
    needs = Needs(approvers=("ann", "bob"), quorum=quorum)
    return Ask(rule="refunds", needs=needs, lasts=lasts, reason="moves money")


def start(run: str = "run_1", **more: Any) -> c.StartRun:
    return c.StartRun(
        **{"run": run, "agent": "clerk", "requester": "rita", "message": "Refund 7.", **more}
    )


def sound(
    at: Occurrence,
    *,
    tenant: str = "main",
    session: str = "s1",
    tool: str = "issue_refund",
    ruling: Ruling | None = None,
    kind: CallKind = "effect",
    surface: str = "payments",
    recovery: Recovery | None = None,
    environment: str = "",
    salt: str = SALT,
    **arguments: str | int,
) -> c.Sound:
    given = dict(arguments) or {"order_id": f"{at}"}
    return c.Sound(
        draft=Draft(
            tenant=tenant,
            session=session,
            at=at,
            tool_call_id=f"call_{at.step}_{at.index}",
            tool=tool,
            tool_fingerprint="f" * 64,
            arguments=given,
            scope=("payments:refund",),
            environment=environment,
            salt=salt,
        ),
        call_key=call_digest(tool, given),
        kind=kind,
        surface=surface,
        recovery=recovery or Recovery(),
        approvers=("ann", "bob"),
        ruling=ruling or asking(),
    )


def unsound(at: Occurrence, tool: str = "no_such_tool") -> c.Unsound:
    return c.Unsound(
        at=at,
        tool_call_id=f"call_{at.step}_{at.index}",
        tool=tool,
        call_key=call_digest(tool, {}),
        code="unknown_tool",
        detail="There is no such tool.",
    )


@dataclass
class Session:
    """One session of a store, spoken to by short verbs that wait for their answers."""

    store: Store
    tenant: str = "main"
    id: str = "s1"
    fences: dict[str, int] = field(default_factory=dict)

    def do(self, command: c.Command, *, command_id: str = "") -> Answer:
        answer = self.store.execute(self.tenant, self.id, command, command_id=command_id)
        return answer.result(timeout=60)

    def start(self, run: str = "run_1", *, kind: RunKind = "driven", **more: Any) -> Answer:
        holder = HOLDER if kind == "driven" else None
        answer = self.do(start(run, kind=kind, **{"holder": holder, **more}))
        self.fences[run] = answer.state.runs[run].fence
        return answer

    def lease(self, run: str = "run_1", holder: Holder = HOLDER) -> Answer:
        answer = self.do(c.TakeLease(run=run, holder=holder))
        self.fences[run] = answer.state.runs[run].fence
        return answer

    def fence(self, run: str) -> int | None:
        return self.fences.get(run, 1) or None  # 0: a hosted run, whose commands carry none

    def sound(self, at: Occurrence, **more: Any) -> c.Sound:
        return sound(at, tenant=self.tenant, session=self.id, **more)

    def propose(
        self,
        *rulings: Ruling | None,
        run: str = "run_1",
        step: int = 1,
        command_id: str = "",
        entry: str | None = None,
        reference: str = "",
        place: str = "",
        **more: Any,
    ) -> Answer:
        """Propose a step with one call a ruling; None asks."""
        calls = tuple(
            self.sound(Occurrence(run, step, index), ruling=ruling, **more)
            for index, ruling in enumerate(rulings)
        )
        command = c.Propose(
            run=run,
            step=step,
            fence=self.fence(run),
            entry=f'{{"step": {step}}}' if entry is None else entry,
            calls=calls,
            policy_version="p1",
            reference=reference,
            place=place,
        )
        return self.do(command, command_id=command_id)

    def ask(self, *, run: str = "run_1", step: int = 1, **more: Any) -> str:
        """Propose a step with one call that is asked about, and give the request's id."""
        return opened(self.propose(None, run=run, step=step, **more))[0]

    def approve(self, request: str, by: Principal = ANN, *, command_id: str = "") -> Answer:
        command = c.Approve(request=request, by=by, eligible=PEOPLE)
        return self.do(command, command_id=command_id)

    def reject(self, request: str, by: Principal = ANN, reason: str = "Too much.") -> Answer:
        return self.do(c.Reject(request=request, by=by, eligible=PEOPLE, reason=reason))

    def begin(self, at: Occurrence, *, child: c.Child | None = None, **more: Any) -> Answer:
        found = self.store.session(self.tenant, self.id, c.Names(steps=((at.run, at.step),)))
        assert found is not None
        return self.do(
            c.Begin(
                at=at,
                fence=self.fence(at.run),
                holder=HOLDER,
                digest=found.calls[at].digest,
                today=self.sound(at, **more),
                eligible=PEOPLE,
                policy_version="p1",
                child=child,
            )
        )

    def delegate(self, at: Occurrence, child: str = "child", **more: Any) -> Answer:
        """Open the run of an agent that is used as a tool."""
        opens = c.Child(run=child, agent="helper", message="How many?", max_steps=5)
        return self.begin(at, child=opens, kind="agent", **{"ruling": ALLOW, **more})

    def conclude(
        self, intent: AttemptBegun, outcome: c.Succeeded | c.Failed | c.Unknown | None = None
    ) -> Answer:
        return self.do(
            c.Conclude(
                at=intent.at,
                attempt=intent.attempt,
                fence=intent.fence,
                outcome=outcome or c.Succeeded(told="Done."),
            )
        )

    def cycle(self, *, run: str = "run_1", step: int = 1) -> Answer:
        """Ask, approve, begin and conclude one call of a driven run."""
        self.approve(self.ask(run=run, step=step))
        self.lease(run)
        return self.conclude(intent(self.begin(Occurrence(run, step, 0))))


def opened(answer: Answer) -> list[str]:
    """Give the ids of the requests that a command opened."""
    return [event.request for event in answer.events if isinstance(event, RequestOpened)]


def intent(answer: Answer) -> AttemptBegun:
    """Give the intent that a command recorded."""
    (found,) = [event for event in answer.events if isinstance(event, AttemptBegun)]
    return found


ALLOW = Allow(rule="small")
DENY = Deny(rule="never", reason="Not this.")
