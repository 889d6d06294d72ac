"""State as files, in the layout and under the field names of older systems: out, and looked at.

    DIR/sessions/<session>/approvals/<request>.json
    DIR/sessions/<session>/checkpoints/<checkpoint>.json

An export is for reading: nothing runs from it. An import brings nothing to life either: an old
approval was given under rules that nobody can check any more, so it is never spent here (G1). It
is counted, and what was approved and never run is named, with what to do.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from placet.core.card import status_of
from placet.core.commands import Names
from placet.core.errors import InvalidInput, NotFound
from placet.core.records import EntryRow
from placet.core.state import (
    Answered,
    Approved,
    Call,
    Cancelled,
    Expired,
    Open,
    Rejected,
    Settled,
    Spent,
    Superseded,
    Voided,
)
from placet.core.values import Occurrence
from placet.stores.store import RequestRow, Store

#: How many requests and runs of a session are looked at.
ALL = 1_000_000

#: A file of an import that is longer than this is no record.
MAX_FILE_BYTES = 16 * 1024 * 1024

_MAX_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^\.")

#: What an approval record must say to be one.
REQUIRED = ("approval_id", "status")


def instant(at: datetime) -> str:
    """Write an instant as RFC 3339 does, in UTC."""
    return at.isoformat().replace("+00:00", "Z")


def checkpoint_id(at: Occurrence) -> str:
    """Name the position of a run from which it goes on once a call of this step is decided."""
    return f"{at.run}.{at.step}"


def record(row: RequestRow, call: Call) -> dict[str, Any]:
    """Give a request as JSON, under older systems' field names beside ours."""
    request = row.request
    return {
        "approval_id": request.id,
        "run_id": request.at.run,
        "tool_call_id": call.tool_call_id,
        "action_digest": request.digest,
        "permission_scope": list(call.scope),
        "policy_version": request.policy_version,
        "created_at": instant(request.opened_at),
        "status": status_of(request),
        "checkpoint_id": checkpoint_id(request.at),
        "request_id": request.id,
        "kind": request.kind,
        "tenant": row.tenant,
        "session": row.session,
        "step": request.at.step,
        "index": request.at.index,
        "tool": request.tool,
        "version": request.version,
        "requester": request.requester,
        "approvers": sorted(request.needs.people(request.requester)),
        "quorum": request.needs.quorum,
        "deadline_at": instant(request.deadline_at),
        "rule": request.rule,
        "replaces": request.replaces,
        "readable": request.readable,
        **_decided(row),
    }


def _decided(row: RequestRow) -> dict[str, Any]:
    """Give what a request's state says beside its name; every field is always there."""
    votes: tuple[str, ...] = ()
    by: str | None = None
    successor: str | None = None
    cause: str | None = None
    finding: str | None = None
    match row.request.state:
        case Open(votes=votes) | Approved(votes=votes) | Spent(votes=votes) | Expired(votes=votes):
            pass
        case Rejected(by=by):
            pass
        case Superseded(by=by, successor=successor):
            pass
        case Voided(changed=changed, successor=successor):
            cause = ", ".join(changed)
        case Cancelled(cause=cause):
            pass
        case Settled(by=by, finding=finding):
            pass
        case Answered(by=by):
            pass
    return {
        "votes": list(votes),
        "decided_by": by,
        "successor": successor,
        "cause": cause,
        "finding": finding,
    }


# --- out --------------------------------------------------------------------------------------


def export(store: Store, tenant: str, directory: Path) -> dict[str, int]:
    """Write all sessions of a tenant into a directory, and count what was written.

    Arguments are written as they are stored, secrets too, and so only the owner may read the
    files. Raises InvalidInput where the directory is there and not empty, or cannot be written.
    """
    with _writing(directory):
        is_new = not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    if not is_new:
        raise InvalidInput(
            "directory_not_empty", f"{directory} is no empty directory.", hint="Name a new one."
        )
    counted = Counter(sessions=0, approvals=0, checkpoints=0)
    for session in store.sessions(tenant):
        place = directory / "sessions" / safe_name(session)
        counted["sessions"] += 1
        requests = store.requests(tenant, session=session, pending=False, limit=ALL)
        for row in requests:
            call = call_of(store, row)
            _write(
                place / "approvals" / f"{safe_name(row.request.id)}.json",
                {**record(row, call), "action": _action(store, row)},
            )
            counted["approvals"] += 1
        for at in {(row.request.at.run, row.request.at.step): row.request.at for row in requests}:
            run, step = at
            name = checkpoint_id(Occurrence(run, step, 0))
            document = _checkpoint(store, tenant, session, run, step)
            _write(place / "checkpoints" / f"{safe_name(name)}.json", document)
            counted["checkpoints"] += 1
    return dict(counted)


