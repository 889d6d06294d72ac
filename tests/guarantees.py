"""The promises of docs/internals/design.md, section 1: each has a test that bears it.

A test says so with `@pytest.mark.promise("G4", "D4")`; tests/test_guarantees.py holds both ways. A
promise that no test can bear yet is planned, and names the issue that brings it (`planned_issue`).
One that has tests and is not complete names the issue that completes it (`completed_by`), which
excuses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

UNFILED = 0
"""Stands for the issue of the channels, which has no number yet."""

OPEN_ISSUES = frozenset({UNFILED})
"""The issues after the present one. Closing one removes it here, and with it what it excuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One numbered promise."""

    id: str
    title: str
    planned_issue: int | None = None
    completed_by: int | None = None


def _promise(
    id_: str, title: str, *, planned: int | None = None, completed_by: int | None = None
) -> Promise:
    return Promise(id=id_, title=title, planned_issue=planned, completed_by=completed_by)


PROMISES = (
    _promise("G1", "Fail closed: on every doubt nothing runs, and the cause is named"),
    _promise("G2", "One door: there is one way to a tool body"),
    _promise("G3", "Binding: a request id stands for one action, by digest, for ever"),
    _promise("G4", "Frozen: what is shown, digested and run is one value"),
    _promise("G5", "An edit is a new action; the old version can never run"),
    _promise("G6", "A no is an answer; every call gets exactly one result"),
    _promise("G7", "Single use: an approval is spent with the intent, and one wins"),
    _promise("G8", "No other effect starts while a request waits"),
    _promise("G9", "Every request has a deadline, after which only no is possible"),
    _promise("G10", "Who may decide is policy, checked at the decision and again"),
    _promise("G11", "Isolation: nothing of one tenant or session is seen through another"),
    _promise("G12", "Standing grants are narrow, counted, ending and revocable"),
    _promise("G13", "Checked again before a waiting action runs"),
    _promise("D1", "Nothing is held while waiting"),
    _promise("D2", "One path: start, resume and recovery are the same loop"),
    _promise("D3", "One transaction for all that belongs together"),
    _promise("D4", "Intent before effect before outcome; at most once, never in the dark"),
    _promise("D5", "One driver: a stale holder's writes are refused"),
    _promise("D6", "Linear: a step costs the same however long the conversation"),
    _promise("D7", "Versioned: old values are read for ever, too new ones left alone"),
    _promise("D8", "Recovery in order: retry, roll back, compensate, a person"),
    _promise("H1", "Informed: one card says all that a decision needs"),
    _promise("H2", "Honest display: nothing hidden, cut silently or made active"),
    _promise(
        "H3", "Told: notifications leave at least once, cards are closed", completed_by=UNFILED
    ),
    _promise("H4", "Provable: the event log is a hash-chained audit log"),
    _promise("H5", "Nothing decides by accident", completed_by=UNFILED),
)
