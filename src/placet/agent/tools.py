"""Declaring tools: a function, its schema from its signature, and what the gate must know of it.

`@tool` gives a `Tool`, which still can be called as the function that it is, outside any run; an
agent's runs reach the body through the gate alone (G2).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from placet.agent.signatures import Function, IdempotencyKey, Signature
from placet.core.deciding_effects import ATTEMPT_MARGIN
from placet.core.errors import InvalidDeclaration
from placet.core.money import Money
from placet.core.values import EVERY_SURFACE, CallKind, Recovery, Undoing
from placet.runtime.declarations import ApprovalFunction, Arguments, Declaration, NotDone

__all__ = ["TIME_LIMIT", "IdempotencyKey", "Money", "Tool", "ToolOptions", "tool"]

#: How long an attempt may take before its outcome is unknown.
TIME_LIMIT = timedelta(minutes=5)

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
    cost: Money | None
    secret: tuple[str, ...] | list[str]
    idempotent: bool
    retries: int
    backoff: timedelta
    time_limit: timedelta
    not_done: tuple[type[BaseException], ...]
    jitter: float
    retry_on: tuple[type[BaseException], ...]
    key_lasts: timedelta | None


class Tool:
    """A declared tool. `declaration` is what the gate sees; calling it calls the function."""

    declaration: Declaration

    def __init__(self, function: Function, options: ToolOptions) -> None:
        self.__name__ = _named(function, options["name"])
        self._function = function
        self._options = _checked(self.__name__, options)
        self._probe: Function | None = None
        self._environment: Function | None = None
        self._preview: Function | None = None
        self._snapshot: Function | None = None
        self._restore: Function | None = None
        self._compensation: tuple[Function, Undoing] | None = None
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
        """Declare what the tool reads of the world: read before asking and before acting (G13).

        Like a preview and a snapshot it takes the tool's arguments, answers with a text, is not
        `async`, and must not act.
        """
        self._environment = _plain(self, "environment", function)
        self.declaration = _declaration(self)
        return function

    def preview(self, function: F) -> F:
        """Declare what a call would change, as a text that people are shown with it (H1)."""
        self._preview = _plain(self, "preview", function)
        self.declaration = _declaration(self)
        return function

    def snapshot(self, function: F) -> F:
        """Declare how to take down what a call is about to change, for `restore` (D8)."""
        self._snapshot = _plain(self, "snapshot", function)
        self.declaration = _declaration(self)
        return function

    @overload
    def compensate(self, function: F, /) -> F: ...
    @overload
    def compensate(
        self,
        /,
        *,
        safe_if_absent: bool = ...,
        idempotent: bool = ...,
        retries: int = ...,
        backoff: timedelta = ...,
        time_limit: timedelta = ...,
    ) -> Callable[[F], F]: ...
    def compensate(
        self,
        function: Function | None = None,
        /,
        *,
        safe_if_absent: bool = False,
        idempotent: bool = False,
        retries: int = 0,
        backoff: timedelta = timedelta(seconds=1),
        time_limit: timedelta = TIME_LIMIT,
    ) -> Any:
        """Declare another effect that undoes what a call did (D8).

        It takes the tool's arguments, and may take an `IdempotencyKey` of its own.
        `safe_if_absent` says that it does no harm where the call did nothing: only then is it used
        where a call failed or its outcome is unknown. The rest is as for `tool`.
        """
        trying: ToolOptions = {
            "idempotent": idempotent,
            "retries": retries,
            "backoff": backoff,
            "time_limit": time_limit,
        }
        _checked(self.__name__, trying)
        undoing = Undoing(
            safe_if_absent=safe_if_absent,
            idempotent=idempotent,
            retries=retries,
            backoff=backoff,
            time_limit=time_limit,
        )

        def declared(compensation: Function) -> Function:
            self._compensation = (compensation, undoing)
            self.declaration = _declaration(self)
            return compensation

        return declared if function is None else declared(function)

    def restore(self, function: F) -> F:
        """Declare how to bring back what a snapshot holds (D8).

        It takes the snapshot first and then the tool's arguments by name, is not `async`, and
        raises where it could not.
        """
        self._restore = _plain(self, "restore", function)
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
    cost: Money | None = None,
    secret: tuple[str, ...] | list[str] = (),
    idempotent: bool = False,
    retries: int = 0,
    backoff: timedelta = timedelta(seconds=1),
    time_limit: timedelta = TIME_LIMIT,
    not_done: tuple[type[BaseException], ...] = (),
    jitter: float = 0.0,
    retry_on: tuple[type[BaseException], ...] = (BaseException,),
    key_lasts: timedelta | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Declare a function as a tool.

    The schema is made from its signature and the description from its docstring. A tool that
    declares nothing is an effect that always asks. `reads_only` tools never ask unless they say
    so. `approval` is "always", "never", or a function of the arguments that answers True (ask) or
    False. `surface` names the part of the world it touches, by default all. `cost` names the
    argument that people are shown as what it costs, and `secret` those, such as `card.number`, of
    which they are shown a fingerprint alone. `retries`, `backoff` and `not_done` (error types that
    say it did not act) take effect as D4 says. `key_lasts` says for how long after the first
    attempt the other side is sure to know its key: what may have acted is not tried again where
    the attempt could last longer than that.
    Raises InvalidDeclaration.
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
        "cost": cost,
        "secret": secret,
        "idempotent": idempotent,
        "retries": retries,
        "backoff": backoff,
        "time_limit": time_limit,
        "not_done": not_done,
        "jitter": jitter,
        "retry_on": retry_on,
        "key_lasts": key_lasts,
    }
    if function is not None:
        return Tool(function, options)
    return lambda declared: Tool(declared, options)


def _named(function: Any, name: str | None) -> str:
    """Give the tool's name; what is no function has neither a name nor types to make it from."""
    if isinstance(function, Tool):
        raise InvalidDeclaration("invalid_tool", f"Tool {function.__name__}: it is a tool already.")
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
_TEXTS = (
    lambda value: isinstance(value, (tuple, list)) and all(map(_is_text, value)),
    "a tuple or list of texts",
)
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
    "scopes": _TEXTS,
    "effect": (lambda value: isinstance(value, str), "a text"),
    "reversible": _SWITCH,
    "cost": (lambda value: value is None or isinstance(value, Money), "a placet.Money"),
    "secret": _TEXTS,
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
    "key_lasts": (
        lambda value: value is None or (isinstance(value, timedelta) and value > timedelta(0)),
        "a timedelta above 0",
    ),
    "jitter": (
        lambda value: isinstance(value, (int, float)) and 0 <= value <= 1,
        "a number from 0 to 1",
    ),
    "retry_on": (
        lambda value: isinstance(value, tuple) and all(map(_is_error, value)),
        "a tuple of exception types",
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
    lasts = options.get("key_lasts")
    least = (options.get("time_limit", timedelta(0)) + ATTEMPT_MARGIN).total_seconds()
    if lasts is not None and lasts.total_seconds() <= least:
        raise InvalidDeclaration(
            "invalid_tool",
            f"Tool {name}: key_lasts must be above {least:g} s, which is its time_limit and"
            f" {ATTEMPT_MARGIN.total_seconds():g} s, or no key is ever used again.",
            hint="Shorten the time limit, or leave `idempotent` away.",
        )
    return options


def _plain(tool: Tool, what: str, function: F) -> F:
    """Hold what is called beside the body to be no coroutine function, which nobody awaits."""
    if inspect.iscoroutinefunction(function):
        raise InvalidDeclaration(
            "invalid_tool",
            f"Tool {tool.__name__}: its {what} must not be async.",
            hint="Write it with `def`; it is called in a thread of its own.",
        )
    return function


def _declaration(tool: Tool) -> Declaration:
    function, options = tool._function, tool._options
    kind: CallKind = "read" if options["reads_only"] else "effect"
    signature = Signature(tool.__name__, function)
    probe, restore, compensation = tool._probe, tool._restore, tool._compensation

    def reader(function: Function | None, noun: str) -> Callable[[Arguments], str] | None:
        return None if function is None else signature.reader(function, noun=noun)

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
        cost=options["cost"],
        secrets=tuple(options["secret"]),
        approval=options["approval"] or ("never" if kind == "read" else "always"),
        recovery=Recovery(
            idempotent=options["idempotent"],
            probe=probe is not None,
            retries=options["retries"],
            backoff=options["backoff"],
            time_limit=options["time_limit"],
            jitter_percent=round(options["jitter"] * 100),
            key_lasts=options["key_lasts"],
            roll_back=None
            if tool._snapshot is None or restore is None
            else Undoing(
                safe_if_absent=True, idempotent=True, retries=2, time_limit=options["time_limit"]
            ),
            compensation=None if compensation is None else compensation[1],
        ),
        compensate=None if compensation is None else signature.caller(compensation[0]),
        retry_on=options["retry_on"],
        probe=None if probe is None else signature.caller(probe),
        environment=reader(tool._environment, "an environment"),
        preview=reader(tool._preview, "a preview"),
        snapshot=reader(tool._snapshot, "a snapshot"),
        restore=None if restore is None else signature.restorer(restore),
        not_done=(NotDone, *options["not_done"]),
    )
