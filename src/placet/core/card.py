"""The card: what an approver is shown. One function makes it for every surface (H1).

Every text in it is made visible here, and secrets are masked (H2), so that a surface only lays it
out and escapes for its own markup. Nothing is cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from placet.core.canonical import JsonValue
from placet.core.display import masked, visible
from placet.core.state import (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is shown of a request. `arguments` are (name, value) in their order, as JSON texts."""

    request: str
    kind: str
    status: str
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
    grounds: Mapping[str, JsonValue],
    changes: str = "",
) -> Card:
    """Make the card of a request from what is stored of it."""
    readable = isinstance(draft.arguments, Mapping)
    shown = masked(dict(draft.arguments)) if isinstance(draft.arguments, Mapping) else {}
    assert isinstance(shown, dict), "a masked object is an object"
    secrets_of = [text for text in _hidden(draft.arguments, shown) if text]
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
        effect=visible(_without(str(grounds.get("effect") or ""), secrets_of)),
        reversible=bool(grounds.get("reversible", False)),
        claim=visible(_masked_text(str(grounds.get("claim") or "")), keep_newlines=True),
        reason=visible(str(grounds.get("reason") or "")),
        rule=visible(request.rule),
        changes=visible(_without(changes, secrets_of)),
        attempts=call.attempts,
        approvers=tuple(sorted(visible(p) for p in request.needs.people(request.requester))),
        quorum=request.needs.quorum,
        votes=tuple(visible(vote) for vote in votes),
        opened_at=request.opened_at,
        deadline_at=request.deadline_at,
        then=_then(request),
    )


def status_of(request: Request) -> str:
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


def _then(request: Request) -> str:
    if request.kind == "settlement":
        return "the run ends with its outcome unknown; the question and the closed surface remain"
    return "the call expires and does not run"


def _hidden(before: object, after: JsonValue) -> list[str]:
    """Give the texts that masking took away, so that no sentence built of them shows one."""
    if isinstance(before, str) and before != after:
        return [before]
    if isinstance(before, Mapping) and isinstance(after, dict):
        pairs = zip(before.values(), after.values(), strict=False)
        return [text for one, other in pairs for text in _hidden(one, other)]
    if isinstance(before, list) and isinstance(after, list):
        pairs = zip(before, after, strict=False)
        return [text for one, other in pairs for text in _hidden(one, other)]
    return []


def _without(text: str, secret_texts: list[str]) -> str:
    for secret in secret_texts:
        text = text.replace(secret, "‹secret›")
    return _masked_text(text)


def _masked_text(text: str) -> str:
    shown = masked(text)
    return shown if isinstance(shown, str) else ""


def render_text(shown: Card) -> str:
    """Lay a card out as plain text, one fact a line; the arguments stand whole."""
    what = "Settlement" if shown.kind == "settlement" else "Approval request"
    lines = [
        f"{what} {shown.request}  ({shown.status})",
        f"  tool        {shown.tool}",
    ]
    if shown.raw_arguments is not None:
        lines += ["  arguments   could not be read; only reject or edit is possible:"]
        lines += [f"    {shown.raw_arguments}"]
    else:
        lines += [f"    {name} = {value}" for name, value in shown.arguments]
    facts = [
        ("effect", shown.effect),
        ("reversible", "yes" if shown.reversible else "no, as declared"),
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
