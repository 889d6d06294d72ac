"""Deciding about standing grants: given with an approval, and taken back (G12)."""

from __future__ import annotations

import json

from placet.core import commands as c
from placet.core import events as e
from placet.core.canonical import digest_of, short_id
from placet.core.deciders import check_person
from placet.core.errors import Conflict, InvalidInput, NotFound, NotPermitted, Refusal
from placet.core.grants import MOST_GRANTS, checked, same_key, terms_digest
from placet.core.state import Request
from placet.core.unfolding import Unfolding
from placet.core.values import draft_from


def same_grant(command: c.Approve, request: Request) -> None:
    """Refuse a grant that is asked for with a yes that was said before without it."""
    if command.grant is not None and terms_digest(command.grant) != request.granted:
        raise Conflict(
            "already_approved",
            f"{command.by.id} has approved it without this grant, and that stands.",
            hint=f"Take it back, and approve with the grant: `placet withdraw {request.id}`.",
            request_id=request.id,
        )


def grant_with(so_far: Unfolding, command: c.Approve, request: Request) -> e.GrantGiven:
    """Make the grant that a person gives with an approval (G12)."""
    terms, call = command.grant, so_far.call(request.at)
    assert terms is not None, "only what is asked for is given"
    if request.needs.quorum > 1:
        raise NotPermitted(
            "grant_needs_one",
            "What several people must approve, one person cannot permit for calls to come.",
            request_id=request.id,
        )
    if command.by.id not in request.needs.people(request.requester):
        raise NotPermitted(
            "grant_needs_asked",
            f"{command.by.id} decides in place of others, and cannot permit calls to come.",
            hint="Approve this call alone; a grant is given by who is asked from the first.",
            request_id=request.id,
        )
    if call.kind != "effect":
        raise InvalidInput("invalid_grant", "Only an effect can be permitted for calls to come.")
    if terms.scope == "session" and so_far.run(call.at.run).parent and not terms.children:
        raise InvalidInput(
            "invalid_grant",
            "The call is an agent's under another: a grant for the session would not cover it.",
            hint="Give it for this run, or for child runs, too.",
        )
    live = [each for each in so_far.state.grants.values() if so_far.state.now < each.until]
    if len(live) >= MOST_GRANTS:
        raise Refusal(
            "too_many_grants",
            f"{len(live)} grants stand in this session.",
            hint="`placet grants` lists them, and `placet revoke` takes one back.",
        )
    if so_far.text(command.action).ref != request.action_ref:
        raise Conflict(
            "digest_mismatch",
            "The action is not the one that is stored.",
            hint="Run `placet audit verify`.",
            request_id=request.id,
        )
    arguments = draft_from(json.loads(command.action)).arguments
    assert not isinstance(arguments, str), "what cannot be read is not approved"
    checked(terms, arguments)
    return e.GrantGiven(
        grant=short_id("gr", digest_of({"request": request.digest, "seq": so_far.state.seq})),
        by=command.by.id,
        request=request.id,
        tool=call.tool,
        tool_fingerprint=call.tool_fingerprint,
        scope=call.scope,
        surface=call.surface,
        policy_version=command.policy_version or request.policy_version,
        rule=request.rule,
        terms=terms_digest(terms),
        same_key=same_key(so_far.state.salt, call.tool, arguments, terms.same),
        until=so_far.state.now + terms.lasts,
        uses=terms.uses,
        run=request.at.run if terms.scope == "run" else None,
        same=terms.same,
        any=terms.any,
        children=terms.children,
        via=command.via,
    )


def revoke(so_far: Unfolding, command: c.Revoke) -> None:
    """Take a standing grant back; any approver may, and who gave it."""
    check_person(command.by)
    grant = so_far.state.grants.get(command.grant)
    if grant is None:
        raise NotFound(
            "grant_not_found",
            "There is no such grant in this session, or it has ended.",
            hint="`placet grants` lists those that stand.",
            grant=command.grant,
        )
    if command.by.id not in command.eligible | {grant.by}:
        raise NotPermitted("not_an_approver", f"{command.by.id} may not revoke it.")
    so_far.add(e.GrantRevoked(grant=grant.id, by=command.by.id, via=command.via))
