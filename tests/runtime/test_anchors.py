"""Anchors: what a store alone cannot show is seen with what was kept outside of it (H4)."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from placet import Agent, Placet, ScriptedModel
from placet.agent.models.scripted import say
from placet.core import commands as c
from placet.core.errors import InvalidInput, StoreTrouble
from placet.runtime.anchors import Anchored, Anchors, verify_anchors
from placet.runtime.audit import verify
from placet.runtime.keys import (
    Checker,
    SharedKey,
    SigningKey,
    new_pair,
    public_key_in,
    signing_key_in,
)
from placet.stores.sealing import PlacetKey
from placet.stores.sqlite import SqliteStore
from tests.stores.build import ANN, Clock, Session

KEY = PlacetKey(b"k" * 32)
SHARED = SharedKey(KEY, "anchors")
OTHER = SharedKey(PlacetKey(b"o" * 32), "anchors")


class Scene:
    """A store under a key, and the file of its anchors elsewhere."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "placet.db"
        self.file = directory / "elsewhere" / "anchors.jsonl"
        self.file.parent.mkdir()
        self.directory = directory

    def store(self) -> SqliteStore:
        return SqliteStore(self.path, clock=Clock(), key=KEY)

    def go_on(self, session: str = "s1", run: str = "run_1") -> None:
        """Let a session have a run that is approved, and anchor what is then."""
        with closing(self.store()) as store:
            one = Session(store, id=session)
            one.start(run)
            one.approve(one.ask(run=run))
            one.do(c.CancelRun(run=run, by=ANN, cause=""))
            Anchors(self.file, store, signer=SHARED).add()

    def verified(self, *checkers: Checker, session: str | None = None) -> Anchored:
        with closing(self.store()) as store:
            for each in store.sessions("main"):
                assert verify(store, "main", each).sound, "alone it agrees with itself"
            return verify_anchors(store, self.file, checkers=checkers or (SHARED,), session=session)

    def codes(self, *checkers: Checker) -> set[str]:
        return {each.code for each in self.verified(*checkers).differences}

    def backup(self) -> Path:
        kept = self.directory / "backup.db"
        shutil.copy(self.path, kept)
        return kept

    def lines(self) -> list[bytes]:
        return self.file.read_bytes().splitlines()

    def write(self, lines: list[bytes]) -> None:
        self.file.write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# --- what they find ---------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_a_store_that_only_went_on_is_what_its_anchors_say(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    scene.go_on("s2", "run_2")
    scene.go_on("s1", "run_3")
    found = scene.verified()
    assert found.sound
    assert (found.anchors, found.vouched, found.unchecked) == (3, 3, ())
    assert found.last_at.endswith("Z")
    with closing(scene.store()) as store:
        Session(store, id="s1").start("run_4")
    assert scene.verified().sound


