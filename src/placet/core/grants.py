"""Standing grants: what a person permits once for calls to come, and which calls that covers (G12).

A grant answers `ask`, never `deny`. It names every argument of the calls that it covers: those that
must be as they were in the approved one, and those that may have any value. It ends by an instant
and by a count, with its run or session, with the tool's fingerprint and with the policy under which
it was given; it reaches child runs only where it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from placet.core.canonical import JsonValue, digest_of
from placet.core.errors import InvalidInput
from placet.core.proposals import Sound
from placet.core.state import Grant, Session
from placet.core.values import Ask, GrantTerms

#: How many grants a session holds at once, how long one lasts at most, and for how many calls.
MOST_GRANTS = 20
MOST_LASTS = timedelta(days=7)
MOST_USES = 1_000


def checked(terms: GrantTerms, arguments: Mapping[str, JsonValue]) -> None:
    """Hold terms against the call that they are given with; raises InvalidInput."""
    named = {*terms.same, *terms.any}
    if not timedelta(0) < terms.lasts <= MOST_LASTS or not 1 <= terms.uses <= MOST_USES:
        raise InvalidInput(
            "invalid_grant",
            f"A grant lasts for up to {MOST_LASTS.days} days, and for 1 to {MOST_USES:,} calls.",
        )
    if set(terms.same) & set(terms.any):
        raise InvalidInput("invalid_grant", "An argument is the same, or may be any, and not both.")
    if unknown := sorted(named - set(arguments)):
        raise InvalidInput("invalid_grant", f"The call has no argument {unknown[0]!r}.")
    if missing := sorted(set(arguments) - named):
        raise InvalidInput(
            "invalid_grant",
            f"The grant says nothing of the argument{'s' if missing[1:] else ''}"
            f" {', '.join(map(repr, missing))}.",
            hint="Say of each argument whether it must be the same (--same a,b) or may be any"
            " (--any c,d).",
        )


def same_key(
    salt: str, tool: str, arguments: Mapping[str, JsonValue], same: tuple[str, ...]
) -> str:
    """Give what stands for the values that a grant fixes; it tells nobody who has no salt."""
    fixed = {name: arguments[name] for name in sorted(same)}
    return digest_of({"salt": salt, "tool": tool, "same": fixed})


def terms_digest(terms: GrantTerms) -> str:
    """Give what tells terms from others: the same yes with the same ones is the same answer."""
    document: dict[str, JsonValue] = {
        "scope": terms.scope,
        "lasts": terms.lasts // timedelta(microseconds=1),
        "uses": terms.uses,
        "same": [*sorted(terms.same)],
        "any": [*sorted(terms.any)],
        "children": terms.children,
    }
    return digest_of(document)


def covering(state: Session, call: Sound, policy_version: str) -> Grant | None:
    """Give the grant that lets a call run which policy asks about, if there is one."""
    if call.kind != "effect" or isinstance(call.draft.arguments, str):
        return None
    for grant in sorted(state.grants.values(), key=lambda each: (each.until, each.id)):
        if (
            _is_live(state, grant, policy_version)
            and _covers(state, grant, call)
            and _suffices(state, grant, call)
        ):
            return grant
    return None


def _suffices(state: Session, grant: Grant, call: Sound) -> bool:
    """Say whether the giver alone might approve the call, as it is asked about now (G10).

    Who gave it knew the reasons of the rule that asked then, and of no other.
    """
    if not isinstance(call.ruling, Ask) or call.ruling.rule != grant.rule:
        return False
    requester = state.runs[call.draft.at.run].requester
    return call.ruling.needs.quorum == 1 and grant.by in call.ruling.needs.people(requester)


def _is_live(state: Session, grant: Grant, policy_version: str) -> bool:
    return state.now < grant.until and grant.left > 0 and grant.policy_version == policy_version


def _covers(state: Session, grant: Grant, call: Sound) -> bool:
    draft = call.draft
    assert not isinstance(draft.arguments, str), "what cannot be read is never covered"
    tool = (draft.tool, draft.tool_fingerprint, draft.scope, call.surface)
    if tool != (grant.tool, grant.tool_fingerprint, grant.scope, grant.surface):
        return False
    if {*grant.same, *grant.any} != set(draft.arguments):
        return False
    if same_key(state.salt, draft.tool, draft.arguments, grant.same) != grant.same_key:
        return False
    return reaches(state, grant, draft.at.run)


def reaches(state: Session, grant: Grant, run: str) -> bool:
    """Say whether a run is the grant's, or one under it where it reaches those."""
    while True:
        parent = state.runs[run].parent
        if run == grant.run or (grant.run is None and parent is None):
            return True
        if parent is None or not grant.children:
            return False
        run = parent.run
