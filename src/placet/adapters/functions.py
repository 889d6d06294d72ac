"""Guarded functions: plain Python as the framework, whose loop is whoever calls the function.

One call of a function with some arguments, in a session, is one action. Whoever calls proposes it,
carries it out once it may run, or has what is on record of it; in between nobody waits, unless the
caller wants to (D1). `Placet.guard` says how it acts; `placet.adapters.function_runs` keeps it so.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import typing
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from placet.adapters.function_runs import Asked, Runs
from placet.adapters.function_values import Results
from placet.agent.signatures import IdempotencyKey, Signature
from placet.agent.tools import Tool, ToolOptions, tool
from placet.core import wording
from placet.core.canonical import JsonValue, Unreadable, call_digest
from placet.core.card import changes_of, masked_arguments, masking_for
from placet.core.display import visible
from placet.core.errors import (
    ActionRefused,
    ApprovalRequired,
    InProgress,
    InvalidDeclaration,
    InvalidInput,
    Mistake,
    NotPermitted,
    Refusal,
)
from placet.core.state import Request
from placet.guarding import EditedWarning, Terms
from placet.portal import blocking
from placet.runtime.authority import refuse_inside_tool
from placet.runtime.bodies import described
from placet.runtime.declarations import Arguments, Declaration, Happened, InvalidArguments
from placet.runtime.hosting import LOOK_AGAIN, Answered, Entry, Waiting
from placet.runtime.threads import in_thread
from placet.settings import current_account

if TYPE_CHECKING:
    from placet.client import Placet
    from placet.runtime.detached import Stop

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

#: How often a waiting call looks at its request though nothing in the store seems to change.
LOOK_ANYWAY = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done(Generic[R]):
    """What a call has brought about; `edit` says what a person changed, if one did."""

    value: R
    edit: str


def _declaring(what: str) -> Callable[[Any, F], F]:
    """Give the method that declares what a tool's method of this name does."""

    def declare(self: GuardedFunction[Any], function: F) -> F:
        getattr(self._tool, what)(function)
        self._hosting.redeclare([self._declared()])
        return function

    declare.__doc__ = getattr(Tool, what).__doc__
    return declare


