"""Declaring tools: a function, its schema from its signature, and what the gate must know of it.

`@tool` gives a `Tool`, which still can be called as the function that it is, outside any run; an
agent's runs reach the body through the gate alone (G2).
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Literal, NewType, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from placet.core.canonical import JsonValue, canonical
from placet.core.errors import InvalidDeclaration
from placet.core.values import EVERY_SURFACE, CallKind, Recovery
from placet.runtime.declarations import (
    ApprovalFunction,
    Arguments,
    Declaration,
    InvalidArguments,
    NotDone,
)
from placet.runtime.threads import in_thread

#: Annotates the parameter through which a body is given its idempotency key (D4).
IdempotencyKey = NewType("IdempotencyKey", str)

#: How long an attempt may take before its outcome is unknown.
TIME_LIMIT = timedelta(minutes=5)

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class ToolOptions(TypedDict, total=False):
    """What `tool` takes beside the function."""

    name: str | None
    version: str
    reads_only: bool
    approval: Literal["always", "never"] | ApprovalFunction | None
    surface: str
    scopes: tuple[str, ...] | list[str]
    effect: str
    reversible: bool
    idempotent: bool
    retries: int
    backoff: timedelta
    time_limit: timedelta
    not_done: tuple[type[BaseException], ...]


class Tool:
    """A declared tool. `declaration` is what the gate sees; calling it calls the function."""

    declaration: Declaration

    def __init__(self, function: Function, options: ToolOptions) -> None:
        self.__name__ = _named(function, options["name"])
        self._function = function
        self._options = _checked(self.__name__, options)
        self._probe: Function | None = None
        self._environment: Function | None = None
        self.__doc__ = function.__doc__
        self.declaration = _declaration(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, outside any run and past no gate."""
        return self._function(*args, **kwargs)

    def probe(self, function: F) -> F:
        """Declare how to find out what became of an attempt whose outcome is unknown (D4).

        It takes the tool's arguments and answers `Happened(result=...)`, `NotHappened()` or
        `Unsure()`; it must not act.
        """
        self._probe = function
        self.declaration = _declaration(self)
        return function

    def environment(self, function: F) -> F:
        """Declare what the tool reads of the world: read before asking and before acting (G13)."""
        self._environment = function
        self.declaration = _declaration(self)
        return function


@overload
def tool(function: Function, /, **options: Unpack[ToolOptions]) -> Tool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    reads_only: bool = False,
    approval: Literal["always", "never"] | ApprovalFunction | None = None,
    surface: str = EVERY_SURFACE,
    scopes: tuple[str, ...] | list[str] = (),
    effect: str = "",
    reversible: bool = False,
    idempotent: bool = False,
    retries: int = 0,
    backoff: timedelta = timedelta(seconds=1),
    time_limit: timedelta = TIME_LIMIT,
    not_done: tuple[type[BaseException], ...] = (),
) -> Tool | Callable[[Function], Tool]:
    """Declare a function as a tool.

    The schema is made from its signature and the description from its docstring. A tool that
    declares nothing is an effect that always asks. `reads_only` tools never ask unless they say
    so. `approval` is "always", "never", or a function of the arguments that answers True (ask) or
    False. `surface` names the part of the world it touches, by default all. `retries`, `backoff`
    and `not_done` (error types that say it did not act) take effect as D4 says. Raises
    InvalidDeclaration.
    """
    options: ToolOptions = {
        "name": name,
        "version": version,
        "reads_only": reads_only,
        "approval": approval,
        "surface": surface,
        "scopes": scopes,
        "effect": effect,
        "reversible": reversible,
        "idempotent": idempotent,
        "retries": retries,
        "backoff": backoff,
        "time_limit": time_limit,
        "not_done": not_done,
    }
    if function is not None:
        return Tool(function, options)
    return lambda declared: Tool(declared, options)


def _named(function: Any, name: str | None) -> str:
    """Give the tool's name; what is no function has neither a name nor types to make it from."""
    own = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(own, str):
        raise InvalidDeclaration(
            "invalid_tool",
            f"Tool {name or own or type(function).__name__}: only a function can be a tool.",
            hint="Write a function that calls it.",
        )
    return own if name is None else name


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


