"""Effects: one attempt at a body, and what its end means (D4).

Theory of operation. The intent is durable before `attempt` is called, and its answer is recorded
before anything builds on it. A body that returned has succeeded. One that raised has failed, and
may have acted, unless it says otherwise. Where the way to the world broke (a lost connection, a
time limit, a cancellation) nobody knows, and nobody pretends to. A body that does not come back
in time is left behind: it cannot be stopped, only mistrusted.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError

from placet.core.commands import Failed, Succeeded, Unknown
from placet.core.state import Call
from placet.core.values import Purpose
from placet.runtime.authority import inside_tool
from placet.runtime.declarations import (
    Arguments,
    Body,
    Declaration,
    Happened,
    NotDone,
    NotHappened,
    ProbeAnswer,
    Unsure,
)
from placet.runtime.threads import in_thread, without_exit

Outcome = Succeeded | Failed | Unknown

#: How long a tool may take to look at the world: its environment, a preview, a snapshot.
ENVIRONMENT_LASTS = timedelta(seconds=30)

#: Errors of well-known clients that leave open whether the other side acted, by qualified name.
LOST_CONNECTIONS = frozenset(
    {
        "httpx.TransportError",
        "httpx2.TransportError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "urllib3.exceptions.HTTPError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "openai.APIConnectionError",
        "anthropic.APIConnectionError",
        "psycopg.OperationalError",
        "grpc.RpcError",
    }
)


async def attempt(tool: Declaration, arguments: Arguments, key: str, *, call: str) -> Outcome:
    """Enter the body once and say how it ended. Cancellation is an outcome, and is not raised.

    Raises what a read suspends itself with.
    """
    limit = tool.recovery.time_limit.total_seconds()
    body = asyncio.ensure_future(_entered(lambda: tool.body(arguments, key), call))
    try:
        done, _ = await asyncio.wait({body}, timeout=limit)
    except asyncio.CancelledError:
        _leave_behind(body)
        return Unknown(cause="it was cancelled while it ran")
    if not done:
        _leave_behind(body)
        return Unknown(cause=f"it did not end within {limit:g} seconds")
    if body.cancelled():
        return Unknown(cause="it was cancelled while it ran")
    error = body.exception()
    if tool.kind == "read" and isinstance(error, tool.suspends):
        raise error
    return Succeeded(told=text_of(body.result())) if error is None else judged(error, tool)


def _leave_behind(body: asyncio.Future[object]) -> None:
    """Ask a body to stop, and wait for it no longer: it may not listen."""
    body.cancel()
    body.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


async def probe(tool: Declaration, arguments: Arguments, key: str, *, call: str) -> ProbeAnswer:
    """Ask a tool's probe; whatever is not one of its answers is `Unsure`."""
    probing = tool.probe
    if probing is None:
        return Unsure()
    asked = asyncio.ensure_future(_entered(lambda: probing(arguments, key), call))
    done, _ = await asyncio.wait({asked}, timeout=tool.recovery.time_limit.total_seconds())
    if not done:
        _leave_behind(asked)
    if not done or asked.cancelled() or asked.exception() is not None:
        return Unsure()
    answer = asked.result()
    return answer if isinstance(answer, (Happened, NotHappened, Unsure)) else Unsure()


class _EndedFromOutside(Exception):
    """Stands for an exit or interrupt, which an event loop would let through to its own end."""


async def _entered(body: Callable[[], Awaitable[object]], call: str) -> object:
    with inside_tool(call):
        try:
            return await body()
        except (KeyboardInterrupt, SystemExit) as ended:
            raise _EndedFromOutside(described(ended)) from None


def way_back(tool: Declaration, call: Call, snapshot: str | None, how: Purpose) -> Declaration:
    """Give a tool with the body that takes its call back, as it was declared when it was frozen.

    Where the tool does not declare it any more, the body says that it did nothing.
    """
    restore, undoing = tool.restore, call.recovery.compensation
    body = tool.compensate
    if how == "roll_back":
        undoing, body = call.recovery.roll_back, None
        if restore is not None and snapshot is not None:
            body = _restoring(restore, snapshot, name=f"restore of {tool.name}")
    limit = tool.recovery.time_limit if undoing is None else undoing.time_limit
    # Which errors are worth another attempt, and which say that nothing was done, is declared of
    # the tool's own body.
    return replace(
        tool,
        body=body or _nothing_declared,
        recovery=replace(tool.recovery, time_limit=limit),
        retry_on=(BaseException,),
        not_done=(NotDone,),
    )


