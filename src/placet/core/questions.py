"""Questions: what a run asks a person that is no action, and which answers fit it.

A question is frozen with its call like any arguments, and is answered by text. What the text must
be is part of the question: any text, a yes or no, a number, or one of some choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from placet.core.canonical import JsonValue
from placet.core.errors import InvalidInput
from placet.core.masking import Masking

#: What kind of answer a question takes.
AnswerKind = Literal["text", "yes_no", "integer", "number"]

_KINDS: Mapping[str, AnswerKind] = {
    "text": "text",
    "yes_no": "yes_no",
    "integer": "integer",
    "number": "number",
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked, and what the answer must be. Choices, where given, bind the text."""

    text: str
    answer: AnswerKind = "text"
    choices: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """Say in words what an answer must be."""
        if self.choices:
            return f"one of: {', '.join(self.choices)}"
        return {
            "text": "a text",
            "yes_no": "yes or no",
            "integer": "a whole number",
            "number": "a number",
        }[self.answer]


def question_of(arguments: Mapping[str, JsonValue] | str) -> Question:
    """Read the question in the frozen arguments of the call that asks it; raises InvalidInput."""
    found = arguments if isinstance(arguments, Mapping) else {}
    text, choices = found.get("question"), found.get("choices") or []
    answer = _KINDS.get(str(found.get("answer", "text")))
    if not isinstance(text, str) or answer is None or not isinstance(choices, list):
        raise InvalidInput(
            "unreadable_question", "The question cannot be read.", hint="Reject it with a reason."
        )
    return Question(text=text, answer=answer, choices=tuple(str(each) for each in choices))


def checked(question: Question, text: str) -> str:
    """Give an answer in its one form if it fits the question; raises InvalidInput."""
    given = text.strip()
    if question.choices:
        fits = given in question.choices
    else:
        match question.answer:
            case "text":
                fits = bool(given)
            case "yes_no":
                given = given.lower()
                fits = given in ("yes", "no")
            case "integer":
                fits = _INTEGER.fullmatch(given) is not None
            case "number":
                fits = _NUMBER.fullmatch(given) is not None
    if not fits:
        raise InvalidInput(
            "answer_does_not_fit",
            f"The answer must be {Masking().told(question.wanted)}.",
            hint="Nothing was recorded; the question still waits.",
        )
    return given
