"""Names what went wrong between a client and its server, in the codes of `ModelClient`.

The official packages share their classes of errors, and servers their ways to tell of one, so both
are read here. A server's own words are shown short, visible, and without the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from placet.agent.models.raw_json import encodable, parse
from placet.core.errors import ModelTrouble

MAX_MESSAGE = 300
"""How many characters a trouble's message has at most, the server's own words included."""

_REFUSED_HINTS = {
    400: "The request does not suit this model: see its tools, its length and extra_body.",
    401: "See whether the key (api_key or {key_variable}) is right for this server.",
    402: "The account behind the key cannot pay for this; see its credit.",
    403: "The key may not use this model; use another key or another model.",
    404: "See whether the model's name and base_url (which mostly {address}) are right.",
    413: "The request is too large for this server.",
}

# A stream that has begun can tell of a failure only in words, and these are the vendors'.
_STATUS_OF_WORD = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """Makes the troubles of one client.

    `key_variable` is where its key may come from, and `address` says how a right one mostly looks.
    """

    model: str
    base_url: str | None
    api_key: str | None
    key_variable: str
    address: str
    timeout_seconds: float

    @contextmanager
    def translated(self, package: ModuleType, *, mishap: type[Exception]) -> Iterator[None]:
        """Turn what an official package raises into a `ModelTrouble`; `mishap` is its base error.

        What is read from a stream fails with the errors of the HTTP client itself.
        """
        import httpx2

        try:
            yield
        except (TimeoutError, package.APITimeoutError, httpx2.TimeoutException) as error:
            raise self.timed_out() from error
        except package.APIStatusError as error:
            said = server_message({"error": error.body}) or error.message
            headers = error.response.headers
            raise self.of_status(error.status_code, said, headers=headers) from error
        except (package.APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ or error
            raise self.unavailable(f"The connection failed: {cause}") from error
        except mishap as error:
            raise self.malformed(str(error)) from error

    def parsed(self, content: bytes | str) -> object:
        """Parse an answer or an event of one. Raises `ModelTrouble` where it is no JSON."""
        try:
            return parse(content)
        except (ValueError, RecursionError) as error:
            raise self.malformed("The answer is no JSON") from error

    def no_key(self) -> ModelTrouble:
        """Say that the vendor's own server is not asked without a key."""
        return ModelTrouble(
            "model_refused",
            f"There is no key for model {self.model!r}.",
            hint=f"Set {self.key_variable}, or give api_key, or the base_url of your own server.",
            retryable=False,
            model=self.model,
        )

    def malformed(self, what: str) -> ModelTrouble:
        """Say that an answer came that is none."""
        return ModelTrouble(
            "model_malformed",
            f"{self._shown(what)}.",
            hint="The same request may be answered properly if it is sent again.",
            retryable=True,
            model=self.model,
        )

    def broken_off(self) -> ModelTrouble:
        """Say that a stream ended in good order, but before the answer did."""
        return self.malformed("The stream ended before the answer did")

    def unavailable(self, what: str, **ids: str) -> ModelTrouble:
        """Say that the server failed, or could not be reached."""
        where = f" at {self.base_url}" if self.base_url else ""
        return ModelTrouble(
            "model_unavailable",
            f"{self._shown(what)}.",
            hint=f"See whether the model's server{where} is up; the run can be resumed then.",
            retryable=True,
            model=self.model,
            **ids,
        )

    def timed_out(self) -> ModelTrouble:
        """Say that the time limit passed."""
        return ModelTrouble(
            "model_timeout",
            f"The server gave no whole answer in {self.timeout_seconds:g} seconds.",
            hint="Give a longer timeout if answers of this model take so long.",
            retryable=True,
            model=self.model,
        )

    def of_error(self, error: object) -> ModelTrouble:
        """Say what a server told in the middle of an answer, by its own words for it."""
        said = server_message({"error": error}) or "it did not say why"
        return self.of_status(_status_of(error), said, told="broke off with")

    def of_status(
        self, status: int, said: str, *, headers: Mapping[str, str] | None = None, told: str = ""
    ) -> ModelTrouble:
        """Say what a status means; `said` is the server's word on it, `headers` its answer's."""
        what = self._shown(f"The server {told or 'answered'} {status}: {said}")
        wait = _retry_after_seconds(headers or {})
        waits = {"retry_after_seconds": wait} if wait else {}
        if status == 429:
            return ModelTrouble(
                "model_rate_limited",
                f"{what}.",
                hint="Wait before trying again; where a quota is used up, raise it first.",
                retryable=True,
                model=self.model,
                status="429",
                **waits,
            )
        if status >= 500 or status in (409, 425):
            return self.unavailable(what, status=str(status), **waits)
        if status == 408:
            return self.timed_out()
        hint = _REFUSED_HINTS.get(status, _REFUSED_HINTS[400])
        return ModelTrouble(
            "model_refused",
            f"{what}.",
            hint=hint.format(key_variable=self.key_variable, address=self.address),
            retryable=False,
            model=self.model,
            status=str(status),
        )

    def _shown(self, what: str) -> str:
        # The key goes before the text is cut, or a part of it could stay.
        return _short(what.replace(self.api_key, "***") if self.api_key else what)


def server_message(body: Mapping[str, object]) -> str:
    """Give what a body's `error` says, or nothing; servers nest it in several ways."""
    error = body.get("error")
    inner = error.get("error", error) if isinstance(error, dict) else error
    said = inner.get("message") if isinstance(inner, dict) else inner
    return said if isinstance(said, str) else ""


def with_message(what: str, body: Mapping[str, object]) -> str:
    """Give `what`, followed by what the body's `error` says."""
    said = server_message(body)
    return f"{what}: {said}" if said else what


def _status_of(error: object) -> int:
    """Give the status that an error within an answer stands for; a server's failure by default."""
    named = error if isinstance(error, dict) else {}
    for value in (named.get("code"), named.get("status"), named.get("type")):
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
        if isinstance(value, str) and value in _STATUS_OF_WORD:
            return _STATUS_OF_WORD[value]
    return 500


def _short(text: str) -> str:
    line = " ".join(encodable(text).split()).rstrip(".")
    visible = "".join(character if character.isprintable() else "?" for character in line)
    if len(visible) <= MAX_MESSAGE:
        return visible
    return visible[: MAX_MESSAGE - 1] + "…"


def _retry_after_seconds(headers: Mapping[str, str]) -> str:
    value = headers.get("retry-after", "").strip()
    return value if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) else ""
