"""What was done on a row that was changed is found, though the row was put back since (H4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from placet.core import commands as c
from placet.core.deciders import StandIns
from placet.core.errors import PlacetError
from placet.core.values import GrantTerms, Occurrence, Principal, Recovery
from placet.runtime.audit import Finding, verify
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from tests.stores.build import ANN, BOB, PEOPLE, Clock, Session, asking, intent, opened

KEY = PlacetKey(b"k" * 32)
EVE = Principal(id="eve")
AT = Occurrence("run_1", 1, 0)
WITH_EVE = frozenset({"ann", "bob", "eve"})


@dataclass
class Forger:
    """A store under a key, and somebody who writes to its file without it."""

    path: Path
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = SqliteStore(self.path, clock=self.clock, key=KEY)
        self.session = Session(self.store)
        self.session.start()

    def change(self, table: str, **columns: str) -> None:
        """Set columns of each row of a table, each to a SQL expression."""
        sets = ", ".join(f"{name} = {value}" for name, value in columns.items())
        with closing(sqlite3.connect(self.path)) as connection, connection:
            assert connection.execute(f"UPDATE {table} SET {sets}").rowcount > 0

    def put(self, table: str, path: str, value: str, **columns: str) -> None:
        """Set a part of the values of a table to a SQL expression."""
        self.change(table, value=f"json_set(value, '$.{path}', {value})", **columns)

    def findings(self) -> tuple[Finding, ...]:
        return verify(self.store, "main", "s1").findings


def fewer_people(forger: Forger) -> None:
    """One person's yes is enough where two were asked."""
    request = opened(forger.session.propose(asking(quorum=2)))[0]
    forger.put("requests", "needs.quorum", "1")
    forger.session.approve(request)
    forger.put("requests", "needs.quorum", "2")


def another_person(forger: Forger) -> None:
    """Somebody approves who was not asked."""
    request = forger.session.ask()
    forger.put("requests", "needs.approvers", 'json(\'["ann","bob","eve"]\')')
    forger.session.do(c.Approve(request=request, by=EVE, eligible=WITH_EVE))
    forger.put("requests", "needs.approvers", 'json(\'["ann","bob"]\')')


def another_person_rejects(forger: Forger) -> None:
    request = forger.session.ask()
    forger.put("requests", "needs.approvers", 'json(\'["ann","eve"]\')')
    forger.session.do(c.Reject(request=request, by=EVE, eligible=WITH_EVE, reason="No."))
    forger.put("requests", "needs.approvers", 'json(\'["ann","bob"]\')')


def a_later_deadline(forger: Forger) -> None:
    """A yes counts that comes after the deadline."""
    request = forger.session.ask()
    micros = 60 * 60 * 1_000_000
    later = f"json_extract(value, '$.deadline_at') + {9 * micros}"
    forger.put("requests", "deadline_at", later, deadline_at=f"deadline_at + {9 * micros}")
    forger.clock.move(hours=2)
    forger.session.approve(request)
    earlier = f"json_extract(value, '$.deadline_at') - {9 * micros}"
    forger.put("requests", "deadline_at", earlier, deadline_at=f"deadline_at - {9 * micros}")


def a_requester_who_approves(forger: Forger) -> None:
    request = forger.session.ask()
    forger.put("requests", "needs.approvers", 'json(\'["ann","bob","rita"]\')')
    rita = Principal(id="rita")
    eligible = frozenset({"ann", "bob", "rita"})
    forger.session.do(c.Approve(request=request, by=rita, eligible=eligible))
    forger.put("requests", "needs.approvers", 'json(\'["ann","bob"]\')')


def a_vote_for_another_digest(forger: Forger) -> None:
    """A person votes for a digest that no request was opened for."""
    request = forger.session.ask()
    with closing(sqlite3.connect(forger.path)) as connection:
        (kept,) = connection.execute(
            "SELECT json_extract(value, '$.digest') FROM requests"
        ).fetchone()
    forger.put("requests", "digest", f"'{'0' * 64}'")
    forger.session.approve(request)
    forger.put("requests", "digest", f"'{kept}'")


def another_action_runs(forger: Forger) -> None:
    """An intent is of another action than was approved."""
    forger.session.approve(forger.session.ask())
    forger.session.lease()
    with closing(sqlite3.connect(forger.path)) as connection:
        (kept,) = connection.execute("SELECT json_extract(value, '$.digest') FROM calls").fetchone()
    forger.put("calls", "digest", f"'{'0' * 64}'")
    forger.session.begin(AT)
    forger.put("calls", "digest", f"'{kept}'")


def an_approval_that_nobody_gave(forger: Forger) -> None:
    """A row says that it is approved, and the action begins."""
    forger.session.ask()
    state = 'json(\'{"is":"Approved","votes":["ann"]}\')'
    forger.put("requests", "state", state, pending="2")
    forger.session.lease()
    forger.session.begin(AT)