def _restoring(restore: Callable[[Arguments, str], None], snapshot: str, *, name: str) -> Body:
    async def body(arguments: Arguments, _key: str) -> object:
        return await in_thread(lambda: restore(arguments, snapshot), name=name)

    return body


async def _nothing_declared(_arguments: Arguments, _key: str) -> object:
    raise NotDone("the tool does not declare how it is taken back any more")


async def environment_of(tool: Declaration, arguments: Arguments) -> str:
    """Read what a tool reads of the world (G13); raises what that raises, and TimeoutError."""
    found = await _looked(tool.environment, arguments, name=f"environment of {tool.name}") or ""
    found.encode()  # What has no UTF-8, such as some names of files, has no digest.
    return found


async def preview_of(tool: Declaration, arguments: Arguments) -> str:
    """Say what a call would change, as its tool tells it; one that fails to tell says so (H1)."""
    try:
        return await _looked(tool.preview, arguments, name=f"preview of {tool.name}") or ""
    except Exception as error:  # noqa: BLE001  # Shown: who decides sees that it is not known.
        return f"(what it would change could not be told: {described(error)})"


async def snapshot_of(tool: Declaration, arguments: Arguments | str) -> str | None:
    """Take what the world can be brought back to (D8); raises what that raises."""
    if isinstance(arguments, str):
        return None
    return await _looked(tool.snapshot, arguments, name=f"snapshot of {tool.name}")


async def _looked(
    look: Callable[[Arguments], str] | None, arguments: Arguments, *, name: str
) -> str | None:
    """Call one of a tool's functions that only look at the world, on a copy of the arguments."""
    if look is None:
        return None
    shown = deepcopy(dict(arguments))
    found = await asyncio.wait_for(
        in_thread(without_exit(lambda: look(shown)), name=name), ENVIRONMENT_LASTS.total_seconds()
    )
    if not isinstance(found, str):
        raise TypeError(f"a tool tells of the world in a text, not in a {type(found).__name__}")
    return found


def judged(error: BaseException, tool: Declaration) -> Failed | Unknown:
    """Say what a body that raised tells about the world."""
    spread, retriable = random.random(), isinstance(error, tool.retry_on)
    if isinstance(error, tool.not_done):
        return Failed(error=described(error), not_done=True, retriable=retriable, spread=spread)
    if isinstance(error, _EndedFromOutside) or not isinstance(error, Exception):
        cause = f"it was ended from outside: {_text(error)}"
        return Unknown(cause=cause, body_over=True, spread=spread)
    if any(_is_lost_connection(cause) for cause in _with_causes(error)):
        cause = f"the connection was lost: {described(error)}"
        return Unknown(cause=cause, body_over=True, spread=spread)
    return Failed(error=described(error), retriable=retriable, spread=spread)


def described(error: BaseException) -> str:
    """Describe an error in one line: its type, and its text where it has one."""
    text = _text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(value: object) -> str:
    """Give a value's own text; a value that fails to give one has none."""
    try:
        return "".join(str(value))
    except BaseException:  # noqa: BLE001  # The body is over, and its outcome must not be lost.
        return ""


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Give an error, what it holds and what it came of, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, BaseExceptionGroup):
            waiting.extend(found.exceptions)
        waiting.extend(e for e in (found.__cause__, found.__context__) if e is not None)


def _is_lost_connection(error: BaseException) -> bool:
    if isinstance(error, HTTPError):
        return False  # The other side answered.
    if isinstance(error, (ConnectionError, TimeoutError, URLError, HTTPException, EOFError)):
        return True
    if isinstance(error, asyncio.CancelledError):
        return True
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    roots = {
        f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in type(error).__mro__
    }
    return bool(LOST_CONNECTIONS & (names | roots))


def text_of(result: Any) -> str:
    """Give a body's result as the text that the model reads."""
    if isinstance(result, str):
        return str.__str__(result)  # Of a kind of its own, it might do anything when written down.
    try:
        return json.dumps(result, ensure_ascii=False, default=str)
    except BaseException:  # noqa: BLE001  # The body returned, and its outcome must not be lost.
        return f"(a result of type {type(result).__name__} that cannot be written down)"
