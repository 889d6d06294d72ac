"""From a call as a model proposed it to a proposal: read, validated, frozen and ruled on (G4).

All of it is done before the transaction; every doubt ends in an answer, or in asking a person (G1).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from placet.core import commands as c
from placet.core import wording
from placet.core.canonical import JsonValue, Unreadable, parse_arguments
from placet.core.state import Request, Session
from placet.core.values import Ask, CallCode, Display, Draft, Occurrence, Ruling, call_key
from placet.runtime.authority import Authority, Deciders, deciders_by, people_by
from placet.runtime.bodies import described, environment_of, preview_of
from placet.runtime.declarations import Declaration, InvalidArguments, PolicyFunction
from placet.runtime.engine import Engine
from placet.runtime.rulings import Look, Rulings


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as a model proposed it: `arguments` is its own text, readable or not (G4)."""

    id: str
    name: str
    arguments: str


class Toolbox:
    """The tools of one agent, by name, whether anybody may be asked, and the policies on them.

    `agent` is what the policy file calls it.
    """

    agent: str
    tools: Mapping[str, Declaration]
    asks: bool
    policies: tuple[tuple[str, PolicyFunction], ...]

    def __init__(
        self,
        tools: Iterable[Declaration],
        *,
        agent: str = "",
        asks: bool = True,
        policies: Sequence[tuple[str, PolicyFunction]] = (),
    ) -> None:
        self.agent = agent
        self.tools = {tool.name: tool for tool in tools}
        self.asks = asks
        self.policies = tuple(policies)


class Proposer:
    """Makes the proposals of one agent's calls."""

    def __init__(self, engine: Engine, toolbox: Toolbox, authority: Authority) -> None:
        self._engine = engine
        self._toolbox = toolbox
        self._authority = authority
        self._rulings = Rulings(engine, authority, asks=toolbox.asks, policies=toolbox.policies)

    async def look(self, session: str, run: str) -> Look:
        """Take in what is in force now, and, where a file is, the run that its rules may be for.

        One look is good for one step: all its calls are ruled on by the same policy.
        """
        standing = self._authority.today()
        if standing.policy is None:
            return Look(standing=standing, agents=(self._toolbox.agent,))
        state = await self._engine.session(session, c.Names(runs=(run,)))
        found = state.runs.get(run)
        return Look(
            standing=standing,
            now=state.now,
            agents=(self._toolbox.agent, *_above(state, run)),
            requester="" if found is None else found.requester,
        )

    def deciders(
        self, look: Look, today: c.Proposal, request: Request, *, now: datetime
    ) -> Deciders:
        """Say whose votes count now for an action: by what would ask today, or asked."""
        rule = request.rule
        if isinstance(today, c.Sound) and isinstance(today.ruling, Ask):
            rule = today.ruling.rule
        return deciders_by(look.standing, rule, request, now=now)

    async def proposal(
        self, session: str, at: Occurrence, call: ToolCall, look: Look, *, claim: str = ""
    ) -> c.Proposal:
        """Read, validate, freeze and rule on one call, before the transaction (G4)."""
        salt = await self._engine.salt(session)
        tool, key = self._toolbox.tools.get(call.name), call_key(salt, call.name, call.arguments)
        if tool is None:
            told = wording.unknown_tool(call.name, self._toolbox.tools)
            return unsound(at, call, key, "unknown_tool", told)
        frozen: dict[str, JsonValue] | str
        try:
            frozen, key = _read(tool, call, salt)
        except Unreadable:
            frozen = call.arguments
        except InvalidArguments as error:
            return unsound(at, call, key, "invalid_arguments", str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # Fails closed: nothing runs.
            return unsound(at, call, key, "invalid_arguments", described(error))
        try:
            environment = "" if isinstance(frozen, str) else await environment_of(tool, frozen)
        except InvalidArguments as error:  # They name what the tool may not even look at.
            return unsound(at, call, key, "invalid_arguments", str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # Fails closed: nothing runs.
            told = wording.unreadable_environment(described(error))
            return unsound(at, call, key, "environment_unstable", told)
        ruled = await self._rulings.rule(tool, frozen, session=session, look=look)
        ruling = ruled.ruling
        return c.Sound(
            draft=Draft(
                tenant=self._engine.tenant,
                session=session,
                at=at,
                tool_call_id=_digestible(call.id),
                tool=tool.name,
                tool_fingerprint=tool.fingerprint,
                arguments=frozen,
                scope=tool.scopes,
                environment=environment,
                salt=secrets.token_hex(16),
            ),
            call_key=key,
            kind=tool.kind,
            surface=tool.surface,
            recovery=tool.recovery,
            approvers=self._settlers(look, ruling),
            ruling=ruling,
            escalation=ruling.escalation if isinstance(ruling, Ask) else (),
            shadow=ruled.shadow,
            display=Display(
                effect=tool.effect,
                reversible=tool.reversible,
                cost=tool.cost,
                secrets=tool.secrets,
                claim=claim,
                preview="" if isinstance(frozen, str) else await preview_of(tool, frozen),
            ),
        )

    def _settlers(self, look: Look, ruling: Ruling) -> tuple[str, ...]:
        """Name who may say what became of the call: whom it is asked of, or who is asked else."""
        asked = isinstance(ruling, Ask) and ruling.needs.people(look.requester)
        if asked and look.standing.policy is not None:
            return tuple(sorted(asked))
        if look.standing.policy is None:
            return look.standing.approvers
        people = people_by(look.standing, "", requester=look.requester, now=look.now)
        return tuple(sorted(people))

    async def key_of(self, session: str, call: ToolCall) -> str:
        """Give the call key that a proposal of this call has, without ruling on it."""
        salt = await self._engine.salt(session)
        tool = self._toolbox.tools.get(call.name)
        if tool is not None:
            try:
                return _read(tool, call, salt)[1]
            except (Exception, SystemExit):  # noqa: BLE001  # Fails closed: it stands for its text.
                pass
        return call_key(salt, call.name, call.arguments)


def _above(state: Session, run: str) -> tuple[str, ...]:
    """Name the agents whose runs a run stands under, the nearest first."""
    names: list[str] = []
    while (found := state.runs.get(run)) is not None and found.parent is not None:
        run = found.parent.run
        above = state.runs.get(run)
        names += [] if above is None else [above.agent]
    return tuple(names)


def _read(tool: Declaration, call: ToolCall, salt: str) -> tuple[dict[str, JsonValue], str]:
    """Read and validate a call's arguments, and give its key; raises what a tool's model does."""
    frozen = parse_arguments(tool.validate(parse_arguments(call.arguments)))
    return frozen, call_key(salt, call.name, frozen)


def _digestible(id_: str) -> str:
    """Give a provider's call id with what has no UTF-8, and so no digest, written out."""
    return id_.encode("utf-8", "backslashreplace").decode()


def unsound(at: Occurrence, call: ToolCall, key: str, code: CallCode, detail: str) -> c.Unsound:
    """Give what is answered at once; what has not been read has the key of its text."""
    return c.Unsound(
        at=at,
        tool_call_id=_digestible(call.id),
        tool=call.name,
        call_key=key,
        code=code,
        detail=detail,
    )
