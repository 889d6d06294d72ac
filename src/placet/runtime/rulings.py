"""From a tool's declaration, the policy file and the agents' policies to a ruling on a call.

The policy file's word counts in the place of the declaration's (placet.policy.ruling says how).
An agent's policy can only make that stricter: ask or deny where otherwise nobody would be asked.

Every doubt is an ask: an approval function that raises, takes too long, or answers anything but a
plain yes or no means that a person decides. While the file is broken every call is denied (G1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from placet.core.canonical import JsonValue, parse_arguments
from placet.core.errors import NotFound, StoreTrouble
from placet.core.values import Allow, Deny
from placet.policy.conditions import Facts
from placet.policy.evaluating import kinds, sources
from placet.policy.rules import Policy
from placet.policy.ruling import Circle, Declared, Ruled, asks_by_default, rule_on
from placet.runtime.authority import REQUEST_LASTS as REQUEST_LASTS
from placet.runtime.authority import Annotator, Authority
from placet.runtime.declarations import Declaration, PolicyFunction
from placet.runtime.engine import Engine
from placet.runtime.policies import Standing
from placet.runtime.threads import in_thread

#: How long an approval function, a policy's word or an annotation may take: silence is a doubt.
APPROVAL_FUNCTION_LASTS = timedelta(seconds=5)

#: Stands for the instant where no policy file is, and so nothing depends on it.
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)

#: The rule by which every call is denied while the policy file is broken.
POLICY_FILE = "policy file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a call is held against at one moment: what is in force, and the run that it is of.

    `agents` are the run's own and those that it stands under.
    """

    standing: Standing
    now: datetime = NO_TIME
    agents: tuple[str, ...] = ()
    requester: str = ""


class Rulings:
    """Rules on the calls of one agent's tools."""

    def __init__(
        self,
        engine: Engine,
        authority: Authority,
        *,
        asks: bool,
        policies: Sequence[tuple[str, PolicyFunction]],
    ) -> None:
        self._engine = engine
        self._authority = authority
        self._asks = asks
        self._policies = tuple(policies)

    async def rule(
        self,
        tool: Declaration,
        arguments: Mapping[str, JsonValue] | str,
        *,
        session: str,
        look: Look,
    ) -> Ruled:
        """Rule on a call; raw text as arguments means that they could not be read, and asks (G4).

        Nobody is asked where the agent, or one that it stands under, has nobody to be asked.
        """
        if look.standing.trouble is not None:
            return Ruled(ruling=Deny(rule=POLICY_FILE, reason=look.standing.trouble.message))
        policy = look.standing.policy
        circle = Circle(
            approvers=look.standing.approvers,
            now=look.now,
            lasts=REQUEST_LASTS,
            nobody=not self._asks,
        )
        declared = await _declared(tool, arguments)
        facts = facts_of(tool, arguments, session=session, look=look)
        if policy is not None and policy.mode(tool.surface) != "off":
            facts = await self._informed(policy, facts)
        ruled = rule_on(policy, facts, declared, circle)
        if isinstance(arguments, str) or isinstance(ruled.ruling, Deny):
            return ruled
        return await self._stricter(policy, facts, circle, ruled, arguments)

    async def _stricter(
        self,
        policy: Policy | None,
        facts: Facts,
        circle: Circle,
        ruled: Ruled,
        arguments: Mapping[str, JsonValue],
    ) -> Ruled:
        """Let the policies of the agent, and of those that it stands under, ask or deny."""
        for agent, function in self._policies:
            word = await _word_of(function, facts.tool, arguments)
            name = f"agent:{agent}"
            if word == "deny":
                reason = f"the policy of agent {agent} denies it"
                return replace(ruled, ruling=Deny(rule=name, reason=reason))
            if word != "allow" and isinstance(ruled.ruling, Allow):
                reason = f"the policy of agent {agent} {word}"
                asks = asks_by_default(policy, facts, circle, rule=name, reason=reason)
                ruled = replace(ruled, ruling=asks)
        return ruled

    # --- what a policy file may ask about -----------------------------------------------------

    async def _informed(self, policy: Policy, facts: Facts) -> Facts:
        """Add what only the record and trusted sources know, where a rule looks at it."""
        if isinstance(facts.arguments, str):
            return facts
        wanted = sources(policy, facts)
        annotators = self._authority.annotators
        names = annotators if wanted is None else wanted & annotators.keys()
        said = {name: await _annotation(annotators[name], facts) for name in names}
        seen = await self._seen(facts, kinds(policy, facts))
        return replace(facts, annotations=said, seen=seen)

    async def _seen(
        self, facts: Facts, wanted: frozenset[tuple[str, ...]]
    ) -> Mapping[tuple[str, ...], bool]:
        if not wanted or isinstance(facts.arguments, str):
            return {}
        engine = self._engine
        try:
            return await engine.read(
                self._authority.succeeded.seen,
                engine.store,
                engine.tenant,
                facts.session,
                facts.tool,
                facts.arguments,
                wanted,
            )
        except (StoreTrouble, NotFound):
            return {}  # Nobody knows, and that is a doubt.


