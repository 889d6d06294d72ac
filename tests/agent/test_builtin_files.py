"""The tools `read`, `write` and `edit`: what they answer, what they show, what they take back."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import NotDone, NotHappened, Unsure
from placet.agent.builtin import changing_files, confinement, diffs, reading
from placet.agent.builtin.workspace import Workspace
from placet.agent.models.scripted import call, say
from placet.agent.tools import Tool
from placet.runtime.declarations import Happened
from tests.runtime.desk import Desk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


def frozen(tool: Tool, **arguments: Any) -> dict[str, Any]:
    return tool.declaration.validate(arguments)


def seen(tool: Tool, what: str, **arguments: Any) -> str:
    reads = getattr(tool.declaration, what)
    assert reads is not None
    found = reads(frozen(tool, **arguments))
    assert isinstance(found, str)
    return found


# --- read -----------------------------------------------------------------------------------------


def test_lines_are_read_with_their_numbers(root: Path) -> None:
    (root / "a.txt").write_text("one\n\n  three\nfour")
    read = Workspace(root).read()
    assert read("a.txt") == "1\tone\n2\t\n3\t  three\n4\tfour"
    assert read("a.txt", offset=3) == "3\t  three\n4\tfour"
    assert (
        read("a.txt", offset=2, limit=2)
        == "2\t\n3\t  three\n(More follows. Read on with offset=4.)"
    )


def test_a_read_beyond_the_end_is_told_the_end(root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo")
    (root / "b.txt").write_text("one\ntwo\n")
    for name in ("a.txt", "b.txt"):
        with pytest.raises(NotDone, match="has 2 lines; there is no line 3"):
            Workspace(root).read()(name, offset=3)
    (root / "empty").write_text("")
    assert Workspace(root).read()("empty") == "(The file is empty.)"
    with pytest.raises(NotDone, match="no such file"):
        Workspace(root).read()("nothing")
    with pytest.raises(NotDone, match="no such file"):
        Workspace(root).read()("no/such/dir")


def test_a_long_file_is_read_in_parts_that_together_are_all_of_it(root: Path) -> None:
    text = "".join(f"line {n} {'x' * (n % 90)}\n" for n in range(9_000))
    (root / "a.txt").write_text(text)
    read = Workspace(root).read()
    offset, lines, parts = 1, list[str](), 0
    while True:
        told = read("a.txt", offset=offset)
        assert len(told.encode()) < 2 * reading.MOST_BYTES
        body, _, more = told.partition("\n(More follows. Read on with offset=")
        lines += [line.partition("\t")[2] for line in body.split("\n")]
        parts += 1
        if not more:
            break
        offset = int(more.removesuffix(".)"))
    assert parts > 4
    assert "".join(f"{line}\n" for line in lines) == text


def test_a_long_line_is_cut_and_says_so(root: Path) -> None:
    (root / "a.txt").write_bytes(b"x" * 10_000_000 + b"\nnext\n")
    told = Workspace(root).read()("a.txt")
    assert len(told) < 2 * reading.MOST_LINE_BYTES
    more = 10_000_000 - reading.MOST_LINE_BYTES
    assert told.endswith(f"x… ({more} more bytes of this line)\n2\tnext")


def test_what_is_no_text_is_said_to_be_none(root: Path) -> None:
    (root / "a.bin").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(NotDone, match="no text: it has 6 bytes"):
        Workspace(root).read()("a.bin")
    (root / "latin.txt").write_bytes(b"caf\xe9\n")
    told = Workspace(root).read()("latin.txt")
    assert told.startswith("1\tcaf\\xe9\n(Bytes that are no UTF-8")
    (root / "wide.txt").write_text("é" * 5_000)
    assert "no UTF-8" not in Workspace(root).read()("wide.txt")


def test_crlf_is_not_shown_in_every_line(root: Path) -> None:
    (root / "a.txt").write_bytes(b"a\r\nb\r\n")
    assert Workspace(root).read()("a.txt") == "1\ta\n2\tb\n(The lines end in CRLF.)"


def test_a_directory_is_listed_and_bounded(root: Path) -> None:
    (root / "in").mkdir()
    (root / "b.txt").write_text("")
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "fifo")
    with open(os.fsencode(root) + b"/\xff\n", "w"):
        pass
    read = Workspace(root).read()
    head = ". is a directory with 5 entries:"
    names = ["b.txt", "fifo", "in/", "link -> /etc/passwd", "\\xff⟦U+000A⟧"]
    assert read(".") == "\n".join([head, *names])
    assert read(".", offset=2, limit=1).endswith("\nfifo\n(More follows. Read on with offset=3.)")
    assert read("in/") == "(The directory is empty.)"
    with pytest.raises(NotDone, match="there is no entry 9"):
        read(".", offset=9)


def test_a_read_never_asks_and_is_no_effect(root: Path) -> None:
    read = Workspace(root).read().declaration
    assert (read.kind, read.approval) == ("read", "never")


# --- write ----------------------------------------------------------------------------------------


def test_a_file_is_made_with_its_directories_and_then_replaced(root: Path) -> None:
    write = Workspace(root).write()
    assert write("in/deep/a.txt", content="é\r\n") == "Created in/deep/a.txt (4 bytes)."
    assert (root / "in/deep/a.txt").read_bytes() == "é\r\n".encode()
    assert write("in/deep/a.txt", content="") == "Replaced in/deep/a.txt (0 bytes)."
    assert write("in/deep/a.txt", content="").endswith("It held the same before.")
    assert sorted(os.listdir(root / "in/deep")) == ["a.txt"]


def test_a_replaced_file_keeps_its_mode_and_a_new_one_has_the_usual(root: Path) -> None:
    (root / "run.sh").write_text("a")
    (root / "run.sh").chmod(0o750)
    write = Workspace(root).write()
    write("run.sh", content="b")
    write("new.sh", content="b")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert stat.S_IMODE((root / "new.sh").stat().st_mode) == 0o666 & ~mask


def test_a_read_only_file_is_left_alone(root: Path) -> None:
    (root / "a.txt").write_text("a")
    (root / "a.txt").chmod(0o444)
    with pytest.raises(NotDone, match="read-only"):
        Workspace(root).write()("a.txt", content="b")
    assert (root / "a.txt").read_text() == "a"


def test_another_name_of_a_replaced_file_keeps_what_it_held(root: Path) -> None:
    (root / "a.txt").write_text("a")
    (root.parent / "b.txt").hardlink_to(root / "a.txt")
    Workspace(root).write()("a.txt", content="b")
    assert (root.parent / "b.txt").read_text() == "a"


def test_a_disk_that_fails_leaves_nothing_behind(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (root / "a.txt").write_text("a")
    monkeypatch.setattr(os, "fsync", full)
    for path in ("a.txt", "in/deep/b.txt"):
        with pytest.raises(NotDone, match="No space left"):
            Workspace(root).write()(path, content="b")
    assert os.listdir(root) == ["a.txt"]
    assert (root / "a.txt").read_text() == "a"


def test_a_file_too_large_to_be_taken_back_is_not_changed(root: Path) -> None:
    with (root / "a.txt").open("wb") as sparse:
        sparse.truncate(confinement.LARGEST_FILE_BYTES + 1)
    write, edit = Workspace(root).write(), Workspace(root).edit()
    for what in ("environment", "snapshot"):
        with pytest.raises(NotDone, match="could not be taken back"):
            seen(write, what, path="a.txt", content="")
    with pytest.raises(NotDone, match="could not be taken back"):
        edit("a.txt", old="a", new="b")
    with pytest.raises(NotDone, match="would have"):
        write("b.txt", content="x" * (confinement.LARGEST_FILE_BYTES + 1))
    assert os.listdir(root) == ["a.txt"]


def test_a_probe_knows_what_was_written_and_is_unsure_of_the_rest(root: Path) -> None:
    write = Workspace(root).write()
    probe = write.declaration.probe
    assert probe is not None
    arguments = frozen(write, path="a.txt", content="a")

    async def asked() -> object:
        return await probe(arguments, "ik")

    assert asyncio.run(asked()) == Unsure()
    (root / "a.txt").write_text("of another")
    assert asyncio.run(asked()) == Unsure()
    (root / "a.txt").write_text("a")
    assert isinstance(asyncio.run(asked()), Happened)
    assert not isinstance(asyncio.run(asked()), NotHappened)


# --- edit -----------------------------------------------------------------------------------------


def test_a_passage_is_replaced_and_the_line_told(root: Path) -> None:
    (root / "a.py").write_bytes(b"def f():\r\n    return 1\r\n")
    edit = Workspace(root).edit()
    assert edit("a.py", old="return 1", new="return 2") == "Edited a.py at line 2."
    told = edit("a.py", old="def f():\n  return 2", new="def f():\n  return 3")
    assert told == "Edited a.py at line 1. It was found with other indentation."
    assert (root / "a.py").read_bytes() == b"def f():\r\n    return 3\r\n"


def test_what_cannot_be_edited_certainly_was_not(root: Path) -> None:
    (root / "a.txt").write_text("one\none\n")
    (root / "b.bin").write_bytes(b"one\0")
    (root / "c.txt").write_bytes(b"one \xe9")
    edit = Workspace(root).edit()
    for path, old, new, why in (
        ("a.txt", "two", "x", "not found"),
        ("a.txt", "one", "x", "found 2 times"),
        ("a.txt", "", "x", "empty"),
        ("a.txt", "one", "one", "the same"),
        ("b.bin", "one", "x", "no text in UTF-8"),
        ("c.txt", "one", "x", "no text in UTF-8"),
        ("d.txt", "one", "x", "Use write to make one"),
    ):
        with pytest.raises(NotDone, match=why):
            edit(path, old=old, new=new)
        assert "cannot be made as things stand" in seen(
            edit, "preview", path=path, old=old, new=new
        )
    assert (root / "a.txt").read_text() == "one\none\n"


# --- what people see ------------------------------------------------------------------------------


def test_a_preview_is_the_diff_that_the_call_would_make(root: Path) -> None:
    (root / "a.txt").write_text("a\nb\nc\n")
    workspace = Workspace(root)
    expected = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
    assert seen(workspace.edit(), "preview", path="a.txt", old="b", new="B") == expected
    assert seen(workspace.write(), "preview", path="./a.txt", content="a\nB\nc\n") == expected
    made = seen(workspace.write(), "preview", path="in/b.txt", content="x\ny")
    assert made == (
        "--- /dev/null\n+++ in/b.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file"
    )
    assert seen(workspace.write(), "preview", path="a.txt", content="a\nb\nc\n") == (
        "a.txt: nothing would change."
    )
    assert (root / "a.txt").read_text() == "a\nb\nc\n"
    assert not (root / "in").exists()


def test_a_preview_says_where_a_link_leads_and_forges_no_lines(root: Path) -> None:
    (root / "real.txt").write_text("a\n")
    (root / "link").symlink_to("real.txt")
    assert seen(Workspace(root).write(), "preview", path="link", content="").startswith(
        "--- real.txt\n+++ real.txt\n"
    )
    forged = seen(Workspace(root).write(), "preview", path="a\n+++ b", content="x\n")
    assert forged.split("\n")[:3] == ["--- /dev/null", "+++ a⟦U+000A⟧+++ b", "@@ -0,0 +1 @@"]


def test_a_preview_of_what_is_no_text_gives_sizes(root: Path) -> None:
    (root / "a.bin").write_bytes(b"\0" * 9)
    said = seen(Workspace(root).write(), "preview", path="a.bin", content="é")
    assert said == (
        "a.bin: the 9 bytes there, which are no text in UTF-8, would be replaced by 2 bytes."
    )


def test_a_long_diff_is_bounded_and_says_what_is_left_out() -> None:
    old = "".join(f"{n}\n" for n in range(50_000))
    new = "".join(f"{n + 1} {'x' * 5_000 if n == 3 else ''}\n" for n in range(50_000))
    shown = diffs.unified(old, new, path="a.txt").split("\n")
    assert len(shown) == diffs.MOST_LINES + 1
    assert shown[-1] == f"… {100_001 + 2 - diffs.MOST_LINES} more lines of the diff are left out."
    assert all(len(line) < diffs.MOST_LINE_CHARACTERS + 50 for line in shown)


lines = st.lists(st.sampled_from(["a", "b", "", "c d", "\r", "x\x0c"]), max_size=30)


@given(old=lines, new=lines, ends=st.tuples(st.booleans(), st.booleans()))
def test_a_diff_applied_to_the_old_text_gives_the_new(
    old: list[str], new: list[str], ends: tuple[bool, bool]
) -> None:
    before, after = (
        "\n".join(each) + ("\n" if end else "") for each, end in zip((old, new), ends, strict=True)
    )
    diff = diffs.unified(before, after, path="p")
    assert (applied(before, diff) if diff else before) == after


def applied(text: str, diff: str) -> str:
    """Apply a unified diff, as patch does."""
    old = split(text)
    made: list[str] = []
    at, kind = 0, " "
    for line in diff.split("\n")[2:]:
        if line.startswith("@@ "):
            start, _, count = line.split()[1][1:].partition(",")
            start_at = int(start) - (count != "0")
            made += old[at:start_at]
            at = start_at
        elif line.startswith("\\"):
            if made and kind != "-":
                made[-1] = made[-1].removesuffix("\n")
        else:
            kind = line[0]
            if kind in " -":
                assert old[at].removesuffix("\n") == line[1:]
                at += 1
            if kind in " +":
                made.append(line[1:] + "\n")
    return "".join(made + old[at:])


def split(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


# --- what binds and what is taken back ------------------------------------------------------------


@pytest.mark.promise("G13")
def test_the_fingerprint_is_the_files_hash_and_where_a_link_leads(root: Path) -> None:
    write = Workspace(root).write()
    assert seen(write, "environment", path="in/a.txt", content="") == "absent"
    (root / "a.txt").write_text("a")
    (root / "b.txt").write_text("a")
    known = hashlib.sha256(b"a").hexdigest()
    assert seen(write, "environment", path="a.txt", content="") == known
    (root / "link").symlink_to("a.txt")
    first = seen(write, "environment", path="link", content="")
    (root / "link").unlink()
    (root / "link").symlink_to("b.txt")
    assert (first, seen(write, "environment", path="link", content="")) == (
        f"{known} at a.txt",
        f"{known} at b.txt",
    )


@pytest.mark.promise("D8")
@pytest.mark.parametrize("data", [b"a\r\n\0\xff", b"", None])
def test_what_a_snapshot_holds_is_brought_back_exactly(root: Path, data: bytes | None) -> None:
    path = root / "in/deep/a.txt"
    if data is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        path.chmod(0o640)
    before = sorted(root.rglob("*"))
    write = Workspace(root).write()
    arguments = frozen(write, path="in/deep/a.txt", content="changed")
    snapshot, restore = write.declaration.snapshot, write.declaration.restore
    assert snapshot is not None
    assert restore is not None
    taken = snapshot(arguments)
    assert isinstance(json.loads(taken), dict)
    write("in/deep/a.txt", content="changed")
    path.chmod(0o600)
    for _ in range(2):  # What was cut short can be done again.
        restore(arguments, taken)
        assert sorted(root.rglob("*")) == before
        if data is not None:
            assert path.read_bytes() == data
            assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.promise("D8")
def test_what_somebody_else_has_changed_since_is_not_rolled_back(root: Path) -> None:
    path = root / "a.txt"
    path.write_text("one two\n")
    tools = {each.__name__: each for each in Workspace(root).tools()}
    for name, more in (("write", {"content": "x"}), ("edit", {"old": "one", "new": "1"})):
        tool = tools[name]
        arguments = frozen(tool, path="a.txt", **more)
        snapshot, restore = tool.declaration.snapshot, tool.declaration.restore
        assert snapshot is not None
        assert restore is not None
        taken = snapshot(arguments)
        tool("a.txt", **more)
        path.write_text("a person's\n")
        with pytest.raises(NotDone, match="somebody else has changed it"):
            restore(arguments, taken)
        assert path.read_text() == "a person's\n"
        path.write_text("one two\n")


def test_directories_that_hold_more_than_was_made_stay(root: Path) -> None:
    write = Workspace(root).write()
    taken = seen(write, "snapshot", path="in/deep/a.txt", content="")
    write("in/deep/a.txt", content="")
    (root / "in/of-another.txt").write_text("")
    changing_files.restore(confinement.Confinement(str(root)), taken)
    assert sorted(os.listdir(root / "in")) == ["of-another.txt"]


@pytest.mark.promise("G4", "G13")
def test_what_was_approved_is_written_and_a_file_that_changed_is_asked_about_anew(
    tmp_path: Path, root: Path
) -> None:
    script = [
        call("write", path="a.txt", content="approved\n"),
        call("read", path="a.txt"),
        say("ok"),
    ]
    with Desk(tmp_path, script, Workspace(root).tools()) as desk:
        (first,) = desk.start().waiting
        (root / "a.txt").write_text("of another\n")
        desk.decide(first, "approve")
        (second,) = desk.resume().waiting
        assert (first != second, (root / "a.txt").read_text()) == (True, "of another\n")
        desk.decide(second, "approve")
        assert desk.resume().stop == "final"
        assert desk.results() == ["Replaced a.txt (9 bytes).", "1\tapproved"]


@pytest.mark.promise("G3")
def test_what_was_approved_for_one_workspace_is_not_written_in_another(
    tmp_path: Path, root: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    script = [call("write", path="a.txt", content="approved\n"), say("ok")]
    with Desk(tmp_path, script, Workspace(root).tools()) as desk:
        (first,) = desk.start().waiting
        desk.decide(first, "approve")
    with Desk(tmp_path, script, Workspace(other).tools()) as desk:
        assert desk.resume().stop == "approval_required"
        assert os.listdir(other) == []


def test_a_developer_says_when_a_tool_asks(tmp_path: Path, root: Path) -> None:
    def lock_files(arguments: Any) -> bool:
        return str(arguments["path"]).endswith(".lock")

    script = [
        call("write", path="a.txt", content=""),
        call("write", path="uv.lock", content=""),
        say("ok"),
    ]
    with Desk(tmp_path, script, Workspace(root).tools(write=lock_files)) as desk:
        assert desk.start().stop == "approval_required"
        assert os.listdir(root) == ["a.txt"]
