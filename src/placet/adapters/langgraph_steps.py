"""Which step of which run a call in a LangGraph ToolNode is: read from LangGraph's own names.

Every name here is a pure function of what the thread holds, and of its session's salt, so that a
node that runs again, in any process, finds the step that it proposed before. A session is one list
of messages: a thread, or a subgraph's own namespace in it. A run answers one message of the user's.
A step is one AIMessage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placet.core.canonical import sha256_hex, short_id
from placet.core.errors import Conflict, InvalidInput
from placet.core.values import keyed
from placet.runtime.proposing import ToolCall

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.prebuilt.tool_node import ToolCallRequest

#: LangGraph's words for a task that was sent, and for reading what the graph holds.
_SENT, _READ = "__pregel_push", "__pregel_read"

#: Names the session of a thread and of a subgraph's namespace in it ("" for the graph itself).
SessionName = Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where LangGraph keeps what a step goes on from; `root_id` is the whole graph's checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    root_id: str

    def config(self) -> RunnableConfig:
        """Give the checkpoint as LangGraph's checkpointers are asked for it."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.checkpoint_ns,
                "checkpoint_id": self.checkpoint_id,
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One AIMessage's calls, whole; `index` is the place of the one that is asked about.

    `reference` names the AIMessage; `stands` tells, with the checkpoint after which the thread's
    course last began or was changed, where in that course it is.
    """

    session: str
    message: str
    seed: str
    reference: str
    stands: str
    claim: str
    calls: tuple[ToolCall, ...]
    index: int
    point: Point

    def run(self, agent: str, *, salt: str, again: int = 0) -> str:
        """Name the run; `again` counts those that went before it for the same message.

        The session's `salt` keeps the message from being guessed from the name (H4).
        """
        named = _digest(agent, self.session, self.seed, again)
        return short_id("run", keyed(salt, "run", named))


def session_of(thread_id: str, checkpoint_ns: str) -> str:
    """Name a session: the thread, and the namespace of a subgraph that keeps its own messages.

    A slash in a thread's own id is written `%2F`, so that no two of them have one session (G11).
    """
    thread = thread_id.replace("%", "%25").replace("/", "%2F")
    return f"{thread}/{checkpoint_ns}" if checkpoint_ns else thread


def step_of(request: ToolCallRequest, *, messages_key: str, session: SessionName) -> Step:
    """Read which step a call is of.

    Raises InvalidInput where nothing says so, and Conflict where the call is not what it says.
    """
    from langchain_core.messages import HumanMessage

    point = _point(request)
    messages = _messages(request.state, messages_key)
    place, said = _said_by(messages, request)
    spoken = [at for at in range(place) if isinstance(messages[at], HumanMessage)]
    human = messages[spoken[-1]] if spoken else None
    text = "" if human is None else str(human.text)
    calls = tuple(_call(call) for call in said.tool_calls)
    # A message without an id is named by its place in the run and by what it calls.
    since = place - (spoken[-1] if spoken else 0)
    unnamed = _digest(since, *([each.id, each.name, each.arguments] for each in calls))
    return Step(
        session=session(point.thread_id, point.checkpoint_ns),
        message=text,
        seed=_digest(getattr(human, "id", None), text),
        reference=said.id or unnamed,
        stands=_stands(request, messages_key, said, place),
        claim=str(said.text),
        calls=calls,
        index=_index(said, request),
        point=point,
    )


def _stands(request: ToolCallRequest, key: str, said: AIMessage, place: int) -> str:
    """Tell where in the course a message stands.

    Tasks that LangGraph sent (`Send`) are of one node and step, and each may have messages of its
    own: then the task is told as well. It is not where each was sent one call of one message.
    """
    told = request.runtime.config.get("metadata", {})
    stands = f"{told.get('langgraph_node')} {told.get('langgraph_step')} {place}"
    path = told.get("langgraph_path") or ("",)
    if path[0] != _SENT:
        return stands
    shared = [at for at, each in enumerate(_shared(request, key)) if _is_same(each, said)]
    if place in shared:
        return stands
    return f"{stands} {shared[-1] if shared else path}"


def _shared(request: ToolCallRequest, key: str) -> Sequence[Any]:
    """Give the messages that the graph itself holds, as LangGraph's own ToolNode reads them."""
    read = request.runtime.config.get("configurable", {}).get(_READ)
    try:
        found = None if read is None else read(key)
    except KeyError:  # The graph has no such state.
        return ()
    return found if isinstance(found, list) else ()


def _is_same(message: Any, said: AIMessage) -> bool:
    if said.id is not None:
        return getattr(message, "id", None) == said.id
    return bool(message == said)


def _point(request: ToolCallRequest) -> Point:
    # There is no runtime where a ToolNode is called by itself, whatever its type says.
    info = getattr(request.runtime, "execution_info", None)
    if info is None or info.thread_id is None:
        raise InvalidInput(
            "no_thread",
            "A tool was called outside a thread, and a call that waits could go on from nowhere.",
            hint="Compile the graph with a checkpointer, and invoke it with a thread_id.",
        )
    *above, _node = info.checkpoint_ns.split("|")
    checkpoints = request.runtime.config.get("configurable", {}).get("checkpoint_map") or {}
    return Point(
        thread_id=str(info.thread_id),
        checkpoint_ns="|".join(above),
        checkpoint_id=info.checkpoint_id,
        root_id=checkpoints.get("", info.checkpoint_id),
    )


def _messages(state: Any, key: str) -> Sequence[Any]:
    if isinstance(state, list):
        return state
    found = state.get(key) if isinstance(state, dict) else getattr(state, key, None)
    return found if isinstance(found, list) else ()


def _said_by(messages: Sequence[Any], request: ToolCallRequest) -> tuple[int, AIMessage]:
    """Find the message in which the model made the call: the last that holds its id."""
    from langchain_core.messages import AIMessage

    wanted = request.tool_call["id"]
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AIMessage) and any(c["id"] == wanted for c in message.tool_calls):
            return place, message
    raise InvalidInput(
        "no_step",
        f"The call {wanted} stands in no AIMessage of the node's state.",
        hint="Give the ToolNode the graph's messages, as `messages_key` names them.",
    )


def _index(said: AIMessage, request: ToolCallRequest) -> int:
    """Give the call's place in its message; raises Conflict where it is not that one call."""
    call = request.tool_call
    same = [index for index, each in enumerate(said.tool_calls) if each is call]
    named = [index for index, each in enumerate(said.tool_calls) if each["id"] == call["id"]]
    found = same or named
    if len(found) != 1:
        raise Conflict("call_ids_repeated", f"Two calls of one message have the id {call['id']}.")
    if _call(said.tool_calls[found[0]]) != _call(call):
        raise Conflict("call_changed", f"The call {call['id']} is not the one in its message.")
    return found[0]


def _call(call: Any) -> ToolCall:
    """Give a call with its arguments as text; what is no JSON is a text that nobody can read."""
    try:
        arguments = json.dumps(call["args"], ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        arguments = repr(call["args"])
    return ToolCall(id=str(call["id"]), name=call["name"], arguments=arguments)


def _digest(*parts: Any) -> str:
    """Hash texts, numbers and lists of them, whatever characters they hold."""
    return sha256_hex(json.dumps(parts).encode())
