"""A real HTTP server that speaks the wires of two vendors, at once or as a stream, for tests.

`POST /v1/chat/completions` is OpenAI's (chat_wire.py, chat_rules.py), `POST /v1/messages` is
Anthropic's (messages_wire.py, messages_rules.py). It answers from a script, keeps every request,
refuses with 400 what a vendor refuses, and fails as told for the next requests. A script is a
function of the request's JSON; what it gives is a text, a message as `calls` makes it, or a whole
body in the wire's own form. As a module it prints its base URL and serves until its input ends:

    python -m tests.servers.model_server --script package.module:function
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from tests.servers.chat_wire import ChatWire
from tests.servers.faults import IN_STREAM, STATUSES, Fault
from tests.servers.messages_wire import MessagesWire
from tests.servers.refused import Refused

__all__ = ["Body", "Fault", "ModelServer", "Received", "Reply", "Script", "calls"]

Body = dict[str, Any]
Reply = str | Body
Script = Callable[[Body], Reply]

HANG_SECONDS = 60.0
"""How long a hanging request hangs at most; closing the server ends it at once."""

DRIP_SECONDS = 0.05
DRIPS = 1_000

IDLE_SECONDS = 10.0
"""How long a connection may say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came; `body` is None where it was no JSON."""

    path: str
    headers: Mapping[str, str]
    body: Body | None


def calls(*wanted: tuple[str, Mapping[str, object] | str], text: str | None = None) -> Body:
    """Make an assistant message of calls, each a name with arguments or with their raw text.

    The server gives each call an id that it gives to no other.
    """
    made = [
        {
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else json.dumps(given),
            },
        }
        for name, given in wanted
    ]
    return {"content": text, "tool_calls": made}


class ModelServer:
    """The server, listening from the moment it is made; a context manager that closes it.

    `requests` holds everything received, and `arrived` is set from the first on; `errors` holds
    what scripts raised (answered with 500). With `api_key` set, another key is answered 401.
    `piece` is of how many characters the pieces of a stream are.
    """

    def __init__(self, script: Script, *, api_key: str | None = None) -> None:
        self.script = script
        self.api_key = api_key
        self.piece = 5
        self.chat = ChatWire()
        self.messages = MessagesWire()
        self.requests: list[Received] = []
        self.errors: list[Exception] = []
        self.arrived = threading.Event()
        self.closing = threading.Event()
        self.verbatim: tuple[int, bytes] | None = None
        self.numbers = itertools.count(1)
        self._faults: deque[tuple[Fault, float]] = deque()
        self._guard = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        """Give what a client of `chat.completions` takes as `base_url`."""
        return f"{self.origin}/v1"

    @property
    def origin(self) -> str:
        """Give what a client of the Messages API takes as `base_url`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Body]:
        """Give the JSON of every request, in the order received."""
        with self._guard:
            return [received.body for received in self.requests if received.body is not None]

    def fail(self, fault: Fault, *, times: int = 1, retry_after_seconds: float = 1) -> None:
        """Let the next requests fail so, after the failures already told."""
        with self._guard:
            self._faults.extend([(fault, retry_after_seconds)] * times)

    def answer_with(self, content: str, *, status: int = 200) -> None:
        """Answer each request that is not refused with this very text, instead of the script.

        A text that begins with `data:`, `event:` or `:` is a stream.
        """
        self.verbatim = (status, content.encode())

    def receive(self, received: Received) -> tuple[Fault, float] | None:
        """Keep a request, and give the fault it meets."""
        with self._guard:
            self.requests.append(received)
            self.arrived.set()
            return self._faults.popleft() if self._faults else None

    def close(self) -> None:
        """Release what hangs, finish what is answered, and stop; may be called twice."""
        if self.closing.is_set():
            return
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    # Closing waits for the threads, so that no socket outlives the server.
    daemon_threads = False
    # A client that finds the queue full waits a whole second before it knocks again.
    request_queue_size = 128
    owner: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Let a client that went away go in silence; tests make them go."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(cast(Any, request), client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    @property
    def owner(self) -> ModelServer:
        return cast(_Http, self.server).owner

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the library names it
        """Write nothing; `ModelServer.requests` is the log."""

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("content-length", "0")))
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.owner.receive(Received(path=self.path, headers=headers, body=body))
        wire = self._wire()
        if fault is not None and self._fails(*fault):
            return
        try:
            wire.check(self.path, headers, body, api_key=self.owner.api_key)
        except Refused as refused:
            self._answer(refused.status, wire.refusal(refused))
            return
        assert body is not None
        if self.owner.verbatim is not None:
            self._answer(*self.owner.verbatim)
            return
        try:
            reply = self.owner.script(body)
        except Exception as error:  # noqa: BLE001 a script must not break the connection
            self.owner.errors.append(error)
            self._answer(500, wire.error(500, f"The script raised {error!r}."))
            return
        answer = wire.answer(body, reply, next(self.owner.numbers))
        kind = fault[0] if fault else None
        if kind is not None and kind is not Fault.TRUNCATED_BODY and kind not in IN_STREAM:
            answer = wire.spoiled(answer, body, kind)
        if body.get("stream"):
            self._stream(list(wire.events(body, answer, self.owner.piece)), kind)
        else:
            self._answer(200, wire.encoded(answer), cut=kind is Fault.TRUNCATED_BODY)

    def _wire(self) -> ChatWire | MessagesWire:
        return self.owner.messages if self.path.endswith("/messages") else self.owner.chat

    def do_GET(self) -> None:
        self._answer(404, self._wire().error(404, "There is only POST here."))

    def _fails(self, fault: Fault, retry_after_seconds: float) -> bool:
        """Answer with a fault that asks no script; say whether it was one."""
        wire = self._wire()
        if fault in STATUSES:
            status, said = STATUSES[fault]
            waits = status in (429, 529)
            limited = {"Retry-After": f"{retry_after_seconds:g}"} if waits else None
            self._answer(status, wire.error(status, said), headers=limited)
            return True
        match fault:
            case Fault.UNAVAILABLE:
                self._answer(503, b"<html><body>Service Unavailable</body></html>")
            case Fault.HANG:
                self.owner.closing.wait(HANG_SECONDS)
                self._drop()
            case Fault.DRIP:
                self._drip()
            case Fault.DROP:
                self._drop()
            case Fault.MALFORMED_JSON:
                self._answer(200, wire.half)
            case Fault.NO_CHOICES:
                self._answer(200, wire.no_content)
            case _:
                return False
        return True

    def _drip(self) -> None:
        """Send a byte now and then, so that no single read takes long."""
        self.send_response(200)
        self.send_header("Content-Length", str(DRIPS))
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(DRIPS):
            self.wfile.write(b" ")
            if self.owner.closing.wait(DRIP_SECONDS):
                return

    def _drop(self) -> None:
        # Lingering for no time makes closing a reset, as when a peer dies.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _stream(self, events: Sequence[bytes], fault: Fault | None) -> None:
        """Send events one by one, or only the first half of them and then what the fault is."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        broken = fault in IN_STREAM or fault is Fault.TRUNCATED_BODY
        for event in events[: len(events) // 2] if broken else events:
            self._chunk(event)
        match fault:
            case Fault.STREAM_DROPPED:
                self._drop()
                return
            case Fault.TRUNCATED_BODY:
                return  # Closed in good order, but without the mark of the end.
            case Fault.STREAM_HANGS:
                self.owner.closing.wait(HANG_SECONDS)
                self._drop()
                return
            case Fault.STREAM_ERROR:
                self._chunk(self._wire().error_event(529, "Overloaded."))
            case Fault.STREAM_MALFORMED:
                self._chunk(b"data: {oops\n\n")
            case _:
                pass
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def _answer(
        self,
        status: int,
        body: Body | bytes,
        *,
        headers: Mapping[str, str] | None = None,
        cut: bool = False,
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        kind = "text/html" if content.startswith(b"<") else "application/json"
        if content.startswith((b"data:", b"event:", b":")):
            kind = "text/event-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)


def say_hello(request: Body) -> Reply:
    """Answer the same to everything; the script of a server that is given none."""
    return "Hello."


def main(arguments: list[str] | None = None) -> None:
    """Serve until standard input ends, so that no server outlives who started it."""
    parser = argparse.ArgumentParser(description="A model server for tests.")
    parser.add_argument("--script", default=f"{__name__}:say_hello", help="module:function")
    module, _, name = parser.parse_args(arguments).script.partition(":")
    with ModelServer(getattr(importlib.import_module(module), name)) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
