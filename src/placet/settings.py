"""Settings: from `placet.toml` and the environment (`PLACET_*` wins), each with a default.

A malformed or unknown setting is an error that names it; nothing is guessed.
"""

from __future__ import annotations

import os
import pwd
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placet.core.card_words import LANGUAGES, Language
from placet.core.errors import InvalidSetting

#: The file that settings are read from, in the working directory, where PLACET_CONFIG names none.
FILE = "placet.toml"

#: The store of a program that names none.
DEFAULT_STORE = "sqlite:///placet.db"

#: Variables that are not read as texts: where the file is, who decides, tools' mark, debugging, and
#: keys, which stand in no file of settings.
OTHER_VARIABLES = frozenset(
    {
        "PLACET_CONFIG",
        "PLACET_APPROVERS",
        "PLACET_APPROVER_TOKEN",
        "PLACET_INSIDE_TOOL",
        "PLACET_DEBUG",
        "PLACET_KEY",
        "PLACET_OLD_KEY",
        "PLACET_OLD_KEY_FILE",
    }
)

_SHA256_CHARACTERS = 64
_TEXTS = (
    "store",
    "tenant",
    "app",
    "language",
    "policy",
    "key_file",
    "key_port",
    "anchors",
    "signing_key_file",
)

#: The variable of each setting that is a text.
_VARIABLES = {**{name: f"PLACET_{name.upper()}" for name in _TEXTS}, "language": "PLACET_LANG"}


def current_account() -> str:
    """Name the account that the process runs as, by its user id; no variable can change it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is set. `approver_tokens` holds the SHA-256 of each approver's token, in hexadecimal."""

    store: str = DEFAULT_STORE
    tenant: str = "main"
    app: str = ""
    language: Language = "en"
    policy: str = ""
    key_file: str = ""
    key_port: str = ""
    anchors: str = ""
    signing_key_file: str = ""
    approvers: tuple[str, ...] = field(default_factory=lambda: (current_account(),))
    approver_tokens: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def written(environment: Mapping[str, str] | None = None) -> tuple[Path, Mapping[str, Any]]:
        """Name the file, and give what stands in it, unchecked; nothing where it cannot be read."""
        env = os.environ if environment is None else environment
        path = Path(env.get("PLACET_CONFIG") or FILE)
        try:
            return path, _from_file(path)
        except InvalidSetting:
            return path, {}

    @staticmethod
    def load(environment: Mapping[str, str] | None = None) -> Settings:
        """Read the file and the environment; raises InvalidSetting."""
        env = os.environ if environment is None else environment
        named = env.get("PLACET_CONFIG")
        path = Path(named or FILE)
        found: dict[str, Any] = {}
        if path.is_file():
            found = _from_file(path)
        elif named:
            raise InvalidSetting("setting_invalid", f"PLACET_CONFIG: there is no file {named}.")
        _refuse_unknown(env)
        for name in _TEXTS:
            if (value := env.get(_VARIABLES[name])) is not None:
                found[name] = value
        if (people := env.get("PLACET_APPROVERS")) is not None:
            found["approvers"] = [name.strip() for name in people.split(",") if name.strip()]
        return _checked(found)


def _refuse_unknown(env: Mapping[str, str]) -> None:
    known = {*OTHER_VARIABLES, *_VARIABLES.values()}
    for name in sorted(env):
        if name.startswith("PLACET_") and name not in known:
            raise InvalidSetting(
                "setting_unknown",
                f"There is no setting {name}.",
                hint=f"The variables are: {', '.join(sorted(known))}.",
            )


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSetting("setting_invalid", f"{path}: {error}") from error


def _checked(found: Mapping[str, Any]) -> Settings:
    known = {*_TEXTS, "approvers", "approver_tokens"}
    if unknown := sorted(set(found) - known):
        raise InvalidSetting(
            "setting_unknown",
            f"There is no setting {unknown[0]!r}.",
            hint=f"The settings are: {', '.join(sorted(known))}.",
        )
    for name in _TEXTS:
        value = found.get(name, "")
        if not isinstance(value, str) or (name != "app" and name in found and not value):
            raise _invalid(name, "a text that is not empty")
    approvers = found.get("approvers", [current_account()])
    if not isinstance(approvers, list) or not all(isinstance(a, str) and a for a in approvers):
        raise _invalid("approvers", "a list of names")
    tokens = found.get("approver_tokens", {})
    if not isinstance(tokens, dict):
        raise _invalid("approver_tokens", "a table of names and SHA-256 sums")
    for name, digest in tokens.items():
        if not isinstance(digest, str) or not _is_sha256(digest):
            kind = "the SHA-256 of a token in hexadecimal"
            hint = "`placet token` makes a token, and the line for it."
            raise _invalid(f"approver_tokens.{name}", kind, hint=hint)
    texts = {name: found[name] for name in _TEXTS if name in found}
    texts["language"] = language_of(texts.get("language", LANGUAGES[0]))
    return Settings(**texts, approvers=tuple(approvers), approver_tokens=tokens)


def language_of(name: str) -> Language:
    """Give the language of cards of that name; raises InvalidSetting."""
    for language in LANGUAGES:
        if name == language:
            return language
    raise _invalid("language", f"one of {', '.join(LANGUAGES)}")


def _is_sha256(text: str) -> bool:
    return len(text) == _SHA256_CHARACTERS and all(c in "0123456789abcdef" for c in text)


def _invalid(name: str, kind: str, *, hint: str = "") -> InvalidSetting:
    return InvalidSetting("setting_invalid", f"The setting {name} must be {kind}.", hint=hint)
