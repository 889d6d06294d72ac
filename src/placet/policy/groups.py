"""The people of a policy: whom groups stand for, and who decides in another's place."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from placet.core.values import REQUESTER, without
from placet.policy.rules import GROUP, Policy


def members(policy: Policy, names: Iterable[str]) -> tuple[str, ...]:
    """Give the people whom names stand for, each once: in a group's place stand its members.

    Whoever a run acts for, and a group that is not there, stay as they are named.
    """
    return tuple(dict.fromkeys(people_in(policy.groups, names)))


def people_in(groups: Mapping[str, Iterable[str]], names: Iterable[str]) -> Iterator[str]:
    """Name people in their order, each group's members in its place, and each group once.

    It looks at each group once and into no depth of calls, so that no file takes long or fails.
    """
    seen: set[str] = set()
    ahead = [iter(names)]
    while ahead:
        name = next(ahead[-1], None)
        if name is None:
            ahead.pop()
            continue
        group = groups.get(name.removeprefix(GROUP)) if name.startswith(GROUP) else None
        if group is None or name == REQUESTER:
            yield name
        elif name not in seen:
            seen.add(name)
            ahead.append(iter(group))


def folded(name: str) -> str:
    """Give what names have in common that differ only by case, or by how characters are coded."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def named(policy: Policy) -> frozenset[str]:
    """Give all the people whom a policy has decide anything, and their deputies."""
    people = asked_ever(policy)
    deputies = {each.deputy for each in policy.delegations if each.giver in people}
    return frozenset((people | deputies) - {REQUESTER})


def asked_ever(policy: Policy) -> frozenset[str]:
    """Give whom a policy itself has decide anything, at once or after a while."""
    demands = [each.demands for each in policy.rules]
    lists = [policy.defaults.approvers, *(each.approvers for each in demands)]
    lists += [step.approvers for each in demands for step in each.escalation]
    return frozenset(person for each in lists for person in members(policy, each))


def with_deputies(
    policy: Policy, people: Iterable[str], *, now: datetime, but: str | None = None
) -> tuple[str, ...]:
    """Give people, and those who may decide in their place at an instant.

    What was delegated is not passed on. `but` is somebody whose deputies do not count: a requester
    who may not decide has nobody else do so.
    """
    chosen = tuple(people)
    return tuple(dict.fromkeys((*chosen, *deputies(policy, chosen, now=now, but=but))))


def deputies(
    policy: Policy, people: Iterable[str], *, now: datetime, but: str | None = None
) -> dict[str, datetime]:
    """Give those alone who may decide in people's place at an instant, and until when each may."""
    givers = {*people} if but is None else without(people, but)
    found: dict[str, datetime] = {}
    for each in policy.delegations:
        if each.giver in givers and now < each.until:
            found[each.deputy] = max(each.until, found.get(each.deputy, each.until))
    return found
