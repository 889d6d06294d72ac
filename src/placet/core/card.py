"""The card: what an approver is shown. One function makes it for every surface (H1).

Every text in it is made visible here, and secrets are masked (H2), so that a surface only lays it
out and escapes for its own markup. Nothing is cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from placet.core import wording
from placet.core.canonical import JsonValue
from placet.core.display import masked, visible
from placet.core.state import (
    Answered,
    Approved,
    Call,
    Cancelled,
    Expired,
    Open,
    Rejected,
    Request,
    Run,
    Settled,
    Spent,
    Superseded,
    Voided,
)
from placet.core.values import Draft

#: The state of a request in one word.
RequestStatus = Literal[
    "waiting",
    "approved",
    "spent",
    "rejected",
    "superseded",
    "voided",
    "expired",
    "cancelled",
    "settled",
    "answered",
]

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is shown of a request. `arguments` are (name, value) in their order, as JSON texts."""

    request: str
    kind: str
    status: RequestStatus
    digest: str
    version: int
    session: str
    run: str
    agent: str
    requester: str
    tool: str
    arguments: tuple[tuple[str, str], ...]
    raw_arguments: str | None
    effect: str
    preview: str
    reversible: bool
    claim: str
    reason: str
    rule: str
    changes: str
    attempts: int
    approvers: tuple[str, ...]
    quorum: int
    votes: tuple[str, ...]
    opened_at: datetime
    deadline_at: datetime
    then: str


def card(
    request: Request,
    call: Call,
    run: Run,
    draft: Draft,
    *,
    display: Mapping[str, JsonValue],
    grounds: str = "",
    claim: str = "",
    changes: str = "",
) -> Card:
    """Make the card of a request from what is stored of it."""
    readable = isinstance(draft.arguments, Mapping)
    shown = masked(dict(draft.arguments)) if isinstance(draft.arguments, Mapping) else {}
    assert isinstance(shown, dict), "a masked object is an object"
    votes = request.state.votes if isinstance(request.state, (Open, Approved, Spent)) else ()
    return Card(
        request=request.id,
        kind=request.kind,
        status=status_of(request),
        digest=request.digest,
        version=request.version,
        session=visible(draft.session),
        run=run.id,
        agent=visible(run.agent),
        requester=visible(request.requester),
        tool=visible(request.tool),
        arguments=tuple(
            (visible(name), visible(json.dumps(value, ensure_ascii=False)))
            for name, value in shown.items()
        ),
        raw_arguments=None if readable else visible(_masked_text(str(draft.arguments))),
        effect=visible(_effect(str(display.get("effect") or ""), draft.arguments, shown)),
        preview=visible(_masked_text(str(display.get("preview") or "")), keep_newlines=True),
        reversible=bool(display.get("reversible", False)),
        claim=visible(_masked_text(claim), keep_newlines=True),
        reason=visible(grounds),
        rule=visible(request.rule),
        changes=visible(_changes(changes)),
        attempts=call.attempts,
        approvers=tuple(sorted(visible(p) for p in request.needs.people(request.requester))),
        quorum=request.needs.quorum,
        votes=tuple(visible(vote) for vote in votes),
        opened_at=request.opened_at,
        deadline_at=request.deadline_at,
        then=_then(request),
    )


def status_of(request: Request) -> RequestStatus:
    """Name the state of a request in one word."""
    match request.state:
        case Open():
            return "waiting"
        case Approved():
            return "approved"
        case Spent():
            return "spent"
        case Rejected():
            return "rejected"
        case Superseded():
            return "superseded"
        case Voided():
            return "voided"
        case Expired():
            return "expired"
        case Cancelled():
            return "cancelled"
        case Settled():
            return "settled"
        case Answered():
            return "answered"


def _then(request: Request) -> str:
    if request.kind == "question":
        return "the run goes on without an answer"
    if request.kind == "settlement":
        return "the run ends with its outcome unknown; the question and the closed surface remain"
    return "the call expires and does not run"


def _effect(
    template: str, arguments: Mapping[str, JsonValue] | str, shown: Mapping[str, JsonValue]
) -> str:
    """Fill an effect with the arguments as they are shown, so that it can hold no more than they.

    In one pass, so that what an argument holds is never filled in itself. `shown` has the
    arguments in their order, but a name that holds a secret is another one there.
    """
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in zip(arguments, shown.values(), strict=False)
    }
    return _PLACE.sub(lambda place: texts.get(place[1], place[0]), _masked_text(template))


def _changes(stored: str) -> str:
    """Tell what was changed: an edit's list is masked by name, and a sentence is shown as it is."""
    found = changes_of(stored)
    return _masked_text(stored) if found is None else wording.changes(map(_masked_change, found))


def changes_of(stored: str) -> list[dict[str, JsonValue]] | None:
    """Read what an edit changed, or give None where the text is a sentence (of a void)."""
    try:
        found = json.loads(stored)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def _masked_change(change: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Mask both sides of a change as the argument of its name is masked."""
    copy = dict(change)
    for side in change.keys() & {"old", "new"}:
        one = masked({str(change["name"]): change[side]})
        assert isinstance(one, dict), "a masked object is an object"
        ((copy["name"], copy[side]),) = one.items()
    return copy


def _masked_text(text: str) -> str:
    shown = masked(text)
    return shown if isinstance(shown, str) else ""


def render_text(shown: Card) -> str:
    """Lay a card out as plain text, one fact a line; the arguments stand whole."""
    what = {"settlement": "Settlement", "question": "Question"}.get(shown.kind, "Approval request")
    lines = [
        f"{what} {shown.request}  ({shown.status})",
        f"  tool        {shown.tool}",
    ]
    if shown.raw_arguments is not None:
        lines += ["  arguments   could not be read; only reject or edit is possible:"]
        lines += [f"    {shown.raw_arguments}"]
    else:
        lines += [f"    {name} = {value}" for name, value in shown.arguments]
    asks = shown.kind == "question"
    facts = [
        ("effect", shown.effect),
        ("changes", shown.preview),
        ("reversible", "" if asks else "yes" if shown.reversible else "no, as declared"),
        ("asked by", f"{shown.rule}: {shown.reason}" if shown.reason else shown.rule),
        ("the model", f"claims: {shown.claim}" if shown.claim else ""),
        ("changed", shown.changes),
        ("attempts", str(shown.attempts) if shown.attempts else ""),
        ("for", f"{shown.requester} ({shown.agent}, session {shown.session})"),
        ("run", shown.run),
        ("approvers", f"{', '.join(shown.approvers)} ({shown.quorum} needed)"),
        ("votes", ", ".join(shown.votes)),
        ("deadline", f"{shown.deadline_at:%Y-%m-%d %H:%M:%S} UTC; then {shown.then}"),
        ("digest", shown.digest),
    ]
    lines += [f"  {name:<11} {_indented(value)}" for name, value in facts if value]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n              | ")
