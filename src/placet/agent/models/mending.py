"""Puts what a model once said amiss into a form that every server takes back.

The history must be acceptable to the server whatever a model said, or the run is lost. The
transcript keeps what was said; only what goes over the wire is mended.
"""

from __future__ import annotations

import json
import re

from placet.agent.models.raw_json import encodable
from placet.core.canonical import JsonValue, Unreadable, parse_arguments

UNREADABLE = "unreadable_arguments"
"""The key under which a server is sent arguments that are no JSON object."""

UNBEGUN = "{"
"""Stands for the arguments of a call that was cut off before any came."""

NAME_LIMIT = 64
"""How many characters OpenAI lets a tool's name have, and Anthropic a call's id."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def wire_name(name: str) -> str:
    """Give a tool's name, or an id, in the characters and the length that servers check."""
    return _NOT_IN_NAMES.sub("_", name)[:NAME_LIMIT] or "_"


def wire_text(arguments: str) -> str:
    """Give arguments as a text that holds a JSON object; one that does goes as it is."""
    try:
        readable = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        readable = False
    if readable:
        return arguments
    return json.dumps({UNREADABLE: arguments}) if arguments.strip() else "{}"


def wire_object(arguments: str) -> dict[str, JsonValue]:
    """Give arguments as an object, for servers that take no text.

    Only what has one reading is read (G4); else the object holds the text, and changes nothing.
    """
    if not arguments.strip():
        return {}
    try:
        return parse_arguments(arguments)
    except Unreadable:
        return {UNREADABLE: encodable(arguments)}


def unclosed(arguments: str) -> str:
    """Give the arguments of a call that was cut off as a text that nobody can read as whole (G4).

    A server that gives arguments as an object closes what the model did not, and half a call must
    not look like one. Text that is no JSON object already is left as it is.
    """
    if not arguments.strip():
        return UNBEGUN
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    # Of all that is JSON only an object ends with this.
    return arguments.rstrip().removesuffix("}")
