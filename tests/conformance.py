"""What older systems promise, as behaviours that a test of ours shows.

They come (docs/internals/design.md, section 6) from tiny-claw, learn-ai, Shadow Harness,
Codex, auto-review gates, the OpenAI Agents SDK, LangGraph and Anthropic's guidance. A test says
which it shows with `@pytest.mark.conformance(12)`; tests/test_conformance.py holds both ways.
`planned_issue` and `completed_by` are as in tests/guarantees.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One numbered behaviour."""

    id: int
    text: str
    planned_issue: int | None = None
    completed_by: int | None = None


def _behaviour(
    id_: int, text: str, *, planned: int | None = None, completed_by: int | None = None
) -> Behaviour:
    return Behaviour(id=id_, text=text, planned_issue=planned, completed_by=completed_by)


BEHAVIOURS = (
    _behaviour(
        1,
        "Suspending writes checkpoint and request in one transaction; the body is not "
        "entered; the result says `approval_required` with ids.",
    ),
    _behaviour(
        2,
        "Approved in a new process: the stored action runs once and the approval is spent.",
    ),
    _behaviour(3, "Rejected: not run, the reason reaches the model, the model goes on."),
    _behaviour(4, "Spent also when the body returns an error, and when it raises."),
    _behaviour(
        5,
        "Other session, expired, repeated, other digest, missing or damaged checkpoint: "
        "refused, body not entered.",
    ),
    _behaviour(
        6,
        "No possible approver: `no_approver`; a mutant that lets it through is caught by the "
        "tests and by `doctor`.",
    ),
    _behaviour(
        7,
        "Four scenarios (approve with a retry, reject, no approver, compensate), byte for "
        "byte (`tests/cases/approval-gate.txt`).",
    ),
    _behaviour(
        8,
        "An approver who never answers: the run ends inside the SLA with `expired` and the "
        "escalations on record.",
    ),
    _behaviour(
        9,
        "A rejected identical call: one re-proposal is answered without asking, the next "
        "stops the run and tells the user.",
    ),
    _behaviour(
        10,
        "A gateway that times out after it paid: same key, one payment; an unsettled outcome "
        "is probed, compensated or put to a person, never resent.",
    ),
    _behaviour(
        11,
        "A crash at each of ten points (before and after: checkpoint, request, notification, "
        "decision, intent, effect, outcome, model turn, next request, end), replayed: effect "
        "once, person asked once.",
    ),
    _behaviour(
        12,
        "While A waits, effect B is held; restart; A runs only if its digest is unchanged.",
    ),
    _behaviour(
        13,
        "Amount 1000 edited to 500, recipients 100 edited to 3, restart: only the approved "
        "version runs; the original never has.",
    ),
    _behaviour(
        14,
        "Tool schema, policy, environment or path changed while waiting: voided, asked anew "
        "with what changed.",
    ),
    _behaviour(15, "An approval for command X never runs command Y."),
    _behaviour(
        16,
        "Nothing is held while waiting: the process exits; no lock, lease, connection or "
        "thread is left.",
    ),
    _behaviour(
        17,
        'Skip, needs approval and forbidden are told apart; "must ask but may not ask" is '
        "forbidden.",
    ),
    _behaviour(
        18,
        "A session grant: all keys covered skips, a subset does not; another policy asks "
        "again; it ends with its scope.",
    ),
    _behaviour(
        19,
        "Claim against expiry: an expired request cannot be claimed, a claimed one does not "
        "expire under its worker.",
    ),
    _behaviour(20, "A lost waiter never runs anything."),
    _behaviour(21, "Cancelling a run retires all its requests, with the cause."),
    _behaviour(
        22,
        "Deciding the same twice is the same answer; deciding otherwise is a conflict (a "
        "quorum's votes are per person).",
    ),
    _behaviour(23, "A stale generation or fence is refused."),
    _behaviour(24, "A changed mode or policy rules waiting requests again."),
    _behaviour(
        25,
        "More than the permitted number of waiting requests is refused.",
    ),
    _behaviour(26, "`interrupted` is worded otherwise than `rejected` or `policy_denied`."),
    _behaviour(27, "The world is read again just before acting."),
    _behaviour(28, "Shadow mode never blocks and always records."),
    _behaviour(29, "Unreadable arguments go to a person; the policy function is not called."),
    _behaviour(30, "A nested agent's request surfaces on the outer run."),
    _behaviour(31, "Several requests, some decided: those go on, the others wait."),
    _behaviour(32, "Standing grants survive a round trip through the store."),
    _behaviour(
        33,
        "A step with many calls: each consequential one approved by itself; after a failure "
        "later ones answer that they did not run where so configured; every call id has "
        "exactly one result.",
    ),
    _behaviour(
        34,
        "An agent whose tools may ask and have no possible approver says so when it is built.",
    ),
    _behaviour(35, "A decision with anything but the exact form changes nothing."),
    _behaviour(
        36,
        "`/approve <id>` and `/reject <id> reason`, multi-line and malformed forms: never "
        "handed to the model.",
    ),
    _behaviour(
        37,
        "An old state directory is imported; its stuck `approved` records are reported.",
    ),
    _behaviour(
        38,
        "Approver identity, allow list, requester excluded, quorum, audit export.",
    ),
    _behaviour(39, "Two approvers at once: one execution."),
    _behaviour(
        40,
        "A gate on the last permitted step still gives the model one closing turn.",
    ),
    _behaviour(41, "The plan's current item is credited after a pause, and no other."),
)
