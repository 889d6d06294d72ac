"""Small builders of sessions and commands, and a `World` that applies them under a virtual clock.

`World.apply` holds, at every command, that `decide` and `unfold` agree, that evolving the events
gives the session that `unfold` gave, and that a refusal changed nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from placet.core import commands as c
from placet.core import events as e
from placet.core.canonical import call_digest, digest_of
from placet.core.decide import decide, unfold
from placet.core.errors import PlacetError
from placet.core.evolve import evolve
from placet.core.state import (
    Asking,
    Call,
    CallOver,
    Request,
    Run,
    Session,
    UndoDue,
    Unsettled,
    undoable,
)
from placet.core.values import (
    REQUESTER,
    Allow,
    Ask,
    Deny,
    Draft,
    Escalation,
    GrantTerms,
    Holder,
    Mode,
    Needs,
    Occurrence,
    Principal,
    Recovery,
    Ruling,
    Undoing,
)
from placet.core.work import Work, next_work

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
SALT = "00" * 16

ANN = Principal(id="ann")
BOB = Principal(id="bob")
EVE = Principal(id="eve")
USER = Principal(id="user")
BOT = Principal(id="ann", kind="agent")
EVERYBODY = frozenset({"ann", "bob", "eve", "user"})

HOLDER = Holder(host="h", boot="b", pid=1, started="1")
OTHER = Holder(host="h", boot="b", pid=2, started="2")

ALLOW = Allow(rule="free")
DENY = Deny(rule="never", reason="it is forbidden")
ONE = Needs(approvers=("ann", "bob"))
TWO = Needs(approvers=("ann", "bob", "eve"), quorum=2)
ASK = Ask(rule="gated", needs=ONE, lasts=HOUR)
ASK_TWO = Ask(rule="gated twice", needs=TWO, lasts=HOUR)
ESCALATION = (
    Escalation(after=HOUR / 6, approvers=("eve",), channel="phone"),
    Escalation(after=HOUR / 3),
)
ASK_MORE = Ask(rule="escalated", needs=ONE, lasts=HOUR, escalation=ESCALATION)
QUESTION = Ask(rule="question", needs=Needs(approvers=("ann", REQUESTER)), lasts=HOUR)

ONCE = Recovery()
AGAIN = Recovery(idempotent=True, retries=1)
PROBED = Recovery(probe=True)
SAFE = Undoing(safe_if_absent=True)
SAFE_AGAIN = Undoing(safe_if_absent=True, idempotent=True, retries=1)
ROLL_BACK = Undoing(safe_if_absent=True, idempotent=True, retries=1)
COMPENSATED = Recovery(compensation=SAFE)

_salts = count(1)


def session(**changes: Any) -> Session:
    """Give an empty session."""
    return replace(Session(tenant="main", id="s1", salt=SALT, now=START), **changes)


def at(index: int = 0, *, step: int = 1, run: str = "r1") -> Occurrence:
    """Give an occurrence."""
    return Occurrence(run, step, index)


def sound(
    index: int = 0,
    *,
    step: int = 1,
    run: str = "r1",
    ruling: Ruling = ASK,
    tool: str = "pay",
    arguments: dict[str, Any] | str | None = None,
    kind: Any = "effect",
    surface: str = "payments",
    recovery: Recovery = ONCE,
    fingerprint: str = "f1",
    scope: tuple[str, ...] = ("pay",),
    environment: str = "",
    salt: str | None = None,
    approvers: tuple[str, ...] = ("ann", "bob"),
    session_id: str = "s1",
) -> c.Sound:
    """Give a call that policy has ruled on; each has a salt of its own."""
    given: dict[str, Any] | str = {"amount": 1000 + index} if arguments is None else arguments
    return c.Sound(
        draft=Draft(
            tenant="main",
            session=session_id,
            at=at(index, step=step, run=run),
            tool_call_id=f"tc{step}.{index}",
            tool=tool,
            tool_fingerprint=fingerprint,
            arguments=given,
            scope=scope,
            environment=environment,
            salt=salt or f"{next(_salts):032x}",
        ),
        call_key=call_digest(tool, given),
        kind=kind,
        surface=surface,
        recovery=recovery,
        approvers=approvers,
        ruling=ruling,
    )


def unsound(index: int = 0, *, step: int = 1, run: str = "r1", code: Any = None) -> c.Unsound:
    """Give a call that is answered at once."""
    return c.Unsound(
        at=at(index, step=step, run=run),
        tool_call_id=f"tc{step}.{index}",
        tool="nothing",
        call_key=digest_of({"unsound": index}),
        code=code or "unknown_tool",
        detail="no such tool",
    )


def start(run: str = "r1", **changes: Any) -> c.StartRun:
    """Give the command that starts a driven run under a lease."""
    given: dict[str, Any] = {"agent": "a", "requester": "user", "message": "go", "holder": HOLDER}
    return c.StartRun(run=run, **{**given, **changes})


def approve(request: str, by: Principal = ANN, **changes: Any) -> c.Approve:
    """Give one person's yes."""
    return c.Approve(request=request, by=by, **{"eligible": EVERYBODY, **changes})


