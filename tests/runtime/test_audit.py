"""`verify`: sound for every life of a session, and never for one that was changed by hand (H4)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet import Agent, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, say
from placet.core.codec import chain_hash
from placet.core.commands import Withdraw
from placet.core.errors import Mistake, ModelTrouble, NotFound, Refusal
from placet.runtime import rebuilding
from placet.runtime.audit import Verified, strays, verify
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from tests.stores.build import ALLOW, ANN, Clock, Session
from tests.stores.walk import Walk

Tamper = Callable[[sqlite3.Connection], None]


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def lived(place: Path) -> Path:
    """Make a store in which one action was approved and run, and one rejected; give its file."""
    path = place / "placet.db"
    model = ScriptedModel([call("pay", amount=1), call("pay", amount=2), say("Done.")])
    agent = Agent(name="payer", model=model, tools=[pay])
    with Placet(SqliteStore(path), agents=[agent], approvers=["ana"]) as placet:
        first = placet.run_sync("payer", "pay", session="s", run_id="run_1")
        placet.decide_sync(first.waiting[0], "approve", by="ana")
        second = placet.resume_sync("run_1")
        placet.decide_sync(second.waiting[0], "reject", by="ana", reason="once is enough")
        assert placet.resume_sync("run_1").stop == "final"
    return path


def verified(path: Path) -> Verified:
    store = SqliteStore(path)
    try:
        return verify(store, "main", "s")
    finally:
        store.close()


def hosted(place: Path) -> Path:
    """Make a store with a run of which a framework has named a step; give its file."""
    path = place / "placet.db"
    store = SqliteStore(path)
    session = Session(store, id="s")
    session.start(kind="hosted")
    session.propose(ALLOW, reference="the first", place="here")
    store.close()
    return path


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "statement, codes",
    [
        ("SELECT 1", ""),
        ("DELETE FROM step_names WHERE kind = 'place'", "missing_state"),
        (
            "UPDATE step_names SET name = 'another' WHERE kind = 'reference'",
            "extra_state missing_state",
        ),
        ("UPDATE step_names SET step = 7 WHERE kind = 'reference'", "changed_state"),
    ],
)
def test_a_name_of_a_step_that_was_changed_is_found(
    tmp_path: Path, statement: str, codes: str
) -> None:
    def tamper(connection: sqlite3.Connection) -> None:
        connection.execute(statement)

    found = tampered(hosted(tmp_path), tamper)
    assert [each.code for each in found.findings] == codes.split()


def tampered(path: Path, tamper: Tamper) -> Verified:
    with closing(sqlite3.connect(path)) as connection, connection:
        tamper(connection)
    return verified(path)


def sql(statement: str) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        assert connection.execute(statement).rowcount > 0, "the statement touches something"

    return tamper


def swap_events(connection: sqlite3.Connection) -> None:
    for before, after in ((3, 900), (4, 3), (900, 4)):
        connection.execute("UPDATE events SET seq = ? WHERE seq = ?", (after, before))


def rechain(connection: sqlite3.Connection, *, head: bool) -> None:
    """Compute every hash anew, as a forger who knows the rule does."""
    previous = ""
    rows = connection.execute("SELECT seq, at, kind, body FROM events ORDER BY seq").fetchall()
    for number, (seq, at, kind, body) in enumerate(rows, start=1):
        previous = chain_hash(previous, seq=number, at_micros=at, kind=kind, body=body)
        connection.execute(
            "UPDATE events SET seq = ?, hash = ? WHERE seq = ?",
            (number, bytes.fromhex(previous), seq),
        )
    if head:
        connection.execute(
            "UPDATE sessions SET head = ?, seq = ?", (bytes.fromhex(previous), len(rows))
        )


def forge_voter(connection: sqlite3.Connection) -> None:
    (body,) = connection.execute("SELECT body FROM events WHERE kind = 'VoteCast'").fetchone()
    forged = json.dumps({**json.loads(body), "by": "eve"}, separators=(",", ":"))
    connection.execute("UPDATE events SET body = ? WHERE kind = 'VoteCast'", (forged,))
    rechain(connection, head=True)


def remove_vote(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM events WHERE kind = 'VoteCast'")
    rechain(connection, head=True)


def rehash_without_head(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE events SET at = at + 1 WHERE seq = (SELECT max(seq) FROM events)")
    rechain(connection, head=False)


def begin_unapproved(connection: sqlite3.Connection) -> None:
    """Take the approval out of the intent, and make everything fit but the state."""
    query = "SELECT body FROM events WHERE kind = 'AttemptBegun'"
    (body,) = connection.execute(query).fetchone()
    kept = {name: value for name, value in json.loads(body).items() if name != "request"}
    connection.execute(
        "UPDATE events SET body = ? WHERE kind = 'AttemptBegun'",
        (json.dumps(kept, separators=(",", ":")),),
    )
    rechain(connection, head=True)


def forge_digest(connection: sqlite3.Connection) -> None:
    """Have an action stand for another one, in the log and in its row."""
    (digest,) = connection.execute("SELECT json_extract(value, '$.digest') FROM calls").fetchone()
    for table, column in (("events", "body"), ("calls", "value"), ("requests", "value")):
        statement = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
        connection.execute(statement, (digest, "0" * 64))
    rechain(connection, head=True)


STATE = "UPDATE {table} SET value = replace(value, '{old}', '{new}') WHERE value LIKE '%{old}%'"

TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    "an edited event": (
        sql("UPDATE events SET body = replace(body, 'ana', 'eve') WHERE kind = 'VoteCast'"),
        "broken_chain",
    ),
    "an edited instant": (sql("UPDATE events SET at = at - 1 WHERE seq = 3"), "broken_chain"),
    "a removed event": (sql("DELETE FROM events WHERE seq = 4"), "seq_gap"),
    "a reorder": (swap_events, "broken_chain"),
    "a cut tail": (
        sql("DELETE FROM events WHERE seq > (SELECT max(seq) - 2 FROM events)"),
        "cut_tail",
    ),
    "an unknown kind": (sql("UPDATE events SET kind = 'VoteSold' WHERE seq = 5"), "newer_event"),
    "a damaged body": (sql("UPDATE events SET body = '{' WHERE seq = 5"), "unreadable_event"),
    "another head": (sql("UPDATE sessions SET head = zeroblob(32)"), "other_head"),
    "a tail that was hashed anew": (rehash_without_head, "other_head"),
    "a forged voter, chained anew": (forge_voter, "changed_state"),
    "a removed vote, chained anew": (remove_vote, "impossible_event"),
    "an intent without its approval": (begin_unapproved, "forbidden_event"),
    "a request that can be spent again": (
        sql(
            'UPDATE requests SET pending = 2, value = replace(value, \'"is":"Spent"\','
            " '\"is\":\"Approved\"') WHERE value LIKE '%Spent%'"
        ),
        "changed_state",
    ),
    "a rejection that was turned": (
        sql(
            "UPDATE requests SET pending = 2, value = json_set(value, '$.state',"
            ' json(\'{"is":"Approved","votes":["ana"]}\')) WHERE value LIKE \'%Rejected%\''
        ),
        "changed_state",
    ),
    "a later deadline": (
        sql(
            "UPDATE requests SET deadline_at = 9999999999999999,"
            " value = json_set(value, '$.deadline_at', 9999999999999999)"
        ),
        "changed_state",
    ),
    "a later deadline in the value alone": (
        sql("UPDATE requests SET value = json_set(value, '$.deadline_at', 9999999999999999)"),
        "unreadable_state",
    ),
    "a request that is listed again": (sql("UPDATE requests SET pending = 1"), "unreadable_state"),
    "a removed request": (sql("DELETE FROM requests"), "missing_state"),
    "a damaged request": (sql("UPDATE requests SET value = '[]'"), "unreadable_state"),
    "a changed call": (
        sql(STATE.format(table="calls", old='"version":1', new='"version":2')),
        "changed_state",
    ),
    "a removed call": (sql("DELETE FROM calls WHERE step = 1"), "missing_state"),
    "a forgotten no": (sql("DELETE FROM noes"), "missing_state"),
    "a changed run": (
        sql(STATE.format(table="runs", old='"stop":"final"', new='"stop":"failed"')),
        "changed_state",
    ),
    "a run from nowhere": (
        sql(
            "INSERT INTO runs SELECT tenant, 'run_2', session, active, wake_at,"
            " replace(value, 'run_1', 'run_2') FROM runs"
        ),
        "extra_state",
    ),
    "a generation that was set back": (
        sql("UPDATE sessions SET surfaces = '{}'"),
        "changed_state",
    ),
    "a removed text": (sql("DELETE FROM payloads WHERE body LIKE '%once is%'"), "missing_text"),
    "a changed text": (
        sql("UPDATE payloads SET body = 'because' WHERE body = 'once is enough'"),
        "changed_text",
    ),
    "a changed digest, chained anew": (forge_digest, "digest_mismatch"),
    "a changed action": (
        sql(
            "UPDATE payloads SET body = replace(body, '\"amount\": 1', '\"amount\": 9')"
            " WHERE lower(hex(ref)) = (SELECT json_extract(body, '$.action') FROM events"
            " WHERE kind = 'CallProposed')"
        ),
        "changed_text",
    ),
    "a transcript that tells otherwise": (
        sql(
            "UPDATE transcript SET ref = (SELECT ref FROM transcript WHERE kind = 'message')"
            " WHERE kind = 'result' AND step = 1"
        ),
        "changed_state",
    ),
    "a no that was added": (
        sql("INSERT INTO noes SELECT tenant, session, run, 'x', value FROM noes"),
        "extra_state",
    ),
    "a no of a run from nowhere": (
        sql("INSERT INTO noes SELECT tenant, session, 'run_x', call_key, value FROM noes"),
        "extra_state",
    ),
    "an open call in a step from nowhere": (
        sql(
            "INSERT INTO calls SELECT tenant, session, run, 99, place, open,"
            " json_set(value, '$.at[1]', 99) FROM calls LIMIT 1"
        ),
        "extra_state",
    ),
    "a transcript of a run from nowhere": (
        sql(
            "INSERT INTO transcript SELECT tenant, session, 'x', 1, 1, kind, ref FROM transcript"
            " LIMIT 1"
        ),
        "extra_state",
    ),
    "a name of a step from nowhere": (
        sql("INSERT INTO step_names VALUES ('main', 's', 'run_1', 'reference', 'x', 0)"),
        "extra_state",
    ),
    "a text that no event names": (
        sql("INSERT INTO payloads VALUES ('main', 's', x'aa', 'words')"),
        "extra_state",
    ),
    "a notice that no event brings": (
        sql(
            "INSERT INTO outbox (id, tenant, session, request, kind)"
            " VALUES (999, 'main', 's', 'rq_x', 'opened')"
        ),
        "extra_state",
    ),
    "an event far beyond the log's end": (
        sql(
            "INSERT INTO events SELECT tenant, session, seq + 1000, at, kind, body, hash, '', 0"
            " FROM events WHERE seq = 3"
        ),
        "extra_state",
    ),
    "a stamp that was set back": (
        sql("UPDATE meta SET value = 1 WHERE name = 'stamp'"),
        "clock_set_back",
    ),
    "a run that is taken to be over": (sql("UPDATE runs SET active = 1"), "unreadable_state"),
    "a call that is taken to be open": (sql("UPDATE calls SET open = 1"), "unreadable_state"),
    "a salt that is none": (sql("UPDATE sessions SET salt = 'zz'"), "unreadable_state"),
    "surfaces that are none": (sql("UPDATE sessions SET surfaces = '{'"), "unreadable_state"),
    "a removed entry": (sql("DELETE FROM transcript WHERE kind = 'result'"), "missing_state"),
}


@pytest.mark.promise("H4")
def test_an_untouched_session_is_sound(tmp_path: Path) -> None:
    found = verified(lived(tmp_path))

    assert found.findings == ()
    assert found.sound
    assert found.events > 10
    assert len(found.head) == 64


@pytest.mark.promise("H4")
@pytest.mark.parametrize("name", TAMPERINGS)
def test_what_was_changed_by_hand_is_found(tmp_path: Path, name: str) -> None:
    tamper, code = TAMPERINGS[name]

    found = tampered(lived(tmp_path), tamper)

    assert not found.sound
    assert code in {finding.code for finding in found.findings}, found.findings


@pytest.mark.promise("D7")
@pytest.mark.parametrize("cause, sound", [("", True), (',"cause":"another"', False)])
def test_a_rest_of_an_older_version_which_does_not_say_why_is_sound(
    tmp_path: Path, cause: str, sound: bool
) -> None:
    path = tmp_path / "placet.db"
    agent = Agent(name="silent", model=ScriptedModel([]))
    with (
        Placet(SqliteStore(path), agents=[agent], approvers=["ana"]) as placet,
        pytest.raises(ModelTrouble),
    ):
        placet.run_sync("silent", "say something", session="s", run_id="run_1")
    written = '\',"cause":"script_ended"\''
    older = f"UPDATE runs SET value = replace(value, {written}, '{cause}')"
    has_it = sql(f"UPDATE runs SET id = id WHERE instr(value, {written})")

    assert tampered(path, has_it).sound
    assert tampered(path, sql(older)).sound == sound


@pytest.mark.promise("D7", "G7")
def test_a_request_of_an_older_version_which_does_not_say_that_a_vote_was_taken_back_is_sound(
    tmp_path: Path,
) -> None:
    path = tmp_path / "placet.db"
    with closing(SqliteStore(path)) as store:
        session = Session(store, id="s")
        session.start()
        request = session.ask()
        session.approve(request)
        session.do(Withdraw(request=request, by=ANN))
    older = sql("UPDATE requests SET value = replace(value, ',\"voted\":true', '')")
    assert tampered(path, sql("UPDATE requests SET id = id WHERE value LIKE '%voted%'")).sound
    assert tampered(path, older).sound
    newer = sql(
        "UPDATE requests SET value = json_set(value, '$.voted', json('true'), '$.rule', '')"
    )
    assert not tampered(path, newer).sound


@pytest.mark.promise("H4")
@pytest.mark.parametrize("table", ["sessions", "events"])
def test_a_session_of_which_the_own_row_is_gone_is_found(tmp_path: Path, table: str) -> None:
    path = lived(tmp_path)
    with closing(SqliteStore(path)) as store:
        assert strays(store, "main") == []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM sessions")
        if table == "events":  # Whatever is left of it, it is found.
            connection.execute("DELETE FROM events")
    with closing(SqliteStore(path)) as store:
        (found,) = strays(store, "main")
    assert (found.session, found.sound) == ("s", False)
    assert [each.code for each in found.findings] == ["lost_session"]


@pytest.mark.promise("H4")
def test_without_the_key_a_text_that_was_taken_out_is_found_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    key = PlacetKey(b"k" * 32)
    with closing(SqliteStore(path, key=key)) as store:
        Session(store, id="s").start()
    assert verified(path).findings == ()
    found = tampered(path, sql("DELETE FROM payloads"))
    assert [each.code for each in found.findings] == ["missing_text"]


def test_a_finding_names_the_event(tmp_path: Path) -> None:
    found = tampered(lived(tmp_path), sql("UPDATE events SET body = body || ' ' WHERE seq = 5"))

    assert [(finding.code, finding.seq) for finding in found.findings] == [("broken_chain", 5)]


def test_an_unknown_session_is_named(tmp_path: Path) -> None:
    store = SqliteStore(lived(tmp_path))
    with pytest.raises(NotFound):
        verify(store, "main", "nobody's")
    with pytest.raises(NotFound):
        verify(store, "another", "s")
    store.close()


@pytest.mark.promise("H4")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=settings().max_examples * 2 // 3,
)
@given(seed=st.integers(0, 2**32), length=st.integers(5, 80), aside=st.sampled_from([1, 3, 200]))
def test_every_life_of_a_session_is_sound(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    length: int,
    aside: int,
) -> None:
    monkeypatch.setattr(rebuilding, "PUT_ASIDE_EVERY", aside)
    clock = Clock()
    store = SqliteStore(tmp_path_factory.mktemp("life") / "placet.db", clock=clock)
    walk = Walk(Random(seed), clock, {}, {}, {})
    for _ in range(length):
        try:
            walk.learn(Session(store).do(walk.command()).state)
        except (Refusal, Mistake):
            continue
    if walk.runs:
        assert verify(store, "main", "s1").findings == ()
    store.close()
