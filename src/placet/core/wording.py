"""What the model is told of a call's end: one function a cause, each worded so that no two causes
can be taken for each other (the design, section 5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from placet.core.canonical import JsonValue
from placet.core.state import Request
from placet.core.values import RequestKind, Unwound

#: What older entry points record where a person gave no reason (G6).
NO_REASON = "no reason given"

#: What is recorded where nothing says why a notice could not be delivered.
NO_CAUSE = "no cause given"


_VERBS: Mapping[RequestKind, str] = {
    "approval": "approve",
    "settlement": "settle",
    "question": "answer",
}


def command_for(request: str, kind: RequestKind) -> str:
    """Name the command with which a person lets what waits on a request of this kind go on."""
    return f"placet {_VERBS[kind]} {request}"


def rejected(by: str, reason: str) -> str:
    """A person said no."""
    return f"Rejected by {by}: {reason}\nThe call did not run. Do not propose it again."


def expired(request: Request) -> str:
    """Nobody decided in time, or nothing began in time."""
    asked = ", ".join(request.needs_at(request.deadline_at).approvers)
    if request.needs.quorum > 1:
        asked += f" ({request.needs.quorum} needed)"
    return (
        f"Expired: no decision was in force by {request.deadline_at:%Y-%m-%d %H:%M:%S} UTC."
        f" Asked: {asked}.\nThe call did not run."
    )


def unreachable(deadline_at: datetime, tried: Iterable[str]) -> str:
    """No channel could tell anybody by the deadline."""
    return (
        f"Unreachable: no notification could be delivered by {deadline_at:%Y-%m-%d %H:%M:%S} UTC"
        f" (tried: {', '.join(tried)})."
        "\nNobody could be asked, and the call did not run."
    )


def no_approver(cause: str) -> str:
    """Nobody may decide."""
    return f"No approver: {cause}\nThe call did not run, and nobody was asked."


def policy_denied(rule: str, reason: str) -> str:
    """A rule said no."""
    return f"Denied by policy ({rule}): {reason}\nThe call did not run."


def invalid(detail: str) -> str:
    """The arguments do not fit the tool's schema."""
    return f"Invalid arguments: {detail}\nThe call did not run. Mend the arguments."


def unknown_tool(tool: str, known: Iterable[str] = ()) -> str:
    """No tool of that name."""
    names = ", ".join(sorted(known))
    return f"Unknown tool {tool!r}." + (f" The tools are: {names}." if names else "")


def interrupted(cause: str) -> str:
    """The process or its host ended the call before it began."""
    return f"Interrupted: {cause}\nThe call did not run. It may be proposed again."


def superseded() -> str:
    """A newer message took the run's place."""
    return "Superseded by a newer message of the user.\nThe call did not run."


def cancelled(cause: str) -> str:
    """The run was ended."""
    return f"Cancelled: {cause}\nThe call did not run."


def unstable(changed: Iterable[str]) -> str:
    """What was asked about kept changing."""
    what = ", ".join(changed)
    return (
        f"Environment unstable: what was asked about changed again and again ({what})."
        "\nThe call did not run."
    )


def unreadable_environment(error: str) -> str:
    """What the tool reads of the world could not be read, before asking or before acting."""
    return (
        f"Environment unreadable: what the tool reads of the world could not be read ({error})."
        "\nThe call did not run."
    )


def failed(error: str, *, not_done: bool, attempts: int) -> str:
    """The body raised."""
    times = f" after {attempts} attempts" if attempts > 1 else ""
    acted = "It did not act." if not_done else "It may have acted before it failed."
    return f"Failed{times}: {error}\n{acted}"


def rolled_back(failure: str, *, attempts: int) -> str:
    """The body failed, and what it had changed was put back as it was."""
    return f"{_failed_times(failure, attempts)}\nWhat it had changed was rolled back."


def compensated(failure: str, told: str, *, attempts: int) -> str:
    """The body failed, and what it may have done was undone by another effect."""
    more = f" ({told})" if told else ""
    return f"{_failed_times(failure, attempts)}\nWhat it may have done was compensated{more}."


def unwound(told: str, found: Iterable[tuple[str, Unwound]]) -> str:
    """What earlier calls had done was taken back: entries with a tool, and what came of it."""
    lines = [f"- {tool}: {_UNWOUND[outcome]}" for tool, outcome in found]
    return "\n".join(
        (told, "What earlier calls had done was taken back, the latest first:", *lines)
    )


_UNWOUND: Mapping[Unwound, str] = {
    "rolled_back": "rolled back",
    "compensated": "compensated",
    "succeeded": "it stands",
    "unknown": "nobody knows whether it was taken back",
}


def later_failed(tool: str) -> str:
    """Why an effect that had succeeded is taken back."""
    return f"a later call failed ({tool})"


def step_broken(tool: str) -> str:
    """An earlier call of the step failed, and the run's agent says that then nothing goes on."""
    return f"another call of this step failed ({tool})."


def _failed_times(failure: str, attempts: int) -> str:
    times = f" after {attempts} attempts" if attempts > 1 else ""
    return f"Failed{times}: {failure}"


def outcome_unknown(cause: str) -> str:
    """The body may have acted."""
    return (
        f"Outcome unknown: {cause}\nIt may have happened. A person has been asked to find out."
        " Do not propose it again."
    )


def settled_unknown(by: str, detail: str) -> str:
    """A person gave up on finding out."""
    more = f" ({detail})" if detail else ""
    return (
        f"Outcome unknown: {by} could not find out what became of it{more}. It may have happened."
    )


def settled_not_done(by: str, detail: str) -> str:
    """A person found that it did not happen."""
    more = f" ({detail})" if detail else ""
    return f"Interrupted: {by} found that it did not happen{more}. It may be proposed again."


def settled_done(by: str, result: str) -> str:
    """A person found that it happened."""
    return f"{result}\n(Established by {by}; the tool's own answer was lost.)"


def edited(by: str, changes: str, result: str) -> str:
    """What ran is not what the model proposed (G5)."""
    return f"Before it ran, {by} changed the arguments: {changes}\n{result}"


def changes(found: Iterable[Mapping[str, JsonValue]]) -> str:
    """What an edit changed: entries with `name` and `old` and `new`, where it has them."""
    return "; ".join(
        f"{each['name']}: {_side(each, 'old')} -> {_side(each, 'new')}"
        if "name" in each
        else "the unreadable text was replaced"
        for each in found
    )


def _side(change: Mapping[str, JsonValue], side: str) -> str:
    return json.dumps(change[side], ensure_ascii=False) if side in change else "(absent)"


def child_ended(stop: str, answer: str) -> str:
    """A child run ended otherwise than with its answer."""
    said = f" The last it said was:\n{answer}" if answer else ""
    return f"The agent stopped before it was done: {stop}.{said}"


def too_deep(most: int) -> str:
    """Agents that use agents as tools may do so for a few levels."""
    return (
        f"Denied: agents may stand {most} deep under a run, and no deeper.\nThe call did not run."
    )


def no_tools(mode: str) -> str:
    """The run is in a mode, or at a point of it, in which tools may not be used."""
    when = "before there is a plan" if mode == "plan-act" else f"in mode {mode}"
    return f"Denied by policy (mode): no tool may be called {when}.\nThe call did not run."


def answered(by: str, answer: str) -> str:
    """A person answered a question."""
    return f"{by} answered: {answer}"


def stopped(stop: str) -> str:
    """The run stops; what it had not begun will not be."""
    return f"the run stops ({stop})."
