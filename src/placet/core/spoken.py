"""Commands in a message: `/approve ID` and `/reject ID REASON`, as people type them anywhere.

Only the exact form decides (H5). Whatever looks like such a command is never taken for a message to
a model: where its form is wrong, the person is told the right one, and nothing is changed.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from placet.core.errors import InvalidInput

_APPROVE, _REJECT = "/approve", "/reject"
_REQUEST = re.compile(r"[a-z]{2}_[0-9a-z]{4,64}")
#: Signs that are taken for a slash, and letters that show as nothing.
_SLASHES = str.maketrans("\u2044\u2215\u29f8\u2571", "////")
_BLANKS = frozenset("\u115f\u1160")
_FORMS = "Say exactly `/approve ID`, or `/reject ID REASON`."


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenApprove:
    """Somebody says yes to a request."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenReject:
    """Somebody says no to a request; the reason may have several lines."""

    request: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Something like a command that is none: `hint` says how it is said."""

    hint: str


Spoken = SpokenApprove | SpokenReject | Malformed


def spoken(message: str) -> Spoken | None:
    """Read the command that a message is; None: it is no command, and may go to a model."""
    text = message.strip()
    word, rest = first_word(text)
    if not _looks_like_command(text):
        return None
    request, after = first_word(rest)
    if word not in (_APPROVE, _REJECT):
        return Malformed(hint=_FORMS)
    if not _REQUEST.fullmatch(request):
        return Malformed(hint=f"{request!r} is no request's id. {_FORMS}" if request else _FORMS)
    if word == _APPROVE:
        if after:
            return Malformed(hint=f"Nothing may follow the id. {_FORMS}")
        return SpokenApprove(request=request)
    if not after:
        return Malformed(hint=f"A rejection needs a reason: the model is told it. {_FORMS}")
    return SpokenReject(request=request, reason=after)


def refuse_command(message: str) -> None:
    """Refuse to give a command to a model as if it were a message; raises InvalidInput."""
    if spoken(message) is not None:
        raise InvalidInput(
            "command_as_message",
            "The message is a command about a request, and is given to no model.",
            hint="Decide with `placet approve`, `placet reject` or `Placet.decide`.",
        )


def first_word(text: str) -> tuple[str, str]:
    """Give the first word of a text, and what follows it."""
    word, *rest = text.split(None, 1) or [""]
    return word, "".join(rest).strip()


def _looks_like_command(text: str) -> bool:
    """Say whether a message begins as a command does, or has a line that decides about a request.

    Whatever is hidden in it, put around it or mistyped changes nothing.
    """
    return _begins_as_command(text) or any(
        _begins_as_command(line) and _REQUEST.search(line.casefold()) for line in text.splitlines()
    )


def _begins_as_command(text: str) -> bool:
    plain = unicodedata.normalize("NFKD", text).translate(_SLASHES)
    seen = (each for each in plain if each == "/" or (each.isalnum() and each not in _BLANKS))
    return re.sub("^/+", "/", "".join(seen).casefold()).startswith((_APPROVE, _REJECT))
