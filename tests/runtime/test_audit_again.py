"""What was tried again, and what a grant covered, is held to what was declared and granted (H4).

A row is changed, an attempt is made or a call is let through upon it, and the row is put back: the
events alone show it. Or the record is rewritten with its rows, and every hash anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from placet.core import commands as c
from placet.core import events as e
from placet.core.codec import decode, decode_event, encode
from placet.core.grants import same_key, terms_digest
from placet.core.state import Call, CallOver, Grant, Lost, UndoDue, Unsettled
from placet.core.values import GrantTerms, Occurrence, Recovery, Undoing
from placet.runtime.audit import Finding, verify
from placet.stores.sqlite import SqliteStore
from tests.runtime.test_audit import rechain
from tests.runtime.test_audit_restored import AT, Forger
from tests.stores.build import ALLOW, ANN, HOLDER, PEOPLE, START, Clock, Session, intent, opened

Outcome = c.Succeeded | c.Failed | c.Unknown

DONE = c.Succeeded(told="Done.")
NO = c.Failed(error="No.")
NOT_MADE = c.Failed(error="Refused.", not_done=True)
CUT_OFF = c.Unknown(cause="cut off", body_over=True)
HOUR = timedelta(hours=1)

AGAIN = Recovery(idempotent=True, retries=1, backoff=timedelta(seconds=8))
PROBED = Recovery(probe=True)
BACK = Recovery(compensation=Undoing(safe_if_absent=True, idempotent=True, retries=1))


@pytest.fixture
def forger(tmp_path: Path) -> Iterator[Forger]:
    forger = Forger(tmp_path / "placet.db")
    yield forger
    forger.store.close()


def is_forbidden(findings: tuple[Finding, ...], kind: str, told: str) -> None:
    named = [each for each in findings if each.code == "forbidden_event"]
    assert named, findings
    assert named[0].what.startswith(f"{kind}: ")
    assert told in named[0].what


# --- attempts ---------------------------------------------------------------------------------


def the_call(forger: Forger) -> Call:
    found = forger.store.session("main", "s1", c.Names(steps=((AT.run, AT.step),)))
    assert found is not None
    return found.calls[AT]


def attempt(forger: Forger, outcome: Outcome, recovery: Recovery) -> None:
    """Make the next attempt at the call, or at taking it back, when it is due."""
    forger.clock.move(minutes=5)
    forger.session.lease()
    call = the_call(forger)
    if isinstance(call.state, UndoDue):
        fence, digest = forger.session.fence(AT.run), call.digest
        answer = forger.session.do(c.TakeBack(at=AT, fence=fence, holder=HOLDER, digest=digest))
    else:
        answer = forger.session.begin(AT, recovery=recovery)
    forger.session.conclude(intent(answer), outcome)


def probe(forger: Forger) -> None:
    """Say that it did not happen."""
    call, fence = the_call(forger), forger.session.fence(AT.run)
    number = call.attempts
    forger.session.do(c.Probed(at=AT, attempt=number, fence=fence, happened=False, body_gone=True))


#: What is declared; what becomes of the attempts; what the row says at the last of them, in SQL;
#: which event is found, and what is said of it.
Again = tuple[Recovery, list[Outcome], dict[str, tuple[str, str]], str, str]

AGAINS: dict[str, Again] = {
    "too often": (AGAIN, [NO, NO], {"retries": ("9", "1")}, "AttemptFailed", "more often"),
    "lost too often": (
        AGAIN,
        [CUT_OFF] * 4,
        {"retries": ("9", "1")},
        "AttemptFailed",
        "more often",
    ),
    "without a key": (
        Recovery(retries=1),
        [NO],
        {"idempotent": ("json('true')", "json('false')")},
        "AttemptFailed",
        "without a key",
    ),
    "without a key, lost": (
        Recovery(),
        [CUT_OFF],
        {"idempotent": ("json('true')", "json('false')")},
        "AttemptFailed",
        "without a key",
    ),
    "under a key that is forgotten": (
        replace(AGAIN, key_lasts=timedelta(minutes=9)),
        [NO, DONE],
        {"key_lasts": ("9000000000", "540000000")},
        "AttemptBegun",
        "may be forgotten",
    ),
    "too soon": (AGAIN, [NO], {"backoff": ("1", "8000000")}, "AttemptFailed", "sooner than"),
    "without a probe": (
        Recovery(),
        [CUT_OFF],
        {"probe": ("json('true')", "json('false')")},
        "AttemptFailed",
        "no probe could say",
    ),
    "back too often": (
        BACK,
        [NO, NO, NO],
        {"compensation.retries": ("9", "1")},
        "AttemptFailed",
        "more often",
    ),
    "back without a key": (
        Recovery(compensation=Undoing(safe_if_absent=True)),
        [NO, CUT_OFF],
        {"compensation.idempotent": ("json('true')", "json('false')")},
        "AttemptFailed",
        "without a key",
    ),
    "back though it is not safe": (
        Recovery(compensation=Undoing()),
        [NO],
        {"compensation.safe_if_absent": ("json('true')", "json('false')")},
        "CallUndoing",
        "otherwise than was declared",
    ),
    "back under a key that is forgotten": (
        replace(BACK, key_lasts=timedelta(minutes=9)),
        [NO, NO, NO],
        {"key_lasts": ("9000000000", "540000000")},
        "AttemptBegun",
        "may be forgotten",
    ),
}


@pytest.mark.promise("H4", "D4", "D8")
@pytest.mark.parametrize("name", AGAINS)
def test_what_was_tried_again_otherwise_than_was_declared_is_found(
    forger: Forger, name: str
) -> None:
    recovery, outcomes, changes, kind, told = AGAINS[name]
    forger.session.approve(forger.session.ask(recovery=recovery))
    for outcome in outcomes[:-1]:
        attempt(forger, outcome, recovery)
    for path, (there, _) in changes.items():
        forger.put("calls", f"recovery.{path}", there)
    attempt(forger, outcomes[-1], recovery)
    if "probe" in changes:
        probe(forger)
    for path, (_, back) in changes.items():
        forger.put("calls", f"recovery.{path}", back)

    is_forbidden(forger.findings(), kind, told)


@pytest.mark.promise("H4", "D4", "D8")
@pytest.mark.parametrize(
    "recovery, outcomes",
    [
        (AGAIN, [NO, NO]),
        (AGAIN, [CUT_OFF] * 4),
        (Recovery(retries=2), [NOT_MADE, NOT_MADE, NO]),
        (replace(AGAIN, jitter_percent=50), [replace(NO, spread=0.7), NOT_MADE]),
        (replace(AGAIN, key_lasts=timedelta(minutes=11)), [NO, NO]),
        (PROBED, [CUT_OFF] * 4),
        (BACK, [NO, NO, NO]),
        (BACK, [NO, *[CUT_OFF] * 4]),
        (replace(BACK, probe=True), [CUT_OFF, NO, NO, NO]),
        (Recovery(compensation=Undoing(safe_if_absent=True, retries=1)), [NO, NOT_MADE, NO]),
    ],
)
def test_what_was_tried_again_as_declared_to_the_last_is_sound(
    forger: Forger, recovery: Recovery, outcomes: list[Outcome]
) -> None:
    forger.session.approve(forger.session.ask(recovery=recovery))
    for outcome in outcomes:
        attempt(forger, outcome, recovery)
        if recovery.probe and isinstance(the_call(forger).state, Lost):
            probe(forger)
    assert the_call(forger).attempts == len(outcomes)
    assert isinstance(the_call(forger).state, (CallOver, Unsettled))
    assert forger.findings() == ()


# --- grants -----------------------------------------------------------------------------------

TERMS = GrantTerms(scope="session", lasts=HOUR, uses=2, same=("order_id",), any=("note",))


def granted(store: SqliteStore, session: Session, terms: GrantTerms = TERMS) -> None:
    """Ask about a call, and approve it with a grant for calls like it; it is done."""
    request = session.ask(order_id="7", note="first")
    action = store.action("main", "s1", AT)
    assert action is not None
    session.do(c.Approve(request=request, by=ANN, eligible=PEOPLE, grant=terms, action=action[1]))
    session.lease()
    session.conclude(intent(session.begin(AT, order_id="7", note="first")))


def under_the_grant(session: Session, step: int, **arguments: Any) -> None:
    """Propose a call that the row of the grant covers, and do it."""
    salt = f"{step:02x}" * 16
    assert opened(session.propose(None, step=step, salt=salt, **arguments)) == []
    begun = session.begin(Occurrence("run_1", step, 0), salt=salt, **arguments)
    session.conclude(intent(begun))


def key_of(store: SqliteStore, **fixed: str) -> str:
    found = store.session("main", "s1", c.Names())
    assert found is not None
    return same_key(found.salt, "issue_refund", fixed, tuple(fixed))


def other_values(forger: Forger) -> None:
    """A call is let through with another order than the grant fixes."""
    granted(forger.store, forger.session)
    forger.put("grants", "same_key", f"'{key_of(forger.store, order_id='8')}'")
    under_the_grant(forger.session, 2, order_id="8", note="another")
    forger.put("grants", "same_key", f"'{key_of(forger.store, order_id='7')}'")


def other_values_when_it_begins(forger: Forger) -> None:
    """A call of another order, which policy allowed, counts on the grant when policy asks."""
    granted(forger.store, forger.session)
    forger.session.propose(ALLOW, step=2, salt="02" * 16, order_id="8", note="another")
    forger.put("grants", "same_key", f"'{key_of(forger.store, order_id='8')}'")
    at = Occurrence("run_1", 2, 0)
    intent(forger.session.begin(at, salt="02" * 16, order_id="8", note="another"))
    forger.put("grants", "same_key", f"'{key_of(forger.store, order_id='7')}'")


def any_values(forger: Forger) -> None:
    """A call is let through because a row says that the order may be any."""
    granted(forger.store, forger.session)
    for name, value in (("same", "[]"), ("any", '["note","order_id"]')):
        forger.put("grants", name, f"json('{value}')")
    forger.put("grants", "same_key", f"'{key_of(forger.store)}'")
    under_the_grant(forger.session, 2, order_id="8", note="another")
    for name, value in (("same", '["order_id"]'), ("any", '["note"]')):
        forger.put("grants", name, f"json('{value}')")
    forger.put("grants", "same_key", f"'{key_of(forger.store, order_id='7')}'")


def more_calls(forger: Forger) -> None:
    """A third call is let through where two were granted."""
    granted(forger.store, forger.session)
    forger.put("grants", "left", "3")
    for step in (2, 3, 4):
        under_the_grant(forger.session, step, order_id="7", note=f"{step}")


def another_run(forger: Forger) -> None:
    """A call of another run is let through by a grant for one."""
    granted(forger.store, forger.session, replace(TERMS, scope="run"))
    forger.put("grants", "run", "json('null')")
    session = forger.session
    fence = session.fence("run_1")
    session.do(c.FinishRun(run="run_1", fence=fence, stop="final", answer="Done."))
    session.start("run_2")
    asked = session.propose(None, run="run_2", salt="cd" * 16, order_id="7", note="2")
    assert opened(asked) == []


UNDER: dict[str, tuple[Callable[[Forger], None], str, str]] = {
    "other values": (other_values, "CallProposed", "is for other arguments"),
    "other values when it begins": (
        other_values_when_it_begins,
        "AttemptBegun",
        "is for other arguments",
    ),
    "any values": (any_values, "CallProposed", "is for other arguments"),
    "more calls": (more_calls, "CallProposed", "does not stand"),
    "another run": (another_run, "CallProposed", "does not stand"),
}


@pytest.mark.promise("H4", "G12")
@pytest.mark.parametrize("name", UNDER)
def test_what_no_grant_covered_is_found(forger: Forger, name: str) -> None:
    forge, kind, told = UNDER[name]
    forge(forger)
    is_forbidden(forger.findings(), kind, told)


@pytest.mark.promise("H4", "G12")
@pytest.mark.parametrize("scope", ["run", "session"])
@pytest.mark.parametrize("same", [(), ("order_id",), ("note", "order_id")])
def test_what_a_grant_covered_to_its_last_call_is_sound(
    forger: Forger, scope: Literal["run", "session"], same: tuple[str, ...]
) -> None:
    free = tuple({"order_id", "note"} - {*same})
    granted(forger.store, forger.session, replace(TERMS, scope=scope, same=same, any=free))
    for step in (2, 3):
        under_the_grant(forger.session, step, order_id="7", note="first")
    assert opened(forger.session.propose(None, step=4, salt="04" * 16, order_id="7", note="4"))
    assert forger.findings() == ()
    with closing(SqliteStore(forger.path, clock=forger.clock)) as keyless:
        assert verify(keyless, "main", "s1").findings == ()


# --- a grant that was rewritten with its row --------------------------------------------------


def terms_of(event: e.GrantGiven) -> GrantTerms:
    return GrantTerms(
        scope="session" if event.run is None else "run",
        lasts=event.until - START,
        uses=event.uses,
        same=event.same,
        any=event.any,
        children=event.children,
    )


def rewrite(path: Path, more: dict[str, Any], *, terms: bool) -> None:
    """Set fields of the grant in its event and in its row; each hash is computed anew.

    With `terms`, what stands for them is computed anew as well, as a forger who knows how would.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT body FROM events WHERE kind = 'GrantGiven'"
        ((body,),) = connection.execute(query).fetchall()
        event = decode_event("GrantGiven", body)
        assert isinstance(event, e.GrantGiven)
        event = replace(event, **more)
        if terms:
            event = replace(event, terms=terms_digest(terms_of(event)))
            connection.execute(
                "UPDATE requests SET value = json_set(value, '$.granted', ?)", (event.terms,)
            )
        ((value,),) = connection.execute("SELECT value FROM grants").fetchall()
        left = {"left": more["uses"]} if "uses" in more else {}
        kept = {name: each for name, each in more.items() if name != "uses"}
        grant = encode(replace(decode(Grant, value), **kept, **left))
        connection.execute("UPDATE grants SET value = ?", (grant,))
        connection.execute("UPDATE events SET body = ? WHERE kind = 'GrantGiven'", (encode(event),))
        rechain(connection, head=True)


