"""A real HTTP server to which test channels post, and which can fail in the ways servers do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.error import HTTPError

from placet import Notice

Mode = Literal["ok", "500", "hang", "drop"]

#: How long a channel waits for an office that does not answer, and for one that does: what it
#: answers is not lost because a machine stands still for a while.
SOON_SECONDS, PATIENCE_SECONDS = 0.1, 60.0


class PostOffice:
    """What was posted, by channel, and how the server answers to each."""

    def __init__(self) -> None:
        self.modes: dict[str, Mode] = {}
        self.tried: list[tuple[str, str]] = []
        self.posts: dict[str, list[dict[str, Any]]] = {}
        self.url = ""
        self.closing = threading.Event()
        self.arrived = threading.Condition()

    def kinds(self, channel: str) -> list[str]:
        return [post["kind"] for post in self.posts.get(channel, [])]

    def attempts(self, channel: str, *, at_least: int = 0) -> int:
        """Count what came of a channel, once `at_least` so much has: it may be under way."""

        def count() -> int:
            return sum(name == channel for name, _ in self.tried)

        with self.arrived:
            self.arrived.wait_for(lambda: count() >= at_least, PATIENCE_SECONDS)
            return count()

    def patience(self, channel: str) -> float:
        """Say how long a channel is to wait for an answer, in seconds."""
        return SOON_SECONDS if self.modes.get(channel) == "hang" else PATIENCE_SECONDS


@contextmanager
def post_office(**modes: Mode) -> Iterator[PostOffice]:
    """Open a post office on this host; a channel without a mode is served well."""
    office = PostOffice()
    office.modes.update(modes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            channel = self.path.strip("/")
            with office.arrived:
                office.tried.append((channel, str(body.get("kind", ""))))
                office.arrived.notify_all()
            mode = office.modes.get(channel, "ok")
            if mode == "hang":
                office.closing.wait(PATIENCE_SECONDS)
            if mode in ("hang", "drop"):
                self.close_connection = True
                return
            if mode == "ok":
                office.posts.setdefault(channel, []).append(body)
            self.send_response(200 if mode == "ok" else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    office.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield office
    finally:
        office.closing.set()
        server.shutdown()
        serving.join()
        server.server_close()


class PostChannel:
    """A channel that posts what it is to tell, and raises where that is not answered well."""

    def __init__(
        self, name: str, url: str, *, dies: bool = False, patience: float = PATIENCE_SECONDS
    ) -> None:
        self.name = name
        self._url = f"{url}/{name}"
        self._dies = dies
        self._patience = patience

    async def tell(self, notice: Notice) -> None:
        card = await notice.card()
        body = {
            "id": notice.id,
            "attempt": notice.attempt,
            "kind": notice.kind,
            "request": notice.request.id,
            "status": card.status,
            "tool": card.tool,
        }
        await asyncio.to_thread(self._post, json.dumps(body).encode())
        if self._dies:
            os.kill(os.getpid(), signal.SIGKILL)

    def _post(self, body: bytes) -> None:
        asked = urllib.request.Request(self._url, data=body, method="POST")
        try:
            with urllib.request.urlopen(asked, timeout=self._patience) as answer:
                answer.read()
        except HTTPError as error:
            error.close()  # It holds the connection, and whoever raised it may be kept for long.
            raise
