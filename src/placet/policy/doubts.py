"""How what is in doubt counts: always as what is the stricter.

A condition holds, fails, or is in doubt: what it looks at is not there, is of a kind that it cannot
be compared with, or cannot be read. The table below is all there is to say of doubts. From it
follows what tests/policy/test_doubts.py holds: whatever the truth behind a doubt is, the ruling
under doubt is at least as strict as the ruling under the truth (G1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from placet.policy.rules import Answer

#: Where in a rule a condition stands: all of `when` must hold, and none of `unless`.
Part = Literal["when", "unless"]

#: Whether a condition that is in doubt counts as holding.
DOUBT_HOLDS: Mapping[tuple[Answer, Part], bool] = {
    ("allow", "when"): False,
    ("allow", "unless"): True,
    ("ask", "when"): True,
    ("ask", "unless"): False,
    ("deny", "when"): True,
    ("deny", "unless"): False,
}


class Truth(Enum):
    """What is known of a condition."""

    HOLDS = "holds"
    FAILS = "fails"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of a condition; `doubt` says why nothing better is known."""

    truth: Truth
    doubt: str = ""


HOLDS = Finding(Truth.HOLDS)
FAILS = Finding(Truth.FAILS)


def in_doubt(why: str) -> Finding:
    """Give what is found where nothing is known, and say why."""
    return Finding(Truth.DOUBT, why)


def found(holds: bool) -> Finding:
    """Give what is found where all is known."""
    return HOLDS if holds else FAILS


def counts(finding: Finding, answer: Answer, part: Part) -> bool:
    """Say whether a condition counts as holding in a rule that would answer so."""
    if finding.truth is Truth.DOUBT:
        return DOUBT_HOLDS[answer, part]
    return finding.truth is Truth.HOLDS


def not_(finding: Finding) -> Finding:
    """Turn a finding round; a doubt stays one."""
    return {Truth.HOLDS: FAILS, Truth.FAILS: HOLDS}.get(finding.truth, finding)


def all_of(findings: Iterable[Finding]) -> Finding:
    """Join findings: one that fails decides, and then any doubt. Of none at all it fails."""
    answer: Finding | None = None
    for each in findings:
        if each.truth is Truth.FAILS:
            return FAILS
        if answer is None or (answer is HOLDS and each.truth is Truth.DOUBT):
            answer = each
    return FAILS if answer is None else answer


def any_of(findings: Iterable[Finding]) -> Finding:
    """Join findings: one that holds decides, and then any doubt. Of none at all it fails."""
    answer = FAILS
    for each in findings:
        if each.truth is Truth.HOLDS:
            return HOLDS
        if answer.truth is Truth.FAILS:
            answer = each
    return answer


def of_each(findings: Iterable[Finding], answer: Answer, part: Part) -> Finding:
    """Join what was found of each of several elements, as is the stricter.

    Where more rulings follow from a condition that holds, one element is enough; where fewer do,
    every element must be so. Of none at all it fails.
    """
    return any_of(findings) if DOUBT_HOLDS[answer, part] else all_of(findings)
