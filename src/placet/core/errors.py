"""The errors of placet: one tree, three branches, each error says what to do next.

    PlacetError                 .code .message .hint .ids
    ├── Mistake                 the caller's: mend the call, the declaration or the setting
    │   ├── InvalidSetting      a setting is malformed or unknown; names it
    │   ├── InvalidDeclaration  a tool, agent or app is declared wrongly
    │   ├── InvalidInput        an argument of a command or of the API
    │   └── NotFound            no run, request, session or payload of that name
    ├── Trouble                 the world's: nothing was lost, try again or mend the world
    │   ├── StoreTrouble        locked, read-only, full, damaged, unreachable, too new
    │   ├── PolicyTrouble       the policy file is broken or missing (placet.policy.faults)
    │   └── ModelTrouble        the model's service failed; the run waits and can be resumed
    └── Refusal                 the runtime refuses a command; the state is as it was
        ├── ApprovalRequired    people must act first; the same call later goes on from there
        ├── ActionRefused       the action has its answer, and it is a no, or no result
        ├── Conflict            somebody else decided otherwise, or an id now means another thing
        ├── InProgress          another worker is on it
        ├── Closed              too late: expired, superseded, cancelled, spent
        ├── NotPermitted        the principal may not decide this
        └── StaleHolder         the lease or fence is no longer the caller's

`code` is stable and is what programs test; `message` and `hint` are for people and may change.
"""

from __future__ import annotations


class PlacetError(Exception):
    """Base of every error that placet raises on purpose."""

    code: str
    message: str
    hint: str
    ids: dict[str, str]

    def __init__(self, code: str, message: str, *, hint: str = "", **ids: str) -> None:
        """Take a stable `code`, one sentence, what to do next, and the ids involved."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.ids = ids

    def __str__(self) -> str:
        named = " ".join(f"{name}={value}" for name, value in self.ids.items())
        parts = [f"{self.message} [{self.code}{' ' + named if named else ''}]", self.hint]
        return " ".join(part for part in parts if part)


class Mistake(PlacetError):
    """The caller's mistake."""


class InvalidSetting(Mistake):
    """A setting that is malformed, unknown or contradicts another."""


class InvalidDeclaration(Mistake):
    """A tool, an agent or an app that is declared wrongly."""


class InvalidInput(Mistake):
    """An argument that cannot be taken as it is."""


class NotFound(Mistake):
    """Nothing has that name in this tenant (and, where one is given, this session)."""


def no_session(session: str) -> NotFound:
    """Say that there is no session of that name, and what lists those that there are."""
    return NotFound(
        "session_not_found",
        "There is no such session.",
        hint="`placet runs` lists the runs, and the session of each.",
        session=session,
    )


class Trouble(PlacetError):
    """The world failed; nothing was lost."""


class StoreTrouble(Trouble):
    """The store cannot answer: locked, read-only, full, damaged, unreachable or too new."""


class ModelTrouble(Trouble):
    """The model's service failed. `retryable` says whether trying again may help."""

    def __init__(
        self, code: str, message: str, *, hint: str = "", retryable: bool, **ids: str
    ) -> None:
        super().__init__(code, message, hint=hint, **ids)
        self.retryable = retryable


class Refusal(PlacetError):
    """The runtime refuses a command and has changed nothing."""


class ApprovalRequired(Refusal):
    """People must act on `requests` first; `run_id` is the run that waits for it.

    The program may end: the same call, later and anywhere, goes on from there. `held_by` names
    what comes first where the call itself waits for nobody (G8).
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        requests: tuple[str, ...],
        run_id: str,
        held_by: str = "",
    ) -> None:
        named = {"request_id": ",".join(requests), "run_id": run_id, "held_by": held_by}
        ids = {name: value for name, value in named.items() if value}
        super().__init__("approval_required", message, hint=hint, **ids)
        self.requests = requests
        self.run_id = run_id
        self.held_by = held_by


class ActionRefused(Refusal):
    """The action did not run, or has no result: `code` says why, `told` what was said of it.

    `code` is the call's own (the design, section 5), or `result_unreadable` where it succeeded and
    what is on record cannot be read as what the function returns.
    """

    def __init__(self, code: str, told: str, *, hint: str = "", run_id: str) -> None:
        super().__init__(code, told, hint=hint, run_id=run_id)
        self.told = told
        self.run_id = run_id


class Conflict(Refusal):
    """Another decision stands, or an id stands for something else."""


class InProgress(Refusal):
    """Another worker is executing this; ask again for its outcome."""


class Closed(Refusal):
    """The request or run is closed; `code` says how."""


class NotPermitted(Refusal):
    """The principal has no authority to do this."""


class StaleHolder(Refusal):
    """The lease has passed to another holder, or has run out."""
