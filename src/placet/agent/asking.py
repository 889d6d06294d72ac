"""`ask_person`: the tool with which a run asks a person something that is no action.

The question waits like a request, and nothing is run: a person's answer is the call's result.
"""

from __future__ import annotations

from dataclasses import replace

from placet.agent.tools import Tool, tool
from placet.core.questions import AnswerKind


def _ask(question: str, answer: AnswerKind = "text", choices: tuple[str, ...] = ()) -> str:
    """Ask a person a question, and get the answer as text.

    Whoever the task is done for may answer, and the approvers. Say with `answer` what the answer
    must be: any text, yes_no, integer or number; or give the `choices`, of which it must be one.
    """
    raise NotImplementedError(question, answer, choices)  # A question has no body to enter.


def _asking() -> Tool:
    made = tool(_ask, name="ask_person")
    made.declaration = replace(
        made.declaration, kind="question", surface="", effect="asks: {question}", reversible=True
    )
    return made


#: Ask a person: give it to an agent among its tools.
ask_person = _asking()
