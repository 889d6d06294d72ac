"""Anchors: what the heads of a store were at an instant, kept outside of it (H4).

Theory of operation. A worker adds one line to a file: the heads that have changed since the line
before, a root over all heads there are, and the hash of the line before, signed where there is a
key. So the file grows with what happens and not with what there is, and the heads at each line can
be made anew from those up to it. Held against the file, a store from which a tail was cut, with its
state and with an older HMAC, or that was put in another's place, has not the heads that it had.
What was cut after the last line cannot be seen.

A signature vouches for all lines before it. Where the newest line is under another key than the
worker's, the worker adds one under its own, though nothing changed: else nobody would vouch for the
last lines until something did.

Several workers may add to one file: they take turns under a lock of the system, and each reads what
was added since it looked last. A line that an unclean end left torn is passed over, and the next
one goes on from the last whole line; whatever else is no anchor is a finding. A worker that finds
the store behind its anchors adds nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from placet.core.errors import InvalidInput, StoreTrouble
from placet.runtime.keys import Checker, Signer
from placet.runtime.protected import protect
from placet.runtime.state_files import instant
from placet.stores.store import Head, Store

#: How often a worker adds an anchor, where something has changed.
EVERY = timedelta(minutes=1)

#: The form of a line.
VERSION = 1

_FILE_MODE = 0o600
_BEGIN = b'{"algorithm":"'
_FIELDS = frozenset("v at sessions root changed previous algorithm key signature".split())

Place = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One line: what changed up to an instant, and what all heads came to then."""

    at: str
    sessions: int
    root: str
    changed: tuple[Head, ...]
    previous: str
    algorithm: str = ""
    key: str = ""
    signature: str = ""

    def signed_bytes(self) -> bytes:
        """Give what is signed: the line without its signature."""
        return _written(self, with_signature=False)


@dataclass(slots=True)
class Course:
    """What the lines so far come to: the heads, and the hash and the key of the last whole line."""

    heads: dict[Place, tuple[int, str]] = field(default_factory=dict)
    previous: str = ""
    key: tuple[str, str] = ("", "")

    def take(self, anchor: Anchor, line: bytes) -> str:
        """Go on by one line; what is wrong with it, else an empty text."""
        wrong = ""
        if anchor.previous != self.previous:
            wrong = "it does not follow from the line before"
        for head in anchor.changed:
            self.heads[(head.tenant, head.session)] = (head.seq, head.hash)
        self.previous = sha256(line).hexdigest()
        self.key = (anchor.algorithm, anchor.key)
        if (len(self.heads), root_of(self.heads)) != (anchor.sessions, anchor.root):
            wrong = wrong or "its root is not over the heads up to it"
        return wrong


def root_of(heads: dict[Place, tuple[int, str]]) -> str:
    """Give SHA-256 over all heads, one a line, in order."""
    whole = sha256()
    for (tenant, session), (seq, hash_) in sorted(heads.items()):
        whole.update(json.dumps([tenant, session, seq, hash_]).encode() + b"\n")
    return whole.hexdigest()


# --- adding -----------------------------------------------------------------------------------


