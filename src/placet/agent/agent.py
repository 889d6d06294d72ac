"""An agent: instructions, a model and tools. It is code, and a run refers to it by name.

An agent may be a tool of another one. A run of it then stands under the run that used it, and what
binds the outer agent (its policy, and that nobody is to be asked) binds the inner one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from placet.agent.messages import ToolSchema
from placet.agent.models import ModelClient
from placet.agent.tools import Tool, tool
from placet.core.canonical import JsonValue, digest_of
from placet.core.errors import InvalidDeclaration
from placet.core.values import Mode, OnFailure, SagaScope
from placet.runtime.declarations import ApprovalFunction, Declaration, PolicyFunction
from placet.runtime.proposing import Toolbox

#: How many characters of the conversation a model is shown before the older part is summed up.
VIEW_LIMIT = 200_000


class Agent:
    """What a run executes.

    `tools` are declared tools, plain functions, and other agents. `policy` is asked about every
    call of the agent and of the agents under it: it answers `allow`, `ask` or `deny`, and can only
    make a tool's own ruling stricter. `ask="never"` says that nobody is to be asked: whatever must
    ask is then answered `no_approver` (G1). `max_steps` bounds the model turns of a run,
    `view_limit` the characters that the model is shown of the conversation.

    `on_failure` says what happens once a call of a step has failed: `continue` goes on with the
    others; with `stop` nothing more of the step begins, and each such call answers that it did not
    run; with `compensate_earlier`, besides, what earlier effects of the `saga` did (those of the
    same `step`, or of the whole `run`) is taken back, the latest first, as their tools declare it
    (D8). Raises InvalidDeclaration.
    """

    name: str
    instructions: str
    model: ModelClient
    tools: tuple[Tool | AgentTool, ...]
    max_steps: int
    mode: Mode
    ask: Literal["people", "never"]
    policy: PolicyFunction | None
    view_limit: int
    on_failure: OnFailure
    saga: SagaScope

    def __init__(
        self,
        *,
        name: str,
        model: ModelClient,
        tools: Sequence[Tool | AgentTool | Agent | Callable[..., object]] = (),
        instructions: str = "",
        max_steps: int = 50,
        mode: Mode = "act",
        ask: Literal["people", "never"] = "people",
        policy: PolicyFunction | None = None,
        view_limit: int = VIEW_LIMIT,
        on_failure: OnFailure = "continue",
        saga: SagaScope = "step",
    ) -> None:
        if not name or name != name.strip():
            raise InvalidDeclaration("invalid_agent", "An agent needs a name.")
        if isinstance(model, type) or not callable(getattr(model, "complete", None)):
            raise InvalidDeclaration(
                "invalid_agent",
                f"Agent {name}: {model!r} is no model client.",
                hint="Give one, such as OpenAIModel('gpt-5-mini').",
            )
        if max_steps < 1:
            raise InvalidDeclaration("invalid_agent", f"Agent {name}: max_steps is at least 1.")
        if mode not in ("act", "think", "plan-act"):
            raise InvalidDeclaration("invalid_agent", f"Agent {name}: there is no mode {mode!r}.")
        if ask not in ("people", "never"):
            raise InvalidDeclaration("invalid_agent", f"Agent {name}: ask is 'people' or 'never'.")
        if on_failure not in get_args(OnFailure) or saga not in get_args(SagaScope):
            raise InvalidDeclaration(
                "invalid_agent",
                f"Agent {name}: on_failure is one of {', '.join(get_args(OnFailure))}, and saga"
                f" one of {', '.join(get_args(SagaScope))}.",
            )
        if view_limit < 1_000:
            raise InvalidDeclaration(
                "invalid_agent", f"Agent {name}: view_limit is at least 1,000 characters."
            )
        self.name = name
        self.model = model
        self.instructions = instructions
        self.tools = tuple(map(_as_tool, tools))
        self.max_steps = max_steps
        self.mode = mode
        self.ask = ask
        self.policy = policy
        self.view_limit = view_limit
        self.on_failure = on_failure
        self.saga = saga
        names = [each.declaration.name for each in self.tools]
        if len(set(names)) != len(names):
            twice = next(each for each in names if names.count(each) > 1)
            raise InvalidDeclaration(
                "invalid_agent",
                f"Agent {name}: two tools are named {twice}.",
                hint="Give one another name.",
            )

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str = "",
        approval: Literal["always", "never"] | ApprovalFunction = "never",
    ) -> AgentTool:
        """Give the agent as a tool of another one, which is given a message and gives its answer.

        What the agent does is ruled on call by call; `approval` says whether a person is asked
        before it begins at all.
        """
        return AgentTool(
            agent=self,
            declaration=_delegating(self, name or self.name, description, approval),
        )

    def asks_in_vain(self, *, anybody: bool) -> bool:
        """Say whether a tool of it, or of an agent under it, may ask while nobody may be asked.

        `anybody` says whether there is anybody at all to ask.
        """
        anybody = anybody and self.ask == "people"
        declared = (each.declaration for each in self.tools)
        asks = self.policy is not None or any(each.approval != "never" for each in declared)
        return (asks and not anybody) or any(
            isinstance(each, AgentTool) and each.agent.asks_in_vain(anybody=anybody)
            for each in self.tools
        )

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Give the tools as the model sees them."""
        declared = (each.declaration for each in self.tools)
        return tuple(
            ToolSchema(name=d.name, description=d.description, parameters=d.parameters)
            for d in declared
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent as a tool of another one."""

    agent: Agent
    declaration: Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """An agent in its place: at the top of a session, or under other agents that bind it."""

    agent: Agent
    asks: bool
    policies: tuple[tuple[str, PolicyFunction], ...]

    @staticmethod
    def of(agent: Agent) -> Role:
        """Give the role of an agent that stands under no other."""
        own = () if agent.policy is None else ((agent.name, agent.policy),)
        return Role(agent=agent, asks=agent.ask == "people", policies=own)

    def below(self, tool: str) -> Role | None:
        """Give the role of the agent that is the tool of this name; None: there is no such."""
        for each in self.agent.tools:
            if isinstance(each, AgentTool) and each.declaration.name == tool:
                inner = Role.of(each.agent)
                return Role(
                    agent=each.agent,
                    asks=self.asks and inner.asks,
                    policies=(*self.policies, *inner.policies),
                )
        return None

    def toolbox(self) -> Toolbox:
        """Give the tools as the gate sees them."""
        declared = (each.declaration for each in self.agent.tools)
        return Toolbox(declared, agent=self.agent.name, asks=self.asks, policies=self.policies)


def _as_tool(given: Tool | AgentTool | Agent | Callable[..., object]) -> Tool | AgentTool:
    if isinstance(given, (Tool, AgentTool)):
        return given
    return given.as_tool() if isinstance(given, Agent) else tool(given)


def _delegating(
    agent: Agent,
    name: str,
    description: str,
    approval: Literal["always", "never"] | ApprovalFunction,
) -> Declaration:
    """Declare an agent as a tool: its fingerprint stands for what the agent is made of (G3)."""

    def delegate(message: str) -> str:
        raise NotImplementedError(message)

    parts: list[JsonValue] = [agent.instructions, agent.mode]
    for each in agent.tools:
        parts += [each.declaration.name, each.declaration.kind, each.declaration.fingerprint]
    version = digest_of(parts)[:16]
    declared = tool(delegate, name=name, version=version, approval=approval).declaration
    about = description or agent.instructions.strip().partition("\n")[0] or agent.name
    return replace(
        declared,
        kind="agent",
        description=f"Hands a task to the agent {agent.name}, and gives its answer. {about}",
        effect="hands the task to the agent " + agent.name,
        fingerprint="",
    )
