"""The card: what an approver is shown. One function makes it for every surface (H1).

Every text in it has its secrets masked and is made visible here (H2), so that a surface only lays
it out and escapes it for its own markup: placet.core.card_parts does the first, and the surfaces of
placet.core.card_surfaces the second. Nothing is cut here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from placet.core import wording
from placet.core.canonical import JsonValue
from placet.core.card_words import Language, said
from placet.core.display import is_unmistakable, visible
from placet.core.masking import Masking
from placet.core.money import Money, written
from placet.core.retelling import retold, retold_end
from placet.core.state import (
    Answered,
    Approved,
    Call,
    Cancelled,
    Delivery,
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
from placet.core.values import CallCode, Draft, Escalation, RequestKind, idempotency_key

#: The state of a request in one word.
RequestStatus = Literal[
    "waiting",
    "approved",
    "spent",
    "rejected",
    "superseded",
    "voided",
    "expired",
    "unreachable",
    "cancelled",
    "settled",
    "answered",
]

#: How an attempt ended: it may have acted, it did not, nobody knows, or it is to be taken back.
AttemptEnd = Literal["failed", "not_done", "lost", "succeeded"]

#: A value deeper in the arguments than this is shown as JSON.
MOST_UNFOLDED = 6

#: A list of plain values whose JSON is not longer than this stands on one line.
MOST_LISTED = 80

#: Where a tool's `effect` says an argument.
PLACE = re.compile(r"\{(\w+)\}")

_PLAIN_NAME = re.compile(r"[^\W\d][\w-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of an action: its arguments, and what its tool declared for people to read."""

    tool: str
    arguments: Mapping[str, JsonValue] | str
    display: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An earlier attempt at a call that did not succeed, and why; or at taking it back.

    `number` counts either by itself, and `at` is when it began.
    """

    number: int
    end: AttemptEnd
    cause: str
    at: datetime | None = None
    taking_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """How the same call ended when it was proposed before in the run, and how often it was."""

    code: CallCode
    times: int
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Whether a channel has told people of the request, and why its latest notice did not leave."""

    channel: str
    delivered: bool
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The texts of a card, as they are stored: what stands elsewhere by reference.

    `display` is what the tool declared, `grounds` why it is asked, `claim` the model's own words,
    `changes` what an edit or a void changed, `replaced` the request whose place this one takes,
    `versions` those of the call, and of others that are told of: what any of them keeps secret is
    not told. `causes` says by channel why a notice could not be delivered. `undo_key` is the key
    under which the call was being taken back.
    """

    display: Mapping[str, JsonValue]
    grounds: str = ""
    claim: str = ""
    changes: str = ""
    replaced: Request | None = None
    versions: Sequence[Version] = ()
    attempts: Sequence[Attempt] = ()
    earlier: Earlier | None = None
    causes: Mapping[str, str] = field(default_factory=dict)
    undo_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value within the arguments: where it stands, as `order.items[0].name`, and itself.

    A text stands without quotes, its line ends kept; any other value stands as JSON.
    """

    path: str
    shown: str
    is_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an edit did to an argument: its JSON before and after, where it was there."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who else is asked from an instant on, before the deadline; nobody else: they are reminded."""

    at: datetime
    approvers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is shown of a request; its words are in `language`.

    `arguments` are (name, value) in their order, as JSON texts, and `fields` the same value by
    value. `changed` names what had changed where the request before was voided. `attempts` counts
    those at the action, and `undoing` those at taking it back, which have a key of their own.
    """

    request: str
    kind: RequestKind
    status: RequestStatus
    language: Language
    digest: str
    version: int
    replaces: str
    session: str
    run: str
    parent: str
    agent: str
    requester: str
    tool: str
    arguments: tuple[tuple[str, str], ...]
    fields: tuple[Field, ...]
    raw_arguments: str | None
    effect: str
    cost: str
    preview: str
    reversible: bool
    claim: str
    reason: str
    rule: str
    changes: str
    edits: tuple[Change, ...]
    edited_by: str
    changed: tuple[str, ...]
    attempts: int
    undoing: int
    failures: tuple[Attempt, ...]
    earlier: Earlier | None
    key: str
    undo_key: str
    approvers: tuple[str, ...]
    quorum: int
    votes: tuple[str, ...]
    escalation: tuple[Asking, ...]
    channels: tuple[Told, ...]
    opened_at: datetime
    deadline_at: datetime
    then: str


def card_of(
    request: Request,
    call: Call,
    run: Run,
    draft: Draft,
    story: Story,
    *,
    now: datetime | None = None,
    salt: str = "",
    language: Language = "en",
) -> Card:
    """Make the card of a request from what is stored of it.

    Its approvers are those who may decide at `now`, or when it was opened. `salt`, the session's in
    hexadecimal, keys the fingerprints of masked secrets.
    """
    display = story.display
    own = Version(tool=draft.tool, arguments=draft.arguments, display=display)
    masking = masking_for(display, (own, *story.versions), salt=salt, language=language)
    shown = masked_arguments(masking, draft.arguments)
    show = _Showing(masking)
    replaced = story.replaced.state if story.replaced is not None else None
    edits = tuple(map(show.change, changes_of(story.changes) or ()))
    return Card(
        request=show.name(request.id),
        kind=request.kind,
        status=status_of(request),
        language=language,
        digest=request.digest,
        version=request.version,
        replaces=show.name(request.replaces or ""),
        session=show.name(draft.session),
        run=show.name(run.id),
        parent=show.name(run.parent.run if run.parent is not None else ""),
        agent=show.name(run.agent),
        requester=show.name(request.requester),
        tool=show.name(request.tool),
        arguments=tuple((visible(name), _json(value)) for name, value in shown.items()),
        fields=tuple(f for name, value in shown.items() for f in _fields(_step(name), value, 0)),
        raw_arguments=show.inert(draft.arguments) if isinstance(draft.arguments, str) else None,
        effect=visible(show.effect(str(display.get("effect") or ""), draft.arguments, shown)),
        cost=_cost(display.get("cost"), draft.arguments, shown, language),
        preview=show.own(str(display.get("preview") or "")),
        reversible=bool(display.get("reversible", False)),
        claim=show.told(story.claim),
        reason=show.own(story.grounds),
        rule=show.name(request.rule),
        changes=show.changes(story.changes),
        edits=edits,
        edited_by=show.name(replaced.by) if isinstance(replaced, Superseded) else "",
        changed=tuple(map(show.name, replaced.changed)) if isinstance(replaced, Voided) else (),
        attempts=call.ran or call.attempts,
        undoing=call.attempts - call.ran if call.ran else 0,
        failures=tuple(map(show.attempt, story.attempts)),
        earlier=None if story.earlier is None else show.earlier(story.earlier),
        key=idempotency_key(call.digest) if request.kind == "settlement" else "",
        undo_key=show.name(story.undo_key) if request.kind == "settlement" else "",
        approvers=tuple(map(show.name, sorted(request.people(now or request.opened_at)))),
        quorum=request.needs.quorum,
        votes=tuple(map(show.name, _votes(request))),
        escalation=tuple(show.escalation(request, each) for each in request.escalation),
        channels=tuple(show.delivery(each, story.causes) for each in request.deliveries),
        opened_at=request.opened_at,
        deadline_at=request.deadline_at,
        then=said(language, f"then.{request.kind}") if isinstance(request.state, Open) else "",
    )


def status_of(request: Request) -> RequestStatus:
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
        case Expired(unreachable=channels):
            return "unreachable" if channels else "expired"
        case Cancelled():
            return "cancelled"
        case Settled():
            return "settled"
        case Answered():
            return "answered"


def _votes(request: Request) -> tuple[str, ...]:
    return request.state.votes if isinstance(request.state, (Open, Approved, Spent)) else ()


def changes_of(stored: str) -> list[dict[str, JsonValue]] | None:
    """Read what an edit changed, or give None where the text is a sentence (of a void)."""
    try:
        found = json.loads(stored)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def masking_for(
    display: Mapping[str, JsonValue],
    versions: Iterable[Version],
    *,
    salt: str,
    language: Language,
) -> Masking:
    """Give how the secrets of an action are masked, on its card and in whatever is told beside it.

    What any of the `versions` keeps secret, by what its own tool declared, is told nowhere.
    """
    masking = Masking(salt=salt, language=language)
    for version in versions:
        masking = replace(masking, fields=_secret_fields(version.display))
        masking = masking.knowing(version.arguments)
    return replace(masking, fields=_secret_fields(display))


def _secret_fields(display: Mapping[str, JsonValue]) -> tuple[str, ...]:
    found = display.get("secrets")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def masked_arguments(
    masking: Masking, arguments: Mapping[str, JsonValue] | str
) -> dict[str, JsonValue]:
    """Give arguments with their secrets masked; of what cannot be read there are none."""
    found = masking.value(dict(arguments)) if isinstance(arguments, Mapping) else {}
    assert isinstance(found, dict), "a masked object is an object"
    return found


def fields_of(masking: Masking, arguments: Mapping[str, JsonValue]) -> tuple[Field, ...]:
    """Show arguments value by value, as a card does."""
    shown = masked_arguments(masking, arguments)
    return tuple(f for name, value in shown.items() for f in _fields(_step(name), value, 0))


class _Showing:
    """Shows the texts of one card: secrets masked first, and then all of it made visible."""

    def __init__(self, masking: Masking) -> None:
        self._masking = masking

    def name(self, text: str) -> str:
        """Show a text of one line."""
        return visible(self._masking.text(text))

    def inert(self, text: str) -> str:
        """Show what can never run as it is: arguments that cannot be read (G4)."""
        return visible(self._masking.text(text, is_inert=True))

    def told(self, text: str) -> str:
        """Show what somebody told, in its lines, without what the arguments keep secret."""
        return visible(self._masking.told(text), keep_newlines=True)

    def own(self, text: str) -> str:
        """Show what may be a sentence of placet's own as `told` does, in the card's language."""
        told = retold(self._masking.language, self._masking.told(text))
        return visible(told, keep_newlines=True)

    def attempt(self, attempt: Attempt) -> Attempt:
        """Show an earlier attempt."""
        return replace(attempt, cause=self.own(attempt.cause))

    def earlier(self, earlier: Earlier) -> Earlier:
        """Show an earlier proposal of the call."""
        told = retold_end(self._masking.language, self._masking.told(earlier.told))
        return replace(earlier, told=visible(told, keep_newlines=True))

    def escalation(self, request: Request, step: Escalation) -> Asking:
        """Show who else is asked, and from when on."""
        people = tuple(map(self.name, step.approvers))
        return Asking(at=request.since + step.after, approvers=people)

    def delivery(self, delivery: Delivery, causes: Mapping[str, str]) -> Told:
        """Show what became of the notices on a channel."""
        cause = self.own(causes.get(delivery.channel, ""))
        channel = self.name(delivery.channel)
        return Told(channel=channel, delivered=delivery.delivered, cause=cause)

    def change(self, change: Mapping[str, JsonValue]) -> Change:
        """Show a change of an edit; one without a name replaced what could not be read."""
        if "name" not in change:
            return Change(name="", old=None, new=None)
        masked = self._masked(change)
        old, new = (_json(masked[side]) if side in masked else None for side in ("old", "new"))
        return Change(name=_step(str(masked["name"])), old=old, new=new)

    def changes(self, stored: str) -> str:
        """Show what was changed: an edit's list is masked by name, a sentence by its shapes."""
        found = changes_of(stored)
        if found is None:
            return self.own(stored)
        return visible(wording.changes(map(self._masked, found)))

    def effect(
        self,
        template: str,
        arguments: Mapping[str, JsonValue] | str,
        shown: Mapping[str, JsonValue],
    ) -> str:
        """Fill an effect with the arguments as they are shown, so that it holds no more than they.

        In one pass, so that what an argument holds is never filled in itself. `shown` has the
        arguments in their order, but a name that holds a secret is another one there.
        """
        texts = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in zip(arguments, shown.values(), strict=False)
        }
        return PLACE.sub(lambda place: texts.get(place[1], place[0]), self._masking.text(template))

    def _masked(self, change: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Mask both sides of a change as the argument of its name is masked."""
        copy = dict(change)
        for side in change.keys() & {"old", "new"}:
            one = masked_arguments(self._masking, {str(change["name"]): change[side]})
            ((copy["name"], copy[side]),) = one.items()
        return copy


def _cost(
    stored: JsonValue,
    arguments: Mapping[str, JsonValue] | str,
    shown: Mapping[str, JsonValue],
    language: Language,
) -> str:
    """Write out what an action costs, where its tool says; an amount that is secret stays so."""
    if not isinstance(stored, dict) or isinstance(arguments, str):
        return ""
    money = Money(str(stored["field"]), str(stored["currency"]), int(str(stored["places"])))
    amount = money.amount(shown)
    if amount is not None:
        return f"{written(amount)} {money.currency}"
    value = _json(money.found(shown))
    return said(language, "cost.unreadable", value=value, currency=money.currency)


def _fields(path: str, value: JsonValue, depth: int) -> list[Field]:
    """Give the values within one, which is masked already, each by its path."""
    if isinstance(value, str):
        return [Field(path=path, shown=visible(value, keep_newlines=True), is_text=True)]
    inner: list[tuple[str, JsonValue]] = []
    if isinstance(value, dict) and depth < MOST_UNFOLDED:
        inner = [(_step(name, path), part) for name, part in value.items()]
    elif isinstance(value, list) and depth < MOST_UNFOLDED and not _is_short(value):
        inner = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    if not inner:
        return [Field(path=path, shown=_json(value), is_text=False)]
    return [field for name, part in inner for field in _fields(name, part, depth + 1)]


def _is_short(value: list[JsonValue]) -> bool:
    plain = not any(isinstance(part, (dict, list)) for part in value)
    return plain and len(_json(value)) <= MOST_LISTED


def _step(name: str, path: str = "") -> str:
    """Give the path of a name under a path; a name that is not plain stands in quotes.

    So does one that could be taken for another: it does not stand bare beside its double.
    """
    if _PLAIN_NAME.fullmatch(name) and visible(name) == name and is_unmistakable(name):
        return f"{path}.{name}" if path else name
    return f"{path}[{_json(name)}]"


def _json(value: JsonValue) -> str:
    return visible(json.dumps(value, ensure_ascii=False))
