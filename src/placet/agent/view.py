"""The view: what a model is shown of a session, bounded, from the transcript alone (D6).

Theory of operation. The transcript is only ever added to. What a model is shown of it is its own
run from the last summary on, and before it the earlier runs of the session, the newest whole and
older ones by what was asked and answered, as far as there is room. A run that outgrows its room has
its older steps summed up, as one row that is added; the steps stay on record. Every call keeps its
one result in place (G6): what is left out is left out by whole steps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from placet.agent.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
    from_json,
)
from placet.agent.modes import GO_ON
from placet.core.records import EntryRow
from placet.core.state import Run
from placet.runtime.engine import Engine

#: How many earlier runs of a session are looked at.
RUNS_REMEMBERED = 50

#: What a model is asked for when older steps are to be summed up.
SUMMARISE = (
    "Sum up the conversation below for yourself, so that you can go on with the task from the"
    " summary alone: what the user wants, what was found out, what was done with which result, what"
    " was refused or rejected and why, and what is left to do. Keep names, numbers, paths and ids"
    " exactly."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a model is shown: what lies `before`, and the `steps` of the run itself."""

    before: tuple[Message, ...]
    steps: tuple[Step, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Give all of it, in order, as a model is shown it."""
        own = (message for step in self.steps for message in step.messages)
        return tuple(_alternating([*self.before, *own]))

    @property
    def size(self) -> int:
        """Count its characters."""
        return size_of(self.before) + sum(step.size for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The messages of one step, which stand or fall together."""

    number: int
    messages: tuple[Message, ...]

    @property
    def size(self) -> int:
        """Count the characters of its messages."""
        return size_of(self.messages)


async def view_of(engine: Engine, session: str, run: Run, *, limit: int) -> View:
    """Make the view of a run.

    A text longer than a quarter of `limit` is shown in part, and so are the results of a step that
    together are longer than half of it.
    """
    rows = await _rows(engine, session, run)
    steps = _steps(rows, limit=limit)
    before: list[Message] = []
    if run.summary_ref is not None:
        message = await engine.payload(session, run.message_ref)
        summary = json.loads(await engine.payload(session, run.summary_ref))["text"]
        before = [UserMessage(text=shortened(message, limit // 4)), _summary(summary, limit)]
    elif run.parent is None:
        room = limit // 2 - min(limit // 2, sum(step.size for step in steps))
        before = await _memory(engine, session, run, room=room, limit=limit)
    return View(before=tuple(before), steps=tuple(steps))


async def _rows(engine: Engine, session: str, run: Run) -> Sequence[EntryRow]:
    return await engine.read(
        engine.store.transcript, engine.tenant, session, run.id, since=run.view_from
    )


def _steps(rows: Sequence[EntryRow], *, limit: int) -> list[Step]:
    """Read a run's rows as messages, step by step; each call's result is in its place."""
    steps: list[Step] = []
    calls: dict[int, tuple[str, str]] = {}
    shares = Counter(row.step for row in rows if row.kind == "result")
    for row in rows:
        most = limit // max(4, 2 * shares[row.step])
        if not steps or steps[-1].number != row.step:
            steps.append(Step(number=row.step, messages=()))
        made: Message
        match row.kind:
            case "message":
                made = UserMessage(text=shortened(row.body, most))
            case "turn":
                made = from_json(json.loads(row.body)["message"])
                calls = {}
                if isinstance(made, AssistantMessage):
                    calls = {at: (call.id, call.name) for at, call in enumerate(made.calls)}
            case "result":
                call_id, name = calls[row.index]
                made = ToolMessage(call_id=call_id, name=name, text=shortened(row.body, most))
            case "summary":
                continue
        steps[-1] = Step(number=row.step, messages=(*steps[-1].messages, made))
    return steps


async def _memory(
    engine: Engine, session: str, run: Run, *, room: int, limit: int
) -> list[Message]:
    """Give the session's earlier runs, oldest first, as far as there is room."""
    rows = await engine.read(
        engine.store.runs, engine.tenant, session=session, limit=RUNS_REMEMBERED
    )
    memory: list[Message] = []
    for earlier in (row.run for row in rows):
        if earlier.order >= run.order or earlier.parent is not None or earlier.kind == "hosted":
            continue
        steps = _steps(await _rows(engine, session, earlier), limit=limit)
        whole = [message for step in steps for message in step.messages]
        if earlier.summary_ref is not None:
            text = json.loads(await engine.payload(session, earlier.summary_ref))["text"]
            whole.insert(0, _summary(text, limit))
        told = next((each for each in (whole, _in_short(steps)) if size_of(each) <= room), None)
        if not told:
            break
        room -= size_of(told)
        memory = [*told, *memory]
        if earlier.summary_ref is not None:
            break  # It sums up what came before it, too.
    return memory


def _in_short(steps: Sequence[Step]) -> list[Message]:
    """Give of a run what the user said and, where it has one, its answer."""
    messages = [message for step in steps for message in step.messages]
    if not messages or not isinstance(messages[0], UserMessage):
        return []
    last = messages[-1]
    answered = isinstance(last, AssistantMessage) and not last.calls
    return [messages[0], last] if answered else [messages[0]]


def _summary(text: str, limit: int) -> UserMessage:
    shown = shortened(text, limit // 4)
    return UserMessage(text=f"(What came before, summed up by yourself:)\n{shown}")


def _alternating(messages: Iterable[Message]) -> list[Message]:
    """Put the user's going on between two answers, and after the last one."""
    found: list[Message] = []
    for message in messages:
        if _answers(found) and isinstance(message, AssistantMessage):
            found.append(UserMessage(text=GO_ON))
        found.append(message)
    if _answers(found):
        found.append(UserMessage(text=GO_ON))
    return found


def _answers(messages: Sequence[Message]) -> bool:
    """Say whether the last message is an answer, after which it is the user's turn."""
    last = messages[-1] if messages else None
    return isinstance(last, AssistantMessage) and not last.calls


def first_kept(view: View, *, limit: int) -> int | None:
    """Say from which step on a view that is too large is kept; None: no step can go."""
    if view.size <= limit:
        return None
    kept, room = None, limit // 2
    for step in reversed(view.steps[1:]):
        room -= step.size
        if kept is not None and room < 0:
            break
        kept = step.number
    return kept


def as_text(messages: Iterable[Message]) -> str:
    """Write messages out for a summary, which is asked of the model as one message."""
    lines: list[str] = []
    for message in messages:
        match message:
            case UserMessage(text=text):
                lines.append(f"user: {text}")
            case AssistantMessage(text=text, calls=calls):
                lines += [f"you: {text}"] if text else []
                lines += [f"you call {call.name} {call.arguments}" for call in calls]
            case ToolMessage(name=name, text=text):
                lines.append(f"result of {name}: {text}")
    return "\n".join(lines)


def shortened(text: str, most: int) -> str:
    """Show a text in part where it is longer than `most` characters, and say so."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out} characters are left out here ...]\n{text[-tail:]}"


def size_of(messages: Iterable[Message]) -> int:
    """Count the characters of messages, roughly as a model is charged for them."""
    total = 0
    for message in messages:
        total += len(message.text)
        if isinstance(message, AssistantMessage):
            total += len(message.reasoning)
            total += sum(len(call.name) + len(call.arguments) for call in message.calls)
    return total