def facts_of(
    tool: Declaration,
    arguments: Mapping[str, JsonValue] | str,
    *,
    session: str,
    look: Look,
) -> Facts:
    """Give what a call's tool declares and what is known of its run, as policy sees it."""
    return Facts(
        tool=tool.name,
        arguments=arguments,
        kind=tool.kind,
        surface=tool.surface,
        scopes=tool.scopes,
        reversible=tool.reversible,
        cost=tool.cost,
        agents=look.agents,
        session=session,
        requester=look.requester,
    )


async def _annotation(annotator: Annotator, facts: Facts) -> Mapping[str, JsonValue] | None:
    """Consult a trusted source; None: it gave no answer."""
    assert not isinstance(facts.arguments, str), "what cannot be read is shown to nobody"
    shown = deepcopy(dict(facts.arguments))
    try:
        answer = await _consulted(
            lambda: annotator(facts.tool, shown), name=f"annotation of {facts.tool}"
        )
        return parse_arguments(answer) if isinstance(answer, Mapping) else None
    except Exception:  # noqa: BLE001  # Fails closed: it is a doubt.
        return None


async def _word_of(policy: PolicyFunction, tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Consult an agent's policy: `allow`, `deny`, or why a person is asked."""
    shown = deepcopy(dict(arguments))
    try:
        answer = await _consulted(lambda: policy(tool, shown), name=f"policy on {tool}")
    except Exception as error:  # noqa: BLE001  # Fails closed: a person is asked.
        return f"failed: {type(error).__name__}"
    if isinstance(answer, str) and answer in ("allow", "deny"):
        return answer
    return "asks" if isinstance(answer, str) and answer == "ask" else "gave no ruling"


async def _consulted(function: Callable[[], object], *, name: str) -> object:
    """Call a function that is only asked something; raises an Exception where it raises any."""

    def asked() -> object:
        try:
            return function()
        except Exception:
            raise
        except BaseException as odd:  # noqa: BLE001  # A cancellation would be taken for the run's.
            raise RuntimeError(f"it ended with {type(odd).__name__}") from None

    answer = await asyncio.wait_for(
        in_thread(asked, name=name), APPROVAL_FUNCTION_LASTS.total_seconds()
    )
    if asyncio.iscoroutine(answer):
        answer.close()
    return answer


async def _declared(tool: Declaration, arguments: Mapping[str, JsonValue] | str) -> Declared:
    """Say what the tool itself would have; no rule lowers what is a doubt or a question."""
    rule = f"tool:{tool.name}"
    if isinstance(arguments, str):
        return Declared(rule=rule, reason="its arguments cannot be read", lowers=False)
    if tool.kind == "question":
        return Declared(rule=rule, reason="the run asks a person", lowers=False)
    if tool.approval == "never":
        return Declared(rule=rule, reason=None)
    if tool.approval == "always":
        return Declared(rule=rule, reason="the tool always asks")
    asks = tool.approval
    shown = deepcopy(dict(arguments))
    try:
        answer = await _consulted(lambda: asks(shown), name=f"approval of {tool.name}")
    except Exception as error:  # noqa: BLE001  # Fails closed: a person is asked.
        reason = f"its approval function failed: {type(error).__name__}"
        return Declared(rule=rule, reason=reason, lowers=False)
    if answer is False:
        return Declared(rule=rule, reason=None)
    if answer is True:
        return Declared(rule=rule, reason="its approval function asks")
    reason = "its approval function answered neither yes nor no"
    return Declared(rule=rule, reason=reason, lowers=False)
