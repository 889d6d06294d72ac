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

from placet import Notice

Mode = Literal["ok", "500", "hang", "drop"]


class PostOffice:
    """What was posted, by channel, and how the server answers to each."""

    def __init__(self) -> None:
        self.modes: dict[str, Mode] = {}
        self.tried: list[tuple[str, str]] = []
        self.posts: dict[str, list[dict[str, Any]]] = {}
        self.url = ""
        self.closing = threading.Event()

    def kinds(self, channel: str) -> list[str]:
        return [post["kind"] for post in self.posts.get(channel, [])]

    def attempts(self, channel: str) -> int:
        return sum(name == channel for name, _ in self.tried)


@contextmanager
def post_office(**modes: Mode) -> Iterator[PostOffice]:
    """Open a post office on this host; a channel without a mode is served well."""
    office = PostOffice()
    office.modes.update(modes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            channel = self.path.strip("/")
            office.tried.append((channel, str(body.get("kind", ""))))
            mode = office.modes.get(channel, "ok")
            if mode == "hang":
                office.closing.wait(30)
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

    def __init__(self, name: str, url: str, *, dies: bool = False) -> None:
        self.name = name
        self._url = f"{url}/{name}"
        self._dies = dies

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
        with urllib.request.urlopen(asked, timeout=0.3) as answer:
            answer.read()
