"""Paths of a workspace: nothing leads out of it, or to placet's own files, by whatever name."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from placet import InvalidDeclaration, NotDone
from placet.agent.builtin import confinement
from placet.agent.builtin.confinement import Confinement, OutOfReach
from placet.agent.builtin.workspace import Workspace
from placet.core.commands import Failed, Succeeded
from placet.runtime import protected
from placet.runtime.bodies import attempt
from placet.runtime.declarations import InvalidArguments

SECRET = "nobody shall read this"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text(SECRET)
    made = tmp_path / "root"
    made.mkdir()
    (made / "a.txt").write_text("a\n")
    return made


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected, "_paths", {})


def every_way(root: Path, path: str, **options: Any) -> list[str]:
    """Read, write, edit and look at a path; give what is said, and hold that nothing was done."""
    workspace = Workspace(root, **options)
    read, write, edit, _ = workspace.tools()
    said: list[str] = []
    wrote: dict[str, Any] = {"path": path, "content": "x"}
    edited: dict[str, Any] = {"path": path, "old": "n", "new": "x", "replace_all": True}
    looked: dict[str, Any] = {"path": path, "offset": 1, "limit": 10}
    for tool, arguments in ((read, looked), (write, wrote), (edit, edited)):
        outcome = asyncio.run(attempt(tool.declaration, arguments, "ik", call="r/1/0"))
        assert isinstance(outcome, Failed), outcome
        assert outcome.not_done
        said.append(outcome.error)
    for tool, arguments in ((write, wrote), (edit, edited)):
        for reads in (tool.declaration.environment, tool.declaration.snapshot):
            assert reads is not None
            with pytest.raises(NotDone) as refused:
                reads(arguments)
            assert SECRET not in str(refused.value)
    assert not any(SECRET in each for each in said)
    return said


def contents(tree: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# --- out of the workspace -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "a/../../outside.txt",
        "./../root/../outside.txt",
        "/etc/passwd",
        "link.txt",
        "links/outside.txt",
        "links/../outside.txt",
        "chain",
        "dangling",
        "links",
        "..",
        "/",
        "../root-of-another/a.txt",
        "~/../../outside.txt/../../outside.txt",
    ],
)
def test_nothing_leads_out_of_the_workspace(root: Path, path: str) -> None:
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "links").symlink_to("..")
    (root / "chain").symlink_to("link.txt")
    (root / "dangling").symlink_to("../new.txt")
    (root.parent / "root-of-another").mkdir()
    (root.parent / "root-of-another/a.txt").write_text(SECRET)
    before = contents(root.parent)
    said = every_way(root, path)
    assert all("outside of the workspace" in each for each in said), said
    assert contents(root.parent) == before


def test_what_leads_out_does_not_fit_the_tool_and_did_not_act() -> None:
    assert issubclass(OutOfReach, InvalidArguments)
    assert issubclass(OutOfReach, NotDone)


@pytest.mark.parametrize("path", ["", "a\0b", "\0"])
def test_a_path_that_is_none_is_said_to_be_none(root: Path, path: str) -> None:
    read, write, *_ = Workspace(root).tools()
    with pytest.raises(InvalidArguments, match="path"):
        write.declaration.validate({"path": path, "content": ""})
    with pytest.raises(OutOfReach, match="path"):
        read(path)


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "in/../a.txt", "inner", "in//../a.txt", "{}"])
def test_what_leads_elsewhere_inside_is_followed(root: Path, path: str) -> None:
    (root / "in").mkdir()
    (root / "inner").symlink_to(root / "in" / "there")
    (root / "in/there").symlink_to("../a.txt")
    (root.parent / "by-link").symlink_to(root)
    workspace = Workspace(root.parent / "by-link")
    path = path.format(root.parent / "by-link" / "a.txt")
    assert workspace.root == root.resolve()
    assert workspace.read()(path) == "1\ta"
    assert workspace.write()(path, content="b\n").startswith("Replaced")
    assert (root / "a.txt").read_text() == "b\n"
    assert (root / "inner").is_symlink()


def test_a_name_may_hold_anything_that_a_name_can(root: Path) -> None:
    workspace = Workspace(root)
    for name in ("new\nline", "-rf", "ü", "\u202edrow", "a b", "~", "*", "..."):
        told = workspace.write()(name, content=f"in {name!r}")
        assert "\n" not in told
        assert "\u202e" not in told
        assert (root / name).read_text() == f"in {name!r}"


def test_a_workspace_that_is_no_directory_is_no_workspace(root: Path) -> None:
    for wrong in (root / "nothing", root / "a.txt"):
        with pytest.raises(InvalidDeclaration, match="There is no directory"):
            Workspace(wrong)
    with pytest.raises(InvalidDeclaration, match="a list of paths"):
        Workspace(root, protected="a.txt")


# --- what is no file ------------------------------------------------------------------------------


def test_directories_fifos_sockets_and_devices_are_no_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "in").mkdir()
    os.mkfifo(root / "fifo")
    monkeypatch.chdir(root)  # A socket's path must be short.
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("socket")
        for name in ("fifo", "socket"):
            assert all("no regular file" in each for each in every_way(root, name))
    workspace = Workspace(root)
    for path in ("in", "in/", "."):
        with pytest.raises(OutOfReach, match="directory"):
            workspace.write()(path, content="x")
    with pytest.raises(OutOfReach, match="no regular file"):
        Workspace("/dev").read()("zero")
    for path in ("a.txt/", "a.txt/b"):
        with pytest.raises(OutOfReach, match="director"):
            workspace.write()(path, content="x")
    with pytest.raises(OutOfReach, match="without the slash"):
        workspace.read()("a.txt/")


def test_names_and_loops_that_the_system_refuses_are_told(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    for path in ("x" * 300, "loop", "loop/a", "a/" * 101, "ab/" * 1500 + "b"):
        every_way(root, path)
    assert sorted(os.listdir(root)) == ["a.txt", "loop"]


# --- swaps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", ["in", "in/there", "in/there/a.txt"])
def test_a_link_that_takes_a_place_after_it_was_resolved_leads_nowhere(
    root: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = root.parent / "elsewhere"
    for base in (outside, root):
        (base / "in/there").mkdir(parents=True)
    (outside / "in/there/a.txt").write_text(SECRET)
    (root / "in/there/a.txt").write_text("n")
    resolve = Confinement.place

    def then_swapped(self: Confinement, path: str) -> confinement.Place:
        place = resolve(self, path)
        if not (root / swapped).is_symlink():
            (root / swapped).rename(root / "away")
            (root / swapped).symlink_to(outside / swapped)
        return place

    monkeypatch.setattr(Confinement, "place", then_swapped)
    tools = Workspace(root).tools()
    edited: dict[str, Any] = {"old": "n", "new": "x", "replace_all": True}
    for number, arguments in enumerate(({}, {"content": "x"}, edited)):
        with pytest.raises(OutOfReach, match=r"no directory|no regular file"):
            tools[number]("in/there/a.txt", **arguments)
        (root / swapped).unlink()
        (root / "away").rename(root / swapped)
    assert (outside / "in/there/a.txt").read_text() == SECRET
    assert (root / "in/there/a.txt").read_text() == "n"


def test_a_file_that_changes_while_it_is_edited_is_left_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Confinement.put

    def after_another(self: Confinement, *args: Any, **more: Any) -> None:
        (root / "a.txt").write_text("of another\n")
        (root / "new.txt").write_text("of another\n")
        put(self, *args, **more)

    monkeypatch.setattr(Confinement, "put", after_another)
    workspace = Workspace(root)
    with pytest.raises(NotDone, match="changed just now"):
        workspace.edit()("a.txt", old="a", new="b")
    (root / "new.txt").unlink()
    with pytest.raises(NotDone, match="changed just now"):
        workspace.write()("new.txt", content="b")
    assert contents(root) == {"a.txt": b"of another\n", "new.txt": b"of another\n"}


# --- out of reach ---------------------------------------------------------------------------------


@pytest.mark.promise("G10")
@pytest.mark.parametrize(
    "path",
    [
        "placet.db",
        "placet.db-wal",
        "placet.db-shm",
        "placet.db-journal",
        "PLACET.DB",
        "Placet.db-Journal",
        "by-link",
        "by-hard-link",
        "in/../placet.db",
        "dirs/placet.db-journal",
        "placet.toml",
        "in/placet.toml",
        "in/PLACET.toml",
        "placet.policy.toml",
        "settings-by-link",
        "named.toml",
        "named-by-hard-link",
        "kept/in/it",
        "kept",
        "kept-by-link/in/it",
        "secret.txt",
    ],
)
def test_the_store_and_the_settings_are_out_of_reach(
    root: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("placet.db", "placet.toml", "named.toml", "secret.txt"):
        (root / name).write_text(SECRET)
    (root / "in").mkdir()
    (root / "kept/in").mkdir(parents=True)
    (root / "kept/in/it").write_text(SECRET)
    (root / "by-link").symlink_to("placet.db")
    (root / "by-hard-link").hardlink_to(root / "placet.db")
    (root / "settings-by-link").symlink_to("placet.toml")
    (root / "named-by-hard-link").hardlink_to(root / "named.toml")
    (root / "dirs").symlink_to(".")
    (root / "kept-by-link").symlink_to("kept")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PLACET_CONFIG", "named.toml")
    protected.protect("placet.db")
    before = contents(root)
    said = every_way(root, path, protected=["kept", root / "secret.txt"])
    assert all("out of reach of tools" in each for each in said), said
    assert contents(root) == before


@pytest.mark.promise("G10")
def test_a_store_that_is_reached_by_a_link_is_protected_by_both_names(root: Path) -> None:
    (root / "real.db").write_text(SECRET)
    (root / "placet.db").symlink_to("real.db")
    protected.protect(root / "placet.db")
    for name in ("real.db", "placet.db"):
        assert all("out of reach" in each for each in every_way(root, name))
    (root / "placet.db").unlink()
    assert all("out of reach" in each for each in every_way(root, "placet.db"))


def test_what_is_protected_is_kept_as_absolute_paths_with_what_sqlite_adds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    protected.protect("x/../placet.db")
    protected.protect(root / "placet.db")
    names = ("placet.db", "placet.db-wal", "placet.db-shm", "placet.db-journal")
    assert protected.protected_paths() == tuple(root / name for name in names)


def test_where_the_working_directory_is_gone_the_rest_stays_out_of_reach(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = root.parent / "gone"
    gone.mkdir()
    monkeypatch.setenv("PLACET_CONFIG", "named.toml")
    protected.protect(root / "placet.db")
    monkeypatch.chdir(gone)
    gone.rmdir()
    for name in ("placet.db", "placet.toml"):
        assert all("out of reach" in each for each in every_way(root, name))
    assert Workspace(root).read()("a.txt") == "1\ta"


def test_what_merely_resembles_a_protected_file_is_in_reach(root: Path) -> None:
    protected.protect(root / "placet.db")
    workspace = Workspace(root)
    for name in ("placet.db.txt", "in/placet.db", "my-placet.toml", "placet.toml.example"):
        assert workspace.write()(name, content="x").startswith("Created")


def test_a_snapshot_brings_nothing_back_to_where_no_tool_may_write(root: Path) -> None:
    (root / "in").mkdir()
    (root / "in/a.txt").write_text("n")
    restore = Workspace(root).write().declaration.restore
    snapshot = Workspace(root).write().declaration.snapshot
    assert restore is not None
    assert snapshot is not None
    arguments = {"path": "in/a.txt", "content": "x"}
    taken = snapshot(arguments)
    (root / "in").rename(root / "away")
    (root / "in").symlink_to(root.parent)
    with pytest.raises(OutOfReach, match="no directory"):
        restore(arguments, taken)
    for forged in (
        taken.replace('"in"', '".."'),
        taken.replace("a.txt", "../outside.txt"),
        '{"parts": ["new"], "absent": true, "made": ["../root"]}',
        "{}",
        "[",
        '"text"',
    ):
        with pytest.raises(ValueError, match="no snapshot"):
            restore(arguments, forged)
    assert not (root.parent / "a.txt").exists()
    assert (root.parent / "outside.txt").read_text() == SECRET


def test_the_outcome_of_a_file_tool_is_known(root: Path) -> None:
    write = Workspace(root).write().declaration
    arguments = {"path": "a.txt", "content": "b"}
    assert isinstance(asyncio.run(attempt(write, arguments, "ik", call="r/1/0")), Succeeded)
