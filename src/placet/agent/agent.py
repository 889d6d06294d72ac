"""An agent: instructions, a model and tools. It is code, and a run refers to it by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from placet.agent.messages import ToolSchema
from placet.agent.models import ModelClient
from placet.agent.tools import Tool, tool
from placet.core.errors import InvalidDeclaration
from placet.runtime.gate import Toolbox


class Agent:
    """What a run executes.

    `ask="never"` says that nobody is to be asked: whatever must ask is then answered
    `no_approver` (G1). `max_steps` bounds the model turns of a run. Raises InvalidDeclaration.
    """

    name: str
    instructions: str
    model: ModelClient
    tools: tuple[Tool, ...]
    max_steps: int
    ask: Literal["people", "never"]

    def __init__(
        self,
        *,
        name: str,
        model: ModelClient,
        tools: Sequence[Tool | Callable[..., object]] = (),
        instructions: str = "",
        max_steps: int = 50,
        ask: Literal["people", "never"] = "people",
    ) -> None:
        if not name or name != name.strip():
            raise InvalidDeclaration("invalid_agent", "An agent needs a name.")
        if max_steps < 1:
            raise InvalidDeclaration("invalid_agent", f"Agent {name}: max_steps is at least 1.")
        self.name = name
        self.model = model
        self.instructions = instructions
        self.tools = tuple(each if isinstance(each, Tool) else tool(each) for each in tools)
        self.max_steps = max_steps
        self.ask = ask
        names = [each.declaration.name for each in self.tools]
        if len(set(names)) != len(names):
            raise InvalidDeclaration("invalid_agent", f"Agent {name}: two tools have one name.")

    @property
    def may_ask(self) -> bool:
        """Say whether any of the tools may have to ask a person."""
        return any(each.declaration.approval != "never" for each in self.tools)

    def toolbox(self) -> Toolbox:
        """Give the tools as the gate sees them."""
        return Toolbox((each.declaration for each in self.tools), asks=self.ask == "people")

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Give the tools as the model sees them."""
        declared = (each.declaration for each in self.tools)
        return tuple(
            ToolSchema(name=d.name, description=d.description, parameters=d.parameters)
            for d in declared
        )
