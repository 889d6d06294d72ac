"""The operator's commands: doctor, token; and the demonstration."""

from __future__ import annotations

import importlib
import os
import platform
import pwd
import secrets
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from placet.cli.key_checks import keeping
from placet.cli.output import Exit, Given, counted, shared
from placet.cli.status import few_left
from placet.core.display import visible
from placet.core.errors import InvalidInput, PlacetError
from placet.opening import open_store, store_path
from placet.runtime.authority import MARK, Authority
from placet.runtime.policies import FILE as POLICY_FILE
from placet.runtime.policies import PolicyFile
from placet.settings import Settings, current_account
from placet.stores.store import Store

if TYPE_CHECKING:
    from placet.policy.rules import Policy

#: How many bytes of an approver token are random.
TOKEN_BYTES = 32

_LOOKED_AT = 10_000

#: How far the clocks of one machine's processes may seem to be apart.
CLOCKS_DIFFER = timedelta(seconds=5)

Health = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at, and how it is."""

    name: str
    health: Health
    detail: str


@click.command("doctor", short_help="Look at the store, the approvers and what lies about.")
@click.option("--agent-account", help="The account that agents run as; by default yours.")
@shared
@click.pass_obj
def doctor_command(given: Given, agent_account: str | None) -> int:
    """Look at the store, the approvers and what lies about; warn, and fail on problems."""
    settings = given.settings()
    checks = [
        Check(name="python", health="ok", detail=platform.python_version()),
        *_store_checks(settings, agent_account or current_account()),
        *_policy_checks(settings, agent_account or current_account()),
        *_people_checks(settings),
    ]
    broken = any(check.health == "problem" for check in checks)
    document = {"ok": not broken, "checks": [asdict(check) for check in checks]}
    lines = [f"{check.health:<8} {check.name:<14} {visible(check.detail)}" for check in checks]
    given.show(document, "\n".join(lines))
    return Exit.WRONG if broken else Exit.DONE


def _store_checks(settings: Settings, account: str) -> Iterator[Check]:
    path = store_path(settings.store)
    if not path.exists():
        detail = f"there is none yet at {path}; the first run makes it"
        yield Check(name="store", health="warning", detail=detail)
        return
    try:
        store = open_store(settings.store, settings)
    except PlacetError as error:
        yield Check(name="store", health="problem", detail=str(error))
        return
    try:
        said = store.check()
        detail = ", ".join(f"{name} {value}" for name, value in said.items())
        yield Check(name="store", health="ok", detail=detail)
        yield _clock_check(datetime.fromisoformat(said["stamp"]))
        yield _mode_check(path)
        yield _reach_check(path, account)
        for name, health, told in keeping(store, settings):
            yield Check(name=name, health=health, detail=told)
        yield from _pending_checks(store, settings)
    except PlacetError as error:
        yield Check(name="store", health="problem", detail=str(error))
    finally:
        store.close()


def _clock_check(stamp: datetime) -> Check:
    """Say where the store's time, which never goes back, is ahead of this machine's (G9)."""
    ahead = stamp - datetime.now(UTC)
    if ahead <= CLOCKS_DIFFER:
        return Check(name="clock", health="ok", detail="the store's time is not ahead of it")
    detail = (
        f"a clock was wrong: the store's time, {stamp:%Y-%m-%d %H:%M:%S} UTC, is ahead by"
        f" {timedelta(seconds=round(ahead.total_seconds()))}; until then no deadline comes, and no"
        " grant and no delegation ends; cancel what must not wait so long"
    )
    return Check(name="clock", health="warning", detail=detail)


def _mode_check(path: Path) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o022:
        detail = f"{mode:04o}: others may write it; make it 0600"
        return Check(name="file mode", health="problem", detail=detail)
    if mode & 0o044:
        detail = f"{mode:04o}: others may read it; make it 0600"
        return Check(name="file mode", health="warning", detail=detail)
    return Check(name="file mode", health="ok", detail=f"{mode:04o}")


def _reach_check(path: Path, account: str, *, what: str = "the store") -> Check:
    """Say whether the agent's account could reach a file, past the runtime (G10)."""
    try:
        user = pwd.getpwnam(account)
    except KeyError:
        detail = f"there is no account {account}"
        return Check(name="agent account", health="problem", detail=detail)
    groups = set(os.getgrouplist(account, user.pw_gid))
    if user.pw_uid == 0 or _may_write(path, user.pw_uid, groups):
        how = "could change it"
    elif _may_write(path.absolute().parent, user.pw_uid, groups):
        how = "could put another file in its place"
    else:
        detail = f"{account} cannot reach {what}"
        return Check(name="agent account", health="ok", detail=detail)
    detail = (
        f"{account} {how}: what a tool of that account starts is refused by its mark alone; a wall"
        " is another account for the tools"
    )
    return Check(name="agent account", health="warning", detail=detail)


