"""Whether a grant was given as it might be, and covers what was begun under it (G12, H4).

The values that it fixes stand on record keyed alone: they are held against the arguments of the
action that was approved, and of each call that counts on it, where those texts can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from placet.core import events as e
from placet.core.canonical import JsonValue
from placet.core.grants import MOST_LASTS, MOST_USES, reaches, same_key, terms_digest
from placet.core.state import Allowed, Call, Grant, Session
from placet.core.values import GrantTerms, Occurrence
from placet.runtime.permitted_calls import votes_of

#: Gives the arguments of an action by its reference: None where they cannot be had here, raw text
#: where what was proposed could not be read.
Arguments = Callable[[str], Mapping[str, JsonValue] | str | None]


def given(state: Session, event: e.GrantGiven, arguments: Arguments) -> Iterable[str]:
    """Hold a grant to the approval that it came with, to its terms, and to the action."""
    request = state.requests[event.request]
    call = state.calls[request.at]
    of_call = (call.tool, call.tool_fingerprint, call.scope, call.surface, request.rule)
    if (event.tool, event.tool_fingerprint, event.scope, event.surface, event.rule) != of_call:
        yield "it permits another tool than was asked about"
    asked = request.needs.people(request.requester)
    if event.by not in votes_of(request) or event.by not in asked or request.needs.quorum != 1:
        yield "it does not come with the approval that may give it"
    if call.kind != "effect" or event.grant in state.grants:
        yield "it permits what no grant may, or what one does already"
    if event.run not in (None, request.at.run):
        yield "it permits calls of another run than asked"
    if event.run is None and state.runs[request.at.run].parent is not None and not event.children:
        yield "it does not reach the run that asked"
    lasts = event.until - state.now
    if not timedelta(0) < lasts <= MOST_LASTS or not 1 <= event.uses <= MOST_USES:
        yield "it lasts longer, or for more calls, than a grant may"
    if event.terms and event.terms != terms_digest(_terms(event, lasts)):
        yield "it permits otherwise than was asked for"
    if {*event.same} & {*event.any}:
        yield "an argument is the same, or may be any, and not both"
    found = arguments(request.action_ref)
    if found is not None and not _names_all(event, found):
        yield "it names other arguments than were approved"
    elif found is not None and not _fixes(state, event, event.tool, found):
        yield "it fixes other values than were approved"


def _terms(event: e.GrantGiven, lasts: timedelta) -> GrantTerms:
    return GrantTerms(
        scope="session" if event.run is None else "run",
        lasts=lasts,
        uses=event.uses,
        same=event.same,
        any=event.any,
        children=event.children,
    )


def proposed(state: Session, event: e.CallProposed, arguments: Arguments) -> Iterable[str]:
    """Hold a call of which nobody was asked to the grant that it names for that."""
    if event.grant is None:
        return
    of_call = (event.tool, event.tool_fingerprint, event.scope, event.surface)
    yield from _under(state, event.grant, event.at, of_call, arguments(event.action.ref))
    grant = state.grants.get(event.grant)
    if grant is not None and grant.rule not in ("", event.rule):
        yield "the grant that it counts on answers another rule"


def begun(state: Session, event: e.AttemptBegun, arguments: Arguments) -> Iterable[str]:
    """Hold an effect to the grant that it counts on."""
    if event.grant is None:
        return
    call: Call = state.calls[event.at]
    if not isinstance(call.state, Allowed):
        yield "it counts on a grant, and was asked about, or had begun"
    of_call = (call.tool, call.tool_fingerprint, call.scope, call.surface)
    yield from _under(state, event.grant, event.at, of_call, arguments(call.action_ref))


def _under(
    state: Session,
    grant_id: str,
    at: Occurrence,
    of_call: tuple[str, str, tuple[str, ...], str],
    arguments: Mapping[str, JsonValue] | str | None,
) -> Iterable[str]:
    grant = state.grants.get(grant_id)
    if grant is None:
        yield "the grant that it counts on does not stand"
        return
    if (grant.tool, grant.tool_fingerprint, grant.scope, grant.surface) != of_call:
        yield "the grant that it counts on is of another tool"
    if state.now >= grant.until or grant.left < 1:
        yield "the grant that it counts on has ended"
    if not reaches(state, grant, at.run):
        yield "the grant that it counts on is of another run"
    if arguments is not None and not (
        _names_all(grant, arguments) and _fixes(state, grant, grant.tool, arguments)
    ):
        yield "the grant that it counts on is for other arguments"


def _names_all(grant: Grant | e.GrantGiven, arguments: Mapping[str, JsonValue] | str) -> bool:
    """Say whether a grant names every argument, and no other; what cannot be read has none."""
    return not isinstance(arguments, str) and {*grant.same, *grant.any} == set(arguments)


def _fixes(
    state: Session,
    grant: Grant | e.GrantGiven,
    tool: str,
    arguments: Mapping[str, JsonValue] | str,
) -> bool:
    """Say whether the values that a grant fixes are these; without the salt nobody knows."""
    if isinstance(arguments, str) or not state.salt:
        return True
    return same_key(state.salt, tool, arguments, grant.same) == grant.same_key
