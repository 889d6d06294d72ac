"""What a rule of either wire raises, and the server answers in that wire's form."""

from __future__ import annotations


class Refused(Exception):
    """The answer to a request that is not as it must be."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