REWRITTEN: dict[str, tuple[dict[str, Any], bool, str]] = {
    "more calls": ({"uses": 3}, False, "otherwise than was asked for"),
    "a later end": ({"until": START + 2 * HOUR}, False, "otherwise than was asked for"),
    "child runs": ({"children": True}, False, "otherwise than was asked for"),
    "one run": ({"run": "run_1"}, False, "otherwise than was asked for"),
    "another run": ({"run": "run_2"}, True, "of another run"),
    "too many calls": ({"uses": 1_001}, True, "than a grant may"),
    "too late an end": ({"until": START + 200 * HOUR}, True, "than a grant may"),
    "an argument more": ({"any": ("note", "sum")}, True, "other arguments than were approved"),
    "an argument less": ({"any": ()}, True, "other arguments than were approved"),
    "other values": ({"same_key": "0" * 64}, False, "other values than were approved"),
    "other fixed": ({"same": ("note",), "any": ("order_id",)}, True, "other values than were"),
}


@pytest.mark.promise("H4", "G12")
@pytest.mark.parametrize("name", REWRITTEN)
def test_a_grant_that_was_rewritten_with_its_row_and_every_hash_is_found(
    tmp_path: Path, name: str
) -> None:
    more, terms, told = REWRITTEN[name]
    path = tmp_path / "placet.db"
    with closing(SqliteStore(path, clock=Clock())) as store:
        session = Session(store)
        session.start()
        granted(store, session)
        assert verify(store, "main", "s1").sound
    rewrite(path, more, terms=terms)
    with closing(SqliteStore(path, clock=Clock())) as store:
        found = verify(store, "main", "s1").findings
    assert {each.code for each in found} == {"forbidden_event"}
    is_forbidden(found, "GrantGiven", told)
