"""The commands for the record: audit verify, audit export, and state as files, out and in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from placet.cli.office import existing_store
from placet.cli.output import Exit, Given, shared, tell
from placet.core.display import visible
from placet.core.errors import NotFound
from placet.runtime.audit import Verified, verify
from placet.runtime.files import Imported, export, instant, read_directory
from placet.settings import Settings
from placet.stores.store import Store

#: What `audit verify` cannot find by itself, which it says.
BLIND = (
    "This finds no tail that was cut off together with its state, and no database that was put in"
    " another's place: keep the heads elsewhere, and compare."
)


@click.group("audit")
@shared
def audit_command() -> None:
    """Hold the record to itself, or hand it out."""


@contextmanager
def _store_of(settings: Settings) -> Iterator[Store]:
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
        raise NotFound("session_not_found", "There is no such session.", session=session)
    return [session]


@audit_command.command("verify")
@click.option("--session", help="Only this session.")
@shared
@click.pass_obj
def verify_command(given: Given, session: str | None) -> int:
    """Walk each session's chain, and hold texts, digests and state against its events."""
    settings = given.settings()
    with _store_of(settings) as store:
        found = []
        for name in _sessions(store, settings.tenant, session):
            tell(f"verifying session {visible(name)}")
            found.append(verify(store, settings.tenant, name))
    sound = all(each.sound for each in found)
    document = {
        "sound": sound,
        "sessions": [_verified(each) for each in found],
        "cannot_find": BLIND,
    }
    lines = [line for each in found for line in _verified_lines(each)]
    events = sum(each.events for each in found)
    total = f"{len(found)} sessions, {events} events: " + ("sound" if sound else "NOT SOUND")
    given.show(document, "\n".join([*lines, total, BLIND]))
    return Exit.DONE if sound else Exit.WRONG


def _verified(found: Verified) -> dict[str, Any]:
    return {
        "session": found.session,
        "sound": found.sound,
        "events": found.events,
        "head": found.head,
        "findings": [asdict(finding) for finding in found.findings],
    }


def _verified_lines(found: Verified) -> list[str]:
    said = "sound" if found.sound else "NOT SOUND"
    lines = [f"session {visible(found.session)}: {said}, {found.events} events, head {found.head}"]
    for finding in found.findings:
        where = f"event {finding.seq}: " if finding.seq is not None else ""
        lines.append(f"  {where}{visible(finding.what)} [{finding.code}]")
    return lines


@audit_command.command("export")
@click.option("--session", help="Only this session.")
@shared
@click.pass_obj
def audit_export_command(given: Given, session: str | None) -> None:
    """Print the event log, one JSON object a line; texts stand in it by reference."""
    settings = given.settings()
    with _store_of(settings) as store:
        for name in _sessions(store, settings.tenant, session):
            for row in store.events(settings.tenant, name):
                line = {
                    "tenant": settings.tenant,
                    "session": name,
                    "seq": row.seq,
                    "at": instant(row.at),
                    "kind": row.kind,
                    "body": row.body,
                    "command_id": row.command_id,
                    "previous": row.previous,
                    "hash": row.hash,
                }
                click.echo(json.dumps(line))


_LAYOUT = click.option(
    "--layout", type=click.Choice(["files"]), required=True, help="How the directory is laid out."
)
_DIRECTORY = click.argument("directory", type=click.Path(path_type=Path))


@click.command("export", short_help="Write approvals and checkpoints as files.")
@_LAYOUT
@_DIRECTORY
@shared
@click.pass_obj
def export_command(given: Given, layout: str, directory: Path) -> None:
    """Write approvals and checkpoints as files, as older systems keep them."""
    settings = given.settings()
    with _store_of(settings) as store:
        counted = export(store, settings.tenant, directory)
    told = ", ".join(f"{count} {what}" for what, count in counted.items())
    document = {"layout": layout, "directory": str(directory), **counted}
    given.show(document, f"{visible(str(directory))}: {told}")


@click.command("import", short_help="Report what an older system left.")
@_LAYOUT
@_DIRECTORY
@shared
@click.pass_obj
def import_command(given: Given, layout: str, directory: Path) -> None:
    """Look at what an older system left, and report what was approved and never finished.

    Nothing of it comes to life here: an old approval is never spent.
    """
    found = read_directory(directory)
    document = {
        "layout": layout,
        "directory": str(directory),
        "approvals": sum(found.by_status.values()),
        "by_status": dict(found.by_status),
        "checkpoints": found.checkpoints,
        "stuck": [{**asdict(each), "what_to_do": _WHAT_TO_DO} for each in found.stuck],
        "malformed": [{"file": file, "error": error} for file, error in found.malformed],
    }
    given.show(document, "\n".join(_imported_lines(found)))


_WHAT_TO_DO = (
    "Find out in the world whether the effect happened. If it did not and is still wanted, let the"
    " agent propose it anew here: this approval is never spent."
)


def _imported_lines(found: Imported) -> list[str]:
    counted = ", ".join(f"{count} {visible(name)}" for name, count in found.by_status.items())
    total = sum(found.by_status.values())
    lines = [
        f"{total} approvals ({counted or 'none'}), {found.checkpoints} checkpoints",
    ]
    if found.stuck:
        lines.append(f"{len(found.stuck)} approved and never finished. {_WHAT_TO_DO}")
        lines += [
            f"  {visible(each.approval_id)}  run {visible(each.run_id)}  {visible(each.file)}"
            for each in found.stuck
        ]
    if found.malformed:
        lines.append(f"{len(found.malformed)} files could not be read, and are left as they are:")
        lines += [f"  {visible(file)}: {visible(error)}" for file, error in found.malformed]
    return lines
