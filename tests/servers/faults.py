"""The ways in which the model server fails, whichever wire is spoken."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """What can go wrong with one request. From EMPTY_CONTENT on the script is asked first."""

    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    HANG = "hang"
    DRIP = "drip"
    DROP = "drop"
    MALFORMED_JSON = "malformed_json"
    NO_CHOICES = "no_choices"
    EMPTY_CONTENT = "empty_content"
    UNREADABLE_ARGUMENTS = "unreadable_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    DUPLICATE_IDS = "duplicate_ids"
    MISSING_IDS = "missing_ids"
    TRUNCATED_BODY = "truncated_body"
    # In the middle of a stream; an answer that is no stream is sound.
    STREAM_DROPPED = "stream_dropped"
    STREAM_HANGS = "stream_hangs"
    STREAM_ENDS = "stream_ends"
    STREAM_ERROR = "stream_error"
    STREAM_MALFORMED = "stream_malformed"


STATUSES = {
    Fault.RATE_LIMITED: (429, "Rate limit reached."),
    Fault.SERVER_ERROR: (500, "The server had an error."),
    Fault.OVERLOADED: (529, "Overloaded."),
    Fault.UNAUTHORIZED: (401, "Incorrect API key provided."),
    Fault.FORBIDDEN: (403, "This key may not use this model."),
    Fault.NOT_FOUND: (404, "There is no such model."),
    Fault.TOO_LARGE: (413, "Request exceeds the maximum size."),
}
"""The status and the words of each fault that is answered with an error of the wire's own form."""

IN_STREAM = frozenset(
    {
        Fault.STREAM_DROPPED,
        Fault.STREAM_HANGS,
        Fault.STREAM_ENDS,
        Fault.STREAM_ERROR,
        Fault.STREAM_MALFORMED,
    }
)
"""The faults that need a stream to happen in."""
