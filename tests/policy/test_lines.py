"""In which line of a policy file each of its keys and values stands."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.policy.lines import lines_of

TRICKY = """a = 1
b.c = [ # [ { "
  1,
  {x = "]", 'y z' = '''
}''', w.v = [2
  ]},
]
[t."q.r"]
s = \"\"\"
[[no]]
n = \\\"\"\"\"
k = 5 # = 6

[[l]]
m = 1
[[l]]
m = 2
[l.sub]
o = 1979-05-27 07:32:00Z
[[l.deep]]
p = ""
"""


def test_the_lines_of_a_text_are_found_whatever_stands_in_its_strings() -> None:
    tomllib.loads(TRICKY)
    lines = lines_of(TRICKY)

    assert lines["a",] == 1
    assert lines["b", "c"] == 2
    assert lines["b", "c", 0] == 3
    assert lines["b", "c", 1, "y z"] == 4
    assert lines["b", "c", 1, "w", "v"] == 5
    assert lines["t", "q.r", "s"] == 9
    assert lines["t", "q.r", "k"] == 12
    assert ("no",) not in lines
    assert [lines["l", 0, "m"], lines["l", 1, "m"]] == [15, 17]
    assert lines["l", 1, "sub", "o"] == 19
    assert lines["l", 1, "deep", 0, "p"] == 21


scalars = st.one_of(st.integers(0, 99), st.booleans(), st.text(max_size=5))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def written(value: Any) -> str:
    """Write a value down as TOML, each element of a list in a line of its own."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            escaped = "".join(
                f"\\U{ord(c):08x}" if c in '"\\' or not c.isprintable() else c for c in value
            )
            return f'"{escaped}"'
        case list():
            return "[\n" + "".join(f"{written(each)},\n" for each in value) + "]"
        case _:
            pairs = ", ".join(f"{written(key)} = {written(each)}" for key, each in value.items())
            return "{" + pairs + "}"


@given(document=st.dictionaries(st.text(min_size=1, max_size=4), values, max_size=4))
def test_every_value_of_a_text_has_a_line_and_it_stands_there(document: dict[str, Any]) -> None:
    text = "".join(f"{written(key)} = {written(value)}\n" for key, value in document.items())
    lines = lines_of(text)
    paths: list[tuple[str | int, ...]] = []

    def walk(value: Any, path: tuple[str | int, ...]) -> None:
        if path:
            paths.append(path)
        for key, each in (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        ):
            walk(each, (*path, key))

    walk(tomllib.loads(text), ())

    assert set(paths) == set(lines)
    for path in paths:
        if isinstance(path[-1], str):
            assert written(path[-1]) in text.split("\n")[lines[path] - 1]
