"""Which calls have succeeded in a session before, by kind: what `first_of_its_kind` asks.

The record itself says it. It is read once for each session and process, and from there on only
what is new in it, so that a step costs the same however long the session has grown (D6). What is
kept are digests of the values that make a kind, and no arguments.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placet.core.canonical import JsonValue
from placet.core.codec import decode_event
from placet.core.errors import NotFound
from placet.core.events import CallEnded, CallProposed, EffectUnwound
from placet.core.values import Occurrence, draft_from
from placet.stores.store import Store

#: Of how many sessions a process keeps what it has read.
SESSIONS_KEPT = 64

#: What becomes of an effect that a saga takes back.
TAKEN_BACK = ("rolled_back", "compensated")

Kind = tuple[str, ...]

_KINDS = frozenset({"CallProposed", "CallEnded", "EffectUnwound"})


@dataclass(slots=True)
class _Session:
    """What was read of a session up to a seq: actions that are open, and those that succeeded.

    `places` has the tool and the action of what succeeded.
    """

    seq: int = 0
    actions: dict[Occurrence, str] = field(default_factory=dict)
    places: dict[Occurrence, tuple[str, str]] = field(default_factory=dict)
    done: dict[str, list[str]] = field(default_factory=dict)
    digests: dict[tuple[str, Kind], tuple[int, set[str]]] = field(default_factory=dict)


class Succeeded:
    """What has succeeded, for the sessions that a process asks about."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], _Session] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def seen(
        self,
        store: Store,
        tenant: str,
        session: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        kinds: Iterable[Kind],
    ) -> Mapping[Kind, bool]:
        """Say of each kind whether a call of it has succeeded; one that has no values is left out.

        Raises StoreTrouble.
        """
        from placet.policy.conditions import kind_values  # Where there is a policy file alone.

        with self._one_at_a_time:
            known = self._caught_up(store, tenant, session)
            found: dict[Kind, bool] = {}
            for kind in kinds:
                digest = kind_values(arguments, kind)
                if digest is not None:
                    digests = _digests(known, store, (tenant, session), tool, kind)
                    found[kind] = digest in digests
            return found

    def _caught_up(self, store: Store, tenant: str, session: str) -> _Session:
        known = self._sessions.setdefault((tenant, session), _Session())
        self._sessions.move_to_end((tenant, session))
        while len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        for recorded in store.events(tenant, session, after=known.seq):
            known.seq = recorded.seq
            if recorded.kind not in _KINDS:
                continue
            match decode_event(recorded.kind, recorded.body):
                case CallProposed(at=at, action=action):
                    known.actions[at] = action.ref
                case CallEnded(at=at, tool=tool, code=code):
                    ref = known.actions.pop(at, None)
                    if code == "succeeded" and ref is not None:
                        known.done.setdefault(tool, []).append(ref)
                        known.places[at] = (tool, ref)
                case EffectUnwound(at=at, outcome=outcome) if outcome in TAKEN_BACK:
                    _take_back(known, at)
                case _:
                    pass
        return known


def _take_back(known: _Session, at: Occurrence) -> None:
    """Forget what succeeded and was taken back: the next one is the first of its kind again."""
    tool, ref = known.places.pop(at, ("", ""))
    if ref in known.done.get(tool, []):
        known.done[tool].remove(ref)
        for of in [of for of in known.digests if of[0] == tool]:
            del known.digests[of]


def _digests(
    known: _Session, store: Store, where: tuple[str, str], tool: str, kind: Kind
) -> set[str]:
    """Give the digests of a kind, with those of what has succeeded since the last time."""
    done = known.done.get(tool, [])
    upto, digests = known.digests.get((tool, kind), (0, set()))
    for ref in done[upto:]:
        if (digest := _digest(store, where, ref, kind)) is not None:
            digests.add(digest)
    known.digests[tool, kind] = (len(done), digests)
    return digests


def _digest(store: Store, where: tuple[str, str], ref: str, kind: Kind) -> str | None:
    from placet.policy.conditions import kind_values

    if not kind:
        return kind_values({}, kind)
    try:
        arguments = draft_from(json.loads(store.payload(*where, ref))).arguments
    except (NotFound, ValueError, KeyError, TypeError):  # Erased or damaged: it stands for nothing.
        return None
    return None if isinstance(arguments, str) else kind_values(arguments, kind)
