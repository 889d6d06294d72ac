"""What happened inside of a run: its calls, how each ended, what the model was told, the answer.

And of one request: when each vote was cast, and what became of its call. All of it is on record;
secrets are masked and hidden characters made visible, as on cards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from placet.cards import Telling, telling_of, telling_of_run
from placet.cli.runs import run_document
from placet.cli.status import standing_of
from placet.core import events as e
from placet.core.canonical import JsonValue, Unreadable, parse_arguments
from placet.core.card import Field
from placet.core.card_parts import argument_rows
from placet.core.card_surfaces import plain_rows
from placet.core.codec import decode_event
from placet.core.commands import Names
from placet.core.display import visible
from placet.core.state import Asking, Call, CallOver, Delegated, RunOver, Session, Unsettled
from placet.core.values import Occurrence
from placet.people import People
from placet.runtime.engine import Engine
from placet.runtime.state_files import instant
from placet.stores.store import RequestRow, RunRow

#: How a call stands that has no result yet, by the name of its state.
_STANDS = {
    "Allowed": "allowed, and not begun",
    "Executing": "begun, and its outcome is not on record yet",
    "RetryDue": "to be tried again",
    "Lost": "its outcome is not known yet",
    "UndoDue": "to be taken back",
    "Unwinding": "failed, and what earlier calls did is taken back",
}


async def run_shown(people: People, row: RunRow) -> tuple[dict[str, Any], str]:
    """Give a run with its calls and its answer, as JSON and as text."""
    engine, run = people.engine, row.run
    entries = await engine.read(engine.store.transcript, engine.tenant, row.session, run.id)
    turns = {entry.step: json.loads(entry.body) for entry in entries if entry.kind == "turn"}
    told = {(each.step, each.index): each.body for each in entries if each.kind == "result"}
    steps = tuple((run.id, step) for step in range(1, run.step + 1))
    state = await engine.session(row.session, Names(steps=steps, runs=(run.id,)))
    found = _calls_of(state, run.id)
    telling, fields = await telling_of_run(
        engine, state, run.id, proposed=_proposed(turns), language=people.language
    )
    calls = [await _call(telling, call, fields.get(call.at, ())) for call in found]
    known = {(each["step"], each["index"]) for each in calls}
    calls += [
        _read(telling, step, index, turns, body)
        for (step, index), body in told.items()
        if (step, index) not in known
    ]
    calls.sort(key=lambda each: (each["step"], each["index"]))
    over = state.runs[run.id].state
    answer = ""
    if isinstance(over, RunOver) and over.answer_ref is not None:
        answer = _seen(await telling.text(over.answer_ref))
    standing = standing_of(state, state.runs[run.id], told=telling.told)
    documents = [{**each, "fields": [asdict(field) for field in each["fields"]]} for each in calls]
    document = {**run_document(row, standing), "calls": documents, "answer": answer or None}
    text = [f"{visible(run.id)}  {standing.detail}  {visible(run.agent)}"]
    text[0] += f"  session {visible(row.session)}, step {run.step}"
    for each in calls:
        text += _lines(each, people)
    text += ["  answer", *_indented(answer)] if answer else []
    return document, "\n".join(text)


def _proposed(turns: Mapping[int, Any]) -> Iterator[tuple[str, Mapping[str, JsonValue] | str]]:
    """Give the tool and the arguments of each call that the model proposed, as it wrote them."""
    for turn in turns.values():
        for call in turn.get("message", {}).get("calls", []):
            try:
                yield str(call["name"]), parse_arguments(str(call["arguments"]))
            except Unreadable:
                yield str(call["name"]), str(call["arguments"])


def _calls_of(state: Session, run: str) -> list[Call]:
    return sorted((c for c in state.calls.values() if c.at.run == run), key=lambda call: call.at)


async def _call(telling: Telling, call: Call, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Give one call: its tool and arguments, how it ended or stands, and what was told of it."""
    code = told = None
    if isinstance(call.state, CallOver):
        code = call.state.code
        told = _seen(await telling.text(call.state.told_ref))
    return {
        **_place(call.at),
        "tool": visible(call.tool),
        "code": code,
        "standing": _stands(call),
        "fields": fields,
        "told": told,
    }


def _place(at: Occurrence) -> dict[str, Any]:
    return {"step": at.step, "index": at.index}


def _read(
    telling: Telling, step: int, index: int, turns: Mapping[int, Any], body: str
) -> dict[str, Any]:
    """Give a call that the record has with its step alone: a read, which needs no intent."""
    named = turns.get(step, {}).get("message", {}).get("calls", [])
    tool = str(named[index]["name"]) if index < len(named) else ""
    return {
        "step": step,
        "index": index,
        "tool": visible(tool),
        "code": None,
        "standing": "answered",
        "fields": (),
        "told": _seen(telling.told(body)),
    }


def _stands(call: Call) -> str:
    match call.state:
        case CallOver(code=code):
            return code
        case Asking(request=request):
            return f"asked as {request}"
        case Unsettled(request=request):
            return f"nobody knows its outcome: {request}"
        case Delegated(child=child):
            return f"worked out by {child}"
        case other:
            return _STANDS[type(other).__name__]


def _seen(text: str) -> str:
    return visible(text, keep_newlines=True)


def _lines(each: Mapping[str, Any], people: People) -> list[str]:
    lines = [f"  {each['step']}.{each['index']}  {each['tool']}: {each['standing']}"]
    if each["fields"]:
        lines.append(plain_rows(argument_rows(people.language, each["fields"])))
    return lines + (_indented(each["told"]) if each["told"] else [])


def _indented(text: str) -> list[str]:
    first, *rest = text.split("\n")
    return [f"    → {first}", *(f"      {line}" for line in rest)]


# --- one request --------------------------------------------------------------------------------


async def became(people: People, row: RequestRow) -> dict[str, Any]:
    """Say of a request when each vote that stands was cast, and what its call's result is."""
    at = row.request.at
    names = Names(requests=(row.request.id,), steps=((at.run, at.step),))
    state = await people.engine.session(row.session, names)
    request = state.requests[row.request.id]
    call = state.calls[request.at]
    result = None
    if isinstance(call.state, CallOver) and type(request.state).__name__ in _RESULTS:
        telling = await telling_of(people.engine, row, language=people.language)
        result = _seen(await telling.text(call.state.told_ref))
    votes: list[dict[str, str]] = []
    if getattr(request.state, "votes", ()):
        engine = people.engine
        votes = await engine.read(_votes, engine, row.session, request.id)
    return {"voted": votes, "result": result}


#: The states of requests whose call may have run.
_RESULTS = frozenset(("Spent", "Settled"))


def _votes(engine: Engine, session: str, request: str) -> list[dict[str, str]]:
    votes: dict[str, dict[str, str]] = {}
    for recorded in engine.store.events(engine.tenant, session):
        if f'"{request}"' not in recorded.body:
            continue
        match decode_event(recorded.kind, recorded.body):
            case e.VoteCast(request=cast, by=by, via=via) if cast == request:
                votes[by] = {"by": visible(by), "at": instant(recorded.at), "via": via}
            case e.VoteWithdrawn(request=cast, by=by) if cast == request:
                votes.pop(by, None)
            case e.VotesDropped(request=cast, people=people) if cast == request:
                for person in people:
                    votes.pop(person, None)
            case _:
                pass
    return list(votes.values())