TERMS = GrantTerms(scope="run", lasts=HOUR, uses=2, same=("amount",))


def grant(world: World, request: str, terms: GrantTerms = TERMS, **changes: Any) -> c.Approve:
    """Give one person's yes, with a standing grant."""
    action = world.drafts[world.state.requests[request].at].draft.document()
    return approve(request, grant=terms, action=json.dumps(action, ensure_ascii=False), **changes)


def reject(request: str, by: Principal = ANN, **changes: Any) -> c.Reject:
    """Give one person's no."""
    given = {"eligible": EVERYBODY, "reason": "too much"}
    return c.Reject(request=request, by=by, **{**given, **changes})


def edit(request: str, proposal: c.Sound, by: Principal = ANN, **changes: Any) -> c.Edit:
    """Give one person's edit."""
    given = {"eligible": EVERYBODY, "changes": "amount", "policy_version": "p1"}
    return c.Edit(request=request, by=by, proposal=proposal, **{**given, **changes})


def question(index: int = 0, **changes: Any) -> c.Sound:
    """Give a call that asks a person something."""
    given: dict[str, Any] = {
        "kind": "question",
        "tool": "ask_person",
        "ruling": QUESTION,
        "arguments": {"question": f"Which one, {index}?"},
        "surface": "",
    }
    return sound(index, **{**given, **changes})


def agent(index: int = 0, **changes: Any) -> c.Sound:
    """Give a call of an agent that is used as a tool."""
    given = {"kind": "agent", "ruling": ALLOW, "tool": "helper", "surface": ""}
    return sound(index, **{**given, **changes})


def answer(
    request: str, text: str = "the red one", by: Principal = ANN, **changes: Any
) -> c.Answer:
    """Give one person's answer to a question."""
    return c.Answer(request=request, by=by, answer=text, **{"eligible": EVERYBODY, **changes})


def settle(request: str, happened: bool | None, by: Principal = ANN, **changes: Any) -> c.Settle:
    """Give one person's word on an unknown outcome."""
    given = {"eligible": EVERYBODY, "detail": "it is in the ledger"}
    return c.Settle(request=request, by=by, happened=happened, **{**given, **changes})


