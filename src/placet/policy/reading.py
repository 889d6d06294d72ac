"""From the text of a policy file to a policy, or to all that is wrong with it and where.

Nothing is guessed and nothing is ignored: an unknown key, a wrong type, a group that is not there
or a rule that could never matter is a fault (G1).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import get_args

from placet.core.canonical import JsonValue
from placet.core.values import REQUESTER
from placet.policy.faults import Fault, PolicyTrouble
from placet.policy.fields import Fields, Table
from placet.policy.groups import folded, members
from placet.policy.lines import Path, lines_of
from placet.policy.reading_rules import HOLDS, approvers, rule_from
from placet.policy.rules import ANY, GROUP, Defaults, Delegation, Mode, Policy, Rule

#: What a file of this format says of itself.
VERSION = 1

#: The largest file, in bytes, and the most rules, waiting requests and groups that it may say.
MAX_BYTES = 256 * 1024
MAX_RULES = 500
MAX_WAITING = 10_000
MAX_GROUPS = 1_000

#: The most digits of a whole number, however it is written.
MAX_NUMBER = 1_000

MODES: tuple[Mode, ...] = get_args(Mode)
KEYS = ("version", "surfaces", "groups", "defaults", "delegation", "rule")
DEFAULTS = ("approvers", "deadline", "most_waiting", "hold")

#: How long a request waits where neither the file nor anything else says so.
LASTS = timedelta(hours=24)

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read(data: bytes, *, file: str) -> Policy:
    """Read a policy file, `file` being what it is called; raises PolicyTrouble."""
    fields, found = _parsed(data, file)
    if "version" not in found:
        fields.fault((), f"The file says no version: it begins with version = {VERSION}.")
    elif found["version"] is True or found["version"] != VERSION:
        fields.fault(("version",), f"version must be {VERSION}.")
    groups = _groups(fields, found)
    policy = Policy(
        rules=_rules(fields, found, groups),
        surfaces=_surfaces(fields, found),
        groups={name: tuple(people) for name, people in groups.items()},
        delegations=_delegations(fields, found),
        defaults=_defaults(fields, found, groups),
        document=_document(found),
    )
    if not fields.faults:
        _check_numbers(fields, policy)
        _check_spellings(fields, policy)
    if fields.faults:
        raise PolicyTrouble(file, fields.faults)
    return policy


def _parsed(data: bytes, file: str) -> tuple[Fields, Table]:
    if len(data) > MAX_BYTES:
        told = f"It is larger than {MAX_BYTES} bytes."
        raise PolicyTrouble(file, [Fault(line=0, message=told)])
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
        found = tomllib.loads(text, parse_float=Decimal)
        fields = Fields(lines_of(text))
        too_long = _too_long(found)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PolicyTrouble(file, [Fault(line=line, message="It is no UTF-8.")]) from error
    except RecursionError as error:
        told = "It is nested too deep."
        raise PolicyTrouble(file, [Fault(line=0, message=told)]) from error
    except (ValueError, ArithmeticError) as error:
        said = str(error)
        place = _PLACE.search(said)
        last = data.count(b"\n") + 1
        line = int(place[1]) if place and place[1] else last
        told = f"It is no TOML: {_PLACE.sub('', said)}."
        raise PolicyTrouble(file, [Fault(line=line, message=told)]) from error
    for path in too_long:
        fields.fault(path, f"There is a number with more than {MAX_NUMBER} digits.")
    if fields.faults:
        raise PolicyTrouble(file, fields.faults)
    return fields, fields.table(found, (), KEYS)


def _too_long(value: object, path: Path = ()) -> list[Path]:
    """Name the places of whole numbers that are too long to be written out, hexadecimal as well."""
    if isinstance(value, int):
        return [path] if abs(value) >= 10**MAX_NUMBER else []
    parts: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    return [at for name, part in parts for at in _too_long(part, (*path, name))]


def _rules(fields: Fields, found: Table, groups: Mapping[str, list[str]]) -> tuple[Rule, ...]:
    tables = fields.tables(found, (), "rule")
    if len(tables) > MAX_RULES:
        fields.fault(("rule", MAX_RULES), f"There are more than {MAX_RULES} rules.")
    rules = tuple(rule_from(fields, value, path, groups) for value, path in tables[:MAX_RULES])
    first: dict[str, int] = {}
    for rule, (_, path) in zip(rules, tables, strict=False):
        if rule.name and rule.name in first:
            told = f"Two rules are named {rule.name!r}; the other is in line {first[rule.name]}."
            fields.fault((*path, "name"), told)
        first.setdefault(rule.name, rule.line)
    return rules


def _surfaces(fields: Fields, found: Table) -> Mapping[str, Mode]:
    value = found.get("surfaces", {})
    if not isinstance(value, dict):
        fields.fault(("surfaces",), "surfaces must be a table.")
        return {}
    modes: dict[str, Mode] = {}
    for name in value:
        fields.name(name, ("surfaces", name), "The name of a surface")
        modes[name] = fields.word(value, ("surfaces",), name, MODES, must=True) or "enforce"
    return modes


# --- people -----------------------------------------------------------------------------------


def _groups(fields: Fields, found: Table) -> dict[str, list[str]]:
    value = found.get("groups", {})
    if not isinstance(value, dict):
        fields.fault(("groups",), "groups must be a table.")
        return {}
    if len(value) > MAX_GROUPS:
        fields.fault(("groups",), f"There are more than {MAX_GROUPS} groups.")
        return {}
    groups: dict[str, list[str]] = {}
    for name in value:
        path: Path = ("groups", name)
        fields.name(name, path, "The name of a group")
        if f"{GROUP}{name}" == REQUESTER or name.startswith(GROUP):
            fields.fault(path, f"No group can be named {name!r}.")
        if value[name] == []:
            groups[name] = []  # Nobody is in it for now: whatever asks it has no approver.
        else:
            groups[name] = list(fields.names(value, ("groups",), name))
    for name, people in groups.items():
        for place, person in enumerate(people):
            if person.startswith(GROUP) and person.removeprefix(GROUP) not in groups:
                fields.fault(("groups", name, place), f"There is no group {person}.")
        if _includes(groups, name):
            fields.fault(("groups", name), f"The group {name} includes itself.")
            groups[name] = []
    return groups


def _includes(groups: Mapping[str, list[str]], name: str) -> bool:
    """Say whether a group includes itself; each group is looked at once, in no depth of calls."""
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        for one in groups.get(ahead.pop(), []):
            inner = one.removeprefix(GROUP)
            if one.startswith(GROUP) and inner not in seen:
                if inner == name:
                    return True
                seen.add(inner)
                ahead.append(inner)
    return False


def _delegations(fields: Fields, found: Table) -> tuple[Delegation, ...]:
    delegations = []
    for value, path in fields.tables(found, (), "delegation"):
        table = fields.table(value, path, ("from", "to", "until"))
        giver = fields.name(table.get("from"), (*path, "from"), "from")
        deputy = fields.name(table.get("to"), (*path, "to"), "to")
        until = fields.instant(table, path, "until")
        for key, name in (("from", giver), ("to", deputy)):
            if name.startswith(GROUP):
                fields.fault((*path, key), f"{key} must be a person, and no group.")
        if giver and giver == deputy:
            fields.fault((*path, "to"), f"{giver} delegates to themselves.")
        if until is not None:
            delegations.append(Delegation(giver=giver, deputy=deputy, until=until))
    return tuple(delegations)


def _defaults(fields: Fields, found: Table, groups: Mapping[str, list[str]]) -> Defaults:
    path: Path = ("defaults",)
    table = fields.table(found.get("defaults", {}), path, DEFAULTS)
    return Defaults(
        approvers=approvers(fields, table, path, "approvers", groups),
        deadline=fields.duration(table, path, "deadline"),
        most_waiting=fields.whole(table, path, "most_waiting", most=MAX_WAITING),
        hold=fields.word(table, path, "hold", HOLDS) or "session",
    )


# --- the whole --------------------------------------------------------------------------------


def _check_numbers(fields: Fields, policy: Policy) -> None:
    """Find what can never be met: more people than there are, a step after the deadline."""
    for place, rule in enumerate(policy.rules):
        path: Path = ("rule", place)
        demands = rule.demands
        named = demands.approvers or policy.defaults.approvers
        people = members(policy, named)
        if named and demands.quorum > max(1, len(people)):
            fields.fault(
                (*path, "quorum"),
                f"quorum is {demands.quorum}, and only {len(people)} may approve.",
            )
        deadline = demands.deadline or policy.defaults.deadline or LASTS
        if any(step.after >= deadline for step in demands.escalation):
            fields.fault((*path, "escalate"), "A step of escalate comes after the deadline.")


def _check_spellings(fields: Fields, policy: Policy) -> None:
    """Find people who are written in two ways: they would count as two, and be one.

    Requesters that are patterns are no names.
    """
    first: dict[str, str] = {}
    for path, name in _spelled(policy):
        other = first.setdefault(folded(name), name)
        if other != name:
            fields.fault(path, f"{name!r} is {other!r} in another spelling: a person has one name.")


def _spelled(policy: Policy) -> Iterator[tuple[Path, str]]:
    """Name every person of a policy with the place where the name stands."""
    for group, people in policy.groups.items():
        for place, name in enumerate(people):
            yield ("groups", group, place), name
    for place, name in enumerate(policy.defaults.approvers):
        yield ("defaults", "approvers", place), name
    for place, delegation in enumerate(policy.delegations):
        yield ("delegation", place, "from"), delegation.giver
        yield ("delegation", place, "to"), delegation.deputy
    for number, rule in enumerate(policy.rules):
        for place, name in enumerate(rule.demands.approvers):
            yield ("rule", number, "approvers", place), name
        for step in rule.demands.escalation:
            for name in step.approvers:
                yield ("rule", number, "escalate"), name
        for selector in rule.selectors:
            if selector.kind == "requesters":
                for name in selector.patterns:
                    if ANY not in name:
                        yield ("rule", number, "requesters"), name


def _document(value: object) -> JsonValue:
    """Give what was read as JSON, in which nothing of two kinds looks alike."""
    match value:
        case dict():
            return {str(key): _document(each) for key, each in value.items()}
        case list():
            return [_document(each) for each in value]
        case str() | bool():
            return value
        case int() | Decimal():
            return {"number": str(value)}
        case datetime(tzinfo=tzinfo) if tzinfo is not None:
            return {"instant": value.astimezone(UTC).isoformat()}
        case datetime() | date() | time():
            return {"time": value.isoformat()}
        case _:
            return str(value)
