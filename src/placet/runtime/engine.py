"""The engine: the only writer. It hands commands to the store, at the one edge where async begins.

A command that was handed over is carried out whether or not its caller still waits (D5).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import ParamSpec, TypeVar

from placet.core.commands import Command, Names
from placet.core.errors import Closed, NotFound, no_session
from placet.core.state import Session
from placet.core.values import SALT_BYTES
from placet.runtime.protected import protect
from placet.stores.store import Answer, RequestRow, RunRow, Store

P = ParamSpec("P")
T = TypeVar("T")


#: Of how many sessions a process keeps the salt.
SALTS_KEPT = 1_024


class Engine:
    """Commands and reads of one store, for one tenant."""

    store: Store
    tenant: str

    def __init__(self, store: Store, *, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self._salts: dict[str, str] = {}
        for path in store.files():
            protect(path)

    async def execute(self, session: str, command: Command, *, command_id: str = "") -> Answer:
        """Carry out a command; raises what it is refused with, or StoreTrouble."""
        answer: Future[Answer] = self.store.execute(
            self.tenant, session, command, command_id=command_id
        )
        return await _arrival(answer)

    def hand_over(self, session: str, command: Command) -> Future[Answer]:
        """Hand a command to the store; it is carried out whoever waits for the answer."""
        return self.store.execute(self.tenant, session, command)

    async def read(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call one of the store's reading verbs away from the event loop."""
        return await asyncio.to_thread(verb, *args, **kwargs)

    async def session(self, session: str, names: Names | None = None) -> Session:
        """Give a session as it is now; raises NotFound."""
        found = await self.read(self.store.session, self.tenant, session, names)
        if found is None:
            raise no_session(session)
        return found

    async def salt(self, session: str) -> str:
        """Give a session's salt, which is its own for life; empty where there is no session yet.

        Raises Closed(`erased`) where it is no more. What was read once is kept, so that a step
        reads no session for it; whoever is told `other_salt` forgets it.
        """
        if (known := self._salts.get(session)) is not None:
            return known
        try:
            found = await self.session(session)
        except NotFound:
            return ""
        if not found.salt and found.ended:
            raise Closed("erased", "The session's texts were erased.", session=session)
        if found.salt:
            self._salts[session] = found.salt
            while len(self._salts) > SALTS_KEPT:
                self._salts.pop(next(iter(self._salts)), None)
        return found.salt

    def forget_salt(self, session: str) -> None:
        """Read a session's salt anew the next time."""
        self._salts.pop(session, None)

    async def payload(self, session: str, ref: str) -> str:
        """Give a text; raises NotFound."""
        return await self.read(self.store.payload, self.tenant, session, ref)

    async def find_request(self, request: str, *, session: str | None = None) -> RequestRow:
        """Find a request by id, in one session where it is named (G11); raises NotFound.

        That says so where the id is a run's.
        """
        found = await self.read(self.store.find_request, self.tenant, request)
        if found is not None and session in (None, found.session):
            return found
        other = await self.read(self.store.find_run, self.tenant, request)
        if other is not None and session in (None, other.session):
            raise NotFound(
                "request_not_found",
                "That is a run, and no request.",
                hint=f"`placet resume {request}` says what it waits for; `placet inbox` lists"
                " the requests.",
                run_id=request,
            )
        where = "in this session" if session is not None else "here"
        if request.startswith("run_"):  # As placet names its runs; a caller may name one otherwise.
            raise NotFound(
                "request_not_found",
                f"There is no such run {where}, and no such request.",
                hint="`placet runs` lists the runs, and `placet inbox` the requests that wait.",
                request_id=request,
            )
        raise NotFound(
            "request_not_found",
            f"There is no such request {where}.",
            hint="`placet inbox` lists those that wait.",
            request_id=request,
        )

    async def find_run(self, run: str, *, session: str | None = None) -> RunRow:
        """Find a run by id, in one session where it is named (G11); raises NotFound.

        That names the run where the id is a request's.
        """
        found = await self.read(self.store.find_run, self.tenant, run)
        if found is not None and session in (None, found.session):
            return found
        other = await self.read(self.store.find_request, self.tenant, run)
        if other is not None and session in (None, other.session):
            raise NotFound(
                "run_not_found",
                "That is a request, and no run.",
                hint=f"Its run is {other.request.at.run}.",
                request_id=run,
            )
        where = " in this session" if session is not None else ""
        raise NotFound(
            "run_not_found",
            f"There is no such run{where}.",
            hint="`placet runs` lists them.",
            run_id=run,
        )


async def _arrival(answer: Future[T]) -> T:
    """Wait for an answer; who stops waiting leaves what was asked as it is."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[T] = loop.create_future()

    def take_over() -> None:
        if waiting.done():  # Nobody waits any more.
            return
        if answer.cancelled():
            waiting.cancel()
        elif (error := answer.exception()) is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(answer.result())

    def arrived(_: Future[T]) -> None:
        with suppress(RuntimeError):  # The event loop has ended, and nobody waits.
            loop.call_soon_threadsafe(take_over)

    answer.add_done_callback(arrived)
    return await waiting


def new_salt() -> str:
    """Make a salt that a session may begin with."""
    return secrets.token_hex(SALT_BYTES)


def new_id(prefix: str) -> str:
    """Make an id that nobody can guess: 80 random bits after a prefix."""
    return f"{prefix}_{secrets.token_hex(10)}"
