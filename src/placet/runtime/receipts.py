"""Receipts: one decision of a person, signed, to be checked without the store (H4).

A receipt holds the event by which the decision stands in the log, as it is there, with the hash of
the one before: whoever has the public key sees who decided what, when, on which action (by its
digest) and under which policy, and whoever has the log finds it there. It holds no text, so that it
says nothing of arguments and reasons but their references.

What is signed comes from the log alone, and only where the whole session was verified and found
sound: the rows that the store works with, and a single event, can be changed by whoever writes to
the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from placet.core import events as e
from placet.core.codec import chain_hash, decode_event, micros_of
from placet.core.errors import Conflict, NotFound, StoreTrouble
from placet.runtime.audit import verify
from placet.runtime.keys import PublicKey, SigningKey
from placet.runtime.state_files import instant
from placet.stores.sealing import forged_head, key_missing
from placet.stores.store import Recorded, Store

#: The form of a receipt.
VERSION = 1

#: What people say, by the event that has it.
DECISIONS: Mapping[type, str] = {
    e.VoteCast: "approve",
    e.RequestRejected: "reject",
    e.RequestEdited: "edit",
    e.RequestSettled: "settle",
    e.QuestionAnswered: "answer",
}

_MEMBERS = frozenset({"receipt", "algorithm", "key", "signature"})

#: What takes votes back.
_TAKES_BACK = (e.VoteWithdrawn, e.VotesDropped)


def receipt(store: Store, tenant: str, request: str, *, signing: SigningKey) -> dict[str, Any]:
    """Sign the decision of a request; raises NotFound, or Conflict where nobody decided it.

    Of several votes it is the last, with which the quorum was met; `votes` has them all. Nothing
    is signed of a session that is not sound (StoreTrouble), or that nobody vouches for.
    """
    row = store.find_request(tenant, request)
    if row is None:
        raise NotFound("request_not_found", "There is no such request here.", request_id=request)
    _check_head(store, tenant, row.session)
    rows = _sound(store, tenant, row.session)
    opened, decided, votes = _decision(rows, request)
    body = _receipt((tenant, row.session), opened, decided, votes)
    signed = _written(body)
    return {
        "receipt": body,
        "algorithm": signing.algorithm,
        "key": signing.key_id,
        "signature": signing.sign(signed),
    }


def _check_head(store: Store, tenant: str, session: str) -> None:
    standing = store.standing(tenant, session)
    if standing is None or standing.head == "forged":
        raise forged_head(tenant, session)
    if standing.head == "unchecked":
        raise key_missing()
    if standing.head == "unkeyed":
        raise Conflict(
            "unkeyed_head",
            "The head of this session has no HMAC, though the store is under a key.",
            hint="`placet keys seal` vouches for it, if you know it to be sound.",
            session=session,
        )


def _sound(store: Store, tenant: str, session: str) -> list[Recorded]:
    """Give the log of a session that was verified, as it was then; raises StoreTrouble."""
    found = verify(store, tenant, session)
    if found.sound:
        rows = [row for row in store.events(tenant, session) if row.seq <= found.events]
        if rows and rows[-1].hash == found.head:
            return rows
    raise StoreTrouble(
        "store_damaged",
        "The record of this session is not sound, and nothing was signed.",
        hint="`placet audit verify` says what is wrong; keep the file as it is.",
        session=session,
    )


Votes = dict[str, tuple[datetime, e.VoteCast]]


def _decision(rows: Iterable[Recorded], request: str) -> tuple[e.RequestOpened, Recorded, Votes]:
    """Find how a request was opened and decided, and the votes that stand; raises Conflict."""
    opened: e.RequestOpened | None = None
    decided: Recorded | None = None
    votes: Votes = {}
    for row in rows:
        if f'"{request}"' not in row.body:
            continue
        event = decode_event(row.kind, row.body)
        if getattr(event, "request", None) != request:
            continue
        if isinstance(event, e.RequestOpened):
            opened = event
        elif isinstance(event, e.VoteCast):
            votes[event.by] = (row.at, event)
            decided = row if event.met else decided
        elif type(event) in DECISIONS:
            decided = row
        elif isinstance(event, _TAKES_BACK):
            people = (event.by,) if isinstance(event, e.VoteWithdrawn) else event.people
            votes = {by: vote for by, vote in votes.items() if by not in people}
            decided = None if event.reopened else decided
    if opened is None or decided is None:
        raise Conflict(
            "not_decided",
            "Nobody has decided this request, and so there is nothing to sign.",
            hint="`placet show` says how it stands.",
            request_id=request,
        )
    return opened, decided, votes


def _receipt(
    of: tuple[str, str], opened: e.RequestOpened, decided: Recorded, votes: Votes
) -> dict[str, Any]:
    event = decode_event(decided.kind, decided.body)
    return {
        "v": VERSION,
        "tenant": of[0],
        "session": of[1],
        "run": opened.at.run,
        "step": opened.at.step,
        "index": opened.at.index,
        "request": opened.request,
        "kind": opened.kind,
        "tool": opened.tool,
        "digest": opened.digest,
        "decision": DECISIONS[type(event)],
        "by": getattr(event, "by", ""),
        "via": getattr(event, "via", ""),
        "at": instant(decided.at),
        "stood_in": getattr(event, "stood_in", False),
        "votes": [
            {"by": by, "at": instant(at), "via": vote.via, "stood_in": vote.stood_in}
            for by, (at, vote) in votes.items()
        ],
        "quorum": opened.needs.quorum,
        "requester": opened.requester,
        "rule": opened.rule,
        "policy_version": opened.policy_version,
        "deadline_at": instant(opened.deadline_at),
        "event": {
            "seq": decided.seq,
            "at_micros": micros_of(decided.at),
            "kind": decided.kind,
            "body": decided.body,
            "previous": decided.previous,
            "hash": decided.hash,
        },
    }


def _written(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


# --- checking, without a store ----------------------------------------------------------------


def read_receipt(data: bytes) -> Any:
    """Read a receipt; raises ValueError where it can be read in more than one way, or in none."""
    try:
        return json.loads(data, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("it names a member twice")
    return found


def check_receipt(document: object, public: PublicKey) -> tuple[str, ...]:
    """Say what is wrong with a receipt; nothing: the pair's private key signed exactly this."""
    if not isinstance(document, dict) or not isinstance(document.get("receipt"), dict):
        return ("it is no receipt",)
    if more := sorted(str(name) for name in document.keys() - _MEMBERS):
        return (f"it has more in it than was signed: {', '.join(more)}",)
    body: dict[str, Any] = document["receipt"]
    if body.get("v") != VERSION:
        return (f"a newer version of placet wrote it: {body.get('v')}",)
    if document.get("algorithm") != public.algorithm or document.get("key") != public.key_id:
        return (f"it is signed with the key {document.get('key')}, and not with {public.key_id}",)
    if not public.is_signature(str(document.get("signature")), _written(body)):
        return ("its signature is not over what it says",)
    return tuple(_inconsistent(body))


def _inconsistent(body: Mapping[str, Any]) -> Iterable[str]:
    """Hold what a receipt says against the event in it: also a signer may be mistaken."""
    try:
        event, said = body["event"], json.loads(body["event"]["body"])
        made = chain_hash(
            event["previous"],
            seq=event["seq"],
            at_micros=event["at_micros"],
            kind=event["kind"],
            body=event["body"],
        )
        if made != event["hash"]:
            yield "its event is not what the hash stands for"
        if said["request"] != body["request"] or said["by"] != body["by"]:
            yield "its event is of another request, or of another person"
        if said.get("digest", body["digest"]) != body["digest"]:
            yield "its event is about another action"
        kinds = {kind.__name__: decision for kind, decision in DECISIONS.items()}
        if kinds.get(event["kind"]) != body["decision"]:
            yield "its event is another decision"
    except (KeyError, TypeError, ValueError) as error:
        yield f"it is damaged: {type(error).__name__}: {error}"