class Anchors:
    """A file of anchors over one store, as a worker adds to it. Not for several threads at once."""

    def __init__(
        self, path: str | os.PathLike[str], store: Store, *, signer: Signer | None
    ) -> None:
        self.path = Path(path)
        self._store = store
        self._signer = signer
        self._course = Course()
        self._read_up_to = 0
        self._has_vouched = False
        protect(self.path)

    def add(self, *, at: datetime | None = None) -> bool:
        """Add an anchor if any head, or the key, has changed; say whether there was one to add.

        Raises StoreTrouble where the file cannot be read or written, or the store is behind it.
        """
        try:
            with self._locked() as file:
                self._read(file)
                heads = list(self._store.heads())
                self._hold(heads)
                changed = [head for head in heads if self._is_new(head)]
                if not changed and not self._must_vouch():
                    return False
                self._append(file, changed, at or datetime.now(UTC))
        except OSError as error:
            raise StoreTrouble(
                "anchors_unwritable",
                f"No anchor could be added ({error}).",
                hint="What runs goes on. See that the file of anchors can be written.",
                path=str(self.path),
            ) from error
        return True

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _FILE_MODE)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _read(self, file: IO[bytes]) -> None:
        """Take what was added since it was read last."""
        size = os.fstat(file.fileno()).st_size
        if size < self._read_up_to:  # It is another file than it was.
            self._course, self._read_up_to = Course(), 0
        file.seek(self._read_up_to)
        for _, line, anchor in _lines(_all_of(file)):
            if anchor is not None:
                self._course.take(anchor, line)
        self._read_up_to = size

    def _is_new(self, head: Head) -> bool:
        return self._course.heads.get((head.tenant, head.session)) != (head.seq, head.hash)

    def _must_vouch(self) -> bool:
        """Say whether the newest anchor is under another key than ours, and no line of ours yet.

        Once is enough: two workers, each with a key of its own, would answer each other for ever.
        """
        if self._signer is None or self._has_vouched or not self._course.previous:
            return False
        return self._course.key != (self._signer.algorithm, self._signer.key_id)

    def _hold(self, heads: Iterable[Head]) -> None:
        """Hold the store against what it was; raises StoreTrouble where it is behind that."""
        now = {(head.tenant, head.session): head for head in heads}
        for (tenant, session), (seq, hash_) in self._course.heads.items():
            found = now.get((tenant, session))
            if found is None or found.seq < seq or (found.seq == seq and found.hash != hash_):
                raise StoreTrouble(
                    "anchors_disagree",
                    "The store is not what it was when its last anchor was added.",
                    hint="No anchor is added. `placet audit verify --anchors` says what is"
                    " missing; a backup that was brought back needs a new file of anchors.",
                    tenant=tenant,
                    session=session,
                    path=str(self.path),
                )

    def _append(self, file: IO[bytes], changed: Sequence[Head], at: datetime) -> None:
        heads = dict(self._course.heads)
        heads.update({(head.tenant, head.session): (head.seq, head.hash) for head in changed})
        made = Anchor(
            at=instant(at),
            sessions=len(heads),
            root=root_of(heads),
            changed=tuple(changed),
            previous=self._course.previous,
            algorithm="" if self._signer is None else self._signer.algorithm,
            key="" if self._signer is None else self._signer.key_id,
        )
        if self._signer is not None:
            made = replace(made, signature=self._signer.sign(made.signed_bytes()))
        line = _written(made, with_signature=True)
        file.seek(0, os.SEEK_END)
        torn = self._read_up_to > 0 and not _ends_whole(file)
        _write_whole(file, (b"\n" if torn else b"") + line + b"\n")
        os.fsync(file.fileno())
        self._course.take(made, line)
        self._has_vouched = self._signer is not None
        self._read_up_to = os.fstat(file.fileno()).st_size