def an_earlier_spending(forger: Forger) -> None:
    """What has expired begins all the same, because its row says another deadline."""
    forger.session.approve(forger.session.ask())
    far = "4000000000000000"
    forger.put("requests", "deadline_at", far, deadline_at=far)
    forger.clock.move(hours=3)
    forger.session.lease()
    forger.session.begin(AT)


def a_grant_that_lasts_longer(forger: Forger) -> None:
    request = forger.session.ask(order_id="7")
    action = forger.store.action("main", "s1", AT)
    assert action is not None
    terms = GrantTerms(scope="session", lasts=timedelta(hours=1), uses=5, same=("order_id",))
    forger.session.do(
        c.Approve(request=request, by=ANN, eligible=PEOPLE, grant=terms, action=action[1])
    )
    forger.session.lease()
    forger.session.conclude(intent(forger.session.begin(AT, order_id="7")))
    forger.put("grants", "until", "4000000000000000")
    forger.clock.move(hours=2)
    forger.session.lease()
    forger.session.propose(None, step=2, order_id="7", salt="cd" * 16)
    forger.session.begin(Occurrence("run_1", 2, 0), order_id="7", salt="cd" * 16)


def an_attempt_too_many(forger: Forger) -> None:
    """A call that is over begins again, because its row says that it has not begun."""
    session = forger.session
    session.approve(session.ask(recovery=Recovery(idempotent=True, retries=1)))
    session.lease()
    with closing(sqlite3.connect(forger.path)) as connection:
        kept = connection.execute("SELECT value, open FROM calls").fetchone()
        request = connection.execute("SELECT value, pending FROM requests").fetchone()
    session.conclude(intent(session.begin(AT)))
    with closing(sqlite3.connect(forger.path)) as connection, connection:
        connection.execute("UPDATE calls SET value = ?, open = ?", kept)
        connection.execute("UPDATE requests SET value = ?, pending = ?", request)
    session.begin(AT)


def a_result_of_other_arguments(forger: Forger) -> None:
    """What a call is answered with is remembered of another call."""
    request = forger.session.ask()
    forger.put("calls", "call_key", f"'{'0' * 64}'")
    forger.session.reject(request)


FORGERIES: dict[str, tuple[Callable[[Forger], None], str]] = {
    "fewer people": (fewer_people, "it takes 2 people"),
    "another person": (another_person, "eve was not asked"),
    "another person who rejects": (another_person_rejects, "eve was not asked"),
    "a later deadline": (a_later_deadline, "its deadline had passed"),
    "the requester": (a_requester_who_approves, "rita was not asked"),
    "a vote for another action": (a_vote_for_another_digest, "another action"),
    "another action": (another_action_runs, "its key is of another action"),
    "an approval that nobody gave": (an_approval_that_nobody_gave, "was not approved"),
    "an approval that had expired": (an_earlier_spending, "its deadline had passed"),
    "a grant that had ended": (a_grant_that_lasts_longer, "has ended"),
    "an attempt too many": (an_attempt_too_many, "had begun, or was over"),
    "a result of other arguments": (a_result_of_other_arguments, "other arguments"),
}


@pytest.mark.promise("H4", "G3", "G7", "G9", "G10")
@pytest.mark.parametrize("name", FORGERIES)
def test_what_was_done_on_a_changed_row_is_found_though_it_was_put_back(
    tmp_path: Path, name: str
) -> None:
    forge, told = FORGERIES[name]
    forger = Forger(tmp_path / "placet.db")
    try:
        forge(forger)
        named = [each for each in forger.findings() if each.code == "forbidden_event"]
        assert named, forger.findings()
        assert told in named[0].what
        assert named[0].seq is not None
    finally:
        forger.store.close()


@pytest.mark.promise("H4", "G10")
def test_who_stood_in_is_no_finding(tmp_path: Path) -> None:
    forger = Forger(tmp_path / "placet.db")
    eve: StandIns = {"eve": None}
    first, other = opened(forger.session.propose(None, None))
    forger.session.do(c.Approve(request=first, by=EVE, eligible=PEOPLE, stand_ins=eve))
    forger.session.do(c.Reject(request=other, by=EVE, eligible=PEOPLE, stand_ins=eve, reason="No."))
    assert forger.findings() == ()
    forger.store.close()


@pytest.mark.promise("G3", "H4")
def test_an_action_that_was_put_into_a_sealed_store_does_not_run(tmp_path: Path) -> None:
    forger = Forger(tmp_path / "placet.db")
    request = forger.session.ask()
    forger.session.approve(request, BOB)
    with closing(sqlite3.connect(forger.path)) as connection, connection:
        connection.execute(
            "INSERT INTO payloads VALUES ('main', 's1', ?, ?)",
            (bytes.fromhex("ab" * 16), '{"arguments": {"amount": 1000}}'),
        )
    forger.put("calls", "action_ref", f"'{'ab' * 16}'")
    with pytest.raises(PlacetError) as refused:
        forger.store.action("main", "s1", AT)
    assert refused.value.code == "store_damaged"
    assert {each.code for each in forger.findings()} == {"changed_state", "extra_state"}
    forger.store.close()
