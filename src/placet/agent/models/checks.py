"""Checks the settings that every client of a vendor's package takes. Nothing here connects."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from placet.core.errors import InvalidSetting

DEFAULT_TIMEOUT = timedelta(minutes=5)
"""How long one whole answer may take, from the first byte sent to the last received."""

#: A server that needs no key is still sent one, since the official packages will not go without.
NO_KEY = "none"


def need_package(package: str, *, client: str) -> None:
    """Hold that an extra's package is there. Raises `InvalidSetting` (`extra_missing`)."""
    if importlib.util.find_spec(package) is None:
        raise InvalidSetting(
            "extra_missing",
            f"{client} needs the package {package!r}, which is not installed.",
            hint=f"Install it with: pip install 'placet[{package}]'",
        )


def checked_model(model: str) -> str:
    """Give the name of the model. Raises `InvalidSetting` where it is empty."""
    if not model:
        raise InvalidSetting("setting_invalid", "The setting 'model' is empty.")
    return model


def checked_timeout(timeout: timedelta) -> float:
    """Give the time limit in seconds. Raises `InvalidSetting` unless it is positive."""
    if timeout <= timedelta(0):
        raise InvalidSetting("setting_invalid", "The setting 'timeout' is not positive.")
    return timeout.total_seconds()


def checked_url(base_url: str | None, *, example: str) -> str | None:
    """Give the address, or None where none is set. Raises `InvalidSetting` where it is none."""
    if not base_url:
        return None
    try:
        parts = urlsplit(base_url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise InvalidSetting(
            "setting_invalid",
            f"The setting 'base_url' is no address: {base_url!r}.",
            hint=f"Give one such as {example}.",
        )
    return base_url


def checked_key(api_key: str | None) -> str | None:
    """Give the key, or None where none is set. Raises `InvalidSetting` where it can be none."""
    key = (api_key or "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise InvalidSetting(
            "setting_invalid",
            "The setting 'api_key' holds characters that no key has.",
            hint="It may have been copied with a line break or a quotation mark.",
        )
    return key or None


def checked_extra_body(extra_body: Mapping[str, object] | None) -> dict[str, object]:
    """Give a copy of the server's own settings. Raises `InvalidSetting` where they are no JSON."""
    given = dict(extra_body or {})
    try:
        copied: dict[str, object] = json.loads(json.dumps(given, allow_nan=False))
        json.dumps(copied, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSetting(
            "setting_invalid",
            f"The setting 'extra_body' cannot be sent as JSON: {error}.",
            hint="Give a mapping of names to texts, numbers, lists and mappings.",
        ) from error
    return copied
