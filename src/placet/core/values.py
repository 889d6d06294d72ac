"""The values that commands, events and states share.

Every value is frozen and is proof that it was checked where it was made. Instants are aware UTC
datetimes; durations are timedeltas. Payloads (arguments, reasons, results, messages) stand in
events and states only by reference.
"""

from __future__ import annotations

import hmac
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Literal

from placet.core.canonical import JsonValue, call_digest, digest_of
from placet.core.money import Money

#: The surface of a tool that declares none: it touches all of them (G8).
EVERY_SURFACE = "*"

#: What a call is: a declared read, an effect, an agent used as a tool, a question to a person.
CallKind = Literal["read", "effect", "agent", "question"]
RunKind = Literal["driven", "hosted"]

#: Of a hosted run that is one call of a guarded function: whether somebody is told to go on with
#: it, or it is left to whoever calls the function again.
GuardKind = Literal["told", "untold"]
RequestKind = Literal["approval", "settlement", "question"]

#: How a run goes about its message: it acts; it thinks, without any tool; or it makes a plan
#: first, and then acts on the plan's items one by one.
Mode = Literal["act", "think", "plan-act"]

#: How long a lease lasts before it must be renewed (D5).
LEASE = timedelta(seconds=60)
#: What an attempt is for: the effect itself, or taking it back.
Purpose = Literal["run", "roll_back", "compensate"]

#: What becomes of the rest of a step when one of its calls has failed: it goes on; it does not
#: begin any more; or, besides, what earlier calls did is taken back.
OnFailure = Literal["continue", "stop", "compensate_earlier"]

#: How far back what earlier calls did is taken back: to the start of the step, or of the run.
SagaScope = Literal["step", "run"]

#: What became of an earlier call's effect: it was taken back, it stands, or nobody knows.
Unwound = Literal["rolled_back", "compensated", "succeeded", "unknown"]

#: Stands among the approvers of a request for whoever the run acts for.
REQUESTER = "@requester"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

#: Why a call ended, as a closed list (the design, section 5), and `succeeded`.
CallCode = Literal[
    "succeeded",
    "rejected",
    "expired",
    "unreachable",
    "no_approver",
    "policy_denied",
    "invalid_arguments",
    "unknown_tool",
    "call_changed",
    "interrupted",
    "superseded",
    "cancelled",
    "environment_unstable",
    "tool_failed",
    "tool_failed_and_rolled_back",
    "tool_failed_and_compensated",
    "outcome_unknown",
]

#: Why a run ended (the design, section 5). `approval_required` is a pause, and never stands here.
StopReason = Literal[
    "final",
    "max_steps",
    "rejection_loop",
    "tool_policy_blocked",
    "failed",
    "cancelled",
    "superseded",
    "outcome_unknown",
]

#: A "no" of these codes is remembered by call key until its run ends (G6).
REMEMBERED_NOES: frozenset[CallCode] = frozenset(
    {"rejected", "expired", "unreachable", "no_approver", "policy_denied"}
)

#: What of it people said, or did not say in time: that holds for all runs under the top one.
PEOPLES_NOES: frozenset[CallCode] = frozenset({"rejected", "expired", "unreachable"})

#: A call that ends so is counted by call key: a model that only repeats it gets nowhere.
FAILURES: frozenset[CallCode] = frozenset(
    {
        "tool_failed",
        "tool_failed_and_rolled_back",
        "tool_failed_and_compensated",
        "invalid_arguments",
        "unknown_tool",
    }
)

#: The body of a call that ends so was to be entered, and failed.
TOOL_FAILURES: frozenset[CallCode] = frozenset(
    {"tool_failed", "tool_failed_and_rolled_back", "tool_failed_and_compensated"}
)


#: How many random bytes a session's salt has; it stands as hexadecimal text.
SALT_BYTES = 32

#: What a text stands for where it is keyed: no two purposes have a key in common.
KeyedPurpose = Literal["call", "environment", "run", "reference", "place"]


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """Where in a run a tool call stands: (step, index) of the call, in its run."""

    run: str
    step: int
    index: int

    def __str__(self) -> str:
        return f"{self.run}/{self.step}/{self.index}"


