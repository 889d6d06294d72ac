"""What is wrong with a policy file, and where; and the error of a file that is not taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.core.errors import Trouble


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fault:
    """One thing that is wrong, in a line counted from 1; 0: it is of the whole file."""

    line: int
    message: str


class PolicyTrouble(Trouble):
    """A policy file that cannot be taken: nothing is allowed, and nobody is asked, while it is so.

    `file` is its name, and `faults` all that is wrong with it, from the top down. A file of cases
    that cannot be taken has the code `cases_broken`.
    """

    def __init__(self, file: str, faults: Sequence[Fault], *, code: str = "policy_broken") -> None:
        self.file = file
        self.faults = tuple(sorted(faults))
        more = len(self.faults) - 1
        told = self.lines[0] + (f" (and {more} more)" if more else "")
        check = "`placet policy check` says all that is wrong with it."
        super().__init__(code, told, hint=check if code == "policy_broken" else "")

    @property
    def lines(self) -> tuple[str, ...]:
        """Give a line of text for each fault: `file:line: what is wrong`."""
        return tuple(
            f"{self.file}:{fault.line}: {fault.message}"
            if fault.line
            else f"{self.file}: {fault.message}"
            for fault in self.faults
        )
