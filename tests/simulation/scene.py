"""The stage on which tools and models play: how each behaves, as the plan has it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from placet import Placet
from placet.agent.messages import AssistantMessage, ModelRequest, ModelTurn, Usage, UserMessage
from placet.agent.models.scripted import calls, raw_call, say
from placet.core.errors import ModelTrouble, PlacetError
from placet.runtime import authority
from tests.simulation.machine import Process, current
from tests.simulation.people import SPEAKER
from tests.simulation.plan import Plan, PlannedCall
from tests.simulation.tools import CHILDREN, KEY_LASTS, LEADS
from tests.simulation.truth import Body, BodyKind, Truth
from tests.simulation.wire import Network

if TYPE_CHECKING:
    from tests.simulation.promises import Promises


class Scene:
    """How the tools and models of one world behave."""

    promises: Promises

    def __init__(self, plan: Plan, network: Network, open_: Callable[[Process], Placet]) -> None:
        self.truth = Truth()
        if len({*plan.skews}) == 1 and all(m.kind != "clock" for m in plan.misfortunes):
            # By a clock that is set back a key seems younger than it is, and nobody can tell.
            self.truth.known_for["wire"] = KEY_LASTS.total_seconds()
        self.strictness = 0
        self.noted: Callable[[str, str], None] = lambda _who, _what: None
        self._plan = plan
        self._network = network
        self._open = open_
        self._scripts: dict[tuple[str, int], PlannedCall] = {}
        self._entries: Counter[tuple[str, int, str]] = Counter()
        self._troubles = [run.troubles for run in plan.runs]
        for steps in (*(run.steps for run in plan.runs), *plan.children):
            for step in steps:
                for call in step:
                    self._scripts[call.tool, call.n] = call

    # --- tools --------------------------------------------------------------------------------

    def enter(self, tool: str, n: int, kind: BodyKind, key: str) -> tuple[Body, str]:
        """Note an entry, and say how it shall behave."""
        mark = authority._inside.get()
        body = self.truth.enter(tool, n, kind, key=key, mark=mark, process=current())
        script = self._scripts.get((tool, n))
        which = {"probe": "probes", "compensate": "undoes", "roll_back": "undoes"}.get(kind, "does")
        acts: tuple[str, ...] = () if script is None else getattr(script, which)
        place = (tool, n, which)
        self._entries[place] += 1
        if self._entries[place] > len(acts):
            return body, "truth" if kind == "probe" else "ok"
        does = acts[self._entries[place] - 1]
        # A body that outlives its time limit may use its key when the other side knows it no more.
        return body, "hangs" if does == "late" and tool in self.truth.known_for else does

    def pause(self) -> float:
        return self._network.some_time()

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def environment(self, tool: str) -> str:
        """Read what a tool looks at, and note what this process has seen."""
        seen = str(self.truth.environment.get(tool, 0))
        self.promises.looked[current(), tool] = seen
        return seen

    def allows(self, tool: str, n: int) -> bool:
        """Say whether today's policy lets a call run without asking."""
        free = n % 2 == 0 and self.strictness == 0
        self.promises.consulted[current(), tool, n] = free
        return free

    def denies(self, tool: str, n: int) -> bool:
        """Say whether today's policy denies a call."""
        denied = self.strictness > 0 and n % 5 == 0
        if denied:
            self.promises.consulted[current(), tool, n] = False
        return denied

    async def decide_from_inside(self) -> None:
        """Try to approve whatever waits, from within a tool: it must be refused (G10)."""
        SPEAKER.set(("a tool", "tool"))
        placet = self._open(current())
        try:
            for row in await placet.inbox():
                by = next(iter(row.request.needs.approvers), "ann")
                await placet.decide(row.request.id, "approve", by=by)
        except PlacetError as error:
            self.noted("a tool", f"is told {error.code}")
        finally:
            SPEAKER.set(None)

    # --- models -------------------------------------------------------------------------------

    async def answer(self, request: ModelRequest, agent: str) -> ModelTurn:
        """Answer as the model of an agent: what its script has at this step."""
        await asyncio.sleep(self._network.some_time())
        first = request.messages[0]
        assert isinstance(first, UserMessage), "a run begins with a message"
        if agent in LEADS:
            index = int(first.text.partition(" ")[2])
            if self._troubles[index] > 0:
                self._troubles[index] -= 1
                raise ModelTrouble("model_unavailable", "It is busy.", retryable=True)
            steps = self._plan.runs[index].steps
        else:
            steps = self._plan.children[int(first.text)]
        reply = say("done")
        if request.tools and request.step <= len(steps):
            reply = calls(*map(_proposed, steps[request.step - 1]), text=f"step {request.step}")
        return _turn(reply, agent, request.step)


def _proposed(call: PlannedCall) -> AssistantMessage:
    arguments = call.raw or json.dumps(_arguments(call))
    return raw_call(call.tool, arguments)


def _arguments(call: PlannedCall) -> dict[str, object]:
    if call.tool in CHILDREN:
        return {"message": str(call.n)}
    if call.tool == "ask_person":
        return {"question": f"What about {call.n}?"}
    return {"n": call.n}


def _turn(reply: AssistantMessage, agent: str, step: int) -> ModelTurn:
    numbered = tuple(
        type(each)(id=f"call_{step}_{index}", name=each.name, arguments=each.arguments)
        for index, each in enumerate(reply.calls)
    )
    message = AssistantMessage(text=reply.text, calls=numbered)
    finish = "tool_calls" if numbered else "stop"
    return ModelTurn(message=message, usage=Usage(), model=agent, finish=finish)