class GuardedFunction(Generic[R]):
    """A function whose calls go through the gate; `Placet.guard` makes it, and says how it acts."""

    def __init__(
        self,
        placet: Placet,
        function: Callable[..., R],
        terms: Terms,
        options: ToolOptions,
    ) -> None:
        self._tool = tool(**options)(function)
        self.__name__ = name = self._tool.__name__
        self.__doc__ = function.__doc__
        self._placet = placet
        self._engine = placet.engine
        self._terms = _checked(name, terms)
        self._read = Signature(name, function)
        self.__signature__ = _called(function)
        self._results = Results(name, function)
        self._is_async = inspect.iscoroutinefunction(function)
        resume = None if self._terms.on_decided is None else self._resume
        self._hosting = placet.host(name, [self._declared()], resume=resume, is_guard=True)
        self._runs = Runs(placet, self._hosting, name)

    def _declared(self) -> Declaration:
        """Give what is hosted: the function as it is declared by now, its result written down."""
        self._declaration = self._tool.declaration
        probe, written = self._declaration.probe, self._results.written

        async def recorded(arguments: Arguments, key: str) -> object:
            return await self._entry().body(arguments, key)

        async def probed(arguments: Arguments, key: str) -> object:
            assert probe is not None, "only what has a probe is probed"
            found = await probe(arguments, key)
            return Happened(result=written(found.result)) if isinstance(found, Happened) else found

        return replace(self._declaration, body=recorded, probe=None if probe is None else probed)

    def _entry(self) -> Entry:
        return Entry(self._declaration.body, self._results.written)

    @property
    def declaration(self) -> Declaration:
        """Give what the gate sees of the function."""
        return self._declaration

    # --- what a tool may declare, too -----------------------------------------------------------

    probe = _declaring("probe")
    environment = _declaring("environment")
    preview = _declaring("preview")
    snapshot = _declaring("snapshot")
    restore = _declaring("restore")

    # --- calling ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Have the action done once, or have what is on record of it; see `Placet.guard`."""
        if self._is_async:
            return cast(R, self.awaited(*args, **kwargs))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise Mistake(
                "inside_event_loop",
                f"{self.__name__} would block the event loop that it was called in.",
                hint=f"Use `await {self.__name__}.awaited(...)` there.",
            )
        return self._told(self._done_blocking(*args, **kwargs))

    async def awaited(self, *args: Any, **kwargs: Any) -> Any:
        """Do the same, awaited: a synchronous function is called in a thread of its own."""
        return self._told(await self._done(*args, **kwargs))

    def _told(self, done: _Done[R]) -> R:
        if done.edit:
            warnings.warn(done.edit, EditedWarning, stacklevel=3)
        return done.value

    async def _done(self, *args: Any, **kwargs: Any) -> _Done[R]:
        _refuse_inside_tool(self.__name__)
        asked, entry = self._asked(*args, **kwargs), self._entry()
        loop = asyncio.get_running_loop()
        until = loop.time() + (self._terms.wait or timedelta(0)).total_seconds()
        while True:
            found = await self._hosting.detached.do(
                lambda stop: self._looked(asked, entry, until, stop)
            )
            if isinstance(found, _Done):
                return found
            if loop.time() >= until:
                raise found from entry.error
            await self._changed(until)

    _done_blocking = blocking(_done)

    async def _looked(
        self, asked: Asked, entry: Entry, until: float, stop: Stop
    ) -> _Done[R] | Refusal:
        """Take the call as far as it goes; give its result, or what to tell a caller who waited."""
        run, found = await self._runs.carried(
            asked, entry, until=until, wanted=lambda: not stop.asked
        )
        if isinstance(found, Answered):
            return await self._outcome(asked.session, run, found, entry)
        return await self._required(run, found)

    async def _required(self, run: str, found: Waiting) -> Refusal:
        """Say who must act before the call can go on, and how."""
        name = self.__name__
        if not found.requests:
            return InProgress(
                "held",
                f"{name} has not run: another action of its session goes first (G8).",
                hint="Call it again once that one is over.",
                run_id=run,
                held_by=found.held_by,
            )
        first = (await self._engine.find_request(found.requests[0])).request
        message = f"{name} has not run: people must act."
        if found.held_by:
            message = f"{name} has not run: another action of its session goes first, and people"
            message += " must act."
        elif first.kind == "settlement":
            message = f"Nobody knows whether {name} has acted: people must find out."
        command = wording.command_for(first.id, first.kind)
        before = await self._then(first) if found.held_by else ""
        does = f"`{command}` does"
        if first.kind == "settlement" and not found.held_by and self._results.wanted:
            does += f", which takes the result (--happened) as {self._results.wanted}"
        return ApprovalRequired(
            message,
            hint=f"{does}; then {before}call {name} again with the same arguments.",
            requests=found.requests,
            run_id=run,
            held_by=found.held_by,
        )

    async def _then(self, first: Request) -> str:
        """Say how an action that goes first goes on, once people have acted on its request."""
        other = (await self._engine.find_run(first.at.run)).run
        if other.guard != "untold":
            return (
                f"run {other.id} goes on first (`placet resume {other.id}`, or a worker); after it "
            )
        if first.kind == "settlement":  # With its answer that one is over.
            return ""
        return f"call {other.agent} again as it was called there ({other.id}), and after it "

    async def _changed(self, until: float) -> None:
        """Wait until something was committed, or it is time to look all the same."""
        loop = asyncio.get_running_loop()
        until = min(until, loop.time() + LOOK_ANYWAY.total_seconds())
        seen = now = await self._engine.read(self._engine.store.changes)
        while seen == now and (left := until - loop.time()) > 0:
            await asyncio.sleep(min(left, LOOK_AGAIN.total_seconds()))
            now = await self._engine.read(self._engine.store.changes)

    def _asked(self, *args: Any, **kwargs: Any) -> Asked:
        """Freeze what is asked for; raises TypeError or InvalidInput, and then nothing is asked."""
        try:
            bound = self.__signature__.bind(*args, **kwargs)
            frozen = self._declaration.validate(self._read.given(bound.arguments))
            digest = call_digest(self.__name__, frozen)
        except (InvalidArguments, Unreadable, ValueError) as error:
            raise InvalidInput("invalid_arguments", f"{self.__name__}: {error}") from error
        arguments = json.dumps(frozen, ensure_ascii=False)
        values = self._read.values(frozen)
        session = _named("session", self._terms.session, values)
        requester = _named("requester", self._terms.requester or current_account(), values)
        names = (self._engine.tenant, session, self.__name__, digest)
        return Asked(session=session, requester=requester, arguments=arguments, names=names)

    # --- the outcome --------------------------------------------------------------------------

    async def _outcome(self, session: str, run: str, found: Answered, entry: Entry) -> _Done[R]:
        """Give the function's result, or raise what became of it instead."""
        edit = await self._edit(session, run)
        if found.code != "succeeded":
            if entry.error is not None and described(entry.error) == found.result:
                raise entry.error
            raise ActionRefused(found.code, found.told, run_id=run)
        if entry.text is not None and entry.text == found.result:
            return _Done(value=entry.value, edit=edit)
        try:
            value = self._results.read(found.result, by_hand=found.by_hand)
        except ValueError as error:
            hint = f"It is done; what is on record is not what {self.__name__} returns."
            if found.by_hand:
                wanted = self._results.wanted
                hint = f"It is done; a person wrote down what is not {wanted}, as `told` has it."
            raise ActionRefused("result_unreadable", found.told, hint=hint, run_id=run) from error
        return _Done(value=value, edit=edit)

    async def _edit(self, session: str, run: str) -> str:
        """Say what a person changed, if one did (G5)."""
        _, call = await self._runs.found(session, run)
        if call is None or call.edits_ref is None:
            return ""
        changes = await self._engine.payload(session, call.edits_ref)
        shown = call.display_ref
        display = {} if shown is None else json.loads(await self._engine.payload(session, shown))
        salt = await self._engine.salt(session)
        changes = _as_on_a_card(changes, display, salt=salt)
        told = f"{call.edited_by} changed the arguments of {self.__name__} before it ran: {changes}"
        return f"{told} [{run}]"

    # --- after a decision ---------------------------------------------------------------------

    async def _resume(self, run: str) -> None:
        """Tell `on_decided`, and end the run where that is all."""
        tell = self._terms.on_decided
        if tell is None:
            return
        row = await self._engine.find_run(run)
        frozen = json.loads(await self._hosting.checkpoint(row.session, run))
        values = self._read.values(frozen)
        with suppress(ApprovalRequired, ActionRefused):  # It has called the function: that is all.
            told = await in_thread(lambda: tell(**values), name=self.__name__)
            if inspect.isawaitable(told):
                await told
        await self._runs.end_if_idle(row.session, run)


