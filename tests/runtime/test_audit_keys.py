"""`verify` where there are keys: what it finds with one, and what it could not look at (H4)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from placet import Agent, GrantTerms, Placet, ScriptedModel, tool
from placet.agent.models.scripted import call, say
from placet.core.codec import chain_hash
from placet.runtime.audit import Verified, verify
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore

KEY = PlacetKey(b"k" * 32)

Tamper = Callable[[sqlite3.Connection], None]


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def lived(path: Path, *, key: PlacetKey | None = KEY) -> Path:
    """Make a store in which one action was approved and run, and one rejected; give its file."""
    model = ScriptedModel([call("pay", amount=1), call("pay", amount=2), say("Done.")])
    agent = Agent(name="payer", model=model, tools=[pay])
    with Placet(SqliteStore(path, key=key), agents=[agent], approvers=["ana"]) as placet:
        first = placet.run_sync("payer", "pay", session="s", run_id="run_1")
        placet.decide_sync(first.waiting[0], "approve", by="ana")
        second = placet.resume_sync("run_1")
        placet.decide_sync(second.waiting[0], "reject", by="ana", reason="once is enough" * 100)
        assert placet.resume_sync("run_1").stop == "final"
    return path


def verified(path: Path, *, key: PlacetKey | None = KEY) -> Verified:
    with closing(SqliteStore(path, key=key)) as store:
        return verify(store, "main", "s")


def tampered(path: Path, tamper: Tamper) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        tamper(connection)


def sql(statement: str) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        connection.execute(statement)

    return tamper


def codes(found: Verified) -> set[str]:
    return {finding.code for finding in found.findings}


def forge_everything(connection: sqlite3.Connection) -> None:
    """Rewrite who voted, in the log and in the state, and chain it anew: it agrees with itself."""
    for table, column, kind in (
        ("events", "body", "kind = 'VoteCast'"),
        ("requests", "value", "1"),
    ):
        touched = connection.execute(
            f"UPDATE {table} SET {column} = replace({column}, '\"ana\"', '\"eve\"') WHERE {kind}"
        )
        assert touched.rowcount > 0
    previous = ""
    rows = connection.execute("SELECT seq, at, kind, body FROM events ORDER BY seq").fetchall()
    for seq, at, kind, body in rows:
        if kind == "RequestOpened":  # Who may decide, too.
            needs = json.loads(body)
            needs["needs"]["approvers"] = ["eve"]
            body = json.dumps(needs, separators=(",", ":"))
        if kind in ("CallProposed", "RequestRejected", "CallEnded"):
            body = body.replace('"ana"', '"eve"')
        previous = chain_hash(previous, seq=seq, at_micros=at, kind=kind, body=body)
        connection.execute(
            "UPDATE events SET body = ?, hash = ? WHERE seq = ?",
            (body, bytes.fromhex(previous), seq),
        )
    connection.execute("UPDATE calls SET value = replace(value, '\"ana\"', '\"eve\"')")
    connection.execute("UPDATE sessions SET head = ?", (bytes.fromhex(previous),))


@pytest.mark.promise("H4")
def test_a_sealed_session_is_sound_with_its_key(tmp_path: Path) -> None:
    found = verified(lived(tmp_path / "placet.db"))
    assert (found.findings, found.unchecked, found.texts) == ((), (), "sealed")


@pytest.mark.promise("H4")
def test_a_record_that_was_forged_as_a_whole_is_found_by_its_head_alone(tmp_path: Path) -> None:
    plain = lived(tmp_path / "plain.db", key=None)
    tampered(plain, forge_everything)
    assert verified(plain, key=None).sound, "without a key it agrees with itself"

    keyed = lived(tmp_path / "keyed.db")
    tampered(keyed, forge_everything)
    assert codes(verified(keyed)) == {"forged_head"}


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE sessions SET mac = NULL"],
        ["UPDATE sessions SET mac = NULL", "DELETE FROM keys"],
    ],
)
def test_a_head_without_its_hmac_is_found_whatever_else_was_taken_away(
    tmp_path: Path, statements: list[str]
) -> None:
    path = lived(tmp_path / "placet.db")

    def tamper(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    tampered(path, tamper)
    assert codes(verified(path)) == {"unkeyed_head"}


@pytest.mark.promise("H4")
def test_without_the_key_verify_says_what_it_could_not_look_at(tmp_path: Path) -> None:
    path = lived(tmp_path / "placet.db")
    found = verified(path, key=None)
    assert found.sound
    assert found.texts == "sealed"
    assert len(found.unchecked) == 2
    assert any("the texts are sealed" in each for each in found.unchecked)
    assert any("no key is given" in each for each in found.unchecked)

    tampered(path, forge_everything)
    assert verified(path, key=None).sound, "nobody can see it without the key"
    assert codes(verified(path)) == {"forged_head"}


@pytest.mark.promise("H4")
@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "plain"])
@pytest.mark.parametrize(
    "statement, code",
    [
        (
            "UPDATE payloads SET body = substr(body, 1, length(body) - 1) || x'00'"
            " WHERE typeof(body) = 'blob'",
            "changed_text",
        ),
        ("DELETE FROM payloads", "missing_text"),
        ("UPDATE sessions SET erased = 1", "changed_state"),
    ],
)
def test_texts_that_were_changed_removed_or_called_erased_are_found(
    tmp_path: Path, key: PlacetKey | None, statement: str, code: str
) -> None:
    path = lived(tmp_path / "placet.db", key=key)
    tampered(path, sql(statement))
    assert code in codes(verified(path, key=key))


@pytest.mark.promise("H4", "G12")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "UPDATE grants SET value = json_set(value, '$.left', 99)",
        "UPDATE grants SET value = json_set(value, '$.tool', 'wipe')",
        "DELETE FROM grants",
        "INSERT INTO grants SELECT tenant, session, 'gr_forged',"
        " json_set(value, '$.id', 'gr_forged') FROM grants",
    ],
)
def test_a_grant_that_was_changed_added_or_taken_out_is_found(
    tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "placet.db"
    agent = Agent(name="payer", model=ScriptedModel([call("pay", amount=1)]), tools=[pay])
    terms = GrantTerms(scope="session", lasts=timedelta(hours=1), uses=3, any=("amount",))
    with Placet(SqliteStore(path, key=KEY), agents=[agent], approvers=["ana"]) as placet:
        begun = placet.run_sync("payer", "pay", session="s", run_id="run_1")
        placet.decide_sync(begun.waiting[0], "approve", by="ana", grant=terms)
    tampered(path, sql(statement))
    assert codes(verified(path)) == (set() if statement == "SELECT 1" else {"changed_state"})


@pytest.mark.promise("H4")
def test_a_data_key_of_another_session_is_found(tmp_path: Path) -> None:
    path = lived(tmp_path / "placet.db")
    tampered(path, sql("UPDATE sessions SET data_key = x'01'"))
    assert {"unreadable_state", "changed_text"} <= codes(verified(path))


@pytest.mark.promise("H4")
@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "plain"])
def test_an_erased_session_is_sound_and_said_to_be_erased(
    tmp_path: Path, key: PlacetKey | None
) -> None:
    path = lived(tmp_path / "placet.db", key=key)
    with Placet(SqliteStore(path, key=key), approvers=["ana"]) as placet:
        placet.erase_session_sync("s", by="ana", cause="asked for")
    found = verified(path, key=key)
    assert found.findings == ()
    assert found.texts == "erased"
    assert found.unchecked == ("the texts were erased",)


@pytest.mark.promise("H4")
def test_an_erasure_that_is_only_claimed_is_found(tmp_path: Path) -> None:
    path = lived(tmp_path / "placet.db")

    def claim(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM payloads")
        connection.execute("UPDATE sessions SET erased = 1, ended = 1, data_key = NULL, salt = ''")

    tampered(path, claim)
    assert codes(verified(path)) == {"changed_state"}


@pytest.mark.promise("H4")
def test_an_erasure_of_which_texts_are_left_is_found(tmp_path: Path) -> None:
    path = lived(tmp_path / "placet.db")
    kept: list[tuple[object, ...]] = []
    tampered(path, lambda c: kept.extend(c.execute("SELECT * FROM payloads").fetchall()))
    with Placet(SqliteStore(path, key=KEY), approvers=["ana"]) as placet:
        placet.erase_session_sync("s", by="ana", cause="asked for")

    def bring_back(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT INTO payloads VALUES (?, ?, ?, ?)", kept)

    tampered(path, bring_back)
    assert "changed_state" in codes(verified(path))
