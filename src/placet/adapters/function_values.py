"""A guarded function's result as a text on record, which is read back as it was.

One rule for results, so that who calls later gets a value equal to what the first caller got: a
function that is annotated `-> str` has its text on record as it is; any other has its result on
record as JSON, written and read through its return annotation by pydantic (without one, as plain
JSON). Nothing here judges a call.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation

from placet.agent.signatures import Function
from placet.core.errors import InvalidDeclaration


class Results:
    """What a function returns, on its way to the record and back."""

    def __init__(self, name: str, function: Function) -> None:
        returns = typing.get_type_hints(function, include_extras=True).get("return", Any)
        self._is_text = returns is str
        self._is_free = returns in (Any, object)
        self._is_none = returns is type(None)
        self._named = inspect.formatannotation(returns)
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(returns)
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
            raise InvalidDeclaration(
                "invalid_guard",
                f"Guard of {name}: what it returns cannot be read back from the record.",
                hint="Return what JSON can hold, and annotate it so.",
            ) from error

    @property
    def wanted(self) -> str:
        """Say what a person who found out what the result was writes down; empty: any text."""
        is_any = self._is_text or self._is_free or self._is_none
        return "" if is_any else f"JSON of {self._named}"

    def written(self, result: Any) -> str:
        """Write a result down. The function has acted: whatever it returned, this does not fail."""
        if self._is_text and isinstance(result, str):
            return str.__str__(result)
        try:
            return self._adapter.dump_json(
                result, by_alias=True, round_trip=True, warnings=False
            ).decode()
        except BaseException:  # noqa: BLE001  # The outcome is on record all the same.
            return f"(a result of type {type(result).__name__} that cannot be written down)"

    def read(self, text: str, *, by_hand: bool) -> Any:
        """Read a result back; raises ValueError where it is not what the function returns.

        What a person wrote `by_hand`, who found out what the result was, may be a plain text; of
        a function that returns nothing it may be any.
        """
        if self._is_text:
            return text
        if self._is_none and by_hand:
            return None
        try:
            return self._adapter.validate_json(text)
        except ValidationError:
            if by_hand or self._is_free:
                return self._adapter.validate_python(text)
            raise
