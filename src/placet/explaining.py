"""How a call would be ruled, and why: by the real rulings, and nothing comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from placet.core.canonical import JsonValue, Unreadable, parse_arguments
from placet.core.errors import InvalidInput
from placet.policy.conditions import Facts
from placet.policy.explaining import explained
from placet.policy.ruling import Ruled
from placet.runtime.authority import Authority
from placet.runtime.declarations import Declaration, InvalidArguments
from placet.runtime.engine import Engine
from placet.runtime.proposing import Toolbox
from placet.runtime.rulings import Look, Rulings, facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """An agent's tools, and the agents that it stands under."""

    toolbox: Toolbox
    above: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A ruling, the call that it would be on, and the explanation in lines."""

    ruled: Ruled
    facts: Facts
    lines: tuple[str, ...]


class Explaining:
    """Explains how calls of the tools that a process has would be ruled."""

    offices: tuple[Office, ...]

    def __init__(self, engine: Engine, authority: Authority, offices: Iterable[Office]) -> None:
        self._engine = engine
        self._authority = authority
        self.offices = tuple(offices)

    async def explain(
        self,
        tool: str,
        arguments: str | Mapping[str, Any],
        *,
        agent: str = "",
        session: str = "",
        requester: str = "",
    ) -> Explained:
        """Rule on a call as it would be ruled now; raises InvalidInput.

        `arguments` are a mapping, or the text that a model would write; one that cannot be read is
        ruled as such (G4). `agent` says whose tool it is, where several have one of that name.
        """
        office = self._office(tool, agent)
        declared = office.toolbox.tools[tool]
        frozen = _frozen(declared, arguments)
        standing = self._authority.today()
        if standing.trouble is not None:
            raise standing.trouble
        look = Look(
            standing=standing,
            now=datetime.now(UTC),
            agents=(office.toolbox.agent, *office.above),
            requester=requester,
        )
        rulings = Rulings(
            self._engine,
            self._authority,
            asks=office.toolbox.asks,
            policies=office.toolbox.policies,
        )
        ruled = await rulings.rule(declared, frozen, session=session, look=look)
        facts = facts_of(declared, frozen, session=session, look=look)
        return Explained(ruled=ruled, facts=facts, lines=tuple(explained(ruled, facts)))

    def _office(self, tool: str, agent: str) -> Office:
        """Find whose tool is meant; raises InvalidInput where that is not clear."""
        having = [each for each in self.offices if tool in each.toolbox.tools]
        found = [each for each in having if agent in ("", each.toolbox.agent)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(dict.fromkeys(each.toolbox.agent for each in having))
        if not having:
            tools = sorted({name for each in self.offices for name in each.toolbox.tools})
            raise InvalidInput(
                "unknown_tool",
                f"The app has no tool named {tool}.",
                hint=f"It has: {', '.join(tools) or 'none'}.",
            )
        if not found:
            raise InvalidInput("which_agent", f"It is a tool of: {names}.")
        raise InvalidInput("which_agent", f"Several agents have it: {names}.", hint="Say --agent.")


def _frozen(
    declared: Declaration, arguments: str | Mapping[str, Any]
) -> dict[str, JsonValue] | str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    try:
        return parse_arguments(declared.validate(parse_arguments(text)))
    except Unreadable:
        return text
    except InvalidArguments as error:
        raise InvalidInput(
            "invalid_arguments",
            f"The arguments do not fit {declared.name}: {error}",
            hint="A model that proposed them would be told so, and nobody would be asked.",
        ) from error
