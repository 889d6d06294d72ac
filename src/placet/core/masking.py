"""Masking: secrets are hidden from whoever is shown a text, and from nobody else (H2).

What masks make is shown, and never digested or run. A mask says how long the secret is and, where
there is a salt, a fingerprint of it: the same secret has the same one on every card of a session,
and who has not the salt cannot try guesses against it. The words of a mask stand in `‹` and `›`,
which no text can forge: a `‹` that stands in the text itself is shown as `‹literal ‹›`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from placet.core.canonical import JsonValue
from placet.core.card_words import Language, counted, said

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
    r"://[A-Za-z0-9._~%+-]{0,128}+:([A-Za-z0-9._~%+=-]{1,256}+)@",
    r"(?i:password|passwd|passphrase|secret|token|(?:api|access|private|secret)[_-]?key)"
    r"=[\"']?(?![./~])([A-Za-z0-9._~%+/=-]{6,})",
    r"\"[A-Za-z0-9_-]{0,64}" + _NAMES + r"\"\s{0,8}:\s{0,8}\"([A-Za-z0-9._~%+/=@#:,-]+)\"",
    _NAMES + r"\s{0,2}[:：=＝]\s{0,2}[\"']?(?![./~])(?=[A-Za-z._~%+/=-]{0,64}[0-9])"
    r"(?=[0-9._~%+/=-]{0,64}[A-Za-z])([A-Za-z0-9._~%+/=-]{8,})",
    r"(?:密码|口令|密钥|秘钥|私钥|令牌|验证码|密碼)\s{0,2}(?:[:：=＝]|是|为|為)\s{0,2}[\"'“「]?"
    r"(?![./~])(?=[A-Za-z._~%+/=@-]{0,64}[0-9])([A-Za-z0-9._~%+/=@-]{4,})",
    r"(?<![\w.-])(?P<card>(?:[0-9][ -]?){12,18}[0-9])(?![\w-]|\.[0-9])",
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[\r\n]|\\[nr])++(?:Proc-Type: 4,ENCRYPTED|DEK-Info: [A-Z0-9-]+,[0-9A-F]+))*+"
    r"(?:(?:[\r\n]|\\[nr])*+[A-Za-z0-9+/=]{40,}+)*+"
    r"(?:(?:[\r\n]|\\[nr])*+[A-Za-z0-9+/=]*+(?:[\r\n]|\\[nr])*+"
    r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?+",
)

#: Secret values of arguments that are shorter stay where other texts repeat them: "a" is no secret.
LEAST_REPEATED = 4

_SHAPES = re.compile("|".join(SECRET_SHAPES))
_CARD_NUMBER = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12}|62\d{14,17}"
)
_LAST_WORD = re.compile(r"(?:[A-Z]+|[A-Z]?[a-z]+)$")
_WORD = re.compile(r"[A-Za-z0-9]")
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
    known: frozenset[str] = frozenset()

    def value(self, value: JsonValue) -> JsonValue:
        """Give a copy of `value` in which secrets are masked as `‹secret, 24 characters›`.

        A secret is any text or number at or under a declared field, or a key that is like one of
        `SECRET_ENDINGS` and `SECRET_WORDS`, and any part of any text, keys included, in one of
        `SECRET_SHAPES`. Numbers stay where the name is a plural: `max_tokens` is no secret.
        `true`, `false`, `null` and the empty text stay. `value` is as it was.
        """
        return self._masked(value, "none", _paths(self.fields))

    def text(self, text: str) -> str:
        """Give `text` with what in it has a secret's shape masked."""
        parts: list[str] = []
        shown = 0
        for found in _SHAPES.finditer(text):
            if found["card"] is not None and not _is_card_number(found["card"]):
                continue
            start, end = found.span(found.lastindex or 0)
            parts += (_literal(text[shown:start]), self._mask(text[start:end]))
            shown = end
        return "".join((*parts, _literal(text[shown:])))

    def told(self, text: str) -> str:
        """Give what somebody told, with secrets masked by their shape, and where they are known."""
        if not self.known:
            return self.text(text)
        longest_first = sorted(self.known, key=lambda secret: (-len(secret), secret))
        known = re.compile("|".join(map(_bounded, longest_first)))
        parts: list[str] = []
        shown = 0
        for found in known.finditer(text):
            parts += (self.text(text[shown : found.start()]), self._mask(found[0]))
            shown = found.end()
        return "".join((*parts, self.text(text[shown:])))

    def knowing(self, arguments: Mapping[str, JsonValue]) -> Masking:
        """Give the same, which also knows the secret values of an action's arguments."""
        found = _secrets(dict(arguments), "none", _paths(self.fields))
        return replace(self, known=self.known | {each for each in found if _is_telling(each)})

    def _mask(self, secret: str) -> str:
        characters = counted(self.language, "characters", len(secret))
        if not self.salt:
            return f"‹{said(self.language, 'secret', characters=characters)}›"
        key = bytes.fromhex(self.salt)
        data = secret.encode("utf-8", "surrogatepass")
        taken = blake2b(data, digest_size=_FINGERPRINT_BYTES, key=key, person=_PERSON).hexdigest()
        words = said(self.language, "secret.known", characters=characters, fingerprint=taken)
        return f"‹{words}›"

    def _masked(self, value: JsonValue, secrecy: _Secrecy, paths: frozenset[_Path]) -> JsonValue:
        match value:
            case None | bool():
                return value
            case str():
                return self.text(value) if secrecy == "none" or not value else self._mask(value)
            case int() | float():
                text = str(value)
                return self._mask(text) if secrecy == "all" or _is_card_number(text) else value
            case list():
                return [self._masked(part, secrecy, paths) for part in value]
            case dict():
                copy: dict[str, JsonValue] = {}
                for key, part in value.items():
                    inner, under = _within(key, secrecy, paths)
                    copy[_free(self.text(key), copy)] = self._masked(part, inner, under)
                return copy


def masked(value: JsonValue) -> JsonValue:
    """Give a copy of `value` with its secrets masked, as `Masking.value` does; no fingerprints."""
    return Masking().value(value)


def _secrets(value: JsonValue, secrecy: _Secrecy, paths: frozenset[_Path]) -> Iterator[str]:
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
        case list():
            for part in value:
                yield from _secrets(part, secrecy, paths)
        case dict():
            for key, part in value.items():
                yield from _secrets(part, *_within(key, secrecy, paths))


def _is_telling(secret: str) -> bool:
    return len(secret) >= LEAST_REPEATED and not secret.isspace()


def _bounded(secret: str) -> str:
    """Give the pattern of a secret that is not found within a longer word or number."""
    before = r"(?<![A-Za-z0-9])" if _WORD.match(secret[0]) else ""
    after = r"(?![A-Za-z0-9])" if _WORD.match(secret[-1]) else ""
    return f"{before}{re.escape(secret)}{after}"


def _paths(fields: Collection[str]) -> frozenset[_Path]:
    return frozenset(tuple(field.replace("[]", "").split(".")) for field in fields)


def _within(
    key: str, secrecy: _Secrecy, paths: frozenset[_Path]
) -> tuple[_Secrecy, frozenset[_Path]]:
    """Say what is secret under a key of an object: how much, and which fields below it."""
    under = frozenset(path[1:] for path in paths if path[0] in (key, _ANY)) if paths else paths
    if secrecy == "all" or () in under:
        return "all", frozenset()
    return _secrecy_of(key) or secrecy, under


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