def _write_whole(file: IO[bytes], data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _ends_whole(file: IO[bytes]) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _all_of(file: IO[bytes]) -> bytes:
    parts = []
    while part := file.read(1 << 20):
        parts.append(part)
    return b"".join(parts)


# --- lines ------------------------------------------------------------------------------------


def _written(anchor: Anchor, *, with_signature: bool) -> bytes:
    document: dict[str, Any] = {
        "v": VERSION,
        "at": anchor.at,
        "sessions": anchor.sessions,
        "root": anchor.root,
        "changed": [[head.tenant, head.session, head.seq, head.hash] for head in anchor.changed],
        "previous": anchor.previous,
        "algorithm": anchor.algorithm,
        "key": anchor.key,
    }
    if with_signature:
        document["signature"] = anchor.signature
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _lines(data: bytes) -> Iterator[tuple[int, bytes, Anchor | None]]:
    """Give each line with its number, and its anchor; None: it is torn, or no anchor at all."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line:
            yield number, line, _anchor_in(line)


def _anchor_in(line: bytes) -> Anchor | None:
    try:
        document = json.loads(line)
        if set(document) != _FIELDS or document["v"] != VERSION:
            return None
        anchor = Anchor(
            at=str(document["at"]),
            sessions=int(document["sessions"]),
            root=str(document["root"]),
            changed=tuple(
                Head(tenant=str(tenant), session=str(session), seq=int(seq), hash=str(hash_))
                for tenant, session, seq, hash_ in document["changed"]
            ),
            previous=str(document["previous"]),
            algorithm=str(document["algorithm"]),
            key=str(document["key"]),
            signature=str(document["signature"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return anchor if _written(anchor, with_signature=True) == line else None


def _is_torn(line: bytes) -> bool:
    """Say whether a line that is no anchor can be what an unclean end left: the begin of one."""
    return not line.rstrip().endswith(b"}") and (line.startswith(_BEGIN) or _BEGIN.startswith(line))


# --- verifying --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is not as the anchors say; `line` is the anchor's, where it is one's."""

    code: str
    what: str
    line: int | None = None
    tenant: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """What a file of anchors says of a store. `last_at` is how far back nothing can be cut."""

    anchors: int
    vouched: int
    last_at: str
    differences: tuple[Difference, ...]
    unchecked: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Say whether the store is, up to the last anchor, what it was."""
        return not self.differences


def verify_anchors(
    store: Store, path: Path, *, checkers: Sequence[Checker], session: str | None = None
) -> Anchored:
    """Hold a store against a file of anchors, or one session of it; raises InvalidInput.

    `checkers` hold the keys that are trusted. One signature vouches for all lines before it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput("no_anchors", f"There are no anchors in {path}: {error}") from error
    course, found, unchecked = Course(), list[Difference](), dict[str, None]()
    points: dict[Place, dict[int, tuple[str, int]]] = {}
    count, last_at, vouched, signed_by_other = 0, "", 0, False
    by_key = {(checker.algorithm, checker.key_id): checker for checker in checkers}
    for number, line, anchor in _lines(data):
        if anchor is None and _is_torn(line):
            unchecked[f"line {number} of the anchors is torn, and is passed over"] = None
            continue
        if anchor is None:
            what = "it is no anchor, or one that a newer version of placet wrote"
            found.append(Difference(code="broken_anchors", what=what, line=number))
            continue
        count, last_at = count + 1, anchor.at
        if wrong := course.take(anchor, line):
            found.append(Difference(code="broken_anchors", what=wrong, line=number))
        for head in anchor.changed:
            of_session = points.setdefault((head.tenant, head.session), {})
            of_session[head.seq] = (head.hash, number)
        checker = by_key.get((anchor.algorithm, anchor.key))
        if checker is None:
            signed_by_other = signed_by_other or bool(anchor.signature)
        elif checker.is_signature(anchor.signature, anchor.signed_bytes()):
            vouched = count
        else:
            what = "its signature is not of the key that it names"
            found.append(Difference(code="forged_anchor", what=what, line=number))
    if not count:
        what = "there is no anchor in the file, and nothing is held to anything"
        found.append(Difference(code="broken_anchors", what=what))
    if vouched < count and checkers:
        last = "the last anchor" if count - vouched == 1 else f"the last {count - vouched} anchors"
        what = f"no key that is given vouches for {last}"
        found.append(Difference(code="unsigned_anchors", what=what))
    elif signed_by_other and not checkers:
        unchecked["the anchors are signed, and no key is given"] = None
    elif not checkers and count:
        unchecked["the anchors are not signed"] = None
    for (tenant, name), of_session in points.items():
        if session in (None, name):
            found += _against(store, tenant, name, of_session)
    return Anchored(
        anchors=count,
        vouched=vouched,
        last_at=last_at,
        differences=tuple(found),
        unchecked=tuple(unchecked),
    )


def _against(
    store: Store, tenant: str, session: str, points: dict[int, tuple[str, int]]
) -> Iterator[Difference]:
    """Hold one session's log against each head that it had."""
    if store.head(tenant, session) is None:
        yield Difference(
            code="lost_session",
            what=f"session {session} is not there, and an anchor has it",
            line=min(line for _, line in points.values()),
            tenant=tenant,
            session=session,
        )
        return
    last, left = 0, dict(points)
    for row in store.events(tenant, session):
        last = row.seq
        hash_, line = left.pop(row.seq, ("", 0))
        if hash_ and hash_ != row.hash:
            yield Difference(
                code="other_history",
                what=f"event {row.seq} of session {session} is another than the anchor has",
                line=line,
                tenant=tenant,
                session=session,
            )
    if left:
        seq, (_, line) = max(left.items())
        yield Difference(
            code="cut_tail",
            what=f"session {session} ends at seq {last}, and an anchor has seq {seq}",
            line=line,
            tenant=tenant,
            session=session,
        )
