"""The tools of the simulated agents: one for each way in which a tool may be declared.

They are made once, for all worlds; how an entry of a body behaves is looked up in the world that is
under way. All take a number, so that each call that a model proposes is an action of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from placet import Agent, Happened, IdempotencyKey, NotDone, NotHappened, Unsure, tool
from placet.agent.agent import AgentTool
from placet.agent.asking import ask_person
from placet.agent.messages import ModelRequest, ModelTurn
from placet.agent.models import OnText
from placet.agent.tools import Tool
from placet.core.values import OnFailure, SagaScope
from tests.simulation.truth import Body, BodyKind, Truth

#: How an entry of a body may behave.
BODIES = (
    "ok",
    "ok",
    "fails",
    "acts_fails",
    "not_done",
    "lost_before",
    "lost_after",
    "hangs",
    "late",
    "slow",
    "exits",
    "decides",
)

#: How an entry of what takes an effect back may behave.
UNDOING = ("ok", "ok", "fails", "acts_fails", "not_done", "lost_before", "lost_after", "hangs")


#: For how long the other side of `wire` knows a key, and how long its attempts lie apart.
KEY_LASTS = timedelta(seconds=150)
_PAUSE = timedelta(seconds=20)

#: How long a body may take.
TIME_LIMIT = timedelta(seconds=40)


class Stage(Protocol):
    """What tools ask of the world that is under way."""

    truth: Truth

    def enter(self, tool: str, n: int, kind: BodyKind, key: str) -> tuple[Body, str]:
        """Note an entry, and say how it shall behave."""
        ...

    def pause(self) -> float:
        """Say how long something takes, in seconds."""
        ...

    def environment(self, tool: str) -> str:
        """Read what a tool looks at."""
        ...

    def allows(self, tool: str, n: int) -> bool:
        """Say whether today's policy lets a call run without asking."""
        ...

    def denies(self, tool: str, n: int) -> bool:
        """Say whether today's policy denies a call."""
        ...

    async def decide_from_inside(self) -> None:
        """Try to approve whatever waits, from within a tool."""
        ...

    async def answer(self, request: ModelRequest, agent: str) -> ModelTurn:
        """Answer as the model of an agent."""
        ...


class _Current:
    stage: Stage | None = None


def under_way(stage: Stage | None) -> None:
    """Say which world is under way."""
    _Current.stage = stage


def stage() -> Stage:
    """Give the world that is under way."""
    assert _Current.stage is not None, "no world is under way"
    return _Current.stage


# --- bodies -------------------------------------------------------------------------------------


async def _perform(name: str, n: int, kind: BodyKind, key: str, *, keyed: bool) -> str:
    """Do what a body does, as this entry of it shall behave."""
    body, does = stage().enter(name, n, kind, key)
    truth = stage().truth
    until = asyncio.get_running_loop().time() + TIME_LIMIT.total_seconds()
    try:
        await asyncio.sleep(stage().pause())
        match does:
            case "fails":
                raise ValueError("it would not")
            case "not_done":
                raise NotDone("it did nothing")
            case "lost_before":
                raise ConnectionError("no answer")
            case "exits":
                raise SystemExit(3)
            case "hangs":
                await asyncio.sleep(1e9)
            case "late":
                await _deaf(200.0)
            case "slow":
                await asyncio.sleep(25.0)
            case "decides":
                await stage().decide_from_inside()
            case _:
                pass
        now = asyncio.get_running_loop().time()
        truth.act(body, keyed=keyed, now=now, is_late=now > until)
        await asyncio.sleep(stage().pause())
        if does == "acts_fails":
            raise ValueError("it broke after it had acted")
        if does == "lost_after":
            raise ConnectionError("no answer")
        return f"{name} {n}: done"
    finally:
        truth.leave(body)


async def _deaf(seconds: float) -> None:
    """Wait, whoever asks one to stop."""
    until = asyncio.get_running_loop().time() + seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


def acting(name: str, *, keyed: bool, kind: BodyKind = "run") -> Callable[..., Any]:
    """Give a tool's function, or one that takes it back."""

    async def body(n: int, *, key: IdempotencyKey) -> str:
        return await _perform(name, n, kind, key, keyed=keyed)

    return body


