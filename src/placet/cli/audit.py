"""The commands for the record: hold it to itself and to its anchors, hand it out, sign of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from placet.cli.output import Exit, Given, counted, shared, tell
from placet.cli.store import existing_store
from placet.core.display import visible
from placet.core.errors import InvalidInput, NotFound, Refusal, no_session
from placet.keyring import OLD_KEY, OLD_KEY_FILE, old_key_of, shared_key_of, signing_key_of
from placet.runtime.anchors import Anchored, verify_anchors
from placet.runtime.audit import Verified, strays, unwalked, verify
from placet.runtime.authority import refuse_under_mark
from placet.runtime.export_agentack import trace
from placet.runtime.keys import Checker, SharedKey, public_key_in, signing_key_in
from placet.runtime.receipts import check_receipt, read_receipt, receipt
from placet.runtime.state_files import instant
from placet.settings import Settings
from placet.stores.store import KeyedStore, Store

#: What `audit verify` cannot find by itself, which it says.
BLIND = (
    "This finds no tail that was cut off together with its state, and no database that was put in"
    " another's place: keep the heads elsewhere, as a worker does with anchors, and compare"
    " (--anchors)."
)

#: What it cannot find with anchors.
BLIND_BEYOND = "Of what was cut after the last anchor nothing is seen."

_LARGEST_RECEIPT_BYTES = 1_000_000


@click.group("audit")
@shared
def audit_command() -> None:
    """Hold the record to itself, hand it out, or sign of it."""


@contextmanager
def _store_of(settings: Settings) -> Iterator[KeyedStore]:
    store = existing_store(settings)
    try:
        yield store
    finally:
        store.close()


def _sessions(store: Store, tenant: str, session: str | None) -> list[str]:
    known = list(store.sessions(tenant))
    if session is None:
        return known
    if session not in known:
        raise no_session(session)
    return [session]


# --- verify -----------------------------------------------------------------------------------


@audit_command.command("verify")
@click.option("--session", help="Only this session.")
@click.option(
    "--anchors", type=click.Path(path_type=Path), help="A file of anchors to hold the store to."
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    help="The public key of the pair that signs anchors.",
)
@shared
@click.pass_obj
def verify_command(
    given: Given, session: str | None, anchors: Path | None, public_key: Path | None
) -> int:
    """Walk each session's chain, and hold texts, digests, state, heads and anchors to it."""
    settings = given.settings()
    with _store_of(settings) as store:
        found = []
        names = _sessions(store, settings.tenant, None if anchors is not None else session)
        for name in [each for each in names if session in (None, each)]:
            tell(f"verifying session {visible(name)}")
            found.append(_walked(store, settings.tenant, name))
        found += [] if session else strays(store, settings.tenant)
        held = None
        if anchors is not None:
            checkers = _checkers(settings, public_key)
            held = verify_anchors(store, anchors, checkers=checkers, session=session)
    sound = all(each.sound for each in found) and (held is None or held.sound)
    document = {
        "sound": sound,
        "sessions": [_verified(each) for each in found],
        "anchors": None if held is None else _anchored(held),
        "cannot_find": BLIND if held is None else BLIND_BEYOND,
    }
    lines = [line for each in found for line in _verified_lines(each)]
    lines += [] if held is None else _anchored_lines(held)
    events = sum(each.events for each in found)
    total = f"{counted(len(found), 'session')}, {counted(events, 'event')}: "
    total += "sound" if sound else "NOT SOUND"
    given.show(document, "\n".join([*lines, total, str(document["cannot_find"])]))
    return Exit.DONE if sound else Exit.WRONG


def _walked(store: Store, tenant: str, session: str) -> Verified:
    """Verify a session; whatever is wrong with one, the others are looked at yet."""
    try:
        return verify(store, tenant, session)
    except (NotFound, Refusal):
        raise
    except Exception as error:  # noqa: BLE001  # Fails closed: what cannot be walked is not sound.
        return unwalked(session, error)


def _checkers(settings: Settings, public_key: Path | None) -> list[Checker]:
    """Give the keys that are trusted to have signed anchors: what is named, and the store's own."""
    found: list[Checker] = []
    if public_key is not None:
        found.append(public_key_in(public_key))
    if settings.signing_key_file:
        found.append(signing_key_in(Path(settings.signing_key_file)).public)
    if (key := shared_key_of(settings)) is not None:
        found.append(key)
    if {OLD_KEY, OLD_KEY_FILE} & set(os.environ):
        found.append(SharedKey(old_key_of(), "anchors"))
    return found


def _verified(found: Verified) -> dict[str, Any]:
    return {
        "session": found.session,
        "sound": found.sound,
        "events": found.events,
        "head": found.head,
        "texts": found.texts,
        "findings": [asdict(finding) for finding in found.findings],
        "unchecked": list(found.unchecked),
    }


