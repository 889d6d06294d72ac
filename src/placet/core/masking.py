"""Masking: secrets are hidden from whoever is shown a text, and from nobody else (H2).

What masks make is shown, and never digested or run. A mask says how long the secret is and, where
there is a salt, a fingerprint of it: the same secret has the same one on every card of a session,
and who has not the salt cannot try guesses against it. The words of a mask stand in `‹` and `›`,
which no text can forge: a `‹` that stands in the text itself is shown as `‹literal ‹›`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

from placet.core.canonical import JsonValue
from placet.core.card_words import Language, counted, said
from placet.core.finding import NOTHING_KNOWN, Known

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
    "sshkey",
    "mnemonic",
    "seedphrase",
    "secretvalue",
    "tokenvalue",
    "authorizationheader",
    "passwordhash",
    "tokenhash",
    *"密码 口令 密钥 秘钥 私钥 令牌 凭据 验证码 授权码 助记词 密碼 權杖 金鑰 私鑰".split(),
)

#: A key is secret whose last word is one of these, which as endings would hide too much.
SECRET_WORDS = frozenset({"pwd", "pass", "auth", "otp", "cvv", "cvc", "jwt", "bearer"})

_NAMES = (
    r"(?i:password|passwd|passphrase|secret|token|authorization"
    r"|(?:api|access|private|secret)[_-]?key)"
)

#: Shapes of secrets in a text; a group in one is the secret, where the shape is more than that.
#: None holds a quote or a sign of the shell, and none a space but between digits, so that no mask
#: hides a command; only a PEM key may hold line ends. None looks at a character more than a
#: bounded number of times.
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
    r"://[A-Za-z0-9._~%+-]{0,128}+:([A-Za-z0-9._~%+=!*^-]{1,256}+)@",
    r"(?i:cookie): ?[A-Za-z0-9_.-]{1,64}=(?=[A-Za-z._~%+/=-]{0,64}[0-9])"
    r"([A-Za-z0-9._~%+/=-]{16,})",
    r"(?<![\w.-])(?P<card>(?:[0-9][ -]?){12,18}[0-9])(?![\w-]|\.[0-9])",
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[\r\n]|\\[nr])++(?:Proc-Type: 4,ENCRYPTED|DEK-Info: [A-Z0-9-]+,[0-9A-F]+))*+"
    r"(?:(?:[\r\n]|\\[nr])*+[A-Za-z0-9+/=]{40,}+)*+"
    r"(?:(?:[\r\n]|\\[nr])*+[A-Za-z0-9+/=]*+(?:[\r\n]|\\[nr])*+"
    r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?+",
)

#: Shapes of what stands beside a name that says it is secret. The name and what it names stand on
#: one line, and after a `=` that nothing stands before, at once: else a shell would run what the
#: mask hides. It is one word, which a shell could take up again: `_Command` says where.
NAMED_SHAPES = (
    r"(?i:password|passwd|passphrase|secret|token|(?:api|access|private|secret)[_-]?key)"
    r"=[\"']?(?![./~])([A-Za-z0-9._~%+/=!*^-]{6,})",
    r"[\"'][A-Za-z0-9_-]{0,64}"
    + _NAMES
    + r"\\{0,8}[\"'][ \t]{0,8}:[ \t]{0,8}\\{0,8}[\"']([A-Za-z0-9._~%+/=@#:,!*^-]+)\\{0,8}[\"']",
    _NAMES + r"(?:[ \t]{0,2}[:：＝][ \t]{0,2}|[ \t]{1,2}=[ \t]{0,2}|=)[\"']?(?![./~])"
    r"(?=[A-Za-z._~%+/=!*^-]{0,64}[0-9])(?=[0-9._~%+/=!*^-]{0,64}[A-Za-z])"
    r"([A-Za-z0-9._~%+/=!*^-]{8,})",
    r"(?<![\w-])--?[A-Za-z0-9-]{0,64}" + _NAMES + r"[ \t]{1,2}[\"']?(?![./~])"
    r"(?=[A-Za-z._~%+/=!*^-]{0,64}[0-9])(?=[0-9._~%+/=!*^-]{0,64}[A-Za-z])"
    r"([A-Za-z0-9._~%+/=!*^-]{6,})",
    r"<[A-Za-z0-9:_-]{0,64}" + _NAMES + r">([A-Za-z0-9._~%+/=@#:,!*^-]{1,256}+)</",
    r"(?:密码|口令|密钥|秘钥|私钥|令牌|验证码|密碼)[ \t]{0,2}(?:[:：=＝]|是|为|為)[ \t]{0,2}"
    r"[\"'“「]?(?![./~])(?=[A-Za-z._~%+/=@!*^-]{0,64}[0-9])([A-Za-z0-9._~%+/=@!*^-]{4,})",
)

_SHAPES = re.compile("|".join((*SECRET_SHAPES, *NAMED_SHAPES)))
_NAMED_FROM = re.compile("|".join(SECRET_SHAPES)).groups + 1

#: Names that a text takes the value of: `$name`, `${name`, `%name%`, `printenv name` and the like.
_USES = re.compile(r"(?:\$(?:env:|\{[!#]?)?|%(?=\w{1,128}%))([A-Za-z_][A-Za-z0-9_]*)")
_USES_WITHIN = re.compile(
    r"(?:\$(?:env:|\{[!#]?)?|%(?=\w{1,128}%)|!(?=\w{1,128}!)|printenv +"
    r"|getenv\W{1,3}|environ\W{1,3})([A-Za-z_][A-Za-z0-9_]*)"
)
_USES_BY_NAME = re.compile(r"\$\{!|\b(?:declare|typeset|local) +-n")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})=[\"']?\Z")

#: What on a line hands its words on to where they could be run.
_HANDS_ON = re.compile(r"[|`]|\$[(@*#?0-9_]|<\(|(?<!\S)[0-9&]?>|\beval\b|\bxargs\b")
_HANDS_LINES_ON = re.compile(r"<<|^[ \t]*+(?:[)}]|done\b|fi\b|esac\b)[^\n]*[|>]", re.MULTILINE)
_JSON_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?|\\?\Z)|[^\s"]', re.DOTALL)
_LONGEST_NAME = 140

#: Under these names of an object is a name, and under those what it names.
_NAMING = frozenset({"name", "key", "header", "field", "variable"})
_NAMED = frozenset({"value", "values", "val"})
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")

#: What could be a program's name: beside a flag, or as the second of two, it is shown.
_PROGRAM = re.compile(r"[a-z][a-z_-]*|[./~-].*", re.DOTALL)
_CARD_NUMBER = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12}|62\d{14,17}"
)
_LAST_WORD = re.compile(r"(?:[A-Z]+|[A-Z]?[a-z]+)$")
_UNNAMED = re.compile(r"[\W_]+|\d+$")
_PERSON = b"placet.secret"
_FINGERPRINT_BYTES = 4
_ANY = "*"

#: How much under a key is secret: nothing by its name, its texts, or its numbers too.
_Secrecy = Literal["none", "texts", "all"]
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """How secrets are masked.

    `salt`, hexadecimal, is the session's: without one there are no fingerprints. `fields` are
    secret by declaration: paths such as `card.number`, in which a list's items count as the list
    and `*` stands for any name. `known` are secret wherever `told` meets them.
    """

    salt: str = ""
    fields: tuple[str, ...] = ()
    language: Language = "en"
    known: Known = field(default=NOTHING_KNOWN)

    def value(self, value: JsonValue) -> JsonValue:
        """Give a copy of `value` in which secrets are masked as `‹secret, 24 characters›`.

        A secret is any text or number at or under a declared field, or a key that is like one of
        `SECRET_ENDINGS` and `SECRET_WORDS`, and any part of any text, keys included, in one of
        `SECRET_SHAPES`. Numbers stay where the name is a plural: `max_tokens` is no secret.
        `true`, `false`, `null` and the empty text stay. `value` is as it was.
        """
        looking = _Looking.at(value, self.fields)
        return self._masked(value, "none", looking.paths, looking)

    def text(self, text: str, *, is_inert: bool = False) -> str:
        """Give `text` with what in it has a secret's shape masked.

        What could be run by what stands beside it in the text is shown. `is_inert` says that the
        text is never run, and then whatever stands under a secret name in what looks like JSON is
        masked.
        """
        return self._with_masks(text, self._spans(text, is_inert=is_inert))

    def told(self, text: str) -> str:
        """Give what somebody told, with secrets masked by their shape, and where they are known.

        What is told is never what runs.
        """
        # What is known is looked for beside the shapes: knowing more never shows more.
        found = sorted((*self.known.spans(text), *self._spans(text, is_inert=True)))
        return self._with_masks(text, _joined(found))

    def repeated(self, text: str) -> str:
        """Give `text` with what is known masked, wherever it is repeated, and nothing else."""
        return self._with_masks(text, self.known.spans(text))

    def knowing(self, arguments: Mapping[str, JsonValue] | str) -> Masking:
        """Give the same, which also knows the secret values of an action's arguments.

        Of arguments that cannot be read it knows what is masked where they are shown.
        """
        if isinstance(arguments, str):
            spans = self._spans(arguments, is_inert=True)
            found = [form for start, end in spans for form in _read_as_json(arguments[start:end])]
        else:
            looking = _Looking.at(dict(arguments), self.fields)
            found = list(looking.secrets(dict(arguments), "none", looking.paths))
        return replace(self, known=self.known.and_more(found))

    def _spans(self, text: str, *, is_inert: bool) -> Iterator[tuple[int, int]]:
        """Give where in a text secrets stand, in order."""
        taken = list(_in_json(text, is_inert=is_inert))
        command: _Command | None = None
        at = 0
        while (found := _SHAPES.search(text, at)) is not None:
            start, end = found.span(found.lastindex or 0)
            at = found.end()
            if found["card"] is not None and not _is_card_number(found["card"]):
                continue
            if not is_inert and (found.lastindex or 0) >= _NAMED_FROM:
                command = command or _Command(text)
                if command.takes_up(start):
                    at = max(start, found.start() + 1)  # Another shape may stand within this one.
                    continue
            taken.append((start, end))
        last = 0
        for start, end in sorted(taken, key=lambda span: (span[0], -span[1])):
            if start >= last:
                yield start, end
                last = end

    def _with_masks(self, text: str, spans: Iterable[tuple[int, int]]) -> str:
        parts: list[str] = []
        shown = 0
        for start, end in spans:
            parts += (_literal(text[shown:start]), self._mask(text[start:end]))
            shown = end
        return "".join((*parts, _literal(text[shown:])))

    def _mask(self, secret: str) -> str:
        characters = counted(self.language, "characters", len(secret))
        if not self.salt:
            return f"‹{said(self.language, 'secret', characters=characters)}›"
        key = bytes.fromhex(self.salt)
        data = secret.encode("utf-8", "surrogatepass")
        taken = blake2b(data, digest_size=_FINGERPRINT_BYTES, key=key, person=_PERSON).hexdigest()
        words = said(self.language, "secret.known", characters=characters, fingerprint=taken)
        return f"‹{words}›"

    def _masked(
        self, value: JsonValue, secrecy: _Secrecy, paths: frozenset[_Path], looking: _Looking
    ) -> JsonValue:
        match value:
            case None | bool():
                return value
            case str():
                return self.text(value) if secrecy == "none" or not value else self._mask(value)
            case int() | float():
                text = str(value)
                return self._mask(text) if secrecy == "all" or _is_card_number(text) else value
            case list():
                each = zip(value, looking.of_items(value, secrecy), strict=True)
                return [self._masked(part, inner, paths, looking) for part, inner in each]
            case dict():
                copy: dict[str, JsonValue] = {}
                for key, inner, under in looking.of_names(value, secrecy, paths):
                    name = _free(self.text(key), copy)
                    copy[name] = self._masked(value[key], inner, under, looking)
                return copy


def masked(value: JsonValue) -> JsonValue:
    """Give a copy of `value` with its secrets masked, as `Masking.value` does; no fingerprints."""
    return Masking().value(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looking:
    """Looks at a value for what names make secret in it.

    A name whose value a text of it takes up again (`$name`) makes nothing secret: the text may be
    a command, which would run what is hidden.
    """

    paths: frozenset[_Path]
    uses: frozenset[str]

    @classmethod
    def at(cls, value: JsonValue, fields: Collection[str]) -> _Looking:
        return cls(
            paths=frozenset(tuple(each.replace("[]", "").split(".")) for each in fields),
            uses=frozenset(
                name.lower() for text in _texts_in(value) for name in _USES.findall(text)
            ),
        )

    def secrets(
        self, value: JsonValue, secrecy: _Secrecy, paths: frozenset[_Path]
    ) -> Iterator[str]:
        """Give the values that are masked whole."""
        match value:
            case None | bool():
                pass
            case str():
                if secrecy != "none":
                    yield value
            case int() | float():
                if secrecy == "all":
                    yield str(value)
                    if isinstance(value, float) and value.is_integer():
                        yield str(int(value))
            case list():
                for part, inner in zip(value, self.of_items(value, secrecy), strict=True):
                    yield from self.secrets(part, inner, paths)
            case dict():
                for key, inner, under in self.of_names(value, secrecy, paths):
                    yield from self.secrets(value[key], inner, under)

    def of_items(self, value: list[JsonValue], secrecy: _Secrecy) -> Iterator[_Secrecy]:
        """Say of each item what is secret in it: what a flag, or the first of a pair, names is."""
        named: _Secrecy | None = None
        for index, part in enumerate(value):
            is_program = isinstance(part, str) and _PROGRAM.fullmatch(part) is not None
            yield secrecy if named is None or is_program else named
            named = None
            if isinstance(part, str) and (_FLAG.fullmatch(part) or (len(value), index) == (2, 0)):
                named = self._secrecy_of(part)

    def of_names(
        self, value: Mapping[str, JsonValue], secrecy: _Secrecy, paths: frozenset[_Path]
    ) -> Iterator[tuple[str, _Secrecy, frozenset[_Path]]]:
        """Say what is secret under each key of an object: how much, and which fields below it."""
        names = [part for key, part in value.items() if key.lower() in _NAMING]
        named = [self._secrecy_of(name) for name in names if isinstance(name, str)]
        pair = next((found for found in named if found is not None), None)
        for key in value:
            under = _below(key, paths)
            if secrecy == "all" or () in under:
                yield key, "all", frozenset()
            elif pair is not None and key.lower() in _NAMED:
                yield key, pair, under
            else:
                yield key, self._secrecy_of(key) or secrecy, under

    def _secrecy_of(self, name: str) -> _Secrecy | None:
        return None if name.lower() in self.uses else _secrecy_of(name)


def _texts_in(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for part in value:
                yield from _texts_in(part)
        case dict():
            for part in value.values():
                yield from _texts_in(part)
        case _:
            pass


def _below(key: str, paths: frozenset[_Path]) -> frozenset[_Path]:
    """Give what is declared below a key, which may hold dots itself."""
    return frozenset(
        path[count:]
        for path in paths
        for count in range(1, len(path) + 1)
        if ".".join(path[:count]) == key or (count == 1 and path[0] == _ANY)
    )


class _Command:
    """A text looked at as a shell would: what could run what a mask in it would hide."""

    def __init__(self, text: str) -> None:
        whole = text.replace("\\\n", "  ")
        by_name = _NAME if _USES_BY_NAME.search(text) else _USES_WITHIN
        self._text = text
        self._uses = frozenset(name.lower() for name in by_name.findall(text))
        self._hands_all_on = _HANDS_LINES_ON.search(whole) is not None
        self._ends = [found.start() for found in re.finditer("\n", whole)]
        self._lines = {self._line(found.start()) for found in _HANDS_ON.finditer(whole)}

    def takes_up(self, start: int) -> bool:
        """Say whether what stands there after a name could be run: by its name, or handed on."""
        before = self._text[max(0, start - _LONGEST_NAME) : start]
        assigned = _ASSIGNED.search(before)
        if assigned is not None and assigned[1].lower() in self._uses:
            return True
        return self._hands_all_on or self._line(start) in self._lines

    def _line(self, at: int) -> int:
        return bisect_left(self._ends, at)


def _in_json(text: str, *, is_inert: bool) -> Iterator[tuple[int, int]]:
    """Give where in a text that is JSON the texts stand that a name beside them makes secret.

    What a shell would take for a substitution is none, unless the text is inert: then it need not
    be sound JSON, either.
    """
    if not text.lstrip().startswith(("{", "[")) or '"' not in text:
        return
    if not is_inert and not _is_json(text):
        return
    named: _Secrecy | None = None
    for token in _JSON_TOKEN.finditer(text):
        if token[1] is None:
            named = None
        elif token[2] is not None:
            named = _secrecy_of(token[1])
        elif named is not None and token[1] and (is_inert or not re.search(r"[$`]", token[1])):
            yield token.span(1)
            named = None


def _read_as_json(written: str) -> Iterator[str]:
    """Give a text as it stands within quotes, and as JSON reads it."""
    yield written
    with suppress(ValueError):
        yield str(json.loads(f'"{written}"'))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_secret(name: str, text: str) -> bool:
    """Say whether a text is secret, or holds a secret, whatever else may take it up.

    It is for what must not be handed on, where a doubt means that it is not.
    """
    if not text:
        return False
    looked_at = Masking().text(text, is_inert=True)
    return _secrecy_of(name) is not None or looked_at != _literal(text)


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


def _is_card_number(text: str) -> bool:
    """Say whether digits, perhaps in groups, are a payment card's number: by range and Luhn."""
    digits = text.replace(" ", "").replace("-", "")
    if not _CARD_NUMBER.fullmatch(digits):
        return False
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    total = sum(map(int, digits[::-2])) + sum(twice - 9 * (twice > 9) for twice in doubled)
    return total % 10 == 0


def _literal(text: str) -> str:
    return text.replace("‹", "‹literal ‹›")


def _free(key: str, taken: Collection[str]) -> str:
    """Give `key`, numbered where two keys are masked alike: both are shown."""
    name, number = key, 1
    while name in taken:
        number += 1
        name = f"{key} ({number})"
    return name


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans, in order, that overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
