"""From a plan that breaks a promise to a smaller one that breaks the same: what is left is why.

Parts are taken away, many at once and then one by one, for as long as the same promise is broken.
With less in it the same seed chooses another order, and so each smaller plan is tried in several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any, TypeVar

from tests.simulation.outcome import Outcome
from tests.simulation.plan import Misfortune, Plan, PlannedCall, PlannedRun
from tests.simulation.promises import Fault
from tests.simulation.world import World

T = TypeVar("T")
D = TypeVar("D", Plan, PlannedRun, PlannedCall, Misfortune)

#: In how many orders a smaller plan is tried.
ORDERS = 12

#: How many worlds a plan may take to be made smaller.
MOST_WORLDS = 4_000


class Shrinking:
    """One plan on its way to a smaller one."""

    def __init__(self, plan: Plan, *, schedule: int = 0, most: int = MOST_WORLDS) -> None:
        self.plan = plan
        self.schedule = schedule
        self.worlds = 0
        self._most = most
        found = self._broken(plan, schedule)
        assert found is not None, "a plan that breaks nothing cannot be made smaller"
        self.fault = found

    def run(self) -> Plan:
        """Give the smallest plan that was found; `schedule` is its order."""
        before: Plan | None = None
        while before != self.plan and self.worlds < self._most:
            before = self.plan
            for smaller in _ways(self):
                if self.worlds >= self._most:
                    break
                self._try(smaller)
        return self.plan

    def _try(self, smaller: Plan) -> bool:
        if smaller == self.plan:
            return False
        for schedule in (self.schedule, *range(ORDERS)):
            found = self._broken(smaller, schedule)
            if found is not None and _is_the_same(found, self.fault):
                self.plan, self.schedule = smaller, schedule
                return True
        return False

    def _broken(self, plan: Plan, schedule: int) -> Fault | None:
        self.worlds += 1
        outcome = World(plan, schedule=schedule).run()
        return outcome.faults[0] if outcome.faults else None


def _is_the_same(one: Fault, other: Fault) -> bool:
    return (one.promise, _kind(one)) == (other.promise, _kind(other))


def _kind(fault: Fault) -> str:
    """Give what a fault says without the names of runs and calls in it."""
    return " ".join(word for word in fault.text.split() if not any(map(str.isdigit, word)))


def _ways(now: Shrinking) -> Iterator[Plan]:
    """Give smaller plans, each made from the smallest one known by then."""
    for name in ("store_faults", "misfortunes", "runs", "reactions"):
        yield from _fewer(now, name)
    for name in ("reactions", "children"):
        for index in range(len(getattr(now.plan, name))):
            yield from _fewer_at(now, name, index)
    for name, value in _CALM.items():
        yield _with(now.plan, name, value)
    for index in range(len(now.plan.runs)):
        yield from _simpler_run(now, index)
    for index, name in product(range(len(now.plan.misfortunes)), ("after", "who", "lasts")):
        if index < len(now.plan.misfortunes):
            simple = _with(now.plan.misfortunes[index], name, _SIMPLE[name])
            yield _with(now.plan, "misfortunes", _put(now.plan.misfortunes, index, simple))


_CALM: dict[str, Any] = {
    "workers": 1,
    "hosts": 1,
    "skews": (0.0,),
    "hurry": 1.0,
    "sticks": 0.0,
    "later_approvers": (),
    "files": (),
    "ending": "answered",
}
_SIMPLE: dict[str, Any] = {
    "after": 0.0,
    "who": "",
    "lasts": -1.0,
    "resumes": (),
    "troubles": 0,
    "starts": 0.0,
    "supersede": False,
    "at_once": False,
    "agent": "lead",
}


def _fewer(now: Shrinking, name: str) -> Iterator[Plan]:
    size = len(getattr(now.plan, name))
    while size:
        start = 0
        while start < len(items := getattr(now.plan, name)):
            before = now.plan
            yield _with(now.plan, name, (*items[:start], *items[start + size :]))
            if now.plan is before:
                start += size
        size //= 2


def _fewer_at(now: Shrinking, name: str, index: int) -> Iterator[Plan]:
    """Take parts away from the item of this index, which is a tuple itself."""
    start = 0
    while index < len(outer := getattr(now.plan, name)) and start < len(outer[index]):
        before = now.plan
        yield _with(now.plan, name, _put(outer, index, _without(outer[index], start)))
        if now.plan is before:
            start += 1


def _simpler_run(now: Shrinking, index: int) -> Iterator[Plan]:
    """Take steps, calls and what is odd about bodies away from one run."""

    def put(name: str, value: Any) -> Plan:
        runs = now.plan.runs
        if index >= len(runs):
            return now.plan
        return _with(now.plan, "runs", _put(runs, index, _with(runs[index], name, value)))

    for name in ("resumes", "troubles", "starts", "supersede", "at_once", "agent"):
        yield put(name, _SIMPLE[name])
    for step in reversed(range(len(_steps(now, index)))):
        yield put("steps", _without(_steps(now, index), step))
    for step in range(len(_steps(now, index))):
        for call in reversed(range(len(_calls(now, index, step)))):
            fewer = _without(_calls(now, index, step), call)
            yield put("steps", _put(_steps(now, index), step, fewer))
        for call, name in product(range(len(_calls(now, index, step))), _BEHAVIOURS):
            calls = _calls(now, index, step)
            calmer = _put(calls, call, _with(calls[call], name, ()))
            yield put("steps", _put(_steps(now, index), step, calmer))


_BEHAVIOURS = ("does", "undoes", "probes")


def _steps(now: Shrinking, index: int) -> tuple[tuple[PlannedCall, ...], ...]:
    return now.plan.runs[index].steps if index < len(now.plan.runs) else ()


def _calls(now: Shrinking, index: int, step: int) -> tuple[PlannedCall, ...]:
    steps = _steps(now, index)
    return steps[step] if step < len(steps) else ()


def _with(value: D, name: str, changed: object) -> D:
    changes: dict[str, Any] = {name: changed}
    made: D = replace(value, **changes)
    return made


def _put(items: Sequence[T], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _without(items: Sequence[T], index: int) -> tuple[T, ...]:
    return (*items[:index], *items[index + 1 :])


# --- to be read -----------------------------------------------------------------------------------


def written(value: Any) -> str:
    """Write a plan, or a part of one, without what is as it usually is."""
    if not is_dataclass(value) or isinstance(value, type):
        if isinstance(value, tuple):
            inner = ", ".join(written(each) for each in value)
            return f"({inner}{',' if len(value) == 1 else ''})"
        return repr(value)
    parts = [
        f"{field.name}={written(getattr(value, field.name))}"
        for field in fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(parts)})"


def replayed(plan: Plan, *, schedule: int = 0) -> Outcome:
    """Let a plan come about once more, and trace it."""
    return World(plan, schedule=schedule, traced=True).run()