_TEXT = (_is_text, "a text, and not empty")
_SWITCH = (lambda value: isinstance(value, bool), "True or False")

#: What each option must be, with the words for it.
_OPTIONS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: value is None or _is_text(value), _TEXT[1]),
    "version": _TEXT,
    "reads_only": _SWITCH,
    "approval": (
        lambda value: value in (None, "always", "never") or callable(value),
        "'always', 'never' or a function",
    ),
    "surface": _TEXT,
    "scopes": (
        lambda value: isinstance(value, (tuple, list)) and all(map(_is_text, value)),
        "a tuple or list of texts",
    ),
    "effect": (lambda value: isinstance(value, str), "a text"),
    "reversible": _SWITCH,
    "idempotent": _SWITCH,
    "retries": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        "a whole number, 0 or more",
    ),
    "backoff": (
        lambda value: isinstance(value, timedelta) and value >= timedelta(0),
        "a timedelta, 0 or more",
    ),
    "time_limit": (
        lambda value: isinstance(value, timedelta) and value > timedelta(0),
        "a timedelta above 0",
    ),
    "not_done": (
        lambda value: isinstance(value, tuple) and all(map(_is_error, value)),
        "a tuple of exception types",
    ),
}


def _checked(name: str, options: ToolOptions) -> ToolOptions:
    """Hold each option against what it must be; raises InvalidDeclaration."""
    for option, value in options.items():
        holds, must = _OPTIONS[option]
        if not holds(value):
            raise InvalidDeclaration("invalid_tool", f"Tool {name}: {option} must be {must}.")
    return options


def _declaration(tool: Tool) -> Declaration:
    function, options = tool._function, tool._options
    kind: CallKind = "read" if options["reads_only"] else "effect"
    signature = _Signature(tool.__name__, function)
    probe, environment = tool._probe, tool._environment
    return Declaration(
        name=tool.__name__,
        version=options["version"],
        description=inspect.getdoc(function) or "",
        parameters=signature.parameters,
        validate=signature.validate,
        body=signature.caller(function),
        kind=kind,
        surface=options["surface"],
        scopes=tuple(options["scopes"]),
        effect=options["effect"],
        reversible=options["reversible"],
        approval=options["approval"] or ("never" if kind == "read" else "always"),
        recovery=Recovery(
            idempotent=options["idempotent"],
            probe=probe is not None,
            retries=options["retries"],
            backoff=options["backoff"],
            time_limit=options["time_limit"],
        ),
        probe=None if probe is None else signature.caller(probe),
        environment=None if environment is None else signature.reader(environment),
        not_done=(NotDone, *options["not_done"]),
    )


def _key_parameter(function: Function) -> str | None:
    """Name the parameter through which a body or a probe is given the idempotency key."""
    hints = typing.get_type_hints(function, include_extras=True)
    return next((name for name, hint in hints.items() if hint is IdempotencyKey), None)


