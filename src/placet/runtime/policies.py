"""The policy file as it is now: looked at before every ruling, and read again when it has changed.

Theory of operation. A look is one `stat`; the file is read again where that differs, and also for
as long as it was changed so lately that another change could hide behind the same times. What was
read is held against its SHA-256, so that a file which only was touched is not parsed again. A
version that cannot be taken is in force like any other: it allows nothing, and says why, until it
is mended (G1).
"""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from placet.core.canonical import JsonValue, digest_of
from placet.core.commands import MOST_WAITING
from placet.runtime.protected import protect

if TYPE_CHECKING:  # A program without a policy file does not load what reads one.
    from placet.policy.faults import PolicyTrouble
    from placet.policy.rules import Policy

#: The file that is looked for in the working directory where the settings name none.
FILE = "placet.policy.toml"

#: For how long after a change the times of a file do not prove that it has not changed again.
SETTLES_NS = 2_000_000_000

#: How many characters of a version's digest stand on record.
VERSION_CHARACTERS = 16

_MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The policy at one moment, and the people whom the settings name.

    With neither policy nor trouble there is no file, and the tools' declarations rule. `version`
    names this state of affairs on record.
    """

    approvers: tuple[str, ...]
    policy: Policy | None = None
    trouble: PolicyTrouble | None = None
    version: str = ""

    @property
    def most_waiting(self) -> int:
        """Say how many requests may wait in a session at once."""
        said = None if self.policy is None else self.policy.defaults.most_waiting
        return MOST_WAITING if said is None else said

    @property
    def anybody(self) -> bool:
        """Say whether anybody at all could be asked."""
        policy = self.policy
        named = policy is not None and (
            policy.defaults.approvers or any(each.demands.approvers for each in policy.rules)
        )
        return bool(self.approvers or named)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What stood in the file: its bytes' digest, what they say, and a name for what they say.

    The digest is empty where nothing could be read.
    """

    digest: str
    says: str
    policy: Policy | None = None
    trouble: PolicyTrouble | None = None


class PolicyFile:
    """One policy file, for as long as a process looks at it.

    A file that was `named` must be there; one that is only looked for may be missing, until it has
    been seen: who takes it away does not thereby free what it forbids.
    """

    def __init__(self, path: str | os.PathLike[str], *, named: bool = True) -> None:
        self.name = os.fspath(path)
        self._path = Path(os.path.abspath(path))
        self._must = named
        self._look = threading.Lock()
        self._times: tuple[int, ...] | None = None
        self._seen: _Seen | None = None
        protect(self._path)

    @staticmethod
    def of(setting: str) -> PolicyFile:
        """Give the file that the setting `policy` names; without one, that of the directory."""
        return PolicyFile(setting) if setting else PolicyFile(FILE, named=False)

    def now(self, approvers: tuple[str, ...]) -> Standing:
        """Look at the file, and say what is in force; raises nothing."""
        with self._look:
            seen = self._looked()
        if seen is None:
            return Standing(approvers=approvers, version=version_of(approvers))
        return Standing(
            approvers=approvers,
            policy=seen.policy,
            trouble=seen.trouble,
            version=version_of(approvers, seen.says),
        )

    def _looked(self) -> _Seen | None:
        known, self._times = self._times, None
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return self._broken("It is not there.") if self._must else None
        except OSError as error:
            return self._broken(f"It cannot be looked at: {error.strerror or error}.")
        self._must = True
        if not stat.S_ISREG(found.st_mode):
            return self._broken("It is no file.")
        times = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)
        if self._seen is None or times != known:
            self._seen = self._read()
        settled = max(found.st_mtime_ns, found.st_ctime_ns) + SETTLES_NS < time.time_ns()
        if settled and self._seen.digest:
            self._times = times
        return self._seen

    def _read(self) -> _Seen:
        from placet.policy.faults import PolicyTrouble
        from placet.policy.reading import read

        try:
            with open(self._path, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            return self._broken(f"It cannot be read: {error.strerror or error}.")
        digest = sha256(data).hexdigest()
        if self._seen is not None and self._seen.digest == digest:
            return self._seen
        try:
            policy = read(data, file=self.name)
            return _Seen(digest, digest_of(policy.document), policy=policy)
        except PolicyTrouble as trouble:
            return _Seen(digest, f"broken {digest}", trouble=trouble)
        except Exception as error:  # noqa: BLE001  # Fails closed: it is no policy.
            return self._broken(f"It cannot be taken: {type(error).__name__}.")

    def _broken(self, message: str) -> _Seen:
        from placet.policy.faults import Fault, PolicyTrouble

        trouble = PolicyTrouble(self.name, [Fault(line=0, message=message)])
        return _Seen("", f"broken {message}", trouble=trouble)


@lru_cache(maxsize=64)
def version_of(approvers: tuple[str, ...], policy: str = "") -> str:
    """Name a state of affairs, for the record: who approves, and what a policy says."""
    people: list[JsonValue] = [*sorted(approvers)]
    return digest_of([people, policy] if policy else people)[:VERSION_CHARACTERS]