def _may_write(path: Path, uid: int, groups: set[int]) -> bool:
    found = path.stat()
    if found.st_uid == uid:
        return True  # Who owns it may give itself the right.
    if found.st_gid in groups:
        return bool(found.st_mode & stat.S_IWGRP)
    return bool(found.st_mode & stat.S_IWOTH)


def _pending_checks(store: Store, settings: Settings) -> Iterator[Check]:
    rows = store.requests(settings.tenant, limit=_LOOKED_AT)
    now = datetime.now(UTC)
    late = [r.request.id for r in rows if r.request.deadline_at <= now]
    unsettled = [r.request.id for r in rows if r.request.kind == "settlement"]
    authority = Authority(approvers=settings.approvers, policy=PolicyFile.of(settings.policy))
    broken = authority.today().trouble is not None  # That is a check of its own.
    left = {} if broken else {r.request.id: authority.left(r.request, now=now) for r in rows}
    stranded = {
        r.request.id: r.request.needs.people(r.request.requester)
        for r in rows
        if not left.get(r.request.id, {""})
    }
    few = {r.request.id: few_left("en", r.request, left.get(r.request.id)) for r in rows}
    few = {name: said for name, said in few.items() if said and name not in stranded}
    asked = ", ".join(f"{name} (of {', '.join(sorted(who))})" for name, who in stranded.items())
    mute = [
        r.request.id
        for r in rows
        if not any(_is_known(who, settings) for who in r.request.people(r.request.deadline_at))
    ]
    detail = "somebody may decide each request that waits"
    if stranded:
        detail = f"nobody who is now named may decide {asked}; name them again, or cancel"
    elif few:
        told = "; ".join(f"{name}: {said}" for name, said in few.items())
        detail = f"{told}; name more, or cancel"
    elif mute:
        detail = f"of those asked nobody has a token, or an account here: {', '.join(mute)}"
    health: Health = "warning" if stranded or few or mute else "ok"
    yield Check(name="asked of", health=health, detail=detail)
    yield Check(
        name="deadlines",
        health="warning" if late else "ok",
        detail=f"past theirs, and not closed: {', '.join(late)}; let a worker run"
        if late
        else f"{counted(len(rows), 'request waits', many='requests wait')}, none past its deadline",
    )
    yield Check(
        name="settlements",
        health="warning" if unsettled else "ok",
        detail=f"outcomes that nobody knows: {', '.join(unsettled)}; `placet settle`"
        if unsettled
        else "no outcome is unknown",
    )


def _policy_checks(settings: Settings, account: str) -> Iterator[Check]:
    standing = PolicyFile.of(settings.policy).now(settings.approvers)
    path = Path(settings.policy or POLICY_FILE)
    if standing.trouble is not None:
        detail = f"every call is denied: {'; '.join(standing.trouble.lines)}"
        yield Check(name="policy", health="problem", detail=detail)
    elif standing.policy is None:
        yield Check(name="policy", health="ok", detail="no file: what tools declare counts")
    else:
        detail = (
            f"{path}: {counted(len(standing.policy.rules), 'rule')}, version {standing.version}"
            f"{_noted(standing.policy)}"
        )
        yield Check(name="policy", health="ok", detail=detail)
    if standing.policy is not None and path.exists():
        reach = _reach_check(path, account, what="the policy file")
        yield replace(reach, name="policy reach")


def _noted(policy: Policy) -> str:
    """Say which of the rules can have no effect here, and why; it is no fault of the file."""
    from placet.policy.noting import without_extras  # Where there is a policy file alone.

    return "".join(f"; line {note.line}: {note.message}" for note in without_extras(policy))


def _named(settings: Settings) -> frozenset[str]:
    """Give those whom the settings or the policy file have decide."""
    policy = PolicyFile.of(settings.policy).now(settings.approvers).policy
    if policy is None:
        return frozenset(settings.approvers)
    from placet.policy.groups import named  # Where there is a policy file alone.

    return frozenset(settings.approvers) | named(policy)


