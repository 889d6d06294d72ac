"""A stand-in for a model: a local HTTP server that speaks `POST /v1/chat/completions`.

It answers as a support agent would, by rules: each answer is a function of the request's messages
alone, so that any process can go on with a run. It prints its base URL and serves until its input
ends. It listens on the loopback address only.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = Mapping[str, Any]

_ORDER = re.compile(r"\b[A-Z]-\d+\b")
_PAID = re.compile(r"paid (\d+\.\d\d)")
_EDITED = re.compile(r'Before it ran, (.+) changed the arguments: amount: "(.+)" -> "(.+)"')
_REJECTED = re.compile(r"Rejected by (.+): (.+)")


def reply(messages: Sequence[Body]) -> dict[str, Any]:
    """Give the next message of the assistant: look the order up, refund it, say what became."""
    asked = max(i for i, message in enumerate(messages) if message["role"] == "user")
    order = _ORDER.search(str(messages[asked]["content"]))
    if order is None:
        return _said("Which order is it about?")
    results = [str(m["content"]) for m in messages[asked:] if m["role"] == "tool"]
    if not results:
        return _call(len(messages), "get_order", {"order_id": order[0]}, "I look the order up.")
    paid = _PAID.search(results[0])
    if paid is None:
        return _said(f"I could not find order {order[0]}.")
    if len(results) == 1:
        arguments = {"order_id": order[0], "amount": paid[1]}
        claim = f"It arrived broken, so I refund what was paid: {paid[1]} USD."
        return _call(len(messages), "issue_refund", arguments, claim)
    return _said(_closing(order[0], results[1]))


def _closing(order: str, result: str) -> str:
    if found := _REJECTED.match(result):
        return f"I could not refund order {order}: {found[1]} said no. The reason: {found[2]}"
    if found := _EDITED.match(result):
        return f"I proposed {found[2]} USD for order {order}; {found[1]} made it {found[3]}. Paid."
    if result.startswith("Refunded"):
        return f"Good news. {result.splitlines()[0]}"
    return f"I could not finish the refund of order {order}. {result.splitlines()[0]}"


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _call(number: int, name: str, arguments: Body, text: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request for the next message, and nothing else."""
        text = self.rfile.read(int(self.headers.get("content-length", "0")))
        try:
            asked = json.loads(text)
            message = reply(asked["messages"])
        except (ValueError, KeyError, TypeError) as error:
            self._answer(400, {"error": {"message": f"No sound request: {error!r}."}})
            return
        if self.path != "/v1/chat/completions":
            self._answer(404, {"error": {"message": "There is only /v1/chat/completions."}})
            return
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        self._answer(
            200,
            {
                "id": "chatcmpl-demo",
                "object": "chat.completion",
                "created": 0,
                "model": asked.get("model", ""),
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            },
        )

    def _answer(self, status: int, body: Body) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # The library's name.
        """Write nothing."""


def main() -> None:
    """Serve until standard input ends, so that no server outlives who started it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
