"""A changed value is what `dataclasses.replace` would make of it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.core import state as s
from placet.core.changing import changed

CLASSES = (s.Session, s.Run, s.Call, s.Request, s.Working)


@pytest.mark.parametrize("cls", CLASSES)
@given(data=st.data())
def test_it_equals_replace(cls: type, data: st.DataObject) -> None:
    # Neither looks at a value's type, so that any object stands for each.
    value: Any = cls(**{field.name: object() for field in fields(cls)})
    names = [field.name for field in fields(cls)]
    changes = {name: object() for name in data.draw(st.sets(st.sampled_from(names)))}
    before = [getattr(value, name) for name in names]

    after = changed(value, **changes)

    expected = replace(value, **changes)
    assert type(after) is cls
    assert after == expected
    for name in names:
        assert getattr(after, name) is getattr(expected, name)
    assert [getattr(value, name) for name in names] == before


@pytest.mark.parametrize("change", [changed, replace])
def test_an_unknown_field_is_an_error_for_both(change: Any) -> None:
    with pytest.raises(TypeError):
        change(s.Resting(), held=1)
    with pytest.raises(TypeError):
        change(s.RunOver(stop="final"), held=1)


@dataclass(frozen=True, slots=True)
class Checked:
    """A class that looks at its values when it is made."""

    low: int
    high: int

    def __post_init__(self) -> None:
        assert self.low <= self.high


@dataclass(frozen=True)
class Loose:
    """A class without slots."""

    low: int
    high: int


@pytest.mark.parametrize("value", [Checked(1, 2), Loose(1, 2)])
def test_a_class_that_is_made_in_a_way_of_its_own_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"dataclasses\.replace"):
        changed(value, low=0)
