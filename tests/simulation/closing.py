"""What must be true at the end of a world: no fault is left, and everybody has had their say."""

from __future__ import annotations

from placet.core.changing import changed
from placet.core.codec import decode_event, instant_of
from placet.core.commands import Names
from placet.core.evolve import evolve
from placet.core.state import Session
from placet.runtime import rebuilding
from placet.runtime.audit import verify
from tests.simulation.disk import Book, Disk
from tests.simulation.promises import Promises
from tests.simulation.record import Record
from tests.simulation.store import SimulatedStore

#: After how many events what has closed is put aside: worlds are small.
PUT_ASIDE_EVERY = 7


def hold_the_end(promises: Promises, disk: Disk) -> None:
    """Hold what is true of every world that has come to its end."""
    for record in promises.records.values():
        _runs_are_over(promises, record)
        _every_call_has_its_result(promises, record)
        _nothing_is_in_the_dark(promises, record)
    for book in disk.books.values():
        _the_log_is_the_state(promises, disk, book)
        _the_record_is_sound(promises, disk, book)
    untold = [request for request in promises.opened if request not in promises.told]
    if untold:
        promises.fault("H3", f"nobody was told of {untold[0]}")


def _runs_are_over(promises: Promises, record: Record) -> None:
    for run in record.runs.values():
        if not run.stop:
            promises.fault("D2", f"{run.id} has not ended")


def _every_call_has_its_result(promises: Promises, record: Record) -> None:
    for run in record.runs.values():
        for step, size in run.sizes.items():
            ended = sum(
                bool(call.code)
                for at, call in record.calls.items()
                if (at.run, at.step) == (run.id, step)
            )
            if ended != size:
                promises.fault("G6", f"step {step} of {run.id} has {ended} results of {size}")
    for request in record.requests.values():
        if not request.closed and not request.lapsed:
            promises.fault("G9", f"{request.id} waits for ever")


def _nothing_is_in_the_dark(promises: Promises, record: Record) -> None:
    """Hold that what nobody knows was put to a person, and what is said is so (D4)."""
    for call in record.calls.values():
        for attempt in call.attempts:
            if not attempt.over:
                promises.fault("D4", f"attempt {attempt.number} at {call.at} is under way for ever")
        if call.undoing or call.withheld:
            promises.fault("D8", f"{call.at} is being taken back for ever")
        last = call.last
        if last is None or last.over != "lost" or call.settlements or call.ended_by == "probe":
            continue
        promises.fault("D4", f"what became of {call.at} was put to nobody")


def _the_record_is_sound(promises: Promises, disk: Disk, book: Book) -> None:
    """Hold that whatever befell, `audit verify` finds nothing to say against the record (H4)."""
    store = SimulatedStore(disk, clock=lambda: instant_of(disk.stamp))
    often, rebuilding.PUT_ASIDE_EVERY = rebuilding.PUT_ASIDE_EVERY, PUT_ASIDE_EVERY
    try:
        found = verify(store, book.tenant, book.session)
    finally:
        rebuilding.PUT_ASIDE_EVERY = often
    if not found.sound:
        promises.fault("H4", f"the record of {book.session} is not sound: {found.findings[0]}")


def _the_log_is_the_state(promises: Promises, disk: Disk, book: Book) -> None:
    """Hold that the log, read back and folded, is the session that is stored (D3, H4)."""
    store = SimulatedStore(disk, clock=lambda: instant_of(0))
    start = instant_of(0)
    state = Session(tenant=book.tenant, id=book.session, salt=book.salt, now=start)
    for each in store.events(book.tenant, book.session):
        state = evolve(changed(state, now=each.at), decode_event(each.kind, each.body))
    names = Names(
        runs=tuple(state.runs),
        steps=tuple(dict.fromkeys((at.run, at.step) for at in state.calls)),
        requests=tuple(state.requests),
        call_keys=tuple(state.noes),
    )
    loaded = store.session(book.tenant, book.session, names)
    if loaded is None or changed(loaded, now=start) != changed(state, now=start):
        promises.fault("D3", f"the log of {book.session} does not fold to what is stored")
