"""A SQLite store's files as they are found: after an unclean end, or where they cannot be (D3)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from placet.core.errors import StoreTrouble
from placet.stores.sqlite import SqliteStore
from tests.marks import ROOT
from tests.stores.build import Session


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


@pytest.mark.promise("D3")
def test_what_was_left_in_the_log_is_in_the_database_before_anything_is_built_on_it(
    tmp_path: Path,
) -> None:
    left = tmp_path / "left.db"
    with closing(SqliteStore(tmp_path / "placet.db")) as store:
        Session(store).start()
        shutil.copy(store.path, left)
        shutil.copy(log_of(store.path), log_of(left))
        events = list(store.events("main", "s1"))
    assert log_of(left).stat().st_size > 0
    with closing(SqliteStore(left)) as store:
        assert log_of(left).stat().st_size == 0
        assert list(store.events("main", "s1")) == events
        assert Session(store, fences={"run_1": 1}).ask()


OPEN = """
import sys
from placet.core.errors import StoreTrouble
from placet.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
print(len(list(store.events("main", "s1"))))
store.close()
"""


@pytest.mark.promise("D3")
def test_a_log_that_others_have_open_is_left_to_them(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "placet.db")) as store:
        session = Session(store)
        session.start()
        before = log_of(store.path).read_bytes()
        count = len(list(store.events("main", "s1")))
        with closing(SqliteStore(store.path)) as beside:
            assert len(list(beside.events("main", "s1"))) == count
        command = [sys.executable, "-c", OPEN, str(store.path)]
        environment = {"PYTHONPATH": str(ROOT / "src")}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout.split() == [str(count)]
        assert log_of(store.path).read_bytes() == before
        assert session.ask()


def test_a_log_that_belongs_to_no_database_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    log_of(path).write_bytes(b"no log at all" * 1_000)
    with closing(SqliteStore(path)) as store:
        assert Session(store).start().events


def test_a_path_that_cannot_even_be_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreTrouble, match="too long") as caught:
        SqliteStore(tmp_path / ("x" * 300))
    assert caught.value.code == "store_unreachable"
    assert caught.value.hint


@pytest.mark.promise("G1")
def test_a_writer_whose_file_cannot_be_looked_at_any_more_answers_and_goes_on(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with closing(SqliteStore(place / "placet.db")) as store:
        session = Session(store)
        session.start()
        place.rename(tmp_path / "aside")
        place.symlink_to("x" * 300)  # No file can have that name.
        with pytest.raises(StoreTrouble) as caught:
            session.ask()
        assert caught.value.code == "store_unreachable"
        place.unlink()
        (tmp_path / "aside").rename(place)
        assert session.ask()