def _threaded(name: str) -> Callable[..., Any]:
    """Give a body that is not async: it runs in a thread, and cannot be stopped."""

    def body(n: int, *, key: IdempotencyKey) -> str:
        entered, does = stage().enter(name, n, "run", key)
        try:
            if does == "fails":
                raise ValueError("it would not")
            if does == "lost_before":
                raise TimeoutError("no answer")
            stage().truth.act(entered, keyed=False, now=0.0)
            if does in ("acts_fails", "lost_after"):
                raise ConnectionResetError("no answer")
            return f"{name} {n}: done"
        finally:
            stage().truth.leave(entered)

    return body


def _reading(name: str) -> Callable[..., Any]:
    async def body(n: int) -> str:
        entered, does = stage().enter(name, n, "read", "")
        try:
            await asyncio.sleep(stage().pause())
            if does in ("fails", "acts_fails"):
                raise ValueError("not to be seen")
            return f"{name} {n}: seen"
        finally:
            stage().truth.leave(entered)

    return body


def probing(name: str) -> Callable[..., Any]:
    """Give a tool's probe, which looks at what is true."""

    async def probe(n: int, *, key: IdempotencyKey) -> object:
        entered, says = stage().enter(name, n, "probe", key)
        try:
            await asyncio.sleep(stage().pause())
            if says == "unsure":
                return Unsure()
            if says == "raises":
                raise ValueError("it cannot be found out")
            if says == "odd":
                return True
            if key in stage().truth.done:
                return Happened(result="it was done")
            return NotHappened()
        finally:
            stage().truth.leave(entered)

    return probe


def _environment(name: str) -> Callable[..., Any]:
    def read(n: int) -> str:
        return stage().environment(name)

    return read


def _snapshot(name: str) -> Callable[..., Any]:
    def snapshot(n: int) -> str:
        return str(stage().truth.applied.get((name, n), 0))

    return snapshot


def _restore(name: str) -> Callable[..., Any]:
    def restore(snapshot: str, n: int) -> None:
        entered, does = stage().enter(name, n, "roll_back", "")
        try:
            if does in ("fails", "hangs"):
                raise ValueError("it cannot be brought back")
            if does == "not_done":
                raise NotDone("it did nothing")
            if does == "lost_before":
                raise ConnectionError("no answer")
            stage().truth.put_back(entered, int(snapshot))
            if does in ("acts_fails", "lost_after"):
                raise ConnectionError("no answer")
        finally:
            stage().truth.leave(entered)

    return restore


# --- declarations -------------------------------------------------------------------------------


def _made(name: str, *, threaded: bool = False, **options: Any) -> Tool:
    keyed = bool(options.get("idempotent"))
    body = _threaded(name) if threaded else acting(name, keyed=keyed)
    given: dict[str, Any] = {"name": name, "time_limit": TIME_LIMIT, **options}
    made: Tool = tool(**given)(body)
    return made


def _probed(made: Tool) -> Tool:
    made.probe(probing(made.declaration.name))
    return made


def _watched(made: Tool) -> Tool:
    made.environment(_environment(made.declaration.name))
    return made


def _restored(made: Tool) -> Tool:
    made.snapshot(_snapshot(made.declaration.name))
    made.restore(_restore(made.declaration.name))
    return made


def _compensated(made: Tool, *, idempotent: bool = False, **options: Any) -> Tool:
    undo = acting(made.declaration.name, keyed=idempotent, kind="compensate")
    limit = timedelta(seconds=40)
    made.compensate(idempotent=idempotent, time_limit=limit, **options)(undo)
    return made


def _unless_allowed(name: str) -> Callable[[Any], bool]:
    def asks(arguments: Any) -> bool:
        return not stage().allows(name, int(arguments["n"]))

    return asks