@dataclass(frozen=True, slots=True)
class Payload:
    """A text kept outside the event log: by value in memory, by reference wherever it is stored.

    The reference is keyed with the session's salt, so that it tells nothing of the text once
    text and salt are erased (H4).
    """

    ref: str
    body: str | None = field(default=None, compare=False)


def keyed(salt: str, purpose: KeyedPurpose, text: str) -> str:
    """Give what stands in the store for a text that an erasure is to reach (H4).

    It is HMAC-SHA-256 under the session's salt, so that who has the store, and the salt no more,
    has nothing to hold a guess against; the same text for another purpose has another. Empty texts
    stay empty. A salt of less than `SALT_BYTES` is that of a session which was begun when these
    texts stood as they are: there they still do, so that what is under way is found again (D7).
    """
    if not text or len(salt) < 2 * SALT_BYTES:
        return text
    data = f"placet {purpose} 1\n".encode() + text.encode("utf-8", "surrogatepass")
    return hmac.digest(bytes.fromhex(salt), data, "sha256").hex()


def call_key(salt: str, tool: str, arguments: Mapping[str, JsonValue] | str) -> str:
    """Give the key of a call in a session (G6, G12, H4): alike where `call_digest` is alike.

    Raises Unreadable as that does.
    """
    return keyed(salt, "call", call_digest(tool, arguments))