@dataclass
class World:
    """A session in time: applies commands, and keeps every event."""

    state: Session = field(default_factory=session)
    log: list[e.Event] = field(default_factory=list)
    drafts: dict[Occurrence, c.Sound] = field(default_factory=dict)
    careful: bool = True

    def apply(self, command: c.Command) -> tuple[e.Event, ...]:
        """Apply a command; a refusal is raised and changes nothing."""
        before = self.state
        if not self.careful:
            events, self.state = unfold(before, command)
            self.log.extend(events)
            return events
        kept = repr(before)
        try:
            events, after = unfold(before, command)
        except PlacetError:
            assert repr(before) == kept, "a refusal changes nothing"
            raise
        assert decide(before, command) == events
        evolved = before
        for event in events:
            evolved = evolve(evolved, event)
        assert evolved == after, "the events are the whole change"
        assert repr(before) == kept, "states are values"
        self.state = after
        self.log.extend(events)
        return events

    def refused(self, command: c.Command) -> str:
        """Apply a command that is refused, and give the refusal's code."""
        try:
            events = self.apply(command)
        except PlacetError as error:
            return error.code
        raise AssertionError(f"not refused: {events}")

    def wait(self, duration: timedelta) -> None:
        """Let time pass."""
        self.state = replace(self.state, now=self.state.now + duration)

    def until(self, instant: datetime) -> None:
        """Let time pass up to an instant."""
        self.state = replace(self.state, now=instant)

    # --- what is ------------------------------------------------------------------------------

    def run(self, run: str = "r1") -> Run:
        return self.state.runs[run]

    def call(self, index: int = 0, *, step: int = 1, run: str = "r1") -> Call:
        return self.state.calls[at(index, step=step, run=run)]

    def code(self, index: int = 0, *, step: int = 1, run: str = "r1") -> str:
        """Give the code of a call that is over, or the name of its state."""
        state = self.call(index, step=step, run=run).state
        return state.code if isinstance(state, CallOver) else type(state).__name__

    def asked(self, index: int = 0, *, step: int = 1, run: str = "r1") -> Request:
        """Give the request that a call now stands before."""
        state = self.call(index, step=step, run=run).state
        assert isinstance(state, (Asking, Unsettled)), state
        return self.state.requests[state.request]

    def work(self, run: str = "r1") -> Work:
        return next_work(self.state, run)

    def told(self, index: int = 0, *, step: int = 1, run: str = "r1") -> str:
        """Give the text that the model was told of a call."""
        place = at(index, step=step, run=run)
        bodies = [x.told.body for x in self.log if isinstance(x, e.CallEnded) and x.at == place]
        assert len(bodies) == 1, bodies
        return bodies[0] or ""

    # --- what is done -------------------------------------------------------------------------

    def start(self, run: str = "r1", **changes: Any) -> tuple[e.Event, ...]:
        return self.apply(start(run, **changes))

    def proposal(self, *calls: c.Proposal, run: str = "r1", **changes: Any) -> c.Propose:
        """Give the command that takes the run's next step."""
        known = self.run(run)
        given: dict[str, Any] = {
            "step": known.step + 1,
            "fence": known.fence if known.kind == "driven" else None,
            "entry": "turn",
            "policy_version": "p1",
        }
        return c.Propose(run=run, calls=calls, **{**given, **changes})

    def propose(self, *calls: c.Proposal, run: str = "r1", **changes: Any) -> tuple[e.Event, ...]:
        for call in calls:
            if isinstance(call, c.Sound):
                self.drafts[call.draft.at] = call
        return self.apply(self.proposal(*calls, run=run, **changes))

    def lease(self, run: str = "r1", holder: Holder = HOLDER, **more: Any) -> tuple[e.Event, ...]:
        return self.apply(c.TakeLease(run=run, holder=holder, **more))

    def beginning(
        self, index: int = 0, *, step: int = 1, run: str = "r1", **changes: Any
    ) -> c.Begin:
        """Give the command that takes a call through the gate in an unchanged world."""
        place = at(index, step=step, run=run)
        known = self.run(run)
        today = self.drafts[place]
        if "today" not in changes:
            fresh = replace(today.draft, salt=f"{next(_salts):032x}")
            changes = {**changes, "today": replace(today, draft=fresh)}
        given: dict[str, Any] = {
            "fence": known.fence if known.kind == "driven" else None,
            "holder": HOLDER,
            "digest": self.state.calls[place].digest,
            "eligible": EVERYBODY,
            "policy_version": "p1",
        }
        return c.Begin(at=place, **{**given, **changes})

    def begin(
        self, index: int = 0, *, step: int = 1, run: str = "r1", **changes: Any
    ) -> tuple[e.Event, ...]:
        return self.apply(self.beginning(index, step=step, run=run, **changes))

    def delegate(
        self,
        child: str = "k1",
        index: int = 0,
        *,
        step: int = 1,
        run: str = "r1",
        mode: Mode = "act",
        **changes: Any,
    ) -> tuple[e.Event, ...]:
        """Open the run that an agent's call is worked out by, and take its lease."""
        opens = c.Child(run=child, agent="b", message="do", max_steps=50, mode=mode)
        events = self.begin(index, step=step, run=run, **{"child": opens, **changes})
        return (*events, *self.lease(child)) if child in self.state.runs else events

    def concluding(
        self,
        outcome: c.Succeeded | c.Failed | c.Unknown,
        index: int = 0,
        *,
        step: int = 1,
        run: str = "r1",
        **changes: Any,
    ) -> c.Conclude:
        """Give the command that records an attempt's outcome, by its own holder."""
        call = self.call(index, step=step, run=run)
        given = {"attempt": call.attempts, "fence": getattr(call.state, "fence", 0)}
        return c.Conclude(at=call.at, outcome=outcome, **{**given, **changes})

    def conclude(
        self, outcome: c.Succeeded | c.Failed | c.Unknown, index: int = 0, **changes: Any
    ) -> tuple[e.Event, ...]:
        return self.apply(self.concluding(outcome, index, **changes))

    def taking_back(
        self, index: int = 0, *, step: int = 1, run: str = "r1", **changes: Any
    ) -> c.TakeBack:
        """Give the command that takes back what a call may have done."""
        known, call = self.run(run), self.call(index, step=step, run=run)
        fence = known.fence if known.kind == "driven" else None
        given: dict[str, Any] = {"fence": fence, "holder": HOLDER, "digest": call.digest}
        return c.TakeBack(at=call.at, **{**given, **changes})

    def take_back(self, index: int = 0, **changes: Any) -> tuple[e.Event, ...]:
        return self.apply(self.taking_back(index, **changes))

    def unwinding(self, index: int = 0, *, step: int = 1, run: str = "r1") -> c.Unwind:
        """Give the command that takes up what is next because a call failed."""
        known, place = self.run(run), at(index, step=step, run=run)
        told = [x.told.body for x in self.log if isinstance(x, e.UnwindingBegun) and x.at == place]
        earlier = undoable(known, place)
        return c.Unwind(
            at=place, fence=known.fence, earlier=earlier, told=(told[-1] or "") if told else ""
        )

    def unwind(self, index: int = 0, **where: Any) -> tuple[e.Event, ...]:
        return self.apply(self.unwinding(index, **where))

    def expire(self, run: str = "r1") -> tuple[e.Event, ...]:
        return self.apply(c.Expire(run=run))