def _is_known(name: str, settings: Settings) -> bool:
    """Say whether a person can be known at the command line: by a token, or as an account here."""
    if name in settings.approver_tokens:
        return True
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def _people_checks(settings: Settings) -> Iterator[Check]:
    if people := _named(settings):
        others = sorted(people - frozenset(settings.approvers))
        detail = ", ".join([*settings.approvers, *others])
        if unknown := sorted(name for name in people if not _is_known(name, settings)):
            detail += (
                f"; neither a token nor an account here: {', '.join(unknown)} (`placet token`)"
            )
        yield Check(name="approvers", health="warning" if unknown else "ok", detail=detail)
    else:
        detail = "no_approver: nobody may decide, and whatever must ask does not run"
        yield Check(name="approvers", health="warning", detail=detail)
    yield _token_check(settings)
    if os.environ.get(MARK):
        detail = "this process was started by a tool; it cannot decide"
        yield Check(name="mark", health="warning", detail=detail)


def _token_check(settings: Settings) -> Check:
    holders: dict[str, list[str]] = {}
    for name, digest in sorted(settings.approver_tokens.items()):
        holders.setdefault(digest, []).append(name)
    if shared_by := [" and ".join(names) for names in holders.values() if len(names) > 1]:
        detail = f"{'; '.join(shared_by)}: one token, which therefore decides nothing"
        return Check(name="tokens", health="warning", detail=detail)
    if idle := sorted(set(settings.approver_tokens) - _named(settings)):
        detail = f"{', '.join(idle)}: a token, and no approver"
        return Check(name="tokens", health="warning", detail=detail)
    held = ", ".join(sorted(settings.approver_tokens)) or "nobody holds one"
    return Check(name="tokens", health="ok", detail=held)


@click.command("token", short_help="Make an approver token for a person.")
@click.argument("name", required=False)
@shared
@click.pass_obj
def token_command(given: Given, name: str | None) -> None:
    """Make an approver token for a person, and the line of placet.toml that makes it theirs.

    The token is shown once, and is nowhere kept; the settings hold its SHA-256 alone.
    """
    person = name or current_account()
    if not person.strip() or not person.isprintable():
        raise InvalidInput("invalid_name", "A token is for a person with a name.")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    digest = sha256(token.encode()).hexdigest()
    key = (
        person if person.isascii() and person.replace("-", "_").isidentifier() else _quoted(person)
    )
    line = f'{key} = "{digest}"'
    document = {"name": person, "token": token, "sha256": digest, "line": line}
    text = [
        f"The token, for {person} alone: in PLACET_APPROVER_TOKEN, or in a file of its own that",
        "--token-file names and that holds the token and nothing else:",
        "",
        token,
        "",
        *_where_it_goes(given, person, line),
    ]
    given.show(document, "\n".join(text), as_is=True)


def _where_it_goes(given: Given, person: str, line: str) -> list[str]:
    """Say what to write into the file of settings: nothing of what it has already."""
    path, written = Settings.written()
    tokens = written.get("approver_tokens")
    places = "wherever agents run and people decide"
    names = [] if _is_named(given, person) else [*_approvers(given), person]
    approvers = f"approvers = [{', '.join(map(_quoted, dict.fromkeys(names)))}]"
    there = "in place of the one that is there" if "approvers" in written else "above all tables"
    if not isinstance(tokens, dict):
        first = ["", approvers] if names else []
        stands = f" (`approvers` stands {there})" if names else ""
        return [f"For {path}, {places}{stands}:", *first, "", "[approver_tokens]", line]
    instead = f", in place of the line of {person}" if person in tokens else ""
    told = [f"For {path}, {places}, a line of its table [approver_tokens]{instead}:", "", line]
    if names:
        told += ["", f"And `approvers`, {there}, for nothing names {person} yet:", "", approvers]
    return told


def _is_named(given: Given, person: str) -> bool:
    """Say whether the policy file, or the settings as they are written, have a person decide."""
    try:
        settings = given.settings()
    except PlacetError:
        return False
    said = settings.approvers if _approvers_are_said() else ()
    return person in said or person in _named(replace(settings, approvers=()))


def _approvers_are_said() -> bool:
    """Say whether somebody wrote down who approves; another account would have another default."""
    return "PLACET_APPROVERS" in os.environ or "approvers" in Settings.written()[1]


def _approvers(given: Given) -> tuple[str, ...]:
    """Give the approvers as they are set, if they can be read: who makes a token may mend them."""
    try:
        return given.settings().approvers
    except PlacetError:
        return ()


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@click.command(
    "demo",
    short_help="Tell the story with real processes; no key is needed.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("given", nargs=-1, type=click.UNPROCESSED)
def demo_command(given: tuple[str, ...]) -> int:
    """Tell the story with real processes and a real database; no key is needed."""
    story = importlib.import_module("placet.demo.story")
    ended = story.main(list(given))
    return ended if isinstance(ended, int) else Exit.DONE