def _every_tool() -> tuple[Tool, ...]:
    paid: dict[str, Any] = {"surface": "payments"}
    mailed: dict[str, Any] = {"surface": "mail"}
    return (
        _made("pay", **paid),
        _made("ping", approval="never", surface="net"),
        _made("send", idempotent=True, retries=2, **mailed),
        _made("push", idempotent=True, approval="never"),
        _made("wire", idempotent=True, retries=3, key_lasts=KEY_LASTS, backoff=_PAUSE, **paid),
        _probed(_made("book", retries=1, surface="booking")),
        _probed(_made("scan", approval="never", surface="booking")),
        _probed(_made("order", idempotent=True, retries=1, **paid)),
        _restored(_watched(_made("write", approval="never", surface="files"))),
        _restored(_watched(_made("patch", retries=1, surface="files"))),
        _restored(_probed(_made("store", idempotent=True, surface="files", approval="never"))),
        _compensated(_made("move", **paid), safe_if_absent=True, idempotent=True, retries=2),
        _compensated(_made("hold", approval="never", **paid), safe_if_absent=True),
        _compensated(_made("lend", **paid)),
        _compensated(
            _restored(_made("ship", approval="never", surface="files", retries=1)),
            safe_if_absent=True,
            idempotent=True,
        ),
        _made("some", approval=_unless_allowed("some"), surface="net", retries=1),
        _watched(_made("gate", approval=_unless_allowed("gate"))),
        _made("sync", threaded=True, approval="never", surface="net"),
        _made("file", threaded=True, retries=1),
    )


def _every_read() -> tuple[Tool, ...]:
    return (
        tool(name="look", reads_only=True, surface="net")(_reading("look")),
        tool(name="peek", reads_only=True, surface="net", approval="always")(_reading("peek")),
    )


EFFECTS = {made.declaration.name: made for made in _every_tool()}
READS = {made.declaration.name: made for made in _every_read()}

#: The tools that always ask, and those that look at the world.
ASKING = frozenset(n for n, made in EFFECTS.items() if made.declaration.approval == "always")
WATCHING = frozenset(n for n, made in EFFECTS.items() if made.declaration.environment is not None)

#: The tools that are agents: each may call those before it, and the second one is asked about.
CHILDREN = ("helper", "aide")


class _Model:
    """The model of an agent, which says what the world that is under way has it say."""

    def __init__(self, agent: str) -> None:
        self.name = f"model of {agent}"
        self._agent = agent

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelTurn:
        return await stage().answer(request, self._agent)

    async def close(self) -> None:
        return


def _policy(name: str, arguments: Any) -> str:
    n = arguments.get("n")
    return "deny" if isinstance(n, int) and stage().denies(name, n) else "allow"


def _of_version(version: int) -> tuple[Agent, ...]:
    """Give the agents as a release has them; a later one declares some tools otherwise."""
    tools: list[Tool | AgentTool] = [*EFFECTS.values(), *READS.values(), ask_person]
    if version > 1:
        tools = [_released(each) if each.declaration.name in NEWER else each for each in tools]
    below: list[AgentTool] = []
    for name in CHILDREN:
        inner = Agent(name=name, model=_Model(name), tools=[*tools, *below], max_steps=6)
        below.append(inner.as_tool(approval="always" if name == "aide" else "never"))
    return tuple(
        Agent(
            name=name,
            model=_Model(name),
            tools=[*tools, *below],
            policy=_policy,
            max_steps=6,
            on_failure=on_failure,
            saga=saga,
        )
        for name, (on_failure, saga) in LEADS.items()
    )


#: The agents that runs begin with: what becomes of the others of a step, or run, when a call fails.
LEADS: dict[str, tuple[OnFailure, SagaScope]] = {
    "lead": ("continue", "step"),
    "careful": ("stop", "step"),
    "undoer": ("compensate_earlier", "step"),
    "undoer_of_all": ("compensate_earlier", "run"),
}

#: The tools whose second version a later release has.
NEWER = frozenset({"pay", "ping", "send", "write", "book", "peek", "look"})


def _released(made: Tool | AgentTool) -> Tool:
    assert isinstance(made, Tool), "agents are not released anew"
    newer = Tool.__new__(Tool)
    newer.__dict__.update(made.__dict__)
    newer.declaration = replace(made.declaration, version="2", fingerprint="")
    return newer


AGENTS = {version: _of_version(version) for version in (1, 2)}