def _verified_lines(found: Verified) -> list[str]:
    said = "sound" if found.sound else "NOT SOUND"
    lines = [
        f"session {visible(found.session)}: {said}, {counted(found.events, 'event')},"
        f" texts {found.texts}, head {found.head}"
    ]
    for finding in found.findings:
        where = f"event {finding.seq}: " if finding.seq is not None else ""
        lines.append(f"  {where}{visible(finding.what)} [{finding.code}]")
    return lines + [f"  not looked at: {visible(what)}" for what in found.unchecked]


def _anchored(held: Anchored) -> dict[str, Any]:
    return {
        "sound": held.sound,
        "anchors": held.anchors,
        "vouched": held.vouched,
        "last_at": held.last_at,
        "differences": [asdict(each) for each in held.differences],
        "unchecked": list(held.unchecked),
    }


def _anchored_lines(held: Anchored) -> list[str]:
    said = "sound" if held.sound else "NOT SOUND"
    last = f", the last of {held.last_at}" if held.last_at else ""
    lines = [f"anchors: {said}, {held.anchors}{last}; a key vouches for {held.vouched}"]
    for each in held.differences:
        where = f"line {each.line}: " if each.line is not None else ""
        lines.append(f"  {where}{visible(each.what)} [{each.code}]")
    return lines + [f"  not looked at: {visible(what)}" for what in held.unchecked]


# --- export -----------------------------------------------------------------------------------


@audit_command.command("export")
@click.option("--session", help="Only this session.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "agentack"]),
    default="jsonl",
    help="The events as they are, or a trace of one session for `agentack check`.",
)
@shared
@click.pass_obj
def audit_export_command(given: Given, session: str | None, form: str) -> None:
    """Print the event log, one JSON object a line; texts stand in it by reference.

    A trace for agentack holds the arguments of what people were asked about.
    """
    settings = given.settings()
    with _store_of(settings) as store:
        names = _sessions(store, settings.tenant, session)
        if form == "jsonl":
            for name in names:
                _print_events(store, settings.tenant, name)
        elif len(names) == 1:
            _print_trace(store, settings.tenant, names[0])
        else:
            raise InvalidInput(
                "which_session",
                f"A trace is of one session, and there are {len(names)}.",
                hint="Name one with --session.",
            )


def _print_events(store: Store, tenant: str, session: str) -> None:
    for row in store.events(tenant, session):
        line = {
            "tenant": tenant,
            "session": session,
            "seq": row.seq,
            "at": instant(row.at),
            "kind": row.kind,
            "body": row.body,
            "command_id": row.command_id,
            "previous": row.previous,
            "hash": row.hash,
        }
        click.echo(json.dumps(line))


def _print_trace(store: Store, tenant: str, session: str) -> None:
    def read(ref: str) -> str | None:
        try:
            return store.payload(tenant, session, ref)
        except NotFound:  # It was erased; the trace has the digest.
            return None

    for line in trace(store.events(tenant, session), tenant=tenant, session=session, read=read):
        click.echo(json.dumps(line))


# --- receipts ---------------------------------------------------------------------------------


@audit_command.command("receipt")
@click.argument("request")
@shared
@click.pass_obj
def receipt_command(given: Given, request: str) -> None:
    """Print a signed receipt of the decision of a request, as JSON.

    The setting signing_key_file names the private key that signs.
    """
    refuse_under_mark()
    settings = given.settings()
    signing = signing_key_of(settings)
    with _store_of(settings) as store:
        document = receipt(store, settings.tenant, request, signing=signing)
    given.show(document, json.dumps(document, indent=2), as_is=True)


@audit_command.command("verify-receipt")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    required=True,
    help="The public key of the pair that is trusted.",
)
@shared
@click.pass_obj
def verify_receipt_command(given: Given, file: Path, public_key: Path) -> int:
    """Check a receipt with the public key alone: it needs no store."""
    public = public_key_in(public_key)
    document = _read_receipt(file)
    wrong = check_receipt(document, public)
    body = document["receipt"] if isinstance(document, dict) and not wrong else {}
    said = {name: value for name, value in body.items() if not isinstance(value, (dict, list))}
    lines = [f"{name:<14} {visible(str(value))}" for name, value in said.items()]
    lines += [f"{'vote':<14} {visible(each)}" for each in _votes(body)]
    lines += [f"NOT VALID: {visible(each)}" for each in wrong]
    lines += [] if wrong else [f"valid: signed with the key {public.key_id}"]
    given.show({"valid": not wrong, "wrong": list(wrong), "receipt": body}, "\n".join(lines))
    return Exit.WRONG if wrong else Exit.DONE


def _votes(body: Mapping[str, Any]) -> Iterator[str]:
    """Say of each vote whose it is, when it was cast and by which way."""
    votes = body.get("votes")
    for vote in votes if isinstance(votes, list) else []:
        named = vote if isinstance(vote, dict) else {}
        yield f"{named.get('by')} at {named.get('at')}, via {named.get('via')}"


def _read_receipt(file: Path) -> Any:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST_RECEIPT_BYTES + 1)
        if len(data) > _LARGEST_RECEIPT_BYTES:
            raise ValueError("it is too large")
        return read_receipt(data)
    except (OSError, ValueError) as error:
        raise InvalidInput("invalid_receipt", f"{file} is no receipt: {error}") from error
