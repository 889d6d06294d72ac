"""The commands for keys, and the command erase.

They make keys, change the one that a store is under, and take old sessions under it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import click

from placet.cli.identity import confirmed
from placet.cli.output import Exit, Given, counted, shared, tell
from placet.cli.store import existing_store, office
from placet.core.display import visible
from placet.core.errors import InvalidSetting
from placet.keyring import key_of, old_key_of
from placet.runtime.audit import Verified, verify
from placet.runtime.authority import refuse_under_mark
from placet.runtime.keys import new_key, new_pair
from placet.settings import current_account
from placet.stores.sealing import can_seal
from placet.stores.store import Head, KeyedStore


@click.group("keys")
@shared
def keys_command() -> None:
    """Make keys, and put a store under one."""


@keys_command.command("new")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--signing", is_flag=True, help="A pair that signs, instead of a store's key.")
@shared
@click.pass_obj
def new_command(given: Given, file: Path, signing: bool) -> None:
    """Make a key in a new file, which its owner alone may read.

    A store's key seals what is new in it, and keys its heads. With --signing it is the private key
    of a pair, with the public one in FILE.pub: who has that checks what the private one signed.
    """
    refuse_under_mark()
    made = (new_pair if signing else new_key)(file)
    named = "signing_key_file" if signing else "key_file"
    document = {
        "files": [str(each) for each in made.files],
        "key_id": made.key_id,
        "setting": named,
    }
    lines = [f"made {visible(str(each))}" for each in made.files]
    lines += [f"For placet.toml: {named} = {_quoted(str(made.files[0].absolute()))}"]
    lines += [
        f"Keep it from who may change the store: who has it signs in your name. Who checks needs"
        f" {visible(str(made.files[1]))} alone."
        if signing
        else "Keep a copy where the store is not: what a lost key sealed, nobody opens again."
    ]
    given.show(document, "\n".join(lines), as_is=True)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@keys_command.command("rotate")
@shared
@click.pass_obj
def rotate_command(given: Given) -> None:
    """Put the store under another key, without touching a text.

    PLACET_OLD_KEY, or the file that PLACET_OLD_KEY_FILE names, is the key until now; the settings
    name the new one. Stop every other process first: it is refused from here on.
    """
    refuse_under_mark()
    settings = given.settings()
    new, old = key_of(settings), old_key_of()
    if new is None:
        raise _no_key()
    store = existing_store(settings, key=old)
    try:
        rotated = store.rotate(new)
        is_gone = store.purge()
    finally:
        store.close()
    document = {"sessions": rotated, "old_is_gone": is_gone}
    lines = [f"{counted(rotated, 'session is', many='sessions are')} under the new key"]
    lines += [] if is_gone else [STILL_READ]
    lines += ["A backup from before opens with the old key alone: keep that one as long."]
    if settings.anchors and not settings.signing_key_file:
        lines += ["The anchors are under the old key until a worker runs: `placet worker --once`."]
    given.show(document, given.runnable("\n".join(lines)))


#: Why something that was destroyed may still stand on the disk.
STILL_READ = (
    "A process still reads an older state, and the log beside the store may hold what was: end it,"
    " and say this again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A session that was to be taken under the key: how many texts were sealed, what was found."""

    session: str
    sealed: int
    found: Verified


@keys_command.command("seal")
@click.option("--session", help="Only this session.")
@shared
@click.pass_obj
def seal_command(given: Given, session: str | None) -> int:
    """Take sessions from before under the store's key: verify each, seal its texts, key its head.

    From here on a change without the key is found. What was changed before is not, if it agrees
    with itself: that is what to think of first.
    """
    refuse_under_mark()
    settings = given.settings()
    if key_of(settings) is None:
        raise _no_key()
    store = existing_store(settings)
    try:
        names = store.sessions(settings.tenant) if session is None else [session]
        taken = [_take(store, settings.tenant, name) for name in names]
        is_gone = store.purge()
    finally:
        store.close()
    wrong = [each for each in taken if not _may_take(each.found)]
    document = {
        "sessions": [
            {
                "session": each.session,
                "taken": each not in wrong,
                "sealed": each.sealed,
                "findings": [finding.code for finding in each.found.findings],
            }
            for each in taken
        ],
        "plain_is_gone": is_gone,
    }
    lines = [
        f"session {visible(each.session)}: {counted(each.sealed, 'text')} sealed, its head is keyed"
        if each not in wrong
        else f"session {visible(each.session)}: NOT SOUND, and left as it is"
        for each in taken
    ]
    if not can_seal():
        lines += ["Texts stay plain without `pip install 'placet[crypto]'`; then say this again."]
    lines += [] if is_gone else [STILL_READ]
    given.show(document, "\n".join(lines))
    return Exit.WRONG if wrong else Exit.DONE


def _take(store: KeyedStore, tenant: str, session: str) -> Taken:
    tell(f"verifying session {visible(session)}")
    found = verify(store, tenant, session)
    if not _may_take(found):
        return Taken(session=session, sealed=0, found=found)
    at = Head(tenant=tenant, session=session, seq=found.events, hash=found.head)
    return Taken(session=session, sealed=store.take_under_key(at), found=found)


def _may_take(found: Verified) -> bool:
    """Say whether nothing is wrong but that the head has no HMAC yet."""
    return {finding.code for finding in found.findings} <= {"unkeyed_head"}


def _no_key() -> InvalidSetting:
    return InvalidSetting(
        "setting_invalid",
        "No key is named to put the store under.",
        hint="`placet keys new FILE` makes one; name it as key_file, or set PLACET_KEY.",
    )


@click.command("erase", short_help="Destroy the texts of a session.")
@click.argument("session")
@click.option("--cause", default="", help="Why; the record says it.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@shared
@click.pass_obj
def erase_command(given: Given, session: str, cause: str, yes: bool) -> int:
    """Destroy the texts of a session for good: its messages, arguments, reasons and results.

    What was decided, when and by whom stays on record, and is verified as before. Backups keep what
    they hold, and so do anchors and exports that were made before.
    """
    refuse_under_mark()
    if not yes:
        told = f"The texts of session {visible(session)} will be gone for good."
        confirmed("erase", told)
    with office(given.settings()) as people:
        erased = people.erase_session(session, by=current_account(), cause=cause)
        is_gone = asyncio.run(erased)
    lines = [f"the texts of session {visible(session)} are erased, and it takes no further message"]
    lines += [] if is_gone else [STILL_READ]
    lines += ["Backups that were made before still hold them."]
    given.show({"session": session, "erased": True, "is_gone": is_gone}, "\n".join(lines))
    return Exit.DONE if is_gone else Exit.UNFINISHED
