"""LangGraph through placet's gate: tools in LangGraph's own ToolNode, waiting by `interrupt()`.

Theory of operation. LangGraph's loop drives, and its checkpointer keeps its state; the adapter runs
the body (every promise holds). A node that LangGraph runs again, after an interrupt, a crash or in
a second process at once, asks the same of the gate again, and the gate's answer is what happens:
the body is entered at most once, with the arguments that were frozen when the step was proposed,
never with those that stand in the checkpoint. The value with which a thread is resumed decides
nothing; the truth is in placet. What a call waits for is told in the interrupt's value.

Each AIMessage is proposed whole, by whichever of its calls comes first. Where several of them run
in one node, the node interrupts itself, or fails, only after those that are under way have ended:
under asyncio LangGraph would leave them behind half done.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from placet.adapters.langgraph_steps import SessionName, Step, session_of, step_of
from placet.adapters.langgraph_threads import Threads, checkpoint_text, waiting_value
from placet.adapters.langgraph_tools import (
    ToolSaidError,
    as_langchain,
    declaration_of,
    idempotency_key,
    key_now,
    text_of_answer,
)
from placet.agent.tools import Tool, ToolOptions
from placet.core.errors import Closed, Conflict, InvalidDeclaration, InvalidSetting
from placet.core.values import CallCode, Occurrence
from placet.portal import blocking
from placet.runtime.declarations import Arguments
from placet.runtime.hosting import Answered, Entry
from placet.runtime.threads import in_thread
from placet.settings import current_account

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from placet.client import Placet

__all__ = ["LangGraphGate", "idempotency_key"]

#: What the model is told of an effect whose body asks people by itself.
INTERRUPTED = "It interrupted itself in its body, which only a tool with reads_only may."

#: Conflicts that say that the call is not the one that was proposed in its place.
_OTHER_CALLS = frozenset({"call_changed", "call_ids_repeated"})


class LangGraphGate:
    """The gate of one LangGraph agent: gives its ToolNode, and resumes its threads.

    `tools` are LangChain's tools, functions, or what `placet.tool` declared; `options` say of each
    of the former, by name, what `placet.tool` takes (a tool that says nothing is an effect that
    always asks). `agent` is the agent's name in placet. `session` names the session of a thread
    and a subgraph's namespace in it; by default each list of messages is a session of its own.
    `requester` is for whom the runs act, by default the account that runs the process. Raises
    InvalidSetting where the extra `langgraph` is missing, and InvalidDeclaration.
    """

    #: The tools as a model is told of them: `model.bind_tools(gate.tools)`.
    tools: tuple[BaseTool, ...]

    def __init__(
        self,
        placet: Placet,
        *,
        tools: Iterable[BaseTool | Tool | Callable[..., Any]],
        agent: str,
        options: Mapping[str, ToolOptions] | None = None,
        session: SessionName = session_of,
        requester: str | None = None,
        messages_key: str = "messages",
    ) -> None:
        if importlib.util.find_spec("langgraph") is None:
            raise InvalidSetting(
                "extra_missing",
                "LangGraphGate needs the package 'langgraph', which is not installed.",
                hint="Install it with: pip install 'placet[langgraph]'",
            )
        given = [(each, as_langchain(each)) for each in tools]
        known = {found.name for _, found in given}
        named = dict(options or {})
        if unknown := sorted(named.keys() - known):
            raise InvalidDeclaration(
                "invalid_tool",
                f"Options are given for {', '.join(unknown)}, which is no tool here.",
            )
        declared = [declaration_of(each, named.get(found.name)) for each, found in given]
        self.tools = tuple(found for _, found in given)
        self._ours = {found.name for each, found in given if isinstance(each, Tool)}
        self._agent = agent
        self._session = session
        self._requester = requester or current_account()
        self._messages_key = messages_key
        self._threads = Threads(placet, agent, declared)
        self._hosting = self._threads.hosting
        self._nodes: dict[object, _Node] = {}

    def tool_node(self, *, name: str = "tools", tags: list[str] | None = None) -> ToolNode:
        """Give LangGraph's own ToolNode, in which every call goes through the gate.

        What a tool raises is told to the model by the gate; other errors end the graph's run, and
        the thread can be resumed.
        """
        from langgraph.prebuilt import ToolNode

        return ToolNode(
            self.tools,
            name=name,
            tags=tags,
            handle_tool_errors=False,
            messages_key=self._messages_key,
            wrap_tool_call=self.wrap_tool_call,
            awrap_tool_call=self.awrap_tool_call,
        )

    def resumes(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], *, config: RunnableConfig | None = None
    ) -> None:
        """Name the graph whose threads go on after a decision, by a worker or `placet.resume`.

        `config` is what it is invoked with besides the thread. Raises InvalidDeclaration where it
        has no checkpointer.
        """
        self._threads.resumes(graph, config)

    # --- calls --------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Take one call of a ToolNode through the gate; LangGraph calls this."""
        from langgraph.types import interrupt

        name = request.tool_call["name"]
        entry = _entry(request, lambda call: in_thread(lambda: execute(call), name=name))
        while True:
            found = self._carried_out_sync(request, entry, is_synchronous=True)
            if isinstance(found, Answered):
                return _message(request, entry, found)
            interrupt(found)

    async def awrap_tool_call(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Take one call of a ToolNode through the gate under asyncio; LangGraph calls this."""
        from langgraph.types import interrupt

        entry = _entry(request, execute)
        with self._node(request) as node:
            while True:
                try:
                    with node.at_work():
                        found = await self._carried_out(request, entry, is_synchronous=False)
                except Exception:  # Above all, the interrupt of a tool that only reads.
                    await node.at_rest.wait()
                    raise
                if isinstance(found, Answered):
                    return _message(request, entry, found)
                await node.at_rest.wait()
                interrupt(found)

    async def _carried_out(
        self, request: ToolCallRequest, entry: Entry, *, is_synchronous: bool
    ) -> Answered | dict[str, Any]:
        """Take the call to its result, or say, as an interrupt's value, what it waits for."""
        try:
            step = step_of(request, messages_key=self._messages_key, session=self._session)
            course = await self._threads.course(step.point, is_synchronous=is_synchronous)
            at = (await self._proposed(step, course))[step.index]
        except (Closed, Conflict) as refusal:
            if isinstance(refusal, Conflict) and refusal.code not in _OTHER_CALLS:
                raise
            return _not_run(refusal)
        body = None if step.calls[step.index].name in self._ours else entry.body
        found = await self._hosting.carry_out(step.session, at, body=body)
        return found if isinstance(found, Answered) else waiting_value(step.session, at.run, found)

    _carried_out_sync = blocking(_carried_out)

    async def _proposed(self, step: Step, course: str) -> tuple[Occurrence, ...]:
        """Propose the step whole, in the run that answers its message."""
        async with self._threads.in_turn(step.session):
            await self._threads.leave_behind(step, course)
            return await self._hosting.propose_answering(
                step.session,
                step.message,
                lambda salt, again: step.run(self._agent, salt=salt, again=again),
                step.reference,
                step.calls,
                requester=self._requester,
                checkpoint=checkpoint_text(step.point, course),
                place=f"{course} {step.stands}",
                claim=step.claim,
            )

    @contextmanager
    def _node(self, request: ToolCallRequest) -> Iterator[_Node]:
        """Give what the calls of one execution of a node share: they have their state in common."""
        key = (id(request.state), getattr(request.runtime, "execution_info", None))
        node = self._nodes.setdefault(key, _Node())
        node.calls += 1
        try:
            yield node
        finally:
            node.calls -= 1
            if not node.calls:
                del self._nodes[key]


class _Node:
    """The calls of one execution of a node, of which some may be under way."""

    def __init__(self) -> None:
        self.calls = 0
        self._busy = 0
        self.at_rest = asyncio.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._busy += 1
        self.at_rest.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self.at_rest.set()


def _entry(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]) -> Entry:
    """Give the way to one call's body through LangGraph's own ToolNode."""
    call = request.tool_call

    async def entered(arguments: Arguments, key: str) -> Any:
        """Enter the tool with the frozen arguments, whatever the checkpoint says now (G4).

        A tool that interrupts itself is entered again, which only one that reads may be: it has no
        key. One that acts has failed, and LangGraph's resuming cannot enter it a second time.
        """
        from langgraph.errors import GraphBubbleUp

        frozen: Any = {**call, "args": json.loads(json.dumps(dict(arguments)))}
        token = key_now.set(key)
        try:
            return await execute(request.override(tool_call=frozen))
        except GraphBubbleUp as bubbled:
            if not key:
                raise
            raise ToolSaidError(INTERRUPTED) from bubbled
        finally:
            key_now.reset(token)

    return Entry(entered, lambda answer: text_of_answer(answer, str(call["id"])))


def _message(request: ToolCallRequest, entry: Entry, answered: Answered) -> Any:
    """Give LangGraph the result: the tool's own answer where it ran here and is unchanged."""
    from langchain_core.messages import ToolMessage

    succeeded = answered.code == "succeeded"
    if succeeded and entry.text is not None and answered.told == entry.text:
        return entry.value
    return ToolMessage(
        content=answered.told,
        name=request.tool_call["name"],
        tool_call_id=str(request.tool_call["id"]),
        status="success" if succeeded else "error",
    )


def _not_run(refusal: Closed | Conflict) -> Answered:
    """Answer a call that the gate does not take at all."""
    code: CallCode = "call_changed" if isinstance(refusal, Conflict) else "cancelled"
    return Answered(code=code, told=f"{refusal.message}\nThe call did not run.")
