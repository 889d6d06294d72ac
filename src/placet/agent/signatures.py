"""A function's signature as a tool's schema, and how a body is called with frozen arguments (G4).

What was frozen is read as what it is, or not at all: nothing here mends arguments.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any, NewType

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from placet.core.canonical import JsonValue, canonical
from placet.core.errors import InvalidDeclaration
from placet.runtime.declarations import Arguments, InvalidArguments, NotDone
from placet.runtime.threads import in_thread

#: Annotates the parameter through which a body is given its idempotency key (D4).
IdempotencyKey = NewType("IdempotencyKey", str)

Function = Callable[..., Any]


class Signature:
    """A function's parameters as a pydantic model, and how to call with frozen arguments."""

    parameters: Mapping[str, Any]

    def __init__(self, name: str, function: Function) -> None:
        fields: dict[str, Any] = {}
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
                    f"Tool {name}: parameter '{parameter.name}' needs a type of its own.",
                    hint=f"Write it as `{parameter.name}: str`, say.",
                )
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hint, default)
        config = ConfigDict(extra="forbid", validate_default=True)
        try:
            model = create_model(f"{name}_arguments", __config__=config, **fields)
            schema = model.model_json_schema(schema_generator=_WithoutTitles)
        except PydanticUserError as error:
            raise InvalidDeclaration(
                "invalid_tool",
                f"Tool {name}: a parameter's type cannot be read from JSON: {error.message}",
                hint="Use the types of JSON, dataclasses or pydantic models.",
            ) from error
        schema.pop("title", None)
        self._take(name, model, tuple(fields), schema, _from_json)

    @classmethod
    def of_models(cls, name: str, whole: type[Any], shown: type[Any]) -> Signature:
        """Give the signature of a tool that reads its own arguments through pydantic models.

        `whole` is what it reads, `shown` the part that is a model's to fill in. Raises
        InvalidDeclaration.
        """
        if not issubclass(whole, BaseModel) or not issubclass(shown, BaseModel):
            raise InvalidDeclaration(
                "invalid_tool", f"Tool {name}: its arguments are no model of pydantic 2."
            )
        injected = whole.model_fields.keys() - shown.model_fields.keys()
        hidden: dict[str, Any] = {each: (Any, Field(None, exclude=True)) for each in injected}
        # A subclass, so that the model's own validators are those that the tool will run.
        model = create_model(name, __base__=whole, **hidden) if hidden else whole
        made = cls.__new__(cls)
        made._take(name, model, tuple(shown.model_fields), shown.model_json_schema(), _as_they_are)
        return made

    def _take(
        self,
        name: str,
        model: type[BaseModel],
        fields: tuple[str, ...],
        schema: Mapping[str, Any],
        read: Callable[[type[BaseModel], Arguments], BaseModel],
    ) -> None:
        if '"writeOnly": true' in json.dumps(schema):  # SecretStr: frozen, it would be asterisks.
            raise InvalidDeclaration(
                "invalid_tool", f"Tool {name}: a type that hides its value cannot be frozen."
            )
        self._name = name
        self._model = model
        self._fields = fields
        self._read_as = read
        self.parameters = schema

    def given(self, values: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Give Python values, by the parameters' names, as JSON; raises InvalidArguments."""
        fields = self._model.model_fields
        try:
            model = self._model.model_validate(
                {fields[name].alias or name: value for name, value in values.items()}
            )
        except ValidationError as error:
            raise InvalidArguments(_problems(error)) from error
        return _written(model)

    def validate(self, arguments: Arguments) -> dict[str, JsonValue]:
        """Give the arguments as they will run: validated, defaults filled in, as JSON (G4).

        What is frozen is read again before it runs, and so must be read as what it is: a
        validator that changes its own answer would have another value run than was shown.
        """
        try:
            frozen = _written(self._read(arguments))
            again = _written(self._read(frozen))
        except ValidationError as error:
            raise InvalidArguments(_problems(error)) from None
        if not _same(again, frozen):
            raise InvalidArguments("validated once more, they are other arguments.")
        return frozen

    def _read(self, arguments: Arguments) -> BaseModel:
        return self._read_as(self._model, arguments)

    def values(self, arguments: Arguments) -> dict[str, Any]:
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
            values = self.values(arguments)
            if takes_key is not None:
                values[takes_key] = key
            if inspect.iscoroutinefunction(function):
                return await function(**values)
            result = await in_thread(lambda: function(**values), name=self._name)
            return await result if inspect.isawaitable(result) else result

        return body

    def reader(self, function: Function, *, noun: str) -> Callable[[Arguments], str]:
        """Give the function as one that reads of the world a text, which `noun` names."""

        def read(arguments: Arguments) -> str:
            found = function(**self.values(arguments))
            if not isinstance(found, str):
                raise TypeError(f"{noun} is a text, not {type(found).__name__}")
            return found

        return read

    def restorer(self, function: Function) -> Callable[[Arguments, str], None]:
        """Give the function as one that brings the world back to a snapshot."""

        def restore(arguments: Arguments, snapshot: str) -> None:
            function(snapshot, **self.values(arguments))

        return restore


def _from_json(model: type[BaseModel], arguments: Arguments) -> BaseModel:
    return model.model_validate_json(json.dumps(dict(arguments)))


def _as_they_are(model: type[BaseModel], arguments: Arguments) -> BaseModel:
    return model.model_validate(dict(arguments))


def _problems(error: ValidationError) -> str:
    """Say in one line what is wrong with arguments."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False)
    )


def _key_parameter(function: Function) -> str | None:
    """Name the parameter through which a body or a probe is given the idempotency key."""
    hints = typing.get_type_hints(function, include_extras=True)
    return next((name for name, hint in hints.items() if hint is IdempotencyKey), None)


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