def call_of(store: Store, row: RequestRow) -> Call:
    """Give the call that a request is about."""
    state = store.session(row.tenant, row.session, Names(requests=(row.request.id,)))
    assert state is not None, "a request is in a session"
    return state.calls[row.request.at]


def _action(store: Store, row: RequestRow) -> Any:
    """Read the action of a request; None: it was erased, and the record stands without it."""
    try:
        return json.loads(store.payload(row.tenant, row.session, row.request.action_ref))
    except NotFound as error:
        if error.code != "erased":
            raise
        return None


def _checkpoint(store: Store, tenant: str, session: str, run: str, step: int) -> dict[str, Any]:
    """Give where a run goes on: the step's turn, the messages before it, results after it."""
    rows: Sequence[EntryRow] = ()
    try:
        rows = store.transcript(tenant, session, run)
    except NotFound as error:
        if error.code != "erased":
            raise
    return {
        "checkpoint_id": checkpoint_id(Occurrence(run, step, 0)),
        "run_id": run,
        "session": session,
        "step": step,
        "transcript": [
            {"step": row.step, "index": row.index, "kind": row.kind, "body": row.body}
            for row in rows
            if row.step <= step
        ],
    }


def safe_name(name: str) -> str:
    """Make one file name of an id that may hold anything, so that two ids never share one."""
    safe = _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in _bytes(found[0])), name)
    if name and len(safe) <= _MAX_NAME:
        return safe
    return f"{safe[: _MAX_NAME - 17]}%{sha256(_bytes(name)).hexdigest()[:16]}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _write(path: Path, document: Mapping[str, Any]) -> None:
    with _writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as writing:
            json.dump(document, writing, indent=2)
            writing.write("\n")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise InvalidInput where a path cannot be written: somebody named it who may name another."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            "file_unwritable",
            f"{path} was not written: {error.strerror or error}.",
            hint="Name a directory that you may write to, and that is not there yet.",
        ) from error


# --- in ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """An old record that says `approved`: nobody knows whether its effect happened."""

    approval_id: str
    run_id: str
    session: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What was found in a directory of an older system. Nothing of it can be spent."""

    by_status: Mapping[str, int]
    checkpoints: int
    stuck: tuple[Stuck, ...]
    malformed: tuple[tuple[str, str], ...]


def read_directory(directory: Path) -> Imported:
    """Read what an older system left; raises InvalidInput where it is no such directory.

    Every file is either counted or named as malformed.
    """
    root = directory / "sessions"
    if not root.is_dir():
        raise InvalidInput(
            "not_a_state_directory",
            f"{directory} holds no directory `sessions`.",
            hint="Name the directory in which sessions/<session>/approvals/ lies.",
        )
    statuses: Counter[str] = Counter()
    stuck: list[Stuck] = []
    malformed: list[tuple[str, str]] = []
    checkpoints = 0
    for path, kind in _files(root):
        name = str(path.relative_to(directory))
        found = _read(path)
        if isinstance(found, str):
            malformed.append((name, found))
        elif kind == "checkpoints":
            checkpoints += 1
        elif missing := [key for key in REQUIRED if not isinstance(found.get(key), str)]:
            malformed.append((name, f"it has no text {missing[0]!r}"))
        else:
            statuses[found["status"]] += 1
            if found["status"] == "approved":
                stuck.append(
                    Stuck(
                        approval_id=found["approval_id"],
                        run_id=str(found.get("run_id", "")),
                        session=path.parent.parent.name,
                        file=name,
                    )
                )
    return Imported(
        by_status=dict(sorted(statuses.items())),
        checkpoints=checkpoints,
        stuck=tuple(stuck),
        malformed=tuple(malformed),
    )


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    for session in sorted(root.iterdir()):
        for kind in ("approvals", "checkpoints"):
            for path in sorted((session / kind).glob("*")):
                yield path, kind


def _read(path: Path) -> dict[str, Any] | str:
    """Read one record, or say what is wrong with it."""
    if path.suffix != ".json" or path.is_symlink() or not path.is_file():
        return "it is no .json file"
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return "it is too long"
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return str(error) or type(error).__name__
    return found if isinstance(found, dict) else "it is no JSON object"
