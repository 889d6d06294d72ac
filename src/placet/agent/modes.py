"""Modes: what a run's model is told beside the agent's instructions, and how a plan is read.

In mode `think` there are no tools. In mode `plan-act` the first turn makes a plan, and each turn
that answers without calling a tool says that the plan's current item is done. What is enforced of
this is core's (a tool call where there are no tools ends the run); here are the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from placet.core.state import Run

#: How many items a plan may have; the last one stands for whatever would follow.
MOST_ITEMS = 20

_ITEM = re.compile(r"^\s*(?:\d{1,3}[.):]|[-*•])\s+(?:\[[ xX]\]\s+)?(?P<text>\S.*)$")

_THINK = "Think about the task and answer. You have no tools."
_PLAN = (
    "First make a plan, as a numbered list with one item a line, each a piece of work of its own."
    " You have no tools yet; do not begin."
)
_ITEM_BY_ITEM = (
    "Work on item {current} alone. When it is done, answer with what came of it, without calling a"
    " tool; then you are given the next item."
)
_LAST_ITEM = " It is the last one: sum up for the user what came of the whole plan."

#: What stands for the user between two items of a plan.
GO_ON = "Go on with the plan."


def has_tools(run: Run) -> bool:
    """Say whether the model has tools in the run's next turn."""
    return run.mode == "act" or (run.mode == "plan-act" and run.plan is not None)


def instructions_for(run: Run, instructions: str, plan: Sequence[str]) -> str:
    """Give what the model is told before the conversation; `plan` has the items, if there are."""
    if run.mode == "think":
        return _with(instructions, _THINK)
    if run.mode == "act":
        return instructions
    if run.plan is None:
        return _with(instructions, _PLAN)
    current = run.plan.done + 1
    marks = (
        "x" if at < current else ">" if at == current else " " for at in range(1, 1 + len(plan))
    )
    lines = [
        f"[{mark}] {at}. {item}" for at, (mark, item) in enumerate(zip(marks, plan, strict=True), 1)
    ]
    told = _ITEM_BY_ITEM.format(current=current)
    if current == len(plan):
        told += _LAST_ITEM
    return _with(instructions, "\n".join(["The plan:", *lines, told]))


def _with(instructions: str, more: str) -> str:
    return f"{instructions}\n\n{more}" if instructions else more


def plan_of(text: str) -> tuple[str, ...]:
    """Read a plan from what the model said: its listed lines, or else all of it as one item."""
    items = [found["text"].strip() for line in text.splitlines() if (found := _ITEM.match(line))]
    if not items:
        return (text.strip() or "the task",)
    if len(items) <= MOST_ITEMS:
        return tuple(items)
    rest = "; ".join(items[MOST_ITEMS - 1 :])
    return (*items[: MOST_ITEMS - 1], rest)