@pytest.mark.promise("H4")
def test_a_tail_that_was_cut_with_its_state_and_head_is_found(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    kept = scene.backup()
    scene.go_on("s1", "run_2")
    shutil.copy(kept, scene.path)
    (found,) = scene.verified().differences
    assert (found.code, found.session, found.line) == ("cut_tail", "s1", 2)


@pytest.mark.promise("H4")
def test_another_database_in_the_stores_place_is_found(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    scene.path.unlink()
    with closing(scene.store()) as store:
        Session(store, id="s9").start("run_9")
    assert scene.codes() == {"lost_session"}


@pytest.mark.promise("H4")
def test_a_history_that_was_made_anew_with_the_key_is_found(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    scene.path.unlink()
    with closing(scene.store()) as store:
        one = Session(store, id="s1")
        one.start("run_1", message="quite another")
        for _ in range(9):
            one.do(c.RenewLease(run="run_1", fence=1))
    assert scene.codes() == {"other_history"}


@pytest.mark.promise("H4")
def test_a_session_that_was_taken_out_is_found_and_another_is_sound(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    scene.go_on("s2", "run_2")
    with closing(sqlite3.connect(scene.path)) as connection, connection:
        for table in ("events", "runs", "calls", "requests", "payloads", "transcript", "noes"):
            connection.execute(f"DELETE FROM {table} WHERE session = 's1'")
        connection.execute("DELETE FROM sessions WHERE id = 's1'")
    assert scene.codes() == {"lost_session"}
    assert scene.verified(session="s2").sound
    assert not scene.verified(session="s1").sound


@pytest.mark.promise("H4")
def test_what_was_cut_after_the_last_anchor_is_not_seen_and_before_it_is(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    kept = scene.backup()
    scene.go_on("s1", "run_2")
    shutil.copy(kept, scene.path)
    assert not scene.verified().sound
    scene.write(scene.lines()[:1])
    found = scene.verified()
    assert (found.sound, found.anchors) == (True, 1)


# --- the file itself --------------------------------------------------------------------------


@pytest.mark.promise("H4", "D6")
def test_a_line_holds_what_has_changed_and_nothing_is_added_where_nothing_has(
    scene: Scene,
) -> None:
    for number in range(8):
        scene.go_on(f"s{number}", f"run_{number}")
    scene.go_on("s3", "run_more")
    with closing(scene.store()) as store:
        assert not Anchors(scene.file, store, signer=SHARED).add()
    written = [json.loads(line) for line in scene.lines()]
    assert [len(line["changed"]) for line in written] == [1] * 9
    assert [line["sessions"] for line in written] == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert written[-1]["changed"][0][:2] == ["main", "s3"]
    assert stat.S_IMODE(scene.file.stat().st_mode) == 0o600


def edited(line: bytes) -> bytes:
    document = json.loads(line)
    document["changed"][0][3] = "0" * 64
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "tamper, codes",
    [
        (lambda lines: [edited(lines[0]), *lines[1:]], {"broken_anchors", "forged_anchor"}),
        (lambda lines: [lines[1], lines[0], lines[2]], {"broken_anchors"}),
        (lambda lines: [lines[0], lines[2]], {"broken_anchors"}),
        (lambda lines: lines[1:], {"broken_anchors"}),
        (lambda lines: [*lines, lines[0]], {"broken_anchors"}),
    ],
    ids=["edited", "swapped", "taken out", "beginning cut", "repeated"],
)
def test_anchors_that_were_changed_are_found(
    scene: Scene, tamper: Callable[[list[bytes]], list[bytes]], codes: set[str]
) -> None:
    for number in range(3):
        scene.go_on("s1", f"run_{number}")
    scene.write(tamper(scene.lines()))
    assert codes <= scene.codes()


@pytest.mark.promise("H4")
def test_a_last_line_that_was_changed_is_found_though_nothing_is_signed(scene: Scene) -> None:
    with closing(scene.store()) as store:
        Session(store).start()
        Anchors(scene.file, store, signer=None).add()
        scene.write([edited(scene.lines()[0])])
        found = verify_anchors(store, scene.file, checkers=())
    assert "broken_anchors" in {each.code for each in found.differences}


@pytest.mark.promise("H4")
def test_a_file_that_was_written_anew_without_the_key_is_found(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    scene.file.unlink()
    with closing(scene.store()) as store:
        Anchors(scene.file, store, signer=None).add()
        unkeyed = verify_anchors(store, scene.file, checkers=())
        assert (unkeyed.sound, unkeyed.unchecked) == (True, ("the anchors are not signed",))
        Anchors(scene.file, store, signer=OTHER).add()
    assert scene.codes() == {"unsigned_anchors"}


@pytest.mark.promise("H4")
def test_one_signature_vouches_for_what_was_signed_with_a_former_key(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    with closing(scene.store()) as store:
        Session(store, id="s2").start("run_2")
        Anchors(scene.file, store, signer=OTHER).add()
    found = scene.verified(OTHER)
    assert (found.sound, found.vouched) == (True, 2)
    assert scene.codes(SHARED) == {"unsigned_anchors"}
    assert scene.verified(SHARED, OTHER).sound


@pytest.mark.promise("H4")
def test_a_worker_vouches_under_a_new_key_for_what_is_though_nothing_changed(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    assert scene.codes(OTHER) == {"unsigned_anchors"}
    with closing(scene.store()) as store:
        former = Anchors(scene.file, store, signer=SHARED)
        anchors = Anchors(scene.file, store, signer=OTHER)
        assert anchors.add()
        assert scene.verified(OTHER).vouched == 2
        assert [json.loads(line)["changed"] for line in scene.lines()][1:] == [[]]
        assert not anchors.add()
        assert former.add(), "a key that is named again has its say, too"
        assert not any(each.add() for each in (anchors, former, anchors, former))
        assert not Anchors(scene.file, store, signer=None).add()
    assert scene.verified(SHARED).vouched == 3


@pytest.mark.promise("H4")
def test_nobody_vouches_where_there_is_no_anchor_and_nothing_to_anchor(scene: Scene) -> None:
    with closing(scene.store()) as store:
        assert not Anchors(scene.file, store, signer=SHARED).add()
    assert scene.lines() == []


@pytest.mark.promise("H4")
def test_a_pair_signs_and_its_public_key_alone_checks(scene: Scene) -> None:
    new_pair(scene.directory / "signing.pem")
    signing: SigningKey = signing_key_in(scene.directory / "signing.pem")
    with closing(scene.store()) as store:
        Session(store).start()
        Anchors(scene.file, store, signer=signing).add()
    public = public_key_in(scene.directory / "signing.pem.pub")
    assert scene.verified(public).vouched == 1
    document = json.loads(scene.lines()[0])
    document["at"] = "2020-01-01T00:00:00Z"
    scene.write([json.dumps(document, sort_keys=True, separators=(",", ":")).encode()])
    assert "forged_anchor" in scene.codes(public)


NO_ANCHORS: dict[str, Callable[[bytes], bytes]] = {
    "an empty file": lambda whole: b"",
    "other words": lambda whole: b"hello\nworld\n",
    "a newer form": lambda whole: whole.replace(b'"v":1', b'"v":2'),
    "a copy with other ends of lines": lambda whole: whole.replace(b"\n", b"\r\n"),
    "a whole last line with one byte changed": lambda whole: whole[:-3] + b"x}\n",
    "a whole first line with one byte changed": lambda whole: whole.replace(b'"v":1', b'"v":2', 1),
    "a line of other words behind": lambda whole: whole + b"hello\n",
    "a line that is nested too deeply": lambda whole: whole + b"[" * 100_000 + b"\n",
}


@pytest.mark.promise("H4")
@pytest.mark.parametrize("name", NO_ANCHORS)
def test_what_is_no_anchor_and_was_not_torn_is_found(scene: Scene, name: str) -> None:
    scene.go_on()
    scene.go_on("s2", "run_2")
    assert scene.codes() == set()
    scene.file.write_bytes(NO_ANCHORS[name](scene.file.read_bytes()))
    assert "broken_anchors" in scene.codes()


@pytest.mark.promise("H4")
def test_a_worker_goes_on_after_a_line_that_is_nested_too_deeply(scene: Scene) -> None:
    scene.go_on()
    with scene.file.open("ab") as file:
        file.write(b"[" * 100_000 + b"\n")
    scene.go_on("s2", "run_2")
    assert scene.verified().anchors == 2


@pytest.mark.promise("H4")
def test_a_torn_line_is_passed_over_and_the_next_anchor_goes_on(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    scene.go_on("s1", "run_2")
    whole = scene.file.read_bytes()
    scene.file.write_bytes(whole[:-40])
    found = scene.verified()
    assert (found.sound, found.anchors, len(found.unchecked)) == (True, 1, 1)
    scene.go_on("s1", "run_3")
    found = scene.verified()
    assert (found.sound, found.anchors, found.vouched) == (True, 2, 2)
    assert "line 2 of the anchors is torn" in found.unchecked[0]


@pytest.mark.promise("H4")
def test_several_workers_add_to_one_file_in_turns(scene: Scene) -> None:
    with closing(scene.store()) as store:
        one, two = (Anchors(scene.file, store, signer=SHARED) for _ in range(2))
        session = Session(store)
        session.start()
        for anchors in (one, two, two, one, two):
            session.do(c.RenewLease(run="run_1", fence=1))
            assert anchors.add()
        assert not one.add()
    found = scene.verified()
    assert (found.sound, found.anchors) == (True, 5)


@pytest.mark.promise("H4")
def test_a_worker_adds_nothing_to_anchors_that_the_store_is_behind(scene: Scene) -> None:
    scene.go_on("s1", "run_1")
    kept = scene.backup()
    scene.go_on("s1", "run_2")
    shutil.copy(kept, scene.path)
    before = scene.file.read_bytes()
    with closing(scene.store()) as store:
        Session(store, id="s2").start("run_9")
        with pytest.raises(StoreTrouble) as caught:
            Anchors(scene.file, store, signer=SHARED).add()
    assert caught.value.code == "anchors_disagree"
    assert scene.file.read_bytes() == before


def test_a_file_that_is_not_there_is_named(scene: Scene) -> None:
    with closing(scene.store()) as store:
        with pytest.raises(InvalidInput) as caught:
            verify_anchors(store, scene.file, checkers=())
        assert caught.value.code == "no_anchors"
        with pytest.raises(StoreTrouble) as unwritable:
            Anchors(scene.path.parent, store, signer=None).add()
        assert unwritable.value.code == "anchors_unwritable"


# --- the worker -------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_a_worker_anchors_what_it_did_and_goes_on_where_it_cannot(scene: Scene) -> None:
    agent = Agent(name="echo", model=ScriptedModel([say("done")]), tools=[])
    told: list[tuple[str, str, str]] = []

    async def work(placet: Placet, file: Path) -> None:
        worker = placet.worker(report=lambda *happening: told.append(happening))
        worker.anchors = Anchors(file, placet.engine.store, signer=SHARED)
        await placet.run(agent, "hello", session="s1", run_id="run_1")
        assert await worker.once() == 0
        stop = asyncio.Event()
        going = asyncio.create_task(worker.forever(stop))
        await placet.run(agent, "hello", session="s1", run_id="run_2")
        stop.set()
        await going

    with Placet(SqliteStore(scene.path, key=KEY), agents=[agent], approvers=["ana"]) as placet:
        asyncio.run(work(placet, scene.file))
        assert not [each for each in told if each[0] == "trouble"]
        (head,) = placet.engine.store.heads()
        assert json.loads(scene.lines()[-1])["changed"] == [["main", "s1", head.seq, head.hash]]
        asyncio.run(placet.worker(report=lambda *each: told.append(each)).once())
        blocked = placet.worker(report=lambda *each: told.append(each))
        blocked.anchors = Anchors(scene.directory, placet.engine.store, signer=None)
        asyncio.run(blocked.once())
    assert "anchors_unwritable" in told[-1][2]
    assert scene.verified().sound
