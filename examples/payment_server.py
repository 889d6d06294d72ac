"""A small payment server, real as far as it goes: HTTP, and a durable table of what it did.

    python examples/payment_server.py --database payments.db --port 0

Its first line is its address. An effect that comes with an `Idempotency-Key` is made once for that
key, however often and however many at a time ask for it; the same key with another body is refused
(422). `--without-keys` leaves that out, to show what happens then.

    POST /payments, /refunds  {"amount": 12900, "order": "A-42"}   amounts are in cents
    POST /voids               {"order": "A-42", "of": "payments"}
    GET  /payments            every effect, oldest first; /payments/by-key/KEY is the one of a key
    GET  /requests            every request for an effect, with its key and what it met
    POST /behave              {"faults": ["503-after", ...], "on": "/payments"}
    GET  /behave              the faults that are left
    POST /release             lets go of the requests that hang or are late

A void takes back what was paid (or refunded) for an order, if anything was, and closes the order
to any more of it: so what arrives late is refused, and does not undo the void.

Faults are met by the next requests for an effect, one each, in order (`on` keeps them for one
path); they take the place of those of before with the same `on`. `503-`, `hang-` and `drop-`
answer 503, do not answer, or close the connection; `-before` and `-after` say whether that is
before the server acted or after it. `late` acts only when it is let go, and never answers; `429`
and `402` do not act, and say so; `ok` is no fault.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT, "order" TEXT NOT NULL,
    amount INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, asked TEXT NOT NULL, status INTEGER NOT NULL, answer TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS closed (
    "order" TEXT NOT NULL, kind TEXT NOT NULL, PRIMARY KEY ("order", kind)
);
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, key TEXT, fault TEXT NOT NULL
);
"""

PATHS = {"/payments": "payment", "/refunds": "refund", "/voids": "void"}
VOIDED = {"payments": "payment", "refunds": "refund"}
FAULTS = (
    "ok",
    "402",
    "429",
    "late",
    *(f"{fault}-{when}" for fault in ("503", "hang", "drop") for when in ("before", "after")),
)
LONGEST_BODY = 64 * 1024
MOST_CENTS = 10**12


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with; `is_replay` where an earlier request had the same key."""

    status: int
    body: Mapping[str, Any]
    is_replay: bool = False


class Refused(Exception):
    """A request that the server does not accept, with its status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Books:
    """What the server did, in a database that outlives it: what is answered is on the disk."""

    def __init__(self, path: Path, *, uses_keys: bool) -> None:
        self._path = path
        self._uses_keys = uses_keys
        with self._open() as books:
            books.execute("PRAGMA journal_mode = WAL")
            books.executescript(SCHEMA)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as books:
            books.execute("PRAGMA synchronous = FULL")
            yield books

    def act(self, path: str, asked: Mapping[str, Any], *, key: str | None) -> Answer:
        """Make an effect, once for its key: the effect and its key are one transaction."""
        wanted = json.dumps([path, asked], sort_keys=True)
        with self._open() as books:
            books.execute("BEGIN IMMEDIATE")
            known = books.execute("SELECT asked, status, answer FROM keys WHERE key = ?", (key,))
            row = known.fetchone() if self._uses_keys else None
            if row is not None:
                books.execute("ROLLBACK")
                if row[0] != wanted:
                    raise Refused(422, f"the key {key} was used for something else")
                return Answer(row[1], json.loads(row[2]), is_replay=True)
            answer = _voided(books, asked, key) if path == "/voids" else None
            answer = answer or _made(books, PATHS[path], asked, key)
            if self._uses_keys and key is not None:
                told = (key, wanted, answer.status, json.dumps(answer.body))
                books.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", told)
            books.execute("COMMIT")
            return answer

    def note(self, path: str, key: str | None, fault: str) -> None:
        """Write down that an effect was asked for, whatever becomes of that."""
        with self._open() as books:
            row = (path, key, fault)
            books.execute("INSERT INTO requests (path, key, fault) VALUES (?, ?, ?)", row)

    def effects(self) -> list[dict[str, Any]]:
        """Give every effect, oldest first."""
        with self._open() as books:
            return _rows(books, 'SELECT id, kind, key, "order", amount FROM effects ORDER BY id')

    def requests(self) -> list[dict[str, Any]]:
        """Give every request for an effect, oldest first."""
        with self._open() as books:
            return _rows(books, "SELECT id, path, key, fault FROM requests ORDER BY id")