class _Signature:
    """A function's parameters as a pydantic model, and how to call with frozen arguments."""

    parameters: Mapping[str, Any]

    def __init__(self, name: str, function: Function) -> None:
        fields: dict[str, Any] = {}
        self._name = name
        try:
            hints = typing.get_type_hints(function, include_extras=True)
            signature = inspect.signature(function)
        except (NameError, TypeError, ValueError) as error:
            raise InvalidDeclaration("invalid_tool", f"Tool {name}: {error}") from error
        for parameter in signature.parameters.values():
            hint = hints.get(parameter.name)
            if hint is IdempotencyKey:
                continue
            fixed = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if hint is None or not fixed:
                raise InvalidDeclaration(
                    "invalid_tool",
                    f"Tool {name}: parameter {parameter.name} needs a name and a type of its own.",
                )
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hint, default)
        config = ConfigDict(extra="forbid", validate_default=True)
        self._model = create_model(f"{name}_arguments", __config__=config, **fields)
        self._fields = tuple(fields)
        schema = self._model.model_json_schema(schema_generator=_WithoutTitles)
        schema.pop("title", None)
        if '"writeOnly": true' in json.dumps(schema):  # SecretStr: frozen, it would be asterisks.
            raise InvalidDeclaration(
                "invalid_tool", f"Tool {name}: a type that hides its value cannot be frozen."
            )
        self.parameters = schema

    def validate(self, arguments: Arguments) -> dict[str, JsonValue]:
        """Give the arguments as they will run: validated, defaults filled in, as JSON (G4).

        What is frozen is read again before it runs, and so must be read as what it is: a
        validator that changes its own answer would have another value run than was shown.
        """
        try:
            frozen = _written(self._read(arguments))
            again = _written(self._read(frozen))
        except ValidationError as error:
            found = [
                f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_context=False)
            ]
            raise InvalidArguments("; ".join(found)) from None
        if not _same(again, frozen):
            raise InvalidArguments("validated once more, they are other arguments.")
        return frozen

    def _read(self, arguments: Arguments) -> BaseModel:
        model: BaseModel = self._model.model_validate_json(json.dumps(dict(arguments)))
        return model

    def _values(self, arguments: Arguments) -> dict[str, Any]:
        """Give frozen arguments as Python values; raises NotDone where they are read otherwise."""
        try:
            model = self._read(arguments)
        except ValidationError as error:
            raise NotDone("The frozen arguments do not fit the tool any more.") from error
        if not _same(_written(model), dict(arguments)):
            raise NotDone("The frozen arguments are read as other ones now.")
        return {name: getattr(model, name) for name in self._fields}

    def caller(self, function: Function) -> Callable[[Arguments, str], Awaitable[object]]:
        """Give the function as a body: async, and a synchronous one in a thread of its own."""
        takes_key = _key_parameter(function)

        async def body(arguments: Arguments, key: str) -> object:
            values = self._values(arguments)
            if takes_key is not None:
                values[takes_key] = key
            if inspect.iscoroutinefunction(function):
                return await function(**values)
            result = await in_thread(lambda: function(**values), name=self._name)
            return await result if inspect.isawaitable(result) else result

        return body

    def reader(self, function: Function) -> Callable[[Arguments], str]:
        """Give the function as a fingerprint of the world, which must be a text."""

        def environment(arguments: Arguments) -> str:
            found = function(**self._values(arguments))
            if not isinstance(found, str):
                raise TypeError(f"an environment is a text, not {type(found).__name__}")
            return found

        return environment


def _same(one: dict[str, JsonValue], other: dict[str, JsonValue]) -> bool:
    """Say whether two objects are the same arguments; may raise Unreadable.

    What JSON writes alike, to the order of keys and the kind of numbers, is the same; that is seen
    sooner than that two canonical forms are.
    """
    return json.dumps(one) == json.dumps(other) or canonical(one) == canonical(other)


def _written(model: BaseModel) -> dict[str, JsonValue]:
    """Write a model down so that it can be read again, and each set in the one order."""
    written = model.model_dump(mode="json", by_alias=True, round_trip=True)
    kept = [name for name, field in type(model).model_fields.items() if not field.exclude]
    for field, name in zip(kept, written, strict=True):
        written[name] = _ordered(getattr(model, field), written[name])
    return written


def _ordered(value: object, written: Any) -> Any:
    """Give `written` with the items of each set in `value` sorted: theirs differs by process."""
    match value:
        case BaseModel():
            value = {name: getattr(value, name) for name in type(value).model_fields}
        case _ if is_dataclass(value):
            value = {field.name: getattr(value, field.name) for field in fields(value)}
        case _:
            pass
    if isinstance(value, Mapping) and isinstance(written, dict) and len(value) == len(written):
        pairs = zip(value.values(), written.items(), strict=True)
        return {name: _ordered(each, item) for each, (name, item) in pairs}
    if not isinstance(value, Collection) or not isinstance(written, list):
        return written
    if len(value) != len(written):
        return written
    items = [_ordered(each, item) for each, item in zip(value, written, strict=True)]
    return sorted(items, key=canonical) if isinstance(value, AbstractSet) else items


class _WithoutTitles(GenerateJsonSchema):
    """Schemas without the titles that pydantic makes up, which only cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's own.
        """Never."""
        return False
