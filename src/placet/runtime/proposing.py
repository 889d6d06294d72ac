"""From a call as a model proposed it to a proposal: read, validated, frozen and ruled on (G4).

All of it is done before the transaction; every doubt ends in an answer, or in asking a person (G1).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placet.core import commands as c
from placet.core import wording
from placet.core.canonical import JsonValue, Unreadable, call_key, parse_arguments
from placet.core.values import CallCode, Display, Draft, Occurrence
from placet.runtime.authority import Authority
from placet.runtime.declarations import Declaration, InvalidArguments, PolicyFunction
from placet.runtime.effects import described, environment_of, preview_of
from placet.runtime.rulings import rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as a model proposed it: `arguments` is its own text, readable or not (G4)."""

    id: str
    name: str
    arguments: str


class Toolbox:
    """The tools of one agent, by name, whether anybody may be asked, and the policies on them."""

    tools: Mapping[str, Declaration]
    asks: bool
    policies: tuple[tuple[str, PolicyFunction], ...]

    def __init__(
        self,
        tools: Iterable[Declaration],
        *,
        asks: bool = True,
        policies: Sequence[tuple[str, PolicyFunction]] = (),
    ) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.asks = asks
        self.policies = tuple(policies)


class Proposer:
    """Makes the proposals of one agent's calls."""

    def __init__(self, tenant: str, toolbox: Toolbox, authority: Authority) -> None:
        self._tenant = tenant
        self._toolbox = toolbox
        self._authority = authority

    async def proposal(
        self, session: str, at: Occurrence, call: ToolCall, *, claim: str = ""
    ) -> c.Proposal:
        """Read, validate, freeze and rule on one call, before the transaction (G4)."""
        tool = self._toolbox.tools.get(call.name)
        if tool is None:
            told = wording.unknown_tool(call.name, self._toolbox.tools)
            return unsound(at, call, "", "unknown_tool", told)
        frozen: dict[str, JsonValue] | str
        key = ""
        try:
            frozen, key = _read(tool, call)
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
        approvers = self._authority.approvers if self._toolbox.asks else ()
        return c.Sound(
            draft=Draft(
                tenant=self._tenant,
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
            call_key=key or call_key(call.name, call.arguments),
            kind=tool.kind,
            surface=tool.surface,
            recovery=tool.recovery,
            approvers=self._authority.approvers,
            ruling=await rule(tool, frozen, approvers=approvers, policies=self._toolbox.policies),
            display=Display(
                effect=tool.effect,
                reversible=tool.reversible,
                cost=tool.cost,
                secrets=tool.secrets,
                claim=claim,
                preview="" if isinstance(frozen, str) else await preview_of(tool, frozen),
            ),
        )

    def key_of(self, call: ToolCall) -> str:
        """Give the call key that a proposal of this call has, without ruling on it."""
        tool = self._toolbox.tools.get(call.name)
        if tool is not None:
            try:
                return _read(tool, call)[1]
            except (Exception, SystemExit):  # noqa: BLE001  # Fails closed: it stands for its text.
                pass
        return call_key(call.name, call.arguments)


def _read(tool: Declaration, call: ToolCall) -> tuple[dict[str, JsonValue], str]:
    """Read and validate a call's arguments, and give its key; raises what a tool's model does."""
    frozen = parse_arguments(tool.validate(parse_arguments(call.arguments)))
    return frozen, call_key(call.name, frozen)


def _digestible(id_: str) -> str:
    """Give a provider's call id with what has no UTF-8, and so no digest, written out."""
    return id_.encode("utf-8", "backslashreplace").decode()


def unsound(at: Occurrence, call: ToolCall, key: str, code: CallCode, detail: str) -> c.Unsound:
    """Give what is answered at once; a call without a key yet has that of its text."""
    return c.Unsound(
        at=at,
        tool_call_id=_digestible(call.id),
        tool=call.name,
        call_key=key or call_key(call.name, call.arguments),
        code=code,
        detail=detail,
    )