def _made(
    books: sqlite3.Connection, kind: str, asked: Mapping[str, Any], key: str | None
) -> Answer:
    """Write a payment or a refund down, unless its order is closed to that."""
    order, amount = asked["order"], asked["amount"]
    closed = 'SELECT 1 FROM closed WHERE "order" = ? AND kind = ?'
    if books.execute(closed, (order, kind)).fetchone():
        raise Refused(409, f"order {order} is void: it takes no {kind}")
    return Answer(201, _written(books, kind, order, amount, key))


def _voided(books: sqlite3.Connection, asked: Mapping[str, Any], key: str | None) -> Answer:
    """Take back what was done for an order, if anything was, and close the order to any more."""
    order, kind = asked["order"], VOIDED[asked["of"]]
    books.execute("INSERT OR IGNORE INTO closed VALUES (?, ?)", (order, kind))
    stands = """SELECT coalesce(sum(amount), 0) FROM effects
                WHERE "order" = ? AND kind IN (?, 'void of ' || ?)"""
    amount = books.execute(stands, (order, kind, kind)).fetchone()[0]
    if amount == 0:
        return Answer(200, {"id": None, "kind": f"void of {kind}", "order": order, "amount": 0})
    return Answer(201, _written(books, f"void of {kind}", order, -amount, key))


def _written(
    books: sqlite3.Connection, kind: str, order: str, amount: int, key: str | None
) -> dict[str, Any]:
    insert = 'INSERT INTO effects (kind, key, "order", amount) VALUES (?, ?, ?, ?)'
    made = books.execute(insert, (kind, key, order, amount))
    return {"id": made.lastrowid, "kind": kind, "order": order, "amount": amount}


def _rows(books: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    found = books.execute(query)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


class Faults:
    """The faults that the next requests meet, in order; a lock, because requests are threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: list[tuple[str | None, str]] = []

    def tell(self, faults: list[str], *, on: str | None) -> None:
        """Take faults for one path, or for any, in place of those of before."""
        with self._lock:
            others = [each for each in self._left if each[0] != on]
            self._left = [*others, *((on, fault) for fault in faults)]

    def next(self, path: str) -> str:
        """Take the next fault that is meant for a path."""
        with self._lock:
            for place, (on, fault) in enumerate(self._left):
                if on in (None, path):
                    del self._left[place]
                    return fault
            return "ok"

    def left(self) -> list[str]:
        """Give the faults that nothing has met yet."""
        with self._lock:
            return [fault for _, fault in self._left]


class Held:
    """Requests that are held until they are let go."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._round = 0
        self._held = Counter[int]()

    @contextmanager
    def until_let_go(self) -> Iterator[None]:
        """Wait to be let go, and say by the end of the block that what followed is done."""
        with self._changed:
            mine = self._round
            self._held[mine] += 1
            self._changed.wait_for(lambda: self._round > mine)
        try:
            yield
        finally:
            with self._changed:
                self._held[mine] -= 1
                self._changed.notify_all()

    def let_go(self) -> None:
        """Let go of what is held, and wait until that has done what it had to."""
        with self._changed:
            mine, self._round = self._round, self._round + 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._held[mine] == 0)


