"""Honest display: what every surface shows of a text that a model, a tool or a stranger wrote (H2).

Three functions make new texts to be shown, and nothing that they make is ever digested or run:
`masked` hides secrets, `visible` shows what would not be seen or would move what is, `shortened`
does the same within a limit and says what it left out. They go in that order, `masked` first, and
`visible` or `shortened` once, as the last. Their own words stand in brackets which no text can
forge: a `⟦` that stands in the text itself is shown as `⟦U+27E6⟧`.

The letters of right-to-left scripts are shown as they are. They reorder their neighbours, so a
surface isolates each text it shows (HTML's `<bdi>`). Nothing here escapes for HTML, Markdown or
a messenger's markup; each surface does that for its own, after this.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from placet.core.canonical import JsonValue
from placet.core.errors import InvalidInput

#: More spaces in a row than this are shown as their number: they could push the rest out of sight.
MAX_SPACES = 64

#: More line ends in a row than this are shown as their number, likewise.
MAX_NEWLINES = 8

#: More combining characters on one base than this are shown as marks: they cover other lines.
MAX_COMBINING = 4

#: The smallest limit of `shortened`: room for its note, a head and a tail.
MIN_SHORTENED = 120

#: A key is secret whose name ends so, read without case and separators, or ends so and in an "s".
SECRET_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "authorization",
    "cookie",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "signingkey",
    "encryptionkey",
    "secretvalue",
    "tokenvalue",
    "authorizationheader",
)

#: A key is secret whose last word is one of these, which as endings would hide too much.
SECRET_WORDS = frozenset({"pwd", "pass", "auth", "otp", "cvv", "cvc", "jwt", "bearer"})

#: Shapes of secrets in a text; a group in one is the secret, where the shape is more than that.
#: None holds a space, a quote or a sign of the shell, so that no mask hides a command; only a PEM
#: key may hold line ends. None looks at a character more than a bounded number of times.
SECRET_SHAPES = (
    r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}",
    r"(?<![A-Za-z0-9])[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/=]{16,}",
    r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,}",
    r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}",
    r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}",
    r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}",
    r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,}",
    r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"(?<![A-Za-z0-9])xapp-[A-Za-z0-9-]{10,}",
    r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}",
    r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}",
    r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{50,}",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*",
    r"\b(?i:bearer|basic) ++(?=[A-Za-z._~+/-]*[0-9=])([A-Za-z0-9._~+/=-]{16,})",
    r"://[A-Za-z0-9._~%+-]{0,128}+:([A-Za-z0-9._~%+=-]{1,256}+)@",
    r"(?i:password|passwd|passphrase|secret|token|(?:api|access|private|secret)[_-]?key)"
    r"=[\"']?(?![./~])([A-Za-z0-9._~%+/=-]{6,})",
    r"\"[A-Za-z0-9_-]{0,64}(?i:password|passwd|passphrase|secret|token|authorization"
    r"|(?:api|access|private|secret)[_-]?key)\"\s{0,8}:\s{0,8}\"([A-Za-z0-9._~%+/=@#:,-]+)\"",
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[\r\n]|\\[nr])++(?:Proc-Type: 4,ENCRYPTED|DEK-Info: [A-Z0-9-]+,[0-9A-F]+))*+"
    r"(?:(?:[\r\n]|\\[nr])*+[A-Za-z0-9+/=]{40,}+)*+"
    r"(?:(?:[\r\n]|\\[nr])*+[A-Za-z0-9+/=]*+(?:[\r\n]|\\[nr])*+"
    r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?+",
)

#: Printable by Python's lights, and yet nothing to see, or no more than a gap.
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0\ufffc\U0001d159")

#: What our own brackets look like.
_BRACKETS = frozenset("⟦⟧〚〛")

#: Marks (Mn) without a shape of their own: joiners, fillers and variation selectors.
_SHAPELESS = re.compile(
    "[\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U00016fe4\U000e0100-\U000e01ef]"
)

_OVERLAY = 1  # The combining class of what strikes its base through (UAX 44, table 15).
_DIGEST_CHARACTERS = 16


def visible(text: str, *, keep_newlines: bool = False) -> str:
    """Show `text` so that all of it is seen, and differently from any other text.

    Control, bidi, zero-width, tag, private and unassigned characters, surrogates, variation
    selectors, blank letters, spaces and line ends other than the plain ones, strokes through
    letters and combining marks without a base or beyond `MAX_COMBINING` become marks such as
    `⟦U+202E⟧`, or `⟦U+200B ×3⟧` for a run of one. The line feed too, unless `keep_newlines`.
    """
    if text.isascii() and text.isprintable() and " " * (MAX_SPACES + 1) not in text:
        return text
    return "".join(unit.shown for unit in _units(text, keep_newlines=keep_newlines))


def shortened(text: str, limit: int, *, keep_newlines: bool = False) -> str:
    """Show `text` as `visible` does, in at most `limit` characters.

    What is too long keeps its head and its tail, in about equal parts, around a note of how many
    of the text's own characters were left out, and the first digits of the SHA-256 of the whole
    text in UTF-8. Raises `InvalidInput` for a limit below `MIN_SHORTENED`.
    """
    if limit < MIN_SHORTENED:
        raise InvalidInput("invalid_limit", f"a limit of {limit} is below {MIN_SHORTENED}")
    whole = visible(text, keep_newlines=keep_newlines)
    if len(whole) <= limit:
        return whole
    units = list(_units(text, keep_newlines=keep_newlines))
    room = limit - len(_note(text, len(text)))
    tail = _fitting(reversed(units), room // 2)
    while tail and _is_combining(units[len(units) - tail]):
        tail -= 1  # It would combine with the note.
    head = _fitting(iter(units), room - room // 2)
    left_out = units[head : len(units) - tail]
    parts = (
        *(unit.shown for unit in units[:head]),
        _note(text, sum(unit.length for unit in left_out)),
        *(unit.shown for unit in units[len(units) - tail :]),
    )
    return "".join(parts)


def masked(value: JsonValue) -> JsonValue:
    """Give a copy of `value` in which secrets are masked as `‹secret, 24 characters›`.

    A secret is any text or number at or under a key that is like one of `SECRET_ENDINGS` and
    `SECRET_WORDS`, and any part of any text, keys included, in one of `SECRET_SHAPES`. Numbers stay
    where the name is a plural: `max_tokens` is no secret. `true`, `false`, `null` and the empty
    text stay. A `‹` of the text itself is shown as `‹literal ‹›`, so that no text passes for a
    mask. `value` is as it was.
    """
    return _masked(value)


class _Unit(NamedTuple):
    """What is shown for `length` characters of a text; it is never cut."""

    shown: str
    length: int


def _units(text: str, *, keep_newlines: bool) -> Iterator[_Unit]:
    """Give the parts of `text` in order: single characters as they are, and runs as marks."""
    combining, at = MAX_COMBINING, 0  # Nothing stands before a text for a mark to combine with.
    while at < len(text):
        character = text[at]
        most = MAX_NEWLINES if character == "\n" and keep_newlines else 0
        if character == " " or most:
            hidden = _run_length(text, at) > (most or MAX_SPACES)
            combining = MAX_COMBINING
        elif _is_hidden(character):
            hidden = True
            combining = MAX_COMBINING
        elif not character.isascii() and unicodedata.category(character) == "Mn":
            hidden = combining >= MAX_COMBINING
            combining += 1
        else:
            hidden = False
            combining = 0
        count = _run_length(text, at) if hidden else 1
        yield _Unit(_mark(character, count) if hidden else character, count)
        at += count


def _run_length(text: str, start: int) -> int:
    end = start + 1
    while end < len(text) and text[end] == text[start]:
        end += 1
    return end - start


def _mark(character: str, count: int) -> str:
    times = f" ×{count}" if count > 1 else ""
    return f"⟦U+{ord(character):04X}{times}⟧"


def _is_combining(unit: _Unit) -> bool:
    return len(unit.shown) == 1 and unicodedata.category(unit.shown) == "Mn"


def _is_hidden(character: str) -> bool:
    """Say whether a character is shown by its number.

    Not printable are the categories Cc, Cf, Cs, Co, Cn, Zl, Zp, and Zs but for the plain space.
    """
    if character.isascii():
        return not character.isprintable()
    return (
        not character.isprintable()
        or character in _BLANKS
        or character in _BRACKETS
        or unicodedata.combining(character) == _OVERLAY
        or unicodedata.category(character) == "Me"
        or _SHAPELESS.match(character) is not None
    )


def _fitting(units: Iterator[_Unit], room: int) -> int:
    """Count how many of `units`, from the first, are shown in `room` characters."""
    count = 0
    for unit in units:
        room -= len(unit.shown)
        if room < 0:
            break
        count += 1
    return count


def _note(text: str, left_out: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(data).hexdigest()[:_DIGEST_CHARACTERS]
    return f"⟦{left_out} characters left out, sha256 of all {digest}⟧"


_SHAPES = re.compile("|".join(SECRET_SHAPES))
_LAST_WORD = re.compile(r"(?:[A-Z]+|[A-Z]?[a-z]+)$")
_UNNAMED = re.compile(r"[\W_]+|\d+$")

#: How much under a key is secret: nothing by its name, its texts, or its numbers too.
_Secrecy = Literal["none", "texts", "all"]


def _masked(value: JsonValue, *, secrecy: _Secrecy = "none") -> JsonValue:
    match value:
        case None | bool():
            return value
        case str():
            return _masked_text(value) if secrecy == "none" or not value else _mask(len(value))
        case int() | float():
            return _mask(len(str(value))) if secrecy == "all" else value
        case list():
            return [_masked(part, secrecy=secrecy) for part in value]
        case dict():
            copy: dict[str, JsonValue] = {}
            for key, part in value.items():
                inner = secrecy if secrecy == "all" else _secrecy_of(key) or secrecy
                copy[_free(_masked_text(key), copy)] = _masked(part, secrecy=inner)
            return copy


def _secrecy_of(key: str) -> _Secrecy | None:
    """Say what the name of a key makes secret, or None where it makes nothing so."""
    name = _squashed(key)
    word = _LAST_WORD.search(unicodedata.normalize("NFKC", key))
    if name.endswith(SECRET_ENDINGS):
        return "all"
    if word is not None and word[0].lower() in SECRET_WORDS:
        return "all"
    return "texts" if name.removesuffix("s").endswith(SECRET_ENDINGS) else None


def _squashed(name: str) -> str:
    """Give a name without case, separators and trailing digits, in NFKC."""
    return _UNNAMED.sub("", unicodedata.normalize("NFKC", name).casefold())


def _masked_text(text: str) -> str:
    parts: list[str] = []
    shown = 0
    for found in _SHAPES.finditer(text):
        start, end = found.span(found.lastindex or 0)
        parts += (_literal(text[shown:start]), _mask(end - start))
        shown = end
    return "".join((*parts, _literal(text[shown:])))


def _literal(text: str) -> str:
    return text.replace("‹", "‹literal ‹›")


def _mask(length: int) -> str:
    return f"‹secret, {length} character{'' if length == 1 else 's'}›"


def _free(key: str, taken: Collection[str]) -> str:
    """Give `key`, numbered where two keys are masked alike: both are shown."""
    name, number = key, 1
    while name in taken:
        number += 1
        name = f"{key} ({number})"
    return name
