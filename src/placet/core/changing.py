"""Changing a frozen value: the same value but for some fields, quickly.

`dataclasses.replace` looks at every field anew each time it is called, and a command calls for
dozens of such copies. Here the fields of a class are looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")

_Put = Callable[[Any, Any], None]


def changed(value: T, /, **changes: Any) -> T:
    """Give `value` with other values in some fields, as `dataclasses.replace` would.

    It is for frozen dataclasses with slots that neither compute nor check anything when they are
    made. Raises TypeError for a field that there is not.
    """
    cls: type = type(value)
    plan = _plan(cls)
    made: T = object.__new__(cls)
    for put, each in zip(plan.put, plan.read(value), strict=True):
        put(made, each)
    for name, each in changes.items():
        if name not in plan.put_by_name:
            raise TypeError(f"{cls.__name__} has no field {name!r}")
        plan.put_by_name[name](made, each)
    return made


@dataclass(frozen=True, slots=True)
class _Plan:
    read: Callable[[Any], tuple[Any, ...]]
    put: tuple[_Put, ...]
    put_by_name: Mapping[str, _Put]


@cache
def _plan(cls: type) -> _Plan:
    names = [field.name for field in fields(cls)]
    simple = len(names) > 1 and all(field.init for field in fields(cls))
    if not simple or hasattr(cls, "__post_init__") or "__slots__" not in vars(cls):
        raise TypeError(f"{cls.__name__} is made in a way of its own; use dataclasses.replace")
    put = {name: getattr(cls, name).__set__ for name in names}  # Past the freeze, into the slots.
    return _Plan(attrgetter(*names), tuple(put.values()), put)