def _as_on_a_card(changes: str, display: Mapping[str, JsonValue], *, salt: str) -> str:
    """Say what an edit changed as its card does: what a warning says ends up in logs (H2)."""
    masking = masking_for(display, (), salt=salt, language="en")
    found = changes_of(changes)
    if found is None:
        return visible(masking.told(changes))
    for change in found:
        name = str(change.get("name"))
        for side in change.keys() & {"old", "new"}:
            one = masked_arguments(masking, {name: change[side]})
            ((change["name"], change[side]),) = one.items()
    return visible(wording.changes(found))


def _called(function: Callable[..., Any]) -> inspect.Signature:
    """Give the signature with which callers call a function: without the idempotency key."""
    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    given = [p for p in signature.parameters.values() if hints.get(p.name) is not IdempotencyKey]
    return signature.replace(parameters=given)


def _refuse_inside_tool(name: str) -> None:
    """Refuse a call from a tool's body: it would wait in, and be held by, an effect under way."""
    try:
        refuse_inside_tool()
    except NotPermitted as refusal:
        raise NotPermitted(
            "inside_tool",
            f"{name} is guarded, and cannot be called in a tool's body.",
            hint="Let the tool return, and call it from the loop; or make it a tool of its own.",
            **refusal.ids,
        ) from None


def _named(what: str, given: str | Callable[..., str], values: Mapping[str, Any]) -> str:
    """Give a guard's session or requester for these arguments; raises InvalidInput."""
    found: object = given if isinstance(given, str) else given(**values)
    if not _is_name(found):
        raise InvalidInput(f"invalid_{what}", f"The {what} of a call is a text, not {found!r}.")
    return cast(str, found)


def _checked(name: str, terms: Terms) -> Terms:
    """Hold a guard's terms against what they must be; raises InvalidDeclaration."""
    wait: object = terms.wait
    right = {
        "session must be a text or a function of the arguments": _is_name(terms.session)
        or callable(terms.session),
        "requester must be a text or a function of the arguments": terms.requester is None
        or _is_name(terms.requester)
        or callable(terms.requester),
        "wait must be a timedelta, 0 or more": wait is None
        or (isinstance(wait, timedelta) and wait >= timedelta(0)),
        "on_decided must be a function of the arguments": terms.on_decided is None
        or callable(terms.on_decided),
    }
    for must, holds in right.items():
        if not holds:
            raise InvalidDeclaration("invalid_guard", f"Guard of {name}: {must}.")
    return terms


def _is_name(value: object) -> bool:
    """Say whether a value is a text that can name something; a lone surrogate cannot be kept."""
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