def payload_of(salt: str, body: str) -> Payload:
    """Give `body` its reference under a session's `salt` (hexadecimal)."""
    data = body.encode("utf-8", "surrogatepass")
    return Payload(blake2b(data, digest_size=16, key=bytes.fromhex(salt)).hexdigest(), body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who speaks to placet. An agent's credential can never decide (G10)."""

    id: str
    kind: Literal["person", "agent", "runtime"] = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process, named so that it can be seen on its host to exist no more (D4)."""

    host: str
    boot: str
    pid: int
    started: str


def is_alike(one: str, other: str) -> bool:
    """Say whether two names may be one person's: another case, width or edge makes nobody else."""
    return _folded(one) == _folded(other)


def without(people: Iterable[str], excluded: str) -> frozenset[str]:
    """Give people without whoever may be the one who is excluded (G10)."""
    return frozenset(person for person in people if not is_alike(person, excluded))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a request needs to be approved: `quorum` distinct people of `approvers` (G10)."""

    approvers: tuple[str, ...]
    quorum: int = 1
    exclude_requester: bool = False

    def named(self, requester: str) -> Needs:
        """Give the same with `requester` in the place of what stands for whoever it is."""
        if REQUESTER not in self.approvers:
            return self
        others = [each for each in self.approvers if each != REQUESTER]
        if any(is_alike(each, requester) for each in others):  # One person has one vote.
            return replace(self, approvers=tuple(others))
        people = (requester if each == REQUESTER else each for each in self.approvers)
        return replace(self, approvers=tuple(dict.fromkeys(people)))

    def possible(self, requester: str) -> bool:
        """Say whether enough people may decide for the quorum ever to be met."""
        return self.quorum >= 1 and len(self.people(requester)) >= self.quorum

    def people(self, requester: str) -> frozenset[str]:
        """Give those who may decide a request made for `requester`."""
        people = frozenset(self.named(requester).approvers)
        return without(people, requester) if self.exclude_requester else people


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """Who else is asked `after` a request was opened, and over which channel (G9).

    One that names nobody is a reminder.
    """

    after: timedelta
    approvers: tuple[str, ...] = ()
    channel: str = ""


#: What an open request holds: every other effect of its session, or those on its surface (G8).
Hold = Literal["session", "surface"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantTerms:
    """What a person permits along with an approval: calls of its tool that are to come (G12).

    `same` names the arguments that must be as they are in the approved call, `any` those that may
    have any value; a call with another argument is not covered.
    """

    scope: Literal["run", "session"]
    lasts: timedelta
    uses: int
    same: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    children: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """The call may run."""

    rule: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The call waits for people until `lasts` has passed; `escalation` reaches more before."""

    rule: str
    needs: Needs
    lasts: timedelta
    reason: str = ""
    escalation: tuple[Escalation, ...] = ()
    hold: Hold = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The call may never run; `reason` is told to the model."""

    rule: str
    reason: str


Ruling = Allow | Ask | Deny


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """What a policy that is only tried out would have ruled, and by which rules."""

    ruling: Literal["allow", "ask", "deny"]
    rule: str
    lasts: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What a tool declares about taking its effect back, by a roll-back or a compensation (D8).

    `safe_if_absent` says that it does no harm where the effect did not happen.
    """

    safe_if_absent: bool = False
    idempotent: bool = False
    retries: int = 0
    backoff: timedelta = timedelta(seconds=1)
    time_limit: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a tool declares about trying again, and about taking back (D4, D8).

    `jitter_percent` is the most by which the pause before another attempt is made longer;
    `key_lasts` is for how long after the first attempt the other side is sure to know its key.
    """

    idempotent: bool = False
    probe: bool = False
    retries: int = 0
    backoff: timedelta = timedelta(seconds=1)
    time_limit: timedelta = timedelta(minutes=5)
    jitter_percent: int = 0
    key_lasts: timedelta | None = None
    roll_back: Undoing | None = None
    compensation: Undoing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """What an approver is told beside the action: none of it is digested, all of it is shown (H1).

    `effect` is the tool's own text, with places such as `{amount}` for the arguments it names.
    `preview` is what the tool says that it would change, such as a diff. `claim` is the model's
    own reason, and is marked as its claim. `cost` says which argument is what it costs, and
    `secrets` which of them are masked (H2).
    """

    effect: str = ""
    reversible: bool = False
    claim: str = ""
    preview: str = ""
    cost: Money | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An action but for its surface generation, which only the transaction knows (G3).

    `arguments` are those after validation, or the raw text of unreadable ones (G4). `salt` is
    128 bits in hexadecimal.
    """

    tenant: str
    session: str
    at: Occurrence
    tool_call_id: str
    tool: str
    tool_fingerprint: str
    arguments: Mapping[str, JsonValue] | str
    scope: tuple[str, ...]
    environment: str
    salt: str

    def document(self) -> dict[str, JsonValue]:
        """Give the JSON form that is stored, and, with the generation, digested."""
        if not isinstance(self.arguments, str):
            arguments: dict[str, JsonValue] = {"arguments": dict(self.arguments)}
        elif self.arguments.isascii() or not _LONE_SURROGATE.search(self.arguments):
            arguments = {"raw_arguments": self.arguments}
        else:  # Text that has no UTF-8 has no canonical form either, and is kept by its code units.
            arguments = {"raw_arguments_hex": self.arguments.encode("utf-8", "surrogatepass").hex()}
        return {
            "tenant": self.tenant,
            "session": self.session,
            "run": self.at.run,
            "step": self.at.step,
            "index": self.at.index,
            "tool_call_id": self.tool_call_id,
            "tool": self.tool,
            "tool_fingerprint": self.tool_fingerprint,
            **arguments,
            "scope": list(self.scope),
            "environment": self.environment,
            "salt": self.salt,
        }


def draft_from(document: Mapping[str, JsonValue]) -> Draft:
    """Read a `Draft` back from its stored JSON form; raises KeyError or TypeError if damaged."""
    if "raw_arguments_hex" in document:
        units = bytes.fromhex(str(document["raw_arguments_hex"]))
        arguments: JsonValue = units.decode("utf-8", "surrogatepass")
    elif "raw_arguments" in document:
        arguments = str(document["raw_arguments"])
    else:
        arguments = document["arguments"]
    if not isinstance(arguments, (dict, str)):
        raise TypeError("arguments are neither an object nor raw text")
    return Draft(
        tenant=str(document["tenant"]),
        session=str(document["session"]),
        at=Occurrence(
            str(document["run"]), int(str(document["step"])), int(str(document["index"]))
        ),
        tool_call_id=str(document["tool_call_id"]),
        tool=str(document["tool"]),
        tool_fingerprint=str(document["tool_fingerprint"]),
        arguments=arguments,
        scope=tuple(str(part) for part in _array(document["scope"])),
        environment=str(document["environment"]),
        salt=str(document["salt"]),
    )


def _array(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError("scope is not an array")
    return value


def action_digest(document: Mapping[str, JsonValue], *, generation: int) -> str:
    """Give the digest of an action: SHA-256 over the RFC 8785 form of its parts (G3)."""
    return digest_of({**document, "generation": generation})


def idempotency_key(digest: str) -> str:
    """Give the key of an action's attempts: the same for each of them, in any process (D4)."""
    return f"ik_{digest[:32]}"