class PaymentServer(ThreadingHTTPServer):
    """The server: its books, its faults, and a thread a request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, books: Books, *, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.books = books
        self.faults = Faults()
        self.held = Held()

    def handle_error(self, *_: object) -> None:
        """Say nothing of a client that has left; anything else is a fault of this file."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    server: PaymentServer

    def do_GET(self) -> None:
        books = self.server.books
        match self.path.strip("/").split("/"):
            case ["payments"]:
                self._say(Answer(200, {"payments": books.effects()}))
            case ["payments", "by-key", key]:
                found = [effect for effect in books.effects() if effect["key"] == key]
                missing = Answer(404, {"error": f"nothing was done under the key {key}"})
                self._say(Answer(200, found[0]) if found else missing)
            case ["requests"]:
                self._say(Answer(200, {"requests": books.requests()}))
            case ["behave"]:
                self._say(Answer(200, {"faults": self.server.faults.left()}))
            case _:
                self._say(Answer(404, {"error": f"there is no {self.path}"}))

    def do_POST(self) -> None:
        try:
            if self.path == "/behave":
                faults, on = _faults(self._body())
                self.server.faults.tell(faults, on=on)
                self._say(Answer(200, {"faults": self.server.faults.left()}))
            elif self.path == "/release":
                self.server.held.let_go()
                self._say(Answer(200, {}))
            elif self.path in PATHS:
                self._effect(_effect(self.path, self._body()))
            else:
                raise Refused(404, f"there is no {self.path}")
        except Refused as refused:
            self._say(Answer(refused.status, {"error": str(refused)}))

    def _effect(self, asked: Mapping[str, Any]) -> None:
        """Act, and misbehave before or after that as told."""
        key = self.headers.get("Idempotency-Key")
        fault = self.server.faults.next(self.path)
        self.server.books.note(self.path, key, fault)
        act = partial(self.server.books.act, self.path, asked, key=key)
        if fault == "late":
            with self.server.held.until_let_go():
                act()
            return
        answer = None
        if fault not in ("402", "429") and not fault.endswith("-before"):
            answer = act()
        match fault.partition("-")[0]:
            case "402" | "429" | "503" as status:
                self._say(Answer(int(status), {"error": f"payment gateway {status}"}))
            case "hang":
                with self.server.held.until_let_go():
                    return
            case "drop":
                return  # The connection is closed with nothing said.
            case _:
                assert answer is not None, "without a fault the server has acted"
                self._say(answer)

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            raise Refused(400, f"a body has a length, up to {LONGEST_BODY}")
        try:
            return json.loads(self.rfile.read(int(length)))
        except ValueError as error:
            raise Refused(400, "the body is no JSON") from error

    def _say(self, answer: Answer) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.is_replay:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: what was asked for is in the books."""


def _effect(path: str, body: Any) -> dict[str, Any]:
    """Hold a request for an effect against what it must be; raises Refused."""
    wanted = {"of", "order"} if path == "/voids" else {"amount", "order"}
    if not isinstance(body, dict) or set(body) != wanted:
        raise Refused(400, f"the body is an object of {', '.join(sorted(wanted))}")
    if not isinstance(body["order"], str) or not body["order"]:
        raise Refused(400, "the order is a text, and not empty")
    if body.get("of", "payments") not in tuple(VOIDED):
        raise Refused(400, f"a void is of {' or '.join(VOIDED)}")
    amount = body.get("amount", 1)
    if not isinstance(amount, int) or isinstance(amount, bool) or not 1 <= amount <= MOST_CENTS:
        raise Refused(400, f"the amount is a whole number of cents, from 1 to {MOST_CENTS}")
    return body


def _faults(body: Any) -> tuple[list[str], str | None]:
    """Hold what the server is told to do wrong against what it can; raises Refused."""
    faults = body.get("faults") if isinstance(body, dict) else None
    if not isinstance(faults, list) or not all(fault in FAULTS for fault in faults):
        raise Refused(400, f"faults are a list of {', '.join(FAULTS)}")
    on = body.get("on")
    if on not in (None, *PATHS):
        raise Refused(400, f"faults are on one of {', '.join(PATHS)}, or on none")
    return faults, on


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="A payment server that can be told to misbehave.")
    parser.add_argument("--database", type=Path, required=True, help="a file, made if missing")
    parser.add_argument("--port", type=int, default=0, help="0 is any that is free")
    parser.add_argument("--without-keys", action="store_true", help="pay again for the same key")
    given = parser.parse_args()
    server = PaymentServer(Books(given.database, uses_keys=not given.without_keys), port=given.port)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