DONE = c.Succeeded(told="done")
RAISED = c.Failed(error="it raised")
NOT_DONE = c.Failed(error="refused", not_done=True)
LOST = c.Unknown(cause="the connection broke")
ENDED = c.Unknown(cause="the connection broke", body_over=True)


def names(events: tuple[e.Event, ...]) -> list[str]:
    """Give the events' names, in order."""
    return [type(event).__name__ for event in events]


def asking(*rulings: Ruling, **changes: Any) -> World:
    """Give a world in which the calls of step 1 stand as they were ruled on."""
    world = World()
    world.start()
    calls = [
        sound(index, ruling=ruling, **changes) for index, ruling in enumerate(rulings or (ASK,))
    ]
    world.propose(*calls)
    return world


def approved(**changes: Any) -> World:
    """Give a world whose one call is approved, and whose run is driven again."""
    world = asking(**changes)
    world.apply(approve(world.asked().id))
    world.lease()
    return world


def executing(**changes: Any) -> World:
    """Give a world whose one call was approved and begun."""
    world = approved(**changes)
    world.begin()
    return world


def unsettled(**changes: Any) -> World:
    """Give a world in which a person is asked what became of the one call."""
    world = executing(**changes)
    world.conclude(LOST)
    return world


def delegated(*siblings: c.Proposal) -> World:
    """Give a world whose call 0 a child run works out."""
    world = World()
    world.start()
    world.propose(agent(0), *siblings)
    world.delegate()
    return world


def failed(recovery: Recovery = COMPENSATED, **changes: Any) -> World:
    """Give a world whose one call failed, and is to be taken back."""
    world = executing(recovery=recovery, **changes)
    world.conclude(RAISED)
    return world


def due(world: World) -> str:
    """Name the way in which the call is to be taken back, or else what it stands in."""
    state = world.call().state
    return state.how if isinstance(state, UndoDue) else world.code()


def later(world: World, pause: timedelta = timedelta(minutes=1)) -> World:
    """Let the time pass until a pause is over, and drive the run again."""
    world.wait(pause)
    world.lease()
    return world
